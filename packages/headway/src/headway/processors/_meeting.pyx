# cython: language_level=3, embedsignature=True
"""Meetings of all processors: one thread on each reads its processor at the same moment. meeting.h has the protocol."""

from typing import NamedTuple

from libc.stdint cimport int64_t, uint32_t, uint64_t, uintptr_t
from libc.stdlib cimport free, malloc

cdef extern from "meeting.h" nogil:
    enum:
        MEETING_SOURCES, MEETING_WORDS, MEETING_CHAINS, MEETING_WATCHED

    struct meeting_source:
        int fd
        int64_t offset
        uint32_t words

    struct meeting_reading:
        uint64_t attempt
        uint32_t met, missing
        int cpu_before, cpu_after, repin_error
        uint32_t loose
        uint64_t woken, arrived, saw_go, gave_way, before, after, saw_done, gap
        uint64_t chain_ns[2]
        uint64_t away, preempted, waited
        uint64_t words[12]

    struct meeting

    meeting *meeting_new(const int *cpus, uint32_t n)
    void meeting_add_source(meeting *m, uint32_t reader, meeting_source source)
    int meeting_start(meeting *m, int want_fifo)
    int meeting_error(const meeting *m, uint32_t reader)
    int meeting_tid(const meeting *m, uint32_t reader)
    int meeting_fifo(const meeting *m, uint32_t reader)
    int meeting_precede(meeting *m, int precede)
    void meeting_expect(meeting *m, uint32_t reader, int expected)
    void meeting_set_snapshot(meeting *m, uint64_t *at, uint32_t *number, uint64_t ahead)
    void meeting_set_limits(meeting *m, uint64_t patience, uint64_t wait, uint64_t chain_length)
    int meeting_attempt(meeting *m, uint64_t moment, uint64_t deadline)
    int meeting_sleep(const int *fds, uint32_t n, uint64_t until)
    uint64_t meeting_snapshot(const meeting *m)
    void meeting_read(const meeting *m, uint32_t reader, meeting_reading *to)
    void meeting_free(meeting *m)
    uint64_t meeting_clock()


MAX_SOURCES = MEETING_SOURCES


def clock():
    """Return CLOCK_MONOTONIC in ns, the clock of all stamps."""
    return meeting_clock()


def sleep_until(uint64_t moment, fds=()):
    """Sleep until ``moment`` (ns, to the microsecond). Return whether a file became readable or a signal came before."""
    cdef int numbers[MEETING_WATCHED]
    cdef uint32_t i, n = <uint32_t>len(fds)
    cdef bint woken
    if n > MEETING_WATCHED:
        raise ValueError(f"too many files: {fds}")
    for i in range(n):
        numbers[i] = fds[i]
    with nogil:
        woken = meeting_sleep(numbers, n, moment)
    return woken


class Stamps(NamedTuple):
    """The stamps of one reader at an attempt for which it came; times are ns of CLOCK_MONOTONIC."""

    met: bool
    """Whether all had come. If not, everything after ``arrived`` is 0."""
    cpu_before: int
    cpu_after: int
    """The processor on which it ran when it woke, and when it left."""
    repin_error: int
    """The errno of its return to its processor, if it had been moved away and could not return; else 0."""
    loose: bool
    """Whether it was no longer bound to its processor: it was bound elsewhere, or the processor was off."""
    woken: int
    arrived: int
    saw_go: int
    gave_way: int
    """ns before ``saw_go`` in which it would have left its processor to any other thread."""
    before: int
    after: int
    """``before`` and ``after``: the counters were read between these two."""
    saw_done: int
    gap: int
    """The longest time between two looks at the clock while there was nothing else to do."""
    chains: tuple[int, ...]
    """The times of the chains of dependent instructions, in ns; 0: the chain was not run, or was disturbed."""
    away: int
    """ns in the meeting in which the thread did not run, although no other ran there: stolen, or in an interrupt."""
    preempted: int
    waited: int
    """How often the reader was forced off the processor, and how often it left by itself, between waking and leaving."""
    words: tuple[int, ...]
    """The values of the counters, in the order in which the counters were given."""
    missing: int
    """The counters that could not be read, one bit each in the order in which they were given."""


