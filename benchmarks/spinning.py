"""Spinning found without a mark: of how much spinning it is found, and what is wrongly taken for it.

Each program runs under ``headway profile --spin``. Those that spin say for which share of its processor time their
waiting thread did, by its own clock; what is found of it is the time in ``poll.spin`` of that thread. Those that
compute never wait: whatever is found is wrong. Run it as root: ``python -m benchmarks.spinning [SECONDS]``.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from headway.linux.options import Selection
from headway.linux.sources.profiler import ProfileSource
from headway.linux.sources.source import LinuxSource
from headway.model import Profile, Thread
from headway.session.measure import observe

from .common import compiled, heading, load, table

SPINS = {
    "pthread": "pthread spin lock",
    "mutex": "mutex of its own, compare and exchange",
    "ring": "ring as DPDK's",
    "flag": "flag, without PAUSE",
    "openmp": "OpenMP barrier (libgomp)",
}
COMPUTES = (
    *("sums", "strings", "search", "sort", "chase", "matrix", "sieve", "nbody", "integrate"),
    *("counters", "collatz", "hash", "exchange"),
)
JAVA = Path(__file__).parent / "loads" / "Spins.java"
SPINNING = "poll.spin"


def profiled(*command: str | Path) -> tuple[Profile, str]:
    """Return the profile of a command, and what it printed."""
    sources: list[ProfileSource] = []

    def start(chosen: Selection) -> LinuxSource:
        sources.append(ProfileSource(chosen, prefer="bpf", spin=True))
        sources[0].begin()
        return sources[0]

    with tempfile.TemporaryFile("w+") as out:
        observe(Selection(), [str(word) for word in command], start=start, stdout=out.fileno())
        out.seek(0)
        return sources[0].profile(), out.read()


def spinning(thread: Thread) -> int:
    """Return the time in which a thread was found spinning."""
    return thread.states[SPINNING].time if SPINNING in thread.states else 0


def of_spinning(seconds: float) -> list[list[str]]:
    """Return a row for each program that spins."""
    rows = []
    os.environ["OMP_WAIT_POLICY"] = "active"
    with compiled("spins", flags=["-fopenmp"]) as program:
        for kind, name in SPINS.items():
            profile, said = profiled(program, kind, str(seconds))
            spun, had, tid = map(int, said.split())
            (thread,) = [thread for thread in profile.ledger.threads if thread.tid == tid]
            rows.append(_row(name, spun / had, thread))
    if shutil.which("java") is not None and shutil.which("javac") is not None:
        rows.append(of_java(seconds))
    return rows


def of_java(seconds: float) -> list[str]:
    """Return the row of a thread of the Java runtime, whose code no file holds. It does nothing but spin."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["javac", "-d", folder, JAVA], check=True)
        profile, _ = profiled("java", "-cp", folder, "Spins", str(max(round(seconds), 1)))
    (thread,) = [thread for thread in profile.ledger.threads if thread.name == "waits"]
    return _row("Java's Thread.onSpinWait", 1.0, thread)


def _row(name: str, share: float, thread: Thread) -> list[str]:
    """Return the row of a thread that spun for this share of its processor time.

    Interrupts and headway's own time, which the thread's clock has in it, are taken to be spread evenly over both.
    """
    found = spinning(thread)
    user = thread.states["user"].time + found
    samples = thread.sampled[SPINNING].samples if found else 0
    return [
        name,
        f"{user / 1e6:.0f} ms",
        f"{user * share / 1e6:.0f} ms",
        f"{found / 1e6:.0f} ms",
        f"{found / (user * share):.1%}",
        f"{samples:,}",
    ]


def of_computing(seconds: float) -> list[list[str]]:
    """Return a row for each program that computes."""
    rows = []
    with compiled("computes") as program:
        for kind in COMPUTES:
            profile, _ = profiled(program, kind, str(seconds))
            user = sum(t.states["user"].time for t in profile.ledger.threads if "user" in t.states)
            found = sum(spinning(thread) for thread in profile.ledger.threads)
            rows.append([kind, f"{user / 1e6:.0f} ms", f"{found / 1e6:.0f} ms", f"{found / (user + found):.2%}"])
    return rows


def main(seconds: float = 3.0) -> None:
    """Print the tables."""
    print(f"\n## Spinning\n\n{heading()}; {load()}\n", flush=True)
    print(table(("program", "user code", "spun", "found", "of it", "samples"), of_spinning(seconds)), flush=True)
    print(f"\n{load()}\n", flush=True)
    print(table(("computes", "user code", "found spinning", "of it"), of_computing(seconds)), flush=True)


if __name__ == "__main__":
    main(*map(float, sys.argv[1:2]))
