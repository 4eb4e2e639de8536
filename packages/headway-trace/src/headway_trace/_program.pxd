# The C interface of a program: the instructions at its addresses.
cimport cython
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from headway_trace._packets cimport A64, THUMB

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

cdef enum Came:        # how the last instruction led to a place
    ALONG = 0          # past itself, or by an indirect branch
    JUMPED = 1         # by a direct branch
    INTERWORKED = 2    # by a direct branch to another instruction set

cdef struct Code:
    uint64_t key       # of A32 and T32: the address and the instruction set, as (address << 2 | set) + 1
    uint64_t target
    uint8_t size, branching, conditional, target_isa
    uint8_t block      # IT: instructions in its block. Branch: whether it is a call. Plain: which barrier it is
    uint8_t explored
    uint8_t ahead      # plain instructions without a condition from here on; 0: not counted
    uint8_t halves     # their size, in units of two bytes

cdef struct Place:
    uint64_t address
    uint8_t known, isa
    uint8_t block      # instructions left in the IT block
    uint8_t doubtful   # the number of next instructions that may be in an IT block whose beginning was not seen
    uint8_t came       # as `Came` has it

cdef class InstructionTable:
    cdef object look
    cdef readonly object spans
    cdef Code* table
    cdef size_t capacity, entries
    cdef Code* code(self, uint64_t address, uint8_t isa) except NULL
    cdef int find(self, uint64_t address, uint8_t isa, Code* found) except -1
    cdef int grow(self) except -1
    cdef int add(self, Code* code) except -1


@cython.final
cdef class Seen(InstructionTable):
    cdef InstructionTable program
    # What happened to the table, in order; `explored` is set where that became true of a key, and the key is 0 where
    # the table was emptied.
    cdef Code* log
    cdef size_t logged, room
    cdef bint logs             # a log is kept
    cdef Code* count_ahead(self, uint64_t address, uint8_t isa) except NULL
    cdef int note(self, uint64_t key, Code* code, bint explored) except -1
    cdef int explored(self, Code* code) except -1
    cdef int mark(self, uint64_t key) except -1
    cdef bytes history(self)
    cdef int restore(self, bytes history, size_t logged) except -1

cdef inline uint64_t key_of(uint64_t address, uint8_t isa) noexcept nogil:
    """Return the key of an instruction. Addresses of A64 are multiples of 4, so the keys of all sets differ."""
    return (address | 2 if isa == A64 else address << 2 | isa) + 1

cdef inline size_t slot_of(uint64_t key, size_t capacity) noexcept nogil:
    """Return where in a table the search for a key begins: near to where its neighbours in the program are."""
    cdef int step = 2 if key & 3 == 3 else 3  # keys of A64, and only they, end in 3, and are nearer to each other
    return (((key >> 5 + step) * <uint64_t>0x9E3779B97F4A7C15 >> 32 << 5) + (key >> step & 31)) & (capacity - 1)

cdef inline Code* code_at(InstructionTable table, uint64_t address, uint8_t isa) except NULL:
    """Return the instruction at an address; most are found at once."""
    cdef uint64_t key = key_of(address, isa)
    cdef Code* found = &table.table[slot_of(key, table.capacity)]
    if found.key == key:
        return found
    return table.code(address, isa)

cdef inline int step(Seen seen, Place* place, bint executed, Code** at) except -1:
    """Follow one atom. Return 0, with the place that it leads to, or why it does not fit the instruction there."""
    cdef Code* code
    if place.known != HERE:
        return DISAGREES
    if place.isa > THUMB:
        return FOREIGN_ISA
    code = code_at(seen, place.address, place.isa)
    at[0] = code
    if code.branching == ABSENT:
        return MISSING
    if not executed and not code.conditional and not place.block and not place.doubtful:
        return DISAGREES
    if place.block:
        place.block -= 1
    if place.doubtful:
        place.doubtful -= 1
    place.came = ALONG
    if not executed or code.branching == PLAIN:
        place.address += code.size
    elif code.branching == DIRECT:
        place.came = JUMPED if code.target_isa == place.isa else INTERWORKED
        place.address, place.isa, place.block = code.target, code.target_isa, 0
    elif code.branching == IT:
        place.address += code.size
        place.block, place.doubtful = code.block, 0
    else:
        place.known, place.block = AWAITING, 0
        place.doubtful = 4 if code.branching == RETURNS else 0
    return 0
