"""The structures of the machine: harts, cores, caches, the bus, devices, and the cells that time is charged to."""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

from specification.riscv.decode cimport Decoded
from specification.riscv.encodings cimport Encodings
from specification.six_threads.protocol cimport COLUMNS, MAX_THREADS, REASONS

from .architecture cimport COUNTERS, DIVIDED, MAX_CORES, STATES

cdef enum:
    HINTS = 64
    TLB_HINTS = 32

cdef enum:  # Why the machine stops
    STOP_LIMIT = 0
    # The program has written to its HTIF word.
    STOP_HTIF = 1
    # It calls the host.
    STOP_SEMIHOST = 2
    # Nothing will ever happen again.
    STOP_STANDSTILL = 3
    # A debugger asked for it.
    STOP_DEBUG = 5
    STOP_NO_MEMORY = -1

# What a thread, or a processor, did in one state.
ctypedef struct Cell:
    # Ticks.
    int64_t time
    # Cycles of the hart's core.
    int64_t cycles
    # Instructions that were retired.
    int64_t instructions
    # How often the state was entered anew.
    int64_t count
    # Cycles in which nothing was issued, by reason.
    int64_t lost[REASONS]
    # While a recording is made: the hart + 1 on which an occurrence began that no row has counted yet; 0: none.
    int32_t open

# The cells of a thread or processor. Most have few states, so ``index`` maps a state to its cell's number + 1, 0: none.
ctypedef struct Account:
    uint8_t index[STATES]
    Cell* cells
    int32_t used
    int32_t room

# A software thread, identified by its block in RAM. Block 0: the code that a hart runs before its first block.
ctypedef struct Thread:
    # The address of its block.
    uint32_t block
    uint32_t id
    # Its place among the machine's threads.
    int32_t number
    uint8_t name[32]
    # The tick at which its block was loaded first, or it was woken.
    int64_t birth
    # The tick at which it ended; -1: it lives.
    int64_t end
    # The hart that runs it; -1: none.
    int32_t hart
    # Its state while no hart runs it.
    int32_t away
    # The tick from which on it has been in that state.
    int64_t since
    Account account

# What of a cache takes time: which lines it has. It has no data.
ctypedef struct Cache:
    uint32_t sets
    uint32_t ways
    # log2 of the line's size.
    uint32_t shift
    # Line number (address >> shift) + 1; 0: empty.
    uint32_t* tags
    # When each line was used last, on the cache's own count of uses.
    int64_t* used
    # The tick at which each line arrives or arrived.
    int64_t* filled
    # Whether each line must be written back.
    uint8_t* dirty
    # Whether each line came from RAM, and not from the second level.
    uint8_t* external
    int64_t uses
    # Where a line was found last, by the lowest bits of its number: looked at first, and checked.
    uint32_t hints[HINTS]

# What a hart has asked the bus for.
ctypedef struct Request:
    # The number of the line (address >> shift).
    uint32_t line
    # READ, FETCH, UPGRADE, WRITE_WORD.
    uint8_t kind
    # The hart's place in its core.
    uint8_t hart
    # A dirty line is displaced; it is written back afterwards.
    uint8_t displaces

# The trace unit's state for a hart (headway-trace/docs/trace-format.md).
ctypedef struct Traced:
    # Whether the hart is to be traced: TRACE_PERMITTED, TRACE_ASKED.
    uint32_t wanted
    uint32_t on
    # Packets were lost: tracing of this hart begins again when there is room.
    uint32_t lost
    # A periodic I-sync is to be sent.
    uint32_t due
    # E atoms that no packet holds yet.
    uint32_t executed
    # Cycles of the stall that follows them.
    uint32_t stalled
    # The reason of that stall.
    uint32_t reason
    # The last address that was sent.
    uint32_t base
    # Type and cause of the last branch that was sent; 0xFF: none since an I-sync.
    uint32_t told
    # The last thread id that was sent.
    uint32_t id
    # Target of the last indirect jump; 1: none since an I-sync.
    uint32_t target
    uint32_t returns[16]
    uint32_t depth
    # The last four different short stalls: reason << 8 | cycles - 1.
    uint32_t short_stalls[4]
    # Number of the short stall after one E atom that is held back to form a pair; 4: none.
    uint32_t single
    # The cycle in which the hart was woken.
    int64_t woken
    # The cycle up to which packets already tell its sleep.
    int64_t told_until
    # The state from which it was woken.
    int32_t asleep
    # Without cycles: what waypoints did that no packet has told yet, the oldest in bit 0.
    uint64_t outcomes
    # The number of these waypoints.
    uint32_t outcomes_count
    # Instructions since the last waypoint.
    uint32_t steps
    uint8_t group[48]
    int32_t length

