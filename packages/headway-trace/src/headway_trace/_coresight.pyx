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
from bisect import bisect_left, bisect_right

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

DEF FRAME = 16
DEF IDS = 128
DEF UNKNOWN = 128  # the index for bytes of unknown source, after all the IDs
DEF BLOCK = 512    # bytes that a DSTREAM unit stores at a time
DEF FOOTER = 8     # bytes at the end of a block that are not trace
DEF ANY = -1
DEF MARKS = 0x0001000100010001  # bit 0 of the even bytes among eight; without a cast it is an object of Python

cdef struct Piece:         # what one stream gets of some frames
    uint8_t* data
    uint64_t* places
    size_t used, placed
    Py_ssize_t frame       # the last that had a byte for it


cdef class Deformatter:
    """A reader of frames, which takes whole frames at a time.

    ``only``: the trace ID of the stream whose pieces are made; None: all. The bytes of the others are counted.
    """

    cdef bytes rest
    cdef uint64_t position
    cdef int current, only
    cdef readonly int first         # the stream of the first byte whose source is known; -1: there is none yet
    cdef uint64_t offsets[IDS + 1]  # number of bytes that each stream has had

    def __init__(self, only=None):
        self.rest, self.current, self.first = b"", UNKNOWN, -1
        self.only = ANY if only is None else only
        memset(self.offsets, 0, sizeof(self.offsets))

    @property
    def sizes(self):
        """The number of bytes so far of each stream that has any."""
        return {i: self.offsets[i] for i in range(IDS) if self.offsets[i]}

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
        if not self.made(self.current):
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
                if self.made(self.current):
                    places = array("Q", (self.offsets[self.current], self.position + frame))
                    found.append((self.current, b"", places))
        self._frames(raw, begin, size, found)
        self.position += size
        return found

    def save(self):
        """Return the state between two calls of `feed`, in values that JSON has."""
        return [self.rest.hex(), self.position, self.current, self.first, self.offsets]

    def load(self, list state not None):
        """Go on where `save` was called.

        Raises ValueError, TypeError, IndexError or OverflowError if it is no state.
        """
        cdef int i
        rest, self.position, self.current, self.first, offsets = state
        self.rest = bytes.fromhex(rest)
        if not isinstance(offsets, list) or len(offsets) != IDS + 1:
            raise ValueError("offsets")
        for i in range(IDS + 1):
            self.offsets[i] = offsets[i]
        if len(self.rest) >= FRAME or not 0 <= self.current <= UNKNOWN or not -1 <= self.first < IDS:
            raise ValueError("frame")

    cdef bint made(self, int stream) noexcept:
        """Return whether pieces are made of the stream."""
        return stream != UNKNOWN and (self.only == ANY or self.only == stream)

    cdef _frames(self, const uint8_t* raw, Py_ssize_t begin, Py_ssize_t end, list found):
        cdef Piece pieces[IDS + 1]
        cdef Piece* piece
        cdef uint64_t halves[2]
        cdef Py_ssize_t frame, frames = (end - begin) // FRAME
        cdef int i, k, pending, current = self.current, only = self.only
        cdef uint8_t byte, low
        if begin == end:
            return
        memset(pieces, 0, sizeof(pieces))
        order = []
        try:
            for frame in range(begin, end, FRAME):
                low, pending, i = raw[frame + 15], -1, 0
                memcpy(halves, raw + frame, FRAME)
                while i < 15:
                    byte = raw[frame + i]
                    if i & 1 == 0 and byte & 1:
                        if low >> (i >> 1) & 1 and i < 14:
                            pending = byte >> 1
                        else:
                            current = byte >> 1
                        i += 1
                        continue
                    if self.first < 0 and current != UNKNOWN:
                        self.first = current
                    piece = &pieces[current]
                    if current == UNKNOWN or only != ANY and only != current:
                        if not i and not halves[0] & <uint64_t>MARKS and not halves[1] & <uint64_t>MARKS:
                            piece.used += 15
                            break
                        piece.used += 1
                    else:
                        if piece.data == NULL:
                            piece.data = <uint8_t*>malloc(end - frame)
                            piece.places = <uint64_t*>malloc(frames * 2 * sizeof(uint64_t))
                            if piece.data == NULL or piece.places == NULL:
                                raise MemoryError
                            piece.frame = -1
                            order.append(current)
                        if piece.frame != frame:
                            piece.frame = frame
                            piece.places[piece.placed] = self.offsets[current] + piece.used
                            piece.places[piece.placed + 1] = self.position + frame
                            piece.placed += 2
                        if not i and not halves[0] & <uint64_t>MARKS and not halves[1] & <uint64_t>MARKS:
                            # All of the frame is data of one source.
                            memcpy(piece.data + piece.used, raw + frame, 15)
                            for k in range(8 if low else 0):
                                piece.data[piece.used + 2 * k] |= low >> k & 1
                            piece.used += 15
                            break
                        piece.data[piece.used] = byte | (low >> (i >> 1) & 1 if i & 1 == 0 else 0)
                        piece.used += 1
                    if pending >= 0:
                        current, pending = pending, -1
                    i += 1
            self.current = current
            for i in range(IDS + 1):
                piece = &pieces[i]
                if piece.data == NULL:
                    self.offsets[i] += piece.used
            for i in order:
                piece = &pieces[i]
                places = array("Q")
                places.frombytes(PyBytes_FromStringAndSize(<char*>piece.places, piece.placed * sizeof(uint64_t)))
                found.append((i, PyBytes_FromStringAndSize(<char*>piece.data, piece.used), places))
                self.offsets[i] += piece.used
        finally:
            for i in range(IDS + 1):
                free(pieces[i].data)
                free(pieces[i].places)


