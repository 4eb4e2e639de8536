"""The control and status registers as data: each has its number, its name, its bits, and what reads and writes do.

Section 1 of docs/machine.md has the standard ones, sections 4 to 10 the machine's own. `csrs` has what accesses do.
"""

from libc.stdint cimport uint32_t
from libc.string cimport memset

from .architecture cimport *
from .signals cimport TOLD_PROFILE, TOLD_WRITE
from .structures cimport Csr, Hart

cdef enum:
    # A register number has twelve bits: 9 and 8 are the least privilege, 11 and 10 are set where it is read-only.
    CSRS = 4096
    HIGH = 0x80
    HIGH_COUNTER = 0x10

cdef enum:
    ALL = 0xFFFFFFFF

cdef enum:  # What a read gives
    # There is no such register.
    ABSENT = 0
    ZERO
    # The field of the hart that it is.
    FIELD
    MISA
    CYCLE
    TIME
    INSTRET
    # A counter of the hart, or of its core.
    COUNTER
    CORE_COUNTER
    LATCH
    LATCHES
    STATE
    SPEED
    DUTY
    PART
    ASKED
    SELECTED
    SELECTED_VALUE

cdef enum:  # What a write does
    NOTHING = 0
    # It sets the register's bits in the field.
    SET
    SET_STATUS
    SET_ENABLED
    SET_INHIBITED
    SET_PROTECTION
    SET_CYCLE
    SET_INSTRET
    SET_COUNTER
    SET_CORE_COUNTER
    SET_CONTROL
    CLEAR_LATCH
    CLEAR_LATCHES
    SET_GAP
    SWITCH_THREAD
    WAKE_THREAD
    SYNCHRONISE_THREAD
    SET_MONITOR
    SET_SIGNALS
    SET_PROFILE
    AUTHORISE
    SET_POWER_STATE
    SET_SPEED
    SET_DUTY
    SET_PART
    ASK_FOR_TRACE
    SELECT_VALUE
    SET_SELECTED_VALUE


cdef inline Csr* row(Csr* csrs, uint32_t number, const char* name, int reads, uint32_t bits, int writes) noexcept nogil:
    """Add a register that is not a field of the hart. A write takes the other than these bits for 0."""
    cdef Csr* csr = &csrs[number]
    csr.name = name
    csr.reads = reads
    csr.bits = bits
    csr.writes = writes
    csr.number = number
    return csr


cdef inline Csr* field(
    Csr* csrs, uint32_t number, const char* name, Hart* h, void* place, uint32_t bits, int writes
) noexcept nogil:
    """Add a register that is a field of the hart."""
    cdef Csr* csr = row(csrs, number, name, FIELD, bits, writes)
    csr.place = <uint32_t>(<char*>place - <char*>h)
    return csr


cdef inline void zeros(Csr* csrs, uint32_t number, const char* name, int first, int last) noexcept nogil:
    """Add registers with consecutive numbers that are always 0: first to last of this name."""
    cdef int i
    for i in range(first, last + 1):
        row(csrs, number + <uint32_t>(i - first), name, ZERO, 0, NOTHING).which = i


cdef inline void fields(
    Csr* csrs, uint32_t number, const char* name, int count, Hart* h, uint32_t* places, int writes
) noexcept nogil:
    """Add registers with consecutive numbers that are an array of the hart."""
    cdef int i
    for i in range(count):
        field(csrs, number + <uint32_t>i, name, h, &places[i], ALL, writes).which = i


cdef inline void pair(Csr* csrs, uint32_t number, const char* name, int reads, int writes) noexcept nogil:
    """Add the low and the high word of a register of 64 bits."""
    row(csrs, number, name, reads, ALL, writes)
    row(csrs, number | HIGH, name, reads, ALL, writes).high = 1


