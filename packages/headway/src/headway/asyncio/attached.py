"""Marks of tasks in a program in Python that runs already: `begin` installs them, `end` takes them out again.

``headway stat -p PID --python-tasks`` has a running program call them (`headway.linux.attachment`). What the program
has installed itself stays as it is.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

import headway.asyncio
import headway.web
from headway.when_imported import WhenImported

__all__ = ["begin", "end"]

_LAST_OF_ASYNCIO = "asyncio.unix_events"
"""The module that asyncio imports last on Linux."""
_observers: set[str] = set()
"""Who has begun and not ended."""
_finder: WhenImported | None = None
"""What waits for modules that the program will import; None: nothing is installed."""
_with_tasks = False
"""Whether the tasks of asyncio's are marked because of this module."""
_changing = threading.Lock()
"""Held while marks are installed or taken out. A thread that does not get it must not wait: it may be in an import."""


def begin(observer: str, by: Any = "coroutine") -> bool:
    """Make tasks of asyncio's tasks and of requests that begin from now on; may be called again.

    False: another thread is at it.
    """
    return _change(_install, observer, by)


def end(observer: str, by: Any = "coroutine") -> bool:
    """Leave what begins from now on alone, once all who have begun have ended; may be called again. As `begin`."""
    return _change(_remove, observer, by)


def _change(change: Callable[[str, Any], None], observer: str, by: Any) -> bool:
    if not _changing.acquire(blocking=False):
        return False
    try:
        change(observer, by)
    finally:
        _changing.release()
    return True


def _install(observer: str, by: Any) -> None:
    global _finder, _with_tasks
    _observers.add(observer)
    if _finder is not None:
        return
    functions: dict[str, Any] = {}
    if not _has_own():
        functions.update(headway.web.FRAMEWORKS)
    if not headway.asyncio.is_installed():
        _with_tasks = True

        def install_uvloop(module: ModuleType) -> None:
            headway.asyncio.install(kind=module.Loop, by=by)

        functions["uvloop"] = install_uvloop
        functions[_LAST_OF_ASYNCIO] = lambda _module: headway.asyncio.install(by=by, running=True)
    _finder = WhenImported(functions)


def _remove(observer: str, by: Any) -> None:
    global _finder, _with_tasks
    _observers.discard(observer)
    if _finder is None or _observers:
        return
    finder, _finder = _finder, None
    finder.stop()
    if not _has_own():
        headway.web.uninstall()
    if _with_tasks:
        headway.asyncio.uninstall()
    _with_tasks = False


def _has_own() -> bool:
    """Return whether the program has installed marks of requests itself, or was started with them.

    The class is another one if the program was started with them (startup/sitecustomize.py).
    """
    return any(type(finder).__name__ == WhenImported.__name__ for finder in sys.meta_path)
