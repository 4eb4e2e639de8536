"""The ledger of a recording: computed from its rows, part by part, or read as the source kept it.

Over the rows of a thread in a state, the sum of duration - taken is the state's time, and the sum of count its count.
The sum of taken over all rows of a thread is what the observer took from it. The same holds for processors. So the
ledger computed here from a complete recording equals, to the last unit, the one that the source counted while it ran.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from headway.errors import HeadwayError
from headway.model import (
    Cell,
    Estimate,
    Kind,
    Ledger,
    Overhead,
    Processor,
    Quality,
    Thread,
    ThreadSeen,
    Window,
    kind_of,
    violations,
)

if TYPE_CHECKING:
    from .contents import Contents

__all__ = ["Account", "counted", "kept", "of_times", "thread_of"]

_COLUMNS = ("time", "duration", "taken", "cpu", "thread", "state", "count")


class Account:
    """The times and counts of one thread or one processor."""

    __slots__ = ("counts", "taken", "times")

    def __init__(self) -> None:
        self.times: defaultdict[str, int] = defaultdict(int)
        self.counts: defaultdict[str, int] = defaultdict(int)
        self.taken = 0

    def add(self, state: str, duration: int, taken: int, count: int) -> None:
        """Add rows of one state: their total duration, the part of it that is not the state's, and the occurrences."""
        self.times[state] += duration - taken
        self.counts[state] += count
        self.taken += taken

    def cells(self, *, whole: bool) -> dict[str, Cell]:
        """Return the cell of each state.

        ``whole``: all rows are there. Otherwise more may have been taken from a row than its remaining duration, and
        occurrences may be taken back that were counted in a row that is not there.
        """
        times = dict(self.times)
        if self.taken:
            times["overhead"] = times.get("overhead", 0) + self.taken
        counts: Mapping[str, int] = self.counts
        if not whole:
            _settle(times)
            counts = {state: max(count, 0) for state, count in counts.items()}
        cells = {state: Cell(time, counts.get(state, 0)) for state, time in times.items()}
        return {state: cell for state, cell in cells.items() if not cell.empty}


def _settle(times: dict[str, int]) -> None:
    """Make negative times zero and take what they lack from the states that have most. The sum stays the same.

    States on the processor come first, because the observer takes nothing from a wait.
    """
    missing = -sum(time for time in times.values() if time < 0)
    for state in sorted(times, key=lambda state: (kind_of(state) in (Kind.WAIT, Kind.READY), -times[state])):
        if times[state] <= 0:
            times[state] = 0
        else:
            part = min(times[state], missing)
            times[state] -= part
            missing -= part


def counted(recording: Contents) -> Ledger:
    """Return the ledger of the recording's rows. States still open at the end count until there.

    Raises HeadwayError if the figures break the law of conservation, because rows overlap or do not fit the window.
    """
    threads: defaultdict[int, Account] = defaultdict(Account)
    processors: defaultdict[int, Account] = defaultdict(Account)
    start = recording.window.start if recording.dropped_parts else None
    for table in recording.tables("transitions", _COLUMNS):
        for thread, cpu, state, duration, taken, count in _sums(table, start):
            if thread is not None:
                threads[thread].add(state, duration, taken, count)
            if cpu is not None:
                processors[cpu].add(state, duration, taken, count)
    window = recording.window
    whole = recording.closed and not recording.dropped_parts and not recording.damaged
    for open_state in recording.open_states():
        duration = window.end - max(open_state.since, window.start)
        threads[open_state.thread].add(open_state.state, duration, 0, 0)
        if open_state.cpu >= 0:
            processors[open_state.cpu].add(open_state.state, duration, 0, 0)
    seen = recording.threads()
    cpus = tuple(
        Processor(cpu, sum(cell.time for cell in cells.values()), cells)
        for cpu, cells in ((cpu, processors[cpu].cells(whole=whole)) for cpu in sorted(processors))
        if cells
    )
    known = (thread_of(seen[n], threads[n].cells(whole=whole), window) for n in sorted(seen))
    losses = recording.losses()
    unnamed = len(threads.keys() - seen.keys())
    ledger = replace(
        of_times(recording.document.ledger),
        source="recording",
        window=window,
        threads=tuple(thread for thread in known if thread is not None),
        processors=cpus,
        losses={**losses, **({"threads_unnamed": unnamed} if unnamed else {})},
    )
    if ledger.overhead.time is None or not recording.closed:
        taken = sum(cpu.states["overhead"].time for cpu in cpus if "overhead" in cpu.states)
        ledger = replace(ledger, overhead=Overhead(taken, None))
    return _lawful(replace(ledger, reasons={**ledger.reasons, **_remarks(recording)}), recording)


def _sums(table: pa.Table, start: int | None) -> Iterable[tuple[int | None, int | None, str, int, int, int]]:
    """Return thread, cpu, state, and the sums of duration, taken and count over these rows, from ``start`` on."""
    duration = table.column("duration")
    if start is not None:
        time = table.column("time")
        late = pc.max_element_wise(pc.subtract(pc.add(time, duration), start), 0)
        duration = pc.if_else(pc.less(time, start), late, duration)
    state = table.column("state").combine_chunks()
    if isinstance(state, pa.ChunkedArray):  # a table without rows, or with too many for one chunk
        state = pa.concat_arrays(state.chunks) if state.num_chunks else pa.array([], state.type)
    names = state.dictionary.to_pylist()
    columns = {"thread": table.column("thread"), "cpu": table.column("cpu"), "state": state.indices}
    figures = {"duration": duration, "taken": table.column("taken"), "count": table.column("count")}
    sums = (
        pa.table({**columns, **figures})
        .group_by(list(columns), use_threads=False)
        .aggregate([(name, "sum") for name in figures])
    )
    values = {name: sums.column(name).to_pylist() for name in (*columns, *(f"{name}_sum" for name in figures))}
    return (
        (thread, cpu, names[number], time, taken, count)
        for thread, cpu, number, time, taken, count in zip(*values.values(), strict=True)
    )


