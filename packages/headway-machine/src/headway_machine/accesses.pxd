"""Loads, stores and atomic operations: what they do to memory and devices, once memory has time for them.

Each returns DONE, BLOCKED or TRAPPED.
"""

from libc.stdint cimport int32_t, uint32_t
from libc.string cimport memcpy

from .architecture cimport *
from .code cimport PAGE, forget_code, forget_tcm
from .devices cimport device_load, device_store
from .memory cimport can_access, end_reservations, stored
from .progress_unit cimport look_again
from .protection cimport GUARDED, MAY_READ, MAY_WRITE, allowed
from .structures cimport STOP_HTIF, Core, Decoded, Hart, Machine
from .trace cimport BANK_CONFLICTS, count_event
from .traps cimport BLOCKED, DONE, fault


cdef inline bint waits_for_bank(Machine* m, Core* c, Hart* h, uint32_t address) noexcept nogil:
    """Return whether a load's bank is being written, by the store of the cycle before. A load waits for it once."""
    if c.bank_cycle != c.cycle - 1 or c.bank != (address >> 2 & (m.banks - 1)) or h.bank_waited == h.instret + 1:
        return False
    h.bank_waited = h.instret + 1
    h.ready = c.cycle + 1
    h.reason = LOAD_INTERNAL
    h.arrival = 0
    if c.trace_unit.window:
        count_event(c, h, BANK_CONFLICTS)
    return True


cdef inline int load(Machine* m, Core* c, Hart* h, uint32_t address, uint32_t size, uint32_t* value) noexcept nogil:
    """Load a value, zero-extended."""
    cdef uint32_t offset = address - RAM
    value[0] = 0
    if h.attention & GUARDED and not allowed(h, address, size, MAY_READ):
        return fault(m, c, h, LOAD_FAULT, address)
    if offset <= m.ram_size - size:
        if not can_access(m, c, h, address, size, False):
            return BLOCKED
        if unlikely(m.banks != 0) and waits_for_bank(m, c, h, address):
            return BLOCKED
        memcpy(value, m.ram + offset, size)
        if (address ^ (address + size - 1)) >> c.dcache.shift:
            h.cost = 2
        return DONE
    offset = address - TCM
    if m.tcm_size and offset <= m.tcm_size - size:
        memcpy(value, c.tcm + offset, size)
        return DONE
    if size != 4 or address & 3 or not device_load(m, h, address, value):
        return fault(m, c, h, LOAD_FAULT, address)
    h.cost = m.device
    # Reading a status register may have changed the hart's state. This instruction belongs to the state before.
    h.instret += 1
    look_again(m, c, h, h.free + m.quantum, True)
    h.instret -= 1
    return DONE


cdef inline void write_ram(
    Machine* m, Core* c, Hart* h, uint32_t address, uint32_t size, uint32_t value
) noexcept nogil:
    """Store a value that every hart sees from now on."""
    cdef uint32_t offset = address - RAM, low
    memcpy(m.ram + offset, &value, size)
    stored(m, c, h, address, size)
    if m.pages[offset // PAGE] != NULL or m.pages[(offset + size - 1) // PAGE] != NULL or not offset & (PAGE - 1):
        forget_code(m, address, size)
    if m.tohost and address - m.tohost < 8:
        memcpy(&low, m.ram + (m.tohost - RAM), 4)
        if low:
            m.stop = STOP_HTIF
            m.stopped_hart = h.number


cdef inline int store(Machine* m, Core* c, Hart* h, uint32_t address, uint32_t size, uint32_t value) noexcept nogil:
    cdef uint32_t offset = address - RAM
    if h.attention & GUARDED and not allowed(h, address, size, MAY_WRITE):
        return fault(m, c, h, STORE_FAULT, address)
    if offset <= m.ram_size - size:
        if not can_access(m, c, h, address, size, True):
            return BLOCKED
        write_ram(m, c, h, address, size, value)
        if unlikely(m.banks != 0):
            c.bank, c.bank_cycle = address >> 2 & (m.banks - 1), c.cycle
        if (address ^ (address + size - 1)) >> c.dcache.shift:
            h.cost = 2
        return DONE
    offset = address - TCM
    if m.tcm_size and offset <= m.tcm_size - size:
        memcpy(c.tcm + offset, &value, size)
        forget_tcm(c, offset, size)
        if m.reservations:
            end_reservations(m, h, address >> c.dcache.shift)
        return DONE
    if size != 4 or address & 3 or not device_store(m, h, address, value):
        return fault(m, c, h, STORE_FAULT, address)
    h.cost = m.device
    return DONE


cdef inline void reserve(Machine* m, Hart* h, uint32_t line) noexcept nogil:
    if h.reserved:
        m.reservations -= 1
    h.reserved = line
    if line:
        m.reservations += 1


cdef inline int atomic(Machine* m, Core* c, Hart* h, Decoded* d, uint32_t* value) noexcept nogil:
    """Execute LR, SC or an AMO as one access that nothing can interrupt."""
    cdef uint32_t address = h.x[d.rs1], operand = h.x[d.rs2], old = 0, offset = address - RAM, line
    cdef bint in_tcm = m.tcm_size and address - TCM <= m.tcm_size - 4
    cdef bint reading = d.operation == LR
    if address & 3:
        return fault(m, c, h, LOAD_MISALIGNED if reading else STORE_MISALIGNED, address)
    if h.attention & GUARDED and not allowed(h, address, 4, MAY_READ if reading else MAY_WRITE):
        return fault(m, c, h, LOAD_FAULT if reading else STORE_FAULT, address)
    if offset > m.ram_size - 4 and not in_tcm:
        return fault(m, c, h, LOAD_FAULT if reading else STORE_FAULT, address)
    line = (address >> c.dcache.shift) + 1
    if d.operation == SC and h.reserved != line:
        reserve(m, h, 0)
        value[0] = 1
        return DONE
    if not in_tcm:
        if (reading or d.operation != SC and not m.write_back) and not can_access(m, c, h, address, 4, False):
            # With write-through, a line is in the cache only if it was read first.
            return BLOCKED
        if not reading and not can_access(m, c, h, address, 4, True):
            return BLOCKED
    memcpy(&old, c.tcm + (address - TCM) if in_tcm else m.ram + offset, 4)
    value[0] = old
    if d.operation == LR:
        reserve(m, h, line)
        return DONE
    if d.operation == SC:
        reserve(m, h, 0)
        value[0] = 0
    elif d.operation == AMOADD:
        operand += old
    elif d.operation == AMOXOR:
        operand ^= old
    elif d.operation == AMOAND:
        operand &= old
    elif d.operation == AMOOR:
        operand |= old
    elif d.operation == AMOMIN:
        operand = old if <int32_t>old < <int32_t>operand else operand
    elif d.operation == AMOMAX:
        operand = old if <int32_t>old > <int32_t>operand else operand
    elif d.operation == AMOMINU:
        operand = old if old < operand else operand
    elif d.operation == AMOMAXU:
        operand = old if old > operand else operand
    if in_tcm:
        memcpy(c.tcm + (address - TCM), &operand, 4)
        forget_tcm(c, address - TCM, 4)
        if m.reservations:
            end_reservations(m, h, line - 1)
    else:
        write_ram(m, c, h, address, 4, operand)
    return DONE
