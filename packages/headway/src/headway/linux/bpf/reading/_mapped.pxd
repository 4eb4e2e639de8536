# The memory that is shared with the eBPF programs, for the modules that read and write it.
from bpf_layout cimport (
    N_STATES, control, processor, processor_counts, tag_name, task_name, task_record, thread_counts, thread_record,
    thread_snapshot,
)
from libc.stdint cimport uint16_t, uint32_t, uint64_t

from headway.linux.bpf.threads._cells cimport Cells, Counting

cdef object row_of(kind, tuple fields)
cdef str thread_name(const char *name)

cdef class MappedMemory:
    cdef object buffers
    cdef processor *processors
    cdef processor *saved_processors
    cdef thread_record *thread_records
    cdef thread_snapshot *saved_threads
    cdef control *shared
    cdef tag_name *tags
    cdef Counting counting
    cdef thread_counts *thread_counts
    cdef thread_counts *saved_thread_counts
    cdef processor_counts *processor_counts
    cdef processor_counts *saved_processor_counts
    cdef task_record *task_records
    cdef task_record *saved_task_records
    cdef task_name *task_names
    cdef uint32_t max_task_records
    cdef readonly object durations # the histograms of durations (`DurationMaps`); None: they are not kept
    cdef uint16_t numbers[N_STATES] # state number from POLL on -> our number; 0: not known yet
    cdef tuple polls, functions
    cdef int n_cpus
    cdef uint32_t max_thread_records
    cdef uint64_t started, last_snapshot
    cdef readonly int torn # readings of which the times did not add up, even after waiting: 0 unless there is a bug

    cdef int map_times(self, tuple maps) except -1
    cdef int map_counts(self, tuple maps) except -1
    cdef int map_tasks(self, tuple maps) except -1
    cdef uint32_t records_used(self) noexcept
    cdef thread_record *next_living(self, uint32_t *number) noexcept
    cdef bint is_saved(self, const uint32_t *snapshot) noexcept
    cdef uint16_t state_of(self, uint64_t state)
    cdef int number_samples(self, Cells cells) except -1
    cdef int put(self, Cells cells, uint64_t state, uint64_t time, uint64_t count) except -1
