# cython: language_level=3, boundscheck=False, wraparound=False, embedsignature=True
"""What user space writes for the eBPF programs: the moments of snapshots, the level of detail, the costs of events."""

from bpf_layout cimport (
    BACK_FROM_SIGNAL, BACK_FROM_TASK_WORK, COST_BITS, N_EVENTS, THREAD_UNSEEN, UNKNOWN, WAY_BACK_SOUGHT, processor,
    processor_counts,
)
from libc.stdint cimport uint32_t, uint64_t, uintptr_t
from libc.string cimport memset

from headway.linux.bpf.reading._mapped cimport MappedMemory
from headway.linux.bpf.reading._waiting cimport MAX_ATTEMPTS, headway_clock, headway_fence, pause


cdef uint32_t fixed_point(double cost):
    """Return a cost in the programs' unit. A system call is so short that half a nanosecond matters."""
    return <uint32_t>min(max(0.0, cost * (1 << COST_BITS) + 0.5), 0xffff_ffff)


cdef class Controls(MappedMemory):
    """What user space tells the programs, and when measuring begins, stops, and is looked at."""

    def begin(self, cpus=None):
        """Start the clock on every processor, from a moment just ahead on. Returns that moment.

        ``cpus``: measure threads only there. Call `look_around` when the threads to be measured are open.
        """
        cdef int cpu
        cdef processor *p
        cdef uint64_t at = headway_clock() + 20_000
        self.shared.snapshot_at = <uint64_t>-1
        self.last_snapshot = 0
        self.shared.filtered = 0
        for cpu in range(self.n_cpus):
            p = &self.processors[cpu]
            p.state = UNKNOWN
            p.thread_record = THREAD_UNSEEN
            p.selected = cpus is None or cpu in cpus
            p.undivided = self.shared.level & 1
        headway_fence()
        for cpu in range(self.n_cpus):
            self.processors[cpu].since = at
        self.started = at
        while headway_clock() < at:
            pass
        return at

    def look_around(self):
        """Have every processor identify the thread that it runs, at its next event."""
        cdef int cpu
        cdef processor *p
        headway_fence()
        for cpu in range(self.n_cpus):
            p = &self.processors[cpu]
            if p.thread_record == 0:
                p.thread_record = THREAD_UNSEEN

    def announce_publication(self, uint32_t user):
        """There is one map more in which threads are told what they have done: this user's. They find out at their next event."""
        self.shared.publication_users[self.shared.publications] = user
        headway_fence()
        self.shared.publications += 1

    def start_undivided(self):
        """Have time not divided from the beginning on. To be called before `begin`."""
        self.shared.level = 1

    def set_undivided(self, bint undivided):
        """Have time divided, or not divided, from a moment just ahead on; it is a snapshot, and past on return."""
        self.shared.level = <uint64_t>(self.shared.snapshot + 1) << 1 | undivided
        return self.take_snapshot(False)

    def deepen_all(self):
        """Make every thread that is measured now deep. To be called before `look_around`."""
        cdef uint32_t number
        for number in range(1, self.records_used()):
            self.thread_records[number].deep = 1
        headway_fence()

    def set_depths(self, changes):
        """Change how deep threads are: thread record -> `layout.DEPTHS`, 0: not deep. It holds from a moment just ahead on.

        That is a snapshot, and past on return. The programs that see calls must be attached.
        """
        cdef uint32_t number
        self.shared.level = <uint64_t>(self.shared.snapshot + 1) << 1
        headway_fence()
        for number, deep in changes.items():
            if 0 < number < self.max_thread_records:
                self.thread_records[number].deep = deep
        headway_fence()
        return self.take_snapshot(False)

    def reset(self):
        """Stop the clock on every processor and forget what they did; `begin` starts it again.

        Threads must not be open: they would be charged for the time in between.
        """
        cdef int cpu
        cdef uint64_t until
        for cpu in range(self.n_cpus):
            self.processors[cpu].since = 0
        until = headway_clock() + 100_000 # handlers at work are done by then
        with nogil:
            while headway_clock() < until:
                pass
        for cpu in range(self.n_cpus):
            memset(&self.processors[cpu], 0, sizeof(processor))
            if self.counting is not None:
                memset(&self.processor_counts[cpu], 0, sizeof(processor_counts))

    def begin_again(self, bint undivided):
        """Have `begin` be possible after a snapshot that was the last; ``undivided``: as time is from then on."""
        self.shared.last = 0
        self.shared.level = undivided

    def forget_records(self):
        """Forget the records of threads that are left, and return their numbers. The programs must be detached."""
        cdef uint32_t number
        cdef list left = []
        for number in range(1, self.records_used()):
            if self.thread_records[number].birth:
                self.thread_records[number].birth = 0
                self.thread_records[number].used = 0
                memset(self.thread_records[number].index, 0, sizeof(self.thread_records[number].index))
                left.append(number)
        headway_fence()
        return left

    def measure_only(self, uint32_t pid):
        """Select only this process from now on; 0: as the settings say."""
        self.shared.only = pid

    def measure_command(self, uint32_t tid):
        """Measure this process of ours from the moment it executes a program."""
        self.shared.command = tid

    def hand_out_thread_records(self):
        """Have the programs use only the list of free thread records. Call this before they are attached."""
        self.shared.thread_records = self.max_thread_records - 1

    def set_costs(self, before, after):
        """Set the observer's cost of each kind of event (`layout.EVENTS`), ns.

        ``before``: the part before the handler reads its clock; ``after``: the part from then on.
        """
        cdef int i
        for i in range(N_EVENTS):
            self.shared.before[i] = fixed_point(before[i])
            self.shared.after[i] = fixed_point(after[i])

    def set_cost_of_marks(self, double inside, double around):
        """Set what a pair of marks takes of a region and of what is around it, ns."""
        self.shared.mark_inside = fixed_point(inside)
        self.shared.mark_around = fixed_point(around)

    def set_ways_back(self, task_work, signal):
        """Set what the kernel takes on a way back to user code after its last event there, ns.

        ``task_work``: after a call that put something off; ``signal``: into a signal handler. None for both: it is
        sought, and all time until the next event is of the way back.
        """
        self.shared.ways_back[BACK_FROM_TASK_WORK] = WAY_BACK_SOUGHT if task_work is None else <uint32_t>task_work
        self.shared.ways_back[BACK_FROM_SIGNAL] = WAY_BACK_SOUGHT if signal is None else <uint32_t>signal

    @property
    def has_filters(self):
        """Whether a measured thread had a filter of its system calls (seccomp) when it left a processor."""
        return bool(self.shared.filtered)

    def take_snapshot(self, bint last, uint64_t ahead=30_000):
        """Announce a snapshot a little ahead, wait until its moment is past, and return that."""
        cdef uint64_t at = 0
        self.shared.told_at = self.last_snapshot
        while headway_clock() >= at: # again if we were away meanwhile: handlers may then have gone on past it
            at = headway_clock() + ahead
            self.shared.snapshot_at = at
            headway_fence()
            self.shared.last = last
            headway_fence()
            self.shared.snapshot += 1
            headway_fence()
        self.last_snapshot = at
        with nogil:
            # Handlers that read the clock before are done by then, but for those of a processor that the hypervisor took
            # away in their midst: it is busy until it comes back, and so not read.
            while headway_clock() < at + 20_000:
                pass
        return at

    @property
    def snapshot_words(self):
        """Addresses of the snapshot's moment (64 bits) and number (32 bits).

        A reader that announces snapshots itself writes both, as `take_snapshot` does.
        """
        return <uintptr_t>&self.shared.snapshot_at, <uintptr_t>&self.shared.snapshot

    def calm(self):
        """Wait until no handler is at work. The programs must be detached."""
        cdef int cpu, attempt
        for cpu in range(self.n_cpus):
            for attempt in range(MAX_ATTEMPTS):
                if not self.processors[cpu].busy:
                    break
                pause(attempt)
        pause(MAX_ATTEMPTS)
