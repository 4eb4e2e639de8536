"""A trace file with the program that ran: what every thread did, in order or at one cycle.

Decoding is one pass over a core's stream in bounded memory. To tell what every thread was doing at one cycle, a first
pass keeps the decoder's state from time to time, so that the answer needs only a small part of the stream again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from headway.errors import HeadwayError, SelectionError
from headway_trace._records import SymbolCells
from headway_trace.selection import Wanted

from ._flow import ThreadDecoder, ThreadRows, count_packets
from .clock import Clock
from .container import NOT_COUNTED, WAYPOINTS, TraceFile, digest_of
from .segments import Order, Segment, Segments

__all__ = [
    "PACKETS",
    "STATES",
    "STOPPED",
    "CoreStatistics",
    "ThreadMoment",
    "Trace",
    "TracedProgram",
    "functions_of",
    "state_of",
]

STATES: Mapping[int, str] = {
    0: "executing",
    1: "stall.data",
    2: "stall.refill",
    3: "stall.slot",
    4: "stall.fetch",
    5: "stall.fetch_external",
    6: "stall.load",
    7: "stall.load_external",
    9: "stall.store",
    10: "stall.store_external",
    11: "stall.tlb",
    12: "idle.c1",
    13: "idle.c2",
    14: "idle.c3",
    15: "idle.wake",
    16: "executed",
    17: "not_executed",
    18: "trap",
    19: "trigger",
    32: "unknown.unsynchronised",
    33: "unknown.trace_off",
    34: "unknown.overflow",
    35: "unknown.damage",
    36: "unknown.contradiction",
    37: "unknown.image",
    38: "unknown.code_changed",
    39: "unknown.cut_off",
}
"""What a thread does in a cycle, by its code in docs/trace-format.md. Codes from 32 on tell why it is not known.

A trigger has no cycle: it follows the instruction that fired.
"""
PACKETS = (
    "no packet",
    "A-sync",
    "I-sync periodic",
    "I-sync restart",
    "P-header",
    "branch address",
    "cycle count",
    "clock",
    "thread select",
    "trigger",
    "trace off",
    "code changed",
    "profile",
    "check",
    "steps",
)
STOPPED = "clock.stopped"
"""The state at a moment at which the core's clock stands still: throttled, or by a system-management interrupt."""
_MAX_MARKERS = 1 << 16
"""The number of trigger markers that `Trace.at` knows."""
_EVERY = 1 << 15
"""Bytes of a stream between two states of the decoder that are kept."""
_TRACE_OFF, _DAMAGE = 33, 35
_LOCATED = bytes([32, 34, 35, 36, 39])
"""Codes of gaps that are shown with the bytes from which they come."""
_PADDED = [STATES.get(code, f"unknown.{code}").encode() for code in range(256)]


class SourceLines(Protocol):
    """What knows the source of an address."""

    def at(self, address: int) -> str:
        """Return ``file:line`` of the source, or ""."""


@dataclass(frozen=True, slots=True)
class TracedProgram:
    """A program: ``segments`` (address, bytes) in order, ``functions`` (start, end, name) by start, source lines."""

    segments: tuple[tuple[int, bytes], ...]
    functions: tuple[tuple[int, int, str], ...] = ()
    lines: SourceLines | None = None

    def read(self, address: int, size: int) -> bytes:
        """Return bytes at an address; fewer or none where there are none."""
        for start, data in self.segments:
            if start <= address < start + len(data):
                return data[address - start : address - start + size]
        return b""

    def symbol(self, address: int) -> str:
        """Return the function that contains an address, or ""."""
        at = bisect_right(self.functions, address, key=lambda function: function[0])
        found = self.functions[at - 1] if at else None
        return found[2] if found and address < found[1] else ""

    def line(self, address: int) -> str:
        """Return ``file:line`` of the source, or ""."""
        return self.lines.at(address) if self.lines is not None else ""


@dataclass(frozen=True, slots=True)
class ThreadMoment:
    """What a thread was doing in a cycle.

    ``cycle`` is of its core, and ``state`` one of `STATES`, or `STOPPED`. ``address`` and ``size`` are of the
    instruction that it executed, or (size 0) for which it waited; None if that is not known. ``id`` is the software
    thread, 0 if the machine knew none.
    """

    core: int
    thread: int
    cycle: int
    state: str
    address: int | None
    size: int
    id: int | None
    triggered: bool = False
    """Whether the thread caused a trigger marker in this cycle."""


