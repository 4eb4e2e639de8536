"""Advice about what was measured before: which of its processes are still there to be looked at."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import replace

from headway.advice import Advice
from headway.linux.procfs._procfs import parse_stat
from headway.model import Ledger

__all__ = ["about_the_living"]


def about_the_living(advice: Iterable[Advice], ledger: Ledger, proc: str = "/proc") -> tuple[Advice, ...]:
    """Return the advice without commands for processes that have ended since a ledger of this boot was measured."""
    pids = {thread.tid: thread.pid for thread in ledger.threads}

    def told(piece: Advice) -> Advice:
        if piece.thread is None or _is_there(pids[piece.thread], ledger.window.end, proc):
            return piece
        return replace(piece, command=None, undo=None, remedy=None)

    return tuple(map(told, advice))


def _is_there(pid: int, measured: int, proc: str) -> bool:
    """Return whether a process lives that began before this moment, ns of CLOCK_MONOTONIC. Later ones have its id."""
    try:
        with open(f"{proc}/{pid}/stat", "rb") as file:
            known = parse_stat(file.read(4096))
    except OSError:
        return False
    if known is None:
        return False
    asleep = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - time.monotonic_ns()  # starttime of proc_pid_stat(5) has it
    return known[7] * 1_000_000_000 // os.sysconf("SC_CLK_TCK") - asleep <= measured
