"""The rows of a recording (headway/docs/recordings.md): what each hart and each thread did, state by state, as each state ends.

Rows are kept only while a recording is made. Without one, a change of state costs one more comparison.

A row has the tick at which the state began and how long it lasted. Over the rows of a thread or hart, the times and the
counts of a state add up to those of its cell. The cell counts an occurrence when the state is entered. Its row counts
it when the state ends, and not where the state is only interrupted, so the cell remembers that one is `open`.
"""

from libc.stdint cimport INT32_MAX, int16_t, int32_t, int64_t, uint8_t
from libc.stdlib cimport realloc

from .architecture cimport *
from .structures cimport STOP_NO_MEMORY, Account, Cell, Hart, Machine, Row, Thread

cdef enum:
    NOBODY = -1
    # Of a waker: no interrupt. State 0 is none.
    NO_STATE = 0


cdef inline Row* new_row(Machine* m, int64_t time, Thread* t, int cpu, int state) noexcept nogil:
    """Return a row without a duration that counts nothing. If there is no memory, the machine stops."""
    cdef Row* entries
    cdef int64_t room
    cdef Row* row
    if m.rows.count == m.rows.room:
        room = m.rows.room * 2 if m.rows.room else 1024
        entries = <Row*>realloc(m.rows.entries, room * sizeof(Row))
        if entries == NULL:
            m.stop = STOP_NO_MEMORY
            return &m.no_row
        m.rows.entries = entries
        m.rows.room = room
    row = &m.rows.entries[m.rows.count]
    m.rows.count += 1
    row.time = time
    row.duration = row.taken = row.count = 0
    row.thread = NOBODY if t == NULL else t.number
    row.waker = NOBODY
    row.cpu = <int16_t>cpu
    row.state = <uint8_t>state
    row.waker_state = NO_STATE
    return row


cdef inline void tell_time(
    Machine* m, int64_t start, int64_t until, Thread* t, int cpu, int state, int32_t count
) noexcept nogil:
    """Write a hart's state down, less the system-management interrupts within it, which are rows of their own."""
    cdef int64_t at, end
    cdef Row* row
    at = m.smi_first
    if m.smi_ticks and at < start and m.smi_every:
        at += (start - at + m.smi_every - 1) // m.smi_every * m.smi_every
    while m.smi_ticks and start <= at < until:
        if at > start:
            row = new_row(m, start, t, cpu, state)
            row.duration = at - start
        end = min(at + m.smi_ticks, until)
        row = new_row(m, at, t, cpu, SMI)
        row.duration = end - at
        row.count = 1
        start = end
        if not m.smi_every:
            break
        at += m.smi_every
    if until > start or count:
        row = new_row(m, start, t, cpu, state)
        row.duration = until - start
        row.count = count


cdef inline void tell_occurrence(Machine* m, Cell* cell, int64_t tick, Thread* t, int state) noexcept nogil:
    """Count the cell's open occurrence, which ended somewhere before the tick, on the hart where it began."""
    if cell.open:
        new_row(m, tick, t, cell.open - 1, state).count = 1
        cell.open = 0


cdef inline Cell* owner_of(Hart* h) noexcept nogil:
    return h.cell if h.cell != NULL else h.processor_cell


cdef inline void tell_span(Machine* m, Hart* h, int64_t tick, bint ended) noexcept nogil:
    """Write the hart's state down, up to the tick. ``ended``: it is not only interrupted."""
    cdef Cell* cell = owner_of(h)
    cdef int32_t count = 0
    if ended and cell.open == h.number + 1:
        cell.open = 0
        count = 1
    tell_time(m, h.told, tick, h.thread, h.number, h.state, count)
    if ended:
        tell_occurrence(m, cell, tick, h.thread, h.state)
    h.told = tick


cdef inline bint is_latched(int state) noexcept nogil:
    """Return whether the state is one of the poll latches."""
    return POLL_LATCH <= state < EXCEPTION and state != MARKED


cdef inline bint ends(Hart* h, int state) noexcept nogil:
    """Return whether the hart's state ends where another is entered anew. Most states are only interrupted by that."""
    return h.mode == HALTED or (is_latched(h.state) and state < EXCEPTION)


cdef inline void tell_entry(Machine* m, Hart* h) noexcept nogil:
    """Note that the hart has entered its state anew."""
    cdef Cell* cell = owner_of(h)
    tell_occurrence(m, cell, h.since_tick, h.thread, h.state)
    cell.open = h.number + 1


cdef inline void tell_away(Machine* m, Thread* t, int64_t until, Hart* by) noexcept nogil:
    """Write down what a thread off the processor waited for, and the hart that woke it; NULL: none did."""
    cdef Row* row = new_row(m, t.since, t, NOBODY, t.away)
    row.duration = until - t.since
    row.count = 1
    if by == NULL:
        return
    if INTERRUPT <= by.state < CALL:
        row.waker_state = <uint8_t>by.state
    elif by.thread != NULL:
        row.waker = by.thread.number


cdef inline void tell_correction(Machine* m, Hart* h, int64_t time) noexcept nogil:
    """Write down that ``time`` goes from the hart's state to its overhead.

    A row on disk takes 31 bits of it at most.
    """
    cdef int64_t part
    cdef int32_t count = 1
    cdef Row* row
    while time:
        part = min(time, <int64_t>INT32_MAX)
        row = new_row(m, h.since_tick, h.thread, h.number, h.state)
        row.taken = part
        row = new_row(m, h.since_tick, h.thread, h.number, OVERHEAD)
        row.taken = -part
        row.count = count
        count = 0
        time -= part


cdef inline void tell_account(Machine* m, Account* account, int64_t tick, Thread* t) noexcept nogil:
    """Count the occurrences that nothing resumed before the thread, or the run, ended at the tick."""
    cdef int state
    for state in range(STATES):
        if account.index[state]:
            tell_occurrence(m, &account.cells[account.index[state] - 1], tick, t, state)
