"""What the packets of an ITM and a DWT say, and when.

A local timestamp says how many ticks have passed since the one before, and belongs to all packets since then. Its TC
field says whether it, or the packets, came late; these then happened at most so many ticks earlier. Ticks are those of
the ITM's timestamp clock: the processor's clock, unless TSPrescale divides it.

What is lost is an event, too. Time is counted on over a loss, so a tick after it is the least that it may be; a new
epoch begins, within which differences are exact.

- A stream is read from its first synchronisation packet on; what comes before is believed if it is whole packets up
  to that. After damage everything up to the next synchronisation packet is left out. A stream that has none is read as
  far as it goes.
- The page of stimulus ports is that of the last extension packet that is believed.
- An overflow packet says that packets are missing, or that the counter of local timestamps went round.

Source: ARM DDI 0403E.e, C1.7, C1.8 and appendix D4.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum
from typing import NamedTuple

from .._packets import Packets
from ..packets import Packet, PacketKind
from ..records import Timestamp, Why
from .exceptions import exception_name

__all__ = ["EXCEPTIONS", "Event", "Happening", "events_of"]

_HELD = 1 << 16
"""Packets that wait for a timestamp, or for the first synchronisation, at most."""
_LOW = 26
"""Bits of a global timestamp in format 1."""


class Happening(Enum):
    """What an event is, by the name of its state."""

    WRITE = "stimulus"
    ENTER = "exception.enter"
    EXIT = "exception.exit"
    RETURN = "exception.return"
    SAMPLE = "sample"
    ASLEEP = "sample.asleep"
    PROHIBITED = "sample.prohibited"
    READ = "data.read"
    WRITTEN = "data.write"
    PLACE = "data.pc"
    OFFSET = "data.address"
    MATCH = "data.match"
    COUNTERS = "counter"
    RESERVED = "hardware"
    LOSS = "unknown"


EXCEPTIONS = (Happening.ENTER, Happening.EXIT, Happening.RETURN)
"""What tells of exceptions."""
_FUNCTIONS = {1: Happening.ENTER, 2: Happening.EXIT, 3: Happening.RETURN}
_PROHIBITED = 0xFF
_PAGELESS = 0x84
"""Bits of an extension's header: of a DWT, or with a payload."""
_COUNTERS = ("CPI", "exception", "sleep", "LSU", "fold", "POSTCNT")
"""The counters by their bits."""


class Event(NamedTuple):
    """Something that a program or its processor told.

    ``start`` and ``end`` are its bytes of the stream. ``tick`` is when it happened, None if that is not known;
    ``earlier`` how many ticks earlier it may have been, None if that is not known. ``source`` is the stimulus port, the
    number of the exception, of the comparator, or of the hardware source. ``address``: of a sample, and of the
    instruction of an access. ``value``: what was written, or the low 16 bits of the address of an access, in ``width``
    bytes; the counters that went round, a bit each. ``why``: of a loss.
    """

    what: Happening
    start: int
    end: int
    tick: int | None = None
    earlier: int | None = None
    epoch: int = 0
    source: int | None = None
    address: int | None = None
    value: int | None = None
    width: int = 0
    why: Why | None = None

    @property
    def name(self) -> str:
        """The name of an exception, or the counters that went round; else empty."""
        if self.what in EXCEPTIONS:
            return exception_name(self.source or 0)
        if self.what is Happening.COUNTERS:
            return " ".join(name for bit, name in enumerate(_COUNTERS) if (self.value or 0) >> bit & 1)
        return ""

    @property
    def data(self) -> bytes:
        """The value as it was written."""
        return (self.value or 0).to_bytes(self.width, "little")


def events_of(blocks: Iterable[Packets | int], *, synchronises: bool) -> Iterator[Event | Timestamp]:
    """Yield the events of one stream and its global timestamps, in order.

    ``blocks`` are its packets; a number stands where bytes are missing, and is how many have come before.
    ``synchronises``: there are synchronisation packets in it.
    """
    clock = _Clock()
    for packet in _trusted(blocks, synchronises):
        yield from clock.take(packet)
    yield from clock.flush()


class _Loss(NamedTuple):
    """Bytes of the stream that are not known, and why."""

    why: Why
    start: int
    end: int


def _trusted(blocks: Iterable[Packets | int], synchronises: bool) -> Iterator[Packet | _Loss]:
    """Yield packets that are to be believed, and a loss where there are others."""
    held: list[Packet] | None = [] if synchronises else None
    lost: int | None = None
    why, end = Why.DAMAGE, 0
    for packet in _flat(blocks):
        if isinstance(packet, _Loss):
            if held is not None:
                held, lost, why = None, 0, Why.UNSYNCHRONISED
            elif lost is None:
                if not synchronises:
                    yield packet
                    continue
                lost, why = packet.start, Why.DAMAGE
            continue
        end = packet.offset + packet.size
        if packet.kind in (PacketKind.NOISE, PacketKind.INCOMPLETE):
            if held is not None:
                held, lost, why = None, 0, Why.UNSYNCHRONISED
            elif lost is None:
                lost, why = packet.offset, Why.TRUNCATED if packet.kind == PacketKind.INCOMPLETE else Why.DAMAGE
            if not synchronises:
                yield _Loss(why, packet.offset, end)
                lost = None
            continue
        if packet.kind == PacketKind.ALIGNMENT:
            if lost is not None:
                yield _Loss(why, lost, packet.offset)
                lost = None
            if held is not None:
                yield from held
                held = None
        elif held is not None:
            if packet.kind == PacketKind.HARDWARE:  # more likely what is in the middle of another
                held, lost, why = None, 0, Why.UNSYNCHRONISED
                continue
            held.append(packet)
            if len(held) > _HELD:
                yield from held
                held = None
        elif lost is None:
            yield packet
    yield from held or ()
    if lost is not None:
        yield _Loss(why, lost, end)