# What an encoder of E-Trace knows of an instruction, or of a trap in the place of one.
ctypedef struct Watched:
    uint32_t pc
    uint32_t context
    int64_t time
    uint32_t value
    uint8_t kind
    uint8_t size
    uint8_t privilege
    # 1: taken. 2: not taken.
    uint8_t branch
    uint8_t indirect
    uint8_t calls
    uint8_t returns
    uint8_t jumps_by
    # The register that got a constant.
    uint8_t loaded
    # It goes backwards, and its target is not sent.
    uint8_t back
    uint8_t cause
    uint8_t interrupt
    # A packet has told of the trap.
    uint8_t reported
    # Its target must be sent.
    uint8_t updiscon
    # The depth of the stack at a return that went elsewhere.
    uint8_t mispredicted

# The encoder of E-Trace of a hart (headway-trace/docs/trace.md).
ctypedef struct Encoder:
    Watched before
    Watched current
    # The privilege before the next instruction.
    uint32_t privilege
    # The context before the next instruction.
    uint32_t context
    # The last address that was sent.
    uint32_t base
    uint32_t map
    # Branches that no packet has told yet; the first 31 are in the map.
    uint32_t branches
    # Whether all of them were predicted.
    uint32_t predicted
    uint32_t failed
    uint32_t depth
    uint32_t returns[16]
    # There was a return since the last call, branch or packet.
    uint32_t returned
    # The last backward jump or return since the last branch or packet, + 1; 0: none.
    uint32_t marked
    # All backward jumps and returns since then.
    uint32_t marks[8]
    uint32_t marks_count
    # The current instruction is in a synchronisation packet.
    uint32_t synced
    # 2: the branches are to be told. 3: then a synchronisation packet.
    uint32_t due
    uint32_t lost
    # Bytes since the last synchronisation packet.
    int64_t sent
    # Instructions since the last synchronisation packet.
    int64_t retired
    uint8_t predictor[512]
    uint32_t cache[64]

# A trigger block: two address comparators, one data comparator, a counter.
ctypedef struct Block:
    uint32_t control
    uint32_t first
    uint32_t second
    uint32_t value
    uint32_t mask
    int64_t reload
    int64_t left

# The trace unit of a core, which makes packets of what the core's harts do.
ctypedef struct TraceUnit:
    int32_t exists
    int32_t cycle_accurate
    int32_t all_targets
    # The unit makes packets of E-Trace.
    int32_t etrace
    uint32_t etrace_options
    int32_t etrace_timed
    # Bytes between a head and the next A-sync.
    int32_t period
    # Depth of the FIFO in bits.
    int64_t depth
    # Bits that leave the FIFO each cycle; 0: any number.
    int64_t port
    # Bits in the FIFO.
    int64_t level
    # The cycle in which it held that many.
    int64_t level_at
    # The thread that was selected last; -1: none.
    int32_t thread
    # Bytes until the next A-sync.
    int64_t left
    uint32_t number
    # CRC-32 of the bytes since the last A-sync, as it is before it is complemented.
    uint32_t check
    # The number of the bytes since then.
    uint32_t length
    # How many of them were sent when the last check packet was, or their head.
    uint32_t vouched
    # Exclusive or of every COLUMNSth byte, by column.
    uint8_t parity[COLUMNS]
    # The column of the next byte.
    uint32_t column
    # Thread cycle of the last I-sync of any thread, or of the last A-sync, whichever was later.
    int64_t anchor
    int64_t groups_lost
    Block blocks[4]
    # The register that hwtval accesses.
    uint32_t selected
    # The sequencer's moves: for each state, the blocks that move it to the next state and to the one after that.
    uint32_t moves[6]
    uint32_t actions[3]
    uint32_t state
    # States in which harts are traced, one bit each.
    uint32_t traced_in
    # The line of the PLIC that it may raise.
    uint32_t line
    # Whether any block is on that looks at what harts do, or direct branches are told: no turn is a usual one.
    uint32_t matching
    # Cycles of a profiling window; 0: none.
    int64_t window
    int64_t window_left
    # The cycle up to which the window's have been counted.
    int64_t window_at
    uint32_t profiled_in
    # The harts that each counter counts.
    uint32_t profiled[6]
    # What each counter counts of them.
    uint32_t sources[6]
    uint64_t profile[6]
    # Instructions that were found to differ from those of the loaded program.
    uint32_t changes
    uint8_t* bytes
    int64_t size
    int64_t room
    # Bytes of the trace buffer; 0: all output is kept until it is taken.
    int64_t ring
    # Bytes that the buffer still takes after the trigger; -1: there was no trigger.
    int64_t after
    # Bytes that it takes from the trigger on, as configured.
    int64_t kept
    int64_t written
    # Blocks that have fired for events from outside, and have not moved the sequencer yet.
    uint32_t fired
    # The targets of direct branches and jumps are sent, too.
    int32_t direct_branches

