"""A parser for PTM packets. A header gives the kind of a packet and, with continuation bits of its payload, its length.

Like ETMv3's it needs no program image and never fails: a byte that cannot begin a packet is noise of one byte.

Source: ARM IHI 0035B, "Program Flow Trace architecture specification", chapter 4. The order of an I-sync's fields and
the direction of atoms within a header are as OpenCSD reads them.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t

from headway_trace._packets cimport (
    ARM, ATOMS, BASED, BRANCH, COUNT, EXCEPTION, FULL, JAZELLE, SWITCH, SYNC, THUMB, THUMBEE,
    TIMESTAMP, WAYPOINT, Packet, StreamParser, little,
)

DEF LONGEST = 16   # bytes; a timestamp with a cycle count has 15


cdef int cycles_of(const uint8_t* data, size_t size, uint64_t* found) noexcept nogil:
    """Read a cycle count, whose first byte has 4 bits of it. Return its bytes; -1 if data ends in it."""
    cdef int n = 1, shift = 4
    cdef bint more
    if size < 1:
        return -1
    found[0] = data[0] >> 2 & 15
    more = data[0] & 0x40 != 0
    while more and n < 5:
        if <size_t>n >= size:
            return -1
        found[0] |= <uint64_t>(data[n] & 0x7F) << shift
        more = data[n] >= 0x80
        shift += 7
        n += 1
    found[0] = <uint32_t>found[0]
    return n


cdef class Parser(StreamParser):
    """A parser of one stream's bytes."""

    def __init__(self, *, cycle_accurate, context_bytes, timestamp_bits, gray_timestamps, virtual_machines):
        self.cycle_accurate, self.context_bytes = cycle_accurate, context_bytes
        self.machines, self.gray = virtual_machines, gray_timestamps
        self.time_bytes = 9 if timestamp_bits == 64 else 7
        self.longest = LONGEST

    cdef int packet(self, const uint8_t* data, size_t size, Packet* p) noexcept nogil:
        """Read one packet. Return its bytes; 0 if there is none; -1 if it does not end yet."""
        cdef uint8_t h = data[0]
        cdef int i
        if h & 1:
            p.kind = BRANCH
            return self.branch(data, size, p)
        if h & 0x80:
            p.kind, p.value = ATOMS, 0
            if self.cycle_accurate:
                p.bits, p.value, p.has = 1, h >> 1 & 1, COUNT
                return cycles_of(data, size, &p.count)
            # The highest bit that is set, below bit 7, stands before the atoms, of which the oldest is first.
            p.bits = 5 if h & 0x40 else 4 if h & 0x20 else 3 if h & 0x10 else 2 if h & 8 else 1 if h & 4 else 0
            for i in range(p.bits):
                p.value |= <uint64_t>(h >> p.bits - i & 1) << i
            return p.bits > 0
        if h == 0x08:
            p.kind = SYNC
            return self.sync(data, size, p)
        if h == 0x72:
            p.kind = WAYPOINT
            return self.update(data, size, p)
        if h & 0xFB == 0x42:
            p.kind = TIMESTAMP
            return self.timestamp(data, size, p)
        return self.simple_packet(data, size, p)

    cdef list own(self):
        return [self.address, self.time, self.isa, self.timed]

    cdef int load_own(self, list state) except -1:
        self.address, self.time, self.isa, self.timed = state
        if self.isa > JAZELLE:
            raise ValueError("instruction set")
        return 0

    cdef int locate(self, const uint8_t* data, size_t size, Packet* p, int* information) noexcept nogil:
        """Read an address of up to 5 bytes. Return its bytes; 0 if there is none; -1 if data ends in it.

        ``information`` becomes whether a byte with more follows. The packet gets the bits as they are, unshifted.
        """
        cdef int n = 1
        cdef uint8_t byte
        cdef bint more
        if size < 1:
            return -1
        p.value, p.bits, p.isa = data[0] >> 1 & 0x3F, 6, self.isa
        more, information[0] = data[0] >= 0x80, 0
        while more and n < 4:
            if <size_t>n >= size:
                return -1
            byte = data[n]
            n += 1
            more = byte >= 0x80
            if more:
                p.value |= <uint64_t>(byte & 0x7F) << p.bits
                p.bits += 7
            else:
                information[0] = byte & 0x40
                p.value |= <uint64_t>(byte & 0x3F) << p.bits
                p.bits += 6
        if more:
            if <size_t>n >= size:
                return -1
            byte = data[n]
            n += 1
            information[0] = byte & 0x40
            if byte & 0x80:
                return 0
            if byte & 0x38 == 0x08:
                p.isa = ARM
                p.value |= <uint64_t>(byte & 7) << p.bits
                p.bits += 3
            elif byte & 0x30 == 0x10:
                p.isa = THUMB
                p.value |= <uint64_t>(byte & 15) << p.bits
                p.bits += 4
            elif byte & 0x20:
                p.isa = JAZELLE
                p.value |= <uint64_t>(byte & 31) << p.bits
                p.bits += 5
            else:
                return 0
            p.has |= FULL
        return n

    cdef void arrive(self, Packet* p, uint8_t isa) noexcept nogil:
        """Complete the packet's address from the one before."""
        cdef int shift = 2 if isa == ARM else 0 if isa == JAZELLE else 1
        p.isa = isa
        p.value <<= shift
        p.bits += shift
        if p.bits < 32:
            p.value |= self.address >> p.bits << p.bits
        else:
            self.based = True
        if self.based:
            p.has |= BASED
        p.value = <uint32_t>p.value
        self.address, self.isa = <uint32_t>p.value, isa

    cdef int branch(self, const uint8_t* data, size_t size, Packet* p) noexcept nogil:
        cdef int n, k, information
        cdef uint8_t isa
        n = self.locate(data, size, p, &information)
        if n <= 0:
            return n
        isa = p.isa
        if information:
            if <size_t>n >= size:
                return -1
            p.context = data[n] >> 1 & 15
            if isa == THUMB and data[n] & 0x40:
                isa = THUMBEE
            elif isa == THUMBEE and not data[n] & 0x40:
                isa = THUMB
            if data[n] & 0x80:
                if <size_t>(n + 1) >= size:
                    return -1
                if data[n + 1] & 0x80:
                    return 0
                p.context |= <uint32_t>(data[n + 1] & 0x1F) << 4
                n += 1
            n += 1
            p.has |= EXCEPTION if p.context else SWITCH
        if self.cycle_accurate:
            k = cycles_of(data + n, size - n, &p.count)
            if k < 0:
                return k
            p.has |= COUNT
            n += k
        self.arrive(p, isa)
        return n

    cdef int update(self, const uint8_t* data, size_t size, Packet* p) noexcept nogil:
        cdef int n, information
        cdef uint8_t isa
        n = self.locate(data + 1, size - 1, p, &information)
        if n <= 0:
            return n
        isa = p.isa
        n += 1
        if information and p.has & FULL:
            if <size_t>n >= size:
                return -1
            if isa == THUMB and data[n] & 0x40:
                isa = THUMBEE
            n += 1
        self.arrive(p, isa)
        return n

    cdef int sync(self, const uint8_t* data, size_t size, Packet* p) noexcept nogil:
        cdef int n = 6, k
        cdef uint8_t information
        if size < 6:
            return -1
        information = data[5]
        if not information & 1:  # bit 0 is always 1
            return 0
        p.value, p.bits = little(data + 1, 4), 32
        p.reason, p.world = information >> 5 & 3, (information >> 3 & 1) | (information & 2)
        if p.value & 1:
            p.isa = THUMBEE if information & 4 else THUMB
            p.value ^= 1
        elif p.value & 2:  # no ARM instruction can be there
            return 0
        if self.cycle_accurate and p.reason:
            k = cycles_of(data + n, size - n, &p.count)
            if k < 0:
                return k
            p.has |= COUNT
            n += k
        if size < <size_t>(n + self.context_bytes):
            return -1
        p.context = <uint32_t>little(data + n, self.context_bytes)
        n += self.context_bytes
        p.has |= FULL | BASED
        self.address, self.isa, self.based = <uint32_t>p.value, p.isa, True
        return n

    cdef int timestamp(self, const uint8_t* data, size_t size, Packet* p) noexcept nogil:
        # Every byte has a continuation bit, except the last possible one.
        cdef int n, k
        cdef uint64_t value = 0
        for n in range(1, self.time_bytes + 1):
            if <size_t>n >= size:
                return -1
            if n == self.time_bytes:
                value |= <uint64_t>(data[n] if n == 9 else data[n] & 0x3F) << 7 * (n - 1)
                p.bits = 64
                break
            value |= <uint64_t>(data[n] & 0x7F) << 7 * (n - 1)
            p.bits = 7 * n
            if data[n] < 0x80:
                break
        n += 1
        if self.cycle_accurate:
            k = cycles_of(data + n, size - n, &p.count)
            if k < 0:
                return k
            p.has |= COUNT
            n += k
        if p.bits < 64:
            value |= self.time >> p.bits << p.bits
        else:
            self.timed = True
        if self.timed:
            p.has |= BASED
        self.time = value
        if self.gray:
            for k in range(6):
                value ^= value >> (1 << k)
        p.value = value
        return n
