"""The division of caches and bus between harts, or between the threads that they run (docs/machine.md, section 10).

A hart has a part of each: the ways in which it may place lines, and sixteenths of the bus. The block of the thread that
it runs may name other parts, which stand in for them.
"""

from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport memcpy

from .architecture cimport *
from .structures cimport Hart, Machine

cdef enum:
    BUS_PART = DIVIDED
    PARTS = 4
    WHOLE_BUS = 16
    # Where the parts are in a thread's block.
    IN_BLOCK = 112


cdef inline bint is_part(Machine* m, int which, uint32_t value) noexcept nogil:
    """Return whether the value names a part: a way that the cache has, or sixteenths of the bus."""
    if which == BUS_PART:
        return 1 <= value <= WHOLE_BUS
    return value & m.all_ways[which] != 0


cdef inline void divide(Machine* m, Hart* h, uint32_t block) noexcept nogil:
    """Give the hart the parts that the thread's block names, and its own where the block (0: none) names none."""
    cdef uint32_t parts[PARTS]
    cdef uint32_t share
    cdef int i
    for i in range(PARTS):
        parts[i] = 0
    if block:
        memcpy(parts, m.ram + (block - RAM) + IN_BLOCK, sizeof(parts))
    for i in range(DIVIDED):
        h.ways[i] = parts[i] & m.all_ways[i] if is_part(m, i, parts[i]) else h.own_ways[i]
    share = parts[BUS_PART] if is_part(m, BUS_PART, parts[BUS_PART]) else h.own_share
    m.bus_shares += (share != 0) - (h.share != 0)
    h.share = share


cdef inline uint32_t own_part(Hart* h, uint32_t which) noexcept nogil:
    return h.own_share if which == BUS_PART else h.own_ways[which]


cdef inline bint set_own_part(Machine* m, Hart* h, uint32_t which, uint32_t value) noexcept nogil:
    """Set a part of the hart's own; 0: all of it. Return False if there is no such part."""
    if value and not is_part(m, <int>which, value):
        return False
    if which == BUS_PART:
        h.own_share = value
    else:
        h.own_ways[which] = value & m.all_ways[which] if value else m.all_ways[which]
    divide(m, h, h.block)
    return True
