"""Event resources and profiling of the trace unit (docs/machine.md, section 9).

Four trigger blocks compare what a core's harts execute, load and store. A sequencer of three states moves when blocks
fire, and entering a state has effects. Six counters are sent for each window of cycles. All of this is controlled by
registers, which the configuration presets and a program may write by hwtsel and hwtval:

- 8b + 0, of trigger block b (0 to 3): bit 0 on; 3-1 states of the sequencer in which it looks; 4 loads; 5 stores
  (neither: instructions); 6 addresses from first to second, without it; 7 else second as well as first; 8 data; 10-9
  instead an event from outside: 1 an edge of the line of the PLIC with number ``first``, 2 the UART
  receives a byte (with bit 8: this one), 3 a system-management interrupt begins; 23-16 harts of the core
- 8b + 1, 8b + 2: first and second address
- 8b + 3, 8b + 4: data, and which of its bits are compared: of what was stored (of SB and SH zero-extended), or loaded
  (as the instruction extends it). An AMO loads what was there and stores its result; an SC that fails stores nothing
- 8b + 5, 8b + 6: it fires each so many times (0, 1: each time); how many are left (read only)
- 32 + 2s, 33 + 2s: blocks that move the sequencer from state s to state s + 1, to s + 2 (modulo 3), a bit each. If both
  fire at once it stays
- 38 + s: on entering state s: bit 0 trigger marker; 1 breakpoint exception for the hart that did it, before its next
  instruction; 2 line up while in the state (also where register 42 was written); 3 line raised once; 4 blocks count
  anew; 5 stop for the debugger, if there is one, before its next instruction (bit 1 does that, too)
- 41, 42: states in which harts are traced; state of the sequencer, 0 at reset
- 43: source of the PLIC that the line is (0: none). Cores may share one: it is up while any of them holds it
- 44, 45: cycles of a profiling window (0: none); states in which windows and counters go on, else they keep their
  values
- 46-51: harts that each of the six counters counts
- 52-57: what each counts, by the numbers of Source in `trace`. At reset counter n counts source n
- 58, 59: bytes of the trace buffer, and how many of them are filled (read only)
- 60, 61: where in it the next byte goes, and where the oldest byte is (read only)
- 62: bit 0: a trigger marker was written; bit 1: the buffer takes no more (read only)
- 0x1000000 + w: word w of the trace buffer (read only)

An event takes effect after its instruction, one from outside before the next tick. That one has no hart: markers and
breakpoints are for the first hart of the block that is awake; if none is, for its first.

A miss is each time that a hart waits for a line. A stall counts, as a whole, in the window in which it ends. The end of
a window sends the six counts, unless all are 0, and clears them. The end of the trace and a write of register 44 cut a
window short.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from .architecture cimport *
from .clocks cimport cycle_of
from .code cimport memory_at
from .debug cimport stop_before_next
from .devices cimport find_next_event, look_at_plic
from .external cimport BLOCK_EXTERNAL
from .power cimport BREAKING
from .structures cimport Block, Core, Decoded, Hart, Machine, TraceUnit
from .trace cimport SOURCES, TRACED, TRACE_IN_STATE, send_window, tell_trigger

# Bits of a block's control register.
cdef enum:  # Control
    BLOCK_ON = 1
    # Bits 1 to 3: the states of the sequencer in which the block looks.
    BLOCK_STATES = 1
    BLOCK_LOADS = 0x10
    # If neither BLOCK_LOADS nor BLOCK_STORES is set, the block looks at instruction addresses.
    BLOCK_STORES = 0x20
    BLOCK_RANGE = 0x40
    BLOCK_SECOND = 0x80
    BLOCK_DATA = 0x100
    BLOCK_HARTS = 16

# Bits of a state's action register.
cdef enum:  # Action
    MARKS = 1
    BREAKS = 2
    HOLDS_LINE = 4
    INTERRUPTS = 8
    RELOADS = 16
    HALTS = 32

# Numbers of registers.
cdef enum:  # Resource
    MOVES = 32
    ACTIONS = 38
    TRACED_IN = 41
    SEQUENCER = 42
    LINE = 43
    WINDOW = 44
    PROFILED_IN = 45
    PROFILED = 46
    PROFILE_SOURCES = 52
    BUFFER_SIZE = 58
    BUFFER_HELD = 59
    BUFFER_WRITE = 60
    BUFFER_READ = 61
    BUFFER_STATUS = 62
    RESOURCES = 63
    # From here on: the words of the trace buffer.
    BUFFER_DATA = 0x1000000


cdef inline void look_at_unit(Core* c) noexcept nogil:
    """Update what is watched and which harts are traced, after registers or the sequencer have changed."""
    cdef TraceUnit* u = &c.trace_unit
    cdef int i
    u.matching = <uint32_t>u.direct_branches
    for i in range(4):
        if not u.blocks[i].control & BLOCK_EXTERNAL:
            u.matching |= u.blocks[i].control & BLOCK_ON
    for i in range(c.threads):
        c.harts[i].traced.wanted &= ~<uint32_t>TRACE_IN_STATE
        if u.traced_in >> u.state & 1:
            c.harts[i].traced.wanted |= TRACE_IN_STATE
        c.harts[i].attention |= TRACED


cdef inline void look_for_external(Machine* m) noexcept nogil:
    """Update whether any trace unit looks for events from outside, after registers have changed."""
    cdef uint32_t control
    cdef int k, i
    m.external = 0
    for k in range(m.cores_count):
        for i in range(4):
            control = m.cores[k].trace_unit.blocks[i].control
            m.external |= control & BLOCK_ON and control & BLOCK_EXTERNAL


cdef inline void hold_lines(Machine* m) noexcept nogil:
    """Hold up the lines of all trace units whose sequencers are in states that do, and no others."""
    cdef TraceUnit* u
    cdef int k
    m.held_up = 0
    for k in range(m.cores_count):
        u = &m.cores[k].trace_unit
        if u.line and u.actions[u.state] & HOLDS_LINE:
            m.held_up |= 1u << u.line
    look_at_plic(m)


cdef inline void enter_state(Machine* m, Core* c, Hart* h, uint32_t state, int64_t cycle) noexcept nogil:
    """Enter a state of the sequencer, because of what the hart did in the cycle, and do its actions."""
    cdef TraceUnit* u = &c.trace_unit
    cdef uint32_t actions = u.actions[state]
    cdef int i
    u.state = state
    if u.line and actions & INTERRUPTS:
        m.pending |= 1u << u.line
    hold_lines(m)
    if actions & MARKS:
        tell_trigger(m, c, h, cycle)
    if actions & BREAKS:
        h.attention |= BREAKING
    if actions & (BREAKS | HALTS):
        stop_before_next(m, h)
    if actions & RELOADS:
        for i in range(4):
            u.blocks[i].left = u.blocks[i].reload
    look_at_unit(c)


cdef inline void move_sequencer(Machine* m, Core* c, Hart* h, uint32_t fired, int64_t cycle) noexcept nogil:
    """Move the sequencer for the blocks that have fired at once; if they ask for both moves, it stays."""
    cdef TraceUnit* u = &c.trace_unit
    cdef bint next = u.moves[2 * u.state] & fired != 0, other = u.moves[2 * u.state + 1] & fired != 0
    if next != other:
        enter_state(m, c, h, (u.state + (1 if next else 2)) % 3, cycle)


cdef inline Hart* hart_of_external(Core* c, uint32_t fired) noexcept nogil:
    """Return the hart for which events from outside count: the first of the blocks' that is awake, or their first."""
    cdef uint32_t harts = 0
    cdef int i
    for i in range(4):
        if fired >> i & 1:
            harts |= c.trace_unit.blocks[i].control >> BLOCK_HARTS
    for i in range(c.threads):
        if harts >> i & 1 and c.harts[i].started and not c.harts[i].halted:
            return &c.harts[i]
    for i in range(c.threads):
        if harts >> i & 1:
            return &c.harts[i]
    return c.harts


