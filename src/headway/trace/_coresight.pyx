"""CoreSight formatter frames, in which several trace sources share one buffer, separated by trace ID.

A frame has 16 bytes. Bytes 0, 2 … 14 are a trace ID (bit 0 set), or data whose bit 0 is in byte 15. Bytes 1, 3 … 13 are
data. An ID holds for the bytes after it, or, if its bit in byte 15 is set, from the byte after next on. It lasts into
the next frame.

The source of a byte is unknown before the first ID. A frame of zeros only is a lost frame, because no formatter writes
one within a trace. It is reported to the stream that was being written as a loss. That stream also gets the bytes up to
the next ID, because most frames change no ID, and the layers above detect foreign bytes.

Source: ARM IHI 0029E, "CoreSight Architecture Specification", chapter D4.
"""

from array import array

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport uint8_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

DEF FRAME = 16
DEF IDS = 128
DEF UNKNOWN = 128  # the index for bytes of unknown source, after all the IDs


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