@dataclass(frozen=True, slots=True)
class CoreStatistics:
    """The contents of one core's stream: ``size`` in bytes, ``packets`` by name, ``rows`` by state."""

    size: int
    packets: Mapping[str, int]
    mended: int
    """Bits that were missing, added or wrong, and have been repaired."""
    before: int
    """Bytes before the first A-sync, of a stream whose beginning is not there: a trace buffer has overwritten it."""
    damaged: int
    """Bytes in segments that could not be repaired."""
    unchecked: int
    """Bytes after the last A-sync, which no check covers."""
    rows: Mapping[str, int]
    contradictions: int
    windows: int
    """Windows of the profile that were sent."""
    profile: Mapping[str, int]
    """The sums of the counters over all of them."""

    @property
    def instructions(self) -> int:
        """Instructions that were executed, and branches that were not taken."""
        return self.rows.get("executed", 0) + self.rows.get("not_executed", 0)


@dataclass(frozen=True, slots=True)
class _Kept:
    offset: int
    times: tuple[int | None, ...]
    state: tuple[bytes, int]
    order: Order | None = None
    """That of the last segment before."""


@dataclass(frozen=True, slots=True)
class _Index:
    kept: list[_Kept]
    clock: Clock
    whole: bool
    """Whether no segment was damaged or missing."""
    markers: frozenset[tuple[int, int]]
    """Thread and cycle of each trigger marker."""


