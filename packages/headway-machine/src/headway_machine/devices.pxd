"""CLINT, PLIC, UART and block device, and what the configuration schedules of them (docs/machine.md, section 3)."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport realloc
from libc.string cimport memcpy

from .architecture cimport *
from .code cimport forget_code
from .external cimport EXTERNAL_BYTE, EXTERNAL_LINE, EXTERNAL_SMI, note_external, note_lines
from .power cimport INTERRUPTED, clocks_again, rouse, start_hart, stop_clocks
from .polling cimport note_check
from .signals cimport TOLD_CHECK, tell
from .structures cimport STOP_NO_MEMORY, Core, Hart, Machine, Source, StatusRegister


cdef enum:  # What an Access does
    DEVICE_LOAD = 0
    DEVICE_STORE = 1
    DEVICE_DUE = 2
    MAX_WINDOWS = 16


cdef inline void look_for_interrupts(Machine* m, Hart* h) noexcept nogil:
    """Update whether the hart must take an interrupt, after something that decides about it has changed."""
    if h.mip & h.mie:
        if h.halted:
            rouse(m, &m.cores[h.core], h)
        if h.privilege != MACHINE or h.mstatus & MIE:
            h.attention |= INTERRUPTED
            return
    h.attention &= ~<uint32_t>INTERRUPTED


cdef inline void set_pending(Machine* m, Hart* h, int interrupt, bint pending) noexcept nogil:
    cdef uint32_t mip = h.mip & ~(1u << interrupt)
    if pending:
        mip |= 1u << interrupt
    if mip != h.mip:
        h.mip = mip
        look_for_interrupts(m, h)


cdef inline uint64_t timer_now(Machine* m) noexcept nogil:
    return <uint64_t>(m.now // m.divider + m.timer_offset)


cdef inline void look_at_timers(Machine* m) noexcept nogil:
    """Find which timers have expired, and when the next one will."""
    cdef uint64_t now = timer_now(m), compare
    cdef int i
    for i in range(m.harts_count):
        compare = <uint64_t>m.compare[i]
        set_pending(m, &m.harts[i], TIMER_INTERRUPT, now >= compare)
    m.timer_next = NEVER
    for i in range(m.harts_count):
        compare = <uint64_t>m.compare[i]
        if now < compare:
            if compare - now < (<uint64_t>1 << 61) // <uint64_t>m.divider:
                m.timer_next = min(m.timer_next, (<int64_t>(compare - now) + m.now // m.divider) * m.divider)


cdef inline uint32_t waiting_sources(Machine* m, int hart) noexcept nogil:
    return (m.pending | m.level) & ~m.claimed & m.enabled[hart]


cdef inline uint32_t best_source(Machine* m, int hart) noexcept nogil:
    """Return the source that the hart would claim: the highest priority above its threshold, then the lowest number.

    0: none.
    """
    cdef uint32_t waiting = waiting_sources(m, hart), best = 0, i, priority = m.threshold[hart]
    for i in range(1, 32):
        if waiting >> i & 1 and m.priority[i] > priority:
            best = i
            priority = m.priority[i]
    return best


cdef inline void look_at_plic(Machine* m) noexcept nogil:
    cdef int i
    m.level = m.held_up | m.attached_up
    if m.received_count and m.uart_enable & 1:
        m.level |= 2
    if m.sending_count < 16 and m.uart_enable & 2:
        m.level |= 4
    if m.block_done and m.block_enable & 1:
        m.level |= 8
    note_lines(m)
    for i in range(m.harts_count):
        set_pending(m, &m.harts[i], EXTERNAL_INTERRUPT, m.enabled[i] and best_source(m, i) != 0)


cdef inline void note_sent(Machine* m, uint8_t byte) noexcept nogil:
    cdef uint8_t* larger
    if m.sent_count == m.sent_room:
        larger = <uint8_t*>realloc(m.sent, m.sent_room * 2 + 256)
        if larger == NULL:
            m.stop = STOP_NO_MEMORY
            return
        m.sent = larger
        m.sent_room = m.sent_room * 2 + 256
    m.sent[m.sent_count] = byte
    m.sent_count += 1


cdef inline void do_block_command(Machine* m) noexcept nogil:
    """Finish the current command of the block device. The data moves now, at the command's end."""
    cdef uint64_t bytes = <uint64_t>m.block_count * 512, first = m.block_address
    cdef uint8_t* at
    m.block_at = NEVER
    m.block_done = 1
    m.block_status = 2
    if <uint64_t>m.block_sector + m.block_count > m.sectors or first < RAM or first - RAM + bytes > m.ram_size:
        return
    if m.block_command not in (1, 2):
        return
    m.block_status = 1
    at = m.blocks + <uint64_t>m.block_sector * 512
    if m.block_command == 2:
        memcpy(at, m.ram + (first - RAM), bytes)
    elif bytes:
        memcpy(m.ram + (first - RAM), at, bytes)
        forget_code(m, <uint32_t>first, <uint32_t>bytes)


