# cython: language_level=3, boundscheck=False, wraparound=False, embedsignature=True
"""The accounts of threads, from readings of the kernel's clocks: the programs of clocks.bpf.c write, this reads.

The arithmetic is that of /proc (`ThreadAccount`), which every reader of these clocks shares. What is different is what is
known: a reading has all clocks as of one moment, births and ends are told, and a thread keeps its account when it takes
another id. A thread's account ends where its exit began, plus what its exit took.
"""

from clock_layout cimport (
    CLOCKS_BEGUN, CLOCKS_CALL_UNKNOWN, CLOCKS_ENDED, CLOCKS_EXITING, CLOCKS_FOUND, CLOCKS_KERNEL_THREAD,
    CLOCKS_NO_CALL, CLOCKS_RUNNABLE, CLOCKS_STOPPED, CLOCKS_UNINTERRUPTIBLE, clock_reading,
)
from bpf_layout cimport FILE_DISK, FILE_EPOLL, FILE_PIPE, FILE_SOCKET
from libc.errno cimport EAGAIN, EINTR, errno
from libc.stdint cimport int32_t, int64_t, uint64_t, uintptr_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy

from headway.linux.procfs._procfs cimport (
    _DISK, _FAULT, _FILE, _NET, _PIPE, _RUNNABLE, _STOPPED, _WAIT, _WAITING, _WORK, ThreadAccount, WaitReasons,
)

cdef extern from "unistd.h":
    ssize_t read(int fd, void *into, size_t room)

cdef enum:
    _ROOM = 1 << 16
    _MICROSECOND = 1000   # the account's unit of user and system time: its shares have no room for ns
    _WHOLE = 1 << 16


cdef inline int64_t _limited(uint64_t value) noexcept nogil:
    """Return a figure of the kernel, or the largest that the arithmetic takes."""
    return <int64_t>min(value, <uint64_t>1 << 60)


