"""The instructions of a program by address, each found once, for the flow.

`InstructionTable` is shared by all streams that execute it, so that each instruction is disassembled only once. `Seen`
holds the instructions that one stream has reached. A lost address of the stream is searched there, so it must not
contain what other streams have reached.
"""

cimport cython
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcpy, memset

DEF CACHED = 1 << 20
DEF AHEAD = 64         # the most instructions that are counted ahead
DEF LOGGED = 1 << 20   # the most entries of a log


cdef bint sound(Code* code) noexcept nogil:
    """Return whether an instruction that was read from a file is one that the flow can follow."""
    if code.branching == ABSENT:
        return code.size <= 4
    return (code.size == 2 or code.size == 4) and code.branching <= RETURNS and code.conditional <= 1 and (
        code.target_isa <= A64 and code.block <= 8
    )


cdef class InstructionTable:
    """Instructions by address and instruction set. A pointer to one is valid until the next one is asked for.

    ``look(address, isa)`` returns the instruction there as ``code.Code`` does. ``spans`` has (start, end) of every
    segment of the image.
    """

    def __init__(self, look, spans):
        self.look, self.spans = look, tuple(spans)

    def __cinit__(self):
        self.capacity = 1024
        self.table = <Code*>calloc(self.capacity, sizeof(Code))
        if self.table == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.table)

    cdef Code* code(self, uint64_t address, uint8_t isa) except NULL:
        cdef uint64_t key = key_of(address, isa)
        cdef size_t at = slot_of(key, self.capacity)
        while self.table[at].key:
            if self.table[at].key == key:
                return &self.table[at]
            at = at + 1 & (self.capacity - 1)
        if self.entries * 2 >= self.capacity:
            self.grow()
            return self.code(address, isa)
        self.find(address, isa, &self.table[at])
        self.table[at].key, self.table[at].explored = key, 0
        self.entries += 1
        return &self.table[at]

    cdef int find(self, uint64_t address, uint8_t isa, Code* found) except -1:
        size, branching, conditional, target, target_isa, block = self.look(address, isa)
        found.size, found.branching, found.conditional = size, branching, conditional
        found.target, found.target_isa, found.block = target, target_isa, block
        return 0

    cdef int grow(self) except -1:
        cdef size_t old = self.capacity, i, at
        cdef Code* before = self.table
        cdef bint keep = old < CACHED
        cdef Code* after = <Code*>calloc(old * 2 if keep else old, sizeof(Code))
        if after == NULL:
            raise MemoryError
        self.table = after
        if keep:
            self.capacity = old * 2
            for i in range(old):
                if before[i].key:
                    at = slot_of(before[i].key, self.capacity)
                    while after[at].key:
                        at = at + 1 & (self.capacity - 1)
                    after[at] = before[i]
        else:
            self.entries = 0
        free(before)
        return 0

    cdef int add(self, Code* code) except -1:
        """Add an instruction that was read from a file, unless it is there. Raises ValueError if it cannot be one."""
        cdef uint64_t key = code.key
        cdef size_t at
        if not key or not sound(code):
            raise ValueError("instruction")
        if self.entries * 2 >= self.capacity:
            self.grow()
        at = slot_of(key, self.capacity)
        while self.table[at].key:
            if self.table[at].key == key:
                return 0
            at = at + 1 & (self.capacity - 1)
        self.table[at] = code[0]
        self.table[at].explored = self.table[at].ahead = self.table[at].halves = 0
        self.entries += 1
        return 0

    def save(self):
        """Return the instructions that have been found, as bytes that `load` takes."""
        cdef size_t i, n = 0
        cdef bytes found = PyBytes_FromStringAndSize(NULL, self.entries * sizeof(Code))
        cdef Code* out = <Code*><char*>found
        for i in range(self.capacity):
            if self.table[i].key:
                out[n] = self.table[i]
                n += 1
        return found

    def load(self, bytes found not None):
        """Add instructions that `save` returned. Raises ValueError for other bytes."""
        cdef size_t i
        cdef Code code
        if len(found) % sizeof(Code) or len(found) > CACHED * sizeof(Code):
            raise ValueError("instructions")
        for i in range(len(found) // sizeof(Code)):
            memcpy(&code, <const char*>found + i * sizeof(Code), sizeof(Code))
            self.add(&code)


@cython.final
cdef class Seen(InstructionTable):
    """The part of a program that one stream has reached."""

    def __init__(self, InstructionTable program not None):
        super().__init__(None, program.spans)
        self.program = program

    def __dealloc__(self):
        free(self.log)

    cdef int find(self, uint64_t address, uint8_t isa, Code* found) except -1:
        found[0] = self.program.code(address, isa)[0]
        if self.logs:
            self.note(key_of(address, isa), found, False)
        return 0

    cdef int grow(self) except -1:
        cdef Code none
        memset(&none, 0, sizeof(none))
        if self.logs and self.capacity >= CACHED:
            self.note(0, &none, False)
        return InstructionTable.grow(self)

    cdef int note(self, uint64_t key, Code* code, bint explored) except -1:
        """Add to the log. A log that is full is given up."""
        cdef Code* grown
        if self.logged == LOGGED:
            self.logs = False
            return 0
        if self.logged == self.room:
            self.room = self.room * 2 if self.room else 1024
            grown = <Code*>realloc(self.log, self.room * sizeof(Code))
            if grown == NULL:
                raise MemoryError
            self.log = grown
        self.log[self.logged] = code[0]
        self.log[self.logged].key, self.log[self.logged].explored = key, explored
        self.logged += 1
        return 0

    cdef int explored(self, Code* code) except -1:
        """Mark an instruction as explored."""
        code.explored = 1
        if self.logs:
            self.note(code.key, code, True)
        return 0

    cdef bytes history(self):
        """Return the log."""
        return PyBytes_FromStringAndSize(<const char*>self.log, self.logged * sizeof(Code))

    cdef int restore(self, bytes history, size_t logged) except -1:
        """Make the table, which is empty, what it was after so many entries of a log. Raises ValueError for others."""
        cdef size_t i
        cdef Code code
        if len(history) % sizeof(Code) or logged > len(history) // sizeof(Code):
            raise ValueError("log")
        for i in range(logged):
            memcpy(&code, <const char*>history + i * sizeof(Code), sizeof(Code))
            if not code.key:
                if self.capacity < CACHED or self.entries * 2 < self.capacity:
                    raise ValueError("log")
                InstructionTable.grow(self)
            elif code.explored:
                self.mark(code.key)
            else:
                self.add(&code)
        return 0

    cdef int mark(self, uint64_t key) except -1:
        cdef size_t at = slot_of(key, self.capacity)
        while self.table[at].key and self.table[at].key != key:
            at = at + 1 & (self.capacity - 1)
        if self.table[at].key:
            self.table[at].explored = 1
        return 0

    cdef Code* count_ahead(self, uint64_t address, uint8_t isa) except NULL:
        """Count the plain instructions without a condition from one of them on. Return that one."""
        cdef uint64_t at = address
        cdef Code* code = code_at(self, at, isa)
        cdef uint8_t n = 0
        while n < AHEAD and code.branching == PLAIN and not code.conditional:
            at += code.size
            n += 1
            code = code_at(self, at, isa)
        code = code_at(self, address, isa)
        code.ahead, code.halves = n, <uint8_t>((at - address) // 2)
        return code