cdef inline bint any_hart_goes_on(Machine* m) noexcept nogil:
    """Return whether any hart is not halted, or waits for the bus."""
    cdef int i
    for i in range(m.harts_count):
        if m.harts[i].started and not m.harts[i].halted:
            return True
    return False


cdef inline void find_next_event(Machine* m) noexcept nogil:
    cdef int64_t at = min(min(m.timer_next, m.block_at, m.sent_at), m.attached_at)
    cdef int i
    if m.uart_next < m.uart_length:
        at = min(at, m.uart_at[m.uart_next])
    for i in range(m.sources_count):
        if m.sources[i].left:
            at = min(at, m.sources[i].next)
    if m.external_fired:
        at = min(at, m.now + 1)
    if m.smi_until:
        at = min(at, m.smi_until)
    elif at != NEVER or any_hart_goes_on(m):
        # If nothing else will ever happen, system-management interrupts have nothing to interrupt.
        at = min(at, m.smi_next)
    m.next_event = at


cdef inline void handle_events(Machine* m) noexcept nogil:
    """Do everything that devices do at tick `now`."""
    cdef int i
    cdef Source* source
    if m.smi_until and m.smi_until <= m.now:
        clocks_again(m)
    if not m.smi_until and m.smi_next <= m.now:
        m.smi_next = m.now + m.smi_every if m.smi_every else NEVER
        stop_clocks(m)
        if m.external:
            note_external(m, EXTERNAL_SMI, 0)
    while m.uart_next < m.uart_length and m.uart_at[m.uart_next] <= m.now:
        if m.received_count == 256:
            m.uart_lost += 1
        else:
            m.received[(m.received_head + m.received_count) & 255] = m.uart_input[m.uart_next]
            m.received_count += 1
        if m.external:
            note_external(m, EXTERNAL_BYTE, m.uart_input[m.uart_next])
        m.uart_next += 1
    if m.sent_at <= m.now:
        note_sent(m, m.sending[m.sending_head])
        m.sending_head = (m.sending_head + 1) & 15
        m.sending_count -= 1
        m.sent_at = m.now + m.uart_tick if m.sending_count else NEVER
    if m.block_at <= m.now:
        do_block_command(m)
    for i in range(m.sources_count):
        source = &m.sources[i]
        if source.left and source.next <= m.now:
            m.lost_interrupts += m.pending >> source.number & 1
            m.pending |= 1u << source.number
            if m.external:
                # Each edge is an event, that of a pending line too.
                m.lines_seen |= 1u << source.number
                note_external(m, EXTERNAL_LINE, source.number)
            source.next += source.every
            source.left -= 1
    if m.attached_at <= m.now:
        m.attached_at = NEVER
        m.access(m.attached, DEVICE_DUE, 0, NULL)
    look_at_plic(m)
    look_at_timers(m)
    find_next_event(m)


cdef inline bint is_attached(Machine* m, uint32_t address) noexcept nogil:
    """Return whether the address is one of a device that is not of the machine."""
    cdef int i
    for i in range(m.windows):
        if address - m.window_start[i] < m.window_size[i]:
            return True
    return False


cdef inline void check_status(Machine* m, Hart* h, uint32_t address, uint32_t value) noexcept nogil:
    """Update the poll latch of the device, if the register is a status register.

    A check that finds nothing begins polling, and the first that finds something ends it.
    """
    cdef StatusRegister* register
    cdef int64_t after = h.free + m.quantum
    cdef bint ready
    cdef int i
    for i in range(m.polls_count):
        register = &m.polls[i]
        if register.address == address:
            value &= register.mask
            ready = value != 0 if register.any else value == register.ready
            if not h.latch:
                note_check(m, h, after, register.state, ready)
            if m.signals.on:
                tell(m, h, TOLD_CHECK, after, ready, register.state)
            return


