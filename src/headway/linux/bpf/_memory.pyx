# cython: language_level=3, boundscheck=False, wraparound=False, embedsignature=True
"""Read the memory that is shared with the eBPF programs.

layout.h defines the layout; progress.bpf.c says who writes what. A reader takes a snapshot: everything that it gets is
as of one moment. It accepts a copy only if the law of conservation holds in it. Times are ns of CLOCK_MONOTONIC.
"""

from collections.abc import Mapping

from bpf_layout cimport (
    BACK_FROM_SIGNAL, BACK_FROM_TASK_WORK, COST_BITS, COUNT_BITS, ELSEWHERE, HELD_STILL_READY, HOLDER_THREAD,
    IRQ_DEVICE, N_CELLS, N_CONTEXT_NAMES, N_COUNTED, N_EVENTS, N_INTERRUPTS, N_LOSSES, N_NESTED, N_READY_PARTS,
    N_SAMPLED, N_STATES, N_TASK_NAMES, N_TIMED, OTHER_TASKS, OVERHEAD, POLL, READY, READY_PART, READY_WAKEUP, RUNNING,
    TAG, TAG_LENGTH, TASK_NAME_LENGTH, TASK_RECORD, THREAD_COUNTS, THREAD_HISTOGRAMS, THREAD_KERNEL, THREAD_NEW,
    THREAD_RAN, THREAD_UNSEEN, UNKNOWN, USER, VECTOR_BASE, WAY_BACK_SOUGHT, cell, control, processor,
    processor_counts, sample_count, tag_name, task_name, task_record, thread_counts, thread_record, thread_snapshot,
)
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t, uintptr_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcmp, memcpy, memset

from headway.linux.bpf.durations import KeptDurations
from headway.linux.bpf.rows import (
    EndedThread,
    LivingThread,
    OpenStack,
    OpenWait,
    RecordedThread,
    TaskKey,
    ThreadDepth,
    UnfinishedSpan,
    WrittenWords,
)
from headway.linux.bpf.states import NAMES
from headway.model import Cell, KernelClock, Kind, ModeCycles, Quality, TraceContext, kind_of

cdef extern from *:
    """
    #include <stddef.h>
    #include <stdint.h>
    #include <string.h>
    #include <unistd.h>
    #include <time.h>
    #include <sys/syscall.h>
    #define SNAPSHOT_HEAD offsetof(struct thread_snapshot, cells)
    #define TASK_HEAD offsetof(struct task_record, cells)
    static inline uint64_t headway_clock(void) {
        struct timespec t;
        clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
    }
    static inline void headway_fence(void) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
    """
    size_t SNAPSHOT_HEAD, TASK_HEAD
    uint64_t headway_clock() nogil
    void headway_fence() nogil

cdef uint64_t COUNT_MASK = (<uint64_t>1 << COUNT_BITS) - 1

cdef list names = list(NAMES)
"""State number -> name: those of the programs, and from `number_for` on those that only some sources have."""
cdef dict number_of_name = {}
cdef set polling = set()
"""Numbers of states in which status checks were made: they begin and end in the kernel, unlike marked regions."""
cdef list kinds = list(Kind)
cdef dict order = {kind: i for i, kind in enumerate(kinds)}
cdef uint8_t kind_index[65536]
cdef uint8_t on_processor[16]
for state_kind in kinds:
    on_processor[order[state_kind]] = state_kind.in_rpi
for state_number, state in enumerate(NAMES):
    kind_index[state_number] = order[kind_of(state)]


cdef uint16_t number_for(str name):
    """Return a number, beyond those that the programs use, for a name that only some sources have."""
    number = number_of_name.get(name)
    if number is None:
        if len(names) >= 65535:
            return UNKNOWN
        number = number_of_name[name] = len(names)
        names.append(name)
        kind_index[number] = order[kind_of(name)]
    return number


cdef uint16_t number_of(str name):
    """The number of a name: that of the programs if they have one."""
    return NAMES.index(name) if name in NAMES else number_for(name)


cdef class Counting:
    """The meaning of the counters' values: their number, and the figures of a cell that they make."""

    cdef object plan
    cdef readonly int n
    cdef int user_cycles, kernel_cycles
    """The places of the cycles in user mode and in kernel mode; -1: they are not counted apart."""
    cdef list scales

    def __init__(self, plan):
        self.plan = plan
        self.n = len(plan.events)
        self.user_cycles, self.kernel_cycles = plan.modes or (-1, -1)
        self.scales = [1.0] * self.n

    cdef bint tells_modes(self):
        """Return whether the cycles of both modes are counted, and were so all the time."""
        if self.user_cycles < 0 or self.kernel_cycles < 0:
            return False
        return self.scales[self.user_cycles] == self.scales[self.kernel_cycles] == 1.0

    cdef dict figures(self, uint16_t state, const uint64_t *values):
        """Return keyword arguments of `Cell`. Marked regions and the observer have times, but no counts."""
        cdef int k
        if state >= N_STATES and state not in polling or state == OVERHEAD:
            return self.plan.figures([None] * self.n)
        return self.plan.figures([
            values[k] if self.scales[k] == 1.0 else round(values[k] * self.scales[k]) for k in range(self.n)
        ])


cdef Counting counting_of_modes():
    """Return the meaning of counts that are cycles by mode only: first those in user mode, then those in kernel mode."""
    from headway.linux.perf.counters import CounterPlan

    cdef Counting found = Counting(CounterPlan(modes=(0, 1)))
    found.scales = [1.0, 1.0]
    return found


cdef inline bint is_ready(uint32_t state) noexcept:
    """Return whether the state is ready, or a part of it."""
    return state == READY or READY_PART <= state < READY_PART + N_READY_PARTS


