"""The signals of every cycle, for whoever compares another progress unit with this one (docs/rtl.md).

A hart's entries are in the order of its time. What holds in a cycle (traps, ranges, gaps) has that cycle; what software
does to the unit has the cycle from which on it counts. `SETTLED` has the counters as of a cycle: those that have
changed are told before it. Between two of these, every cycle of the hart is the same.
"""

from libc.stdint cimport int64_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport realloc

from .structures cimport STOP_NO_MEMORY, Hart, Machine, Signal

cdef enum:  # Kind; headway_machine.rtl.cosimulation repeats them in driver.cc
    # ``value`` cycles in which nothing is executed, for the reason ``more``.
    GAP = 0
    # ``value``: instructions retired; ``more``: state.
    SETTLED = 1
    # ``value``: state.
    TOLD_TRAP = 2
    # MRET. ``value``: privilege.
    TOLD_RETURN = 3
    # ``more``: register.
    TOLD_WRITE = 4
    # An instruction other than MRET begins. ``value``: its address.
    TOLD_PC = 5
    # ``value``: whether it is ready; ``more``: state of the status register.
    TOLD_CHECK = 6
    # ``value``: 1 from here on it runs, 0 it is halted. ``more``: the address of the next instruction.
    TOLD_RUNS = 7
    # ``value``: the state that is entered anew.
    TOLD_ENTRY = 8
    # Another thread is loaded. ``value``: instructions retired; ``more``: the state up to here.
    TOLD_LEFT = 9
    # A write of a register of the profile buffer. ``more``: register; 1 << 16: it is refused.
    TOLD_PROFILE = 10
    # A turn of a hart that is profiled. ``value``: tick; ``more``: address of the instruction.
    TOLD_TURN = 11
    # The same turn. ``value``: state; ``more``: 1 retired, 2 taken branch.
    TOLD_DID = 12
    # A record of that turn. ``value``: address of the instruction, state above it; ``more``: where it is written.
    TOLD_RECORD = 13
    # Before MRET or a write of hwlatch. ``value``: mepc, to which it returns if it ends a trap.
    TOLD_RETURNS_TO = 14
    # + n: counter n has changed.
    TOLD_COUNTER = 16
    # + n: counter n as the copying unit stores it; 40: hwsw; 41: poll latches; 42: where it was last.
    TOLD_STORED = 32
    # + n: the same, as the loading unit loads it. The last, 58, completes a switch.
    TOLD_LOADED = 48


cdef inline void tell(Machine* m, Hart* h, int kind, int64_t cycle, uint64_t value, uint32_t more) noexcept nogil:
    """Add an entry. If there is no memory, the machine stops."""
    cdef Signal* entries
    cdef int64_t room
    cdef Signal* entry
    if m.signals.count == m.signals.room:
        room = m.signals.room * 2 if m.signals.room else 4096
        entries = <Signal*>realloc(m.signals.entries, room * sizeof(Signal))
        if entries == NULL:
            m.stop = STOP_NO_MEMORY
            return
        m.signals.entries = entries
        m.signals.room = room
    entry = &m.signals.entries[m.signals.count]
    m.signals.count += 1
    entry.cycle = cycle
    entry.value = value
    entry.more = more
    entry.hart = <uint16_t>h.number
    entry.kind = <uint16_t>kind


cdef inline void tell_block(
    Machine* m, Hart* h, int kind, int64_t cycle, uint32_t latches, uint32_t place
) noexcept nogil:
    """Tell what of a thread is stored or loaded at a switch."""
    cdef int i
    for i in range(8):
        h.told_counters[i] = h.counters[i]
        tell(m, h, kind + i, cycle, h.counters[i], 0)
    tell(m, h, kind + 8, cycle, h.signals, 0)
    tell(m, h, kind + 9, cycle, latches, 0)
    tell(m, h, kind + 10, cycle, place, 0)
