"""Fetching, executing and charging one instruction of one hart (docs/machine.md, section 2).

A hart's turn may end with a retired instruction or a trap; its cycles are known then. Otherwise the hart is blocked,
and the cycles from this turn until the instruction is tried again are a stall. `attempt` takes a turn of any kind. Most
turns are of a few common kinds, which `burst` takes in less of the host's time, and with the same outcome.
"""

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memcpy

from .accounts cimport begin_hart_thread, enter, look_again, state_of, tell_counters
from .architecture cimport *
from .code cimport PAGE, decode, forget_code, forget_tcm, open_page
from .compute cimport TAKEN_BIT, compute, loaded, size_of
from .csrs cimport read_csr, write_csr
from .debug cimport DEBUGGED, HOLD_ASKED, STOP_DEBUG, hold, stops_here
from .devices cimport device_load, device_store
from .events cimport watch_event
from .memory cimport WAITED, can_access, can_fetch, empty, end_reservations, forget_served, stored
from .power cimport BREAKING, INTERRUPTED, PROFILING, RESUMING, halt
from .protection cimport GUARDED, MAY_EXECUTE, MAY_READ, MAY_WRITE, may
from .signals cimport GAP, TOLD_DID, TOLD_RANGE, TOLD_RECORD, TOLD_RUNS, TOLD_TURN, tell
from .structures cimport Core, Decoded, Hart, Machine
from .trace cimport WATCHED, doing_of, watch_before, watch_gap, watch_retired, watch_trap, watch_turn
from .traps cimport interrupt, leave_trap, trap
from .turns cimport next_turn

cdef enum:  # Outcome
    DONE = 0
    BLOCKED = 1
    TRAPPED = 2

cdef enum:  # Stop
    STOP_LIMIT = 0
    STOP_HTIF = 1
    STOP_SEMIHOST = 2
    STOP_STANDSTILL = 3
    STOP_NO_MEMORY = -1


cdef inline int fault(Machine* m, Core* c, Hart* h, uint32_t cause, uint32_t value) noexcept nogil:
    """Trap because of the instruction, whose own cycle still counts as the program's."""
    trap(m, c, h, cause, value, False, h.free + m.unit)
    return TRAPPED


cdef inline bint allowed(Hart* h, uint32_t address, uint32_t size, uint32_t permission) noexcept nogil:
    cdef uint32_t privilege = h.privilege
    if not h.attention & GUARDED:
        return True
    if permission != MAY_EXECUTE and h.mstatus & MPRV:
        privilege = h.mstatus >> 11 & 3
    return may(h, address, size, permission, privilege)


cdef inline int load(Machine* m, Core* c, Hart* h, uint32_t address, uint32_t size, uint32_t* value) noexcept nogil:
    """Load a value, zero-extended."""
    cdef uint32_t offset = address - RAM
    value[0] = 0
    if h.attention & GUARDED and not allowed(h, address, size, MAY_READ):
        return fault(m, c, h, LOAD_FAULT, address)
    if offset <= m.ram_size - size:
        if not can_access(m, c, h, address, size, False):
            return BLOCKED
        memcpy(value, m.ram + offset, size)
        if (address ^ (address + size - 1)) >> c.dcache.shift:
            h.cost = 2
        return DONE
    offset = address - TCM
    if m.tcm_size and offset <= m.tcm_size - size:
        memcpy(value, c.tcm + offset, size)
        return DONE
    if size != 4 or address & 3 or not device_load(m, h, address, value):
        return fault(m, c, h, LOAD_FAULT, address)
    h.cost = m.device
    # Reading a status register may have changed the hart's state. This instruction belongs to the state before.
    h.instret += 1
    look_again(m, c, h, h.free + m.unit, True)
    h.instret -= 1
    return DONE


