"""Copying a machine as it is, and freeing it: every array that a machine has is listed here once, in `each_array`.

Two machines that are equal go on equally, to the cycle. Decoded code is copied too, because decoding tells the trace
units of instructions that have changed.
"""

from libc.stddef cimport size_t
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy

from .architecture cimport *
from .cells cimport find_cells
from .code cimport PAGE
from .structures cimport (
    Account, Cache, Cell, Core, Decoded, Encoder, Hart, Loaded, Logged, Machine, Row, Signal, Thread,
)
from .trace cimport LOGGED

cdef enum:  # What to do with an array
    FREE = 0
    COPY = 1


cdef inline bint one_array(void** array, size_t size, int what) noexcept nogil:
    """Free the array, or give it a copy of its first ``size`` bytes. Return False, with NULL, if there is no memory."""
    cdef void* copy
    if array[0] == NULL:
        return True
    if what == FREE:
        free(array[0])
        array[0] = NULL
        return True
    copy = malloc(size if size else 1)
    if copy != NULL:
        memcpy(copy, array[0], size)
    array[0] = copy
    return copy != NULL


cdef inline bint cache_arrays(Cache* cache, int what) noexcept nogil:
    cdef size_t lines = <size_t>cache.sets * cache.ways
    cdef bint done = one_array(<void**>&cache.tags, lines * sizeof(uint32_t), what)
    done &= one_array(<void**>&cache.used, lines * sizeof(int64_t), what)
    done &= one_array(<void**>&cache.filled, lines * sizeof(int64_t), what)
    done &= one_array(<void**>&cache.dirty, lines, what)
    done &= one_array(<void**>&cache.external, lines, what)
    return done


