"""The law in executable form: how transitions become a ledger.

A thread is in several states at once, one within the other: user code calls the kernel, the call faults, the fault is
interrupted. Only the innermost is charged (law 2), so each unit of time lands in exactly one state (law 1), and when
that state ends the one around it goes on. A thread that leaves the processor keeps its nest and finds it again.

Three layers, each usable alone: `Position` says where one thread is (a value), `Tally` how long something was where,
`Accounts` keeps one tally for every thread and every processor and makes the ledger. Sources with a faster way of
keeping count are held against this one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum, IntEnum

from .cell import Cell
from .kinds import Kind, kind_of
from .ledger import Ledger, Processor, Thread, Window

__all__ = ["Accounts", "Level", "Position", "Step", "Tally", "Transition", "level_of"]


class Level(IntEnum):
    """How deep a state lies: the deepest that a thread is in is charged."""

    CODE = 0
    """``user``; ``unknown`` where it has not been seen yet."""
    STALL = 1
    """``memory``, ``stall``: user code that waits for the hardware. In the kernel it is the kernel's time."""
    REGION = 2
    POLL = 3
    CALL = 4
    """A system call; the first level of the kernel."""
    FAULT = 5
    SOFT_INTERRUPT = 6
    INTERRUPT = 7
    AWAY = 8
    """``stolen`` and ``overhead``: whatever the thread was doing, the processor was not doing it."""


_LEVELS = {
    "memory": Level.STALL,
    "stall": Level.STALL,
    "noneffective": Level.REGION,
    "poll": Level.POLL,
    "kernel": Level.CALL,
    "softirq": Level.SOFT_INTERRUPT,
    "irq": Level.INTERRUPT,
    "stolen": Level.AWAY,
    "overhead": Level.AWAY,
}


def level_of(state: str) -> Level:
    """How deep a state lies, from its name."""
    if state == "kernel.fault":
        return Level.FAULT
    return _LEVELS.get(state.partition(".")[0], Level.CODE)


