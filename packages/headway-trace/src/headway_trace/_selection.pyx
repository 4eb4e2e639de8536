"""Those of a stream's records that are in given stretches of cycles, and of given threads."""

from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport calloc, free

from headway_trace._records cimport GAP, INSTRUCTION, NO_THREAD, OFF, Records, Row

__all__ = ["Selection", "note_threads"]

cdef struct Stretch:
    uint64_t first, end    # cycles
    uint32_t epoch


cdef class Selection:
    """The choice of one stream's records, which are passed to `of` in order.

    ``stretches``: (epoch, first cycle, end) in the order of time; None: all. ``threads``: the threads whose
    instructions are wanted; None: all. A gap may be of any thread, so threads leave out no gap, and no instruction of
    which the thread is not known. Records without a cycle
    are in no stretch.
    """

    cdef Stretch* stretches
    cdef uint32_t* threads
    cdef Py_ssize_t count, at, named
    cdef bint timed
    cdef readonly bint passed      # all stretches are over: no record that follows is wanted

    def __init__(self, stretches=None, threads=None):
        cdef Py_ssize_t i
        if self.stretches != NULL:
            raise RuntimeError("a selection is made once")
        self.timed = stretches is not None
        self.count = len(stretches) if self.timed else 0
        self.named = -1 if threads is None else len(threads)
        self.passed = self.timed and not self.count
        self.stretches = <Stretch*>calloc(self.count + 1, sizeof(Stretch))
        self.threads = <uint32_t*>calloc(max(self.named, 0) + 1, sizeof(uint32_t))
        if self.stretches == NULL or self.threads == NULL:
            raise MemoryError
        for i in range(self.count):
            epoch, first, end = stretches[i]
            self.stretches[i].epoch, self.stretches[i].first, self.stretches[i].end = epoch, first, end
        if threads is not None:
            for i, thread in enumerate(threads):
                self.threads[i] = thread

    def __dealloc__(self):
        free(self.stretches)
        free(self.threads)

    cdef bint within(self, Row* r) noexcept nogil:
        """Return whether a row is in a stretch of cycles."""
        cdef Stretch* s
        cdef uint64_t begin = r.cycle
        if not r.counted:
            return False
        if r.sort == GAP and not r.size:
            begin -= min(r.cycles, r.cycle)
        while self.at < self.count:
            s = &self.stretches[self.at]
            if r.epoch < s.epoch or (r.epoch == s.epoch and r.cycle < s.first):
                return False
            if r.epoch == s.epoch and begin < s.end:
                return True
            self.at += 1
        self.passed = True
        return False

    cdef bint named_one(self, uint32_t thread) noexcept nogil:
        cdef Py_ssize_t i
        if thread == NO_THREAD:
            return True
        for i in range(self.named):
            if self.threads[i] == thread:
                return True
        return False

    def of(self, Records block not None):
        """Return the records of a block that are wanted, and no longer those of the block itself."""
        cdef Py_ssize_t i, kept = 0
        cdef Row* r
        for i in range(block.size):
            r = &block.data[i]
            if self.timed and not self.within(r):
                continue
            if self.named >= 0 and r.sort == INSTRUCTION and not (block.threads and self.named_one(r.thread)):
                continue
            block.data[kept] = r[0]
            kept += 1
        block.size = kept
        return block


def note_threads(Records block not None, list runs, dict last, thread):
    """Note which threads the records of a stream are of, in order. Return the thread at their end.

    ``thread`` is the one before them; None: none is known. ``runs`` gets (thread, epoch, cycle) of the first
    instruction of each run, and ``last`` by thread its last instruction, or the gap after it, as far as these have
    cycles. Where tracing was off is no gap.
    """
    cdef Py_ssize_t i, seen = -1
    cdef Row* r
    cdef bint known = thread is not None
    cdef uint32_t now = thread if known else 0
    for i in range(block.size):
        r = &block.data[i]
        if r.sort != INSTRUCTION and r.sort != GAP or not r.counted or r.sort == GAP and r.why == OFF:
            continue
        if r.sort == INSTRUCTION and not (known and r.thread == now):
            if seen >= 0:
                last[now] = block[seen]
            if r.thread == NO_THREAD:
                known, seen = False, -1
                continue
            runs.append((r.thread, r.epoch, r.cycle))
            now, known = r.thread, True
        seen = i if known else -1
    if seen >= 0:
        last[now] = block[seen]
    return now if known else None
