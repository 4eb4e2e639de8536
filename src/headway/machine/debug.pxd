"""What a debugger asks of harts: to stop before an instruction, and to let one hart rest while others run.

The machine stops before a turn, when nothing of it has happened. So a program that is stopped and goes on does the same
in every cycle as one that is not. A hart that is held while others run is another matter: its time passes, in a state of
its own.
"""

from libc.stdint cimport int32_t, int64_t, uint32_t

from .accounts cimport enter
from .architecture cimport *
from .clocks cimport cycle_of
from .power cimport BREAKING, INTERRUPTED, RESUMING
from .structures cimport Core, Hart, Machine
from .turns cimport new_turn, next_turn, resume

cdef enum:
    DEBUGGED = 64
    # ^ Attention: a debugger asks something of the hart.
    HOLD_ASKED = 1
    HOLD_NOW = 2
    STOP_DEBUG = 5
    # ^ Why the machine stops: a debugger asked for it.


cdef inline int64_t turn_number(Hart* h) noexcept nogil:
    """Return a number that grows with every instruction and every trap of the hart."""
    return h.instret + h.trap_count


cdef inline bint has_breakpoint(Machine* m, uint32_t address) noexcept nogil:
    cdef int32_t low = 0, high = m.breakpoints_count, middle
    while low < high:
        middle = (low + high) >> 1
        if m.breakpoints[middle] < address:
            low = middle + 1
        else:
            high = middle
    return low < m.breakpoints_count and m.breakpoints[low] == address


cdef inline bint stops_here(Machine* m, Hart* h) noexcept nogil:
    """Return whether the machine stops before this turn of the hart. It stops once before each."""
    cdef int64_t number = turn_number(h)
    if number == h.reported:
        return False
    if not h.stepping and (h.attention & (INTERRUPTED | BREAKING) or not has_breakpoint(m, h.pc)):
        return False
    h.reported = number
    h.stepping = 0
    return True


cdef inline void hold(Machine* m, Core* c, Hart* h, int64_t cycle) noexcept nogil:
    """Keep the hart from issuing, from the cycle on, in which it would have issued."""
    h.held = HOLD_NOW
    h.ready = NEVER
    h.arrival = 0
    h.attention |= RESUMING
    enter(m, c, h, cycle, HELD, True)
    h.free = cycle
    c.cycle = c.next_cycle
    c.last = h.slot
    next_turn(m, c)


cdef inline void release(Machine* m, Core* c, Hart* h) noexcept nogil:
    """Let a hart that is held, or is to be, go on."""
    cdef int64_t cycle = max(c.cycle + 1, cycle_of(c, m.now))
    if h.held == HOLD_NOW:
        resume(m, c, h, cycle, cycle)
        new_turn(m, c)
    h.held = 0
