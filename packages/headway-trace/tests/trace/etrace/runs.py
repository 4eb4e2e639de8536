"""Runs with trace units that make packets of E-Trace, beside the machine's own log of what every hart did."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tests.machine.assembler import RAM
from tests.machine.examples import Shape, config_of
from tests.machine.examples import program as example
from tests.machine.streams import bench

from headway_machine._processor import MachineProcessor
from headway_machine.config import Config, TraceUnitConfig
from headway_machine.image import MachineImage
from headway_trace.etrace._decoder import EtraceDecoder
from headway_trace.etrace.parameters import EtraceParameters, encoder_parameters

if TYPE_CHECKING:
    from headway_trace.etrace._decoder import Row

EXECUTED, NOT_TAKEN, UNKNOWN = 16, 17, 32
Retired = tuple[int, int]
"""Address, and code of what was done."""


@dataclass
class EtraceRun:
    """What the trace units wrote, and what is true."""

    config: Config
    program: list[tuple[int, bytes]]
    streams: list[bytes]
    log: dict[int, list[Retired]]
    """By hart, what it retired."""

    @property
    def parameters(self) -> EtraceParameters:
        trace = self.config.trace
        return encoder_parameters(sources=self.config.harts, timed=trace.cycle_accurate, options=trace.etrace_options())

    def decode(
        self, core: int, data: bytes | None = None, cuts: Sequence[int] = (), **more: Any
    ) -> tuple[list[Row], EtraceDecoder]:
        """All rows of a core, of its stream or of these bytes instead, fed in pieces that end at the cuts."""
        stream = self.streams[core] if data is None else data
        decoder = EtraceDecoder(self.program, self.parameters, **more)
        return rows_of(decoder, pieces(stream, cuts)), decoder

    def retired(self, core: int, rows: Iterable[Row]) -> dict[int, list[Retired]]:
        """What each hart of a core retired, by its rows."""
        first = core * self.config.threads
        found: dict[int, list[Retired]] = {first + n: [] for n in range(self.config.threads)}
        for source, _, _, address, _, code, _ in rows:
            if code in (EXECUTED, NOT_TAKEN):
                found[source].append((address, code))
        return found

    def truth(self, core: int) -> dict[int, list[Retired]]:
        first = core * self.config.threads
        return {hart: self.log[hart] for hart in range(first, first + self.config.threads)}


def rows_of(decoder: EtraceDecoder, data: Iterable[bytes]) -> list[Row]:
    """All rows of a stream in pieces."""
    found: list[Row] = []
    for piece in data:
        decoder.feed(piece)
        while decoder.more():
            found += _all(decoder)
    decoder.finish()
    while decoder.more():
        found += _all(decoder)
    return found + _all(decoder)


def _all(decoder: EtraceDecoder) -> list[Row]:
    rows = decoder.take()
    return [rows[number] for number in range(len(rows))]


def pieces(data: bytes, cuts: Sequence[int]) -> Iterable[bytes]:
    ends = [*sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    start = 0
    for end in ends:
        yield data[start:end]
        start = end


def finished(processor: MachineProcessor, config: Config, program: list[tuple[int, bytes]], cycles: int) -> EtraceRun:
    """So many ticks of what has been started, without a host."""
    processor.log()
    processor.run(cycles)
    processor.end_trace()
    log: dict[int, list[Retired]] = {hart: [] for hart in range(config.harts)}
    for hart, _, _, address, what in processor.logged():
        if what in (EXECUTED, NOT_TAKEN):
            log[hart].append((address, what))
    return EtraceRun(config, program, [processor.trace(core) for core in range(config.cores)], log)


def run_example(name: str, shape: Shape, cycles: int, **trace: Any) -> EtraceRun:
    config = replace(config_of(name, shape), trace=TraceUnitConfig(enabled=True, format="etrace", **trace))
    return run_image(config, MachineImage.of(example(name)), cycles)


def run_image(config: Config, image: MachineImage, cycles: int) -> EtraceRun:
    processor = MachineProcessor(config)
    program = [(segment.address, segment.data) for segment in image.segments]
    for address, data in program:
        processor.write(address, data)
    processor.start(image.entry, image.tohost)
    return finished(processor, config, program, cycles)


def run_random(seed: int, cycles: int, **trace: Any) -> EtraceRun:
    """A random program, with traps and interrupts, on a random machine."""
    found = bench(random.Random(seed), trace=TraceUnitConfig(enabled=True, format="etrace", **trace))
    program = [(RAM, found.processor.read(RAM, 0x1_0000))]
    return finished(found.processor, found.config, program, cycles)
