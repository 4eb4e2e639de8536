"""The packets of the six-thread protocol, read one by one from a segment's bytes (docs/trace-format.md)."""

from libc.stdint cimport uint8_t, uint32_t, uint64_t

from specification.six_threads.protocol cimport (
    ALIGN, CHECK, CLOCK, CODE_CHANGED, OUTCOMES, OUTCOMES_FEW, STEPS, MOST_STEPS, CYCLES_LONG, CYCLES_MIDDLE,
    CYCLES_SHORT, CYCLES_SLOT, HEAD, PROFILE, SELECT, SLOT, SYNC_PERIODIC, SYNC_RESTART, TAIL, TRACE_OFF, TRIGGER,
)

cdef enum:  # Kind
    NOISE = 0
    ALIGNMENT = 1
    SYNC = 2
    RESTART = 3
    ATOMS = 4
    BRANCH = 5
    CYCLES = 6
    CLOCKS = 7
    SELECTION = 8
    TRIGGERED = 9
    OFF = 10
    CHANGED = 11
    PROFILED = 12
    CHECKED = 13
    STEPPED = 14
    KINDS = 15

cdef enum:
    UNUSED = 8           # a reason that does not occur: its short packet would be a head
    # Of a count of cycles or ticks; no trace unit counts further, and sums of such counts do not overflow
    COUNT_BITS = 56

cdef struct Packet:
    uint32_t kind
    uint32_t thread      # SELECTION, SYNC, RESTART
    uint32_t value       # address; P-header; cycles
    uint32_t bits        # of an address: the number of its low bits in the packet, out of 31
    uint32_t reason      # of a stall, or of an I-sync
    uint32_t told        # BRANCH: cause and type; 0xFFFFFFFF: unchanged
    uint32_t id          # of the software thread
    uint32_t has_id
    uint32_t timed       # 0: no count. 1: offset. 2: global count
    uint64_t count       # SYNC, RESTART, ALIGNMENT: a count of cycles
    uint64_t tick        # ALIGNMENT, CLOCKS
    uint64_t running
    uint64_t profile[6]
    uint32_t speed
    uint32_t changes
    uint32_t ends        # ALIGNMENT: the trace ends
    uint32_t check       # CHECKED
    uint32_t number
    uint64_t outcomes    # ATOMS without cycles: a bit for each waypoint, the oldest lowest; `bits` of them


cdef inline uint32_t word_at(const uint8_t* p, int bytes) noexcept nogil:
    cdef uint32_t found = 0
    cdef int i
    for i in range(bytes):
        found |= <uint32_t>p[i] << 8 * i
    return found


cdef inline long varint_at(const uint8_t* p, const uint8_t* end, uint64_t* value) noexcept nogil:
    """Read a number. Return its length; 0 if it is cut off or has more than 64 bits."""
    cdef long n = 0
    value[0] = 0
    while p + n < end and n < 10:
        value[0] |= <uint64_t>(p[n] & 0x7F) << 7 * n
        n += 1
        if not p[n - 1] & 0x80:
            return n
    return 0


cdef inline long count_at(const uint8_t* p, const uint8_t* end, uint64_t* value) noexcept nogil:
    """Read a count of cycles or ticks. Return its length; 0 if it is cut off or has more than 56 bits."""
    cdef long n = varint_at(p, end, value)
    return n if not value[0] >> COUNT_BITS else 0


cdef inline long clock_at(const uint8_t* p, const uint8_t* end, Packet* packet) noexcept nogil:
    cdef uint64_t value
    cdef long n, more
    n = count_at(p, end, &packet.count)
    more = count_at(p + n, end, &packet.tick) if n else 0
    if not more or end - p - n - more < 1:
        return 0
    n += more
    packet.speed = p[n] & 0x3F
    packet.ends = p[n] >> 6 & 1
    n += 1
    more = count_at(p + n, end, &packet.running)
    if not more or not 1 <= packet.speed <= 16 or not packet.running:
        return 0
    n += more
    more = varint_at(p + n, end, &value)
    packet.changes = <uint32_t>value
    return n + more if more else 0


cdef inline long place_at(const uint8_t* p, const uint8_t* end, Packet* packet) noexcept nogil:
    if end - p < 9 or not p[0] & 0x80:
        return 0
    packet.id = word_at(p + 1, 4)
    packet.value = word_at(p + 5, 4) & ~1u
    return 9


cdef inline long sync_at(const uint8_t* p, const uint8_t* end, Packet* packet) noexcept nogil:
    cdef uint32_t info
    cdef long n = 2, more
    if end - p < 4 or not p[1] & 0x80:
        return 0
    info = p[1]
    packet.thread = info & 7
    packet.reason = info >> 5 & 3
    packet.timed = 0
    if info & 8:
        if info & 0x10:
            packet.timed = 2
            more = count_at(p + n, end, &packet.count)
            if not more:
                return 0
            n += more
        else:
            packet.timed = 1
            packet.count = word_at(p + n, 2)
            n += 2
    more = place_at(p + n, end, packet)
    return n + more if more else 0


