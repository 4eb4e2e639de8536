"""Neighbours that come and go at random: processes that compute, write through memory, or do system calls and fork."""

from __future__ import annotations

import os
import random
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["coming_and_going"]

_KINDS = ("spin", "thrash", "calls")


@contextmanager
def coming_and_going(program: Path) -> Iterator[None]:
    """Run neighbours that come and go, the same ones in the same order each time. ``program``: work.c, compiled.

    They run on any processor, for a tenth of a second to a second each; none to twice as many as there are processors
    run at a time.
    """
    over = threading.Event()

    def come_and_go() -> None:
        choose = random.Random(7)
        living: list[tuple[float, subprocess.Popen[bytes]]] = []
        while not over.is_set():
            now = time.monotonic()
            for until, process in [one for one in living if one[0] <= now]:
                _end(process)
                living.remove((until, process))
            wanted = choose.randint(0, 2 * len(os.sched_getaffinity(0)))
            while len(living) < wanted:
                process = subprocess.Popen([program, choose.choice(_KINDS)])
                living.append((now + choose.uniform(0.1, 1.0), process))
            over.wait(choose.uniform(0.05, 0.3))
        for _, process in living:
            _end(process)

    thread = threading.Thread(target=come_and_go)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
