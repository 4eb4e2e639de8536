"""The maker of edges: spans of time in one function become slices, in blocks of edges.

Names are compared as numbers, and a begin is one of the heads that the blocks have in common, so that an edge is no
object of Python.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.math cimport rint
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memset

from headway.errors import HeadwayError

from .edges import Edges, SliceHead, name_of

__all__ = ["EdgeClock", "LineClock", "SliceEdges"]

cdef enum:
    BLOCK = 1 << 15    # edges of a block
    NAMED = 1 << 16    # addresses whose functions are kept
    HEADS = 1 << 16    # heads of a list
    SLOTS = 1 << 17    # places for them
    PLACED = 1         # a head has an address
    THREADED = 2       # it has a thread
    INSTANT = 4        # it is no slice
    ENDS = -1          # instead of the place of a head: the innermost slice ends


cdef class EdgeClock:
    """A conversion of a producer's times to nanoseconds; this one leaves them as they are."""

    cdef int64_t convert(self, int64_t time) except? -1:
        return time


cdef class LineClock(EdgeClock):
    """Times on a line: ``first`` ns at 0, then ``rate`` units of time in a nanosecond."""

    cdef double first, rate

    def __init__(self, double first, double rate):
        if not rate > 0:
            raise ValueError(rate)
        self.first, self.rate = first, rate

    cdef int64_t convert(self, int64_t time) except? -1:
        cdef double found = rint(self.first + time / self.rate)
        if not -9223372036854775808.0 <= found < 9223372036854775808.0:
            raise HeadwayError(
                f"a time of this trace, {found:.0f} ns, is too large to be exported: export a part of it"
            )
        return <int64_t>found


