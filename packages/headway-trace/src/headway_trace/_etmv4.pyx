"""A parser for the packets of ETMv4 and ETE, of the instruction trace.

Like the others it needs no program image and never fails: a byte that cannot begin a packet is noise of one byte.

Source: ARM IHI 0064, "Embedded Trace Macrocell architecture specification ETMv4", chapter 6; ARM DDI 0487, D5 (ETE).
Sizes of exception packets of ETE and offsets of commits are as OpenCSD reads them.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t

from headway_trace._packets cimport (
    ADDRESS, ATOMS, BASED, CANCELLED, COMMIT, CONDITIONAL, CONTEXT, COUNT, CYCLES, DATA, EVENT, FULL, IGNORE, INFO,
    INSTRUMENTATION, MARKER, ON, QUOTA, RAISED, RETURN, SOURCE, TIMESTAMP, TRANSACTION, Packet, StreamParser, length7,
    little,
)

DEF LONGEST = 40        # bytes; a trace info has at most 33
DEF ETE = 0x50          # the version from which on a unit is an ETE
DEF FAILED = 0x18       # the exception of a failed transaction


cdef int number7(const uint8_t* data, size_t size, int most, uint64_t* found) noexcept nogil:
    """Read a number with continuation bits. Return its bytes, or what `length7` returns."""
    cdef int i, n = length7(data, size, most)
    found[0] = 0
    for i in range(n):
        found[0] |= <uint64_t>(data[i] & 0x7F) << 7 * i
    return n


cdef class Parser(StreamParser):
    """A parser of one stream's bytes. ``version``: 0x40 to 0x46 of ETMv4, from 0x50 on of ETE.

    ``deepest``: how many elements may be speculative; ``commits``: cycle counts have a number of elements to commit.
    """

    def __init__(self, *, version, machine_bytes, thread_bytes, conditions, quotas, commits, data, deepest):
        self.version, self.embedded = version, version >= ETE
        self.machine_bytes, self.thread_bytes = machine_bytes, thread_bytes
        self.conditions, self.quotas, self.commits, self.data = conditions, quotas, commits, data
        self.deepest = min(deepest, 1 << 20)
        self.longest, self.aligner, self.extended = LONGEST, 11, True

    cdef int packet(self, const uint8_t* data, size_t size, Packet* p) noexcept nogil:
        """Read one packet. Return its bytes; 0 if there is none; -1 if it does not end yet."""
        cdef uint8_t h = data[0]
        cdef int n, k
        if h >= 0xC0:
            p.kind = ATOMS
            if h >= 0xF8:
                p.bits, p.value = 3, ~h & 7
            elif h >= 0xF6:
                p.bits, p.value = 1, ~h & 1
            elif h == 0xF5 or 0xD5 <= h <= 0xD7:
                k = h >> 3 & 4 | h & 3
                p.bits = 5
                p.value = 0x01 if k == 5 else 0x1F if k == 1 else 0x15 if k == 2 else 0x0A
            elif h >= 0xDC and h <= 0xDF:
                p.bits = 4
                p.value = 0x1 if h & 3 == 0 else 0xF if h & 3 == 1 else 0x5 if h & 3 == 2 else 0xA
            elif h >= 0xD8 and h <= 0xDB:
                p.bits, p.value = 2, ~h & 3
            else:
                p.bits = (h & 0x1F) + 4
                p.value = <uint64_t>(h >> 5 & 1) << p.bits - 1
            return 1
        if h == 0x01:
            return self.info(data, size, p)
        if h & 0xFE == 0x02:
            return self.timestamp(data, size, p)
        if h == 0x04:
            p.kind = ON
            return 1
        if h == 0x06:
            return self.exception(data, size, p)
        if h == 0x07:  # an ETE has none, but units before it that say they are one do
            p.kind = RETURN
            return 1
        if (h == 0x0A or h == 0x0B) and self.embedded:
            p.kind = TRANSACTION
            return 1
        if h == 0x09 and self.version >= ETE + 3:
            p.kind = INSTRUMENTATION
            return 10 if size >= 10 else -1
        if 0x0C <= h <= 0x1F:
            return self.cycles(data, size, p)
        if 0x20 <= h <= 0x2C and self.data:
            p.kind = DATA
            return 1
        if 0x2D <= h <= 0x3F:
            return self.speculation(data, size, p)
        if 0x40 <= h <= 0x6F:
            return self.conditional(data, size, p) if self.conditions else 0
        if h == 0x70 and self.version >= 0x43:
            p.kind = IGNORE
            return 1
        if 0x71 <= h <= 0x7F:
            p.kind, p.value = EVENT, h & 15
            return 1
        if h == 0x80:
            p.kind, p.header = CONTEXT, 0
            return 1
        if h == 0x81:
            p.kind = CONTEXT
            n = self.context(data + 1, size - 1, p)
            p.has |= WITH_CONTEXT
            return n + 1 if n > 0 else n
        if h == 0x88 and self.version >= 0x46:
            p.kind = MARKER
            return 1
        if h == 0x82 or h == 0x83 or h == 0x85 or h == 0x86:
            p.kind = ADDRESS
            p.isa = h == 0x83 or h == 0x86
            n = self.address(data, size, p, 64 if h >= 0x85 else 32)
            if n <= 0:
                return n
            k = self.context(data + n, size - n, p)
            if k < 0:
                return k
            p.has |= WITH_CONTEXT
            self.remember(p)
            return n + k
        if h >= 0x90 and h <= 0x92 or h >= 0xB0 and h <= 0xB2 and self.embedded:
            p.kind = ADDRESS if h < 0xA0 else SOURCE
            p.value, p.isa, p.bits = self.places[h & 3], self.sets[h & 3], 0
            self.remember(p)
            return 1
        if h == 0x95 or h == 0x96 or h == 0x9A or h == 0x9B or h == 0x9D or h == 0x9E:
            p.kind = ADDRESS
            p.isa = h == 0x96 or h == 0x9B or h == 0x9E
            n = self.address(data, size, p, 16 if h < 0x9A else 32 if h < 0x9D else 64)
        elif h >= 0xB4 and h <= 0xB9 and self.embedded:
            p.kind = SOURCE
            p.isa = h & 1
            n = self.address(data, size, p, 16 if h < 0xB6 else 32 if h < 0xB8 else 64)
        elif h & 0xF0 == 0xA0 and self.quotas:
            return self.quota(data, size, p)
        else:
            return 0
        if n > 0:
            self.remember(p)
        return n

    cdef list own(self):
        cdef int i
        return [self.places, [self.sets[i] for i in range(3)], self.time, self.threshold, self.timed]

    cdef int load_own(self, list state) except -1:
        cdef int i
        places, sets, self.time, self.threshold, self.timed = state
        if len(places) != 3 or len(sets) != 3:
            raise ValueError("addresses")
        for i in range(3):
            self.places[i], self.sets[i] = places[i], sets[i]
            if self.sets[i] > 1:
                raise ValueError("instruction set")
        return 0

    cdef void remember(self, Packet* p) noexcept nogil:
        """Complete the address of a packet, and keep it as the newest."""
        if p.bits == 64:
            self.based = True
        if self.based:
            p.has |= BASED
        self.places[2], self.sets[2] = self.places[1], self.sets[1]
        self.places[1], self.sets[1] = self.places[0], self.sets[0]
        self.places[0], self.sets[0] = p.value, p.isa

    cdef int address(self, const uint8_t* data, size_t size, Packet* p, int form) noexcept nogil:
        """Read an address after a header: a short one of up to 17 bits, or one of 32 or 64 bits."""
        cdef int shift = 1 if p.isa else 2
        cdef uint64_t value
        if form == 16:
            if size < 2:
                return -1
            value, p.bits = <uint64_t>(data[1] & 0x7F) << shift, 7 + shift
            if data[1] & 0x80:
                if size < 3:
                    return -1
                value |= <uint64_t>data[2] << 7 + shift
                p.bits = 15 + shift
            p.value = self.places[0] >> p.bits << p.bits | value
            return 3 if data[1] & 0x80 else 2
        if size < <size_t>(1 + form // 8):
            return -1
        if p.isa:
            value = <uint64_t>(data[1] & 0x7F) << 1 | <uint64_t>data[2] << 8
        else:
            value = <uint64_t>(data[1] & 0x7F) << 2 | <uint64_t>(data[2] & 0x7F) << 9
        value |= little(data + 3, form // 8 - 2) << 16
        p.bits = form
        if form == 32:
            value |= self.places[0] >> 32 << 32
        else:
            p.has |= FULL
        p.value = value
        return 1 + form // 8

    cdef int context(self, const uint8_t* data, size_t size, Packet* p) noexcept nogil:
        """Read the information of a context, and the virtual machine and thread that it says follow."""
        cdef int n = 1
        if size < 1:
            return -1
        p.header = data[0]
        if p.header & HAS_MACHINE:
            n += self.machine_bytes
        if p.header & HAS_THREAD:
            n += self.thread_bytes
        if size < <size_t>n:
            return -1
        if p.header & HAS_THREAD:
            p.context = <uint32_t>little(data + n - self.thread_bytes, self.thread_bytes)
        return n

    cdef int info(self, const uint8_t* data, size_t size, Packet* p) noexcept nogil:
        cdef int n = 1, k, section
        cdef uint64_t value
        p.kind = INFO
        k = length7(data + 1, size - 1, 4)
        if k <= 0:
            return k
        n += k
        p.value = p.count = p.context = 0
        for section in range(5):
            if data[1] >> section & 1:
                k = number7(data + n, size - n, 5, &value)
                if k <= 0:
                    return k
                n += k
                if section == 0:
                    p.value = value
                elif section == 2:
                    p.context = <uint32_t>value
                elif section == 3:
                    p.count = value
        self.threshold = <uint32_t>p.count
        if not self.based:
            # Unless bytes were lost, the encoder and the parser remember the same.
            for k in range(3):
                self.places[k] = self.sets[k] = 0
            self.time, self.based, self.timed = 0, True, True
        return n

    cdef int timestamp(self, const uint8_t* data, size_t size, Packet* p) noexcept nogil:
        cdef int n, k
        cdef uint64_t value = 0
        p.kind = TIMESTAMP
        for n in range(1, 10):
            if <size_t>n >= size:
                return -1
            value |= <uint64_t>(data[n] if n == 9 else data[n] & 0x7F) << 7 * (n - 1)
            p.bits = 64 if n == 9 else 7 * n
            if n == 9 or data[n] < 0x80:
                break
        n += 1
        if data[0] & 1:
            k = number7(data + n, size - n, 3, &p.count)
            if k <= 0:
                return k
            p.has |= COUNT
            n += k
        if p.bits < 64:
            value |= self.time >> p.bits << p.bits
        else:
            self.timed = True
        if self.timed:
            p.has |= BASED
        self.time = p.value = value
        return n

    cdef int cycles(self, const uint8_t* data, size_t size, Packet* p) noexcept nogil:
        """Read a cycle count: its value, and in ``count`` how many elements it commits."""
        cdef uint8_t h = data[0]
        cdef int n = 1, k
        p.kind, p.value, p.has = CYCLES, 0, COUNT
        if h >= 0x10:
            p.value = self.threshold + (h & 3)
            p.count = (h >> 2 & 3) + 1 if self.commits else 0
            return 1
        if h < 0x0E:
            if size < 2:
                return -1
            k = (data[1] >> 4) + (self.deepest - 15 if h & 1 else 1)
            if k < 0:
                return 0
            p.value, p.count = self.threshold + (data[1] & 15), k
            return 2
        if self.commits:
            k = number7(data + n, size - n, 5, &p.count)
            if k <= 0:
                return k
            n += k
        if h & 1:
            p.has = 0
            return n
        k = number7(data + n, size - n, 3, &p.value)
        if k <= 0:
            return k
        p.value += self.threshold
        return n + k

    cdef int exception(self, const uint8_t* data, size_t size, Packet* p) noexcept nogil:
        cdef int n = 2
        p.kind = RAISED
        if size < 2:
            return -1
        p.context = data[1] >> 1 & 31
        p.reason = data[1] >> 5 & 2 | data[1] & 1
        if data[1] & 0x80 or self.embedded and (p.context == 0 or p.context == FAILED):
            if size < 3:
                return -1
            if data[1] & 0x80:
                p.context |= <uint32_t>(data[2] & 31) << 5
            n = 3
        if self.embedded and p.context == FAILED:
            p.kind = TRANSACTION
        elif self.embedded and p.context == 0:
            p.has |= FULL  # a reset, after which there is no address
        return n

    cdef int speculation(self, const uint8_t* data, size_t size, Packet* p) noexcept nogil:
        """Read a commit, cancel or mispredict: in ``value`` how many elements; before that come up to two atoms."""
        cdef uint8_t h = data[0]
        cdef int n
        p.kind = COMMIT if h == 0x2D else CANCELLED
        if h <= 0x2F:
            n = number7(data + 1, size - 1, 5, &p.value)
            p.value = <uint32_t>p.value
            if h == 0x2F:
                p.has |= MISPREDICT
            return n + 1 if n > 0 else n
        p.has |= MISPREDICT
        if h >= 0x38:
            p.value, p.bits, p.context = (h >> 1 & 3) + 2, h & 1, 0
            return 1
        p.value = h >= 0x34
        p.bits = 0 if h & 3 == 0 else 2 if h & 3 == 2 else 1
        p.context = h & 3 == 3
        return 1

    cdef int conditional(self, const uint8_t* data, size_t size, Packet* p) noexcept nogil:
        """Read a packet of conditional instructions, of which only the length is needed."""
        cdef uint8_t h = data[0]
        cdef int n, k
        p.kind = CONDITIONAL
        if h <= 0x46 or 0x48 <= h <= 0x4A or 0x4C <= h <= 0x4E:
            return 1
        if h >= 0x50 and h <= 0x5F or h == 0x6D:
            return 2 if size >= 2 else -1
        if h == 0x6C:
            n = length7(data + 1, size - 1, 5)
            return n + 1 if n > 0 else n
        if h >= 0x68 and h <= 0x6F:
            n = length7(data + 1, size - 1, 6)
            if n <= 0:
                return n
            n += 1
            if h >= 0x6E:
                return n
            k = length7(data + n, size - n, 6)
            return n + k if k > 0 else k
        return 0

    cdef int quota(self, const uint8_t* data, size_t size, Packet* p) noexcept nogil:
        """Read a Q packet: in ``count`` the instructions that were executed, and an address, if it has them."""
        cdef uint8_t form = data[0] & 15
        cdef int n = 1, k
        p.kind = QUOTA
        p.isa, p.bits = 0, 0
        if form <= 2:
            p.value, p.isa = self.places[form], self.sets[form]
        elif form == 5 or form == 6 or form == 10 or form == 11:
            p.isa = form == 6 or form == 11
            n = self.address(data, size, p, 16 if form < 10 else 32)
            if n <= 0:
                return n
        elif form == 15:
            p.value = 0
            return 1
        elif form != 12:
            return 0
        k = number7(data + n, size - n, 5, &p.count)
        if k <= 0:
            return k
        p.has |= COUNT
        if form != 12:
            p.has |= WITH_CONTEXT  # with an address
            self.remember(p)
        return n + k