cdef class Cells:
    """The states of a thread or a processor: a mapping from names to `headway.model.Cell`, which are made on demand."""

    cdef uint16_t *states
    cdef cell *cells
    cdef uint64_t *counts
    cdef Counting counting
    cdef sample_count *samples
    """Of the time that is not divided, in no order; NULL: there are none."""
    cdef int64_t undivided_overhead
    """The observer's time while time was not divided, ns; 0 where no events are counted."""
    cdef readonly int used
    cdef readonly bint settled
    """Whether an earlier reading had more of some state than there is now, see `less`."""
    cdef dict as_dict

    def __cinit__(self):
        self.states = NULL
        self.cells = NULL
        self.counts = NULL
        self.samples = NULL
        self.used = 0

    def __dealloc__(self):
        free(self.states)
        free(self.cells)
        free(self.counts)
        free(self.samples)

    cdef int reserve(self, int n, Counting counting=None) except -1:
        self.states = <uint16_t *>calloc(n + 1, sizeof(uint16_t))
        self.cells = <cell *>calloc(n + 1, sizeof(cell))
        if self.states == NULL or self.cells == NULL:
            raise MemoryError
        if counting is not None:
            self.counting = counting
            self.counts = <uint64_t *>calloc((n + 1) * N_COUNTED, sizeof(uint64_t))
            if self.counts == NULL:
                raise MemoryError
        return 0

    cdef void count(self, uint16_t state, const uint64_t *values) noexcept:
        """Add counts to a state that has a cell."""
        cdef int i = self.find(state), k
        if self.counts == NULL or i < 0:
            return
        for k in range(N_COUNTED):
            self.counts[i * N_COUNTED + k] += values[k]

    cdef void append(self, uint16_t state, uint64_t time, uint64_t count) noexcept:
        self.states[self.used] = state
        self.cells[self.used].time = time
        self.cells[self.used].count = count
        self.used += 1

    cdef int find(self, uint16_t state) noexcept:
        cdef int i
        for i in range(self.used):
            if self.states[i] == state:
                return i
        return -1

    cdef void put(self, uint16_t state, uint64_t time, uint64_t count) noexcept:
        """Add to a cell, which may be new (room for it was reserved)."""
        cdef int i = self.find(state)
        if i < 0:
            self.append(state, time, count)
        else:
            self.cells[i].time += time
            self.cells[i].count += count

    cdef void divide_ready(self, const thread_snapshot *s, uint64_t at) noexcept:
        """Divide the time ready into its parts (bpf/ready.h), for which room was reserved.

        ``at``: the moment until which the thread was still ready; 0: it was not. What no part has was not divided.
        """
        cdef uint64_t parts[N_READY_PARTS]
        cdef uint64_t counts[N_READY_PARTS]
        cdef uint64_t time = 0, count = 0
        cdef int i, ready = self.find(READY), most = READY_WAKEUP
        cdef bint opened = at and s.open_until == at and s.open_since == s.since
        for i in range(N_READY_PARTS):
            parts[i], counts[i] = s.ready_parts[i].time, s.ready_parts[i].count
            if opened:
                parts[i] += s.open_parts[i]
                if s.open_parts[i] > s.open_parts[most]:
                    most = i
        if opened:
            counts[most] += 1
        for i in range(N_READY_PARTS):
            time += parts[i]
            count += counts[i]
        if not time and not count or ready < 0 or time > self.cells[ready].time or count > self.cells[ready].count:
            return
        self.cells[ready].time -= time
        self.cells[ready].count -= count
        for i in range(N_READY_PARTS):
            if parts[i] or counts[i]:
                self.append(READY_PART + i, parts[i], counts[i])
        if not self.cells[ready].time and not self.cells[ready].count:
            self.remove(ready)

    cdef void remove(self, int place) noexcept:
        """Remove a cell. The last one takes its place."""
        cdef int k
        self.used -= 1
        self.states[place], self.cells[place] = self.states[self.used], self.cells[self.used]
        if self.counts != NULL:
            for k in range(N_COUNTED):
                self.counts[place * N_COUNTED + k] = self.counts[self.used * N_COUNTED + k]
                self.counts[self.used * N_COUNTED + k] = 0

    cdef int take_samples(self, const sample_count *samples) except -1:
        """Take the samples of a thread or of a processor, if there are any."""
        cdef int i
        for i in range(N_SAMPLED):
            if samples[i].count:
                break
        else:
            return 0
        self.samples = <sample_count *>malloc(N_SAMPLED * sizeof(sample_count))
        if self.samples == NULL:
            raise MemoryError
        memcpy(self.samples, samples, N_SAMPLED * sizeof(sample_count))
        return 0

    cdef int keep_samples_since(self, Cells later, Cells earlier) except -1:
        """Take the samples of a later reading less those of an earlier one. Each state keeps its place between them."""
        cdef int i
        if later.samples == NULL:
            return 0
        self.take_samples(later.samples)
        if earlier.samples != NULL:
            for i in range(N_SAMPLED):
                if earlier.samples[i].count <= self.samples[i].count:
                    self.samples[i].count -= earlier.samples[i].count
        return 0

    @property
    def undivided_time(self):
        """The time that is not divided, ns."""
        cdef int i = self.find(RUNNING)
        return self.cells[i].time if i >= 0 else 0

    @property
    def sample_counts(self):
        """How many samples were taken in each state, by the state's name."""
        cdef int i
        cdef dict found = {}
        if self.samples != NULL:
            for i in range(N_SAMPLED):
                if self.samples[i].count and self.samples[i].state < <uint32_t>len(names):
                    name = names[self.samples[i].state]
                    found[name] = found.get(name, 0) + self.samples[i].count
        return found

    @property
    def mode_cycles(self):
        """The cycles of the time that is not divided, by mode (`headway.model.ModeCycles`).

        None: they are not known. They were not counted, or not all the time, or a part of them is a marked region's:
        regions begin and end without a reading of the counters.
        """
        cdef int i, k = self.find(RUNNING)
        if k < 0 or self.counts == NULL or not self.counting.tells_modes():
            return None
        for i in range(self.used):
            if self.states[i] >= N_STATES and self.cells[i].time and self.states[i] not in polling:
                return None
        return ModeCycles(
            <int64_t>self.counts[k * N_COUNTED + self.counting.user_cycles],
            <int64_t>self.counts[k * N_COUNTED + self.counting.kernel_cycles],
            self.undivided_overhead,
        )

    @staticmethod
    def of(rows, samples=(), cycles=None):
        """Return cells of these states: (name, time in ns, count) each.

        ``samples``: how many there were, by state. ``cycles``: those of the time that is not divided, as `ModeCycles`.
        """
        cdef Cells result = Cells.__new__(Cells)
        cdef sample_count counts[N_SAMPLED]
        cdef uint64_t values[N_COUNTED]
        cdef int i
        rows = list(rows)
        result.reserve(len(rows), None if cycles is None else counting_of_modes())
        for name, time, count in rows:
            result.put(number_of(name), time, count)
        memset(counts, 0, sizeof(counts))
        for i, name in enumerate(list(samples)[:N_SAMPLED]):
            counts[i].state, counts[i].count = number_of(name), samples[name]
        result.take_samples(counts)
        if cycles is not None:
            memset(values, 0, sizeof(values))
            values[0], values[1] = <int64_t>cycles.user, <int64_t>cycles.kernel
            result.count(RUNNING, values)
            result.undivided_overhead = cycles.overhead
        return result

    cpdef Cells less(self, Cells earlier):
        """Return what came since an earlier reading of the same thread or processor.

        A hypervisor may take the processor from a handler after the handler has read its clock and before it charges.
        A reading in between assumes that the state goes on. When the handler charges, that state has less time than the
        reading said. The reading is not changed: here the state gets 0, and the state with the most time gets as much
        less. ``settled`` of the result says that this was done.

        The largest part of a time ready has its count. While the time goes on, another part may become the largest. The
        part that was told to have the count keeps it, and the other does not get it.
        """
        cdef Cells result = Cells.__new__(Cells)
        cdef uint64_t owed = 0, owed_count = 0
        cdef int i, j, k
        cdef uint64_t time, count
        result.reserve(self.used, self.counting)
        result.keep_samples_since(self, earlier)
        result.undivided_overhead = self.undivided_overhead - earlier.undivided_overhead
        for i in range(self.used):
            time, count = self.cells[i].time, self.cells[i].count
            j = i if i < earlier.used and earlier.states[i] == self.states[i] else earlier.find(self.states[i])
            if j >= 0:
                time -= earlier.cells[j].time
                count -= earlier.cells[j].count
            if time or count:
                result.append(self.states[i], time, count)
                if self.counts == NULL:
                    continue
                for k in range(N_COUNTED):
                    result.counts[(result.used - 1) * N_COUNTED + k] = self.counts[i * N_COUNTED + k]
                    if j >= 0 and earlier.counts != NULL:
                        result.counts[(result.used - 1) * N_COUNTED + k] -= earlier.counts[j * N_COUNTED + k]
        for j in range(earlier.used): # time ready that was not divided then, and is now
            if (earlier.cells[j].time or earlier.cells[j].count) and self.find(earlier.states[j]) < 0:
                owed += earlier.cells[j].time
                if is_ready(earlier.states[j]):
                    owed_count += earlier.cells[j].count
                result.settled = True
        for i in range(result.used):
            if <int64_t>result.cells[i].time < 0:
                owed -= result.cells[i].time
                result.cells[i].time = 0
                result.settled = True
            if <int64_t>result.cells[i].count < 0:
                if is_ready(result.states[i]):
                    owed_count -= result.cells[i].count
                result.cells[i].count = 0
                result.settled = True
        if owed_count:
            for i in range(result.used):
                if is_ready(result.states[i]):
                    count = min(owed_count, result.cells[i].count)
                    result.cells[i].count -= count
                    owed_count -= count
        while owed and (j := result.longest()) >= 0:
            time = min(owed, result.cells[j].time)
            result.cells[j].time -= time
            owed -= time
        return result

    cpdef Cells plus(self, Cells later):
        """Return the sum of an earlier reading and of what came since."""
        cdef Cells result = Cells.__new__(Cells)
        cdef int i, j, k
        result.reserve(self.used + later.used, self.counting)
        result.add_samples(self, later)
        result.undivided_overhead = self.undivided_overhead + later.undivided_overhead
        for i in range(self.used):
            result.append(self.states[i], self.cells[i].time, self.cells[i].count)
            if self.counts != NULL:
                result.count(self.states[i], self.counts + i * N_COUNTED)
        for i in range(later.used):
            result.put(later.states[i], later.cells[i].time, later.cells[i].count)
            if later.counts != NULL:
                result.count(later.states[i], later.counts + i * N_COUNTED)
        return result

    cdef int add_samples(self, Cells earlier, Cells later) except -1:
        """Take the samples of a reading and of what came since together."""
        cdef int i
        if later.samples == NULL:
            return 0 if earlier.samples == NULL else self.take_samples(earlier.samples)
        self.take_samples(later.samples)
        if earlier.samples != NULL and self.samples != NULL:
            for i in range(N_SAMPLED):
                self.samples[i].state = later.samples[i].state or earlier.samples[i].state
                self.samples[i].count += earlier.samples[i].count
        elif earlier.samples != NULL:
            self.take_samples(earlier.samples)
        return 0

    cdef int longest(self) noexcept:
        """Return the place of the state with the most time; -1: none has any."""
        cdef int i, found = -1
        for i in range(self.used):
            if self.cells[i].time and (found < 0 or self.cells[i].time > self.cells[found].time):
                found = i
        return found

    cdef uint64_t sum(self) noexcept:
        cdef uint64_t total = 0
        cdef int i
        for i in range(self.used):
            total += self.cells[i].time
        return total

    @property
    def total(self):
        """The times of all states together, ns."""
        return self.sum()

    @property
    def time_by_kind(self):
        """Time of each kind, ns (`headway.model.time_by_kind`)."""
        cdef uint64_t times[16]
        cdef int i
        memset(times, 0, sizeof(times))
        for i in range(self.used):
            times[kind_index[self.states[i]]] += self.cells[i].time
        return {kinds[i]: <int64_t>times[i] for i in range(len(kinds))}

    @property
    def interrupt_time(self):
        """Time in interrupts and soft interrupts, ns (`headway.model.interrupt_time`)."""
        cdef uint64_t total = 0
        cdef int i
        for i in range(self.used):
            if IRQ_DEVICE <= self.states[i] < IRQ_DEVICE + N_INTERRUPTS:
                total += self.cells[i].time
        return total

    @property
    def listed(self):
        """Name, occurrences and time of each state (`headway.model.listed`)."""
        cdef int i
        cdef dict found = {}
        for i in range(self.used):
            name = names[self.states[i]]
            count, time = <int64_t>self.cells[i].count, <int64_t>self.cells[i].time
            old = found.get(name)
            found[name] = (name, count, time) if old is None else (name, old[1] + count, old[2] + time)
        return list(found.values())

    cdef dict build(self):
        cdef int i
        cdef dict found = {}
        for i in range(self.used):
            if self.counts == NULL:
                new = Cell(<int64_t>self.cells[i].time, <int64_t>self.cells[i].count)
            else:
                figures = self.counting.figures(self.states[i], self.counts + i * N_COUNTED)
                new = Cell(<int64_t>self.cells[i].time, <int64_t>self.cells[i].count, **figures)
            name = names[self.states[i]]
            old = found.get(name)
            found[name] = new if old is None else old + new
        return found

    cdef dict expand(self):
        if self.as_dict is None:
            self.as_dict = self.build()
        return self.as_dict

    cdef dict passing(self):
        """Return the cells for one pass, as most threads see only one: the objects are not kept."""
        return self.build() if self.as_dict is None else self.as_dict

    def __getitem__(self, state):
        return self.expand()[state]

    def __iter__(self):
        return iter(self.expand())

    def __len__(self):
        return len(self.expand())

    def __contains__(self, state):
        return state in self.expand()

    def get(self, state, default=None):
        """The state's cell, or the default."""
        return self.expand().get(state, default)

    def keys(self):
        """The states' names."""
        return self.passing().keys()

    def values(self):
        """The cells."""
        return self.passing().values()

    def items(self):
        """States' names and cells."""
        return self.passing().items()

    def __eq__(self, other):
        return dict(self.items()) == dict(other.items()) if isinstance(other, (Cells, dict)) else NotImplemented

    def __repr__(self):
        return f"Cells({self.expand()!r})"


