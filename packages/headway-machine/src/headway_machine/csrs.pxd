"""What reads and writes of control and status registers do, by the table of them in `csr_table`."""

from libc.stdint cimport int64_t, uint32_t, uint64_t

from .division cimport own_part, set_own_part
from .architecture cimport *
from .clocks cimport cycle_of, end_tick, set_clock
from .csr_table cimport *
from .devices cimport look_for_interrupts, timer_now
from .events cimport is_resource, read_resource, write_resource
from .power cimport PROFILING, settle_core
from .polling cimport clear_latches, set_gap
from .progress_unit cimport correct, find_first_range, look_again, settle
from .protection cimport set_guard, write_pmp
from .signals cimport TOLD_PROFILE, TOLD_RETURNS_TO, TOLD_WRITE, tell
from .structures cimport Core, Csr, Hart, Machine
from .threads cimport load_block, synchronise, wake
from .trace cimport TRACED, TRACE_ASKED, TRACE_PERMITTED, tell_clock
from .turns cimport wait_again

cdef enum:
    RV32IMACU = 0x40101105
    # Bytes of a thread's block, and of the state monitor's table.
    BLOCK_SIZE = 128
    TABLE_SIZE = 8192


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


cdef inline bint in_ram(Machine* m, uint32_t address, uint32_t size) noexcept nogil:
    return address - RAM < m.ram_size and size <= m.ram_size - (address - RAM)


cdef inline void write_status(Machine* m, Hart* h, uint32_t value) noexcept nogil:
    """Write mstatus. MPP is machine or user mode."""
    if value & MPP != MPP:
        value &= ~<uint32_t>MPP
    h.mstatus = value
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
    clear_latches(m, h, cycle, h.latches if value & 2 else 0)
    find_first_range(m, h)
    look_again(m, c, h, cycle, False)
    if was and not h.latch:
        correct(m, c, h)


cdef inline void end_polls(Machine* m, Core* c, Hart* h, int64_t cycle, uint32_t kept) noexcept nogil:
    """Write hwpoll, by which a program ends its polling of devices."""
    clear_latches(m, h, cycle, h.latches & kept)
    look_again(m, c, h, cycle, True)


cdef inline void write_signals(Machine* m, Core* c, Hart* h, int64_t cycle, uint32_t value) noexcept nogil:
    """Write hwsw, by which a program marks its regions."""
    cdef uint32_t cleared = h.signals & ~value & (SWNE | KPSW)
    h.signals = value
    look_again(m, c, h, cycle, not cleared)
    if cleared:
        correct(m, c, h)


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


cdef inline void ask_for_trace(Hart* h, bint asked) noexcept nogil:
    """Write hwtrace: the program asks for its trace to start or to stop with the next instruction."""
    h.traced.wanted = h.traced.wanted & ~<uint32_t>TRACE_ASKED | (TRACE_ASKED if asked else 0)
    if h.traced.wanted & TRACE_PERMITTED:
        h.attention |= TRACED


cdef inline uint32_t* field_of(Hart* h, Csr* csr) noexcept nogil:
    return <uint32_t*>(<char*>h + csr.place)


cdef inline bint is_user_counter(uint32_t number) noexcept nogil:
    """Return whether the register is cycle, time, instret, hpmcounter3-31 or one of their high words."""
    return number & ~(HIGH | 0x1Fu) == 0xC00


cdef inline uint32_t counter_of(Machine* m, Core* c, Hart* h, Csr* csr) noexcept nogil:
    """Return a counter of the hart with its value before this instruction."""
    settle(m, c, h, h.free)
    return word(h.counters[csr.which], csr.high)


cdef inline uint32_t core_counter_of(Core* c, Csr* csr) noexcept nogil:
    settle_core(c, c.cycle)
    return word(c.counters[UNHALTED + csr.which], csr.high)


cdef inline uint32_t state_number(Machine* m, Core* c, Hart* h) noexcept nogil:
    """Do a read of hwstate: bring the monitor's table up to date, and return the number of the state."""
    settle(m, c, h, h.free)
    return <uint32_t>h.state


cdef inline uint32_t value_of(Machine* m, Core* c, Hart* h, Csr* csr) noexcept nogil:
    """Return what a register that exists reads as."""
    cdef int reads = csr.reads
    if reads == FIELD:
        return field_of(h, csr)[0]
    if reads == COUNTER:
        return counter_of(m, c, h, csr)
    if reads == CYCLE:
        return word(cycles_of(c, h), csr.high)
    if reads == TIME:
        return word(timer_now(m), csr.high)
    if reads == INSTRET:
        return word(instructions_of(h), csr.high)
    if reads == CORE_COUNTER:
        return core_counter_of(c, csr)
    if reads == LATCH:
        return h.latch | (2 if h.latches else 0)
    if reads == LATCHES:
        return h.latches
    if reads == STATE:
        return state_number(m, c, h)
    if reads == SPEED:
        return <uint32_t>c.clock.speed
    if reads == DUTY:
        return c.stopped
    if reads == PART:
        return own_part(h, <uint32_t>csr.which)
    if reads == ASKED:
        return 1 if h.traced.wanted & TRACE_ASKED else 0
    if reads == SELECTED:
        return c.trace_unit.selected
    if reads == SELECTED_VALUE:
        return read_resource(&c.trace_unit, c.trace_unit.selected)
    return RV32IMACU if reads == MISA else 0


