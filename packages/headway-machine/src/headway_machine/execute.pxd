"""Executing: what the instruction of a turn does, once it is fetched and its registers are usable.

The kinds of instructions are in modules of their own: `compute` has those that change only a register and the program
counter, `accesses` those that access memory, `csrs` the registers that CSR instructions read and write.
"""

from libc.stdint cimport int64_t, uint32_t
from libc.string cimport memcpy

from .accesses cimport atomic, load, store
from .architecture cimport *
from .compute cimport TAKEN_BIT, compute, loaded, size_of
from .csrs cimport read_csr, write_csr
from .events cimport watch_event
from .memory cimport empty, forget_served
from .power cimport halt
from .profile_buffer cimport profile
from .structures cimport STOP_SEMIHOST, Core, Decoded, Hart, Machine
from .trace cimport WATCHED, watch_retired
from .traps cimport DONE, SLEEPS, fault, leave_trap

# What a turn has come to so far.
ctypedef struct Turn:
    # The cycle in which the hart issues.
    int64_t cycle
    # The first cycle that is charged for the turn: that of its rotation in strict turn, else the same.
    int64_t begin
    # The instruction, and its address.
    Decoded* d
    uint32_t pc
    # The address of the next one.
    uint32_t next
    # The values of its source registers.
    uint32_t a
    uint32_t b
    # What it has loaded, extended to a word; of SC, what it says of its success.
    uint32_t loaded
    # Cycles until its result is usable; 0: at once.
    int64_t late
    # It does not go on behind itself, so the pipeline is filled again.
    bint taken
    # The profile buffer was authorised before it.
    bint profiling


cdef inline int change_csr(Machine* m, Core* c, Hart* h, Decoded* d, uint32_t* value) noexcept nogil:
    """Execute a CSR instruction. It is counted as retired before its write takes effect."""
    cdef uint32_t number = <uint32_t>d.immediate, operand, how = d.operation
    cdef bint writes
    if how >= CSRRWI:
        operand = d.uimm
        how -= CSRRWI - CSRRW
        writes = how == CSRRW or d.uimm
    else:
        operand = h.x[d.rs1]
        writes = how == CSRRW or d.rs1
    if not read_csr(m, c, h, number, value):
        return fault(m, c, h, ILLEGAL, d.word)
    if writes:
        if how == CSRRS:
            operand = value[0] | operand
        elif how == CSRRC:
            operand = value[0] & ~operand
        h.instret += 1
        if not write_csr(m, c, h, number, operand):
            h.instret -= 1
            return fault(m, c, h, ILLEGAL, d.word)
        h.instret -= 1
    return DONE


cdef inline bint is_semihosting(Machine* m, Hart* h) noexcept nogil:
    """Return whether EBREAK stands between the two shifts that mark a semihosting call."""
    cdef uint32_t offset = h.pc - RAM, before, after
    if offset - 4 > m.ram_size - 12:
        return False
    memcpy(&before, m.ram + offset - 4, 4)
    memcpy(&after, m.ram + offset + 4, 4)
    return before == 0x01F01013u and after == 0x40705013u


cdef inline void note_retired(Machine* m, Core* c, Hart* h, Turn* t) noexcept nogil:
    """Let the trace unit and its trigger blocks see a retired instruction."""
    if unlikely(h.attention & WATCHED != 0):
        watch_retired(m, c, h, t.d, t.pc, t.next, t.taken)
        if c.trace_unit.matching:
            watch_event(m, c, h, t.d, t.pc, t.a, t.b, t.loaded)


cdef inline int break_here(Machine* m, Core* c, Hart* h, Turn* t) noexcept nogil:
    """Execute EBREAK: a call of the host, or a trap."""
    if not is_semihosting(m, h):
        return fault(m, c, h, BREAKPOINT, t.pc)
    m.stop = STOP_SEMIHOST
    m.stopped_hart = h.number
    return DONE


