"""A trace of E-Trace with the program that ran: what every source executed, in order or at one time.

Decoding is one pass over each stream in bounded memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from headway.errors import HeadwayError, SelectionError
from headway.trace.threads.reading import STATES, TracedProgram

from ._decoder import EtraceDecoder, EtraceRows
from .parameters import EtraceParameters

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


class EtraceTrace:
    """Streams of encapsulated packets, decoded with the program that ran. ``name``: what ran, for messages."""

    def __init__(
        self,
        name: str,
        parameters: EtraceParameters,
        streams: Iterable[Callable[[], Iterator[bytes]]],
        program: TracedProgram | None,
    ) -> None:
        self.name, self.parameters, self.program = name, parameters, program
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

    def blocks(self, ids: Iterable[int] = (), *, traps: bool = False) -> Iterator[tuple[EtraceRows, EtraceDecoder]]:
        """Yield what each source executed, in parts, with their decoder; ``traps``: also where they trapped.

        Without ``ids`` all sources are decoded. Raises HeadwayError without a program.
        """
        self.check_program()
        for stream in self._streams:
            decoder = self._decoder(ids, traps=traps)
            for rows in self._rows(decoder, stream):
                yield rows, decoder

    def _decoder(self, ids: Iterable[int], *, traps: bool = False) -> EtraceDecoder:
        program = self.program or TracedProgram(())
        functions = [(start, end, _field(name)) for start, end, name in program.functions]
        decoder = EtraceDecoder(program.segments, self.parameters, functions, traps=traps)
        decoder.select(tuple(ids))
        return decoder

    def _rows(self, decoder: EtraceDecoder, stream: Callable[[], Iterator[bytes]]) -> Iterator[EtraceRows]:
        for piece in stream():
            decoder.feed(piece)
            while decoder.more():
                yield decoder.take()
        decoder.finish()
        while decoder.more():
            yield decoder.take()
        yield decoder.take()

    def csv(self, ids: Iterable[int] = (), *, traps: bool = False) -> Iterator[bytes]:
        """Yield the rows as comma-separated values: stream, thread, cycle, cycles, address, size, state, symbol."""
        for rows, decoder in self.blocks(ids, traps=traps):
            if len(rows):
                yield decoder.csv(rows, _NAMES, _LOCATED)

    def statistics(self, ids: Iterable[int] = ()) -> EtraceStatistics:
        """Return what is in the streams; without a program, only their packets."""
        size, contradictions, packets = 0, 0, [0] * 16
        found: dict[int, dict[str, int]] = {}
        for stream in self._streams:
            size += sum(len(piece) for piece in stream())
            decoder = self._decoder(ids)
            for rows in self._rows(decoder, stream):
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
        last: dict[int, tuple[int, int | None, int, int, int, int, int | None]] = {}
        for rows, _ in self.blocks(ids):
            rows.last_before(last, min(time, _LATEST))
        if not last:
            raise HeadwayError(f"nothing is known at {time}: the times of this trace begin later")
        found = []
        for source, (_, when, context, address, size, code, _) in sorted(last.items()):
            known = code < _UNKNOWN
            place = (address, size) if known else (None, 0)
            found.append(EtraceMoment(source, context if known else 0, when or 0, STATES[code], *place))
        return found


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
