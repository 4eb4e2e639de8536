"""Intel PT: the speed of libipt alone, of headway's records in memory, and of ``headway trace decode`` as CSV.

The trace is a walk through a random program of short blocks, made by the encoder of the tests. libipt alone counts the
packets, which is the least that any decoder has to do.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.trace.pt import Program, Walk, disable, enable, fup, program, synchronisation
from tests.trace.test_pt import endless

from headway_trace.memory import Files, Part, ProcessMemory
from headway_trace.pt import library
from headway_trace.pt.setting import PtSetting

from .common import heading, load, table

ROUNDS = 3
PARTS, BLOCKS, REPEATED = 60, 5000, 20


def _best(work: Callable[[], object]) -> float:
    """Return the seconds of the fastest of several rounds."""
    seconds = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - begin)
    return min(seconds)


def _trace(made: Program) -> tuple[bytes, int]:
    """Return a trace, and the number of its instructions."""
    walk = Walk(made, 1)
    walk.put(synchronisation(None, 500) + enable(walk.address))
    for part in range(PARTS):
        walk.begin(1000 * (part + 1))
        walk.go(BLOCKS)
        walk.until_a_packet()
    walk.put(fup(walk.address) + disable())
    return bytes(walk.out), len(walk.executed)


def main() -> None:
    print(f"\n## Intel PT\n\n{heading()} ({load()})\n", flush=True)
    if not library.available():
        print("libipt is not installed")
        return
    from headway_trace.pt._decoder import Decoder, count_packets
    from headway_trace.pt.streams import Images

    made = next(one for one in map(program, range(1000)) if not endless(one))
    once, instructions = _trace(made)
    data = once * REPEATED
    with tempfile.TemporaryDirectory() as folder:
        code, trace = Path(folder) / "code", Path(folder) / "once.pt"
        code.write_bytes(made.code)
        trace.write_bytes(data)
        memory = ProcessMemory(Files())
        memory.add(Part(made.base, len(made.code), str(code), 0))
        image, found = Images().of(memory), 0

        def records() -> None:
            nonlocal found
            decoder = Decoder(memoryview(data), PtSetting(), image)
            while not decoder.finished:
                decoder.run()
            found = decoder.instructions

        def csv() -> None:
            command = [sys.executable, "-m", "headway", "trace", "decode", str(trace), "--format", "csv"]
            command += ["--image", f"{code}@{made.base:#x}"]
            subprocess.run(command, stdout=subprocess.DEVNULL, check=True)

        rows = []
        for what, work, size, count in (
            ("packets, libipt alone", lambda: count_packets(memoryview(data), PtSetting()), len(data), None),
            ("records in memory", records, len(data), instructions * REPEATED),
            ("trace decode --format csv", csv, len(data), instructions * REPEATED),
        ):
            seconds = _best(work)
            speed = "" if count is None else f"{count / seconds / 1e6:.2f}"
            rows.append((what, f"{size / seconds / 1e6:.1f}", speed))
        print(table(("", "MB/s", "M instructions/s"), rows))
        print(f"\n{found:,} of {instructions * REPEATED:,} instructions found")


if __name__ == "__main__":
    main()
