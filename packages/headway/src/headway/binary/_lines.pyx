"""A table from addresses to lines, made in one pass over the line-number programs.

Each byte of a program is read once, and the size of the result is bounded by the length of the program. No program can
therefore make its reader hang or grow without bound. A sequence that goes backwards or has no end is left out.

Source: DWARF Debugging Information Format, versions 2 to 5, 6.2.
"""

from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, qsort, realloc
from libc.string cimport memcpy

cdef enum Standard:
    EXTENDED = 0
    COPY = 1
    ADVANCE_PC = 2
    ADVANCE_LINE = 3
    SET_FILE = 4
    SET_COLUMN = 5
    NEGATE_STATEMENT = 6
    BASIC_BLOCK = 7
    CONST_ADD_PC = 8
    FIXED_ADVANCE_PC = 9

cdef enum Extended:
    END_SEQUENCE = 1
    SET_ADDRESS = 2

cdef enum:
    MAX_ROWS = 1 << 24 # the largest number of rows that are kept
    BACK = 16          # sequences that `find` looks at: those of discarded code overlap others

cdef struct Row:
    uint32_t address, line, file, unit

cdef struct Sequence:
    uint32_t low
    uint32_t length
    uint32_t first, count


cdef int by_address(const void* a, const void* b) noexcept nogil:
    cdef const Sequence* one = <const Sequence*>a
    cdef const Sequence* other = <const Sequence*>b
    if one.low != other.low:
        return -1 if one.low < other.low else 1
    return (one.length > other.length) - (one.length < other.length)


cdef inline uint64_t number(const uint8_t** at, const uint8_t* end) noexcept nogil:
    """Read a ULEB128 number, modulo 2^64."""
    cdef uint64_t found = 0
    cdef int shift = 0
    cdef uint8_t byte
    while at[0] < end:
        byte = at[0][0]
        at[0] += 1
        if shift < 64:
            found |= <uint64_t>(byte & 0x7F) << shift
            shift += 7
        if not byte & 0x80:
            break
    return found


cdef inline uint64_t signed_number(const uint8_t** at, const uint8_t* end) noexcept nogil:
    """Read an SLEB128 number, modulo 2^64: a negative number is its two's complement."""
    cdef const uint8_t* start = at[0]
    cdef uint64_t found = number(at, end)
    cdef Py_ssize_t bits = 7 * min(at[0] - start, <Py_ssize_t>10)
    if at[0] > start and at[0][-1] & 0x40 and bits < 64:
        found |= ~<uint64_t>0 << bits
    return found


