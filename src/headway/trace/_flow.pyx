"""Packets and a program image to instructions: the program's flow.

From a known address on, each atom is one instruction of the image; a direct branch that is executed goes to its target,
an indirect one to the address of the next branch packet. So the trace says some things twice, and they must agree:

* an instruction that cannot fail its condition is not said to have failed it;
* after an indirect branch comes a branch packet, and a branch packet comes only there (or for an exception);
* a periodic I-sync repeats the address that the flow has reached.

The flow is therefore followed one stretch at a time, from one packet with an address to the next, before any of it
becomes a record. A stretch that disagrees is a gap from there on, never a guess; the next packet with an address goes on.
An address that may be out of date (some of its bits come from before damage) must first prove right in its own stretch.

Source: ARM IHI 0014Q, sections 4.4 and 7.3.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memmove, memset

from headway.trace._etmv3 cimport (
    ALIGNMENT, ATOMS, BASED, BRANCH, CANCEL, CONTEXT, EXCEPTION, FULL, INCOMPLETE, NOISE, PROGRESS, SWITCH, SYNC, THUMB,
    TIMESTAMP, Atom, Packet, Packets, atoms_of,
)

from headway.trace.records import Exception_, Gap, Instruction, Timestamp, Why

cdef enum Branching:
    ABSENT = 0
    PLAIN = 1
    DIRECT = 2
    INDIRECT = 3
    IT = 4
    RETURNS = 5        # an indirect branch that may end inside an IT block

cdef enum Reason:
    UNSYNCHRONISED = 0
    OFF = 1
    OVERFLOW = 2
    DEBUG = 3
    DAMAGE = 4
    CONTRADICTION = 5
    IMAGE = 6
    ISA_ = 7
    TRUNCATED = 8

cdef enum Sort:
    INSTRUCTION = 0
    GAP = 1
    TIME = 2
    TAKEN = 3          # an exception

cdef enum Known:
    NOWHERE = 0
    HERE = 1
    AWAITING = 2       # the address of an indirect branch

DEF MOST = 4096        # atoms of a stretch that is followed as a whole
DEF BACK = 4096        # rows after which an instruction is not taken back any more
DEF CACHED = 1 << 20
DEF EARNS = 256        # steps that each atom adds to the credit
DEF CREDIT = 1 << 22   # the most
DEF NEAR = 1024        # branches that are looked at for it
DEF COSTS = 128        # steps that one disassembled instruction counts for
DEF ELSEWHERE = 1024   # addresses that may share their low bits
DEF LOW = 24           # bits of an I-sync that must lie in the program if the address as a whole does not
DEF LEAST = 4          # items from which an address may be regained

cdef struct Code:
    uint64_t key
    uint32_t target
    uint8_t size, branching, conditional, target_isa, block

cdef struct Item:
    uint64_t index
    uint64_t value     # of a timestamp
    uint32_t cycles
    uint8_t executed
    uint8_t sort       # INSTRUCTION: an atom. GAP: cycles alone. TIME

cdef struct Place:
    uint32_t address
    uint8_t known, isa
    uint8_t block      # instructions that are still in an IT block
    uint8_t doubtful   # so many instructions may still be in one that we did not see

cdef struct Row:
    uint64_t index, end, cycle, cycles
    uint32_t address, thread, epoch
    uint8_t sort, size, executed, why
    bint counted       # whether cycle and cycles are known

cdef class Records:
    """Records in a row."""

    cdef Row* data
    cdef Py_ssize_t size
    cdef bint threads

    def __dealloc__(self):
        free(self.data)

    def __iter__(self):
        return (self[i] for i in range(self.size))

    def __len__(self):
        return self.size

    def __getitem__(self, Py_ssize_t i):
        if not 0 <= i < self.size:
            raise IndexError(i)
        cdef Row* r = &self.data[i]
        cycle = r.cycle if r.counted else None
        if r.sort == INSTRUCTION:
            return Instruction(
                cycle, r.cycles if r.counted else None, r.address, r.size, bool(r.executed),
                r.thread if self.threads else None, r.epoch, r.index,
            )
        if r.sort == GAP:
            return Gap(Why(r.why), cycle, r.cycles if r.counted and not r.size else None, r.index, r.end, r.epoch)
        if r.sort == TIME:
            return Timestamp(r.cycles, cycle, r.epoch, r.index)
        return Exception_(r.thread, r.address, cycle, r.epoch, r.index)

    def instructions(self):
        """(address, size, cycles) of each instruction, without the rest; for whoever compares many."""
        cdef Py_ssize_t i
        return [
            (self.data[i].address, self.data[i].size, self.data[i].cycles)
            for i in range(self.size) if self.data[i].sort == INSTRUCTION
        ]


cdef class Flow:
    """Follows one stream.

    ``look(address, isa)`` gives what is at an address of the image, as ``code.Code`` does; ``spans``: where the image has
    something, (start, end).
    """

    cdef object look, spans
    cdef bint cycle_accurate, broadcast, through_overflow, threads
    cdef Code* table
    cdef size_t capacity, entries
    cdef Item* items
    cdef size_t count
    cdef Row* rows
    cdef size_t used, room
    cdef Place place
    cdef bint aligned          # an A-sync has been seen
    cdef bint doubted          # the address has yet to prove right: only so many bits of it were in a packet
    cdef uint8_t bits
    cdef uint32_t base         # the last packet's address
    cdef size_t credit         # steps that may be spent on regaining an address
    cdef uint64_t cycle, pending
    cdef uint32_t epoch, thread
    cdef bint open             # a gap
    cdef uint8_t why
    cdef uint64_t gap_index, gap_cycles, end
    cdef bint gap_lost         # its length is not known
    cdef readonly uint64_t stretches, contradictions

    def __init__(self, look, *, spans, cycle_accurate, branch_broadcast, counted_through_overflow, threads):
        self.spans = spans
        self.credit = CREDIT // 8
        self.look, self.cycle_accurate, self.broadcast = look, cycle_accurate, branch_broadcast
        self.through_overflow, self.threads = counted_through_overflow, threads
        self.items = <Item*>malloc((MOST + 32) * sizeof(Item))
        self.open, self.why = True, UNSYNCHRONISED
        self.capacity = 1024
        self.table = <Code*>calloc(self.capacity, sizeof(Code))
        if self.items == NULL or self.table == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.items)
        free(self.table)
        free(self.rows)

    def feed(self, Packets packets not None):
        """More packets; gives the records that are certain not to be taken back."""
        cdef Py_ssize_t i
        for i in range(packets.size):
            self.packet(&packets.data[i])
        return self.give(False)

    def finish(self):
        """The end of the stream; gives what is left."""
        self.close(NULL)
        self.close_gap(self.end)
        return self.give(True)

    cdef Records give(self, bint last):
        """All rows that are final: not the last instruction, which an exception can take back, nor a gap that may go on."""
        cdef size_t n = self.used
        if not last and not self.open:
            while n and self.used - n < BACK and self.rows[n - 1].sort != INSTRUCTION and self.rows[n - 1].sort != GAP:
                n -= 1
            if n and self.used - n < BACK:
                n -= 1
        cdef Records found = Records()
        found.threads = self.threads
        found.data = <Row*>malloc((n + 1) * sizeof(Row))
        if found.data == NULL:
            raise MemoryError
        memmove(found.data, self.rows, n * sizeof(Row))
        found.size = n
        memmove(self.rows, self.rows + n, (self.used - n) * sizeof(Row))
        self.used -= n
        return found

    cdef Row* add(self, uint8_t sort, uint64_t index) except NULL:
        cdef Row* grown
        if self.used == self.room:
            self.room = self.room * 2 if self.room else 1024
            grown = <Row*>realloc(self.rows, self.room * sizeof(Row))
            if grown == NULL:
                raise MemoryError
            self.rows = grown
        grown = &self.rows[self.used]
        self.used += 1
        memset(grown, 0, sizeof(Row))
        grown.sort, grown.index, grown.cycle = sort, index, self.cycle
        grown.epoch, grown.thread, grown.counted = self.epoch, self.thread, self.cycle_accurate
        return grown

    # The program

    cdef Code* code(self, uint32_t address, uint8_t isa) except NULL:
        cdef uint64_t key = (<uint64_t>address << 2 | isa) + 1
        cdef size_t at = (key * <uint64_t>0x9E3779B97F4A7C15) >> 32 & (self.capacity - 1)
        while self.table[at].key:
            if self.table[at].key == key:
                return &self.table[at]
            at = at + 1 & (self.capacity - 1)
        if self.entries * 2 >= self.capacity:
            self.grow()
            return self.code(address, isa)
        size, branching, conditional, target, target_isa, block = self.look(address, isa)
        self.table[at].key, self.table[at].size, self.table[at].branching = key, size, branching
        self.table[at].conditional, self.table[at].target = conditional, target
        self.table[at].target_isa, self.table[at].block = target_isa, block
        self.entries += 1
        return &self.table[at]

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
                    at = (before[i].key * <uint64_t>0x9E3779B97F4A7C15) >> 32 & (self.capacity - 1)
                    while after[at].key:
                        at = at + 1 & (self.capacity - 1)
                    after[at] = before[i]
        else:
            self.entries = 0
        free(before)
        return 0

    cdef inline int step(self, Place* place, bint executed, Code** at) except -1:
        """One atom. 0: it fits. Otherwise why not."""
        if place.known != HERE:
            return CONTRADICTION
        if place.isa > THUMB:
            return ISA_
        cdef Code* code = self.code(place.address, place.isa)
        at[0] = code
        if code.branching == ABSENT:
            return IMAGE
        if not executed and not code.conditional and not place.block and not place.doubtful:
            return CONTRADICTION
        if place.block:
            place.block -= 1
        if place.doubtful:
            place.doubtful -= 1
        if not executed or code.branching == PLAIN:
            place.address += code.size
        elif code.branching == DIRECT:
            place.address, place.isa, place.block = code.target, code.target_isa, 0
        elif code.branching == IT:
            place.address += code.size
            place.block, place.doubtful = code.block, 0
        else:
            place.known, place.block = AWAITING, 0
            place.doubtful = 4 if code.branching == RETURNS else 0
        return 0

    cdef int check(self, Place* place, size_t* upto) except -1:
        """Follows the stretch from a place. How many items fit; 0 or why the next does not."""
        cdef size_t i
        cdef Code* code = NULL
        cdef int why
        for i in range(self.count):
            if self.items[i].sort == INSTRUCTION:
                why = self.step(place, self.items[i].executed, &code)
                if why:
                    upto[0] = i
                    return why
        upto[0] = self.count
        return 0

    # Stretches

    cdef int packet(self, Packet* p) except -1:
        cdef Atom atoms[16]
        cdef int n, i, left
        cdef Item* item
        self.end = p.index + (p.count if p.kind <= INCOMPLETE else p.size)
        if p.kind == ATOMS:
            if not self.aligned:
                return 0
            n = atoms_of(p.header, self.cycle_accurate, atoms, &left)
            for i in range(n):
                item = &self.items[self.count]
                item.index, item.sort = p.index, INSTRUCTION
                item.executed, item.cycles = atoms[i].executed, atoms[i].cycles
                self.count += 1
            if left:
                item = &self.items[self.count]
                item.index, item.sort, item.cycles = p.index, GAP, left
                self.count += 1
            if self.count >= MOST:
                self.close(NULL)
        elif p.kind == ALIGNMENT:
            self.aligned = True
        elif p.kind == TIMESTAMP:
            if not self.aligned:
                return 0
            item = &self.items[self.count]
            item.index, item.sort, item.value, item.cycles = p.index, TIME, p.value, 0
            self.count += 1
            if self.count >= MOST:
                self.close(NULL)
        elif p.kind == SYNC or p.kind == BRANCH:
            if p.kind == SYNC and not self.aligned and p.reason == 0 and p.isa <= THUMB:
                # A periodic one comes after an A-sync only: if there was none, it has been lost.
                self.aligned = self.code(<uint32_t>p.value, p.isa).branching != ABSENT
            if self.aligned:
                self.close(p)
        elif p.kind == NOISE:
            if self.aligned:
                self.close(NULL)
                self.lose(DAMAGE, p.index)
        elif p.kind == INCOMPLETE:
            self.close(NULL)
            self.lose(TRUNCATED, p.index)
        elif p.kind == CONTEXT:
            self.close(NULL)
            self.thread = <uint32_t>p.value
        return 0

    def lost(self, uint64_t index):
        """Bytes are missing here (after the parser's own ``lost``)."""
        if self.aligned:
            self.close(NULL)
            self.lose(DAMAGE, index)

    cdef int lose(self, uint8_t why, uint64_t index) except -1:
        """From here on neither address nor time are known."""
        self.open_gap(why, index)
        self.gap_lost = True
        if self.cycle:
            self.epoch += 1
            self.cycle = 0
        return 0

    cdef int open_gap(self, uint8_t why, uint64_t index) except -1:
        """From here on the address is not known. What has just ended as a gap and led to nothing goes on."""
        cdef Row* row
        self.place.known = NOWHERE
        if self.open:
            return 0
        self.open, self.why, self.gap_index, self.gap_cycles, self.gap_lost = True, why, index, self.pending, False
        self.pending = 0
        if self.used and self.rows[self.used - 1].sort == GAP and self.rows[self.used - 1].why >= DAMAGE:
            row = &self.rows[self.used - 1]
            self.why, self.gap_index, self.gap_lost = row.why, row.index, row.size
            self.gap_cycles += row.cycles
            self.used -= 1
        return 0

    cdef int close_gap(self, uint64_t end) except -1:
        cdef Row* row
        if not self.open:
            return 0
        self.open = False
        row = self.add(GAP, self.gap_index)
        row.end = max(end, self.gap_index)
        row.cycles, row.why, row.size = self.gap_cycles, self.why, self.gap_lost
        return 0

    cdef int emit(self, size_t upto, uint8_t why, size_t resume, Place* back, uint64_t end) except -1:
        """Rows of the stretch's items up to a gap, if there is a reason for one, and from where it resumes."""
        cdef size_t i
        cdef Row* row
        cdef Item* item
        for i in range(self.count + 1):
            if i == upto and why:
                if why == CONTRADICTION:
                    self.lose(why, self.items[i].index if i < self.count else end)
                else:
                    self.open_gap(why, self.items[i].index if i < self.count else end)
            if i == self.count:
                break
            if i == resume:
                self.close_gap(self.items[i].index)
                self.place, self.doubted = back[0], False
            item = &self.items[i]
            if item.sort == TIME:
                row = self.add(TIME, item.index)
                row.cycles = item.value
                continue
            self.cycle += item.cycles
            if self.open:
                self.gap_cycles += item.cycles
            elif item.sort == GAP:
                self.pending += item.cycles
            else:
                self.pending += item.cycles
                self.execute(item.index, item.executed)
        return 0

    cdef int execute(self, uint64_t index, bint executed) except -1:
        """One instruction becomes a row."""
        cdef Code* code = NULL
        cdef uint32_t address = self.place.address
        if self.step(&self.place, executed, &code):
            return 0
        cdef Row* row = self.add(INSTRUCTION, index)
        row.address, row.size, row.executed, row.cycles = address, code.size, executed, self.pending
        self.pending = 0
        return 0

    cdef int close(self, Packet* p) except -1:
        """The stretch ends: with a packet that has an address, or (NULL) without."""
        cdef Place after = self.place, back
        cdef size_t upto = self.count, resume = self.count
        cdef int why = 0
        self.credit = min(self.credit + EARNS * self.count, <size_t>CREDIT)
        if self.place.known != NOWHERE:
            why = self.check(&after, &upto)
            if not why and p != NULL:
                why = self.disagreement(p, &after)
            if p != NULL and (why == CONTRADICTION or why and self.doubted):
                resume = self.regain_after(p, upto, &back)
            if why == IMAGE and resume < self.count:
                why = CONTRADICTION
            if why and self.doubted:
                upto = 0
            elif why and upto > resume:
                upto = resume
            self.stretches += self.count > 0
            self.contradictions += why == CONTRADICTION
        elif p != NULL and self.open and (self.why == DAMAGE or self.why == CONTRADICTION):
            resume = self.regain(p, 0, 0, &back)
        self.emit(upto, why, resume, &back, self.end if p == NULL else p.index)
        if p != NULL:
            if not why and self.count and self.place.known != NOWHERE:
                self.doubted = False
            if p.kind == BRANCH:
                self.branch(p)
            else:
                self.sync(p)
        self.count = 0
        return 0

    cdef size_t regain_after(self, Packet* p, size_t upto, Place* back) except? 0:
        """Where to go on in a stretch that disagrees; where it begins to is known only if an item did not fit."""
        cdef size_t resume = self.count, quarter
        if self.doubted:
            resume = self.regain(p, 0, self.bits, back)
            if resume == 0 and self.count:
                self.base = back.address
            if resume < self.count:
                return resume
        if upto < self.count:
            return self.regain(p, upto, 0, back)
        for quarter in range(1, 4):
            resume = self.regain(p, self.count * quarter // 4, 0, back)
            if resume < self.count:
                break
        return resume

    cdef bint confirms(self, Packet* p, Place* after) noexcept:
        """Whether the packet can come only where the stretch has led."""
        if p.kind == SYNC:
            return p.reason == 0 and after.known == HERE and after.address == p.value and after.isa == p.isa
        return after.known == AWAITING and not p.has & EXCEPTION

    cdef size_t regain(self, Packet* p, size_t start, uint8_t bits, Place* found) except? 0:
        """The address from the atoms alone: from which item on, and the place there; all items if it is not found.

        Of all instructions that the program has been seen at (with so many low bits of the address, if some are known)
        those are kept from which the items from ``start`` on can be followed up to the packet that confirms them. From
        where these have all come to the same one, that is the place.
        """
        cdef size_t i, k, n = 0, left, known = self.count
        cdef Code* code = NULL
        cdef Place* places
        cdef uint32_t mask = <uint32_t>((<uint64_t>1 << bits) - 1)
        cdef bint same
        self.explore(self.place.address if self.place.known == HERE else self.base, self.place.isa)
        if self.entries > self.credit or self.count - start < LEAST:
            return known
        cdef Place* firsts = <Place*>malloc((self.entries + ELSEWHERE) * 2 * sizeof(Place))
        if firsts == NULL:
            raise MemoryError
        try:
            if bits:
                n = self.everywhere(bits, firsts)
                self.credit -= min(self.credit, n * COSTS)
            for k in range(self.capacity if not bits or n == 0 else 0):
                code = &self.table[k]
                if code.key and code.branching and not ((code.key - 1 >> 2) ^ self.place.address) & mask:
                    firsts[n].address, firsts[n].isa = <uint32_t>(code.key - 1 >> 2), code.key - 1 & 3
                    firsts[n].known, firsts[n].block, firsts[n].doubtful = HERE, 0, 0
                    n += 1
            places = firsts + self.entries + ELSEWHERE
            self.credit -= min(self.credit, self.entries + n)
            for k in range(n):
                places[k] = firsts[k]
            left = n
            for i in range(start, self.count):
                if self.items[i].sort != INSTRUCTION:
                    continue
                if left > self.credit:
                    return known
                self.credit -= left
                n, left = left, 0
                for k in range(n):
                    if self.step(&places[k], self.items[i].executed, &code) == 0:
                        places[left] = places[k]
                        firsts[left] = firsts[k]
                        left += 1
                if not left:
                    return known
            n, left = left, 0
            for k in range(n):
                if self.confirms(p, &places[k]):
                    firsts[left] = firsts[k]
                    left += 1
            for i in range(start, self.count):
                same = left > 0
                for k in range(1, left):
                    same = same and firsts[k].address == firsts[0].address and firsts[k].isa == firsts[0].isa
                if same:
                    found[0] = firsts[0]
                    return i
                if self.items[i].sort == INSTRUCTION:
                    for k in range(left):
                        self.step(&firsts[k], self.items[i].executed, &code)
            return known
        finally:
            free(firsts)

    cdef size_t everywhere(self, uint8_t bits, Place* found) except? 0:
        """All addresses of the program with the low bits of the place's; none if these are too many."""
        cdef uint64_t address, stride = <uint64_t>1 << bits
        cdef size_t n = 0
        for start, end in self.spans:
            address = <uint64_t>start & ~(stride - 1) | self.place.address & (stride - 1)
            if (<uint64_t>end - <uint64_t>start) >> bits >= ELSEWHERE - n:
                return 0
            while address < <uint64_t>end:
                if address >= <uint64_t>start and n < ELSEWHERE:
                    found[n] = self.place
                    found[n].address = <uint32_t>address
                    n += 1
                address += stride
        return n

    cdef int explore(self, uint32_t address, uint8_t isa) except -1:
        """Looks at what can be reached from there by direct branches: what was lost went on near, perhaps for the first time."""
        cdef uint32_t ahead[NEAR]
        cdef uint8_t isas[NEAR]
        cdef size_t taken = 0, waiting = 1, before
        cdef Code* code
        cdef uint32_t target
        cdef uint8_t target_isa
        if isa > THUMB:
            return 0
        ahead[0], isas[0] = address, isa
        while taken < waiting:
            address, isa = ahead[taken], isas[taken]
            taken += 1
            while waiting < NEAR:
                before = self.entries
                code = self.code(address, isa)
                if self.entries == before and taken > 1 or code.branching == ABSENT:
                    break
                target, target_isa = code.target, code.target_isa
                if code.branching == DIRECT:
                    ahead[waiting], isas[waiting] = target, target_isa
                    waiting += 1
                if code.branching >= DIRECT and code.branching != IT and not code.conditional and not code.block:
                    break
                address += code.size
                if self.entries - before and self.credit < COSTS:
                    return 0
                self.credit -= COSTS if self.entries - before else 1
        return 0

    cdef int remember(self, uint32_t address) noexcept:
        self.base = address
        return 0

    cdef int disagreement(self, Packet* p, Place* after) noexcept:
        """Whether the packet cannot come where the stretch has led."""
        cdef size_t i
        if p.kind == SYNC:
            if p.reason == 0 and after.known == HERE and (after.address != p.value or after.isa != p.isa):
                return CONTRADICTION
        elif after.known == HERE and not p.has & (EXCEPTION | SWITCH) and not self.broadcast:
            for i in range(self.count):  # without an instruction in between it corrects the one before
                if self.items[i].sort == INSTRUCTION:
                    return CONTRADICTION
        return 0

    cdef int branch(self, Packet* p) except -1:
        cdef Row* row
        cdef uint32_t address = <uint32_t>p.value
        if p.bits < 32:
            address = self.base >> p.bits << p.bits | address & ((1 << p.bits) - 1)
        if p.has & CANCEL and not self.open:
            self.cancel()
        if not p.has & FULL and (self.open or not p.has & BASED):
            self.doubted = True
        elif p.has & FULL:
            self.doubted = False
        if p.has & EXCEPTION and p.context:
            row = self.add(TAKEN, p.index)
            row.address, row.thread = address, p.context
        self.remember(address)
        self.bits = p.bits
        self.arrive(address, p)
        if p.has & EXCEPTION:
            self.place.doubtful = 0
        return 0

    cdef int arrive(self, uint32_t address, Packet* p) except -1:
        """Go on at the packet's address. One of which some bits are missing ends no gap where there is no program."""
        if p.isa > THUMB:
            self.open_gap(ISA_, p.index)
            return 0
        if self.open and p.kind == BRANCH and not p.has & FULL and self.code(address, p.isa).branching == ABSENT:
            return 0
        self.close_gap(p.index)
        self.place.address, self.place.isa, self.place.known = address, p.isa, HERE
        self.place.block = 0
        return 0

    cdef int sync(self, Packet* p) except -1:
        if p.reason:
            self.open_gap(p.reason, p.index)
            self.cycle += p.count
            self.gap_cycles += p.count
            if not p.count or p.reason == OVERFLOW and not self.through_overflow:
                self.lose(p.reason, p.index)
        elif self.place.known == HERE and self.place.address == p.value and self.place.isa == p.isa:
            self.thread, self.doubted = p.context, False
            self.remember(<uint32_t>p.value)
            return 0
        self.thread = p.context
        # Outside the program: if damage did that, the other bits may lead back into it.
        self.doubted = p.isa <= THUMB and self.code(<uint32_t>p.value, p.isa).branching == ABSENT
        self.bits = LOW
        if p.has & PROGRESS:
            self.arrive(p.before, p)
            if self.place.known == HERE:
                self.execute(p.index, True)
        self.remember(<uint32_t>p.value)
        self.arrive(<uint32_t>p.value, p)
        self.place.doubtful = 4
        return 0

    cdef int cancel(self) except -1:
        """The last instruction was not executed after all; its time is the next one's."""
        cdef size_t i = self.used
        while i and self.used - i < BACK:
            i -= 1
            if self.rows[i].sort == GAP:
                return 0
            if self.rows[i].sort == INSTRUCTION:
                self.pending += self.rows[i].cycles
                memmove(&self.rows[i], &self.rows[i + 1], (self.used - i - 1) * sizeof(Row))
                self.used -= 1
                return 0
        return 0
