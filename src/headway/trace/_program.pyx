"""The instructions of a program by address, each found once, for the flow.

`InstructionTable` is shared by all streams that execute it, so that each instruction is disassembled only once. `Seen` holds the
instructions that one stream has reached. A lost address of the stream is searched there, so it must not contain what
other streams have reached.
"""

cimport cython
from libc.stdlib cimport calloc, free

DEF CACHED = 1 << 20
DEF AHEAD = 64    # the most instructions that are counted ahead


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


@cython.final
cdef class Seen(InstructionTable):
    """The part of a program that one stream has reached."""

    def __init__(self, InstructionTable program not None):
        super().__init__(None, program.spans)
        self.program = program

    cdef int find(self, uint64_t address, uint8_t isa, Code* found) except -1:
        found[0] = self.program.code(address, isa)[0]
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