cdef inline void counters(
    Csr* csrs, uint32_t first, int count, const char* name, int reads, int writes, uint32_t told
) noexcept nogil:
    """Add counters, with their high words, and their copies that user mode may read."""
    cdef uint32_t number
    cdef int i
    for i in range(count):
        number = first + <uint32_t>i
        row(csrs, number, name, reads, ALL, writes)
        row(csrs, number | HIGH_COUNTER, name, reads, ALL, writes).high = 1
        row(csrs, number + 0x100, name, reads, 0, NOTHING)
        row(csrs, (number + 0x100) | HIGH_COUNTER, name, reads, 0, NOTHING).high = 1
        csrs[number].which = csrs[number | HIGH_COUNTER].which = i
        csrs[number + 0x100].which = csrs[(number + 0x100) | HIGH_COUNTER].which = i
        if i < UNHALTED:
            csrs[number].told = csrs[number | HIGH_COUNTER].told = told


cdef inline void list_standard(Csr* csrs, Hart* h) noexcept nogil:
    """List the registers of the standard ("The RISC-V Instruction Set Manual, Volume II", 20211203, chapter 2)."""
    field(csrs, 0x300, b"mstatus", h, &h.mstatus, MIE | MPIE | MPP | MPRV | TW, SET_STATUS)
    row(csrs, 0x301, b"misa", MISA, 0, NOTHING)
    field(csrs, 0x304, b"mie", h, &h.mie, 0x888, SET_ENABLED)
    field(csrs, 0x305, b"mtvec", h, &h.mtvec, 0xFFFFFFFD, SET)
    field(csrs, 0x306, b"mcounteren", h, &h.mcounteren, ALL, SET)
    row(csrs, 0x30A, b"menvcfg", ZERO, 0, NOTHING)
    row(csrs, 0x310, b"mstatush", ZERO, 0, NOTHING)
    row(csrs, 0x31A, b"menvcfgh", ZERO, 0, NOTHING)
    field(csrs, 0x320, b"mcountinhibit", h, &h.mcountinhibit, 5, SET_INHIBITED)
    zeros(csrs, 0x323, b"mhpmevent{}", 3, 31)
    field(csrs, 0x340, b"mscratch", h, &h.mscratch, ALL, SET)
    field(csrs, 0x341, b"mepc", h, &h.mepc, 0xFFFFFFFE, SET)
    field(csrs, 0x342, b"mcause", h, &h.mcause, 0x8000001F, SET)
    field(csrs, 0x343, b"mtval", h, &h.mtval, ALL, SET)
    field(csrs, 0x344, b"mip", h, &h.mip, 0, NOTHING)
    fields(csrs, 0x3A0, b"pmpcfg{}", 4, h, h.pmpcfg, SET_PROTECTION)
    fields(csrs, 0x3B0, b"pmpaddr{}", 16, h, h.pmpaddr, SET_PROTECTION)
    row(csrs, 0x7A0, b"tselect", ZERO, 0, NOTHING)
    zeros(csrs, 0x7A1, b"tdata{}", 1, 3)
    row(csrs, 0x7A4, b"tinfo", ZERO, 0, NOTHING)
    pair(csrs, 0xB00, b"mcycle", CYCLE, SET_CYCLE)
    pair(csrs, 0xB02, b"minstret", INSTRET, SET_INSTRET)
    zeros(csrs, 0xB03, b"mhpmcounter{}", 3, 31)
    zeros(csrs, 0xB83, b"mhpmcounter{}h", 3, 31)
    pair(csrs, 0xC00, b"cycle", CYCLE, NOTHING)
    pair(csrs, 0xC01, b"time", TIME, NOTHING)
    pair(csrs, 0xC02, b"instret", INSTRET, NOTHING)
    zeros(csrs, 0xC03, b"hpmcounter{}", 3, 31)
    zeros(csrs, 0xC83, b"hpmcounter{}h", 3, 31)
    row(csrs, 0xF11, b"mvendorid", ZERO, 0, NOTHING)
    row(csrs, 0xF12, b"marchid", ZERO, 0, NOTHING)
    row(csrs, 0xF13, b"mimpid", ZERO, 0, NOTHING)
    field(csrs, 0xF14, b"mhartid", h, &h.number, 0, NOTHING)
    row(csrs, 0xF15, b"mconfigptr", ZERO, 0, NOTHING)


