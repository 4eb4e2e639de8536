"""A discrete-event replay of a wait graph on some processors.

A processor that becomes free takes, of the threads that are ready, the one whose work came first in the recording. So
the replay of an unchanged run makes the choices of the recorded scheduler. A thread that has been ready for longer than
in the recording takes the processor of the thread that has had one for longest: after a time slice more, or soon if it
was woken. That is how changed runs are scheduled fairly.
"""

from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t
from libc.stdlib cimport free, realloc

import numpy as np

cdef enum: # Step
    WAKE = 0
    PREEMPT = 1
    WAIT = 2
    SLEEP = 3
    END = 4
    NOTHING = 5
    GIVE = 6

cdef enum: # Waits
    AFTER = 0
    MAYBE = 1
    AT = 2

cdef enum: # what an event is
    WORK_DONE = 0
    WAIT_OVER = 1
    IS_READY = 2
    OUT_OF_PATIENCE = 3

cdef enum: # where a thread is
    RUNNING = 0
    QUEUED = 1
    AWAY = 2     # asleep, or on its way to the queue
    MEETING = 3  # it is to wake a thread that is not asleep yet
    ENDED = 4

cdef enum:
    SOON = 32 # the part of a time slice after which a thread that was woken takes a processor

cdef enum:
    MAX_FORCED = 1000 # waits that are given up one at a time


cdef struct entry:
    int64_t time   # of the event; in the queue of ready threads, when the work came in the recording
    int64_t number # orders what is equal otherwise
    int64_t token  # it is void if the thread's token has changed
    int32_t thread
    int32_t what


cdef inline bint is_before(entry *a, entry *b) noexcept nogil:
    if a.time != b.time:
        return a.time < b.time
    if a.what != b.what:
        return a.what < b.what
    return a.number < b.number


cdef class Heap:
    """Entries, of which the first can be taken."""

    cdef entry *entries
    cdef size_t n, room

    def __dealloc__(self):
        free(self.entries)

    cdef int push(self, entry *new) except -1:
        cdef entry *more
        cdef size_t at, parent
        if self.n == self.room:
            more = <entry *>realloc(self.entries, (2 * self.room + 64) * sizeof(entry))
            if more == NULL:
                raise MemoryError
            self.entries, self.room = more, 2 * self.room + 64
        at = self.n
        self.n += 1
        while at:
            parent = (at - 1) // 2
            if not is_before(new, &self.entries[parent]):
                break
            self.entries[at] = self.entries[parent]
            at = parent
        self.entries[at] = new[0]
        return 0

    cdef entry pop(self) noexcept:
        cdef entry first = self.entries[0], last
        cdef size_t at = 0, child
        self.n -= 1
        last = self.entries[self.n]
        while True:
            child = 2 * at + 1
            if child >= self.n:
                break
            if child + 1 < self.n and is_before(&self.entries[child + 1], &self.entries[child]):
                child += 1
            if not is_before(&self.entries[child], &last):
                break
            self.entries[at] = self.entries[child]
            at = child
        self.entries[at] = last
        return first