# An entry of the log: a span of a hart's time as it really was.
ctypedef struct Logged:
    int64_t cycle
    int64_t cycles
    uint32_t address
    uint16_t hart
    uint16_t what

# A row of a recording (headway/docs/recordings.md).
ctypedef struct Row:
    int64_t time
    int64_t duration
    int64_t taken
    # Number of the thread; -1: none.
    int32_t thread
    int32_t count
    int32_t waker
    # The hart; -1: none.
    int16_t cpu
    uint8_t state
    uint8_t waker_state

# An entry of what is told of every cycle; its kinds are in signals.pxd.
ctypedef struct Signal:
    int64_t cycle
    uint64_t value
    uint32_t more
    uint16_t hart
    uint16_t kind

ctypedef struct Signals:
    int32_t on
    Signal* entries
    int64_t count
    int64_t room

# Rows that nobody has taken yet.
ctypedef struct Rows:
    int32_t on
    Row* entries
    int64_t count
    int64_t room

# A part of the program as it was loaded.
ctypedef struct Loaded:
    uint32_t start
    uint32_t size
    uint8_t* bytes

ctypedef struct Log:
    Logged* entries
    int64_t count
    int64_t room

# A hardware thread. Cycles are those of its core.
ctypedef struct Hart:
    # --- what every turn needs, together in as few lines of the host's cache as possible ---

    # When it can issue; NEVER while that is unknown.
    int64_t ready
    # The first cycle that has not been charged yet.
    int64_t free
    # The latest cycle at which a register becomes usable.
    int64_t due
    # Instructions that it has retired.
    int64_t instret
    # The open page of code, decoded.
    Decoded* code
    # Number of that page.
    uint32_t page
    uint32_t pc
    # The cache line of the last instruction fetch, + 1.
    uint32_t fetched
    # What must be handled before an instruction is issued: INTERRUPTED, PROFILING …
    uint32_t attention
    uint32_t data_page
    # Why it cannot issue between free and ready.
    uint8_t reason
    # Its place in its core.
    uint8_t slot
    # The number of its core.
    uint8_t core
    # The state monitor's address range of the last instruction outside of traps; 0: none.
    uint8_t range

    # x0 to x31, and NOWHERE.
    uint32_t x[33]
    # The page of the last fetch that the micro-TLB had, + 1; ``data_page`` is that of the last load or store.
    uint32_t fetch_page
    # MACHINE or USER.
    uint32_t privilege
    # The interrupt latch: whether the hart is in a trap.
    uint32_t latch
    # The tick until which it waits for memory, if ``ready`` was computed from it; 0: not waiting for a tick.
    int64_t arrival
    # The cycle from which on each register is usable.
    int64_t usable[33]

    # --- memory ---

    # The line that it waits for, + 1.
    uint32_t wanted
    uint32_t wanted_kind
    # Lines + 1 that were brought or upgraded for the waiting instruction.
    uint32_t served[2]
    uint32_t served_fetch
    # Pages + 1 that were translated for it; an instruction needs four at most.
    uint32_t translated[4]
    # Line + 1 that LR reserved.
    uint32_t reserved
    uint32_t* tlb
    int64_t* tlb_used
    int64_t tlb_uses
    # Where a page was found last, by the lowest bits of its number: looked at first, and checked.
    uint16_t tlb_hints[TLB_HINTS]
    # The one-word store buffer: 0 free, 1 waits for the bus.
    int32_t buffer
    int64_t buffer_free

    # --- where it is ---

    int32_t number
    int32_t started
    # The halted state in which WFI waits, 1 to 3; 0: not halted.
    int32_t halted
    # Traps that it has entered.
    int64_t trap_count
    # Cycles for which the instruction holds the hart.
    int32_t cost

    # --- what a debugger asks of it (debug.pxd) ---

    # It is kept from issuing while others run: HOLD_ASKED, HOLD_NOW; 0: it is not.
    int32_t held
    # The machine stops before the turn with this number (turn_number), or a later one; 0: it does not.
    int64_t step_to
    # The number of the turn (turn_number) before which the machine stopped last for it.
    int64_t reported
    # The number + 1 of a turn whose instruction accesses watched memory; 0: none does.
    int64_t touching
    # The watched address that it accesses.
    uint32_t touched

    # --- the parts of caches and bus that it may use ---

    # The ways of each cache in which the hart may place lines, a bit each.
    uint32_t ways[DIVIDED]
    # The same where the thread's block says nothing.
    uint32_t own_ways[DIVIDED]
    # Sixteenths of each bus window; 0: no limit.
    uint32_t share
    uint32_t own_share
    # The window in which it used the bus last.
    int64_t bus_window
    # Ticks for which it used the bus in that window.
    int64_t bus_used

    # --- CSRs ---

    uint32_t mstatus
    uint32_t mie
    uint32_t mip
    uint32_t mtvec
    uint32_t mscratch
    uint32_t mepc
    uint32_t mcause
    uint32_t mtval
    uint32_t mcounteren
    uint32_t mcountinhibit
    # The value to add to the core's cycles.
    uint64_t mcycle
    uint64_t minstret
    # The value that mcycle shows while it is inhibited.
    uint64_t mcycle_held
    uint64_t minstret_held
    uint32_t pwstate
    uint32_t pmpcfg[4]
    uint32_t pmpaddr[16]

    # --- progress unit and state monitor ---

    # hwctl.
    uint32_t control
    # Nested traps.
    uint32_t depth
    # The states of the nested traps.
    uint8_t trapped[8]
    # hwsw, by which a program marks its regions.
    uint32_t signals
    # The poll latches, a bit each, by the numbers of their states from POLL_LATCH on (polling.pxd).
    uint32_t latches
    # The state of the lowest that is set; 0: none is.
    uint32_t polled
    # Those of devices that the thread has asked in vain since it began the round of its checks.
    uint32_t asked
    # hwgap: cycles without a fruitless check after which it gives up; 0: it never does.
    uint32_t gap
    # Those that are left, as of the cycle ``gap_since``.
    int64_t gap_left
    int64_t gap_since
    # The cycle with which it gives up, while they are counted.
    int64_t gap_end
    # hwcorr: cycles to move from progress to overhead.
    uint32_t correction
    # hwblock: the address of the thread's block; 0: none.
    uint32_t block
    # hwleave: why the thread will leave the hart.
    uint32_t leave
    # hwmon: the address of the monitor's table in RAM; 0: none.
    uint32_t monitor
    # The current state, and its mode.
    int32_t state
    int32_t mode
    # The state in which its thread was last outside of traps and of a kernel in machine mode; -1: it never was.
    int32_t outside
    # The progress unit's counters, and the hart's share of those of its core.
    uint64_t counters[COUNTERS]
    # While signals are told: the counters as they were told last.
    uint64_t told_counters[COUNTERS]
    # The software thread that it runs; NULL: none that the machine knows.
    Thread* thread
    # The cells of the current state: the thread's (NULL without a thread), and the processor's.
    Cell* cell
    Cell* processor_cell
    # The cycle up to which the cells are complete.
    int64_t since
    # The tick by which that cycle begins.
    int64_t since_tick
    # While a recording is made: the tick up to which its rows are complete.
    int64_t told
    # The instructions that were retired up to ``since``.
    int64_t since_instret
    # Ticks of system-management interrupts up to then.
    int64_t since_stolen
    # The number of these interrupts.
    int64_t since_interrupts
    # Mode in the cycle before ``since``.
    int32_t before
    # Cycles since ``since`` in which nothing was issued, by reason.
    int64_t lost[REASONS]

    # --- profile buffer ---

    uint32_t profile
    uint32_t profile_base
    uint32_t profile_size
    uint32_t profile_head
    # The head at the last de-authorisation.
    uint32_t profile_seen
    uint32_t profile_period
    uint32_t authorised
    int64_t profile_left
    int64_t profile_last
    int64_t profile_missed

    Account account
    Traced traced
    # NULL: the trace unit does not make packets of E-Trace.
    Encoder* encoder
    # The trace unit stops the machine before its next turn.
    int32_t triggered
    # The number + 1 of the instruction whose load has waited for a bank.
    int64_t bank_waited

