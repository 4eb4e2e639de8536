"""Recording what a program does as rows, and the laws that the rows keep beside the ledger of the same run."""

from __future__ import annotations

import os
import signal
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.linux.options import MeasureOptions, Selection
from headway.linux.sources.ebpf import BpfSource
from headway.model import Ledger
from headway.model.transitions import NO_STATE, Batch, OpenState, ThreadSeen
from headway.readable import is_readable
from headway.session.child import SuspendedChild

from .measuring import NO_OPTIONS, NO_SELECTION, apart, check, one_after_the_other

Cells = dict[str, tuple[int, int]]
"""State -> time and count."""


@dataclass(frozen=True)
class Row:
    """A row with names for numbers."""

    time: int
    duration: int
    taken: int
    cpu: int
    thread: int
    state: str
    count: int
    waker: int
    waker_tid: int
    waker_state: str | None
    futex: int
    """The address; 0: none."""

    @property
    def end(self) -> int:
        return self.time + self.duration


@dataclass
class Recorded:
    """The ledger of a run, and its batches, or of both what is of some threads."""

    ledger: Ledger
    batches: list[Batch]
    some: frozenset[int] | None = None
    """The numbers of these threads; None: everything."""

    @property
    def threads(self) -> dict[int, ThreadSeen]:
        """What was known of each in the end."""
        found = {seen.thread: seen for batch in self.batches for seen in batch.threads}
        return {number: seen for number, seen in found.items() if self.some is None or number in self.some}

    def rows(self) -> list[Row]:
        return [row for row in self._rows if self.some is None or row.thread in self.some]

    @cached_property
    def _rows(self) -> list[Row]:
        found = []
        for batch in self.batches:
            t = batch.transitions
            columns: list[NDArray[Any]] = [t.time, t.duration, t.taken, t.cpu, t.thread, t.state, t.count]
            columns += [t.waker, t.waker_tid, t.waker_state, np.zeros(len(t)) if t.futex is None else t.futex]
            for a in zip(*(column.tolist() for column in columns), strict=True):
                by = None if a[9] == NO_STATE else t.states[a[9]]
                found.append(Row(a[0], a[1], a[2], a[3], a[4], t.states[a[5]], a[6], a[7], a[8], by, a[10]))
        return found

    def apart(self, ledger: Ledger) -> Recorded:
        """What is of the threads of a part of the ledger."""
        keys = {t.key for t in ledger.threads}
        some = frozenset(number for number, seen in self.threads.items() if (seen.tid, seen.birth) in keys)
        part = Recorded(ledger, self.batches, some)
        part.__dict__["_rows"] = self._rows
        return part

    def opened(self) -> dict[int, OpenState]:
        """The last open state of each thread."""
        return {opened.thread: opened for batch in self.batches for opened in batch.open}

    def sums(self, by: str) -> dict[int, Cells]:
        """What rows add up to, by ``thread`` or ``cpu``; also what was taken and given to no other state."""
        totals: dict[int, dict[str, list[int]]] = defaultdict(lambda: defaultdict(lambda: [0, 0]))
        for batch in self.batches:
            t = batch.transitions
            who = t.thread if by == "thread" else t.cpu
            net = t.duration - t.taken
            keys = who.astype(np.int64) << 16 | t.state
            found, where = np.unique(keys, return_inverse=True)
            sums = np.zeros((3, len(found)), np.int64)
            for total, amounts in zip(sums, (net, t.count, t.taken), strict=True):
                np.add.at(total, where, amounts)
            for key, spent, count, taken in zip(found.tolist(), *sums.tolist(), strict=True):
                cell = totals[key >> 16][t.states[key & 0xFFFF]]
                cell[0] += spent
                cell[1] += count
                totals[key >> 16]["overhead"][0] += taken
        return {
            number: {state: (time, count) for state, (time, count) in states.items() if time or count}
            for number, states in totals.items()
            if number >= 0
        }


def cells_of(states: object) -> Cells:
    """As `Recorded.sums` has them."""
    return {s: (c.time, c.count or 0) for s, c in dict(states).items() if c.time or c.count}  # type: ignore[call-overload]


