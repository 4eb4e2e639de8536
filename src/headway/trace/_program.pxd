# What is at the addresses of a program, in C.
cimport cython
from libc.stdint cimport uint8_t, uint32_t, uint64_t

cdef enum Branching:
    ABSENT = 0
    PLAIN = 1
    DIRECT = 2
    INDIRECT = 3
    IT = 4
    RETURNS = 5        # an indirect branch that may end inside an IT block

cdef enum Misfit:      # why an atom cannot be of the instruction; 0: it can
    DISAGREES = 1
    MISSING = 2
    FOREIGN_ISA = 3

cdef enum Known:
    NOWHERE = 0
    HERE = 1
    AWAITING = 2       # the address of an indirect branch

cdef struct Code:
    uint64_t key
    uint32_t target
    uint8_t size, branching, conditional, target_isa
    uint8_t block      # IT: instructions in its block. Of a branch: it is a call
    uint8_t explored

cdef struct Place:
    uint32_t address
    uint8_t known, isa
    uint8_t block      # instructions that are still in an IT block
    uint8_t doubtful   # so many instructions may still be in one that we did not see

cdef class Program:
    cdef object look
    cdef readonly object spans
    cdef Code* table
    cdef size_t capacity, entries
    cdef Code* code(self, uint32_t address, uint8_t isa) except NULL
    cdef int find(self, uint32_t address, uint8_t isa, Code* found) except -1
    cdef int grow(self) except -1

@cython.final
cdef class Seen(Program):
    cdef Program program
    cdef int step(self, Place* place, bint executed, Code** at) except -1