# How a core's clock has run since its last change.
ctypedef struct Clock:
    # The tick of ``cycle``, from which on it runs like this.
    int64_t tick
    int64_t cycle
    # Sixteenths of the machine's clock.
    int64_t speed
    # Ticks of each window in which the clock runs.
    int64_t running
    # Ticks of a window.
    int64_t window
    # Ticks of system-management interrupts before this clock began.
    int64_t stolen
    # The number of these interrupts.
    int64_t interrupts
    # Ticks for which pwduty had stopped the clock before this one began.
    int64_t stopped
    # How often pwduty had stopped it.
    int64_t stops

# A core: harts that share a pipeline, caches and a clock.
ctypedef struct Core:
    Hart* harts
    # The number of its harts.
    int32_t threads
    # The last cycle in which an instruction was tried.
    int64_t cycle
    # The next cycle in which one is tried.
    int64_t next_cycle
    # The tick of that cycle; NEVER if none is known.
    int64_t next
    # The hart that has the next turn.
    Hart* pick
    # The place of the hart that had the last turn.
    int32_t last
    Cache icache
    Cache dcache
    # The tightly coupled memory.
    uint8_t* tcm
    # Its pages of decoded code; NULL where nothing was fetched.
    Decoded** tcm_pages

    # --- the clock ---

    # A cycle is a tick.
    int32_t plain
    Clock clock
    # Its clock before the last changes, the latest first: in strict turn a hart is charged for cycles of a rotation
    # ago.
    Clock past[MAX_THREADS]
    # The eighths of a window for which its clock is stopped.
    uint32_t stopped
    uint64_t counters[COUNTERS]
    # 0: the core runs; 1 to 3: the shallowest halted state of its harts.
    int32_t depth
    # The cycle up to which the core's counters are complete.
    int64_t since
    # The tick by which that cycle begins.
    int64_t since_tick

    # --- requests that wait for the bus: a ring ---

    Request queue[3 * MAX_THREADS]
    int32_t queued
    int32_t head

    TraceUnit trace_unit

    # --- banks of the data cache ---

    # The bank of the data cache that the last store writes, and the cycle of that store.
    uint32_t bank
    int64_t bank_cycle

