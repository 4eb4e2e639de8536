"""The port of a trace unit: the FIFO before it, and what has left it."""

from libc.stdint cimport int64_t, uint8_t, uint32_t
from libc.stdlib cimport realloc
from libc.string cimport memcpy

from .structures cimport STOP_NO_MEMORY, Core, Hart, Machine, TraceUnit


cdef inline bint have_room(Machine* m, TraceUnit* u, int64_t bytes) noexcept nogil:
    """Return whether ``bytes`` more bytes can be kept behind the port, where memory is enlarged if necessary."""
    cdef uint8_t* larger
    cdef int64_t room
    if u.ring or u.size + bytes <= u.room:
        return True
    room = u.room * 2 if u.room else 1 << 16
    larger = <uint8_t*>realloc(u.bytes, room)
    if larger == NULL:
        m.stop = STOP_NO_MEMORY
        return False
    u.bytes = larger
    u.room = room
    return True


cdef inline void keep_byte(TraceUnit* u, uint8_t byte) noexcept nogil:
    """Take a byte that has left the port, for which there is room."""
    if not u.ring:
        u.bytes[u.size] = byte
        u.size += 1
        return
    if u.after == 0:
        return
    if u.after > 0:
        u.after -= 1
    u.bytes[u.written % u.ring] = byte
    u.written += 1


cdef inline void keep_bytes(TraceUnit* u, uint8_t* bytes, int count) noexcept nogil:
    """Take bytes that have left the port, for which there is room."""
    cdef int i
    if u.ring:
        for i in range(count):
            keep_byte(u, bytes[i])
    else:
        memcpy(u.bytes + u.size, bytes, count)
        u.size += count


cdef inline bint fits(Core* c, int64_t bytes) noexcept nogil:
    """Return whether the FIFO has room now, after removing what has left it since the last call."""
    cdef TraceUnit* u = &c.trace_unit
    if not u.port:
        return True
    u.level = max(0, u.level - (c.cycle - u.level_at) * u.port)
    u.level_at = c.cycle
    return u.level + 8 * bytes <= u.depth


cdef inline void fill(TraceUnit* u, int64_t bytes) noexcept nogil:
    u.level += 8 * bytes
    u.left -= bytes


cdef inline uint32_t id_of(Hart* h) noexcept nogil:
    """Return the id of the software thread that the hart runs; 0 if the machine knows none."""
    return h.thread.id if h.thread != NULL and h.thread.block else 0