cdef inline bint read_csr(Machine* m, Core* c, Hart* h, uint32_t number, uint32_t* value) noexcept nogil:
    """Read a register. Return False if there is no such register for this hart at its current privilege."""
    cdef Csr* csr = &m.csrs[number]
    value[0] = 0
    if csr.reads == ABSENT or number >> 8 & 3 > h.privilege:
        return False
    if h.privilege != MACHINE and is_user_counter(number) and not h.mcounteren >> (number & 31) & 1:
        return False
    value[0] = value_of(m, c, h, csr)
    return True


cdef inline void inhibit(Core* c, Hart* h, uint32_t value) noexcept nogil:
    """Write mcountinhibit: mcycle and minstret stop, or go on from where they stopped."""
    cdef uint32_t changed = h.mcountinhibit ^ value
    if changed & 1:
        h.mcycle_held = cycles_of(c, h)
        h.mcycle = h.mcycle_held - <uint64_t>c.cycle
    if changed & 4:
        h.minstret_held = instructions_of(h)
        h.minstret = h.minstret_held - <uint64_t>h.instret
    h.mcountinhibit = value


cdef inline void set_cycle(Core* c, Hart* h, bint high, uint32_t value) noexcept nogil:
    h.mcycle_held = with_word(cycles_of(c, h), high, value)
    h.mcycle = h.mcycle_held - <uint64_t>c.cycle - 1


cdef inline void set_instret(Hart* h, bint high, uint32_t value) noexcept nogil:
    h.minstret_held = with_word(instructions_of(h) - (not held(h, 2)), high, value)
    h.minstret = h.minstret_held - <uint64_t>h.instret


cdef inline void set_counter(Machine* m, Core* c, Hart* h, Csr* csr, int64_t after, uint32_t value) noexcept nogil:
    settle(m, c, h, after)
    h.counters[csr.which] = with_word(h.counters[csr.which], csr.high, value)


cdef inline void set_core_counter(Core* c, Csr* csr, uint32_t value) noexcept nogil:
    cdef uint64_t* counter = &c.counters[UNHALTED + csr.which]
    settle_core(c, c.cycle + 1)
    counter[0] = with_word(counter[0], csr.high, value)


cdef inline void set_control(Machine* m, Core* c, Hart* h, int64_t after, uint32_t value) noexcept nogil:
    """Write hwctl, on which the hart's state depends."""
    settle(m, c, h, after)
    h.control = value
    look_again(m, c, h, after, True)


cdef inline bint is_block(Machine* m, uint32_t address, uint32_t size) noexcept nogil:
    """Return whether a block of a thread, or a table, may be at the address."""
    return not address & 7 and in_ram(m, address, size)


cdef inline bint switch_thread(Machine* m, Core* c, Hart* h, int64_t after, uint32_t block) noexcept nogil:
    """Write hwblock: the hart runs another thread, or none (0)."""
    if block and not is_block(m, block, BLOCK_SIZE):
        return False
    h.cost = m.switching
    load_block(m, c, h, after, block)
    return True


cdef inline bint wake_thread(Machine* m, Core* c, Hart* h, int64_t after, uint32_t block) noexcept nogil:
    """Write hwwake."""
    if not is_block(m, block, BLOCK_SIZE):
        return False
    wake(m, h, block, end_tick(c, after))
    return True


cdef inline bint synchronise_thread(Machine* m, Hart* h, uint32_t block) noexcept nogil:
    """Write hwsync."""
    if not is_block(m, block, BLOCK_SIZE):
        return False
    h.cost = m.switching
    synchronise(m, block)
    return True


cdef inline bint set_monitor(Machine* m, Core* c, Hart* h, int64_t after, uint32_t table) noexcept nogil:
    """Write hwmon: the table in RAM that the state monitor adds to; 0: none."""
    if table and not is_block(m, table, TABLE_SIZE):
        return False
    settle(m, c, h, after)
    h.monitor = table
    return True


cdef inline bint set_power_state(Hart* h, uint32_t value) noexcept nogil:
    if not 1 <= value <= 3:
        return False
    h.pwstate = value
    return True