# An external interrupt line that the configuration drives.
ctypedef struct Source:
    # The line of the PLIC.
    uint32_t number
    # The tick of its next edge.
    int64_t next
    # Ticks between two edges.
    int64_t every
    # Edges that are still to come.
    int64_t left

# A register that programs ask whether something is ready.
ctypedef struct StatusRegister:
    uint32_t address
    uint32_t mask
    # The value of the mask's bits when it is ready.
    uint32_t ready
    # It is ready when any bit of the mask is set, whatever ``ready`` is.
    uint8_t any
    # The state of a hart that found it not ready.
    uint8_t state

# Loads from a device that is not of the machine, stores to it, or lets such devices do what is due now.
ctypedef int (*Access)(void* attached, int what, uint32_t address, uint32_t* value) noexcept nogil

# A control and status register. csr_table.pxd lists them, and has the values of ``reads`` and ``writes``.
ctypedef struct Csr:
    # Its name in assembly; ``{}`` stands for ``which``.
    const char* name
    # Where the hart has it, in bytes from its beginning, if it reads as FIELD.
    uint32_t place
    # The bits that a write reaches.
    uint32_t bits
    uint16_t number
    # Which of several it is: for ``{}`` in the name.
    uint16_t which
    # What a read gives; ABSENT: there is no such register.
    uint8_t reads
    # What a write does.
    uint8_t writes
    # It is the high word of a register of 64 bits.
    uint8_t high
    # While signals are told: the kind of signal that a write is; 0: none.
    uint8_t told

