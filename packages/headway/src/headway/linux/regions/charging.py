"""Charging marked regions out of user time, for a source that reads threads only now and then.

The time W that a thread was in regions between two readings is exact, but it is wall time. It is not known how much of
W was off the processor or in the kernel: all of the thread's time of these kinds may lie in W. So only the part of W
that is certain to be user time, max(0, W - time that was not user), moves from ``user`` to the regions, divided among
them like W. The remaining user time is an upper bound of the progress, and the sum of the states does not change. The
shorter the time between two readings, the closer the bound.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import field

from headway.dataclass import dataclass
from headway.linux.procfs._procfs import Scanner, Task
from headway.model import Cell, kind_of

from .blocks import OTHER, RegionBlock, RegionBlocks

__all__ = ["Marked"]

FIND_SHARE = 0.01
"""The share of one processor that looking for arenas may take."""
FIND_LONGEST = 1_000_000_000
"""The longest time between two searches of one process in ns, if `FIND_SHARE` permits it."""

MAX_STATES = 64
"""The number of regions of one thread that are told apart. A program may change their names, and execute others."""


@dataclass(slots=True)
class _Process:
    blocks: RegionBlocks
    first: int
    due: int = 0
    cost: int = 0
    has_arenas: bool = False
    refused_threads: int = 0
    refused_tags: int = 0
    lies: int = 0


@dataclass(slots=True)
class _Thread:
    """What the last reading found, and what has been charged."""

    span: int = 0
    user: int = 0
    run: int = 0
    address: int = 0
    since: int = 0
    seen: dict[str, int] = field(default_factory=dict)
    entered: dict[str, int] = field(default_factory=dict)
    cells: dict[str, Cell] = field(default_factory=dict)

    def add(self, state: str, cell: Cell) -> None:
        """Charge a region, under its own name as long as there are not too many."""
        if not cell.time and not cell.count:
            return
        if state not in self.cells and len(self.cells) >= MAX_STATES:
            if state.startswith("user."):
                return  # its time stays in ``user``, where it is progress too
            state = OTHER
        self.cells[state] = self.cells.get(state, Cell()) + cell


class Marked:
    """The marked regions of all measured threads."""

    def __init__(self, proc: str, clock: Callable[[], int]) -> None:
        """``clock`` returns ns of CLOCK_MONOTONIC."""
        self._proc = proc
        self._clock = clock
        self._processes: dict[int, _Process] = {}
        self._threads: dict[Task, _Thread] = {}
        self._gone = [0, 0, 0]
        self._find_cost = 0
        self.seen = False
        """Whether there were any."""
        self.reason: str | None = None
        """Why the regions of some process could not be read; the reason of the last such process."""

    def look(self, scanner: Scanner, now: int) -> None:
        """Charge what happened since the last call. The scanner must just have read the threads, at ``now``."""
        if self._processes.keys() - scanner.processes.keys():
            for pid in [pid for pid in self._processes if pid not in scanner.processes]:
                self._forget(self._processes.pop(pid))
        for pid in scanner.processes:
            process = self._processes.get(pid)
            if process is None:
                process = self._processes[pid] = _Process(RegionBlocks(pid, proc=self._proc, clock=self._clock), now)
            if now >= process.due:
                self._find(process, now)
            if process.has_arenas:
                self._look(process, pid, scanner)

    def split(self, task: Task, states: dict[str, Cell]) -> dict[str, Cell]:
        """Return the thread's states with its regions separated from ``user``.

        For an ended thread this is the last call.
        """
        thread = self._threads.pop(task, None) if task.ended else self._threads.get(task)
        if thread is None or not thread.cells:
            return states
        left = states.get("user", Cell(0, None)).time - sum(cell.time for cell in thread.cells.values())
        apart = {state: cell for state, cell in states.items() if state != "user"}
        return {**({"user": Cell(left, None)} if left else {}), **apart, **thread.cells}

    @property
    def losses(self) -> dict[str, int]:
        """Threads and tags for which the programs had no room, and values in their blocks that cannot be true."""
        there = self._processes.values()
        return {
            "unmarked_threads": self._gone[0] + sum(process.refused_threads for process in there),
            "unnamed_regions": self._gone[1] + sum(process.refused_tags for process in there),
            "untrue_marks": self._gone[2] + sum(process.lies for process in there),
        }

    def _forget(self, process: _Process) -> None:
        self._find_cost -= process.cost
        for i, number in enumerate((process.refused_threads, process.refused_tags, process.lies)):
            self._gone[i] += number

    def _find(self, process: _Process, now: int) -> None:
        """Look for arenas: soon again in a young process, later in one that is known, but never too often in total."""
        before = time.thread_time_ns()
        process.has_arenas = process.blocks.find()
        self.reason = process.blocks.reason or self.reason
        cost = time.thread_time_ns() - before
        self._find_cost += cost - process.cost
        process.cost = cost
        process.due = now + max(min(now - process.first, FIND_LONGEST), round(self._find_cost / FIND_SHARE))

    def _look(self, process: _Process, pid: int, scanner: Scanner) -> None:
        reading = process.blocks.read(scanner.tasks)
        if reading.reason is not None:
            self.reason = reading.reason
            return
        process.refused_threads = max(process.refused_threads, reading.refused_threads)
        process.refused_tags = max(process.refused_tags, reading.refused_tags)
        process.lies = max(process.lies, reading.lies)
        for tid, block in reading.blocks.items():
            task = scanner.tasks[tid]
            if task.pid == pid and not task.ended:
                self.seen = True
                self._charge(task, block, reading.at, scanner.names)

    def _charge(self, task: Task, block: RegionBlock, at: int, names: list[str]) -> None:
        span = task.account.span
        times = task.account.states(names)
        user, run = times.get("user", 0), sum(time for state, time in times.items() if kind_of(state).in_rpi)
        thread = self._threads.get(task)
        if thread is None:
            thread = self._threads[task] = _Thread()
        if (block.address, block.since) != (thread.address, thread.since):
            thread.address, thread.since = block.address, block.since
            # The word began at 0 when the thread took the block. If that was before the last reading, part of it is not
            # ours.
            known = block.since >= task.account.start + thread.span
            thread.seen = {} if known else {state: spent.time for state, spent in block.times.items()}
            thread.entered = {} if known else {state: spent.entries for state, spent in block.times.items()}
        passed = {state: max(spent.time - thread.seen.get(state, 0), 0) for state, spent in block.times.items()}
        for state, spent in block.times.items():
            thread.add(state, Cell(0, max(spent.entries - thread.entered.get(state, 0), 0)))
        # The values never decrease, whatever the program writes, and there are no more states than a block has.
        thread.seen = {state: max(spent.time, thread.seen.get(state, 0)) for state, spent in block.times.items()}
        thread.entered = {
            state: max(spent.entries, thread.entered.get(state, 0)) for state, spent in block.times.items()
        }
        gained, total = user - thread.user, sum(passed.values())
        # The kernel's division of run time can make user time jump by more than the thread has run. The block was read
        # a little later than the thread's times; what passed since does not belong to this reading.
        in_user = min(gained, run - thread.run)
        late = max(at - (task.account.start + span), 0)
        certain = min(max(total - late - (span - thread.span - in_user), 0), gained)
        for state, part in passed.items():  # exact division: each share is taken from what remains
            if total:
                share = certain * part // total
                certain, total = certain - share, total - part
                thread.add(state, Cell(share, 0))
        thread.span, thread.user, thread.run = span, user, run
