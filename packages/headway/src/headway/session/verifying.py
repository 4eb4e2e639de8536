"""Verification of the counters: the demo program's loops, measured alone and beside neighbours."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from headway import demo
from headway.errors import HeadwayError
from headway.linux.procfs.processors import parse_list
from headway.model import Ledger
from headway.model.verification import LOOPS, LoopRun, Verification, judge, run_of

__all__ = ["neighbours_of", "verify"]

MAX_NEIGHBOURS = 4
_PINNED = "import os, sys; os.sched_setaffinity(0, {int(sys.argv[1])}); os.execv(sys.argv[2], sys.argv[2:])"


def verify(measure: Callable[[Sequence[str]], Ledger], seconds: float = 1.0) -> Verification:
    """Run the loops, each alone and beside neighbours, and judge the figures.

    ``measure`` measures a command from its beginning to its end with the default counters. ``seconds`` is the duration
    of each of the four runs. Raises HeadwayError if a loop cannot be run or measured.
    """
    allowed = sorted(os.sched_getaffinity(0))
    home, beside = allowed[0], neighbours_of(allowed[0], allowed)
    runs: list[LoopRun] = []
    reasons: dict[str, str] = {}
    for others in ((), beside):
        with _noise(others, seconds):
            for loop in LOOPS:
                ledger = measure(_command(home, loop, seconds))
                runs.append(run_of(ledger, loop, len(others)))
                reasons.update({name: why for name, why in ledger.reasons.items() if name in ("epi", "mpi")})
    return Verification(tuple(runs), tuple(judge(runs)), reasons)


def neighbours_of(cpu: int, allowed: Sequence[int], folder: Path = Path("/sys/devices/system/cpu")) -> tuple[int, ...]:
    """Return processors for neighbours: first of the same core, then those that share a cache, then others.

    If there is only one processor, the neighbour takes turns with the measured loop on it.
    """
    near: list[int] = []
    caches = sorted((folder / f"cpu{cpu}/cache").glob("index*/shared_cpu_list"))
    for path in (folder / f"cpu{cpu}/topology/thread_siblings_list", *caches):
        try:
            near += parse_list(path.read_text())
        except (OSError, HeadwayError):
            continue
    order = dict.fromkeys([*near, *allowed])
    return tuple(other for other in order if other in allowed and other != cpu)[:MAX_NEIGHBOURS] or (cpu,)


def _command(cpu: int, loop: str, seconds: float) -> list[str]:
    """Return the command that runs a loop on one processor."""
    program = str(demo.program())
    return [sys.executable, "-I", "-S", "-c", _PINNED, str(cpu), program, "--only", loop, "--seconds", f"{seconds:g}"]


@contextmanager
def _noise(cpus: Sequence[int], seconds: float) -> Iterator[None]:
    """Run a pointer chase on each of these processors meanwhile. The chases end by themselves if headway is killed."""
    running: list[subprocess.Popen[bytes]] = []
    try:
        for cpu in cpus:
            words = _command(cpu, "memory", min(3600.0, 20 * seconds + 60))
            quiet = subprocess.DEVNULL
            running.append(subprocess.Popen(words, stdin=quiet, stdout=quiet, stderr=quiet))
        yield
    finally:
        for process in running:
            process.kill()
        for process in running:
            process.wait()
