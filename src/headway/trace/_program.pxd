# The C interface of a program: the instructions at its addresses.
cimport cython
from libc.stdint cimport uint8_t, uint32_t, uint64_t

cdef enum Branching:
    ABSENT = 0
    PLAIN = 1
    DIRECT = 2
    INDIRECT = 3
    IT = 4
    RETURNS = 5        # an indirect branch that may end inside an IT block

cdef enum Barrier:     # of a plain instruction, as `code` has them
    ISB = 1            # a waypoint of every protocol
    DMB = 2
    DSB = 3
    WAIT = 4           # WFI, WFE, and those with a timeout
    TSTART = 5         # the start of a transaction

cdef enum Misfit:      # why an atom does not fit the instruction; 0: it fits
    DISAGREES = 1
    MISSING = 2
    FOREIGN_ISA = 3

cdef enum Known:
    NOWHERE = 0
    HERE = 1
    AWAITING = 2       # after an indirect branch, before its address

cdef struct Code:
    uint64_t key       # of A32 and T32: the address and the instruction set, as (address << 2 | set) + 1
    uint64_t target
    uint8_t size, branching, conditional, target_isa
    uint8_t block      # IT: instructions in its block. Branch: whether it is a call. Plain: which barrier it is
    uint8_t explored

cdef struct Place:
    uint64_t address
    uint8_t known, isa
    uint8_t block      # instructions left in the IT block
    uint8_t doubtful   # the number of next instructions that may be in an IT block whose beginning was not seen

cdef class InstructionTable:
    cdef object look
    cdef readonly object spans
    cdef Code* table
    cdef size_t capacity, entries
    cdef Code* code(self, uint64_t address, uint8_t isa) except NULL
    cdef int find(self, uint64_t address, uint8_t isa, Code* found) except -1
    cdef int grow(self) except -1

@cython.final
cdef class Seen(InstructionTable):
    cdef InstructionTable program
    cdef int step(self, Place* place, bint executed, Code** at) except -1
