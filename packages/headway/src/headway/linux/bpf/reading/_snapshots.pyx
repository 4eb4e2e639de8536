# cython: language_level=3, boundscheck=False, wraparound=False, embedsignature=True
"""Threads and processors as of one moment, which user space announced: the snapshot.

A handler that changes something after that moment copies it before (snapshots.h). What nobody has changed is read as it
is.
"""

from bpf_layout cimport (
    COUNT_BITS, ELSEWHERE, IRQ_DEVICE, N_CELLS, N_COUNTED, N_INTERRUPTS, N_NESTED, N_READY_PARTS, N_STATES, OVERHEAD,
    READY, RUNNING, TAG, THREAD_NEW, THREAD_RAN, UNKNOWN, USER, cell, processor, processor_counts, thread_record,
    thread_snapshot,
)
from libc.stdint cimport uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memcpy

from headway.linux.bpf.threads._cells cimport Cells, name_of_state
from headway.linux.bpf.reading._mapped cimport MappedMemory, thread_name
from headway.linux.bpf.tasks._tasks cimport read_tasks
from headway.linux.bpf.reading._waiting cimport MAX_ATTEMPTS, headway_fence, pause, wait_for

from headway.linux.bpf.histograms.durations import KeptDurations
from headway.model import KernelClock, Quality

cdef extern from *:
    """
    #include <stddef.h>
    #define SNAPSHOT_HEAD offsetof(struct thread_snapshot, cells)
    """
    size_t SNAPSHOT_HEAD

cdef uint64_t COUNT_MASK = (<uint64_t>1 << COUNT_BITS) - 1

cdef object NOT_UP_TO_DATE = KernelClock(None, Quality.UNAVAILABLE)
"""The clock of a thread that runs: it lags behind until the thread leaves its processor."""


cdef object kernel_clock_of(const thread_snapshot *s):
    """Return the kernel's clock of a thread that is off the processor, since its measurement began."""
    return KernelClock(s.runtime, Quality.BOUND if s.flags & THREAD_RAN else Quality.EXACT)


cdef class ThreadRow:
    """What a thread did, as of a snapshot or of its end."""


cdef ThreadRow thread_row(const thread_snapshot *s, uint64_t end, kernel_clock, Cells cells, list tasks, durations):
    cdef ThreadRow row = ThreadRow.__new__(ThreadRow)
    row.tid, row.pid, row.name = s.tid, s.pid, thread_name(s.name)
    row.birth, row.end = s.birth, end
    row.kernel_clock = kernel_clock
    row.cells = cells
    row.tasks = tuple(tasks)
    row.durations = durations
    return row


cdef Cells closed_cells(
    MappedMemory memory, const thread_snapshot *s, int used, const uint64_t *counts, int n_counts, int more
):
    """Return what a thread has been charged for, with room for so many cells more than it has used.

    ``counts``: of hardware events, of the first ``n_counts`` cells.
    """
    cdef Cells cells = Cells.__new__(Cells)
    cdef int i
    cells.reserve(used + 1 + N_READY_PARTS + more, memory.counting)
    for i in range(used):
        memory.put(cells, s.cells[i].count >> COUNT_BITS, s.cells[i].time, s.cells[i].count & COUNT_MASK)
    for i in range(min(used, n_counts)):
        cells.count(memory.state_of(s.cells[i].count >> COUNT_BITS), counts + i * N_COUNTED)
    if s.overhead:
        cells.put(OVERHEAD, s.overhead, 0)
    return cells


cdef int complete(MappedMemory memory, Cells cells, const thread_snapshot *s, uint64_t ready_until) except -1:
    """Add what is known of a thread beside its cells. ``ready_until``: see `Cells.divide_ready`."""
    cells.divide_ready(s, ready_until)
    cells.take_samples(s.samples)
    memory.number_samples(cells)
    cells.undivided_overhead = s.undivided_overhead
    return 0


