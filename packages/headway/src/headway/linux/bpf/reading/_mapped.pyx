# cython: language_level=3, boundscheck=False, wraparound=False, embedsignature=True
"""The memory that is shared with the eBPF programs, mapped, and where each thing lies in it.

layout.h defines the layout; progress.bpf.c says who writes what. Times are ns of CLOCK_MONOTONIC.
"""

from bpf_layout cimport (
    N_SAMPLED, N_STATES, POLL, TAG, TAG_LENGTH, UNKNOWN, control, processor, processor_counts, tag_name, task_name,
    task_record, thread_counts, thread_record, thread_snapshot,
)
from libc.stdint cimport uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from headway.linux.bpf.threads._cells cimport Cells, Counting, mark_as_polling, name_of_state, number_of_state
from headway.linux.bpf.reading._waiting cimport headway_clock

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


cdef object new_tuple = tuple.__new__


cdef object row_of(kind, tuple fields):
    """Return a named tuple. This is four times as fast as a call of its class, and there is one for each thread."""
    return new_tuple(kind, fields)


cdef str thread_name(const char *name):
    cdef int n = 0
    while n < 15 and name[n]:
        n += 1
    return name[:n].decode("utf-8", "backslashreplace")


cdef void *address_of(unsigned char[::1] buffer) except NULL:
    """Return where a buffer begins, which its owner keeps where it is."""
    return &buffer[0]


cdef class MappedMemory:
    """The maps of the eBPF programs, in memory.

    ``maps``: writable buffers over `processors`, `saved_processors`, `thread_records`, `saved_threads`, `control` and
    `tag_names`.
    ``polls``: the names of the states of polling, in the order of their numbers; ``functions``: of marked functions.
    """

    def __cinit__(
        self,
        tuple maps,
        int n_cpus,
        uint32_t max_thread_records,
        polls=(),
        functions=(),
        plan=None,
        tuple counts=(),
        tuple tasks=(),
        uint32_t max_task_records=0,
        durations=None,
    ):
        self.buffers = (maps, counts, tasks)
        self.n_cpus, self.max_thread_records, self.max_task_records = n_cpus, max_thread_records, max_task_records
        self.durations = durations
        self.polls, self.functions = tuple(polls), tuple(functions)
        self.counting = Counting(plan) if plan is not None and plan.events else None
        self.map_times(maps)
        if self.counting is not None:
            self.map_counts(counts)
        if max_task_records:
            self.map_tasks(tasks)
        memset(self.numbers, 0, sizeof(self.numbers))
        cdef int i
        for i, name in enumerate((OTHER_TAG, *functions)):
            encoded = name.encode()[:TAG_LENGTH - 1]
            memcpy(self.tags[i].name, <const char *>encoded, len(encoded))

    cdef int map_times(self, tuple maps) except -1:
        processors, saved_processors, thread_records, saved_threads, shared, tags = maps
        self.processors = <processor *>address_of(processors)
        self.saved_processors = <processor *>address_of(saved_processors)
        self.thread_records = <thread_record *>address_of(thread_records)
        self.saved_threads = <thread_snapshot *>address_of(saved_threads)
        self.shared = <control *>address_of(shared)
        self.tags = <tag_name *>address_of(tags)
        return 0

    cdef int map_counts(self, tuple maps) except -1:
        threads, saved_threads, processors, saved_processors = maps
        self.thread_counts = <thread_counts *>address_of(threads)
        self.saved_thread_counts = <thread_counts *>address_of(saved_threads)
        self.processor_counts = <processor_counts *>address_of(processors)
        self.saved_processor_counts = <processor_counts *>address_of(saved_processors)
        return 0

    cdef int map_tasks(self, tuple maps) except -1:
        records, saved_records, names = maps
        self.task_records = <task_record *>address_of(records)
        self.saved_task_records = <task_record *>address_of(saved_records)
        self.task_names = <task_name *>address_of(names)
        return 0

    cdef uint32_t records_used(self) noexcept:
        """Return 1 + the highest thread record that was ever used. They are numbered from 1."""
        return min(self.shared.thread_records, self.max_thread_records - 1) + 1

    cdef thread_record *next_living(self, uint32_t *number) noexcept:
        """Return the thread record after this one of a thread that has not ended, and set its number; NULL: none is left.

        ``while (s := memory.next_living(&number)) != NULL`` walks all of them, from number 0.
        """
        cdef uint32_t used = self.records_used()
        while number[0] + 1 < used:
            number[0] += 1
            if self.thread_records[number[0]].birth:
                return &self.thread_records[number[0]]
        return NULL

    cdef bint is_saved(self, const uint32_t *snapshot) noexcept:
        """Return whether what has this number of a snapshot was copied for the present one, before it changed.

        The number is read only if there are such copies: where a measurement is read once, the maps for them have one entry.
        """
        return not self.shared.last and snapshot[0] == self.shared.snapshot

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
            self.numbers[state - POLL] = number_of_state(given)
            if state < <uint64_t>TAG:
                mark_as_polling(self.numbers[state - POLL])
        return self.numbers[state - POLL]

    cdef int number_samples(self, Cells cells) except -1:
        """Give the samples of a reading our numbers of their states."""
        cdef int i
        if cells.samples != NULL:
            for i in range(N_SAMPLED):
                if cells.samples[i].count:
                    cells.samples[i].state = self.state_of(cells.samples[i].state)
        return 0

    cdef int put(self, Cells cells, uint64_t state, uint64_t time, uint64_t count) except -1:
        """Add a cell, for which room was reserved; only states that have names of their own can be there already."""
        if state < <uint64_t>POLL:
            cells.append(<uint16_t>state, time, count)
        else:
            cells.put(self.state_of(state), time, count)
        return 0

    def state_name(self, uint64_t state):
        """Return the name of a state of the programs."""
        return name_of_state(self.state_of(state))

    def thread_records_used(self):
        """Return 1 + the highest thread record that was ever used. They are numbered from 1."""
        return self.records_used()

    def now(self):
        """The programs' clock, ns."""
        return headway_clock()
