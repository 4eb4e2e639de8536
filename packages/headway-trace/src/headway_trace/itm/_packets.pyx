"""A parser for the packets of ITM and DWT. A header gives the kind of a packet and the size of its payload.

It never fails: a byte that cannot begin a packet is noise of one byte. A packet whose payload reaches into a
synchronisation packet is noise too, since no true payload does: bytes before it are missing.

| header | packet |
|---|---|
| 00 × 5, 80 | synchronisation |
| 70 | overflow |
| 11TC0000 | local timestamp, format 1: up to 28 bits in 4 bytes |
| 0TTT0000 | local timestamp, format 2: 1 to 6 |
| 94, B4 | global timestamp, format 1 (bits 25:0, wrap, clock change) and 2 (bits 47:26, or 63:26) |
| CEEE1S00 | extension; of ITM (S is 0) without C: bits 7:5 of the numbers of stimulus ports |
| AAAAA0ss | instrumentation: stimulus port A, with 1, 2 or 4 bytes |
| AAAAA1ss | hardware source: A tells which |

Source: ARM DDI 0403E.e, appendix D4; ARM DDI 0553B, F1.
"""

from libc.stdint cimport uint8_t, uint64_t

from headway_trace._packets cimport (
    COUNTERS, DATA, EXTENSION, HARDWARE, INSTRUMENTATION, LOCAL, LOST, RAISED, SAMPLE, TIMESTAMP, Packet, StreamParser,
    length7, little,
)

DEF SYNC_SIZE = 6
DEF LONGEST = 16     # bytes; the longest packet has 7, and what follows shows whether it is one


cdef uint64_t number7(const uint8_t* data, int size) noexcept nogil:
    """Return a number of so many bytes with continuation bits."""
    cdef int i
    cdef uint64_t value = 0
    for i in range(size):
        value |= <uint64_t>(data[i] & 0x7F) << 7 * i
    return value


cdef bint reaches_into_sync(const uint8_t* data, size_t size, int used) noexcept nogil:
    """Return whether a synchronisation packet begins within the payload of a packet."""
    cdef int i, k
    for i in range(1, used):
        if <size_t>(i + SYNC_SIZE) > size:
            return False
        if data[i + SYNC_SIZE - 1] != 0x80:
            continue
        for k in range(SYNC_SIZE - 1):
            if data[i + k]:
                break
        else:
            return True
    return False


cdef class Parser(StreamParser):
    """A parser of one stream's bytes.

    A packet's ``value`` is its payload, or the time of a timestamp. Its ``context`` is the low 5 bits of the stimulus port, the
    number of an exception, the discriminator of another hardware source, or the format of a global timestamp. Its ``reason`` is
    TC of a local timestamp (0: exact, 1: the timestamp is late, 2: the packet is, 3: both), the function of an
    exception (1: entered, 2: exited, 3: returned to), or of a global timestamp 1 (wrap) and 2 (the clock changed).
    ``bits``: of the payload, or of the time.
    """

    def __init__(self):
        self.longest = LONGEST

    cdef int packet(self, const uint8_t* data, size_t size, Packet* p) noexcept nogil:
        """Read one packet. Return its bytes; 0 if there is none; -1 if it does not end yet."""
        cdef int used
        p.header = data[0]
        used = self.source(data, size, p) if data[0] & 3 else self.protocol(data, size, p)
        return 0 if used > 1 and reaches_into_sync(data, size, used) else used

    cdef int source(self, const uint8_t* data, size_t size, Packet* p) noexcept nogil:
        """Read a packet of a stimulus port, or of a hardware source."""
        cdef int width = 4 if data[0] & 3 == 3 else data[0] & 3
        cdef uint8_t which = data[0] >> 3
        if size < <size_t>(1 + width):
            return -1
        p.value, p.bits, p.context = little(data + 1, width), <uint8_t>(8 * width), which
        if not data[0] & 4:
            p.kind = INSTRUMENTATION
        elif which == 0 and width == 1:
            p.kind = COUNTERS
        elif which == 1 and width == 2 and p.value & 0x3000:
            p.kind, p.reason, p.context = RAISED, p.value >> 12 & 3, p.value & 0x1FF
        elif which == 2 and (width == 4 or width == 1 and (p.value == 0 or p.value == 0xFF)):
            p.kind = SAMPLE
        elif which >= 8 and which <= 15 and (width == 4 or which & 1 or width == 1) or which >= 16 and which <= 23:
            p.kind = DATA
        else:
            p.kind = HARDWARE
        return 1 + width

    cdef int protocol(self, const uint8_t* data, size_t size, Packet* p) noexcept nogil:
        """Read a packet that no source has written."""
        cdef uint8_t h = data[0]
        cdef int k
        if h == 0x70:
            p.kind = LOST
            return 1
        if h & 0x8F == 0:
            p.kind, p.value, p.bits = LOCAL, h >> 4, 3
            return 1
        if h & 0x0B == 0x08:
            p.kind, p.value, p.bits = EXTENSION, h >> 4 & 7, 3
            if h & 0x80:
                k = length7(data + 1, size - 1, 4)
                if k > 0:
                    p.value |= number7(data + 1, k) << 3
                    p.bits = <uint8_t>(3 + 7 * k)
                return 1 + k if k > 0 else k
            return 1
        if h & 0xCF == 0xC0:
            p.kind, p.reason = LOCAL, h >> 4 & 3
            k = length7(data + 1, size - 1, 4)
        elif h == 0x94 or h == 0xB4:
            p.kind, p.context = TIMESTAMP, 1 if h == 0x94 else 2
            k = length7(data + 1, size - 1, 4 if h == 0x94 else 6)
        else:
            return 0
        if k <= 0:
            return k
        p.value, p.bits = number7(data + 1, k), <uint8_t>(7 * k)
        if h == 0x94 and k == 4:
            p.reason, p.bits = (p.value >> 27 & 1) | (p.value >> 26 & 1) << 1, 26
            p.value &= 0x3FFFFFF
        return 1 + k
