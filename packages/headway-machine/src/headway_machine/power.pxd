"""Halting and waking, the core's own counters, and interrupts that stop all cores (docs/machine.md, section 8)."""

from libc.stdint cimport int64_t, uint32_t, uint64_t

from .architecture cimport *
from .clocks cimport cycle_of, end_tick, set_clock
from .memory cimport empty_caches
from .polling cimport stop_gap
from .progress_unit cimport enter
from .signals cimport TOLD_RUNS, tell
from .structures cimport Core, Hart, Machine
from .trace cimport tell_clock
from .turns cimport new_turn, resume, wait_again

cdef enum:  # Attention
    INTERRUPTED = 1
    PROFILING = 2
    RESUMING = 4
    BREAKING = 32


cdef inline void settle_core(Core* c, int64_t cycle) noexcept nogil:
    """Charge the core's counters up to the cycle."""
    cdef int64_t tick = end_tick(c, cycle)
    if c.depth:
        c.counters[IN_C1 + c.depth - 1] += <uint64_t>(tick - c.since_tick)
    else:
        c.counters[UNHALTED] += <uint64_t>(cycle - c.since)
        c.counters[REFERENCE] += <uint64_t>(tick - c.since_tick)
    c.since = cycle
    c.since_tick = tick


cdef inline void look_at_core(Machine* m, Core* c, int64_t cycle) noexcept nogil:
    """Update the core after a hart has halted or woken: it halts when all its harts have, in their shallowest state."""
    cdef int i, depth = 3
    for i in range(c.threads):
        if c.harts[i].started and c.harts[i].halted < depth:
            depth = c.harts[i].halted
    if depth == c.depth:
        return
    settle_core(c, cycle)
    c.depth = depth
    if depth == 3:
        empty_caches(m, c)


cdef inline void halt(Machine* m, Core* c, Hart* h, int64_t cycle) noexcept nogil:
    """Halt the hart from the cycle on, because of a WFI while no interrupt is pending."""
    h.halted = <int>h.pwstate
    h.ready = NEVER
    h.arrival = 0
    h.attention |= RESUMING
    if m.signals.on:
        tell(m, h, TOLD_RUNS, cycle, 0, 0)
    stop_gap(h, cycle)
    enter(m, c, h, cycle, IDLE + h.halted, True)
    look_at_core(m, c, cycle)


cdef inline void rouse(Machine* m, Core* c, Hart* h) noexcept nogil:
    """Wake the hart, because an interrupt is pending that its WFI waited for."""
    cdef int64_t cycle = max(c.cycle + 1, cycle_of(c, m.now)), tick = m.now + m.wake[h.halted]
    h.traced.woken = cycle
    h.traced.asleep = h.halted
    h.halted = 0
    enter(m, c, h, cycle, WAKING, True)
    h.arrival = tick
    h.reason = GOING
    resume(m, c, h, cycle, cycle_of(c, tick))
    look_at_core(m, c, cycle)
    new_turn(m, c)


cdef inline void start_hart(Machine* m, Core* c, Hart* h) noexcept nogil:
    """Start the hart at the entry, after reset."""
    cdef int64_t cycle = max(c.cycle + 1, cycle_of(c, m.now))
    h.started = 1
    h.pc = m.entry
    h.x[10] = <uint32_t>h.number
    h.attention |= RESUMING
    resume(m, c, h, cycle, cycle)
    look_at_core(m, c, cycle)
    new_turn(m, c)


cdef inline void stop_clocks(Machine* m) noexcept nogil:
    """Begin a system-management interrupt: no core has a cycle until it ends."""
    cdef int k
    cdef Core* c
    m.smi_until = m.now + m.smi_ticks
    m.smi_count += 1
    for k in range(m.cores_count):
        c = &m.cores[k]
        set_clock(c, m.now, c.clock.speed, c.clock.running, c.clock.window)
        c.clock.tick = m.smi_until
        c.clock.stolen += m.smi_ticks
        c.clock.interrupts += 1
        tell_clock(m, c)
        wait_again(m, c)
        new_turn(m, c)


cdef inline void clocks_again(Machine* m) noexcept nogil:
    """End the system-management interrupt now."""
    cdef int i
    for i in range(m.cores_count):
        if not m.cores[i].depth:
            m.cores[i].counters[UNHALTED] += <uint64_t>m.smi_ticks
    m.smi_until = 0
