"""The state monitor's cells and the progress unit's counters (docs/machine.md, sections 4 to 6).

A hart does not count while it runs. It keeps the first cycle that has not been charged (`since`), and the cycles lost
since then by reason. When its state changes, or when a counter is read, the difference is added to the cells and the
counters at once. Every cycle is therefore in exactly one cell, and counting costs nothing per instruction.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcpy, memset

from .architecture cimport *
from .clocks cimport clock_at, cycle_of, end_tick
from .code cimport forget_code
from .division cimport divide
from .signals cimport SETTLED, TOLD_COUNTER, TOLD_ENTRY, TOLD_LEFT, TOLD_LOADED, TOLD_STORED, tell, tell_block
from .structures cimport STOP_NO_MEMORY, Account, Cell, Clock, Core, Hart, Machine, Thread
from .transitions cimport ends, tell_account, tell_away, tell_correction, tell_entry, tell_span

cdef enum:
    MAX_SOFTWARE_THREADS = 1 << 16


cdef inline Cell* cell_of(Machine* m, Account* account, int state) noexcept nogil:
    """Return the cell of a state, creating it if necessary.

    Creating a cell invalidates all pointers to the account's cells.
    """
    cdef Cell* cells
    cdef int32_t room
    if account.index[state]:
        return &account.cells[account.index[state] - 1]
    if account.used == account.room:
        room = account.room * 2 if account.room else 8
        cells = <Cell*>realloc(account.cells, room * sizeof(Cell))
        if cells == NULL:
            m.stop = STOP_NO_MEMORY
            return &m.nowhere
        account.cells = cells
        account.room = room
    memset(&account.cells[account.used], 0, sizeof(Cell))
    account.used += 1
    account.index[state] = <uint8_t>account.used
    return &account.cells[account.used - 1]


cdef inline void find_cells(Machine* m, Hart* h) noexcept nogil:
    h.cell = cell_of(m, &h.thread.account, h.state) if h.thread != NULL else NULL
    h.processor_cell = cell_of(m, &h.account, h.state)


cdef inline void add_to(Cell* cell, int64_t time, int64_t cycles, int64_t instructions, int64_t* lost) noexcept nogil:
    cdef int i
    cell.time += time
    cell.cycles += cycles
    cell.instructions += instructions
    for i in range(1, REASONS):
        cell.lost[i] += lost[i]


cdef inline void count_up(Hart* h, int counter, int64_t amount) noexcept nogil:
    if h.control >> counter & 1:
        h.counters[counter] += <uint64_t>amount


cdef inline void count_cycles(Hart* h, int64_t cycles, int64_t* lost) noexcept nogil:
    """Add cycles to the progress counters of the hart's mode."""
    cdef int64_t internal, external, other
    if h.mode >= HALTED:
        return
    count_up(h, RPC, cycles)
    if h.mode == KERNEL:
        count_up(h, KPC, cycles)
        return
    if h.mode == POLLING:
        count_up(h, IOPC, cycles)
        return
    internal = lost[FETCH_INTERNAL] + lost[LOAD_INTERNAL] + lost[STORE_INTERNAL] + lost[TLB_MISS]
    external = lost[FETCH_EXTERNAL] + lost[LOAD_EXTERNAL] + lost[STORE_EXTERNAL]
    other = lost[DATA] + lost[REFILL] + lost[SLOT]
    if h.mode == MARKED_ONLY:
        count_up(h, MPCI, internal)
        count_up(h, MPCX, external)
        count_up(h, SPC, cycles - internal - external)
    elif h.control & CTL_HWNE:
        count_up(h, MPCI, internal)
        count_up(h, MPCX, external)
        count_up(h, SPC, other)
        count_up(h, EPC, cycles - internal - external - other)
    else:
        count_up(h, EPC, cycles)


