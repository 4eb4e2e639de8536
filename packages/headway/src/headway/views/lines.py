"""Lines that are already laid out, on their way to a console.

rich's own tables measure and wrap every cell several times, which costs too much for a screen of threads every second.
So a view makes lines of exactly the available width, and rich only colours them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache

from rich.cells import cell_len

from .console import Console
from .printable import clean, fit, width_of, wrap

__all__ = ["Line", "cut", "encodable", "indented", "show", "text_of"]

Line = list[tuple[str, str]]
"""Parts of clean text with their styles; "" is plain."""

_SIMPLER = str.maketrans("≤…·–│×µ─✓✗", "<~.-|xu-+x")


def indented(text: str, width: int, first: str, others: str, end: str = "") -> Iterable[str]:
    """Yield text in lines with an indent, which is left out if there is hardly any room."""
    if width < len(others) + 20:
        first = others = ""
    room = width - max(len(first), len(others))
    head, *tail = wrap(clean(text, 1000), max(room, 1), end if room > 20 else "")
    return [first + head, *(others + line for line in tail)]


def cut(line: Line, width: int) -> Line:
    """Return the line cut to at most ``width`` columns."""
    kept: Line = []
    for text, style in line:
        size = width_of(text)
        kept.append((text if size <= width else fit(text, width), style))
        width -= min(size, width)
    return kept


def text_of(line: Line) -> str:
    """Return the line without its styles."""
    return "".join(text for text, _ in line).rstrip()


def show(console: Console, lines: Iterable[Line]) -> None:
    """Print the lines: in colour if the console is a terminal and NO_COLOR is not set, else without any styling.

    Raises OSError as the stream does.
    """
    write = _coloured(console) if console.is_coloured else text_of
    console.file.write("".join(f"{encodable(write(line), console.encoding)}\n" for line in lines))
    console.file.flush()


def _coloured(console: Console) -> Callable[[Line], str]:
    from rich.style import Style  # in a file nothing is coloured

    style, colours = lru_cache(Style.parse), console.colours

    def write(line: Line) -> str:
        return "".join(style(name).render(text, color_system=colours) if name else text for text, name in line)

    return write


def encodable(text: str, encoding: str) -> str:
    """Return the text with characters that the encoding lacks replaced by plainer ones."""
    if encoding.lower().startswith("utf"):
        return text
    text = text.translate(_SIMPLER)
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return "".join(c if c.isascii() else "?" * cell_len(c) for c in text)
    return text
