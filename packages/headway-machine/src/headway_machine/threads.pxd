"""Software threads: which there are, which of them runs, and what the others wait for (docs/machine.md, section 5).

A kernel names a thread by its block in RAM. When it writes hwblock, the counters of the one thread are stored into its
block and those of the other are loaded, at one instant.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcpy, memset

from .architecture cimport *
from .cells cimport cell_of, find_cells
from .clocks cimport cycle_of
from .code cimport forget_code
from .division cimport divide
from .polling cimport GIVES_UP, count_gap, load_latches, saved_latches, stop_gap
from .progress_unit cimport add_word, end_polling, settle, state_of, tell_counters
from .signals cimport TOLD_ENTRY, TOLD_LEFT, TOLD_LOADED, TOLD_STORED, tell, tell_block
from .structures cimport Core, Hart, Machine, Thread
from .transitions cimport tell_account, tell_away, tell_entry, tell_span

cdef enum:
    MAX_SOFTWARE_THREADS = 1 << 16
    # Of what a block keeps of where its thread was.
    HAS_RUN = 0x80000000


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


cdef inline void count_first(Machine* m, Hart* h, int64_t cycle) noexcept nogil:
    """Count the first state of a thread, or of a hart, as entered anew."""
    h.processor_cell.count += 1
    if h.cell != NULL:
        h.cell.count += 1
    if m.rows.on:
        tell_entry(m, h)
    if m.signals.on:
        tell(m, h, TOLD_ENTRY, cycle, <uint64_t>h.state, 0)
    if h.monitor:
        add_word(m, h.monitor + 32 * <uint32_t>h.state + 16, 1)


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


cdef inline uint32_t saved_place(Hart* h) noexcept nogil:
    """Return what a thread's block keeps of where the thread was last outside of traps; 0: nowhere yet."""
    return HAS_RUN | <uint32_t>h.outside << 8 | h.range if h.outside >= 0 else 0


cdef inline void load_place(Machine* m, Hart* h, uint32_t saved) noexcept nogil:
    """Take from what a thread's block has kept where the thread was.

    The range is that of the instructions that the hart executes, unless they are those of a trap.
    """
    h.outside = <int32_t>(saved >> 8 & 0xFF) if saved & HAS_RUN else -1
    if h.latch:
        h.range = <uint8_t>(saved & 63) if saved & HAS_RUN and <int>(saved & 63) <= m.ranges else 0


cdef inline void begin_state(Machine* m, Hart* h, int64_t cycle) noexcept nogil:
    """Put the hart into the state of the thread that it runs from now on, and count the thread's first one."""
    h.state = state_of(m, h)
    h.mode = m.modes[h.state]
    find_cells(m, h)
    if h.outside < 0 and h.state < EXCEPTION:
        count_first(m, h, cycle)


cdef inline void load_block(Machine* m, Core* c, Hart* h, int64_t cycle, uint32_t block) noexcept nogil:
    """Do hwblock: the copying unit and the loading unit act at one instant."""
    cdef int64_t tick
    cdef uint8_t* at
    cdef uint32_t latches = 0, place = 0
    settle(m, c, h, cycle)
    stop_gap(h, cycle)
    tick = h.since_tick
    if m.signals.on:
        tell_block(m, h, TOLD_STORED, cycle, saved_latches(h), saved_place(h))
    if h.block:
        at = m.ram + (h.block - RAM)
        memcpy(at, h.counters, 64)
        memcpy(at + 68, &h.signals, 4)
        latches = saved_latches(h)
        place = saved_place(h)
        memcpy(at + 72, &latches, 4)
        memcpy(at + 76, &place, 4)
        forget_code(m, h.block, 80)
        latches = place = 0
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
        memcpy(&latches, at + 72, 4)
        memcpy(&place, at + 76, 4)
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
    load_latches(m, h, latches)
    load_place(m, h, place)
    count_gap(m, h, cycle)
    if m.signals.on:
        tell_block(m, h, TOLD_LOADED, cycle, saved_latches(h), saved_place(h))
        tell(m, h, TOLD_LEFT, cycle, <uint64_t>h.instret, <uint32_t>h.state)
    begin_state(m, h, cycle)


cdef inline void settle_until_now(Machine* m, Core* c, Hart* h) noexcept nogil:
    """Charge a running hart's cycles up to the end of its last instruction; within one that lasts longer, up to now."""
    cdef int64_t passed = cycle_of(c, m.now) - h.since, cycle
    if passed <= 0 or h.mode >= HALTED:
        return
    cycle = min(h.free, h.since + passed // m.quantum * m.quantum)
    if h.attention & GIVES_UP and h.gap_end <= cycle:
        end_polling(m, c, h)
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
