"""Control and status registers: the standard ones (section 1 of docs/machine.md) and the machine's own (4, 5, 7, 8)."""

from libc.stdint cimport int64_t, uint32_t, uint64_t

from .accounts cimport correct, load_block, look_again, settle, synchronise, wake
from .division cimport own_part, set_own_part
from .architecture cimport *
from .clocks cimport cycle_of, end_tick, set_clock
from .devices cimport look_for_interrupts, timer_now
from .events cimport is_resource, read_resource, write_resource
from .power cimport PROFILING, settle_core
from .protection cimport set_guard, write_pmp
from .signals cimport TOLD_PROFILE, TOLD_WRITE, tell
from .structures cimport Core, Hart, Machine
from .trace cimport TRACED, TRACE_ASKED, TRACE_PERMITTED, tell_clock
from .turns cimport wait_again


cdef inline bint held(Hart* h, int bit) noexcept nogil:
    return h.mcountinhibit >> bit & 1


cdef inline uint64_t cycles_of(Core* c, Hart* h) noexcept nogil:
    return h.mcycle_held if held(h, 0) else <uint64_t>c.cycle + h.mcycle


cdef inline uint64_t instructions_of(Hart* h) noexcept nogil:
    return h.minstret_held if held(h, 2) else <uint64_t>h.instret + h.minstret


cdef inline uint32_t word(uint64_t value, bint high) noexcept nogil:
    return <uint32_t>(value >> 32) if high else <uint32_t>value


cdef inline uint64_t with_word(uint64_t old, bint high, uint32_t value) noexcept nogil:
    return old & 0xFFFFFFFFu | <uint64_t>value << 32 if high else old >> 32 << 32 | value


cdef inline bint read_counter(Machine* m, Core* c, Hart* h, uint32_t n, uint32_t* value) noexcept nogil:
    """Read a counter of section 4 or 8 by the low eight bits of its address, with its value before this instruction."""
    cdef bint high = n >> 4 & 1
    n &= ~0x10u
    if n - 0xC0 < COUNTERS:
        settle(m, c, h, h.free)
        value[0] = word(h.counters[n - 0xC0], high)
        return True
    if n - 0xE0 < COUNTERS - UNHALTED:
        settle_core(c, c.cycle)
        value[0] = word(c.counters[UNHALTED + n - 0xE0], high)
        return True
    return False


cdef inline bint read_user_counter(Machine* m, Core* c, Hart* h, uint32_t number, uint32_t* value) noexcept nogil:
    """Read cycle, time, instret, hpmcounter3-31 or one of their high words. Return False if user mode may not."""
    cdef uint32_t n = number & 31
    cdef bint high = number >> 7 & 1
    if h.privilege != MACHINE and not h.mcounteren >> n & 1:
        return False
    if n == 0:
        value[0] = word(cycles_of(c, h), high)
    elif n == 1:
        value[0] = word(timer_now(m), high)
    elif n == 2:
        value[0] = word(instructions_of(h), high)
    else:
        value[0] = 0
    return True


