# cython: language_level=3, boundscheck=False, wraparound=False, embedsignature=True
"""The thread records as they are now: which threads there are, what they wait for, where they stand."""

from bpf_layout cimport (
    COUNT_BITS, HELD_STILL_READY, HOLDER_THREAD, IRQ_DEVICE, N_CELLS, N_CONTEXT_NAMES, N_INTERRUPTS, N_NESTED,
    N_READY_PARTS, READY, READY_PART, READY_WAKEUP, RUNNING, THREAD_KERNEL, THREAD_NEW, UNKNOWN, VECTOR_BASE,
    processor, thread_record,
)
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t

from headway.linux.bpf.reading._mapped cimport MappedMemory, row_of, thread_name
from headway.linux.bpf.reading._waiting cimport headway_fence

from headway.linux.bpf.threads.rows import LivingThread, OpenStack, OpenWait, RecordedThread, ThreadDepth, UnfinishedSpan


cdef object unfinished_span(uint64_t since, uint64_t at, int cpu, uint32_t record, uint16_t state, uint64_t entries):
    """Return a span until a moment. If the span begins after that moment, the excess is taken away."""
    if since <= at:
        return row_of(UnfinishedSpan, (since, at - since, 0, cpu, record, state, entries))
    return row_of(UnfinishedSpan, (at, 0, since - at, cpu, record, state, entries))


cdef list open_ready_spans(const thread_record *s, uint64_t at, uint32_t number):
    """Return the time of a thread that is still ready: a row of the largest part, and amounts of the others."""
    cdef int i, most = READY_WAKEUP
    for i in range(N_READY_PARTS):
        if s.open_parts[i] > s.open_parts[most]:
            most = i
    others = [i for i in range(N_READY_PARTS) if i != most and s.open_parts[i]]
    taken = sum([s.open_parts[i] for i in others])
    rows = [row_of(UnfinishedSpan, (s.since, at - s.since, taken, -1, number, READY_PART + most, 1))]
    for i in others:
        rows.append(row_of(UnfinishedSpan, (at, 0, -<int64_t>s.open_parts[i], -1, number, READY_PART + i, 0)))
    return rows