cdef class Table:
    """The rows of all units. Call ``add`` for each unit's program, then ``close``, and then ``find``."""

    cdef Row* rows
    cdef Sequence* sequences
    cdef size_t used, room, count, places
    cdef size_t begun
    cdef bint bad

    def __dealloc__(self):
        free(self.rows)
        free(self.sequences)

    def add(
        self, bytes section, size_t start, size_t end, uint32_t unit, *, uint8_t least, int line_base, uint8_t line_range,
        uint8_t opcode_base, bytes lengths,
    ):
        """Add the program of a unit, the bytes ``start`` to ``end`` of the section.

        ``lengths``: the number of operands of each standard opcode. ``least``: bytes of the shortest instruction.
        Raises ValueError if these cannot be a program.
        """
        if not line_range or not opcode_base or len(lengths) != opcode_base - 1 or not start <= end <= <size_t>len(section):
            raise ValueError("no line-number program")
        cdef const uint8_t* base = section
        cdef const uint8_t* at = base + start
        cdef const uint8_t* stop = base + end
        cdef const uint8_t* operands = lengths
        cdef const uint8_t* after
        cdef uint64_t address = 0, size
        cdef uint64_t line = 1  # modulo 2^64, as a program may move it anywhere
        cdef uint64_t file = 1
        cdef uint8_t opcode, extended
        cdef uint16_t fixed
        cdef int i
        self.begun, self.bad = self.used, False
        while at < stop:
            opcode = at[0]
            at += 1
            if opcode >= opcode_base:
                opcode -= opcode_base
                address += <uint64_t>least * (opcode // line_range)
                line += <uint64_t>(<int64_t>line_base + opcode % line_range)
                self.keep(address, line, file, unit)
            elif opcode == EXTENDED:
                size = number(&at, stop)
                if not 0 < size <= <uint64_t>(stop - at):
                    break
                after = at + size
                extended = at[0]
                if extended == END_SEQUENCE:
                    self.end(address, unit)
                    address, line, file = 0, 1, 1
                elif extended == SET_ADDRESS and (size == 5 or size == 9):
                    address = 0
                    memcpy(&address, at + 1, size - 1)
                at = after
            elif opcode == COPY:
                self.keep(address, line, file, unit)
            elif opcode == ADVANCE_PC:
                address += least * number(&at, stop)
            elif opcode == ADVANCE_LINE:
                line += signed_number(&at, stop)
            elif opcode == SET_FILE:
                file = number(&at, stop)
            elif opcode == CONST_ADD_PC:
                address += <uint64_t>least * ((255 - opcode_base) // line_range)
            elif opcode == FIXED_ADVANCE_PC:
                if stop - at < 2:
                    break
                memcpy(&fixed, at, 2)
                address += fixed
                at += 2
            else:
                for i in range(operands[opcode - 1]):
                    number(&at, stop)
        self.used = self.begun

    cdef int keep(self, uint64_t address, uint64_t line, uint64_t file, uint32_t unit) except -1:
        """Keep a row of the current sequence. Of several rows at one address the last holds."""
        cdef Row* row
        cdef Row* larger
        if line > 0xFFFFFFFF or file > 0xFFFFFFFF:
            line = file = 0
        if self.bad or address > 0xFFFFFFFF or self.used == MAX_ROWS:
            self.bad = True
            return 0
        if self.used > self.begun:
            row = &self.rows[self.used - 1]
            if address < row.address:
                self.bad = True
                return 0
            if row.line == line and row.file == file:
                return 0
            if row.address == address:
                row.line, row.file = <uint32_t>line, <uint32_t>file
                return 0
        if self.used == self.room:
            self.room = self.room * 2 if self.room else 4096
            larger = <Row*>realloc(self.rows, self.room * sizeof(Row))
            if larger == NULL:
                raise MemoryError
            self.rows = larger
        row = &self.rows[self.used]
        row.address, row.line, row.file, row.unit = <uint32_t>address, <uint32_t>line, <uint32_t>file, unit
        self.used += 1
        return 0

    cdef int end(self, uint64_t address, uint32_t unit) except -1:
        """End a sequence; the address is the first after it."""
        cdef Sequence* larger
        cdef Sequence* sequence
        if self.bad or self.used == self.begun or not self.rows[self.used - 1].address <= address <= 0xFFFFFFFF:
            self.used, self.bad = self.begun, False
            return 0
        if self.count == self.places:
            self.places = self.places * 2 if self.places else 256
            larger = <Sequence*>realloc(self.sequences, self.places * sizeof(Sequence))
            if larger == NULL:
                raise MemoryError
            self.sequences = larger
        sequence = &self.sequences[self.count]
        self.count += 1
        sequence.low = self.rows[self.begun].address
        sequence.length = <uint32_t>(address - sequence.low)
        sequence.first, sequence.count = <uint32_t>self.begun, <uint32_t>(self.used - self.begun)
        self.begun = self.used
        return 0

    def close(self):
        """Prepare for ``find`` after all units have been added."""
        if self.count:  # else there may be no memory yet, and qsort takes no NULL
            qsort(self.sequences, self.count, sizeof(Sequence), by_address)

    def find(self, uint32_t address):
        """Return (unit, file, line) of an address; None if no sequence contains it."""
        cdef size_t low = 0, high = self.count, middle, n
        cdef Sequence* sequence
        while low < high:
            middle = (low + high) // 2
            if self.sequences[middle].low <= address:
                low = middle + 1
            else:
                high = middle
        for n in range(min(low, <size_t>BACK)):
            sequence = &self.sequences[low - 1 - n]
            if address - sequence.low < sequence.length:
                return self.row_of(sequence, address)
        return None

    cdef tuple row_of(self, Sequence* sequence, uint32_t address):
        cdef size_t low = sequence.first, high = sequence.first + sequence.count, middle
        while low < high:
            middle = (low + high) // 2
            if self.rows[middle].address <= address:
                low = middle + 1
            else:
                high = middle
        cdef Row* row = &self.rows[low - 1]
        return row.unit, row.file, row.line
