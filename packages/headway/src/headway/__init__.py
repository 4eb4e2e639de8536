"""Headway shows how much progress each thread of a real program makes, where the rest of its time goes, and why.

Programs in Python mark regions with `noneffective`, `poll`, `state`, or the pairs `set_noneffective` and
`clear_noneffective`, `set_state` and `clear_state`.
A measured thread reads its own progress with `progress`.
They say what their threads work on with `task`, `set_task` and `clear_task`, or `headway.asyncio` for coroutines.
Programs in C and other languages use the header ``headway.h`` in the folder that `get_include` returns. `observe`
measures threads while a block runs, and `open` reads recordings.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._version import __version__
    from .recording.reader import open
    from .regions import (
        clear_noneffective,
        clear_state,
        clear_task,
        current_task,
        noneffective,
        poll,
        progress,
        set_noneffective,
        set_state,
        set_task,
        state,
        states,
        task,
        threads,
    )
    from .session.observing import observe

__all__ = [
    "__version__",
    "clear_noneffective",
    "clear_state",
    "clear_task",
    "current_task",
    "get_include",
    "noneffective",
    "observe",
    "open",
    "poll",
    "progress",
    "set_noneffective",
    "set_state",
    "set_task",
    "state",
    "states",
    "task",
    "threads",
]

_WHERE = {
    "clear_noneffective": ".regions",
    "clear_state": ".regions",
    "clear_task": ".regions",
    "current_task": ".regions",
    "noneffective": ".regions",
    "observe": ".session.observing",
    "open": ".recording.reader",
    "poll": ".regions",
    "progress": ".regions",
    "set_noneffective": ".regions",
    "set_state": ".regions",
    "set_task": ".regions",
    "state": ".regions",
    "states": ".regions",
    "task": ".regions",
    "threads": ".regions",
    "__version__": "._version",
}


def get_include() -> str:
    """Return the folder that contains ``headway.h``, for a compiler's ``-I`` option."""
    return os.path.join(os.path.dirname(__file__), "include")


def __getattr__(name: str) -> object:
    """Import a public name when it is first used, so that ``import headway`` alone loads no other module.

    Raises `headway.extras.MissingExtraError` if the name needs an extra that is not installed.
    """
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        value: object = getattr(import_module(_WHERE[name], __name__), name)
    except ModuleNotFoundError as error:
        from .extras import explained

        raise explained(error) or error from None
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