cdef class SliceEdges:
    """Makes edges from spans of time and gives them to ``receive`` in blocks (`edges.Edges`).

    Spans have times of the producer, from 0 to 2^63 - 1, which ``clock`` converts to nanoseconds. They come in the
    order of their track's time. A span that lies before the time that its track has reached is left out and counted
    (``passed``).
    """

    def __cinit__(self):
        self.functions = <Labelled*>calloc(NAMED, sizeof(Labelled))
        self.kept = <Kept*>calloc(SLOTS, sizeof(Kept))
        self.owners = <int64_t*>malloc(BLOCK * sizeof(int64_t))
        self.times = <int64_t*>malloc(BLOCK * sizeof(int64_t))
        self.places = <int32_t*>malloc(BLOCK * sizeof(int32_t))
        if not self.functions or not self.kept or not self.owners or not self.times or not self.places:
            raise MemoryError
        memset(self.near, 0, sizeof(self.near))
        self.numbers, self.labels, self.meanings, self.heads = {}, {}, [], []

    def __init__(self, names, receive, EdgeClock clock=None):
        self.names, self.receive, self.clock = names, receive, clock or EdgeClock()

    def __dealloc__(self):
        free(self.functions)
        free(self.kept)
        free(self.owners)
        free(self.times)
        free(self.places)
        free(self.tracks)

    def executes(self, uint64_t track, int64_t start, int64_t end, uint64_t address, thread=None):
        """Report that the instruction at ``address`` was executed, or waited to be, by the software thread ``thread``.

        Return False if the track has passed that time.
        """
        return bool(self.executed(track, start, end, address, thread is not None, 0 if thread is None else thread))

    def within(self, uint64_t track, int64_t start, int64_t end, name, category, uint64_t address):
        """Report what a part of the last span was spent on, after `executes` has returned True for that span."""
        self.spent(track, start, end, self.label(name, category), address)

    def apart(self, uint64_t track, int64_t start, int64_t end, name, category, address=None):
        """Report that nothing was executed, or that it is not known what was."""
        self.was_apart(
            track, start, end, self.label(name, category), address is not None, 0 if address is None else address
        )

    def mark(self, uint64_t track, int64_t time, name, category, uint64_t address):
        """Report that something happened at a time that the track has reached, and no later one."""
        self.marked(track, time, self.label(name, category), address)

    def pause(self, uint64_t track):
        """Report that what the track does from here on has no place in time."""
        self.paused(track)

    def close(self):
        """End all open slices, after the last report, and give the last edges."""
        cdef Py_ssize_t i
        for i in range(self.count):
            self.end_slice(&self.tracks[i])
        self.flush()

    def flush(self):
        """Give the edges that there are."""
        cdef Py_ssize_t count = self.used
        self.used = 0
        if count:
            self.receive(Edges(
                memoryview(PyBytes_FromStringAndSize(<const char*>self.owners, count * sizeof(int64_t))).cast("q"),
                memoryview(PyBytes_FromStringAndSize(<const char*>self.times, count * sizeof(int64_t))).cast("q"),
                memoryview(PyBytes_FromStringAndSize(<const char*>self.places, count * sizeof(int32_t))).cast("i"),
                self.heads,
            ))

    cdef int executed(
        self, uint64_t track, int64_t start, int64_t end, uint64_t address, bint threaded, uint64_t thread
    ) except -1:
        """Do the same as `executes`."""
        cdef int32_t label = self.function_at(address)
        cdef Track* now = self.find(track)
        if (
            now != NULL and now.open and now.label == label and now.end == start and now.threaded == threaded
            and now.thread == thread
        ):
            now.end = end
            return True
        now = self.fit(track, &start, end)
        if now == NULL:
            return False
        self.end_slice(now)
        self.put(
            track, self.clock.convert(start),
            self.head(label, PLACED | (THREADED if threaded else 0), address, thread),
        )
        now.label, now.threaded, now.thread, now.begin, now.end, now.open = label, threaded, thread, start, end, True
        return True

    cdef int spent(self, uint64_t track, int64_t start, int64_t end, int32_t label, uint64_t address) except -1:
        """Do the same as `within`."""
        cdef Track* now = self.find(track)
        if now == NULL:
            raise KeyError(track)
        start = max(start, now.begin)
        if not now.open or start >= end:
            return 0
        self.put(track, self.clock.convert(start), self.head(label, PLACED, address, 0))
        return self.put(track, self.clock.convert(end), ENDS)

    cdef int was_apart(
        self, uint64_t track, int64_t start, int64_t end, int32_t label, bint placed, uint64_t address
    ) except -1:
        """Do the same as `apart`."""
        cdef Track* now = self.fit(track, &start, end)
        if now == NULL:
            return 0
        self.end_slice(now)
        self.put(track, self.clock.convert(start), self.head(label, PLACED if placed else 0, address, 0))
        self.put(track, self.clock.convert(end), ENDS)
        now.end = end
        return 0

    cdef int marked(self, uint64_t track, int64_t time, int32_t label, uint64_t address) except -1:
        """Do the same as `mark`."""
        return self.put(track, self.clock.convert(time), self.head(label, PLACED | INSTANT, address, 0))

    cdef int paused(self, uint64_t track) except -1:
        """Do the same as `pause`."""
        cdef Track* now = self.find(track)
        return 0 if now == NULL else self.end_slice(now)

    # Tracks

    cdef Track* find(self, uint64_t number) except? NULL:
        """Return a track; NULL if nothing has been reported of it."""
        cdef int32_t* near = &self.near[number & 63]
        if near[0] and self.tracks[near[0] - 1].number == number:
            return &self.tracks[near[0] - 1]
        place = self.numbers.get(number)
        if place is None:
            return NULL
        near[0] = <int32_t>place + 1
        return &self.tracks[near[0] - 1]

    cdef Track* fit(self, uint64_t number, int64_t* start, int64_t end) except? NULL:
        """Return the track, and the time from which on it has not passed the span; NULL if it has passed all of it."""
        cdef Track* now
        cdef Track* larger
        if start[0] >= end:
            return NULL
        now = self.find(number)
        if now == NULL:
            if self.count == self.room:
                self.room = 2 * self.room or 8
                larger = <Track*>realloc(self.tracks, self.room * sizeof(Track))
                if larger == NULL:
                    self.room = self.count
                    raise MemoryError
                self.tracks = larger
            self.numbers[number] = self.count
            now = &self.tracks[self.count]
            self.count += 1
            memset(now, 0, sizeof(Track))
            now.number, now.end = number, start[0]
        if now.end >= end:
            self.passed += 1
            return NULL
        start[0] = max(start[0], now.end)
        return now

    # Names

    cdef int32_t label(self, name, category) except -1:
        """Return the number of a name of a category."""
        what = name, category
        found = self.labels.get(what)
        if found is None:
            found = self.labels[what] = len(self.meanings)
            self.meanings.append(what)
        return found

    cdef int32_t function_at(self, uint64_t address) except -1:
        """Return the label of the function of an address."""
        cdef Labelled* found = &self.functions[address >> 1 & (NAMED - 1)]
        if not found.label or found.address != address:
            found.label = self.label(name_of(self.names, address), "function") + 1
            found.address = address
        return found.label - 1

    cdef int32_t head(self, int32_t label, uint8_t has, uint64_t address, uint64_t thread) except -1:
        """Return the place of a head in the list."""
        cdef uint64_t hash = (address ^ thread << 40 ^ <uint64_t>label << 20 ^ has) * <uint64_t>0x9E3779B97F4A7C15
        cdef Py_ssize_t slot = <Py_ssize_t>(hash >> 47)
        cdef Kept* found = &self.kept[slot]
        while found.place:
            if found.address == address and found.thread == thread and found.label == label and found.has == has:
                return found.place - 1
            slot = (slot + 1) & (SLOTS - 1)
            found = &self.kept[slot]
        if len(self.heads) == HEADS:
            self.flush()
            self.heads = []
            memset(self.kept, 0, SLOTS * sizeof(Kept))
            found = &self.kept[<Py_ssize_t>(hash >> 47)]
        name, category = self.meanings[label]
        placed = bool(has & PLACED)
        self.heads.append(SliceHead(
            name, category, address if placed else None, self.names.line(address) if placed else "",
            thread if has & THREADED else None, bool(has & INSTANT),
        ))
        found.address, found.thread, found.label, found.has = address, thread, label, has
        found.place = <int32_t>len(self.heads)
        return found.place - 1

    # Edges

    cdef int put(self, uint64_t track, int64_t time, int32_t place) except -1:
        if self.used == BLOCK:
            self.flush()
        self.owners[self.used], self.times[self.used], self.places[self.used] = <int64_t>track, time, place
        self.used += 1
        return 0

    cdef int end_slice(self, Track* now) except -1:
        """End the open slice of a track, if there is one."""
        if now.open:
            self.put(now.number, self.clock.convert(now.end), ENDS)
            now.open = False
        return 0
