"""Find the observer's cost of an event, before the reported time begins, on a process of our own.

The process repeats one thing: observed, unobserved, observed again. The difference, divided by the number of events
of a round, is the cost of an event. The three measurements follow each other at once, because a machine that others
use too changes its speed within tenths of a second. Where it did so all the same, they are made again. Each is the
median of short rounds and not the shortest round, because what always slows the process down also slows the threads
down whose times are corrected. Times are processor time, and a round in which another thread took the processor away
counts only where there are too few others (`ExercisingProcess.undisturbed`). Interrupts cannot be made at will. The
cost of their handlers comes from the kernel's own statistics of eBPF programs, where it keeps them (BPF_ENABLE_STATS,
since 5.8). Elsewhere it is assumed to be that of a system call.

Marks of regions cost a program the same whether it is observed or not. What a pair of them takes is found by marking
regions that have nothing in them.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

from headway.exhaustion import fork
from headway.linux.levels import Level
from headway.linux.perf import perf_event as perf
from headway.linux.procfs import processors

from ..programs.attaching import Attachments
from ..programs.libbpf import Object
from ..programs.unavailable import UnavailableError
from ..shared.layout import EVENTS, TIMED
from . import _exercise

if TYPE_CHECKING:
    from ..reading.memory import BpfMaps

_Round = TypeVar("_Round")

__all__ = [
    "BEFORE",
    "Comparison",
    "Costs",
    "Exercise",
    "ExercisingProcess",
    "are_plausible",
    "believable",
    "compare",
    "cost_of_passing",
    "costs",
    "find_ways_back",
    "mean_runs",
    "middle_of",
]

BEFORE = 0.4
"""The part of an event's cost that lies before the handler reads its clock, and so in the state that ends; the rest
lies in the state that begins. Entry, clock and work weigh about the same; how they are divided moves some nanoseconds
from one state of a thread to the next, and changes no sum."""

COMPARISONS = 3
"""How often the programs are detached and attached again at most, until nothing disturbs it; each time takes 30 ms."""

_ROUNDS, _MOST_ROUNDS = 9, 18
"""Undisturbed rounds that are wanted, and how many there are at most."""
_PLAUSIBLE = 0.25, 8.0
"""What a call's event costs at least and at most, as a multiple of what the kernel counted for the program itself."""
_MOST_INTERRUPT = 8.0
"""How long an interrupt's program runs at most, as a multiple of a call's. Only few happen meanwhile: one during which
the hypervisor had the processor shows."""
_SAME_SPEED = 0.15
"""The relative difference of two exercises between which the machine has not changed its speed."""
_SAMPLED_ROUNDS, _SAMPLED_CALLS, _SAMPLING_NS = 5, 20_000, 100_000
"""To find what a sample costs: rounds, calls in each, and ns from one sample to the next: some fall into a round."""
_WAYS_BACK, _WAYS_BACK_ROUNDS = 32, 5
"""Of each kind in a round, and rounds: the shortest counts, because a bound is wanted."""
_MARKS = 400
"""Regions in a round."""
_CALLS, _READS, _POLLS, _LOOKS, _FAULTS, _HANDOVERS, _FUNCTION_CALLS = 400, 300, 300, 300, 64, 120, 400
_ENTERED = _CALLS + _READS + _POLLS + _LOOKS + 4 * _HANDOVERS
"""Calls in a round."""
_TIMERS = ("irq_vector", "irq_handler")
"""Interrupts that happen while costs are looked for, by their programs: the timer's on x86, and where it has a line."""
_WAKE = 0.3
"""A wake-up's part of what a switch and a wake-up cost together, where the kernel's statistics do not tell."""


@dataclass(frozen=True, slots=True)
class Exercise:
    """What it takes, ns: one call, one that could be a status check (a read), one status check that finds nothing, one
    that is such by its file (a read too), one fault, one hand-over and back (four reads and writes, two switches, two
    wake-ups)."""

    call: float
    read: float
    poll: float
    look: float
    fault: float
    handover: float

    def is_like(self, other: Exercise) -> bool:
        """Return whether calls and hand-overs took about as long in another one."""
        pairs = (self.call, other.call), (self.handover, other.handover)
        return all(abs(one - two) <= _SAME_SPEED * max(one, two) for one, two in pairs)

    @classmethod
    def mean(cls, many: Sequence[Exercise]) -> Exercise:
        """Of several."""
        return cls(*(sum(getattr(one, f.name) for one in many) / len(many) for f in fields(cls)))


