"""The trace unit, which encodes what a core's harts do, cycle by cycle, as packets (headway-trace/docs/trace-format.md).

A hart is watched at four places: before its turn, in the gap before it, when it has retired an instruction, and when it
has trapped. What it did becomes atoms, and atoms become packets. The packets of one hart are sent in groups, so that
the packets do not have to name the hart. A group for which the FIFO has no room is lost as a whole, and its hart is not
traced until there is room.

The log records the same in the simplest form, with one entry for each span of time. It is made without the trace unit,
so that tests can compare the decoded trace with it.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport realloc
from libc.string cimport memcmp, memcpy, memset

from .architecture cimport *
from .clocks cimport tick_of
from .etrace cimport encode_retired, encode_trap, stop_encoder, watch_encoder_turn
from .port cimport fill, fits, have_room, id_of, keep_bytes
from .structures cimport STOP_NO_MEMORY, Core, Decoded, Hart, Loaded, Logged, Machine, Traced, TraceUnit

cdef enum:  # Attention
    TRACED = 8
    LOGGED = 16
    # The signals of its cycles are told.
    SIGNALLED = 128
    WATCHED = 152

cdef enum:  # Wanted
    TRACE_PERMITTED = 1
    TRACE_ASKED = 2
    TRACE_IN_STATE = 4
    TRACE_WANTED = 7

# What a counter of the profile counts.
cdef enum:  # Source
    DATA_MISSES = 0
    DATA_STALLS = 1
    CODE_MISSES = 2
    CODE_STALLS = 3
    TLB_MISSES = 4
    ALL_STALLS = 5
    TLB_STALLS = 6
    EXTERNAL_STALLS = 7
    DEPENDENCIES = 8
    REFILLS = 9
    SLOTS = 10
    RETIRED = 11
    TAKEN = 12
    TRAPPED_ENTRIES = 13
    BANK_CONFLICTS = 14
    SOURCES = 15

cdef enum:
    # The size in bytes at which a group is sent.
    GROUP = 30
    LARGEST_HEAD = 84
    # Bytes between two checks.
    VOUCHED = 256
    MAX_LOADED = 16
    # Cycles that a packet can tell.
    MOST_STALLED = (1 << 28) - 1


# --- bytes ---

cdef inline uint32_t crc_of(Machine* m, uint32_t check, uint8_t* bytes, int count) noexcept nogil:
    """Return a CRC-32, not complemented, with these bytes added: four at a time, each from a table of its own."""
    cdef uint32_t word
    while count >= 4:
        memcpy(&word, bytes, 4)
        check ^= word
        check = (
            m.crc[3][check & 0xFF] ^ m.crc[2][check >> 8 & 0xFF] ^ m.crc[1][check >> 16 & 0xFF] ^ m.crc[0][check >> 24]
        )
        bytes += 4
        count -= 4
    while count:
        check = m.crc[0][(check ^ bytes[0]) & 0xFF] ^ (check >> 8)
        bytes += 1
        count -= 1
    return check


cdef inline void add_parity(uint8_t* parity, uint8_t* bytes, int count) noexcept nogil:
    """Add bytes to as many columns of the parity."""
    cdef uint64_t word, sum_
    while count >= 8:
        memcpy(&word, bytes, 8)
        memcpy(&sum_, parity, 8)
        sum_ ^= word
        memcpy(parity, &sum_, 8)
        bytes += 8
        parity += 8
        count -= 8
    while count:
        count -= 1
        parity[count] ^= bytes[count]


cdef inline void check_bytes(Machine* m, TraceUnit* u, uint8_t* bytes, int count) noexcept nogil:
    """Add bytes of a segment to its check, its length and its parity."""
    cdef int some
    u.check = crc_of(m, u.check, bytes, count)
    u.length += <uint32_t>count
    while count:
        some = min(count, COLUMNS - <int>u.column)
        add_parity(u.parity + u.column, bytes, some)
        u.column += <uint32_t>some
        if u.column == COLUMNS:
            u.column = 0
        bytes += some
        count -= some


cdef inline int put_varint(uint8_t* at, uint64_t value) noexcept nogil:
    """Write a number with seven bits in each byte, lowest first; bit 7 says that another byte follows."""
    cdef int n = 0
    while value > 0x7F:
        at[n] = <uint8_t>(value | 0x80)
        value >>= 7
        n += 1
    at[n] = <uint8_t>value
    return n + 1


cdef inline int put_word(uint8_t* at, uint32_t value, int bytes) noexcept nogil:
    cdef int i
    for i in range(bytes):
        at[i] = <uint8_t>(value >> 8 * i)
    return bytes


# --- what concerns all threads ---

cdef inline int put_clock(Core* c, uint8_t* at, int64_t cycle, int64_t tick, bint ends) noexcept nogil:
    """Write the tick of a cycle of the core, and how its clock runs from there on; ``ends``: the trace ends there."""
    cdef int n = put_varint(at, <uint64_t>cycle)
    n += put_varint(at + n, <uint64_t>tick)
    at[n] = <uint8_t>(0x80 | ends << 6 | c.clock.speed)
    n += 1
    n += put_varint(at + n, <uint64_t>c.clock.running)
    return n + put_varint(at + n, c.trace_unit.changes)


cdef inline void send(Machine* m, TraceUnit* u, uint8_t* bytes, int count) noexcept nogil:
    if have_room(m, u, count):
        check_bytes(m, u, bytes, count)
        keep_bytes(u, bytes, count)
        fill(u, count)


cdef inline int put_tail(TraceUnit* u, uint8_t* at) noexcept nogil:
    """Write the tail of a segment: check, length and parity, under a mask that makes every byte nonzero."""
    cdef uint32_t mask = 1
    cdef int i = 0
    put_word(at + 1, ~u.check, 4)
    put_word(at + 5, u.length, 3)
    memcpy(at + 8, u.parity, COLUMNS)
    while i < TAIL - 1:
        i += 1
        if at[i] == mask:
            mask += 1
            i = 0
    at[0] = <uint8_t>mask
    for i in range(1, TAIL):
        at[i] ^= <uint8_t>mask
    return TAIL


cdef inline void send_head(Machine* m, Core* c, int64_t cycle, int64_t tick, bint ends) noexcept nogil:
    """Send an A-sync, which ends a segment and begins the next.

    Unless the trace ends, every thread's periodic I-sync is due.
    """
    cdef TraceUnit* u = &c.trace_unit
    cdef uint8_t bytes[LARGEST_HEAD]
    cdef int n, i
    memset(bytes, 0, 5)
    bytes[5] = ALIGN
    bytes[6] = HEAD
    n = 7 + put_tail(u, bytes + 7)
    n += put_word(bytes + n, u.number, 2)
    n += put_clock(c, bytes + n, cycle, tick, ends)
    u.number += 1
    u.check = 0xFFFFFFFFu
    u.length = u.column = u.vouched = 0
    memset(u.parity, 0, COLUMNS)
    send(m, u, bytes, n)
    u.left = u.period
    u.thread = -1
    u.anchor = cycle // m.quantum
    for i in range(0 if ends else c.threads):
        c.harts[i].traced.due = c.harts[i].traced.on
        if c.harts[i].halted and c.harts[i].traced.on:
            tell_sleep(m, c, &c.harts[i], cycle)


cdef inline void tell_sleep(Machine* m, Core* c, Hart* h, int64_t cycle) noexcept nogil:
    """Send, after a head, the sleep so far and the I-sync of a halted hart, which has no turn in which to send them."""
    cdef Traced* t = &h.traced
    cdef int64_t from_ = max(h.free, t.told_until), to = cycle
    if m.strict:
        to = cycle // m.quantum * m.quantum + h.slot + 1 - m.quantum
    if to < from_:
        return
    add_stall(m, c, h, <uint32_t>(IN_SLEEP + h.halted - 1), (to - from_) // m.quantum)
    t.told_until = to
    if t.on:
        sync_again(m, c, h, to)


cdef inline void tell_clock(Machine* m, Core* c) noexcept nogil:
    """Send a clock packet after the core's clock has changed."""
    cdef TraceUnit* u = &c.trace_unit
    cdef uint8_t bytes[LARGEST_HEAD]
    if not u.number:
        return
    bytes[0] = CLOCK
    send(m, u, bytes, 1 + put_clock(c, bytes + 1, c.clock.cycle, c.clock.tick, False))