cdef class StreamPlaces:
    """The positions of a stream's bytes in the buffer, to the frame; in a long trace, to a few frames."""

    cdef object offsets, positions  # arrays; what is at one index belongs together
    cdef size_t most, every, seen

    def __init__(self, most=1 << 16):
        self.offsets, self.positions = array("Q", (0,)), array("Q", (0,))
        self.most, self.every, self.seen = most, 1, 0

    def __len__(self):
        """Return the number of places that are kept."""
        return len(self.offsets)

    def add(self, pairs not None):
        """Add pairs (byte of the stream, byte of the buffer), flattened into one array and ascending."""
        cdef const uint64_t[::1] numbers = pairs
        cdef size_t i, skipped, count = numbers.shape[0] // 2
        i = 0
        while i < count:
            # The next place that is kept is the one with which the number of those seen is a multiple.
            skipped = self.every - 1 - self.seen % self.every
            if skipped >= count - i:
                self.seen += count - i
                return
            self.seen += skipped + 1
            i += skipped
            self.offsets.append(numbers[2 * i])
            self.positions.append(numbers[2 * i + 1])
            i += 1
            if len(self.offsets) > self.most:
                self.offsets, self.positions = self.offsets[::2], self.positions[::2]
                self.every *= 2

    def save(self):
        """Return the places as bytes that `load` takes."""
        return array("Q", (self.every, self.seen)).tobytes() + self.offsets.tobytes() + self.positions.tobytes()

    def load(self, bytes saved not None):
        """Take over places that `save` returned. Raises ValueError for other bytes."""
        found = array("Q")
        found.frombytes(saved)
        half = len(found) // 2
        if len(found) < 4 or len(found) % 2 or half > self.most + 1 or not found[0]:
            raise ValueError("places")
        self.every, self.seen = found[0], found[1]
        self.offsets, self.positions = found[2:half + 1], found[half + 1:]

    def span(self, start, end):
        """Return the span of bytes of the buffer in which the stream's bytes ``start`` to ``end`` lie."""
        first = self.positions[max(bisect_right(self.offsets, start) - 1, 0)]
        last = bisect_left(self.offsets, end)
        if last < len(self.offsets):
            return first, max(self.positions[last], first)
        return first, self.positions[len(self.positions) - 1] + FRAME * self.every