def _flat(blocks: Iterable[Packets | int]) -> Iterator[Packet | _Loss]:
    for block in blocks:
        if isinstance(block, int):
            yield _Loss(Why.DAMAGE, block, block)
        else:
            yield from block


class _Clock:
    """The times of a stream's packets. Packets wait for the timestamp that belongs to them."""

    def __init__(self) -> None:
        self._now = self._epoch = 0
        self._held: list[_Held] = []
        self._lost = False  # since the last local timestamp
        self._fresh = False  # nothing came since it
        self._low: int | None = None
        self._high: int | None = None
        self._page = 0

    def take(self, packet: Packet | _Loss) -> Iterator[Event | Timestamp]:
        if isinstance(packet, _Loss):
            yield from self._lose(packet.why, packet.start, packet.end)
        elif packet.kind == PacketKind.LOST:
            yield from self._lose(Why.OVERFLOW, packet.offset, packet.offset + packet.size)
        elif packet.kind == PacketKind.LOCAL:
            yield from self._pass(packet)
        elif packet.kind == PacketKind.TIMESTAMP:
            yield from self._global(packet)
        elif packet.kind == PacketKind.EXTENSION:
            if not packet.header & _PAGELESS:
                self._page = packet.value
        elif (told := _told_by(packet, self._page)) is not None:
            self._fresh = False
            self._held.append((packet.offset, packet.offset + packet.size, *told))
            if len(self._held) > _HELD:
                yield from self.flush()

    def flush(self) -> Iterator[Event]:
        """Yield what waits, without a time."""
        for start, end, what, more in self._held:
            yield Event(what, start, end, None, None, self._epoch, *more)
        self._held.clear()

    def _lose(self, why: Why, start: int, end: int) -> Iterator[Event]:
        self._fresh, self._lost = False, True
        if why is not Why.OVERFLOW:  # timestamps may be among what was lost; an overflow takes packets of sources only
            self._low = self._high = None
            yield from self.flush()
        self._held.append((start, end, Happening.LOSS, (None, None, None, 0, why)))

    def _pass(self, packet: Packet) -> Iterator[Event]:
        self._now += packet.value
        earlier: int | None = packet.value if packet.reason else 0
        if self._lost:
            self._epoch += 1
            earlier = None
        for start, end, what, more in self._held:
            yield Event(what, start, end, self._now, earlier, self._epoch, *more)
        self._held.clear()
        self._lost, self._fresh = False, True

    def _global(self, packet: Packet) -> Iterator[Timestamp]:
        if packet.context == 2:
            self._high = packet.value
        else:
            if packet.bits < _LOW and self._low is None:
                return
            self._low = packet.value | (self._low or 0) >> packet.bits << packet.bits
            if packet.reason & 2:  # ticks of another clock from here on
                self._epoch += 1
            if packet.reason & 1:  # the high bits have changed, and follow
                self._high = None
        if self._high is not None and self._low is not None:
            cycle = self._now if self._fresh and not self._lost else None
            yield Timestamp(self._high << _LOW | self._low, cycle, self._epoch, packet.offset)


_Details = tuple[int | None, int | None, int | None, int, Why | None]
"""Source, address, value, width and why of an event."""
_Held = tuple[int, int, Happening, _Details]
"""What an event is before its time is known: its first byte, the byte after it, what it is, and details."""


def _told_by(packet: Packet, page: int) -> tuple[Happening, _Details] | None:
    """Return what a packet of a source says; None: it is of no source. ``page``: bits 7:5 of stimulus ports."""
    kind, value, width, which = packet.kind, packet.value, packet.bits // 8, packet.context
    if kind == PacketKind.INSTRUMENTATION:
        return Happening.WRITE, (page << 5 | which, None, value, width, None)
    if kind == PacketKind.RAISED:
        return _FUNCTIONS[packet.reason], (which, None, None, 0, None)
    if kind == PacketKind.SAMPLE:
        if width == 1:
            return Happening.PROHIBITED if value == _PROHIBITED else Happening.ASLEEP, (None, None, None, 0, None)
        return Happening.SAMPLE, (None, value, None, 0, None)
    if kind == PacketKind.COUNTERS:
        return Happening.COUNTERS, (None, None, value, width, None)
    if kind == PacketKind.HARDWARE:
        return Happening.RESERVED, (which, None, value, width, None)
    if kind != PacketKind.DATA:
        return None
    comparator = which >> 1 & 3
    if which >= 16:
        return Happening.WRITTEN if which & 1 else Happening.READ, (comparator, None, value, width, None)
    if width == 1:
        return Happening.MATCH, (comparator, None, None, 0, None)
    if which & 1:
        return Happening.OFFSET, (comparator, None, value, width, None)
    return Happening.PLACE, (comparator, value, None, 0, None)
