"""The events of an ITM's stream as rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ..decode import CSV_COLUMNS
from ..selection import Wanted
from .events import Event, Happening
from .stream import ItmStream
from .text import lines_of

__all__ = ["COLUMNS", "TEXT_COLUMNS", "event_rows", "place_of_event", "placed_rows", "text_rows"]

COLUMNS = (*CSV_COLUMNS, "uncertainty", "source", "value")
"""The columns of events; those of instructions, and three of their own."""
TEXT_COLUMNS = ("stream", "port", "cycle", "uncertainty", "time", "text")


def event_rows(stream: ItmStream, wanted: Wanted) -> Iterator[tuple[Any, ...]]:
    """Yield a row for each event that is wanted, with `COLUMNS`."""
    for event in stream.events():
        if _within(stream, event, wanted):
            place, symbol = place_of_event(stream, event)
            size = 0 if event.what is Happening.LOSS else event.width
            head = stream.name, None, event.tick, None, place, size, stream.state(event), symbol
            yield (*head, _earlier(event), event.source, _value(event))


def _within(stream: ItmStream, event: Event, wanted: Wanted) -> bool:
    """Return whether an event may be in the part of the time that is wanted."""
    if not wanted.timed:
        return True
    moment = stream.moment(event)
    if moment is None:
        return False
    return (wanted.begin is None or moment.time >= wanted.begin) and (wanted.end is None or moment.time < wanted.end)


def place_of_event(stream: ItmStream, event: Event) -> tuple[str | None, str]:
    """Return the address of an event, and the name of its function, exception or counters."""
    if event.address is None:
        return None, event.name
    return f"{event.address:#010x}", stream.image.symbol(event.address & ~1)


def _earlier(event: Event) -> int | None:
    """Return how many ticks earlier an event may have been; None: its time is unknown, or only the least."""
    return event.earlier if event.epoch == 0 else None


def _value(event: Event) -> str | None:
    """Return the value of an event, with as many digits as it has."""
    return None if event.value is None else f"{event.value:#0{2 + 2 * event.width}x}"


def placed_rows(stream: ItmStream) -> Iterator[tuple[Any, ...]]:
    """Yield a row for each event with its common time: stream, thread, time, uncertainty, cycles, address …, symbol."""
    for event in stream.events():
        moment, (place, symbol) = stream.moment(event), place_of_event(stream, event)
        when = (round(moment.time, 3), round(moment.uncertainty, 3)) if moment is not None else (None, None)
        yield stream.name, None, *when, None, place, event.width, stream.state(event), symbol


def text_rows(streams: Sequence[ItmStream], ports: Sequence[int]) -> Iterator[tuple[Any, ...]]:
    """Yield a row for each line of text that was written to stimulus ports, with `TEXT_COLUMNS`."""
    for stream in streams:
        for line in lines_of(stream.events(), ports):
            moment = stream.moment(line.event)
            time = None if moment is None else round(moment.time, 3)
            text = line.text if line.event.what is not Happening.LOSS else f"[{stream.state(line.event)}]"
            yield stream.name, line.event.source, line.event.tick, _earlier(line.event), time, text
