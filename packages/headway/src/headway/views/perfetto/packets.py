"""The packets of a Perfetto trace other than events: the sequence, tracks, interned names, clocks.

Source: Perfetto, protos/perfetto/trace/trace_packet.proto, interned_data/interned_data.proto, clock_snapshot.proto,
track_event/track_descriptor.proto, counter_descriptor.proto, process_descriptor.proto and thread_descriptor.proto.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from ._events import PerfettoEvents
from .wire import integer, message, text

__all__ = ["MONOTONIC", "REALTIME", "PerfettoTrace", "annotated"]

REALTIME, MONOTONIC = 1, 3
"""The clocks (protos/perfetto/common/builtin_clock.proto)."""
_SEQUENCE = integer(10, 1)
_CLEARED, _NEEDS_STATE = 1, 2
_MAX_NAMES = 1 << 20
_NAMES, _CATEGORIES, _NOTES, _WORDS = 2, 1, 3, 29
"""The fields of InternedData."""
_EXPLICIT = 3
"""A value of TrackDescriptor.ChildTracksOrdering."""


class PerfettoTrace:
    """A trace that is being written by `events`. Its names are interned."""

    def __init__(self, write: Callable[[bytes], object], *, clock: int | None = None) -> None:
        """``clock``: the clock of all times; None: none that Perfetto knows."""
        self.events = PerfettoEvents(write)
        self._clock = clock
        self._known: dict[int, dict[str, int]] = {kind: {} for kind in (_NAMES, _CATEGORIES, _NOTES, _WORDS)}
        defaults = message(59, *([] if clock is None else [integer(58, clock)]))
        self.events.packet(_SEQUENCE + integer(13, _CLEARED | _NEEDS_STATE) + integer(87, 1) + defaults)

    def same_time(self, times: Mapping[int, int]) -> None:
        """Write what several clocks showed at one instant (ns)."""
        clocks = [message(1, integer(1, clock), integer(2, time)) for clock, time in times.items()]
        primary = [] if self._clock is None else [integer(2, self._clock)]
        self.events.packet(_SEQUENCE + message(6, *clocks, *primary))

    def name(self, name: str) -> int:
        """Return the number of a slice's name."""
        return self._number(_NAMES, name)

    def name_if_room(self, name: str) -> int:
        """Return the number of a slice's name, or 0 if too many are interned.

        Then each slice must have the name itself.
        """
        known = self._known[_NAMES]
        return self._number(_NAMES, name) if len(known) < _MAX_NAMES or name in known else 0

    def category(self, name: str) -> int:
        """Return the number of a category."""
        return self._number(_CATEGORIES, name)

    def note(self, name: str) -> int:
        """Return the number of an annotation's name."""
        return self._number(_NOTES, name)

    def word(self, word: str) -> int:
        """Return the number of a text in annotations."""
        return self._number(_WORDS, word)

    def _number(self, kind: int, name: str) -> int:
        known = self._known[kind]
        number = known.get(name)
        if number is None:
            number = known[name] = len(known) + 1
            interned = message(kind, integer(1, number), text(2, name))
            self.events.packet(_SEQUENCE + integer(13, _NEEDS_STATE) + message(12, interned))
        return number

    def track(self, track: int, name: str, *, parent: int | None = None, rank: int | None = None) -> None:
        """Describe a track. Must come before its events. ``rank``: its position among its parent's tracks."""
        self._describe(track, parent, text(2, name), *([] if rank is None else [integer(12, rank)]))

    def group(self, track: int, name: str, rank: int) -> None:
        """Describe a track that contains others, which are sorted by their ranks."""
        self._describe(track, None, text(2, name), integer(11, _EXPLICIT), integer(12, rank))

    def process(self, track: int, pid: int, name: str) -> None:
        """Describe the track of a process."""
        self._describe(track, None, message(3, integer(1, pid), text(6, name)))

    def thread(self, track: int, pid: int, tid: int, name: str) -> None:
        """Describe the track of a thread, which belongs to the process with that pid."""
        self._describe(track, None, message(4, integer(1, pid), integer(2, tid), text(5, name)))

    def counter(self, track: int, name: str, unit: str, parent: int) -> None:
        """Describe the track of a counter."""
        self._describe(track, parent, text(2, name), message(8, text(6, unit)))

    def _describe(self, track: int, parent: int | None, *fields: bytes) -> None:
        above = [] if parent is None else [integer(5, parent)]
        self.events.packet(_SEQUENCE + message(60, integer(1, track), *above, *fields))


def annotated(notes: Iterable[tuple[int, int | str]]) -> bytes:
    """Return annotations as fields of an event, by the numbers of their names. Integers are below 2^63."""
    return b"".join(
        message(4, integer(1, name), text(6, value) if isinstance(value, str) else integer(4, value))
        for name, value in notes
    )
