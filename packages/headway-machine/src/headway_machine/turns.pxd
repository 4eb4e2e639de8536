"""The issue policy: which hart of a core issues next, and when (docs/machine.md, section 2, "Issue")."""

from libc.stdint cimport int64_t

from .architecture cimport *
from .clocks cimport cycle_of, tick_of
from .structures cimport Core, Hart, Machine


cdef inline void take_turn(Core* c, Hart* h, int64_t cycle) noexcept nogil:
    c.pick = h
    c.next_cycle = cycle
    if c.plain and cycle != NEVER:
        c.next = c.clock.tick + (cycle - c.clock.cycle)
    else:
        c.next = tick_of(c, cycle)


cdef inline void next_turn_strict(Core* c, int64_t cycle, int slot) noexcept nogil:
    """Give the turn to the first hart that can use a cycle of its own, from `cycle` on, which is that of `slot`."""
    cdef int64_t best = NEVER, at
    cdef int i, first = slot
    cdef Hart* h
    cdef Hart* chosen = NULL
    for i in range(c.threads):
        h = &c.harts[slot]
        if h.ready <= cycle + i:
            take_turn(c, h, cycle + i)
            return
        slot += 1
        if slot == c.threads:
            slot = 0
    for i in range(c.threads):
        h = &c.harts[i]
        if h.ready == NEVER:
            continue
        at = h.ready - cycle + first - i
        at = (at + c.threads - 1) // c.threads * c.threads + cycle - first + i
        if at < best:
            best = at
            chosen = h
    take_turn(c, chosen, best)


cdef inline void next_turn_skip(Core* c, int64_t cycle, int slot) noexcept nogil:
    """Give the turn to the first hart from `slot` on that can issue at `cycle`; if none can, to the soonest."""
    cdef int64_t best = NEVER
    cdef int _
    cdef Hart* h
    cdef Hart* chosen = NULL
    for _ in range(c.threads):
        h = &c.harts[slot]
        if h.ready <= cycle:
            take_turn(c, h, cycle)
            return
        if h.ready < best:
            best = h.ready
            chosen = h
        slot += 1
        if slot == c.threads:
            slot = 0
    take_turn(c, chosen, best)


cdef inline void next_turn(Machine* m, Core* c) noexcept nogil:
    """Choose the turn after the cycle that was tried last."""
    cdef int64_t cycle = c.cycle + 1
    cdef int slot = c.last + 1
    cdef Hart* h
    if slot == c.threads:
        slot = 0
    h = &c.harts[slot]
    if h.ready <= cycle:
        # The usual case.
        take_turn(c, h, cycle)
    elif m.strict:
        next_turn_strict(c, cycle, slot)
    else:
        next_turn_skip(c, cycle, slot)


cdef inline void new_turn(Machine* m, Core* c) noexcept nogil:
    """Choose the turn again, from now on, after the clock has changed, or when harts can issue."""
    cdef int64_t cycle = max(c.cycle + 1, cycle_of(c, m.now))
    if c.threads == 1:
        take_turn(c, c.harts, max(cycle, c.harts.ready))
    elif m.strict:
        next_turn_strict(c, cycle, <int>(cycle % c.threads))
    else:
        next_turn_skip(c, cycle, (c.last + 1) % c.threads)


cdef inline void wait_again(Machine* m, Core* c) noexcept nogil:
    """Recompute the cycle for which harts wait that wait for a tick, after the clock has changed."""
    cdef int i
    for i in range(c.threads):
        if c.harts[i].arrival and c.harts[i].ready != NEVER:
            c.harts[i].ready = cycle_of(c, c.harts[i].arrival)
            if c.harts[i].mode == HALTED:
                # A hart that leaves WFI has been charged up to `since`: see resume.
                c.harts[i].ready = max(c.harts[i].ready, c.harts[i].since + m.quantum - 1)


cdef inline void resume(Machine* m, Core* c, Hart* h, int64_t cycle, int64_t ready) noexcept nogil:
    """Let a hart that was halted until the cycle issue from `ready` on; in strict turn, in a later rotation."""
    h.ready = max(ready, cycle + c.threads - 1) if m.strict else max(ready, cycle)
