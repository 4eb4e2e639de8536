# The C interface of decoded rows: what each source of E-Trace executed.
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint64_t

cdef struct Row:
    uint64_t address   # of a gap, the byte of the stream at which it begins
    int64_t time       # -1: not known
    uint64_t context   # of a gap, the byte at which it ends
    int64_t after      # of a gap, the time at which it ends; -1: not known
    uint16_t source
    uint8_t size
    uint8_t what


cdef class EtraceRows:
    cdef Row* data
    cdef Py_ssize_t size, room
    cdef int append(self, const Row* rows, Py_ssize_t count) except -1 nogil