cdef inline void take_external(Machine* m) noexcept nogil:
    """Move the sequencers for the events from outside up to now."""
    cdef Core* c
    cdef uint32_t fired
    cdef int k
    m.external_fired = 0
    for k in range(m.cores_count):
        c = &m.cores[k]
        fired = c.trace_unit.fired
        c.trace_unit.fired = 0
        if fired:
            move_sequencer(m, c, hart_of_external(c, fired), fired, cycle_of(c, m.now))
    find_next_event(m)


cdef inline bint compares(
    Block* b, uint32_t pc, uint32_t address, bint loads, uint32_t loaded, bint stores, uint32_t stored
) noexcept nogil:
    """Return whether an instruction is what the block's comparators look for.

    An AMO both loads and stores: it is if one of the two is.
    """
    cdef uint32_t where = pc
    if b.control & (BLOCK_LOADS | BLOCK_STORES):
        loads = loads and b.control & BLOCK_LOADS
        stores = stores and b.control & BLOCK_STORES
        if not loads and not stores:
            return False
        where = address
    if b.control & BLOCK_DATA:
        loads = loads and not (loaded ^ b.value) & b.mask
        stores = stores and not (stored ^ b.value) & b.mask
        if not loads and not stores:
            return False
    if b.control & BLOCK_RANGE:
        return b.first <= where < b.second
    return where == b.first or (b.control & BLOCK_SECOND and where == b.second)


cdef inline uint32_t stored_by(
    Machine* m, Core* c, Decoded* d, uint32_t address, uint32_t b
) noexcept nogil:
    """Return what a store, SC or AMO with operand b has stored, as a word: of SB and SH the byte or half."""
    cdef uint32_t value = b
    cdef uint8_t* at
    if d.operation == SB:
        return b & 0xFF
    if d.operation == SH:
        return b & 0xFFFF
    at = memory_at(m, c, address) if AMOSWAP <= d.operation <= AMOMAXU else NULL
    if at != NULL:
        # In this turn nothing else has stored there.
        memcpy(&value, at, 4)
    return value