cdef inline void tell_changed(Machine* m, Core* c, uint32_t address) noexcept nogil:
    """Report that the instruction at the address is not the program's.

    This packet is never lost, to keep decoding correct.
    """
    cdef TraceUnit* u = &c.trace_unit
    cdef uint8_t bytes[8]
    if not u.exists or u.etrace:
        return
    if not u.number:
        send_head(m, c, c.cycle, m.now, False)
    u.changes += 1
    bytes[0] = CODE_CHANGED
    put_word(bytes + 1, address | 1, 4)
    send(m, u, bytes, 5)


cdef inline void compare_code(Machine* m, Core* c, uint32_t address, uint8_t* now, uint32_t size) noexcept nogil:
    """Report an instruction that has just been decoded if it differs from what was loaded there."""
    cdef Loaded* part
    cdef int i, k
    for i in range(m.loaded_count):
        part = &m.loaded[i]
        if address - part.start < part.size and size <= part.size - (address - part.start):
            if memcmp(part.bytes + (address - part.start), now, size):
                for k in range(m.cores_count):
                    if address >= RAM or c == &m.cores[k]:
                        tell_changed(m, &m.cores[k], address)


cdef inline void vouch(Machine* m, Core* c) noexcept nogil:
    """Send a check of the segment so far if one is due.

    It confirms this part even if the rest of the segment is damaged.
    """
    cdef TraceUnit* u = &c.trace_unit
    cdef uint8_t bytes[5]
    if u.length < u.vouched + VOUCHED or not fits(c, sizeof(bytes)):
        return
    bytes[0] = CHECK
    put_word(bytes + 1, ~u.check, 4)
    send(m, u, bytes, sizeof(bytes))
    u.vouched = u.length