cdef object kept_durations(MappedMemory memory, bytes packed, const thread_snapshot *s, int used, opened):
    """Return histograms with the name of each cell's state, and how often that occurred and ended."""
    cdef int i
    ended = tuple([
        (name_of_state(memory.state_of(s.cells[i].count >> COUNT_BITS)), s.cells[i].count & COUNT_MASK)
        for i in range(used)
    ])
    return KeptDurations(packed, ended, opened, memory.durations.parts)


cdef bint is_undivided(MappedMemory memory, const processor *p, uint64_t at) noexcept:
    """Return whether a span of user code lies across the snapshot, of which marked regions may have an unknown part."""
    cdef thread_record *s
    if not 0 < p.thread_record < memory.max_thread_records or p.since >= at:
        return False
    if p.state != USER and p.state < TAG:
        return False
    s = &memory.thread_records[p.thread_record]
    return s.block != 0 or s.task_log != 0 or s.context.known != 0


cdef struct Moment: # of a thread whose record was copied
    bint saved # a handler has copied it at the snapshot
    uint64_t since
    uint64_t deferred # ns since then in interrupts that no handler has charged yet
    uint16_t state


cdef void copy_used(thread_snapshot *copy, const thread_snapshot *s, Moment *now) noexcept:
    """Copy a thread's record, without the cells that it has not used."""
    memcpy(copy, s, SNAPSHOT_HEAD)
    memcpy(copy.cells, s.cells, min(copy.used, N_CELLS) * sizeof(cell))
    now.since, now.state = copy.since, copy.state


cdef bint copy_thread(
    MappedMemory memory, uint32_t number, uint64_t at, int attempt, thread_snapshot *copy, Moment *now
) noexcept:
    """Copy a thread's record as of the snapshot. Return False, after a wait, if it was in flux."""
    cdef thread_snapshot *live = <thread_snapshot *>&memory.thread_records[number]
    cdef processor *p
    now.deferred = 0
    now.saved = memory.is_saved(&memory.saved_threads[number].snapshot)
    if now.saved:
        copy_used(copy, &memory.saved_threads[number], now)
        return True
    if live.cpu and live.cpu <= <uint32_t>memory.n_cpus and memory.processors[live.cpu - 1].busy:
        pause(attempt)
        return False
    headway_fence()
    copy_used(copy, live, now)
    if copy.cpu and copy.cpu <= <uint32_t>memory.n_cpus:
        p = &memory.processors[copy.cpu - 1]
        now.since, now.state, copy.depth = p.since, p.state, p.depth
        if is_undivided(memory, p, at):
            wait_for(copy.cpu - 1, attempt)
            return False
        memcpy(copy.nested, p.nested, sizeof(copy.nested))
        if p.deferred_total != p.absorbed_total and p.deferred_since <= at:
            now.deferred = p.deferred_total - p.absorbed_total
    headway_fence()
    return True


cdef bint has_moved(MappedMemory memory, uint32_t number, const thread_snapshot *copy) noexcept:
    """Return whether a thread has changed since this copy of its record was made."""
    cdef thread_snapshot *live = <thread_snapshot *>&memory.thread_records[number]
    cdef int used = min(copy.used, N_CELLS)
    headway_fence()
    if memory.is_saved(&memory.saved_threads[number].snapshot):
        return True
    return live.birth != copy.birth or min(live.used, N_CELLS) != used or memcmp(
        live.cells, copy.cells, used * sizeof(cell)) != 0


cdef bint adds_up(const thread_snapshot *copy, const Moment *now, uint64_t at) noexcept:
    """Return whether the law of conservation holds: a thread's times are all time since its birth."""
    cdef uint64_t total = copy.overhead
    cdef int i
    for i in range(min(copy.used, N_CELLS)):
        total += copy.cells[i].time
    return total == now.since - copy.birth and now.since <= at