cdef inline bint read_csr(Machine* m, Core* c, Hart* h, uint32_t number, uint32_t* value) noexcept nogil:
    """Read a register. Return False if there is no such register for this hart at its current privilege."""
    cdef uint32_t group = number & ~0x1Fu
    value[0] = 0
    if number >> 8 & 3 > h.privilege:
        return False
    if number == 0x300:
        value[0] = h.mstatus
    elif number == 0x301:
        value[0] = 0x40101105u
    elif number == 0x304:
        value[0] = h.mie
    elif number == 0x305:
        value[0] = h.mtvec
    elif number == 0x306:
        value[0] = h.mcounteren
    elif number == 0x320:
        value[0] = h.mcountinhibit
    elif number == 0x340:
        value[0] = h.mscratch
    elif number == 0x341:
        value[0] = h.mepc
    elif number == 0x342:
        value[0] = h.mcause
    elif number == 0x343:
        value[0] = h.mtval
    elif number == 0x344:
        value[0] = h.mip
    elif number == 0xF14:
        value[0] = <uint32_t>h.number
    elif number in (0x310, 0x30A, 0x31A, 0xF11, 0xF12, 0xF13, 0xF15, 0x7A0, 0x7A1, 0x7A2, 0x7A3, 0x7A4):
        pass
    elif group == 0x320 and number >= 0x323:
        pass
    elif 0x3A0 <= number < 0x3A4:
        value[0] = h.pmpcfg[number - 0x3A0]
    elif 0x3B0 <= number < 0x3C0:
        value[0] = h.pmpaddr[number - 0x3B0]
    elif (group == 0xB00 or group == 0xB80) and number & 31 != 1:
        if number & 31 == 0:
            value[0] = word(cycles_of(c, h), number >> 7 & 1)
        elif number & 31 == 2:
            value[0] = word(instructions_of(h), number >> 7 & 1)
    elif group == 0xC00 or group == 0xC80:
        return read_user_counter(m, c, h, number, value)
    elif number >> 8 == 0xB or number >> 8 == 0xC:
        return read_counter(m, c, h, number & 0xFF, value)
    elif number == 0x7C0:
        value[0] = h.control
    elif number == 0x7C1:
        value[0] = h.latch | (2 if h.polled else 0)
    elif number == 0x7C2:
        value[0] = h.correction
    elif number == 0x7C3:
        value[0] = h.block
    elif number == 0x7C4:
        value[0] = h.leave
    elif number == 0x7C5:
        pass
    elif number == 0x7C6:
        value[0] = h.monitor
    elif number == 0x7C7:
        settle(m, c, h, h.free)
        value[0] = <uint32_t>h.state
    elif number == 0x7C8:
        value[0] = h.profile
    elif number == 0x7C9:
        value[0] = h.profile_base
    elif number == 0x7CA:
        value[0] = h.profile_size
    elif number == 0x7CB:
        value[0] = h.profile_seen
    elif number == 0x7CC:
        value[0] = h.profile_period
    elif 0x7D3 <= number < 0x7D7:
        value[0] = own_part(h, number - 0x7D3)
    elif number == 0x803:
        pass
    elif number == 0x7D0:
        value[0] = h.pwstate
    elif number == 0x7D1:
        value[0] = <uint32_t>c.clock.speed
    elif number == 0x7D2:
        value[0] = c.stopped
    elif number == 0x800:
        value[0] = h.signals
    elif number == 0x802:
        value[0] = 1 if h.traced.wanted & TRACE_ASKED else 0
    elif number == 0x7D8:
        value[0] = c.unit.selected
    elif number == 0x7D9:
        value[0] = read_resource(&c.unit, c.unit.selected)
    elif number == 0x801:
        value[0] = h.authorised
    else:
        return False
    return True


cdef inline bint is_in_unit(uint32_t number) noexcept nogil:
    """Return whether the register is one of the progress unit's own, or one of its counters."""
    return 0x7C0 <= number <= 0x7C2 or number == 0x800 or 0xBC0 <= number < 0xBC8 or 0xBD0 <= number < 0xBD8


cdef inline bint in_ram(Machine* m, uint32_t address, uint32_t size) noexcept nogil:
    return address - RAM < m.ram_size and size <= m.ram_size - (address - RAM)


cdef inline void write_status(Machine* m, Hart* h, uint32_t value) noexcept nogil:
    """Write mstatus: MIE, MPIE, MPP (machine or user), MPRV, TW."""
    cdef uint32_t writable = MIE | MPIE | MPP | MPRV | TW
    if value & MPP != MPP:
        value &= ~<uint32_t>MPP
    h.mstatus = value & writable
    look_for_interrupts(m, h)