def assert_equal(recorded: Recorded) -> None:
    """The ledger that the rows add up to is the one that the kernel kept, exactly; and they tile."""
    threads = recorded.threads
    from_rows = recorded.sums("thread")
    kept = {t.key: t for t in recorded.ledger.threads}
    assert {(t.tid, t.birth) for t in threads.values()} == set(kept)
    for number, seen in threads.items():
        thread = kept[seen.tid, seen.birth]
        assert (seen.pid, seen.name, seen.start, seen.end) == (thread.pid, thread.name, thread.start, thread.end)
        assert from_rows.get(number, {}) == cells_of(thread.states), seen
    by_cpu = recorded.sums("cpu")
    for processor in recorded.ledger.processors:
        assert by_cpu.pop(processor.cpu) == cells_of(processor.states), processor.cpu
    assert not by_cpu
    assert_tiles(recorded)
    previous = None
    for batch in recorded.batches:
        assert previous is None or batch.start == previous
        previous = batch.end
        for opened in batch.open:
            assert opened.since <= batch.end
    assert recorded.batches[0].start == recorded.ledger.window.start
    assert recorded.batches[-1].end == recorded.ledger.window.end


def assert_tiles(recorded: Recorded) -> None:
    """Placed rows of a thread tile its life, and those of a processor the window."""
    window = recorded.ledger.window
    placed = [r for r in recorded.rows() if r.duration]
    spans: dict[tuple[str, int], tuple[int, int]] = {
        ("thread", t.thread): (t.start, t.end if t.end is not None else window.end) for t in recorded.threads.values()
    }
    for processor in recorded.ledger.processors:
        spans["cpu", processor.cpu] = window.start, window.end
    tiles: dict[tuple[str, int], list[Row]] = defaultdict(list)
    for row in placed:
        if row.thread >= 0:
            tiles["thread", row.thread].append(row)
        if row.cpu >= 0:
            tiles["cpu", row.cpu].append(row)
    for who, (start, end) in spans.items():
        at = start
        for row in sorted(tiles[who], key=lambda r: r.time):
            assert row.time == at, (who, row, at - row.time)
            at = row.end
        assert at == end, (who, end - at)


def record(
    *command: str | Path,
    options: MeasureOptions = NO_OPTIONS,
    selection: Selection = NO_SELECTION,
    allowed: Iterable[str] = (),
    seconds: float | None = None,
    interval: float | None = None,
    each: float = 0.05,
    ring_words: int | None = None,
    lawful: bool = True,
    stdout: int | None = None,
) -> Recorded:
    """Run a command, or wait, and take a batch every ``each`` seconds; ``interval``: with readings in between, too."""
    child = SuspendedChild([str(word) for word in command], stdout) if command else None
    if child is not None and not selection.everything:
        selection = replace(selection, command=child.pid)
    batches, parts = [], []
    source = BpfSource(selection, options, intervals=interval is not None, record=True, ring_words=ring_words)
    try:
        source.begin()
        if child is not None:
            child.release()
        start = time.monotonic()
        piece_at, read_at = start + each, start + (interval or 1e9)
        while not (child.has_ended if child is not None else time.monotonic() - start >= (seconds or 0.2)):
            pause = source.service()
            if child is None:
                time.sleep(min(pause or 0.1, each))
            else:
                is_readable(child.pidfd, min(pause or 0.1, each))
            now = time.monotonic()
            if now >= piece_at:
                batches.append(source.take())
                piece_at = now + each
            if now >= read_at and interval is not None:
                parts.append(source.read())
                read_at = now + interval
        if child is not None:
            source.wait_until_exit_is_seen(child.pid)
        ledger = source.end()
        batches.append(source.take())
    except BaseException:
        if child is not None:
            child.send(signal.SIGKILL)  # it may still wait to be released
        raise
    finally:
        source.close()
        status = child.wait() if child is not None else 0
    assert status == 0
    for part in parts:
        check(part, *allowed)
    check(ledger, *allowed)
    recorded = Recorded(ledger, batches)
    if lawful:
        assert_equal(recorded)
    return recorded


def record_together(programs: Mapping[str, Sequence[str | Path]], options: MeasureOptions) -> dict[str, Recorded]:
    """One recording of programs that run one after the other and end well, and what of it is of each of them."""
    with TemporaryDirectory() as folder:
        pids = Path(folder, "pids")
        fd = os.open(pids, os.O_WRONLY | os.O_CREAT)
        try:
            whole = record(*one_after_the_other(programs.values(), Path(folder)), options=options, stdout=fd)
        finally:
            os.close(fd)
        parts = apart(whole.ledger, map(int, pids.read_text().split()))
    return {name: whole.apart(part) for name, part in zip(programs, parts, strict=True)}
