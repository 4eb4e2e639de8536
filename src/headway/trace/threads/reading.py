"""A trace file and the program that ran: what every thread did, in order, or at one cycle.

Decoding is one pass over a core's stream with bounded memory. For the question *what was everybody doing at this
cycle* a first pass keeps the decoder's state now and then, so that the answer needs no more than a small part of the
stream again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from headway.binary.lines import Lines
from headway.errors import HeadwayError

from ._flow import Decoder, Rows, count_packets
from .clock import Clock
from .container import Recording, digest_of
from .segments import Segment, Segments

__all__ = ["COUNTED", "PACKETS", "STATES", "Moment", "Program", "Statistics", "Trace", "functions_of", "state_of"]

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
    32: "unknown.unsynchronised",
    33: "unknown.trace_off",
    34: "unknown.overflow",
    35: "unknown.damage",
    36: "unknown.contradiction",
    37: "unknown.image",
    38: "unknown.code_changed",
    39: "unknown.cut_off",
}
"""What a thread does in a cycle, by its code in docs/trace-format.md; those from 32 on say why that is not known."""
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
)
COUNTED = (
    "data_cache_misses",
    "data_cache_stall_cycles",
    "instruction_cache_misses",
    "instruction_cache_stall_cycles",
    "tlb_misses",
    "stall_cycles",
)
"""What the six counters of the profile count."""
_EVERY = 1 << 15
"""Bytes of a stream from one kept state of the decoder to the next."""
_TRACE_OFF, _DAMAGE = 33, 35
_LOCATED = bytes([32, 34, 35, 36, 39])
"""Gaps that are shown with the bytes that they come from."""
_PADDED = [STATES.get(code, f"unknown.{code}").encode() for code in range(256)]


@dataclass(frozen=True, slots=True)
class Program:
    """What ran: ``segments`` (address, bytes) in order, ``functions`` (start, end, name) by start, and its lines."""

    segments: tuple[tuple[int, bytes], ...]
    functions: tuple[tuple[int, int, str], ...] = ()
    lines: Lines | None = None

    def symbol(self, address: int) -> str:
        """The function that an address is in, or nothing."""
        at = bisect_right(self.functions, address, key=lambda function: function[0])
        found = self.functions[at - 1] if at else None
        return found[2] if found and address < found[1] else ""

    def line(self, address: int) -> str:
        """``file:line`` of the source, or nothing."""
        return self.lines.at(address) if self.lines is not None else ""


@dataclass(frozen=True, slots=True)
class Moment:
    """What a thread was doing in a cycle.

    ``cycle``: of its core; ``state``: of `STATES`; ``address`` and ``size`` of the instruction that it executed, or
    (size 0) that it waited for, None where that is not known; ``id``: the software thread, 0: none that the machine
    knew.
    """

    core: int
    thread: int
    cycle: int
    state: str
    address: int | None
    size: int
    id: int | None


@dataclass(frozen=True, slots=True)
class Statistics:
    """Of one core's stream. ``packets`` by name, ``rows`` by state."""

    size: int
    packets: Mapping[str, int]
    mended: int
    """Bits that were missing, too many or wrong, and are not any more."""
    damaged: int
    """Bytes in segments that are not known."""
    unchecked: int
    """Bytes after the last A-sync, which have no check to be held against."""
    rows: Mapping[str, int]
    contradictions: int
    windows: int
    """Of the profile, as far as they were sent."""
    profile: Mapping[str, int]
    """What was counted in all of them."""

    @property
    def instructions(self) -> int:
        """Executed or not taken."""
        return self.rows.get("executed", 0) + self.rows.get("not_executed", 0)


@dataclass(frozen=True, slots=True)
class _Kept:
    offset: int
    times: tuple[int | None, ...]
    state: tuple[bytes, int]


@dataclass(frozen=True, slots=True)
class _Index:
    kept: list[_Kept]
    clock: Clock
    whole: bool
    """No segment was damaged or missing."""


