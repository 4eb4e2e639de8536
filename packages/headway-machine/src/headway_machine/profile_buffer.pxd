"""The profile buffer, into which a hart writes where it is (docs/machine.md, section 7)."""

from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memcpy

from .architecture cimport RAM, unlikely
from .code cimport forget_code
from .signals cimport TOLD_DID, TOLD_RECORD, TOLD_TURN, tell
from .structures cimport Core, Hart, Machine


cdef inline void record(Machine* m, Hart* h, uint32_t pc) noexcept nogil:
    """Add a record to the profile buffer. A full buffer drops it; only the count of missed records tells."""
    cdef uint32_t at, words[4]
    if h.profile_head >= h.profile_size:
        h.profile_missed += 1
        return
    at = h.profile_base + h.profile_head
    words[0] = pc
    words[1] = <uint32_t>h.state
    words[2] = <uint32_t>m.now
    words[3] = <uint32_t>(<uint64_t>m.now >> 32)
    memcpy(m.ram + (at - RAM), words, 16)
    forget_code(m, at, 16)
    h.profile_head += 16
    if unlikely(m.signals.on != 0):
        tell(m, h, TOLD_RECORD, h.profile_last, <uint64_t>h.state << 32 | pc, at)


cdef inline void profile(Machine* m, Core* c, Hart* h, uint32_t pc, bint retired, bint taken) noexcept nogil:
    """Profile a turn of a hart whose buffer is authorised."""
    if unlikely(m.signals.on != 0):
        tell(m, h, TOLD_TURN, c.cycle, <uint64_t>m.now, pc)
        tell(m, h, TOLD_DID, c.cycle, <uint64_t>h.state, <uint32_t>retired | <uint32_t>taken << 1)
    if h.profile == 1:
        while c.cycle - h.profile_last >= h.profile_period:
            h.profile_last += h.profile_period
            record(m, h, pc)
    elif h.profile == 2 and retired or h.profile == 3 and taken:
        h.profile_left -= 1
        if h.profile_left <= 0:
            h.profile_left = h.profile_period
            record(m, h, pc)
