"""The flow of E-Trace: encapsulated packets become what each source executed.

The bytes between two synchronisation sequences are decoded only if their packets end where the second one begins. The
instructions of a source are given only when its next synchronisation packet agrees with them, so that damage costs
instructions, and hardly ever makes some up. A packet that reports an address means either the target of a jump or a
place on the way. Often only the source's next packet tells which, so it waits for that.
"""

from array import array

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcpy, memset

from headway_trace._records cimport Named, SymbolCells
from headway_trace._text cimport put_address, put_bytes, put_decimal

from ._packets cimport (
    BRANCH_PREDICTION, CONTEXT, ENDED_ANYWAY, FULL_ADDRESS, IMPLICIT_RETURN,
    JUMP_TARGET_CACHE, LOST, NO_CHANGE, SEQUENTIAL_JUMP, START, SUPPORT, TRAP, Packet, Widths, read_packet,
)

__all__ = ["EtraceChoice", "EtraceDecoder", "EtraceRows"]

# How the flow continues after an instruction.
cdef enum:  # Going
    UNSEEN = 0
    PLAIN
    BRANCHING
    JUMPING            # to a target that is in the instruction
    INDIRECT
    RETURNING          # from a trap
    CALLING            # of the environment: it traps, and is not retired
    LOADING            # LUI, AUIPC: the constant of a jump may be in it
    NOTHING            # no bytes are known, or none of an instruction

cdef enum:
    LINKS = 1          # a call
    RETURNS = 2
    # The codes of rows, as in docs/trace-format.md.
    EXECUTED = 16
    NOT_TAKEN = 17
    TRAPS = 18
    UNKNOWN = 32
    BEFORE = 32
    UNTRACED = 33
    OVERFLOW = 34
    DAMAGE = 35
    CONTRADICTION = 36
    IMAGE = 37
    CUT_OFF = 39

cdef enum:             # what a packet with an address reports
    TARGET = 0         # the target of a jump that is not in the program
    PLACE = 1          # a place on the way, or such a target, whichever comes first
    LAST_BRANCH = 2    # no address: up to the last branch
    SYNC = 3

cdef enum:
    MAX_REGIONS = 256
    MAX_STACK = 4096
    # Instructions without a branch or a reported address after which the flow has lost its way.
    STRAIGHT = 1 << 16
    # Instructions to which one packet may lead; a few bytes can tell of 2^32 predicted branches.
    LONGEST_WAY = 1 << 20
    # Rows of a source that wait for a synchronisation packet to agree; more are given without. Also of all sources.
    HELD = 1 << 18
    # Rows for which a source keeps memory while none wait.
    SMALL = 1 << 11
    # Rows that are given at once.
    ENOUGH = 1 << 16

cdef struct Code:
    uint64_t target    # LOADING: the constant; INDIRECT: the offset
    # The register that is jumped by, or loaded.
    uint8_t going, size, links, reg
    int32_t name       # the number of its function; -1: not sought, -2: none

cdef struct Region:
    uint64_t start
    uint64_t size
    uint8_t* bytes
    Code* code

cdef struct Source:
    uint64_t pc
    uint64_t base              # the last address that was reported
    uint64_t context
    int64_t time
    uint32_t privilege
    uint32_t map
    uint32_t branches          # outcomes in `map`
    uint64_t predicted         # then, branches that were predicted
    uint32_t failed            # then, one that was not
    uint32_t options
    Code* last                 # the instruction before `pc`; NULL: none that is known
    uint64_t last_pc
    uint64_t straight          # instructions since the last branch; the next field, since the last packet
    uint64_t way
    uint8_t seen
    uint8_t skipped            # it is not asked for
    uint8_t known
    uint8_t begun              # it has been synchronised
    uint8_t deaf               # only a synchronisation packet can end the gap
    uint8_t why
    uint8_t waits              # `held` waits for the next packet
    int64_t gap                # the byte at which the gap began; -1: there is none
    int64_t synced             # the byte of the last synchronisation packet
    int64_t reached            # the last time that is known
    Packet held
    Packet work                # what the flow is on its way to
    int kind
    Row* rows                  # since the last synchronisation packet
    Py_ssize_t size, room
    Py_ssize_t depth           # entries of the stack, a ring that begins at `bottom`
    Py_ssize_t bottom
    uint64_t* stack
    uint8_t* predictor
    uint64_t* cache


cdef inline uint64_t sign(uint64_t value, int bits) noexcept nogil:
    return (value ^ (<uint64_t>1 << (bits - 1))) - (<uint64_t>1 << (bits - 1))


cdef void classify(Code* code, uint32_t word, uint64_t address, bint wide) noexcept nogil:
    """Find what an instruction does to the flow. The constants of RV32 are cut to 32 bits by the caller."""
    cdef uint32_t rd = word >> 7 & 31, rs1 = word >> 15 & 31, f3 = word >> 12 & 7, opcode = word & 0x7F
    cdef uint64_t i
    code.going, code.links, code.reg, code.target = PLAIN, 0, 0, 0
    if word & 3 == 3:
        code.size = 4
        if opcode == 0x63 and f3 != 2 and f3 != 3:
            i = word >> 31 << 12 | (word >> 7 & 1) << 11 | (word >> 25 & 0x3F) << 5 | (word >> 8 & 15) << 1
            code.going, code.target = BRANCHING, address + sign(i, 13)
        elif opcode == 0x6F:
            i = word >> 31 << 20 | (word >> 12 & 0xFF) << 12 | (word >> 20 & 1) << 11 | (word >> 21 & 0x3FF) << 1
            code.going, code.target = JUMPING, address + sign(i, 21)
            code.links = LINKS if rd == 1 else 0
        elif opcode == 0x67 and f3 == 0:
            code.target = sign(word >> 20, 12)
            code.going, code.reg = INDIRECT, <uint8_t>rs1
            code.links = LINKS if rd == 1 else RETURNS if rs1 == 1 and rd == 0 else 0
            if rs1 == 0:
                code.going = JUMPING
        elif opcode == 0x37 or opcode == 0x17:
            code.going, code.reg = LOADING, <uint8_t>rd
            code.target = sign(word & 0xFFFFF000u, 32) + (address if opcode == 0x17 else 0)
        elif word == 0x00000073:
            code.going = CALLING
        elif word == 0x30200073 or word == 0x10200073 or word == 0x00200073 or word == 0x7B200073 or word == 0x70200073:
            code.going = RETURNING
        return
    code.size = 2
    f3 = word >> 13 & 7
    if word & 3 == 1:
        if f3 == 5 or f3 == 1 and not wide:
            i = (
                (word >> 12 & 1) << 11 | (word >> 11 & 1) << 4 | (word >> 9 & 3) << 8 | (word >> 8 & 1) << 10
                | (word >> 7 & 1) << 6
                | (word >> 6 & 1) << 7 | (word >> 3 & 7) << 1 | (word >> 2 & 1) << 5
            )
            code.going, code.target = JUMPING, address + sign(i, 12)
            code.links = LINKS if f3 == 1 else 0
        elif f3 >= 6:
            i = (
                (word >> 12 & 1) << 8 | (word >> 10 & 3) << 3 | (word >> 5 & 3) << 6 | (word >> 3 & 3) << 1
                | (word >> 2 & 1) << 5
            )
            code.going, code.target = BRANCHING, address + sign(i, 9)
        elif f3 == 3 and rd != 2 and rd != 0:
            code.going, code.reg = LOADING, <uint8_t>rd
            code.target = sign((word >> 12 & 1) << 17 | (word >> 2 & 31) << 12, 18)
    elif word & 3 == 2 and f3 == 4 and not word >> 2 & 31:
        if rd:
            code.going, code.reg = INDIRECT, <uint8_t>rd
            code.links = LINKS if word >> 12 & 1 else RETURNS if rd == 1 else 0


