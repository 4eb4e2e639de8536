# Finding a lost address again: what the flow passes in and gets back, in C.
cimport cython
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from headway_trace._packets cimport Packet
from headway_trace._program cimport Place, Seen

cdef struct Item:
    uint64_t index
    uint64_t value     # of a timestamp
    uint32_t cycles
    uint8_t executed
    uint8_t sort       # INSTRUCTION: an atom. GAP: cycles alone. TIME
    uint8_t size       # of the instruction that it was found to be, at its address
    uint8_t isa        # its instruction set
    bint calls         # whether that is a call
    uint32_t address

cdef struct Stretch:   # the items between two packets with an address
    Item* items
    size_t count
    Place place        # the place where it begins, or was believed to begin
    uint32_t base      # the address in the packet with which it begins, right or wrong
    Packet* end

cdef struct Atoms

cdef bint confirms(Packet* p, Place* after) noexcept
cdef bint repeats(Packet* p, Place* after, bint broadcast) noexcept


@cython.final
cdef class Regain:
    cdef Seen seen
    cdef size_t credit         # steps that may still be spent on searches
    cdef size_t budget         # steps that may still be spent on the search for this place of damage
    cdef bint searching        # there has been a search for it
    cdef bint exhausted        # … that ended because nothing of the budget was left
    cdef readonly uint64_t searches, given_up
    cdef int begin(self) except -1
    cdef bint spend(self, size_t steps) noexcept
    cdef uint32_t trusted      # address of the last instruction that is certain
    cdef uint32_t returns[16]
    cdef size_t calls
    cdef int earn(self, size_t atoms) except -1
    cdef int called(self, uint32_t after) except -1
    cdef size_t where(self, Stretch* s, size_t start, uint8_t bits, bint near, Place* found) except? 0
    cdef size_t follow(self, Stretch* s, size_t start, uint8_t bits, bint near, Place* found) except? 0
    cdef bint fits(self, Place* place, Atoms* atoms) except -1
    cdef size_t nearest(self, Stretch* s, size_t start, Place* places, size_t n) except? 0
    cdef size_t everywhere(self, Place* place, uint8_t bits, Place* found) except? 0
    cdef int explore_around(self, Stretch* s) except -1
    cdef int explore(self, uint32_t address, uint8_t isa) except -1
    cdef int sweep(self, uint32_t address, uint8_t isa) except -1
    cdef list saved(self)
    cdef int restore(self, list state) except -1