# --- packets of a thread ---

cdef inline void lose(Core* c, Hart* h) noexcept nogil:
    """Stop tracing the hart because of an overflow. The packets that are held back are lost, too."""
    h.traced.on = 0
    h.traced.lost = 1
    h.traced.length = 0
    h.traced.executed = 0
    h.traced.stalled = 0
    h.traced.single = 4
    h.traced.outcomes_count = h.traced.steps = 0
    h.traced.outcomes = 0
    c.trace_unit.groups_lost += 1


cdef inline bint send_group(Machine* m, Core* c, Hart* h) noexcept nogil:
    """Send the thread's packets that are held back. Return False if there was no room and they are lost."""
    cdef TraceUnit* u = &c.trace_unit
    cdef uint8_t select
    if not h.traced.length:
        return True
    vouch(m, c)
    if not fits(c, h.traced.length + 1):
        lose(c, h)
        return False
    if u.thread != h.slot:
        select = <uint8_t>(SELECT | h.slot << 4)
        send(m, u, &select, 1)
        u.thread = h.slot
    send(m, u, h.traced.group, h.traced.length)
    h.traced.length = 0
    return True


cdef inline void hold(Machine* m, Core* c, Hart* h, uint8_t* bytes, int count) noexcept nogil:
    """Add a packet to the thread's group."""
    memcpy(h.traced.group + h.traced.length, bytes, count)
    h.traced.length += count
    if h.traced.length >= GROUP:
        send_group(m, c, h)


cdef inline void hold_byte(Machine* m, Core* c, Hart* h, uint32_t byte) noexcept nogil:
    h.traced.group[h.traced.length] = <uint8_t>byte
    h.traced.length += 1
    if h.traced.length >= GROUP:
        send_group(m, c, h)


cdef inline uint32_t place_of_stall(Traced* t, uint32_t stall) noexcept nogil:
    """Return the place of a short stall among the last four (4: it is not among them), and make it the first of them.

    The host cannot predict which place it is, so there are no branches here.
    """
    cdef uint32_t first = t.short_stalls[0], second = t.short_stalls[1]
    cdef uint32_t third = t.short_stalls[2], fourth = t.short_stalls[3]
    cdef bint within_one = first == stall
    cdef bint within_two = within_one | (second == stall)
    cdef bint within_three = within_two | (third == stall)
    t.short_stalls[0] = stall
    t.short_stalls[1] = second if within_one else first
    t.short_stalls[2] = third if within_two else second
    t.short_stalls[3] = fourth if within_three else third
    return <uint32_t>(4 - within_one - within_two - within_three - (within_three | (fourth == stall)))


cdef inline uint32_t place_bits(uint32_t place) noexcept nogil:
    """Return the place of a short stall as it is in a packet."""
    return (place & 2) << 2 | (place & 1) << 1


cdef inline void tell_single(Machine* m, Core* c, Hart* h) noexcept nogil:
    """Send the stall that was held back for a pair as a packet of its own."""
    cdef uint32_t place = h.traced.single
    if place < 4:
        h.traced.single = 4
        hold_byte(m, c, h, 0x94 | place_bits(place))


cdef inline void hold_short(Traced* t, uint32_t executed, uint32_t place) noexcept nogil:
    """Add E atoms and a short stall after them to a group that they do not fill, without branches.

    One E atom and its stall are held back for a pair, or are the second of one. Other atoms are one packet, or two if
    there are more than three E atoms.
    """
    cdef uint8_t* to = t.group + t.length
    cdef uint32_t single = t.single
    cdef bint held = single < 4, one = executed == 1, many = executed > 3
    to[0] = <uint8_t>(0xC4 | single << 4 | place_bits(place)) if one else <uint8_t>(0x94 | place_bits(single))
    to += held
    to[0] = <uint8_t>(0x80 | (executed - 1) << 3)
    to += many
    to[0] = <uint8_t>(0x84 | (0 if many else executed) << 4 | place_bits(place))
    to += not one
    t.single = place if one and not held else 4
    t.length = <int32_t>(to - t.group)


