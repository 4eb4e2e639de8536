"""Marks of tasks in a program in Python that runs already: `begin` installs them, `end` takes them out again.

``headway stat -p PID --python-tasks`` has a running program call them (`headway.linux.attachment`). What the program
has installed itself stays as it is.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import headway.asyncio
import headway.web
from headway.when_imported import WhenImported

__all__ = ["begin", "end"]

_LAST_OF_ASYNCIO = "asyncio.unix_events"
"""The module that asyncio imports last on Linux."""
_finder: WhenImported | None = None
"""What waits for modules that the program will import; None: nothing is installed."""
_with_tasks = False
"""Whether the tasks of asyncio's are marked because of this module."""


def begin(by: Any = "coroutine") -> None:
    """Make tasks of asyncio's tasks and of requests that begin from now on; may be called again."""
    global _finder, _with_tasks
    if _finder is not None:
        return
    functions: dict[str, Any] = {}
    if not any(isinstance(finder, WhenImported) for finder in sys.meta_path):
        functions.update(headway.web.FRAMEWORKS)
    if not headway.asyncio.is_installed():
        _with_tasks = True

        def install_uvloop(module: ModuleType) -> None:
            headway.asyncio.install(kind=module.Loop, by=by)

        functions["uvloop"] = install_uvloop
        functions[_LAST_OF_ASYNCIO] = lambda _module: headway.asyncio.install(by=by, running=True)
    _finder = WhenImported(functions)


def end() -> None:
    """Leave what begins from now on alone; may be called again."""
    global _finder, _with_tasks
    if _finder is None:
        return
    finder, _finder = _finder, None
    finder.stop()
    if not any(isinstance(other, WhenImported) for other in sys.meta_path):
        headway.web.uninstall()
    if _with_tasks:
        headway.asyncio.uninstall()
    _with_tasks = False
