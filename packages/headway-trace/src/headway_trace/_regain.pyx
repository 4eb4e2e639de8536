"""The search for a lost address, by the atoms alone.

Only some of the instructions at which a stream may be can be followed along its next atoms, up to a packet that comes
only after an indirect branch, or only at its own address. If those that remain have all come to the same place, that is
the address. Otherwise it is the one that is clearly nearest to where the stream was before, if there is one.

The search considers each instruction that the stream has reached; those to which direct branches lead from where it
was, from where its calls return to, and from the function that returns to the packet's address; the addresses that
share the known bits; and, if it is at none of these, all that are near.

The search costs time, which is counted in steps: an instruction that is looked at. Each place of damage has a budget of
them. Beyond it the search is given up, which is counted, and the gap lasts to the next complete address. The budgets
are paid from a credit that the stream's atoms earn, so that noise is decoded in linear time, too.
"""

cimport cython
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc

from headway_trace._packets cimport BRANCH, EXCEPTION, SYNC, THUMB, Packet
from headway_trace._records cimport INSTRUCTION
from headway_trace._program cimport (
    ABSENT, ALONG, AWAITING, DIRECT, HERE, INDIRECT, INTERWORKED, IT, JUMPED, PLAIN, RETURNS, Code, Place, code_at,
    step,
)

DEF EARNS = 4          # steps that each atom adds to the credit
DEF CREDIT = 1 << 22   # the largest credit
DEF BUDGET = 1 << 20   # steps for one place of damage
DEF COSTS = 4          # steps that an instruction costs that was not known before
DEF MIN_ATOMS = 4      # the least number of atoms that are followed
DEF PROOF = 16         # the least number of atoms if they are the only evidence
DEF CALLS = 16         # the number of calls whose return addresses are remembered
DEF BRANCHES = 1024    # branches that are explored from one place
DEF ELSEWHERE = 1024   # addresses that may share the known bits
DEF SWEPT = 4096       # bytes on either side that are searched
DEF REACHED = 512      # addresses that are visited to find the nearest
DEF NEARBY = 48        # the largest distance in instructions
DEF AWAY = 8           # the distance for which a return counts
DEF CLEARLY = 4        # the second nearest must be twice as far plus this
DEF WALKED = 24        # items before a contradiction from which the distance is measured


cdef bint confirms(Packet* p, Place* after) noexcept:
    """Return whether the packet can come only at the place to which the span has led."""
    if p.kind == SYNC:
        return p.reason == 0 and after.known == HERE and after.address == p.value and after.isa == p.isa
    if after.known == HERE:
        return not p.has & EXCEPTION and repeats(p, after, False)
    return after.known == AWAITING and not p.has & EXCEPTION


cdef bint repeats(Packet* p, Place* after, bint broadcast) noexcept:
    """Return whether a branch packet repeats where a direct branch led.

    One comes after a direct branch to another instruction set, and where branches are broadcast after any other, too.
    """
    cdef uint32_t mask = <uint32_t>((<uint64_t>1 << p.bits) - 1)
    if after.came != INTERWORKED and not (broadcast and after.came == JUMPED):
        return False
    return p.isa == after.isa and not (p.value ^ after.address) & mask


cdef struct Atoms:
    size_t count
    uint8_t* executed
    uint32_t* failed   # for each atom, the next one that was not executed, from itself on


cdef void gather(Atoms* atoms, Stretch* s, size_t start) noexcept:
    """Take the atoms of the items from ``start`` on."""
    cdef size_t i
    cdef uint32_t failed
    atoms.count = 0
    for i in range(start, s.count):
        if s.items[i].sort == INSTRUCTION:
            atoms.executed[atoms.count] = s.items[i].executed
            atoms.count += 1
    failed = <uint32_t>atoms.count
    for i in range(atoms.count, 0, -1):
        if not atoms.executed[i - 1]:
            failed = <uint32_t>(i - 1)
        atoms.failed[i - 1] = failed


cdef inline bint runs(Code* code, Atoms* atoms, size_t i, uint8_t doubtful) noexcept nogil:
    """Return whether the atoms from ``i`` on fit the instructions without a condition that are known to follow there.

    Any atom fits the first ``doubtful`` of them.
    """
    cdef size_t end = min(i + code.ahead, atoms.count)
    i += doubtful
    return i >= end or atoms.failed[i] >= end


