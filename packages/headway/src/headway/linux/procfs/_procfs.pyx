# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Reading of threads through /proc, thousands of times a second: reading, parsing and arithmetic without Python.

These files are read. The kernel says of them:

- ``schedstat`` of a thread (Documentation/scheduler/sched-stats.rst): time on the processor in ns, time in a run queue
  in ns, number of times it was put on a processor. The kernel updates the first at the scheduler's tick and when the
  thread leaves the processor, the second when the thread gets the processor.
- ``stat`` (proc_pid_stat(5)): name, state, user and system time in clock ticks (sampled at the tick, scaled by the
  kernel to the exact run time), CPU time of the children that were waited for, start time in ticks since boot.
- ``syscall``, ``wchan``, ``fd/N`` (proc_pid_syscall(5), proc_pid_wchan(5), proc_pid_fd(5)): what a sleeping thread
  waits for.
- the process's CPU clock (clock_getcpuclockid(3)): the CPU time of all its threads, including those that have ended.

A reading of a file that is kept open costs 0.5 to 2.7 microseconds; opening it each time costs 3 more. So files are
kept open as long as descriptors are available. A kept file also stays tied to its thread when the id is reused.
"""

from libc.errno cimport EACCES, ENOENT, EPERM, ESRCH, errno
from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.stdio cimport snprintf
from libc.stdlib cimport free, realloc
from libc.string cimport memcmp, memcpy

cdef extern from *:
    """
    #ifndef _GNU_SOURCE
    #define _GNU_SOURCE
    #endif
    #include <dirent.h>
    #include <fcntl.h>
    #include <stdlib.h>
    #include <sys/stat.h>
    #include <time.h>
    #include <unistd.h>

    #define HEADWAY_LARGEST (1LL << 60)  /* ns; nothing real is larger, and sums of four stay in 64 bits */

    /* CPU clock of a process; which: 0 user and system, 1 user (both as sampled), 2 exact. -1: no such process. */
    static long long headway_process_clock(int pid, int which) {
        struct timespec t;
        if (pid <= 0 || clock_gettime((clockid_t)((~(unsigned)pid << 3) | (unsigned)which), &t)) return -1;
        return (long long)t.tv_sec * 1000000000LL + t.tv_nsec;
    }
    static long long headway_now(void) {
        struct timespec t;
        clock_gettime(CLOCK_MONOTONIC, &t);
        return (long long)t.tv_sec * 1000000000LL + t.tv_nsec;
    }
    /* Link count of a directory; -1: it cannot be had. */
    static long headway_links(int root, const char *path) {
        struct stat s;
        return fstatat(root, path, &s, 0) ? -1 : (long)s.st_nlink;
    }
    /* The whole of a small file, at most `room` bytes; -1: errno says why not. */
    static long headway_read_once(int root, const char *path, char *into, size_t room) {
        int fd = openat(root, path, O_RDONLY | O_CLOEXEC);
        if (fd < 0) return -1;
        ssize_t n = pread(fd, into, room, 0);
        int why = errno;
        close(fd);
        errno = why;
        return (long)n;
    }
    static DIR *headway_open_directory(int root, const char *path) {
        int fd = openat(root, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0) return NULL;
        DIR *d = fdopendir(fd);
        if (!d) close(fd);
        return d;
    }
    /* The next entry of a directory that is a number; -1 at the end. */
    static long headway_next_number(DIR *d) {
        struct dirent *e;
        while ((e = readdir(d))) {
            char *end;
            if (e->d_name[0] < '0' || e->d_name[0] > '9') continue;
            long n = strtol(e->d_name, &end, 10);
            if (!*end && n > 0 && n <= 0x7fffffff) return n;
        }
        return -1;
    }
    """
    ctypedef struct DIR:
        pass
    const int64_t _LARGEST "HEADWAY_LARGEST"
    int O_RDONLY, O_CLOEXEC
    int openat(int root, const char *path, int flags)
    int close(int fd)
    int closedir(DIR *directory)
    ssize_t pread(int fd, void *into, size_t room, int64_t offset)
    ssize_t readlinkat(int root, const char *path, char *into, size_t room)
    int64_t headway_process_clock(int pid, int which)
    int64_t headway_now()
    long headway_links(int root, const char *path)
    long headway_read_once(int root, const char *path, char *into, size_t room)
    DIR *headway_open_directory(int root, const char *path)
    long headway_next_number(DIR *directory)


cdef enum:
    _ROOM = 2048
    _PF_KTHREAD = 0x00200000  # include/linux/sched.h

    _SAME = 0
    _CHANGED = 1
    _GONE = 2

RUNNABLE = _RUNNABLE
WAITING = _WAITING
UNREADABLE = _UNREADABLE

# The reasons for waiting, by number (see the .pxd). `WaitReasons` appends further ones when it meets them.
WAIT = _WAIT
FIRST_REASONS = ("wait", "stopped", "wait.disk", "wait.net", "wait.pipe", "wait.fault", "wait.file", "wait.work")

WHOLE_SHARE = 1 << 16
"""The value of a share of 1 in the fixed-point arithmetic of shares."""


# ---------------------------------------------------------------------------------------------------------------------
# Parsing. Each function takes a buffer and its length, trusts nothing in it, and returns whether it is valid.

cdef struct Stat:
    const char *name
    Py_ssize_t name_length
    char state
    int64_t ppid
    int64_t flags
    int64_t user           # clock ticks
    int64_t system         # clock ticks
    int64_t children       # clock ticks, user and system, of the process's waited-for children
    int64_t birth          # clock ticks since boot


cdef inline int64_t _limited(int64_t value) noexcept nogil:
    """Return a figure, or the largest. A sum of four limited figures does not overflow."""
    return min(max(value, -_LARGEST), _LARGEST)


cdef inline int64_t _in_ns(int64_t ticks, int64_t tick) noexcept nogil:
    """Return clock ticks of ``tick`` ns each in ns; a time that is too large becomes the largest."""
    return ticks * tick if ticks <= _LARGEST // tick else _LARGEST


cdef bint _number(const char **at, const char *end, int64_t *value) noexcept nogil:
    """Parse a decimal number after blanks. A number that is too large becomes the largest."""
    cdef const char *p = at[0]
    cdef bint negative = False
    cdef int64_t n = 0
    while p < end and p[0] == c' ':
        p += 1
    if p < end and p[0] == c'-':
        negative = True
        p += 1
    if p >= end or p[0] < c'0' or p[0] > c'9':
        return False
    while p < end and c'0' <= p[0] <= c'9':
        n = min(n * 10 + (p[0] - c'0'), _LARGEST) if n < _LARGEST // 10 else _LARGEST
        p += 1
    value[0] = -n if negative else n
    at[0] = p
    return True


cdef bint _parse_stat(const char *text, Py_ssize_t length, Stat *into) noexcept nogil:
    """Parse proc_pid_stat(5) up to field 22.

    The name may contain blanks, parentheses and newlines; it ends at the last ``)``.
    """
    cdef const char *end = text + length
    cdef const char *first = text
    cdef const char *last = end - 1
    cdef const char *p
    cdef int64_t value = 0
    cdef int field
    while first < end and first[0] != c'(':
        first += 1
    while last > first and last[0] != c')':
        last -= 1
    if last <= first or last + 2 >= end:
        return False
    into.name = first + 1
    into.name_length = last - first - 1
    into.state = last[2]
    into.children = 0
    p = last + 3
    for field in range(4, 23):
        if not _number(&p, end, &value):
            return False
        if field == 4:
            into.ppid = value
        elif field == 9:
            into.flags = value
        elif value < 0 and field in (14, 15, 16, 17, 22):
            return False
        elif field == 14:
            into.user = value
        elif field == 15:
            into.system = value
        elif field == 16 or field == 17:
            into.children += value
        elif field == 22:
            into.birth = value
    return True


cdef bint _parse_schedstat(const char *text, Py_ssize_t length, int64_t *figures) noexcept nogil:
    """Parse three numbers: ns on a processor, ns in a run queue, times put on a processor."""
    cdef const char *p = text
    cdef int i
    for i in range(3):
        if not _number(&p, text + length, &figures[i]) or figures[i] < 0:
            return False
    return True


cdef bint _hexadecimal(const char **at, const char *end, uint64_t *value) noexcept nogil:
    cdef const char *p = at[0]
    cdef uint64_t n = 0
    cdef int digit, digits = 0
    while p < end and p[0] == c' ':
        p += 1
    if end - p < 3 or p[0] != c'0' or p[1] != c'x':
        return False
    p += 2
    while p < end and digits < 16:
        if c'0' <= p[0] <= c'9':
            digit = p[0] - c'0'
        elif c'a' <= p[0] <= c'f':
            digit = p[0] - c'a' + 10
        else:
            break
        n = (n << 4) | <uint64_t>digit
        digits += 1
        p += 1
    value[0] = n
    at[0] = p
    return digits > 0


cdef int64_t _parse_syscall(const char *text, Py_ssize_t length, uint64_t *first) noexcept nogil:
    """Return the number and first argument of a system call (proc_pid_syscall(5)).

    -1: the thread is in no call (in a fault, for example); -2: the call is not known. The numbers of 32-bit programs
    mean other calls. Such a program is not recognised by the number, but by a stack and a program counter that both lie
    below 4 GiB.
    """
    cdef const char *p = text
    cdef const char *end = text + length
    cdef int64_t number
    cdef uint64_t value = 0
    cdef uint64_t place = 0
    cdef int i
    first[0] = 0
    if not _number(&p, end, &number) or number < -1:
        return -2
    if number == -1:
        return -1
    for i in range(8):
        if not _hexadecimal(&p, end, &value):
            return -2
        if i == 0:
            first[0] = value
        elif i >= 6:
            place |= value
    return number if place >> 32 else -2


def parse_stat(bytes text):
    """Return (name, state, ppid, flags, user ticks, system ticks, waited-for children's ticks, birth in ticks), or
    None.
    """
    cdef Stat s
    if not _parse_stat(text, len(text), &s):
        return None
    return s.name[: s.name_length], chr(<unsigned char>s.state), s.ppid, s.flags, s.user, s.system, s.children, s.birth


def parse_schedstat(bytes text):
    """Return (ns on a processor, ns in a run queue, times put on a processor), or None."""
    cdef int64_t figures[3]
    if not _parse_schedstat(text, len(text), figures):
        return None
    return figures[0], figures[1], figures[2]


def parse_syscall(bytes text):
    """Return (number, first argument); number -1: in no system call, -2: not known."""
    cdef uint64_t first = 0
    cdef int64_t number = _parse_syscall(text, len(text), &first)
    return number, first


# ---------------------------------------------------------------------------------------------------------------------
# The arithmetic of one thread, without any reading.

cdef class ThreadAccount:
    """What one thread did, from successive readings. Every nanosecond since ``start`` is in exactly one cell.

    The figures of a reading are not all of one moment: the run time is as old as the scheduler's last update (at most a
    tick while the thread runs), and the queue time appears only when the stay in the queue is over. Cells never
    decrease, so

    - time that a reading reports beyond the time that has passed is *due*, and is added as soon as there is room for it;
    - a thread that is found able to run in two readings is assumed to have run since the scheduler's last update, at
      most a tick; if it was not put on a processor again in between, the rest is assumed to be time in the queue. Both
      are *lent*: what later readings report repays the loan first.

    So the run time never differs from the kernel's by more than a tick, and is equal to it once ``settled``.
    """

    def __cinit__(self, int64_t start, int64_t run=0, int64_t ready=0, int64_t switches=0, int64_t user=0,
                  int64_t system=0, int64_t tick=4_000_000, bint runnable=True):
        """The figures are those of the thread at ``start``, in ns and clock ticks; zero for a thread that is being
        born.
        """
        self.begin = self.now = start
        self.run = run
        self.ready = ready
        self.switches = switches
        self.first_user = user
        self.first_system = system
        self.tick = tick
        self.was_runnable = runnable
        self.reason = _WAIT

    def __dealloc__(self):
        free(self.wait)

    cdef void _add_wait(self, int32_t reason, int64_t time) noexcept:
        cdef int i
        cdef Wait *grown
        if time <= 0:
            return
        for i in range(self.waits):
            if self.wait[i].reason == reason:
                self.wait[i].time += time
                return
        if self.waits % 4 == 0:
            grown = <Wait *>realloc(self.wait, (self.waits + 4) * sizeof(Wait))
            if grown == NULL:  # no memory: the time is in one cell at least, if not in the right one
                self.unknown_time += time
                return
            self.wait = grown
        self.wait[self.waits].reason = reason
        self.wait[self.waits].time = time
        self.waits += 1

    cdef void _add_run(self, int64_t time, int64_t user, int64_t system, int64_t share) noexcept:
        """Divide processor time like the thread's ticks; if it has none, like its process's."""
        cdef int64_t own_user = user - self.first_user
        cdef int64_t own_system = system - self.first_system
        cdef int64_t total, target
        if time <= 0:
            return
        if own_user >= 0 and own_system >= 0 and 0 < own_user + own_system < (1 << 45):
            share = (own_user << 16) // (own_user + own_system)
        total = self.user_time + self.kernel_time + time
        target = (total >> 16) * share + (((total & 0xFFFF) * share) >> 16)
        target = min(max(target - self.user_time, 0), time)
        self.user_time += target
        self.kernel_time += time - target

    cpdef void advance(self, int64_t now, int64_t run, int64_t ready, int64_t switches, int64_t user, int64_t system,
                       int64_t share, int condition, int reason):
        """Take a reading: the thread's figures at ``now``, and whether it was RUNNABLE, WAITING for ``reason``, or
        UNREADABLE.

        ``run`` and ``ready`` are in ns, ``user`` and ``system`` in clock ticks. ``share`` is the share of user time in
        the process's sampled CPU time, as a part of WHOLE_SHARE.
        """
        cdef int64_t room = now - self.now
        cdef int64_t paid, given_run, given_ready
        cdef bint anew = switches != self.switches
        if room < 0:
            room = 0
        else:
            self.now = now
        if condition == _UNREADABLE:
            self.unknown_time += room
            self.was_runnable = self.was_waiting = False
            return
        self.run_due = min(self.run_due + min(max(run - self.run, 0), _LARGEST), _LARGEST)
        self.ready_due = min(self.ready_due + min(max(ready - self.ready, 0), _LARGEST), _LARGEST)
        self.run = run
        self.ready = ready
        self.switches = switches

        paid = min(self.run_lent, self.run_due)
        self.run_lent -= paid
        self.run_due -= paid
        paid = min(self.ready_lent, self.ready_due)
        self.ready_lent -= paid
        self.ready_due -= paid

        given_run = min(self.run_due, room)
        self.run_due -= given_run
        room -= given_run
        given_ready = min(self.ready_due, room)
        self.ready_due -= given_ready
        room -= given_ready
        if condition == _RUNNABLE and self.was_runnable:
            paid = min(room, max(self.tick - self.run_lent, 0))
            self.run_lent += paid
            given_run += paid
            room -= paid
            if not anew:
                self.ready_lent = min(self.ready_lent + room, _LARGEST)
                given_ready += room
                room = 0
        self._add_run(given_run, user, system, share)
        self.ready_time += given_ready
        if condition == _WAITING:
            if self.was_waiting and self.reason != reason:  # the reason changed somewhere in between
                self._add_wait(self.reason, room // 2)
                room -= room // 2
            self._add_wait(reason, room)
            self.reason = reason
        else:
            self._add_wait(self.reason, room)
        self.was_runnable = condition == _RUNNABLE
        self.was_waiting = condition == _WAITING

    cpdef void restart(self, int64_t run, int64_t ready, int64_t switches, int64_t user, int64_t system):
        """Continue from these figures, whatever they were: the time in between does not belong to this thread.

        ``user`` and ``system``: by how many clock ticks theirs jumped.
        """
        self.first_user = _limited(self.first_user + _limited(user))
        self.first_system = _limited(self.first_system + _limited(system))
        self.run = run
        self.ready = ready
        self.switches = switches

    cpdef void close(self, int64_t limit):
        """Close the account of a thread that is gone. What is still due was before its end, and before ``limit``."""
        cdef int64_t room = max(limit - self.now, 0)
        cdef int64_t given = min(self.run_due, room)
        self.run_due -= given
        self.now += given
        room -= given
        self._add_run(given, self.first_user, self.first_system, self._share())
        given = min(self.ready_due, room)
        self.ready_due -= given
        self.now += given
        self.ready_time += given

    cdef int64_t _share(self) noexcept:
        cdef int64_t total = self.user_time + self.kernel_time
        return <int64_t>(65536.0 * self.user_time / total) if total else 65536

    @property
    def start(self) -> int:
        """When the account was opened, in ns."""
        return self.begin

    @property
    def span(self) -> int:
        """The time accounted for, in ns."""
        return self.now - self.begin

    @property
    def settled(self) -> bool:
        """Whether the processor time given equals what the kernel reported."""
        return self.run_due == 0 and self.run_lent == 0

    def states(self, list names):
        """Return state -> ns, without states that have no time. ``names`` are the names of the reasons."""
        cdef dict times = {}
        cdef int i
        if self.user_time:
            times["user"] = self.user_time
        if self.kernel_time:
            times["kernel"] = self.kernel_time
        if self.ready_time:
            times["ready"] = self.ready_time
        for i in range(self.waits):
            times[names[self.wait[i].reason]] = self.wait[i].time
        if self.unknown_time:
            times["unknown"] = self.unknown_time
        return times


cdef class WaitReasons:
    """What threads wait for, by number, for whoever reads them: from a system call, or from a function of the kernel."""

    def __cinit__(self, reason_of_call, reason_of_wchan=None):
        """``reason_of_call(number)`` and ``reason_of_wchan(bytes)`` return a state. None from the first means that it
        depends on the file that the call uses; from the second, that it does not tell.
        """
        self.reason_of_call = reason_of_call
        self.reason_of_wchan = reason_of_wchan
        self.names = list(FIRST_REASONS)
        self.numbers = {name: number for number, name in enumerate(FIRST_REASONS)}
        self.calls = {}
        self.channels = {}

    cdef int32_t number_of(self, str name):
        """Return the number of a reason, which gets one if it has none."""
        cdef object number = self.numbers.get(name)
        if number is None:
            number = len(self.names)
            self.names.append(name)
            self.numbers[name] = number
        return number

    cdef int32_t of_call(self, int64_t call):
        """Return the reason of a thread that sleeps in a system call; -1: the file of the call decides."""
        cdef object known = self.calls.get(call)
        if known is None:
            name = self.reason_of_call(call)
            known = -1 if name is None else self.number_of(name)
            self.calls[call] = known
        return known

    cdef int32_t of_channel(self, bytes channel):
        """Return the reason of a thread that sleeps in a function of the kernel; -1: that does not tell."""
        cdef object known = self.channels.get(channel)
        if known is None:
            name = self.reason_of_wchan(channel)
            known = -1 if name is None else self.number_of(name)
            self.channels[channel] = known
        return known


# ---------------------------------------------------------------------------------------------------------------------
# Threads, processes, and the reading of all of them.

cdef class Task:
    """A measured thread."""

    cdef readonly ThreadAccount account
    cdef readonly int tid, pid
    cdef readonly int64_t birth
    """Clock ticks since boot."""
    cdef readonly bint ended
    """Whether it was found dead, or is not there any more."""
    cdef readonly bint in_kernel
    """Whether it is a thread of the kernel."""
    cdef bint looked, fresh, first_fresh, no_call, no_children
    cdef bint undead                             # a zombie whose id is still in use, see _is_over
    cdef int64_t run, ready, switches, user, system
    cdef int condition
    cdef int32_t reason
    cdef int fd, fd_stat, fd_call, fd_children
    cdef Py_ssize_t name_length
    cdef char raw_name[64]

    def __cinit__(self, int pid, int tid):
        self.pid = pid
        self.tid = tid
        self.fd = self.fd_stat = self.fd_call = self.fd_children = -1

    def __dealloc__(self):
        self._release()

    cdef int _release(self) noexcept:
        cdef int n = 0
        if self.fd >= 0:
            close(self.fd)
            n += 1
        if self.fd_stat >= 0:
            close(self.fd_stat)
            n += 1
        if self.fd_call >= 0:
            close(self.fd_call)
            n += 1
        if self.fd_children >= 0:
            close(self.fd_children)
            n += 1
        self.fd = self.fd_stat = self.fd_call = self.fd_children = -1
        return n

    @property
    def name(self) -> str:
        """The name at the last reading; bytes that are not UTF-8 as ``\\xNN``."""
        return self.raw_name[: self.name_length].decode("utf-8", "backslashreplace")

    @property
    def exact(self) -> bool:
        """Whether its processor time equals the kernel's, which was up to date at the first and the last reading."""
        return self.first_fresh and self.fresh and self.account.settled


