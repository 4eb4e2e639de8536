"""Whether frames of Python are those that py-spy shows of the same stop, and what they cost.

``python -m benchmarks.python_frames PY_SPY STOPS [ROOT:]PYTHON...``, as root. Each PYTHON runs a program with
generators, coroutines, callbacks of C functions, recursion and classes in several threads. It is stopped (SIGSTOP)
while ``headway profile`` measures it. So the stack with which a thread has left its processor is that which ``py-spy
dump`` reads then. They are compared frame by frame: function, file and line. ROOT: a directory with another system,
for chroot(8).

py-spy (https://github.com/benfred/py-spy) is installed by pip, in an environment of its own.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headway.linux.options import Selection
from headway.linux.sources.ebpf import BpfSource
from headway.linux.sources.profiler import ProfileSource

_PROGRAM = """
import asyncio, functools, json, re, sys, threading, time

class Shape:
    def __init__(self, n):
        self.n = n
    @property
    def area(self):
        return sum(i * i for i in range(self.n))
    def __lt__(self, other):
        return self.area < other.area

def traced(function):
    @functools.wraps(function)
    def inner(*arguments):
        return function(*arguments)
    return inner

@traced
def recursive(depth):
    return sum(range(300)) if depth == 0 else 1 + recursive(depth - 1)

def numbers(n):
    for i in range(n):
        yield i * 2

def delegated(n):
    yield from numbers(n)

async def leaf(n):
    await asyncio.sleep(0)
    return sorted(Shape(i % 9) for i in range(n))

async def tree(depth):
    if depth == 0:
        return await leaf(40)
    return await asyncio.gather(tree(depth - 1), tree(depth - 1))

def by_coroutines():
    asyncio.run(tree(3))

def by_callbacks():
    sorted(range(200), key=lambda i: recursive(i % 5))
    re.sub("[0-9]+", lambda found: str(len(found.group())), "a1b22c333" * 40)

def by_generators():
    list(map(str, delegated(500)))
    [x for x in (y for y in delegated(300)) if x % 3]

def by_classes():
    max([Shape(i % 20) for i in range(60)])
    json.dumps([{"a": [i, str(i)]} for i in range(50)], default=str, indent=1)

def waiting():
    time.sleep(0.01)
    recursive(20)

def repeat(function):
    while True:
        function()

for function in (by_coroutines, by_callbacks, by_generators, by_classes, waiting):
    threading.Thread(target=repeat, args=(function,), daemon=True).start()
repeat(waiting)
"""
_DEEP = """
def deep(depth):
    if depth:
        return deep(depth - 1) + 1
    while True:
        for _ in range(20000):
            pass
        time.sleep(0.0001)
import time
deep(int(DEPTH))
"""
_FRAMES = (1, 31, 91)
Place = tuple[str, str, int | None]


def service(source: ProfileSource, seconds: float) -> None:
    """Measure for so long."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        pause = source.service()
        select.select(list(source.poll_fds()), (), (), min(left, pause if pause is not None else left, 0.05))


def stop(pid: int) -> None:
    """Stop a process, all its threads."""
    os.kill(pid, signal.SIGSTOP)
    until = time.monotonic() + 5
    while time.monotonic() < until:
        states = [
            Path(f"/proc/{pid}/task/{tid}/stat").read_text().rpartition(")")[2].split()[0]
            for tid in os.listdir(f"/proc/{pid}/task")
        ]
        if set(states) == {"T"}:
            return
        time.sleep(0.001)


