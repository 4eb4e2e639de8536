# The C interface of records: what the flow of any protocol writes.
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from headway_trace._packets cimport A64, THUMB

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
    ASSUMED = 4        # a bit beside these: trace and program contradicted each other on the way to the instruction
    ABORTED = 8        # another: a transaction that was aborted has undone it

cdef enum:
    NO_THREAD = 0xFFFFFFFF  # of a row, where threads are traced: it is not known which, since damage

cdef struct Row:
    uint64_t index, end, cycle, cycles
    uint64_t address
    uint32_t thread, epoch
    uint8_t sort, size, executed
    uint8_t why        # of a gap; of an instruction, its instruction set
    bint counted       # whether cycle and cycles are known

cdef struct Named:
    uint64_t address
    const char* name   # of an object that `SymbolCells` holds; NULL: none is kept here
    Py_ssize_t length

cdef class SymbolCells:
    cdef object symbol
    cdef dict cells
    cdef Named* kept
    cdef Named* at(self, uint64_t address) except NULL

cdef inline uint64_t place_of(uint64_t address, uint8_t isa) noexcept nogil:
    """Return `records.place_of` an instruction."""
    return address | (1 if isa == THUMB else 2 if isa == A64 else 0)

cdef class Records:
    cdef Row* data
    cdef Py_ssize_t size
    cdef bint threads

cdef class Totals:
    cdef readonly uint64_t instructions
    cdef readonly uint64_t assumed     # those of them that are assumed
    cdef readonly uint64_t aborted     # those of them that were undone
    cdef readonly uint64_t unread      # bytes before the first synchronisation
    cdef uint64_t gaps[16]             # by reason
    cdef uint64_t cycles[16]
    cdef bint unknown[16]              # the cycles of one are not known

cdef struct Lacuna:    # a gap that has not ended
    bint open
    uint8_t why
    bint lost          # its length is not known
    uint64_t index, cycles

cdef class RecordWriter:
    cdef Row* rows             # those that have not been handed over
    cdef size_t used, room
    cdef bint counted, threads
    cdef uint64_t cycle, pending   # cycles of the epoch, and those of them that belong to the next instruction
    cdef uint32_t epoch, thread
    cdef Lacuna gap
    cdef int grow(self) except -1
    cdef Records hand_over(self, size_t n)
    cdef bint would_begin(self, uint8_t why) noexcept
    cdef int begin_gap(self, uint8_t why, uint64_t index, bint joins) except -1
    cdef int close_gap(self, uint64_t end) except -1
    cdef void lose_time(self) noexcept
    cdef list saved(self)
    cdef int restore(self, list state) except -1

cdef inline bint damaged(uint8_t why) noexcept nogil:
    """Return whether a gap of this reason comes of damage: of bytes that are none, are wrong, or are missing."""
    return why == DAMAGE or why == CONTRADICTION or why == TRUNCATED

cdef inline bint is_another(uint8_t why, uint8_t before) noexcept nogil:
    """Return whether a reason is another cause than that of a gap that is open or ended just now, and no consequence.

    What is missing before the first synchronisation has no other reason, unless the stream says one or is damaged.
    After damage nothing is confirmed until there is an instruction again: no contradiction, and no code outside the
    program.
    """
    if why == before:
        return False
    if before == UNSYNCHRONISED:
        return why == OVERFLOW or why == DAMAGE or why == TRUNCATED or why == ISA_
    if damaged(before):
        return why == OFF or why == OVERFLOW or why == DEBUG or why == ISA_
    return why != CONTRADICTION and why != UNSYNCHRONISED

cdef inline Row* add_row(RecordWriter writer, uint8_t sort, uint64_t index) except NULL:
    """Add a row at the cycle that has been reached."""
    cdef Row* row
    if writer.used == writer.room:
        writer.grow()
    row = &writer.rows[writer.used]
    writer.used += 1
    row.index, row.end, row.cycle, row.cycles, row.address = index, 0, writer.cycle, 0, 0
    row.thread, row.epoch = writer.thread, writer.epoch
    row.sort, row.size, row.executed, row.why, row.counted = sort, 0, 0, 0, writer.counted
    return row
