"""Runs of made-up programs on some processors, scheduled here and written down as a recording has them.

The scheduler is another one than the replay's: first come, first served, with time slices.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

import numpy as np

from headway.model import NO_STATE, Batch, ThreadSeen, Transitions, Window
from headway.replay.rows import Rows, gather

START = 1_000_000
FUTEX = 0x7F00_0000_0000
"""The address of semaphore 0; the others follow, one a byte."""
RUNS = ("user", "kernel.read", "noneffective.parse", "kernel.futex")
_WORDS = (*RUNS, "ready", "wait.futex", "wait.sleep", "wait.disk", "irq.timer", "softirq.block", "idle", "kernel.clone")

Action = tuple[str, int | str, int]
Row = tuple[int, int, int, int, int, str, int, str, int]


def transitions(rows: Sequence[Row]) -> Transitions:
    """(time, duration, taken, cpu, thread, state, waker, waker's state, futex) as columns."""
    names = list(dict.fromkeys([*_WORDS, *(row[5] for row in rows), *(row[7] for row in rows if row[7])]))
    place = {name: number for number, name in enumerate(names)}
    columns = list(zip(*rows, strict=True)) if rows else [()] * 9
    n = len(rows)
    return Transitions(
        np.array(columns[0], np.int64),
        np.array(columns[1], np.int64),
        np.array(columns[2], np.int32),
        np.array(columns[3], np.int16),
        np.array(columns[4], np.int32),
        np.array([place[word] for word in columns[5]], np.uint16),
        np.ones(n, np.int32),
        np.array(columns[6], np.int32),
        np.zeros(n, np.int32),
        np.array([place[word] if word else NO_STATE for word in columns[7]], np.uint16),
        names,
        futex=np.array(columns[8], np.uint64),
    )


def rows_of(rows: Sequence[Row], threads: Sequence[ThreadSeen], window: Window) -> Rows:
    batch = Batch(window.start, window.end, transitions(rows), list(threads), (), {})
    return gather([batch], {thread.thread: thread for thread in threads}, window)


def written(
    threads: Sequence[Sequence[tuple[int, str, int, int]]], first: int = FUTEX
) -> tuple[list[Row], list[ThreadSeen], Window]:
    """Rows of threads whose spans follow each other: (duration, state, futex, the thread that ends the wait).

    ``first``: the address of futex 0, which is none. The others follow, one a byte.
    """
    rows: list[Row] = []
    seen = []
    for number, spans in enumerate(threads):
        at = START
        for duration, state, futex, waker in spans:
            waits = state == "wait.futex"
            by = waker if waits and waker < len(threads) and waker != number else -1
            cpu = -1 if state in ("ready", "wait.disk", "wait.futex") else 0
            rows.append((at, duration, 0, cpu, number, state, by, "", first + futex if waits and futex else 0))
            at += duration
        seen.append(ThreadSeen(number, 100 + number, 100, f"t{number}", START, START, at))
    return rows, seen, Window(START, max(START + sum(span[0] for span in spans) for spans in threads))


@dataclass(slots=True)
class _Thread:
    number: int
    actions: deque[Action]
    name: str
    state: str = "new"
    since: int = START
    cpu: int = -1
    waker: int = -1
    waker_state: str = ""
    futex: int = 0
    left: int = 0
    doing: str = "user"
    until: int = 0
    token: int = 0
    birth: int = START
    end: int | None = None


@dataclass(slots=True)
class Schedule:
    """A run. ``work``: all threads' actions, the first one's first. Call `run` once."""

    work: list[list[Action]]
    names: list[str]
    cpus: int
    quantum: int
    rows: list[Row] = field(default_factory=list)
    threads: list[_Thread] = field(default_factory=list)
    now: int = START
    _posted: dict[int, int] = field(default_factory=lambda: dict.fromkeys(range(100), 0))
    _waiting: dict[int, deque[_Thread]] = field(default_factory=dict)
    _joining: dict[int, _Thread] = field(default_factory=dict)
    _events: list[tuple[int, int, int, int, str]] = field(default_factory=list)
    _number: int = 0
    _queue: deque[_Thread] = field(default_factory=deque)
    _free: list[int] = field(default_factory=list)

    def run(self) -> Schedule:
        self._free = list(range(self.cpus))
        self.threads = [_Thread(number, deque(actions), self.names[number]) for number, actions in enumerate(self.work)]
        self._ready(self.threads[0])
        self._dispatch()
        while self._events:
            self.now = self._events[0][0]
            late: list[_Thread] = []
            while self._events and self._events[0][0] == self.now:
                _, _, number, token, what = heapq.heappop(self._events)
                thread = self.threads[number]
                if token != thread.token:
                    continue
                if what == "slice":
                    late.append(thread)
                elif what == "work":
                    self._row(thread, thread.doing)
                    thread.left = 0
                    self._act(thread)
                else:
                    thread.waker_state = what
                    self._wake(thread, -1)
            self._dispatch()
            for thread in late:
                if thread.state == "runs" and thread.cpu >= 0:
                    self._slice(thread)
            self._dispatch()
        return self

    def loaded(self) -> Rows:
        seen = [
            ThreadSeen(t.number, 100 + t.number, 100, t.name, t.birth, t.birth, t.end)
            for t in self.threads
            if t.state != "new"
        ]
        return rows_of(self.rows, seen, Window(START, self.now))

    def _after(self, thread: _Thread, time: int, what: str) -> None:
        self._number += 1
        heapq.heappush(self._events, (time, self._number, thread.number, thread.token, what))

    def _row(self, thread: _Thread, state: str) -> None:
        if self.now > thread.since:
            self.rows.append(
                (
                    thread.since,
                    self.now - thread.since,
                    0,
                    thread.cpu,
                    thread.number,
                    state,
                    thread.waker if state.startswith("wait") else -1,
                    thread.waker_state if state.startswith("wait") else "",
                    thread.futex if state == "wait.futex" else 0,
                )
            )
        thread.since = self.now

    def _ready(self, thread: _Thread) -> None:
        thread.state = "ready"
        thread.token += 1
        self._queue.append(thread)

    def _wake(self, thread: _Thread, waker: int) -> None:
        thread.waker = waker
        if waker >= 0:
            thread.waker_state = ""
        self._row(thread, thread.doing)
        self._ready(thread)

    def _dispatch(self) -> None:
        while self._queue and self._free:
            thread = self._queue.popleft()
            self._row(thread, "ready")
            thread.cpu = self._free.pop(0)
            thread.state = "runs"
            thread.token += 1
            if thread.left:
                self._work(thread)
            else:
                self._act(thread)

    def _work(self, thread: _Thread) -> None:
        thread.until = self.now + thread.left
        thread.token += 1
        self._after(thread, thread.until, "work")
        if self.now + self.quantum < thread.until:
            self._after(thread, self.now + self.quantum, "slice")

    def _slice(self, thread: _Thread) -> None:
        if not self._queue:
            if self.now + self.quantum < thread.until:
                self._after(thread, self.now + self.quantum, "slice")
            return
        self._row(thread, thread.doing)
        thread.left = thread.until - self.now
        self._leave(thread)
        self._ready(thread)
        self._dispatch()

    def _leave(self, thread: _Thread) -> None:
        self._free.append(thread.cpu)
        self._free.sort()
        thread.cpu = -1
        thread.token += 1

    def _act(self, thread: _Thread) -> None:
        while True:
            if not thread.actions:
                thread.state, thread.end = "ended", self.now
                other = self._joining.pop(thread.number, None)
                if other is not None:
                    self._wake(other, thread.number)
                self._leave(thread)
                return
            what, which, n = thread.actions.popleft()
            if what == "work":
                thread.left, thread.doing = n, str(which)
                self._work(thread)
                return
            if what == "sleep":
                self._leave(thread)
                thread.state, thread.doing = "waits", str(which)
                self._after(thread, self.now + n, "irq.timer" if which == "wait.sleep" else "softirq.block")
                return
            if what == "spawn":
                child = self.threads[int(which)]
                child.birth = child.since = self.now
                self._ready(child)
            elif what == "join":
                if self.threads[int(which)].state != "ended":
                    self._joining[int(which)] = thread
                    self._sleep(thread, 0)
                    return
            elif what == "post":
                queue = self._waiting.get(int(which))
                if queue:
                    self._wake(queue.popleft(), thread.number)
                else:
                    self._posted[int(which)] += 1
            elif what == "wait":
                if self._posted[int(which)]:
                    self._posted[int(which)] -= 1
                else:
                    self._waiting.setdefault(int(which), deque()).append(thread)
                    self._sleep(thread, FUTEX + int(which))
                    return

    def _sleep(self, thread: _Thread, futex: int) -> None:
        self._leave(thread)
        thread.state, thread.doing, thread.futex = "waits", "wait.futex", futex


def made_up(random: Random, *, threads: int, cpus: int, longest: int = 200) -> Schedule:
    """A program without deadlocks: whoever waits for a semaphore does so after a thread before it has posted."""
    work: list[list[Action]] = []
    names = ["main", *(random.choice(("worker-1", "worker-2", "reader")) for _ in range(threads - 1))]

    def some() -> Action:
        return "work", random.choice(RUNS), random.randint(1, longest)

    semaphores = 0
    waits: list[list[int]] = [[] for _ in range(threads)]
    posts: list[list[int]] = [[] for _ in range(threads)]
    for _ in range(random.randint(0, 3 * threads)):
        a, b = random.randrange(threads), random.randrange(threads)
        if a < b and semaphores < 90:  # only towards later threads, so there is no cycle
            posts[a].append(semaphores)
            waits[b].append(semaphores)
            semaphores += 1
    for number in range(threads):
        middle: list[list[Action]] = [[some(), ("post", which, 0)] for which in posts[number]]
        middle += [[("wait", which, 0)] for which in waits[number]]
        middle += [
            [("sleep", random.choice(("wait.sleep", "wait.disk")), random.randint(1, longest))]
            for _ in range(random.randint(0, 3))
        ]
        middle += [[some()] for _ in range(random.randint(0, 4))]
        random.shuffle(middle)
        actions: list[Action] = [some()]
        if number == 0:
            for other in range(1, threads):
                actions += [("work", "kernel.clone", random.randint(1, 20)), ("spawn", other, 0)]
                actions += [("work", "kernel.clone", random.randint(1, 20))]
        for step in middle:
            actions += step
        actions.append(some())
        if number == 0:
            for other in range(1, threads):
                actions += [("join", other, 0), some()]
        work.append(actions)
    return Schedule(work, names, cpus, random.randint(20, 2 * longest))
