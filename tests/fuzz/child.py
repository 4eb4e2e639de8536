"""The process in which inputs are read. It may crash, hang or use up its memory; `tests.fuzz.runner` watches it.

``python -m tests.fuzz.child SEED PROGRESS TARGET FIRST COUNT [TARGET FIRST COUNT …]`` reads the inputs of one target
after the other. The file PROGRESS has numbers of 64 bits for each target, which are kept up to date (`PROGRESS`).
Findings are lines of JSON on the standard output.
"""

from __future__ import annotations

import json
import mmap
import os
import resource
import struct
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from .registry import target_of
from .target import DECODED, REFUSED, Target, outcome

__all__ = ["MEMORY", "OUTCOMES", "PROGRESS"]

MEMORY = 256 << 20
"""Bytes of memory that reading an input may take."""
OUTCOMES = (DECODED, REFUSED, "findings")
_WORDS = 7
PROGRESS = struct.Struct(f"={_WORDS}q")
"""Of each target: the input that is being read; whether all are done; the ns of processor time of the slowest input and
its number; the number of inputs by `OUTCOMES`."""
_COUNTS = 4
"""The first of the last."""
SANITIZED = "libasan" in os.environ.get("LD_PRELOAD", "")
_TOLD = 3
"""How many findings of one kind are told; all are counted."""


def main(seed: str, progress: str, *jobs: str) -> None:
    """Read inputs. ``jobs``: of each target its name, the number of its first input, and how many there are."""
    if SANITIZED:
        # capstone asks the dynamic linker to take its own symbols first, which ASan refuses.
        os.RTLD_DEEPBIND = 0  # type: ignore[misc]
    with open(progress, "r+b") as stream, mmap.mmap(stream.fileno(), PROGRESS.size * (len(jobs) // 3)) as shared:
        for place, (name, first, count) in enumerate(zip(jobs[::3], jobs[1::3], jobs[2::3], strict=True)):
            target = target_of(name)
            _ = target.seeds  # they are made before the memory is limited
            with _limited_memory(), memoryview(shared).cast("q") as words:
                of_target = words[place * _WORDS : (place + 1) * _WORDS]
                _read(target, int(seed), range(int(first), int(first) + int(count)), of_target)
                of_target.release()
            target.close()


def _read(target: Target, seed: int, numbers: range, words: memoryview[int]) -> None:
    before, counts, told = _peak(), Counter[str](), Counter[str]()
    for number in numbers:
        words[0] = number
        data = target.input(seed, number)
        where = what = ""
        began = time.process_time_ns()
        try:
            end = outcome(target, data, number)
        except Exception as error:
            end, what, where = OUTCOMES[2], _words(error), traceback.format_exc()[-3000:]
        if (took := time.process_time_ns() - began) > words[2]:
            words[2], words[3] = took, number
        after = _peak()
        if after - before > MEMORY >> 10:
            end, what = OUTCOMES[2], f"it takes {after - before >> 10} MiB of memory"
        before = after
        counts[end] += 1
        words[_COUNTS + OUTCOMES.index(end)] = counts[end]
        if what:
            told[what] += 1
            if told[what] <= _TOLD:
                print(json.dumps({"target": target.name, "number": number, "what": what, "where": where}), flush=True)
    words[1] = 1


def _peak() -> int:
    """Return the largest memory that the process has had so far, in KiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _words(error: BaseException) -> str:
    """Return what happened and where, without what differs from input to input."""
    places = traceback.extract_tb(error.__traceback__)
    inside = [place for place in places if "/headway/" in place.filename or place.filename.endswith(".pyx")]
    place = (inside or list(places))[-1]
    return f"{type(error).__name__} in {os.path.basename(place.filename)}:{place.lineno} {place.name}"


@contextmanager
def _limited_memory() -> Iterator[None]:
    """Limit the address space. ASan reserves terabytes of it, so there its own limit holds (see the Makefile)."""
    if SANITIZED:
        yield
        return
    with open("/proc/self/statm") as stream:
        used = int(stream.read().split()[0]) * mmap.PAGESIZE
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


if __name__ == "__main__":
    main(*sys.argv[1:])
