# Finding a lost place again where only waypoints are traced: what the walk passes in and gets back, in C.
cimport cython
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from headway_trace._program cimport InstructionTable, Place

cdef enum Happening:       # what events are
    ATOM = 0
    STAMP = 1              # a time of the common clock
    ELAPSED = 2            # cycles that belong to the next waypoint
    CREDITED = 3           # cycles that belong to the last one

cdef enum End:             # what comes after the atoms
    ANYTHING = 0           # that it comes there proves nothing
    ADDRESSED = 1          # where the last atom's indirect branch went, or the address after the last atom again
    BRANCHED = 2           # an indirect branch is the next waypoint
    REACHED = 3            # an address that is reached without another waypoint

cdef struct Event:
    uint64_t index, value
    uint8_t sort
    uint8_t executed


@cython.final
cdef class WaypointRegain:
    cdef InstructionTable program
    cdef uint32_t barriers
    cdef bint stack
    cdef uint64_t* recent      # keys of the waypoints that were taken last, in a ring
    cdef size_t head
    cdef Event* events         # since the place was lost
    cdef Event* others         # those that are applied now
    cdef size_t count, atoms
    cdef size_t credit, paid, budget   # `paid`: waypoints that have paid already
    cdef readonly uint64_t searches, given_up
    cdef int add(self, uint8_t sort, bint executed, uint64_t value, uint64_t index) except -1
    cdef Event* begin(self) noexcept
    cdef size_t where(self, size_t count, uint8_t end, uint64_t address, Place* found) except? 0
    cdef size_t follow(self, size_t start, size_t count, uint8_t end, uint64_t address, Place* found) except? 0
    cdef size_t candidates(self, Place* found) except? 0
    cdef list saved(self)
    cdef int restore(self, list state) except -1
    cdef int settle(self, Place* place) except -1
    cdef int step(self, Place* place, bint executed) except -1
    cdef size_t proved(self, Place at, size_t start, size_t count) except? 0
    cdef bint ends(self, Place* place, uint64_t left, uint8_t end, uint64_t address) except -1
    cdef inline void taken(self, uint64_t key) noexcept:
        self.recent[self.head & 1023] = key
        self.head += 1
