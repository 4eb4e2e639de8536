"""Physical memory protection: sixteen entries (Volume II, section 3.7).

They bind user mode, and machine mode if locked.
"""

from libc.stdint cimport uint32_t, uint64_t

from .architecture cimport MACHINE, MPRV
from .structures cimport Hart

cdef enum:  # Permission
    MAY_READ = 1
    MAY_WRITE = 2
    MAY_EXECUTE = 4
    LOCKED = 0x80

cdef enum:  # Attention
    # A PMP entry is in force.
    GUARDED = 512


cdef inline uint32_t configuration(Hart* h, int entry) noexcept nogil:
    return h.pmpcfg[entry >> 2] >> (8 * (entry & 3)) & 0xFF


cdef inline void write_pmp(Hart* h, uint32_t number, uint32_t value) noexcept nogil:
    """Write pmpcfg or pmpaddr.

    Locked entries keep their values; so does an address that is the base of a locked TOR entry.
    """
    cdef int k, entry
    cdef uint32_t field, old
    if number < 0x3B0:
        entry = <int>(number - 0x3A0) * 4
        for k in range(4):
            old = configuration(h, entry + k)
            field = value >> (8 * k) & 0x9F
            if old & LOCKED or field & 3 == 2:
                # W without R is reserved.
                field = old
            h.pmpcfg[entry >> 2] = h.pmpcfg[entry >> 2] & ~(0xFFu << (8 * k)) | field << (8 * k)
        return
    entry = <int>(number - 0x3B0)
    if configuration(h, entry) & LOCKED:
        return
    if entry < 15 and configuration(h, entry + 1) & 0x98 == 0x88:
        return
    h.pmpaddr[entry] = value


cdef inline void set_guard(Hart* h) noexcept nogil:
    """Update whether accesses must be checked.

    With no entry on, user mode may access everything (unlike the standard).
    """
    cdef int k
    h.attention &= ~<uint32_t>GUARDED
    for k in range(16):
        if configuration(h, k) & 0x18:
            h.attention |= GUARDED


cdef inline bint may(Hart* h, uint32_t address, uint32_t size, uint32_t permission, uint32_t privilege) noexcept nogil:
    """Return whether the first entry that matches any byte of the access allows it."""
    cdef uint64_t low, high, last = <uint64_t>address + size
    cdef uint32_t how, mask
    cdef int k
    for k in range(16):
        how = configuration(h, k)
        if not how & 0x18:
            continue
        if how & 0x18 == 8:
            low = <uint64_t>h.pmpaddr[k - 1] << 2 if k else 0
            high = <uint64_t>h.pmpaddr[k] << 2
        elif how & 0x18 == 0x10:
            low = <uint64_t>h.pmpaddr[k] << 2
            high = low + 4
        else:
            mask = h.pmpaddr[k] ^ (h.pmpaddr[k] + 1)
            low = <uint64_t>(h.pmpaddr[k] & ~mask) << 2
            high = low + ((<uint64_t>mask + 1) << 2)
        if last <= low or address >= high:
            continue
        if address < low or last > high:
            return False
        if privilege == MACHINE and not how & LOCKED:
            return True
        return how & permission == permission
    return privilege == MACHINE


cdef inline bint allowed(Hart* h, uint32_t address, uint32_t size, uint32_t permission) noexcept nogil:
    """Return whether the hart may access these bytes now: a load or store with MPRV has the privilege in MPP."""
    cdef uint32_t privilege = h.privilege
    if not h.attention & GUARDED:
        return True
    if permission != MAY_EXECUTE and h.mstatus & MPRV:
        privilege = h.mstatus >> 11 & 3
    return may(h, address, size, permission, privilege)