cdef inline long branch_at(const uint8_t* p, const uint8_t* end, Packet* packet) noexcept nogil:
    cdef uint32_t value = p[0] >> 1 & 0x3F
    cdef long n = 1
    packet.told = 0xFFFFFFFFu
    packet.has_id = 0
    packet.bits = 6
    while p[n - 1] & 0x80 and n < 4:
        if p + n >= end:
            return 0
        value |= <uint32_t>(p[n] & 0x7F) << (7 * n - 1)
        n += 1
        packet.bits += 7
    if n == 4 and p[3] & 0x80:
        if end - p < 5:
            return 0
        value |= <uint32_t>(p[4] & 15) << 27
        packet.bits = 31
        n = 5
        if p[4] & 0x40:
            if end - p < 6:
                return 0
            packet.told = p[5] & 0x7E
            n = 6
            if p[5] & 1:
                if end - p < 11:
                    return 0
                packet.has_id = 1
                packet.id = word_at(p + 6, 4)
                n = 11
    packet.value = value << 1
    return n


cdef inline long profile_at(const uint8_t* p, const uint8_t* end, Packet* packet) noexcept nogil:
    cdef long n = 1, more
    cdef int i
    more = count_at(p + n, end, &packet.count)
    for i in range(6):
        if not more:
            return 0
        n += more
        more = varint_at(p + n, end, &packet.profile[i])
    return n + more if more else 0


cdef inline long outcomes_at(const uint8_t* p, const uint8_t* end, Packet* packet) noexcept nogil:
    """Read a packet, of a trace without cycles, of waypoints or of instructions after one; 0 if it is another."""
    cdef uint32_t header = p[0]
    cdef long n = 0
    cdef int i
    packet.kind = ATOMS
    packet.outcomes = packet.bits = 0
    if header & 0x81 == 0x80:
        packet.outcomes = header >> 1 & 0x3F
        while packet.outcomes >> (packet.bits + 1):
            packet.bits += 1
        packet.outcomes ^= <uint64_t>1 << packet.bits
        return 1 if packet.bits else 0
    if header == OUTCOMES:
        packet.bits, n = 64, 1
    elif header == OUTCOMES_FEW and end - p > 1:
        packet.bits, n = p[1], 2
    if n:
        if not 1 <= packet.bits <= 64 or end - p < n + (packet.bits + 7) // 8:
            return 0
        for i in range(<int>(packet.bits + 7) // 8):
            packet.outcomes |= <uint64_t>p[n + i] << 8 * i
        return n + (packet.bits + 7) // 8
    if header == STEPS:
        packet.kind = STEPPED
        n = count_at(p + 1, end, &packet.count)
        return n + 1 if n and 0 < packet.count <= MOST_STEPS else 0
    return 0


cdef inline long packet_of(const uint8_t* p, const uint8_t* end, bint waypoints, Packet* packet) noexcept nogil:
    """Read the packet at p of a trace with cycles, or of one that tells of waypoints only."""
    cdef uint32_t header = p[0]
    if waypoints and (header & 0x81 == 0x80 or header == OUTCOMES or header == OUTCOMES_FEW or header == STEPS):
        return outcomes_at(p, end, packet)
    return packet_at(p, end, packet)


cdef inline long packet_at(const uint8_t* p, const uint8_t* end, Packet* packet) noexcept nogil:
    """Read the packet at p (p < end). Return its length in bytes; 0 if there is none, or if it is cut off."""
    cdef uint32_t header = p[0]
    cdef uint32_t value
    cdef long n
    if header & 1:
        packet.kind = BRANCH
        return branch_at(p, end, packet)
    if header & 0x80:
        packet.kind = ATOMS
        packet.value = header
        return 1
    if header & 7 == CYCLES_SHORT and header >> 3 != UNUSED:
        packet.kind = CYCLES
        if end - p < 2:
            return 0
        packet.reason = header >> 3
        packet.value = p[1] + 1
        return 2
    if header & 0x8F == CYCLES_SLOT:
        packet.kind = CYCLES
        packet.reason = SLOT
        packet.value = (header >> 4) + 1
        return 1
    if header & 0x8F == SELECT:
        packet.kind = SELECTION
        packet.thread = header >> 4
        return 1
    if header == CYCLES_MIDDLE or header == CYCLES_LONG:
        packet.kind = CYCLES
        n = 2 if header == CYCLES_MIDDLE else 4
        if end - p < n + 1:
            return 0
        value = word_at(p + 1, <int>n)
        if value & 15 == UNUSED:
            return 0
        packet.reason = value & 15
        packet.value = value >> 4
        return n + 1
    if header == SYNC_PERIODIC or header == SYNC_RESTART:
        packet.kind = SYNC if header == SYNC_PERIODIC else RESTART
        return sync_at(p, end, packet)
    if header == CLOCK:
        packet.kind = CLOCKS
        n = clock_at(p + 1, end, packet)
        return n + 1 if n else 0
    if header == CODE_CHANGED:
        packet.kind = CHANGED
        if end - p < 5:
            return 0
        packet.value = word_at(p + 1, 4) & ~1u
        return 5
    if header == TRACE_OFF:
        packet.kind = OFF
        return 1
    if header == PROFILE:
        packet.kind = PROFILED
        return profile_at(p, end, packet)
    if header == TRIGGER:
        packet.kind = TRIGGERED
        return 1
    if header == CHECK:
        packet.kind = CHECKED
        if end - p < 5:
            return 0
        packet.check = word_at(p + 1, 4)
        return 5
    if header == 0:
        n = 0
        while p + n < end and not p[n]:
            n += 1
        if n < 5 or end - p < n + 2 + TAIL + 2 or p[n] != ALIGN or p[n + 1] != HEAD:
            return 0
        packet.kind = ALIGNMENT
        n += 2 + TAIL
        packet.number = word_at(p + n, 2)
        value = <uint32_t>clock_at(p + n + 2, end, packet)
        return n + 2 + value if value else 0
    packet.kind = NOISE
    return 0
