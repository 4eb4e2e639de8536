"""A source of transitions that have stacks: each wait's, each waker's, and samples of processor time.

The ledger and the rows are those of the eBPF source. Its programs give each wait the hashes of its stacks; they become
numbers here, each stack once, in the address space as it was when the stack was taken. Samples of processor time are
taken as for a profile. Names are found when measuring has ended (`StackSource.stacks`).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cached_property

import numpy as np

from headway.dataclass import dataclass
from headway.linux.bpf.rings.row_stacks import RowStacks
from headway.linux.bpf.samples.stacks import StackReader
from headway.linux.options import MeasureOptions, Selection
from headway.linux.perf.sample_buffer import Samples as RawSamples
from headway.model import Batch, Collection, Frame, Kind, Ledger, Samples, ThreadSeen, Transitions, kind_of
from headway.values import LARGEST

from ..ebpf import BpfSource
from ..measuring import MeasuringSource
from .measurement import Buffers, Prepared, ProfileMeasurement
from .source import DEFAULT_FREQUENCY
from .spaces import Spaces

__all__ = ["DEFAULT_FREQUENCY", "RecordedStacks", "StackNumbers", "StackSource", "period_of"]


def period_of(frequency: int) -> int:
    """Return the ns of a thread's processor time from one sample to the next; 0: none are taken."""
    return 1_000_000_000 // frequency if frequency else 0


DRAIN_NS = 1_000_000_000
"""How often all buffers of samples are emptied: what the programs told of a sample is kept until then."""
_LIVES = 8
"""So many threads of one tid are known: those whose samples may still come."""
_CAPACITY = 1 << 16
"""Bytes of a thread's buffer of samples."""


@dataclass(frozen=True, slots=True)
class RecordedStacks:
    """The stacks of a recording, with names."""

    stacks: tuple[tuple[int, ...], ...]
    """By number: indices into ``frames``, innermost first."""
    frames: tuple[Frame, ...]
    period: int
    """ns of processor time from one sample to the next."""
    collection: Collection
    notes: tuple[str, ...]
    """What a reader must know, one sentence each."""
    losses: dict[str, int]


class StackNumbers:
    """Gives the stacks of waits and wakers their numbers in the recording."""

    def __init__(self, spaces: Spaces, reader: StackReader, most: int) -> None:
        self._spaces, self._reader, self._most = spaces, reader, most
        self._known: dict[tuple[object, int, int], int] = {}

    def number(self, pid: int, moment: int, user: int, kernel: int) -> int:
        """See `headway.linux.bpf.rings.row_stacks.Number`."""
        if user and not pid:
            return -1
        space = self._spaces.then(pid, moment) if user else None
        key = space, user, kernel
        number = self._known.get(key)
        if number is None:
            addresses, inside, walked = self._reader.stack_of(user, kernel)
            if not addresses and not inside:
                return -1
            number = self._known[key] = self._spaces.stacks.add(
                space, addresses, inside, most=self._most, left=True, walked=walked
            )
        return number


