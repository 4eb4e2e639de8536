# cython: language_level=3, boundscheck=False, wraparound=False, embedsignature=True
"""What threads did for their tasks, as their task records have it."""

from bpf_layout cimport (
    COUNT_BITS, N_CELLS, N_INTERRUPTS, N_NESTED, N_TASK_NAMES, OTHER_TASKS, OVERHEAD, TASK_NAME_LENGTH, TASK_RECORD,
    task_record, thread_snapshot,
)
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from headway.linux.bpf.threads._cells cimport Cells
from headway.linux.bpf.reading._mapped cimport MappedMemory, row_of

from headway.linux.bpf.threads.rows import TaskKey
from headway.model import TraceContext


cdef object trace_context_of(const task_record *task):
    """Return the trace context in which a thread began to work on a task last; None: it was in none."""
    cdef const uint8_t *trace = <const uint8_t *>task.trace_id
    cdef const uint8_t *span = <const uint8_t *>&task.span_id
    if not (task.trace_id[0] or task.trace_id[1]):
        return None
    trace_id = int.from_bytes(trace[:sizeof(task.trace_id)], "big")
    span_id = int.from_bytes(span[:sizeof(task.span_id)], "big")
    return TraceContext(trace_id, span_id, task.began)


cdef str task_name_of(MappedMemory memory, uint32_t number):
    """Return the name of tasks that has this number; empty: there is none."""
    cdef const char *name
    if not 0 < number < <uint32_t>N_TASK_NAMES:
        return ""
    name = memory.task_names[number].name
    return name[:TASK_NAME_LENGTH].partition(b"\0")[0].decode("utf-8", "replace")


cdef tuple task_row(MappedMemory memory, const task_record *task, const thread_snapshot *thread):
    """Return what a thread did for a task: its cells are those of the thread, one by one. Closed spans only."""
    cdef Cells cells = Cells.__new__(Cells)
    cdef int i
    other = task.key.name == OTHER_TASKS
    # A processor may take time of a state that was charged before the task changed: `model.tasks` puts that right.
    cells.reserve(thread.used + N_NESTED + N_INTERRUPTS + 3)
    for i in range(min(thread.used, N_CELLS)):
        if task.cells[i].time or task.cells[i].count:
            memory.put(cells, thread.cells[i].count >> COUNT_BITS, task.cells[i].time, task.cells[i].count)
    if task.overhead:
        cells.put(OVERHEAD, task.overhead, 0)
    key = row_of(TaskKey, (task_name_of(memory, task.name), 0 if other else task.key.task, other))
    return key, task.changes, cells, task.undated, trace_context_of(task)


cdef list read_tasks(MappedMemory memory, uint32_t number, const thread_snapshot *thread, uint64_t at):
    """Return the tasks of a thread as of the snapshot, and the number of each one's record: what `task_row` returns."""
    cdef uint32_t i
    cdef task_record *task
    cdef list found = []
    for i in range(1, memory.max_task_records):
        task = &memory.task_records[i]
        if memory.is_saved(&memory.saved_task_records[i].snapshot):
            task = &memory.saved_task_records[i]
        if task.kind != TASK_RECORD or not task.opened or task.opened >= at:
            continue
        if task.key.thread_record == number and task.key.birth == thread.birth:
            found.append((i, task_row(memory, task, thread)))
    return found


cdef class TaskRecords(MappedMemory):
    """The names of tasks."""

    def task_name(self, uint32_t number):
        """Return the name of tasks that has this number on the rings; empty: none, None: those without room."""
        return None if number == <uint32_t>N_TASK_NAMES else task_name_of(self, number)
