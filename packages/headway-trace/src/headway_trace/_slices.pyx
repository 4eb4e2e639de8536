"""Records as spans of time, which become slices: of a capture's streams, and of threads that perf recorded."""

from libc.math cimport rint
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc

from headway.errors import HeadwayError
from headway_trace._edges cimport SliceEdges
from headway_trace._records cimport GAP, INSTRUCTION, NO_THREAD, Records, Row
from headway_trace.records import Why

__all__ = ["CaptureSlices", "RunSlices"]

cdef enum:
    REASONS = 16

cdef struct Line:          # alignment.TimestampLine
    uint64_t first, last   # cycles
    double height

cdef struct Span:
    uint64_t start, end    # cycles of the epoch
    uint64_t address       # of the first instruction
    uint32_t epoch, thread
    bint threaded
    bint gap
    uint8_t why            # of a gap
    bint known             # its length is known
    bint waited            # one instruction that took long


cdef class CaptureSlices:
    """The slices of a capture's stream, in the common time.

    Instructions of one function one after the other are one span of time; one that took ``least`` cycles or more is a
    span of its own, with a slice for its wait. ``fit`` (`alignment.Fit`) places cycles in the common time, of which a
    tick has ``per_tick`` nanoseconds. None: a cycle is a nanosecond, up to the first loss of time. Where time was lost
    is a gap from what is known before to what is known after.
    """

    cdef SliceEdges edges
    cdef object fit
    cdef uint64_t track, least
    cdef double rate, per_tick
    cdef bint fitted, timed
    cdef Line* lines           # of this epoch
    cdef Py_ssize_t count
    cdef Py_ssize_t at         # of the line that the spans have reached
    cdef uint64_t* limits      # cycles at which lines of this epoch begin or end, in order: no span crosses them
    cdef Py_ssize_t limited, next
    cdef uint64_t limit, cycle
    cdef uint32_t epoch
    cdef int32_t gaps[REASONS]  # labels
    cdef int32_t unplaced, stall
    cdef int32_t lost          # the label of why it is not known what was done since `reached`; -1: it is known
    cdef int64_t reached
    cdef bint begun

    def __init__(self, SliceEdges edges not None, uint64_t track, fit, int per_tick, uint64_t least):
        cdef Py_ssize_t i
        self.edges, self.track, self.fit, self.per_tick, self.least = edges, track, fit, per_tick, least
        self.fitted = fit is not None
        self.timed = self.fitted and fit.rate is not None
        self.rate = fit.rate if self.timed else 1.0
        for i in range(REASONS):
            self.gaps[i] = -1
        for why in Why:
            self.gaps[<int>why] = edges.label(why.state, "gap")
        self.unplaced, self.lost = edges.label("unknown.alignment", "gap"), -1
        self.stall = edges.label("stall", "stall")
        self.enter(0)

    def __dealloc__(self):
        free(self.lines)
        free(self.limits)

    def add(self, Records block not None):
        """Take the next records."""
        cdef Py_ssize_t i
        cdef Row* r
        cdef Span span, other
        cdef int32_t label = -1, function
        cdef uint64_t start
        cdef bint open = False
        span.threaded, span.gap, span.why, span.known, span.waited = block.threads, False, 0, True, False
        for i in range(block.size):
            r = &block.data[i]
            if r.sort != INSTRUCTION and r.sort != GAP or not r.counted:
                continue
            if r.epoch != self.epoch:
                if open:
                    span.end, open = self.cycle, False
                    self.place(&span)
                self.enter(r.epoch)
            start = self.cycle
            if r.sort == GAP or r.cycle - start >= self.least:
                if open:
                    span.end, open = start, False
                    self.place(&span)
                other = span
                other.epoch, other.start, other.end = self.epoch, start, r.cycle
                if r.sort == GAP:
                    other.gap, other.why, other.known, other.address = True, r.why, not r.size, 0
                else:
                    other.address, other.thread, other.waited = r.address, r.thread, True
                    other.threaded = block.threads and r.thread != NO_THREAD
                self.place(&other)
                self.cycle = r.cycle
                self.pass_by(r.cycle)
                continue
            function = self.edges.function_at(r.address)
            if open and (function != label or r.thread != span.thread or r.cycle > self.limit):
                span.end, open = self.cycle, False
                self.place(&span)
            if not open:
                open, label = True, function
                span.epoch, span.start, span.thread, span.address = self.epoch, start, r.thread, r.address
                span.threaded = block.threads and r.thread != NO_THREAD
                if start >= self.limit:
                    self.pass_by(start)
            elif span.start == start:  # nothing has taken time yet
                span.address = r.address
            self.cycle = r.cycle
        if open:
            span.end = self.cycle
            self.place(&span)

    cdef int enter(self, uint32_t epoch) except -1:
        """Begin an epoch."""
        cdef Py_ssize_t i
        lines = self.fit.lines.get(epoch, ()) if self.fitted else ()
        bounds = sorted({cycle for line in lines for cycle in (line.first, line.last)})
        free(self.lines)
        free(self.limits)
        self.count = self.limited = 0
        self.lines = <Line*>malloc((len(lines) + 1) * sizeof(Line))
        self.limits = <uint64_t*>malloc((len(bounds) + 1) * sizeof(uint64_t))
        if self.lines == NULL or self.limits == NULL:
            raise MemoryError
        for i, (first, last, height) in enumerate(lines):
            self.lines[i].first, self.lines[i].last, self.lines[i].height = first, last, height
        for i, bound in enumerate(bounds):
            self.limits[i] = bound
        self.count, self.limited = len(lines), len(bounds)
        self.epoch, self.cycle, self.next, self.at = epoch, 0, 0, 0
        self.pass_by(0)
        return 0

    cdef void pass_by(self, uint64_t cycle) noexcept:
        """Find the next limit after a cycle."""
        while self.next < self.limited and self.limits[self.next] <= cycle:
            self.next += 1
        self.limit = <uint64_t>-1 if self.next == self.limited else self.limits[self.next]

    cdef int when(self, Span* span, int64_t* begin, int64_t* end) except -1:
        """Set begin and end in nanoseconds. Return False if they are not known, or if time was lost in between."""
        cdef Line* line
        cdef double a, b
        if not self.fitted:
            if span.epoch:
                return False
            if span.end >= <uint64_t>1 << 63:
                raise HeadwayError(
                    f"a time of this trace, {span.end} ns, is too large to be exported: export a part of it"
                )
            begin[0], end[0] = <int64_t>span.start, <int64_t>span.end
            return True
        while self.at + 1 < self.count and span.start >= self.lines[self.at].last:
            self.at += 1
        if not self.count or not self.timed:
            return False
        line = &self.lines[self.at]
        if span.start < line.first and self.at or span.end > line.last and self.at + 1 < self.count:
            return False
        a = rint((line.height + <double>span.start / self.rate) * self.per_tick)
        b = rint((line.height + <double>span.end / self.rate) * self.per_tick)
        if not (0 <= a and b < 9223372036854775808.0 and a < 9223372036854775808.0):
            return False
        begin[0], end[0] = <int64_t>a, <int64_t>b
        return True

    cdef int place(self, Span* span) except -1:
        """Report a span in the common time."""
        cdef int64_t begin, end
        if not self.when(span, &begin, &end) or not span.known:
            self.edges.paused(self.track)
            if span.gap:
                self.lost = self.gaps[span.why]
            elif self.lost < 0:
                self.lost = self.unplaced
            return 0
        if self.lost >= 0 and self.begun and self.reached < begin:
            self.edges.was_apart(self.track, self.reached, begin, self.lost, False, 0)
        self.lost = -1
        if span.gap:
            if begin < end:
                self.edges.was_apart(self.track, begin, end, self.gaps[span.why], False, 0)
        elif self.edges.executed(
            self.track, begin, end, span.address, span.threaded, span.thread if span.threaded else 0
        ) and span.waited:
            self.edges.spent(self.track, begin, end, self.stall, span.address)
        self.reached, self.begun = end, True
        return 0


cdef class RunSlices:
    """The slices of a thread that perf recorded, or of a processor.

    An instruction lasts from the end of the one before.
    """

    cdef uint64_t track, cycle

    def __init__(self, uint64_t track):
        self.track = track

    def add(self, Records block not None, SliceEdges edges not None):
        """Report the next records as edges."""
        cdef Py_ssize_t i
        cdef Row* r
        cdef uint64_t start
        for i in range(block.size):
            r = &block.data[i]
            if r.sort != INSTRUCTION and r.sort != GAP or not r.counted:
                continue
            start, self.cycle = self.cycle, r.cycle
            if start >= <uint64_t>1 << 63 or r.cycle >= <uint64_t>1 << 63:
                raise HeadwayError(f"a time of this trace, {r.cycle}, is too large to be exported: export a part of it")
            if r.sort == INSTRUCTION:
                edges.executed(
                    self.track, <int64_t>start, <int64_t>r.cycle, r.address, block.threads,
                    r.thread if block.threads else 0
                )
            else:
                edges.was_apart(
                    self.track, <int64_t>start, <int64_t>r.cycle, edges.label(Why(r.why).state, "gap"), False, 0
                )