cdef int put_open(MappedMemory memory, Cells cells, list opened, uint64_t state, uint64_t time) except -1:
    """Add the time that a state has lasted since it was charged last, and that it occurs, for it has not ended."""
    cdef uint16_t number = memory.state_of(state)
    cells.put(number, time, 1)
    if opened is not None:
        opened.append((name_of_state(number), time))
    return 0


cdef uint64_t put_deferred(Cells cells, list opened, const processor *p) except? 0xdead:
    """Add the interrupts of a processor that no handler has charged yet. Return their time, ns."""
    cdef uint64_t time, count, total = 0
    cdef int i
    for i in range(N_INTERRUPTS):
        time, count = p.deferred[i].time - p.absorbed[i].time, p.deferred[i].count - p.absorbed[i].count
        if time:
            cells.put(IRQ_DEVICE + i, time, count)
            total += time
            if opened is not None:
                opened += [(name_of_state(IRQ_DEVICE + i), 0)] * count
    return total


cdef ThreadRow open_row(
    MappedMemory memory, uint32_t number, uint64_t at, const thread_snapshot *s, const Moment *now, list tasks,
    bytes packed
):
    """Return what a living thread did until the snapshot: what it was charged for, and the states that go on."""
    cdef int i, depth = min(s.depth, N_NESTED), used = min(s.used, N_CELLS), n_counts = 0
    cdef const uint64_t *counts = NULL
    cdef uint64_t lasted = at - now.since - now.deferred
    cdef Cells cells
    cdef list opened = None if memory.durations is None else []
    if memory.counting is not None:
        counts = <const uint64_t *>(memory.saved_thread_counts if now.saved else memory.thread_counts)[number].cells
        n_counts = used
    cells = closed_cells(memory, s, used, counts, n_counts, depth + 2 + (N_INTERRUPTS if now.deferred else 0))
    if now.deferred:
        put_deferred(cells, opened, &memory.processors[s.cpu - 1])
    put_open(memory, cells, opened, now.state, lasted)
    for i in range(depth):
        put_open(memory, cells, opened, s.nested[i], 0)
    if not s.cpu and now.state != UNKNOWN and s.resume != RUNNING:
        put_open(memory, cells, opened, s.resume, 0)
    complete(memory, cells, s, 0 if s.cpu or now.state != READY else at)
    for which, (_, _, of_task, _, _) in tasks:
        if which == s.task_record: # what is under way is for the task that the thread works on
            (<Cells>of_task).put(memory.state_of(now.state), lasted, 1)
    kept = None if opened is None else kept_durations(memory, packed, s, used, opened)
    late = s.cpu or now.state == UNKNOWN or now.state == ELSEWHERE
    return thread_row(s, 0, NOT_UP_TO_DATE if late else kernel_clock_of(s), cells, [row for _, row in tasks], kept)


cdef ThreadRow read_thread(MappedMemory memory, uint32_t number, uint64_t at):
    """Return what a thread did until the snapshot; None: the thread record has none, or not yet."""
    cdef thread_snapshot copy
    cdef Moment now
    cdef int attempt
    cdef list tasks = []
    cdef bytes packed = b""
    for attempt in range(MAX_ATTEMPTS):
        if not copy_thread(memory, number, at, attempt, &copy, &now):
            continue
        if copy.other_tasks and memory.max_task_records:
            tasks = read_tasks(memory, number, &copy, at)
            headway_fence()
        if not now.saved:
            if memory.is_saved(&memory.saved_threads[number].snapshot):
                continue
            if memory.thread_records[number].birth != copy.birth:
                continue
        if copy.birth == 0 or copy.birth >= at or copy.flags & THREAD_NEW:
            return None
        if adds_up(&copy, &now, at):
            if memory.durations is None:
                break
            packed = memory.durations.read(
                number, min(copy.used, N_CELLS), now.saved, -1 if memory.shared.last else memory.shared.snapshot)
            if now.saved or not has_moved(memory, number, &copy):
                break
        pause(attempt)
    else:
        memory.torn += 1
    return open_row(memory, number, at, &copy, &now, tasks, packed)


