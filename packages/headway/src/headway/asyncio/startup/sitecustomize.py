"""What Python imports when it starts with this folder in PYTHONPATH: tasks of asyncio's, requests, names of threads.

``headway stat --python-tasks`` puts the folder there. The program need not be changed, and headway need not be
installed where the program is: it is found last, beside this file. A module of this name that the program's own
environment has is executed afterwards, as Python would do without this one (the site module, *sitecustomize*).
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import sys
from types import ModuleType
from typing import Any

_HERE = os.path.dirname(os.path.abspath(__file__))
_HEADWAY = os.path.dirname(os.path.dirname(_HERE))
_LAST_OF_ASYNCIO = "asyncio.unix_events"
"""The module that asyncio imports last on Linux."""
_BY: Any = "name" if os.environ.get("HEADWAY_TASKS_BY") == "name" else "coroutine"
_FRAMEWORKS = (
    "starlette.routing",
    "anyio.to_thread",
    "aiohttp.web_app",
    "aiohttp.web_urldispatcher",
    "flask.app",
    "django.core.handlers.base",
)
"""The modules that `headway.web.FRAMEWORKS` knows. headway itself is not imported before it is needed."""


class _Headway:
    """Finds the package headway where this file is, if nothing else does."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> importlib.machinery.ModuleSpec | None:
        if name != "headway":
            return None
        return importlib.util.spec_from_file_location(
            name, os.path.join(_HEADWAY, "__init__.py"), submodule_search_locations=[_HEADWAY]
        )


def _own_file(name: str) -> Any:
    """Return a module of headway's that needs nothing of headway."""
    spec = importlib.util.spec_from_file_location(f"_headway_{name}", os.path.join(_HEADWAY, f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _install_tasks(module: ModuleType) -> None:
    try:
        import headway.asyncio

        headway.asyncio.install(by=_BY)
    except Exception as error:  # the program is not to be harmed
        _complain(error)


def _install_uvloop(module: ModuleType) -> None:
    try:
        import headway.asyncio

        headway.asyncio.install(kind=module.Loop, by=_BY)
    except Exception as error:
        _complain(error)


def _install_names(module: ModuleType) -> None:
    try:
        from headway.regions import name_threads

        name_threads()
    except Exception as error:
        _complain(error)


def _install_requests(module: ModuleType) -> None:
    try:
        from headway.web import FRAMEWORKS

        FRAMEWORKS[module.__name__](module)
    except Exception as error:
        _complain(error)


def _complain(error: Exception) -> None:
    print(f"headway: --python-tasks does nothing in {sys.executable}: {error}", file=sys.stderr)


def _go_on() -> None:
    """Execute the module of this name that the program's environment has."""
    others = [path for path in sys.path if os.path.abspath(path or ".") != _HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


sys.meta_path.append(_Headway)
_own_file("when_imported").WhenImported(
    {
        _LAST_OF_ASYNCIO: _install_tasks,
        "threading": _install_names,
        "uvloop": _install_uvloop,
        **dict.fromkeys(_FRAMEWORKS, _install_requests),
    }
)
_go_on()
