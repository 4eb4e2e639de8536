"""The flow of a program by packets of ETMv4 and ETE, which become the steps of a walk from waypoint to waypoint.

A packet stands for elements. Those that an instruction or an exception stands for are speculative: they are kept until
the trace commits them, and a cancel takes the newest of them back. A mispredict turns the newest atom round. An address
tells where an indirect branch went, or repeats where the walk is; without one the branch returned to the top of the
return stack. An exception has the address to which it returns: everything before it was executed.

Source: ARM IHI 0064, chapters 2, 5 and 6; ARM DDI 0487, D5 (ETE).
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memset

from headway_trace._etmv4 cimport HAS_THREAD, MISPREDICT, WIDE, WITH_CONTEXT
from headway_trace._packets cimport (
    A64, ADDRESS, ALIGNMENT, ARM, ATOMS, BASED, CANCELLED, COMMIT, CONTEXT, COUNT, CYCLES, DISCARD, FULL, INCOMPLETE,
    INFO, LOST, NOISE, ON, QUOTA, RAISED, SOURCE, THUMB, TIMESTAMP, TRANSACTION, Packet,
)
from headway_trace._program cimport AWAITING, HERE, ISB, NOWHERE, TSTART, WAIT, InstructionTable
from headway_trace._records cimport COUNTED, DAMAGE, IMAGE, OFF, OVERFLOW, TRUNCATED, damaged
from headway_trace._waypoint_regain cimport ADDRESSED, ANYTHING, REACHED
from headway_trace._waypoints cimport Walk, WaypointFlow

DEF MOST = 1 << 16     # elements that are kept, beside those that may be speculative

DEF FAILURE = 255      # the kind of an element: a transaction failed
DEF REMEMBERED = 3     # addresses from which others are completed
DEF PROOF = 8          # atoms that fit before an indirect branch or an exception, so that an address is certain

cdef inline bint canonical(uint64_t address) noexcept nogil:
    """Return whether a processor can execute there: the bits above those of a virtual address (56) are all the same."""
    return address >> 55 == 0 or address >> 55 == 0x1FF


cdef struct Element:
    uint64_t index, value
    uint64_t count         # of a quota: instructions
    uint32_t context       # context ID, or number of an exception
    uint8_t kind, has, isa, reason, header, bits


cdef class Etmv4Flow(WaypointFlow):
    """The flow of one stream through its program."""

    cdef bint embedded, transactions
    cdef Element* elements     # those that are kept, the oldest first
    cdef size_t oldest, count, room
    cdef size_t depth          # how many of them are speculative, with those that came before the stream
    cdef size_t unseen, deepest
    cdef bint synchronised     # it is known how many elements are speculative, or how many may be
    cdef bint most             # … since damage the latter
    cdef bint waiting_address  # the newest element is complete only with the address that follows
    cdef bint informed, wide   # the context is known; it is A64
    cdef bint stale            # … but it is that before damage
    cdef size_t since          # addresses since then, up to REMEMBERED
    cdef uint32_t upper        # bits of the last address where a processor can execute
    cdef bint known_upper
    cdef uint64_t confirmed    # how many had turned out to be right until then that lacked bits
    cdef bint overflowed
    cdef bint bound            # there is an address to go to
    cdef Element target
    cdef bint must             # the next waypoint needs an address
    cdef bint excepted         # an exception has been taken, and it is not known yet where it continues
    cdef Element exception

    def __init__(
        self, InstructionTable program not None, *, cycle_accurate, return_stack, waits, embedded, transactions,
        deepest, threads, assumes,
    ):
        kinds = 1 << ISB | (1 << WAIT if waits else 0) | (1 << TSTART if embedded else 0)
        self.walk = Walk(
            program, counted=cycle_accurate, threads=threads, stack=return_stack, barriers=kinds, assumes=assumes
        )
        self.walk.holds = cycle_accurate
        self.embedded, self.transactions, self.deepest = embedded, transactions, min(deepest, 1 << 20)

    def __dealloc__(self):
        free(self.elements)

    cdef int packet(self, Packet* p) except -1:
        cdef int i
        self.end = p.index + (p.count if p.kind <= INCOMPLETE else p.size)
        if p.kind == ALIGNMENT:
            self.aligned = True
            return 0
        if not self.aligned:
            return 0
        if p.kind == INCOMPLETE:
            self.forget(TRUNCATED, p.index)
            return 0
        if p.kind == NOISE:
            self.forget(DAMAGE, p.index)
            return 0
        if p.kind == INFO:
            if not self.synchronised:
                self.synchronised = True
                self.depth = self.unseen = min(p.context, self.deepest)
            elif self.most and self.depth > p.context:
                self.commit(self.depth - p.context, p.index)
            self.most = False
            self.walk.clear_stack()
            return 0
        if not self.synchronised:
            return 0
        if p.kind == ATOMS and not self.count and not self.deepest and not self.waiting_address:
            for i in range(p.bits):  # nothing is speculative: they need not be kept
                if self.arrive(p.index):
                    self.walk.atom(not p.value >> i & 1, p.index)
                elif not self.must:
                    break  # where the place is not known and not looked for, the others tell nothing either
            return 0
        if p.kind == ATOMS:
            for i in range(p.bits):
                self.keep(p).value = not p.value >> i & 1
            self.depth += p.bits
        elif p.kind == ADDRESS:
            if p.has & WITH_CONTEXT:
                self.keep(p).kind = CONTEXT
            self.keep(p)
            if self.waiting_address:
                self.depth += 1
                self.waiting_address = False
        elif p.kind == RAISED or p.kind == QUOTA:
            self.keep(p)
            if p.kind == RAISED and p.has & FULL or p.kind == QUOTA and p.has & WITH_CONTEXT:
                self.depth += 1
            else:
                self.waiting_address = True
        elif p.kind == SOURCE:
            self.keep(p)
            self.depth += 1
        elif p.kind == TRANSACTION:
            if self.transactions and p.header == 0x0A:
                self.keep(p)
                self.depth += 1
            elif p.header == 0x06:
                self.keep(p).kind = FAILURE
        elif p.kind == CONTEXT or p.kind == TIMESTAMP or p.kind == ON:
            self.keep(p)
        elif p.kind == CYCLES:
            self.commit(p.count, p.index)
            self.keep(p)
        elif p.kind == COMMIT:
            self.commit(p.value, p.index)
        elif p.kind == CANCELLED:
            for i in range(p.bits):
                self.keep(p).kind = ATOMS
                self.newest().value = not p.context >> i & 1
            self.depth += p.bits
            self.cancel(p.value, p.index)
            if p.has & MISPREDICT:
                self.mispredict(p.index)
        elif p.kind == LOST or p.kind == DISCARD:
            self.overflowed = p.kind == LOST
            self.forget(OVERFLOW if p.kind == LOST else OFF, p.index)
            self.synchronised, self.most = True, False
            self.depth = self.unseen = 0
        if self.depth > self.deepest:
            self.commit(self.depth - self.deepest, p.index)
        if not self.depth and not self.waiting_address:
            while self.count:
                self.apply()
        elif self.count > MOST + self.deepest:
            self.forget(DAMAGE, p.index)
        return 0

    cdef int forget(self, uint8_t why, uint64_t index) except -1:
        """Begin a gap in which packets are missing: all that is speculative is unknown, but for times."""
        self.drop()
        self.walk.lose(why, index)
        # The context is that from before damage as a rule. A thread is never shown by a rule, so it is not known.
        self.stale = why == DAMAGE and self.informed
        self.informed = self.stale
        self.must = self.waiting_address = False
        if why == DAMAGE:
            self.overflowed = False
            self.since, self.confirmed = 0, self.walk.confirmed
        # As many as there can be may be speculative that came before: what is committed later was committed.
        self.depth = self.unseen = self.deepest if self.synchronised else 0
        self.most = True
        return 0

    cdef int conclude(self) except -1:
        self.drop()
        return self.settle()

    cdef int drop(self) except -1:
        """Give up the elements that are kept, but for times."""
        cdef Element* element
        while self.count:
            element = &self.elements[self.oldest]
            self.oldest += 1
            self.count -= 1
            if element.kind == TIMESTAMP and element.has & BASED:
                self.walk.stamp(element.value, element.index)
        self.bound = False
        return 0

    # Elements

    cdef Element* keep(self, Packet* p) except NULL:
        cdef Element* grown
        cdef size_t i
        if self.oldest + self.count == self.room:
            if self.oldest * 2 >= self.room and self.room:
                for i in range(self.count):
                    self.elements[i] = self.elements[self.oldest + i]
                self.oldest = 0
            else:
                self.room = self.room * 2 if self.room else 64
                grown = <Element*>realloc(self.elements, self.room * sizeof(Element))
                if grown == NULL:
                    raise MemoryError
                self.elements = grown
        self.count += 1
        grown = self.newest()
        grown.index, grown.value, grown.count, grown.context = p.index, p.value, p.count, p.context
        grown.kind, grown.has, grown.isa, grown.reason, grown.header = p.kind, p.has, p.isa, p.reason, p.header
        grown.bits = p.bits
        return grown

    cdef Element* newest(self) noexcept:
        return &self.elements[self.oldest + self.count - 1]

    cdef bint speculative(self, Element* element) noexcept:
        """Return whether it counts as speculative; of an exception or quota, the address counts for it."""
        return element.kind in (ATOMS, RAISED, QUOTA, SOURCE, TRANSACTION)

    cdef int commit(self, uint64_t number, uint64_t index) except -1:
        """Apply the oldest elements, up to so many that are speculative."""
        cdef uint64_t before = min(number, <uint64_t>self.unseen)
        self.unseen -= before
        self.depth -= before
        number -= before
        while number:
            if not self.count:
                self.contradict(index)
                break
            if self.apply():
                number -= 1
                self.depth -= self.depth > 0
        return 0

    cdef int cancel(self, uint64_t number, uint64_t index) except -1:
        """Take back the newest elements, up to so many that are speculative; times stay."""
        cdef size_t i, kept = 0
        cdef Element* element
        i = self.count
        while number and i:
            i -= 1
            element = &self.elements[self.oldest + i]
            if self.speculative(element):
                number -= 1
                self.depth -= self.depth > 0
                element.kind = NOISE
            elif element.kind != TIMESTAMP and element.kind != CYCLES:
                element.kind = NOISE
        for i in range(self.count):
            if self.elements[self.oldest + i].kind != NOISE:
                self.elements[self.oldest + kept] = self.elements[self.oldest + i]
                kept += 1
        self.count = kept
        self.waiting_address = False
        if number > self.unseen:
            self.contradict(index)
        else:
            self.unseen -= number
            self.depth -= min(number, <uint64_t>self.depth)
        return 0

    cdef int mispredict(self, uint64_t index) except -1:
        """Turn the newest atom round; addresses since then are wrong."""
        cdef size_t i = self.count, kept
        cdef Element* element
        while i:
            i -= 1
            element = &self.elements[self.oldest + i]
            if element.kind == ATOMS:
                element.value = not element.value
                kept = i + 1
                for i in range(i + 1, self.count):
                    if self.elements[self.oldest + i].kind != ADDRESS:
                        self.elements[self.oldest + kept] = self.elements[self.oldest + i]
                        kept += 1
                self.count = kept
                return 0
        if not self.unseen:
            self.contradict(index)
        return 0

    cdef int contradict(self, uint64_t index) except -1:
        self.bound = self.must = False
        self.walk.contradict(index)
        return 0

    # States

    cdef list own(self):
        cdef size_t i
        kept = [self.elements[self.oldest + i] for i in range(self.count)]
        return [
            kept, self.depth, self.unseen, self.synchronised, self.waiting_address, self.informed, self.wide,
            self.overflowed, self.bound, self.target, self.must, self.excepted, self.exception, self.stale, self.since,
            self.confirmed, self.upper, self.known_upper, self.most,
        ]

    cdef int load_own(self, list state) except -1:
        cdef Packet none
        cdef Element* element
        cdef Element one
        (
            kept, self.depth, self.unseen, self.synchronised, self.waiting_address, self.informed, self.wide,
            self.overflowed, self.bound, self.target, self.must, self.excepted, self.exception, self.stale, self.since,
            self.confirmed, self.upper, self.known_upper, self.most,
        ) = state
        if len(kept) > MOST + self.deepest:
            raise ValueError("elements")
        memset(&none, 0, sizeof(none))
        for values in kept:
            one = values
            element = self.keep(&none)
            element[0] = one
        return 0

    # What elements do

    cdef bint apply(self) except -1:
        """Apply the oldest element. Return whether it was speculative."""
        cdef Element element = self.elements[self.oldest]
        self.oldest += 1
        self.count -= 1
        if element.kind == ATOMS:
            if self.arrive(element.index):
                self.walk.atom(element.value, element.index)
        elif element.kind == ADDRESS:
            if self.complete(&element):
                self.bound, self.target = True, element
        elif element.kind == CONTEXT:
            self.inform(&element)
        elif element.kind == RAISED:
            self.raised(&element)
        elif element.kind == QUOTA:
            self.quota(&element)
        elif element.kind == SOURCE:
            self.source(&element)
        elif element.kind == ON:
            self.switched(&element)
        elif element.kind == FAILURE and self.lands():
            # The processor goes on elsewhere, at an address that follows.
            self.walk.place.known, self.walk.links, self.must = AWAITING, False, True
        elif element.kind == TIMESTAMP:
            if element.has & BASED:
                self.walk.stamp(element.value, element.index)
        elif element.kind == CYCLES and element.has & COUNT:
            self.walk.credit(element.value)
        return self.speculative(&element)

    cdef int inform(self, Element* element) except -1:
        """Take over a context. One without content is the same as before."""
        if not element.has & WITH_CONTEXT:
            return 0
        self.informed, self.wide, self.stale = True, element.header & WIDE != 0, False
        if element.header & HAS_THREAD and element.context != self.walk.thread:
            self.walk.resume(ANYTHING, 0)
            self.walk.thread = element.context
        if self.walk.place.known == HERE and self.wide != (self.walk.place.isa == A64):
            self.walk.place.isa = A64 if self.wide else ARM
            if not self.wide:
                self.walk.place.address = <uint32_t>self.walk.place.address
            elif self.walk.place.address & 3:
                self.contradict(element.index)
        return 0

    cdef bint lands(self) except -1:
        """Return whether the place is known, after all that was kept has been applied."""
        self.walk.resume(ANYTHING, 0)
        return self.walk.place.known == HERE

    cdef uint8_t set_of(self, Element* element) noexcept:
        return A64 if self.wide else THUMB if element.isa else ARM

    cdef bint certain(self, Element* address) noexcept:
        """Return whether an address is right: no bits of it, and no context, come from before damage."""
        if self.stale:
            return False
        return address.has & (BASED | FULL) != 0 or self.since == REMEMBERED and self.walk.confirmed > self.confirmed

    cdef bint complete(self, Element* address) except -1:
        """Mend an address that was completed from one where no processor can execute. Return whether it is of use.

        A short one that was completed from one before damage is not.
        """
        if not self.since and address.bits < 32 and not address.has & (BASED | FULL):
            return False
        self.since = min(self.since + 1, <size_t>REMEMBERED)
        if canonical(address.value):
            self.upper, self.known_upper = <uint32_t>(address.value >> 32), True
        elif address.has & FULL:
            # In code that is in no image nothing would tell whether those after it are right.
            self.known_upper = self.known_upper and not (self.walk.gap.open and self.walk.gap.why == IMAGE)
        elif self.known_upper:
            # The address that had all bits was a wrong one.
            address.value = <uint64_t>self.upper << 32 | <uint32_t>address.value
            address.has &= ~(<uint8_t>BASED)
            self.since = 1
            if self.walk.gap.open and self.walk.gap.why == IMAGE:
                self.walk.gap.why = DAMAGE
        return True

    cdef bint arrive(self, uint64_t index) except -1:
        """Go to the address that came last, if there is one. Return whether the walk can go on."""
        cdef Walk walk = self.walk
        cdef uint8_t isa
        cdef bint certain
        if self.bound and self.informed:
            self.bound = False
            certain = self.certain(&self.target)
            if not certain and walk.gap.open and not walk.doubts():
                return False
            if walk.trial and walk.place.known == AWAITING:
                walk.confirm(PROOF)
            walk.resume(ADDRESSED, self.target.value)
            isa = self.set_of(&self.target)
            if self.excepted:
                self.excepted = False
                walk.taken(self.exception.context, self.target.value, True, self.exception.index)
            if walk.place.known == HERE:
                if walk.place.isa == isa and walk.place.address == (
                    self.target.value if isa == A64 else <uint32_t>self.target.value
                ):
                    walk.convince()
                    walk.ascertain(certain)
                    return True
                self.contradict(index)
            self.must = False
            walk.arrive(self.target.value, isa, certain, self.target.index)
            if isa == THUMB:
                walk.place.doubtful = 4
        elif self.must and walk.assumes and walk.place.known == AWAITING:
            self.must = False
            walk.pass_by(index)
        elif self.must:
            self.contradict(index)
        return walk.place.known != NOWHERE or walk.seeks()

    cdef int settle(self) except -1:
        """Report an exception of which it will not be known where it continues."""
        if self.excepted:
            self.excepted = False
            self.walk.taken(self.exception.context, 0, False, self.exception.index)
        return 0

    cdef bint following(self, Element* address, Element* context) except -1:
        """Take the address that belongs to the element before it, and its context. Return whether there is one."""
        context.kind = NOISE
        if self.count and self.elements[self.oldest].kind == CONTEXT:
            context[0] = self.elements[self.oldest]
            self.oldest += 1
            self.count -= 1
        if not self.count or self.elements[self.oldest].kind != ADDRESS:
            return False
        address[0] = self.elements[self.oldest]
        self.oldest += 1
        self.count -= 1
        return self.complete(address)

    cdef int raised(self, Element* element) except -1:
        cdef Walk walk = self.walk
        cdef Element address, context
        cdef bint found = not element.has & FULL and self.following(&address, &context)
        if found and context.kind == CONTEXT and element.reason == 2:
            self.inform(&context)
        if found and element.reason == 2:  # the branch before it went there
            self.bound, self.target = True, address
        self.arrive(element.index)
        if found and address.has & (BASED | FULL):
            walk.resume(REACHED, address.value)
        if walk.place.known == AWAITING and not self.must:
            walk.go_back(element.index)
        if found and walk.place.known == HERE and walk.place.address < address.value and address.has & (BASED | FULL):
            walk.upto(address.value, False, element.index)
        if found and walk.trial and walk.place.known == HERE and walk.place.address == address.value:
            walk.confirm(PROOF)
        if found and context.kind == CONTEXT and element.reason != 2:
            self.inform(&context)
        self.settle()
        self.excepted, self.exception = True, element[0]
        if walk.place.known == HERE:
            walk.place.known, walk.links, walk.place.doubtful = AWAITING, False, 0
            self.must = True
        return 0

    cdef int quota(self, Element* element) except -1:
        cdef Walk walk = self.walk
        cdef Element address, context
        cdef bint found = element.has & WITH_CONTEXT
        if found:
            address, context.kind = element[0], NOISE
        else:
            found = self.following(&address, &context)
        self.arrive(element.index)
        walk.resume(ANYTHING, 0)
        if walk.place.known == AWAITING and not self.must:
            walk.go_back(element.index)
        if walk.place.known == HERE:
            if found and element.has & COUNT:
                walk.count(element.count, address.value, element.index)
            else:
                walk.open_gap(COUNTED, element.index)
        if found:
            if context.kind == CONTEXT:
                self.inform(&context)
            self.bound, self.target = address.has & (BASED | FULL) != 0, address
        return 0

    cdef int source(self, Element* element) except -1:
        cdef Walk walk = self.walk
        cdef uint8_t isa
        self.arrive(element.index)
        walk.resume(ANYTHING, 0)
        if walk.place.known == AWAITING and not self.must and walk.stack and walk.calls:
            walk.go_back(element.index)
        # The packet's own instruction set is not always that of the program.
        isa = walk.place.isa if walk.place.known == HERE else self.set_of(element)
        if walk.place.known == HERE and walk.place.address > element.value:
            self.contradict(element.index)
        if walk.place.known != HERE and self.informed and element.has & (BASED | FULL):
            self.must = False
            walk.arrive(element.value, isa, not self.stale, element.index)
        walk.source(element.value, isa, element.index)
        return 0

    cdef int switched(self, Element* element) except -1:
        """Tracing was switched on, or goes on after an overflow."""
        self.settle()
        self.bound = self.must = False
        if self.walk.trial:
            self.walk.roll_back()
        # After damage it is not known why it was off: what said that may be missing.
        cdef uint8_t why = self.walk.gap.why
        if not self.walk.gap.open or not damaged(why):
            why = OVERFLOW if self.overflowed else OFF
        self.walk.lose(why, element.index)
        self.overflowed = False
        return 0
