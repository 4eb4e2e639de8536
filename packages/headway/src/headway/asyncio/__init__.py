"""Tasks of asyncio as headway's tasks: what a thread of an event loop works on, step by step.

`install` is all that a program needs. From then on, each task of asyncio is a task of its thread while one of its
steps runs. Between the steps the thread works for its event loop, which is no task. Eager tasks (Python 3.12 and later)
and other task factories go on working.

Tasks are named after their coroutine (``Class.method``), so tasks of one coroutine function are added up. Each has an
id of its own, which recordings tell.
"""

from __future__ import annotations

import asyncio
import itertools
import re
import sys
import weakref
from asyncio import base_events
from collections.abc import Callable, Coroutine
from contextlib import suppress
from types import FrameType
from typing import Any, Literal

from ..regions import Steps, task_number

__all__ = ["install", "is_installed", "task_factory", "uninstall"]

By = Literal["coroutine", "name"]
Factory = Callable[..., "asyncio.Future[Any]"]

_BY_NUMBER = re.compile(r"Task-\d+")
"""The names that asyncio gives to tasks that get none."""
_LOOP = base_events.BaseEventLoop
_ids = itertools.count(1)
_numbers: dict[str, int] = {}
"""The number of each coroutine's name that a task has had."""
_before: dict[tuple[type[Any], str], Any] = {}
"""The methods of event loops that `install` has replaced, by their class and name."""
_loops: weakref.WeakSet[asyncio.AbstractEventLoop] = weakref.WeakSet()
"""The event loops that `install` has given a task factory of ours."""
_RUNNERS = frozenset({"run", "run_forever", "run_until_complete"})
"""The functions that run an event loop: its own, and those of `asyncio.Runner`, whose ``_loop`` it is."""

Coroutine.register(Steps)


def task_factory(inner: Factory | None = None, *, by: By = "coroutine") -> Factory:
    """Return a task factory for `asyncio.loop.set_task_factory` that makes headway's tasks of asyncio's.

    ``inner``: the factory that makes the tasks, for example `asyncio.eager_task_factory`; None: `asyncio.Task`.
    ``by``: what they are named after, the coroutine function, or the name of the task (``create_task(..., name=...)``),
    where it has one.
    """
    if getattr(inner, "_headway", False):
        assert inner is not None
        return inner
    known, following, plain = _numbers, _ids.__next__, asyncio.Task

    # A server makes a task for each request: this is called as often, so it has few steps.
    def factory(
        loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, Any], **options: Any
    ) -> asyncio.Future[Any]:
        try:
            number = known[coroutine.__qualname__]  # type: ignore[attr-defined]
        except (AttributeError, KeyError):
            number = _number_of(coroutine)
        if by == "name":
            number = _number_of_name(options.get("name")) or number
        steps = Steps(coroutine, following(), number)
        return plain(steps, loop=loop, **options) if inner is None else inner(loop, steps, **options)

    factory._headway, factory._inner = True, inner  # type: ignore[attr-defined]
    return factory


def install(
    loop: asyncio.AbstractEventLoop | None = None,
    *,
    kind: type[Any] = _LOOP,
    by: By = "coroutine",
    running: bool = False,
) -> None:
    """Make headway's tasks of the tasks of this event loop; None: of the running one and of all that are made later.

    ``kind``: the class of those that are made later. A class of its own, such as ``uvloop.Loop``, is installed besides.
    ``by`` as of `task_factory`. ``running``: of the event loops that run in other threads now, too.
    """
    if loop is None:
        _replace_methods(kind, by)
        loops = _running_loops() if running else set()
        with suppress(RuntimeError):
            loops.add(asyncio.get_running_loop())
    else:
        loops = {loop}
    for each in loops:
        each.set_task_factory(task_factory(each.get_task_factory(), by=by))
        _loops.add(each)


def is_installed() -> bool:
    """Return whether headway's tasks are made of those of event loops that are made from now on."""
    return bool(_before)


def uninstall() -> None:
    """Leave tasks alone that are made from now on, and event loops too."""
    for (kind, name), method in _before.items():
        setattr(kind, name, method)
    _before.clear()
    for loop in [*_loops]:
        factory = loop.get_task_factory()
        if getattr(factory, "_headway", False):
            loop.set_task_factory(factory._inner)  # type: ignore[union-attr]
    _loops.clear()


def _running_loops() -> set[asyncio.AbstractEventLoop]:
    """Return the event loops that run in any thread, as far as functions in Python run them."""
    found = set()
    for innermost in sys._current_frames().values():
        frame: FrameType | None = innermost
        while frame is not None:
            if frame.f_code.co_name in _RUNNERS:
                owner = frame.f_locals.get("self")
                for loop in (owner, getattr(owner, "_loop", None)):
                    if isinstance(loop, asyncio.AbstractEventLoop) and loop.is_running():
                        found.add(loop)
            frame = frame.f_back
    return found


def _replace_methods(kind: type[Any], by: By) -> None:
    """Have event loops of a class begin with our factory, and make one of each that they are given."""
    if (kind, "__init__") in _before:
        return
    begin, take = kind.__init__, kind.set_task_factory
    _before[kind, "__init__"], _before[kind, "set_task_factory"] = begin, take

    def __init__(self: Any, *arguments: Any, **options: Any) -> None:  # noqa: N807
        begin(self, *arguments, **options)
        take(self, task_factory(by=by))
        _loops.add(self)

    def set_task_factory(self: Any, factory: Factory | None) -> None:
        if factory is not None and not callable(factory):
            take(self, factory)  # it says what is wrong
        take(self, task_factory(factory, by=by))
        _loops.add(self)

    kind.__init__ = __init__
    kind.set_task_factory = set_task_factory


def _number_of(coroutine: Coroutine[Any, Any, Any]) -> int:
    """Return the number of the coroutine's name; that of its type, if it has no name."""
    name = getattr(coroutine, "__qualname__", None) or type(coroutine).__qualname__
    number = _numbers[name] = task_number(name.replace(".<locals>", ""))
    return number


def _number_of_name(name: str | None) -> int:
    """Return the number of a task's name; 0: asyncio gave it, or there is no room for it."""
    return task_number(name) if name and not _BY_NUMBER.fullmatch(name) else 0