Mapping.register(Cells)


cdef uint32_t fixed_point(double cost):
    """Return a cost in the programs' unit. A system call is so short that half a nanosecond matters."""
    return <uint32_t>min(max(0.0, cost * (1 << COST_BITS) + 0.5), 0xffff_ffff)


cdef object name_of(const char *name):
    cdef int n = 0
    while n < 15 and name[n]:
        n += 1
    return name[:n].decode("utf-8", "backslashreplace")


cdef object new_tuple = tuple.__new__


cdef inline object row_of(kind, tuple fields):
    """Return a named tuple. This is four times as fast as a call of its class, and there is one for each thread."""
    return new_tuple(kind, fields)


cdef object NOT_UP_TO_DATE = KernelClock(None, Quality.UNAVAILABLE)
"""The clock of a thread that runs: it lags behind until the thread leaves its processor."""


cdef object kernel_clock_of(uint64_t runtime, uint16_t flags):
    """Return the kernel's clock of a thread that is off the processor, since its measurement began."""
    return KernelClock(runtime, Quality.BOUND if flags & THREAD_RAN else Quality.EXACT)


cdef class ThreadRow:
    """What a thread did, as of a snapshot or of its end."""

    cdef readonly uint32_t tid, pid
    cdef readonly str name
    cdef readonly uint64_t birth
    cdef readonly uint64_t end
    """0: the thread lives."""
    cdef readonly object kernel_clock
    cdef readonly Cells cells
    cdef readonly tuple tasks
    """What it did for its tasks, which is a part of ``cells``: (`rows.TaskKey`, changes, Cells, undated, context) each.

    undated: ns of spans in which it began to work on the task, at a moment that is not known. context: of the last time
    that it did (`model.TraceContext`); None: it was in none.
    """
    cdef readonly object durations
    """How long its single occurrences of each state lasted (`KeptDurations`); None: that is not kept."""


cdef object trace_context_of(const task_record *task):
    """Return the trace context in which a thread began to work on a task last; None: it was in none."""
    cdef const uint8_t *trace = <const uint8_t *>task.trace_id
    cdef const uint8_t *span = <const uint8_t *>&task.span_id
    if not (task.trace_id[0] or task.trace_id[1]):
        return None
    return TraceContext(int.from_bytes(trace[:sizeof(task.trace_id)], "big"), int.from_bytes(span[:sizeof(task.span_id)], "big"), task.began)


