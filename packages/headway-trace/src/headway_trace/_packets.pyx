"""Packets of any trace protocol, and what their parsers have in common.

An A-sync is at least five bytes 0 (in ETMv4 eleven) and a byte 80. A packet becomes final when the longest packet would
fit into what has been read. How the input was divided therefore makes no difference.

Source: ARM IHI 0014Q, 7.5; ARM IHI 0035B, 4.3; ARM IHI 0064, 6.4.
"""

from libc.stdint cimport uint8_t, uint64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memset

from headway_trace.packets import Packet as PyPacket


cdef class Packets:
    """A sequence of packets that one call of the parser found."""

    def __dealloc__(self):
        free(self.data)

    def __iter__(self):
        return (self[i] for i in range(self.size))

    def __len__(self):
        return self.size

    def __getitem__(self, Py_ssize_t i):
        if not 0 <= i < self.size:
            raise IndexError(i)
        cdef Packet* p = &self.data[i]
        return PyPacket(
            p.kind, p.index, p.count if p.kind == NOISE or p.kind == INCOMPLETE else p.size, p.value, p.has, p.isa,
            p.reason, p.bits, p.header, p.count if p.kind > INCOMPLETE else 0, p.context, p.before,
        )

    def counts(self):
        """Return the number of packets of each kind, indexed by kind; of noise and incomplete packets, their bytes."""
        cdef uint64_t total[64]
        cdef Py_ssize_t i
        memset(total, 0, sizeof(total))
        for i in range(self.size):
            total[self.data[i].kind] += self.data[i].count if self.data[i].kind <= INCOMPLETE else 1
        return [total[i] for i in range(KINDS)]


cdef class StreamParser:
    """A parser of one stream's bytes; each protocol has its own `packet`."""

    def __cinit__(self):
        self.rest, self.aligner = b"", 5

    cdef int packet(self, const uint8_t* data, size_t size, Packet* p) noexcept nogil:
        """Read one packet. Return its bytes; 0 if there is none; -1 if it does not end yet."""
        return 0

    cdef int simple_packet(self, const uint8_t* data, size_t size, Packet* p) noexcept nogil:
        """Read a packet of a kind that ETMv3 and PTM have alike. Return as `packet` does."""
        cdef uint8_t h = data[0]
        if h == 0x0C:
            p.kind = TRIGGER
        elif h == 0x66:
            p.kind = IGNORE
        elif h == 0x76:
            p.kind = RETURN
        elif h == 0x6E and self.context_bytes:
            if size < <size_t>(1 + self.context_bytes):
                return -1
            p.kind, p.value = CONTEXT, little(data + 1, self.context_bytes)
            return 1 + self.context_bytes
        elif h == 0x3C and self.machines:
            if size < 2:
                return -1
            p.kind, p.value = MACHINE, data[1]
            return 2
        else:
            return 0
        return 1

    def feed(self, data):
        """Take more bytes of the stream. Return the packets that are complete."""
        return self.take(bytes(data), False)

    def finish(self):
        """End the stream. Return the packets that are left."""
        return self.take(b"", True)

    def lost(self):
        """Report that bytes are missing before the next that is fed.

        An unfinished packet becomes noise, and addresses may be out of date. Return the packets that are left.
        """
        cdef Packets found = self.take(b"", True)
        if found.size and found.data[found.size - 1].kind == INCOMPLETE:  # the stream does not end there
            found.data[found.size - 1].kind = NOISE
        self.based = False
        return found

    cdef Packets take(self, bytes data, bint last):
        if self.rest:
            data = self.rest + data
        cdef Packets found = self.parse(<const uint8_t*><const char*>data, len(data), last)
        return found

    cdef Packets parse(self, const uint8_t* data, size_t size, bint last):
        cdef Packets found = Packets()
        cdef size_t at = 0, n = 0, room = size + 4
        cdef int used
        cdef bint wrong
        cdef Packet* p
        found.data = <Packet*>malloc(room * sizeof(Packet))
        if found.data == NULL:
            raise MemoryError
        with nogil:
            while at < size and (last or size - at >= <size_t>self.longest):
                p = &found.data[n]
                if data[at] == 0:
                    self.zeros += 1
                    at += 1
                    continue
                if self.zeros:
                    used = 0
                    if data[at] == 0x80 and self.zeros >= <uint64_t>self.aligner:
                        used = self.aligner
                    elif self.extended and (data[at] == 0x03 or data[at] == 0x05):
                        used = 1
                    wrong = not used and self.zeros > 1  # an A-sync that the byte was to go on or to end
                    if self.zeros > <uint64_t>used:
                        add_noise(p, self.position + at - self.zeros, self.zeros - used + wrong)
                        n += 1
                        self.based = False
                        p = &found.data[n]
                    self.zeros = 0
                    if wrong:
                        at += 1
                        continue
                    if used:
                        memset(p, 0, sizeof(Packet))
                        p.kind = ALIGNMENT if data[at] == 0x80 else DISCARD if data[at] == 0x03 else LOST
                        p.size, p.index = used + 1, self.position + at - used
                        at += 1
                        n += 1
                        continue
                p.index = self.position + at
                p.value = p.header = data[at]
                p.count = p.context = p.before = 0
                p.has = p.isa = p.reason = p.bits = p.world = 0
                used = self.packet(data + at, size - at, p)
                if used > 0:
                    p.size = used
                    at += used
                    n += 1
                elif used < 0:  # the stream ends inside the packet
                    p.kind, p.size, p.count = INCOMPLETE, 0, size - at
                    at = size
                    n += 1
                else:
                    add_noise(p, p.index, 1)
                    n += 1
                    self.based = False
                    at += 1
            if last and self.zeros:
                add_noise(&found.data[n], self.position + at - self.zeros, self.zeros)
                if self.zeros <= <uint64_t>self.aligner:  # the stream ends in an A-sync
                    found.data[n].kind = INCOMPLETE
                n += 1
                self.zeros = 0
        self.position += at
        self.rest = data[at:size]
        found.size = n
        if n * 2 < room:  # packets may be kept for long, so free the memory that they do not need
            p = <Packet*>realloc(found.data, (n + 1) * sizeof(Packet))
            if p != NULL:
                found.data = p
        return found

    cdef list own(self):
        """Return the state that only this protocol has, in values that JSON has."""
        return []

    cdef int load_own(self, list state) except -1:
        """Go on from such a state. Raises ValueError, TypeError or OverflowError if it is none."""
        return 0

    def save(self):
        """Return the state between two calls of `feed`, in values that JSON has."""
        return [self.position, self.zeros, self.based, self.rest.hex(), self.own()]

    def load(self, list state not None):
        """Go on where `save` was called. Raises ValueError, TypeError or OverflowError if it is no such state."""
        self.position, self.zeros, self.based, rest, own = state
        self.rest = bytes.fromhex(rest)
        if len(self.rest) > self.longest or self.zeros > self.position:
            raise ValueError("bytes")
        self.load_own(own)