cdef inline void add_word(Machine* m, uint32_t address, int64_t amount) noexcept nogil:
    cdef uint64_t value
    memcpy(&value, m.ram + (address - RAM), 8)
    value += <uint64_t>amount
    memcpy(m.ram + (address - RAM), &value, 8)
    forget_code(m, address, 8)


cdef inline int64_t all_lost(int64_t* lost) noexcept nogil:
    cdef int64_t total = 0
    cdef int i
    for i in range(1, REASONS):
        total += lost[i]
    return total


cdef inline void charge_stolen(Machine* m, Hart* h, int mode, int64_t ticks, int64_t many) noexcept nogil:
    """Charge ticks of system-management interrupts to no thread's progress.

    The cycle counters of harts that were running go on, as they do on real machines.
    """
    cdef Cell* cell = cell_of(m, &h.account, SMI)
    cell.time += ticks
    cell.count += many
    if h.thread != NULL:
        cell = cell_of(m, &h.thread.account, SMI)
        cell.time += ticks
        cell.count += many
    if mode != HALTED:
        h.counters[REFERENCE] += <uint64_t>ticks
        h.counters[UNHALTED] += <uint64_t>ticks
    if h.monitor:
        add_word(m, h.monitor + 32 * SMI + 16, many)
    find_cells(m, h)


cdef inline void settle(Machine* m, Core* c, Hart* h, int64_t cycle) noexcept nogil:
    """Charge everything up to the cycle to the current state of the hart."""
    cdef int64_t tick = end_tick(c, cycle), cycles = cycle - h.since, time = tick - h.since_tick
    cdef int64_t instructions = h.instret - h.since_instret
    cdef Clock* clock
    cdef uint32_t row
    cdef int mode
    clock = clock_at(c, cycle - 1)
    if clock.stolen != h.since_stolen:
        time -= clock.stolen - h.since_stolen
        # Between two states, the mode of the cycle before the interrupt counts, whatever follows.
        mode = h.mode if clock.cycle > h.since else h.before
        charge_stolen(m, h, mode, clock.stolen - h.since_stolen, clock.interrupts - h.since_interrupts)
        h.since_stolen = clock.stolen
        h.since_interrupts = clock.interrupts
    if h.cell != NULL:
        add_to(h.cell, time, cycles, instructions, h.lost)
    add_to(h.processor_cell, time, cycles, instructions, h.lost)
    count_cycles(h, cycles, h.lost)
    if h.mode != HALTED:
        h.counters[UNHALTED] += <uint64_t>cycles
        h.counters[REFERENCE] += <uint64_t>time
    elif IDLE < h.state < WAKING:
        h.counters[IN_C1 + h.state - IDLE - 1] += <uint64_t>time
    if h.monitor:
        row = h.monitor + 32 * <uint32_t>h.state
        add_word(m, row, cycles)
        add_word(m, row + 8, instructions)
        add_word(m, row + 24, all_lost(h.lost))
    memset(h.lost, 0, sizeof(h.lost))
    if cycles:
        h.before = h.mode
    h.since = cycle
    h.since_tick = tick
    h.since_instret = h.instret


cdef inline void tell_counters(Machine* m, Core* c, Hart* h, int64_t cycle) noexcept nogil:
    """Settle the hart and tell its counters as of the cycle."""
    cdef int i
    settle(m, c, h, cycle)
    for i in range(8):
        if h.counters[i] != h.told_counters[i]:
            h.told_counters[i] = h.counters[i]
            tell(m, h, TOLD_COUNTER + i, cycle, h.counters[i], 0)
    tell(m, h, SETTLED, cycle, <uint64_t>h.instret, <uint32_t>h.state)