cdef inline bint set_speed(Machine* m, Core* c, uint32_t value) noexcept nogil:
    if not 1 <= value <= 16:
        return False
    change_clock(m, c, c.cycle + 1, value, c.stopped)
    return True


cdef inline bint set_duty(Machine* m, Core* c, uint32_t value) noexcept nogil:
    if value > 7:
        return False
    change_clock(m, c, c.cycle + 1, c.clock.speed, value)
    return True


cdef inline bint select(Core* c, uint32_t value) noexcept nogil:
    """Write hwtsel: select a register of the trace unit."""
    if not is_resource(&c.trace_unit, value):
        return False
    c.trace_unit.selected = value
    return True


cdef inline bint set_profile(Hart* h, Csr* csr, uint32_t value) noexcept nogil:
    """Write a register of the profile buffer. Return False if the buffer is authorised or the value is not allowed."""
    cdef uint32_t* field = field_of(h, csr)
    if h.authorised or field == &h.profile and value > 3 or field == &h.profile_base and value & 7:
        return False
    field[0] = value
    if field == &h.profile_seen:
        h.profile_head = value
    elif field == &h.profile_period:
        h.profile_left = value
    return True


cdef inline bint set_value(Machine* m, Core* c, Hart* h, Csr* csr, int64_t after, uint32_t value) noexcept nogil:
    """Do what a write of the register does, with effect from a cycle on. Return False if the value is not allowed."""
    cdef int writes = csr.writes
    if writes == SET:
        field_of(h, csr)[0] = value
    elif writes == SET_SIGNALS:
        write_signals(m, c, h, after, value)
    elif writes == SET_COUNTER:
        set_counter(m, c, h, csr, after, value)
    elif writes == SWITCH_THREAD:
        return switch_thread(m, c, h, after, value)
    elif writes == WAKE_THREAD:
        return wake_thread(m, c, h, after, value)
    elif writes == SYNCHRONISE_THREAD:
        return synchronise_thread(m, h, value)
    elif writes == SET_STATUS:
        write_status(m, h, value)
    elif writes == SET_ENABLED:
        h.mie = value
        look_for_interrupts(m, h)
    elif writes == SET_INHIBITED:
        inhibit(c, h, value)
    elif writes == SET_PROTECTION:
        write_pmp(h, csr.number, value)
        set_guard(h)
    elif writes == SET_CYCLE:
        set_cycle(c, h, csr.high, value)
    elif writes == SET_INSTRET:
        set_instret(h, csr.high, value)
    elif writes == SET_CORE_COUNTER:
        set_core_counter(c, csr, value)
    elif writes == SET_CONTROL:
        set_control(m, c, h, after, value)
    elif writes == CLEAR_LATCH:
        clear_latch(m, c, h, after, value)
    elif writes == CLEAR_LATCHES:
        end_polls(m, c, h, after, value)
    elif writes == SET_GAP:
        set_gap(m, h, after, value)
    elif writes == SET_MONITOR:
        return set_monitor(m, c, h, after, value)
    elif writes == SET_PROFILE:
        return set_profile(h, csr, value)
    elif writes == AUTHORISE:
        return authorise(m, c, h, value)
    elif writes == SET_POWER_STATE:
        return set_power_state(h, value)
    elif writes == SET_SPEED:
        return set_speed(m, c, value)
    elif writes == SET_DUTY:
        return set_duty(m, c, value)
    elif writes == SET_PART:
        return set_own_part(m, h, <uint32_t>csr.which, value)
    elif writes == ASK_FOR_TRACE:
        ask_for_trace(h, value)
    elif writes == SELECT_VALUE:
        return select(c, value)
    elif writes == SET_SELECTED_VALUE:
        return c.trace_unit.exists and write_resource(m, c, c.trace_unit.selected, value)
    return True


cdef inline bint write_csr(Machine* m, Core* c, Hart* h, uint32_t number, uint32_t value) noexcept nogil:
    """Write a register with effect from the cycle after this instruction's. Return False if the value is not allowed.

    The caller has read it, and has counted the instruction as retired.
    """
    cdef int64_t after = h.free + m.quantum
    cdef Csr* csr = &m.csrs[number]
    cdef bint done
    if number >> 10 == 3:
        return False
    if unlikely(m.signals.on != 0) and csr.told == TOLD_WRITE:
        tell(m, h, TOLD_RETURNS_TO, after, h.mepc, 0)
        tell(m, h, TOLD_WRITE, after, value, number)
    done = set_value(m, c, h, csr, after, value & csr.bits)
    if unlikely(m.signals.on != 0) and csr.told == TOLD_PROFILE:
        tell(m, h, TOLD_PROFILE, c.cycle, value, number | (0 if done else 1 << 16))
    return done
