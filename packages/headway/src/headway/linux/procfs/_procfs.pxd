# The arithmetic of one thread and the reasons for waiting, for every reader of the kernel's clocks.
from libc.stdint cimport int32_t, int64_t

cdef enum:
    _RUNNABLE = 0
    _WAITING = 1
    _UNREADABLE = 2

cdef enum:
    _WAIT = 0
    _STOPPED = 1
    _DISK = 2
    _NET = 3
    _PIPE = 4
    _FAULT = 5
    _FILE = 6
    _WORK = 7

cdef struct Wait:
    int32_t reason
    int64_t time

cdef class ThreadAccount:
    cdef int64_t begin, now, tick
    cdef int64_t run, ready                      # as last read
    cdef int64_t run_due, ready_due
    cdef int64_t run_lent, ready_lent
    cdef int64_t switches
    cdef int64_t first_user, first_system        # clock ticks
    cdef int64_t user_time, kernel_time, ready_time, unknown_time
    cdef bint was_runnable, was_waiting
    cdef int32_t reason
    cdef int waits
    cdef Wait *wait

    cdef void _add_wait(self, int32_t reason, int64_t time) noexcept
    cdef void _add_run(self, int64_t time, int64_t user, int64_t system, int64_t share) noexcept
    cpdef void advance(self, int64_t now, int64_t run, int64_t ready, int64_t switches, int64_t user, int64_t system,
                       int64_t share, int condition, int reason)
    cpdef void restart(self, int64_t run, int64_t ready, int64_t switches, int64_t user, int64_t system)
    cpdef void close(self, int64_t limit)
    cdef int64_t _share(self) noexcept

cdef class WaitReasons:
    cdef readonly list names
    cdef dict numbers, calls, channels
    cdef object reason_of_call, reason_of_wchan

    cdef int32_t number_of(self, str name)
    cdef int32_t of_call(self, int64_t call)
    cdef int32_t of_channel(self, bytes channel)
