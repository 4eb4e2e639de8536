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

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING

from headway.dataclass import dataclass
from headway.linux.levels import Level
from headway.linux.perf import perf_event as perf
from headway.linux.procfs import processors

from ..shared.layout import EVENTS, TIMED
from .exercising import Exercise, ExercisingProcess
from .rounds import ENTERED, LOOKS, POLLS

if TYPE_CHECKING:
    from ..programs.attaching import Attachments
    from ..programs.libbpf import Object
    from ..reading.memory import BpfMaps

__all__ = [
    "BEFORE",
    "Comparison",
    "Costs",
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

_PLAUSIBLE = 0.25, 8.0
"""What a call's event costs at least and at most, as a multiple of what the kernel counted for the program itself."""
_MOST_INTERRUPT = 8.0
"""How long an interrupt's program runs at most, as a multiple of a call's. Only few happen meanwhile: one during which
the hypervisor had the processor shows."""
_SAMPLED_ROUNDS, _SAMPLING_NS = 5, 100_000
"""To find what a sample costs: rounds, and ns from one sample to the next: some fall into a round."""
_WAYS_BACK_ROUNDS = 5
"""The shortest counts, because a bound is wanted."""
_TIMERS = ("irq_vector", "irq_handler")
"""Interrupts that happen while costs are looked for, by their programs: the timer's on x86, and where it has a line."""
_WAKE = 0.3
"""A wake-up's part of what a switch and a wake-up cost together, where the kernel's statistics do not tell."""


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
    in_rows = (POLLS + LOOKS) / ENTERED  # whose beginnings and ends take alike
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
    return max(0.0, sorted(costs)[_SAMPLED_ROUNDS // 2])


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
