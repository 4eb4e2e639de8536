"""What a debugger asks of harts: to stop before an instruction, and to let one hart rest while others run.

Trace units stop the machine for it, too, when their sequencers enter states that do.

The machine stops before a turn, when nothing of it has happened. So a program that is stopped and goes on does the same
in every cycle as one that is not. A hart that is held while others run is another matter: its time passes, in a state
of its own.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t
from libc.string cimport memcpy

from specification.riscv.decode cimport decode_half, decode_word

from .architecture cimport *
from .clocks cimport cycle_of
from .code cimport memory_at
from .polling cimport stop_gap
from .power cimport BREAKING, INTERRUPTED, RESUMING
from .progress_unit cimport enter
from .structures cimport Core, Decoded, Hart, Machine
from .trace cimport TRACED, trace_off
from .turns cimport new_turn, next_turn, resume

cdef enum:
    # Attention: a debugger asks something of the hart.
    DEBUGGED = 64
    HOLD_ASKED = 1
    HOLD_NOW = 2
    FOR_BREAKPOINT = 1
    FOR_STEP = 2
    FOR_WATCH = 3
    FOR_TRIGGER = 4
    WATCH_LOADS = 1
    WATCH_STORES = 2
    MAX_WATCHES = 16


cdef inline int64_t turn_number(Hart* h) noexcept nogil:
    """Return a number that grows with every instruction and every trap of the hart."""
    return h.instret + h.trap_count


cdef inline void look_at_requests(Machine* m, Hart* h) noexcept nogil:
    """Update whether a debugger asks something of the hart."""
    if h.held or h.step_to or h.triggered or m.breakpoints_count or m.watches:
        h.attention |= DEBUGGED
    else:
        h.attention &= ~<uint32_t>DEBUGGED


cdef inline void stop_before_next(Machine* m, Hart* h) noexcept nogil:
    """Stop the machine before the hart's next turn, for the trace unit; not without a debugger."""
    if m.debugged:
        h.triggered = 1
        h.attention |= DEBUGGED


cdef inline bint has_breakpoint(Machine* m, uint32_t address) noexcept nogil:
    cdef int32_t low = 0, high = m.breakpoints_count, middle
    while low < high:
        middle = (low + high) >> 1
        if m.breakpoints[middle] < address:
            low = middle + 1
        else:
            high = middle
    return low < m.breakpoints_count and m.breakpoints[low] == address


cdef inline uint32_t watched(Machine* m, Core* c, Hart* h) noexcept nogil:
    """Return the first watched address that the hart's next instruction accesses; 0: none."""
    cdef Decoded d
    cdef uint16_t low, high
    cdef uint8_t* at = memory_at(m, c, h.pc)
    cdef uint32_t address, size, kind, start
    cdef int i
    if at == NULL:
        return 0
    memcpy(&low, at, 2)
    if low & 3 == 3:
        at = memory_at(m, c, h.pc + 2)
        if at == NULL:
            return 0
        memcpy(&high, at, 2)
        decode_word(m.encodings, &d, <uint32_t>high << 16 | low)
    else:
        decode_half(&d, low)
    address = h.x[d.rs1]
    if d.operation in (LB, LBU, LH, LHU, LW):
        kind = WATCH_LOADS
        address += <uint32_t>d.immediate
    elif d.operation in (SB, SH, SW):
        kind = WATCH_STORES
        address += <uint32_t>d.immediate
    elif d.operation == LR:
        kind = WATCH_LOADS
    elif d.operation == SC:
        kind = WATCH_STORES
    elif d.operation in (AMOSWAP, AMOADD, AMOXOR, AMOAND, AMOOR, AMOMIN, AMOMAX, AMOMINU, AMOMAXU):
        kind = WATCH_LOADS | WATCH_STORES
    else:
        return 0
    size = 1 if d.operation in (LB, LBU, SB) else 2 if d.operation in (LH, LHU, SH) else 4
    for i in range(m.watches):
        start = m.watch_start[i]
        if m.watch_kind[i] & kind and address < start + m.watch_size[i] and start < address + size:
            return max(address, start)
    return 0


cdef inline bint stops_here(Machine* m, Core* c, Hart* h) noexcept nogil:
    """Return whether the machine stops before this turn of the hart. It stops once before each."""
    cdef int64_t number = turn_number(h)
    cdef int why = 0
    if number != h.reported:
        if h.touching and number >= h.touching:
            why = FOR_WATCH
        elif h.step_to and number >= h.step_to:
            why = FOR_STEP
        if m.breakpoints_count and not h.attention & (INTERRUPTED | BREAKING) and has_breakpoint(m, h.pc):
            # A stop at a breakpoint is one, whatever else was asked for.
            why = why if why == FOR_WATCH else FOR_BREAKPOINT
    if h.triggered:
        why = FOR_TRIGGER
    if not why:
        if m.watches and not h.attention & (INTERRUPTED | BREAKING) and not h.touching:
            h.touched = watched(m, c, h)
            h.touching = number + 1 if h.touched else 0
        return False
    h.reported = number
    h.touching = 0
    h.triggered = 0
    if number >= h.step_to:
        h.step_to = 0
    look_at_requests(m, h)
    m.stopped_for = why
    return True


cdef inline void hold(Machine* m, Core* c, Hart* h, int64_t cycle) noexcept nogil:
    """Keep the hart from issuing, from the cycle on, in which it would have issued. Meanwhile it is not traced."""
    if h.traced.on:
        trace_off(m, c, h)
        h.attention |= TRACED
    h.held = HOLD_NOW
    h.ready = NEVER
    h.arrival = 0
    h.attention |= RESUMING
    stop_gap(h, cycle)
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