cdef inline void write_ram(
    Machine* m, Core* c, Hart* h, uint32_t address, uint32_t size, uint32_t value
) noexcept nogil:
    """Store a value that every hart sees from now on."""
    cdef uint32_t offset = address - RAM, low
    memcpy(m.ram + offset, &value, size)
    stored(m, c, h, address, size)
    if m.pages[offset // PAGE] != NULL or m.pages[(offset + size - 1) // PAGE] != NULL or not offset & (PAGE - 1):
        forget_code(m, address, size)
    if m.tohost and address - m.tohost < 8:
        memcpy(&low, m.ram + (m.tohost - RAM), 4)
        if low:
            m.stop = STOP_HTIF
            m.stopped_hart = h.number


cdef inline int store(Machine* m, Core* c, Hart* h, uint32_t address, uint32_t size, uint32_t value) noexcept nogil:
    cdef uint32_t offset = address - RAM
    if h.attention & GUARDED and not allowed(h, address, size, MAY_WRITE):
        return fault(m, c, h, STORE_FAULT, address)
    if offset <= m.ram_size - size:
        if not can_access(m, c, h, address, size, True):
            return BLOCKED
        write_ram(m, c, h, address, size, value)
        if (address ^ (address + size - 1)) >> c.dcache.shift:
            h.cost = 2
        return DONE
    offset = address - TCM
    if m.tcm_size and offset <= m.tcm_size - size:
        memcpy(c.tcm + offset, &value, size)
        forget_tcm(c, offset, size)
        if m.reservations:
            end_reservations(m, h, address >> c.dcache.shift)
        return DONE
    if size != 4 or address & 3 or not device_store(m, h, address, value):
        return fault(m, c, h, STORE_FAULT, address)
    h.cost = m.device
    return DONE


cdef inline void reserve(Machine* m, Hart* h, uint32_t line) noexcept nogil:
    if h.reserved:
        m.reservations -= 1
    h.reserved = line
    if line:
        m.reservations += 1


cdef inline int atomic(Machine* m, Core* c, Hart* h, Decoded* d, uint32_t* value) noexcept nogil:
    """Execute LR, SC or an AMO as one access that nothing can interrupt."""
    cdef uint32_t address = h.x[d.rs1], operand = h.x[d.rs2], old = 0, offset = address - RAM, line
    cdef bint in_tcm = m.tcm_size and address - TCM <= m.tcm_size - 4
    cdef bint reading = d.operation == LR
    if address & 3:
        return fault(m, c, h, LOAD_MISALIGNED if reading else STORE_MISALIGNED, address)
    if h.attention & GUARDED and not allowed(h, address, 4, MAY_READ if reading else MAY_WRITE):
        return fault(m, c, h, LOAD_FAULT if reading else STORE_FAULT, address)
    if offset > m.ram_size - 4 and not in_tcm:
        return fault(m, c, h, LOAD_FAULT if reading else STORE_FAULT, address)
    line = (address >> c.dcache.shift) + 1
    if d.operation == SC and h.reserved != line:
        reserve(m, h, 0)
        value[0] = 1
        return DONE
    if not in_tcm:
        if (reading or d.operation != SC and not m.write_back) and not can_access(m, c, h, address, 4, False):
            # With write-through, a line is in the cache only if it was read first.
            return BLOCKED
        if not reading and not can_access(m, c, h, address, 4, True):
            return BLOCKED
    memcpy(&old, c.tcm + (address - TCM) if in_tcm else m.ram + offset, 4)
    value[0] = old
    if d.operation == LR:
        reserve(m, h, line)
        return DONE
    if d.operation == SC:
        reserve(m, h, 0)
        value[0] = 0
    elif d.operation == AMOADD:
        operand += old
    elif d.operation == AMOXOR:
        operand ^= old
    elif d.operation == AMOAND:
        operand &= old
    elif d.operation == AMOOR:
        operand |= old
    elif d.operation == AMOMIN:
        operand = old if <int32_t>old < <int32_t>operand else operand
    elif d.operation == AMOMAX:
        operand = old if <int32_t>old > <int32_t>operand else operand
    elif d.operation == AMOMINU:
        operand = old if old < operand else operand
    elif d.operation == AMOMAXU:
        operand = old if old > operand else operand
    if in_tcm:
        memcpy(c.tcm + (address - TCM), &operand, 4)
        forget_tcm(c, address - TCM, 4)
        if m.reservations:
            end_reservations(m, h, line - 1)
    else:
        write_ram(m, c, h, address, 4, operand)
    return DONE


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


cdef inline void record(Machine* m, Hart* h, uint32_t pc) noexcept nogil:
    """Add a record to the profile buffer. A full buffer drops it; only the count of missed records tells."""
    cdef uint32_t at, words[4]
    if h.profile_head >= h.profile_size:
        h.profile_missed += 1
        return
    at = h.profile_base + h.profile_head
    words[0] = pc
    words[1] = <uint32_t>h.state
    words[2] = <uint32_t>m.now
    words[3] = <uint32_t>(<uint64_t>m.now >> 32)
    memcpy(m.ram + (at - RAM), words, 16)
    forget_code(m, at, 16)
    h.profile_head += 16
    if unlikely(m.signals.on != 0):
        tell(m, h, TOLD_RECORD, h.profile_last, <uint64_t>h.state << 32 | pc, at)


cdef inline void profile(Machine* m, Core* c, Hart* h, uint32_t pc, bint retired, bint taken) noexcept nogil:
    """Profile a turn of a hart whose buffer is authorised."""
    if unlikely(m.signals.on != 0):
        tell(m, h, TOLD_TURN, c.cycle, <uint64_t>m.now, pc)
        tell(m, h, TOLD_DID, c.cycle, <uint64_t>h.state, <uint32_t>retired | <uint32_t>taken << 1)
    if h.profile == 1:
        while c.cycle - h.profile_last >= h.profile_period:
            h.profile_last += h.profile_period
            record(m, h, pc)
    elif h.profile == 2 and retired or h.profile == 3 and taken:
        h.profile_left -= 1
        if h.profile_left <= 0:
            h.profile_left = h.profile_period
            record(m, h, pc)


cdef inline void charge_gap(Machine* m, Core* c, Hart* h, int64_t begin) noexcept nogil:
    """Charge the cycles from the end of the last instruction, or of the last attempt, to this turn."""
    cdef int64_t own
    cdef int reason = h.reason
    if m.strict:
        own = begin
        if not reason:
            reason = SLOT
    else:
        own = min(max(h.ready, h.free), begin)
    if unlikely(m.signals.on != 0):
        tell_counters(m, c, h, h.free)
        tell(m, h, GAP, h.free, <uint64_t>(own - h.free), <uint32_t>reason)
    h.lost[reason] += own - h.free
    if unlikely(m.signals.on != 0):
        tell_counters(m, c, h, own)
        tell(m, h, GAP, own, <uint64_t>(begin - own), SLOT)
    h.lost[SLOT] += begin - own
    if unlikely(h.attention & WATCHED != 0):
        watch_gap(m, c, h, h.free, own - h.free, doing_of(reason))
        watch_gap(m, c, h, own, begin - own, SLOT)
    h.free = begin


cdef inline bint needs(Hart* h, Decoded* d, int64_t cycle) noexcept nogil:
    """Return whether a register that the instruction reads or writes is not usable yet; set when the hart can issue."""
    cdef int64_t at = max(h.usable[d.rs1], h.usable[d.rs2], h.usable[d.rd])
    if at <= cycle:
        return False
    h.reason = DATA
    h.arrival = 0
    h.ready = at
    return True


cdef inline void finish(Machine* m, Hart* h, int64_t cycle, int64_t begin, int refill) noexcept nogil:
    """Set when the hart can issue again, now that the instruction's cycles are known."""
    if m.unit == 1:
        h.free = begin + h.cost
    elif h.cost <= m.unit:
        h.free = begin + m.unit
    else:
        h.free = begin + (h.cost + m.unit - 1) // m.unit * m.unit
    h.ready = cycle + h.cost + refill
    h.reason = REFILL if refill else GOING
    h.arrival = 0


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


cdef inline bint intercepts(Machine* m, Core* c, Hart* h, int64_t begin) noexcept nogil:
    """Do what a debugger asked for before this turn. Return whether there is no turn.

    If the machine stops, nothing has changed: the turn comes when it goes on.
    """
    if h.held == HOLD_ASKED:
        if not h.attention & RESUMING and begin != h.free:
            charge_gap(m, c, h, begin)
        hold(m, c, h, begin)
        return True
    if stops_here(m, c, h):
        m.stop = STOP_DEBUG
        m.stopped_hart = h.number
        return True
    return False


cdef inline void attempt(Machine* m, Core* c) noexcept nogil:
    """Take the turn of the hart that was chosen."""
    cdef Hart* h = c.pick
    cdef int64_t cycle = c.next_cycle, begin = c.next_cycle + 1 - m.unit, late = 0
    cdef uint32_t pc, next, a, b, value = 0
    cdef Decoded* d
    cdef int outcome = DONE, operation
    cdef bint taken = False, profiling = False
    cdef uint32_t* x = h.x
    if unlikely(h.attention & DEBUGGED != 0) and intercepts(m, c, h, begin):
        return
    c.cycle = cycle
    c.last = h.slot
    if h.attention:
        if unlikely(h.attention & WATCHED != 0):
            watch_before(m, c, h, begin, h.attention & RESUMING)
        if h.attention & RESUMING:
            h.attention &= ~<uint32_t>RESUMING
            h.free = begin
            h.profile_last = cycle
            if m.signals.on:
                tell(m, h, TOLD_RUNS, begin, 1, 0)
            enter(m, c, h, begin, state_of(m, h), False)
            if h.thread == NULL and not h.block and not h.instret:
                begin_hart_thread(m, h)
        if h.attention & (INTERRUPTED | BREAKING | WATCHED) and begin != h.free:
            charge_gap(m, c, h, begin)
        if unlikely(h.attention & WATCHED != 0):
            watch_turn(m, c, h, begin)
            if m.signals.on:
                tell_counters(m, c, h, begin)
        if h.attention & (INTERRUPTED | BREAKING):
            pc = h.pc
            if h.attention & BREAKING:
                h.attention &= ~<uint32_t>BREAKING
                trap(m, c, h, BREAKPOINT, pc, False, begin)
            else:
                interrupt(m, c, h, begin)
            h.cost = 1
            if unlikely(h.attention & WATCHED != 0):
                watch_trap(m, c, h, pc)
            finish(m, h, cycle, begin, m.refill)
            next_turn(m, c)
            return
        profiling = h.attention & PROFILING
    if begin != h.free:
        charge_gap(m, c, h, begin)
    pc = h.pc
    h.cost = 1
    d = fetch(m, c, h)
    if d == NULL:
        if h.ready <= cycle:
            # The fetch has trapped.
            if unlikely(h.attention & WATCHED != 0):
                watch_trap(m, c, h, pc)
            finish(m, h, cycle, begin, m.refill)
        next_turn(m, c)
        return
    if h.due > cycle and needs(h, d, cycle):
        next_turn(m, c)
        return
    if d.range != h.range and not h.latch:
        h.range = d.range
        if unlikely(m.signals.on != 0):
            tell(m, h, TOLD_RANGE, begin, d.range, 0)
        look_again(m, c, h, begin, True)
    next = pc + d.size
    a = x[d.rs1]
    b = x[d.rs2]
    operation = d.operation
    if LB <= operation <= LHU:
        outcome = load(m, c, h, a + <uint32_t>d.immediate, size_of(operation), &value)
        if outcome == DONE:
            x[d.rd] = loaded(operation, value)
            late = m.load
    elif SB <= operation <= SW:
        outcome = store(m, c, h, a + <uint32_t>d.immediate, size_of(operation), b)
    elif LUI <= operation <= FENCE:
        next = compute(d, x, pc)
        taken = next & TAKEN_BIT
        next &= ~TAKEN_BIT
        if operation >= MUL:
            if operation <= MULHU:
                late = m.multiply
            elif operation <= REMU:
                h.cost = m.divide
    elif (
        operation == LR or operation == SC or operation == AMOSWAP or operation == AMOADD or operation == AMOXOR
        or operation == AMOAND or operation == AMOOR or operation == AMOMIN or operation == AMOMAX
        or operation == AMOMINU or operation == AMOMAXU
    ):
        outcome = atomic(m, c, h, d, &value)
        if outcome == DONE:
            x[d.rd] = value
            late = m.load
    elif (
        operation == CSRRW or operation == CSRRS or operation == CSRRC
        or operation == CSRRWI or operation == CSRRSI or operation == CSRRCI
    ):
        outcome = change_csr(m, c, h, d, &value)
        if outcome == DONE:
            x[d.rd] = value
    elif operation == FENCE_I:
        empty(&c.icache)
        h.fetched = 0
        taken = True
    elif operation == ECALL:
        outcome = fault(m, c, h, CALL_FROM_MACHINE if h.privilege == MACHINE else CALL_FROM_USER, 0)
    elif operation == EBREAK:
        if is_semihosting(m, h):
            m.stop = STOP_SEMIHOST
            m.stopped_hart = h.number
        else:
            outcome = fault(m, c, h, BREAKPOINT, pc)
    elif operation == MRET:
        if h.privilege != MACHINE:
            outcome = fault(m, c, h, ILLEGAL, d.word)
        else:
            h.instret += 1
            leave_trap(m, c, h, begin + m.unit)
            h.instret -= 1
            next = h.pc
            taken = True
    elif operation == WFI:
        if h.privilege != MACHINE and h.mstatus & TW:
            outcome = fault(m, c, h, ILLEGAL, d.word)
        elif not h.mip & h.mie:
            h.pc = next
            h.instret += 1
            if profiling:
                profile(m, c, h, pc, True, False)
            if unlikely(h.attention & WATCHED != 0):
                watch_retired(m, c, h, d, pc, next, False)
                if c.unit.matching:
                    watch_event(m, c, h, d, pc, a, b)
            halt(m, c, h, begin + m.unit)
            h.free = begin + m.unit
            forget_served(h)
            next_turn(m, c)
            return
    else:
        outcome = fault(m, c, h, ILLEGAL, d.word)
    if outcome == BLOCKED:
        next_turn(m, c)
        return
    if outcome == TRAPPED:
        h.cost = 1
        if unlikely(h.attention & WATCHED != 0):
            watch_trap(m, c, h, pc)
        finish(m, h, cycle, begin, m.refill)
        if profiling:
            profile(m, c, h, pc, False, False)
        next_turn(m, c)
        return
    h.pc = next
    h.instret += 1
    if unlikely(h.attention & WATCHED != 0):
        watch_retired(m, c, h, d, pc, next, taken)
        if c.unit.matching:
            watch_event(m, c, h, d, pc, a, b)
    if h.attention & WAITED:
        forget_served(h)
    finish(m, h, cycle, begin, m.refill if taken else 0)
    if late > 1:
        h.usable[d.rd] = cycle + late + h.cost - 1
        h.usable[NOWHERE] = 0
        if h.usable[d.rd] > h.due:
            h.due = h.usable[d.rd]
    if h.due > h.ready and (h.pc >> c.icache.shift) + 1 == h.fetched and h.pc // PAGE == h.page:
        # The next instruction is in the pipeline already, so the registers that it needs are known and no turn is
        # wasted.
        d = &h.code[(h.pc & (PAGE - 1)) >> 1]
        if (d.operation != UNDECODED or decode(m, c, d, h.pc)) and not d.crosses:
            needs(h, d, h.ready)
    if profiling and h.attention & PROFILING:
        # Do not profile the instruction that authorises, nor the one that ends the authorisation.
        profile(m, c, h, pc, True, taken)
    next_turn(m, c)