cdef class ClockThread:
    """A measured thread: its account, and what has been told of it."""

    cdef readonly ThreadAccount account
    cdef readonly int tid, pid
    cdef readonly int64_t birth
    """When it was born, or when it was found, ns of CLOCK_MONOTONIC."""
    cdef readonly bint in_kernel
    """It runs no code of a program: a kernel thread, or a worker of an io_uring."""
    cdef readonly bint exiting
    """Its exit has begun."""
    cdef readonly bint gone
    """It is in its exit, and does not show any more: nobody can reach it by its id."""
    cdef readonly bint ended
    """It will not run again, and its account is closed."""
    cdef clock_reading first, last
    cdef int64_t run, ready                      # the highest that was read: estimates may be a little too high
    cdef int looked                              # the number of the last look at which it was there
    cdef int32_t reason
    cdef int condition
    cdef public object told
    """What the reader has told of it already, if intervals are told."""

    @property
    def name(self) -> str:
        """The name at the last reading; bytes that are not UTF-8 as ``\\xNN``."""
        cdef bytes raw = (<char *>self.last.name)[:16]
        return raw.partition(b"\0")[0].decode("utf-8", "backslashreplace")

    @property
    def key(self) -> tuple:
        """(tid, birth)."""
        return self.tid, self.birth

    @property
    def start(self) -> int:
        """When its account began."""
        return self.account.begin

    @property
    def until(self) -> int:
        """Until when its account goes."""
        return self.account.now

    def figures(self, list names):
        """Return what it did since it is measured: (processor time, other states -> time, counts).

        Times are ns. The counts are: user time and system time as the kernel has divided the processor time, ns; how often
        it got a processor; switches to another thread because it waited, and others; minor and major page faults.
        """
        cdef dict states = self.account.states(names)
        cdef int64_t run = states.pop("user", 0) + states.pop("kernel", 0)
        return run, states, (
            _limited(self.last.user - self.first.user), _limited(self.last.system - self.first.system),
            _limited(self.last.arrivals - self.first.arrivals),
            _limited(self.last.voluntary - self.first.voluntary),
            _limited(self.last.involuntary - self.first.involuntary),
            _limited(self.last.minor - self.first.minor), _limited(self.last.major - self.first.major),
        )

    cdef void take(self, const clock_reading *r, int64_t now, int condition, int32_t reason) noexcept:
        """Advance the account to ``now`` by a reading."""
        self.run = max(self.run, _limited(r.run))
        self.ready = max(self.ready, _limited(r.ready))
        self.account.advance(now, self.run, self.ready, _limited(r.arrivals), _limited(r.user) // _MICROSECOND,
                             _limited(r.system) // _MICROSECOND, _WHOLE, condition, reason)
        self.last = r[0]
        self.tid, self.pid = <int>r.tid, <int>r.pid
        self.in_kernel = r.flags & CLOCKS_KERNEL_THREAD != 0
        self.condition, self.reason = condition, reason


    cdef void correct(self, int64_t run) noexcept:
        """Take back what the account has of processor time beyond the kernel's last word, if that was not told yet.

        The time of a running thread is brought up to the moment of a reading, and the hypervisor may have had a part.
        """
        cdef ThreadAccount account = self.account
        cdef int64_t given = account.user_time + account.kernel_time
        cdef int64_t least = max(run - _limited(self.first.run), 0)
        cdef int64_t part
        if self.told is not None:
            least = max(least, self.told[0])
        if given <= least:
            return
        account._add_wait(_WAIT, given - least)
        part = min(given - least, account.user_time)
        account.user_time -= part
        account.kernel_time -= given - least - part


cdef class ClockAccounts:
    """All measured threads, from ``start`` on, which is the moment of the first look.

    ``tick``: the scheduler's, ns. ``reason_of_call``: as for `WaitReasons`.
    """

    cdef readonly dict threads
    """Those that have not ended, by what tells them from each other."""
    cdef readonly list ended
    """Those that have ended since `take_ended`."""
    cdef readonly int64_t at
    """The moment of the last look, ns of CLOCK_MONOTONIC; 0: there was none."""
    cdef readonly int64_t start
    """The moment of the first look."""
    cdef public int64_t since
    """Threads that are born from this moment on are measured from their birth; 0: from the first look on."""
    cdef readonly int64_t readings
    """How many were taken."""
    cdef readonly int64_t damaged
    """Readings that cannot be one."""
    cdef readonly int64_t unseen_ends
    """Threads that were gone although their end did not show."""
    cdef readonly int64_t switches
    """How often threads got a processor, as far as was read."""
    cdef readonly int64_t run
    """Processor time of threads, as far as was read, ns."""
    cdef WaitReasons reasons
    cdef int64_t tick
    cdef int looks
    cdef char *events
    cdef size_t length, room
    cdef char *buffer
    cdef list parts

    def __cinit__(self, int64_t tick, reason_of_call):
        self.tick = tick
        self.reasons = WaitReasons(reason_of_call)
        self.threads = {}
        self.ended = []
        self.parts = []
        self.buffer = <char *>malloc(_ROOM)
        if self.buffer == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.events)
        free(self.buffer)

    @property
    def names(self) -> list:
        """The names of the reasons for waiting, by number."""
        return self.reasons.names

    @property
    def function(self):
        """Address of the function to hand readings of the ring to (ring_buffer_sample_fn)."""
        return <uintptr_t>&take_event

    @property
    def context(self):
        """The first argument of `function`."""
        return <uintptr_t><void *>self

    def read(self, int fd):
        """Read what an iterator writes, until its end. Raises OSError."""
        cdef ssize_t n
        while True:
            n = read(fd, self.buffer, _ROOM)
            if n < 0 and (errno == EINTR or errno == EAGAIN):
                continue
            if n < 0:
                raise OSError(errno, "reading the threads")
            if n == 0:
                return
            self.parts.append(self.buffer[:n])

    def feed(self, bytes readings):
        """Take what an iterator wrote, as if it had been read."""
        self.parts.append(readings)

    def add(self, bytes reading):
        """Take a reading as the ring hands it over."""
        self._add(<const char *>reading, len(reading))

    def take(self, int64_t at):
        """Take what was read at a look at this moment, and what the ring has had since the last one."""
        cdef bytes looked = b"".join(self.parts)
        cdef const char *data = looked
        cdef Py_ssize_t place = 0
        cdef ClockThread thread
        cdef bint fresh = self.at == 0
        self.parts = []
        self.looks += 1
        if fresh:
            self.start = at
            self.since = self.since or at
        self.at = max(at, self.at)
        self._take_events()
        if len(looked) % sizeof(clock_reading):
            self.damaged += 1
        while place + <Py_ssize_t>sizeof(clock_reading) <= len(looked):
            self._look(<const clock_reading *>(data + place))
            place += sizeof(clock_reading)
        for key in [key for key, one in self.threads.items() if (<ClockThread>one).looked != self.looks]:
            self._miss(key, self.threads[key])

    def take_late(self, int64_t born_until, int64_t until):
        """Return the threads that were born after the last look, up to a moment, and ended up to another one.

        No look sees them. What they did after their exit had begun is not known.
        """
        cdef size_t at = 0
        cdef clock_reading *r
        cdef ClockThread thread
        cdef list found = []
        for at in range(0, self.length, sizeof(clock_reading)):
            r = <clock_reading *>(self.events + at)
            if r.kind != CLOCKS_EXITING or not self.at < _limited(r.born) <= born_until or _limited(r.at) > until:
                continue
            thread = ClockThread.__new__(ClockThread)
            thread.birth = _limited(r.born)
            thread.account = ThreadAccount(thread.birth, switches=1, tick=self.tick)
            thread.take(r, max(_limited(r.at), thread.birth), _RUNNABLE, _WAIT)
            thread.exiting = thread.ended = True
            found.append(thread)
        return found

    cdef int _take_events(self) except -1:
        """Take the readings of the ring that belong to this look; later ones are kept."""
        cdef size_t at = 0, keep = 0
        cdef clock_reading *r
        while at < self.length:
            r = <clock_reading *>(self.events + at)
            if _limited(r.at) > self.at:
                if keep != at:
                    memcpy(self.events + keep, r, sizeof(clock_reading))
                keep += sizeof(clock_reading)
            else:
                self._take_event(r)
            at += sizeof(clock_reading)
        self.length = keep
        return 0

    cdef int _take_event(self, const clock_reading *r) except -1:
        cdef ClockThread thread = self.threads.get((r.task, r.born))
        if thread is None:
            thread = self._open(r)
            if thread is None:
                return 0
        self.readings += 1
        if r.kind == CLOCKS_BEGUN:
            return 0
        self._count(thread, r)
        if r.kind == CLOCKS_EXITING:
            thread.take(r, max(_limited(r.at), thread.account.now), _RUNNABLE, _WAIT)
            thread.exiting = True
        elif r.kind == CLOCKS_ENDED:
            self._close(thread, r)
        return 0

    cdef int _count(self, ClockThread thread, const clock_reading *r) except -1:
        """Add up what all threads did."""
        self.switches += max(_limited(r.arrivals) - _limited(thread.last.arrivals), 0)
        self.run += max(_limited(r.run) - thread.run, 0)
        return 0

    cdef ClockThread _open(self, const clock_reading *r):
        """Open the account of a thread that shows for the first time; None: it belongs to a later look, or to none."""
        cdef ClockThread thread
        cdef int64_t born = _limited(r.born), start
        cdef bint newborn = r.kind != CLOCKS_FOUND and r.kind != CLOCKS_BEGUN and born >= self.since
        if born > self.at or (r.kind == CLOCKS_ENDED and (not newborn or not r.run)):
            return None
        if not newborn and r.kind == CLOCKS_EXITING:
            return None  # it had ended before the first look
        thread = ClockThread.__new__(ClockThread)
        thread.birth = born
        if newborn:
            thread.account = ThreadAccount(born, switches=1, tick=self.tick)
        else:
            start = self.at if r.kind != CLOCKS_BEGUN else _limited(r.at)
            thread.first = r[0]
            thread.run, thread.ready = _limited(r.run), _limited(r.ready)
            thread.account = ThreadAccount(
                start, thread.run, thread.ready, _limited(r.arrivals), _limited(r.user) // _MICROSECOND,
                _limited(r.system) // _MICROSECOND, self.tick, r.kind == CLOCKS_BEGUN or r.flags & CLOCKS_RUNNABLE,
            )
        thread.last = r[0]
        if newborn:
            thread.last.arrivals = thread.last.run = 0
        thread.tid, thread.pid = <int>r.tid, <int>r.pid
        self.threads[r.task, r.born] = thread
        return thread

    cdef int _look(self, const clock_reading *r) except -1:
        """Take the reading of a thread at this look."""
        cdef ClockThread thread = self.threads.get((r.task, r.born))
        cdef bint runnable = r.flags & CLOCKS_RUNNABLE or r.kind == CLOCKS_ENDED
        if thread is None:
            thread = self._open(r)
            if thread is None:
                if r.kind == CLOCKS_ENDED and _limited(r.at) > self.at:
                    self._keep(r)
                return 0
        if thread.ended:
            return 0
        self.readings += 1
        self._count(thread, r)
        thread.looked = self.looks
        if r.kind == CLOCKS_ENDED and _limited(r.at) <= self.at:
            self._close(thread, r)
            return 0
        thread.take(r, self.at, _RUNNABLE if runnable else _WAITING, _WAIT if runnable else self._reason(r))
        if r.kind == CLOCKS_ENDED:
            self._keep(r)
        return 0

    cdef int _miss(self, tuple key, ClockThread thread) except -1:
        """A thread did not show at this look: it is gone, or was when the look came to it."""
        cdef size_t at = 0
        cdef clock_reading *r
        if thread.ended:
            return 0
        if thread.exiting:
            thread.gone = True
            return 0
        while at < self.length:
            r = <clock_reading *>(self.events + at)
            if r.task == <uint64_t>key[0] and r.born == <uint64_t>key[1]:
                thread.take(r, self.at, _RUNNABLE, _WAIT)
                return 0
            at += sizeof(clock_reading)
        self.unseen_ends += 1
        thread.account.close(self.at)
        self._finish(key, thread)
        return 0

    cdef int32_t _reason(self, const clock_reading *r):
        """Return what a thread waits for."""
        cdef int32_t reason
        cdef int32_t otherwise = _DISK if r.flags & CLOCKS_UNINTERRUPTIBLE else _WAIT
        if r.flags & CLOCKS_STOPPED:
            return _STOPPED
        if r.flags & CLOCKS_KERNEL_THREAD:
            return _WORK
        if r.call == CLOCKS_CALL_UNKNOWN:
            return otherwise
        if r.call == CLOCKS_NO_CALL:
            return _FAULT
        reason = self.reasons.of_call(r.call)
        if reason >= 0:
            return reason
        if r.file == FILE_PIPE:
            return _PIPE
        if r.file == FILE_SOCKET:
            return _NET
        if r.file == FILE_DISK or r.flags & CLOCKS_UNINTERRUPTIBLE:
            return _DISK
        return _FILE

    cdef int _close(self, ClockThread thread, const clock_reading *r) except -1:
        """Close the account of a thread that has ended."""
        thread.take(r, max(_limited(r.at), thread.account.now), _WAITING, _WAIT)
        thread.account.close(self.at)
        thread.correct(_limited(r.run))
        self._finish((r.task, r.born), thread)
        return 0

    cdef int _finish(self, tuple key, ClockThread thread) except -1:
        thread.ended = thread.exiting = True
        self.ended.append(thread)
        del self.threads[key]
        return 0

    cdef int _keep(self, const clock_reading *r) noexcept nogil:
        """Keep a reading of the ring, or one of a look that is of a later moment, for the next look."""
        cdef char *grown
        if self.length + sizeof(clock_reading) > self.room:
            grown = <char *>realloc(self.events, 2 * self.room + 64 * sizeof(clock_reading))
            if grown == NULL:
                self.damaged += 1
                return 0
            self.events, self.room = grown, 2 * self.room + 64 * sizeof(clock_reading)
        memcpy(self.events + self.length, r, sizeof(clock_reading))
        self.length += sizeof(clock_reading)
        return 0

    cdef int _add(self, const void *data, size_t size) noexcept nogil:
        if size < sizeof(clock_reading):
            self.damaged += 1
            return 0
        return self._keep(<const clock_reading *>data)

    @property
    def waiting(self) -> int:
        """How many readings wait for the next look."""
        return self.length // sizeof(clock_reading)

    def take_ended(self):
        """Return the threads that have ended since the last call."""
        taken, self.ended = self.ended, []
        return taken

    def exits_of(self, int pid):
        """Return how many threads of a process are measured and have not ended."""
        cdef ClockThread thread
        cdef int n = 0
        for thread in self.threads.values():
            n += thread.pid == pid
        return n


cdef int take_event(void *context, void *data, size_t size) noexcept nogil:
    return (<ClockAccounts>context)._add(data, size)
