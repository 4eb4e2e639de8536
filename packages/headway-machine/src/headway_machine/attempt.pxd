"""A hart's turn of any kind, from what must be handled before its instruction to the choice of the next turn.

A turn may end with a retired instruction or a trap; its cycles are known then. Otherwise the hart is blocked, and the
cycles from this turn until the instruction is tried again are a stall (docs/machine.md, section 2). Most turns are of a
few common kinds, which `burst` takes in less of the host's time, and with the same outcome.
"""

from libc.stdint cimport int64_t, uint32_t, uint64_t

from .architecture cimport *
from .code cimport PAGE, decode, range_of
from .debug cimport DEBUGGED, HOLD_ASKED, hold, stops_here
from .execute cimport Turn, execute, note_retired
from .fetch cimport fetch
from .memory cimport WAITED, forget_served
from .power cimport BREAKING, INTERRUPTED, PROFILING, RESUMING
from .profile_buffer cimport profile
from .polling cimport GIVES_UP, count_gap
from .progress_unit cimport end_polling, enter, look_again, state_of, tell_counters
from .signals cimport GAP, TOLD_ENTRY, TOLD_PC, TOLD_RUNS, tell
from .structures cimport STOP_DEBUG, Core, Decoded, Hart, Machine
from .threads cimport begin_hart_thread, count_first
from .trace cimport WATCHED, doing_of, watch_before, watch_gap, watch_trap, watch_turn
from .traps cimport DONE, TRAPPED, interrupt, trap
from .turns cimport next_turn


cdef inline void charge_gap(Machine* m, Core* c, Hart* h, int64_t begin) noexcept nogil:
    """Charge the cycles from the end of the last instruction, or of the last attempt, to this turn."""
    cdef int64_t own
    cdef int reason = h.reason
    if m.strict:
        own = begin
        if not reason:
            reason = SLOT
    else:
        own = min(max(h.ready, h.free), begin)
    if unlikely(m.signals.on != 0):
        tell_counters(m, c, h, h.free)
        tell(m, h, GAP, h.free, <uint64_t>(own - h.free), <uint32_t>reason)
    h.lost[reason] += own - h.free
    if unlikely(m.signals.on != 0):
        tell_counters(m, c, h, own)
        tell(m, h, GAP, own, <uint64_t>(begin - own), SLOT)
    h.lost[SLOT] += begin - own
    if unlikely(h.attention & WATCHED != 0):
        watch_gap(m, c, h, h.free, own - h.free, doing_of(reason))
        watch_gap(m, c, h, own, begin - own, SLOT)
    h.free = begin


cdef inline bint needs(Hart* h, Decoded* d, int64_t cycle) noexcept nogil:
    """Return whether a register that the instruction reads or writes is not usable yet; set when the hart can issue."""
    cdef int64_t at = max(h.usable[d.rs1], h.usable[d.rs2], h.usable[d.rd])
    if at <= cycle:
        return False
    h.reason = DATA
    h.arrival = 0
    h.ready = at
    return True


cdef inline void finish(Machine* m, Hart* h, int64_t cycle, int64_t begin, int refill) noexcept nogil:
    """Set when the hart can issue again, now that the instruction's cycles are known."""
    if m.quantum == 1:
        h.free = begin + h.cost
    elif h.cost <= m.quantum:
        h.free = begin + m.quantum
    else:
        h.free = begin + (h.cost + m.quantum - 1) // m.quantum * m.quantum
    h.ready = cycle + h.cost + refill
    h.reason = REFILL if refill else GOING
    h.arrival = 0


cdef inline void give_up(Machine* m, Core* c, Hart* h, int64_t begin) noexcept nogil:
    """Let the thread have given up polling, if it has before this turn."""
    if not h.attention & GIVES_UP or h.gap_end > begin:
        return
    if h.gap_end > h.free:
        charge_gap(m, c, h, h.gap_end)
    end_polling(m, c, h)


cdef inline bint intercepts(Machine* m, Core* c, Hart* h, int64_t begin) noexcept nogil:
    """Do what a debugger asked for before this turn. Return whether there is no turn.

    If the machine stops, nothing has changed: the turn comes when it goes on.
    """
    if h.held == HOLD_ASKED:
        give_up(m, c, h, begin)
        if not h.attention & RESUMING and begin != h.free:
            charge_gap(m, c, h, begin)
        hold(m, c, h, begin)
        return True
    if stops_here(m, c, h):
        m.stop = STOP_DEBUG
        m.stopped_hart = h.number
        return True
    return False


cdef inline void go_on_from_sleep(Machine* m, Core* c, Hart* h, Turn* t) noexcept nogil:
    """Begin the first turn of a hart that was started, woken or released."""
    h.attention &= ~<uint32_t>RESUMING
    h.free = t.begin
    h.profile_last = t.cycle
    if m.signals.on:
        tell(m, h, TOLD_RUNS, t.begin, 1, h.pc)
    count_gap(m, h, t.begin)
    if h.outside < 0 and state_of(m, h) < EXCEPTION:
        h.range = range_of(m, h.pc)
    enter(m, c, h, t.begin, state_of(m, h), False)
    if h.thread == NULL and not h.block and not h.instret:
        begin_hart_thread(m, h)
    if h.outside < 0 and h.state < EXCEPTION:
        count_first(m, h, t.begin)


