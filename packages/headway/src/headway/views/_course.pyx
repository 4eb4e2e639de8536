"""Rows of transitions in the order of time, turned into slices of threads and processors, wake-ups and amounts.

The slices of a track do not overlap, whatever the rows say. The flow of a wake-up leads to the slice with which the
woken thread continues at that moment. Memory does not grow with the rows.
"""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint64_t

import numpy as np

cdef extern from *:
    ctypedef long long wide "__int128"

CPUS = 1 << 15


cdef class Sink:
    """The receiver of slices. ``flow``: the number of the wake-up with which a slice begins; 0: none."""

    cdef int slice(self, int32_t who, int64_t begin, int64_t end, const Row* row, uint64_t flow) except -1:
        """Take a span of a thread."""
        raise NotImplementedError

    cdef int wake(self, int32_t waker, int64_t time, int32_t state, uint64_t flow) except -1:
        """Take a wake-up: a thread ended the wait of another, which was in this state.

        The slice it leads to comes later.
        """
        raise NotImplementedError

    cdef int amount(self, int32_t who, int16_t cpu, int64_t time, const Row* row) except -1:
        """Take an amount that has no place within what it is part of, of a processor (``who`` is -1) or of a thread."""
        raise NotImplementedError

    cdef int run(self, int16_t cpu, int64_t begin, int64_t end, int32_t who, int32_t state) except -1:
        """Take a span of a processor: it ran a thread or, if ``who`` is -1, was in a state that belongs to no thread.
        """
        raise NotImplementedError


cdef class ThreadSlices:
    """Turns rows into slices for ``sink``. ``tids`` are those of the threads, by index.

    ``progress``, shape (threads, steps), is the effective time in each step of ``width`` from ``start`` on.
    """

    cdef Sink _sink
    cdef readonly uint64_t passed
    """The number of spans that overlapped one shown before for their thread or processor; they were cut."""
    cdef readonly uint64_t flows
    cdef readonly object progress
    cdef readonly object reached
    """The end of each thread's slices, shape (threads,); -1: there are none."""
    cdef int64_t[:, ::1] _progress
    cdef int64_t _start, _width
    cdef const int32_t[::1] _tids
    cdef uint64_t[::1] _pending          # the flow that ends at a thread's next slice, if the slice begins when ...
    cdef int64_t[::1] _woken, _reached   # ... the thread was woken
    cdef int32_t[::1] _holders           # the thread that a processor runs (-1: none), since when, ...
    cdef int64_t[::1] _since, _until     # ... and the end of the processor's slices

    def __init__(self, Sink sink, tids, int64_t start, int64_t width, Py_ssize_t steps):
        count = len(tids)
        self._sink, self._tids, self._start, self._width = sink, tids, start, width
        self.progress, self.reached = np.zeros((count, steps), np.int64), np.full(count, -1, np.int64)
        self._progress, self._reached = self.progress, self.reached
        self._pending, self._woken = np.zeros(count, np.uint64), np.zeros(count, np.int64)
        self._holders, self._since = np.full(CPUS, -1, np.int32), np.zeros(CPUS, np.int64)
        self._until = np.full(CPUS, -1, np.int64)

    def put(
        self,
        const int64_t[::1] order,
        const int64_t[::1] time,
        const int64_t[::1] duration,
        const int32_t[::1] taken,
        const int16_t[::1] cpu,
        const int32_t[::1] thread,
        const int32_t[::1] state,
        const int32_t[::1] count,
        const int32_t[::1] waker,
        const int32_t[::1] waker_tid,
        const int32_t[::1] waker_state,
        const uint8_t[::1] effective,
    ):
        """Add rows, in an order in which those of each thread and of each processor are in the order of time.

        The columns are those of `headway.model.transitions.Transitions`, with threads by index and -1 for no state.
        ``effective`` tells for each state whether it is progress.
        """
        cdef Py_ssize_t n, i
        cdef int64_t end
        cdef int32_t who
        cdef Row row
        for n in range(order.shape[0]):
            i = order[n]
            who, end = thread[i], time[i] + duration[i]
            row.taken, row.count, row.state = taken[i], count[i], state[i]
            if who >= 0 and effective[row.state]:
                self._add(who, time[i], end, duration[i] - row.taken)
            if duration[i] == 0:
                if who >= 0 or cpu[i] >= 0:
                    self._sink.amount(who, cpu[i], time[i], &row)
                continue
            if who >= 0:
                row.waker, row.waker_state = waker[i], waker_state[i]
                row.waker_tid = self._tids[row.waker] if row.waker >= 0 else waker_tid[i]
                self._slice(who, time[i], end, &row)
            if cpu[i] >= 0:
                self._run(cpu[i], time[i], end, who, row.state)

    def finish(self):
        """Emit the slices that are still open, after all rows have been put."""
        cdef int cpu
        for cpu in range(CPUS):
            self._leave(<int16_t>cpu)

    cdef int _slice(self, int32_t who, int64_t begin, int64_t end, const Row* row) except -1:
        """Emit what a thread did, and who woke it at its end."""
        cdef uint64_t flow
        if begin < self._reached[who]:
            self.passed += 1
            begin = self._reached[who]
            if begin >= end:
                return 0
        flow = self._pending[who] if self._woken[who] == begin else 0
        self._sink.slice(who, begin, end, row, flow)
        self._pending[who], self._reached[who] = 0, end
        if row.waker >= 0:
            self.flows += 1
            self._sink.wake(row.waker, end, row.state, self.flows)
            self._pending[who], self._woken[who] = self.flows, end
        return 0

    cdef int _run(self, int16_t cpu, int64_t begin, int64_t end, int32_t who, int32_t state) except -1:
        """Emit what a processor did: one slice for as long as it runs one thread, or for one row that belongs to no
        thread.
        """
        if begin < self._until[cpu]:
            self.passed += 1
            begin = self._until[cpu]
            if begin >= end:
                return 0
        if who < 0 or who != self._holders[cpu] or begin != self._until[cpu]:
            self._leave(cpu)
            if who < 0:
                self._sink.run(cpu, begin, end, -1, state)
            self._holders[cpu], self._since[cpu] = who, begin
        self._until[cpu] = end
        return 0

    cdef int _leave(self, int16_t cpu) except -1:
        """Emit the span of the thread that leaves a processor."""
        if self._holders[cpu] >= 0:
            self._sink.run(cpu, self._since[cpu], self._until[cpu], self._holders[cpu], -1)
            self._holders[cpu] = -1
        return 0

    cdef void _add(self, int32_t who, int64_t begin, int64_t end, int64_t amount) noexcept:
        """Spread an amount of progress evenly over its steps. The sum over the steps is the amount."""
        cdef int64_t last = self._progress.shape[1] - 1
        cdef int64_t step, edge, done, now
        if last < 0:
            return
        step = (begin - self._start) // self._width
        step = 0 if step < 0 else last if step > last else step
        done = 0
        while step < last:
            edge = self._start + (step + 1) * self._width
            if end <= edge:
                break
            now = <int64_t>(<wide>amount * (edge - begin) // (end - begin))
            self._progress[who, step] += now - done
            done = now
            step += 1
        self._progress[who, step] += amount - done
