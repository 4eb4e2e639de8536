"""Damage to trace files of the machine (.hwt): how much of what was executed is still known, and what is made up.

    python -m benchmarks.trace_files [--places N]

A run of an example is traced, its file is damaged at one place at a time, and the rows of the damaged file are compared
with those of the whole one. A row is an instruction with its thread, cycle and address. The heads are all bytes of the
file that are of no stream. Places are the same in each run. Files of version 2 have the same chunks as a run writes.
"""

from __future__ import annotations

import argparse
import io
import random
import statistics
import struct
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from tests.trace.threads.files import DAMAGES, older_file

from headway.errors import HeadwayError
from headway_machine.config import TraceUnitConfig
from headway_machine.image import MachineImage
from headway_machine.machine import Machine
from headway_machine.programs import programs
from headway_trace.threads.container import TraceFile
from headway_trace.threads.program import read_program
from headway_trace.threads.reading import Trace, TracedProgram

from .common import heading, load, table

EXAMPLE = "six-threads"
CYCLES = 1_810_000
MARK, HEAD = 64, 5
"""Bytes of a mark of version 4, and of a chunk's head of version 2."""
SHOWN = ("a byte lost", "a bit flipped", "1 KB doubled", "1 KB dropped", "200 bytes zeroed", "5 KB doubled")


def _file() -> bytes:
    """Return the trace file of a run."""
    config = replace(programs()[EXAMPLE].config().with_values(cores=1), trace=TraceUnitConfig(enabled=True))
    stream = io.BytesIO()
    image = MachineImage.load(Path(__file__).parents[1] / "packages/headway-machine/examples" / f"{EXAMPLE}.elf")
    Machine(config).run(image, max_cycles=CYCLES, trace=stream, output=io.BytesIO(), errors=io.BytesIO())
    return stream.getvalue()


def _rows(trace: Trace) -> set[bytes]:
    """Return thread, cycle, address and state of each instruction."""
    found = set[bytes]()
    for rows in trace.rows(0):
        for number in range(len(rows)):
            thread, cycle, _, address, size, what, _ = rows[number]
            if size:
                found.add(struct.pack("<BqIB", thread, -1 if cycle is None else cycle, address, what))
    return found


class _Damaged:
    """A file that is damaged, and what is true of it."""

    def __init__(self, path: Path, data: bytes, image: TracedProgram) -> None:
        self._path, self.data, self._image = path, data, image
        path.write_bytes(data)
        file = TraceFile(path)
        self._shape, self._stream = file.shape, b"".join(file.pieces(0))
        self.whole = _rows(Trace(file, image))

    def measure(self, damaged: bytes) -> tuple[int, int]:
        """Return how many rows are lost, and how many are untrue."""
        self._path.write_bytes(damaged)
        try:
            file = TraceFile(self._path)
            if file.shape == self._shape and b"".join(file.pieces(0)) == self._stream:
                return 0, 0
            found = _rows(Trace(file, self._image))
        except HeadwayError:
            return len(self.whole), 0
        return len(self.whole - found), len(found - self.whole)


def _heads(data: bytes, version: int) -> Iterator[int]:
    """Yield the bytes of a file that are of no stream."""
    at, begin = 8, 0
    while at < len(data):
        number = data[at + 4] if version == 4 else data[at]
        size = int.from_bytes(data[at + 5 : at + 8] if version == 4 else data[at + 1 : at + 5], "little")
        before, after = (MARK, MARK) if version == 4 else (HEAD, 0)
        yield from range(begin, at + before + (size if number > 15 else 0))
        begin = at + before + size
        at = begin + after
    yield from range(begin, len(data))


def _measured(file: _Damaged, version: int, places: int) -> Iterator[Sequence[str]]:
    whole = len(file.whole)
    for name in SHOWN:
        draw = random.Random(1)
        lost, untrue = list[int](), 0
        for _ in range(places):
            at, bit = draw.randrange(len(file.data) - 1100), draw.randrange(8)
            found = file.measure(DAMAGES[name](file.data, at, bit))
            lost.append(found[0])
            untrue += found[1]
        yield _row(version, f"{name}, {places} places", lost, untrue, whole)
    lost, untrue = [], 0
    for at in _heads(file.data, version):
        found = file.measure(DAMAGES["a bit flipped"](file.data, at, at % 8))
        lost.append(found[0])
        untrue += found[1]
    yield _row(version, f"a bit flipped in each of {len(lost):,} bytes of heads and description", lost, untrue, whole)


def _row(version: int, name: str, lost: Sequence[int], untrue: int, whole: int) -> Sequence[str]:
    kept = [100 * (whole - one) / whole for one in lost]
    return f"{version}", name, f"{statistics.median(kept):.2f} %", f"{min(kept):.2f} %", f"{untrue}"


def main(arguments: Sequence[str] = ()) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.trace_files")
    parser.add_argument("--places", type=int, default=60, help="how often each kind of damage is done")
    options = parser.parse_args(arguments)
    print(f"\n## Damaged trace files of the machine\n\n{heading()} ({load()})\n")
    image, data = read_program(EXAMPLE), _file()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.hwt"
        path.write_bytes(data)
        file = TraceFile(path)
        stream = b"".join(file.pieces(0))
        old = older_file(file.shape, [(0, stream[: len(stream) // 2]), (0, stream[len(stream) // 2 :])])
        rows = list[Sequence[str]]()
        for version, what in ((4, data), (2, old)):
            damaged = _Damaged(path, what, image)
            print(f"Version {version}: {len(what):,} bytes, {len(damaged.whole):,} rows.")
            rows += _measured(damaged, version, options.places)
    print()
    print(table(["version", "damage", "rows known, median", "worst", "untrue rows"], rows))


if __name__ == "__main__":
    main(sys.argv[1:])
