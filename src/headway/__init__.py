"""headway: how much progress each thread of a real program makes, where the rest of its time goes and why.

Programs mark regions with `noneffective`, `poll` and the bare pair `set_noneffective` and `clear_noneffective`; those
in C and other languages with the header in the folder that `get_include` names.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .regions import clear_noneffective, noneffective, poll, set_noneffective

__all__ = ["clear_noneffective", "get_include", "noneffective", "poll", "set_noneffective"]

__version__ = "0.1.0"


def get_include() -> str:
    """The folder of ``headway.h``, for a compiler's ``-I``."""
    return str(Path(__file__).parent / "include")


def __getattr__(name: str) -> object:
    """The marks, when they are first asked for: importing headway alone loads no compiled code."""
    if name in ("clear_noneffective", "noneffective", "poll", "set_noneffective"):
        from . import regions

        value: object = getattr(regions, name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
