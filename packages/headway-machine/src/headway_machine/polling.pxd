"""The poll latches of a hart, one for each name of status registers, and when a thread has given up polling.

A status check that finds nothing ready sets the latch of its device, and one that finds something clears it. A thread
that gives up makes no such check any more. So the latches also end with a system call, when the thread has run for
`hwgap` cycles without a fruitless check, and for a device that it has left out of a round of checks (docs/machine.md,
section 4).

The cycles are counted while the hart runs and is in no trap. Nothing is done for that in each cycle: `gap_end` is the
cycle with which the thread gives up. It is looked at before each turn, while GIVES_UP is set.
"""

from libc.stdint cimport int64_t, uint32_t

from .architecture cimport *
from .structures cimport Hart, Machine

cdef enum:  # Attention
    # The cycles without a check are counted.
    GIVES_UP = 1024

cdef enum:
    DEVICES = 8


cdef inline void keep_latches(Hart* h, uint32_t mask) noexcept nogil:
    """Keep these latches, and clear the others. The state is that of the lowest."""
    cdef int device
    h.latches &= mask
    h.asked &= h.latches
    h.polled = 0
    if not h.latches:
        h.gap_left = 0
        return
    for device in range(DEVICES):
        if h.latches >> device & 1:
            h.polled = POLL_LATCH + <uint32_t>device
            return


cdef inline void stop_gap(Hart* h, int64_t cycle) noexcept nogil:
    """Count the thread's own cycles no longer, from the cycle on. It gives up if there were enough."""
    if not h.attention & GIVES_UP:
        return
    h.attention &= ~<uint32_t>GIVES_UP
    h.gap_left -= cycle - h.gap_since
    if h.gap_left <= 0:
        keep_latches(h, 0)


cdef inline void count_gap(Machine* m, Hart* h, int64_t cycle) noexcept nogil:
    """Count the thread's own cycles from the cycle on, if it polls, and outside of traps."""
    cdef int64_t left = max(h.gap_left, 1)
    if not h.latches or not h.gap or h.latch:
        return
    h.attention |= GIVES_UP
    h.gap_since = cycle
    h.gap_end = cycle + (left + m.quantum - 1) // m.quantum * m.quantum


cdef inline void note_check(Machine* m, Hart* h, int64_t after, uint32_t state, bint ready) noexcept nogil:
    """Note a status check outside of traps, with effect from a cycle on.

    If the thread has asked this device in vain since it began the round, a new round begins: what it has left out, it
    has given up.
    """
    cdef uint32_t latch = 1u << (state - POLL_LATCH)
    stop_gap(h, after)
    if ready:
        keep_latches(h, h.latches & ~latch)
    else:
        if h.asked & latch:
            h.latches = h.asked
            h.asked = 0
        h.asked |= latch
        h.latches |= latch
        h.gap_left = h.gap
        keep_latches(h, h.latches)
    count_gap(m, h, after)


cdef inline void clear_latches(Machine* m, Hart* h, int64_t after, uint32_t kept) noexcept nogil:
    """Do what software asks for: keep no latches but these from a cycle on."""
    stop_gap(h, after)
    keep_latches(h, kept)
    count_gap(m, h, after)


cdef inline void set_gap(Machine* m, Hart* h, int64_t after, uint32_t value) noexcept nogil:
    """Write hwgap. The cycles without a check are counted from here on."""
    stop_gap(h, after)
    h.gap = value
    if h.latches:
        h.gap_left = value
    count_gap(m, h, after)


cdef inline uint32_t saved_latches(Hart* h) noexcept nogil:
    """Return what a thread's block keeps of its latches."""
    return h.latches | h.asked << 8 | <uint32_t>h.gap_left << 16


cdef inline void load_latches(Machine* m, Hart* h, uint32_t saved) noexcept nogil:
    """Take the latches from what a thread's block has kept; those of no status register count as clear."""
    h.asked = saved >> 8
    h.latches = saved
    h.gap_left = saved >> 16
    keep_latches(h, m.polled_devices)
