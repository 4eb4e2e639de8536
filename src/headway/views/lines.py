"""Lines that are laid out already, on their way to a console.

rich's own tables measure and wrap every cell, several times; a screen of threads once a second must not cost that. So a
view makes lines of exactly the width there is, and rich only colours them.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from rich.cells import cell_len
from rich.console import Console
from rich.segment import Segment, Segments
from rich.style import Style

from .printable import clean, fit, width_of, wrap

__all__ = ["Line", "cut", "encodable", "indented", "show", "text_of"]

Line = list[tuple[str, str]]
"""Pieces of clean text with their styles; "" is plain."""

_SIMPLER = str.maketrans("≤…·–│×µ─", "<~.-|xu-")


def indented(text: str, width: int, first: str, others: str, end: str = "") -> Iterable[str]:
    """Text in lines with an indent, which is left out where there is hardly any room."""
    if width < len(others) + 20:
        first = others = ""
    room = width - max(len(first), len(others))
    head, *tail = wrap(clean(text, 1000), max(room, 1), end if room > 20 else "")
    return [first + head, *(others + line for line in tail)]


def cut(line: Line, width: int) -> Line:
    """The line in no more than so many columns."""
    kept: Line = []
    for text, style in line:
        size = width_of(text)
        kept.append((text if size <= width else fit(text, width), style))
        width -= min(size, width)
    return kept


def text_of(line: Line) -> str:
    """The line without its styles."""
    return "".join(text for text, _ in line).rstrip()


def show(console: Console, lines: Iterable[Line]) -> None:
    """Print the lines: coloured where the console is a terminal and NO_COLOR is not set, else not a byte of styling."""
    coloured = console.is_terminal and not console.no_color
    segments = []
    for line in lines:
        for text, style in line if coloured else [(text_of(line), "")]:
            segments.append(Segment(encodable(text, console.encoding), _style(style)))
        segments.append(Segment.line())
    console.print(Segments(segments), end="", crop=False, no_wrap=True, overflow="ignore", soft_wrap=True)


@lru_cache
def _style(name: str) -> Style | None:
    return Style.parse(name) if name else None


def encodable(text: str, encoding: str) -> str:
    """The text with what the encoding does not have in plainer characters."""
    if encoding.lower().startswith("utf"):
        return text
    text = text.translate(_SIMPLER)
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return "".join(c if c.isascii() else "?" * cell_len(c) for c in text)
    return text