@dataclass(frozen=True, slots=True)
class Costs:
    """The observer's part in an event, ns, by kind (`layout.EVENTS`)."""

    of: Mapping[str, float]
    functions: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """What a call of a marked function costs, by `FUNCTIONS`: in the function's time, and in its caller's."""
    marks: tuple[float, float] = (0.0, 0.0)
    """What a pair of marks of a region takes: in the region, and around it."""
    ways_back: tuple[float, float] = (0.0, 0.0)
    """What the kernel takes on a way back to user code after its last event there: after a call that put something off,
    and into a signal handler (way_back.h)."""
    own_return: tuple[float, float] | None = None
    """The same of a call whose return is seen at the function's own return instruction, of the first of `FUNCTIONS`.
    None: no function has such a probe.
    """
    runs: Mapping[str, float] = field(default_factory=dict)
    """How long a run of a handler took meanwhile, from where it read the clock, ns, by `layout.TIMED`; of those that
    were timed. It changes with the costs (`drift`).
    """
    passing: tuple[float, float] | None = None
    """What the beginning or end of a call costs a thread that is not measured, ns, and what a switch between such
    threads and a wake-up cost together. None: not known.
    """
    certainty: tuple[float, float] = (1.0, 1.0)
    """How often as much events may cost, at least and at most: what was found in several comparisons. Both are 1 where
    nothing disturbed the first.
    """

    def scaled(self, *, calls: float, switches: float) -> Costs:
        """Return what events cost where those of calls, faults and interrupts, and those of switches, cost more."""
        factors = dict.fromkeys(self.of, calls) | dict.fromkeys(("switch", "wake"), switches) | {"sample": 1.0}
        passing = self.passing and (self.passing[0] * calls, self.passing[1] * switches)
        return replace(self, of={kind: cost * factors[kind] for kind, cost in self.of.items()}, passing=passing)

    def before(self) -> list[float]:
        """The parts before the handlers' clocks, in the order of the kinds."""
        inside, outside = self.functions.get(FUNCTIONS[0], (0.0, 0.0))
        parts = {kind: BEFORE * cost for kind, cost in self.of.items() if kind not in _AFTER}
        own = max(0.0, self.own_return[0] - inside / 2) if self.own_return else 0.0
        ends = {"function_end": inside / 2, "function_exit": own}
        return _ordered(parts | dict.fromkeys(FUNCTIONS, outside / 2) | ends)

    def after(self) -> list[float]:
        """The parts after."""
        inside, outside = self.functions.get(FUNCTIONS[0], (0.0, 0.0))
        parts = {kind: cost if kind in _AFTER else (1 - BEFORE) * cost for kind, cost in self.of.items()}
        calls = {kind: both[0] - inside / 2 for kind, both in self.functions.items()}
        own = max(0.0, self.own_return[1] - outside / 2) if self.own_return else 0.0
        return _ordered(parts | calls | {"function_end": outside / 2, "function_exit": own})

    def of_call(self, kind: str, *, own_return: bool) -> float:
        """Return what a call of a marked function costs, ns. ``kind``: one of `FUNCTIONS`."""
        cost = sum(self.functions[kind])
        if own_return and self.own_return is not None:
            cost += sum(self.own_return) - sum(self.functions[FUNCTIONS[0]])
        return cost


@dataclass(frozen=True, slots=True)
class Comparison:
    """What was found by comparing."""

    costs: Costs
    call: float
    """What a system call takes while it is observed, ns."""
    undisturbed: bool
    """Whether nothing else had the processor, and the costs fit what the kernel counted."""


_AFTER = ("ask", "look", "answer", "sample")
"""Kinds that come on top of another, whose handlers have read the clock, or that divide no span."""


def _ordered(parts: Mapping[str, float]) -> list[float]:
    return [parts.get(kind, 0.0) for kind in sorted(EVENTS, key=lambda kind: EVENTS[kind])]


