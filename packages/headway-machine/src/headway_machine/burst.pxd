"""Turns of the common kinds, taken one after the other while nothing else can happen.

`burst` does what `attempt` would do, for the instructions from LUI to FENCE, and for loads and stores that hit. It
stops before an instruction that is of another kind, that misses, or that must be decoded first, and leaves that to
`attempt`. What it has done by then must not change what `attempt` does: it has charged the gap before the turn, and it
has marked lines and pages as used, which marking them again does not change.

While one hart has its core to itself, its state is in variables of the host, and nothing is chosen between its turns
(`burst_alone`). The harts of one core take turns in `burst_in_turn`, those of several in `burst_together`.

`burst_alone` repeats what `usual_turn` does: with a function for the work of both, the loop of one hart is a fifth
slower.
"""

from libc.stddef cimport size_t
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcpy

from .architecture cimport *
from .code cimport PAGE, decode, forget_code, forget_tcm
from .compute cimport TAKEN_BIT, compute, loaded, size_of
from .memory cimport has_page, place_of, ram_line, use_line
from .structures cimport Core, Decoded, Hart, Machine
from .trace cimport TRACED, TRACE_WANTED, doing_of, trace_cycles, trace_gap, trace_retired
from .turns cimport next_turn


cdef extern from *:
    # Of gcc and clang. Any address will do.
    void prefetch "__builtin_prefetch"(const void* address) noexcept nogil


ctypedef struct NoTrace:
    uint8_t nothing

ctypedef struct CycleTrace:
    uint8_t nothing

# A trace without cycles, or of E-Trace.
ctypedef struct OtherTrace:
    uint8_t nothing

# The kind of a hart's trace. Only the type counts: the compiler makes a loop for each.
ctypedef fused Trace:
    NoTrace
    CycleTrace
    OtherTrace


cdef inline bint is_usual(Core* c, Hart* h) noexcept nogil:
    """Return whether nothing must be handled at the hart's turn, other than its trace."""
    if not h.attention:
        return True
    if h.attention != TRACED or not h.traced.on or h.traced.wanted != TRACE_WANTED:
        return False
    return not (c.trace_unit.matching or c.trace_unit.window or c.trace_unit.left <= 0 or h.traced.due)


cdef inline bint hits_code(Machine* m, Core* c, Hart* h, uint32_t address, int64_t now) noexcept nogil:
    """Return whether the instruction line at the address, in RAM, is present, and mark it as used."""
    cdef int32_t place
    if not has_page(m, h, address, &h.fetch_page):
        return False
    place = place_of(&c.icache, address >> c.icache.shift)
    if place < 0 or c.icache.filled[place] > now:
        return False
    use_line(&c.icache, place)
    return True


cdef inline bint hits_data(
    Machine* m, Core* c, Hart* h, uint32_t address, uint32_t size, int64_t now, bint store
) noexcept nogil:
    """Return whether an access to RAM is to one line that is present, and mark it as used."""
    cdef uint32_t line = address >> c.dcache.shift
    cdef int32_t place
    if (address + size - 1) >> c.dcache.shift != line or not has_page(m, h, address, &h.data_page):
        return False
    place = place_of(&c.dcache, line)
    if place < 0 or c.dcache.filled[place] > now:
        return False
    if store:
        if m.sharers != NULL and m.sharers[ram_line(&c.dcache, line)] & ~(1u << h.core):
            return False
        c.dcache.dirty[place] = 1
    use_line(&c.dcache, place)
    return True


cdef inline bint usual_load(
    Machine* m, Core* c, Hart* h, uint32_t address, int operation, int64_t now, uint32_t* value
) noexcept nogil:
    """Load from RAM or tightly coupled memory, if that takes no time."""
    cdef uint32_t offset = address - RAM, size = size_of(operation)
    cdef uint8_t* at
    if offset <= m.ram_size - 4:
        if not hits_data(m, c, h, address, size, now, False):
            return False
        at = m.ram + offset
    else:
        offset = address - TCM
        if not m.tcm_size or offset > m.tcm_size - 4:
            return False
        at = c.tcm + offset
    if size == 4:
        memcpy(value, at, 4)
    elif size == 2:
        value[0] = 0
        memcpy(value, at, 2)
    else:
        value[0] = at[0]
    value[0] = loaded(operation, value[0])
    return True