cdef inline int state_of(Machine* m, Hart* h) noexcept nogil:
    """Return the innermost state of the hart. The first match wins, in the order of the counters' priority."""
    if h.halted:
        return IDLE + h.halted
    if h.latch:
        return h.trapped[(h.depth - 1) & 7]
    if h.privilege == MACHINE and h.control & CTL_MK:
        return MACHINE_MODE
    if h.signals & KPSW:
        return NONEFFECTIVE + <int>min(h.signals >> 8 & 0xFF, 31u)
    if h.signals & IOSW:
        return POLL + <int>min(h.signals >> 8 & 0xFF, 23u)
    if m.modes[h.range] == KERNEL:
        return h.range
    if h.polled and h.control & CTL_POLL:
        return h.polled
    if m.modes[h.range] == POLLING:
        return h.range
    if h.signals & SWNE and h.control & CTL_SWNE:
        return MARKED
    return h.range


cdef inline void enter(Machine* m, Core* c, Hart* h, int64_t cycle, int state, bint anew) noexcept nogil:
    """Put the hart into the state from the cycle on; `anew` tells whether this counts as an entry or as a return."""
    settle(m, c, h, cycle)
    if m.signals.on:
        tell_counters(m, c, h, cycle)
    if m.rows.on:
        tell_span(m, h, h.since_tick, not anew or ends(h, state))
    h.state = state
    h.mode = m.modes[state]
    find_cells(m, h)
    if anew:
        h.processor_cell.count += 1
        if h.cell != NULL:
            h.cell.count += 1
        if m.rows.on:
            tell_entry(m, h)
        if m.signals.on:
            tell(m, h, TOLD_ENTRY, cycle, <uint64_t>state, 0)
        if h.monitor:
            add_word(m, h.monitor + 32 * <uint32_t>state + 16, 1)


cdef inline void look_again(Machine* m, Core* c, Hart* h, int64_t cycle, bint anew) noexcept nogil:
    """Update the hart's state after something that it depends on has changed at the cycle."""
    cdef int state = state_of(m, h)
    if state != h.state:
        enter(m, c, h, cycle, state, anew)


