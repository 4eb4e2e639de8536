"""Entering and leaving traps ("The RISC-V Instruction Set Manual, Volume II", 20211203, sections 3.1 and 3.3)."""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from .architecture cimport *
from .devices cimport look_for_interrupts
from .memory cimport forget_served
from .polling cimport count_gap, keep_latches, stop_gap
from .progress_unit cimport enter, find_first_range, look_again, state_of
from .signals cimport TOLD_RETURN, TOLD_RETURNS_TO, TOLD_TRAP, tell
from .structures cimport Core, Hart, Machine

cdef enum:  # What a hart's turn, or a part of it, has come to
    # The instruction is executed.
    DONE = 0
    # The hart waits for memory, and tries the instruction again.
    BLOCKED = 1
    # It has trapped.
    TRAPPED = 2
    # The hart has retired a WFI and is halted.
    SLEEPS = 3


cdef inline void trap(
    Machine* m, Core* c, Hart* h, uint32_t cause, uint32_t value, bint interrupt, int64_t cycle
) noexcept nogil:
    """Enter the trap handler. From the cycle on, the hart is in the trap's state."""
    cdef int state
    h.trap_count += 1
    h.mepc = h.pc
    h.mcause = cause | 0x80000000u if interrupt else cause
    h.mtval = value
    h.mstatus = h.mstatus & ~<uint32_t>(MPP | MPIE) | h.privilege << 11 | (MPIE if h.mstatus & MIE else 0)
    h.mstatus &= ~<uint32_t>MIE
    if interrupt:
        state = INTERRUPT + <int>cause
    elif cause == CALL_FROM_USER or cause == CALL_FROM_MACHINE:
        state = CALL + <int>min(h.x[17], 31u)
        # Who asks a kernel for something does not ask a device.
        keep_latches(h, 0)
    else:
        state = EXCEPTION + <int>cause
    stop_gap(h, cycle)
    h.privilege = MACHINE
    h.latch = 1
    h.trapped[h.depth & 7] = <uint8_t>state
    h.depth += 1
    if h.reserved:
        h.reserved = 0
        m.reservations -= 1
    h.pc = h.mtvec & ~3u
    if interrupt and h.mtvec & 1:
        h.pc += 4 * cause
    forget_served(h)
    look_for_interrupts(m, h)
    if m.signals.on:
        tell(m, h, TOLD_TRAP, cycle, <uint64_t>state, 0)
    enter(m, c, h, cycle, state_of(m, h), True)


cdef inline int fault(Machine* m, Core* c, Hart* h, uint32_t cause, uint32_t value) noexcept nogil:
    """Trap because of the instruction, whose own cycle still counts as the program's."""
    trap(m, c, h, cause, value, False, h.free + m.quantum)
    return TRAPPED


cdef inline void interrupt(Machine* m, Core* c, Hart* h, int64_t cycle) noexcept nogil:
    """Take the pending interrupt of the highest priority: external, then software, then timer."""
    cdef uint32_t pending = h.mip & h.mie
    if pending >> EXTERNAL_INTERRUPT & 1:
        trap(m, c, h, EXTERNAL_INTERRUPT, 0, True, cycle)
    elif pending >> SOFTWARE_INTERRUPT & 1:
        trap(m, c, h, SOFTWARE_INTERRUPT, 0, True, cycle)
    else:
        trap(m, c, h, TIMER_INTERRUPT, 0, True, cycle)


cdef inline void leave_trap(Machine* m, Core* c, Hart* h, int64_t cycle) noexcept nogil:
    """Do MRET: leave the trap."""
    h.privilege = h.mstatus >> 11 & 3
    h.mstatus = h.mstatus & ~<uint32_t>MIE | (MIE if h.mstatus & MPIE else 0)
    h.mstatus = (h.mstatus | MPIE) & ~<uint32_t>MPP
    if h.privilege != MACHINE:
        h.mstatus &= ~<uint32_t>MPRV
    h.pc = h.mepc
    if m.signals.on:
        tell(m, h, TOLD_RETURNS_TO, cycle, h.mepc, 0)
        tell(m, h, TOLD_RETURN, cycle, h.privilege, 0)
    if h.depth and not h.control & CTL_HL:
        h.depth -= 1
        h.latch = h.depth > 0
        count_gap(m, h, cycle)
    find_first_range(m, h)
    look_for_interrupts(m, h)
    look_again(m, c, h, cycle, False)
