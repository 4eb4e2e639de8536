"""Find the observer's cost of an event, before the reported time begins, on a process of our own.

The process repeats one thing: observed, unobserved, observed again. The difference, divided by the number of events
of a round, is the cost of an event. The three measurements follow each other at once, because a machine that others
use too changes its speed within tenths of a second. Each is the median of short rounds and not the shortest round,
because what always slows the process down also slows the threads down whose times are corrected. Interrupts cannot be
made at will. The cost of their handlers comes from the kernel's own statistics of eBPF programs, where it keeps them
(BPF_ENABLE_STATS, since 5.8). Elsewhere it is assumed to be that of a system call.

Marks of regions cost a program the same whether it is observed or not. What a pair of them takes is found by marking
regions that have nothing in them.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from types import TracebackType

from headway.linux.levels import Level
from headway.linux.perf import perf_event as perf
from headway.linux.procfs import processors

from . import _exercise
from .attaching import Attachments
from .layout import EVENTS
from .libbpf import Object

__all__ = ["BEFORE", "Costs", "Exercise", "ExercisingProcess", "compare", "costs"]

BEFORE = 0.4
"""The part of an event's cost that lies before the handler reads its clock, and so in the state that ends; the rest
lies in the state that begins. Entry, clock and work weigh about the same; how they are divided moves some nanoseconds
from one state of a thread to the next, and changes no sum."""

COMPARISONS = 1
"""How often the programs are detached and attached again to find what events cost; each time takes 30 ms."""

_ROUNDS = 9
_SAMPLED_ROUNDS, _SAMPLED_CALLS, _SAMPLING_NS = 5, 20_000, 100_000
"""To find what a sample costs: rounds, calls in each, and ns from one sample to the next: some fall into a round."""
_MARKS = 400
"""Regions in a round."""
_CALLS, _READS, _POLLS, _LOOKS, _FAULTS, _HANDOVERS, _FUNCTION_CALLS = 400, 300, 300, 300, 64, 120, 400
_ENTERED = _CALLS + _READS + _POLLS + _LOOKS + 4 * _HANDOVERS
"""Calls in a round."""
_TIMERS = ("local_timer", "irq_handler")
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
    own_return: tuple[float, float] | None = None
    """The same of a call whose return is seen at the function's own return instruction, of the first of `FUNCTIONS`.
    None: no function has such a probe.
    """

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
    level: Level = Level.INTERRUPTS,
    *,
    samples: bool = False,
) -> Costs:
    """Return what events cost, from how long the process takes with the programs attached and without them.

    ``samples``: what a sample of the state costs is found too. The process is measured meanwhile.
    Raises HeadwayError where a program cannot be attached again.
    """
    handlers = _run_times(programs, exerciser)
    observed, without = [exerciser.exercise()], []
    for _ in range(COMPARISONS):
        with attachments.detached():
            without.append(exerciser.exercise())
        observed.append(exerciser.exercise())
    ends = Exercise.mean((observed[0], observed[-1]))
    sample = _cost_of_sample(exerciser) if samples else 0.0
    return costs(Exercise.mean(without), Exercise.mean((*observed[1:-1], ends)), handlers, level, sample)


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


class ExercisingProcess:
    """A process of ours with two threads: started when entered, gone when left."""

    pid: int

    def __enter__(self) -> ExercisingProcess:
        """Start it."""
        ask, self._ask = os.pipe()
        self._answer, answer = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._ask)
            os.close(self._answer)
            try:
                _exercise.prepare()
                os.write(answer, b"\n")
                while asked := os.read(ask, 1):
                    if asked == b"?":
                        os.write(answer, b"%d %d %d %d %d %d\n" % _measure())
                    elif asked == b"m":
                        os.write(answer, b"%d %d\n" % _measure_marks())
                    elif asked == b"c":
                        os.write(answer, b"%d\n" % _exercise.calls(_SAMPLED_CALLS))
                    else:
                        _exercise.functions(int(asked), _FUNCTION_CALLS)
                        os.write(answer, b"\n")
            finally:
                os._exit(0)
        os.close(ask)
        os.close(answer)
        os.read(self._answer, 1)
        return self

    def exercise(self) -> Exercise:
        """How long it takes now: the medians of a few rounds."""
        os.write(self._ask, b"?")
        call, read, poll, look, fault, handover = map(int, os.read(self._answer, 128).split())
        return Exercise(
            call / _CALLS, read / _READS, poll / _POLLS, look / _LOOKS, fault / _FAULTS, handover / _HANDOVERS
        )

    def marks(self) -> tuple[float, float]:
        """Return what a pair of marks of a region takes, in the region and around it, ns: medians of a few rounds."""
        os.write(self._ask, b"m")
        inside, whole = map(int, os.read(self._answer, 128).split())
        return inside / _MARKS, max(whole - inside, 0) / _MARKS

    def call(self) -> int:
        """Return how long it takes to make `_SAMPLED_CALLS` system calls, ns."""
        os.write(self._ask, b"c")
        return int(os.read(self._answer, 128))

    def call_functions(self, which: int) -> int:
        """Call a function that does nothing, of the kind `FUNCTIONS[which]`; how often."""
        os.write(self._ask, b"%d" % which)
        os.read(self._answer, 1)
        return _FUNCTION_CALLS

    def __exit__(self, kind: type[BaseException] | None, value: object, trace: TracebackType | None) -> None:
        """End it."""
        os.close(self._ask)
        os.close(self._answer)
        os.waitpid(self.pid, 0)


def _measure_marks() -> tuple[int, int]:
    rounds = [_exercise.marks(_MARKS) for _ in range(_ROUNDS)]
    inside, whole = (int(statistics.median(times)) for times in zip(*rounds, strict=True))
    return inside, whole


def _measure() -> tuple[int, ...]:
    rounds = [
        (
            _exercise.calls(_CALLS),
            _exercise.reads(_READS),
            _exercise.polls(_POLLS),
            _exercise.looks(_LOOKS),
            _exercise.faults(_FAULTS),
            _exercise.handovers(_HANDOVERS),
        )
        for _ in range(_ROUNDS)
    ]
    return tuple(int(statistics.median(times)) for times in zip(*rounds, strict=True))
