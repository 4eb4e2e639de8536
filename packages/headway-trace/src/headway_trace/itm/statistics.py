"""What is in an ITM's stream, counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
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
    for number, (entries, ticks) in sorted(handlers.found.items()):
        yield stream.name, f"exception.{exception_name(number)}", "entries", entries
        yield stream.name, f"exception.{exception_name(number)}", "ticks", ticks
    for name, count in samples.most_common():
        yield stream.name, f"sample.{name}", "samples", count
    for prefix, unit, counts in (
        ("data", "accesses", watched),
        ("counter", "times", counters),
        ("gap", "gaps", losses),
    ):
        for name, count in sorted(counts.items()):
            yield stream.name, f"{prefix}.{name}", unit, count


class _Handlers:
    """How often each exception was entered, and the ticks that its handler then had, without those of others."""

    def __init__(self) -> None:
        self.found: dict[int, list[int]] = {}
        self._running: int | None = None
        self._since: tuple[int, int] | None = None
        """Epoch and tick at which that has begun."""

    def take(self, event: Event) -> None:
        if event.what is Happening.LOSS:
            self._running = None
            return
        if event.what not in EXCEPTIONS:
            return
        running, since, now = self._running, self._since, event.tick
        if running is not None and now is not None and since is not None and since[0] == event.epoch:
            self.found.setdefault(running, [0, 0])[1] += now - since[1]
        number = event.source or 0
        if event.what is Happening.ENTER:
            self.found.setdefault(number, [0, 0])[0] += 1
        self._running = None if event.what is Happening.EXIT or not number else number
        self._since = None if now is None else (event.epoch, now)
