"""Lawful runs to record: threads that are switched, wake each other, come and go, and what a source makes of them.

The ledger is kept beside the rows, move by move, as a kernel does; it is not made from them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from random import Random

import numpy as np

from headway.model import (
    NO_STATE,
    Batch,
    Cell,
    Ledger,
    OpenState,
    Overhead,
    Precision,
    Processor,
    Quality,
    Thread,
    ThreadSeen,
    Transitions,
    Window,
)
from headway.recording.document import Document

STATES = ("user", "kernel.read", "kernel.futex", "irq.timer", "poll.read", "noneffective.parse", "unknown")
WAITS = ("wait.futex", "wait.disk", "ready", "stopped")
PRECISION = Precision(effective=Quality.BOUND, memory=Quality.UNAVAILABLE)
Row = tuple[int, int, int, int, int, str, int, int, int, str, int]


def empty_ledger(start: int) -> Ledger:
    return Ledger("bpf", Window(start, start), precision=PRECISION, reasons={"epi": "stalls are in it"})


def document(start: int) -> Document:
    return Document(empty_ledger(start), host="here", boot="b0", command=("work", "-x"))


@dataclass(slots=True)
class _Place:
    """Where a thread, or a processor without one, is, since when."""

    state: str
    cpu: int
    since: int


@dataclass(slots=True)
class _Accounts:
    times: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    counts: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))

    def add(self, state: str, time: int, count: int = 0) -> None:
        self.times[state] += time
        self.counts[state] += count

    def cells(self) -> dict[str, Cell]:
        found = {state: Cell(self.times[state], self.counts[state]) for state in {**self.times, **self.counts}}
        return {state: cell for state, cell in found.items() if not cell.empty}


class Run:
    """A run that can be taken batch by batch. ``names``: what threads may be called."""

    def __init__(
        self,
        random: Random,
        *,
        cpus: int = 2,
        threads: int = 4,
        start: int = 1_000_000,
        longest: int = 1000,
        names: Sequence[str] = ("work", "\udcff[red]", ""),
    ) -> None:
        self._random, self._names, self._longest = random, names, longest
        self.start = self.now = self._from = start
        self._rows: list[Row] = []
        self._states = ["", *STATES, *WAITS, "idle", "stolen"]
        self._seen: dict[int, ThreadSeen] = {}
        self._fresh: set[int] = set()
        self._moved: set[int] = set()
        self._places: dict[int, _Place] = {}
        self._idle = {cpu: _Place("idle", cpu, start) for cpu in range(cpus)}
        self._threads: defaultdict[int, _Accounts] = defaultdict(_Accounts)
        self._processors: defaultdict[int, _Accounts] = defaultdict(_Accounts)
        self._lost = 0
        for _ in range(threads):
            self._appear(before=True)

    def batches(self, count: int, moves: int) -> Iterator[Batch]:
        """Batches with about so many moves each."""
        for _ in range(count):
            for _ in range(self._random.randint(0, 2 * moves)):
                self._move()
            yield self.batch()

    def batch(self) -> Batch:
        """What has happened since the last one."""
        names = self._states
        place = {name: number for number, name in enumerate(names)}
        columns = list(zip(*self._rows, strict=True)) if self._rows else [()] * 11
        rows = Transitions(
            np.array(columns[0], np.int64),
            np.array(columns[1], np.int64),
            np.array(columns[2], np.int32),
            np.array(columns[3], np.int16),
            np.array(columns[4], np.int32),
            np.array([place[state] for state in columns[5]], np.uint16),
            np.array(columns[6], np.int32),
            np.array(columns[7], np.int32),
            np.array(columns[8], np.int32),
            np.array([place[state] if state else NO_STATE for state in columns[9]], np.uint16),
            names,
            futex=np.array(columns[10], np.uint64) if any(columns[10]) else None,
        )
        batch = Batch(
            self._from,
            self.now,
            rows,
            [self._seen[number] for number in sorted(self._fresh)],
            [self._open(number) for number in sorted(self._moved) if number in self._places],
            {"handlers_skipped": self._lost},
        )
        self._from, self._rows, self._fresh, self._moved = self.now, [], set(), set()
        return batch

    def end(self) -> tuple[Batch, Ledger]:
        """The last batch, in which everything ends, and the ledger."""
        self._advance()
        for number, place in list(self._places.items()):
            self._close(number, place, count=self._random.randint(0, 1))
        for place in list(self._idle.values()):
            self._close(-1, place)
        self._places, self._idle = {}, {}
        ledger = self.ledger()
        return self.batch(), ledger

    def ledger(self) -> Ledger:
        """What has been counted so far."""
        threads = []
        for number, seen in sorted(self._seen.items()):
            cells = self._threads[number].cells()
            until = self.now if seen.end is None else seen.end
            span = sum(cell.time for cell in cells.values())
            threads.append(Thread(seen.tid, seen.pid, seen.name, seen.birth, seen.start, seen.end, until, span, cells))
        return replace(
            empty_ledger(self.start),
            window=Window(self.start, self.now),
            threads=tuple(threads),
            processors=tuple(
                Processor(cpu, sum(c.time for c in cells.values()), cells)
                for cpu, cells in ((cpu, self._processors[cpu].cells()) for cpu in sorted(self._processors))
                if cells
            ),
            losses={"handlers_skipped": self._lost},
            overhead=Overhead(12, 3),
        )

    def _open(self, number: int) -> OpenState:
        place = self._places[number]
        return OpenState(number, place.cpu, place.state, place.since)

    def _advance(self) -> None:
        self.now += self._random.choice((0, 1, self._random.randint(1, self._longest)))

    def _appear(self, *, before: bool = False) -> None:
        number = len(self._seen)
        name = self._random.choice(self._names)
        tid = 100 + number % 7  # ids are used again
        self._seen[number] = ThreadSeen(number, tid, 100, name, number, self.now, None)
        self._places[number] = _Place("unknown" if before else "ready", -1, self.now)
        self._fresh.add(number)
        self._moved.add(number)

    def _move(self) -> None:
        random = self._random
        self._advance()
        kind = random.random()
        if not self._places or kind < 0.03:
            self._appear()
            return
        number = random.choice(list(self._places))
        place = self._places[number]
        if kind < 0.06:
            self._close(number, place, count=1)
            if place.cpu >= 0:
                self._idle[place.cpu] = _Place("idle", place.cpu, self.now)
            del self._places[number]
            self._seen[number] = replace(self._seen[number], end=self.now)
            self._fresh.add(number)
        elif kind < 0.10:
            self._seen[number] = replace(self._seen[number], name=random.choice(self._names))
            self._fresh.add(number)
        elif kind < 0.12:
            self._lost += 1
        elif place.cpu >= 0 and kind < 0.6:
            self._close(number, place, count=random.randint(0, 1))
            self._places[number] = _Place(random.choice(STATES), place.cpu, self.now)
        elif place.cpu >= 0:
            self._close(number, place, count=random.randint(0, 1))
            self._places[number] = _Place(random.choice(WAITS), -1, self.now)
            self._idle[place.cpu] = _Place("idle", place.cpu, self.now)
        elif self._idle:
            cpu = random.choice(list(self._idle))
            self._close(-1, self._idle.pop(cpu))
            self._close(number, place, count=1)
            self._places[number] = _Place(random.choice(STATES), cpu, self.now)

    def _close(self, number: int, place: _Place, count: int = 0) -> None:
        """A span ends: its row, and what there is to be said of it without a place in it."""
        random, duration = self._random, self.now - place.since
        self._moved.add(number)
        taken = random.randint(0, duration) if place.cpu >= 0 and random.random() < 0.5 else 0
        waker, waker_tid, waker_state = -1, 0, ""
        if place.state.startswith("wait") and random.random() < 0.8:
            which = random.randrange(3)
            waker = random.randrange(len(self._seen)) if which == 0 else -1
            waker_tid = 4711 if which == 1 else 0
            waker_state = "irq.timer" if which == 2 else ""
        futex = (0, 1, 0x7F00_1234_5678, 2**64 - 1)[self.now % 4] if place.state == "wait.futex" else 0
        span = (place.since, duration, taken, place.cpu, number, place.state, count)
        self._rows.append((*span, waker, waker_tid, waker_state, futex))
        self._charge(number, place.cpu, place.state, duration - taken, count)
        if taken and random.random() < 0.5:  # to another state, rather than to the observer
            part, other = random.randint(0, taken), random.choice(("stolen", "noneffective.parse"))
            self._rows.append((self.now, 0, -part, place.cpu, number, other, 1, -1, 0, "", 0))
            self._charge(number, place.cpu, other, part, 1)
            taken -= part
        self._charge(number, place.cpu, "overhead", taken, 0)

    def _charge(self, number: int, cpu: int, state: str, time: int, count: int) -> None:
        if number >= 0:
            self._threads[number].add(state, time, count)
        if cpu >= 0:
            self._processors[cpu].add(state, time, count)