cdef inline bint device_load(Machine* m, Hart* h, uint32_t address, uint32_t* value) noexcept nogil:
    """Load 32 bits from a device, for a program. Return False if there is no device register at the address."""
    if not read_register(m, address, value):
        return False
    check_status(m, h, address, value[0])
    return True


cdef inline bint read_clint(Machine* m, uint32_t offset, uint32_t* value) noexcept nogil:
    """Read the software interrupts, compare registers and the time of the CLINT."""
    if offset < <uint32_t>(4 * m.harts_count):
        value[0] = m.software[offset >> 2]
    elif offset - 0x4000 < <uint32_t>(8 * m.harts_count):
        value[0] = <uint32_t>(<uint64_t>m.compare[(offset - 0x4000) >> 3] >> (32 if offset & 4 else 0))
    elif offset & ~4u == 0xBFF8:
        value[0] = <uint32_t>(timer_now(m) >> (32 if offset & 4 else 0))
    else:
        return False
    return True


cdef inline uint32_t claim(Machine* m, int hart) noexcept nogil:
    """Give the hart the source that it would claim; 0: none."""
    cdef uint32_t source = best_source(m, hart)
    if source:
        m.claimed |= 1u << source
        m.pending &= ~(1u << source)
        look_at_plic(m)
    return source


cdef inline bint read_plic(Machine* m, uint32_t offset, uint32_t* value) noexcept nogil:
    cdef uint32_t hart = (offset - 0x200000) >> 12
    if offset < 128:
        value[0] = m.priority[offset >> 2]
    elif offset == 0x1000:
        value[0] = (m.pending | m.level) & ~m.claimed
    elif offset - 0x2000 < <uint32_t>(0x80 * m.harts_count) and not offset & 0x7C:
        value[0] = m.enabled[(offset - 0x2000) >> 7]
    elif offset - 0x200000 < <uint32_t>(0x1000 * m.harts_count) and not offset & 0xFF8:
        value[0] = claim(m, <int>hart) if offset & 4 else m.threshold[hart]
    else:
        return False
    return True


cdef inline uint32_t receive(Machine* m) noexcept nogil:
    """Take the next byte that the UART has received; all ones: there is none."""
    cdef uint32_t byte
    if not m.received_count:
        return 0xFFFFFFFFu
    byte = m.received[m.received_head]
    m.received_head = (m.received_head + 1) & 255
    m.received_count -= 1
    look_at_plic(m)
    return byte


cdef inline uint32_t read_uart(Machine* m, uint32_t offset) noexcept nogil:
    if offset == 0:
        return receive(m)
    if offset == 4:
        return m.received_count > 0
    if offset == 12:
        return m.sending_count < 16
    return m.uart_enable if offset == 16 else 0


cdef inline uint32_t read_block_device(Machine* m, uint32_t offset) noexcept nogil:
    if offset == 0:
        return m.block_sector
    if offset == 4:
        return m.block_address
    if offset == 8:
        return m.block_count
    if offset == 12:
        return m.block_command
    if offset == 16:
        return m.block_status
    if offset == 20:
        return m.block_enable
    return m.sectors if offset == 24 else 0


cdef inline uint32_t read_description(Machine* m, uint32_t offset) noexcept nogil:
    """Read what the machine is."""
    if offset == 0:
        return <uint32_t>m.cores_count
    if offset == 4:
        return <uint32_t>m.threads
    if offset == 8:
        return m.ram_size
    if offset == 12:
        return m.tcm_size
    if offset == 16:
        return <uint32_t>m.divider
    if offset == 20:
        return <uint32_t>m.strict
    if offset == 24:
        return m.cores[0].icache.ways
    if offset == 28:
        return m.cores[0].dcache.ways
    return m.l2.ways if offset == 32 else <uint32_t>m.bus_window


cdef inline bint read_register(Machine* m, uint32_t address, uint32_t* value) noexcept nogil:
    """Read a device's register, with what that does. Return False if there is no register at the address."""
    cdef uint32_t offset = address & 0xFFFFFF
    value[0] = 0
    if address - CLINT < 0x10000:
        return read_clint(m, offset, value)
    if address - PLIC < 0x400000:
        return read_plic(m, offset, value)
    if address - UART < 20:
        value[0] = read_uart(m, offset)
    elif address - BLOCK < 32:
        value[0] = read_block_device(m, offset & 0xFFFF)
    elif address - DESCRIPTION < 40:
        value[0] = read_description(m, offset & 0xFFFF)
    else:
        return m.windows and is_attached(m, address) and m.access(m.attached, DEVICE_LOAD, address, value)
    return True


