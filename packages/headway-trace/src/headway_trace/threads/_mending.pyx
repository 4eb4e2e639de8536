"""The repair of a damaged segment of trace, by its check, length and parity.

The parity is the exclusive or of every 36th byte. For damage to at most 32 bytes in a row it therefore tells *what* was
changed or is missing, but not where. The check, a CRC-32, is right for one place only. At least four columns of the
parity, which such damage does not affect, must agree as well. A caller that decodes the segment has further checks.

Each search is one pass over the bytes: a CRC is linear, and moving damage by a column changes two columns of the
parity.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from specification.six_threads.protocol cimport COLUMNS
from headway_trace.threads.packets cimport ALIGNMENT, CHECKED, Packet, packet_at

__all__ = ["LONGEST_BURST", "WIDTH", "mend", "vouched_for"]

cdef enum:
    BURST = 32         # bytes in a row that may be damaged
    TRIES = 64         # checks of whole segments that are made at most
    LONGEST = 1 << 16  # the longest segment whose beginning is searched for

LONGEST_BURST = BURST
WIDTH = COLUMNS
"""The number of bytes of the parity."""

cdef uint32_t[256] table


cdef void make_table() noexcept:
    cdef uint32_t value
    cdef int i, _
    for i in range(256):
        value = <uint32_t>i
        for _ in range(8):
            value = value >> 1 ^ (0xEDB88320u if value & 1 else 0)
        table[i] = value


make_table()


cdef inline uint32_t through(uint32_t register, const uint8_t* p, int64_t n) noexcept nogil:
    cdef int64_t i
    for i in range(n):
        register = table[(register ^ p[i]) & 0xFF] ^ register >> 8
    return register


cdef inline uint32_t zeros(uint32_t register, int64_t n) noexcept nogil:
    cdef int64_t _
    for _ in range(n):
        register = table[register & 0xFF] ^ register >> 8
    return register


cdef inline int turned(uint8_t* column, uint8_t by) noexcept nogil:
    """Change a column. Return by how much the number of differing columns grows."""
    cdef int before = column[0] != 0
    column[0] ^= by
    return (column[0] != 0) - before


cdef int64_t changed(uint8_t* r, int64_t n, uint32_t check, const uint8_t* parity) noexcept nogil:
    """Undo a change of bytes in a row. Return the number of changed bits; 0 if that is not what happened."""
    cdef uint8_t s[COLUMNS]
    cdef uint8_t error[BURST]
    cdef uint8_t kept[BURST]
    cdef int64_t p, place = -1, i
    cdef int first, c, m, size = 0, k, bits = 0
    cdef uint32_t register, wanted = ~through(0xFFFFFFFFu, r, n) ^ check
    memcpy(s, parity, COLUMNS)
    for i in range(n):
        s[i % COLUMNS] ^= r[i]
    for first in range(COLUMNS):
        if not s[first]:
            continue
        m = 0
        for k in range(COLUMNS):
            c = (first + k) % COLUMNS
            if s[c]:
                m = k + 1
            if k < BURST:
                error[k] = s[c]
        if m > BURST or n < first + m:
            continue
        p = (n - m - first) // COLUMNS * COLUMNS + first
        register = zeros(through(0, error, m), n - p - m)
        while True:
            if register == wanted:
                if place >= 0:
                    return 0
                place, size = p, m
                memcpy(kept, error, BURST)
            if p < COLUMNS:
                break
            p -= COLUMNS
            register = zeros(register, COLUMNS)
    if place < 0:
        return 0
    for k in range(size):
        r[place + k] ^= kept[k]
        for c in range(8):
            bits += kept[k] >> c & 1
    return bits


cdef bint missing(
    const uint8_t* r, int64_t n, int d, uint8_t* t, uint32_t check, const uint8_t* parity, int* tries
) noexcept nogil:
    """Restore d bytes in a row that are missing from the segment; t has room for all of it.

    Return whether it worked.
    """
    cdef uint8_t s[COLUMNS]
    cdef int64_t p = 0, i
    cdef int k, rest, others = 0
    memcpy(s, parity, COLUMNS)
    for i in range(n):
        s[(i + d) % COLUMNS] ^= r[i]
    for k in range(COLUMNS):
        others += s[k] != 0
    while True:
        if others <= d:
            rest = others
            for k in range(d):
                rest -= s[(p + k) % COLUMNS] != 0
            if not rest:
                memcpy(t, r, p)
                for k in range(d):
                    t[p + k] = s[(p + k) % COLUMNS]
                memcpy(t + p + d, r + p, n - p)
                if ~through(0xFFFFFFFFu, t, n + d) == check:
                    return True
                tries[0] -= 1
        if p == n or not tries[0]:
            return False
        others += turned(&s[(p + d) % COLUMNS], r[p]) + turned(&s[p % COLUMNS], r[p])
        p += 1


cdef bint added(
    const uint8_t* r, int64_t n, int d, uint8_t* t, uint32_t check, const uint8_t* parity, int* tries
) noexcept nogil:
    """Remove d bytes in a row that do not belong to the segment; t has room for it. Return whether it worked."""
    cdef uint8_t s[COLUMNS]
    cdef int64_t p = 0, i
    cdef int k, others = 0
    memcpy(s, parity, COLUMNS)
    for i in range(n - d):
        s[i % COLUMNS] ^= r[i + d]
    for k in range(COLUMNS):
        others += s[k] != 0
    while True:
        if not others:
            memcpy(t, r, p)
            memcpy(t + p, r + p + d, n - d - p)
            if ~through(0xFFFFFFFFu, t, n - d) == check:
                return True
            tries[0] -= 1
        if p == n - d or not tries[0]:
            return False
        others += turned(&s[p % COLUMNS], r[p] ^ r[p + d])
        p += 1


def mend(bytes data, uint32_t check, int64_t length, bytes parity):
    """Repair the segment of ``length`` bytes that ends where ``data`` ends, or ended there before the damage.

    Return (where in ``data`` it begins, its bytes as they were sent, how many bits of them were missing or wrong), or
    None if it is not there, or not after damage of this kind.
    """
    cdef const uint8_t* r = data
    cdef const uint8_t* columns = parity
    cdef int64_t size = len(data), start = size - length, bits
    cdef int d, tries = TRIES
    cdef uint8_t* t
    if len(parity) != COLUMNS or length < 1 or length > size + BURST:
        return None
    if start >= 0 and ~through(0xFFFFFFFFu, r + start, length) == check:
        return start, data[start:], 0
    t = <uint8_t*>malloc(length)
    if t == NULL:
        raise MemoryError
    try:
        if start >= 0:
            memcpy(t, r + start, length)
            bits = changed(t, length, check, columns)
            if bits:
                return start, t[:length], bits
        # The size shows that bytes are missing or added, unless another segment is before this one.
        if -BURST <= start < 0 and missing(r, size, <int>-start, t, check, columns, &tries):
            return 0, t[:length], -8 * start
        if 0 < start <= BURST and added(r, size, <int>start, t, check, columns, &tries):
            return 0, t[:length], 8 * start
        if length > LONGEST:
            return None
        for d in range(1, BURST + 1):
            if start + d > 0 and length > d and missing(r + start + d, length - d, d, t, check, columns, &tries):
                return start + d, t[:length], 8 * d
            if start - d > 0 and added(r + start - d, length + d, d, t, check, columns, &tries):
                return start - d, t[:length], 8 * d
        return None
    finally:
        free(t)


def vouched_for(bytes data):
    """Return (the number of bytes that the checks in a segment confirm, up to a wrong one; whether none is wrong)."""
    cdef const uint8_t* begin = data
    cdef const uint8_t* end = begin + len(data)
    cdef const uint8_t* p = begin
    cdef Packet packet
    cdef uint32_t register = 0xFFFFFFFFu
    cdef long n, known = 0
    if not len(data) or packet_at(p, end, &packet) == 0 or packet.kind != ALIGNMENT:
        return 0, True
    while p < end:
        n = packet_at(p, end, &packet)
        if not n or p > begin and packet.kind == ALIGNMENT:
            break
        if packet.kind == CHECKED and packet.check != ~register:
            return known, False
        register = through(register, p, n)
        p += n
        if packet.kind == CHECKED:
            known = p - begin
    return known, True
