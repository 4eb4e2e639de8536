"""Rows of E-Trace as slices: the instructions between two times are placed evenly between them."""

from libc.stdint cimport int32_t, int64_t, uint16_t, uint64_t
from libc.stdlib cimport calloc, free, realloc

from headway_trace._edges cimport SliceEdges
from headway_trace.etrace._decoder cimport EtraceRows, Row
from headway_trace.threads.reading import STATES

__all__ = ["SourceSlices"]

cdef enum:
    SOURCES = 1 << 16
    MOST = 1 << 20     # instructions that wait for the next time; if there are more, they are left out
    UNKNOWN = 32       # the first code of a gap
    CODES = 64

cdef extern from *:
    """
    /* The part of a span that `place` of `count` take. */
    static inline int64_t headway_part(int64_t span, int64_t place, int64_t count) {
        if (span < (int64_t)1 << 42)
            return span * place / count;
        return (int64_t)((unsigned __int128)span * (uint64_t)place / (uint64_t)count);
    }
    """
    int64_t part "headway_part" (int64_t span, int64_t place, int64_t count) noexcept nogil

cdef struct Waiting:
    uint64_t address, context

cdef struct Source:
    int64_t begun      # the last time that is known; -1: none
    Waiting* waiting   # the instructions since then
    Py_ssize_t count, room


cdef class SourceSlices:
    """The slices of sources. The track of each is its number plus one.

    ``appears(source)`` is called before the first edge of a source.
    """

    cdef SliceEdges edges
    cdef object appears
    cdef Source** sources
    cdef list order            # the sources in the order in which they appeared
    cdef int32_t labels[CODES]

    def __cinit__(self):
        self.sources = <Source**>calloc(SOURCES, sizeof(Source*))
        if self.sources == NULL:
            raise MemoryError

    def __init__(self, SliceEdges edges not None, appears):
        cdef int code
        self.edges, self.appears, self.order = edges, appears, []
        for code in range(CODES):
            self.labels[code] = -1
        for code, name in STATES.items():
            self.labels[code] = edges.label(name, "gap")

    def __dealloc__(self):
        cdef Py_ssize_t i
        for i in range(SOURCES if self.sources != NULL else 0):
            if self.sources[i] != NULL:
                free(self.sources[i].waiting)
                free(self.sources[i])
        free(self.sources)

    def add(self, EtraceRows rows not None):
        """Take the next rows."""
        cdef Py_ssize_t i
        cdef Row* r
        cdef Source* of
        for i in range(rows.size):
            r = &rows.data[i]
            of = self.sources[r.source]
            if of == NULL:
                of = self.begin(r.source)
            if r.what >= UNKNOWN:
                self.place(r.source, of, -1)
                of.begun = -1
                if self.labels[r.what & (CODES - 1)] < 0:
                    raise KeyError(r.what)
                if 0 <= r.time < r.after:
                    self.edges.was_apart(
                        <uint64_t>r.source + 1, r.time, r.after, self.labels[r.what & (CODES - 1)], False, 0
                    )
                else:
                    self.edges.paused(<uint64_t>r.source + 1)
                continue
            if r.time >= 0:
                self.place(r.source, of, r.time)
                of.begun = r.time
            if of.begun >= 0 and of.count < MOST:
                if of.count == of.room:
                    self.grow(of)
                of.waiting[of.count].address, of.waiting[of.count].context = r.address, r.context
                of.count += 1

    def finish(self):
        """Report the end of the trace. No time follows the instructions that wait."""
        for source in self.order:
            self.place(source, self.sources[<uint16_t>source], -1)

    cdef Source* begin(self, uint16_t source) except NULL:
        cdef Source* of = <Source*>calloc(1, sizeof(Source))
        if of == NULL:
            raise MemoryError
        of.begun, self.sources[source] = -1, of
        self.order.append(source)
        self.edges.flush()
        self.appears(source)
        return of

    cdef int grow(self, Source* of) except -1:
        cdef Py_ssize_t room = 2 * of.room or 1024
        cdef Waiting* larger = <Waiting*>realloc(of.waiting, room * sizeof(Waiting))
        if larger == NULL:
            raise MemoryError
        of.waiting, of.room = larger, room
        return 0

    cdef int place(self, uint16_t source, Source* of, int64_t end) except -1:
        """Place the instructions that wait before a time; without one (-1), only the first of them has a time."""
        cdef Py_ssize_t i, count = of.count
        cdef int64_t begin = of.begun, span = end - begin, start, after
        cdef uint64_t track = <uint64_t>source + 1
        of.count = 0
        if begin < 0 or end < begin or count >= MOST:
            return self.edges.paused(track) if count else 0
        start = begin
        for i in range(count):
            after = begin + part(span, i + 1, count)
            self.edges.executed(
                track, start, after, of.waiting[i].address, of.waiting[i].context != 0, of.waiting[i].context
            )
            start = after
        return 0