cdef inline void tell_stall(Machine* m, Core* c, Hart* h) noexcept nogil:
    """Send the E atoms so far, and the stall after them."""
    cdef Traced* t = &h.traced
    cdef uint32_t count = t.stalled, executed = t.executed, reason = t.reason, place = 4
    cdef uint8_t bytes[8]
    t.stalled = 0
    t.executed = 0
    if count <= 256:
        place = place_of_stall(t, reason << 8 | (count - 1))
    if place < 4 and t.length < GROUP - 3:
        hold_short(t, executed, place)
        return
    if place < 4 and executed == 1:
        if t.single == 4:
            t.single = place
            return
        hold_byte(m, c, h, 0xC4 | t.single << 4 | place_bits(place))
        t.single = 4
        return
    tell_single(m, c, h)
    if executed > (3 if place < 4 else 0):
        hold_byte(m, c, h, 0x80 | (executed - 1) << 3)
        executed = 0
    if place < 4:
        hold_byte(m, c, h, 0x84 | executed << 4 | place_bits(place))
    elif reason == SLOT and count <= 8:
        hold_byte(m, c, h, CYCLES_SLOT | (count - 1) << 4)
    elif count <= 256:
        bytes[0] = <uint8_t>(CYCLES_SHORT | reason << 3)
        bytes[1] = <uint8_t>(count - 1)
        hold(m, c, h, bytes, 2)
    elif count < 1 << 12:
        bytes[0] = CYCLES_MIDDLE
        put_word(bytes + 1, reason | count << 4, 2)
        hold(m, c, h, bytes, 3)
    else:
        bytes[0] = CYCLES_LONG
        put_word(bytes + 1, reason | count << 4, 4)
        hold(m, c, h, bytes, 5)


