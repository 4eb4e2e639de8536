"""The cells of threads and processors: what each did in one state (docs/machine.md, section 6)."""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport realloc
from libc.string cimport memset

from .architecture cimport *
from .structures cimport STOP_NO_MEMORY, Account, Cell, Hart, Machine


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


cdef inline int64_t all_lost(int64_t* lost) noexcept nogil:
    cdef int64_t total = 0
    cdef int i
    for i in range(1, REASONS):
        total += lost[i]
    return total


cdef inline void move_overhead(Machine* m, Account* account, int state, int64_t cycles, int64_t time) noexcept nogil:
    cdef Cell* to = cell_of(m, account, OVERHEAD)
    to.cycles += cycles
    to.time += time
    to.count += 1
    to = cell_of(m, account, state)
    to.cycles -= cycles
    to.time -= time
