"""Traces of the machine: bits per instruction, the cost of tracing, the speed of decoding, and the loss by damage.

    python -m benchmarks.trace_threads [FOLDER ... | --damage]

With folders of ELF files, as of Embench linked with picolibc (`benchmarks.machine`), only their bits per instruction
are printed, in both formats; with ``--damage`` only the loss by damage.

Every example runs on one core in each shape. One of them shows the speed of simulation with and without a trace unit,
of reading packets alone, and of decoding packets to instructions, and how many of its instructions are lost where its
trace is damaged.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from headway_machine._processor import SEMIHOST, MachineProcessor
from headway_machine.config import Config, TraceUnitConfig
from headway_machine.image import MachineImage
from headway_machine.programs import programs
from headway_trace.threads._flow import ThreadDecoder, count_packets
from headway_trace.threads.segments import Segments

from .common import heading, load, table
from .semihosting import answered

EXAMPLES = Path(__file__).parents[1] / "packages/headway-machine/examples"
SHAPES = ((1, "strict", True), (6, "strict", True), (6, "skip", True), (6, "strict", False))
BASELINE: dict[str, Any] = dict.fromkeys(
    ("implicit_return", "sequential_jump", "branch_prediction", "jump_target_cache"), False
)
FORMATS: dict[str, TraceUnitConfig] = {
    "own": TraceUnitConfig(enabled=True),
    "own, without cycles": TraceUnitConfig(enabled=True, cycle_accurate=False),
    "E-Trace, no modes": TraceUnitConfig(enabled=True, format="etrace", cycle_accurate=False, **BASELINE),
    "E-Trace": TraceUnitConfig(enabled=True, format="etrace", cycle_accurate=False),
    "E-Trace, times": TraceUnitConfig(enabled=True, format="etrace"),
}
"""Formats that are compared on one core with one thread."""
MAX = 20_000_000
ROUNDS = 20
FAST = "six-threads"
PLACES = 100
DAMAGED = 200_000
"""Cycles of the run whose trace is damaged."""
KINDS: dict[str, Callable[[bytes, int], bytes]] = {
    "one bit flipped": lambda data, at: data[:at] + bytes([data[at] ^ 1 << random.randrange(8)]) + data[at + 1 :],
    "16 bytes dropped": lambda data, at: data[:at] + data[at + 16 :],
    "16 bytes zeroed": lambda data, at: data[:at] + bytes(16) + data[at + 16 :],
    "32 bytes garbled": lambda data, at: data[:at] + random.randbytes(32) + data[at + 32 :],
    "64 bytes garbled": lambda data, at: data[:at] + random.randbytes(64) + data[at + 64 :],
    "1 KB dropped": lambda data, at: data[:at] + data[at + 1024 :],
}


def _config(name: str, threads: int, issue: str) -> Config:
    return programs()[name].config().with_values(threads=threads, issue=issue)


def _run(config: Config, image: MachineImage, cycles: int = MAX) -> tuple[MachineProcessor, float]:
    processor = MachineProcessor(config)
    for segment in image.segments:
        processor.write(segment.address, segment.data)
    processor.start(image.entry, image.tohost)
    begin = time.perf_counter()
    while processor.run(cycles) == SEMIHOST and answered(processor):
        pass
    return processor, time.perf_counter() - begin


def _density() -> list[Sequence[str]]:
    rows: list[Sequence[str]] = []
    totals = [[0, 0] for _ in SHAPES]
    for path in sorted(EXAMPLES.glob("*.elf")):
        figures = []
        for total, (threads, issue, counted) in zip(totals, SHAPES, strict=True):
            config = replace(
                _config(path.stem, threads, issue), trace=TraceUnitConfig(enabled=True, cycle_accurate=counted)
            )
            processor, _ = _run(config, MachineImage.load(path))
            processor.end_trace()
            size, instructions = len(processor.trace(0)), processor.instructions
            total[0] += size
            total[1] += instructions
            figures.append(f"{8 * size / instructions:.2f}")
        rows.append((path.stem, *figures))
    rows.append(("all", *(f"{8 * size / instructions:.2f}" for size, instructions in totals)))
    return rows


def _formats(paths: Sequence[Path]) -> list[Sequence[str]]:
    """Return bits per instruction of each program in each format."""
    rows: list[Sequence[str]] = []
    totals = [[0, 0] for _ in FORMATS]
    for path in paths:
        image, figures, instructions = MachineImage.load(path), [], 0
        base = _config(path.stem, 1, "strict") if path.stem in programs() else Config.of(cores=1, threads=1)
        for total, unit in zip(totals, FORMATS.values(), strict=True):
            processor, _ = _run(replace(base, trace=unit), image)
            processor.end_trace()
            size, instructions = len(processor.trace(0)), processor.instructions
            total[0] += size
            total[1] += instructions
            figures.append(f"{8 * size / instructions:.3f}")
        rows.append((path.stem, f"{instructions:,}", *figures))
    all_ = f"{totals[0][1]:,}"
    rows.append(("all", all_, *(f"{8 * size / instructions:.3f}" for size, instructions in totals)))
    return rows


def _decoder(image: MachineImage, config: Config) -> ThreadDecoder:
    return ThreadDecoder(
        [(segment.address, segment.data) for segment in image.segments],
        threads=config.threads,
        strict=config.issue == "strict",
        cycle_accurate=True,
    )


def _decoded(stream: bytes, image: MachineImage, config: Config) -> int:
    decoder = _decoder(image, config)
    count, segments = 0, Segments()
    for segment in segments.feed(stream):
        decoder.feed(segment)
        count += len(decoder.take())
    return count


def _speed() -> list[Sequence[str]]:
    image = MachineImage.load(EXAMPLES / f"{FAST}.elf")
    rows: list[Sequence[str]] = []
    for threads, issue, _ in SHAPES[:3]:
        config = _config(FAST, threads, issue)
        traced = replace(config, trace=TraceUnitConfig(enabled=True))
        plain = min(_run(config, image)[1] for _ in range(5))
        slow = min(_run(traced, image)[1] for _ in range(5))
        processor, _ = _run(traced, image)
        processor.end_trace()
        stream, million = processor.trace(0), processor.instructions / 1e6
        begin = time.perf_counter()
        for _ in range(ROUNDS):
            for segment in Segments().feed(stream):
                count_packets(segment.data)
        packets = (time.perf_counter() - begin) / ROUNDS
        begin = time.perf_counter()
        count = sum(_decoded(stream, image, traced) for _ in range(ROUNDS))
        decoding = time.perf_counter() - begin
        rows.append(
            (
                f"1 × {threads} {issue}",
                f"{million / plain:.0f}",
                f"{million / slow:.0f}",
                f"{len(stream) / packets / 1e6:.0f}",
                f"{count / decoding / 1e6:.0f}",
            )
        )
    return rows


def _instructions(stream: bytes, image: MachineImage, config: Config) -> set[tuple[int, int | None, int, int]]:
    """Return (thread, cycle, address, executed or not) of each instruction."""
    decoder = _decoder(image, config)
    segments = Segments()
    *known, last = [*segments.feed(stream), *segments.finish()]
    for segment in known:
        decoder.feed(segment)
    decoder.finish(last)
    rows = decoder.take()
    found = (rows[number] for number in range(len(rows)))
    return {(thread, cycle, address, what) for thread, cycle, _, address, size, what, _ in found if size}


def _damage() -> list[Sequence[str]]:
    """Return rows of instructions lost (median and worst), and of instructions decoded wrongly despite damage."""
    random.seed(1)
    image = MachineImage.load(EXAMPLES / f"{FAST}.elf")
    rows: list[Sequence[str]] = []
    for sync in (256, 1024):
        config = replace(_config(FAST, 6, "strict"), trace=TraceUnitConfig(enabled=True, sync=sync))
        processor, _ = _run(config, image, DAMAGED)
        processor.end_trace()
        stream = processor.trace(0)
        whole = _instructions(stream, image, config)
        figures, wrong = [], 0
        for damage in KINDS.values():
            lost = []
            for _ in range(PLACES):
                found = _instructions(damage(stream, random.randrange(len(stream) - 1100)), image, config)
                lost.append(len(whole - found))
                wrong += len(found - whole)
            lost.sort()
            figures.append(f"{lost[PLACES // 2]:,} / {lost[-1]:,}")
        rows.append((f"{sync}", f"{8 * len(stream) / len(whole):.2f}", *figures, f"{wrong} of {len(whole):,}"))
    return rows


def _programs(folders: Sequence[Path]) -> list[Path]:
    """Return the programs of these folders, or those that come with the machine."""
    return sorted(path for folder in folders or [EXAMPLES] for path in folder.glob("*.elf"))


def main(arguments: Sequence[str] = ()) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.trace_threads")
    parser.add_argument("folders", nargs="*", type=Path, help="print only the bits per instruction of their ELF files")
    parser.add_argument("--damage", action="store_true", help="print only the loss by damage")
    options = parser.parse_args(arguments)
    paths = _programs(options.folders)
    if not paths:
        parser.error(f"no *.elf file is in {', '.join(map(str, options.folders))}: name folders with programs")
    print(f"\n## Traces of the machine\n\n{heading()} ({load()})\n")
    damage = ["trace.sync", "bits per instruction", *KINDS, "wrong"]
    if options.damage:
        print(table(damage, _damage()))
        return
    if options.folders:
        print(table(["bits per instruction", "instructions", *FORMATS], _formats(paths)))
        return
    shapes = ["1 × 1", "1 × 6 strict", "1 × 6 skip", "1 × 6 strict, without cycles"]
    print(table(["bits per instruction", *shapes], _density()))
    print()
    print(table(["bits per instruction", "instructions", *FORMATS], _formats(paths)))
    titles = [FAST, "simulated, M/s", "traced, M/s", "packets, MB/s", "decoded, M instructions/s"]
    print()
    print(table(titles, _speed()))
    print()
    print(table(damage, _damage()))


if __name__ == "__main__":
    main(sys.argv[1:])
