"""One ITM's stream of a capture: its events in order, and how its ticks lie in the common time."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import cached_property

from .._packets import Packets
from ..alignment import AlignedTime, Fit, fit
from ..decode import Stream
from ..packets import PacketKind
from ..records import Timestamp
from .events import Event, Happening, events_of

__all__ = ["ItmStream"]


class ItmStream:
    """The stream of an ITM. ``stream`` has its bytes, and the program whose functions it names."""

    def __init__(self, stream: Stream) -> None:
        self.stream, self.image, self.id = stream, stream.image, stream.id
        self.name = f"{stream.id:#x}"

    @cached_property
    def _kinds(self) -> Collection[PacketKind]:
        return self.stream.statistics().packets.keys()

    @property
    def timed(self) -> bool:
        """Whether it has local timestamps."""
        return PacketKind.LOCAL in self._kinds

    def _blocks(self) -> Iterator[Packets | int]:
        parser, size = self.stream.setting.parser(), 0
        for piece in self.stream.pieces():
            if isinstance(piece, int):
                yield parser.lost()
                yield size
            else:
                size += len(piece)
                yield parser.feed(piece)
        yield parser.finish()

    def records(self) -> Iterator[Event | Timestamp]:
        """Yield the events and the global timestamps, in order."""
        return events_of(self._blocks(), synchronises=PacketKind.ALIGNMENT in self._kinds)

    def events(self) -> Iterator[Event]:
        """Yield the events, in order."""
        return (record for record in self.records() if isinstance(record, Event))

    @cached_property
    def fit(self) -> Fit:
        """How its ticks lie in the common time."""
        return fit(record for record in self.records() if isinstance(record, Timestamp))

    def moment(self, event: Event) -> AlignedTime | None:
        """Return the common time of an event, with its uncertainty; None: it is not known."""
        if event.tick is None or self.fit.rate is None:
            return None
        found = self.fit.moment(event.epoch, event.tick)
        if not isinstance(found, AlignedTime):
            return None
        return AlignedTime(found.time, found.uncertainty + (event.earlier or 0) / self.fit.rate)

    def time_of(self, tick: int) -> float | None:
        """Return the common time of a tick of the first epoch; None: it is not known."""
        found = self.fit.moment(0, tick)
        return found.time if isinstance(found, AlignedTime) else None

    def state(self, event: Event) -> str:
        """Return the name of an event's state; of a loss with its bytes of the buffer."""
        if event.what is Happening.LOSS and event.why is not None:
            return self.stream.gap_state(event.why, event.start, event.end)
        return event.what.value
