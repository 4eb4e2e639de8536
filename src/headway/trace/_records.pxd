# The C interface of records: what the flow of any protocol writes.
from libc.stdint cimport uint8_t, uint32_t, uint64_t

cdef enum Reason:      # records.Why
    UNSYNCHRONISED = 0
    OFF = 1
    OVERFLOW = 2
    DEBUG = 3
    DAMAGE = 4
    CONTRADICTION = 5
    IMAGE = 6
    ISA_ = 7
    TRUNCATED = 8
    COUNTED = 9

cdef enum Sort:        # of items and rows
    INSTRUCTION = 0
    GAP = 1
    TIME = 2
    TAKEN = 3          # an exception

cdef enum Executed:    # whether an instruction's condition was true
    FAILED = 0
    PASSED = 1
    UNTRACED = 2       # it has one, and the protocol does not tell

cdef struct Row:
    uint64_t index, end, cycle, cycles
    uint64_t address
    uint32_t thread, epoch
    uint8_t sort, size, executed, why
    bint counted       # whether cycle and cycles are known

cdef class Records:
    cdef Row* data
    cdef Py_ssize_t size
    cdef bint threads
