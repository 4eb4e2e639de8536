"""Text that a program writes to stimulus ports, a line at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from .events import Event, Happening

__all__ = ["Line", "lines_of"]

_LONGEST = 4096
"""Bytes of a line, after which it is taken to end."""


class Line(NamedTuple):
    """A line, and the write that began it; or a loss, without a text, after which lines begin anew."""

    event: Event
    text: str


def lines_of(events: Iterable[Event], ports: Sequence[int] = ()) -> Iterator[Line]:
    """Yield the lines of each port (of these ports; none: all), in the order in which they end.

    A write of several bytes has its lowest byte first. What is no UTF-8 becomes escapes.
    """
    begun: dict[int, Event] = {}
    written: dict[int, bytearray] = {}
    for event in events:
        if event.what is Happening.LOSS:
            yield from _rest(begun, written)
            yield Line(event, "")
        elif event.what is Happening.WRITE and event.source is not None and (not ports or event.source in ports):
            for byte in event.data:
                begun.setdefault(event.source, event)
                found = written.setdefault(event.source, bytearray())
                if byte != ord("\n"):
                    found.append(byte)
                if byte == ord("\n") or len(found) >= _LONGEST:
                    yield Line(begun.pop(event.source), _decoded(found))
                    found.clear()
    yield from _rest(begun, written)


def _rest(begun: dict[int, Event], written: dict[int, bytearray]) -> Iterator[Line]:
    for port, event in sorted(begun.items()):
        if written[port]:
            yield Line(event, _decoded(written[port]))
    begun.clear()
    written.clear()


def _decoded(data: bytearray) -> str:
    return data.rstrip(b"\r").decode("utf-8", "backslashreplace").replace("\0", "")