cdef class ThreadRecords(MappedMemory):
    """The thread records as they are now, and what user space tells the programs about threads."""

    def living(self):
        """Return the measured threads that have not ended: a list of `rows.LivingThread`."""
        cdef uint32_t number = 0
        cdef thread_record *s
        cdef list rows = []
        while (s := self.next_living(&number)) != NULL:
            rows.append(row_of(LivingThread, (s.tid, s.pid, s.birth)))
        return rows

    def unmarked(self):
        """Return the living threads for which no block of marked regions is known: `rows.LivingThread` each."""
        cdef uint32_t number = 0
        cdef thread_record *s
        cdef list found = []
        while (s := self.next_living(&number)) != NULL:
            if not s.block and not s.flags & THREAD_KERNEL:
                found.append(row_of(LivingThread, (s.tid, s.pid, s.birth)))
        return found

    def without_log(self):
        """Return the living threads for which no log of tasks is known: `rows.LivingThread` each."""
        cdef uint32_t number = 0
        cdef thread_record *s
        cdef list found = []
        while (s := self.next_living(&number)) != NULL:
            if not s.task_log and not s.flags & THREAD_KERNEL:
                found.append(row_of(LivingThread, (s.tid, s.pid, s.birth)))
        return found

    def mark(self, uint32_t tid, uint64_t address):
        """Tell the programs the address of a thread's block of marked regions, unless the thread has done so itself."""
        cdef uint32_t number = 0
        cdef thread_record *s
        while (s := self.next_living(&number)) != NULL:
            if s.tid == tid and not s.block:
                s.block = address

    def give_log(self, uint32_t tid, uint64_t address):
        """Tell the programs the address of a thread's log of tasks, unless the thread has done so itself."""
        cdef uint32_t number = 0
        cdef thread_record *s
        while (s := self.next_living(&number)) != NULL:
            if s.tid == tid and not s.task_log:
                s.task_log = address

    def give_context(self, uint32_t pid, int64_t offset, uint32_t module, int vector, uint8_t entry, bytes names):
        """Tell the programs where the threads of a process have their pointer to a thread context.

        ``offset``: of the pointer, from the thread pointer, or within the memory of a module if ``module`` is not 0;
        then ``vector`` is where the vector of modules is, and ``entry`` the logarithm of its entries' size in bytes.
        ``names``: the key indexes of the attributes that name a task, N_CONTEXT_NAMES at most.
        """
        cdef uint32_t number = 0
        cdef thread_record *s
        cdef int i
        if len(names) > N_CONTEXT_NAMES or not -VECTOR_BASE <= vector < VECTOR_BASE:
            raise ValueError("this access has no room in a thread record")
        while (s := self.next_living(&number)) != NULL:
            if s.pid != pid or s.flags & THREAD_KERNEL:
                continue
            for i in range(len(names)):
                s.context.names[i] = names[i]
            s.context.n_names = <uint8_t>len(names)
            if not s.context.known:
                s.context.offset = <uint64_t>offset
                s.context.module = module
                s.context.vector = <uint16_t>(vector + VECTOR_BASE)
                s.context.entry = entry
                headway_fence()
                s.context.known = 1

    def seek_contexts(self):
        """Return the processes with threads of which it is not known where they have a thread context, or that may have
        begun to publish one since this was called last: pid -> whether that is so.
        """
        cdef uint32_t number = 0
        cdef thread_record *s
        cdef dict found = {}
        while (s := self.next_living(&number)) != NULL:
            if s.flags & THREAD_KERNEL or s.task_log:
                continue
            if s.context.announced:
                s.context.announced = 0
                found[s.pid] = True
            elif not s.context.known:
                found.setdefault(s.pid, False)
        return found

    def depths(self):
        """Return the measured threads that have not ended, and how deep each is: a list of `rows.ThreadDepth`."""
        cdef uint32_t number = 0
        cdef thread_record *s
        cdef list rows = []
        while (s := self.next_living(&number)) != NULL:
            rows.append(row_of(ThreadDepth, (number, s.tid, s.pid, s.birth, s.deep)))
        return rows

    def is_measured(self, uint32_t pid):
        """Return whether a thread of this process is measured and has not yet left a processor for the last time."""
        cdef uint32_t number = 0
        cdef thread_record *s
        while (s := self.next_living(&number)) != NULL:
            if s.pid == pid:
                return True
        return False

    def has_ready_threads(self):
        """Return whether a thread is ready now, whose time until now could be divided."""
        cdef uint32_t number = 0
        cdef thread_record *s
        while (s := self.next_living(&number)) != NULL:
            if not s.cpu and s.state == READY and not s.flags & THREAD_NEW:
                return True
        return False

    def times_of(self, uint32_t tid):
        """Return the times of a thread that is off the processor: state -> ns."""
        cdef uint32_t number = 0
        cdef thread_record *s
        cdef int i
        while (s := self.next_living(&number)) != NULL:
            if s.tid == tid:
                return {self.state_name(s.cells[i].count >> COUNT_BITS): s.cells[i].time for i in range(min(s.used, N_CELLS))}
        return {}

    def look_at(self, numbers):
        """Return the threads in these thread records: a list of `rows.RecordedThread`.

        The state and its begin may be from different moments. The identity of the thread is from one.
        """
        cdef uint32_t number
        cdef thread_record *s
        cdef processor *p
        cdef uint64_t birth
        cdef list found = []
        for number in numbers:
            if not 0 < number < self.max_thread_records:
                continue
            s = &self.thread_records[number]
            if s.flags & THREAD_NEW:
                continue
            headway_fence()
            birth = s.birth
            if not birth:
                continue
            headway_fence()
            cpu = <int>s.cpu - 1
            name = thread_name(s.name)
            if 0 <= cpu < self.n_cpus:
                p = &self.processors[cpu]
                row = row_of(RecordedThread, (number, s.tid, s.pid, name, birth, cpu, p.state, p.since))
            else:
                row = row_of(RecordedThread, (number, s.tid, s.pid, name, birth, -1, s.state, s.since))
            headway_fence()
            if s.birth == birth and not s.flags & THREAD_NEW:
                found.append(row)
        return found

    def open_waits(self):
        """Return what threads wait for now: a list of `rows.OpenWait`.

        The list includes threads that are ready, with the cause HELD_STILL_READY.
        """
        cdef uint32_t number = 0
        cdef thread_record *s
        cdef list rows = []
        while (s := self.next_living(&number)) != NULL:
            if s.cpu or s.flags & THREAD_NEW or not (s.object_kind or s.state == READY):
                continue
            if s.state == READY:
                row = row_of(OpenWait, (s.tid, s.pid, s.birth, s.since, s.state, HOLDER_THREAD, HELD_STILL_READY))
            else:
                row = row_of(OpenWait, (s.tid, s.pid, s.birth, s.since, s.state, s.object_kind, s.object))
            headway_fence()
            if row.birth == s.birth and row.since == s.since and row.state == s.state and not s.cpu:
                rows.append(row)
        return rows

    def open_stacks(self, uint64_t at):
        """Return the threads off the processor, after the last snapshot, which was at ``at``: a list of `rows.OpenStack`."""
        cdef uint32_t number = 0
        cdef thread_record *s
        cdef list rows = []
        while (s := self.next_living(&number)) != NULL:
            if not s.cpu and s.since < at:
                stacks = (s.user_stack, s.kernel_stack)
                rows.append(row_of(OpenStack, (s.birth, *stacks, s.tid, s.pid, s.state, at - s.since, number)))
        return rows

    def unfinished(self, uint64_t at, cpus):
        """Return the open spans at the last snapshot: a list of `rows.UnfinishedSpan`.

        `read_threads` and `read_processors` (of these processors) add the same. The programs must be detached. Time that
        was charged beyond the snapshot is taken back.
        """
        cdef uint32_t number = 0
        cdef int cpu, i
        cdef processor *p
        cdef thread_record *s
        cdef uint64_t since, time, entries
        cdef list rows = []
        for cpu in cpus:
            p = &self.processors[cpu]
            number = 0
            if 0 < p.thread_record < self.max_thread_records:
                s = &self.thread_records[p.thread_record]
                if s.cpu == <uint32_t>cpu + 1 and 0 < s.birth < at:
                    number = p.thread_record
            since = p.since
            if p.deferred_total != p.absorbed_total and p.deferred_since <= at:
                for i in range(N_INTERRUPTS):
                    time = p.deferred[i].time - p.absorbed[i].time
                    if time:
                        entries = p.deferred[i].count - p.absorbed[i].count
                        rows.append(row_of(UnfinishedSpan, (since, time, 0, cpu, number, IRQ_DEVICE + i, entries)))
                        since += time
            rows.append(unfinished_span(since, at, cpu, number, p.state, 0))
            if number:
                for state in (p.state, *[p.nested[i] for i in range(min(p.depth, N_NESTED))]):
                    rows.append(unfinished_span(at, at, -1, number, state, 1)) # a processor counts a state at its end
        number = 0
        while (s := self.next_living(&number)) != NULL:
            if s.birth >= at or s.flags & THREAD_NEW or s.cpu:
                continue
            if s.state == READY and s.open_until == at and s.open_since == s.since:
                rows.extend(open_ready_spans(s, at, number))
            else:
                rows.append(unfinished_span(s.since, at, -1, number, s.state, 1))
            for i in range(min(s.depth, N_NESTED)):
                rows.append(unfinished_span(at, at, -1, number, s.nested[i], 1))
            if s.state != UNKNOWN and s.resume != RUNNING:
                rows.append(unfinished_span(at, at, -1, number, s.resume, 1))
        return rows
