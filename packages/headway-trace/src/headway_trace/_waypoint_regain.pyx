"""The search for a lost place, by the atoms of waypoints.

While the place is not known after damage, atoms and times are kept. When the next address comes, all places where the
stream may be are followed along the atoms: the waypoints that it has taken last. A place drops out if an atom says that
a waypoint without a condition failed one, if an indirect branch comes without an address, or if what comes after the
atoms cannot come there. If those that are left come to the same waypoint, the place is known from there on, once so
many atoms have fitted that others would hardly do so: the stream may be where it has not been before. The first atom
may be the wrong one, so it is left out if none fits.

The search costs time, which is counted in steps, as in `_regain`.
"""

cimport cython
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport uint8_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, qsort
from libc.string cimport memcpy

from headway_trace._packets cimport A64, THUMB
from headway_trace._program cimport (
    ABSENT, AWAITING, DIRECT, HERE, INDIRECT, IT, PLAIN, RETURNS, Code, InstructionTable, Place, code_at,
)

DEF RING = 1024         # waypoints that are remembered
DEF MOST = 4096         # events that are kept
DEF LEAST = 10         # the least number of atoms that are evidence
DEF PROOF = 16          # … if what comes after them is none
DEF ENOUGH = 40         # quarters of a bit of evidence that a place is the right one
DEF WITH_CONDITION = 1
DEF WITHOUT_CONDITION = 3
DEF MOST_COUNTED = 64   # different waypoints that are counted
DEF BUDGET = 1 << 20    # steps that one search may take
DEF EARNS = 32          # steps that a waypoint that is taken pays for
DEF CREDIT = 1 << 24    # the most steps that are saved up
DEF LONGEST = 4096      # instructions without a waypoint

cdef enum:
    MISFIT = 1
    OPEN = 2            # where it leads is not known


cdef int by_key(const void* a, const void* b) noexcept nogil:
    cdef uint64_t left = (<const uint64_t*>a)[0], right = (<const uint64_t*>b)[0]
    return (left > right) - (left < right)