@dataclass(frozen=True, slots=True)
class Position:
    """Where a thread is: its nest of states, outermost first, and where it is instead while it is off the processor.

    Regions and polls are flags in user code, set and cleared in any order. Calls, faults and interrupts are frames:
    each lies wholly within the one around it. So when a frame ends, or one begins that cannot begin inside another,
    what is still open in it has ended unseen; it is dropped and counted in ``missed``, never charged any further.
    """

    nest: tuple[str, ...] = ("unknown",)
    away: str | None = "unknown"
    missed: int = 0

    @property
    def state(self) -> str:
        """The state that is charged."""
        return self.away or self.nest[-1]

    def enter(self, state: str) -> Position:
        """A state begins, inside all that lie less deep."""
        level = level_of(state)
        outer, inner = self._split(level if level is Level.CALL else level + 1)  # no call is made inside a call
        outer = self._known(outer, level)
        if level >= Level.CALL:
            return self._present((*outer, state), len(inner))
        return self._present((*outer, state, *inner), 0)

    def leave(self, state: str) -> Position:
        """The innermost state of this name ends."""
        level = level_of(state)
        if state in self.nest[1:]:
            at = len(self.nest) - 1 - self.nest[::-1].index(state)
            outer, inner, unmatched = self.nest[:at], self.nest[at + 1 :], False
        else:
            outer, inner = self._split(level)
            unmatched = self.nest[0] != "unknown"  # else it began before the thread was seen
        outer = self._known(outer, level)
        if level >= Level.CALL:
            return self._present(outer, len(inner) + unmatched)
        return self._present(outer + inner, int(unmatched))

    def become(self, state: str) -> Position:
        """The thread is in this state and in no other; the nest is kept if that is off the processor."""
        if kind_of(state) in (Kind.READY, Kind.WAIT):
            return replace(self, away=state)
        if level_of(state) is Level.CODE:
            return Position((state,), None, self.missed)
        return Position(("unknown", state), None, self.missed)

    def dispatch(self) -> Position:
        """The thread is on a processor again, in the state that it left."""
        return replace(self, away=None)

    def lose(self) -> Position:
        """Nobody saw where the thread went."""
        return replace(self, away="unknown", missed=self.missed + 1)

    def _split(self, level: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
        at = next((i for i, state in enumerate(self.nest) if i and level_of(state) >= level), len(self.nest))
        return self.nest[:at], self.nest[at:]

    def _known(self, outer: tuple[str, ...], level: Level) -> tuple[str, ...]:
        # Only user code sets flags and makes system calls, and only to it do these return.
        told = Level.CODE < level <= Level.CALL and outer[0] == "unknown"
        return ("user", *outer[1:]) if told else outer

    def _present(self, nest: tuple[str, ...], missed: int) -> Position:
        # What enters or leaves a state is on a processor. That it came there was missed, if it was known to be off.
        unseen = self.away not in (None, "unknown")
        return Position(nest, None, self.missed + missed + unseen)


class Tally:
    """How long something was in which state, and how often it entered it. Not a unit of time is lost or counted twice.

    Time does not run backwards: what is said to have happened before the last transition happens at that moment, and
    is counted in ``reordered``.
    """

    def __init__(self, start: int, state: str = "unknown") -> None:
        """Begin at ``start`` in ``state``, which is not counted as entering it."""
        self.start = self.since = start
        self.state = state
        self.reordered = 0
        self._figures: dict[str, Cell] = {}
        self._entries: Counter[str] = Counter()

    def move(self, time: int, state: str, gained: Cell | None = None) -> None:
        """From ``time`` on it is in ``state``; ``gained`` is what the hardware counted since the last move."""
        if time < self.since:
            self.reordered += 1
            time = self.since
        if time > self.since or gained is not None:
            self._add(self._figures, Cell(time - self.since), gained)
        self.since, self.state = time, state

    def count(self, state: str) -> None:
        """It entered ``state``."""
        self._entries[state] += 1

    def cells(self, until: int) -> dict[str, Cell]:
        """All there is until then, the state it is in now included; their times add up to ``until - start``."""
        figures = dict(self._figures)
        if until > self.since:
            self._add(figures, Cell(until - self.since), None)
        return {s: replace(figures.get(s, Cell()), count=self._entries[s]) for s in {**figures, **self._entries}}

    def _add(self, figures: dict[str, Cell], stretch: Cell, gained: Cell | None) -> None:
        piece = replace(gained, time=stretch.time, count=0) if gained else stretch
        figures[self.state] = figures[self.state] + piece if self.state in figures else piece


class Step(Enum):
    """What a transition does to the thread's position."""

    BEGIN = "begin"
    """The thread is born, in the state given."""
    ENTER = "enter"
    LEAVE = "leave"
    BECOME = "become"
    """From now on it is in this state and no other; off the processor for ``ready`` and ``wait.*``."""
    DISPATCH = "dispatch"
    """It is on the processor again; the state is the one that it left, what is given is not looked at."""
    END = "end"
    """The thread exits."""


@dataclass(frozen=True, slots=True)
class Transition:
    """At ``time``, on ``processor``, ``thread`` (a tid) takes this step.

    ``processor`` is None where there is none: a thread is woken from afar. ``gained`` is what the processor's hardware
    counted since the last transition on it.
    """

    time: int
    processor: int | None
    thread: int
    step: Step
    state: str = ""
    gained: Cell | None = None


@dataclass(slots=True)
class _Task:
    tid: int
    birth: int
    tally: Tally
    position: Position = Position()
    processor: int | None = None
    end: int | None = None


@dataclass(slots=True)
class _Core:
    tally: Tally
    running: _Task | None = None


class Accounts:
    """The accounts of many threads and processors, from their transitions in the order of time.

    A thread that did not begin here was there from the start, in state ``unknown`` until it is seen. A processor does
    what its thread does; without one it is ``idle``, and ``unknown`` until something is seen on it.
    """

    def __init__(self, start: int, processors: Iterable[int] = ()) -> None:
        """Open the window, with the processors that are known to be there."""
        self.start = start
        self._tasks: dict[int, _Task] = {}
        self._ended: list[_Task] = []
        self._gone: set[int] = set()
        self._latest = start
        self._cores = {cpu: _Core(Tally(start)) for cpu in processors}

    def take(self, transition: Transition) -> None:
        """Account for one transition."""
        time, step, state = transition.time, transition.step, transition.state
        task = self._task(transition)
        before = task.position
        match step:
            case Step.BEGIN | Step.BECOME:
                task.position = before.become(state)
            case Step.ENTER:
                task.position = before.enter(state)
            case Step.LEAVE:
                task.position = before.leave(state)
            case Step.DISPATCH:
                task.position = before.dispatch()
        here = task.processor if transition.processor is None else transition.processor
        runs = step is not Step.END and task.position.away is None
        gained = transition.gained
        stayed = task.processor is not None and task.processor == here
        core = self._place(task, here if runs else None, time, gained if runs or stayed else None)
        task.tally.move(time, task.position.state, gained if stayed else None)
        if step is Step.ENTER or (step in (Step.BEGIN, Step.BECOME) and before.state != state):
            task.tally.count(state)
            if core:
                core.tally.count(state)
        if step is Step.END:
            task.end = task.tally.since
            self._ended.append(self._tasks.pop(task.tid))
            self._gone.add(task.tid)
        self._latest = max(self._latest, time)

    def ledger(
        self,
        end: int,
        *,
        source: str = "recording",
        names: Mapping[int, tuple[int, str]] | None = None,
        time_unit: str = "ns",
    ) -> Ledger:
        """The ledger of the window that closes at ``end``; ``names`` has the pid and the name of each tid.

        May be called at any time, more than once. Raises ValueError if a transition was taken that came after ``end``.
        """
        if end < self._latest:
            raise ValueError(f"a window that ends at {end} does not hold what happened at {self._latest}")
        tasks = sorted([*self._ended, *self._tasks.values()], key=lambda t: (t.tid, t.birth))
        threads = []
        for task in tasks:
            pid, name = (names or {}).get(task.tid, (task.tid, ""))
            start, until = task.tally.start, end if task.end is None else task.end
            cells = task.tally.cells(until)
            threads.append(Thread(task.tid, pid, name, task.birth, start, task.end, until, until - start, cells))
        losses = {
            "missed": sum(task.position.missed for task in tasks),
            "reordered": sum(task.tally.reordered for task in tasks),
        }
        return Ledger(
            source,
            Window(self.start, end),
            tuple(threads),
            tuple(
                Processor(cpu, end - core.tally.start, core.tally.cells(end))
                for cpu, core in sorted(self._cores.items())
            ),
            losses=losses,
            unit=time_unit,
            time_unit=time_unit,
        )

    def _task(self, transition: Transition) -> _Task:
        tid, time = transition.thread, max(transition.time, self.start)
        task = self._tasks.get(tid)
        born = transition.step is Step.BEGIN and not (task and task.birth == transition.time)
        if task and not born:
            return task
        if task:  # its id is in use again, so it must have ended
            self._vacate(task, time, "unknown", None)
            task.position = task.position.lose()
            task.tally.move(time, "unknown")
            task.end = task.tally.since
            self._ended.append(task)
        if born:
            task = _Task(tid, transition.time, Tally(time))
        elif tid in self._gone:  # another thread of that id, whose birth went unseen
            task = _Task(tid, transition.time, Tally(time), Position().lose())
        else:
            task = _Task(tid, 0, Tally(self.start))
        self._tasks[tid] = task
        return task

    def _place(self, task: _Task, cpu: int | None, time: int, gained: Cell | None) -> _Core | None:
        """Put the task on this processor and nowhere else; whoever was thought to be there has left it unseen."""
        if task.processor != cpu:
            if cpu is None:
                self._vacate(task, time, "idle", gained)
            else:
                self._vacate(task, time, "unknown", None)
        task.processor = cpu
        if cpu is None:
            return None
        core = self._cores.setdefault(cpu, _Core(Tally(self.start)))
        other = core.running
        if other is not None and other is not task:
            other.processor = None
            other.position = other.position.lose()
            other.tally.move(time, other.position.state, gained)
        core.running = task
        core.tally.move(time, task.position.state, gained)
        return core

    def _vacate(self, task: _Task, time: int, state: str, gained: Cell | None) -> None:
        if task.processor is None:
            return
        core = self._cores[task.processor]
        task.processor = core.running = None
        core.tally.move(time, state, gained)
        if state == "idle":
            core.tally.count("idle")