cdef ThreadRow thread_row(const thread_snapshot *s, uint64_t end, kernel_clock, Cells cells, list tasks, durations):
    cdef ThreadRow row = ThreadRow.__new__(ThreadRow)
    row.tid, row.pid, row.name = s.tid, s.pid, name_of(s.name)
    row.birth, row.end = s.birth, end
    row.kernel_clock = kernel_clock
    row.cells = cells
    row.tasks = tuple(tasks)
    row.durations = durations
    return row


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

    def take(self, uint64_t until, BpfMaps memory):
        """Return the threads that ended before this moment and were not taken yet: a list of `ThreadRow`."""
        cdef size_t at = 0, keep = 0, size
        cdef thread_snapshot *r
        cdef Cells cells
        cdef int i
        cdef bytes counted
        cdef const uint64_t *values
        cdef list rows = []
        while at < self.length:
            r = <thread_snapshot *>(self.data + at)
            size = SNAPSHOT_HEAD + r.used * sizeof(cell)
            if r.end < until:
                cells = Cells.__new__(Cells)
                cells.reserve(r.used + 1 + N_READY_PARTS, memory.counting)
                counted = self.counts.pop((r.tid, r.birth), b"")
                for i in range(r.used):
                    memory.put(cells, r.cells[i].count >> COUNT_BITS, r.cells[i].time, r.cells[i].count & COUNT_MASK)
                for i in range(min(r.used, <int>(len(counted) // (N_COUNTED * sizeof(uint64_t))))):
                    values = <const uint64_t *><const char *>counted
                    cells.count(memory.state_of(r.cells[i].count >> COUNT_BITS), values + i * N_COUNTED)
                if r.overhead:
                    cells.put(OVERHEAD, r.overhead, 0)
                cells.divide_ready(r, 0)
                cells.take_samples(r.samples)
                memory.number_samples(cells)
                cells.undivided_overhead = r.undivided_overhead
                tasks = [
                    memory.task_row(<task_record *><const char *>task, r)
                    for task in (self.tasks.pop((r.number, r.birth), ()) if r.other_tasks else ())
                ]
                kept = None
                if self.durations is not None:
                    packed = self.histograms.pop((r.tid, r.birth), b"")
                    kept = KeptDurations(packed, memory.counts_of(r.cells, r.used), (), self.durations.parts)
                rows.append(thread_row(r, r.end, kernel_clock_of(r.runtime, r.flags), cells, tasks, kept))
            else:
                if keep != at:
                    memmove_(self.data + keep, self.data + at, size)
                keep += size
            at += size
        self.length = keep
        return rows

    cdef void add_counts(self, thread_counts *counts, size_t size) noexcept:
        cdef size_t head = <char *>&counts.cells[0] - <char *>counts
        if size < head or counts.used > N_CELLS or size < head + counts.used * sizeof(counts.cells[0]):
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
                self.news.append(row_of(EndedThread, (r.number, r.tid, r.pid, name_of(r.name), r.birth, r.end)))
        return 0


cdef extern from "string.h":
    void *memmove_ "memmove" (void *to, const void *source, size_t size) nogil


cdef int take_exit(void *context, void *data, size_t size) noexcept nogil:
    return (<Exits>context).add(data, size)


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


cdef class BpfMaps:
    """The maps of the eBPF programs, and the ways to read them.

    ``maps``: writable buffers over `processors`, `saved_processors`, `thread_records`, `saved_threads`, `control` and
    `tag_names`.
    ``polls``: the names of the states of polling, in the order of their numbers; ``functions``: of marked functions.
    """

    cdef object buffers
    cdef char *processors
    cdef char *saved_processors
    cdef char *thread_records
    cdef char *saved_threads
    cdef control *shared
    cdef tag_name *tags
    cdef Counting counting
    cdef char *thread_counts
    cdef char *saved_thread_counts
    cdef char *processor_counts
    cdef char *saved_processor_counts
    cdef char *task_records
    cdef char *saved_task_records
    cdef task_name *task_names
    cdef uint32_t max_task_records
    cdef readonly object durations
    """The histograms of durations (`DurationMaps`); None: they are not kept."""
    cdef uint16_t numbers[N_STATES]
    """State number from POLL on -> our number; 0: not known yet."""
    cdef tuple polls, functions
    cdef int n_cpus
    cdef uint32_t max_thread_records
    cdef size_t processor_stride, thread_record_stride, snapshot_stride
    cdef uint64_t started, last_snapshot
    cdef readonly int torn
    """Readings in which a thread's or a processor's times did not add up, even after waiting: 0 unless there is a bug."""

    def __cinit__(
        self,
        tuple maps,
        int n_cpus,
        uint32_t max_thread_records,
        polls=(),
        functions=(),
        plan=None,
        counts=(),
        tasks=(),
        uint32_t max_task_records=0,
        durations=None,
    ):
        self.buffers = maps
        self.durations = durations
        self.polls = tuple(polls)
        self.functions = tuple(functions)
        processors, saved_processors, thread_records, saved_threads, control_, tags = maps
        cdef unsigned char[::1] view
        view = processors
        self.processors = <char *>&view[0]
        view = saved_processors
        self.saved_processors = <char *>&view[0]
        view = thread_records
        self.thread_records = <char *>&view[0]
        view = saved_threads
        self.saved_threads = <char *>&view[0]
        view = control_
        self.shared = <control *>&view[0]
        view = tags
        self.tags = <tag_name *>&view[0]
        memset(self.numbers, 0, sizeof(self.numbers))
        self.counting = None
        if plan is not None and plan.events:
            self.counting = Counting(plan)
            self.buffers = (*maps, *counts)
            thread_counts, saved_thread_counts, processor_counts, saved_processor_counts = counts
            view = thread_counts
            self.thread_counts = <char *>&view[0]
            view = saved_thread_counts
            self.saved_thread_counts = <char *>&view[0]
            view = processor_counts
            self.processor_counts = <char *>&view[0]
            view = saved_processor_counts
            self.saved_processor_counts = <char *>&view[0]
        self.max_task_records = max_task_records
        if max_task_records:
            self.buffers = (*self.buffers, *tasks)
            task_records, saved_task_records, task_names = tasks
            view = task_records
            self.task_records = <char *>&view[0]
            view = saved_task_records
            self.saved_task_records = <char *>&view[0]
            view = task_names
            self.task_names = <task_name *>&view[0]
        cdef int i
        for i, name in enumerate((OTHER_TAG, *functions)):
            encoded = name.encode()[:TAG_LENGTH - 1]
            memcpy(self.tags[i].name, <const char *>encoded, len(encoded))
        self.n_cpus = n_cpus
        self.max_thread_records = max_thread_records
        self.processor_stride = PROCESSOR_SIZE
        self.thread_record_stride = THREAD_RECORD_SIZE
        self.snapshot_stride = THREAD_SNAPSHOT_SIZE

    cdef uint16_t state_of(self, uint64_t state):
        """Return our number of a state of the programs."""
        cdef const char *name
        if state < <uint64_t>POLL:
            return <uint16_t>state
        if state >= <uint64_t>N_STATES:
            return UNKNOWN
        if not self.numbers[state - POLL]:
            if state < <uint64_t>TAG:
                given = self.polls[state - POLL] if state - POLL < <uint64_t>len(self.polls) else "poll"
            elif 0 < state - TAG <= <uint64_t>len(self.functions):
                given = self.functions[state - TAG - 1]
            else:
                name = self.tags[state - TAG].name
                given = tag_state(name[:TAG_LENGTH])
            self.numbers[state - POLL] = number_for(given)
            if state < <uint64_t>TAG:
                polling.add(self.numbers[state - POLL])
        return self.numbers[state - POLL]

    cdef int number_samples(self, Cells cells) except -1:
        """Give the samples of a reading our numbers of their states."""
        cdef int i
        if cells.samples != NULL:
            for i in range(N_SAMPLED):
                if cells.samples[i].count:
                    cells.samples[i].state = self.state_of(cells.samples[i].state)
        return 0

    cdef tuple counts_of(self, const cell *cells, int used):
        """Return the name of each cell's state, and how often that occurred and ended."""
        cdef int i
        return tuple([
            (names[self.state_of(cells[i].count >> COUNT_BITS)], cells[i].count & COUNT_MASK) for i in range(used)
        ])

    cdef bint has_moved(self, thread_snapshot *live, const thread_snapshot *copy, int used, bint has_saved,
                        thread_snapshot *saved) noexcept:
        """Return whether a thread has changed since this copy of its record was made."""
        headway_fence()
        if has_saved and saved.snapshot == self.shared.snapshot:
            return True
        return live.birth != copy.birth or min(live.used, N_CELLS) != used or memcmp(
            live.cells, copy.cells, used * sizeof(cell)) != 0

    def state_name(self, uint64_t state):
        """Return the name of a state of the programs."""
        return names[self.state_of(state)]

    cdef int put(self, Cells cells, uint64_t state, uint64_t time, uint64_t count) except -1:
        """Add a cell, for which room was reserved; only states that have names of their own can be there already."""
        if state < <uint64_t>POLL:
            cells.append(<uint16_t>state, time, count)
        else:
            cells.put(self.state_of(state), time, count)
        return 0

    def set_costs(self, before, after):
        """Set the observer's cost of each kind of event (`layout.EVENTS`), ns.

        ``before``: the part before the handler reads its clock; ``after``: the part from then on.
        """
        cdef int i
        for i in range(N_EVENTS):
            self.shared.before[i] = fixed_point(before[i])
            self.shared.after[i] = fixed_point(after[i])

    def timed_runs(self):
        """Return the time in runs of handlers that were timed, ns, and the number of these runs, by `layout.TIMED`."""
        cdef int cpu, which
        cdef list found = []
        for which in range(N_TIMED):
            time = runs = 0
            for cpu in range(self.n_cpus):
                time += self.processor_at(cpu).timed[which].time
                runs += self.processor_at(cpu).timed[which].runs
            found.append((time, runs))
        return found

    def passed(self):
        """Return how many beginnings and ends of calls, and how many switches there were of threads not measured."""
        cdef int cpu
        calls = switches = 0
        for cpu in range(self.n_cpus):
            calls += self.processor_at(cpu).passed_calls
            switches += self.processor_at(cpu).passed_switches
        return calls, switches

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

    def mark(self, uint32_t tid, uint64_t address):
        """Tell the programs the address of a thread's block of marked regions, unless the thread has done so itself."""
        cdef uint32_t number
        cdef thread_record *s
        for number in range(1, min(self.shared.thread_records, self.max_thread_records - 1) + 1):
            s = <thread_record *>(self.thread_records + number * self.thread_record_stride)
            if s.birth and s.tid == tid and not s.block:
                s.block = address

    def give_log(self, uint32_t tid, uint64_t address):
        """Tell the programs the address of a thread's log of tasks, unless the thread has done so itself."""
        cdef uint32_t number
        cdef thread_record *s
        for number in range(1, min(self.shared.thread_records, self.max_thread_records - 1) + 1):
            s = <thread_record *>(self.thread_records + number * self.thread_record_stride)
            if s.birth and s.tid == tid and not s.task_log:
                s.task_log = address

    def without_log(self):
        """Return the living threads for which no log of tasks is known: `rows.LivingThread` each."""
        cdef uint32_t number
        cdef thread_record *s
        cdef list found = []
        for number in range(1, min(self.shared.thread_records, self.max_thread_records - 1) + 1):
            s = <thread_record *>(self.thread_records + number * self.thread_record_stride)
            if s.birth and not s.task_log and not s.flags & THREAD_KERNEL:
                found.append(row_of(LivingThread, (s.tid, s.pid, s.birth)))
        return found

    def give_context(self, uint32_t pid, int64_t offset, uint32_t module, int vector, uint8_t entry, bytes names):
        """Tell the programs where the threads of a process have their pointer to a thread context.

        ``offset``: of the pointer, from the thread pointer, or within the memory of a module if ``module`` is not 0;
        then ``vector`` is where the vector of modules is, and ``entry`` the logarithm of its entries' size in bytes.
        ``names``: the key indexes of the attributes that name a task, N_CONTEXT_NAMES at most.
        """
        cdef uint32_t number
        cdef thread_record *s
        cdef int i
        if len(names) > N_CONTEXT_NAMES or not -VECTOR_BASE <= vector < VECTOR_BASE:
            raise ValueError("this access has no room in a thread record")
        for number in range(1, min(self.shared.thread_records, self.max_thread_records - 1) + 1):
            s = <thread_record *>(self.thread_records + number * self.thread_record_stride)
            if not s.birth or s.pid != pid or s.flags & THREAD_KERNEL:
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
        cdef uint32_t number
        cdef thread_record *s
        cdef dict found = {}
        for number in range(1, min(self.shared.thread_records, self.max_thread_records - 1) + 1):
            s = <thread_record *>(self.thread_records + number * self.thread_record_stride)
            if not s.birth or s.flags & THREAD_KERNEL or s.task_log:
                continue
            if s.context.announced:
                s.context.announced = 0
                found[s.pid] = True
            elif not s.context.known:
                found.setdefault(s.pid, False)
        return found

    @property
    def has_filters(self):
        """Whether a measured thread had a filter of its system calls (seccomp) when it left a processor."""
        return bool(self.shared.filtered)

    @property
    def undated(self):
        """The time of spans of user code in which a thread context changed at a moment that is not known, ns."""
        cdef int cpu
        cdef uint64_t time = 0
        for cpu in range(self.n_cpus):
            time += self.processor_at(cpu).undated
        return time

    cdef str task_name_of(self, uint32_t number):
        """Return the name of tasks that has this number; empty: there is none."""
        cdef const char *name
        if not 0 < number < <uint32_t>N_TASK_NAMES:
            return ""
        name = self.task_names[number].name
        return name[:TASK_NAME_LENGTH].partition(b"\0")[0].decode("utf-8", "replace")

    def task_name(self, uint32_t number):
        """Return the name of tasks that has this number on the rings; empty: none, None: those without room."""
        return None if number == <uint32_t>N_TASK_NAMES else self.task_name_of(number)

    cdef tuple task_row(self, const task_record *task, const thread_snapshot *thread):
        """Return what a thread did for a task: its cells are those of the thread, one by one. Closed spans only."""
        cdef Cells cells = Cells.__new__(Cells)
        cdef int i
        other = task.key.name == OTHER_TASKS
        # A processor may take time of a state that was charged before the task changed: `model.tasks` puts that right.
        cells.reserve(thread.used + N_NESTED + N_INTERRUPTS + 3)
        for i in range(min(thread.used, N_CELLS)):
            if task.cells[i].time or task.cells[i].count:
                self.put(cells, thread.cells[i].count >> COUNT_BITS, task.cells[i].time, task.cells[i].count)
        if task.overhead:
            cells.put(OVERHEAD, task.overhead, 0)
        key = row_of(TaskKey, (self.task_name_of(task.name), 0 if other else task.key.task, other))
        return key, task.changes, cells, task.undated, trace_context_of(task)

    cdef list read_tasks(self, uint32_t number, const thread_snapshot *thread, uint64_t at):
        """Return the tasks of a thread as of the snapshot, and the number of each one's record: what `task_row` returns."""
        cdef uint32_t i
        cdef task_record *live
        cdef task_record *saved
        cdef task_record *task
        cdef list found = []
        for i in range(1, self.max_task_records):
            live = <task_record *>(self.task_records + i * sizeof(task_record))
            task = live
            if not self.shared.last:
                saved = <task_record *>(self.saved_task_records + i * sizeof(task_record))
                if saved.snapshot == self.shared.snapshot:
                    task = saved
            if task.kind != TASK_RECORD or not task.opened or task.opened >= at:
                continue
            if task.key.thread_record == number and task.key.birth == thread.birth:
                found.append((i, self.task_row(task, thread)))
        return found

    cdef processor *processor_at(self, int cpu) noexcept:
        return <processor *>(self.processors + cpu * self.processor_stride)

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
            p = self.processor_at(cpu)
            p.state = UNKNOWN
            p.thread_record = THREAD_UNSEEN
            p.selected = cpus is None or cpu in cpus
            p.undivided = self.shared.level & 1
        headway_fence()
        for cpu in range(self.n_cpus):
            self.processor_at(cpu).since = at
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
            p = self.processor_at(cpu)
            if p.thread_record == 0:
                p.thread_record = THREAD_UNSEEN

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
        for number in range(1, self.thread_records_used()):
            (<thread_record *>(self.thread_records + number * self.thread_record_stride)).deep = 1
        headway_fence()

    def depths(self):
        """Return the measured threads that have not ended, and how deep each is: a list of `rows.ThreadDepth`."""
        cdef uint32_t number
        cdef thread_record *s
        cdef list rows = []
        for number in range(1, self.thread_records_used()):
            s = <thread_record *>(self.thread_records + number * self.thread_record_stride)
            if s.birth:
                rows.append(row_of(ThreadDepth, (number, s.tid, s.pid, s.birth, s.deep)))
        return rows

    def set_depths(self, changes):
        """Change how deep threads are: thread record -> `layout.DEPTHS`, 0: not deep. It holds from a moment just ahead on.

        That is a snapshot, and past on return. The programs that see calls must be attached.
        """
        cdef uint32_t number
        self.shared.level = <uint64_t>(self.shared.snapshot + 1) << 1
        headway_fence()
        for number, deep in changes.items():
            if 0 < number < self.max_thread_records:
                (<thread_record *>(self.thread_records + number * self.thread_record_stride)).deep = deep
        headway_fence()
        return self.take_snapshot(False)

    def activity(self):
        """Return how many events of each kind (`layout.EVENTS`) there were, and the processor time of what is measured, ns."""
        cdef int cpu, i
        cdef uint64_t busy = 0
        cdef processor *p
        cdef list occurred = [0] * N_EVENTS
        for cpu in range(self.n_cpus):
            p = self.processor_at(cpu)
            for i in range(N_EVENTS):
                occurred[i] += p.occurred[i]
            for i in range(N_STATES):
                if i >= POLL or i == OVERHEAD or on_processor[kind_index[i]]:
                    busy += p.cells[i].time
        return occurred, busy

    def reset(self):
        """Stop the clock on every processor and forget what they did; `begin` starts it again.

        Threads must not be open: they would be charged for the time in between.
        """
        cdef int cpu
        cdef uint64_t until
        for cpu in range(self.n_cpus):
            self.processor_at(cpu).since = 0
        until = headway_clock() + 100_000 # handlers at work are done by then
        with nogil:
            while headway_clock() < until:
                pass
        for cpu in range(self.n_cpus):
            memset(self.processors + cpu * self.processor_stride, 0, self.processor_stride)
            if self.counting is not None:
                memset(self.processor_counts + cpu * PROCESSOR_COUNTS_SIZE, 0, PROCESSOR_COUNTS_SIZE)

    def is_measured(self, uint32_t pid):
        """Return whether a thread of this process is measured and has not yet left a processor for the last time."""
        cdef uint32_t number
        cdef thread_record *s
        for number in range(1, min(self.shared.thread_records, self.max_thread_records - 1) + 1):
            s = <thread_record *>(self.thread_records + number * self.thread_record_stride)
            if s.birth and s.pid == pid:
                return True
        return False

    def measure_only(self, uint32_t pid):
        """Select only this process from now on; 0: as the settings say."""
        self.shared.only = pid

    def measure_command(self, uint32_t tid):
        """Measure this process of ours from the moment it executes a program."""
        self.shared.command = tid

    def now(self):
        """The programs' clock, ns."""
        return headway_clock()

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

    def losses(self):
        """Return what the processors lost (in the order of layout.h) and how many events there were, as of the snapshot."""
        cdef int cpu, i
        cdef processor *p
        cdef processor *saved
        cdef list lost = [0] * N_LOSSES
        events = 0
        for cpu in range(self.n_cpus):
            p = self.processor_at(cpu)
            if not self.shared.last:
                saved = <processor *>(self.saved_processors + cpu * self.processor_stride)
                if saved.snapshot == self.shared.snapshot:
                    p = saved
            events += p.events
            for i in range(N_LOSSES):
                lost[i] += p.losses[i]
        return lost, events

    cdef bint undivided(self, processor *p, uint64_t at) noexcept:
        """Return whether a span of user code lies across the snapshot, of which marked regions may have an unknown part."""
        cdef thread_record *s
        if not 0 < p.thread_record < self.max_thread_records or p.since >= at:
            return False
        if p.state != USER and p.state < TAG:
            return False
        s = <thread_record *>(self.thread_records + p.thread_record * self.thread_record_stride)
        return s.block != 0 or s.task_log != 0 or s.context.known != 0

    def counted(self):
        """Return for how long each event was enabled and counted on all processors, ns. Later readings are scaled by this."""
        cdef processor_counts *counts
        cdef int cpu, k
        if self.counting is None:
            return []
        times = [[0, 0] for _ in range(self.counting.n)]
        for cpu in range(self.n_cpus):
            counts = <processor_counts *>(self.processor_counts + cpu * PROCESSOR_COUNTS_SIZE)
            for k in range(self.counting.n):
                times[k][0] += counts.enabled[k]
                times[k][1] += counts.running[k]
        self.counting.scales = [enabled / running if running else 1.0 for enabled, running in times]
        return times

    @property
    def tells_modes(self):
        """Whether the cycles of user and kernel mode were counted all the time, as of the last call of `counted`."""
        return self.counting is not None and self.counting.tells_modes()

    def unmarked(self):
        """Return the living threads for which no block of marked regions is known: `rows.LivingThread` each."""
        cdef uint32_t number
        cdef thread_record *s
        cdef list found = []
        for number in range(1, min(self.shared.thread_records, self.max_thread_records - 1) + 1):
            s = <thread_record *>(self.thread_records + number * self.thread_record_stride)
            if s.birth and not s.block and not s.flags & THREAD_KERNEL:
                found.append(row_of(LivingThread, (s.tid, s.pid, s.birth)))
        return found

    def times_of(self, uint32_t tid):
        """Return the times of a thread that is off the processor: state -> ns."""
        cdef uint32_t number
        cdef thread_snapshot *s
        cdef int i
        for number in range(1, min(self.shared.thread_records, self.max_thread_records - 1) + 1):
            s = <thread_snapshot *>(self.thread_records + number * self.thread_record_stride)
            if s.birth and s.tid == tid:
                return {self.state_name(s.cells[i].count >> COUNT_BITS): s.cells[i].time for i in range(min(s.used, N_CELLS))}
        return {}

    def read_processors(self, uint64_t at):
        """Return every processor as of the snapshot: cpu -> Cells, whose times add up to the time since `begin`."""
        cdef int cpu
        return {cpu: self.read_processor(cpu, at) for cpu in range(self.n_cpus)}

    cdef Cells read_processor(self, int cpu, uint64_t at):
        cdef processor *live = self.processor_at(cpu)
        cdef processor *saved = <processor *>(self.saved_processors + cpu * self.processor_stride)
        cdef bint has_saved = not self.shared.last
        cdef processor *copy = <processor *>malloc(self.processor_stride)
        cdef Cells cells = Cells.__new__(Cells)
        cdef processor_counts *counts
        cdef bint from_saved = False
        cdef int attempt, i
        cdef uint64_t deferred
        cells.reserve(N_STATES + 1, self.counting)
        try:
            if copy == NULL:
                raise MemoryError
            for attempt in range(MAX_ATTEMPTS):
                from_saved = has_saved and saved.snapshot == self.shared.snapshot
                if from_saved:
                    memcpy(copy, saved, self.processor_stride)
                else:
                    if live.busy: # the handler may still move time between states: see `take_snapshot`
                        pause(attempt)
                        continue
                    headway_fence()
                    memcpy(copy, live, self.processor_stride)
                    headway_fence()
                    if has_saved and saved.snapshot == self.shared.snapshot:
                        continue
                    if self.undivided(copy, at):
                        wait_for(cpu, attempt)
                        continue
                cells.used = 0
                for i in range(N_STATES):
                    if copy.cells[i].time or copy.cells[i].count:
                        self.put(cells, i, copy.cells[i].time, copy.cells[i].count)
                if cells.sum() == copy.since - self.started and copy.since <= at:
                    break
                pause(attempt)
            else:
                self.torn += 1
            deferred = 0
            if copy.deferred_total != copy.absorbed_total and copy.deferred_since <= at:
                for i in range(N_INTERRUPTS):
                    if copy.deferred[i].time != copy.absorbed[i].time:
                        cells.put(IRQ_DEVICE + i, copy.deferred[i].time - copy.absorbed[i].time,
                                  copy.deferred[i].count - copy.absorbed[i].count)
                        deferred += copy.deferred[i].time - copy.absorbed[i].time
            if self.counting is not None:
                counts = <processor_counts *>((self.saved_processor_counts if from_saved else self.processor_counts)
                                              + cpu * PROCESSOR_COUNTS_SIZE)
                for i in range(N_STATES):
                    if copy.cells[i].time or copy.cells[i].count:
                        cells.count(self.state_of(i), <const uint64_t *>counts.cells[i])
            cells.take_samples(copy.samples)
            self.number_samples(cells)
            cells.undivided_overhead = copy.undivided_overhead
            cells.put(self.state_of(copy.state), at - copy.since - deferred, 0) # open; a processor counts a state at its end
            return cells
        finally:
            free(copy)

    def read_threads(self, uint64_t at):
        """Return every living thread as of the snapshot: a list of `ThreadRow`."""
        cdef uint32_t number
        cdef uint32_t used = min(self.shared.thread_records, self.max_thread_records - 1)
        cdef list rows = []
        for number in range(1, used + 1):
            row = self.read_thread(number, at)
            if row is not None:
                rows.append(row)
        return rows

    # ---- transitions ----

    def written(self):
        """Return how many words each processor has written to its two rings: a list of `rows.WrittenWords`."""
        cdef int cpu
        cdef processor *p
        cdef list found = []
        for cpu in range(self.n_cpus):
            p = self.processor_at(cpu)
            found.append(row_of(WrittenWords, (p.written, p.written_absences)))
        headway_fence()
        return found

    @property
    def unwritten(self):
        """Number of transitions that did not fit the rings so far."""
        cdef int cpu
        cdef uint64_t lost = 0
        for cpu in range(self.n_cpus):
            lost += self.processor_at(cpu).lost_spans + self.processor_at(cpu).lost_absences
        return lost

    def hand_out_thread_records(self):
        """Have the programs use only the list of free thread records. Call this before they are attached."""
        self.shared.thread_records = self.max_thread_records - 1

    def thread_records_used(self):
        """Return 1 + the highest thread record that was ever used. They are numbered from 1."""
        return min(self.shared.thread_records, self.max_thread_records - 1) + 1

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
            s = <thread_record *>(self.thread_records + number * self.thread_record_stride)
            if s.flags & THREAD_NEW:
                continue
            headway_fence()
            birth = s.birth
            if not birth:
                continue
            headway_fence()
            cpu = <int>s.cpu - 1
            name = name_of(s.name)
            if 0 <= cpu < self.n_cpus:
                p = self.processor_at(cpu)
                row = row_of(RecordedThread, (number, s.tid, s.pid, name, birth, cpu, p.state, p.since))
            else:
                row = row_of(RecordedThread, (number, s.tid, s.pid, name, birth, -1, s.state, s.since))
            headway_fence()
            if s.birth == birth and not s.flags & THREAD_NEW:
                found.append(row)
        return found

    def calm(self):
        """Wait until no handler is at work. The programs must be detached."""
        cdef int cpu, attempt
        for cpu in range(self.n_cpus):
            for attempt in range(MAX_ATTEMPTS):
                if not self.processor_at(cpu).busy:
                    break
                pause(attempt)
        pause(MAX_ATTEMPTS)

    def unfinished(self, uint64_t at, cpus):
        """Return the open spans at the last snapshot: a list of `rows.UnfinishedSpan`.

        `read_threads` and `read_processors` (of these processors) add the same. The programs must be detached. Time that
        was charged beyond the snapshot is taken back.
        """
        cdef uint32_t number
        cdef int cpu, i
        cdef processor *p
        cdef thread_record *s
        cdef uint64_t since, time, entries
        cdef list rows = []
        for cpu in cpus:
            p = self.processor_at(cpu)
            number = 0
            if 0 < p.thread_record < self.max_thread_records:
                s = <thread_record *>(self.thread_records + p.thread_record * self.thread_record_stride)
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
        for number in range(1, self.thread_records_used()):
            s = <thread_record *>(self.thread_records + number * self.thread_record_stride)
            if s.birth == 0 or s.birth >= at or s.flags & THREAD_NEW or s.cpu:
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

    def open_waits(self):
        """Return what threads wait for now: a list of `rows.OpenWait`.

        The list includes threads that are ready, with the cause HELD_STILL_READY.
        """
        cdef uint32_t number
        cdef thread_record *s
        cdef list rows = []
        for number in range(1, min(self.shared.thread_records, self.max_thread_records - 1) + 1):
            s = <thread_record *>(self.thread_records + number * self.thread_record_stride)
            if not s.birth or s.cpu or s.flags & THREAD_NEW or not (s.object_kind or s.state == READY):
                continue
            if s.state == READY:
                row = row_of(OpenWait, (s.tid, s.pid, s.birth, s.since, s.state, HOLDER_THREAD, HELD_STILL_READY))
            else:
                row = row_of(OpenWait, (s.tid, s.pid, s.birth, s.since, s.state, s.object_kind, s.object))
            headway_fence()
            if row.birth == s.birth and row.since == s.since and row.state == s.state and not s.cpu:
                rows.append(row)
        return rows

    def has_ready_threads(self):
        """Return whether a thread is ready now, whose time until now could be divided."""
        cdef uint32_t number
        cdef thread_record *s
        for number in range(1, min(self.shared.thread_records, self.max_thread_records - 1) + 1):
            s = <thread_record *>(self.thread_records + number * self.thread_record_stride)
            if s.birth and not s.cpu and s.state == READY and not s.flags & THREAD_NEW:
                return True
        return False

    def living(self):
        """Return the measured threads that have not ended: a list of `rows.LivingThread`."""
        cdef uint32_t number
        cdef thread_record *s
        cdef list rows = []
        for number in range(1, min(self.shared.thread_records, self.max_thread_records - 1) + 1):
            s = <thread_record *>(self.thread_records + number * self.thread_record_stride)
            if s.birth:
                rows.append(row_of(LivingThread, (s.tid, s.pid, s.birth)))
        return rows

    def open_stacks(self, uint64_t at):
        """Return the threads off the processor, after the last snapshot, which was at ``at``: a list of `rows.OpenStack`."""
        cdef uint32_t number
        cdef thread_record *s
        cdef list rows = []
        for number in range(1, min(self.shared.thread_records, self.max_thread_records - 1) + 1):
            s = <thread_record *>(self.thread_records + number * self.thread_record_stride)
            if s.birth and not s.cpu and s.since < at:
                rows.append(row_of(OpenStack, (s.birth, s.user_stack, s.kernel_stack, s.tid, s.pid, s.state, at - s.since)))
        return rows

    cdef int put_open(self, Cells cells, list opened, uint64_t state, uint64_t time) except -1:
        """Add the time that a state has lasted since it was charged last, and that it occurs, for it has not ended."""
        cells.put(self.state_of(state), time, 1)
        if opened is not None:
            opened.append((names[self.state_of(state)], time))
        return 0

    cdef ThreadRow read_thread(self, uint32_t number, uint64_t at):
        cdef thread_snapshot *live = <thread_snapshot *>(self.thread_records + number * self.thread_record_stride)
        cdef thread_snapshot *saved = <thread_snapshot *>(self.saved_threads + number * self.snapshot_stride)
        cdef bint has_saved = not self.shared.last
        cdef thread_snapshot copy
        cdef processor *p
        cdef Cells cells
        cdef thread_counts *counts
        cdef bint from_saved = False
        cdef int attempt, i, used
        cdef uint64_t total, since, deferred
        cdef uint16_t state
        cdef list tasks = []
        packed = b""
        for attempt in range(MAX_ATTEMPTS):
            deferred = 0
            from_saved = has_saved and saved.snapshot == self.shared.snapshot
            if from_saved:
                memcpy(&copy, saved, SNAPSHOT_HEAD)
                used = min(copy.used, N_CELLS)
                memcpy(copy.cells, saved.cells, used * sizeof(cell))
                since, state = copy.since, copy.state
            else:
                if live.cpu and live.cpu <= <uint32_t>self.n_cpus and self.processor_at(live.cpu - 1).busy:
                    pause(attempt)
                    continue
                headway_fence()
                memcpy(&copy, live, SNAPSHOT_HEAD)
                used = min(copy.used, N_CELLS)
                memcpy(copy.cells, live.cells, used * sizeof(cell))
                since, state = copy.since, copy.state
                if copy.cpu and copy.cpu <= <uint32_t>self.n_cpus:
                    p = self.processor_at(copy.cpu - 1)
                    since, state, copy.depth = p.since, p.state, p.depth
                    if self.undivided(p, at):
                        wait_for(copy.cpu - 1, attempt)
                        continue
                    memcpy(copy.nested, p.nested, sizeof(copy.nested))
                    if p.deferred_total != p.absorbed_total and p.deferred_since <= at:
                        deferred = p.deferred_total - p.absorbed_total
                headway_fence()
                if copy.other_tasks and self.max_task_records:
                    tasks = self.read_tasks(number, &copy, at)
                    headway_fence()
                if has_saved and saved.snapshot == self.shared.snapshot:
                    continue
                if live.birth != copy.birth:
                    continue
            if from_saved and copy.other_tasks and self.max_task_records:
                tasks = self.read_tasks(number, &copy, at)
            if copy.birth == 0 or copy.birth >= at or copy.flags & THREAD_NEW:
                return None
            total = copy.overhead
            for i in range(used):
                total += copy.cells[i].time
            if total == since - copy.birth and since <= at:
                if self.durations is None:
                    break
                packed = self.durations.read(number, used, from_saved, self.shared.snapshot if has_saved else -1)
                if from_saved or not self.has_moved(live, &copy, used, has_saved, saved):
                    break
            pause(attempt)
        else:
            self.torn += 1
        cells = Cells.__new__(Cells)
        cells.reserve(
            used + min(copy.depth, N_NESTED) + 3 + (N_INTERRUPTS if deferred else 0) + N_READY_PARTS, self.counting)
        for i in range(used):
            self.put(cells, copy.cells[i].count >> COUNT_BITS, copy.cells[i].time, copy.cells[i].count & COUNT_MASK)
        if self.counting is not None:
            counts = <thread_counts *>((self.saved_thread_counts if from_saved else self.thread_counts)
                                       + number * THREAD_COUNTS_SIZE)
            for i in range(used):
                cells.count(self.state_of(copy.cells[i].count >> COUNT_BITS), <const uint64_t *>counts.cells[i])
        if copy.overhead:
            cells.put(OVERHEAD, copy.overhead, 0)
        opened = None if self.durations is None else []
        if deferred:
            p = self.processor_at(copy.cpu - 1)
            for i in range(N_INTERRUPTS):
                if p.deferred[i].time != p.absorbed[i].time:
                    cells.put(IRQ_DEVICE + i, p.deferred[i].time - p.absorbed[i].time,
                              p.deferred[i].count - p.absorbed[i].count)
                    if opened is not None:
                        opened += [(names[IRQ_DEVICE + i], 0)] * (p.deferred[i].count - p.absorbed[i].count)
        self.put_open(cells, opened, state, at - since - deferred)
        for i in range(min(copy.depth, N_NESTED)):
            self.put_open(cells, opened, copy.nested[i], 0)
        if not copy.cpu and state != UNKNOWN and copy.resume != RUNNING:
            self.put_open(cells, opened, copy.resume, 0)
        cells.divide_ready(&copy, 0 if copy.cpu or state != READY else at)
        cells.take_samples(copy.samples)
        self.number_samples(cells)
        cells.undivided_overhead = copy.undivided_overhead
        for which, (_, _, of_task, _, _) in tasks:
            if which == copy.task_record: # what is under way is for the task that the thread works on
                (<Cells>of_task).put(self.state_of(state), at - since - deferred, 1)
        kept = None
        if self.durations is not None:
            kept = KeptDurations(packed, self.counts_of(copy.cells, used), opened, self.durations.parts)
        late = copy.cpu or state == UNKNOWN or state == ELSEWHERE
        clock = NOT_UP_TO_DATE if late else kernel_clock_of(copy.runtime, copy.flags)
        return thread_row(&copy, 0, clock, cells, [row for _, row in tasks], kept)


cdef extern from *:
    """
    #include <sched.h>
    #define PROCESSOR_SIZE sizeof(struct processor)
    #define THREAD_RECORD_SIZE sizeof(struct thread_record)
    #define THREAD_SNAPSHOT_SIZE sizeof(struct thread_snapshot)
    #define THREAD_COUNTS_SIZE sizeof(struct thread_counts)
    #define PROCESSOR_COUNTS_SIZE sizeof(struct processor_counts)
    #define MAX_ATTEMPTS 2000
    static void headway_pause(int attempt) {
        struct timespec t = {0, attempt < 400 ? 50000 : 1000000}; /* for so long only where a hypervisor has the processor */
        if (attempt < 20) sched_yield();
        else nanosleep(&t, NULL);
    }
    static void headway_visit(int cpu) { /* being dispatched there is an event */
        cpu_set_t before, there;
        if (cpu >= CPU_SETSIZE || sched_getaffinity(0, sizeof before, &before)) return;
        CPU_ZERO(&there);
        CPU_SET(cpu, &there);
        if (!sched_setaffinity(0, sizeof there, &there)) sched_setaffinity(0, sizeof before, &before);
    }
    """
    size_t PROCESSOR_SIZE, THREAD_RECORD_SIZE, THREAD_SNAPSHOT_SIZE, THREAD_COUNTS_SIZE, PROCESSOR_COUNTS_SIZE
    int MAX_ATTEMPTS
    void headway_pause(int attempt) nogil
    void headway_visit(int cpu) nogil


cdef inline void pause(int attempt) noexcept:
    with nogil:
        headway_pause(attempt)


cdef inline void wait_for(int cpu, int attempt) noexcept:
    """Wait a little for a processor's next handler, mostly the timer's. If the timer does not tick, provoke an event."""
    with nogil:
        if attempt % 200 == 199:
            headway_visit(cpu)
        headway_pause(attempt)


OTHER_TAG = "noneffective.other"
"""The state of tags for which there is no room, or whose names cannot be read."""


cdef str tag_state(bytes given):
    """Return the state of a tag that a program named. Its kind is poll or effective if the name says so, else noneffective."""
    cdef str name = given.partition(b"\0")[0].decode("ascii", "replace")
    cdef str clean = "".join([c if c.isascii() and (c.isalnum() or c in "_.-") else "_" for c in name])
    first, _, rest = clean.partition(".")
    if first == "user" and rest:
        return clean
    if first not in ("noneffective", "poll"):
        return "noneffective." + clean if clean else OTHER_TAG
    return clean if rest else first