@cython.final
cdef class WaypointRegain:
    """The search for the place of one stream."""

    def __init__(self, InstructionTable program not None, *, barriers, stack):
        self.program, self.barriers, self.stack, self.credit = program, barriers, stack, BUDGET

    def __cinit__(self):
        self.recent = <uint64_t*>calloc(RING, sizeof(uint64_t))
        self.events = <Event*>calloc(MOST, sizeof(Event))
        self.others = <Event*>calloc(MOST, sizeof(Event))
        if self.recent == NULL or self.events == NULL or self.others == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.recent)
        free(self.events)
        free(self.others)

    cdef int add(self, uint8_t sort, bint executed, uint64_t value, uint64_t index) except -1:
        """Keep an event. Return whether there is room for more."""
        cdef Event* event = &self.events[self.count]
        event.sort, event.executed, event.value, event.index = sort, executed, value, index
        self.count += 1
        self.atoms += sort == ATOM
        return self.count < MOST

    cdef Event* begin(self) noexcept:
        """Return the events that were kept, and keep new ones elsewhere."""
        cdef Event* kept = self.events
        self.events, self.others = self.others, kept
        self.count = self.atoms = 0
        return kept

    cdef size_t where(self, size_t count, uint8_t end, uint64_t address, Place* found) except? 0:
        """Return which of the ``count`` events returned by `begin` is the first whose place is known, and set that.

        Return ``count`` if none is. ``address`` belongs to the ends ADDRESSED and REACHED.
        """
        cdef size_t first = 0, atoms = 0, i, resume
        for i in range(count):
            atoms += self.others[i].sort == ATOM
        if atoms < (PROOF if end == ANYTHING else LEAST):
            return count
        self.searches += 1
        self.credit = min(self.credit + EARNS * (self.head - self.paid), <size_t>CREDIT)
        self.paid = self.head
        self.budget = min(self.credit, <size_t>BUDGET)
        resume = self.follow(0, count, end, address, found)
        if resume == count and self.budget:
            while first < count and self.others[first].sort != ATOM:
                first += 1
            resume = self.follow(first + 1, count, end, address, found)
        self.credit -= min(self.credit, BUDGET - self.budget)
        self.given_up += not self.budget
        return resume

    cdef size_t follow(self, size_t start, size_t count, uint8_t end, uint64_t address, Place* found) except? 0:
        """Follow all possible places along the events from ``start`` on."""
        cdef size_t i, k, n, known, left = 0
        cdef Place* places
        cdef Place at
        cdef uint64_t after
        cdef int why = 0
        cdef bint same
        places = <Place*>malloc(RING * sizeof(Place))
        if places == NULL:
            raise MemoryError
        try:
            n = self.candidates(places)
            for k in range(n):
                at, after, why = places[k], places[k].address, 0
                for i in range(start, count):
                    if self.others[i].sort != ATOM:
                        continue
                    why = self.step(&at, self.others[i].executed)
                    if why:
                        break
                    after = at.address
                    if at.known == AWAITING:
                        continue
                    why = self.settle(&at)
                    if why:
                        break
                if why == OPEN or not self.budget:
                    return count
                if not why and self.ends(&at, after, end, address):
                    places[left] = places[k]
                    left += 1
            known = start
            for k in range(left):
                known = max(known, self.proved(places[k], start, count))
            for i in range(start, count if left else start):
                same = i >= known
                for k in range(1, left):
                    same = same and places[k].address == places[0].address and places[k].isa == places[0].isa
                if same and places[0].known == HERE:
                    found[0] = places[0]
                    return i
                if self.others[i].sort == ATOM:
                    for k in range(left):
                        self.step(&places[k], self.others[i].executed)
                        if places[k].known == HERE:
                            self.settle(&places[k])
            return count
        finally:
            free(places)

    cdef size_t proved(self, Place at, size_t start, size_t count) except? 0:
        """Return the event from which on a place that fits is surely the right one; ``count``: there is none.

        A waypoint counts once after the same atoms, however often it is taken: in a loop the same fits again and again.
        That it is no indirect branch tells little. That one without a condition was executed tells more, as another
        place would have had an atom there that says the opposite. What comes after the atoms tells nothing of the first
        of them: a wrong place may lead onto the right way.
        """
        cdef uint64_t counted[MOST_COUNTED]
        cdef size_t i, k, n = 0
        cdef uint64_t key
        cdef uint8_t before = 0    # the last eight atoms
        cdef int sure = 0
        cdef Code* code
        for i in range(start, count):
            if sure >= ENOUGH or n == MOST_COUNTED:
                return i
            if self.others[i].sort != ATOM or at.known != HERE:
                continue
            code = code_at(self.program, at.address, at.isa)
            key = at.address ^ <uint64_t>before << 56
            before = <uint8_t>(before << 1 | self.others[i].executed)
            for k in range(n):
                if counted[k] == key:
                    break
            else:
                counted[n] = key
                n += 1
                sure += WITH_CONDITION if code.conditional or at.block or at.doubtful else WITHOUT_CONDITION
            self.step(&at, self.others[i].executed)
            if at.known == HERE:
                self.settle(&at)
        return count

    cdef bint ends(self, Place* place, uint64_t after, uint8_t end, uint64_t address) except -1:
        """Return whether what comes after the atoms can come at a place, after the instruction before ``after``."""
        cdef Code* code
        if end == ADDRESSED:
            return place.known == AWAITING or after == address
        if place.known != HERE:
            return False
        if end == BRANCHED:
            code = code_at(self.program, place.address, place.isa)
            return code.branching == INDIRECT or code.branching == RETURNS
        return end == ANYTHING or after <= address <= place.address

    cdef size_t candidates(self, Place* found) except? 0:
        """Find the different waypoints that were taken last."""
        cdef size_t i, n = 0, most = min(self.head, <size_t>RING)
        cdef uint64_t key, last = 0
        self.budget -= min(self.budget, most)
        if not self.budget:
            return 0
        cdef uint64_t* keys = <uint64_t*>malloc(RING * sizeof(uint64_t))
        if keys == NULL:
            raise MemoryError
        for i in range(most):
            keys[i] = self.recent[i]
        qsort(keys, most, sizeof(uint64_t), by_key)
        for i in range(most):
            if keys[i] == last:
                continue
            last, key = keys[i], keys[i] - 1
            if key & 3 == 3 or key & 3 < 2 and key >> 34:
                continue
            found[n].isa = A64 if key & 3 == 2 else key & 3
            found[n].address = key & ~<uint64_t>3 if found[n].isa == A64 else key >> 2
            found[n].known, found[n].block, found[n].doubtful = HERE, 0, 4 if found[n].isa == THUMB else 0
            n += 1
        free(keys)
        return n

    cdef list saved(self):
        """Return the state in values that JSON has."""
        cdef bytes recent = PyBytes_FromStringAndSize(<const char*>self.recent, min(self.head, <size_t>RING) * 8)
        cdef bytes events = PyBytes_FromStringAndSize(<const char*>self.events, self.count * sizeof(Event))
        return [recent.hex(), self.head, events.hex(), self.credit, self.paid, self.searches, self.given_up]

    cdef int restore(self, list state) except -1:
        """Take over a state that `saved` returned.

        Raises ValueError, TypeError, IndexError or OverflowError for another.
        """
        cdef bytes recent, events
        cdef size_t i
        text, self.head, kept, self.credit, self.paid, self.searches, self.given_up = state
        recent, events = bytes.fromhex(text), bytes.fromhex(kept)
        if (
            len(recent) != min(self.head, <size_t>RING) * 8 or len(events) % sizeof(Event)
            or len(events) >= MOST * sizeof(Event) or self.credit > CREDIT or self.paid > self.head
        ):
            raise ValueError("waypoints or events")
        memcpy(self.recent, <const char*>recent, len(recent))
        memcpy(self.events, <const char*>events, len(events))
        self.count, self.atoms = len(events) // sizeof(Event), 0
        for i in range(self.count):
            if self.events[i].sort > CREDITED or self.events[i].executed > 1:
                raise ValueError("event")
            self.atoms += self.events[i].sort == ATOM
        return 0

    cdef int settle(self, Place* place) except -1:
        """Go on to the next waypoint. Return 0, or MISFIT if there is none, as in `_waypoints.Walk.run`."""
        cdef Code* code
        cdef int _
        for _ in range(LONGEST):
            if not self.budget:
                return MISFIT
            self.budget -= 1
            code = code_at(self.program, place.address, place.isa)
            if code.branching == ABSENT:
                return MISFIT
            if code.branching == PLAIN and code.block and self.barriers >> code.block & 1:
                return 0
            if code.branching != PLAIN and code.branching != IT:
                return 0
            place.block -= place.block > 0
            place.doubtful -= place.doubtful > 0
            if code.branching == IT:
                place.block, place.doubtful = code.block, 0
            place.address += code.size
        return MISFIT

    cdef int step(self, Place* place, bint executed) except -1:
        """Take the waypoint at a place. Return 0, MISFIT, or OPEN."""
        cdef Code* code
        if place.known != HERE:
            return OPEN if self.stack else MISFIT
        code = code_at(self.program, place.address, place.isa)
        if code.branching == ABSENT:
            return MISFIT
        if not executed and not (code.conditional or place.block or place.doubtful) and (
            code.branching != DIRECT or code.target != place.address + code.size
        ):
            return MISFIT
        place.block -= place.block > 0
        place.doubtful -= place.doubtful > 0
        if not executed or code.branching == PLAIN:
            place.address += code.size
        elif code.branching == DIRECT:
            place.address, place.isa, place.block = code.target, code.target_isa, 0
        else:
            place.known, place.block = AWAITING, 0
        return 0
