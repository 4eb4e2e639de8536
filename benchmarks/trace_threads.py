"""Traces of the machine: how many bits an instruction takes, what tracing costs, and how fast it is decoded.

Every example on one core, in each shape; speeds of one of them: simulation with and without a trace unit, packets
alone, and packets to instructions.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from headway.machine._processor import Processor
from headway.machine.config import Config, Trace
from headway.machine.image import Image
from headway.trace.threads._flow import Decoder, count_packets
from headway.trace.threads.segments import Segments

from .common import heading, load, table

EXAMPLES = Path(__file__).parents[1] / "examples"
CONFIGURED = {"uart-poll": "uart", "uart-interrupt": "uart", "interrupt-storm": "interrupt-storm"}
SHAPES = ((1, "strict", True), (6, "strict", True), (6, "skip", True), (6, "strict", False))
MOST = 20_000_000
ROUNDS = 20
FAST = "six-threads"


def _config(name: str, threads: int, issue: str) -> Config:
    found = Config()
    if name in CONFIGURED:
        found = Config.from_toml(EXAMPLES / "machine" / f"{CONFIGURED[name]}.toml")
    return found.with_values(threads=threads, issue=issue)


def _run(config: Config, image: Image) -> tuple[Processor, float]:
    processor = Processor(config)
    for segment in image.segments:
        processor.write(segment.address, segment.data)
    processor.start(image.entry, image.tohost)
    begin = time.perf_counter()
    processor.run(MOST)
    return processor, time.perf_counter() - begin


def _density() -> list[Sequence[str]]:
    rows: list[Sequence[str]] = []
    totals = [[0, 0] for _ in SHAPES]
    for path in sorted(EXAMPLES.glob("*.elf")):
        figures = []
        for total, (threads, issue, counted) in zip(totals, SHAPES, strict=True):
            config = replace(_config(path.stem, threads, issue), trace=Trace(enabled=True, cycle_accurate=counted))
            processor, _ = _run(config, Image.load(path))
            processor.end_trace()
            size, instructions = len(processor.trace(0)), processor.instructions
            total[0] += size
            total[1] += instructions
            figures.append(f"{8 * size / instructions:.2f}")
        rows.append((path.stem, *figures))
    rows.append(("all", *(f"{8 * size / instructions:.2f}" for size, instructions in totals)))
    return rows


def _decoded(stream: bytes, image: Image, config: Config) -> int:
    decoder = Decoder(
        [(segment.address, segment.data) for segment in image.segments],
        threads=config.threads,
        strict=config.issue == "strict",
        cycle_accurate=True,
    )
    count, segments = 0, Segments()
    for segment in segments.feed(stream):
        decoder.feed(segment)
        count += len(decoder.take())
    return count


def _speed() -> list[Sequence[str]]:
    image = Image.load(EXAMPLES / f"{FAST}.elf")
    rows: list[Sequence[str]] = []
    for threads, issue, _ in SHAPES[:3]:
        config = _config(FAST, threads, issue)
        traced = replace(config, trace=Trace(enabled=True))
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


def main() -> None:
    """Print the tables."""
    print(f"\n## Traces of the machine\n\n{heading()} ({load()})\n")
    shapes = ["1 × 1", "1 × 6 strict", "1 × 6 skip", "1 × 6 strict, without cycles"]
    print(table(["bits per instruction", *shapes], _density()))
    titles = [FAST, "simulated, M/s", "traced, M/s", "packets, MB/s", "decoded, M instructions/s"]
    print()
    print(table(titles, _speed()))


if __name__ == "__main__":
    main()
