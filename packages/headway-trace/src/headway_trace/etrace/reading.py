"""A trace of E-Trace with the program that ran: what every source executed, in order or at one time.

Decoding is one pass over each stream in bounded memory. To tell what every source was executing at a time, a first pass
keeps the decoder's state from time to time, so that the answer needs only a small part of the streams again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING

from headway.errors import HeadwayError, SelectionError
from headway_trace._records import SymbolCells
from headway_trace.selection import Wanted
from headway_trace.threads.reading import STATES, TracedProgram

from ._decoder import EtraceChoice, EtraceDecoder, EtraceRows
from .parameters import EtraceParameters

if TYPE_CHECKING:
    from ._decoder import Row, Saved

__all__ = ["PACKETS", "EtraceMoment", "EtraceStatistics", "EtraceTrace", "state_of"]

PACKETS = {
    0: "predicted branches",
    1: "jump target index",
    2: "branches and address",
    3: "branches",
    4: "address",
    5: "start",
    6: "trap",
    7: "context",
    8: "support",
    9: "null",
    15: "no packet",
}
"""The names of kinds of packets."""
_LOCATED = bytes([32, 34, 35, 36, 39])
"""Codes of gaps that are shown with the bytes from which they come."""
_UNKNOWN = 32
_LATEST = (1 << 63) - 1
_EVERY = 1 << 13
"""Bytes of a stream between two states of the decoder that are kept, at least."""
_KEPT = 1 << 26
"""Bytes of all of them, at most; if there are more, every second one is kept."""
_NAMES = [STATES.get(code, f"unknown.{code}").encode() for code in range(256)]


@dataclass(frozen=True, slots=True)
class EtraceStatistics:
    """The contents of all streams together: ``size`` in bytes, ``packets`` by name, ``rows`` by source and state."""

    size: int
    packets: Mapping[str, int]
    rows: Mapping[int, Mapping[str, int]]
    contradictions: int

    def instructions(self, source: int) -> int:
        """Return how many instructions of a source were decoded."""
        return self.rows[source].get("executed", 0) + self.rows[source].get("not_executed", 0)


@dataclass(frozen=True, slots=True)
class EtraceMoment:
    """The last that is known of a source at or before a time.

    ``time`` is when that was, and ``address`` and ``size`` are of the instruction that the source executed then; None
    and 0 if that is not known, as ``state`` says. ``context`` is that of the source, 0 if it has none.
    """

    source: int
    context: int
    time: int
    state: str
    address: int | None
    size: int


@dataclass(slots=True)
class _Kept:
    """A state of the decoder: at a byte of a stream, with the last row of each source before that has a time."""

    stream: int
    offset: int
    state: Saved | None
    last: dict[int, Row]
    high: int
    """The latest time before it, of all sources; -1: there is none."""
    low: int = _LATEST + 1
    """The earliest time from there to the next state that is kept."""

    @property
    def size(self) -> int:
        """About the number of its bytes."""
        sources = self.state[3] if self.state is not None else ()
        return 200 * len(self.last) + sum(200 + sum(map(len, source[1:])) for source in sources)


@dataclass(frozen=True, slots=True)
class _Index:
    kept: list[_Kept]
    highs: list[int]
    lows: list[int]
    """The earliest time from each state on, up to the end of the last stream."""


class EtraceTrace:
    """Streams of encapsulated packets, decoded with the program that ran.

    ``name``: what ran, for messages; ``digest``: that of the program, as of `EtraceFile`.
    """

    def __init__(
        self,
        name: str,
        parameters: EtraceParameters,
        streams: Iterable[Callable[[int], Iterator[bytes]]],
        program: TracedProgram | None,
        digest: str = "",
    ) -> None:
        self.name, self.parameters, self.program, self.digest = name, parameters, program, digest
        self._streams = tuple(streams)

    def check_program(self) -> None:
        """Raise HeadwayError if no program is known."""
        if self.program is None:
            raise HeadwayError(f"no program is known for this trace: give {self.name!a}, which ran, with --image")

    def check_times(self) -> None:
        """Raise HeadwayError if the packets have no times."""
        if self.parameters.notime and not self.parameters.timestamp_bytes:
            raise HeadwayError("the packets of this trace have no times: trace it again with times (notime = false)")

    def check_sources(self, ids: Iterable[int]) -> None:
        """Raise SelectionError if there cannot be such a source."""
        for number in ids:
            if not 0 <= number < self.parameters.sources:
                raise SelectionError(f"there is no source {number:#x}: there are {self.parameters.sources} of them")

    def blocks(
        self, ids: Iterable[int] = (), *, traps: bool = False, wanted: Wanted | None = None
    ) -> Iterator[tuple[EtraceRows, EtraceDecoder]]:
        """Yield what each source executed, in parts, with their decoder; ``traps``: also where they trapped.

        Without ``ids`` all sources are decoded. Of these only the threads and the part of the time that are ``wanted``
        are given. Raises HeadwayError without a program, and if it is not known what is wanted.
        """
        self.check_program()
        choice = self._choice(wanted) if wanted is not None else None
        for stream in self._streams:
            decoder = self._decoder(ids, traps=traps)
            for rows in self._rows(decoder, stream(0)):
                yield rows if choice is None else choice.of(rows), decoder

    @property
    def contexts(self) -> bool:
        """Whether the packets have contexts."""
        return not self.parameters.nocontext and self.parameters.context_width > 0

    def check_threads(self) -> None:
        """Raise HeadwayError if the packets do not tell threads."""
        if not self.contexts:
            raise HeadwayError(
                "the packets of this trace have no contexts, so that no thread is known: leave out --thread"
            )

    def _choice(self, wanted: Wanted) -> EtraceChoice | None:
        """Return the choice of rows: an instruction may have been executed up to the next time that is known."""
        if wanted.threads:
            self.check_threads()
        if wanted.timed:
            self.check_times()
        if not wanted.timed and not wanted.threads:
            return None
        begins = [-1] * self.parameters.sources
        if wanted.begin is not None:
            begin = min(wanted.begin, _LATEST)
            begins = [begin] * len(begins)
            for source, row in self._last(begin).items():
                begins[source] = begin if row[1] is None else row[1]
        return EtraceChoice(begins, wanted.end, wanted.threads or None)

    def _decoder(self, ids: Iterable[int], *, traps: bool = False) -> EtraceDecoder:
        program = self.program or TracedProgram(())
        functions = [(start, end, _field(name)) for start, end, name in program.functions]
        decoder = EtraceDecoder(program.segments, self.parameters, functions, traps=traps)
        decoder.select(tuple(ids))
        return decoder

    def _rows(self, decoder: EtraceDecoder, pieces: Iterable[bytes]) -> Iterator[EtraceRows]:
        for piece in pieces:
            decoder.feed(piece)
            while decoder.more():
                yield decoder.take()
        decoder.finish()
        while decoder.more():
            yield decoder.take()
        yield decoder.take()

    def csv(
        self,
        ids: Iterable[int] = (),
        *,
        traps: bool = False,
        wanted: Wanted | None = None,
        text: Callable[[int], str] | None = None,
    ) -> Iterator[bytes]:
        """Yield the rows as comma-separated values: stream, thread, cycle, cycles, address, size, state, symbol.

        ``text`` gives another column: of the address of an instruction.
        """
        texts = None if text is None else SymbolCells(text)
        for rows, decoder in self.blocks(ids, traps=traps, wanted=wanted):
            if len(rows):
                yield decoder.csv(rows, _NAMES, _LOCATED, texts)

    def statistics(self, ids: Iterable[int] = ()) -> EtraceStatistics:
        """Return what is in the streams; without a program, only their packets."""
        size, contradictions, packets = 0, 0, [0] * 16
        found: dict[int, dict[str, int]] = {}
        for stream in self._streams:
            size += sum(len(piece) for piece in stream(0))
            decoder = self._decoder(ids)
            for rows in self._rows(decoder, stream(0)):
                for source, code, count in rows.counts() if self.program is not None else ():
                    of = found.setdefault(source, {})
                    of[STATES[code]] = of.get(STATES[code], 0) + count
            packets = [a + b for a, b in zip(packets, decoder.packets(), strict=True)]
            contradictions += decoder.contradictions if self.program is not None else 0
        named = {name: packets[kind] for kind, name in PACKETS.items() if packets[kind]}
        return EtraceStatistics(size, named, dict(sorted(found.items())), contradictions)

    def at(self, time: int, ids: Iterable[int] = ()) -> list[EtraceMoment]:
        """Return what is known of every source at a time. Raises HeadwayError if nothing is known so early."""
        self.check_times()
        self.check_program()
        wanted = frozenset(ids)
        last = {source: row for source, row in self._last(min(time, _LATEST)).items() if not wanted or source in wanted}
        if not last:
            raise HeadwayError(f"nothing is known at {time}: the times of this trace begin later")
        found = []
        for source, (_, when, context, address, size, code, _) in sorted(last.items()):
            known = code < _UNKNOWN
            place = (address, size) if known else (None, 0)
            found.append(EtraceMoment(source, context if known else 0, when or 0, STATES[code], *place))
        return found

    # States that are kept

    @cached_property
    def _index(self) -> _Index:
        """Decode the streams once, keeping the decoder's state from time to time."""
        kept, every, size, high = list[_Kept](), _EVERY, 0, -1
        last: dict[int, Row] = {}
        for number, stream in enumerate(self._streams):
            decoder = self._decoder(())
            kept.append(_Kept(number, 0, None, dict(last), high))
            for rows in self._rows(decoder, _small(stream(0))):
                rows.last_before(last, _LATEST)
                if (times := rows.times()) is not None:
                    kept[-1].low, high = min(kept[-1].low, times[0]), max(high, times[1])
                if decoder.resumable and decoder.offset - kept[-1].offset >= every:
                    kept.append(_Kept(number, decoder.offset, decoder.save(), dict(last), high))
                    size += kept[-1].size
                    if size > _KEPT:
                        kept, every = _thinned(kept), 2 * every
                        size = sum(one.size for one in kept)
        lows = [*accumulate((one.low for one in reversed(kept)), min)][::-1]
        return _Index(kept, [one.high for one in kept], lows)

    def _last(self, time: int) -> dict[int, Row]:
        """Return the last row of each source that has a time, and one that is not after ``time``."""
        kept, at = self._index.kept, max(bisect_right(self._index.highs, time) - 1, 0)
        last, first = dict(kept[at].last), kept[at]
        for number, stream in enumerate(self._streams[first.stream :], first.stream):
            decoder, start = self._decoder(()), 0
            if number == first.stream and first.state is not None:
                decoder.load(first.state)
                start = first.offset
            while kept[at].stream < number:
                at += 1
            if self._index.lows[at] > time:
                break
            for rows in self._rows(decoder, _small(stream(start))):
                rows.last_before(last, time)
                while (
                    decoder.resumable
                    and at + 1 < len(kept)
                    and kept[at + 1].stream == number
                    and kept[at + 1].offset <= decoder.offset
                ):
                    at += 1
                if self._index.lows[at] > time:
                    return last
        return last


def _thinned(kept: list[_Kept]) -> list[_Kept]:
    """Return every second state, and the first of each stream."""
    found: list[_Kept] = []
    for number, one in enumerate(kept):
        if one.state is None or number % 2 == 0:
            found.append(one)
        else:
            found[-1].low = min(found[-1].low, one.low)
    return found


def _small(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield pieces of which a decoder's state can be kept often enough."""
    for piece in pieces:
        for at in range(0, len(piece), _EVERY):
            yield piece[at : at + _EVERY]


def state_of(rows: EtraceRows, number: int) -> str:
    """Return the state of a row; for a gap in the stream, with the bytes behind it, as in ``unknown.damage[3:9]``."""
    _, _, context, address, _, code, _ = rows[number]
    return f"{STATES[code]}[{address}:{context}]" if code in _LOCATED else STATES[code]


def _field(name: str) -> bytes:
    """Return a name as a field of comma-separated values."""
    text = name.encode("utf-8", "backslashreplace")
    if any(byte in text for byte in (b",", b'"', b"\n", b"\r")):
        return b'"' + text.replace(b'"', b'""') + b'"'
    return text