cdef inline void tell_outcomes(Machine* m, Core* c, Hart* h) noexcept nogil:
    """Send what waypoints did, in a trace without cycles."""
    cdef Traced* t = &h.traced
    cdef uint64_t outcomes = t.outcomes
    cdef uint32_t count = t.outcomes_count, few
    cdef uint8_t bytes[10]
    cdef int n = 1, i
    t.outcomes = 0
    t.outcomes_count = 0
    if count > 10:
        bytes[0] = OUTCOMES
        if count < 64:
            bytes[0] = OUTCOMES_FEW
            bytes[1] = <uint8_t>count
            n = 2
        for i in range(<int>(count + 7) // 8):
            bytes[n] = <uint8_t>(outcomes >> 8 * i)
            n += 1
        hold(m, c, h, bytes, n)
        return
    while count and t.on:
        few = min(count, 5)
        hold_byte(m, c, h, 0x80 | (<uint32_t>(outcomes & ((1u << few) - 1)) | 1u << few) << 1)
        outcomes >>= few
        count -= few


cdef inline void tell_steps(Machine* m, Core* c, Hart* h) noexcept nogil:
    """Send how many instructions there were after the last waypoint, in a trace without cycles."""
    cdef Traced* t = &h.traced
    cdef uint8_t bytes[8]
    cdef uint32_t steps = t.steps
    tell_outcomes(m, c, h)
    t.steps = 0
    if steps and t.on:
        bytes[0] = STEPS
        hold(m, c, h, bytes, 1 + put_varint(bytes + 1, steps))


cdef inline void add_outcome(Machine* m, Core* c, Hart* h, bint taken) noexcept nogil:
    """Add a waypoint of a trace without cycles: a branch, or an indirect jump that went where a decoder expects."""
    cdef Traced* t = &h.traced
    t.steps = 0
    t.outcomes |= <uint64_t>taken << t.outcomes_count
    t.outcomes_count += 1
    if t.outcomes_count == 64:
        tell_outcomes(m, c, h)


cdef inline void add_step(Machine* m, Core* c, Hart* h) noexcept nogil:
    """Add an instruction of a trace without cycles that is no waypoint."""
    h.traced.steps += 1
    if h.traced.steps == MOST_STEPS:
        tell_steps(m, c, h)


cdef inline void flush(Machine* m, Core* c, Hart* h) noexcept nogil:
    """Put every atom so far into a packet."""
    if not c.trace_unit.cycle_accurate:
        tell_steps(m, c, h)
        return
    if h.traced.stalled:
        tell_stall(m, c, h)
    tell_single(m, c, h)
    if h.traced.executed:
        hold_byte(m, c, h, 0x80 | (h.traced.executed - 1) << 3)
        h.traced.executed = 0


cdef inline void add_stall(Machine* m, Core* c, Hart* h, uint32_t reason, int64_t cycles) noexcept nogil:
    """Add S or W atoms: ``cycles`` of the hart's cycles for one reason."""
    cdef Traced* t = &h.traced
    cdef int64_t some
    if not c.trace_unit.cycle_accurate:
        return
    if t.stalled and t.reason != reason:
        tell_stall(m, c, h)
    while cycles > 0 and t.on:
        some = min(cycles, MOST_STALLED - <int64_t>t.stalled)
        t.stalled += <uint32_t>some
        t.reason = reason
        cycles -= some
        if cycles:
            tell_stall(m, c, h)


cdef inline void add_executed(Machine* m, Core* c, Hart* h) noexcept nogil:
    cdef Traced* t = &h.traced
    if t.stalled:
        tell_stall(m, c, h)
    t.executed += 1
    if t.executed == 16:
        flush(m, c, h)


cdef inline void add_not_taken(Machine* m, Core* c, Hart* h) noexcept nogil:
    cdef Traced* t = &h.traced
    cdef uint32_t executed
    cdef bint held
    if t.stalled:
        tell_stall(m, c, h)
    executed = t.executed
    t.executed = 0
    if t.length < GROUP - 2:
        # Two bytes do not fill the group. There is no branch on `held`, which the host cannot predict.
        held = t.single < 4
        t.group[t.length] = <uint8_t>(0x94 | place_bits(t.single))
        t.group[t.length + held] = <uint8_t>(0x82 | executed << 3)
        t.length += held + 1
        t.single = 4
        return
    tell_single(m, c, h)
    hold_byte(m, c, h, 0x82 | executed << 3)


cdef inline void tell_branch(Machine* m, Core* c, Hart* h, uint32_t address, uint32_t told) noexcept nogil:
    """Send a branch address: the low bits that have changed, and type, cause and thread if they have."""
    cdef Traced* t = &h.traced
    cdef uint8_t bytes[16]
    cdef uint32_t value = address >> 1, changed = value ^ t.base >> 1, id = id_of(h)
    cdef bint says = told != t.told or id != t.id
    cdef int n = 1, i
    if not c.trace_unit.cycle_accurate and not told:
        # The jump is the next waypoint.
        tell_outcomes(m, c, h)
        t.steps = 0
    else:
        flush(m, c, h)
    if not t.on:
        return
    while n < 5 and (says or changed >> (7 * n - 1)):
        n += 1
    for i in range(n):
        if i == 0:
            bytes[0] = <uint8_t>((value & 0x3F) << 1 | 1)
        elif i < 4:
            bytes[i] = <uint8_t>(value >> (7 * i - 1) & 0x7F)
        else:
            bytes[4] = <uint8_t>(value >> 27 | says << 6)
        if i < n - 1:
            bytes[i] |= 0x80
    if says:
        bytes[n] = <uint8_t>(0x80 | told | (id != t.id))
        n += 1
        if id != t.id:
            n += put_word(bytes + n, id, 4)
            bytes[n] = 0x80
            n += 1
    t.base = address
    t.told = told
    t.id = id
    hold(m, c, h, bytes, n)


cdef inline int64_t thread_cycle(Machine* m, Hart* h, int64_t cycle) noexcept nogil:
    """Return the number of the hart's cycle that begins at ``cycle``; in strict turn, the number of the rotation."""
    return (cycle + m.quantum - 1 - h.slot) // m.quantum if m.strict else cycle


cdef inline void forget_history(Hart* h) noexcept nogil:
    """Reset the state that a decoder that begins here cannot know."""
    cdef Traced* t = &h.traced
    t.base = h.pc
    t.told = 0xFF
    t.id = id_of(h)
    t.target = NO_TARGET
    t.depth = 0
    t.length = 0
    t.executed = 0
    t.stalled = 0
    t.single = 4
    t.outcomes = 0
    t.outcomes_count = t.steps = 0
    memset(t.short_stalls, 0xFF, sizeof(t.short_stalls))


cdef inline int put_place(Hart* h, uint8_t* at) noexcept nogil:
    """Write the ASID (this machine has none), the thread, and the PC, with at most four zero bytes in a row."""
    at[0] = 0x80
    put_word(at + 1, id_of(h), 4)
    put_word(at + 5, h.pc | 1, 4)
    return 9


cdef inline bint restart(Machine* m, Core* c, Hart* h, int64_t at) noexcept nogil:
    """Send an I-sync restart, from which on the hart is traced. Return False if there is no room for it."""
    cdef TraceUnit* u = &c.trace_unit
    cdef Traced* t = &h.traced
    cdef uint8_t bytes[32]
    cdef int64_t now = thread_cycle(m, h, at)
    cdef int n = 2
    cdef uint32_t info = 0x80 | (2 if t.lost else 1) << 5 | <uint32_t>h.slot
    if not fits(c, (u.depth >> 4) + 32 if t.lost and u.port else 32):
        t.lost = 1
        return False
    if u.cycle_accurate:
        info |= 8
        if u.anchor <= now < u.anchor + 0xFFFF:
            n += put_word(bytes + n, <uint32_t>(now - u.anchor), 2)
        else:
            info |= 0x10
            n += put_varint(bytes + n, <uint64_t>now)
        u.anchor = now
    bytes[0] = SYNC_RESTART
    bytes[1] = <uint8_t>info
    n += put_place(h, bytes + n)
    send(m, u, bytes, n)
    u.thread = h.slot
    t.on = 1
    t.lost = 0
    t.due = 0
    forget_history(h)
    return True


cdef inline void sync_again(Machine* m, Core* c, Hart* h, int64_t at) noexcept nogil:
    """Send a periodic I-sync: where the hart is, and when, as far as 16 bits can tell it."""
    cdef TraceUnit* u = &c.trace_unit
    cdef Traced* t = &h.traced
    cdef uint8_t bytes[16]
    cdef int64_t now = thread_cycle(m, h, at), offset = now - u.anchor
    cdef int n = 2
    flush(m, c, h)
    if not t.on or not send_group(m, c, h):
        return
    if not fits(c, sizeof(bytes)):
        lose(c, h)
        return
    bytes[0] = SYNC_PERIODIC
    bytes[1] = <uint8_t>(0x80 | h.slot)
    if u.cycle_accurate:
        bytes[1] |= 8
        if 0 <= offset < 0xFFFF:
            u.anchor = now
        else:
            offset = 0xFFFF
        n += put_word(bytes + n, <uint32_t>offset, 2)
    n += put_place(h, bytes + n)
    send(m, u, bytes, n)
    u.thread = h.slot
    t.due = 0
    forget_history(h)


cdef inline void trace_off(Machine* m, Core* c, Hart* h) noexcept nogil:
    """Stop tracing the hart."""
    cdef uint8_t bytes[1]
    if c.trace_unit.etrace:
        stop_encoder(m, c, h)
    elif h.traced.on:
        flush(m, c, h)
    if h.traced.on:
        bytes[0] = TRACE_OFF
        hold(m, c, h, bytes, 1)
        send_group(m, c, h)
    h.traced.on = 0
    h.traced.lost = 0
    if not c.trace_unit.matching and not c.trace_unit.window and h.traced.wanted & TRACE_IN_STATE:
        h.attention &= ~<uint32_t>TRACED


# --- the log ---

cdef inline void log(Machine* m, Hart* h, int64_t at, int64_t cycles, uint32_t address, int what) noexcept nogil:
    """Add an entry to the log, from cycle `at` on."""
    cdef Logged* more
    cdef int64_t room
    if cycles <= 0:
        return
    if m.log.count == m.log.room:
        room = m.log.room * 2 if m.log.room else 4096
        more = <Logged*>realloc(m.log.entries, room * sizeof(Logged))
        if more == NULL:
            m.stop = STOP_NO_MEMORY
            return
        m.log.entries = more
        m.log.room = room
    more = &m.log.entries[m.log.count]
    more.cycle = at
    more.cycles = cycles
    more.address = address
    more.hart = <uint16_t>h.number
    more.what = <uint16_t>what
    m.log.count += 1


# --- profiling, and triggers ---

cdef inline void tell_trigger(Machine* m, Core* c, Hart* h, int64_t cycle) noexcept nogil:
    """Send a trigger marker, in the cycle. From then on the trace buffer takes only the configured number of bytes."""
    cdef TraceUnit* u = &c.trace_unit
    cdef uint8_t bytes[2]
    cdef int n = 0
    if not u.etrace:
        if not u.number:
            send_head(m, c, cycle, tick_of(c, cycle), False)
        if h.traced.on and h.halted:
            tell_sleep(m, c, h, cycle)
        if h.traced.on:
            flush(m, c, h)
            send_group(m, c, h)
        if u.thread != h.slot:
            bytes[0] = <uint8_t>(SELECT | h.slot << 4)
            u.thread = h.slot
            n = 1
        bytes[n] = TRIGGER
        send(m, u, bytes, n + 1)
    if u.ring and u.after < 0:
        u.after = u.kept


cdef inline void send_window(Machine* m, Core* c, int64_t end) noexcept nogil:
    """Send the counts of a window that ends before cycle `end`, if any are nonzero. Without room, they are kept."""
    cdef TraceUnit* u = &c.trace_unit
    cdef uint8_t bytes[80]
    cdef uint64_t any = 0
    cdef int n, i
    for i in range(6):
        any |= u.profile[i]
    if not any or not u.number:
        return
    bytes[0] = PROFILE
    n = 1 + put_varint(bytes + 1, <uint64_t>end)
    for i in range(6):
        n += put_varint(bytes + n, u.profile[i])
    if fits(c, n):
        send(m, u, bytes, n)
        memset(u.profile, 0, sizeof(u.profile))


cdef inline void count_window(Machine* m, Core* c) noexcept nogil:
    """Count up to the gap before a turn, and send the counts at the end of a window. A stall counts when it ends."""
    cdef TraceUnit* u = &c.trace_unit
    cdef int64_t now = c.cycle + 1 - m.quantum, passed = now - u.window_at
    u.window_at = now
    if not u.profiled_in >> u.state & 1:
        return
    u.window_left -= passed
    if u.window_left >= 0:
        return
    send_window(m, c, now + u.window_left)
    u.window_left = (u.window - (-u.window_left) % u.window) % u.window


cdef inline int64_t of_stall(uint32_t source, int64_t cycles, int doing) noexcept nogil:
    """Return what a stall adds to a counter with this source; ``doing``: its code in headway-trace/docs/trace-format.md."""
    if source == DATA_MISSES:
        return 6 <= doing <= 10
    if source == DATA_STALLS:
        return cycles if 6 <= doing <= 10 else 0
    if source == CODE_MISSES:
        return 4 <= doing <= 5
    if source == CODE_STALLS:
        return cycles if 4 <= doing <= 5 else 0
    if source == TLB_MISSES:
        return doing == 11
    if source == TLB_STALLS:
        return cycles if doing == 11 else 0
    if source == EXTERNAL_STALLS:
        return cycles if doing == 5 or doing == 7 or doing == 10 else 0
    if source == DEPENDENCIES:
        return cycles if doing == DATA else 0
    if source == REFILLS:
        return cycles if doing == REFILL else 0
    if source == SLOTS:
        return cycles if doing == SLOT else 0
    return cycles if source == ALL_STALLS else 0


cdef inline void count_stall(Core* c, Hart* h, int64_t cycles, int doing) noexcept nogil:
    """Add a stall of a hart to the counters of the profile."""
    cdef TraceUnit* u = &c.trace_unit
    cdef int i
    if not u.profiled_in >> u.state & 1 or not 0 < doing < IN_SLEEP:
        return
    for i in range(6):
        if u.profiled[i] >> h.slot & 1:
            u.profile[i] += <uint64_t>of_stall(u.sources[i], cycles, doing)


cdef inline void count_event(Core* c, Hart* h, uint32_t source) noexcept nogil:
    """Add one to the counters of the profile that have this source."""
    cdef TraceUnit* u = &c.trace_unit
    cdef int i
    if not u.profiled_in >> u.state & 1:
        return
    for i in range(6):
        if u.sources[i] == source and u.profiled[i] >> h.slot & 1:
            u.profile[i] += 1


# --- where harts are watched ---

cdef inline int doing_of(int reason) noexcept nogil:
    """Return the trace code of a reason to stall."""
    return reason + (reason >= STORE_INTERNAL)


cdef inline void trace_gap(Machine* m, Core* c, Hart* h, int64_t at, int64_t cycles, int doing) noexcept nogil:
    """Trace that the hart did this for ``cycles`` cycles of its core, from cycle `at` on."""
    cdef Traced* t = &h.traced
    if not t.on or cycles <= 0 or at + cycles <= t.told_until:
        return
    cycles = at + cycles - max(at, t.told_until)
    if m.quantum != 1:
        cycles //= m.quantum
    if c.trace_unit.cycle_accurate and not t.stalled and 0 < cycles < MOST_STALLED:
        # What `add_stall` does, in the usual case.
        t.stalled = <uint32_t>cycles
        t.reason = <uint32_t>doing
    else:
        add_stall(m, c, h, <uint32_t>doing, cycles)


cdef inline void watch_gap(Machine* m, Core* c, Hart* h, int64_t at, int64_t cycles, int doing) noexcept nogil:
    """Record that the hart did this for ``cycles`` cycles of its core, from cycle `at` on."""
    if h.attention & LOGGED:
        log(m, h, at, cycles, h.pc, doing)
    if unlikely(c.trace_unit.window != 0) and cycles > 0:
        count_stall(c, h, cycles, doing)
    trace_gap(m, c, h, at, cycles, doing)


cdef inline void watch_sleep(Machine* m, Core* c, Hart* h, int64_t from_, int64_t to, int depth) noexcept nogil:
    """Record that the hart was halted and then woke.

    In strict turn the rotation in which it was woken belongs to waking.
    """
    cdef int64_t woken = h.traced.woken
    if not from_ <= woken <= to:
        woken = from_ if woken < from_ else to
    woken = from_ + (woken - from_) // m.quantum * m.quantum
    watch_gap(m, c, h, from_, woken - from_, IN_SLEEP + depth - 1)
    watch_gap(m, c, h, woken, to - woken, WAKES)


cdef inline void watch_before(Machine* m, Core* c, Hart* h, int64_t begin, bint resuming) noexcept nogil:
    """Record what precedes the gap that ends with the hart's turn."""
    if c.trace_unit.window:
        count_window(m, c)
    if resuming and h.state != UNSTARTED and h.state != HELD:
        watch_sleep(m, c, h, h.free, begin, h.traced.asleep)
    if h.traced.wanted != TRACE_WANTED:
        trace_off(m, c, h)


cdef inline void watch_turn(Machine* m, Core* c, Hart* h, int64_t begin) noexcept nogil:
    """Send what is due at the beginning of the hart's turn, before anything of this turn has happened."""
    cdef TraceUnit* u = &c.trace_unit
    if not h.attention & TRACED or h.traced.wanted != TRACE_WANTED:
        return
    if u.etrace:
        watch_encoder_turn(m, c, h)
        return
    if u.left <= 0 and fits(c, LARGEST_HEAD):
        send_head(m, c, c.cycle, m.now, False)
    if not h.traced.on:
        restart(m, c, h, begin)
    elif h.traced.due:
        sync_again(m, c, h, begin)


cdef inline void tell_target(Machine* m, Core* c, Hart* h, Decoded* d, uint32_t next) noexcept nogil:
    """Send the target of an indirect jump unless a decoder expects it: the return address, or the last target."""
    cdef Traced* t = &h.traced
    cdef uint32_t expected = t.target
    if d.operation == JALR and is_link(d.rs1) and not is_link(d.rd) and t.depth:
        t.depth -= 1
        expected = t.returns[t.depth & 15]
    t.target = next
    if expected != next or c.trace_unit.all_targets:
        tell_branch(m, c, h, next, JUMP)
    elif not c.trace_unit.cycle_accurate:
        add_outcome(m, c, h, True)


cdef inline void tell_direct(Machine* m, Core* c, Hart* h, uint32_t next) noexcept nogil:
    """Send the target of a direct branch or jump, which a decoder compares with that in the program."""
    if not c.trace_unit.etrace and h.traced.on:
        tell_branch(m, c, h, next, DIRECT << 1)


cdef inline void push_return(Traced* t, Decoded* d, uint32_t pc) noexcept nogil:
    """Note where a call returns to."""
    if is_link(d.rd):
        t.returns[t.depth & 15] = pc + d.size
        t.depth += 1


cdef inline void trace_cycles(
    Machine* m, Core* c, Hart* h, Decoded* d, int32_t cost, uint32_t pc, uint32_t next, bint taken
) noexcept nogil:
    """Trace an instruction that has been retired, and its cycles."""
    cdef int operation = d.operation
    if not taken:
        if BEQ <= operation <= BGEU:
            add_not_taken(m, c, h)
            return
        add_executed(m, c, h)
    else:
        add_executed(m, c, h)
        if operation == JALR or operation == MRET:
            tell_target(m, c, h, d, next)
        if operation == JAL or operation == JALR:
            push_return(&h.traced, d, pc)
    if cost > m.quantum:
        add_stall(m, c, h, LONG, (cost + m.quantum - 1) // m.quantum - 1)


cdef inline void trace_waypoints(
    Machine* m, Core* c, Hart* h, Decoded* d, uint32_t pc, uint32_t next, bint taken
) noexcept nogil:
    """Trace an instruction that has been retired, without cycles."""
    cdef int operation = d.operation
    if BEQ <= operation <= BGEU:
        add_outcome(m, c, h, taken)
    elif operation == JALR or operation == MRET:
        tell_target(m, c, h, d, next)
    else:
        add_step(m, c, h)
    if operation == JAL or operation == JALR:
        push_return(&h.traced, d, pc)


cdef inline void trace_retired(
    Machine* m, Core* c, Hart* h, Decoded* d, int32_t cost, uint32_t pc, uint32_t next, bint taken
) noexcept nogil:
    """Trace an instruction of a hart that is traced, in the unit's format."""
    if c.trace_unit.cycle_accurate:
        trace_cycles(m, c, h, d, cost, pc, next, taken)
    elif c.trace_unit.etrace:
        encode_retired(m, c, h, d, pc, next, taken)
    else:
        trace_waypoints(m, c, h, d, pc, next, taken)


cdef inline void watch_retired(
    Machine* m, Core* c, Hart* h, Decoded* d, uint32_t pc, uint32_t next, bint taken
) noexcept nogil:
    """Record an instruction that has been retired."""
    cdef int operation = d.operation
    if h.attention & LOGGED:
        log(m, h, h.free, m.quantum, pc, NOT_TAKEN if BEQ <= operation <= BGEU and not taken else EXECUTED)
        log(m, h, h.free + m.quantum, 0 if h.cost <= m.quantum else (h.cost - 1) // m.quantum * m.quantum, pc, LONG)
    if unlikely(c.trace_unit.window != 0):
        count_event(c, h, RETIRED)
        if taken:
            count_event(c, h, TAKEN)
    if h.traced.on:
        trace_retired(m, c, h, d, h.cost, pc, next, taken)
        if unlikely(c.trace_unit.direct_branches != 0) and taken and (operation == JAL or BEQ <= operation <= BGEU):
            tell_direct(m, c, h, next)


cdef inline void watch_trap(Machine* m, Core* c, Hart* h, uint32_t pc) noexcept nogil:
    """Record a trap of the hart, which was at `pc`: one cycle."""
    if h.attention & LOGGED:
        log(m, h, h.free, m.quantum, pc, TRAPS)
    if unlikely(c.trace_unit.window != 0):
        count_event(c, h, TRAPPED_ENTRIES)
    if not h.traced.on:
        return
    if c.trace_unit.etrace:
        encode_trap(m, c, h, pc)
    else:
        tell_branch(m, c, h, h.pc, (TRAP_INTERRUPT if h.mcause >> 31 else TRAP_EXCEPTION) << 1 | (h.mcause & 15) << 3)
