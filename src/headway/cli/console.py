"""A console for tables and text, on a terminal or in a file."""

from __future__ import annotations

from typing import TextIO

from rich.console import Console

__all__ = ["plain_console"]


class _Console(Console):
    def on_broken_pipe(self) -> None:  # rich's own ends the process, which may be measuring
        raise BrokenPipeError


def plain_console(stream: TextIO) -> Console:
    """Return a console that writes text as it is. It raises BrokenPipeError if the reader has gone away."""
    return _Console(file=stream, highlight=False, markup=False, emoji=False)
