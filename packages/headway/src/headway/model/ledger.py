"""The ledger: thread x state -> cell, and processor x state -> cell.

Every source yields a ledger and every view shows one. A ledger keeps the law of conservation: the times of a thread's
states add up exactly to the span in which the thread was measured, and those of a processor to its span in the window.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace
from functools import reduce
from operator import add

from headway.dataclass import dataclass

from .cause import Behind, Cause, add_causes, subtract_causes, within
from .cell import Cell
from .counted import Counted
from .durations import StateDurations, add_durations, subtract_durations
from .estimate import RUNNING, Estimate, add_sampled, subtract_sampled
from .indices import (
    EXACT,
    Amounts,
    Indices,
    Precision,
    amounts_in_time,
    amounts_of,
    indices_of,
    processor_time,
    time_by_kind,
    undivided_time,
)
from .kernel_clock import KernelClock
from .kinds import Kind, kind_of
from .quality import Quality
from .ready import count_of_durations, time_with_causes
from .tasks import Task, add_tasks, fitted, subtract_tasks, tiles
from .uses import Uses, add_uses, subtract_uses

__all__ = [
    "Ledger",
    "Overhead",
    "Processor",
    "Thread",
    "Window",
    "add_states",
    "merge",
    "since",
    "unit_of",
    "violations",
]

States = Mapping[str, Cell]


@dataclass(frozen=True, slots=True)
class Window:
    """The start and end of the time that a ledger covers, in its time unit; on Linux ns of CLOCK_MONOTONIC."""

    start: int
    end: int

    @property
    def duration(self) -> int:
        """Length of the window."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class Thread:
    """One thread and what it did.

    Thread ids are reused, so a thread is (tid, birth). ``start`` is when its measurement in this window began. ``end``
    is its exit, or None if it outlived the window. ``until`` is the last moment that the figures cover: its exit, else
    the window's end. ``span`` is the time measured, to which its states add up; it is until - start if nothing was left
    out.
    """

    tid: int
    pid: int
    name: str
    birth: int
    start: int
    end: int | None
    until: int
    span: int
    states: States
    causes: tuple[Cause, ...] = ()
    """The causes of the states, where they were recorded."""
    kernel_clock: KernelClock | None = None
    """Processor time by the kernel's clock. None: the source does not tell it."""
    sampled: Mapping[str, Estimate] = field(default_factory=dict)
    """The parts of the states' times that were divided by samples or by cycles, by state. Empty: all is exact."""
    tasks: tuple[Task, ...] = ()
    """What it did for its tasks: parts of the states' times. Empty: it had no task, or tasks were not asked for."""
    durations: StateDurations | None = None
    """How long the single occurrences of the states lasted. None: that was not kept. A state whose count is not known
    is not in it.
    """
    cgroup: str | None = None
    """The path of the control group of its process (`headway.model.origin`). None: it was not read."""

    @property
    def key(self) -> tuple[int, int]:
        """(tid, birth): identifies this thread on its machine."""
        return self.tid, self.birth

    def times(self) -> Mapping[Kind, int]:
        """Return the time of each kind."""
        return time_by_kind(self.states)

    def tiles(self) -> tuple[Task, ...]:
        """Return its tasks and the time between them, which add up to its states. Empty: it had no task."""
        return tiles(self.states, self.tasks)


@dataclass(frozen=True, slots=True)
class Processor:
    """One processor and what it did. ``span`` is the time measured."""

    cpu: int
    span: int
    states: States
    sampled: Mapping[str, Estimate] = field(default_factory=dict)
    """The parts of the states' times that were divided by samples or by cycles, by state. Empty: all is exact."""


