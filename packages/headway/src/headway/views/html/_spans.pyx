"""The collector of spans of nested slices: what the innermost slice of each track is, and for how long."""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memset

cdef struct Span:
    int64_t start, end
    int32_t track, state   # the place of the track in `numbers`, and the state

cdef struct Open:          # the open slices of a track
    int64_t since          # when the innermost one became the innermost
    int32_t* states
    Py_ssize_t depth, room


cdef class InnermostSpans:
    """Collects for each track in which state its innermost slice was, from when to when. It keeps 24 bytes a span."""

    cdef Span* _spans
    cdef Py_ssize_t _count, _room
    cdef Open* _open
    cdef Py_ssize_t _tracks, _rooms
    cdef dict _places
    cdef int64_t _last         # the track of the last edge, and its place
    cdef Py_ssize_t _last_place

    def __init__(self):
        self._places, self._last = {}, -1

    def __dealloc__(self):
        cdef Py_ssize_t i
        for i in range(self._tracks):
            free(self._open[i].states)
        free(self._open)
        free(self._spans)

    def add(self, const int64_t[::1] tracks, const int64_t[::1] times, const int32_t[::1] places, const int32_t[::1] states):
        """Take the next edges, as of `views.edges.SliceEdges`; ``states`` has the number of the state of each place.

        A negative number is that of an instant. Return the indices of the edges that are instants, a list. Raises
        ValueError for arrays of several lengths, and IndexError for a place beyond the states.
        """
        cdef Py_ssize_t i
        cdef int32_t state = 0
        cdef Open* open_
        cdef list instants = []
        if not len(tracks) == len(times) == len(places):
            raise ValueError("tracks, times and places are not of one length")
        for i in range(len(tracks)):
            if places[i] >= 0:
                if places[i] >= len(states):
                    raise IndexError(places[i])
                state = states[places[i]]
                if state < 0:
                    instants.append(i)
                    continue
            open_ = self._of(tracks[i])
            if open_.depth and times[i] > open_.since:
                self._add(<int32_t>self._last_place, open_.since, times[i], open_.states[open_.depth - 1])
            open_.since = times[i]
            if places[i] < 0:
                open_.depth -= open_.depth > 0
                continue
            if open_.depth == open_.room:
                self._deepen(open_)
            open_.states[open_.depth] = state
            open_.depth += 1
        return instants

    def columns(self):
        """Return the numbers of the tracks, and (track, start, end, state) of the spans as bytes.

        A span's track is the place of its number. Tracks and states have 32 bits with a sign, times 64 bits.
        """
        cdef bytes tracks = PyBytes_FromStringAndSize(NULL, self._count * sizeof(int32_t))
        cdef bytes starts = PyBytes_FromStringAndSize(NULL, self._count * sizeof(int64_t))
        cdef bytes ends = PyBytes_FromStringAndSize(NULL, self._count * sizeof(int64_t))
        cdef bytes states = PyBytes_FromStringAndSize(NULL, self._count * sizeof(int32_t))
        cdef int32_t* track = <int32_t*><char*>tracks
        cdef int32_t* state = <int32_t*><char*>states
        cdef int64_t* start = <int64_t*><char*>starts
        cdef int64_t* end = <int64_t*><char*>ends
        cdef Py_ssize_t i
        for i in range(self._count):
            track[i], state[i] = self._spans[i].track, self._spans[i].state
            start[i], end[i] = self._spans[i].start, self._spans[i].end
        return list(self._places), (tracks, starts, ends, states)

    cdef Open* _of(self, int64_t track) except NULL:
        """Return the open slices of a track."""
        cdef Open* larger
        cdef Py_ssize_t room
        if track == self._last and self._tracks:
            return &self._open[self._last_place]
        place = self._places.get(track)
        if place is None:
            if self._tracks == self._rooms:
                room = 2 * self._rooms or 8
                larger = <Open*>realloc(self._open, room * sizeof(Open))
                if larger == NULL:
                    raise MemoryError
                self._open, self._rooms = larger, room
            memset(&self._open[self._tracks], 0, sizeof(Open))
            place = self._places[track] = self._tracks
            self._tracks += 1
        self._last, self._last_place = track, place
        return &self._open[self._last_place]

    cdef int _deepen(self, Open* open_) except -1:
        cdef Py_ssize_t room = 2 * open_.room or 4
        cdef int32_t* larger = <int32_t*>realloc(open_.states, room * sizeof(int32_t))
        if larger == NULL:
            raise MemoryError
        open_.states, open_.room = larger, room
        return 0

    cdef int _add(self, int32_t track, int64_t start, int64_t end, int32_t state) except -1:
        cdef Span* larger
        cdef Py_ssize_t room = 2 * self._room or 1024
        if self._count == self._room:
            larger = <Span*>realloc(self._spans, room * sizeof(Span))
            if larger == NULL:
                raise MemoryError
            self._spans, self._room = larger, room
        self._spans[self._count] = Span(start, end, track, state)
        self._count += 1
        return 0
