"""The verdict in words: the first lines of a report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from headway.verdict import Verdict

from .console import Console
from .lines import Line, indented, show

__all__ = ["show_verdict", "verdict_lines"]

_FIRST, _REST = "bold", ""


def verdict_lines(found: Sequence[Verdict], width: int) -> Iterator[Line]:
    """Yield the sentences of a verdict in lines of at most ``width`` columns; none where nothing stands out."""
    for at, one in enumerate(found):
        last = at == len(found) - 1
        text = f"{one.text} ({one.idle:,} idle)" if last and one.idle else one.text
        style = _REST if at else _FIRST
        yield from ([(line, style)] for line in indented(text, width, "", "  "))


def show_verdict(console: Console, found: Sequence[Verdict]) -> None:
    """Print a verdict, and an empty line after it; nothing where nothing stands out. Raises OSError."""
    if found:
        show(console, [*verdict_lines(found, console.width), []])
