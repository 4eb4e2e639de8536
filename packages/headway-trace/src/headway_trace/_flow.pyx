"""The flow of a program: packets and a program image become instructions.

From a known address on, each atom is one instruction of the image. An executed direct branch goes to its target, and
an indirect one to the address of the next branch packet. The trace therefore contains some facts twice, and they must
agree:

* an instruction without a condition cannot have failed it;
* a branch packet comes after every indirect branch, and for an exception. After a direct branch it comes only if that
  changed the instruction set, or if the unit broadcasts branches, and repeats where the branch went;
* a periodic I-sync repeats the address that the flow has reached.

The flow is therefore followed one span at a time, from one packet with an address to the next, before any of it becomes
a record. A span that disagrees is a gap from there on, never a guess; the next packet with an address continues. An
address that may be out of date (because some of its bits come from before damage) must first be confirmed by its own
span.

Source: ARM IHI 0014Q, sections 4.4, 4.5.2 and 7.3.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memmove

from headway_trace._etmv3 cimport Atom, atoms_of
from headway_trace._packets cimport (
    ALIGNMENT, ATOMS, BASED, BRANCH, CANCEL, CONTEXT, EXCEPTION, FULL, INCOMPLETE, JAZELLE, NOISE, PROGRESS, SWITCH,
    SYNC, THUMB, THUMBEE, TIMESTAMP, Packet, Packets,
)
from headway_trace._program cimport (
    ABSENT, AWAITING, DIRECT, FOREIGN_ISA, HERE, IT, MISSING, NOWHERE, Code, Place, InstructionTable, Seen,
    code_at, step,
)
from headway_trace._records cimport (
    CONTRADICTION, DAMAGE, GAP, IMAGE, INSTRUCTION, ISA_, NO_THREAD, OVERFLOW, TAKEN, TIME, TRUNCATED, UNSYNCHRONISED,
    Records, RecordWriter, Row, add_row, damaged,
)
from headway_trace._regain cimport Item, Regain, Stretch, repeats

DEF MAX_ATOMS = 4096   # atoms of a span that is followed as a whole
DEF BACK = 4096        # rows after which an instruction can no longer be cancelled
DEF LOW = 24           # low bits of an I-sync that must lie in the program if the whole address does not
DEF MANY = 16          # instructions outside the program that show damage, if nothing is traced there

cdef inline int shift_of(uint8_t isa) noexcept nogil:
    """Return the number of low bits of an address that packets do not hold."""
    return 2 if isa == 0 else 1 if isa <= THUMBEE else 0


cdef inline bint calls(Code* code, bint executed) noexcept nogil:
    """Return whether the instruction called a function."""
    return code.block and executed and code.branching >= DIRECT and code.branching != IT


cdef class Flow(RecordWriter):
    """The flow of one stream through its program.

    ``confined``: the unit traces nothing outside the program, so anything that seems to be executed there is damage.
    Otherwise it is a gap like any other without an image. At the end of a stream, `left` and `visited` show which of
    the two it is.
    """

    cdef Seen seen
    cdef Regain regain
    cdef bint broadcast, through_overflow
    cdef Item* items
    cdef size_t count, atoms   # number of items, and how many of them are instructions
    cdef Place place
    cdef bint begun            # there has been a packet
    cdef bint headed           # the first packet was an I-sync, or should have been one
    cdef bint aligned          # there has been an A-sync
    cdef bint doubted          # the address is not confirmed yet: only `bits` bits of it were in a packet
    cdef bint unfounded        # … and the others come from before damage
    cdef uint8_t bits
    cdef uint32_t base         # address of the last packet
    cdef bint suspect          # the last packet with an address came after damage
    cdef bint mistaken         # the last I-sync was made by damage
    cdef uint8_t isa           # instruction set before that I-sync
    cdef bint partly           # only `bits` bits of the address are known
    cdef bint outside          # something was executed outside the program since the last complete address
    cdef uint64_t end
    cdef bint confined         # nothing outside the program is traced
    cdef public bint searching     # a lost address is searched for
    cdef readonly uint64_t stretches, contradictions
    # Number of times that it left the program and came back without executing anything
    cdef readonly uint64_t left
    cdef readonly uint64_t visited    # number of times that something was executed outside

    def __init__(
        self, InstructionTable program not None, *, cycle_accurate, branch_broadcast, counted_through_overflow, threads,
        confined=False,
    ):
        self.seen = Seen(program)
        self.regain = Regain(self.seen)
        self.counted, self.broadcast = cycle_accurate, branch_broadcast
        self.through_overflow, self.threads, self.confined = counted_through_overflow, threads, confined
        self.items = <Item*>calloc(MAX_ATOMS + 32, sizeof(Item))
        self.gap.open, self.gap.why, self.searching = True, UNSYNCHRONISED, True
        if self.items == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.items)

    def feed(self, Packets packets not None):
        """Take more packets. Return the records that can no longer be taken back."""
        cdef Py_ssize_t i
        for i in range(packets.size):
            self.packet(&packets.data[i])
        return self.give(False)

    @property
    def searches(self):
        """The number of searches for a lost address."""
        return self.regain.searches

    @property
    def given_up(self):
        """The number of those that were given up, because a search may take only so long."""
        return self.regain.given_up

    def begins(self):
        """Report that nothing is missing before the first byte: the first I-sync is valid without an A-sync."""
        self.begun = self.headed = True

    def finish(self):
        """End the stream. Return the records that are left."""
        self.close(NULL)
        self.close_gap(self.end)
        return self.give(True)

    cdef Records give(self, bint last):
        """Return all final rows.

        The last instruction, which an exception can cancel, and a gap that may continue are not among them.
        """
        cdef size_t n = self.used
        if not last and not self.gap.open:
            while n and self.used - n < BACK and self.rows[n - 1].sort != INSTRUCTION and self.rows[n - 1].sort != GAP:
                n -= 1
            if n and self.used - n < BACK:
                n -= 1
        return self.hand_over(n)

    cdef int check(self, Place* place, size_t* upto) except -1:
        """Follow the span from a place.

        Set how many items fit, and their instructions; return 0, or why the next does not.
        """
        cdef size_t i
        cdef Code* code = NULL
        cdef int why
        for i in range(self.count):
            if self.items[i].sort == INSTRUCTION:
                self.items[i].address, self.items[i].isa = <uint32_t>place.address, place.isa
                why = step(self.seen, place, self.items[i].executed, &code)
                if why:
                    upto[0] = i
                    return IMAGE if why == MISSING else ISA_ if why == FOREIGN_ISA else CONTRADICTION
                self.items[i].size, self.items[i].calls = code.size, calls(code, self.items[i].executed)
        upto[0] = self.count
        return 0

    # Spans

    cdef int packet(self, Packet* p) except -1:
        cdef Atom atoms[16]
        cdef int n, i, left
        cdef Item* item
        self.end = p.index + (p.count if p.kind <= INCOMPLETE else p.size)
        if not self.begun and p.kind > INCOMPLETE:
            self.begun, self.headed = True, p.kind == SYNC
        if p.kind == ATOMS:
            if not self.aligned:
                return 0
            n = atoms_of(p.header, self.counted, atoms, &left)
            for i in range(n):
                item = &self.items[self.count]
                item.index, item.sort = p.index, INSTRUCTION
                item.executed, item.cycles = atoms[i].executed, atoms[i].cycles
                self.count += 1
                self.atoms += 1
            if left:
                item = &self.items[self.count]
                item.index, item.sort, item.cycles = p.index, GAP, left
                self.count += 1
            if self.count >= MAX_ATOMS:
                self.close(NULL)
        elif p.kind == ALIGNMENT:
            self.aligned = True
        elif p.kind == TIMESTAMP:
            if not self.aligned or not p.has & BASED:
                return 0
            item = &self.items[self.count]
            item.index, item.sort, item.value, item.cycles = p.index, TIME, p.value, 0
            self.count += 1
            if self.count >= MAX_ATOMS:
                self.close(NULL)
        elif p.kind == SYNC or p.kind == BRANCH:
            self.correct(p)
            if p.kind == SYNC and not self.aligned and p.isa <= THUMB and (p.reason == 0 or self.headed):
                # A periodic I-sync, or one at the beginning of a stream, follows an A-sync, which must have been lost.
                self.aligned = code_at(self.seen, <uint32_t>p.value, p.isa).branching != ABSENT
            if self.aligned:
                self.close(p)
        elif p.kind == NOISE:
            if self.aligned:
                self.close(NULL)
                self.lose(DAMAGE, p.index)
        elif p.kind == INCOMPLETE:
            if self.aligned:
                self.close(NULL)
                self.lose(TRUNCATED, p.index)
        elif p.kind == CONTEXT:
            self.close(NULL)
            self.thread = <uint32_t>p.value
        return 0

    cdef int correct(self, Packet* p) except -1:
        """Correct branches after an I-sync that damage made: their instruction set is the one before it."""
        cdef int wrong, right
        if p.kind == SYNC or p.has & FULL:
            if self.confined and p.isa != self.place.isa and (
                p.isa > THUMB or code_at(self.seen, <uint32_t>p.value, p.isa).branching == ABSENT
            ):
                self.mistaken = True
            else:
                self.mistaken, self.isa = False, p.isa
        elif self.mistaken and p.isa != self.isa:
            wrong, right = shift_of(p.isa), shift_of(self.isa)
            p.value = (p.value & ((1 << p.bits) - 1)) >> wrong << right
            p.bits, p.isa = p.bits - wrong + right, self.isa
        return 0

    def lost(self, uint64_t index):
        """Report that bytes are missing here (after the parser's own ``lost``)."""
        if self.aligned:
            self.close(NULL)
            self.lose(DAMAGE, index)

    cdef int lose(self, uint8_t why, uint64_t index) except -1:
        """Begin a part in which neither address nor time are known."""
        self.open_gap(why, index)
        self.lose_time()
        if why == DAMAGE:
            self.thread = NO_THREAD  # what says that another goes on may be missing
        return 0

    cdef int open_gap(self, uint8_t why, uint64_t index) except -1:
        """Begin a part in which the address is not known.

        A gap that ended just now, without an instruction, goes on.
        """
        self.place.known = NOWHERE
        if self.would_begin(why):
            self.regain.begin()
        return self.begin_gap(why, index, True)

    cdef int emit(self, size_t upto, uint8_t why, size_t resume, Place* after, Place* back, uint64_t end) except -1:
        """Add the rows of the span's items: up to a gap, if `why` gives a reason for one, and from `resume` on.

        ``after`` is the place to which the items lead that `check` followed, ``back`` the one where ``resume`` is.
        """
        cdef size_t i
        cdef Row* row
        cdef Item* item
        cdef bint followed = self.place.known != NOWHERE
        for i in range(self.count + 1):
            if i == upto and why:
                followed = False
                if why == CONTRADICTION:
                    self.lose(why, self.items[i].index if i < self.count else end)
                else:
                    self.open_gap(why, self.items[i].index if i < self.count else end)
            if i == self.count:
                break
            if i == resume:
                followed = False
                self.close_gap(self.items[i].index)
                self.place, self.doubted = back[0], False
            item = &self.items[i]
            if item.sort == TIME:
                row = add_row(self, TIME, item.index)
                row.cycles = item.value
                continue
            self.cycle += item.cycles
            if self.gap.open:
                self.gap.cycles += item.cycles
                continue
            self.pending += item.cycles
            if item.sort == GAP:
                continue
            if followed:
                row = add_row(self, INSTRUCTION, item.index)
                row.address, row.size, row.executed, row.cycles = item.address, item.size, item.executed, self.pending
                row.why = item.isa
                self.pending = 0
                self.regain.trusted = item.address
                if item.calls:
                    self.regain.called(item.address + item.size)
            else:
                self.execute(item.index, item.executed)
        if followed:
            self.place = after[0]
        return 0

    cdef int execute(self, uint64_t index, bint executed) except -1:
        """Add a row for the instruction at the place, and go on behind it."""
        cdef Code* code = NULL
        cdef uint32_t address = <uint32_t>self.place.address
        cdef uint8_t isa = self.place.isa
        if step(self.seen, &self.place, executed, &code):
            return 0
        cdef Row* row = add_row(self, INSTRUCTION, index)
        row.address, row.size, row.executed, row.why, row.cycles = address, code.size, executed, isa, self.pending
        self.pending = 0
        self.regain.trusted = address
        if calls(code, executed):
            self.regain.called(address + code.size)
        return 0

    cdef int close(self, Packet* p) except -1:
        """End the span with a packet that has an address, or (NULL) without one."""
        cdef Place after = self.place, back
        cdef size_t upto = self.count, resume = self.count
        cdef int why = 0
        self.regain.earn(self.count)
        if self.place.known != NOWHERE:
            why = self.check(&after, &upto)
            if not why and p != NULL:
                why = self.disagreement(p, &after)
        if p != NULL and self.searching and (why or self.gap.open):
            resume = self.resume_at(p, why, upto, &back)
        if self.place.known != NOWHERE:
            if why == IMAGE and resume < self.count:
                why = CONTRADICTION
            elif why == IMAGE and self.unfounded:
                why = DAMAGE  # it may be another address
            elif why == IMAGE and self.atoms:
                self.outside = True
            if why and self.doubted:
                upto = 0
            elif why and upto > resume:
                upto = resume
            self.stretches += self.count > 0
            self.contradictions += why == CONTRADICTION
        if resume < self.count:
            self.outside = False
        elif p != NULL and (p.kind == SYNC or p.has & FULL):
            if self.outside:
                self.visited += 1
            elif self.place.known == HERE and not self.atoms:
                self.left += code_at(self.seen, self.place.address, self.place.isa).branching == ABSENT
            self.outside = False
        self.emit(upto, why, resume, &after, &back, self.end if p == NULL else p.index)
        self.partly = False
        if p != NULL:
            if not why and self.count and self.place.known != NOWHERE:
                self.doubted = False
            if p.kind == BRANCH:
                self.branch(p)
            else:
                self.sync(p)
        self.count = self.atoms = 0
        return 0

    cdef size_t resume_at(self, Packet* p, int why, size_t upto, Place* back) except? 0:
        """Return the item from which on the place is known again, and set the place there; all items if it is not.

        ``why`` and ``upto`` tell what is wrong with the span, if its beginning is believed to be known. Leaving the
        program is not an error, unless that has never been seen before and the atoms fit elsewhere.
        """
        cdef size_t resume = self.count, quarter
        cdef bint astray = self.confined and self.atoms >= MANY
        cdef Stretch s
        s.items, s.count, s.place, s.base, s.end = self.items, self.count, self.place, self.base, p
        if self.place.known != NOWHERE:
            self.regain.begin()
        if self.place.known == NOWHERE:
            if self.partly and (self.gap.why != IMAGE or self.outside and astray):
                resume = self.from_bits(&s, back)
            if resume == self.count and damaged(self.gap.why):
                resume = self.regain.where(&s, 0, 0, False, back)
            return resume
        if why == IMAGE or why == ISA_:
            if not self.suspect and not astray:
                return resume
            if upto and not self.doubted:
                return self.regain.where(&s, upto, 0, True, back)
            resume = self.from_bits(&s, back)
            return self.regain.where(&s, upto, 0, False, back) if resume == self.count and self.suspect else resume
        if self.doubted:
            resume = self.from_bits(&s, back)
        if resume < self.count or not why:
            return resume
        if upto < self.count:
            return self.regain.where(&s, upto, 0, False, back)
        # Only an item that did not fit shows where the damage is; otherwise try several places.
        for quarter in range(1, 4):
            resume = self.regain.where(&s, self.count * quarter // 4, 0, False, back)
            if resume < self.count:
                break
        return resume

    cdef size_t from_bits(self, Stretch* s, Place* back) except? 0:
        """Do the same as `resume_at` where the low bits of the address at the beginning are known."""
        cdef size_t resume = self.regain.where(s, 0, self.bits, False, back)
        if resume == 0 and self.count:
            self.base = back.address
        return resume

    cdef int disagreement(self, Packet* p, Place* after) noexcept:
        """Return whether the packet cannot come at the place to which the span has led."""
        if p.kind == SYNC:
            if p.reason == 0 and after.known == HERE and (after.address != p.value or after.isa != p.isa):
                return CONTRADICTION
        elif after.known == HERE and self.atoms and not p.has & (EXCEPTION | SWITCH):
            # Without an instruction in between, the branch corrects the one before.
            return 0 if repeats(p, after, self.broadcast) else CONTRADICTION
        return 0

    cdef int branch(self, Packet* p) except -1:
        cdef Row* row
        cdef uint32_t address = <uint32_t>p.value
        if p.bits < 32:
            address = self.base >> p.bits << p.bits | address & ((1 << p.bits) - 1)
        if p.has & CANCEL and not self.gap.open:
            self.cancel()
        if not p.has & FULL and (self.gap.open or not p.has & BASED):
            self.doubted = True
        elif p.has & FULL:
            self.doubted = False
        if p.has & EXCEPTION and p.context:
            row = add_row(self, TAKEN, p.index)
            row.address, row.thread = address, p.context
        self.suspect = self.gap.open and damaged(self.gap.why)
        self.unfounded = not p.has & (FULL | BASED)
        self.base = address
        self.bits = p.bits
        self.arrive(address, p)
        if p.has & EXCEPTION:
            self.place.doubtful = 0
        return 0

    cdef int arrive(self, uint32_t address, Packet* p) except -1:
        """Continue at the packet's address. An incomplete address outside the program does not end a gap."""
        if p.isa > THUMB:
            self.open_gap(ISA_, p.index)
            return 0
        if (
            self.gap.open and p.kind == BRANCH and not p.has & FULL
            and code_at(self.seen, address, p.isa).branching == ABSENT
        ):
            self.place.address, self.place.isa, self.partly = address, p.isa, True
            return 0
        self.close_gap(p.index)
        self.place.address, self.place.isa, self.place.known = address, p.isa, HERE
        self.place.block = 0
        if p.isa != THUMB:
            self.place.doubtful = 0
        return 0

    cdef int sync(self, Packet* p) except -1:
        # The address may be outside the program. If damage caused that, its other bits may lead back into it.
        cdef bint suspect = self.gap.open and damaged(self.gap.why)
        cdef uint8_t why = p.reason
        if why:
            if suspect and (p.isa > THUMB or code_at(self.seen, <uint32_t>p.value, p.isa).branching == ABSENT):
                why = self.gap.why  # nothing says that this is an I-sync at all
            self.open_gap(why, p.index)
            self.cycle += p.count
            self.gap.cycles += p.count
            if not p.count or why == OVERFLOW and not self.through_overflow:
                self.lose(why, p.index)
        elif self.place.known == HERE and self.place.address == p.value and self.place.isa == p.isa:
            self.thread, self.doubted = p.context, False
            self.base = <uint32_t>p.value
            return 0
        self.thread = p.context
        self.suspect, self.unfounded = suspect, False
        self.doubted = p.isa <= THUMB and code_at(self.seen, <uint32_t>p.value, p.isa).branching == ABSENT
        self.bits = LOW
        if p.has & PROGRESS:
            self.arrive(p.before, p)
            if self.place.known == HERE:
                self.execute(p.index, True)
        self.base = <uint32_t>p.value
        self.arrive(<uint32_t>p.value, p)
        self.place.doubtful = 4 if p.isa == THUMB else 0
        return 0

    cdef int cancel(self) except -1:
        """Cancel the last instruction, which was not executed after all; its time belongs to the next one."""
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

    # States

    def remember(self):
        """Begin to keep what `history` returns. This must come first."""
        self.seen.logs = True

    @property
    def remembers(self):
        """Whether `history` is complete; it is given up when it becomes too long."""
        return self.seen.logs

    def history(self):
        """Return, as bytes, what all states that were saved have in common."""
        return self.seen.history()

    def save(self):
        """Return the state between two calls of `feed`, in values that JSON has."""
        cdef bytes items = PyBytes_FromStringAndSize(<const char*>self.items, self.count * sizeof(Item))
        return [
            self.saved(), self.regain.saved(), self.seen.logged, items.hex(), self.place, self.begun, self.headed,
            self.aligned, self.doubted, self.bits, self.base, self.suspect, self.mistaken, self.isa, self.partly,
            self.outside, self.end, self.stretches, self.contradictions, self.left, self.visited, self.unfounded,
        ]

    def load(self, list state not None, bytes history not None):
        """Go on where `save` was called. ``history``: that of the flow whose state it is, as it was then or later.

        Raises ValueError, TypeError, KeyError, IndexError or OverflowError if it is no state of such a flow.
        """
        cdef bytes items
        cdef size_t i
        cdef Item* item
        (
            rows, regain, logged, text, self.place, self.begun, self.headed, self.aligned, self.doubted, self.bits,
            self.base, self.suspect, self.mistaken, self.isa, self.partly, self.outside, self.end, self.stretches,
            self.contradictions, self.left, self.visited, self.unfounded,
        ) = state
        items = bytes.fromhex(text)
        if (
            len(items) % sizeof(Item) or len(items) >= MAX_ATOMS * sizeof(Item) or self.bits > 32 or self.isa > JAZELLE
            or self.place.isa > JAZELLE or self.place.known > AWAITING
        ):
            raise ValueError("items or place")
        memcpy(self.items, <const char*>items, len(items))
        self.count, self.atoms = len(items) // sizeof(Item), 0
        for i in range(self.count):
            item = &self.items[i]
            if item.sort > TIME or item.sort == INSTRUCTION and item.executed > 1:
                raise ValueError("item")
            item.calls = False
            self.atoms += item.sort == INSTRUCTION
        self.restore(rows)
        self.regain.restore(regain)
        self.seen.restore(history, logged)
