"""Read the rings of transitions while the kernel fills them, and hand over rows in batches.

transition_rings.h writes the rings, `_transitions` decodes them. The programs never wake the reader: it looks again
before the rings can be full. Transitions that do not fit are counted.
"""

from __future__ import annotations

import mmap
import os
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from headway.buffers.policies.cpu_time import CpuTime
from headway.model.transitions import NO_STATE, Batch, OpenState, ThreadSeen, Transitions

from ..reading.memory import BpfMaps
from ..shared.layout import RING, STATES, packing
from ..threads._exits import Exits
from ..threads.rows import EndedThread, RecordedThread
from ._transitions import TransitionDecoder
from .row_stacks import RowStacks
from .row_tasks import RowTasks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ._transitions import Columns

__all__ = ["MAX_THREAD_RECORDS", "NICE", "PAUSE_SECONDS", "Priority", "TransitionReader", "words_of_rings"]

RING_WORDS = 1 << 21
"""Most words of a processor's ring of spans; 8 bytes each. One transition is a word, mostly: at 10 million a second
this is 200 ms of them. Its ring of absences has a quarter of that; a wait is three or four words."""
MIN_WORDS = 64
ALL_WORDS = 1 << 25
"""Most words of all processors' rings of spans together: 256 MiB, and 64 more for absences."""
MAX_THREAD_RECORDS = 1 << RING["THREAD_RECORD_BITS"]
"""As many threads as Linux can have at once: a record has room for no greater number."""
HORIZON_NS = 50_000
"""What ended so short a time ago is left for the next look: another processor may be writing what came before it."""
PAUSE_SECONDS = 0.002, 0.05
"""Between two looks at the rings, at least and at most."""
FULL = 1 / 64
"""How full the fullest ring is to be when it is looked at: little is read in one go, and most of the ring is there for
when that comes late."""
SEARCH_SECONDS = 1.0
"""Between two looks at threads of which there is no row."""

OLDER_NS = 1_000_000
"""A thread can turn out to be a little older than it was first seen to be, but not as much as this."""
NICE = -15
"""Of the thread that reads the rings (setpriority(2)). It needs a small part of a processor, but needs it soon."""

_TAILS = packing("tails", "spans", "absences")
_UNKNOWN = "unknown"
_WITHOUT_STACK = frozenset({STATES["READY"], STATES["UNKNOWN"], STATES["ELSEWHERE"]})
"""States off the processor that are no waits."""
_FOR_EVER = (1 << 63) - 1