cdef inline void change_clock(Machine* m, Core* c, int64_t cycle, int64_t speed, uint32_t stopped) noexcept nogil:
    settle_core(c, cycle)
    c.stopped = stopped
    set_clock(c, m.now + 1, speed, m.window - m.window * <int64_t>stopped // 8, m.window)
    wait_again(m, c)
    tell_clock(m, c)


cdef inline void clear_latch(Machine* m, Core* c, Hart* h, int64_t cycle, uint32_t value) noexcept nogil:
    """Clear bits of the latch. A 0 in bit 0 ends the innermost trap if CTL_HL is set, otherwise all of them."""
    cdef bint was = h.latch
    if h.latch and not value & 1:
        h.depth = h.depth - 1 if h.control & CTL_HL and h.depth else 0
        h.latch = h.depth > 0
    if not value & 2:
        h.polled = 0
    look_again(m, c, h, cycle, False)
    if was and not h.latch:
        correct(m, c, h)


cdef inline void write_signals(Machine* m, Core* c, Hart* h, int64_t cycle, uint32_t value) noexcept nogil:
    """Write hwsw, by which a program marks its regions."""
    cdef uint32_t cleared = h.signals & ~value & (SWNE | KPSW)
    h.signals = value & 0xFF07u
    look_again(m, c, h, cycle, not cleared)
    if cleared:
        correct(m, c, h)


cdef inline bint write_profile(Machine* m, Core* c, Hart* h, uint32_t number, uint32_t value) noexcept nogil:
    """Write a register of the profile buffer. Return False if the buffer is authorised or the value is not allowed."""
    if h.authorised:
        return False
    if number == 0x7C8:
        if value > 3:
            return False
        h.profile = value
    elif number == 0x7C9:
        if value & 7:
            return False
        h.profile_base = value
    elif number == 0x7CA:
        h.profile_size = value & ~15u
    elif number == 0x7CB:
        h.profile_head = value & ~15u
        h.profile_seen = h.profile_head
    elif number == 0x7CC:
        h.profile_period = value
        h.profile_left = value
    return True


cdef inline bint authorise(Machine* m, Core* c, Hart* h, uint32_t value) noexcept nogil:
    """Write hwauth: start or stop making records. Return False if there is no buffer for them."""
    h.cost = m.authorise
    if value & 1 and not h.authorised:
        if not h.profile or not h.profile_period or not in_ram(m, h.profile_base, h.profile_size):
            return False
        h.profile_last = c.cycle
        h.attention |= PROFILING
    if not value & 1:
        h.profile_seen = h.profile_head
        h.attention &= ~<uint32_t>PROFILING
    h.authorised = value & 1
    return True


cdef inline bint told_profile(Machine* m, Core* c, Hart* h, uint32_t number, uint32_t value, bint done) noexcept nogil:
    """Tell a write of the profile buffer's registers, and return whether it was done."""
    if unlikely(m.signals.on != 0):
        tell(m, h, TOLD_PROFILE, c.cycle, value, number | (0 if done else 1 << 16))
    return done


cdef inline void ask_for_trace(Hart* h, bint asked) noexcept nogil:
    """Write hwtrace: the program asks for its trace to start or to stop with the next instruction."""
    h.traced.wanted = h.traced.wanted & ~<uint32_t>TRACE_ASKED | (TRACE_ASKED if asked else 0)
    if h.traced.wanted & TRACE_PERMITTED:
        h.attention |= TRACED


cdef inline bint write_counter(Machine* m, Core* c, Hart* h, uint32_t n, int64_t cycle, uint32_t value) noexcept nogil:
    cdef bint high = n >> 4 & 1
    n &= ~0x10u
    if n - 0xC0 < COUNTERS:
        settle(m, c, h, cycle)
        h.counters[n - 0xC0] = with_word(h.counters[n - 0xC0], high, value)
        return True
    if n - 0xE0 < COUNTERS - UNHALTED:
        settle_core(c, c.cycle + 1)
        c.counters[UNHALTED + n - 0xE0] = with_word(c.counters[UNHALTED + n - 0xE0], high, value)
        return True
    return False


cdef inline bint write_csr(Machine* m, Core* c, Hart* h, uint32_t number, uint32_t value) noexcept nogil:
    """Write a register with effect from the cycle after this instruction's. Return False if the value is not allowed.

    The caller has counted the instruction as retired.
    """
    cdef int64_t after = h.free + m.unit
    cdef uint32_t changed
    cdef bint high = number >> 7 & 1
    if number >> 10 == 3:
        return False
    if unlikely(m.signals.on != 0) and is_in_unit(number):
        tell(m, h, TOLD_WRITE, after, value, number)
    if number == 0x300:
        write_status(m, h, value)
    elif number == 0x304:
        h.mie = value & 0x888
        look_for_interrupts(m, h)
    elif number == 0x305:
        h.mtvec = value & ~2u
    elif number == 0x306:
        h.mcounteren = value
    elif number == 0x320:
        changed = (h.mcountinhibit ^ value) & 5
        if changed & 1:
            h.mcycle_held = cycles_of(c, h)
            h.mcycle = h.mcycle_held - <uint64_t>c.cycle
        if changed & 4:
            h.minstret_held = instructions_of(h)
            h.minstret = h.minstret_held - <uint64_t>h.instret
        h.mcountinhibit = value & 5
    elif number == 0x340:
        h.mscratch = value
    elif number == 0x341:
        h.mepc = value & ~1u
    elif number == 0x342:
        h.mcause = value & 0x8000001Fu
    elif number == 0x343:
        h.mtval = value
    elif 0x3A0 <= number < 0x3A4 or 0x3B0 <= number < 0x3C0:
        write_pmp(h, number, value)
        set_guard(h)
    elif number == 0xB00 or number == 0xB80:
        h.mcycle_held = with_word(cycles_of(c, h), high, value)
        h.mcycle = h.mcycle_held - <uint64_t>c.cycle - 1
    elif number == 0xB02 or number == 0xB82:
        h.minstret_held = with_word(instructions_of(h) - (not held(h, 2)), high, value)
        h.minstret = h.minstret_held - <uint64_t>h.instret
    elif number >> 8 == 0xB and number >= 0xBC0:
        return write_counter(m, c, h, number & 0xFF, after, value)
    elif number == 0x7C0:
        settle(m, c, h, after)
        h.control = value & 0x1FFF
        look_again(m, c, h, after, True)
    elif number == 0x7C1:
        clear_latch(m, c, h, after, value)
    elif number == 0x7C2:
        h.correction = value
    elif number == 0x7C3:
        if value & 7 or value and not in_ram(m, value, 128):
            return False
        h.cost = m.switching
        load_block(m, c, h, after, value)
    elif number == 0x7C4:
        h.leave = value & 31
    elif number == 0x7C5:
        if value & 7 or not in_ram(m, value, 128):
            return False
        wake(m, h, value, end_tick(c, after))
    elif number == 0x7C6:
        if value & 7 or value and not in_ram(m, value, 8192):
            return False
        settle(m, c, h, after)
        h.monitor = value
    elif 0x7C8 <= number <= 0x7CC:
        return told_profile(m, c, h, number, value, write_profile(m, c, h, number, value))
    elif number == 0x7D0:
        if not 1 <= value <= 3:
            return False
        h.pwstate = value
    elif number == 0x7D1:
        if not 1 <= value <= 16:
            return False
        change_clock(m, c, c.cycle + 1, value, c.stopped)
    elif number == 0x7D2:
        if value > 7:
            return False
        change_clock(m, c, c.cycle + 1, c.clock.speed, value)
    elif 0x7D3 <= number < 0x7D7:
        return set_own_part(m, h, number - 0x7D3, value)
    elif number == 0x803:
        if value & 7 or not in_ram(m, value, 128):
            return False
        h.cost = m.switching
        synchronise(m, value)
    elif number == 0x800:
        write_signals(m, c, h, after, value)
    elif number == 0x801:
        return told_profile(m, c, h, number, value, authorise(m, c, h, value))
    elif number == 0x802:
        ask_for_trace(h, value & 1)
    elif number == 0x7D8:
        if not is_resource(&c.unit, value):
            return False
        c.unit.selected = value
    elif number == 0x7D9:
        return c.unit.exists and write_resource(m, c, c.unit.selected, value)
    # The other registers are read as zero, or only the machine changes them: writing them has no effect.
    return True
