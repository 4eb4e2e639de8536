# cython: language_level=3, boundscheck=False, wraparound=False, embedsignature=True
"""The states of a thread or a processor as one mapping, whose names and objects are made on demand.

Each state has its time (ns), its occurrences, and the counts of hardware events in it, where these are counted.
"""

from collections.abc import Mapping

from bpf_layout cimport (
    IRQ_DEVICE, N_COUNTED, N_INTERRUPTS, N_READY_PARTS, N_SAMPLED, N_STATES, OVERHEAD, READY, READY_PART,
    READY_WAKEUP, RUNNING, UNKNOWN, cell, sample_count, thread_snapshot,
)
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset

from headway.linux.bpf.shared.states import NAMES
from headway.model import Cell, Kind, kind_of, ModeCycles

cdef list names = list(NAMES)
"""State number -> name: those of the programs, and from `number_of_state` on those that only some sources have."""
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


cdef str name_of_state(uint16_t number):
    """Return the name of a state: one of the programs', or one that `number_of_state` has a number for."""
    return names[number]


cdef int mark_as_polling(uint16_t number) except -1:
    """Say that status checks were made in this state."""
    polling.add(number)
    return 0


cdef bint is_of_processor(uint16_t number) noexcept:
    """Return whether a thread in this state has a processor."""
    return on_processor[kind_index[number]]


cdef uint16_t number_of_state(str name):
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
    return NAMES.index(name) if name in NAMES else number_of_state(name)


cdef class Counting:
    """The meaning of the counters' values: their number, and the figures of a cell that they make."""

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
        """Divide the time ready into its parts (bpf/scheduler/ready.h), for which room was reserved.

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