class Trace:
    """A trace file, decoded with its program."""

    def __init__(self, recording: TraceFile, program: TracedProgram | None) -> None:
        """Take a trace file and its program. Raises HeadwayError if the program is not the one that was traced."""
        self.recording, self.program = recording, program
        self.shape = recording.shape
        if program is not None and digest_of(program.segments) != self.shape.program:
            raise HeadwayError(
                f"the program is not the one that was traced ({self.shape.name!a}): give the file that ran with --image"
            )
        self._index: dict[int, _Index] = {}
        self._waypoints = recording.version >= WAYPOINTS and not self.shape.cycle_accurate

    @property
    def counted(self) -> tuple[str, ...]:
        """The names of the six counters of the profile, each once; `NOT_COUNTED` for one that is not used.

        A name is the counter's source, with the harts behind ``@`` if it does not count all, a bit each.
        """
        names = self.shape.counters.split(",")
        before = [0 if name == NOT_COUNTED else names[:at].count(name) for at, name in enumerate(names)]
        return tuple(f"{name}#{again + 1}" if again else name for name, again in zip(names, before, strict=True))

    def check_core(self, core: int) -> None:
        """Raise HeadwayError if there is no such stream."""
        if not 0 <= core < self.shape.cores:
            have = ", ".join(f"{known:#x}" for known in range(self.shape.cores))
            raise HeadwayError(f"there is no stream {core:#x} in this trace: there are {have}")

    def check_threads(self, threads: Iterable[int]) -> None:
        """Raise SelectionError if there cannot be one of these threads of the machine."""
        count = self.shape.cores * self.shape.threads
        for thread in threads:
            if not 0 <= thread < count:
                raise SelectionError(f"there is no thread {thread} in this trace: there are {count}, from 0 on")

    def check_times(self) -> None:
        """Raise HeadwayError if the trace counts no cycles."""
        if not self.shape.cycle_accurate:
            raise HeadwayError("this trace counts no cycles: run the machine with trace.cycle_accurate = true")

    def check_program(self) -> None:
        """Raise HeadwayError if no program is known."""
        if self.program is None:
            raise HeadwayError(f"no program is known for this trace: give {self.shape.name!a}, which ran, with --image")

    def segments(self, core: int, start: int = 0, after: Order | None = None) -> Iterator[Segment]:
        """Yield the segments of a core's stream, from its byte ``start`` on, at which a segment must begin.

        ``after``: the `Order` of the last segment before. A segment that is there again is given as damage.
        """
        for segment in self._segments(core, start):
            order = Order.of(segment)
            if order is not None:
                if after is not None and not after.before(order):
                    yield Segment(segment.data, segment.offset, segment.end, -1, False)
                    continue
                after = order
            yield segment

    def _segments(self, core: int, start: int) -> Iterator[Segment]:
        found = Segments(start)
        for piece in self.recording.pieces(core, start):
            yield from found.feed(piece)
        yield from found.finish()

    def rows(self, core: int, *, stalls: bool = False, wanted: Wanted | None = None) -> Iterator[ThreadRows]:
        """Yield what each thread of a core did, in parts; with ``stalls`` also the cycles in which it executed nothing.

        Only the threads (of the machine) and the part of the time (in its ticks) that are ``wanted`` are given. Raises
        HeadwayError without a program, and for a time without cycles.
        """
        self.check_program()
        decoder = self._decoder(stalls)
        if wanted is None or (not wanted.timed and not wanted.threads):
            for rows, _, _ in self._decoded(core, decoder):
                yield rows
            return
        threads = [one - core * self.shape.threads for one in wanted.threads] or range(self.shape.threads)
        mask = sum({1 << one for one in threads if 0 <= one < self.shape.threads})
        if not mask:
            return
        first = end = None
        start, order = 0, None
        if wanted.timed:
            self.check_times()
            clock = self.clock(core)
            first = None if wanted.begin is None else clock.cycle(wanted.begin)
            end = None if wanted.end is None else clock.cycle(wanted.end)
            if first is not None:
                kept = self._kept_before(core, first)
                decoder.load(kept.state)
                start, order = kept.offset, kept.order
        for rows, _, _ in self._decoded(core, decoder, start, order):
            yield rows.chosen(mask, first, end, self.shape.threads if self.shape.strict else 1)

    def _kept_before(self, core: int, cycle: int) -> _Kept:
        """Return the last kept state before which no thread had passed a cycle."""
        kept = self._indexed(core).kept
        at = 0
        for number, one in enumerate(kept):
            if any(time is None or time > cycle for time in one.times):
                break
            at = number
        return kept[at]

    def csv(
        self,
        core: int,
        *,
        stalls: bool = False,
        wanted: Wanted | None = None,
        text: Callable[[int], str] | None = None,
    ) -> Iterator[bytes]:
        """Yield the rows as comma-separated values: stream, thread, cycle, cycles, address, size, state, symbol.

        ``text`` gives another column: of the address of an instruction.
        """
        functions = [] if self.program is None else [(a, b, _field(name)) for a, b, name in self.program.functions]
        texts = None if text is None else SymbolCells(text)
        for rows in self.rows(core, stalls=stalls, wanted=wanted):
            if len(rows):
                yield rows.csv(f"{core:#x}".encode(), core * self.shape.threads, _PADDED, functions, _LOCATED, texts)

    def statistics(self, core: int) -> CoreStatistics:
        """Return what is in a stream; without a program, only its packets."""
        packets, size, mended, damaged, unchecked = [0] * len(PACKETS), 0, 0, 0, 0
        begun, before = False, 0
        rows = dict[int, int]()
        profile, windows = [0] * len(self.counted), 0
        for segment in self.segments(core):
            size += segment.end - segment.offset
            damaged, unchecked = damaged + unchecked, 0
            mended += segment.mended
            if segment.whole:
                packets = [a + b for a, b in zip(packets, count_packets(segment.data, self._waypoints), strict=True)]
            elif begun or segment.number >= 0:  # a segment that no check confirms: damaged, unless it is the last
                unchecked = segment.end - segment.offset
            elif segment.offset == 0:
                before = segment.end
            else:
                damaged += segment.end - segment.offset
            begun = segment.cut
        decoder = self._decoder(False)
        for found, ended, _ in self._decoded(core, decoder):
            for code, count in found.counts().items() if self.program is not None else ():
                rows[code] = rows.get(code, 0) + count
            for window in ended:
                profile, windows = [a + b for a, b in zip(profile, window[1:], strict=True)], windows + 1
        return CoreStatistics(
            size,
            {name: count for name, count in zip(PACKETS, packets, strict=True) if count},
            mended,
            before,
            damaged,
            unchecked,
            {STATES[code]: count for code, count in sorted(rows.items())},
            decoder.contradictions if self.program is not None else 0,
            windows,
            {name: count for name, count in zip(self.counted, profile, strict=True) if name != NOT_COUNTED},
        )

    def windows(self, core: int) -> Iterator[tuple[int, ...]]:
        """Yield the windows of a core's profile: the cycle of the core at which each ended, and the six counts.

        This needs no program. Windows in which nothing was counted are not there. If the trace unit had no room for a
        window, its counts are in the next one.
        """
        decoder = self._decoder(False)
        for _, ended, _ in self._decoded(core, decoder):
            yield from ended

    def at(self, cycle: int, of: int = 0) -> list[ThreadMoment]:
        """Return what every thread of every core was doing in a cycle of core ``of``.

        Raises HeadwayError if the cycle is outside the trace.
        """
        self.check_core(of)
        self.check_times()
        self.check_program()
        clock = self.clock(of)
        if not clock.end:
            raise HeadwayError(f"nothing is known of core {of} at any cycle: name another core, or trace it again")
        if not 0 <= cycle < clock.end:
            raise HeadwayError(f"the trace of core {of} has {clock.end} cycles: give one from 0 to {clock.end - 1}")
        tick = clock.tick(cycle)
        found = []
        for core in range(self.shape.cores):
            found += self._at(core, cycle) if core == of else self._at_tick(core, tick)
        return found

    def at_time(self, tick: int, cores: Sequence[int] = ()) -> list[ThreadMoment]:
        """Return what every thread of these cores (without any: of all) was doing at a tick of the machine's clock.

        Raises HeadwayError if the tick is outside the trace.
        """
        for core in cores:
            self.check_core(core)
        self.check_times()
        self.check_program()
        wanted = [core for core in cores or range(self.shape.cores) if self.clock(core).end]
        if not wanted:
            raise HeadwayError("nothing is known of these cores at any time: name others, or trace them again")
        clocks = [self.clock(core) for core in wanted]
        first, end = min(clock.tick(0) for clock in clocks), max(clock.tick(clock.end) for clock in clocks)
        if not first <= tick < end:
            raise HeadwayError(f"the trace is from tick {first} to {end - 1}: give one in between")
        return [moment for core in wanted for moment in self._at_tick(core, tick)]

    def _at_tick(self, core: int, tick: int) -> list[ThreadMoment]:
        """Return what the threads of a core were doing at a tick: in the first cycle that is not over by then."""
        clock = self.clock(core)
        found = self._at(core, clock.cycle(tick))
        if not clock.stopped(tick):
            return found
        return [
            one if one.state.startswith(("idle", "unknown")) else replace(one, state=STOPPED, triggered=False)
            for one in found
        ]

    def clock(self, core: int) -> Clock:
        """Return the core's clock in relation to the machine's. This needs no program."""
        return self._indexed(core).clock

    def whole(self, core: int) -> bool:
        """Return whether nothing of a core's stream is damaged or missing. This needs no program."""
        return self._indexed(core).whole

    def _indexed(self, core: int) -> _Index:
        """Decode a stream once, keeping its decoder's state from time to time, and the core's clock."""
        if core not in self._index:
            decoder = self._decoder(False)
            kept = [_Kept(0, tuple(decoder.times()), decoder.save())]
            end, whole, number, order = 0, True, -1, None
            markers: set[tuple[int, int]] = set()
            for _, _, segment in self._decoded(core, decoder):
                markers.update(decoder.markers()[: max(_MAX_MARKERS - len(markers), 0)])
                if segment is not None:
                    order = Order.of(segment) or order
                    if number >= 0:  # what precedes the first A-sync in a trace buffer does not count as missing
                        whole = whole and segment.whole and segment.number == number
                    number = segment.number + 1 & 0xFFFF if segment.whole else max(number, 0)
                    if segment.end - kept[-1].offset >= _EVERY:
                        kept.append(_Kept(segment.end, tuple(decoder.times()), decoder.save(), order))
                end = max([end, *(time for time in decoder.times() if time is not None)])
            clock = Clock(decoder.changes_of_clock(), end, self.shape.window)
            self._index[core] = _Index(kept, clock, whole, frozenset(markers))
        return self._index[core]

    def _at(self, core: int, cycle: int) -> list[ThreadMoment]:
        kept = self._indexed(core).kept
        from_ = dict[int, list[int]]()
        for thread in range(self.shape.threads):
            # Find the last kept state before which the thread had not passed the cycle.
            at = 0
            for number, one in enumerate(kept):
                time = one.times[thread]
                if time is not None and time > cycle:
                    break
                if time is not None or number == 0:
                    at = number
            from_.setdefault(at, []).append(thread)
        found: dict[int, ThreadMoment] = {}
        for at, threads in from_.items():
            for thread in threads:
                found[thread] = self._unknown(core, thread, cycle, _DAMAGE)
            self._search(core, cycle, kept[at], set(threads), found)
        return [found[thread] for thread in range(self.shape.threads)]

    def _search(self, core: int, cycle: int, kept: _Kept, threads: set[int], found: dict[int, ThreadMoment]) -> None:
        unit = self.shape.threads if self.shape.strict else 1
        decoder = self._decoder(True)
        decoder.load(kept.state)
        for rows, _, _ in self._decoded(core, decoder, kept.offset, kept.order):
            times, reasons = decoder.times(), decoder.reasons()
            for thread in sorted(threads):
                place = rows.find(thread, cycle, unit)
                if place >= 0:
                    _, _, _, address, size, what, number = rows[place]
                    known = what < 32
                    where: tuple[int | None, int, int | None] = (address, size, number) if known else (None, 0, None)
                    found[thread] = ThreadMoment(
                        core,
                        core * self.shape.threads + thread,
                        cycle,
                        STATES[what],
                        *where,
                        any((thread, at) in self._indexed(core).markers for at in range(cycle, cycle + unit)),
                    )
                    threads.discard(thread)
                    continue
                time, why = times[thread], reasons[thread]
                if why is not None:
                    found[thread] = self._unknown(core, thread, cycle, why)
                if time is not None and time > cycle:
                    threads.discard(thread)
            if not threads:
                return
        for thread in threads:
            # The stream has ended. A thread that was known to its end was no longer traced; another stays unknown.
            why = decoder.reasons()[thread]
            found[thread] = self._unknown(core, thread, cycle, _TRACE_OFF if why is None else why)

    def _unknown(self, core: int, thread: int, cycle: int, why: int) -> ThreadMoment:
        return ThreadMoment(core, core * self.shape.threads + thread, cycle, STATES[why], None, 0, None)

    def _decoder(self, stalls: bool) -> ThreadDecoder:
        # Without a program the places of threads are unknown, but their times and the events of no thread are known.
        return ThreadDecoder(
            () if self.program is None else self.program.segments,
            threads=self.shape.threads,
            strict=self.shape.strict,
            cycle_accurate=self.shape.cycle_accurate,
            stalls=stalls,
            waypoints=self._waypoints,
        )

    def _decoded(
        self, core: int, decoder: ThreadDecoder, start: int = 0, after: Order | None = None
    ) -> Iterator[tuple[ThreadRows, list[tuple[int, ...]], Segment | None]]:
        """Yield the rows and profile windows of each segment; last, with None, those after the last A-sync."""
        last: Segment | None = None
        for segment in self.segments(core, start, after):
            if last is not None:
                decoder.feed(last)
                rows = decoder.take()
                while decoder.more():
                    yield rows, [], None
                    rows = decoder.take()
                yield rows, [*decoder.profile()], last
            last = segment
        decoder.finish(last)
        yield decoder.take(), [], None


def _field(name: str) -> bytes:
    """Return a name as a field of comma-separated values."""
    text = name.encode("utf-8", "backslashreplace")
    if any(byte in text for byte in (b",", b'"', b"\n", b"\r")):
        return b'"' + text.replace(b'"', b'""') + b'"'
    return text


def state_of(rows: ThreadRows, number: int) -> str:
    """Return the state of a row; for a gap in the stream, with the bytes behind it, as in ``unknown.damage[3:9]``."""
    what, span = rows[number][5], rows.span(number)
    return f"{STATES[what]}[{span[0]}:{span[1]}]" if span and what in _LOCATED else STATES[what]


def functions_of(functions: Mapping[str, tuple[int, int]]) -> tuple[tuple[int, int, str], ...]:
    """Return functions in the form that `TracedProgram` takes: ordered by start, none inside another."""
    found: list[tuple[int, int, str]] = []
    for start, end, name in sorted((start, end, name) for name, (start, end) in functions.items()):
        if not found or start >= found[-1][1]:
            found.append((start, end, name))
    return tuple(found)
