"""Trace files of the machine (.hwt): files that are damaged, and hostile packets behind right checks."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from io import BytesIO
from random import Random
from typing import Any

from tests.fuzz.mutation import interesting, mutated, number, varint, word
from tests.fuzz.target import MemoryFile, Target
from tests.machine.examples import Shape, config_of, program
from tests.trace.threads.files import older_file
from tests.trace.threads.runs import run

from headway_machine.config import Config, TraceUnitConfig
from headway_machine.image import MachineImage
from headway_trace.threads._mending import WIDTH
from headway_trace.threads.container import MachineShape, TraceFile, TraceFileWriter, digest_of
from headway_trace.threads.reading import Trace, TracedProgram, functions_of

PATTERN = b"\0\0\0\0\0\x80\x42"
_TAIL = 1 + 4 + 3 + WIDTH
_HEAD = len(PATTERN) + _TAIL
_RUNS: tuple[tuple[str, Shape, int, dict[str, Any]], ...] = (
    ("sort", (1, 6, "strict"), 9_000, {}),
    ("integer", (2, 2, "skip"), 4_000, {"window": 256}),
    ("utilisation", (1, 6, "skip"), 300, {"all_targets": True}),
    ("interrupt-storm", (1, 1, "strict"), 6_000, {"cycle_accurate": False}),
)
"""The example, its machine, how many ticks of it, and the settings of its trace unit."""


def tail_of(segment: bytes) -> bytes:
    """Return what the head after a segment says of it: mask, check, length and parity."""
    columns = bytearray(WIDTH)
    for at in range(min(WIDTH, len(segment))):
        for byte in segment[at::WIDTH]:
            columns[at] ^= byte
    told = zlib.crc32(segment).to_bytes(4, "little") + (len(segment) & 0xFFFFFF).to_bytes(3, "little") + columns
    mask = next(byte for byte in range(1, 256) if byte not in told)
    return bytes([mask]) + bytes(byte ^ mask for byte in told)


def framed(bodies: list[tuple[int, bytes]]) -> bytes:
    """Return a stream of segments, each a number and what follows it in the segment, with right heads."""
    found, before = [], b""
    for place, body in bodies:
        before = PATTERN + tail_of(before) + word(place, "<H") + body
        found.append(before)
    return b"".join(found)


def divided(stream: bytes) -> list[tuple[int, bytes]]:
    """Return the segments of a stream as `framed` takes them."""
    pieces = stream.split(PATTERN)[1:]
    return [
        (int.from_bytes(piece[_TAIL : _TAIL + 2], "little"), piece[_TAIL + 2 :])
        for piece in pieces
        if len(piece) > _TAIL + 2
    ]


class HwtTarget(Target):
    """Trace files, decoded with the program that ran."""

    name = "hwt"

    def __init__(self) -> None:
        self._file = MemoryFile("fuzz.hwt")

    @cached_property
    def _traced(self) -> list[tuple[MachineShape, list[bytes], TracedProgram]]:
        found = []
        for example, shape, ticks, settings in _RUNS:
            config: Config = replace(
                config_of(example, shape),
                trace=TraceUnitConfig(enabled=True, sync=64, **settings),
            )
            image = MachineImage.of(program(example))
            segments = tuple((one.address, one.data) for one in image.segments)
            streams = [stream[:6000] for stream in run(config, image, ticks).streams]
            described = MachineShape(
                config.cores, config.threads, config.issue == "strict", config.trace.cycle_accurate,
                config.power.window, digest_of(segments), example,
            )  # fmt: skip
            found.append((described, streams, TracedProgram(segments, functions_of(image.functions))))
        return found

    @cached_property
    def seeds(self) -> list[bytes]:
        """Return traces of example programs."""
        return [_written(shape, streams) for shape, streams, _ in self._traced]

    @cached_property
    def _programs(self) -> dict[str, TracedProgram]:
        return {shape.program: found for shape, _, found in self._traced}

    def make(self, random: Random) -> bytes:
        """Change the file, its streams, the packets of these, or make packets."""
        which = random.randrange(len(self._traced))
        shape, streams, found = self._traced[which]
        kind = random.random()
        if kind < 0.2:
            whole = self.seeds[which] if kind < 0.1 else _older(random, shape, streams)
            return mutated(random, whole, self.seeds)
        changed, core = list(streams), random.randrange(len(streams))
        if kind < 0.3:
            changed[core] = mutated(random, streams[core], streams)
        elif kind < 0.65:
            changed[core] = framed(_changed(random, divided(streams[core]), streams))
        else:
            changed[core] = framed(list(_segments(random, shape, found)))
        if random.random() < 0.1:
            limits = {"cores": 16, "threads": 8, "window": 1 << 20}
            values = {key: random.randrange(1, most + 1) for key, most in limits.items() if random.random() < 0.5}
            shape = replace(shape, strict=random.random() < 0.5, **values)  # type: ignore[arg-type]
        return _written(shape, changed[: shape.cores])

    def read(self, data: bytes, random: Random) -> None:
        """Ask for the statistics, for the rows or for one moment."""
        recording = TraceFile(self._file.fill(data))
        trace = Trace(recording, self._programs.get(recording.shape.program))
        core, question = random.randrange(recording.shape.cores), random.randrange(4)
        if question == 0:
            trace.statistics(core)
        elif question == 1:
            for _ in trace.csv(core, stalls=True):
                pass
        elif question == 2:
            clock = trace.clock(core)
            trace.at(min(number(random), max(clock.end - 1, 0)), core)
            assert clock.rate is None or clock.rate == clock.rate
        else:
            for rows in trace.rows(core, stalls=True):
                for at in range(len(rows)):
                    _check(rows[at], rows.span(at))

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _check(row: tuple[int, int | None, int | None, int, int, int, int], span: tuple[int, int] | None) -> None:
    thread, cycle, cycles, _, _, what, _ = row
    assert 0 <= thread < 8
    assert cycle is None or 0 <= cycle < 1 << 63
    assert cycles is None or 0 <= cycles < 1 << 63, f"{cycles} cycles of {what}"
    assert span is None or 0 <= span[0] <= span[1]


def _written(shape: MachineShape, streams: list[bytes]) -> bytes:
    stream = BytesIO()
    writer = TraceFileWriter(stream, shape)
    for core, data in enumerate(streams):
        writer.add(core, data)
    writer.close()
    return stream.getvalue()


def _older(random: Random, shape: MachineShape, streams: list[bytes]) -> bytes:
    """Return a file of version 2 or 3, with several chunks of each core."""
    size = random.randrange(500, 4000)
    chunks = [
        (core, data[at : at + size])
        for at in range(0, max(map(len, streams)), size)
        for core, data in enumerate(streams)
        if at < len(data)
    ]
    return older_file(shape, chunks, version=2 if shape.cycle_accurate else 3)


def _changed(random: Random, bodies: list[tuple[int, bytes]], streams: list[bytes]) -> list[tuple[int, bytes]]:
    """Change packets of segments, which keep right heads, and lose, repeat or renumber segments."""
    for _ in range(random.randrange(1, 4)):
        if not bodies:
            break
        at, kind = random.randrange(len(bodies)), random.random()
        place, body = bodies[at]
        if kind < 0.8:
            bodies[at] = place, mutated(random, body, streams, 3)
        elif kind < 0.9:
            bodies[at] = place + random.randrange(-2, 3), body
        elif kind < 0.95:
            del bodies[at]
        else:
            bodies.insert(at, bodies[random.randrange(len(bodies))])
    return bodies


def _segments(random: Random, shape: MachineShape, found: TracedProgram) -> Iterator[tuple[int, bytes]]:
    """Make segments of valid packets, whose numbers are at the edges of what they may be."""
    place = random.choice((0, 0, 0, 1, 65535))
    for _ in range(random.randrange(1, 5)):
        speed = random.choice((16, 16, random.randrange(64)))
        clock = varint(number(random)) + varint(number(random)) + bytes([0x80 | speed | random.randrange(2) << 6])
        body = clock + varint(number(random)) + varint(random.randrange(3))
        for _ in range(random.randrange(30)):
            body += _packet(random, shape, found)
        yield place, body
        place += 1 if random.random() < 0.95 else 2
    if random.random() < 0.8:  # the heads with which a trace ends
        for more in range(2):
            yield place + more, varint(number(random)) + varint(0) + b"\xd0" + varint(shape.window) + b"\0"


def _packet(random: Random, shape: MachineShape, found: TracedProgram) -> bytes:
    thread = random.randrange(shape.threads + (random.random() < 0.02))
    kind = random.randrange(24)
    if kind < 6:
        return bytes([0x80 | random.getrandbits(6) << 1])
    if kind < 9:
        cycles = random.choice((0, 1, 255, 0xFFF, 0xFFFFFFF, random.getrandbits(28)))
        return b"\x44" + word(cycles << 4 | random.randrange(16))
    if kind == 9:
        return b"\x04" + random.randbytes(2)
    if kind == 10:
        return bytes([random.randrange(16) << 3 | 2, random.getrandbits(8)])
    if kind < 16:
        form = random.choice((0, 1, 3, 3))
        head = bytes([random.choice((0x08, 0x70)), 0x80 | random.randrange(4) << 5 | form << 3 | thread])
        count = varint(number(random)) if form == 3 else random.randbytes(2) if form == 1 else b""
        return head + count + b"\x80" + interesting(random, 4) + _address(random, found)
    if kind == 16:
        return bytes([thread << 4 & 0x70 | 0x0E])
    if kind == 17:
        return b"\x48" + varint(number(random)) + varint(number(random)) + b"\x90" + varint(number(random)) + b"\0"
    if kind == 18:
        return b"\x30" + b"".join(varint(number(random)) for _ in range(7))
    if kind == 19:
        return b"\x34" + _address(random, found)
    if kind == 20:
        address = int.from_bytes(_address(random, found), "little")
        head = bytes(
            [address << 0 & 0x7E | 0x81, address >> 7 & 0x7F | 0x80, address >> 14 & 0x7F | 0x80,
             address >> 21 & 0x7F | 0x80, address >> 28 & 15 | random.choice((0, 0x40))]
        )  # fmt: skip
        return head + (random.randbytes(6) if head[4] & 0x40 else b"")
    return random.choice((b"\x0c", b"\x60", b"\x14" + random.randbytes(4), random.randbytes(2), b"\x00" * 6))


def _address(random: Random, found: TracedProgram) -> bytes:
    start, data = random.choice(found.segments)
    return word(start + 2 * random.randrange(len(data) // 2 + 2) if random.random() < 0.9 else number(random))


TARGET = HwtTarget
