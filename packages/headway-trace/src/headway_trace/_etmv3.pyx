"""A parser for ETMv3 packets.

A header gives the kind of a packet and, with continuation bits of its payload, its length.

The parser needs no program image and never fails. A byte that cannot begin a packet (a reserved header, a payload that
breaks the rules, a kind for which the trace unit is not configured) is noise of one byte, and the next byte is read as
a header. After a damaged header the true packets are therefore found again as soon as possible. The layer above, which
knows the program, decides what to make of them.

Source: ARM IHI 0014Q, "Embedded Trace Macrocell architecture specification", chapter 7.
"""

from headway_trace._packets cimport (
    ARM, ATOMS, BASED, BRANCH, CANCEL, COUNT, CYCLES, DATA, ENTRY, EXCEPTION, FULL,
    JAZELLE, PROGRESS, SWITCH, SYNC, THUMB, THUMBEE, TIMESTAMP, Packet, Packets, StreamParser,
    length7, little,
)

DEF LONGEST = 24  # bytes; an I-sync with all its fields has 20


cdef int atoms_of(uint8_t header, bint cycle_accurate, Atom* out, int* left) noexcept nogil:
    """Find the atoms of a P-header (at most 16), and the cycles that passed after the last; -1 if it is no P-header."""
    cdef int i, count
    left[0] = 0
    if header & 0x81 != 0x80:
        return -1
    if not cycle_accurate:
        if header & 3 == 0:
            count = header >> 2 & 15
            for i in range(count):
                out[i].executed, out[i].cycles = 1, 0
            if header & 0x40:
                out[count].executed, out[count].cycles = 0, 0
                count += 1
            return count if count else -1
        if header & 0xF0 == 0x80:
            out[0].executed, out[0].cycles = not header & 8, 0
            out[1].executed, out[1].cycles = not header & 4, 0
            return 2
        return -1
    if header & 0x23 == 0:  # 1N0EEE00
        count = header >> 2 & 7
        for i in range(count):
            out[i].executed, out[i].cycles = 1, 1
        if header & 0x40:
            out[count].executed, out[count].cycles = 0, 1
            count += 1
        return count if count else -1
    if header & 0xF3 == 0x82:  # 1000ab10
        out[0].executed, out[0].cycles = not header & 8, 1
        out[1].executed, out[1].cycles = not header & 4, 0
        return 2
    if header & 0xA3 == 0xA0:  # 1E1WWW00
        count = (header >> 2 & 7) + 1
        if header & 0x40:
            out[0].executed, out[0].cycles = 1, count
            return 1
        left[0] = count
        return 0
    if header & 0xFB == 0x92:  # 10010F10
        out[0].executed, out[0].cycles = not header & 4, 0
        return 1
    return -1


