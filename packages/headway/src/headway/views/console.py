"""Where lines go: a terminal, with its size and its colours, or a file.

rich has a console too, which takes longer to load than all else that prints a table. Lines that are laid out already
need only the size, and `rich.style` for colours where there are any.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.color import ColorSystem

__all__ = ["Console"]


class Console:
    """A stream of text. Whether it is coloured, and how wide it is, follow the variables that rich follows."""

    def __init__(self, file: TextIO, *, width: int | None = None, terminal: bool | None = None) -> None:
        """``width``: columns; None: those of the terminal. ``terminal``: whether it is one; None: find out."""
        self.file = file
        self._width, self._terminal = width, terminal

    @property
    def is_terminal(self) -> bool:
        """Whether escape sequences may be written: TTY_COMPATIBLE and FORCE_COLOR say it, or else the stream."""
        if self._terminal is not None:
            return self._terminal
        compatible, forced = os.environ.get("TTY_COMPATIBLE", ""), os.environ.get("FORCE_COLOR")
        if compatible in ("0", "1"):
            return compatible == "1"
        if forced is not None:
            return forced != ""
        return not self.file.closed and self.file.isatty()

    @property
    def is_coloured(self) -> bool:
        """Whether text is written in colours: NO_COLOR is not set, and the terminal is none without them."""
        return self.is_terminal and not os.environ.get("NO_COLOR") and not self._is_dumb

    @property
    def colours(self) -> ColorSystem:
        """The colours of the terminal, by COLORTERM and TERM."""
        from rich.color import ColorSystem

        if os.environ.get("COLORTERM", "").strip().lower() in ("truecolor", "24bit"):
            return ColorSystem.TRUECOLOR
        many = os.environ.get("TERM", "").strip().lower().endswith(("-256color", "-kitty"))
        return ColorSystem.EIGHT_BIT if many else ColorSystem.STANDARD

    @property
    def encoding(self) -> str:
        """The encoding of the stream."""
        return (getattr(self.file, "encoding", None) or "utf-8").lower()

    @property
    def width(self) -> int:
        """Columns: as it was said, COLUMNS, those of the terminal, or 80."""
        return self._width if self._width is not None else self._size("COLUMNS", 0) or 80

    @property
    def height(self) -> int:
        """Lines: LINES, those of the terminal, or 25."""
        return self._size("LINES", 1) or 25

    @property
    def _is_dumb(self) -> bool:
        return os.environ.get("TERM", "").lower() in ("dumb", "unknown")

    def _size(self, variable: str, which: int) -> int:
        """Return a number from the environment, or from the first standard stream that is a terminal; 0: neither."""
        said = os.environ.get(variable, "")
        if said.isdigit():
            return int(said)
        if self._is_dumb and self.is_terminal:
            return 0
        for stream in (sys.__stdin__, sys.__stdout__, sys.__stderr__):
            with suppress(AttributeError, ValueError, OSError):
                return os.get_terminal_size(stream.fileno())[which]  # type: ignore[union-attr]
        return 0