cdef inline void watch_event(
    Machine* m, Core* c, Hart* h, Decoded* d, uint32_t pc, uint32_t a, uint32_t b, uint32_t loaded
) noexcept nogil:
    """Find the blocks that fire for a retired instruction with operands a and b, and move the sequencer."""
    cdef TraceUnit* u = &c.trace_unit
    cdef Block* block
    cdef uint32_t fired = 0, stored = 0
    cdef int operation = d.operation, i
    cdef bint atomic = LR <= operation <= AMOMAXU
    cdef bint loads = LB <= operation <= LHU or atomic and operation != SC
    # SC loads 1 if it has failed.
    cdef bint stores = SB <= operation <= SW or atomic and operation != LR and not (operation == SC and loaded)
    cdef uint32_t address = a if atomic else a + <uint32_t>d.immediate
    if stores:
        stored = stored_by(m, c, d, address, b)
    for i in range(4):
        block = &u.blocks[i]
        if block.control & (BLOCK_ON | BLOCK_EXTERNAL) != BLOCK_ON:
            continue
        if not block.control >> (BLOCK_STATES + u.state) & 1:
            continue
        if not block.control >> (BLOCK_HARTS + h.slot) & 1:
            continue
        if compares(block, pc, address, loads, loaded, stores, stored):
            block.left -= 1
            if block.left <= 0:
                block.left = block.reload
                fired |= 1u << i
    if fired:
        move_sequencer(m, c, h, fired, c.cycle)


cdef inline bint is_resource(TraceUnit* u, uint32_t n) noexcept nogil:
    """Return whether there is a register of that number."""
    return n < RESOURCES or n >= BUFFER_DATA and <int64_t>(n - BUFFER_DATA) < u.ring // 4


cdef inline uint32_t read_buffer(TraceUnit* u, uint32_t n) noexcept nogil:
    """Read a register of the trace buffer. Sizes and pointers are in bytes."""
    cdef uint32_t word
    if n == BUFFER_SIZE:
        return <uint32_t>u.ring
    if n == BUFFER_HELD:
        return <uint32_t>min(u.written, u.ring)
    if n == BUFFER_WRITE:
        return <uint32_t>(u.written % u.ring) if u.ring else 0
    if n == BUFFER_READ:
        return <uint32_t>(u.written % u.ring) if u.ring and u.written > u.ring else 0
    if n == BUFFER_STATUS:
        return (u.after >= 0) | (u.after == 0) << 1
    if n < BUFFER_DATA:
        return 0
    memcpy(&word, u.bytes + 4 * <int64_t>(n - BUFFER_DATA), 4)
    return word


cdef inline uint32_t read_resource(TraceUnit* u, uint32_t n) noexcept nogil:
    cdef Block* b = &u.blocks[n >> 3 & 3]
    if n < MOVES:
        n &= 7
        return b.control if n == 0 else b.first if n == 1 else b.second if n == 2 else b.value if n == 3 else \
            b.mask if n == 4 else <uint32_t>b.reload if n == 5 else <uint32_t>b.left if n == 6 else 0
    if n < ACTIONS:
        return u.moves[n - MOVES]
    if n < TRACED_IN:
        return u.actions[n - ACTIONS]
    if n == TRACED_IN:
        return u.traced_in
    if n == SEQUENCER:
        return u.state
    if n == LINE:
        return u.line
    if n == WINDOW:
        return <uint32_t>u.window
    if n == PROFILED_IN:
        return u.profiled_in
    if n < PROFILE_SOURCES:
        return u.profiled[n - PROFILED]
    return u.sources[n - PROFILE_SOURCES] if n < BUFFER_SIZE else read_buffer(u, n)


cdef inline bint write_resource(Machine* m, Core* c, uint32_t n, uint32_t value) noexcept nogil:
    """Write a register. Return False if there is no such register, or if it does not accept the value."""
    cdef TraceUnit* u = &c.trace_unit
    cdef Block* b = &u.blocks[n >> 3 & 3]
    if n < MOVES:
        n &= 7
        if n == 0:
            b.control = value
        elif n == 1:
            b.first = value
        elif n == 2:
            b.second = value
        elif n == 3:
            b.value = value
        elif n == 4:
            b.mask = value
        elif n == 5:
            b.reload = b.left = value
        else:
            return False
    elif n < ACTIONS:
        u.moves[n - MOVES] = value & 15
    elif n < TRACED_IN:
        u.actions[n - ACTIONS] = value & 63
    elif n == TRACED_IN:
        u.traced_in = value & 7
    elif n == SEQUENCER:
        if value > 2:
            return False
        u.state = value
    elif n == LINE:
        if value > 31:
            return False
        u.line = value
    elif n == WINDOW:
        send_window(m, c, c.cycle + 1)
        u.window = u.window_left = value
        u.window_at = c.cycle + 1
    elif n == PROFILED_IN:
        u.profiled_in = value & 7
    elif n < PROFILE_SOURCES:
        u.profiled[n - PROFILED] = value & 0xFF
    elif n < BUFFER_SIZE:
        if value >= SOURCES:
            return False
        u.sources[n - PROFILE_SOURCES] = value
    else:
        return False
    if ACTIONS <= n <= LINE:
        hold_lines(m)
    look_for_external(m)
    look_at_unit(c)
    return True