cdef class Parser(StreamParser):
    """A parser of one stream's bytes."""

    def __init__(
        self, *, cycle_accurate, context_bytes, timestamp_bits, alternative_branches, data_values, data_addresses,
        virtual_machines, deprecated_branches,
    ):
        self.cycle_accurate, self.context_bytes = cycle_accurate, context_bytes
        self.alternative, self.values, self.addresses = alternative_branches, data_values, data_addresses
        self.machines, self.deprecated = virtual_machines, deprecated_branches
        self.time_bytes = 9 if timestamp_bits == 64 else 7
        self.longest = LONGEST

    cdef int packet(self, const uint8_t* data, size_t size, Packet* p) noexcept nogil:
        """Read one packet. Return its bytes; 0 if there is none; -1 if it does not end yet."""
        cdef uint8_t h = data[0]
        cdef int n, i
        cdef Atom atoms[16]
        if h & 0x81 == 0x80:
            p.kind = ATOMS
            if self.cycle_accurate:
                return (h & 0x23 == 0 and h & 0x5C != 0) or h & 0xF3 == 0x82 or h & 0xA3 == 0xA0 or h & 0xFB == 0x92
            return atoms_of(h, False, atoms, &n) >= 0
        if h & 1:
            return self.branch(data, size, p)
        if h == 0x08 or h == 0x70:
            return self.sync(data, size, p)
        if h == 0x04:
            p.kind = CYCLES
            n = length7(data + 1, size - 1, 5)
            if n <= 0:
                return n
            p.value = 0
            for i in range(n):
                p.value |= <uint64_t>(data[1 + i] & 0x7F) << 7 * i
            p.value = <uint32_t>p.value
            return 1 + n
        if h & 0xFB == 0x42:
            p.kind = TIMESTAMP
            return self.timestamp(data, size, p)
        if h == 0x7E:
            p.kind = ENTRY
            return 1
        n = self.simple_packet(data, size, p)
        return n if n or h == 0x6E or h == 0x3C else self.data_packet(data, size, p)

    cdef list own(self):
        return [self.address, self.time, self.isa, self.alternate, self.timed]

    cdef int load_own(self, list state) except -1:
        self.address, self.time, self.isa, self.alternate, self.timed = state
        if self.isa > JAZELLE:
            raise ValueError("instruction set")
        return 0

    cdef int timestamp(self, const uint8_t* data, size_t size, Packet* p) noexcept nogil:
        # Every byte has a continuation bit, except the last possible one, all of whose bits are data.
        cdef int n, most = self.time_bytes
        cdef uint64_t value = 0
        for n in range(1, most + 1):
            if <size_t>n >= size:
                return -1
            if n == 9:
                value |= <uint64_t>data[n] << 56
                p.bits = 64
                break
            value |= <uint64_t>(data[n] & 0x7F) << 7 * (n - 1)
            p.bits = 7 * n
            if data[n] < 0x80:
                break
        else:
            return 0
        if p.bits < 64:
            value |= self.time >> p.bits << p.bits
        self.timed = self.timed or n == most
        if self.timed:
            p.has |= BASED
        self.time = p.value = value
        return n + 1

    cdef int data_packet(self, const uint8_t* data, size_t size, Packet* p) noexcept nogil:
        """Read a packet of the data trace, of which only the length is needed."""
        cdef uint8_t h = data[0]
        cdef int n = 1, k, width = 4 if h & 0xC == 0xC else h >> 2 & 3
        p.kind = DATA
        if not (self.values or self.addresses):
            return 0
        if h & 0xD3 == 0x02 or h & 0xEF == 0x6A or h & 0xD3 == 0x50 and h != 0x50:  # normal, not traced, placeholder
            if self.addresses and (h & 0x20 if h & 0xEF != 0x6A else h & 0x10):
                k = length7(data + 1, size - 1, 5)
                if k <= 0:
                    return k
                n += k
            if h & 0xD3 == 0x02 and self.values:
                n += width
        elif h & 0x93 == 0 and h & 0x60:  # out of order
            n += width
        elif h != 0x50 and h != 0x62:
            return 0
        return n if <size_t>n <= size else -1

    cdef int branch(self, const uint8_t* data, size_t size, Packet* p) noexcept nogil:
        cdef int n = 1, bits = 6, shift
        cdef uint32_t value = data[0] >> 1 & 0x3F
        cdef uint8_t byte, isa = self.isa, alternate = self.alternate
        cdef bint more = data[0] >= 0x80, information = False, first = True
        p.kind = BRANCH
        while more and n < 4:
            if <size_t>n >= size:
                return -1
            byte = data[n]
            n += 1
            more = byte >= 0x80
            if self.alternative and not more:
                information = byte & 0x40 != 0
                value |= <uint32_t>(byte & 0x3F) << bits
                bits += 6
            else:
                value |= <uint32_t>(byte & 0x7F) << bits
                bits += 7
        if more:
            if <size_t>n >= size:
                return -1
            byte = data[n]
            n += 1
            if byte & 0x80:  # the form of exceptions in ETMv3.0
                if not self.deprecated:
                    return 0
                isa, p.has, p.context = ARM, EXCEPTION | (CANCEL if byte & 0x40 else 0), byte >> 3 & 7
                value |= <uint32_t>(byte & 7) << bits
                bits = 30
            else:
                information = byte & 0x40 != 0
                if byte & 0x38 == 0x08:
                    isa = ARM
                    value |= <uint32_t>(byte & 7) << bits
                    bits = 30
                elif byte & 0x30 == 0x10:
                    isa = THUMB
                    value |= <uint32_t>(byte & 15) << bits
                    bits = 31
                elif byte & 0x20:
                    isa = JAZELLE
                    value |= <uint32_t>(byte & 31) << bits
                    bits = 32
                else:
                    return 0
            p.has |= FULL
        if information:
            if <size_t>n >= size:
                return -1
            byte = data[n]
            n += 1
            p.context = byte >> 1 & 15
            p.has |= SWITCH if p.context == 0 else EXCEPTION
            if byte & 0x20:
                p.has |= CANCEL
            alternate = byte >> 6 & 1
            while byte & 0x80:
                if <size_t>n >= size:
                    return -1
                byte = data[n]
                n += 1
                if first and not byte & 0x40:
                    p.context |= <uint32_t>(byte & 0x1F) << 4
                    first = False
                elif byte & 0x80:  # no information byte follows one of the last kind
                    return 0
                else:
                    break
        if isa == THUMB and alternate:
            isa = THUMBEE
        elif isa == THUMBEE and not alternate:
            isa = THUMB
        shift = 2 if isa == ARM else 0 if isa == JAZELLE else 1
        bits += shift
        p.value = <uint64_t>value << shift
        if bits < 32:
            p.value |= self.address >> bits << bits
        else:
            self.based = True
        if self.based:
            p.has |= BASED
        p.value = <uint32_t>p.value
        p.bits, p.isa = bits, isa
        self.address, self.isa, self.alternate = p.value, isa, alternate
        return n

    cdef int sync(self, const uint8_t* data, size_t size, Packet* p) noexcept nogil:
        cdef int n = 1, i, k, bits
        cdef uint8_t info
        cdef uint32_t address, moved
        p.kind = SYNC
        if data[0] == 0x70:
            k = length7(data + 1, size - 1, 5)
            if k <= 0:
                return k
            for i in range(k):
                p.count |= <uint64_t>(data[1 + i] & 0x7F) << 7 * i
            p.count = <uint32_t>p.count
            p.has |= COUNT
            n += k
        if size < <size_t>(n + self.context_bytes + 5):
            return -1
        p.context = <uint32_t>little(data + n, self.context_bytes)
        n += self.context_bytes
        info = data[n]
        if not info & 1:  # bit 0 is always 1
            return 0
        p.reason, p.world = info >> 5 & 3, (info >> 3 & 1) | (info & 2)
        address = <uint32_t>little(data + n + 1, 4)
        n += 5
        if info & 0x10:
            p.isa = JAZELLE
        elif address & 1:
            p.isa = THUMBEE if info & 4 else THUMB
            address &= ~<uint32_t>1
        elif address & 2:  # no ARM instruction can be there
            return 0
        if info & 0x80:  # the instruction after it, compressed against the load or store
            p.has |= PROGRESS
            p.before = address
            k = length7(data + n, size - n, 5)
            if k < 0 and size - n < 5:
                return -1
            if k == 0 or not data[n] & 1:
                return 0
            moved = data[n] >> 1 & 0x3F
            bits = 6
            for i in range(1, k):
                moved |= <uint32_t>(data[n + i] & 0x7F) << bits
                bits += 7
            n += k
            i = 2 if p.isa == ARM else 0 if p.isa == JAZELLE else 1
            bits += i
            moved <<= i
            if bits < 32:
                moved |= address >> bits << bits
            address = moved
        p.value = address
        self.address, self.isa, self.alternate, self.based = address, p.isa, info >> 2 & 1, True
        return n


def atoms(packets, bint cycle_accurate):
    """Return the atoms of the P-headers among the packets: (index, executed, cycles); executed None: cycles alone."""
    cdef Atom found[16]
    cdef int n, i, left
    cdef Packets block = packets
    cdef Py_ssize_t k
    result = []
    for k in range(block.size):
        if block.data[k].kind == ATOMS:
            n = atoms_of(block.data[k].header, cycle_accurate, found, &left)
            for i in range(n):
                result.append((block.data[k].index, bool(found[i].executed), found[i].cycles))
            if left:
                result.append((block.data[k].index, None, left))
    return result