cdef inline void correct(Machine* m, Core* c, Hart* h) noexcept nogil:
    """Move the correction from EPC and RPC to OPC, in counters and cells, if the hart is effective now.

    The last instructions of a handler are executed after the correction and are part of what it corrects. EPC and the
    cell may therefore be negative until then.
    """
    cdef int64_t amount = h.correction
    if h.mode != EFFECTIVE or not amount:
        return
    count_up(h, EPC, -amount)
    count_up(h, RPC, -amount)
    count_up(h, OPC, amount)
    move_overhead(m, &h.account, h.state, amount, amount * 16 // c.clock.speed)
    if h.monitor:
        add_word(m, h.monitor + 32 * <uint32_t>h.state, -amount)
        add_word(m, h.monitor + 32 * OVERHEAD, amount)
        add_word(m, h.monitor + 32 * OVERHEAD + 16, 1)
    if h.thread != NULL:
        move_overhead(m, &h.thread.account, h.state, amount, amount * 16 // c.clock.speed)
    find_cells(m, h)
    if m.rows.on:
        tell_correction(m, h, amount * 16 // c.clock.speed)


cdef inline void move_overhead(Machine* m, Account* account, int state, int64_t cycles, int64_t time) noexcept nogil:
    cdef Cell* to = cell_of(m, account, OVERHEAD)
    to.cycles += cycles
    to.time += time
    to.count += 1
    to = cell_of(m, account, state)
    to.cycles -= cycles
    to.time -= time


cdef inline Thread* new_thread(Machine* m, uint32_t block, uint32_t id, int64_t birth) noexcept nogil:
    """Return a new thread that is on no hart; NULL, a loss, if there is no memory or there are too many threads.

    A program can end and begin a thread with two instructions. The limit keeps it from exhausting the host's memory.
    """
    cdef Thread* t
    cdef Thread** many
    cdef int32_t room
    if m.threads_count == MAX_SOFTWARE_THREADS:
        m.lost_threads += 1
        return NULL
    if m.threads_count == m.threads_room:
        room = m.threads_room * 2 if m.threads_room else 64
        many = <Thread**>realloc(m.threads_seen, room * sizeof(Thread*))
        if many == NULL:
            m.lost_threads += 1
            return NULL
        m.threads_seen = many
        m.threads_room = room
    t = <Thread*>calloc(1, sizeof(Thread))
    if t == NULL:
        m.lost_threads += 1
        return NULL
    t.block = block
    t.id = id
    t.number = m.threads_count
    t.birth = birth
    t.since = birth
    t.end = -1
    t.hart = -1
    t.away = LEFT
    m.threads_seen[m.threads_count] = t
    m.threads_count += 1
    return t


cdef inline void begin_hart_thread(Machine* m, Hart* h) noexcept nogil:
    """Begin a thread of its own for what the hart runs before its first block."""
    h.thread = new_thread(m, 0, <uint32_t>h.number, h.since_tick)
    if h.thread == NULL:
        return
    h.thread.hart = h.number
    find_cells(m, h)
    h.cell.count += 1
    h.processor_cell.count += 1
    if m.rows.on:
        tell_entry(m, h)


cdef inline void go_away(Machine* m, Thread* t, int64_t tick, int reason) noexcept nogil:
    """Take the thread off its hart at the tick.

    ``reason`` is 0 for ready, 31 for the thread's end, else what it waits for.
    """
    t.hart = -1
    if reason == 31:
        t.end = tick
        if m.rows.on:
            tell_account(m, &t.account, tick, t)
        return
    t.away = LEFT + reason
    t.since = tick
    cell_of(m, &t.account, t.away).count += 1


cdef inline void come_back(Machine* m, Thread* t, int64_t tick, Hart* by) noexcept nogil:
    """Charge the time since the thread went away, or since it was woken. ``by``: the hart that wakes it; NULL: none."""
    if m.rows.on:
        tell_away(m, t, tick, by)
    cell_of(m, &t.account, t.away).time += tick - t.since
    t.since = tick


cdef inline int32_t* find_block(Machine* m, uint32_t block) noexcept nogil:
    """Return the entry of a block in the hash table, used or free; NULL if there is no memory."""
    cdef int32_t i, room
    cdef int32_t* larger
    if 2 * m.threads_count >= m.by_block_room:
        room = m.by_block_room * 2 if m.by_block_room else 256
        larger = <int32_t*>calloc(room, sizeof(int32_t))
        if larger == NULL:
            return NULL
        for i in range(m.threads_count):
            # Threads are in the order of their births, so a block that was used again maps to its last thread.
            if m.threads_seen[i].block:
                larger[probe(m, larger, room, m.threads_seen[i].block)] = i + 1
        free(m.by_block)
        m.by_block = larger
        m.by_block_room = room
    return &m.by_block[probe(m, m.by_block, m.by_block_room, block)]


cdef inline int32_t probe(Machine* m, int32_t* table, int32_t room, uint32_t block) noexcept nogil:
    cdef uint32_t place = (block >> 3) * 0x9E3779B1u
    while True:
        place &= <uint32_t>(room - 1)
        if not table[place] or m.threads_seen[table[place] - 1].block == block:
            return <int32_t>place
        place += 1


cdef inline Thread* thread_of(Machine* m, uint32_t block, int64_t tick) noexcept nogil:
    """Return the living thread of a block; a new one if there was none or if it has ended."""
    cdef int32_t* place = find_block(m, block)
    cdef Thread* t
    cdef uint32_t id
    if place == NULL:
        m.lost_threads += 1
        return NULL
    if place[0]:
        t = m.threads_seen[place[0] - 1]
        if t.end < 0:
            return t
    memcpy(&id, m.ram + (block - RAM) + 64, 4)
    t = new_thread(m, block, id, tick)
    if t == NULL:
        return NULL
    memcpy(t.name, m.ram + (block - RAM) + 80, 32)
    cell_of(m, &t.account, t.away).count += 1
    place[0] = m.threads_count
    return t


cdef inline void wake(Machine* m, Hart* by, uint32_t block, int64_t tick) noexcept nogil:
    """Do hwwake, which a hart has written: make the thread of the block ready from the tick on."""
    cdef Thread* t = thread_of(m, block, tick)
    if t == NULL:
        return
    if t.hart >= 0:
        m.lost_wakes += 1
        return
    if t.away != LEFT:
        come_back(m, t, tick, by)
        t.away = LEFT
        cell_of(m, &t.account, LEFT).count += 1


cdef inline void load_block(Machine* m, Core* c, Hart* h, int64_t cycle, uint32_t block) noexcept nogil:
    """Do hwblock: the copying unit and the loading unit act at one instant."""
    cdef int64_t tick
    cdef uint8_t* at
    cdef uint32_t word
    settle(m, c, h, cycle)
    tick = h.since_tick
    if m.signals.on:
        tell_block(m, h, TOLD_STORED, cycle)
    if h.block:
        at = m.ram + (h.block - RAM)
        memcpy(at, h.counters, 64)
        memcpy(at + 68, &h.signals, 4)
        memcpy(at + 72, &h.polled, 4)
        forget_code(m, h.block, 76)
    if m.rows.on:
        # The trap in which a kernel switches has ended for the thread. The thread's own regions go on when it is back.
        tell_span(m, h, tick, EXCEPTION <= h.state <= MACHINE_MODE)
    if h.thread != NULL:
        go_away(m, h.thread, tick, 31 if not h.block else <int>h.leave)
        h.thread = NULL
    h.leave = 0
    h.block = block
    divide(m, h, block)
    if block:
        at = m.ram + (block - RAM)
        memcpy(h.counters, at, 64)
        memcpy(&h.signals, at + 68, 4)
        memcpy(&word, at + 72, 4)
        h.polled = word if POLL <= word < EXCEPTION and m.modes[word] == POLLING else 0
        h.thread = thread_of(m, block, tick)
        if h.thread != NULL and h.thread.hart >= 0:
            # The kernel runs one block on two harts, which is a mistake. The second hart's time belongs to no thread.
            h.thread = NULL
            m.lost_threads += 1
        if h.thread != NULL:
            come_back(m, h.thread, tick, NULL)
            h.thread.hart = h.number
    else:
        memset(h.counters, 0, 64)
        h.signals = 0
        h.polled = 0
    if m.signals.on:
        tell_block(m, h, TOLD_LOADED, cycle)
        tell(m, h, TOLD_LEFT, cycle, <uint64_t>h.instret, <uint32_t>h.state)
    h.state = state_of(m, h)
    h.mode = m.modes[h.state]
    find_cells(m, h)


cdef inline void settle_until_now(Machine* m, Core* c, Hart* h) noexcept nogil:
    """Charge a running hart's cycles up to the end of its last instruction; within one that lasts longer, up to now."""
    cdef int64_t passed = cycle_of(c, m.now) - h.since, cycle
    if passed <= 0 or h.mode >= HALTED:
        return
    cycle = min(h.free, h.since + passed // m.unit * m.unit)
    if cycle > h.since:
        settle(m, c, h, cycle)


cdef inline void synchronise(Machine* m, uint32_t block) noexcept nogil:
    """Do hwsync: store the counters of the thread that has this block, and load its parts, if a hart runs it."""
    cdef int32_t* place = find_block(m, block)
    cdef Thread* t
    cdef Hart* h
    if place == NULL or not place[0]:
        return
    t = m.threads_seen[place[0] - 1]
    if t.end >= 0 or t.hart < 0:
        return
    h = &m.harts[t.hart]
    settle_until_now(m, &m.cores[h.core], h)
    if m.signals.on:
        tell_counters(m, &m.cores[h.core], h, h.since)
    memcpy(m.ram + (block - RAM), h.counters, 64)
    forget_code(m, block, 64)
    divide(m, h, block)