cdef class Probe:
    """A reader of what a trace port (TPIU) sends without pause, with synchronisation packets, calling a `Deformatter`.

    ``block``: bytes of a block of a DSTREAM unit, the last 8 of which are no trace; 0: there are no blocks. ``skip``:
    the byte with which the first frame begins; -1: only the first full synchronisation packet shows it. ``starts``: in
    order, the bytes at which frames begin anew, because others are missing.
    """

    cdef object deformatter
    cdef int block
    cdef uint64_t skip
    cdef uint64_t position       # in the buffer, of the next byte
    cdef bint aligned            # it is known where frames begin
    cdef uint8_t frame[16]       # the frame that is being read
    cdef int filled
    cdef uint64_t began          # position of its first byte
    cdef uint32_t recent         # the last four bytes, to find a full synchronisation packet
    cdef int half                # the first byte of a pair, -1 if there is none
    cdef uint64_t half_at
    cdef readonly uint64_t syncs     # full synchronisation packets so far
    cdef readonly uint64_t halves    # half ones so far
    cdef tuple starts
    cdef Py_ssize_t begun        # of the starts, those that have passed
    cdef bytearray run           # frames without anything between them, not yet taken apart
    cdef uint64_t run_at         # position of their first byte

    def __init__(self, only=None, *, int block=BLOCK, int skip=-1, starts=()):
        self.starts = tuple(starts)
        self.deformatter, self.half, self.block = Deformatter(only), -1, block
        self.aligned, self.skip, self.run = skip >= 0, max(skip, 0), bytearray()

    @property
    def first(self):
        """As of `Deformatter`."""
        return self.deformatter.first

    @property
    def sizes(self):
        """As of `Deformatter`."""
        return self.deformatter.sizes

    def feed(self, data):
        """Take more bytes of the buffer. Return pieces as `Deformatter.feed` does."""
        cdef bytes raw = bytes(data)
        cdef const uint8_t* at = <const uint8_t*><const char*>raw
        cdef Py_ssize_t i
        cdef uint8_t byte
        cdef uint64_t upcoming
        found = []
        while self.begun < len(self.starts) and self.starts[self.begun] < self.position:  # after `load`
            self.begun += 1
        upcoming = self.upcoming()
        for i in range(len(raw)):
            byte = at[i]
            if self.position == upcoming:
                self.flush(found)
                found += self.deformatter.lost(self.position)
                self.filled, self.half = 0, -1
                self.begun += 1
                upcoming = self.upcoming()
            if not self.block or self.position % self.block < <uint64_t>(self.block - FOOTER):
                self.recent = self.recent << 8 | byte
                if self.recent == <uint32_t>0xFFFFFF7F:  # a full synchronisation packet, before a frame
                    # Its first half may have been kept as if it were the begin of a frame.
                    if self.filled > 2 or self.filled and self.recent_half() != 0xFFFF:
                        self.flush(found)
                        found += self.deformatter.lost(self.began)
                    self.aligned, self.filled, self.half = True, 0, -1
                    self.syncs += 1
                elif self.aligned and self.position >= self.skip:
                    self.take(byte, found)
            self.position += 1
        self.flush(found)
        return found

    def save(self):
        """As of `Deformatter`."""
        frame = PyBytes_FromStringAndSize(<char*>self.frame, FRAME).hex()
        state = [self.position, self.aligned, frame, self.filled, self.began, self.recent, self.half, self.half_at]
        return [*state, self.deformatter.save()]

    def load(self, list state not None):
        """As of `Deformatter`."""
        cdef bytes frame
        (
            self.position, self.aligned, text, self.filled, self.began, self.recent, self.half, self.half_at, frames
        ) = state
        frame = bytes.fromhex(text)
        if len(frame) != FRAME or not 0 <= self.filled < FRAME or self.filled & 1 or not -1 <= self.half <= 255:
            raise ValueError("frame")
        memcpy(self.frame, <const char*>frame, FRAME)
        self.deformatter.load(frames)

    cdef uint64_t upcoming(self):
        """Return the next byte at which frames begin anew; one that no buffer has if there is none."""
        return self.starts[self.begun] if self.begun < len(self.starts) else <uint64_t>-1

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
            self.halves += 1
            return
        if not self.filled:
            self.began = self.half_at
        self.frame[self.filled], self.frame[self.filled + 1] = first, byte
        self.filled += 2
        if self.filled == FRAME:
            self.filled = 0
            if self.began != self.run_at + <uint64_t>len(self.run):
                self.flush(found)
            if not self.run:
                self.run_at = self.began
            self.run += PyBytes_FromStringAndSize(<char*>self.frame, FRAME)
            if self.position + 1 != self.began + FRAME:  # a half one lies within it
                self.flush(found)

    cdef flush(self, list found):
        """Take the frames apart that have been gathered."""
        if self.run:
            self.deformatter.move(self.run_at)
            found += self.deformatter.feed(bytes(self.run))
            self.run = bytearray()