class Trace:
    """What a trace file tells, with its program."""

    def __init__(self, recording: Recording, program: Program | None) -> None:
        """Raises HeadwayError if the program is not the one that was traced."""
        self.recording, self.program = recording, program
        self.shape = recording.shape
        if program is not None and digest_of(program.segments) != self.shape.program:
            raise HeadwayError(
                f"the program is not the one that was traced ({self.shape.name!a}): give the file that ran with --image"
            )
        self._index: dict[int, _Index] = {}

    def check_core(self, core: int) -> None:
        """Raises HeadwayError where there is no such stream."""
        if not 0 <= core < self.shape.cores:
            have = ", ".join(f"{known:#x}" for known in range(self.shape.cores))
            raise HeadwayError(f"there is no stream {core:#x} in this trace: there are {have}")

    def check_times(self) -> None:
        """Raises HeadwayError for a trace that counts no cycles."""
        if not self.shape.cycle_accurate:
            raise HeadwayError("this trace counts no cycles: run the machine with trace.cycle_accurate = true")

    def check_program(self) -> None:
        """Raises HeadwayError where none is known."""
        if self.program is None:
            raise HeadwayError(f"no program is known for this trace: give {self.shape.name!a}, which ran, with --image")

    def segments(self, core: int, start: int = 0) -> Iterator[Segment]:
        """The segments of a core's stream, from its byte ``start`` on, which must be where one begins."""
        found = Segments(start)
        for piece in self.recording.pieces(core, start):
            yield from found.feed(piece)
        yield from found.finish()

    def rows(self, core: int, *, stalls: bool = False) -> Iterator[Rows]:
        """What each thread of a core did, part by part; ``stalls``: also the cycles in which it executed nothing.

        Raises HeadwayError without a program.
        """
        self.check_program()
        decoder = self._decoder(stalls)
        for rows, _, _ in self._decoded(core, decoder):
            yield rows

    def csv(self, core: int, *, stalls: bool = False) -> Iterator[bytes]:
        """The same as lines of comma-separated values: stream, thread, cycle, cycles, address, size, state, symbol."""
        functions = [] if self.program is None else [(a, b, _field(name)) for a, b, name in self.program.functions]
        for rows in self.rows(core, stalls=stalls):
            if len(rows):
                yield rows.csv(f"{core:#x}".encode(), core * self.shape.threads, _PADDED, functions, _LOCATED)

    def statistics(self, core: int) -> Statistics:
        """What is in a stream; without a program, packets alone."""
        packets, size, mended, damaged, unchecked = [0] * len(PACKETS), 0, 0, 0, 0
        begun = False
        rows = dict[int, int]()
        profile, windows = [0] * len(COUNTED), 0
        for segment in self.segments(core):
            size += segment.end - segment.offset
            damaged, unchecked = damaged + unchecked, 0
            mended += segment.mended
            if segment.whole:
                packets = [a + b for a, b in zip(packets, count_packets(segment.data), strict=True)]
            elif begun or segment.number >= 0:  # damaged, unless it is the last
                unchecked = segment.end - segment.offset
            else:
                damaged += segment.end - segment.offset
            begun = segment.cut
        decoder = self._decoder(False)
        for found, ended, _ in self._decoded(core, decoder):
            for code, count in found.counts().items() if self.program is not None else ():
                rows[code] = rows.get(code, 0) + count
            for window in ended:
                profile, windows = [a + b for a, b in zip(profile, window[1:], strict=True)], windows + 1
        return Statistics(
            size,
            {name: count for name, count in zip(PACKETS, packets, strict=True) if count},
            mended,
            damaged,
            unchecked,
            {STATES[code]: count for code, count in sorted(rows.items())},
            decoder.contradictions if self.program is not None else 0,
            windows,
            dict(zip(COUNTED, profile, strict=True)),
        )

    def windows(self, core: int) -> Iterator[tuple[int, ...]]:
        """The windows of a core's profile: the cycle of the core at which each ended, and what `COUNTED` says.

        Needs no program. A window in which nothing was counted is not there, and where one found no room in the
        trace unit its counts are in the one after it.
        """
        decoder = self._decoder(False)
        for _, ended, _ in self._decoded(core, decoder):
            yield from ended

    def at(self, cycle: int, of: int = 0) -> list[Moment]:
        """What every thread of every core was doing in that cycle of core ``of``. Raises HeadwayError outside."""
        self.check_core(of)
        self.check_times()
        self.check_program()
        clock = self.clock(of)
        if not clock.end:
            raise HeadwayError(
                f"at no cycle of core {of} is it known what was done: name another core, or trace it again"
            )
        if not 0 <= cycle < clock.end:
            raise HeadwayError(f"the trace of core {of} is of {clock.end} cycles: give one from 0 to {clock.end - 1}")
        tick = clock.tick(cycle)
        found = []
        for core in range(self.shape.cores):
            own = cycle if core == of else self.clock(core).cycle(tick)
            found += self._at(core, own)
        return found

    def clock(self, core: int) -> Clock:
        """The core's clock against the machine's. Needs no program."""
        return self._indexed(core).clock

    def whole(self, core: int) -> bool:
        """Whether nothing of a core's stream is damaged or missing. Needs no program."""
        return self._indexed(core).whole

    def _indexed(self, core: int) -> _Index:
        """Decodes a stream once, keeping its decoder's state now and then, and the core's clock."""
        if core not in self._index:
            decoder = self._decoder(False)
            kept = [_Kept(0, tuple(decoder.times()), decoder.save())]
            end, whole, number = 0, True, -1
            for _, _, segment in self._decoded(core, decoder):
                if segment is not None:
                    if number >= 0:  # what precedes the first A-sync of a trace buffer is not missed
                        whole = whole and segment.whole and segment.number == number
                    number = segment.number + 1 & 0xFFFF if segment.whole else max(number, 0)
                    if segment.end - kept[-1].offset >= _EVERY:
                        kept.append(_Kept(segment.end, tuple(decoder.times()), decoder.save()))
                end = max([end, *(time for time in decoder.times() if time is not None)])
            clock = Clock(decoder.changes_of_clock(), end, self.shape.window)
            self._index[core] = _Index(kept, clock, whole)
        return self._index[core]

    def _at(self, core: int, cycle: int) -> list[Moment]:
        kept = self._indexed(core).kept
        from_ = dict[int, list[int]]()
        for thread in range(self.shape.threads):
            # The last kept state before which the thread had not passed the cycle.
            at = 0
            for number, one in enumerate(kept):
                time = one.times[thread]
                if time is not None and time > cycle:
                    break
                if time is not None or number == 0:
                    at = number
            from_.setdefault(at, []).append(thread)
        found: dict[int, Moment] = {}
        for at, threads in from_.items():
            for thread in threads:
                found[thread] = self._unknown(core, thread, cycle, _DAMAGE)
            self._search(core, cycle, kept[at], set(threads), found)
        return [found[thread] for thread in range(self.shape.threads)]

    def _search(self, core: int, cycle: int, kept: _Kept, threads: set[int], found: dict[int, Moment]) -> None:
        unit = self.shape.threads if self.shape.strict else 1
        decoder = self._decoder(True)
        decoder.load(kept.state)
        for rows, _, _ in self._decoded(core, decoder, kept.offset):
            times, reasons = decoder.times(), decoder.reasons()
            for thread in sorted(threads):
                place = rows.find(thread, cycle, unit)
                if place >= 0:
                    _, _, _, address, size, what, number = rows[place]
                    known = what < 32
                    where = (address, size, number) if known else (None, 0, None)
                    found[thread] = Moment(
                        core, core * self.shape.threads + thread, cycle, STATES[what], where[0], where[1], where[2]
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
            # As the stream ends, so it goes on; of a thread that was known to its end: it was not traced any more.
            why = decoder.reasons()[thread]
            found[thread] = self._unknown(core, thread, cycle, _TRACE_OFF if why is None else why)

    def _unknown(self, core: int, thread: int, cycle: int, why: int) -> Moment:
        return Moment(core, core * self.shape.threads + thread, cycle, STATES[why], None, 0, None)

    def _decoder(self, stalls: bool) -> Decoder:
        # Without a program it is not known where threads are, but when, and what is of no thread.
        return Decoder(
            () if self.program is None else self.program.segments,
            threads=self.shape.threads,
            strict=self.shape.strict,
            cycle_accurate=self.shape.cycle_accurate,
            stalls=stalls,
        )

    def _decoded(
        self, core: int, decoder: Decoder, start: int = 0
    ) -> Iterator[tuple[Rows, list[tuple[int, ...]], Segment | None]]:
        """Rows and windows of the profile, segment by segment; of what follows the last A-sync, with None."""
        last: Segment | None = None
        for segment in self.segments(core, start):
            if last is not None:
                decoder.feed(last)
                yield decoder.take(), [*decoder.profile()], last
            last = segment
        decoder.finish(last)
        yield decoder.take(), [], None


def _field(name: str) -> bytes:
    """A name as a field of comma-separated values."""
    text = name.encode("utf-8", "backslashreplace")
    if any(byte in text for byte in (b",", b'"', b"\n", b"\r")):
        return b'"' + text.replace(b'"', b'""') + b'"'
    return text


def state_of(rows: Rows, number: int) -> str:
    """The state that a row is of; of a gap in the stream with the bytes that it comes from: ``unknown.damage[3:9]``."""
    what, span = rows[number][5], rows.span(number)
    return f"{STATES[what]}[{span[0]}:{span[1]}]" if span and what in _LOCATED else STATES[what]


def functions_of(functions: Mapping[str, tuple[int, int]]) -> tuple[tuple[int, int, str], ...]:
    """Functions by name, as `Program` has them: by start, none within another."""
    found: list[tuple[int, int, str]] = []
    for start, end, name in sorted((start, end, name) for name, (start, end) in functions.items()):
        if not found or start >= found[-1][1]:
            found.append((start, end, name))
    return tuple(found)
