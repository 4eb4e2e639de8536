"""What harts did last, from the end of their cores' traces: what led to the moment at which a debugger stops."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from headway.errors import HeadwayError
from headway_trace.threads._flow import ThreadDecoder
from headway_trace.threads.reading import STATES
from headway_trace.threads.segments import Segment, Segments

from .config import Config
from .image import MachineImage

__all__ = ["RecentTrace", "TracedRow"]

_KEPT = 1 << 16
"""Bytes of each core's stream that are kept, or three times those between two synchronisations if that is more."""


@dataclass(frozen=True, slots=True)
class TracedRow:
    """What a hart did: an instruction that it executed, a trap, a trigger marker behind an instruction, or a gap."""

    cycle: int | None
    """The cycle of its core in which it began; None: the trace has no cycles, or it is not known."""
    address: int
    state: str
    """As in trace-format.md: ``executed``, ``not_executed``, ``trap``, ``trigger``, ``unknown.overflow`` …"""


class RecentTrace:
    """The last bytes of each core's stream, decoded when somebody asks."""

    def __init__(self, config: Config, image: MachineImage) -> None:
        self._config, self._image = config, image
        self._kept = max(_KEPT, 3 * config.trace.sync)
        self._streams = [bytearray() for _ in range(config.cores)]

    def add(self, core: int, data: bytes) -> None:
        """Take more bytes of a core's stream."""
        kept = self._streams[core]
        kept += data[-2 * self._kept :]
        if len(kept) > 2 * self._kept:
            del kept[: -self._kept]

    def of(self, hart: int, rest: bytes, count: int) -> list[TracedRow]:
        """Return the last ``count`` rows of a hart, with ``rest`` as the end of its core's stream."""
        config = self._config
        if config.trace.format != "threads":
            raise HeadwayError("a trace of E-Trace cannot be shown here: headway trace shows its file")
        core, thread = divmod(hart, config.threads)
        strict = config.issue == "strict"
        decoder = ThreadDecoder(
            [(segment.address, segment.data) for segment in self._image.segments],
            threads=config.threads,
            strict=strict,
            cycle_accurate=config.trace.cycle_accurate,
            waypoints=not config.trace.cycle_accurate,
        )
        found: deque[TracedRow] = deque(maxlen=count)
        for _ in _decoded(decoder, bytes(self._streams[core]) + rest):
            rows = decoder.take().chosen(1 << thread, None, None, config.threads if strict else 1)
            for number in range(max(len(rows) - count, 0), len(rows)):
                _, cycle, _, address, _, what, _ = rows[number]
                found.append(TracedRow(cycle, address, STATES[what]))
        return list(found)


def _decoded(decoder: ThreadDecoder, stream: bytes) -> Iterator[None]:
    """Decode a stream, of which the beginning may be missing; pause each time that there are rows to take."""
    segments = Segments()
    last: Segment | None = None
    for segment in (*segments.feed(stream), *segments.finish()):
        if last is not None:
            decoder.feed(last)
            yield
            while decoder.more():
                yield
        last = segment
    decoder.finish(last)
    yield