class StackSource(MeasuringSource[ProfileMeasurement]):
    """Measures, records and samples a selection of threads (`RecordingSource`); `stacks` after `end`.

    ``make`` makes the eBPF source, which records; it is given the options, and what is to be called just before it
    begins. ``frequency``: samples a second of each thread's processor time; 0: none.
    """

    def __init__(
        self,
        selection: Selection,
        options: MeasureOptions,
        make: Callable[[MeasureOptions, Prepared], BpfSource],
        *,
        frequency: int = DEFAULT_FREQUENCY,
    ) -> None:
        self._selection, self._options, self._make = selection, options, make
        self.name = BpfSource.name
        self.period = period_of(frequency)
        """ns of processor time from one sample to the next; 0: there are none."""
        self._drained = (0, 0)
        self._held: list[tuple[RawSamples, list[int]]] = []
        self._threads: dict[int, list[ThreadSeen]] = {}
        self._outside = self._unmatched = self._without = 0
        self._weights: Counter[int] = Counter()
        self._over = False

    def begin(self) -> None:
        """Start measuring and sampling. Raises HeadwayError; then nothing is left attached."""
        self._measurement = ProfileMeasurement(
            self._selection, self._options, self._start, self.period, Buffers(capacity=_CAPACITY)
        )
        now = time.monotonic_ns()
        self._drained = now, now

    def _start(self, prepared: Prepared) -> tuple[BpfSource, str]:
        def ready(reader: StackReader) -> None:
            prepared(reader)
            reader.rows = RowStacks(self._number, lambda: self._running.follow())

        source = self._make(self._options, ready)
        try:
            source.begin()
        except BaseException:
            source.close()
            raise
        self._source = source
        return source, ""

    def _number(self, pid: int, moment: int, user: int, kernel: int) -> int:
        return self._numbers.number(pid, moment, user, kernel)

    @cached_property
    def _numbers(self) -> StackNumbers:
        running = self._running
        return StackNumbers(running.spaces, self._reader, running.log.max_stack)

    @property
    def _reader(self) -> StackReader:
        reader = self._running.states
        assert reader is not None
        return reader

    # ---- as the source of transitions ----

    def poll_fds(self) -> Iterable[int]:
        """Return descriptors that are readable when the source has work, or threads have come."""
        return self._running.poll_fds()

    def service(self) -> float:
        """Find new threads, and look into the buffers that are due. Return the seconds until the next call."""
        return self._running.service()

    def wait_until_exit_is_seen(self, pid: int) -> None:
        """Wait as the source of transitions does."""
        self._source.wait_until_exit_is_seen(pid)

    def read(self) -> Ledger:
        """Return the ledger so far."""
        return self._source.read()

    def interval(self) -> Ledger:
        """Return the ledger since the last one."""
        return self._source.interval()

    def empty_ledger(self) -> Ledger:
        """Return what must be known to read the rows of `take`."""
        return self._source.empty_ledger()

    @property
    def waiting(self) -> int:
        """How many rows `take` would return."""
        return self._source.waiting

    def end(self) -> Ledger:
        """Return the ledger of all of the time; from now on nothing is measured, and `stacks` may be called."""
        ledger = self._running.stop()
        self._over = True
        return ledger

    def end_interval(self) -> Ledger:
        """Return the ledger of all of the time, as `end` does."""
        return self.end()

    def take(self) -> Batch:
        """Return the transitions since the last call, and samples; after `end`, once, the rest of both."""
        now = time.monotonic_ns()
        due = not self._over and now - self._drained[1] >= DRAIN_NS
        if due:
            self._running.sampler.drain()
        batch = self._source.take()
        for thread in batch.threads:
            self._note(thread)
        self._weigh(batch.transitions)
        if not (due or self._over):
            return batch
        log = self._running.log
        ready = [*self._held, *log.taken] if self._over else self._held
        self._held, log.taken = log.taken, []
        samples = self._samples(ready)
        self._reader.forget_before(self._drained[0])
        self._drained = self._drained[1], now
        return replace(batch, samples=samples)

    def _weigh(self, rows: Transitions) -> None:
        """Add up the time of stacks, and the time of waits that have none."""
        if rows.stack is None:
            return
        waits = np.array([kind_of(state) is Kind.WAIT for state in rows.states], np.bool_)
        self._without += int(rows.duration[waits[rows.state] & (rows.stack < 0)].sum())
        there = rows.stack >= 0
        stacks, place = np.unique(rows.stack[there], return_inverse=True)
        times = np.zeros(len(stacks), np.int64)
        np.add.at(times, place, rows.duration[there])
        for stack, time_ in zip(stacks.tolist(), times.tolist(), strict=True):
            self._weights[stack] += time_

    # ---- samples ----

    def _note(self, thread: ThreadSeen) -> None:
        """Know whose samples of a tid are."""
        lives = self._threads.setdefault(thread.tid, [])
        lives[:] = [*(life for life in lives[-_LIVES:] if life.thread != thread.thread), thread]

    def _thread_at(self, tid: int, moment: int) -> int:
        for life in reversed(self._threads.get(tid, ())):
            if life.start <= moment <= (LARGEST if life.end is None else life.end):
                return life.thread
        return -1

    def _samples(self, taken: Iterable[tuple[RawSamples, list[int]]]) -> Samples | None:
        """Return the samples, each with its state."""
        self._reader.consume()
        states: dict[str, int] = {}
        rows = [row for samples, stacks in taken for row in self._rows(samples, stacks, states)]
        if not rows:
            return None
        times, threads, cpus, numbers, weights, stacks = zip(*rows, strict=True)
        return Samples(
            time=np.array(times, np.int64),
            thread=np.array(threads, np.int32),
            cpu=np.array(cpus, np.int16),
            state=np.array(numbers, np.int32),
            weight=np.array(weights, np.int64),
            stack=np.array(stacks, np.int32),
            states=tuple(states),
        )

    def _rows(
        self, samples: RawSamples, stacks: list[int], states: dict[str, int]
    ) -> Iterator[tuple[int, int, int, int, int, int]]:
        found, names = self._reader.states(samples.time, samples.tid, self.period // 2)
        columns = zip(
            samples.time.tolist(), samples.tid.tolist(), samples.cpu.tolist(), samples.kernel.tolist(),
            samples.period.tolist(), found.tolist(), stacks, strict=True,
        )  # fmt: skip
        for moment, tid, cpu, kernel, period, told, stack in columns:
            thread = self._thread_at(tid, moment)
            state = names[told]
            if thread < 0:  # of a command before it is executed, or of a thread that is not measured
                self._outside += 1
                continue
            if not state:
                self._unmatched += 1
                state = "kernel" if kernel else "user"
            self._weights[stack] += period
            yield moment, thread, cpu, states.setdefault(state, len(states)), period, stack

    # ---- names ----

    def stacks(self) -> RecordedStacks:
        """Return all stacks, with names; after `end`. May take seconds: symbols are read now."""
        running = self._running
        stacks, frames = running.spaces.stacks.resolve()
        lost = running.sampler.losses
        return RecordedStacks(
            stacks,
            frames,
            self.period,
            running.collection(),
            (*running.notes, *running.spaces.stacks.describe(self._weights)),
            {
                "samples_lost": lost.samples,
                "samplings_throttled": lost.throttled,
                "buffers_damaged": lost.damaged,
                "threads_not_sampled": lost.unseen_threads,
                "ns_before_sampling_began": lost.late_ns,
                "samples_outside_the_window": self._outside,
                "samples_without_their_state": self._unmatched,
                "ns_without_a_stack": self._without,
            },
        )