def costs(
    without: Exercise,
    observed: Exercise,
    handlers: Mapping[str, float],
    level: Level = Level.INTERRUPTS,
    sample: float = 0.0,
) -> Costs:
    """What each kind of event costs; of a kind that is not seen at the level, nothing.

    ``handlers``: the mean time of a run of the programs, ns, as the kernel counted it, by their names; those that did
    not run are missing. ``sample``: what a sample of the state takes, ns.
    """
    if level is Level.SWITCHES:
        return _costs_of_switches(without, observed, handlers, sample)
    call = max(0.0, observed.call - without.call) / 2
    poll = observed.poll - without.poll
    look = max(0.0, observed.look - without.look - poll)
    ask = max(0.0, observed.read - without.read - 2 * call)
    answer = max(0.0, poll - 2 * call - ask)
    fault = max(0.0, observed.fault - without.fault) / 2
    both = max(0.0, (observed.handover - without.handover - 8 * call - 4 * ask) / 2)
    part = _wake_part(handlers)
    # What comes to a run beside the program itself: the way to it and back, less the statistics' own clock.
    own = handlers.get("handle_sys_enter")
    in_rows = (_POLLS + _LOOKS) / _ENTERED  # whose beginnings and ends take alike
    way = call + in_rows * answer / 2 - own if own else 0.0
    begins, ends = (
        next((handlers[f"handle_{line}_{edge}"] for line in _TIMERS if f"handle_{line}_{edge}" in handlers), None)
        for edge in ("entry", "exit")
    )
    interrupt = call if begins is None else max(0.0, begins + way)
    interrupt_end = call if ends is None else max(0.0, ends + way)
    return Costs(
        {
            "enter": call,
            "leave": call,
            "ask": ask,
            "look": look,
            "answer": answer,
            "switch": both * (1 - part),
            "wake": both * part / BEFORE,  # all of it lies in what the waker does
            "fault": fault,
            "fault_end": fault,
            "interrupt": interrupt,
            "interrupt_end": interrupt_end,
            "sample": sample,
        }
    )


def _costs_of_switches(without: Exercise, observed: Exercise, handlers: Mapping[str, float], sample: float) -> Costs:
    """Return what events cost where calls, faults and interrupts are not seen."""
    both = max(0.0, (observed.handover - without.handover) / 2)
    part = _wake_part(handlers)
    return Costs({"switch": both * (1 - part), "wake": both * part / BEFORE, "sample": sample})


def _wake_part(handlers: Mapping[str, float]) -> float:
    """Return a wake-up's part of what a switch and a wake-up cost together."""
    wake, switch = handlers.get("handle_sched_wakeup"), handlers.get("handle_sched_switch")
    return wake / (wake + switch) if wake and switch else _WAKE


def compare(
    programs: Object,
    attachments: Attachments,
    exerciser: ExercisingProcess,
    timed: Callable[[], Sequence[tuple[int, int]]],
    level: Level = Level.INTERRUPTS,
    *,
    samples: bool = False,
    passing: Exercise | None = None,
) -> Comparison:
    """Find what events cost, from how long the process takes with the programs attached and without them.

    It is done again where something disturbed it. ``timed``: the time in timed runs, ns, and their number, by
    `layout.TIMED`. ``samples``: what a sample of the state costs is found too. ``passing``: how long the process took
    while it was not measured; it is measured from now on.
    Raises HeadwayError where a program cannot be attached again.
    """
    handlers = believable(_run_times(programs, exerciser))
    sample = _cost_of_sample(exerciser) if samples else 0.0
    found: list[Comparison] = []
    while len(found) < COMPARISONS and not (found and found[-1].undisturbed):
        found.append(_compare_once(attachments, exerciser, timed, handlers, level, sample, passing))
    return found[-1] if found[-1].undisturbed else middle_of(found)


def _compare_once(
    attachments: Attachments,
    exerciser: ExercisingProcess,
    timed: Callable[[], Sequence[tuple[int, int]]],
    handlers: Mapping[str, float],
    level: Level,
    sample: float,
    passing: Exercise | None,
) -> Comparison:
    exerciser.undisturbed = True  # what comes now is compared
    before = timed()
    first = exerciser.exercise()
    with attachments.detached():
        without = exerciser.exercise()
    last = exerciser.exercise()
    found = replace(
        costs(without, Exercise.mean((first, last)), handlers, level, sample),
        runs=mean_runs(before, timed()),
        passing=None if passing is None else cost_of_passing(without, passing),
    )
    undisturbed = exerciser.undisturbed and first.is_like(last) and are_plausible(found, handlers)
    return Comparison(found, (first.call + last.call) / 2, undisturbed)


def cost_of_passing(without: Exercise, passing: Exercise) -> tuple[float, float]:
    """Return what events cost a thread that is not measured (`Costs.passing`)."""
    call = max(0.0, passing.call - without.call) / 2
    return call, max(0.0, passing.handover - without.handover - 8 * call) / 2


def mean_runs(before: Sequence[tuple[int, int]], after: Sequence[tuple[int, int]]) -> dict[str, float]:
    """Return how long the runs that were timed between took, ns, by `layout.TIMED`; of those that were."""
    means = {}
    for name, which in TIMED.items():
        (time, runs), (time_before, runs_before) = after[which], before[which]
        if runs > runs_before:
            means[name] = (time - time_before) / (runs - runs_before)
    return means