cdef inline bint usual_store(
    Machine* m, Core* c, Hart* h, uint32_t address, int operation, int64_t now, uint32_t value
) noexcept nogil:
    """Store to RAM or tightly coupled memory, if that takes no time and nobody waits for it."""
    cdef uint32_t offset = address - RAM, size = size_of(operation)
    cdef uint8_t* at
    if not m.write_back or m.reservations:
        return False
    if offset <= m.ram_size - 4:
        if m.tohost and address - m.tohost < 8:
            return False
        if not hits_data(m, c, h, address, size, now, True):
            return False
        at = m.ram + offset
        if unlikely(m.pages[offset // PAGE] != NULL) or not offset & (PAGE - 1):
            forget_code(m, address, size)
    else:
        offset = address - TCM
        if not m.tcm_size or offset > m.tcm_size - 4:
            return False
        at = c.tcm + offset
        forget_tcm(c, offset, size)
    if size == 4:
        memcpy(at, &value, 4)
    elif size == 2:
        memcpy(at, &value, 2)
    else:
        at[0] = <uint8_t>value
    return True


cdef inline Decoded* usual_fetch(
    Machine* m, Core* c, Hart* h, uint32_t pc, int64_t now, uint32_t* fetched, uint32_t* page, Decoded** code
) noexcept nogil:
    """Return the instruction at pc; NULL if it is not a usual one, or if fetching it takes time."""
    cdef uint32_t shift = c.icache.shift
    cdef Decoded* d
    if (pc >> shift) + 1 != fetched[0]:
        if pc - RAM < m.ram_size:
            if not hits_code(m, c, h, pc, now):
                return NULL
        elif pc - TCM >= m.tcm_size:
            return NULL
        fetched[0] = (pc >> shift) + 1
    if pc // PAGE != page[0]:
        if pc - RAM >= m.ram_size or m.pages[(pc - RAM) // PAGE] == NULL:
            return NULL
        code[0] = m.pages[(pc - RAM) // PAGE]
        page[0] = pc // PAGE
    d = &code[0][(pc & (PAGE - 1)) >> 1]
    if not LUI <= d.operation <= FENCE or d.range != h.range and h.state < EXCEPTION:
        return NULL
    if unlikely(d.crosses != 0):
        if pc + 2 - RAM < m.ram_size and not hits_code(m, c, h, pc + 2, now):
            return NULL
        fetched[0] = ((pc + 2) >> shift) + 1
    return d


cdef inline int64_t usable_at(Hart* h, Decoded* d) noexcept nogil:
    """Return the cycle from which on every register of the instruction is usable."""
    return max(h.usable[d.rs1], h.usable[d.rs2], h.usable[d.rd])


cdef inline void charge(
    Machine* m, Core* c, Hart* h, int64_t free, int64_t ready, int reason, int64_t begin, bint traced
) noexcept nogil:
    """Charge the cycles since the hart's last turn, and trace them: see charge_gap."""
    cdef int64_t own = begin
    if not m.strict:
        own = min(max(ready, free), begin)
        h.lost[SLOT] += begin - own
    elif not reason:
        reason = SLOT
    h.lost[reason] += own - free
    if traced:
        trace_gap(m, c, h, free, own - free, doing_of(reason))
        if not m.strict:
            trace_gap(m, c, h, own, begin - own, SLOT)


cdef inline int64_t in_units(Machine* m, int64_t cycles) noexcept nogil:
    """Return for how many cycles a hart is charged that is held for these."""
    if m.quantum == 1:
        return cycles
    return m.quantum if cycles <= m.quantum else (cycles + m.quantum - 1) // m.quantum * m.quantum


cdef inline bint usual_turn(Machine* m, Core* c, Hart* h, int64_t cycle, int64_t now) noexcept nogil:
    """Take a turn of a usual hart at a cycle, which is at tick `now`. Return False if only `attempt` can."""
    cdef int64_t begin = cycle + 1 - m.quantum, at
    cdef int32_t cost = 1, late = 0
    cdef uint32_t pc = h.pc, next, value
    cdef Decoded* d
    cdef int operation
    if begin != h.free:
        charge(m, c, h, h.free, h.ready, h.reason, begin, unlikely(h.attention != 0))
        h.free = begin
        if unlikely(h.attention != 0) and not is_usual(c, h):
            return False
    d = usual_fetch(m, c, h, pc, now, &h.fetched, &h.page, &h.code)
    if d == NULL:
        return False
    if h.due > cycle:
        at = usable_at(h, d)
        if at > cycle:
            h.reason = DATA
            h.ready = at
            return True
    operation = d.operation
    if LB <= operation <= SW:
        next = pc + d.size
        if operation <= LHU:
            if not usual_load(m, c, h, h.x[d.rs1] + <uint32_t>d.immediate, operation, now, &value):
                return False
            h.x[d.rd] = value
            late = m.load
        elif not usual_store(m, c, h, h.x[d.rs1] + <uint32_t>d.immediate, operation, now, h.x[d.rs2]):
            return False
    else:
        next = compute(d, h.x, pc)
        if operation >= MUL:
            if operation <= MULHU:
                late = m.multiply
            elif operation <= REMU:
                cost = m.divide
    h.instret += 1
    if unlikely(h.attention != 0):
        trace_retired(m, c, h, d, cost, pc, next & ~TAKEN_BIT, next & TAKEN_BIT)
    h.free = begin + in_units(m, cost)
    h.ready = cycle + cost
    h.reason = GOING
    if next & TAKEN_BIT:
        next &= ~TAKEN_BIT
        h.ready += m.refill
        h.reason = REFILL if m.refill else GOING
    h.pc = next
    if late > m.quantum:
        # Otherwise its result is there before the hart issues again.
        h.usable[d.rd] = cycle + late
        h.usable[NOWHERE] = 0
        h.due = max(h.due, h.usable[d.rd])
    if h.due > h.ready and (next >> c.icache.shift) + 1 == h.fetched and next // PAGE == h.page:
        # The next instruction is in the pipeline already: see attempt.
        d = &h.code[(next & (PAGE - 1)) >> 1]
        if (d.operation != UNDECODED or unlikely(decode(m, c, d, next))) and not d.crosses:
            at = usable_at(h, d)
            if at > h.ready:
                h.reason = DATA
                h.ready = at
    return True


cdef inline bint burst_alone(Machine* m, Core* c, Hart* h, int64_t limit, Trace trace) noexcept nogil:
    """Take turns of a usual hart before cycle `limit`, and choose the next: the same as `usual_turn`, many times.

    It is compiled for each kind of trace, so that the loop of a hart that is not traced has nothing of it.
    """
    cdef int64_t cycle = c.next_cycle, to_tick = c.clock.tick - c.clock.cycle, quantum = m.quantum, tried = -1
    cdef int64_t begin, at, free = h.free, ready = h.ready, due = h.due
    cdef int32_t reason = h.reason, cost, late
    cdef uint32_t pc = h.pc, page = h.page, fetched = h.fetched, shift = c.icache.shift, next, value
    cdef uint32_t* x = h.x
    cdef Decoded* code = h.code
    cdef Decoded* d
    cdef int operation
    while cycle < limit:
        begin = cycle + 1 - quantum
        if Trace is not NoTrace:
            c.cycle = cycle
        if Trace is OtherTrace:
            m.now = cycle + to_tick
        if begin != free:
            charge(m, c, h, free, ready, reason, begin, Trace is not NoTrace)
            free = begin
        if Trace is not NoTrace:
            # Its trace is what a usual turn can change of what is usual.
            if not h.traced.on or c.trace_unit.left <= 0:
                break
        d = usual_fetch(m, c, h, pc, cycle + to_tick, &fetched, &page, &code)
        if d == NULL:
            break
        if due > cycle:
            at = usable_at(h, d)
            if at > cycle:
                reason = DATA
                ready = at
                tried = cycle
                cycle += in_units(m, at - cycle)
                continue
        operation = d.operation
        cost = 1
        late = 0
        if LB <= operation <= SW:
            next = pc + d.size
            if operation <= LHU:
                if not usual_load(m, c, h, x[d.rs1] + <uint32_t>d.immediate, operation, cycle + to_tick, &value):
                    break
                x[d.rd] = value
                late = m.load
            elif not usual_store(m, c, h, x[d.rs1] + <uint32_t>d.immediate, operation, cycle + to_tick, x[d.rs2]):
                break
        else:
            next = compute(d, x, pc)
            if operation >= MUL:
                if operation <= MULHU:
                    late = m.multiply
                elif operation <= REMU:
                    cost = m.divide
        h.instret += 1
        if Trace is CycleTrace:
            trace_cycles(m, c, h, d, cost, pc, next & ~TAKEN_BIT, next & TAKEN_BIT)
        elif Trace is OtherTrace:
            trace_retired(m, c, h, d, cost, pc, next & ~TAKEN_BIT, next & TAKEN_BIT)
        free = begin + in_units(m, cost)
        ready = cycle + cost
        reason = GOING
        if next & TAKEN_BIT:
            next &= ~TAKEN_BIT
            if m.refill:
                ready += m.refill
                reason = REFILL
        pc = next
        if late > 1:
            h.usable[d.rd] = cycle + late
            h.usable[NOWHERE] = 0
            due = max(due, h.usable[d.rd])
        tried = cycle
        if due > ready and (pc >> shift) + 1 == fetched and pc // PAGE == page:
            d = &code[(pc & (PAGE - 1)) >> 1]
            if unlikely(d.operation == UNDECODED):
                c.cycle = cycle
                m.now = cycle + to_tick
            if (d.operation != UNDECODED or unlikely(decode(m, c, d, pc))) and not d.crosses:
                at = usable_at(h, d)
                if at > ready:
                    reason = DATA
                    ready = at
        cycle += in_units(m, ready - cycle)
    h.pc = pc
    h.free = free
    h.due = due
    h.fetched = fetched
    h.page = page
    h.code = code
    if tried >= 0:
        h.ready = ready
        h.reason = <uint8_t>reason
        m.now = tried + to_tick
        c.cycle = tried
        c.last = h.slot
        next_turn(m, c)
    return cycle < limit


cdef inline bint go_on_alone(Machine* m, Core* c, Hart* h, int64_t limit) noexcept nogil:
    """Take turns of a usual hart before cycle `limit`, in the loop for its kind of trace."""
    cdef NoTrace none
    cdef CycleTrace cycles
    cdef OtherTrace other
    if not h.attention:
        return burst_alone(m, c, h, limit, none)
    if c.trace_unit.cycle_accurate:
        return burst_alone(m, c, h, limit, cycles)
    return burst_alone(m, c, h, limit, other)


cdef inline int64_t alone_until(Core* c, Hart* h, int64_t limit) noexcept nogil:
    """Return the cycle before `limit` up to which no other hart of the core can issue."""
    cdef int i
    if c.threads == 1:
        return limit
    if c.harts[h.slot + 1 if h.slot + 1 < c.threads else 0].ready <= c.next_cycle + 1:
        # The usual case: the hart after this one is going on, too.
        return 0
    for i in range(c.threads):
        if i != h.slot:
            limit = min(limit, c.harts[i].ready)
    return limit


cdef inline void turn_after(Machine* m, Core* c, Hart* h, int64_t cycle, int64_t now) noexcept nogil:
    """Choose the turn after a usual one at tick `now`, as `next_turn` does; the usual choice is made here."""
    cdef Hart* next = h + 1 if h.slot + 1 < c.threads else c.harts
    c.last = h.slot
    if next.ready <= cycle + 1:
        c.pick = next
        c.next_cycle = cycle + 1
        c.next = now + 1
    else:
        next_turn(m, c)


cdef inline bint burst_in_turn(Machine* m, Core* c, int64_t limit) noexcept nogil:
    """Take turns of the core's harts before cycle `limit`, and choose the next.

    Return False if only `attempt` can take it.
    """
    cdef int64_t cycle, to_tick = c.clock.tick - c.clock.cycle
    cdef Hart* h
    while c.next_cycle < limit:
        h = c.pick
        cycle = c.next_cycle
        m.now = cycle + to_tick
        if not is_usual(c, h):
            return False
        c.cycle = cycle
        if not usual_turn(m, c, h, cycle, cycle + to_tick):
            return False
        turn_after(m, c, h, cycle, cycle + to_tick)
    return True


cdef inline void look_ahead(Hart* h) noexcept nogil:
    """Have the host fetch what the hart's next turn needs, while the other cores take theirs of this tick."""
    prefetch(<const void*>(<size_t>h.code + ((h.pc & (PAGE - 1)) >> 1) * sizeof(Decoded)))
    prefetch(h.x)
    prefetch(&h.x[16])


cdef inline int burst_together(Machine* m, int first, int64_t until) noexcept nogil:
    """Let the cores from ``first`` on take their turns of tick `now`, in the order of their numbers.

    If that is all cores, they go on up to tick ``until``, before which nothing else happens, while there are several
    turns in a tick: a usual turn of a core never changes when another has its next. Return the first core whose turn at
    tick `now` only `attempt` can take; the number of cores if there is none.
    """
    cdef int64_t now = m.now, soonest, cycle
    cdef Core* c
    cdef Hart* h
    cdef int k, taken
    while True:
        soonest = NEVER
        taken = 0
        for k in range(first, m.cores_count):
            c = &m.cores[k]
            if c.next == now:
                h = c.pick
                cycle = c.next_cycle
                if not c.plain or cycle < c.clock.cycle or not is_usual(c, h):
                    return k
                c.cycle = cycle
                if not usual_turn(m, c, h, cycle, now):
                    return k
                turn_after(m, c, h, cycle, now)
                look_ahead(c.pick)
                taken += 1
            soonest = min(soonest, c.next)
        if first or taken < 2 or soonest >= until:
            return m.cores_count
        now = m.now = soonest


cdef inline bint burst(Machine* m, Core* c, int64_t until) noexcept nogil:
    """Take turns of the core from tick `now` on, up to a tick before which nothing else happens; choose the next.

    Return whether it is one that only `attempt` can take.
    """
    cdef Hart* h = c.pick
    cdef int64_t limit, alone
    if not c.plain or c.next_cycle < c.clock.cycle:
        return True
    limit = c.clock.cycle + (until - c.clock.tick)
    alone = alone_until(c, h, limit)
    if alone > c.next_cycle + m.quantum:
        return not is_usual(c, h) or go_on_alone(m, c, h, alone) and c.next < until
    return not burst_in_turn(m, c, limit)
