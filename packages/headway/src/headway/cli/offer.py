"""What a bare ``headway`` offers: the programs that are busy now, with the command to ask about each."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Iterator

from headway.linux.procfs.busiest import BusyProgram, busiest
from headway.views.printable import clean, fit

__all__ = ["offer", "offered"]

_NOTABLE = 0.02
"""A program with less of a processor is not busy."""


def offer() -> str:
    """Return lines about what runs now; empty: nothing does, or it cannot be seen."""
    try:
        return "\n".join(offered(busiest()))
    except OSError:
        return ""


def offered(programs: Iterable[BusyProgram], *, root: bool | None = None) -> Iterator[str]:
    """Yield the lines. ``root``: whether commands need no sudo (None: as for this user)."""
    before = "" if (os.geteuid() == 0 if root is None else root) else "sudo "
    rows = [
        (f"{before}headway why {shlex.quote(program.name)}", _what(program))
        for program in programs
        if program.processors >= _NOTABLE and program.name.isprintable()
    ]
    if not rows:
        return
    rows.append((f"{before}headway stat -a -d 5", "everything"))
    width = max(len(command) for command, _ in rows)
    yield "Busy now, and how to ask why:"
    for command, what in rows:
        yield f"  {fit(clean(command, 64), width)}  {what}"


def _what(program: BusyProgram) -> str:
    n = len(program.pids)
    which = f"process {program.pids[0]}" if n == 1 else f"{n:,} processes, most of it {program.pids[0]}"
    return f"{program.processors:.1f} processors: {which}" if program.processors >= 0.05 else which