cdef inline void end_trapped(Machine* m, Core* c, Hart* h, Turn* t) noexcept nogil:
    """End a turn in which the hart has trapped at `pc`."""
    h.cost = 1
    if unlikely(h.attention & WATCHED != 0):
        watch_trap(m, c, h, t.pc)
    finish(m, h, t.cycle, t.begin, m.refill)


cdef inline bint attend(Machine* m, Core* c, Hart* h, Turn* t) noexcept nogil:
    """Handle what must be handled before the hart's instruction. Return whether that was an interrupt or a break."""
    if unlikely(h.attention & WATCHED != 0):
        watch_before(m, c, h, t.begin, h.attention & RESUMING)
    if h.attention & RESUMING:
        go_on_from_sleep(m, c, h, t)
    elif h.attention & GIVES_UP:
        give_up(m, c, h, t.begin)
    if h.attention & (INTERRUPTED | BREAKING | WATCHED) and t.begin != h.free:
        charge_gap(m, c, h, t.begin)
    if unlikely(h.attention & WATCHED != 0):
        watch_turn(m, c, h, t.begin)
        if m.signals.on:
            tell_counters(m, c, h, t.begin)
    if not h.attention & (INTERRUPTED | BREAKING):
        return False
    t.pc = h.pc
    if h.attention & BREAKING:
        h.attention &= ~<uint32_t>BREAKING
        trap(m, c, h, BREAKPOINT, t.pc, False, t.begin)
    else:
        interrupt(m, c, h, t.begin)
    end_trapped(m, c, h, t)
    return True


cdef inline void look_ahead(Machine* m, Core* c, Hart* h) noexcept nogil:
    """Wait for the registers that the next instruction needs, if it is in the pipeline already: no turn is wasted."""
    cdef Decoded* d
    if (h.pc >> c.icache.shift) + 1 != h.fetched or h.pc // PAGE != h.page:
        return
    d = &h.code[(h.pc & (PAGE - 1)) >> 1]
    if (d.operation != UNDECODED or decode(m, c, d, h.pc)) and not d.crosses:
        needs(h, d, h.ready)


cdef inline void retire(Machine* m, Core* c, Hart* h, Turn* t) noexcept nogil:
    """Retire the turn's instruction, and set when the hart can issue the next one."""
    h.pc = t.next
    h.instret += 1
    note_retired(m, c, h, t)
    if h.attention & WAITED:
        forget_served(h)
    finish(m, h, t.cycle, t.begin, m.refill if t.taken else 0)
    if t.late > 1:
        h.usable[t.d.rd] = t.cycle + t.late + h.cost - 1
        h.usable[NOWHERE] = 0
        if h.usable[t.d.rd] > h.due:
            h.due = h.usable[t.d.rd]
    if h.due > h.ready:
        look_ahead(m, c, h)
    if t.profiling and h.attention & PROFILING:
        # Do not profile the instruction that authorises, nor the one that ends the authorisation.
        profile(m, c, h, t.pc, True, t.taken)


cdef inline void enter_range(Machine* m, Core* c, Hart* h, Turn* t) noexcept nogil:
    """Note that the instruction is in another range of the state monitor than the last one.

    A kernel's instructions are in none. MRET, behind the write that clears the latch, is the kernel's too.
    """
    if h.state >= EXCEPTION or t.d.operation == MRET:
        return
    h.range = t.d.range
    look_again(m, c, h, t.begin, True)


cdef inline void take_instruction(Machine* m, Core* c, Hart* h, Turn* t) noexcept nogil:
    """Fetch, execute and retire the hart's instruction, as far as it does not wait or trap."""
    cdef int outcome
    t.profiling = h.attention & PROFILING
    if t.begin != h.free:
        charge_gap(m, c, h, t.begin)
    t.pc = h.pc
    h.cost = 1
    t.d = fetch(m, c, h)
    if t.d == NULL:
        if h.ready <= t.cycle:
            # The fetch has trapped.
            end_trapped(m, c, h, t)
        return
    if h.due > t.cycle and needs(h, t.d, t.cycle):
        return
    if unlikely(m.signals.on != 0) and t.d.operation != MRET:
        tell(m, h, TOLD_PC, t.begin, t.pc, 0)
    if t.d.range != h.range:
        enter_range(m, c, h, t)
    outcome = execute(m, c, h, t)
    if outcome == DONE:
        retire(m, c, h, t)
    elif outcome == TRAPPED:
        end_trapped(m, c, h, t)
        if t.profiling:
            profile(m, c, h, t.pc, False, False)


cdef inline void attempt(Machine* m, Core* c) noexcept nogil:
    """Take the turn of the hart that was chosen."""
    cdef Hart* h = c.pick
    cdef Turn t
    t.cycle = c.next_cycle
    t.begin = c.next_cycle + 1 - m.quantum
    if unlikely(h.attention & DEBUGGED != 0) and intercepts(m, c, h, t.begin):
        return
    c.cycle = t.cycle
    c.last = h.slot
    if not h.attention or not attend(m, c, h, &t):
        take_instruction(m, c, h, &t)
    next_turn(m, c)