# All of a machine, and how its run stands.
ctypedef struct Machine:
    # --- configuration: times in cycles of a core where it says nothing else ---

    int32_t cores_count
    # Harts of each core.
    int32_t threads
    int32_t harts_count
    # Harts issue in strict turn.
    int32_t strict
    # The cycles in which a hart is charged: rotations of this many in strict turn, else single ones.
    int32_t quantum
    # All harts start at the entry, and not only hart 0.
    int32_t boot_all
    # From a taken jump to the next instruction.
    int32_t refill
    # Until the result of a load that hits, a multiplication is there.
    int32_t load
    int32_t multiply
    # For which a division, an access to a device, a switch of threads, and a write of hwauth hold the hart.
    int32_t divide
    int32_t device
    int32_t switching
    int32_t authorise
    int32_t tlb_entries
    # log2 of a page's size.
    int32_t tlb_shift
    # Ticks to translate a page that the micro-TLB does not have.
    int32_t tlb_miss
    # Ticks for which a line, and a word, occupy the bus.
    int32_t bus_line
    int32_t bus_word
    # Ticks from the bus to a line of RAM.
    int32_t latency
    # The data caches write back; else they write through.
    int32_t write_back
    int32_t has_l2
    # Ticks from the bus to a line that the second level has.
    int32_t l2_hit
    # Ticks of a window in which clocks are stopped.
    int32_t window
    # Ticks to wake from C1 to C3, by the number of the state.
    int32_t wake[4]
    # The mode of each state.
    uint8_t modes[STATES]
    # Ticks of the machine for one of its timer.
    int64_t divider

    # --- processors and memory ---

    Core cores[MAX_CORES]
    Hart harts[MAX_CORES * MAX_THREADS]
    uint8_t* ram
    uint32_t ram_size
    uint32_t tcm_size
    # Pages of decoded code in RAM; NULL where nothing was fetched.
    Decoded** pages
    # Pages of decoded code in RAM and in the tightly coupled memories.
    int32_t pages_open
    # For each line, the cores that have it in their data caches, one bit each; NULL with one core.
    uint16_t* sharers
    # Harts that have reserved a line by LR.
    int32_t reservations
    # The state monitor's address ranges, from number 1 on: from the start up to, but without, the end.
    uint32_t range_start[64]
    uint32_t range_end[64]
    int32_t ranges
    # MAX_POLLS entries.
    StatusRegister polls[32]
    int32_t polls_count
    # The poll latches that there are, a bit each.
    uint32_t polled_devices

    # --- how the run stands ---

    # The current tick.
    int64_t now
    # Why the machine stops after this turn: one of STOP_HTIF …; 0: it does not.
    int32_t stop
    # The hart that is the cause.
    int32_t stopped_hart
    # A debugger stopped the machine within a tick: the core that has its turn next, + 1; 0: it did not.
    int32_t halfway
    # Addresses before which the machine stops, in ascending order.
    uint32_t* breakpoints
    int32_t breakpoints_count
    # Memory after whose accesses the machine stops: MAX_WATCHES entries, as in the next two.
    uint32_t watch_start[16]
    uint32_t watch_size[16]
    # WATCH_LOADS, WATCH_STORES.
    uint32_t watch_kind[16]
    int32_t watches
    # What it stopped for: FOR_BREAKPOINT, FOR_STEP, FOR_WATCH, FOR_TRIGGER.
    int32_t stopped_for
    # The address of the program's HTIF word; 0: it has none.
    uint32_t tohost
    # Where harts start.
    uint32_t entry

    # --- bus ---

    # When the bus is free again.
    int64_t bus_free
    # When the arbiter next has something to do; NEVER if nothing waits.
    int64_t bus_next
    # The core that had the bus last.
    int32_t bus_last
    # Ticks of a window in which harts have their shares of the bus.
    int64_t bus_window
    # The number of harts with a share.
    int32_t bus_shares
    # All ways of each cache.
    uint32_t all_ways[DIVIDED]
    Cache l2

    # --- devices ---

    # When any of them has something to do; NEVER if nothing is due.
    int64_t next_event

    # --- CLINT ---

    # When the next timer expires.
    int64_t timer_next
    int64_t compare[MAX_CORES * MAX_THREADS]
    # What mtime differs by from the machine's own time.
    int64_t timer_offset
    uint32_t software[MAX_CORES * MAX_THREADS]

    # --- PLIC: a bit for each line, where it is not an array ---

    uint32_t priority[32]
    # Edges that nobody has claimed yet.
    uint32_t pending
    # Lines that trace units hold up: those of all cores.
    uint32_t held_up
    # Lines that devices hold up.
    uint32_t level
    uint32_t claimed
    uint32_t enabled[MAX_CORES * MAX_THREADS]
    uint32_t threshold[MAX_CORES * MAX_THREADS]
    Source sources[32]
    int32_t sources_count
    # Edges of a line that was already pending.
    int64_t lost_interrupts

    # --- devices that are not of the machine ---

    # The object that has them; ``access`` is called with it.
    void* attached
    Access access
    # The addresses of these devices: MAX_WINDOWS entries, as in ``window_size``.
    uint32_t window_start[16]
    uint32_t window_size[16]
    int32_t windows
    # Lines that they hold up.
    uint32_t attached_up
    # When they have something to do; NEVER if nothing is due.
    int64_t attached_at

    # --- UART ---

    # What it will receive, and the tick at which each byte arrives.
    uint8_t* uart_input
    int64_t* uart_at
    int64_t uart_length
    # Index of the next byte to arrive.
    int64_t uart_next
    # The queues of what was received, and of what is to be sent: rings.
    uint8_t received[256]
    int32_t received_head
    int32_t received_count
    uint8_t sending[16]
    int32_t sending_head
    int32_t sending_count
    # When the byte at the head has been sent; NEVER if none is.
    int64_t sent_at
    # Ticks for a byte.
    int64_t uart_tick
    uint32_t uart_enable
    # What was sent, until it is taken.
    uint8_t* sent
    int64_t sent_count
    int64_t sent_room
    # Bytes that came while the queue was full.
    int64_t uart_lost

    # --- block device ---

    uint8_t* blocks
    uint32_t sectors
    uint32_t block_sector
    uint32_t block_address
    uint32_t block_count
    uint32_t block_command
    uint32_t block_status
    uint32_t block_enable
    uint32_t block_done
    # When the current command ends; NEVER if there is none.
    int64_t block_at
    # Ticks of a command, and of each of its sectors.
    int64_t block_latency
    int64_t block_each

    # --- system-management interrupts ---

    # When the first system-management interrupt comes.
    int64_t smi_first
    # When the next one comes.
    int64_t smi_next
    # Ticks between two; 0: there is only one.
    int64_t smi_every
    # Ticks of one; 0: there are none.
    int64_t smi_ticks
    # The end of the current system-management interrupt; 0: there is none.
    int64_t smi_until
    int64_t smi_count

    # --- software threads ---

    Thread** threads_seen
    int32_t threads_count
    int32_t threads_room
    # Hash table with open addressing: the index + 1 of a thread by its block.
    int32_t* by_block
    int32_t by_block_room

    # --- what is told ---

    Log log
    Rows rows
    Signals signals
    # The program as it was loaded, if there is a trace unit; MAX_LOADED entries.
    Loaded loaded[16]
    int32_t loaded_count
    # Tables of CRC-32: of a byte, and of one that is followed by one to three others.
    uint32_t crc[4][256]
    int64_t lost_threads
    int64_t lost_wakes
    # Takes charges when no memory is left for a cell. It is never read, because the machine stops then.
    Cell nowhere
    # Takes what is written to a row when no memory is left for one.
    Row no_row

    # --- what is mostly off ---

    # Banks of the data caches; 0: loads never wait for the store before.
    uint32_t banks
    # A debugger is there, for which trace units stop the machine.
    int32_t debugged
    # The lines that were up or pending when trace units looked last.
    uint32_t lines_seen
    # Whether any trace unit looks for events from outside.
    int32_t external
    # A block has fired for one, and its sequencer has not moved yet.
    int32_t external_fired

    # --- tables that all machines share ---

    # The control and status registers, by number.
    Csr* csrs
    Encodings* encodings