def middle_of(found: Sequence[Comparison]) -> Comparison:
    """Return the middle one of disturbed comparisons, which knows how far the others are from it.

    They are compared by what an event costs for each ns of its handler, which does not change with the machine's speed.
    """
    ordered = sorted(found, key=lambda each: _ratio(each.costs))
    middle = ordered[len(ordered) // 2]
    if not _ratio(middle.costs):  # nothing costs nothing
        middle = ordered[-1]
    least, ratio, most = (_ratio(each.costs) for each in (ordered[0], middle, ordered[-1]))
    certainty = (least / ratio, most / ratio) if ratio else (1.0, 1.0)
    return replace(middle, costs=replace(middle.costs, certainty=certainty))


def _ratio(found: Costs) -> float:
    handler = "enter" if found.of.get("enter") else "switch"
    return found.of.get(handler, 0.0) / found.runs.get(handler, 1.0)


def find_ways_back(memory: BpfMaps, exerciser: ExercisingProcess) -> tuple[float, float]:
    """Return what the kernel takes on ways back to user code (`Costs.ways_back`). The process is measured meanwhile."""
    memory.set_ways_back(None, None)
    exerciser.come_back()  # the first time takes longer
    rounds = []
    for _ in range(_WAYS_BACK_ROUNDS):
        before = memory.times_of(exerciser.pid)
        times = exerciser.come_back()
        after = memory.times_of(exerciser.pid)
        rounds.append([(after.get(s, 0) - before.get(s, 0)) / times for s in ("kernel.task_work", "kernel.signal")])
    task_work, signal = (max(0.0, min(found)) for found in zip(*rounds, strict=True))
    return task_work, signal


def _cost_of_sample(exerciser: ExercisingProcess) -> float:
    """Return what the interrupt of a sample takes, ns: how much longer a round takes in which there are many.

    Raises HeadwayError where the clock cannot be opened.
    """
    clock = replace(perf.SAMPLE_CLOCK, period=_SAMPLING_NS)
    costs = []
    for _ in range(_SAMPLED_ROUNDS):
        alone = exerciser.call()
        opened = perf.open_per_cpu([clock], processors.online())
        try:
            sampled = exerciser.call()
        finally:
            perf.close_all(fd for fds in opened.values() for fd in fds)
        costs.append((sampled - alone) * _SAMPLING_NS / sampled)
    return max(0.0, statistics.median(costs))


def _run_times(programs: Object, exerciser: ExercisingProcess) -> dict[str, float]:
    """Return the mean time of a run of each program, ns, as far as the kernel tells."""
    with programs.statistics():
        exerciser.exercise()
    times = {p.name: p.run_time() for p in programs.programs.values() if p.wanted}
    return {name: time / count for name, (time, count) in times.items() if count}


FUNCTIONS = ("function", "function_endbr", "function_other")
"""Calls of marked functions, by how the kernel carries out the instruction that the probe is on (as in layout.h).

It emulates some; others it has the processor carry out alone, which costs ten times as much.
"""


def believable(handlers: Mapping[str, float]) -> dict[str, float]:
    """Return the mean times of programs without those of interrupts that cannot be."""
    call = handlers.get("handle_sys_enter")
    interrupts = {f"handle_{line}_{edge}" for line in _TIMERS for edge in ("entry", "exit")}
    return {
        name: time
        for name, time in handlers.items()
        if name not in interrupts or not call or time <= _MOST_INTERRUPT * call
    }


def are_plausible(found: Costs, handlers: Mapping[str, float]) -> bool:
    """Return whether what a call costs fits how long the kernel says that its program runs, where it says so."""
    own, cost = handlers.get("handle_sys_enter"), found.of.get("enter")
    return not own or not cost or _PLAUSIBLE[0] * own <= cost <= _PLAUSIBLE[1] * own


class ExercisingProcess:
    """A process of ours with two threads: started when entered, gone when left."""

    pid: int
    undisturbed: bool = True
    """Whether enough rounds so far had their processor to themselves."""

    def __enter__(self) -> ExercisingProcess:
        """Start it."""
        ask, self._ask = os.pipe()
        self._answer, answer = os.pipe()
        self.pid = fork()
        if self.pid == 0:
            os.close(self._ask)
            os.close(self._answer)
            try:
                _exercise.prepare()
                while asked := os.read(ask, 1):
                    answered = _ANSWERS[asked]() if asked in _ANSWERS else _call_functions(int(asked))
                    os.write(answer, b"%s\n" % b" ".join(b"%d" % each for each in answered))
            finally:
                os._exit(0)
        os.close(ask)
        os.close(answer)
        return self

    def _asked(self, what: bytes) -> list[int]:
        """Have it do something. Return the figures, of which the first, whether it was undisturbed, is taken off.

        Raises UnavailableError if it has ended: it lacked a thread, a file or memory.
        """
        answer = b""
        with suppress(BrokenPipeError):
            os.write(self._ask, what)
            answer = os.read(self._answer, 128)
        if not answer:
            raise UnavailableError(
                "the process that headway calibrates with has no thread, file or memory left",
                "raise the limits (ulimit -a; pids.max and memory.max of the control group)",
            )
        undisturbed, *figures = map(int, answer.split())
        self.undisturbed = self.undisturbed and bool(undisturbed)
        return figures

    def exercise(self) -> Exercise:
        """How long it takes now: the medians of a few rounds."""
        call, read, poll, look, fault, handover = self._asked(b"?")
        return Exercise(
            call / _CALLS, read / _READS, poll / _POLLS, look / _LOOKS, fault / _FAULTS, handover / _HANDOVERS
        )

    def wait(self) -> None:
        """Wait until it is ready."""
        self._asked(b"r")

    def calls(self) -> float:
        """Return how long a system call takes now, ns: the median of a few rounds."""
        return self._asked(b"q")[0] / _CALLS

    def marks(self) -> tuple[float, float]:
        """Return what a pair of marks of a region takes, in the region and around it, ns: medians of a few rounds."""
        inside, whole = self._asked(b"m")
        return inside / _MARKS, max(whole - inside, 0) / _MARKS

    def call(self) -> int:
        """Return how long it takes to make `_SAMPLED_CALLS` system calls, ns."""
        return self._asked(b"c")[0]

    def call_functions(self, which: int) -> int:
        """Call a function that does nothing, of the kind `FUNCTIONS[which]`; how often."""
        self._asked(b"%d" % which)
        return _FUNCTION_CALLS

    def come_back(self) -> int:
        """Put work off until the end of a call, and send itself signals; how often each."""
        self._asked(b"b")
        return _WAYS_BACK

    def __exit__(self, kind: type[BaseException] | None, value: object, trace: TracebackType | None) -> None:
        """End it."""
        os.close(self._ask)
        os.close(self._answer)
        os.waitpid(self.pid, 0)


def _rounds(measure: Callable[[], _Round], switches: int = 0) -> tuple[bool, list[_Round]]:
    """Return whether there were enough undisturbed rounds, and those; all, if there were not.

    ``switches``: how often the threads leave the processor in a round by themselves.
    """
    quiet: list[_Round] = []
    every: list[_Round] = []
    while len(quiet) < _ROUNDS and len(every) < _MOST_ROUNDS:
        before = _exercise.switches()
        every.append(measure())
        if _exercise.switches() - before <= switches:
            quiet.append(every[-1])
    enough = len(quiet) > _ROUNDS // 2
    return enough, quiet if enough else every


def _median(exercise: Callable[[int], int], times: int, switches: int = 0) -> tuple[bool, int]:
    enough, rounds = _rounds(lambda: exercise(times), switches)
    return enough, int(statistics.median(rounds))


def _measure_marks() -> tuple[int, ...]:
    enough, rounds = _rounds(lambda: _exercise.marks(_MARKS))
    return enough, *(int(statistics.median(times)) for times in zip(*rounds, strict=True))


def _measure() -> tuple[int, ...]:
    found = [
        _median(_exercise.calls, _CALLS),
        _median(_exercise.reads, _READS),
        _median(_exercise.polls, _POLLS),
        _median(_exercise.looks, _LOOKS),
        _median(_exercise.faults, _FAULTS),
        _median(_exercise.handovers, _HANDOVERS, switches=2 * _HANDOVERS),
    ]
    return all(enough for enough, _ in found), *(time for _, time in found)


def _call_for_long() -> tuple[int, ...]:
    before = _exercise.switches()
    time = _exercise.interrupted_calls(_SAMPLED_CALLS)
    return _exercise.switches() == before, time


def _call_functions(which: int) -> tuple[int, ...]:
    _exercise.functions(which, _FUNCTION_CALLS)
    return (True,)


def _come_back() -> tuple[int, ...]:
    _exercise.ways_back(_WAYS_BACK)
    return (True,)


_ANSWERS: Mapping[bytes, Callable[[], tuple[int, ...]]] = {
    b"?": _measure,
    b"m": _measure_marks,
    b"c": _call_for_long,
    b"b": _come_back,
    b"r": lambda: (True,),
    b"q": lambda: _median(_exercise.calls, _CALLS),
}
"""What the process is asked for, by the letter (r: is it ready?); a digit: to call marked functions of that kind."""
