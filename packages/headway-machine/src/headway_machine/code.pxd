"""Decoded code of each page that instructions were fetched from. A write to memory makes the machine forget it there.

Instruction memory is therefore always coherent with data memory, also without FENCE.I. Only the timing of the
instruction cache depends on FENCE.I.
"""

from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

from .architecture cimport *
from specification.riscv.decode cimport decode_half, decode_word
from .structures cimport STOP_NO_MEMORY, Core, Decoded, Hart, Machine
from .trace cimport compare_code

cdef enum:
    PAGE = 4096
    # The largest number of pages of decoded code at one time; each takes 32 KiB.
    MAX_PAGES = 4096
    NO_PAGE = 0x7FFFFFFF


cdef inline void forget_code(Machine* m, uint32_t address, uint32_t size) noexcept nogil:
    """Forget the decoded instructions that overlap ``size`` bytes of RAM that were written at ``address``."""
    cdef int64_t first = <int64_t>(address - RAM) - 2, last = <int64_t>(address - RAM) + size - 1, at, end, i
    cdef Decoded* page
    at = first if first > 0 else 0
    while at <= last:
        end = at // PAGE * PAGE + PAGE - 1
        page = m.pages[at // PAGE]
        if page != NULL:
            for i in range((at % PAGE) >> 1, ((end if end < last else last) % PAGE >> 1) + 1):
                page[i].operation = UNDECODED
        at = end + 1


cdef inline void forget_tcm(Core* c, uint32_t offset, uint32_t size) noexcept nogil:
    cdef uint32_t i
    for i in range((offset - 2 if offset >= 2 else 0) >> 1, ((offset + size - 1) >> 1) + 1):
        if c.tcm_pages[i * 2 // PAGE] != NULL:
            c.tcm_pages[i * 2 // PAGE][i % (PAGE // 2)].operation = UNDECODED


cdef inline uint8_t* memory_at(Machine* m, Core* c, uint32_t address) noexcept nogil:
    """Return where the host has two bytes of RAM or TCM; NULL if the address is in neither."""
    if address - RAM < m.ram_size:
        return m.ram + (address - RAM)
    if address - TCM < m.tcm_size:
        return c.tcm + (address - TCM)
    return NULL


cdef inline uint8_t range_of(Machine* m, uint32_t address) noexcept nogil:
    """Return the number of the state monitor's first range that contains the address; 0 if none does."""
    cdef int i
    for i in range(1, m.ranges + 1):
        if address - m.range_start[i] < m.range_end[i] - m.range_start[i]:
            return <uint8_t>i
    return 0


cdef inline void free_pages(Decoded** pages, uint32_t size) noexcept nogil:
    cdef uint32_t i
    for i in range(size // PAGE):
        free(pages[i])
        pages[i] = NULL


cdef inline void close_pages(Machine* m) noexcept nogil:
    """Forget all decoded code.

    This keeps a program that jumps all over its memory from exhausting the host's memory.
    """
    cdef int i
    free_pages(m.pages, m.ram_size)
    for i in range(m.cores_count):
        free_pages(m.cores[i].tcm_pages, m.tcm_size)
    for i in range(m.harts_count):
        m.harts[i].page = NO_PAGE
        m.harts[i].code = NULL
    m.pages_open = 0


cdef inline Decoded* open_page(Machine* m, Core* c, Hart* h, uint32_t address) noexcept nogil:
    """Return the page of decoded code that contains the address; NULL if the address is not in memory."""
    cdef Decoded** page
    if address - RAM < m.ram_size:
        page = &m.pages[(address - RAM) // PAGE]
    elif address - TCM < m.tcm_size:
        page = &c.tcm_pages[(address - TCM) // PAGE]
    else:
        return NULL
    if page[0] == NULL:
        if m.pages_open == MAX_PAGES:
            close_pages(m)
        m.pages_open += 1
        page[0] = <Decoded*>calloc(PAGE // 2, sizeof(Decoded))
        if page[0] == NULL:
            m.stop = STOP_NO_MEMORY
            return NULL
    h.code = page[0]
    h.page = address // PAGE
    return page[0]


cdef inline bint decode(Machine* m, Core* c, Decoded* d, uint32_t address) noexcept nogil:
    """Decode the instruction at an address in memory. Return False if its second half is not in memory."""
    cdef uint16_t low, high
    cdef uint8_t* second
    cdef uint32_t line = (1u << c.icache.shift) - 1
    memcpy(&low, memory_at(m, c, address), 2)
    if low & 3 == 3:
        second = memory_at(m, c, address + 2)
        if second == NULL:
            return False
        memcpy(&high, second, 2)
        decode_word(m.encodings, d, <uint32_t>high << 16 | low)
        d.crosses = (address & line) == line - 1
    else:
        decode_half(d, low)
        d.crosses = 0
    d.range = range_of(m, address)
    if m.loaded_count:
        compare_code(m, c, address, <uint8_t*>&d.word if d.size == 4 else <uint8_t*>&low, d.size)
    return True