cdef inline int return_from_trap(Machine* m, Core* c, Hart* h, Turn* t) noexcept nogil:
    """Execute MRET. It is counted as retired before the trap ends."""
    if h.privilege != MACHINE:
        return fault(m, c, h, ILLEGAL, t.d.word)
    h.instret += 1
    leave_trap(m, c, h, t.begin + m.quantum)
    h.instret -= 1
    t.next = h.pc
    t.taken = True
    return DONE


cdef inline int wait_for_interrupt(Machine* m, Core* c, Hart* h, Turn* t) noexcept nogil:
    """Execute WFI. If the hart halts, the instruction is retired first, and the turn is over."""
    if h.privilege != MACHINE and h.mstatus & TW:
        return fault(m, c, h, ILLEGAL, t.d.word)
    if h.mip & h.mie:
        return DONE
    h.pc = t.next
    h.instret += 1
    if t.profiling:
        profile(m, c, h, t.pc, True, False)
    note_retired(m, c, h, t)
    halt(m, c, h, t.begin + m.quantum)
    h.free = t.begin + m.quantum
    forget_served(h)
    return SLEEPS


cdef inline int execute_system(Machine* m, Core* c, Hart* h, Turn* t) noexcept nogil:
    """Execute an instruction that concerns the processor and not its registers; any other is illegal."""
    cdef int operation = t.d.operation
    if operation == FENCE_I:
        empty(&c.icache)
        h.fetched = 0
        t.taken = True
        return DONE
    if operation == ECALL:
        return fault(m, c, h, CALL_FROM_MACHINE if h.privilege == MACHINE else CALL_FROM_USER, 0)
    if operation == EBREAK:
        return break_here(m, c, h, t)
    if operation == MRET:
        return return_from_trap(m, c, h, t)
    if operation == WFI:
        return wait_for_interrupt(m, c, h, t)
    return fault(m, c, h, ILLEGAL, t.d.word)


cdef inline void execute_computation(Machine* m, Hart* h, Turn* t) noexcept nogil:
    """Execute an instruction that changes only a register and the program counter."""
    cdef int operation = t.d.operation
    t.next = compute(t.d, h.x, t.pc)
    t.taken = t.next & TAKEN_BIT
    t.next &= ~TAKEN_BIT
    if MUL <= operation <= MULHU:
        t.late = m.multiply
    elif DIV <= operation <= REMU:
        h.cost = m.divide


cdef inline int execute(Machine* m, Core* c, Hart* h, Turn* t) noexcept nogil:
    """Execute the turn's instruction. Return DONE, BLOCKED, TRAPPED or SLEEPS."""
    cdef Decoded* d = t.d
    cdef int operation = d.operation, outcome = DONE
    cdef uint32_t value = 0
    t.next = t.pc + d.size
    t.a = h.x[d.rs1]
    t.b = h.x[d.rs2]
    t.late = 0
    t.taken = False
    if LB <= operation <= LHU:
        outcome = load(m, c, h, t.a + <uint32_t>d.immediate, size_of(operation), &value)
        if outcome == DONE:
            t.loaded = loaded(operation, value)
            h.x[d.rd] = t.loaded
            t.late = m.load
    elif SB <= operation <= SW:
        outcome = store(m, c, h, t.a + <uint32_t>d.immediate, size_of(operation), t.b)
    elif LUI <= operation <= FENCE:
        execute_computation(m, h, t)
    elif LR <= operation <= AMOMAXU:
        outcome = atomic(m, c, h, d, &t.loaded)
        if outcome == DONE:
            h.x[d.rd] = t.loaded
            t.late = m.load
    elif CSRRW <= operation <= CSRRCI:
        outcome = change_csr(m, c, h, d, &value)
        if outcome == DONE:
            h.x[d.rd] = value
    else:
        outcome = execute_system(m, c, h, t)
    return outcome
