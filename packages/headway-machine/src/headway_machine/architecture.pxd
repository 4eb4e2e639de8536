"""The constants of the architecture: operations, CSRs, causes, addresses, states (docs/machine.md, sections 1 to 8)."""

from libc.stdint cimport int64_t, uint32_t

from specification.riscv.operations cimport *
from specification.six_threads.protocol cimport *

cdef enum:
    MAX_CORES = 16

cdef extern from *:
    """
    #define HEADWAY_NEVER 0x3FFFFFFFFFFFFFFFLL
    #define HEADWAY_RAM 0x80000000u
    """
    const int64_t NEVER "HEADWAY_NEVER"
    const uint32_t RAM "HEADWAY_RAM"

cdef extern from *:
    # Of Cython's own header. It tells the C compiler to keep what follows out of the way of the hot loop.
    bint unlikely(bint condition) noexcept nogil

# Base addresses (section 3).
cdef enum:  # Address
    CLINT = 0x02000000
    TCM = 0x08000000
    PLIC = 0x0C000000
    UART = 0x10000000
    BLOCK = 0x10010000
    DESCRIPTION = 0x10020000

# Caches that can be divided (section 10).
cdef enum:  # Divided
    IN_L1I = 0
    IN_L1D = 1
    IN_L2 = 2
    DIVIDED = 3

# Values of mcause. Interrupts are numbered without their highest bit.
cdef enum:  # Cause
    FETCH_MISALIGNED = 0
    FETCH_FAULT = 1
    ILLEGAL = 2
    BREAKPOINT = 3
    LOAD_MISALIGNED = 4
    LOAD_FAULT = 5
    STORE_MISALIGNED = 6
    STORE_FAULT = 7
    CALL_FROM_USER = 8
    CALL_FROM_MACHINE = 11
    SOFTWARE_INTERRUPT = 3
    TIMER_INTERRUPT = 7
    EXTERNAL_INTERRUPT = 11

cdef enum:  # Status
    MIE = 0x8
    MPIE = 0x80
    MPP = 0x1800
    MPRV = 0x20000
    TW = 0x200000

cdef enum:  # Privilege
    USER = 0
    MACHINE = 3

# The progress unit's counters (section 4).
cdef enum:  # Counter
    EPC = 0
    MPCI = 1
    MPCX = 2
    KPC = 3
    IOPC = 4
    RPC = 5
    SPC = 6
    OPC = 7
    UNHALTED = 8
    REFERENCE = 9
    IN_C1 = 10
    COUNTERS = 13

cdef enum:  # Control
    CTL_HWNE = 0x100
    CTL_SWNE = 0x200
    CTL_POLL = 0x400
    CTL_MK = 0x800
    CTL_HL = 0x1000
    CTL_RESET = 0x7FF

cdef enum:  # Signal
    SWNE = 1
    KPSW = 2
    IOSW = 4

# Numbers of states (section 6).
cdef enum:  # State
    USER_STATE = 0
    NONEFFECTIVE = 64
    POLL = 96
    POLL_LATCH = 120
    MARKED = 123
    EXCEPTION = 128
    INTERRUPT = 144
    CALL = 160
    MACHINE_MODE = 192
    IDLE = 199
    WAKING = 203
    UNSTARTED = 204
    HELD = 205
    SMI = 208
    OVERHEAD = 210
    LEFT = 220
    STATES = 256

# The group of progress counters that a state counts.
cdef enum:  # Mode
    EFFECTIVE = 0
    KERNEL = 1
    POLLING = 2
    MARKED_ONLY = 3
    HALTED = 4
    STOPPED = 5
    AWAY = 6