cdef class ObservedProcess:
    """A measured process, or some measured threads of it (not ``whole``)."""

    cdef readonly int pid, ppid
    cdef readonly bint whole, gone
    cdef list tasks
    cdef dict by_tid
    cdef bint dirty
    cdef bint all_children                       # whether all its children are and will be measured
    cdef int64_t listed                          # when its list of threads was last known to be complete
    cdef int64_t share, share_at
    cdef int64_t ended_run                       # run time of ended threads: in their cells and before
    cdef int64_t before                          # run time of threads that ended before the beginning
    cdef int64_t unseen                          # run time of threads, or parts of their lives, not seen
    cdef int64_t children, children_before       # CPU time of waited-for children
    cdef int64_t children_seen                   # the part of it that was seen while they lived
    cdef int64_t children_unseen

    def __cinit__(self, int pid, bint whole):
        self.pid = pid
        self.whole = whole
        self.tasks = []
        self.by_tid = {}
        self.listed = self.share_at = -1
        self.share = 65536

    @property
    def accounted(self) -> int:
        """The CPU time of its whole life in ns that its parent will be told of and that is accounted for already."""
        cdef Task task
        cdef int64_t total = _limited(self.ended_run + self.before + self.unseen)
        total = _limited(total + max(self.children, self.children_before + self.children_seen))
        for task in self.tasks:
            total = _limited(total + task.run)
        return total