def of_times(ledger: Ledger) -> Ledger:
    """Return the document's ledger without hardware figures, which the rows do not have."""
    if not ledger.counted and ledger.unit == ledger.time_unit:
        return ledger
    precision = replace(ledger.precision, effective=Quality.BOUND, memory=Quality.UNAVAILABLE, stall=None)
    return replace(ledger, counted={}, events=(), unit=ledger.time_unit, precision=precision)


def thread_of(
    seen: ThreadSeen, states: Mapping[str, Cell], window: Window, sampled: Mapping[str, Estimate] | None = None
) -> Thread | None:
    """Return the thread in this window, or None if it is not in it."""
    end = seen.end if seen.end is not None and seen.end <= window.end else None
    until = window.end if end is None else end
    start = max(seen.start, window.start)
    if until < start:
        if not states:
            return None
        start = until = min(max(until, window.start), window.end)
        end = None if end is None else until
    span = sum(cell.time for cell in states.values())
    thread = Thread(seen.tid, seen.pid, seen.name, seen.birth, start, end, until, span, states)
    return replace(thread, sampled=sampled or {}, cgroup=seen.cgroup) if sampled or seen.cgroup is not None else thread


def _remarks(recording: Contents) -> dict[str, str]:
    """Return the reasons that say what is missing in a recording that is not complete."""
    unit = recording.document.ledger.time_unit
    start = recording.document.ledger.window.start
    remarks = []
    event = recording.document.event
    if event:
        remarks.append(event)
    elif not recording.closed:
        remarks.append(
            f"it was not closed; {_length(recording.window.end - start, unit)} from its beginning are there"
            if recording.parts
            else "it was not closed, and no part of it is there"
        )
    if recording.dropped_parts and not event:
        remarks.append(
            f"its first {_length(recording.window.start - start, unit)} were dropped to keep it within its limits"
        )
    if recording.damaged:
        name, why = next(iter(recording.damaged.items()))
        more = f" and {len(recording.damaged) - 1} more" if len(recording.damaged) > 1 else ""
        remarks.append(f"damaged: {name} ({why}){more}")
    return {"recording": "; ".join(remarks)} if remarks else {}


def _length(time: int, unit: str) -> str:
    return f"{time / 1e9:.3f} s" if unit == "ns" else f"{time:,} cycles"


def kept(recording: Contents) -> Ledger | None:
    """Return the ledger that the source kept, or None if the recording was not closed or that part is damaged.

    Raises HeadwayError if it breaks the law of conservation.
    """
    if not recording.closed:
        return None
    states = list(recording.tables("states"))
    processors = list(recording.tables("processors"))
    if not states or not processors:
        return None
    window, seen = recording.document.ledger.window, recording.threads()
    of_threads: defaultdict[int, dict[str, Cell]] = defaultdict(dict)
    of_processors: defaultdict[int, dict[str, Cell]] = defaultdict(dict)
    sampled: defaultdict[int, dict[str, Estimate]] = defaultdict(dict)
    sampled_there: defaultdict[int, dict[str, Estimate]] = defaultdict(dict)
    for row in states[-1].to_pylist():
        of_threads[row["thread"]][row["state"]] = _cell(row)
        if estimate := _estimate(row):
            sampled[row["thread"]][row["state"]] = estimate
    for row in processors[-1].to_pylist():
        of_processors[row["cpu"]][row["state"]] = _cell(row)
        if estimate := _estimate(row):
            sampled_there[row["cpu"]][row["state"]] = estimate
    known = (thread_of(seen[n], of_threads[n], window, sampled.get(n)) for n in sorted(seen))
    unnamed = len(of_threads.keys() - seen.keys())
    ledger = replace(
        recording.document.ledger,
        losses={**recording.losses(), **({"threads_unnamed": unnamed} if unnamed else {})},
        source="recording",
        threads=tuple(thread for thread in known if thread is not None),
        processors=tuple(
            Processor(cpu, sum(c.time for c in cells.values()), cells, sampled_there.get(cpu, {}))
            for cpu, cells in sorted(of_processors.items())
        ),
    )
    return _lawful(ledger, recording)


_ESTIMATE = ("sampled", "samples", "by_mode", "mode_samples")
"""The columns of an estimate, in the order of its fields."""
_NO_FIGURES = ("thread", "cpu", "state", "events", *_ESTIMATE)
"""The columns of a state that are no figure of its cell."""


def _estimate(row: Mapping[str, int | None]) -> Estimate | None:
    """Return the parts of a state's time that were divided; None: there are none."""
    figures = [row[name] or 0 for name in _ESTIMATE]
    return Estimate(*figures) if any(figures) else None


def _cell(row: Mapping[str, object]) -> Cell:
    figures = {name: row[name] for name in row if name not in _NO_FIGURES}
    events = row["events"]
    return Cell(**figures, events=None if events is None else dict(events))  # type: ignore[arg-type, call-overload]


def _lawful(ledger: Ledger, recording: Contents) -> Ledger:
    broken = violations(ledger)
    if broken:
        text = ascii(broken[0])[1:-1]
        raise HeadwayError(
            f"{os.fspath(recording.path)!a} does not add up ({text[:200]}): it is damaged, or was not made by headway"
        )
    return ledger
