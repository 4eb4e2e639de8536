"""Does what it is told, line by line, and says when it is done; ``touch`` touches as many pages as the argument."""

import mmap
import os  # noqa: F401
import sys
import threading  # noqa: F401
import time

PAGES = int(sys.argv[1])


def burn(ns: int) -> None:
    end = time.thread_time_ns() + ns
    while time.thread_time_ns() < end:
        pass


def touch() -> None:
    memory = mmap.mmap(-1, PAGES * mmap.PAGESIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_NOHUGEPAGE"):
        memory.madvise(mmap.MADV_NOHUGEPAGE)
    for page in range(PAGES):
        memory[page * mmap.PAGESIZE] = 1


print("there", flush=True)
for line in sys.stdin:
    exec(line)
    print("done", flush=True)
