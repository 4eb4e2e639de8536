"""What would help, in words: below the table of threads, or alone with every figure and its threshold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from headway.advice import Advice

from .figures import share
from .lines import Line, indented
from .printable import clean, fit

__all__ = ["what_would_help"]

_DIM, _HEAD, _COMMAND, _FIGURES = "dim", "bold", "cyan", "yellow"
_OF = {
    "mpi": ("MPI", "of the lost time (Td)"),
    "kpi": ("KPI", "of the lost time (Td)"),
    "iopi": ("IOPI", "of the lost time (Td)"),
    "ready": ("ready", "of the time it could run"),
    "stolen": ("stolen", "of the time the threads could run"),
    "system": ("no user code", "of the time the processors were busy"),
    "wait": ("waiting", "of the time measured"),
}
_INTERRUPTS = ("interrupts", "of the processor's time")


def what_would_help(advice: Sequence[Advice], width: int, *, figures: bool = False) -> Iterator[Line]:
    """The advice in lines of at most ``width`` columns; ``figures``: with the index, its value and its threshold."""
    yield from ([(line, _HEAD)] for line in indented("what would help", width, "", ""))
    for piece in advice:
        who = "the machine"
        if piece.thread is not None:
            name = fit(clean(piece.name or "", 64), 15).rstrip()
            who = f"{name} {piece.thread}".lstrip()
        if figures:
            yield from _named(who, _figures(piece), _FIGURES, width)
            yield from ([(line, "")] for line in indented(piece.text, width, "    ", "    "))
        else:
            yield from _named(who, piece.text, "", width)
        if piece.command is not None:
            for line in indented(piece.command, width, "    $ ", "        ", " \\"):
                yield [(line, _COMMAND)]
        if piece.undo is not None:
            for line in indented(piece.undo, width, "    to undo: $ ", "        ", " \\"):
                yield [(line, _DIM)]


def _named(who: str, text: str, style: str, width: int) -> Iterator[Line]:
    first, *more = indented(f"{who}: {text}", width, "  ", "    ")
    cut = 2 + len(who) if first.startswith(f"  {who}") else 0
    yield [(first[:cut], _HEAD), (first[cut:], style)]
    yield from ([(line, style)] for line in more)


def _figures(piece: Advice) -> str:
    name, of = _INTERRUPTS if piece.index == "kpi" and piece.thread is None else _OF[piece.index]
    if piece.of_seen:
        of = "of the lost time seen"
    return f"{name} is {share(piece.value)} {of}, threshold {share(piece.threshold)}"
