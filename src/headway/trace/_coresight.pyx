"""CoreSight formatter frames, in which several trace sources share one buffer, separated by trace ID.

A frame has 16 bytes. Bytes 0, 2 … 14 are a trace ID (bit 0 set), or data whose bit 0 is in byte 15. Bytes 1, 3 … 13 are
data. An ID holds for the bytes after it, or, if its bit in byte 15 is set, from the byte after next on. It lasts into
the next frame.

The source of a byte is unknown before the first ID. A frame of zeros only is a lost frame, because no formatter writes
one within a trace. It is reported to the stream that was being written as a loss. That stream also gets the bytes up to
the next ID, because most frames change no ID, and the layers above detect foreign bytes.

A trace port (TPIU) that runs without pause sends synchronisation packets between frames and within them; a DSTREAM unit
stores what it receives in blocks. `Probe` takes both away.

Source: ARM IHI 0029E, "CoreSight Architecture Specification", chapter D4. Blocks of DSTREAM: OpenCSD's manual page of
trc_pkt_lister, and a capture.
"""

from array import array

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

DEF FRAME = 16
DEF IDS = 128
DEF UNKNOWN = 128  # the index for bytes of unknown source, after all the IDs
DEF BLOCK = 512    # bytes that a DSTREAM unit stores at a time
DEF FOOTER = 8     # bytes at the end of a block that are not trace


cdef class Deformatter:
    """A reader of frames, which takes whole frames at a time."""

    cdef bytes rest
    cdef uint64_t position
    cdef int current
    cdef uint64_t offsets[IDS + 1]  # number of bytes that each stream has had

    def __init__(self):
        self.rest, self.current = b"", UNKNOWN
        memset(self.offsets, 0, sizeof(self.offsets))

    @property
    def left(self):
        """The number of bytes at the end that do not fill a frame."""
        return len(self.rest)

    @property
    def unassigned(self):
        """The number of bytes so far whose source is not known."""
        return self.offsets[UNKNOWN]

    def move(self, uint64_t position):
        """Set the position in the buffer of the next byte that is fed, where others lie in between."""
        self.position = position - len(self.rest)

    def lost(self, uint64_t position):
        """Report that bytes are missing at a position of the buffer. Return a piece without bytes, as `feed` does."""
        self.rest = b""
        if self.current == UNKNOWN:
            return []
        return [(self.current, b"", array("Q", (self.offsets[self.current], position)))]

    def feed(self, data):
        """Take more bytes of the buffer. Return pieces (ID, bytes, places), in order for each ID.

        ``places`` is an array of pairs: the number of a byte in the stream, and the position in the buffer of the frame
        whose first byte it is. A piece without bytes reports that its stream lost bytes at that position.
        """
        cdef bytes whole = self.rest + bytes(data)
        cdef Py_ssize_t size = len(whole), frame, begin
        size -= size % FRAME
        self.rest = whole[size:]
        cdef const uint8_t* raw = <const uint8_t*><const char*>whole
        cdef uint8_t any
        cdef int i
        found = []
        begin = 0
        for frame in range(0, size, FRAME):
            any = 0
            for i in range(FRAME):
                any |= raw[frame + i]
            if not any:
                self._frames(raw, begin, frame, found)
                begin = frame + FRAME
                if self.current != UNKNOWN:
                    places = array("Q", (self.offsets[self.current], self.position + frame))
                    found.append((self.current, b"", places))
        self._frames(raw, begin, size, found)
        self.position += size
        return found

    cdef _frames(self, const uint8_t* raw, Py_ssize_t begin, Py_ssize_t end, list found):
        cdef uint8_t* out[IDS + 1]
        cdef Py_ssize_t used[IDS + 1]
        cdef Py_ssize_t frame, last[IDS + 1]
        cdef int i, pending, current = self.current
        cdef uint8_t byte, low
        cdef object kept
        if begin == end:
            return
        memset(out, 0, sizeof(out))
        memset(used, 0, sizeof(used))
        memset(last, 0xFF, sizeof(last))
        places = {}
        try:
            for frame in range(begin, end, FRAME):
                low, pending = raw[frame + 15], -1
                for i in range(15):
                    byte = raw[frame + i]
                    if i & 1 == 0:
                        if byte & 1:
                            if low >> (i >> 1) & 1 and i < 14:
                                pending = byte >> 1
                            else:
                                current = byte >> 1
                            continue
                        byte |= low >> (i >> 1) & 1
                    if last[current] != frame:
                        if out[current] == NULL:
                            out[current] = <uint8_t*>malloc(end - frame)
                            if out[current] == NULL:
                                raise MemoryError
                            places[current] = array("Q")
                        last[current] = frame
                        kept = places[current]
                        kept.append(self.offsets[current] + used[current])
                        kept.append(self.position + frame)
                    out[current][used[current]] = byte
                    used[current] += 1
                    if pending >= 0:
                        current, pending = pending, -1
            self.current = current
            for i, kept in places.items():
                self.offsets[i] += used[i]
                if i != UNKNOWN:
                    found.append((i, PyBytes_FromStringAndSize(<char*>out[i], used[i]), kept))
        finally:
            for i in range(IDS + 1):
                free(out[i])


cdef class Probe:
    """A reader of what a DSTREAM unit stored of a continuous trace port, which calls a `Deformatter`."""

    cdef object deformatter
    cdef uint64_t position       # in the buffer, of the next byte
    cdef bint aligned            # a full synchronisation packet has been seen
    cdef uint8_t frame[16]       # the frame that is being read
    cdef int filled
    cdef uint64_t began          # position of its first byte
    cdef uint32_t recent         # the last four bytes, to find the first synchronisation packet
    cdef int half                # the first byte of a pair, -1 if there is none
    cdef uint64_t half_at

    def __init__(self):
        self.deformatter, self.half = Deformatter(), -1

    def feed(self, data):
        """Take more bytes of the buffer. Return pieces as `Deformatter.feed` does."""
        cdef bytes raw = bytes(data)
        cdef const uint8_t* at = <const uint8_t*><const char*>raw
        cdef Py_ssize_t i
        cdef uint8_t byte
        found = []
        for i in range(len(raw)):
            byte = at[i]
            if self.position % BLOCK < BLOCK - FOOTER:
                self.recent = self.recent << 8 | byte
                if self.recent == 0xFFFFFF7F:  # a full synchronisation packet, before a frame
                    # Its first half may have been kept as if it were the begin of a frame.
                    if self.filled > 2 or self.filled and self.recent_half() != 0xFFFF:
                        found += self.deformatter.lost(self.began)
                    self.aligned, self.filled, self.half = True, 0, -1
                elif self.aligned:
                    self.take(byte, found)
            self.position += 1
        return found

    cdef uint32_t recent_half(self):
        return <uint32_t>self.frame[0] << 8 | self.frame[1]

    cdef take(self, uint8_t byte, list found):
        """Take one byte; pairs that are half a synchronisation packet belong to no frame."""
        if self.half < 0:
            self.half, self.half_at = byte, self.position
            return
        cdef uint8_t first = <uint8_t>self.half
        self.half = -1
        if first == 0xFF and byte == 0x7F:
            return
        if not self.filled:
            self.began = self.half_at
        self.frame[self.filled], self.frame[self.filled + 1] = first, byte
        self.filled += 2
        if self.filled == FRAME:
            self.filled = 0
            self.deformatter.move(self.began)
            found += self.deformatter.feed(PyBytes_FromStringAndSize(<char*>self.frame, FRAME))