cdef class EtraceRows:
    """What sources executed, each source's rows in order.

    ``rows[i]`` is (source, time, context, address, size, code, end). ``time`` and ``context`` are None if they are not
    known. A gap has size 0 and a code from 32 on; its ``address`` and ``context`` are the bytes of the stream from
    which and up to which nothing is known, and ``end`` is the time at which it ended, or None. Otherwise ``end`` is
    None.
    """

    def __dealloc__(self):
        free(self.data)

    def __len__(self):
        return self.size

    def __getitem__(self, Py_ssize_t i):
        cdef Row* r
        if not 0 <= i < self.size:
            raise IndexError(i)
        r = &self.data[i]
        end = r.after if r.what >= UNKNOWN and r.after >= 0 else None
        return (r.source, None if r.time < 0 else r.time, r.context, r.address, r.size, r.what, end)

    def counts(self):
        """Return (source, code, number of rows) of those that there are."""
        cdef Py_ssize_t i
        cdef uint32_t most = 0
        cdef int64_t* counts
        for i in range(self.size):
            most = max(most, self.data[i].source)
        counts = <int64_t*>calloc((most + 1) * 64, sizeof(int64_t))
        if counts == NULL:
            raise MemoryError
        for i in range(self.size):
            counts[self.data[i].source * 64 + (self.data[i].what & 63)] += 1
        found = [(i // 64, i % 64, counts[i]) for i in range(<Py_ssize_t>(most + 1) * 64) if counts[i]]
        free(counts)
        return found

    def last_before(self, dict found, int64_t time):
        """For each source, keep in ``found`` its last row with a known time that is not after ``time``."""
        cdef Py_ssize_t i
        for i in range(self.size):
            if 0 <= self.data[i].time <= time:
                found[self.data[i].source] = self[i]

    def contexts(self):
        """Return the contexts of the instructions, a set."""
        cdef Py_ssize_t i
        cdef uint64_t last = 0
        cdef bint any = False
        found = set()
        for i in range(self.size):
            if self.data[i].what < UNKNOWN and not (any and self.data[i].context == last):
                any, last = True, self.data[i].context
                found.add(last)
        return found

    def times(self):
        """Return the earliest and the latest time; None: no row has one."""
        cdef Py_ssize_t i
        cdef int64_t low = ~<uint64_t>0 >> 1, high = -1
        for i in range(self.size):
            if self.data[i].time >= 0:
                low, high = min(low, self.data[i].time), max(high, self.data[i].time)
        return None if high < 0 else (low, high)

    cdef int append(self, const Row* rows, Py_ssize_t count) except -1 nogil:
        cdef Row* larger
        if self.size + count > self.room:
            self.room = max(2 * self.room, self.size + count, 1024)
            larger = <Row*>realloc(self.data, self.room * sizeof(Row))
            if larger == NULL:
                with gil:
                    raise MemoryError
            self.data = larger
        memcpy(self.data + self.size, rows, count * sizeof(Row))
        self.size += count
        return 0


cdef class EtraceChoice:
    """The choice of rows, which are passed to `of` in order.

    ``threads``: the contexts whose instructions are wanted; None: all. An instruction has the last time that is known
    before it. ``begins``: for each source the first time that is wanted (-1: all), and ``end`` the first that no longer
    is (None: there is none). A gap may be of any context, and a time that is not known before the first is of no part.
    """

    cdef int64_t* begins
    cdef int64_t* times        # the last of each source; -1: none is known
    cdef Py_ssize_t count
    cdef int64_t end
    cdef bint timed
    cdef frozenset threads

    def __init__(self, begins, end, threads):
        cdef Py_ssize_t i
        if self.begins != NULL:
            raise RuntimeError("a choice is made once")
        self.count = len(begins)
        self.begins = <int64_t*>calloc(self.count + 1, sizeof(int64_t))
        self.times = <int64_t*>calloc(self.count + 1, sizeof(int64_t))
        if self.begins == NULL or self.times == NULL:
            raise MemoryError
        self.end = ~<uint64_t>0 >> 1 if end is None else max(0, min(end, ~<uint64_t>0 >> 1))
        self.timed = end is not None
        for i in range(self.count):
            self.begins[i], self.times[i] = begins[i], -1
            self.timed = self.timed or begins[i] >= 0
        self.threads = None if threads is None else frozenset(threads)

    def __dealloc__(self):
        free(self.begins)
        free(self.times)

    def of(self, EtraceRows rows not None):
        """Return the rows that are wanted, and no longer those of the block itself."""
        cdef Py_ssize_t i, kept = 0
        cdef Row* r
        cdef int64_t begin, after
        for i in range(rows.size):
            r = &rows.data[i]
            if r.time >= 0:
                self.times[r.source] = r.time
            if self.timed:
                begin = after = self.times[r.source]
                if r.what >= UNKNOWN and r.after >= 0:
                    after = max(begin, r.after)
                if after < 0 or begin >= self.end or after < self.begins[r.source]:
                    continue
            if self.threads is not None and r.what < UNKNOWN and r.context not in self.threads:
                continue
            rows.data[kept] = r[0]
            kept += 1
        rows.size = kept
        return rows


cdef class EtraceDecoder:
    """The decoder of one stream of encapsulated packets.

    ``program``: (address, bytes) of what ran. ``parameters``: a `headway_trace.etrace.parameters.EtraceParameters`.
    ``functions``: (start, end, name) in order, for `csv`.
    """

    cdef Region regions[MAX_REGIONS]
    cdef int regions_count
    cdef Region* region
    cdef Code none
    cdef Widths widths
    cdef Source* sources
    cdef uint32_t count
    cdef bint wide, traps, halted
    cdef uint32_t source_bits, stamp_bytes, nulls
    cdef uint32_t stack_most, initial
    cdef uint64_t mask
    cdef EtraceRows rows
    cdef bytearray kept
    cdef readonly int64_t offset   # of the first kept byte
    cdef bint clean            # a synchronisation sequence ends before it, or the stream begins there
    cdef Py_ssize_t looked     # kept bytes that have no synchronisation sequence
    cdef Py_ssize_t run        # null bytes before them
    cdef Py_ssize_t next       # the next packet of those that are being decoded
    cdef Py_ssize_t stop       # and the end of these
    cdef Py_ssize_t waiting    # rows of all sources
    cdef Source* busy          # the source whose flow is not where its packet leads
    cdef Packet after          # the packet that comes then
    cdef bint has_after
    cdef uint32_t concluded    # sources that have ended
    cdef bint ended            # there are no more bytes
    cdef bint cut              # what is before the first synchronisation sequence could not be read
    cdef readonly int64_t contradictions
    cdef int64_t kinds[16]
    cdef list names
    cdef uint64_t* starts
    cdef uint64_t* ends
    cdef Py_ssize_t functions

    def __cinit__(self):
        memset(self.regions, 0, sizeof(self.regions))
        memset(self.kinds, 0, sizeof(self.kinds))

    def __init__(self, program, parameters, functions=(), *, bint traps=False):
        cdef int i
        if self.rows is not None:
            raise RuntimeError("a decoder is made once")
        p = parameters
        self.wide = p.iaddress_width > 32
        self.mask = ~<uint64_t>0 >> (64 - <int>p.iaddress_width)
        self.widths.address, self.widths.low = p.iaddress_width, p.iaddress_lsb
        self.widths.context = 0 if p.nocontext else p.context_width
        self.widths.time = 0 if p.notime else p.time_width
        self.widths.cause, self.widths.privilege = p.ecause_width, p.privilege_width
        self.widths.subformat = p.f0s_width
        self.widths.predictor, self.widths.cache = p.bpred_size, p.cache_size
        self.widths.depth = p.irdepth_width
        self.widths.options_count = len(p.ioptions)
        for i, bit in enumerate(p.option_bits()):
            self.widths.options[i] = bit
        self.widths.type = p.type_width
        self.widths.vector = 0 if p.mtvec is None else p.mtvec + 1
        self.source_bits, self.stamp_bytes = p.source_width, p.timestamp_bytes
        self.nulls = 31 + p.timestamp_bytes + p.source_width // 8
        self.stack_most = 1 << (p.return_stack_size or p.call_counter_size)
        if self.stack_most > MAX_STACK:
            raise ValueError(self.stack_most)
        self.initial = p.initial_options()
        self.count = p.sources
        self.traps = traps
        self.sources = <Source*>calloc(self.count, sizeof(Source))
        if self.sources == NULL:
            raise MemoryError
        for i in range(<int>self.count):
            self.open_source(&self.sources[i])
        self.none.going = NOTHING
        for address, data in program:
            self.add_region(address, data)
        self.region = &self.regions[0]
        self.rows = EtraceRows()
        self.clean = True
        self.kept = bytearray()
        self.names = [name for _, _, name in functions]
        self.functions = len(self.names)
        self.starts = <uint64_t*>malloc((self.functions + 1) * sizeof(uint64_t))
        self.ends = <uint64_t*>malloc((self.functions + 1) * sizeof(uint64_t))
        if self.starts == NULL or self.ends == NULL:
            raise MemoryError
        for i, (start, end, _) in enumerate(functions):
            self.starts[i], self.ends[i] = start, end

    cdef int open_source(self, Source* s) except -1:
        s.why, s.gap, s.reached, s.time = UNTRACED, -1, -1, -1
        s.options = self.initial
        s.stack = <uint64_t*>calloc(self.stack_most, sizeof(uint64_t))
        s.predictor = <uint8_t*>calloc(1 << self.widths.predictor, 1)
        s.cache = <uint64_t*>calloc(1 << self.widths.cache, sizeof(uint64_t))
        if s.stack == NULL or s.predictor == NULL or s.cache == NULL:
            raise MemoryError
        return 0

    def __dealloc__(self):
        cdef uint32_t i
        for i in range(self.count if self.sources != NULL else 0):
            free(self.sources[i].stack)
            free(self.sources[i].predictor)
            free(self.sources[i].cache)
            free(self.sources[i].rows)
        free(self.sources)
        free(self.starts)
        free(self.ends)
        for i in range(MAX_REGIONS):
            free(self.regions[i].bytes)
            free(self.regions[i].code)

    cdef int add_region(self, uint64_t address, bytes data) except -1:
        cdef Region* r
        if self.regions_count == MAX_REGIONS:
            raise ValueError("more than 256 segments")
        if not len(data):
            return 0
        r = &self.regions[self.regions_count]
        r.start, r.size = address, <uint64_t>len(data)
        r.bytes = <uint8_t*>malloc(len(data))
        r.code = <Code*>calloc(len(data) // 2 + 1, sizeof(Code))
        self.regions_count += 1
        if r.bytes == NULL or r.code == NULL:
            raise MemoryError
        memcpy(r.bytes, <const uint8_t*>data, <size_t>len(data))
        return 0

    # --- the program ---

    cdef inline Code* code_at(self, uint64_t address) noexcept nogil:
        """Return the instruction at the address; one that is NOTHING if none is known there."""
        cdef Code* code
        cdef int i
        if address - self.region.start >= self.region.size:
            for i in range(self.regions_count):
                if address - self.regions[i].start < self.regions[i].size:
                    self.region = &self.regions[i]
                    break
            else:
                return &self.none
        code = &self.region.code[(address - self.region.start) >> 1]
        if code.going == UNSEEN:
            self.look(code, address)
        return code

    cdef void look(self, Code* code, uint64_t address) noexcept nogil:
        cdef uint64_t left = self.region.size - (address - self.region.start)
        cdef const uint8_t* at = self.region.bytes + (address - self.region.start)
        cdef uint32_t word = 0
        code.name = -1
        code.going = NOTHING
        if left < 2:
            return
        memcpy(&word, at, 2)
        if not word or word & 0x1F == 0x1F:
            return
        if word & 3 == 3:
            if left < 4:
                return
            memcpy(&word, at, 4)
        classify(code, word, address, self.wide)
        code.target &= self.mask

    # --- rows ---

    cdef int add(self, Source* s, uint64_t address, uint8_t size, uint8_t what, int64_t time) except -1 nogil:
        cdef Row* larger
        cdef Row* r
        if s.size == s.room:
            if s.size >= HELD or self.waiting >= HELD and s.size:
                self.give(s)
            if s.size == s.room:
                s.room = max(2 * s.room, 256)
                larger = <Row*>realloc(s.rows, s.room * sizeof(Row))
                if larger == NULL:
                    with gil:
                        raise MemoryError
                s.rows = larger
        r = &s.rows[s.size]
        s.size += 1
        self.waiting += 1
        r.address, r.time, r.context, r.after = address, time, s.context, -1
        r.source = <uint16_t>(s - self.sources)
        r.size, r.what = size, what
        return 0

    cdef int give(self, Source* s) except -1 nogil:
        """Give the rows that waited for the synchronisation packet."""
        if s.size:
            self.rows.append(s.rows, s.size)
            self.drop(s)
        return 0

    cdef void drop(self, Source* s) noexcept nogil:
        """Forget the rows that waited."""
        self.waiting -= s.size
        s.size = 0
        if s.room > SMALL:
            free(s.rows)
            s.rows = NULL
            s.room = 0

    cdef int close_gap(self, Source* s, int64_t end, int64_t time) except -1 nogil:
        """Add a row for what is not known of a source, which ends here."""
        cdef Row r
        r.address, r.context = <uint64_t>(s.gap if s.gap >= 0 else 0), <uint64_t>end
        r.time, r.after = s.reached, time
        r.source = <uint16_t>(s - self.sources)
        r.size, r.what = 0, s.why
        s.gap = -1
        return self.rows.append(&r, 1)

    cdef int lose(self, Source* s, uint8_t why, int64_t offset, bint keep) except -1 nogil:
        """Begin a gap. ``keep``: the rows since the last synchronisation packet are right."""
        if not s.known and s.begun:
            if why == DAMAGE and s.why < DAMAGE:
                s.why = why
            return 0
        if not keep:
            # They lead to a contradiction, so none of them is certain.
            self.drop(s)
            offset = s.synced
        else:
            self.give(s)
        s.gap, s.why = offset, why
        s.known = s.waits = 0
        s.deaf = 1
        s.begun = 1
        return 0

    cdef int contradict(self, Source* s, Packet* p) except -1 nogil:
        self.contradictions += 1
        return self.lose(s, CONTRADICTION, p.offset, False)

    # --- the flow ---

    cdef inline uint64_t pending(self, Source* s) noexcept nogil:
        return s.branches + s.predicted + s.failed

    cdef inline uint32_t slot(self, uint64_t address, uint32_t bits) noexcept nogil:
        return <uint32_t>(address >> (2 if self.widths.low == 2 else 1) & ((<uint64_t>1 << bits) - 1))

    cdef inline bint foresees(self, Source* s) noexcept nogil:
        """Return whether the branch at the place is taken, as far as its packets tell."""
        if s.branches:
            return not s.map & 1
        return (s.predictor[self.slot(s.pc, self.widths.predictor)] >> 1 & 1) != (s.predicted == 0)

    cdef inline bint take_outcome(self, Source* s) noexcept nogil:
        """Take the outcome of the branch at the place, of which there must be one."""
        cdef bint taken = self.foresees(s)
        cdef uint8_t* state
        if s.branches:
            s.map >>= 1
            s.branches -= 1
        elif s.predicted:
            s.predicted -= 1
        else:
            s.failed = 0
        if s.options & BRANCH_PREDICTION:
            state = &s.predictor[self.slot(s.pc, self.widths.predictor)]
            if taken:
                state[0] = 1 if state[0] == 0 else 3
            else:
                state[0] = 2 if state[0] == 3 else 0
        return taken

    cdef int arrive(self, Source* s, int64_t time) except -1 nogil:
        """Add the instruction at the place. Return 1 if it is not known, or is a branch whose outcome is not."""
        cdef Code* code = self.code_at(s.pc)
        if code.going == NOTHING:
            return 1
        if code.going == BRANCHING:
            if not self.pending(s):
                return 1
            self.add(s, s.pc, code.size, EXECUTED if self.foresees(s) else NOT_TAKEN, time)
        else:
            self.add(s, s.pc, code.size, EXECUTED, time)
        return 0

    cdef inline bint implicit(self, Source* s, Code* code, Packet* p, int kind) noexcept nogil:
        """Return whether the target of a return is that which the call before it left."""
        if not s.options & IMPLICIT_RETURN or code.links != RETURNS or not s.depth:
            return False
        if kind != TARGET or not p.irreport or p.irdepth != <uint32_t>s.depth:
            return True
        return self.pending(s) != self.at(p.address)

    cdef inline uint64_t at(self, uint64_t address) noexcept nogil:
        return self.code_at(address).going == BRANCHING

    cdef int step(self, Source* s, Packet* p, int kind) except -1 nogil:
        """Go to the next instruction. Return 1 if it is where the packet says, -2 if it cannot be known."""
        cdef Code* code = self.code_at(s.pc)
        cdef uint64_t this = s.pc, to
        cdef bint lands = False
        s.straight += 1
        if code.going == BRANCHING:
            if not self.pending(s):
                return -2
            s.straight = 0
            s.pc = code.target if self.take_outcome(s) else s.pc + code.size
        elif code.going == JUMPING:
            s.pc = code.target
        elif code.going == INDIRECT or code.going == RETURNING:
            if (
                s.options & SEQUENTIAL_JUMP and code.going == INDIRECT and s.last != NULL and s.last.going == LOADING
                and s.last.reg == code.reg and s.last_pc + s.last.size == s.pc
            ):
                s.pc = (s.last.target + code.target) & self.mask & ~<uint64_t>1
            elif code.going == INDIRECT and self.implicit(s, code, p, kind):
                s.depth -= 1
                s.pc = s.stack[(s.bottom + s.depth) & (self.stack_most - 1)]
            else:
                if kind == LAST_BRANCH:
                    return -2
                to = p.address
                lands = True
                if s.options & JUMP_TARGET_CACHE and kind != SYNC:
                    s.cache[self.slot(to, self.widths.cache)] = to + 1
                s.pc = to
        else:
            s.pc += code.size
        s.pc &= self.mask
        if code.links == LINKS and s.options & IMPLICIT_RETURN:
            if <uint32_t>s.depth == self.stack_most:  # the oldest entry is dropped
                s.bottom += 1
                s.depth -= 1
            s.stack[(s.bottom + s.depth) & (self.stack_most - 1)] = (this + code.size) & self.mask
            s.depth += 1
        s.last, s.last_pc = code, this
        return lands

    cdef int follow(self, Source* s, Packet* p, int kind) except -1 nogil:
        """Go on to what a packet reports; `go_on` does what is left of a long way."""
        s.straight = s.way = 0
        s.work, s.kind = p[0], kind
        return self.go_on(s)

    cdef int go_on(self, Source* s) except -1 nogil:
        """Go on to what the source's packet reports, or until there are enough rows."""
        cdef int outcome, kind = s.kind
        cdef Code* code
        cdef bint here
        cdef Packet* p = &s.work
        self.busy = NULL
        while True:
            outcome = self.step(s, p, kind)
            if outcome == -2:
                return self.contradict(s, p)
            code = self.code_at(s.pc)
            here = code.going == BRANCHING
            if code.going == NOTHING:
                return self.leave(s, p, kind)
            if self.arrive(s, -1):
                return self.contradict(s, p)
            if outcome:
                if self.pending(s) != here:
                    return self.contradict(s, p)
                break
            if kind == LAST_BRANCH:
                if here and self.pending(s) == 1:
                    break
            elif kind != TARGET and s.pc == p.address and self.pending(s) == here:
                if kind == PLACE:
                    if not p.irreport or p.irdepth == <uint32_t>s.depth:
                        break
                elif p.privilege == s.privilege or s.last.going == RETURNING:
                    break
            s.way += 1
            if s.straight > STRAIGHT or s.way > LONGEST_WAY:
                return self.contradict(s, p)
            if self.rows.size >= ENOUGH and kind != SYNC:
                self.busy = s
                return 0
        if p.stamp >= 0 and s.size:
            self.pass_time(s, p.stamp)
            s.rows[s.size - 1].time = s.time
        return 0

    cdef int leave(self, Source* s, Packet* p, int kind) except -1 nogil:
        """Leave what is known of the program, up to the next address, or to the next synchronisation packet."""
        self.lose(s, IMAGE, p.offset, True)
        s.deaf = (s.options & (IMPLICIT_RETURN | BRANCH_PREDICTION | JUMP_TARGET_CACHE)) != 0
        s.map = s.branches = s.failed = 0
        s.predicted = 0
        return 0

    cdef inline void pass_time(self, Source* s, int64_t time) noexcept nogil:
        s.time = s.reached = time

    # --- packets ---

    cdef void reset(self, Source* s) noexcept nogil:
        """Forget what a decoder that begins here cannot know."""
        s.depth = s.bottom = 0
        memset(s.predictor, 1, <size_t>1 << self.widths.predictor)
        memset(s.cache, 0, (<size_t>1 << self.widths.cache) * sizeof(uint64_t))

    cdef int synchronise(self, Source* s, Packet* p) except -1 nogil:
        """Do a packet of format 3 that says where the source is."""
        cdef bint moves = s.known and p.subformat == START
        cdef int64_t time = <int64_t>p.time if self.widths.time else p.stamp
        cdef uint64_t address = p.address & self.mask
        cdef bint right
        p.address = address
        if moves:
            # Also the branch there is among the outcomes until the place is reached.
            if self.hold_one(s):
                return self.contradict(s, p)
            if self.at(address):
                s.map |= p.branch << s.branches
                s.branches += 1
            self.follow(s, p, SYNC)
            right = s.known and s.pc == address
            if s.known and not right:
                self.contradict(s, p)
            if right and s.size:
                s.size -= 1
                self.waiting -= 1
        if s.known:
            self.give(s)
        if s.begun and not s.known:
            self.close_gap(s, p.offset, time)
        s.context = p.context
        s.privilege = p.privilege
        s.base = s.pc = address
        s.predicted = s.failed = 0
        s.map = s.branches = 0
        if self.at(address):
            s.map, s.branches = p.branch, 1
        s.last = NULL
        s.known = s.begun = 1
        s.deaf = 0
        s.synced = p.offset
        self.reset(s)
        if time >= 0:
            self.pass_time(s, time)
        if self.arrive(s, time):
            return self.leave(s, p, SYNC)
        return 0

    cdef int trap(self, Source* s, Packet* p) except -1 nogil:
        cdef uint64_t place
        if s.known and self.pending(s) != self.at(s.pc):
            self.contradict(s, p)
        if s.known and self.traps:
            # An exception is of the instruction that would have come next, or of the last one if that is ECALL.
            place = s.pc if p.thaddr or not p.addressed else p.address & self.mask
            self.add(s, place, 0, TRAPS, <int64_t>p.time if self.widths.time else -1)
        if not p.thaddr:
            # What comes next is in a synchronisation packet.
            s.map = s.branches = s.failed = 0
            s.predicted = 0
            if s.known:
                self.give(s)
                s.known, s.gap, s.why, s.begun = 0, -1, UNTRACED, 0
                s.deaf = 1
            return 0
        if not p.addressed:
            if not self.widths.vector:
                return self.lose(s, IMAGE, p.offset, True)
            place = self.widths.vector - 1
            p.address = (place & ~<uint64_t>3) + (4 * p.cause if place & 1 and p.interrupt else 0)
        return self.synchronise(s, p)

    cdef int support(self, Source* s, Packet* p) except -1 nogil:
        if s.options != p.options:
            s.options = p.options
        if p.status == NO_CHANGE:
            return 0
        if s.known:
            self.give(s)
            s.gap, s.why = p.offset, OVERFLOW if p.status == LOST else UNTRACED
        elif s.begun and s.why < DAMAGE and p.status == LOST:
            s.why = OVERFLOW
        elif not s.begun and p.status == LOST:
            s.begun, s.why, s.gap = 1, OVERFLOW, p.offset
        s.known = s.waits = 0
        s.deaf = 1
        s.map = s.branches = s.failed = 0
        s.predicted = 0
        return 0

    cdef bint hold_one(self, Source* s) noexcept nogil:
        """Keep the outcome of the branch at the place, if it is one, as a bit. Return whether there are others."""
        cdef bint taken
        if self.pending(s) > 1:
            return True
        if s.predicted or s.failed:
            taken = self.foresees(s)
            s.predicted = s.failed = 0
            s.map, s.branches = not taken, 1
        return False

    cdef int report(self, Source* s, Packet* p, int kind) except -1 nogil:
        """Do a packet of format 0, 1 or 2."""
        if p.format == 0 and p.subformat == 1:
            p.address = s.cache[p.index & ((1 << self.widths.cache) - 1)]
            if not p.address:
                return self.contradict(s, p) if s.known else 0
            p.address -= 1
            p.addressed = 1
        elif p.addressed:
            p.address = (p.address if s.options & FULL_ADDRESS else s.base + p.address) & self.mask
        if p.addressed:
            s.base = p.address
        if not s.known:
            if s.deaf or not p.addressed:
                return 0
            # After code that is not in the image: the address is where the source is, and its branch is the last.
            self.close_gap(s, p.offset, -1)
            s.pc, s.known, s.last = p.address, 1, NULL
            if self.at(s.pc):
                if not p.branches:
                    return self.contradict(s, p)
                s.map, s.branches = p.map >> (p.branches - 1) & 1, 1
            if self.arrive(s, p.stamp):
                return self.leave(s, p, PLACE)
            return 0
        if self.hold_one(s):
            return self.contradict(s, p)
        s.map |= <uint32_t>(<uint64_t>p.map << s.branches)
        s.branches += p.branches
        s.predicted += p.predicted
        s.failed |= p.failed
        if not p.addressed:
            return self.follow(s, p, LAST_BRANCH)
        return self.follow(s, p, kind)

    cdef int settle(self, Source* s, Packet* after) except -1 nogil:
        """Do the packet that waited, now that the packet after it is known; NULL: there is none."""
        cdef int kind = PLACE
        s.waits = 0
        if after != NULL and (after.format != 3 or after.subformat == SUPPORT and after.status == ENDED_ANYWAY):
            kind = TARGET
        return self.report(s, &s.held, kind)

    cdef int packet(self, Source* s, Packet* p) except -1 nogil:
        if not s.seen:
            s.seen = 1
            if self.cut:
                s.begun, s.deaf, s.gap, s.why = 1, 1, 0, BEFORE
        if p.format == 3 and p.subformat == CONTEXT:
            # It may come between an address and the packet that says what the address is of.
            s.context, s.privilege = p.context, p.privilege
            if self.widths.time:
                self.pass_time(s, <int64_t>p.time)
            return 0
        if s.waits and not (p.format == 3 and p.subformat == SUPPORT and p.status == NO_CHANGE):
            self.settle(s, p)
            if self.busy != NULL:
                self.after, self.has_after = p[0], True
                return 0
        return self.proceed(s, p)

    cdef int proceed(self, Source* s, Packet* p) except -1 nogil:
        """Do a packet before which no other of its source waits."""
        if p.format != 3:
            if not s.begun:
                # Packets that came before the first synchronisation packet.
                s.begun, s.deaf, s.gap = 1, 1, p.offset
                s.why = BEFORE
            if p.format == 0 and p.subformat == 1:
                return self.report(s, p, TARGET)
            if not p.addressed or p.notify:
                return self.report(s, p, PLACE)
            if p.updiscon:
                return self.report(s, p, TARGET)
            s.held, s.waits = p[0], 1
            return 0
        if p.subformat == START:
            return self.synchronise(s, p)
        if p.subformat == TRAP:
            return self.trap(s, p)
        return self.support(s, p)

    # --- encapsulation ---

    cdef Py_ssize_t packet_end(self, const uint8_t* data, Py_ssize_t at, Py_ssize_t end) noexcept nogil:
        """Return where the packet at this byte ends; it may be beyond the end."""
        cdef uint32_t length = data[at] & 31
        if not length:
            return at + 1
        return at + 1 + self.source_bits // 8 + (self.stamp_bytes if data[at] & 0x80 else 0) + length

    cdef int decode(self, const uint8_t* data, Py_ssize_t at, Py_ssize_t end) except -1 nogil:
        """Decode one normal packet."""
        cdef Packet p
        cdef uint32_t source = 0, size = data[at] & 31, bits = self.source_bits, i, shift, kind
        cdef uint8_t payload[64]
        cdef uint32_t above
        cdef int64_t stamp = -1
        cdef Py_ssize_t from_ = at + 1
        cdef Source* s
        for i in range(bits // 8):
            source |= <uint32_t>data[from_] << 8 * i
            from_ += 1
        if data[at] & 0x80:
            stamp = 0
            for i in range(self.stamp_bytes):
                if i < 8:
                    stamp |= <int64_t>(<uint64_t>data[from_] << 8 * i)
                from_ += 1
            stamp &= <int64_t>(~<uint64_t>0 >> 1)
        memcpy(payload, data + from_, size)
        shift = bits % 8
        if shift:
            source |= (payload[0] & ((1u << shift) - 1)) << (bits - shift)
            for i in range(size):
                above = payload[i + 1] if i + 1 < size else 0xFF if payload[i] & 0x80 else 0
                payload[i] = <uint8_t>(payload[i] >> shift | above << (8 - shift))
        if source >= self.count:
            self.kinds[15] += 1
            self.contradictions += 1
            return self.lose_all(DAMAGE, self.offset + at, False)
        s = &self.sources[source]
        if s.skipped:
            return 0
        if not read_packet(payload, size, &self.widths, s.options, &p):
            self.kinds[15] += 1
            self.contradictions += 1
            p.offset = self.offset + at
            return self.lose(s, DAMAGE, p.offset, False)
        p.offset, p.end, p.stamp = self.offset + at, self.offset + end, stamp
        if p.format == 0:
            kind = 0 if p.subformat == 0 else 1
        elif p.format == 1:
            kind = 2 + p.whole_map
        elif p.format == 2:
            kind = 4
        else:
            kind = 5 + p.subformat
        self.kinds[kind] += 1
        return self.packet(s, &p)

    cdef int lose_all(self, uint8_t why, int64_t offset, bint keep) except -1 nogil:
        cdef uint32_t i
        for i in range(self.count):
            if self.sources[i].seen:
                self.lose(&self.sources[i], why, offset, keep)
        return 0

    def select(self, ids):
        """Decode only these sources; without any, all."""
        cdef uint32_t i
        for i in range(self.count):
            self.sources[i].skipped = bool(ids) and i not in ids

    def feed(self, bytes data):
        """Take more bytes of the stream. Then call `more` until it returns False."""
        self.kept += data

    def finish(self):
        """Say that the stream has ended. Then call `more` until it returns False."""
        self.ended = True

    def more(self):
        """Decode some of the bytes. Return whether there is more to decode, with `take` called in between."""
        cdef const uint8_t* p
        cdef Py_ssize_t size = len(self.kept), end
        cdef bytearray kept = self.kept
        if self.halted:
            return False
        p = <const uint8_t*><char*>kept
        with nogil:
            if self.next >= self.stop and self.busy == NULL:
                self.find(p, size)
            while self.rows.size < ENOUGH:
                if self.busy != NULL:
                    self.resume()
                    continue
                if self.next >= self.stop:
                    break
                end = self.packet_end(p, self.next, self.stop)
                if p[self.next] & 31:
                    self.decode(p, self.next, end)
                else:
                    self.kinds[9] += 1
                self.next = end
        if self.next < self.stop or self.busy != NULL:
            return True
        if self.next:
            del kept[: self.next]
            self.offset += self.next
            self.looked -= self.next
            self.next = self.stop = 0
            return True
        return self.ended and self.conclude()

    cdef int resume(self) except -1 nogil:
        """Go on with the source that is on its way, and with the packet after that."""
        cdef Source* s = self.busy
        self.go_on(s)
        if self.busy == NULL and self.has_after:
            self.has_after = False
            self.proceed(s, &self.after)
        return 0

    cdef int find(self, const uint8_t* p, Py_ssize_t size) except -1 nogil:
        """Find bytes that can be decoded: up to a synchronisation sequence, or as many as there are."""
        cdef Py_ssize_t at = self.looked, run = self.run, end
        while at < size:
            if p[at] & 31:
                if run > <Py_ssize_t>self.nulls:
                    break
                run = 0
            else:
                run += 1
            at += 1
        self.looked, self.run = at, run
        if at < size and run > <Py_ssize_t>self.nulls:
            # A packet begins at `at`, whatever came before it.
            self.run = 0
            self.looked = at + 1
            self.clean = True
            end = self.walk(p, at)
            if end == at and (self.offset or self.begins_whole(p, at)):
                self.stop = at
                return 0
            self.misframed(at)
            self.next = self.stop = at
            return 0
        if self.ended or size > 1 << 20:
            self.stop = self.walk(p, size)
            self.clean = False
        return 0

    cdef Py_ssize_t walk(self, const uint8_t* p, Py_ssize_t size) noexcept nogil:
        """Return the end of the last packet that ends before ``size``."""
        cdef Py_ssize_t at = 0, end
        while at < size:
            end = self.packet_end(p, at, size)
            if end > size:
                break
            at = end
        return at

    cdef bint begins_whole(self, const uint8_t* p, Py_ssize_t size) noexcept nogil:
        """Return whether the stream begins as an encoder begins one: with a support packet."""
        cdef Py_ssize_t at = 0
        cdef uint32_t skipped = self.source_bits % 8 + self.widths.type, word
        while at < size and not p[at] & 31:
            at += 1
        if at == size:
            return True
        at += 1 + self.source_bits // 8 + (self.stamp_bytes if p[at] & 0x80 else 0)
        word = p[at]
        if at + 1 < size:
            word |= <uint32_t>p[at + 1] << 8
        if at + 2 < size:
            word |= <uint32_t>p[at + 2] << 16
        return word >> skipped & 15 == 15

    cdef int misframed(self, Py_ssize_t end) except -1 nogil:
        """Lose everything up to a synchronisation sequence, because the packets before it do not end there."""
        cdef uint32_t i
        if not self.offset:
            # The stream begins within a packet.
            self.cut = True
            return 0
        self.contradictions += 1
        for i in range(self.count):
            if self.sources[i].seen:
                self.sources[i].waits = 0
                self.lose(&self.sources[i], DAMAGE, self.offset, True)
        return 0

    cdef bint conclude(self) except -1:
        """End the stream: close the gaps that are open. Return whether there is more to do."""
        cdef Source* s
        cdef int64_t end = self.offset + len(self.kept)
        while self.concluded < self.count:
            s = &self.sources[self.concluded]
            if s.waits:
                self.settle(s, NULL)
                if self.busy != NULL:
                    return True
            self.concluded += 1
            if s.known:
                self.lose(s, CUT_OFF, end, True)
            if s.begun and s.why != UNTRACED:
                self.close_gap(s, end, -1)
        self.halted = True
        return False

    def take(self):
        """Return the rows since the last call."""
        cdef EtraceRows found = self.rows
        self.rows = EtraceRows()
        return found

    def packets(self):
        """Return the number of packets so far by kind, as `headway_trace.etrace.reading.PACKETS` names them."""
        return [self.kinds[i] for i in range(16)]

    # --- states ---

    @property
    def resumable(self):
        """Whether another decoder can continue at byte `offset`, once the rows have been taken."""
        return self.clean and self.busy == NULL and not self.next and not self.ended

    def save(self):
        """Return the state with which another decoder can continue at byte `offset`, if that is `resumable`.

        Of the rows that have not been taken, and of those that wait for a
        synchronisation packet, the state has only those with a time.
        """
        cdef uint32_t i
        cdef Py_ssize_t n
        cdef Source* s
        found = []
        for i in range(self.count):
            s = &self.sources[i]
            if not s.seen:
                continue
            rows = [(<char*>&s.rows[n])[: sizeof(Row)] for n in range(s.size) if s.rows[n].time >= 0]
            stack = [s.stack[(s.bottom + n) & (self.stack_most - 1)] for n in range(s.depth)]
            found.append((
                i, (<char*>s)[: sizeof(Source)], array("Q", stack).tobytes(),
                (<char*>s.predictor)[: 1 << self.widths.predictor],
                (<char*>s.cache)[: sizeof(uint64_t) << self.widths.cache],
                b"".join(rows),
            ))
        return self.offset, self.cut, self.contradictions, found

    def load(self, saved):
        """Continue from a state that `save` returned; the next bytes are those from its offset on."""
        cdef uint32_t i
        cdef Source* s
        cdef Source kept
        cdef Row* rows
        cdef bytes raw, stack, predictor, cache, waiting
        if self.offset or self.kept:
            raise RuntimeError("a decoder that has begun cannot continue another")
        self.offset, self.cut, self.contradictions, found = saved
        for i, raw, stack, predictor, cache, waiting in found:
            if i >= self.count or len(raw) != sizeof(Source) or <size_t>len(stack) > self.stack_most * sizeof(uint64_t):
                raise ValueError(i)
            s = &self.sources[i]
            kept = s[0]
            memcpy(s, <const char*>raw, sizeof(Source))
            s.stack, s.predictor, s.cache, s.skipped = kept.stack, kept.predictor, kept.cache, kept.skipped
            s.rows, s.size, s.room, s.bottom = NULL, 0, 0, 0
            if s.last != NULL:
                s.last = self.code_at(s.last_pc)
            memcpy(s.stack, <const char*>stack, len(stack))
            memcpy(s.predictor, <const char*>predictor, min(<size_t>len(predictor), <size_t>1 << self.widths.predictor))
            memcpy(s.cache, <const char*>cache, min(<size_t>len(cache), sizeof(uint64_t) << self.widths.cache))
            if len(waiting):
                rows = <Row*>malloc(len(waiting))
                if rows == NULL:
                    raise MemoryError
                memcpy(rows, <const char*>waiting, len(waiting))
                s.rows, s.size = rows, len(waiting) // <Py_ssize_t>sizeof(Row)
                s.room = s.size
                self.waiting += s.size

    # --- text ---

    cdef int name_of(self, Code* code, uint64_t address) noexcept nogil:
        """Return the number of the function at an address; -2: there is none."""
        cdef Py_ssize_t low = 0, high = self.functions, middle
        if code.name != -1:
            return code.name
        while low < high:
            middle = (low + high) // 2
            if self.starts[middle] <= address:
                low = middle + 1
            else:
                high = middle
        code.name = <int32_t>(low - 1) if low and address < self.ends[low - 1] else -2
        return code.name

    def csv(self, EtraceRows rows not None, list states, bytes located, SymbolCells texts=None):
        """Return lines with the columns stream, thread, cycle, cycles, address, size, state, symbol.

        ``states``: a name (bytes) for each code. ``located``: codes of gaps that are shown with their bytes. With
        ``texts`` there is another column: what they have for the address of each instruction.
        """
        cdef Py_ssize_t i, room = rows.size * 96 + 4096, used = 0, more = 0
        cdef Named* text = NULL
        cdef char* out = <char*>malloc(room)
        cdef char* larger
        cdef Row* r
        cdef Code* code
        cdef bytes word, name
        cdef int number
        if out == NULL:
            raise MemoryError
        try:
            for i in range(rows.size):
                r = &rows.data[i]
                number = -2
                if r.what < UNKNOWN:
                    code = self.code_at(r.address)
                    if code.going != NOTHING:
                        number = self.name_of(code, r.address)
                name = self.names[number] if number >= 0 else b""
                word = states[r.what]
                if r.what >= UNKNOWN and r.what in located:
                    word += b"[%d:%d]" % (r.address, r.context)
                if texts is not None and r.size:
                    text = texts.at(r.address)
                    more = text.length
                if used + 160 + len(word) + len(name) + more > room:
                    room = 2 * room + 256 + len(word) + len(name) + more
                    larger = <char*>realloc(out, room)
                    if larger == NULL:
                        raise MemoryError
                    out = larger
                out[used], out[used + 1] = c"0", c"x"
                used += 2
                if r.source > 15:
                    out[used] = <char>b"0123456789abcdef"[r.source >> 4 & 15]
                    used += 1
                out[used] = <char>b"0123456789abcdef"[r.source & 15]
                out[used + 1] = c","
                used += 2
                if r.what < UNKNOWN and self.widths.context:
                    used += put_decimal(out + used, r.context & (~<uint64_t>0 >> 1))
                out[used] = c","
                used += 1
                if r.time >= 0:
                    used += put_decimal(out + used, r.time)
                out[used] = c","
                used += 1
                if r.what >= UNKNOWN:
                    if r.time >= 0 and r.after >= r.time:
                        used += put_decimal(out + used, r.after - r.time)
                    used += put_bytes(out + used, b",,0,")
                else:
                    out[used] = c","
                    used += 1 + put_address(out + used + 1, r.address)
                    out[used] = c","
                    out[used + 1] = <char>(48 + r.size)
                    out[used + 2] = c","
                    used += 3
                used += put_bytes(out + used, word)
                out[used] = c","
                used += 1
                used += put_bytes(out + used, name)
                if texts is not None:
                    out[used] = c","
                    used += 1
                    if r.size:
                        memcpy(out + used, text.name, text.length)
                        used += text.length
                out[used] = c"\n"
                used += 1
            return out[:used]
        finally:
            free(out)
