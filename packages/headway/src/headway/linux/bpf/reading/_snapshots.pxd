# What a thread did, for what reads the threads that have ended.
from bpf_layout cimport thread_snapshot
from libc.stdint cimport uint32_t, uint64_t

from headway.linux.bpf.threads._cells cimport Cells
from headway.linux.bpf.reading._mapped cimport MappedMemory

cdef class ThreadRow:
    cdef readonly uint32_t tid, pid
    cdef readonly str name
    cdef readonly uint64_t birth
    cdef readonly uint64_t end # 0: the thread lives
    cdef readonly object kernel_clock
    cdef readonly Cells cells
    # What it did for its tasks, which is a part of `cells`: (`rows.TaskKey`, changes, Cells, undated, context) each.
    # undated: ns of spans in which it began to work on the task, at a moment that is not known. context: of the last time
    # that it did (`model.TraceContext`); None: it was in none.
    cdef readonly tuple tasks
    cdef readonly object durations # how long its single occurrences of each state lasted; None: that is not kept

cdef ThreadRow thread_row(const thread_snapshot *s, uint64_t end, kernel_clock, Cells cells, list tasks, durations)
cdef object kernel_clock_of(const thread_snapshot *s)
cdef Cells closed_cells(
    MappedMemory memory, const thread_snapshot *s, int used, const uint64_t *counts, int n_counts, int more
)
cdef int complete(MappedMemory memory, Cells cells, const thread_snapshot *s, uint64_t ready_until) except -1
cdef object kept_durations(MappedMemory memory, bytes packed, const thread_snapshot *s, int used, opened)
