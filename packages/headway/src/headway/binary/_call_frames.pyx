"""Call frame information as a sorted table: for each address, how the caller's frame is found.

Each byte of a program is executed a bounded number of times (`WORK`), and a table has a bounded number of rows, so no
file makes its reader hang or grow without bound. A description that is damaged, or that says what a rule cannot hold,
leaves its function without a rule.

Sources: DWARF Debugging Information Format, version 5, 6.4; Linux Standard Base Core 5.0, 10.6 (.eh_frame); System V ABI
of x86-64 and of AArch64 (DWARF's register numbers).
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, qsort, realloc
from libc.string cimport memcmp, memcpy, memset

cdef enum:
    SAVED = 6           # registers that functions save, and that rules follow
    RETURN = 6          # the place of the return address among them
    PLACES = 32         # registers by DWARF's numbers
    DEPTH = 32          # states that a program may remember
    LETTERS = 8         # of an augmentation
    MAX_ROWS = 1 << 25
    MAX_RULES = 1 << 20
    WORK = 64           # bytes executed for each byte of the sections, at most

# How the canonical frame address (CFA) is found.
cdef enum Cfa:
    NONE = 0            # nothing is known here
    OFFSET = 1          # register + offset
    DEREF = 2           # the word at register + offset, + more
    PLT = 3             # register + offset, + 8 if the last four bits of the address are `more` or higher
    UNKNOWN = 4         # it is described in a way that a rule cannot hold

# How a register of the caller is found.
cdef enum Where:
    SAME = 0
    AT_CFA = 1          # saved at an offset from the CFA
    AT_REGISTER = 2     # saved at an offset from a register
    UNDEFINED = 3
    IN_REGISTER = 5     # in another register; only that of the return address is followed (vfork)
    LOST = 4            # described in a way that a rule cannot hold

# Values of the fields `saved` and `return_at` of a rule that are no offsets.
cdef enum:
    KEPT = -32768       # the register has the caller's value
    GONE = -32767       # its value is lost
    OUTERMOST = -32766  # of the return address: there is no caller

cdef struct Rule:       # as struct frame_rule in linux/bpf/shared/layout.h
    uint8_t cfa, cfa_register, base, from_base
    int32_t offset, more
    int16_t saved[SAVED]
    int16_t return_at
    uint8_t signal
    uint8_t return_register # + 1: the return address is in this register; 0: it is in memory
    uint32_t spare_word

cdef struct Row:
    uint32_t address, rule

cdef struct Saved:
    uint8_t where, register
    int64_t offset

cdef struct State:
    uint8_t cfa, cfa_register
    int64_t offset, more
    Saved saved[SAVED + 1]

cdef struct Cie:
    size_t at           # where it begins; + 1, so 0 is none
    bint good, signal, sized
    uint8_t pointers, return_column
    uint64_t code_factor
    int64_t data_factor
    const uint8_t* program
    const uint8_t* end
    State initial

cdef struct Function:
    uint64_t start, end
    size_t cie
    const uint8_t* program
    const uint8_t* stop
    int section

cdef struct Section:
    const uint8_t* data
    size_t size
    uint64_t address
    bint eh             # .eh_frame, else .debug_frame

cdef struct Machine:
    uint8_t return_column, stack_pointer, registers
    uint8_t place[PLACES]   # of each of DWARF's registers among the kernel's (struct pt_regs), in words
    uint8_t saved[SAVED]    # DWARF's numbers of the registers that rules follow

cdef struct Reader:
    const uint8_t* at
    const uint8_t* end
    bint bad

cdef Machine X86_64, AARCH64
X86_64.return_column, X86_64.stack_pointer, X86_64.registers = 16, 7, 16
for _i, _place in enumerate((10, 12, 11, 5, 13, 14, 4, 19, 9, 8, 7, 6, 3, 2, 1, 0)):
    X86_64.place[_i] = _place
for _i, _place in enumerate((15, 14, 13, 12, 6, 3)):  # r15 to r12, rbp, rbx
    X86_64.saved[_i] = _place
AARCH64.return_column, AARCH64.stack_pointer, AARCH64.registers = 30, 31, 32
for _i in range(32):
    AARCH64.place[_i] = _i
for _i, _place in enumerate((19, 20, 21, 22, 29, 28)):
    AARCH64.saved[_i] = _place


cdef inline uint64_t fixed(Reader* r, size_t size) noexcept nogil:
    cdef uint64_t found = 0
    if <size_t>(r.end - r.at) < size:
        r.bad, r.at = True, r.end
        return 0
    memcpy(&found, r.at, size)
    r.at += size
    return found


cdef inline uint64_t unsigned_number(Reader* r) noexcept nogil:
    """Read a ULEB128 number, modulo 2^64."""
    cdef uint64_t found = 0
    cdef int shift = 0
    cdef uint8_t byte
    while r.at < r.end:
        byte = r.at[0]
        r.at += 1
        if shift < 64:
            found |= <uint64_t>(byte & 0x7F) << shift
            shift += 7
        if not byte & 0x80:
            return found
    r.bad = True
    return found


cdef inline int64_t signed_number(Reader* r) noexcept nogil:
    """Read an SLEB128 number, modulo 2^64."""
    cdef const uint8_t* start = r.at
    cdef uint64_t found = unsigned_number(r)
    cdef Py_ssize_t bits = 7 * min(r.at - start, <Py_ssize_t>10)
    if r.at > start and (r.at - 1)[0] & 0x40 and bits < 64:
        found |= ~<uint64_t>0 << bits
    return <int64_t>found


cdef uint64_t pointer(Reader* r, uint8_t encoding, uint64_t here) noexcept nogil:
    """Read an encoded pointer (Linux Standard Base Core 5.0, 10.5.1). ``here``: the address of its first byte."""
    cdef uint64_t found
    cdef int kind = encoding & 0x0F
    if kind == 0x00 or kind == 0x04 or kind == 0x0C:
        found = fixed(r, 8)
    elif kind == 0x01:
        found = unsigned_number(r)
    elif kind == 0x02:
        found = fixed(r, 2)
    elif kind == 0x03:
        found = fixed(r, 4)
    elif kind == 0x09:
        found = <uint64_t>signed_number(r)
    elif kind == 0x0A:
        found = <uint64_t><int64_t><int16_t>fixed(r, 2)
    elif kind == 0x0B:
        found = <uint64_t><int64_t><int32_t>fixed(r, 4)
    else:
        r.bad = True
        return 0
    if encoding & 0x70 == 0x10:
        found += here
    elif encoding & 0xF0:  # relative to something else, or indirect
        r.bad = True
    return found


cdef inline uint64_t cie_mark(bint eh, bint wide) noexcept nogil:
    """Return what stands in a CIE instead of a reference to one."""
    if eh:
        return 0
    return ~<uint64_t>0 if wide else <uint64_t>0xFFFFFFFFU


cdef int by_start(const void* a, const void* b) noexcept nogil:
    cdef const Function* one = <const Function*>a
    cdef const Function* other = <const Function*>b
    if one.start != other.start:
        return -1 if one.start < other.start else 1
    if one.section != other.section:  # of two for one place that of .eh_frame holds, which is the first section
        return 1 if one.section < other.section else -1
    return (one.program > other.program) - (one.program < other.program)


cdef inline uint64_t hash_of(const Rule* rule) noexcept nogil:
    cdef uint64_t hash = 0
    cdef const uint64_t* words = <const uint64_t*>rule
    cdef size_t i
    for i in range(sizeof(Rule) // 8):
        hash = (hash ^ words[i]) * <uint64_t>0x9E3779B97F4A7C15ULL
        hash ^= hash >> 29
    return hash


cdef class Compiler:
    """Compiles sections: ``add`` each, then ``rows``."""

    cdef Section sections[2]
    cdef int n_sections
    cdef list kept
    cdef uint64_t low, high, base
    cdef Machine machine
    cdef Function* functions
    cdef size_t n_functions, room_functions
    cdef Row* table
    cdef size_t n_rows, room_rows
    cdef Rule* rules
    cdef size_t n_rules, room_rules
    cdef uint32_t* slots
    cdef size_t n_slots
    cdef Cie cie
    cdef int cie_section
    cdef uint64_t work
    cdef size_t first_row
    cdef readonly size_t refused
    """Descriptions that could not be used."""

    def __cinit__(self, int machine, uint64_t base, uint64_t low, uint64_t high):
        """``machine``: the ELF number; ``base``: what addresses count from; ``low``, ``high``: where there is code."""
        if machine == 62:
            self.machine = X86_64
        elif machine == 183:
            self.machine = AARCH64
        else:
            raise ValueError("no such machine")
        self.base, self.low, self.high = base, low, high
        self.kept = []

    def __dealloc__(self):
        free(self.functions)
        free(self.table)
        free(self.rules)
        free(self.slots)

    def add(self, bytes data, uint64_t address, bint eh):
        """Add a section, .eh_frame (``eh``) before .debug_frame. ``address``: as linked."""
        if self.n_sections == 2:
            raise ValueError("two sections at most")
        self.kept.append(data)
        cdef Section* section = &self.sections[self.n_sections]
        section.data, section.size, section.address, section.eh = data, len(data), address, eh
        self.n_sections += 1

    def compile(self):
        """Return the rows and the rules as bytes. Raises MemoryError."""
        cdef int i, failed = 0
        cdef size_t total = 0
        for i in range(self.n_sections):
            total += self.sections[i].size
        self.work = <uint64_t>total * WORK
        with nogil:
            failed = self.run()
        if failed:
            raise MemoryError
        return (
            PyBytes_FromStringAndSize(<char*>self.table, self.n_rows * sizeof(Row)),
            PyBytes_FromStringAndSize(<char*>self.rules, self.n_rules * sizeof(Rule)),
        )

    cdef int run(self) noexcept nogil:
        cdef int i
        cdef size_t n
        cdef Rule rule
        memset(&rule, 0, sizeof(Rule))
        if self.number_of(&rule) < 0:
            return -1
        rule.cfa = UNKNOWN
        if self.number_of(&rule) < 0:
            return -1
        for i in range(self.n_sections):
            if self.list_functions(i):
                return -1
        if self.n_functions:
            qsort(self.functions, self.n_functions, sizeof(Function), by_start)
        self.cie.at, self.cie_section = 0, -1
        for n in range(self.n_functions):
            if n + 1 < self.n_functions and self.functions[n + 1].start < self.functions[n].end:
                self.functions[n].end = self.functions[n + 1].start
            if self.functions[n].start < self.functions[n].end and self.add_function(&self.functions[n]):
                return -1
        return 0

    cdef int list_functions(self, int number) noexcept nogil:
        """Find the descriptions (FDE) of a section."""
        cdef Section* section = &self.sections[number]
        cdef Reader r, inside
        cdef const uint8_t* entry
        cdef const uint8_t* place
        cdef uint64_t length, identifier, start, size, cie
        cdef bint wide
        cdef Function* larger
        r.at, r.end, r.bad = section.data, section.data + section.size, False
        while r.end - r.at >= 4:
            entry = r.at
            length = fixed(&r, 4)
            wide = length == <uint64_t>0xFFFFFFFFU
            if wide:
                length = fixed(&r, 8)
            if length == 0:
                continue  # the end of one file's part; there may be another behind it
            if r.bad or length > <uint64_t>(r.end - r.at):
                self.refused += 1
                return 0
            inside.at, inside.end, inside.bad = r.at, r.at + length, False
            r.at = inside.end
            place = inside.at
            identifier = fixed(&inside, 8 if wide and not section.eh else 4)
            if section.eh:
                if identifier == 0:
                    continue
                if identifier > <uint64_t>(place - section.data):
                    self.refused += 1
                    continue
                cie = <uint64_t>(place - section.data) - identifier
            else:
                if identifier == cie_mark(False, wide):
                    continue
                cie = identifier
            if inside.bad or not self.read_cie(number, cie):
                self.refused += 1
                continue
            start = pointer(
                &inside, self.cie.pointers, section.address + <uint64_t>(inside.at - section.data)
            )
            size = pointer(&inside, self.cie.pointers & 0x0F, 0)
            if self.cie.sized:
                length = unsigned_number(&inside)
                if inside.bad or length > <uint64_t>(inside.end - inside.at):
                    self.refused += 1
                    continue
                inside.at += length
            if inside.bad or not size or start < self.low or start >= self.high or size > self.high - start:
                self.refused += 1
                continue
            if start - self.base + size > <uint64_t>0xFFFFFFFFU:
                self.refused += 1
                continue
            if self.n_functions == self.room_functions:
                self.room_functions = self.room_functions * 2 if self.room_functions else 1024
                larger = <Function*>realloc(self.functions, self.room_functions * sizeof(Function))
                if larger == NULL:
                    return -1
                self.functions = larger
            larger = &self.functions[self.n_functions]
            larger.start, larger.end, larger.cie, larger.section = start, start + size, cie, number
            larger.program, larger.stop = inside.at, inside.end
            self.n_functions += 1
        return 0

    cdef bint read_cie(self, int number, uint64_t at) noexcept nogil:
        """Read what several descriptions share (CIE). Return whether it could be read."""
        cdef Section* section = &self.sections[number]
        cdef Cie* cie = &self.cie
        if self.cie_section == number and cie.at == at + 1:
            return cie.good
        self.cie_section, cie.at, cie.good, cie.signal, cie.sized = number, at + 1, False, False, False
        cie.pointers = 0
        if at >= section.size:
            return False
        cdef Reader r
        cdef uint64_t length, identifier
        cdef uint8_t version, encoding
        cdef bint wide
        cdef const uint8_t* letters
        cdef const uint8_t* data
        cdef int n = 0, i
        r.at, r.end, r.bad = section.data + at, section.data + section.size, False
        length = fixed(&r, 4)
        wide = length == <uint64_t>0xFFFFFFFFU
        if wide:
            length = fixed(&r, 8)
        if r.bad or length > <uint64_t>(r.end - r.at):
            return False
        r.end = r.at + length
        identifier = fixed(&r, 8 if wide and not section.eh else 4)
        if identifier != cie_mark(section.eh, wide):
            return False
        version = <uint8_t>fixed(&r, 1)
        if version != 1 and version != 3 and version != 4:
            return False
        letters = r.at
        while r.at < r.end and r.at[0]:
            r.at += 1
            n += 1
        if r.at >= r.end or n > LETTERS:
            return False
        r.at += 1
        if version == 4 and (fixed(&r, 1) != 8 or fixed(&r, 1) != 0):  # sizes of addresses and segments
            return False
        cie.code_factor = unsigned_number(&r)
        cie.data_factor = signed_number(&r)
        length = fixed(&r, 1) if version == 1 else unsigned_number(&r)
        if r.bad or length != self.machine.return_column:
            return False
        cie.return_column = <uint8_t>length
        if n and letters[0] == c"z":
            cie.sized = True
            length = unsigned_number(&r)
            if r.bad or length > <uint64_t>(r.end - r.at):
                return False
            data = r.at + length
            for i in range(1, n):
                if letters[i] == c"R":
                    cie.pointers = <uint8_t>fixed(&r, 1)
                elif letters[i] == c"P":
                    encoding = <uint8_t>fixed(&r, 1)
                    pointer(&r, encoding & 0x0F, 0)
                elif letters[i] == c"L":
                    fixed(&r, 1)
                elif letters[i] == c"S":
                    cie.signal = True
                elif letters[i] != c"B" and letters[i] != c"G":
                    return False
            if r.bad or r.at > data:
                return False
            r.at = data
        elif n:
            return False
        cie.program, cie.end = r.at, r.end
        memset(&cie.initial, 0, sizeof(State))
        cie.good = self.execute(&cie.initial, NULL, cie.program, cie.end, 0, 0) == 0
        return cie.good

    cdef int add_function(self, Function* function) noexcept nogil:
        """Add the rows of a function. Return -1 where there is no memory."""
        cdef State state
        cdef int result = 1
        if self.n_rows and self.table[self.n_rows - 1].address == function.start - self.base:
            self.n_rows -= 1  # the end of the one before
        self.first_row = self.n_rows
        if self.read_cie(function.section, function.cie):
            state = self.cie.initial
            result = self.execute(
                &state, &self.cie.initial, function.program, function.stop, function.start, function.end
            )
        if result > 0:
            self.refused += 1
            self.n_rows = self.first_row
            if self.keep(function.start, 1):
                return -1
        elif result < 0:
            return -1
        return self.keep(function.end, 0)

    cdef int execute(
        self, State* state, const State* initial, const uint8_t* program, const uint8_t* stop, uint64_t location,
        uint64_t end,
    ) noexcept nogil:
        """Execute a program, and add its rows up to ``end``; none for a CIE, whose end is 0.

        Return 0; 1: the program is damaged; -1: there is no memory.
        """
        cdef State remembered[DEPTH]
        cdef int depth = 0, number
        cdef Reader r
        cdef uint8_t byte, operand
        cdef uint64_t register, length, start = location
        cdef bint moves
        r.at, r.end, r.bad = program, stop, False
        if <uint64_t>(stop - program) > self.work:
            return 1
        self.work -= <uint64_t>(stop - program)
        while r.at < r.end:
            byte = r.at[0]
            r.at += 1
            operand = byte & 0x3F
            length = 0
            moves = True
            if byte & 0xC0 == 0x40:  # DW_CFA_advance_loc
                length = operand * self.cie.code_factor
            elif byte == 0x02:
                length = fixed(&r, 1) * self.cie.code_factor
            elif byte == 0x03:
                length = fixed(&r, 2) * self.cie.code_factor
            elif byte == 0x04:
                length = fixed(&r, 4) * self.cie.code_factor
            elif byte == 0x01:  # DW_CFA_set_loc
                register = pointer(
                    &r, self.cie.pointers,
                    self.sections[self.cie_section].address + <uint64_t>(r.at - self.sections[self.cie_section].data),
                )
                if register < location:
                    return 1
                length = register - location
            else:
                moves = False
            if r.bad:
                return 1
            if moves:
                if not end:
                    return 1
                if length == 0:
                    continue
                number = self.add_row(state, location)
                if number:
                    return number
                if length >= end - location:
                    return 0
                location += length
                continue
            if byte & 0xC0 == 0x80:  # DW_CFA_offset
                self.save(state, operand, AT_CFA, 0, <int64_t>(unsigned_number(&r) * <uint64_t>self.cie.data_factor))
            elif byte & 0xC0 == 0xC0:  # DW_CFA_restore
                self.restore(state, initial, operand)
            elif byte == 0x0A:  # DW_CFA_remember_state
                if depth == DEPTH:
                    return 1
                remembered[depth] = state[0]
                depth += 1
            elif byte == 0x0B:  # DW_CFA_restore_state
                if not depth:
                    return 1
                depth -= 1
                state[0] = remembered[depth]
            elif self.other(state, initial, byte, &r):
                return 1
            if r.bad:
                return 1
        return self.add_row(state, location) if end else 0

    cdef bint other(self, State* state, const State* initial, uint8_t byte, Reader* r) noexcept nogil:
        """Execute an instruction that is none of the frequent ones. Return whether it is not known."""
        cdef uint64_t register, other
        cdef int64_t factor = self.cie.data_factor
        if byte == 0x00:  # DW_CFA_nop
            pass
        elif byte == 0x0C:  # DW_CFA_def_cfa
            register = unsigned_number(r)
            self.set_cfa(state, register, <int64_t>unsigned_number(r))
        elif byte == 0x12:  # DW_CFA_def_cfa_sf
            register = unsigned_number(r)
            self.set_cfa(state, register, <int64_t>(<uint64_t>signed_number(r) * <uint64_t>factor))
        elif byte == 0x0D:  # DW_CFA_def_cfa_register
            register = unsigned_number(r)
            if state.cfa == OFFSET:
                self.set_cfa(state, register, state.offset)
            else:
                state.cfa = UNKNOWN
        elif byte == 0x0E:  # DW_CFA_def_cfa_offset
            state.offset = <int64_t>unsigned_number(r)
            if state.cfa != OFFSET:
                state.cfa = UNKNOWN
        elif byte == 0x13:  # DW_CFA_def_cfa_offset_sf
            state.offset = <int64_t>(<uint64_t>signed_number(r) * <uint64_t>factor)
            if state.cfa != OFFSET:
                state.cfa = UNKNOWN
        elif byte == 0x0F:  # DW_CFA_def_cfa_expression
            self.set_expression(state, r)
        elif byte == 0x05:  # DW_CFA_offset_extended
            register = unsigned_number(r)
            self.save(state, register, AT_CFA, 0, <int64_t>(unsigned_number(r) * <uint64_t>factor))
        elif byte == 0x11:  # DW_CFA_offset_extended_sf
            register = unsigned_number(r)
            self.save(state, register, AT_CFA, 0, <int64_t>(<uint64_t>signed_number(r) * <uint64_t>factor))
        elif byte == 0x2F:  # DW_CFA_GNU_negative_offset_extended
            register = unsigned_number(r)
            self.save(state, register, AT_CFA, 0, -<int64_t>(unsigned_number(r) * <uint64_t>factor))
        elif byte == 0x06:  # DW_CFA_restore_extended
            self.restore(state, initial, unsigned_number(r))
        elif byte == 0x07:  # DW_CFA_undefined
            self.save(state, unsigned_number(r), UNDEFINED, 0, 0)
        elif byte == 0x08:  # DW_CFA_same_value
            self.save(state, unsigned_number(r), SAME, 0, 0)
        elif byte == 0x09:  # DW_CFA_register
            register = unsigned_number(r)
            other = unsigned_number(r)
            if register == self.machine.return_column and other < self.machine.registers:
                self.save(state, register, IN_REGISTER, self.machine.place[other], 0)
            else:
                self.save(state, register, LOST, 0, 0)
        elif byte == 0x14:  # DW_CFA_val_offset
            register = unsigned_number(r)
            unsigned_number(r)
            self.save(state, register, LOST, 0, 0)
        elif byte == 0x15:  # DW_CFA_val_offset_sf
            register = unsigned_number(r)
            signed_number(r)
            self.save(state, register, LOST, 0, 0)
        elif byte == 0x10:  # DW_CFA_expression
            register = unsigned_number(r)
            self.save_by_expression(state, register, r)
        elif byte == 0x16:  # DW_CFA_val_expression
            register = unsigned_number(r)
            skip_block(r)
            self.save(state, register, LOST, 0, 0)
        elif byte == 0x2E:  # DW_CFA_GNU_args_size
            unsigned_number(r)
        elif byte == 0x2D and self.machine.return_column == 30:  # DW_CFA_AARCH64_negate_ra_state
            pass
        else:
            return True
        return False

    cdef void set_cfa(self, State* state, uint64_t register, int64_t offset) noexcept nogil:
        state.offset, state.more = offset, 0
        if register >= self.machine.registers:
            state.cfa = UNKNOWN
            return
        state.cfa, state.cfa_register = OFFSET, self.machine.place[register]

    cdef int saved_place(self, uint64_t register) noexcept nogil:
        """Return the place of a register among those that rules follow; -1: none."""
        cdef int i
        if register == self.machine.return_column:
            return RETURN
        for i in range(SAVED):
            if self.machine.saved[i] == register:
                return i
        return -1

    cdef void save(self, State* state, uint64_t register, uint8_t where, uint8_t base, int64_t offset) noexcept nogil:
        cdef int place = self.saved_place(register)
        if place >= 0:
            state.saved[place].where, state.saved[place].register = where, base
            state.saved[place].offset = offset

    cdef void restore(self, State* state, const State* initial, uint64_t register) noexcept nogil:
        cdef int place = self.saved_place(register)
        if place >= 0 and initial != NULL:
            state.saved[place] = initial.saved[place]

    cdef void save_by_expression(self, State* state, uint64_t register, Reader* r) noexcept nogil:
        """A register is saved at an address; rules can hold one that is a register and an offset."""
        cdef Reader inside
        cdef int number
        cdef int64_t offset
        take_block(r, &inside)
        number = self.based(&inside, &offset)
        if number < 0 or inside.bad or inside.at != inside.end:
            self.save(state, register, LOST, 0, 0)
        else:
            self.save(state, register, AT_REGISTER, self.machine.place[number], offset)

    cdef int based(self, Reader* r, int64_t* offset) noexcept nogil:
        """Read DW_OP_breg or DW_OP_bregx. Return DWARF's number of the register; -1: it is something else."""
        cdef uint64_t operation = fixed(r, 1), register
        if 0x70 <= operation <= 0x8F:
            register = operation - 0x70
        elif operation == 0x92:
            register = unsigned_number(r)
        else:
            return -1
        offset[0] = signed_number(r)
        return <int>register if register < self.machine.registers and not r.bad else -1

    cdef void set_expression(self, State* state, Reader* r) noexcept nogil:
        """The CFA is an expression; rules can hold those that compilers and linkers write."""
        cdef Reader inside
        cdef int number
        cdef int64_t offset = 0, address
        cdef uint64_t operation
        take_block(r, &inside)
        state.cfa, state.offset, state.more = UNKNOWN, 0, 0
        number = self.based(&inside, &offset)
        if number < 0 or inside.bad:
            return
        if inside.at == inside.end:
            state.cfa, state.cfa_register, state.offset = OFFSET, self.machine.place[number], offset
            return
        operation = fixed(&inside, 1)
        if operation == 0x06:  # DW_OP_deref
            if inside.at < inside.end:
                if fixed(&inside, 1) != 0x23:  # DW_OP_plus_uconst
                    return
                address = <int64_t>unsigned_number(&inside)
            else:
                address = 0
            if inside.bad or inside.at != inside.end:
                return
            state.cfa, state.cfa_register, state.offset, state.more = DEREF, self.machine.place[number], offset, address
            return
        # DW_OP_breg7 8; DW_OP_breg16 0; DW_OP_lit15; DW_OP_and; DW_OP_litN; DW_OP_ge; DW_OP_lit3; DW_OP_shl; DW_OP_plus
        if operation != 0x80 or self.machine.return_column != 16 or signed_number(&inside) != 0:
            return
        if inside.bad or inside.end - inside.at != 7:
            return
        operation = inside.at[2]
        if (
            inside.at[0] == 0x3F and inside.at[1] == 0x1A and 0x30 <= operation <= 0x3F and inside.at[3] == 0x2A
            and inside.at[4] == 0x33 and inside.at[5] == 0x24 and inside.at[6] == 0x22
        ):
            state.cfa, state.cfa_register = PLT, self.machine.place[number]
            state.offset, state.more = offset, <int64_t>(operation - 0x30)

    cdef int add_row(self, const State* state, uint64_t location) noexcept nogil:
        """Add a row. Return 0; -1: there is no memory."""
        cdef Rule rule
        cdef int64_t number
        self.make_rule(state, &rule)
        number = self.number_of(&rule)
        return -1 if number < 0 else self.keep(location, <uint32_t>number)

    cdef void make_rule(self, const State* state, Rule* rule) noexcept nogil:
        cdef int i
        cdef const Saved* saved
        cdef bint based = False
        cdef int16_t value
        memset(rule, 0, sizeof(Rule))
        if (
            state.cfa == NONE or state.cfa == UNKNOWN or <int64_t><int32_t>state.offset != state.offset
            or <int64_t><int32_t>state.more != state.more
        ):
            rule.cfa = UNKNOWN
            return
        for i in range(SAVED + 1):
            saved = &state.saved[i]
            value = KEPT
            if saved.where == UNDEFINED:
                value = OUTERMOST if i == RETURN else GONE
            elif saved.where == LOST:
                value = GONE
            elif saved.where == IN_REGISTER:
                value = 0
                rule.return_register = saved.register + 1
            elif saved.where != SAME:
                value = GONE
                if -32000 <= saved.offset <= 32000 and (
                    saved.where == AT_CFA or not based or rule.base == saved.register
                ):
                    value = <int16_t>saved.offset
                    if saved.where == AT_REGISTER:
                        based, rule.base = True, saved.register
                        rule.from_base |= <uint8_t>(1 << i)
            if i < SAVED:
                rule.saved[i] = value
            else:
                rule.return_at = value
        if rule.return_at == GONE or (rule.return_at == KEPT and self.machine.return_column == 16):
            memset(rule, 0, sizeof(Rule))
            rule.cfa = UNKNOWN
            return
        rule.cfa, rule.cfa_register = state.cfa, state.cfa_register
        rule.offset, rule.more = <int32_t>state.offset, <int32_t>state.more
        rule.signal = self.cie.signal

    cdef int64_t number_of(self, const Rule* rule) noexcept nogil:
        """Return the number of a rule, which is added if it is new; -1: there is no memory."""
        cdef size_t place
        cdef Rule* larger
        if self.n_rules * 2 >= self.n_slots and self.grow():
            return -1
        place = hash_of(rule) & (self.n_slots - 1)
        while self.slots[place]:
            if memcmp(&self.rules[self.slots[place] - 1], rule, sizeof(Rule)) == 0:
                return self.slots[place] - 1
            place = (place + 1) & (self.n_slots - 1)
        if self.n_rules == MAX_RULES:
            return 1
        if self.n_rules == self.room_rules:
            self.room_rules = self.room_rules * 2 if self.room_rules else 256
            larger = <Rule*>realloc(self.rules, self.room_rules * sizeof(Rule))
            if larger == NULL:
                return -1
            self.rules = larger
        self.rules[self.n_rules] = rule[0]
        self.n_rules += 1
        self.slots[place] = <uint32_t>self.n_rules
        return self.n_rules - 1

    cdef int grow(self) noexcept nogil:
        """Make room for twice as many rules. Return -1 where there is no memory."""
        cdef size_t size = self.n_slots * 2 if self.n_slots else 1024, n, place
        cdef uint32_t* slots = <uint32_t*>calloc(size, sizeof(uint32_t))
        if slots == NULL:
            return -1
        for n in range(self.n_rules):
            place = hash_of(&self.rules[n]) & (size - 1)
            while slots[place]:
                place = (place + 1) & (size - 1)
            slots[place] = <uint32_t>(n + 1)
        free(self.slots)
        self.slots, self.n_slots = slots, size
        return 0

    cdef int keep(self, uint64_t location, uint32_t rule) noexcept nogil:
        """Keep a row; one that says what the row before it says is not needed."""
        cdef uint32_t address = <uint32_t>(location - self.base)
        cdef Row* row
        cdef Row* larger
        if self.n_rows:
            row = &self.table[self.n_rows - 1]
            if row.rule == rule:
                return 0
            if row.address == address and self.n_rows > self.first_row:
                row.rule = rule
                return 0
        if self.n_rows == MAX_ROWS:
            return -1
        if self.n_rows == self.room_rows:
            self.room_rows = self.room_rows * 2 if self.room_rows else 4096
            larger = <Row*>realloc(self.table, self.room_rows * sizeof(Row))
            if larger == NULL:
                return -1
            self.table = larger
        row = &self.table[self.n_rows]
        row.address, row.rule = address, rule
        self.n_rows += 1
        return 0


cdef void take_block(Reader* r, Reader* inside) noexcept nogil:
    """Take a block of bytes with its length before it."""
    cdef uint64_t length = unsigned_number(r)
    if r.bad or length > <uint64_t>(r.end - r.at):
        r.bad, r.at = True, r.end
        inside.at = inside.end = r.end
        inside.bad = True
        return
    inside.at, inside.end, inside.bad = r.at, r.at + length, False
    r.at += length


cdef void skip_block(Reader* r) noexcept nogil:
    cdef Reader inside
    take_block(r, &inside)
