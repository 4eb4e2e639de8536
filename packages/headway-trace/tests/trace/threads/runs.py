"""Traced runs beside the machine's own log of what every hart did in every cycle."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headway_machine._processor import MachineProcessor
from headway_machine.config import Config
from headway_machine.image import MachineImage
from headway_trace.threads._flow import ThreadDecoder, ThreadRows
from headway_trace.threads.segments import Segments

if TYPE_CHECKING:
    from headway_trace.threads._flow import Row

EXECUTED, NOT_TAKEN, UNKNOWN = 16, 17, 32

Stretch = tuple[int, int, int, int]
"""First cycle of its core, cycles, address, code of what was done."""


@dataclass
class Run:
    """What the trace units wrote, and what is true."""

    config: Config
    program: list[tuple[int, bytes]]
    streams: list[bytes]
    log: dict[int, list[Stretch]]
    """By hart."""
    instructions: int
    losses: int

    @property
    def unit(self) -> int:
        return self.config.threads if self.config.issue == "strict" else 1

    def decoder(self, *, stalls: bool = True) -> ThreadDecoder:
        return ThreadDecoder(
            self.program,
            threads=self.config.threads,
            strict=self.config.issue == "strict",
            cycle_accurate=self.config.trace.cycle_accurate,
            stalls=stalls,
            waypoints=not self.config.trace.cycle_accurate,
        )

    def decode(self, core: int, data: bytes | None = None, cuts: Sequence[int] = ()) -> tuple[list[Row], ThreadDecoder]:
        """All rows of a core, of its stream or of these bytes instead, fed in pieces that end at the cuts."""
        stream = self.streams[core] if data is None else data
        decoder, segments = self.decoder(), Segments()
        for piece in _pieces(stream, cuts):
            for segment in segments.feed(piece):
                decoder.feed(segment)
        *rest, last = [None, *segments.finish()]
        for segment in filter(None, rest):
            decoder.feed(segment)
        decoder.finish(last)
        return _all(decoder.take()), decoder

    def stretches(self, core: int, rows: Iterable[Row]) -> dict[int, list[Stretch]]:
        """Rows of known time as stretches, by hart; gaps left out."""
        found: dict[int, list[Stretch]] = {core * self.config.threads + n: [] for n in range(self.config.threads)}
        for thread, cycle, cycles, address, _, what, _ in rows:
            if what >= UNKNOWN or cycle is None or cycles is None:
                continue
            if what in (EXECUTED, NOT_TAKEN):
                cycle, cycles = cycle - self.unit + 1, self.unit
            found[core * self.config.threads + thread].append((cycle, cycles, address, what))
        return {hart: joined(stretches) for hart, stretches in found.items()}


def run(config: Config, image: MachineImage, cycles: int) -> Run:
    """So many ticks of a program, or to its end, without a host."""
    processor = MachineProcessor(config)
    for segment in image.segments:
        processor.write(segment.address, segment.data)
    processor.start(image.entry, image.tohost)
    return run_started(processor, config, [(segment.address, segment.data) for segment in image.segments], cycles)


def run_started(processor: MachineProcessor, config: Config, program: list[tuple[int, bytes]], cycles: int) -> Run:
    """So many ticks of what has been started, or to its end, without a host."""
    processor.log()
    processor.run(cycles)
    processor.end_trace()
    log: dict[int, list[Stretch]] = {hart: [] for hart in range(config.harts)}
    for hart, cycle, length, address, what in processor.logged():
        log[hart].append((cycle, length, address, what))
    streams = [processor.trace(core) for core in range(config.cores)]
    truth = {hart: joined(stretches) for hart, stretches in log.items()}
    return Run(config, program, streams, truth, processor.instructions, processor.losses["trace_groups"])


def joined(stretches: Iterable[Stretch]) -> list[Stretch]:
    """Stalls of one kind at one place that follow each other are one."""
    found: list[Stretch] = []
    for cycle, cycles, address, what in stretches:
        if found and what < EXECUTED:
            before = found[-1]
            if before[2:] == (address, what) and before[0] + before[1] == cycle:
                found[-1] = (before[0], before[1] + cycles, address, what)
                continue
        found.append((cycle, cycles, address, what))
    return found


def untrue(found: Iterable[Stretch], log: Iterable[Stretch]) -> list[Stretch]:
    """Those of the decoded stretches that say something else than the log, be it of a part of a stretch."""
    truth = {(address, what, at) for cycle, n, address, what in log for at in range(cycle, cycle + n)}
    return [one for one in found if any((one[2], one[3], at) not in truth for at in range(one[0], one[0] + one[1]))]


def strayed(rows: Iterable[Row], thread: int, log: Iterable[Stretch]) -> list[bytes]:
    """From gap to gap what the thread executed, timed or not, where the log does not say the same."""
    runs, executed = [bytearray()], bytearray()
    for _, _, address, what in log:
        if what in (EXECUTED, NOT_TAKEN):
            executed += struct.pack("<IB", address, what)
    for of, _, _, address, _, what, _ in rows:
        if of == thread and what in (EXECUTED, NOT_TAKEN):
            runs[-1] += struct.pack("<IB", address, what)
        elif of == thread and what >= UNKNOWN:
            runs.append(bytearray())
    return [bytes(found) for found in runs if not _part_of(found, executed)]


def _part_of(found: bytearray, whole: bytearray) -> bool:
    at = whole.find(found)
    while at > 0 and at % 5:
        at = whole.find(found, at + 1)
    return at >= 0


def _pieces(data: bytes, cuts: Sequence[int]) -> Iterable[bytes]:
    ends = [*sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    start = 0
    for end in ends:
        yield data[start:end]
        start = end


def _all(rows: ThreadRows) -> list[Row]:
    return [rows[number] for number in range(len(rows))]
