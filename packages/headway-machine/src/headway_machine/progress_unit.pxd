"""The progress unit's counters, and the state of a hart, on which they depend (docs/machine.md, sections 4 and 6).

A hart does not count while it runs. It keeps the first cycle that has not been charged (`since`), and the cycles lost
since then by reason. When its state changes, or when a counter is read, the difference is added to the cells and the
counters at once (`settle`). Every cycle is therefore in exactly one cell, and counting costs nothing per instruction.

The instructions of a kernel (in a trap, in machine mode with hwctl.MK, an MRET) are in no range. A thread's first state
is entered when the thread begins, in the range of the code at mepc.
"""

from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from .architecture cimport *
from .cells cimport add_to, all_lost, cell_of, find_cells, move_overhead
from .clocks cimport clock_at, end_tick
from .code cimport forget_code, range_of
from .polling cimport stop_gap
from .signals cimport SETTLED, TOLD_COUNTER, TOLD_ENTRY, tell
from .structures cimport Cell, Clock, Core, Hart, Machine
from .transitions cimport ends, tell_correction, tell_entry, tell_span


cdef inline void count_up(Hart* h, int counter, int64_t amount) noexcept nogil:
    if h.control >> counter & 1:
        h.counters[counter] += <uint64_t>amount


cdef inline void count_cycles(Hart* h, int64_t cycles, int64_t* lost) noexcept nogil:
    """Add cycles to the progress counters of the hart's mode."""
    cdef int64_t internal, external, other
    if h.mode >= HALTED:
        return
    count_up(h, RPC, cycles)
    if h.mode == KERNEL:
        count_up(h, KPC, cycles)
        return
    if h.mode == POLLING:
        count_up(h, IOPC, cycles)
        return
    internal = lost[FETCH_INTERNAL] + lost[LOAD_INTERNAL] + lost[STORE_INTERNAL] + lost[TLB_MISS]
    external = lost[FETCH_EXTERNAL] + lost[LOAD_EXTERNAL] + lost[STORE_EXTERNAL]
    other = lost[DATA] + lost[REFILL] + lost[SLOT]
    if h.mode == MARKED_ONLY:
        count_up(h, MPCI, internal)
        count_up(h, MPCX, external)
        count_up(h, SPC, cycles - internal - external)
    elif h.control & CTL_HWNE:
        count_up(h, MPCI, internal)
        count_up(h, MPCX, external)
        count_up(h, SPC, other)
        count_up(h, EPC, cycles - internal - external - other)
    else:
        count_up(h, EPC, cycles)


cdef inline void add_word(Machine* m, uint32_t address, int64_t amount) noexcept nogil:
    cdef uint64_t value
    memcpy(&value, m.ram + (address - RAM), 8)
    value += <uint64_t>amount
    memcpy(m.ram + (address - RAM), &value, 8)
    forget_code(m, address, 8)


cdef inline void charge_stolen(Machine* m, Hart* h, int mode, int64_t ticks, int64_t many) noexcept nogil:
    """Charge ticks of system-management interrupts to no thread's progress.

    The cycle counters of harts that were running go on, as they do on real machines.
    """
    cdef Cell* cell = cell_of(m, &h.account, SMI)
    cell.time += ticks
    cell.count += many
    if h.thread != NULL:
        cell = cell_of(m, &h.thread.account, SMI)
        cell.time += ticks
        cell.count += many
    if mode != HALTED:
        h.counters[REFERENCE] += <uint64_t>ticks
        h.counters[UNHALTED] += <uint64_t>ticks
    if h.monitor:
        add_word(m, h.monitor + 32 * SMI + 16, many)
    find_cells(m, h)


cdef inline void settle(Machine* m, Core* c, Hart* h, int64_t cycle) noexcept nogil:
    """Charge everything up to the cycle to the current state of the hart."""
    cdef int64_t tick = end_tick(c, cycle), cycles = cycle - h.since, time = tick - h.since_tick
    cdef int64_t instructions = h.instret - h.since_instret
    cdef Clock* clock
    cdef uint32_t row
    cdef int mode
    clock = clock_at(c, cycle - 1)
    if clock.stolen != h.since_stolen:
        time -= clock.stolen - h.since_stolen
        # Between two states, the mode of the cycle before the interrupt counts, whatever follows.
        mode = h.mode if clock.cycle > h.since else h.before
        charge_stolen(m, h, mode, clock.stolen - h.since_stolen, clock.interrupts - h.since_interrupts)
        h.since_stolen = clock.stolen
        h.since_interrupts = clock.interrupts
    if h.cell != NULL:
        add_to(h.cell, time, cycles, instructions, h.lost)
    add_to(h.processor_cell, time, cycles, instructions, h.lost)
    count_cycles(h, cycles, h.lost)
    if h.mode != HALTED:
        h.counters[UNHALTED] += <uint64_t>cycles
        h.counters[REFERENCE] += <uint64_t>time
    elif IDLE < h.state < WAKING:
        h.counters[IN_C1 + h.state - IDLE - 1] += <uint64_t>time
    if h.monitor:
        row = h.monitor + 32 * <uint32_t>h.state
        add_word(m, row, cycles)
        add_word(m, row + 8, instructions)
        add_word(m, row + 24, all_lost(h.lost))
    memset(h.lost, 0, sizeof(h.lost))
    if cycles:
        h.before = h.mode
        if h.state < EXCEPTION:
            h.outside = h.state
    h.since = cycle
    h.since_tick = tick
    h.since_instret = h.instret