cdef int copy_cells(MappedMemory memory, Cells cells, const processor *p) except -1:
    """Make the cells those of a processor."""
    cdef int i
    cells.used = 0
    for i in range(N_STATES):
        if p.cells[i].time or p.cells[i].count:
            memory.put(cells, i, p.cells[i].time, p.cells[i].count)
    return 0


cdef bint copy_processor(
    MappedMemory memory, int cpu, uint64_t at, int attempt, processor *copy, bint *saved
) noexcept:
    """Copy a processor as of the snapshot. Return False, mostly after a wait, if it was in flux.

    ``saved``: set to whether a handler had copied it.
    """
    saved[0] = memory.is_saved(&memory.saved_processors[cpu].snapshot)
    if saved[0]:
        memcpy(copy, &memory.saved_processors[cpu], sizeof(processor))
        return True
    if memory.processors[cpu].busy: # the handler may still move time between states: see `take_snapshot`
        pause(attempt)
        return False
    headway_fence()
    memcpy(copy, &memory.processors[cpu], sizeof(processor))
    headway_fence()
    if memory.is_saved(&memory.saved_processors[cpu].snapshot):
        return False
    if is_undivided(memory, copy, at):
        wait_for(cpu, attempt)
        return False
    return True


cdef int put_counts(MappedMemory memory, Cells cells, const processor *p, const processor_counts *counts) except -1:
    """Add the counts of hardware events to a processor's cells."""
    cdef int i
    for i in range(N_STATES):
        if p.cells[i].time or p.cells[i].count:
            cells.count(memory.state_of(i), <const uint64_t *>counts.cells[i])
    return 0


cdef Cells read_processor(MappedMemory memory, int cpu, uint64_t at, processor *copy):
    """Return what a processor did until the snapshot. ``copy``: room for one."""
    cdef Cells cells = Cells.__new__(Cells)
    cdef bint saved = False
    cdef int attempt
    cdef uint64_t deferred = 0
    cells.reserve(N_STATES + 1, memory.counting)
    for attempt in range(MAX_ATTEMPTS):
        if not copy_processor(memory, cpu, at, attempt, copy, &saved):
            continue
        copy_cells(memory, cells, copy)
        if cells.sum() == copy.since - memory.started and copy.since <= at:
            break
        pause(attempt)
    else:
        memory.torn += 1
    if copy.deferred_total != copy.absorbed_total and copy.deferred_since <= at:
        deferred = put_deferred(cells, None, copy)
    if memory.counting is not None:
        put_counts(memory, cells, copy, &(memory.saved_processor_counts if saved else memory.processor_counts)[cpu])
    cells.take_samples(copy.samples)
    memory.number_samples(cells)
    cells.undivided_overhead = copy.undivided_overhead
    cells.put(memory.state_of(copy.state), at - copy.since - deferred, 0) # open; a processor counts a state at its end
    return cells


cdef class Snapshots(MappedMemory):
    """Threads and processors as of the last snapshot.

    A copy is accepted only if the law of conservation holds in it.
    """

    def read_processors(self, uint64_t at):
        """Return every processor as of the snapshot: cpu -> Cells, whose times add up to the time since `begin`."""
        cdef int cpu
        cdef processor *copy = <processor *>calloc(1, sizeof(processor))
        cdef dict found = {}
        if copy == NULL:
            raise MemoryError
        try:
            for cpu in range(self.n_cpus):
                found[cpu] = read_processor(self, cpu, at, copy)
            return found
        finally:
            free(copy)

    def read_threads(self, uint64_t at):
        """Return every living thread as of the snapshot: a list of `ThreadRow`."""
        cdef uint32_t number
        cdef list rows = []
        for number in range(1, self.records_used()):
            row = read_thread(self, number, at)
            if row is not None:
                rows.append(row)
        return rows