cdef class Replay:
    """One replay. The columns are those of `graph.WaitGraph`; ``work`` is what lies before each step.

    ``weightless`` tells of each thread whether it needs no processor. ``slice``: a time slice. ``parent``: the
    thread that is to outlive each, -1: none. ``meet``: a thread that wakes another one first waits until that one
    sleeps, and parents outlive. ``punctual``: waits of the kind MAYBE end at the same time as
    in the recording.
    """

    cdef const int64_t[::1] first, work, target, length, until, dispatch, early, late, contended
    cdef const int8_t[::1] kind, outside
    cdef const uint8_t[::1] weightless
    cdef const int64_t[::1] parent
    cdef int64_t[::1] children # how many have not ended that the thread is to outlive
    cdef bint meet, punctual
    cdef int64_t slice, now, number
    cdef Py_ssize_t threads, free_processors, living
    cdef Heap events, queue
    cdef int64_t[::1] step, token, finished
    cdef int64_t[::1] left, chunk, begun       # work before the next step; what is being done of it, since when
    cdef int64_t[::1] position                 # where in the recording the thread is, as a time
    cdef int64_t[::1] since, ready_since
    cdef int64_t[::1] delay, patience          # how long it is kept from its processor; how long to wait for one
    cdef int8_t[::1] urgent                    # whether it was woken: it need not leave others a time slice
    cdef int8_t[::1] where
    cdef int64_t[::1] woken_at # by step: when the wake-up arrives that was sent; -1: none was
    cdef int32_t[::1] meeting  # by step: the thread that is to end this wait and waits for it; -1: none
    cdef int32_t[::1] owner    # by step: its thread
    cdef int32_t[::1] fresh, yielding, running, seat
    cdef Py_ssize_t n_fresh, n_yielding, n_running
    cdef readonly object finish
    """When each thread ended, shape (threads,); -1: it did not."""
    cdef readonly int64_t ready
    """How long all threads were ready, together."""
    cdef readonly int64_t forced
    """Waits that nothing would have ended, and that were given up."""
    cdef readonly object reached
    """When each step was come to, shape (steps,); -1: it was not. Shape (0,) unless that was asked for."""
    cdef readonly object left_at
    """When the thread went on with work after each step, likewise."""
    cdef int64_t[::1] reached_, left_at_
    cdef bint traced
    cdef readonly int64_t end
    """When the thread ended that was followed, or the last one."""

    def __init__(
        self,
        const int64_t[::1] first,
        const int8_t[::1] kind,
        const int64_t[::1] work,
        const int64_t[::1] target,
        const int64_t[::1] length,
        const int64_t[::1] until,
        const int8_t[::1] outside,
        const int64_t[::1] dispatch,
        const int64_t[::1] early,
        const int64_t[::1] late,
        const int64_t[::1] contended,
        const uint8_t[::1] weightless,
        const int64_t[::1] parent,
        Py_ssize_t processors,
        int64_t slice,
        bint meet,
        bint punctual,
    ):
        cdef Py_ssize_t threads = first.shape[0] - 1, steps = kind.shape[0]
        self.first, self.kind, self.work, self.target, self.length = first, kind, work, target, length
        self.until, self.outside, self.dispatch, self.early = until, outside, dispatch, early
        self.late, self.contended, self.weightless = late, contended, weightless
        self.slice, self.meet, self.punctual, self.parent = max(slice, 1), meet, punctual, parent
        self.threads, self.free_processors = threads, processors
        self.events, self.queue = Heap(), Heap()
        self.step = np.array(first[:threads], np.int64)
        self.token, self.begun, self.chunk, self.left, self.position, self.since, self.ready_since = (
            np.zeros(threads, np.int64) for _ in range(7)
        )
        self.delay, self.patience = np.zeros(threads, np.int64), np.zeros(threads, np.int64)
        self.where, self.urgent = np.full(threads, AWAY, np.int8), np.zeros(threads, np.int8)
        self.woken_at = np.full(steps, -1, np.int64)
        self.meeting = np.full(steps, -1, np.int32)
        self.owner = np.repeat(np.arange(threads, dtype=np.int32), np.diff(first))
        self.fresh, self.yielding, self.running, self.seat = (np.zeros(threads, np.int32) for _ in range(4))
        self.finish = np.full(threads, -1, np.int64)
        self.finished = self.finish
        self.children = np.bincount(np.asarray(parent)[np.asarray(parent) >= 0], minlength=max(threads, 1)) if meet else (
            np.zeros(threads, np.int64)
        )

    def run(self, Py_ssize_t follow, bint traced=False):
        """Replay until thread ``follow`` ends, or if it is -1 until all have. ``traced``: tell when steps were made."""
        cdef Py_ssize_t thread
        self.traced = traced
        self.reached, self.left_at = (np.full(self.kind.shape[0] if traced else 0, -1, np.int64) for _ in range(2))
        self.reached_, self.left_at_ = self.reached, self.left_at
        for thread in range(self.threads):
            if self.first[thread] == self.first[thread + 1]:
                self.where[thread] = ENDED
            else:
                self.living += 1
        for thread in range(self.threads):
            if self.where[thread] != ENDED:
                self.act(<int32_t>thread, False)
        while True:
            while self.events.n and self.events.entries[0].time <= self.now:
                self.take()
            if self.settle():
                continue
            if self.where[follow] == ENDED if follow >= 0 else not self.living:
                break
            if self.events.n:
                self.now = self.events.entries[0].time
            elif not self.force():
                break
        for thread in range(self.threads) if follow < 0 else range(follow, follow + 1):
            self.end = max(self.end, self.finished[thread])
        return self

    # ---- events ----

    cdef int after(self, int64_t time, int32_t thread, int32_t what) except -1:
        cdef entry new
        new.time, new.number, new.token, new.thread, new.what = time, self.number, self.token[thread], thread, what
        self.number += 1
        return self.events.push(&new)

    cdef int take(self) except -1:
        cdef entry event = self.events.pop()
        cdef int32_t thread = event.thread
        if event.token != self.token[thread]:
            return 0
        if event.what == WORK_DONE:
            self.position[thread] += self.chunk[thread]
            self.left[thread] = 0
            return self.act(thread, True)
        if event.what == WAIT_OVER:
            return self.end_wait(thread)
        if event.what == IS_READY:
            return self.enqueue(thread)
        return self.lose_patience(thread)

    cdef int end_wait(self, int32_t thread) except -1:
        """The thread goes on after the step in which it waited."""
        cdef int64_t step = self.step[thread]
        self.token[thread] += 1
        self.step[thread] += 1
        if self.dispatch[step] < 0 and not self.work[step + 1]:
            return self.act(thread, False)
        return self.become_ready(thread, step)

    cdef int become_ready(self, int32_t thread, int64_t step) except -1:
        """The thread wants a processor after this step, as soon as it did in the recording."""
        self.where[thread] = AWAY
        self.left[thread] = self.work[step + 1]
        self.position[thread] = max(self.dispatch[step], 0)
        self.delay[thread], self.patience[thread] = self.late[step], self.contended[step]
        self.urgent[thread] = self.kind[step] != PREEMPT
        if self.urgent[thread]:
            self.patience[thread] += min(self.contended[step] + self.slice // SOON, self.slice)
        else:
            self.patience[thread] += self.slice
        self.ready_since[thread] = self.now
        if self.early[step] and not self.weightless[thread]:
            return self.after(self.now + self.early[step], thread, IS_READY)
        return self.enqueue(thread)

    cdef int enqueue(self, int32_t thread) except -1:
        """The thread competes for a processor, to do the work that is left before its next step."""
        cdef entry new
        self.token[thread] += 1
        if self.weightless[thread]:
            return self.begin_work(thread)
        self.where[thread] = QUEUED
        new.time, new.number, new.token = self.position[thread], self.number, self.token[thread]
        new.thread, new.what = thread, 0
        self.number += 1
        self.queue.push(&new)
        if self.n_fresh == self.threads:
            return self.after(self.now + self.patience[thread], thread, OUT_OF_PATIENCE)
        self.fresh[self.n_fresh] = thread
        self.n_fresh += 1
        return 0

    cdef int begin_work(self, int32_t thread) except -1:
        """The thread has a processor now, and needs none if it is weightless."""
        self.token[thread] += 1
        self.where[thread] = RUNNING
        if not self.weightless[thread]:
            self.free_processors -= 1
            self.seat[thread], self.running[self.n_running] = <int32_t>self.n_running, thread
            self.n_running += 1
        self.since[thread], self.begun[thread] = self.now, self.now + self.delay[thread]
        self.ready += self.begun[thread] - self.ready_since[thread]
        self.delay[thread], self.patience[thread], self.urgent[thread] = 0, self.slice, False
        self.chunk[thread] = self.left[thread]
        self.note_left(thread)
        return self.after(self.begun[thread] + self.left[thread], thread, WORK_DONE)

    cdef void note_left(self, int32_t thread) noexcept:
        """The thread goes on with the work after its last step."""
        cdef int64_t step = self.step[thread] - 1
        if self.traced and step >= self.first[thread] and self.left_at_[step] < 0:
            self.left_at_[step] = self.begun[thread]

    cdef int release(self, int32_t thread) except -1:
        """The thread gives its processor back, if it has one."""
        cdef int32_t last
        if self.where[thread] == RUNNING and not self.weightless[thread]:
            self.free_processors += 1
            self.n_running -= 1
            last = self.running[self.n_running]
            self.running[self.seat[thread]], self.seat[last] = last, self.seat[thread]
        self.where[thread] = AWAY
        self.token[thread] += 1
        return 0

    # ---- steps ----

    cdef int act(self, int32_t thread, bint runs) except -1:
        """Do the step that the thread has come to, and the next ones until there is work before one.

        ``runs``: the thread has a processor.
        """
        cdef int64_t step, target, end
        cdef int32_t other
        cdef int8_t kind
        while True:
            step = self.step[thread]
            kind = self.kind[step]
            if self.traced and self.reached_[step] < 0:
                self.reached_[step] = self.now
            if kind == WAKE:
                target = self.target[step]
                if self.sends(thread, step, target, runs):
                    return 0
            elif kind == PREEMPT:
                if runs and not self.weightless[thread]:
                    self.yielding[self.n_yielding] = thread
                    self.n_yielding += 1
                    return 0
                if not runs:
                    self.step[thread] += 1
                    return self.become_ready(thread, step)
            elif kind == GIVE:
                if not self.weightless[thread]:
                    if not runs:
                        self.step[thread] += 1
                        return self.become_ready(thread, step)
                    self.step[thread] += 1
                    self.left[thread] = self.work[step + 1]
                    self.ready += self.late[step]
                    self.position[thread] = max(self.position[thread], self.dispatch[step])
                    return self.go_on(thread, self.late[step])
            elif kind == WAIT:
                other, self.meeting[step] = self.meeting[step], -1
                if not runs or self.woken_at[step] < 0 or self.woken_at[step] > self.now:
                    self.release(thread)
                    if self.woken_at[step] >= 0:
                        self.after(max(self.now, self.woken_at[step]), thread, WAIT_OVER)
                    elif other >= 0: # that was to end this wait, and waited for it: it goes on with that step
                        self.left[other] = 0
                        self.ready_since[other] = self.now
                        self.enqueue(other)
                    return 0
            elif kind == SLEEP:
                self.release(thread)
                end = self.now + self.length[step]
                if self.outside[step] == AT or (self.outside[step] == MAYBE and self.punctual):
                    end = max(self.now, self.until[step])
                return self.after(end, thread, WAIT_OVER)
            elif kind == END:
                self.release(thread)
                return 0 if self.children[thread] else self.end_thread(thread)
            self.position[thread] = max(self.position[thread], self.dispatch[step])
            self.step[thread] = step + 1
            self.left[thread] = self.work[step + 1]
            if self.left[thread]:
                if not runs:
                    self.ready_since[thread] = self.now
                    return self.enqueue(thread)
                return self.go_on(thread, 0)

    cdef int end_thread(self, int32_t thread) except -1:
        """The thread ends, and so may the one that created it, if it has nothing left to do but outlive this one."""
        cdef int64_t other = thread
        while True:
            self.where[other] = ENDED
            self.finished[other] = self.now
            self.living -= 1
            other = self.parent[other]
            if other < 0 or not self.children[other]:
                return 0
            self.children[other] -= 1
            if self.children[other] or self.where[other] != AWAY or self.kind[self.step[other]] != END:
                return 0

    cdef bint sends(self, int32_t thread, int64_t step, int64_t target, bint runs) except -1:
        """Wake the thread that waits in step ``target``. Return whether the thread waits to meet it first."""
        cdef int32_t other = self.owner[target]
        if self.step[other] > target or self.where[other] == ENDED or self.woken_at[target] >= 0:
            return False # that wait has been given up
        if self.step[other] == target and self.where[other] == AWAY:
            self.woken_at[target] = self.now + self.length[step]
            self.after(self.woken_at[target], other, WAIT_OVER)
        elif self.meet and runs and other != thread:
            self.release(thread)
            self.where[thread] = MEETING
            self.meeting[target] = thread
            return True
        else:
            self.woken_at[target] = self.now + self.length[step]
        return False

    cdef int go_on(self, int32_t thread, int64_t delay) except -1:
        """The thread works before its next step, on the processor that it has, after a delay."""
        self.token[thread] += 1
        self.chunk[thread] = self.left[thread]
        self.begun[thread] = self.now + delay
        self.note_left(thread)
        return self.after(self.begun[thread] + self.left[thread], thread, WORK_DONE)

    # ---- processors ----

    cdef bint settle(self) except -1:
        """Give away free processors, and let threads yield. Return whether anything happened."""
        cdef bint some = self.give()
        cdef int32_t thread
        cdef int64_t step
        cdef Py_ssize_t at
        for at in range(self.n_yielding):
            thread = self.yielding[at]
            step = self.step[thread]
            self.step[thread] += 1
            self.left[thread] = self.work[step + 1]
            self.clean()
            if self.queue.n and self.queue.entries[0].time < self.dispatch[step]:
                self.release(thread)
                self.become_ready(thread, step)
                self.give()
            else:
                self.position[thread] = max(self.position[thread], self.dispatch[step])
                self.go_on(thread, 0)
        some = some or self.n_yielding > 0
        self.n_yielding = 0
        for at in range(self.n_fresh):
            thread = self.fresh[at]
            if self.where[thread] == QUEUED:
                self.after(self.now + self.patience[thread], thread, OUT_OF_PATIENCE)
        self.n_fresh = 0
        return some

    cdef int clean(self) except -1:
        """Remove from the front of the queue what is no longer in it."""
        cdef entry *front
        while self.queue.n:
            front = &self.queue.entries[0]
            if self.where[front.thread] == QUEUED and self.token[front.thread] == front.token:
                break
            self.queue.pop()
        return 0

    cdef bint give(self) except -1:
        """Give free processors to the threads that are ready. Return whether there were any."""
        cdef bint some = False
        while self.free_processors > 0:
            self.clean()
            if not self.queue.n:
                break
            self.begin_work(self.queue.pop().thread)
            some = True
        return some

    cdef int lose_patience(self, int32_t thread) except -1:
        """The thread takes the processor of the one that has had one for longest.

        A thread that was preempted leaves others a time slice.
        """
        cdef int32_t other, victim = -1
        cdef Py_ssize_t at
        if self.where[thread] != QUEUED:
            return 0
        for at in range(self.n_running):
            other = self.running[at]
            if self.begun[other] + self.chunk[other] > self.now and self.begun[other] < self.now:
                if victim < 0 or self.since[other] < self.since[victim]:
                    victim = other
        if victim < 0:
            return self.after(self.now + max(self.slice // SOON, 1), thread, OUT_OF_PATIENCE)
        if not self.urgent[thread] and self.now - self.since[victim] < self.slice:
            return self.after(self.since[victim] + self.slice, thread, OUT_OF_PATIENCE)
        self.position[victim] += self.now - self.begun[victim]
        self.left[victim] = self.begun[victim] + self.chunk[victim] - self.now
        self.release(victim)
        self.begin_work(thread)
        self.ready_since[victim] = self.now
        return self.enqueue(victim)

    cdef bint force(self) except -1:
        """End a wait that nothing will end: nothing happens any more. Return whether there was one."""
        cdef Py_ssize_t thread, chosen = -1
        cdef int64_t target
        cdef bint some = False
        for thread in range(self.threads):
            if self.where[thread] == MEETING:
                target = self.target[self.step[thread]]
                self.meeting[target] = -1
                self.woken_at[target] = self.now + self.length[self.step[thread]]
                self.left[thread] = 0
                self.ready_since[thread] = self.now
                self.enqueue(<int32_t>thread)
                self.forced += 1
                some = True
        if some:
            return True
        for thread in range(self.threads):
            if self.where[thread] == AWAY:
                if self.kind[self.step[thread]] == END:
                    continue # it outlives others, which are stuck themselves
                if self.forced >= MAX_FORCED:
                    self.forced += 1
                    self.end_wait(<int32_t>thread)
                    some = True
                elif chosen < 0 or self.until[self.step[thread]] < self.until[self.step[chosen]]:
                    chosen = thread
        if chosen >= 0:
            self.forced += 1
            self.end_wait(<int32_t>chosen)
        return some or chosen >= 0
