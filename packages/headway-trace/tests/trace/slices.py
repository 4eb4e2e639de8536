"""Edges of a trace: blocks of them, and whether they nest."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Sequence

from headway_trace.alignment import Fit
from headway_trace.decode import Stream
from headway_trace.edges import AddressNames, Edge, Edges, SliceHead, name_of
from headway_trace.records import Gap, Instruction
from headway_trace.slices import MIN_CYCLES, PER_TICK


def block(edges: Sequence[Edge]) -> Edges:
    """These edges as one block."""
    heads = list(dict.fromkeys(SliceHead(edge.name, *edge[3:]) for edge in edges if edge.name is not None))
    places = {head: place for place, head in enumerate(heads)}
    return Edges(
        memoryview(array("q", [edge.track for edge in edges])),
        memoryview(array("q", [edge.time for edge in edges])),
        memoryview(
            array("i", [-1 if edge.name is None else places[SliceHead(edge.name, *edge[3:])] for edge in edges])
        ),
        heads,
    )


def check_nesting(edges: Iterable[Edge]) -> int:
    """That every slice ends, within the one around it, and no track goes back. Gives the greatest depth."""
    open_: dict[int, list[Edge]] = defaultdict(list)
    last: dict[int, int] = {}
    deepest = 0
    for edge in edges:
        assert edge.time >= last.get(edge.track, edge.time)
        last[edge.track] = edge.time
        if edge.instant:
            continue
        if edge.name is None:
            assert edge.time >= open_[edge.track].pop().time
        else:
            open_[edge.track].append(edge)
            deepest = max(deepest, len(open_[edge.track]))
    assert not any(open_.values())
    return deepest


class Told:
    """The edges of the same reports, one by one and in the plainest way: what `SliceEdges` should give."""

    def __init__(self, names: AddressNames) -> None:
        self.names, self.edges, self.passed = names, list[Edge](), 0
        self.open: dict[int, tuple[str, int | None, int]] = {}
        self.reached: dict[int, int] = {}

    def begin(
        self, track: int, time: int, name: str, category: str, address: int | None, thread: int | None = None
    ) -> None:
        line = "" if address is None else self.names.line(address)
        self.edges.append(Edge(track, time, name, category, address, line, thread))

    def fits(self, track: int, start: int, end: int) -> int | None:
        if start >= end:
            return None
        if self.reached.setdefault(track, start) >= end:
            self.passed += 1
            return None
        return max(start, self.reached[track])

    def pause(self, track: int) -> None:
        if self.open.pop(track, None) is not None:
            self.edges.append(Edge(track, self.reached[track]))

    def executes(self, track: int, start: int, end: int, address: int, thread: int | None) -> bool:
        name = name_of(self.names, address)
        if track in self.open and self.open[track][:2] == (name, thread) and self.reached[track] == start:
            self.reached[track] = end
            return True
        begin = self.fits(track, start, end)
        if begin is None:
            return False
        self.pause(track)
        self.begin(track, begin, name, "function", address, thread)
        self.open[track], self.reached[track] = (name, thread, begin), end
        return True

    def within(self, track: int, start: int, end: int, name: str, category: str, address: int) -> None:
        if track in self.open and max(start, self.open[track][2]) < end:
            self.begin(track, max(start, self.open[track][2]), name, category, address)
            self.edges.append(Edge(track, end))

    def apart(self, track: int, start: int, end: int, name: str, category: str, address: int | None) -> None:
        begin = self.fits(track, start, end)
        if begin is not None:
            self.pause(track)
            self.begin(track, begin, name, category, address)
            self.edges.append(Edge(track, end))
            self.reached[track] = end


class Clock:
    """The common time of a capture in ns, computed for each span anew."""

    def __init__(self, fit: Fit | None) -> None:
        self.fit = fit

    def span(self, epoch: int, start: int, end: int) -> tuple[int, int] | None:
        """When these cycles are; None: that is not known, or time was lost in between."""
        if self.fit is None:
            return (start, end) if epoch == 0 else None
        lines = self.fit.lines.get(epoch, ())
        if not lines or self.fit.rate is None:
            return None
        at = next((at for at, line in enumerate(lines) if start < line.last), len(lines) - 1)
        if (start < lines[at].first and at) or (end > lines[at].last and at + 1 < len(lines)):
            return None
        begin, until = (round((lines[at].height + cycle / self.fit.rate) * PER_TICK) for cycle in (start, end))
        return (begin, until) if begin >= 0 and until < 1 << 63 else None

    def crosses(self, epoch: int, start: int, end: int) -> bool:
        """Whether a line begins or ends between two cycles."""
        lines = self.fit.lines.get(epoch, ()) if self.fit else ()
        return any(start < bound < end for line in lines for bound in line[:2])


def told_of(stream: Stream, fit: Fit | None) -> Told:
    """What `slices.walk` should give of a stream: of its records one by one."""
    told, clock, track = Told(stream.image), Clock(fit), stream.id + 1
    reached: int | None = None
    lost, epoch, cycle = "", 0, 0
    for block in stream.blocks():
        spans: list[tuple[int, int, int, Instruction | Gap, bool]] = []
        joins = False  # whether the next instruction may belong to the last span
        for record in block:
            if not isinstance(record, Instruction | Gap) or record.cycle is None:
                continue
            if record.epoch != epoch:
                epoch, cycle, joins = record.epoch, 0, False
            start, cycle = cycle, record.cycle
            waited = isinstance(record, Instruction) and cycle - start >= MIN_CYCLES
            if isinstance(record, Instruction) and not waited and joins:
                _, begin, end, first, _ = spans[-1]
                assert isinstance(first, Instruction)
                if (
                    name_of(stream.image, first.address) == name_of(stream.image, record.address)
                    and first.thread == record.thread
                    and not clock.crosses(epoch, begin, cycle)
                ):
                    # The first instruction that takes time is the one whose address is shown.
                    spans[-1] = epoch, begin, cycle, record if begin == start else first, False
                    continue
            joins = isinstance(record, Instruction) and not waited
            spans.append((epoch, start, cycle, record, waited))
        for number, start, end, record, waited in spans:
            span = clock.span(number, start, end)
            if span is None or (isinstance(record, Gap) and record.cycles is None):
                told.pause(track)
                lost = record.why.state if isinstance(record, Gap) else lost or "unknown.alignment"
                continue
            if lost and reached is not None and reached < span[0]:
                told.apart(track, reached, span[0], lost, "gap", None)
            lost, reached = "", span[1]
            if isinstance(record, Gap):
                told.apart(track, *span, record.why.state, "gap", None)
            elif told.executes(track, *span, record.address, record.thread) and waited:
                told.within(track, *span, "stall", "stall", record.address)
    for track in told.reached:
        told.pause(track)
    return told
