"""The constants of the six-thread protocol, shared by its writer and its readers (headway-trace/docs/trace-format.md)."""

cdef enum:
    MAX_THREADS = 8
    # Columns of a segment's parity.
    COLUMNS = 36
    # Bytes of a head that check and repair the segment before it; the first of them is their mask.
    TAIL = 44
    NO_TARGET = 1
    # Instructions between two waypoints after which a packet counts them.
    MOST_STEPS = 4096

# Why an instruction is not issued. From FETCH_INTERNAL on it is memory, and odd numbers are external memory.
cdef enum:  # Reason
    GOING = 0
    DATA = 1
    REFILL = 2
    SLOT = 3
    FETCH_INTERNAL = 4
    FETCH_EXTERNAL = 5
    LOAD_INTERNAL = 6
    LOAD_EXTERNAL = 7
    STORE_INTERNAL = 8
    STORE_EXTERNAL = 9
    TLB_MISS = 10
    REASONS = 11

# What a hart does in a cycle: codes of packets, of the log, and of decoded rows.
cdef enum:  # Doing
    LONG = 0
    STORE_WAITS = 9
    # 12 to 14 stand for C1 to C3.
    IN_SLEEP = 12
    WAKES = 15
    EXECUTED = 16
    NOT_TAKEN = 17
    TRAPS = 18
    # Of decoded rows only: no cycle, but the marker after an instruction.
    TRIGGER_MARK = 19

cdef enum:  # Header
    CYCLES_LONG = 0x44
    CYCLES_MIDDLE = 0x04
    CYCLES_SHORT = 0x02
    CYCLES_SLOT = 0x06
    SYNC_PERIODIC = 0x08
    TRIGGER = 0x0C
    PROFILE = 0x30
    SELECT = 0x0E
    HEAD = 0x42
    CLOCK = 0x48
    CODE_CHANGED = 0x34
    CHECK = 0x14
    TRACE_OFF = 0x60
    SYNC_RESTART = 0x70
    ALIGN = 0x80
    # Without cycles:
    OUTCOMES = 0x02
    STEPS = 0x0A
    OUTCOMES_FEW = 0x1A

cdef enum:  # Type of a branch address
    JUMP = 0
    TRAP_EXCEPTION = 1
    TRAP_INTERRUPT = 2
    # Only where direct branches are told.
    DIRECT = 3