cdef inline size_t reach(
    uint32_t* around, uint8_t* isas, uint8_t* steps, size_t n, uint32_t address, uint8_t isa, uint8_t far
) noexcept nogil:
    """Add an address unless it has been reached before. Return the new number of addresses."""
    cdef size_t i
    for i in range(n):
        if around[i] == address and isas[i] == isa:
            return n
    if n == REACHED:
        return n
    around[n], isas[n], steps[n] = address, isa, far
    return n + 1


@cython.final
cdef class Regain:
    """The search for the address of one stream."""

    def __init__(self, Seen seen not None):
        self.seen, self.credit, self.budget = seen, CREDIT // 4, BUDGET

    cdef int begin(self) except -1:
        """Begin with the next place of damage."""
        self.budget, self.searching, self.exhausted = min(self.credit, <size_t>BUDGET), False, False
        return 0

    cdef bint spend(self, size_t steps) noexcept:
        """Take steps from the budget. Return whether it had so many; if not, the search for this place is given up."""
        if steps > self.budget:
            if not self.exhausted:
                self.exhausted = True
                self.given_up += 1
            return False
        self.budget -= steps
        self.credit -= min(self.credit, steps)
        return True

    cdef int earn(self, size_t atoms) except -1:
        self.credit = min(self.credit + EARNS * atoms, <size_t>CREDIT)
        return 0

    cdef int called(self, uint32_t after) except -1:
        """Remember the address to which a function will return that was just called."""
        self.returns[self.calls % CALLS] = after
        self.calls += 1
        return 0

    cdef size_t where(self, Stretch* s, size_t start, uint8_t bits, bint near, Place* found) except? 0:
        """Return the item, at or after ``start``, from which on the place is known, and set that place.

        Return the number of items if it is not known. ``bits``: the number of low bits of the address at ``start`` that
        are known. ``near``: accept a place only if it is clearly the nearest.
        """
        cdef size_t resume, before
        if not self.searching:
            self.searching = True
            self.searches += 1
        self.explore_around(s)
        resume = self.follow(s, start, bits, near, found)
        before = self.seen.entries
        if resume == s.count and not near and s.count - start >= PROOF:
            self.sweep(self.trusted, s.place.isa)
            if self.seen.entries > before:
                resume = self.follow(s, start, bits, near, found)
        return resume

    cdef size_t follow(self, Stretch* s, size_t start, uint8_t bits, bint near, Place* found) except? 0:
        """Follow all possible places along the atoms."""
        cdef size_t i, k, n = 0, left
        cdef Atoms atoms
        cdef Code* code = NULL
        cdef Place* places
        cdef uint32_t mask = <uint32_t>((<uint64_t>1 << bits) - 1)
        cdef bint same
        if s.count - start < MIN_ATOMS or not self.spend(self.seen.entries):
            return s.count
        cdef size_t most = self.seen.entries + ELSEWHERE
        cdef Place* firsts = <Place*>malloc(most * 2 * sizeof(Place))
        atoms.failed = <uint32_t*>malloc((s.count - start) * (sizeof(uint32_t) + sizeof(uint8_t)))
        if firsts == NULL or atoms.failed == NULL:
            free(firsts)
            free(atoms.failed)
            raise MemoryError
        atoms.executed = <uint8_t*>(atoms.failed + (s.count - start))
        try:
            gather(&atoms, s, start)
            if bits:
                n = self.everywhere(&s.place, bits, firsts)
                if not self.spend(n * COSTS):
                    return s.count
            for k in range(self.seen.capacity if not n else 0):
                code = &self.seen.table[k]
                if code.key and code.branching and not ((code.key - 1 >> 2) ^ s.place.address) & mask:
                    firsts[n].address, firsts[n].isa = <uint32_t>(code.key - 1 >> 2), code.key - 1 & 3
                    firsts[n].known, firsts[n].block = HERE, 0
                    firsts[n].doubtful = 4 if firsts[n].isa == THUMB else 0
                    if runs(code, &atoms, 0, firsts[n].doubtful):
                        n += 1
                    elif not self.spend(1):
                        return s.count
            places, left = firsts + most, 0
            for k in range(n):  # each alone: what it needs of the program stays in the cache
                places[left] = firsts[k]
                if self.fits(&places[left], &atoms):
                    firsts[left] = firsts[k]
                    left += 1
                if self.exhausted:
                    return s.count
            if not left:
                return s.count
            n, left = left, 0
            if s.end.kind == BRANCH and s.end.has & EXCEPTION or s.end.kind == SYNC and s.end.reason:
                # Such a packet can come anywhere, so it proves nothing.
                near = near or n > 1
                left = n if s.count - start >= PROOF else 0
            for k in range(n if not left else 0):
                if confirms(s.end, &places[k]):
                    firsts[left] = firsts[k]
                    left += 1
            if left > 1 or near:
                k = self.nearest(s, start, firsts, left)
                if k < left:
                    found[0] = firsts[k]
                    return start
                if near:
                    return s.count
            for i in range(start, s.count if left else start):
                same = True
                for k in range(1, left):
                    same = same and firsts[k].address == firsts[0].address and firsts[k].isa == firsts[0].isa
                if same:
                    found[0] = firsts[0]
                    return i
                if s.items[i].sort == INSTRUCTION:
                    for k in range(left):
                        step(self.seen, &firsts[k], s.items[i].executed, &code)
            return s.count
        finally:
            free(firsts)
            free(atoms.failed)

    cdef bint fits(self, Place* place, Atoms* atoms) except -1:
        """Follow all atoms from a place, and move it. Return whether they fit there."""
        cdef Code* code = NULL
        cdef size_t i = 0
        while i < atoms.count:
            if not self.spend(1):
                return False
            if place.known == HERE and place.isa <= THUMB and not place.block:
                code = code_at(self.seen, place.address, place.isa)
                if code.branching == PLAIN and not code.conditional:
                    if not code.ahead:
                        code = self.seen.count_ahead(place.address, place.isa)
                    if not runs(code, atoms, i, place.doubtful):
                        return False
                    if i + code.ahead <= atoms.count:
                        place.address += 2 * code.halves
                        place.came = ALONG
                        place.doubtful -= min(place.doubtful, code.ahead)
                        i += code.ahead
                        continue
            if step(self.seen, place, atoms.executed[i], &code):
                return False
            i += 1
        return True

    cdef size_t nearest(self, Stretch* s, size_t start, Place* places, size_t n) except? 0:
        """Return the place the fewest instructions away from where the stream was before; n if it is not clear."""
        cdef Place way = s.place
        cdef Code* code = NULL
        cdef uint32_t around[REACHED]
        cdef uint8_t isas[REACHED]
        cdef uint8_t steps[REACHED]
        cdef size_t i, k, taken = 0, waiting = 1, found = n
        cdef uint32_t address
        cdef uint8_t isa, far
        cdef int least = 255, second = 255
        around[0], isas[0], steps[0] = self.trusted, way.isa, 0
        for i in range(start if way.known == HERE else 0):
            if s.items[i].sort != INSTRUCTION:
                continue
            if way.known != HERE:
                break
            if start - i <= WALKED:
                waiting = reach(around, isas, steps, waiting, way.address, way.isa, 0)
            if step(self.seen, &way, s.items[i].executed, &code):
                break
        while taken < waiting:
            if not self.spend(n + waiting):
                return n
            address, isa, far = around[taken], isas[taken], steps[taken]
            taken += 1
            for k in range(n):
                if places[k].address == address and places[k].isa == isa:
                    if far < least:
                        second = least if found != k else second
                        found, least = k, far
                    elif found != k and far < second:
                        second = far
            if far >= NEARBY or isa > THUMB:
                continue
            code = code_at(self.seen, address, isa)
            if code.branching == ABSENT:
                continue
            if code.branching == DIRECT:
                waiting = reach(around, isas, steps, waiting, code.target, code.target_isa, far + 1)
            if code.branching == INDIRECT or code.branching == RETURNS:
                for i in range(min(self.calls, <size_t>CALLS)):
                    waiting = reach(
                        around, isas, steps, waiting, self.returns[(self.calls - 1 - i) % CALLS], isa, far + AWAY
                    )
            if code.branching == PLAIN or code.branching == IT or code.conditional or code.block:
                waiting = reach(around, isas, steps, waiting, address + code.size, isa, far + 1)
        return found if second >= 2 * least + CLEARLY else n

    # Possible places

    cdef size_t everywhere(self, Place* place, uint8_t bits, Place* found) except? 0:
        """Find all addresses of the program that share the low bits of the place; none if there are too many."""
        cdef uint64_t address, stride = <uint64_t>1 << bits
        cdef size_t n = 0
        for start, end in self.seen.spans:
            address = <uint64_t>start & ~(stride - 1) | place.address & (stride - 1)
            if (<uint64_t>end - <uint64_t>start) >> bits >= ELSEWHERE - n:
                return 0
            while address < <uint64_t>end:
                if address >= <uint64_t>start and n < ELSEWHERE:
                    found[n].address, found[n].isa, found[n].known = <uint32_t>address, place.isa, HERE
                    found[n].block, found[n].doubtful = 0, place.doubtful
                    n += 1
                address += stride
        return n

    cdef int explore_around(self, Stretch* s) except -1:
        cdef size_t i
        cdef uint32_t target
        cdef Packet* p = s.end
        cdef Code* code
        if s.place.known == HERE:
            self.explore(s.place.address, s.place.isa)
        self.explore(s.base, s.place.isa)
        self.explore(self.trusted, s.place.isa)
        for i in range(min(self.calls, <size_t>CALLS)):
            self.explore(self.returns[(self.calls - 1 - i) % CALLS], s.place.isa)
        if p.kind == BRANCH and not p.has & EXCEPTION and p.isa <= THUMB:
            # If the packet is a return, the span ends in the function that was called before its target.
            target = <uint32_t>p.value
            if p.bits < 32:
                target = s.base >> p.bits << p.bits | target & ((1 << p.bits) - 1)
            code = code_at(self.seen, target - 4, p.isa)
            if code.branching == DIRECT and code.block:
                self.explore(code.target, code.target_isa)
            self.explore(target, p.isa)
        return 0

    cdef int explore(self, uint32_t address, uint8_t isa) except -1:
        """Visit what direct branches reach from there: a lost stream continues near, perhaps in new code."""
        cdef uint32_t ahead[BRANCHES]
        cdef uint8_t isas[BRANCHES]
        cdef size_t taken = 0, waiting = 1, before
        cdef Code* code
        if isa > THUMB:
            return 0
        ahead[0], isas[0] = address, isa
        while taken < waiting:
            address, isa = ahead[taken], isas[taken]
            taken += 1
            while waiting < BRANCHES:
                before = self.seen.entries
                code = code_at(self.seen, address, isa)
                if not self.spend(COSTS if self.seen.entries > before else 1):
                    return 0
                if code.explored or code.branching == ABSENT:
                    break
                self.seen.explored(code)
                if code.branching == DIRECT:
                    ahead[waiting], isas[waiting] = code.target, code.target_isa
                    waiting += 1
                if code.branching >= DIRECT and code.branching != IT and not code.conditional and not code.block:
                    break
                address += code.size
        return 0

    cdef int sweep(self, uint32_t address, uint8_t isa) except -1:
        """Visit all code near the address, because functions called only through pointers cannot be found otherwise."""
        cdef uint32_t at = max(address, <uint32_t>SWEPT) - SWEPT, end = min(address, 0xFFFF0000u) + SWEPT
        if isa > THUMB:
            return 0
        while at < end and self.spend(COSTS):
            code_at(self.seen, at, isa)
            at += 2 if isa == THUMB else 4
        return 0

    cdef list saved(self):
        """Return the state, without `seen`, in values that JSON has."""
        return [
            self.credit, self.budget, self.searching, self.exhausted, self.searches, self.given_up, self.trusted,
            self.returns, self.calls,
        ]

    cdef int restore(self, list state) except -1:
        """Take over a state that `saved` returned.

        Raises ValueError, TypeError, IndexError or OverflowError for another.
        """
        cdef size_t i
        (
            self.credit, self.budget, self.searching, self.exhausted, self.searches, self.given_up, self.trusted,
            returns, self.calls,
        ) = state
        for i in range(CALLS):
            self.returns[i] = returns[i]
        if self.credit > CREDIT or self.budget > BUDGET:
            raise ValueError("budget")
        return 0