cdef inline void list_own(Csr* csrs, Hart* h) noexcept nogil:
    """List the machine's own registers, but for those of the profile buffer."""
    field(csrs, 0x7C0, b"hwctl", h, &h.control, 0x1FFF, SET_CONTROL).told = TOLD_WRITE
    row(csrs, 0x7C1, b"hwlatch", LATCH, 3, CLEAR_LATCH).told = TOLD_WRITE
    field(csrs, 0x7C2, b"hwcorr", h, &h.correction, ALL, SET).told = TOLD_WRITE
    field(csrs, 0x7C3, b"hwblock", h, &h.block, ALL, SWITCH_THREAD)
    field(csrs, 0x7C4, b"hwleave", h, &h.leave, 31, SET)
    row(csrs, 0x7C5, b"hwwake", ZERO, ALL, WAKE_THREAD)
    field(csrs, 0x7C6, b"hwmon", h, &h.monitor, ALL, SET_MONITOR)
    row(csrs, 0x7C7, b"hwstate", STATE, 0, NOTHING)
    field(csrs, 0x7CD, b"hwgap", h, &h.gap, 0xFFFF, SET_GAP).told = TOLD_WRITE
    field(csrs, 0x7D0, b"pwstate", h, &h.pwstate, ALL, SET_POWER_STATE)
    row(csrs, 0x7D1, b"pwclock", SPEED, ALL, SET_SPEED)
    row(csrs, 0x7D2, b"pwduty", DUTY, ALL, SET_DUTY)
    row(csrs, 0x7D3, b"dvl1i", PART, ALL, SET_PART).which = IN_L1I
    row(csrs, 0x7D4, b"dvl1d", PART, ALL, SET_PART).which = IN_L1D
    row(csrs, 0x7D5, b"dvl2", PART, ALL, SET_PART).which = IN_L2
    row(csrs, 0x7D6, b"dvbus", PART, ALL, SET_PART).which = DIVIDED
    row(csrs, 0x7D8, b"hwtsel", SELECTED, ALL, SELECT_VALUE)
    row(csrs, 0x7D9, b"hwtval", SELECTED_VALUE, ALL, SET_SELECTED_VALUE)
    field(csrs, 0x800, b"hwsw", h, &h.signals, 0xFF07, SET_SIGNALS).told = TOLD_WRITE
    row(csrs, 0x802, b"hwtrace", ASKED, 1, ASK_FOR_TRACE)
    row(csrs, 0x803, b"hwsync", ZERO, ALL, SYNCHRONISE_THREAD)
    row(csrs, 0x804, b"hwpoll", LATCHES, 0xFF, CLEAR_LATCHES).told = TOLD_WRITE
    counters(csrs, 0xBC0, COUNTERS, b"hwcnt{}", COUNTER, SET_COUNTER, TOLD_WRITE)
    counters(csrs, 0xBE0, COUNTERS - UNHALTED, b"pwcnt{}", CORE_COUNTER, SET_CORE_COUNTER, 0)


cdef inline void list_profile_buffer(Csr* csrs, Hart* h) noexcept nogil:
    """List the registers of the profile buffer. A write is told with all its bits."""
    field(csrs, 0x7C8, b"pbctl", h, &h.profile, ALL, SET_PROFILE).told = TOLD_PROFILE
    field(csrs, 0x7C9, b"pbbase", h, &h.profile_base, ALL, SET_PROFILE).told = TOLD_PROFILE
    field(csrs, 0x7CA, b"pbsize", h, &h.profile_size, 0xFFFFFFF0, SET_PROFILE).told = TOLD_PROFILE
    field(csrs, 0x7CB, b"pbhead", h, &h.profile_seen, 0xFFFFFFF0, SET_PROFILE).told = TOLD_PROFILE
    field(csrs, 0x7CC, b"pbperiod", h, &h.profile_period, ALL, SET_PROFILE).told = TOLD_PROFILE
    field(csrs, 0x801, b"hwauth", h, &h.authorised, 1, AUTHORISE).told = TOLD_PROFILE


cdef inline void list_csrs(Csr* csrs, Hart* h) noexcept nogil:
    """Fill a table of CSRS entries. ``h`` is any hart: of it, only where its fields are is used."""
    memset(csrs, 0, CSRS * sizeof(Csr))
    list_standard(csrs, h)
    list_own(csrs, h)
    list_profile_buffer(csrs, h)