@dataclass(frozen=True, slots=True)
class Overhead:
    """The observer's own cost: ``time``, in the ledger's time unit, over all ``events``.

    With eBPF an event is one run of a handler that charged a span, or one wake-up that ended a wait. With /proc it is
    one look at one thread. On the machine it is one state that a hart entered. The rows of a recording are not its
    events: a switch is one event and can end two rows, and an event at which no time had passed is no row. None: it
    could not be measured.
    """

    time: int | None = None
    events: int | None = None
    range: tuple[float, float] = (1.0, 1.0)
    """How often as much observing may have cost, at least and at most. Both are 1 where the cost is known."""
    own: int | None = None
    """The processor time of the observer's own process meanwhile. None: not known, or ``time`` is that."""
    others: int | None = None
    """What threads that were not measured lost to it, about. None: not known."""

    @property
    def per_event(self) -> float | None:
        """Time per event."""
        return self.time / self.events if self.time is not None and self.events else None

    def __add__(self, other: Overhead) -> Overhead:
        """Return the sum of both. What is unknown in one is unknown in the sum."""
        return Overhead(
            None if self.time is None or other.time is None else self.time + other.time,
            None if self.events is None or other.events is None else self.events + other.events,
            (min(self.range[0], other.range[0]), max(self.range[1], other.range[1])),
            None if self.own is None or other.own is None else self.own + other.own,
            None if self.others is None or other.others is None else self.others + other.others,
        )

    def rpi_range(self, times: Mapping[Kind, int]) -> tuple[int, int]:
        """Return the lowest and the highest RPI that these times of a thread, by kind, can stand for.

        What was taken out for the observer is the thread's own if observing cost less, and the other way round.
        """
        rpi, taken = processor_time(times), times.get(Kind.OVERHEAD, 0)
        least, most = self.range
        return max(0, rpi - round(taken * (most - 1))), rpi + round(taken * (1 - least))

    def __sub__(self, earlier: Overhead) -> Overhead:
        """Return what was added since an earlier reading."""
        return Overhead(
            None if self.time is None or earlier.time is None else self.time - earlier.time,
            None if self.events is None or earlier.events is None else self.events - earlier.events,
            self.range,
            None if self.own is None or earlier.own is None else self.own - earlier.own,
            None if self.others is None or earlier.others is None else self.others - earlier.others,
        )


