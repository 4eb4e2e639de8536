"""The process in which inputs are read. It may crash, hang or use up its memory; `tests.fuzz.runner` watches it.

``python -m tests.fuzz.child TARGET SEED FIRST COUNT PROGRESS``. The file PROGRESS has numbers of 64 bits, which are
kept up to date (`PROGRESS`). Findings are lines of JSON on the standard output.
"""

from __future__ import annotations

import json
import mmap
import os
import resource
import struct
import sys
import traceback
from collections import Counter

from .registry import target_of
from .target import DECODED, REFUSED, Target, outcome

__all__ = ["MEMORY", "OUTCOMES", "PROGRESS"]

MEMORY = 256 << 20
"""Bytes of memory that reading an input may take."""
OUTCOMES = (DECODED, REFUSED, "findings")
PROGRESS = struct.Struct("=5q")
"""The input that is being read; whether all are done; the number of inputs by `OUTCOMES`."""
SANITIZED = "libasan" in os.environ.get("LD_PRELOAD", "")
_TOLD = 3
"""How many findings of one kind are told; all are counted."""


def main(name: str, seed: str, first: str, count: str, progress: str) -> None:
    """Read ``count`` inputs from number ``first`` on."""
    if SANITIZED:
        # capstone asks the dynamic linker to take its own symbols first, which ASan refuses.
        os.RTLD_DEEPBIND = 0  # type: ignore[misc]
    target = target_of(name)
    _ = target.seeds  # they are made before the memory is limited
    with open(progress, "r+b") as stream, mmap.mmap(stream.fileno(), PROGRESS.size) as shared:
        _limit_memory()
        _read(target, int(seed), range(int(first), int(first) + int(count)), shared)
        target.close()


def _read(target: Target, seed: int, numbers: range, shared: mmap.mmap) -> None:
    words = memoryview(shared).cast("q")
    before, counts, told = _peak(), Counter[str](), Counter[str]()
    for number in numbers:
        words[0] = number
        data = target.input(seed, number)
        where = what = ""
        try:
            end = outcome(target, data, number)
        except Exception as error:
            end, what, where = OUTCOMES[2], _words(error), traceback.format_exc()[-3000:]
        after = _peak()
        if after - before > MEMORY >> 10:
            end, what = OUTCOMES[2], f"it takes {after - before >> 10} MiB of memory"
        before = after
        counts[end] += 1
        words[2 + OUTCOMES.index(end)] = counts[end]
        if what:
            told[what] += 1
            if told[what] <= _TOLD:
                print(json.dumps({"number": number, "what": what, "where": where}), flush=True)
    words[1] = 1
    words.release()


def _peak() -> int:
    """Return the largest memory that the process has had so far, in KiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _words(error: BaseException) -> str:
    """Return what happened and where, without what differs from input to input."""
    places = traceback.extract_tb(error.__traceback__)
    inside = [place for place in places if "/headway/" in place.filename or place.filename.endswith(".pyx")]
    place = (inside or list(places))[-1]
    return f"{type(error).__name__} in {os.path.basename(place.filename)}:{place.lineno} {place.name}"


def _limit_memory() -> None:
    """Limit the address space. ASan reserves terabytes of it, so there its own limit holds (see the Makefile)."""
    if SANITIZED:
        return
    with open("/proc/self/statm") as stream:
        used = int(stream.read().split()[0]) * mmap.PAGESIZE
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))


if __name__ == "__main__":
    main(*sys.argv[1:])