cdef inline bint page_arrays(Decoded*** pages, size_t count, int what) noexcept nogil:
    """Do it for a table of pages, and for the pages."""
    cdef size_t i
    cdef bint done = True
    if pages[0] == NULL:
        return True
    if what == COPY and not one_array(<void**>pages, count * sizeof(Decoded*), what):
        return False
    for i in range(count):
        done &= one_array(<void**>&pages[0][i], PAGE // 2 * sizeof(Decoded), what)
    return done and (what == COPY or one_array(<void**>pages, 0, what))


cdef inline bint thread_arrays(Machine* m, int what) noexcept nogil:
    cdef int32_t i
    cdef bint done = True
    if m.threads_seen == NULL:
        return True
    if what == COPY and not one_array(<void**>&m.threads_seen, <size_t>m.threads_room * sizeof(Thread*), what):
        return False
    for i in range(m.threads_count):
        if what == COPY:
            done &= one_array(<void**>&m.threads_seen[i], sizeof(Thread), what)
        if m.threads_seen[i] == NULL:
            continue
        done &= one_array(
            <void**>&m.threads_seen[i].account.cells, <size_t>m.threads_seen[i].account.room * sizeof(Cell), what
        )
        if what == FREE:
            one_array(<void**>&m.threads_seen[i], 0, what)
    return done and (what == COPY or one_array(<void**>&m.threads_seen, 0, what))


cdef inline bint each_array(Machine* m, int what) noexcept nogil:
    """Free every array of the machine, or replace each by a copy. Return False if there is no memory for all of them.

    The arrays for which there is none are NULL then; all others can be freed.
    """
    cdef bint done = True
    cdef Core* c
    cdef Hart* h
    cdef int i
    for i in range(m.cores_count):
        c = &m.cores[i]
        done &= cache_arrays(&c.icache, what)
        done &= cache_arrays(&c.dcache, what)
        done &= one_array(<void**>&c.tcm, m.tcm_size, what)
        done &= page_arrays(&c.tcm_pages, m.tcm_size // PAGE + 1, what)
        done &= one_array(<void**>&c.trace_unit.bytes, <size_t>c.trace_unit.room, what)
    for i in range(m.harts_count):
        h = &m.harts[i]
        done &= one_array(<void**>&h.tlb, <size_t>m.tlb_entries * sizeof(uint32_t), what)
        done &= one_array(<void**>&h.tlb_used, <size_t>m.tlb_entries * sizeof(int64_t), what)
        done &= one_array(<void**>&h.encoder, sizeof(Encoder), what)
        done &= one_array(<void**>&h.account.cells, <size_t>h.account.room * sizeof(Cell), what)
    done &= thread_arrays(m, what)
    for i in range(m.loaded_count):
        done &= one_array(<void**>&m.loaded[i].bytes, m.loaded[i].size, what)
    done &= one_array(<void**>&m.ram, m.ram_size, what)
    done &= page_arrays(&m.pages, m.ram_size // PAGE, what)
    if m.sharers != NULL:
        done &= one_array(<void**>&m.sharers, (m.ram_size >> m.cores[0].dcache.shift) * sizeof(uint16_t), what)
    done &= cache_arrays(&m.l2, what)
    done &= one_array(<void**>&m.breakpoints, <size_t>m.breakpoints_count * sizeof(uint32_t), what)
    done &= one_array(<void**>&m.uart_input, <size_t>m.uart_length, what)
    done &= one_array(<void**>&m.uart_at, <size_t>m.uart_length * sizeof(int64_t), what)
    done &= one_array(<void**>&m.sent, <size_t>m.sent_room, what)
    done &= one_array(<void**>&m.blocks, <size_t>m.sectors * 512, what)
    done &= one_array(<void**>&m.by_block, <size_t>m.by_block_room * sizeof(int32_t), what)
    done &= one_array(<void**>&m.log.entries, <size_t>m.log.room * sizeof(Logged), what)
    done &= one_array(<void**>&m.rows.entries, <size_t>m.rows.room * sizeof(Row), what)
    done &= one_array(<void**>&m.signals.entries, <size_t>m.signals.room * sizeof(Signal), what)
    return done


cdef inline void free_machine(Machine* m) noexcept nogil:
    """Free a machine and all that it has."""
    if m != NULL:
        each_array(m, FREE)
        free(m)


cdef inline void free_trace_copy(Machine* copy) noexcept nogil:
    """Free what `trace_copy_of` has returned."""
    cdef int i
    for i in range(copy.cores_count):
        free(copy.cores[i].trace_unit.bytes)
    for i in range(copy.harts_count):
        free(copy.harts[i].encoder)
    free(copy)


cdef inline Machine* trace_copy_of(Machine* m) noexcept nogil:
    """Return a copy of which only the trace units and what they hold back are its own; NULL if there is no memory.

    All else is the machine's: only the trace may be ended on the copy.
    """
    cdef Machine* copy = <Machine*>malloc(sizeof(Machine))
    cdef bint done = True
    cdef int i
    if copy == NULL:
        return NULL
    memcpy(copy, m, sizeof(Machine))
    for i in range(copy.cores_count):
        copy.cores[i].harts = &copy.harts[i * copy.threads]
        done &= one_array(
            <void**>&copy.cores[i].trace_unit.bytes, <size_t>copy.cores[i].trace_unit.room, COPY
        )
    for i in range(copy.harts_count):
        # The log is the machine's.
        copy.harts[i].attention &= ~<uint32_t>LOGGED
        done &= one_array(<void**>&copy.harts[i].encoder, sizeof(Encoder), COPY)
    if not done:
        free_trace_copy(copy)
        return NULL
    return copy


cdef inline Machine* copy_of(Machine* m) noexcept nogil:
    """Return a copy that shares nothing with the machine; NULL if there is no memory for it."""
    cdef Machine* copy = <Machine*>malloc(sizeof(Machine))
    cdef Core* c
    cdef Hart* h
    cdef uint32_t at
    cdef int i
    if copy == NULL:
        return NULL
    memcpy(copy, m, sizeof(Machine))
    if not each_array(copy, COPY):
        free_machine(copy)
        return NULL
    for i in range(copy.cores_count):
        c = &copy.cores[i]
        c.harts = &copy.harts[i * copy.threads]
        if c.pick != NULL:
            c.pick = &c.harts[c.pick - m.cores[i].harts]
    for i in range(copy.harts_count):
        h = &copy.harts[i]
        if h.code != NULL:
            at = h.page * PAGE
            if at - RAM < copy.ram_size:
                h.code = copy.pages[(at - RAM) // PAGE]
            else:
                h.code = copy.cores[h.core].tcm_pages[(at - TCM) // PAGE]
        if h.thread != NULL:
            h.thread = copy.threads_seen[h.thread.number]
        find_cells(copy, h)
    return copy