@dataclass(frozen=True, slots=True)
class Ledger:
    """Threads and processors with what they did, and the properties needed to read the figures."""

    source: str
    """``bpf``, ``proc``, ``machine`` or ``recording``."""
    window: Window
    threads: tuple[Thread, ...] = ()
    processors: tuple[Processor, ...] = ()
    precision: Precision = EXACT
    reasons: Mapping[str, str] = field(default_factory=dict)
    """Why a figure is not exact: index name (or a word such as ``stolen``) -> one clause."""
    losses: Mapping[str, int] = field(default_factory=dict)
    """What could not be seen: name -> number or time. Every loss is counted here."""
    overhead: Overhead = Overhead()
    unit: str = "ns"
    """Unit of the indices."""
    time_unit: str = "ns"
    """Unit of times: ``ns`` or ``cycles``."""
    counted: Mapping[str, Counted] = field(default_factory=dict)
    """The hardware and software events that were counted: name -> how much of the time they had a counter. Empty: none.
    """
    events: tuple[str, ...] = ()
    """The events that the user asked for, in that order. The cells' ``events`` have their counts."""
    uses: Uses | None = None
    """The system calls by file, and the locks, as far as they were asked for. None: neither was."""

    def amounts(self, thread: Thread, *others: Thread) -> Amounts:
        """Return the amount of each kind that the threads together had, in `unit`, divided by hardware counters where
        there are any.
        """
        had = self._amounts(thread)
        return reduce(add, map(self._amounts, others), had) if others else had

    def _amounts(self, thread: Thread) -> Amounts:
        if self.counted:
            return amounts_of(thread.states, cycles=self.unit == "cycles", sampled=thread.sampled)
        undivided = undivided_time(thread.states)
        if not undivided and not thread.sampled:
            return Amounts(thread.times())
        return amounts_in_time(thread.times(), thread.sampled, undivided)

    def times(self, one: Thread | Processor) -> Mapping[Kind, int]:
        """Return the time of each kind. That of user code is divided like its cycles, where hardware counted them."""
        return amounts_of(one.states, cycles=False).by_kind if self.counted else time_by_kind(one.states)

    def indices(self, thread: Thread, *others: Thread) -> Indices:
        """Return the indices of the thread, or of several threads together, at this ledger's precision."""
        if not (others or self.counted or thread.sampled or undivided_time(thread.states)):  # most threads
            found = indices_of(thread.times(), self.precision)
        else:
            found = self.amounts(thread, *others).indices(self.precision)
        if self.precision.total is not Quality.ESTIMATED:
            return found
        every = [each.times() for each in (thread, *others)]
        least, most = map(sum, zip(*map(self.overhead.rpi_range, every), strict=True))
        time, rpi = sum(map(processor_time, every)), found.rpi
        if rpi is not None and rpi != time:  # it is in cycles, and the range in time
            least, most = (rpi * least // time, -(-rpi * most // time)) if time else (rpi, rpi)
        return replace(found, interval={**found.interval, "rpi": (least, most)})

    @property
    def divides_every_cycle(self) -> bool:
        """Whether time is cycles of one clock, of which each is counted in one state: that of the reference machine."""
        return bool(self.counted) and self.time_unit == "cycles"

    @property
    def divided(self) -> bool:
        """Whether processor time of a thread was divided by samples or cycles, or could not be divided at all."""
        for t in self.threads:
            if t.sampled or (RUNNING in t.states if type(t.states) is dict else undivided_time(t.states)):
                return True
        return False

    def worth(self) -> Precision:
        """Return the precision of all threads together: that of the source, or worse if time was divided by samples."""
        if not self.divided:
            return self.precision
        return self.amounts(*self.threads).worth(self.precision)

    def share(self, time: int) -> float:
        """Return the time as a share of the window: 1 is one processor, or off it one thread, for all of the window."""
        return time / self.window.duration if self.window.duration else 0.0


def unit_of(threads: Iterable[Thread], time_unit: str = "ns") -> str:
    """Return the unit of the indices: ``cycles`` if every state on a processor has its cycles counted, else the time
    unit.
    """
    for thread in threads:
        for state, cell in thread.states.items():
            if cell.cycles is None and cell.time and kind_of(state).in_rpi:
                return time_unit
    return "cycles"


def add_states(*many: States) -> dict[str, Cell]:
    """Return the cells of several threads or processors added up, state by state."""
    total: dict[str, Cell] = {}
    for states in many:
        for state, cell in states.items():
            total[state] = total[state] + cell if state in total else cell
    return total


def _merge_threads(a: Thread, b: Thread) -> Thread:
    ends = [end for end in (a.end, b.end) if end is not None]
    later = max(a, b, key=lambda t: (t.until, t.name, t.pid, t.cgroup or ""))
    states = add_states(a.states, b.states)
    return Thread(
        tid=a.tid,
        pid=later.pid,
        name=later.name,
        birth=a.birth,
        start=min(a.start, b.start),
        end=max(ends) if ends else None,
        until=later.until,
        span=a.span + b.span,
        states=states,
        causes=add_causes(a.causes, b.causes),
        kernel_clock=a.kernel_clock + b.kernel_clock if a.kernel_clock and b.kernel_clock else None,
        sampled=_add_if_any(a.sampled, b.sampled),
        tasks=add_tasks(a.tasks, b.tasks) if a.tasks or b.tasks else (),
        durations=add_durations(a.durations, b.durations, of=states),
        cgroup=later.cgroup,
    )


def _add_if_any(a: Mapping[str, Estimate], b: Mapping[str, Estimate]) -> Mapping[str, Estimate]:
    return add_sampled(a, b) if a or b else {}


def _merge_processors(a: Processor, b: Processor) -> Processor:
    return Processor(a.cpu, a.span + b.span, add_states(a.states, b.states), _add_if_any(a.sampled, b.sampled))


def merge(a: Ledger, b: Ledger) -> Ledger:
    """Merge two ledgers of one machine: consecutive windows, or different threads and processors of the same window.

    Associative and commutative. The times of a thread that is in both ledgers add up, so the two must not overlap for
    that thread. Merging a ledger in cycles with one in time gives indices in time. Raises ValueError if the time units
    differ.
    """
    if a.time_unit != b.time_unit:
        raise ValueError(f"ledgers in {a.time_unit} and in {b.time_unit} cannot be merged")
    threads = {t.key: t for t in a.threads}
    for t in b.threads:
        threads[t.key] = _merge_threads(threads[t.key], t) if t.key in threads else t
    processors = {p.cpu: p for p in a.processors}
    for p in b.processors:
        mine = processors.get(p.cpu)
        processors[p.cpu] = _merge_processors(mine, p) if mine else p
    return Ledger(
        source=a.source if a.source == b.source else "+".join(sorted({*a.source.split("+"), *b.source.split("+")})),
        window=Window(min(a.window.start, b.window.start), max(a.window.end, b.window.end)),
        threads=tuple(threads[key] for key in sorted(threads)),
        processors=tuple(processors[cpu] for cpu in sorted(processors)),
        precision=a.precision | b.precision,
        reasons=_merge_reasons(a.reasons, b.reasons),
        losses={name: a.losses.get(name, 0) + b.losses.get(name, 0) for name in sorted({*a.losses, *b.losses})},
        overhead=a.overhead + b.overhead,
        unit=a.unit if a.unit == b.unit else a.time_unit,
        time_unit=a.time_unit,
        counted={
            name: a.counted.get(name, Counted()) + b.counted.get(name, Counted())
            for name in sorted({*a.counted, *b.counted})
        },
        events=a.events if a.events == b.events else tuple(sorted({*a.events, *b.events})),
        uses=add_uses(a.uses, b.uses),
    )


def _merge_reasons(a: Mapping[str, str], b: Mapping[str, str]) -> dict[str, str]:
    return {
        name: "; ".join(sorted({*a.get(name, "").split("; "), *b.get(name, "").split("; ")} - {""}))
        for name in sorted({*a, *b})
    }


def since(later: Ledger, earlier: Ledger) -> Ledger:
    """Return what happened between two cumulative readings of one source: the later one less the earlier one.

    Threads that had ended before the earlier reading are left out.
    """
    before = {t.key: t for t in earlier.threads}
    threads = []
    for t in later.threads:
        old = before.get(t.key)
        if old is None:
            threads.append(t)
        elif old.end is None:
            states = _subtract(t.states, old.states)
            causes = within(states, subtract_causes(t.causes, old.causes)) if t.causes else ()
            start = max(t.start, earlier.window.end)
            clock = t.kernel_clock - old.kernel_clock if t.kernel_clock and old.kernel_clock else None
            span = t.span - old.span
            sampled = subtract_sampled(t.sampled, old.sampled) if t.sampled else t.sampled
            tasks = fitted(states, subtract_tasks(t.tasks, old.tasks)) if t.tasks else ()
            threads.append(
                replace(
                    t,
                    start=start,
                    span=span,
                    states=states,
                    causes=causes,
                    kernel_clock=clock,
                    sampled=sampled,
                    tasks=tasks,
                    durations=subtract_durations(t.durations, old.durations, of=states),
                )
            )
    processors_before = {p.cpu: p for p in earlier.processors}
    processors = []
    for p in later.processors:
        was = processors_before.get(p.cpu)
        processors.append(_processor_since(p, was) if was else p)
    return replace(
        later,
        window=Window(earlier.window.end, later.window.end),
        threads=tuple(threads),
        processors=tuple(processors),
        losses={name: n - earlier.losses.get(name, 0) for name, n in later.losses.items()},
        overhead=later.overhead - earlier.overhead,
        counted={name: c - earlier.counted.get(name, Counted()) for name, c in later.counted.items()},
        uses=None if later.uses is None else subtract_uses(later.uses, earlier.uses),
    )


def _processor_since(later: Processor, earlier: Processor) -> Processor:
    sampled = subtract_sampled(later.sampled, earlier.sampled) if later.sampled else later.sampled
    return Processor(later.cpu, later.span - earlier.span, _subtract(later.states, earlier.states), sampled)


def _subtract(later: States, earlier: States) -> dict[str, Cell]:
    difference = {}
    for state, cell in later.items():
        old = earlier.get(state)
        new = cell - old if old is not None else cell
        if not new.empty:
            difference[state] = new
    return difference


def violations(ledger: Ledger) -> list[str]:
    """Return one sentence for each violation of the law of conservation; an empty list if there is none.

    Checked are: no time or count is negative. Each thread's times add up to its span. The span is no longer than from
    its start to the last moment that the figures cover, and both lie within the window. The causes of a state add up to
    at most its time. The parts of a state's time that were divided by samples and by cycles are at most its time. The
    tasks of a thread have in no state more time than the thread. The durations of a state are as many as its count;
    those of ``ready`` as the counts of all of its parts.
    Each processor's times add up to its span, and the span is no longer than the window.
    """
    broken = []
    rows: Iterable[tuple[str, int, States, Mapping[str, Estimate]]] = [
        *((f"thread {t.tid} ({t.name})", t.span, t.states, t.sampled) for t in ledger.threads),
        *((f"processor {p.cpu}", p.span, p.states, p.sampled) for p in ledger.processors),
    ]
    for who, span, states, sampled in rows:
        total = sum(cell.time for cell in states.values())
        if total != span:
            broken.append(f"{who}: its states add up to {total}, its span is {span}: {total - span:+d}")
        broken += [f"{who}: {s} has time {c.time}" for s, c in states.items() if c.time < 0]
        broken += [f"{who}: {s} has count {c.count}" for s, c in states.items() if c.count is not None and c.count < 0]
        broken += [f"{who}: {words}" for words in _sampled_broken(states, sampled)]
        if not 0 <= span <= ledger.window.duration:
            broken.append(f"{who}: its span {span} does not fit a window of {ledger.window.duration}")
    for t in ledger.threads:
        who = f"thread {t.tid} ({t.name})"
        if not ledger.window.start <= t.start <= t.until <= ledger.window.end:
            broken.append(f"{who}: {t.start} to {t.until} is not within {ledger.window.start} to {ledger.window.end}")
        elif t.span > t.until - t.start:
            broken.append(f"{who}: its span {t.span} is longer than {t.start} to {t.until}")
        if t.end not in (None, t.until):
            broken.append(f"{who}: it ended at {t.end}, its figures speak for it until {t.until}")
        broken += [f"{who}: {words}" for words in _causes_broken(t)]
        broken += [f"{who}: {words}" for words in _tasks_broken(t)]
        broken += [f"{who}: {words}" for words in _durations_broken(t)]
    return broken


def _tasks_broken(thread: Thread) -> Iterator[str]:
    for task in thread.tiles():
        for state, cell in task.states.items():
            if cell.time < 0:
                yield f"{task.title} has time {cell.time} in {state}"


def _durations_broken(thread: Thread) -> Iterator[str]:
    for state, durations in (thread.durations or {}).items():
        count = count_of_durations(thread.states, state)
        if durations.count != count:
            yield f"{state} has {durations.count} durations, its count is {count}"
        if any(number < 0 for _, number in durations.buckets):
            yield f"a bucket of {state} has fewer than no durations"


def _sampled_broken(states: States, sampled: Mapping[str, Estimate]) -> Iterator[str]:
    for state, estimate in sampled.items():
        has = states[state].time if state in states else 0
        if not 0 <= estimate.time <= has:
            yield f"of {state} {estimate.time} was divided by samples, it has {has}"
        elif not 0 <= estimate.by_mode <= has - estimate.time:
            yield f"of {state} {estimate.by_mode} was divided by cycles, it has {has - estimate.time} beside samples"
        for samples in (estimate.samples, estimate.mode_samples):
            if samples < 0:
                yield f"{state} has {samples} samples"


def _causes_broken(thread: Thread) -> Iterator[str]:
    behind: dict[tuple[str, Behind], int] = {}
    for cause in thread.causes:
        if cause.time < 0 or cause.count < 0:
            yield f"{cause.behind.value} {cause.name!r} of {cause.state} has time {cause.time}, count {cause.count}"
        key = cause.state, cause.behind
        behind[key] = behind.get(key, 0) + cause.time
    for (state, kind), time in behind.items():
        has = time_with_causes(thread.states, state)
        if time > has:
            yield f"the {kind.value}s of {state} add up to {time}, it has {has}"
