"""Rows of the machine's threads as slices."""

from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.stdlib cimport free, malloc

from headway.errors import HeadwayError
from headway_trace._edges cimport EdgeClock, SliceEdges
from headway_trace.threads._flow cimport BEFORE, Row, ThreadRows, length_of
from specification.six_threads.protocol cimport EXECUTED, IN_SLEEP, NOT_TAKEN, TRAPS, TRIGGER_MARK

from .reading import STATES

__all__ = ["ThreadSlices", "TickClock"]

cdef enum:
    CODES = 64
    FULL = 16          # the full speed of a clock
    LONGEST = 1 << 30  # cycles after a change of the clock, times 2^26, up to which C can compute

cdef struct Change:    # clock.ClockChange
    int64_t cycle, tick, speed, running


cdef inline int64_t divided(int64_t a, int64_t b) noexcept nogil:
    """Return a / b, rounded down; b is positive."""
    return a / b - (a % b < 0)


cdef class TickClock(EdgeClock):
    """Ticks of the machine, of a core's cycles (`clock.Clock.tick`); what is before the first of them is at tick 0."""

    cdef object clock
    cdef Change* changes
    cdef Py_ssize_t count, at
    cdef int64_t window

    def __init__(self, clock):
        cdef Py_ssize_t i
        self.clock = clock
        if self.changes != NULL:
            raise RuntimeError("a clock is made once")
        self.changes = <Change*>malloc(len(clock.changes) * sizeof(Change))
        if self.changes == NULL:
            raise MemoryError
        for i, (cycle, tick, speed, running) in enumerate(clock.changes):
            self.changes[i].cycle = min(cycle, 1 << 62)
            self.changes[i].speed = 0  # for `any_tick`
            if cycle <= 1 << 62 and tick <= 1 << 62 and running <= 1 << 40:
                self.changes[i].tick, self.changes[i].speed, self.changes[i].running = tick, speed, running
        self.count, self.window = len(clock.changes), clock.window

    def __dealloc__(self):
        free(self.changes)

    cdef int64_t convert(self, int64_t time) except? -1:
        cdef Change* change = &self.changes[self.at]
        cdef Py_ssize_t low, high, middle
        cdef int64_t turned, windows
        if self.at and change.cycle > time or self.at + 1 < self.count and change[1].cycle <= time:
            low, high = 0, self.count
            while low < high:
                middle = (low + high) // 2
                if self.changes[middle].cycle <= time:
                    low = middle + 1
                else:
                    high = middle
            self.at = max(low - 1, 0)
            change = &self.changes[self.at]
        turned = time - change.cycle
        if not -(<int64_t>LONGEST << 26) < turned < <int64_t>LONGEST << 26 or change.speed < 1 or change.running < 1:
            return self.any_tick(time)
        turned = divided(turned * FULL, change.speed)
        if change.running != self.window:
            windows = divided(turned, change.running)
            if windows > LONGEST or windows < -LONGEST or self.window > LONGEST:
                return self.any_tick(time)
            turned += windows * (self.window - change.running)
        if turned >= <int64_t>1 << 62:
            return self.any_tick(time)
        return max(change.tick + turned, 0)

    cdef int64_t any_tick(self, int64_t time) except? -1:
        """Return the tick of any cycle."""
        tick = max(self.clock.tick(time), 0)
        if tick >= 1 << 63:
            raise HeadwayError(f"a time of this trace, {tick} ns, is too large to be exported: export a part of it")
        return tick


cdef class ThreadSlices:
    """The slices of a core's threads. The track of its first thread is ``track``.

    ``unit``: cycles of the core in one of a thread. A stall of ``least`` cycles or more has a slice of its own.
    """

    cdef SliceEdges edges
    cdef uint64_t track
    cdef int64_t unit, least
    cdef int32_t labels[CODES]

    def __init__(self, SliceEdges edges not None, uint64_t track, int64_t unit, int64_t least):
        cdef int code
        self.edges, self.track, self.unit, self.least = edges, track, unit, least
        for code in range(CODES):
            self.labels[code] = -1
        for code, name in STATES.items():
            self.labels[code] = edges.label(
                name,
                "gap" if code >= BEFORE
                else "idle" if IN_SLEEP <= code < EXECUTED
                else "trap" if code == TRAPS
                else "trigger" if code == TRIGGER_MARK
                else "stall",
            )

    def add(self, ThreadRows rows not None):
        """Take the next rows."""
        cdef Py_ssize_t i
        cdef Row* r
        cdef int64_t cycles
        cdef int32_t label
        cdef uint64_t track
        for i in range(rows.size):
            r = &rows.data[i]
            track = self.track + r.thread
            cycles = length_of(r)
            if r.what == TRIGGER_MARK:
                if r.cycle >= 0:
                    self.edges.marked(track, r.cycle + 1, self.labels[TRIGGER_MARK], r.address)
                continue
            if r.cycle < 0 or cycles <= 0:
                self.edges.paused(track)
                continue
            if r.what == EXECUTED or r.what == NOT_TAKEN:
                self.edges.executed(track, r.cycle - self.unit + 1, r.cycle + 1, r.address, r.id != 0, r.id)
                continue
            label = self.labels[r.what & (CODES - 1)]
            if label < 0:
                raise KeyError(r.what)
            if r.what >= BEFORE:
                self.edges.was_apart(track, r.cycle, r.cycle + cycles, label, False, 0)
            elif IN_SLEEP <= r.what < EXECUTED:
                self.edges.was_apart(track, r.cycle, r.cycle + cycles, label, True, r.address)
            elif self.edges.executed(track, r.cycle, r.cycle + cycles, r.address, r.id != 0, r.id) and (
                r.what == TRAPS or cycles >= self.least
            ):
                self.edges.spent(track, r.cycle, r.cycle + cycles, label, r.address)