cdef inline uint64_t half(uint64_t old, uint32_t offset, uint32_t value) noexcept nogil:
    """Return a 64-bit register after a write of one of its words."""
    if offset & 4:
        return old & 0xFFFFFFFFu | <uint64_t>value << 32
    return old >> 32 << 32 | value


cdef inline uint32_t value_or(uint32_t value, uint32_t limit) noexcept nogil:
    """Return the smaller of the two, because no command takes longer than one for the whole device."""
    return value if value < limit else limit


cdef inline bint write_clint(Machine* m, uint32_t offset, uint32_t value) noexcept nogil:
    cdef uint32_t hart = offset >> 2
    if offset < <uint32_t>(4 * m.harts_count):
        m.software[hart] = value & 1
        set_pending(m, &m.harts[hart], SOFTWARE_INTERRUPT, value & 1)
        if value & 1 and not m.harts[hart].started:
            start_hart(m, &m.cores[m.harts[hart].core], &m.harts[hart])
    elif offset - 0x4000 < <uint32_t>(8 * m.harts_count):
        hart = (offset - 0x4000) >> 3
        m.compare[hart] = <int64_t>half(<uint64_t>m.compare[hart], offset, value)
        look_at_timers(m)
    elif offset & ~4u == 0xBFF8:
        m.timer_offset = <int64_t>(half(timer_now(m), offset, value) - <uint64_t>(m.now // m.divider))
        look_at_timers(m)
    else:
        return False
    find_next_event(m)
    return True


cdef inline bint write_plic(Machine* m, uint32_t offset, uint32_t value) noexcept nogil:
    if 0 < offset < 128:
        m.priority[offset >> 2] = value & 7
    elif offset - 0x2000 < <uint32_t>(0x80 * m.harts_count) and not offset & 0x7C:
        m.enabled[(offset - 0x2000) >> 7] = value & ~1u
    elif offset - 0x200000 < <uint32_t>(0x1000 * m.harts_count) and not offset & 0xFF8:
        if offset & 4:
            m.claimed &= ~(1u << (value & 31))
        else:
            m.threshold[(offset - 0x200000) >> 12] = value & 7
    elif offset >= 128:
        return False
    look_at_plic(m)
    return True


cdef inline void transmit(Machine* m, uint8_t byte) noexcept nogil:
    """Queue a byte for the UART to send; while the queue is full, the byte is dropped."""
    if m.sending_count == 16:
        return
    m.sending[(m.sending_head + m.sending_count) & 15] = byte
    m.sending_count += 1
    if m.sent_at == NEVER:
        m.sent_at = m.now + m.uart_tick
        find_next_event(m)


cdef inline bint write_uart(Machine* m, uint32_t offset, uint32_t value) noexcept nogil:
    if offset == 8:
        transmit(m, <uint8_t>value)
    elif offset == 16:
        m.uart_enable = value & 3
    else:
        return offset != 0
    look_at_plic(m)
    return True


cdef inline void begin_block_command(Machine* m, uint32_t command) noexcept nogil:
    m.block_command = command
    m.block_status = 0
    m.block_done = 0
    m.block_at = m.now + m.block_latency + m.block_each * <int64_t>value_or(m.block_count, m.sectors)
    find_next_event(m)


cdef inline void write_block_device(Machine* m, uint32_t offset, uint32_t value) noexcept nogil:
    if offset == 20:
        m.block_enable = value & 1
    elif offset == 28:
        m.block_done = 0
    elif offset < 16 and not m.block_status:
        # The device is busy: the registers of a command cannot be changed while it runs.
        return
    elif offset == 0:
        m.block_sector = value
    elif offset == 4:
        m.block_address = value
    elif offset == 8:
        m.block_count = value
    elif offset == 12:
        begin_block_command(m, value)
    look_at_plic(m)


cdef inline bint device_store(Machine* m, Hart* h, uint32_t address, uint32_t value) noexcept nogil:
    """Store 32 bits to a device. Return False if there is no register at the address, or if it cannot be written."""
    cdef uint32_t offset = address & 0xFFFFFF
    if address - CLINT < 0x10000:
        return write_clint(m, offset, value)
    if address - PLIC < 0x400000:
        return write_plic(m, offset, value)
    if address - UART < 20:
        return write_uart(m, offset, value)
    if address - BLOCK < 32:
        write_block_device(m, offset & 0xFFFF, value)
        return True
    return m.windows and is_attached(m, address) and m.access(m.attached, DEVICE_STORE, address, &value)