def words_of_rings(n_cpus: int, wanted: int | None = None, *, stacks: bool = False) -> tuple[int, int]:
    """Words of a processor's ring of spans (``wanted``, a power of two, or as fits) and of its ring of absences.

    ``stacks``: waits have stacks, which are four more words.
    """
    words = wanted or min(RING_WORDS, 1 << (ALL_WORDS // n_cpus).bit_length() - 1)
    return words, max(words // (2 if stacks else 4), MIN_WORDS)


class Priority:
    """That of the calling thread, raised to `NICE` where it may be, until it is given back."""

    def __init__(self) -> None:
        self._tid = threading.get_native_id()
        self._before = os.getpriority(os.PRIO_PROCESS, self._tid)
        self._set(min(self._before, NICE))

    def give_back(self) -> None:
        """As it was before."""
        self._set(self._before)

    def _set(self, value: int) -> None:
        with suppress(OSError):  # no CAP_SYS_NICE; or the thread has ended
            os.setpriority(os.PRIO_PROCESS, self._tid, value)


class TransitionReader:
    """The rings of all processors, and whose their rows are.

    ``rings``: the maps `spans`, `absences` and `tails`; ``words`` as of `words_of_rings`; ``cpus`` gives the
    processors that the ledger has; ``consume`` has the threads that have ended handed to ``exits``; ``stacks`` gives
    the rows their stacks, if these are recorded.
    """

    def __init__(
        self,
        rings: tuple[mmap.mmap, mmap.mmap, mmap.mmap],
        memory: BpfMaps,
        exits: Exits,
        *,
        words: tuple[int, int],
        max_thread_records: int,
        n_cpus: int,
        cpus: Callable[[], Iterable[int]],
        start: int,
        consume: Callable[[], object],
        stacks: RowStacks | None = None,
    ) -> None:
        self._consume, self._stacks = consume, stacks
        self._memory, self._exits, self._tails = memory, exits, rings[2]
        self._n_cpus, self._cpus = n_cpus, cpus
        spans, absences = (memoryview(ring).cast("Q") for ring in rings[:2])
        self._decoder = TransitionDecoder(spans, absences, n_cpus, words, max_thread_records, start)
        for cpu in range(n_cpus):
            _TAILS.pack_into(self._tails, cpu * _TAILS.size, 0, 0)
        exits.follow()
        self._from = self._until = start
        self._capacity = 8 * words[0]
        self._waiting = 0
        self._policy = CpuTime(self._capacity, first=int(PAUSE_SECONDS[0] * 1e9), useful=FULL)
        self._pause = PAUSE_SECONDS[0]
        self._next = self._sought = 0.0
        self._living: dict[int, ThreadSeen] = {}
        self._known: dict[tuple[int, int], ThreadSeen] = {}
        self._opened: dict[int, OpenState] = {}
        self._numbered = 0
        self._news: dict[int, ThreadSeen] = {}
        self._ended: list[ThreadSeen] = []
        self._names: list[str] = [""] * STATES["N_STATES"]
        self._tasks = RowTasks(memory.task_name)
        self._fullest = 0.0

    def __len__(self) -> int:
        """Rows that wait to be taken."""
        return len(self._decoder)

    @property
    def fullest(self) -> float:
        """How full a ring was at most when it was looked at, 0 to 1."""
        return self._fullest

    def look(self, *, all_of_it: bool = False) -> float:
        """Read the rings if it is time to. Seconds until it is again."""
        now = time.monotonic()
        if not all_of_it and now < self._next:
            return self._next - now
        horizon = self._memory.now() - (0 if all_of_it else HORIZON_NS)
        written = self._memory.written()
        full = self._decoder.read(written, horizon, self._memory.now())
        for cpu in range(self._n_cpus):
            _TAILS.pack_into(self._tails, cpu * _TAILS.size, *self._decoder.read_until(cpu))
        self._until = horizon
        self._fullest = max(self._fullest, full)
        self._pause = self._until_useful(full)
        self._next = now + self._pause
        return self._pause

    def _until_useful(self, full: float) -> float:
        """Seconds until the fullest ring is worth a look, by the policy of all buffers.

        What fills a ring is a processor, which uses all its time: the time used is that of the clock.
        """
        now = time.monotonic_ns()
        self._waiting += round(full * self._capacity)
        if self._policy.looked(now, now, self._waiting, 0):
            self._waiting = 0
        least, most = PAUSE_SECONDS
        return min(max((self._policy.due(now, now) - now) / 1e9, least), most)

    def take(self) -> Batch:
        """All that was read since the last call."""
        self.look()
        return self._batch(self._until, last=False)

    def finish(self, at: int) -> Batch:
        """The last batch, up to the last snapshot; nothing may change any more."""
        self.look(all_of_it=True)
        waiting = {} if self._stacks is None else {one.record: one for one in self._memory.open_stacks(at)}
        for span in self._memory.unfinished(at, self._cpus()):
            self._decoder.add(*span)
            stack = waiting.get(span.record)
            if stack is not None and span.duration and span.state == stack.state and span.state not in _WITHOUT_STACK:
                self._decoder.add_stacks(stack.user, stack.kernel)
        return self._batch(at, last=True)

    def losses(self) -> dict[str, int]:
        """What of the transitions could not be written, or not be read."""
        return {
            "transitions_lost": self._memory.unwritten,
            "transition_rings_damaged": self._decoder.damaged,
            "transitions_of_unknown_threads": self._decoder.nameless,
        }

    # ---- a batch ----

    def _batch(self, until: int, *, last: bool) -> Batch:
        seen = self._find_threads(all_of_them=last)
        changes = self._decoder.take_changes()
        hashes = self._decoder.take_stacks()
        columns = self._whole(self._decoder.take(), until)
        futex = columns[10]
        for state in self._decoder.states():
            if not self._names[state]:
                self._names[state] = self._memory.state_name(state)
        rows = Transitions(*columns[:10], tuple(self._names), futex=futex if futex.any() else None)
        if self._stacks is not None:
            rows = self._stacks.add(rows, columns[11], hashes, self._news.values())
        batch = Batch(
            start=self._from,
            end=until,
            transitions=self._tasks.add(rows, changes),
            threads=tuple(self._news.values()),
            open=() if last else tuple(self._open(seen, until)),
            losses=self.losses(),
        )
        self._tasks.forget(t.thread for t in self._news.values() if t.end is not None and t.end <= until)
        self._news = {}
        self._decoder.forget(self._from)
        self._from = until
        return batch

    def _find_threads(self, *, all_of_them: bool) -> list[tuple[ThreadSeen, RecordedThread]]:
        """Whose the rows are. Returns the living threads that were looked at: who each is, and what it does.

        The rings have been read before this. A thread is put on the ring of exits before its thread record is free for
        another one, so a thread that has rows is found in its thread record, or on that ring afterwards.
        """
        now = time.monotonic()
        if all_of_them or now - self._sought > SEARCH_SECONDS:
            self._sought = now
            found = self._memory.look_at(range(1, self._memory.thread_records_used()))
        else:
            found = self._memory.look_at(self._decoder.thread_records())
        self._consume()
        seen = []
        for one in found:
            seen.append((self._identify(one), one))
        for ended in self._exits.take_news():
            thread = self._identify(ended)
            self._decoder.had(ended.record, thread.thread, ended.birth, ended.end)
            thread = self._news[thread.thread] = replace(thread, end=ended.end)
            self._ended.append(thread)
            self._opened.pop(thread.thread, None)
            del self._known[ended.record, ended.birth]
            living = self._living.get(ended.record)
            if living is not None and living.thread == thread.thread:
                del self._living[ended.record]
        return [(thread, one) for thread, one in seen if self._news.get(thread.thread, thread).end is None]

    def _identify(self, found: RecordedThread | EndedThread) -> ThreadSeen:
        """The thread that was born into a thread record, with what it is called now."""
        record, tid, birth = found.record, found.tid, found.birth
        old = self._known.get((record, birth))
        living = self._living.get(record)
        if old is None and living is not None and living.tid == tid and 0 < living.birth - birth < OLDER_NS:
            # It was opened while a handler was at work that had read its clock before, and is as old as that.
            old = self._known.pop((record, living.birth))
            self._decoder.had(record, old.thread, birth, _FOR_EVER)
        if old is None:
            thread = ThreadSeen(self._numbered, tid, found.pid, found.name, birth, birth, None)
            self._numbered += 1
            self._decoder.has(record, birth, thread.thread)
        else:
            thread = ThreadSeen(old.thread, tid, found.pid, found.name, birth, birth, None)
        if thread != old:
            self._known[record, birth] = self._news[thread.thread] = thread
            if living is None or living.birth <= birth or living.thread == thread.thread:
                self._living[record] = thread
        return thread

    def _whole(self, columns: Columns, until: int) -> Columns:
        """The rows, and where rows of a thread were lost one of a state that is not known: so they tile its life."""
        times, durations, threads = columns[0], columns[1], columns[4]
        if not self._memory.unwritten:
            self._decoder.note(threads, times, durations)
            self._ended = []
            return columns
        torn = self._decoder.torn(threads, times, durations)
        gaps: list[tuple[int, int, int]] = []
        if torn:  # sorting all of it would lose more
            chosen = np.flatnonzero(np.isin(threads, torn))
            order = chosen[np.argsort(times[chosen], kind="stable")]
            gaps = self._decoder.gaps(threads[order], times[order], durations[order])
        waiting = []
        for thread in self._ended:
            assert thread.end is not None
            at = self._decoder.until_of(thread.thread)
            if thread.end > until:
                waiting.append(thread)
            elif at < thread.end:
                gaps.append((thread.thread, at, thread.end - at))
        self._ended = waiting
        if not gaps:
            return columns
        n = len(gaps)
        missing = np.array(gaps, np.int64)
        filling = (missing[:, 1], missing[:, 2], 0, -1, missing[:, 0], STATES["UNKNOWN"], 0, -1, 0, NO_STATE, 0, -1)
        whole: list[NDArray[Any]] = []
        for column, value in zip(columns, filling, strict=True):
            there = cast("NDArray[Any]", column)
            whole.append(np.concatenate((there, np.broadcast_to(np.asarray(value, there.dtype), n))))
        self._names[STATES["UNKNOWN"]] = _UNKNOWN
        return cast("Columns", tuple(whole))

    def _open(self, seen: list[tuple[ThreadSeen, RecordedThread]], until: int) -> Iterable[OpenState]:
        """What threads were in the midst of, where it is not what it was at the end of the last batch.

        What they do now is what they did then if it began where their rows end; else it is not known yet.
        """
        for thread, now in seen:
            at = self._decoder.until_of(thread.thread)
            if at > until:  # it was born later
                continue
            if now.since == at:
                opened = OpenState(thread.thread, now.cpu, self._memory.state_name(now.state), at)
            else:
                opened = OpenState(thread.thread, -1, _UNKNOWN, at)
            if self._opened.get(thread.thread) != opened:
                self._opened[thread.thread] = opened
                yield opened
