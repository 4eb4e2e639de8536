"""Declarations of `_course`: rows of transitions turned into slices, for views that show them in time."""

from libc.stdint cimport int16_t, int32_t, int64_t, uint64_t

cdef struct Row:
    int32_t taken, count
    int32_t state  # index among the batch's states
    int32_t waker  # index of the waking thread, -1: unknown; waker_tid: its tid, 0: none
    int32_t waker_tid
    int32_t waker_state  # index like state; -1: none


cdef class Sink:
    cdef int slice(self, int32_t who, int64_t begin, int64_t end, const Row* row, uint64_t flow) except -1
    cdef int wake(self, int32_t waker, int64_t time, int32_t state, uint64_t flow) except -1
    cdef int amount(self, int32_t who, int16_t cpu, int64_t time, const Row* row) except -1
    cdef int run(self, int16_t cpu, int64_t begin, int64_t end, int32_t who, int32_t state) except -1
