"""Conversion between ticks of the machine and cycles of a core (docs/machine.md, section 8).

A core's clock is slowed by leaving out ticks evenly, and it is stopped for the rest of each window. The tick of a cycle
and the cycle of a tick can therefore both be computed from the last change of the clock on.
"""

from libc.stdint cimport int64_t
from libc.string cimport memmove

from .architecture cimport MAX_THREADS, NEVER
from .structures cimport Clock, Core


cdef inline int64_t divided(int64_t a, int64_t b) noexcept nogil:
    """Return a / b rounded down; b > 0."""
    return a // b if a >= 0 else -((-a + b - 1) // b)


cdef inline int64_t clock_tick(Clock* clock, int64_t cycle) noexcept nogil:
    cdef int64_t turned = divided((cycle - clock.cycle) * 16, clock.speed), windows
    if clock.running == clock.window:
        return clock.tick + turned
    windows = divided(turned, clock.running)
    return clock.tick + windows * clock.window + (turned - windows * clock.running)


cdef inline int64_t clock_cycle(Clock* clock, int64_t tick) noexcept nogil:
    cdef int64_t turned = tick - clock.tick, windows, rest
    if clock.running != clock.window:
        windows = divided(turned, clock.window)
        rest = turned - windows * clock.window
        turned = windows * clock.running + (rest if rest < clock.running else clock.running)
    return clock.cycle - divided(-turned * clock.speed, 16)


cdef inline void count_stops(Clock* clock, int64_t tick, int64_t* stopped, int64_t* stops) noexcept nogil:
    """Add the ticks before ``tick`` in which throttling stopped the clock, and the number of these stops."""
    cdef int64_t turned = tick - clock.tick, windows, rest
    stopped[0] += clock.stopped
    stops[0] += clock.stops
    if clock.running == clock.window or turned <= 0:
        return
    windows = turned // clock.window
    rest = turned - windows * clock.window - clock.running
    stopped[0] += windows * (clock.window - clock.running) + max(rest, 0)
    stops[0] += windows + (rest > 0)


cdef inline Clock* clock_at(Core* c, int64_t cycle) noexcept nogil:
    """Return the clock as it ran at the cycle."""
    cdef int i = 0
    if cycle >= c.clock.cycle:
        return &c.clock
    while i < MAX_THREADS - 1 and cycle < c.past[i].cycle:
        i += 1
    return &c.past[i]


cdef inline int64_t tick_of(Core* c, int64_t cycle) noexcept nogil:
    """Return the tick of the core's cycle."""
    if cycle == NEVER:
        return NEVER
    if c.plain and cycle >= c.clock.cycle:
        return c.clock.tick + (cycle - c.clock.cycle)
    return clock_tick(clock_at(c, cycle), cycle)


cdef inline int64_t cycle_of(Core* c, int64_t tick) noexcept nogil:
    """Return the core's first cycle at or after the tick."""
    if tick == NEVER:
        return NEVER
    if tick < c.clock.tick:
        return min(clock_cycle(&c.past[0], tick), c.clock.cycle)
    if c.plain:
        return c.clock.cycle + (tick - c.clock.tick)
    return clock_cycle(&c.clock, tick)


cdef inline int64_t end_tick(Core* c, int64_t cycle) noexcept nogil:
    """Return the tick by which the cycles before this one are over."""
    if c.plain and cycle > c.clock.cycle:
        return c.clock.tick + (cycle - c.clock.cycle)
    return tick_of(c, cycle - 1) + 1


cdef inline void set_clock(Core* c, int64_t now, int64_t speed, int64_t running, int64_t window) noexcept nogil:
    """Change the clock from tick `now` on. The caller must then reschedule the harts that wait for a tick."""
    cdef int64_t cycle = cycle_of(c, now), stopped = 0, stops = 0
    count_stops(&c.clock, now, &stopped, &stops)
    if cycle != c.clock.cycle:
        # Do not keep a clock that ran for no cycle.
        memmove(&c.past[1], &c.past[0], (MAX_THREADS - 1) * sizeof(Clock))
        c.past[0] = c.clock
    c.clock.cycle = cycle
    c.clock.tick = now
    c.clock.speed = speed
    c.clock.running = running
    c.clock.window = window
    c.clock.stopped = stopped
    c.clock.stops = stops
    c.plain = speed == 16 and running == window