cdef inline void tell_counters(Machine* m, Core* c, Hart* h, int64_t cycle) noexcept nogil:
    """Settle the hart and tell its counters as of the cycle."""
    cdef int i
    settle(m, c, h, cycle)
    for i in range(8):
        if h.counters[i] != h.told_counters[i]:
            h.told_counters[i] = h.counters[i]
            tell(m, h, TOLD_COUNTER + i, cycle, h.counters[i], 0)
    tell(m, h, SETTLED, cycle, <uint64_t>h.instret, <uint32_t>h.state)


cdef inline int state_of(Machine* m, Hart* h) noexcept nogil:
    """Return the innermost state of the hart. The first match wins, in the order of the counters' priority."""
    if h.halted:
        return IDLE + h.halted
    if h.latch:
        return h.trapped[(h.depth - 1) & 7]
    if h.privilege == MACHINE and h.control & CTL_MK:
        return MACHINE_MODE
    if h.signals & KPSW:
        return NONEFFECTIVE + <int>min(h.signals >> 8 & 0xFF, 31u)
    if h.signals & IOSW:
        return POLL + <int>min(h.signals >> 8 & 0xFF, 23u)
    if m.modes[h.range] == KERNEL:
        return h.range
    if h.polled and h.control & CTL_POLL:
        return h.polled
    if m.modes[h.range] == POLLING:
        return h.range
    if h.signals & SWNE and h.control & CTL_SWNE:
        return MARKED
    return h.range


cdef inline void enter(Machine* m, Core* c, Hart* h, int64_t cycle, int state, bint anew) noexcept nogil:
    """Put the hart into the state from the cycle on; `anew` tells whether this counts as an entry or as a return."""
    settle(m, c, h, cycle)
    if m.signals.on:
        tell_counters(m, c, h, cycle)
    if m.rows.on:
        tell_span(m, h, h.since_tick, not anew or ends(h, state))
    h.state = state
    h.mode = m.modes[state]
    find_cells(m, h)
    if anew:
        h.processor_cell.count += 1
        if h.cell != NULL:
            h.cell.count += 1
        if m.rows.on:
            tell_entry(m, h)
        if m.signals.on:
            tell(m, h, TOLD_ENTRY, cycle, <uint64_t>state, 0)
        if h.monitor:
            add_word(m, h.monitor + 32 * <uint32_t>state + 16, 1)


cdef inline bint is_kernel(int state) noexcept nogil:
    """Return whether the state is that of a trap, or of a kernel in machine mode."""
    return EXCEPTION <= state <= MACHINE_MODE


cdef inline void look_again(Machine* m, Core* c, Hart* h, int64_t cycle, bint anew) noexcept nogil:
    """Update the hart's state after something that it depends on has changed at the cycle.

    From a kernel a thread returns to the state in which it was before. Any other is entered anew.
    """
    cdef int state = state_of(m, h)
    if state == h.state:
        return
    if is_kernel(h.state) and state < EXCEPTION:
        anew = state != h.outside
    enter(m, c, h, cycle, state, anew)


cdef inline void find_first_range(Machine* m, Hart* h) noexcept nogil:
    """At the end of a trap, let a thread that has not run yet be in the range of the code with which it begins."""
    if h.outside < 0 and is_kernel(h.state) and not h.latch:
        h.range = range_of(m, h.mepc)


cdef inline void end_polling(Machine* m, Core* c, Hart* h) noexcept nogil:
    """Let the thread have given up polling, with the cycle in which it has."""
    cdef int64_t cycle = h.gap_end
    stop_gap(h, cycle)
    look_again(m, c, h, cycle, True)


cdef inline void correct(Machine* m, Core* c, Hart* h) noexcept nogil:
    """Move the correction from EPC and RPC to OPC, in counters and cells, if the hart is effective now.

    The last instructions of a handler are executed after the correction and are part of what it corrects. EPC and the
    cell may therefore be negative until then.
    """
    cdef int64_t amount = h.correction
    if h.mode != EFFECTIVE or not amount:
        return
    count_up(h, EPC, -amount)
    count_up(h, RPC, -amount)
    count_up(h, OPC, amount)
    move_overhead(m, &h.account, h.state, amount, amount * 16 // c.clock.speed)
    if h.monitor:
        add_word(m, h.monitor + 32 * <uint32_t>h.state, -amount)
        add_word(m, h.monitor + 32 * OVERHEAD, amount)
        add_word(m, h.monitor + 32 * OVERHEAD + 16, 1)
    if h.thread != NULL:
        move_overhead(m, &h.thread.account, h.state, amount, amount * 16 // c.clock.speed)
    find_cells(m, h)
    if m.rows.on:
        tell_correction(m, h, amount * 16 // c.clock.speed)
