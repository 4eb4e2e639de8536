# The states of a thread or a processor, for the modules that read them in C.
from bpf_layout cimport cell, sample_count, thread_snapshot
from libc.stdint cimport int64_t, uint16_t, uint64_t

cdef uint16_t number_of_state(str name)
cdef str name_of_state(uint16_t number)
cdef int mark_as_polling(uint16_t number) except -1
cdef bint is_of_processor(uint16_t number) noexcept

cdef class Counting:
    cdef object plan
    cdef readonly int n
    cdef int user_cycles, kernel_cycles # the places of the cycles in each mode; -1: they are not counted apart
    cdef list scales

    cdef bint tells_modes(self)
    cdef dict figures(self, uint16_t state, const uint64_t *values)

cdef class Cells:
    cdef uint16_t *states
    cdef cell *cells
    cdef uint64_t *counts
    cdef Counting counting
    cdef sample_count *samples # of the time that is not divided, in no order; NULL: there are none
    cdef int64_t undivided_overhead # the observer's time while time was not divided, ns; 0 where no events are counted
    cdef readonly int used
    cdef readonly bint settled # whether an earlier reading had more of some state than there is now, see `less`
    cdef dict as_dict

    cdef int reserve(self, int n, Counting counting=*) except -1
    cdef void count(self, uint16_t state, const uint64_t *values) noexcept
    cdef void append(self, uint16_t state, uint64_t time, uint64_t count) noexcept
    cdef int find(self, uint16_t state) noexcept
    cdef void put(self, uint16_t state, uint64_t time, uint64_t count) noexcept
    cdef void divide_ready(self, const thread_snapshot *s, uint64_t at) noexcept
    cdef void remove(self, int place) noexcept
    cdef int take_samples(self, const sample_count *samples) except -1
    cdef int keep_samples_since(self, Cells later, Cells earlier) except -1
    cpdef Cells less(self, Cells earlier)
    cpdef Cells plus(self, Cells later)
    cdef int add_samples(self, Cells earlier, Cells later) except -1
    cdef int longest(self) noexcept
    cdef uint64_t sum(self) noexcept
    cdef dict build(self)
    cdef dict expand(self)
    cdef dict passing(self)