cdef class Meeting:
    """The threads of some processors, one on each, and the conductor of their meetings."""

    cdef meeting *m
    cdef readonly tuple cpus
    cdef object keep
    cdef int n_words

    def __cinit__(self, cpus, sources=()):
        """``sources``: for each processor its counters (fd, offset or -1 for read(2), words)."""
        cdef int *numbers
        cdef meeting_source source
        cdef int i
        self.cpus = tuple(cpus)
        self.m = NULL
        for listed in sources:
            if len(listed) > MEETING_SOURCES or sum(words for _, _, words in listed) > MEETING_WORDS:
                raise ValueError(f"too many counters: {listed}")
        numbers = <int *>malloc((len(self.cpus) + 1) * sizeof(int))
        if numbers == NULL:
            raise MemoryError
        for i, cpu in enumerate(self.cpus):
            numbers[i] = cpu
        self.m = meeting_new(numbers, <uint32_t>len(self.cpus))
        free(numbers)
        if self.m == NULL:
            raise MemoryError
        for i, listed in enumerate(sources):
            for source.fd, source.offset, source.words in listed:
                meeting_add_source(self.m, i, source)
                self.n_words = max(self.n_words, <int>sum(words for _, _, words in listed))

    def start(self, bint fifo=True):
        """Start the threads, before all ordinary ones (SCHED_FIFO) if ``fifo`` and allowed.

        Return the processors to which a thread could not be bound: cpu -> errno. Raises OSError if no thread can be
        started.
        """
        cdef int failed
        with nogil:
            failed = meeting_start(self.m, fifo)
        if failed:
            raise OSError(failed, "threads cannot be started")
        return {cpu: meeting_error(self.m, i) for i, cpu in enumerate(self.cpus) if meeting_error(self.m, i)}

    def tids(self):
        """Return the threads' ids by processor."""
        return {cpu: meeting_tid(self.m, i) for i, cpu in enumerate(self.cpus)}

    @property
    def fifo(self):
        """Whether all threads run before all ordinary threads."""
        return all(meeting_fifo(self.m, i) for i in range(len(self.cpus)))

    def precede(self, bint before_all):
        """Let the threads run before all ordinary ones, or not; call it between attempts. Return whether all do."""
        return bool(meeting_precede(self.m, before_all))

    def expect(self, cpus):
        """Await only the readers of these processors from now on."""
        for i, cpu in enumerate(self.cpus):
            meeting_expect(self.m, i, cpu in cpus)

    def announce_snapshots(self, uintptr_t at, uintptr_t number, uint64_t ahead, object keep):
        """Have each meeting announce a snapshot, ``ahead`` ns later, in this memory of a ledger, kept by ``keep``."""
        self.keep = keep
        meeting_set_snapshot(self.m, <uint64_t *>at, <uint32_t *>number, ahead)

    def set_limits(self, *, uint64_t patience, uint64_t wait, uint64_t chain):
        """Set how long a reader keeps its processor while others have not come, and how long it waits for them, in ns.

        ``chain``: cycles of the chain that is timed in a meeting (a multiple of 64; 0: none).
        """
        meeting_set_limits(self.m, patience, wait, chain)

    def attempt(self, uint64_t moment, *, uint64_t deadline=2_000_000):
        """Hold a meeting at this moment or soon after. Return whether all met, at the latest ``deadline`` ns later."""
        cdef bint met
        with nogil:
            met = meeting_attempt(self.m, moment, deadline)
        return met

    @property
    def snapshot(self):
        """The moment of the last snapshot that was announced."""
        return meeting_snapshot(self.m)

    def stamps(self):
        """Return the stamps of the last attempt, in the order of the processors; None for a reader that has not come."""
        cdef meeting_reading r
        cdef list found = []
        cdef int i
        for i in range(<int>len(self.cpus)):
            meeting_read(self.m, i, &r)
            if not r.attempt:
                found.append(None)
                continue
            found.append(Stamps(
                bool(r.met), r.cpu_before, r.cpu_after, r.repin_error, bool(r.loose), r.woken, r.arrived, r.saw_go, r.gave_way, r.before, r.after,
                r.saw_done, r.gap, (r.chain_ns[0], r.chain_ns[1]), r.away, r.preempted, r.waited,
                tuple([r.words[k] for k in range(self.n_words)]), r.missing,
            ))
        return found

    def close(self):
        """End the threads. It may be called more than once."""
        if self.m != NULL:
            with nogil:
                meeting_free(self.m)
            self.m = NULL

    def __dealloc__(self):
        if self.m != NULL:
            meeting_free(self.m)
