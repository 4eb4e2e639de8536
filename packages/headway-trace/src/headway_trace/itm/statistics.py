"""What is in an ITM's stream, counted."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from .answers import place_of_event
from .events import EXCEPTIONS, Event, Happening
from .exceptions import exception_name
from .stream import ItmStream

__all__ = ["statistics_rows"]


def statistics_rows(stream: ItmStream) -> Iterator[tuple[Any, ...]]:
    """Yield what is in the stream: bytes, packets by kind, and what they say."""
    found = stream.stream.statistics()
    yield stream.name, "size", "bytes", found.size
    for kind, count in found.packets.items():
        yield stream.name, f"packet.{kind.title}", "bytes" if kind <= 1 else "packets", count
    written, samples, losses, counters, watched = (Counter[str]() for _ in range(5))
    handlers = _Handlers()
    for event in stream.events():
        handlers.take(event)
        if event.what is Happening.WRITE:
            written[f"{event.source:03}"] += event.width
        elif event.what is Happening.SAMPLE:
            samples[place_of_event(stream, event)[1] or f"{event.address or 0:#010x}"] += 1
        elif event.what in (Happening.ASLEEP, Happening.PROHIBITED):
            samples[event.what.value.rpartition(".")[2]] += 1
        elif event.what is Happening.LOSS and event.why is not None:
            losses[event.why.state] += 1
        elif event.what is Happening.COUNTERS:
            counters.update(event.name.split())
        elif event.what in (Happening.READ, Happening.WRITTEN):
            watched[f"{event.source}.{event.what.value.rpartition('.')[2]}"] += 1
    for port, count in sorted(written.items()):
        yield stream.name, f"stimulus.{int(port)}", "bytes", count
    for number, handler in sorted(handlers.found.items()):
        yield stream.name, f"exception.{exception_name(number)}", "entries", handler.entries
        unit = "ticks, at least" if handler.timed and handler.untimed else "ticks"
        yield stream.name, f"exception.{exception_name(number)}", unit, handler.ticks if handler.timed else None
    for name, count in samples.most_common():
        yield stream.name, f"sample.{name}", "samples", count
    for prefix, unit, counts in (
        ("data", "accesses", watched),
        ("counter", "times", counters),
        ("gap", "gaps", losses),
    ):
        for name, count in sorted(counts.items()):
            yield stream.name, f"{prefix}.{name}", unit, count


@dataclass(slots=True)
class _Handler:
    """How often an exception was entered, and the ticks that its handler had, without those of others.

    They are of ``timed`` stretches; of ``untimed`` ones it is not known how long they were.
    """

    entries: int = 0
    ticks: int = 0
    timed: int = 0
    untimed: int = 0


class _Handlers:
    """The handlers by the numbers of their exceptions."""

    def __init__(self) -> None:
        self.found: defaultdict[int, _Handler] = defaultdict(_Handler)
        self._running: int | None = None
        self._since: tuple[int, int] | None = None
        """Epoch and tick at which that has begun."""

    def take(self, event: Event) -> None:
        """Go on to the next event."""
        if event.what is not Happening.LOSS and event.what not in EXCEPTIONS:
            return
        if self._running is not None:
            handler = self.found[self._running]
            if event.what is Happening.LOSS or event.tick is None or (self._since or (-1,))[0] != event.epoch:
                handler.untimed += 1
            else:
                handler.timed += 1
                handler.ticks += event.tick - (self._since or (0, 0))[1]
        self._running = None
        if event.what is Happening.LOSS:
            return
        number = event.source or 0
        if event.what is Happening.ENTER:
            self.found[number].entries += 1
        if event.what is not Happening.EXIT and number:
            self._running = number
        self._since = None if event.tick is None else (event.epoch, event.tick)