cdef class Scanner:
    """Reads all measured threads, again and again."""

    cdef int root, budget, gone_now
    cdef int64_t tick, clock_tick, boot_offset, start
    cdef int64_t began_before, began  # when the previous scan and this one began, whatever `now` says
    cdef bint schedstat
    cdef bint follow_single
    cdef WaitReasons reasons
    cdef readonly dict processes
    """The existing measured processes, by pid."""
    cdef readonly dict tasks
    """The existing measured threads, by tid."""
    cdef readonly list ended
    """The threads that have ended since `take_ended`."""
    cdef readonly list children
    """The child processes of single threads found since `take_children`."""
    cdef readonly list finished
    """The processes that have ended since `take_finished`."""
    cdef readonly int64_t looks
    cdef readonly int64_t ends_unseen
    """The number of threads that ended between two readings."""
    cdef readonly set hidden
    """The ids of processes and threads that exist but may not be read."""
    cdef int64_t unseen_of_finished

    def __cinit__(self, int root, *, int64_t tick, int64_t clock_tick, int64_t boot_offset, int64_t start, int budget,
                  bint schedstat, bint follow_single, reason_of_call, reason_of_wchan):
        """``root``: /proc, opened. In ns: the scheduler's tick, the unit of ``stat``, boot time minus monotonic time.

        ``reason_of_call`` and ``reason_of_wchan``: as for `WaitReasons`. Where they do not tell, the file of the call
        and the thread's state letter decide.
        """
        self.root = root
        self.tick = tick
        self.clock_tick = clock_tick
        self.boot_offset = boot_offset
        self.start = start
        self.budget = budget
        self.schedstat = schedstat
        self.follow_single = follow_single
        self.reasons = WaitReasons(reason_of_call, reason_of_wchan)
        self.processes = {}
        self.tasks = {}
        self.ended = []
        self.children = []
        self.finished = []
        self.hidden = set()
        self.began = self.began_before = headway_now()

    # -- reading ------------------------------------------------------------------------------------------------------

    cdef Py_ssize_t _read(self, Task task, const char *what, int *kept, char *into) noexcept:
        """Read a file of the thread, through its kept descriptor if there is one. Return -1 on failure; errno says why.
        """
        cdef char path[96]
        cdef int fd
        if kept[0] >= 0:
            return pread(kept[0], into, _ROOM, 0)
        snprintf(path, sizeof(path), "%d/task/%d/%s", task.pid, task.tid, what)
        if self.budget <= 0:
            return headway_read_once(self.root, path, into, _ROOM)
        fd = openat(self.root, path, O_RDONLY | O_CLOEXEC)
        if fd < 0:
            return -1
        kept[0] = fd
        self.budget -= 1
        return pread(fd, into, _ROOM, 0)

    cdef int32_t _reason(self, Task task, Stat *stat, char *into):
        """Return what a sleeping thread waits for, as far as /proc tells this user."""
        cdef Py_ssize_t n
        cdef uint64_t argument = 0
        cdef int64_t number = -2
        cdef int32_t known
        if stat.state == c'T' or stat.state == c't':
            return _STOPPED
        if stat.flags & _PF_KTHREAD:
            return _WORK
        if not task.no_call:
            n = self._read(task, "syscall", &task.fd_call, into)
            if n > 0:
                number = _parse_syscall(into, n, &argument)
            elif n < 0 and (errno == EPERM or errno == EACCES):
                task.no_call = True
        if number == -1:
            return _FAULT
        if number >= 0:
            known = self.reasons.of_call(number)
            return known if known >= 0 else self._reason_of_file(task, stat, argument, into)
        n = self._read_wchan(task, into)
        if n > 1:
            known = self.reasons.of_channel(into[:n])
            if known >= 0:
                return known
        return _DISK if stat.state == c'D' else _WAIT

    cdef Py_ssize_t _read_wchan(self, Task task, char *into) noexcept:
        cdef char path[96]
        snprintf(path, sizeof(path), "%d/task/%d/wchan", task.pid, task.tid)
        return headway_read_once(self.root, path, into, 128)

    cdef int32_t _reason_of_file(self, Task task, Stat *stat, uint64_t fd, char *into) noexcept:
        """Return the reason by the descriptor's target.

        The link is read and not followed, which could wait for a file server.
        """
        cdef char path[96]
        cdef Py_ssize_t n = -1
        if fd <= 0x7FFFFFFF:
            snprintf(path, sizeof(path), "%d/task/%d/fd/%d", task.pid, task.tid, <int>fd)
            n = readlinkat(self.root, path, into, 16)
        if n >= 7 and memcmp(into, <const char *>"socket:", 7) == 0:
            return _NET
        if n >= 5 and memcmp(into, <const char *>"pipe:", 5) == 0:
            return _PIPE
        return _DISK if stat.state == c'D' else _FILE

    cdef int64_t _share_of(self, ObservedProcess process, int64_t now) noexcept:
        """Return user time's share of the process's CPU time, as sampled at the tick (CPUCLOCK_VIRT and CPUCLOCK_PROF).
        """
        cdef int64_t both, user
        if process.share_at != now:
            process.share_at = now
            both = headway_process_clock(process.pid, 0)
            user = headway_process_clock(process.pid, 1)
            if both > 0 and 0 <= user <= both:
                process.share = <int64_t>(65536.0 * user / both)
        return process.share

    cdef int _look(self, ObservedProcess process, Task task, int64_t now) except -1:
        """Read one thread."""
        cdef char text[_ROOM]
        cdef int64_t figures[3]
        cdef int64_t again[3]
        cdef Py_ssize_t n
        cdef Stat stat
        cdef int condition
        cdef bint consistent = False
        cdef int64_t share = 65536
        figures[0] = figures[1] = figures[2] = 0
        self.looks += 1
        if self.schedstat:
            n = self._read(task, "schedstat", &task.fd, text)
            if n < 0 or not _parse_schedstat(text, n, figures):
                return self._missed(task, now, n)
            if task.ended:
                return _SAME
            if (task.looked and not task.undead and task.condition == _WAITING and figures[0] == task.run
                    and figures[1] == task.ready and figures[2] == task.switches):
                # It was on no processor since the last reading, so it still waits for the same thing.
                task.account.advance(now, task.run, task.ready, task.switches, task.user, task.system,
                                     process.share, _WAITING, task.reason)
                return _SAME
        n = self._read(task, "stat", &task.fd_stat, text)
        if n < 0 or not _parse_stat(text, n, &stat):
            return self._missed(task, now, n)
        if task.looked and stat.birth != task.birth:
            return _GONE  # another thread with the same id
        task.name_length = min(stat.name_length, <Py_ssize_t>sizeof(task.raw_name))
        memcpy(task.raw_name, stat.name, task.name_length)
        task.birth = stat.birth
        task.in_kernel = stat.flags & _PF_KTHREAD != 0
        process.children = max(process.children, _in_ns(stat.children, self.clock_tick))
        if task.tid == process.pid:
            process.ppid = <int>min(max(stat.ppid, 0), 0x7FFFFFFF)
        task.undead = False
        if stat.state == c'R':
            condition = _RUNNABLE
        elif stat.state == c'Z' or stat.state == c'X' or stat.state == c'x':
            condition = _WAITING
            task.reason = _WAIT
            task.ended = task.tid != process.pid or self._is_over(task, &stat, text)
            task.undead = not task.ended
        else:
            condition = _WAITING
            task.reason = self._reason(task, &stat, text)
        if not self.schedstat:
            figures[0] = _in_ns(stat.user + stat.system, self.clock_tick)
        elif condition == _WAITING:
            # It is off the processor now, so a second reading has complete figures.
            n = self._read(task, "schedstat", &task.fd, text)
            if n > 0 and _parse_schedstat(text, n, again):
                consistent = task.ended or (again[0] == figures[0] and again[2] == figures[2])
                figures[0] = max(figures[0], again[0])
                figures[1] = max(figures[1], again[1])
                figures[2] = again[2]
        task.fresh = consistent
        task.condition = condition
        if task.account is not None:
            if stat.user == task.account.first_user and stat.system == task.account.first_system:
                share = self._share_of(process, now)
            if figures[0] < task.run or self._taken_over(process, task, figures[0]):
                task.account.restart(figures[0], figures[1], figures[2], stat.user - task.user,
                                     stat.system - task.system)
                task.fresh = False
            task.account.advance(now, figures[0], figures[1], figures[2], stat.user, stat.system, share, condition,
                                 task.reason)
        task.run = figures[0]
        task.ready = figures[1]
        task.switches = figures[2]
        task.user = stat.user
        task.system = stat.system
        task.looked = True
        if self.follow_single and not process.whole and not task.no_children:
            self._look_for_children(task, text)
        return _CHANGED

    cdef bint _is_over(self, Task task, Stat *stat, char *into) noexcept:
        """Return whether a process is over whose first thread is a zombie.

        It is not while it has other threads: one of them may execute a program, and continue under the first one's id.
        """
        cdef char path[32]
        cdef Py_ssize_t n
        snprintf(path, sizeof(path), "%d/task", task.pid)
        if headway_links(self.root, path) > 3:  # two, and one for each thread
            return False
        n = self._read(task, "stat", &task.fd_stat, into)  # read again, because it may have happened in between
        return n < 0 or not _parse_stat(into, n, stat) or stat.state == c'Z' or stat.state == c'X'

    cdef bint _taken_over(self, ObservedProcess process, Task task, int64_t run) noexcept:
        """Return whether another thread took over this one's id: a thread that executes a program gets the first one's.

        The other threads vanish then (perhaps only after they were read here), and the figures jump by those of the
        other thread, which are accounted for under its old id: by more than a thread can run.
        """
        return ((self.gone_now > 0 or len(process.tasks) > 1) and task.tid == process.pid
                and run - task.run > headway_now() - self.began_before + 2 * self.tick)

    cdef int _missed(self, Task task, int64_t now, Py_ssize_t n) noexcept:
        """Handle a file that could not be read or made no sense: the thread is gone, or hidden."""
        if n < 0 and (errno == ESRCH or errno == ENOENT):
            return _GONE
        if task.account is not None and not task.ended:
            task.fresh = task.first_fresh = False
            task.condition = _UNREADABLE
            task.account.advance(now, 0, 0, 0, 0, 0, 0, _UNREADABLE, 0)
        return _CHANGED

    cdef int _look_for_children(self, Task task, char *into) except -1:
        cdef Py_ssize_t n = self._read(task, "children", &task.fd_children, into)
        cdef const char *p = into
        cdef int64_t child = 0
        if n < 0:
            task.no_children = True
            return 0
        while _number(&p, into + n, &child):
            if 0 < child <= 0x7FFFFFFF:
                self.children.append(child)
        return 0

    # -- what is there ------------------------------------------------------------------------------------------------

    cdef Task _add(self, ObservedProcess process, int tid, int64_t now, bint opening, int64_t absent):
        """Begin to measure a thread. Return None if it is gone, hidden, or had ended before the beginning.

        ``opening``: it exists at the beginning and is measured from now on. Otherwise it is measured from its birth, if
        that is within the window. Its birth is known to the clock tick, and it did not exist yet at ``absent``.
        """
        cdef Task task = Task(process.pid, tid)
        cdef int64_t birth, start
        cdef int result = self._look(process, task, now)
        if result == _GONE or not task.looked:
            if result != _GONE:
                self.hidden.add(tid)
            self.budget += task._release()
            return None
        birth = _in_ns(task.birth, self.clock_tick) - self.boot_offset
        if not opening and birth + self.clock_tick > self.start:
            start = max(birth, self.start, absent)
            if self.schedstat and task.condition == _RUNNABLE and task.switches <= 1:
                start = max(start, now - task.run - task.ready - self.tick)  # it never waited
            start = min(start, now)
            task.first_fresh = True
            task.account = ThreadAccount(start, tick=self.tick)
        elif task.ended:
            self.budget += task._release()
            return None
        else:
            task.first_fresh = task.fresh
            task.account = ThreadAccount(now, task.run, task.ready, task.switches, task.user, task.system, self.tick,
                                   task.condition == _RUNNABLE)
        task.account.advance(now, task.run, task.ready, task.switches, task.user, task.system,
                             self._share_of(process, now), task.condition, task.reason)
        process.tasks.append(task)
        process.by_tid[tid] = task
        self.tasks[tid] = task
        if task.ended:
            self.ended.append(task)
        return task

    cdef int _remove(self, ObservedProcess process, Py_ssize_t index, int64_t now) except -1:
        cdef Task task = process.tasks.pop(index)
        self.budget += task._release()
        del process.by_tid[task.tid]
        if self.tasks.get(task.tid) is task:
            del self.tasks[task.tid]
        if not task.ended:
            task.ended = True
            task.fresh = False
            task.account.close(now)
            self.ends_unseen += 1
            self.ended.append(task)
        # What was lent to it is in its cells; what is still due is not.
        process.ended_run = _limited(process.ended_run + task.run + task.account.run_lent - task.account.run_due)
        return 0

    cdef int _list(self, ObservedProcess process, int64_t now, bint opening, int64_t absent) except -1:
        """Begin to measure the threads of a process that are not measured yet."""
        cdef char path[32]
        cdef DIR *directory
        cdef long tid
        cdef list fresh = []
        snprintf(path, sizeof(path), "%d/task", process.pid)
        directory = headway_open_directory(self.root, path)
        if directory == NULL:
            if errno == EACCES or errno == EPERM:
                self.hidden.add(process.pid)
            return 0
        tid = headway_next_number(directory)
        while tid > 0:
            if tid not in process.by_tid:
                fresh.append(tid)
            tid = headway_next_number(directory)
        closedir(directory)
        for tid in fresh:
            self._add(process, tid, now, opening, absent)
        process.listed = now
        return 0

    def add_process(self, int pid, int64_t now, *, bint opening, int64_t absent=0, bint all_children=False):
        """Begin to measure a whole process. Return whether there is anything to measure.

        ``all_children``: every child that it waits for will have been measured too.
        """
        cdef ObservedProcess process = self.processes.get(pid)
        if process is None:
            process = ObservedProcess(pid, True)
        process.whole = True
        process.all_children = all_children
        self._list(process, now, opening, absent)
        if not process.tasks:
            return False
        self.processes[pid] = process
        if opening:
            process.before = max(headway_process_clock(pid, 2) - self._run_of(process), 0)
            process.children_before = process.children
        process.dirty = True
        return True

    def add_thread(self, int pid, int tid, int64_t now, *, bint opening):
        """Begin to measure a single thread. Return whether there is anything to measure."""
        cdef ObservedProcess process = self.processes.get(pid)
        if process is not None and tid in process.by_tid:
            return True
        if process is None:
            process = ObservedProcess(pid, False)
        if self._add(process, tid, now, opening, 0) is None:
            return False
        self.processes[pid] = process
        return True

    def stat(self, int pid):
        """Return `parse_stat` of a process; None: it is gone, or hidden (and noted as such)."""
        cdef char text[_ROOM]
        cdef char path[32]
        cdef Py_ssize_t n
        snprintf(path, sizeof(path), "%d/stat", pid)
        n = headway_read_once(self.root, path, text, _ROOM)
        if n < 0:
            if errno == EACCES or errno == EPERM:
                self.hidden.add(pid)
            return None
        return parse_stat(text[:n])

    def ids(self, int pid=0):
        """Return the ids of all processes that /proc lists, or of the threads of one."""
        cdef char path[32]
        cdef DIR *directory
        cdef long number
        cdef list found = []
        if pid:
            snprintf(path, sizeof(path), "%d/task", pid)
        else:
            snprintf(path, sizeof(path), ".")
        directory = headway_open_directory(self.root, path)
        if directory == NULL:
            return found
        number = headway_next_number(directory)
        while number > 0:
            found.append(number)
            number = headway_next_number(directory)
        closedir(directory)
        return found

    def named(self, int pid, bytes name, bint prefix):
        """Return the ids of a process's threads with this name, or with a name that begins so (proc_pid_comm(5))."""
        cdef char path[96]
        cdef char text[64]
        cdef Py_ssize_t n
        cdef Py_ssize_t length = len(name)
        cdef const char *wanted = name
        cdef list found = []
        for tid in self.ids(pid):
            snprintf(path, sizeof(path), "%d/task/%d/comm", pid, <int>tid)
            n = headway_read_once(self.root, path, text, sizeof(text))
            if n > 0 and text[n - 1] == c'\n':
                n -= 1
            if (n >= length if prefix else n == length) and memcmp(text, wanted, length) == 0:
                found.append(tid)
        return found

    # -- looking at all of it -----------------------------------------------------------------------------------------

    cdef int64_t _run_of(self, ObservedProcess process):
        cdef Task task
        cdef int64_t total = process.ended_run
        for task in process.tasks:
            total = _limited(total + task.run)
        return total

    cdef int _scan_process(self, ObservedProcess process, int64_t now, bint created) except -1:
        cdef char path[32]
        cdef Py_ssize_t i
        cdef Task task
        cdef int result
        cdef int living = 0
        cdef bint ended
        cdef long links
        # The process's clock is read before its threads, so that what it has beyond them is never theirs.
        cdef int64_t clock = -1
        if process.whole and process.dirty:
            clock = headway_process_clock(process.pid, 2)
        process.dirty = False
        self.gone_now = 0
        for i in range(len(process.tasks) - 1, -1, -1):  # the first thread is the last one read, see _taken_over
            task = process.tasks[i]
            ended = task.ended
            result = self._look(process, task, now)
            if result == _GONE:
                self._remove(process, i, now)
                self.gone_now += 1
            else:
                if task.ended and not ended:
                    self.ended.append(task)
                if not task.ended:
                    living += 1
            if result != _SAME:
                process.dirty = True
        if process.whole:
            if created or self.gone_now:
                snprintf(path, sizeof(path), "%d/task", process.pid)
                links = headway_links(self.root, path)  # two, and one for each thread
                if self.gone_now or links < 3 or links - 2 != len(process.tasks):
                    i = len(process.tasks)
                    self._list(process, now, False, process.listed)
                    living += len(process.tasks) - i
            process.listed = now
            if process.tasks and not living:
                clock = headway_process_clock(process.pid, 2)
            if clock >= 0:
                process.unseen = max(process.unseen, _limited(clock - self._run_of(process) - process.before))
        return 0

    cdef int _finish(self, ObservedProcess process) except -1:
        """Finish a process that is gone. If its parent waited for it, the parent is told the time that it used."""
        cdef ObservedProcess parent = self.processes.get(process.ppid)
        cdef ObservedProcess orphan
        cdef tuple known
        del self.processes[process.pid]
        process.gone = True
        self.unseen_of_finished = _limited(self.unseen_of_finished + process.unseen + process.children_unseen)
        if parent is not None:
            parent.children_seen = _limited(parent.children_seen + process.accounted)
        for orphan in self.processes.values():
            if orphan.ppid == process.pid:
                known = self.stat(orphan.pid)
                if known is not None:
                    orphan.ppid = known[2]
        self.finished.append(process)
        return 0

    def scan(self, int64_t now, *, bint created):
        """Read every measured thread. ``created``: there may be new threads anywhere since the last scan."""
        cdef ObservedProcess process
        cdef list processes = list(self.processes.values())
        self.began_before = self.began
        self.began = headway_now()
        # Parents come first: a child that a parent's figures include is then gone, and known to be gone, when it is
        # read.
        for process in processes:
            self._scan_process(process, now, created)
        for process in reversed(processes):
            if not process.tasks:
                self._finish(process)
        for process in processes:
            if process.all_children and not process.gone:
                process.children_unseen = max(
                    process.children_unseen,
                    _limited(process.children - process.children_before - process.children_seen),
                )

    @property
    def names(self) -> list:
        """The names of the reasons for waiting, by number."""
        return self.reasons.names

    @property
    def unseen(self) -> int:
        """The CPU time in ns that is known to have been used unseen; a lower bound."""
        cdef ObservedProcess process
        cdef int64_t total = self.unseen_of_finished
        for process in self.processes.values():
            total = _limited(total + process.unseen + process.children_unseen)
        return total

    def take_ended(self):
        """Return the threads that ended since the last call."""
        taken, self.ended = self.ended, []
        return taken

    def take_children(self):
        """Return the child processes of single threads found since the last call."""
        taken, self.children = self.children, []
        return taken

    def take_finished(self):
        """Return the processes that ended since the last call."""
        taken, self.finished = self.finished, []
        return taken

    def close(self):
        """Close all files and forget everything."""
        cdef Task task
        for task in self.tasks.values():
            task._release()
        self.tasks = {}
        self.processes = {}