def stopped_stacks(pid: int, py_spy: str) -> tuple[dict[int, list[Place]], dict[int, list[Place]], Counter[str]]:
    """The frames of Python of each thread at a stop, innermost first: headway's and py-spy's, and how ours end."""
    source = ProfileSource(Selection(pids=(pid,)), prefer="bpf", frequency=1)
    source.begin()
    try:
        service(source, 0.1)
        stop(pid)
        try:
            words = [py_spy, "dump", "--nonblocking", "--json", "--pid", str(pid)]
            done = subprocess.run(words, capture_output=True, text=True, check=False)
            source.end()
        finally:
            os.kill(pid, signal.SIGCONT)
        assert source._finished is not None
        away = list(source._finished.away)
        profile = source.profile()
    finally:
        source.close()
    ours: dict[int, list[Place]] = {}
    ends: Counter[str] = Counter()
    for row, number in zip((row for row in away if row.time > 0), profile.samples.stack.tolist(), strict=False):
        if row.state == "stopped" and number >= 0:
            frames = [profile.frames[each] for each in profile.stacks[number]]
            ours[row.tid] = [
                ((frame.function or "").rpartition(".")[2], frame.module or "", frame.line)
                for frame in frames
                if frame.kind == "python"
            ]
            ends[(frames[-1].function or "?") if frames[-1].kind == "none" else "whole"] += 1
    theirs: dict[int, list[Place]] = {}
    if done.returncode:  # it reads again where a frame is being made, which does not help at a stop
        ends["py-spy failed"] += 1
    for thread in json.loads(done.stdout or "[]"):
        stack = [(frame["name"].rpartition(".")[2], frame["filename"], frame["line"]) for frame in thread["frames"]]
        stack = [place for place in stack if place[1] != "__init__"]  # no file: the interpreter's own, for a class
        tid = thread["os_thread_id"]
        if tid is None:  # before 3.11 py-spy does not know it: the thread with the most equal frames
            left = {tid: frames for tid, frames in ours.items() if tid not in theirs}
            tid = max(left, key=lambda tid: equal_frames(left[tid], stack), default=-1)
        theirs[tid] = stack
    return ours, theirs, ends


def equal_frames(one: list[Place], other: list[Place]) -> int:
    """Return how many frames are equal, from the outermost on."""
    return sum(a == b for a, b in zip(one[::-1], other[::-1], strict=False)) - abs(len(one) - len(other))


@contextmanager
def running(python: str, program: str) -> Iterator[int]:
    """A program that an interpreter runs meanwhile."""
    root, _, path = python.rpartition(":")
    command = ["chroot", root, path] if root else [path]
    process = subprocess.Popen([*command, "-c", program], stdout=subprocess.DEVNULL, start_new_session=True)
    try:
        time.sleep(1)
        yield process.pid
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def compare(python: str, py_spy: str, stops: int) -> None:
    """Print how many stacks of one Python are equal."""
    stacks = same = frames = same_frames = without = 0
    ends: Counter[str] = Counter()
    shown = 0
    with running(python, _PROGRAM) as pid:
        for _ in range(stops):
            ours, theirs, how = stopped_stacks(pid, py_spy)
            ends += how
            for tid, wanted in theirs.items():
                found = ours.get(tid)
                if found is None:
                    without += 1
                    continue
                stacks += 1
                same += found == wanted
                frames += len(wanted)
                same_frames += max(equal_frames(found, wanted), 0)
                if found != wanted and shown < 5:
                    shown += 1
                    print(f"    differs: headway {found[:4]} of {len(found)}, py-spy {wanted[:4]} of {len(wanted)}")
    print(
        f"{python:<44} {stacks:>7,} {same:>7,} {same / stacks if stacks else 0:>8.2%} {frames:>9,} {same_frames:>9,}"
        f"  without {without}; {dict(ends)}",
        flush=True,
    )


def cost(python: str) -> None:
    """Print the run time of the handlers of a switch and of a sample, by the depth of the stack.

    Each is the least of nine windows: the one in which other work disturbed least.
    """
    for depth in _FRAMES:
        with running(python, _DEEP.replace("DEPTH", str(depth))) as pid:
            source = ProfileSource(Selection(pids=(pid,)), prefer="bpf")
            source.begin()
            try:
                inner = source._running.source
                assert isinstance(inner, BpfSource)
                handlers = [
                    inner._running._programs.object.programs[each] for each in ("handle_sched_switch", "handle_sample")
                ]
                windows: list[list[float]] = [[], []]
                with inner._running._programs.object.statistics():
                    for _ in range(9):
                        before = [handler.run_time() for handler in handlers]
                        service(source, 0.4)
                        for window, handler, (time_ns, runs) in zip(windows, handlers, before, strict=True):
                            later_ns, later = handler.run_time()
                            window.append((later_ns - time_ns) / max(later - runs, 1))
                source.end()
            finally:
                source.close()
        print(f"{python:<44} {depth + 2:>7} {' '.join(f'{min(each):>9,.0f}' for each in windows)}", flush=True)


def main() -> None:
    """Print the tables."""
    py_spy, stops, pythons = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
    if stops:
        print(f"{'python':<44} {'stacks':>7} {'equal':>7} {'':>8} {'frames':>9} {'equal':>9}")
    for python in pythons if stops else ():
        compare(python, py_spy, stops)
    print(f"\n{'python':<44} {'frames':>7} {'a switch':>9} {'a sample':>9}  ns")
    for python in pythons:
        cost(python)


if __name__ == "__main__":
    main()
