# The tasks of threads, for what reads the threads.
from bpf_layout cimport task_record, thread_snapshot
from libc.stdint cimport uint32_t, uint64_t

from headway.linux.bpf.reading._mapped cimport MappedMemory

cdef tuple task_row(MappedMemory memory, const task_record *task, const thread_snapshot *thread)
cdef list read_tasks(MappedMemory memory, uint32_t number, const thread_snapshot *thread, uint64_t at)
