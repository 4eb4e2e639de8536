"""Fetching: the instruction at a hart's pc, decoded, as soon as its lines of the instruction cache are present."""

from libc.stdint cimport uint32_t

from .architecture cimport *
from .code cimport PAGE, decode, open_page
from .memory cimport can_fetch
from .protection cimport GUARDED, MAY_EXECUTE, allowed
from .structures cimport Core, Decoded, Hart, Machine
from .traps cimport fault


cdef inline Decoded* fetch(Machine* m, Core* c, Hart* h) noexcept nogil:
    """Return the instruction at pc; NULL if the hart is blocked, or if it has trapped, which changes `pc`."""
    cdef uint32_t pc = h.pc
    cdef Decoded* d
    if h.attention & GUARDED and not allowed(h, pc, 2, MAY_EXECUTE):
        fault(m, c, h, FETCH_FAULT, pc)
        return NULL
    if (pc >> c.icache.shift) + 1 != h.fetched:
        if pc - RAM < m.ram_size:
            if not can_fetch(m, c, h, pc):
                return NULL
        elif pc - TCM >= m.tcm_size:
            fault(m, c, h, FETCH_FAULT, pc)
            return NULL
        h.fetched = (pc >> c.icache.shift) + 1
    if pc // PAGE != h.page and open_page(m, c, h, pc) == NULL:
        return NULL
    d = &h.code[(pc & (PAGE - 1)) >> 1]
    if d.operation == UNDECODED and not decode(m, c, d, pc):
        fault(m, c, h, FETCH_FAULT, pc + 2)
        return NULL
    if d.crosses:
        if h.attention & GUARDED and not allowed(h, pc + 2, 2, MAY_EXECUTE):
            fault(m, c, h, FETCH_FAULT, pc + 2)
            return NULL
        if pc + 2 - RAM < m.ram_size:
            if not can_fetch(m, c, h, pc + 2):
                # Do not look up the line of its first half again.
                return NULL
        h.fetched = ((pc + 2) >> c.icache.shift) + 1
    return d
