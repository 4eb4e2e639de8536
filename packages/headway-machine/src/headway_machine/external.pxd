"""Events from outside that trigger blocks look for: lines of the PLIC, bytes that the UART receives, SMIs.

They are noted where devices have them. The sequencers move after all events of their tick (`events.take_external`), so
blocks that fire in one tick fire at once.
"""

from libc.stdint cimport uint32_t

from .structures cimport Block, Machine, TraceUnit

# What a block looks for instead of accesses: bits 10 and 9 of its control register.
cdef enum:
    BLOCK_EXTERNAL = 0x600
    EXTERNAL_LINE = 0x200
    EXTERNAL_BYTE = 0x400
    EXTERNAL_SMI = 0x600


cdef inline bint fits_external(Block* b, uint32_t state, uint32_t kind, uint32_t value) noexcept nogil:
    """Return whether a block that is in a unit with this state of the sequencer looks for the event."""
    if not b.control & 1 or b.control & BLOCK_EXTERNAL != kind or not b.control >> (1 + state) & 1:
        return False
    if kind == EXTERNAL_LINE:
        return b.first == value
    return kind != EXTERNAL_BYTE or not b.control & 0x100 or not (value ^ b.value) & b.mask


cdef inline void note_external(Machine* m, uint32_t kind, uint32_t value) noexcept nogil:
    """Note an event; ``value``: the line, or the byte. A block that fires for it waits for `events.take_external`."""
    cdef TraceUnit* u
    cdef Block* block
    cdef int k, i
    for k in range(m.cores_count):
        u = &m.cores[k].trace_unit
        for i in range(4):
            block = &u.blocks[i]
            if not fits_external(block, u.state, kind, value):
                continue
            block.left -= 1
            if block.left <= 0:
                block.left = block.reload
                u.fired |= 1u << i
                m.external_fired = 1


cdef inline void note_lines(Machine* m) noexcept nogil:
    """Note the lines that have come up, or become pending, since this was called last."""
    cdef uint32_t up = m.pending | m.level, risen = up & ~m.lines_seen, i
    m.lines_seen = up
    if not risen or not m.external:
        return
    for i in range(1, 32):
        if risen >> i & 1:
            note_external(m, EXTERNAL_LINE, i)
    if m.external_fired:
        # The sequencers move before the next tick.
        m.next_event = min(m.next_event, m.now + 1)
