# cython: language_level=3, boundscheck=False, wraparound=False, embedsignature=True
"""The threads that have ended, as their last handlers sent them through a ring buffer."""

from bpf_layout cimport (
    N_CELLS, N_COUNTED, TASK_RECORD, THREAD_COUNTS, THREAD_HISTOGRAMS, cell, task_record, thread_counts,
    thread_snapshot,
)
from libc.stdint cimport uint64_t, uintptr_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, memmove

from headway.linux.bpf.reading._mapped cimport MappedMemory, row_of, thread_name
from headway.linux.bpf.reading._snapshots cimport ThreadRow, closed_cells, complete, kept_durations, kernel_clock_of, thread_row
from headway.linux.bpf.tasks._tasks cimport task_row

from headway.linux.bpf.threads.rows import EndedThread

cdef extern from *:
    """
    #include <stddef.h>
    #define SNAPSHOT_HEAD offsetof(struct thread_snapshot, cells)
    #define TASK_HEAD offsetof(struct task_record, cells)
    #define COUNTS_HEAD offsetof(struct thread_counts, cells)
    """
    size_t SNAPSHOT_HEAD, TASK_HEAD, COUNTS_HEAD

cdef class Exits:
    """Threads that have ended: their last snapshots from the ring buffer, kept packed."""

    cdef char *data
    cdef size_t length, room
    cdef list news
    cdef dict counts
    """Counts of threads whose snapshots are about to come: (tid, birth) -> values by cell."""
    cdef dict tasks
    """Records of tasks of threads whose snapshots are about to come: (thread record, birth) -> bytes of each."""
    cdef dict histograms
    """Histograms of threads whose snapshots are about to come: (tid, birth) -> as `DurationMaps` packs them."""
    cdef object durations
    cdef readonly int count
    """Snapshots received so far."""
    cdef readonly int damaged
    """Number of records that cannot be a snapshot. They are left out."""

    def __cinit__(self):
        self.data = NULL
        self.news = None
        self.counts = {}
        self.tasks = {}
        self.histograms = {}
        self.durations = None

    def __dealloc__(self):
        free(self.data)

    def keep_durations(self, durations):
        """Take the histograms of threads that end out of these maps (`DurationMaps`)."""
        self.durations = durations

    def follow(self):
        """Begin to keep what `take_news` returns."""
        self.news = []

    def take_news(self):
        """Return the threads that have ended since the last call: a list of `rows.EndedThread`."""
        found, self.news = self.news, []
        return found

    @property
    def function(self):
        """Address of the function to hand snapshots to (ring_buffer_sample_fn)."""
        return <uintptr_t>&take_exit

    @property
    def context(self):
        """The first argument of `function`."""
        return <uintptr_t><void *>self

    def take(self, uint64_t until, MappedMemory memory):
        """Return the threads that ended before this moment and were not taken yet: a list of `ThreadRow`."""
        cdef size_t at = 0, keep = 0, size
        cdef thread_snapshot *r
        cdef list rows = []
        while at < self.length:
            r = <thread_snapshot *>(self.data + at)
            size = SNAPSHOT_HEAD + r.used * sizeof(cell)
            if r.end < until:
                rows.append(self.row(memory, r))
            else:
                if keep != at:
                    memmove(self.data + keep, self.data + at, size)
                keep += size
            at += size
        self.length = keep
        return rows

    cdef ThreadRow row(self, MappedMemory memory, const thread_snapshot *r):
        """Return what a thread did until its end."""
        cdef bytes counted = self.counts.pop((r.tid, r.birth), b"")
        cdef const uint64_t *values = <const uint64_t *><const char *>counted
        cdef int n_counts = <int>(len(counted) // (N_COUNTED * sizeof(uint64_t)))
        cells = closed_cells(memory, r, r.used, values, n_counts, 0)
        complete(memory, cells, r, 0)
        sent = self.tasks.pop((r.number, r.birth), ()) if r.other_tasks else ()
        tasks = [task_row(memory, <task_record *><const char *>task, r) for task in sent]
        kept = None
        if self.durations is not None:
            kept = kept_durations(memory, self.histograms.pop((r.tid, r.birth), b""), r, r.used, ())
        return thread_row(r, r.end, kernel_clock_of(r), cells, tasks, kept)

    cdef void add_counts(self, thread_counts *counts, size_t size) noexcept:
        if size < COUNTS_HEAD or counts.used > N_CELLS or size < COUNTS_HEAD + counts.used * sizeof(counts.cells[0]):
            self.damaged += 1
            return
        self.counts[counts.tid, counts.birth] = (<char *>counts.cells)[:counts.used * sizeof(counts.cells[0])]

    cdef void add_task(self, task_record *task, size_t size) noexcept:
        if size < TASK_HEAD or task.used > N_CELLS or size < TASK_HEAD + task.used * sizeof(cell):
            self.damaged += 1
            return
        # With room for all cells, so that what reads it reads nothing that lies behind.
        known = self.tasks.setdefault((task.key.thread_record, task.key.birth), [])
        known.append((<char *>task)[:TASK_HEAD + task.used * sizeof(cell)].ljust(sizeof(task_record), b"\0"))

    cdef void add_histograms(self, void *data, size_t size) noexcept:
        found = None if self.durations is None else self.durations.take((<char *>data)[:size])
        if found is None:
            self.damaged += 1
        else:
            self.histograms[found[0]] = found[1]

    cdef int add(self, void *data, size_t size) noexcept nogil:
        cdef thread_snapshot *r = <thread_snapshot *>data
        cdef size_t needed
        cdef char *grown
        if size >= sizeof(uint64_t) and r.birth == TASK_RECORD:
            with gil:
                self.add_task(<task_record *>data, size)
            return 0
        if size >= sizeof(uint64_t) and r.birth == THREAD_COUNTS:
            with gil:
                self.add_counts(<thread_counts *>data, size)
            return 0
        if size >= sizeof(uint64_t) and r.birth == THREAD_HISTOGRAMS:
            with gil:
                self.add_histograms(data, size)
            return 0
        if size < SNAPSHOT_HEAD or r.used > N_CELLS or size < SNAPSHOT_HEAD + r.used * sizeof(cell):
            self.damaged += 1
            return 0
        size = SNAPSHOT_HEAD + r.used * sizeof(cell)
        needed = self.length + size
        if needed > self.room:
            grown = <char *>realloc(self.data, 2 * needed)
            if grown == NULL:
                self.damaged += 1
                return 0
            self.data, self.room = grown, 2 * needed
        memcpy(self.data + self.length, r, size)
        self.length = needed
        self.count += 1
        if <void *>self.news != <void *>None:
            with gil:
                self.news.append(row_of(EndedThread, (r.number, r.tid, r.pid, thread_name(r.name), r.birth, r.end)))
        return 0


cdef int take_exit(void *context, void *data, size_t size) noexcept nogil:
    return (<Exits>context).add(data, size)
