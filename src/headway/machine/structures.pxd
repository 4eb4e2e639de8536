"""The structures of the machine: harts, cores, caches, the bus, devices, and the cells that time is charged to."""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

from headway.riscv.decode cimport Decoded
from headway.trace.threads.protocol cimport COLUMNS, MAX_THREADS, REASONS

from .architecture cimport COUNTERS, DIVIDED, MAX_CORES, STATES

cdef enum:
    HINTS = 64
    TLB_HINTS = 32

ctypedef struct Cell:
    int64_t time
    int64_t cycles
    int64_t instructions
    int64_t count
    int64_t lost[REASONS]
    # ^ Cycles in which nothing was issued, by reason.
    int32_t open
    # ^ While a recording is made: the hart + 1 on which an occurrence began that no row has counted yet; 0: none.

ctypedef struct Account:
    # ^ The cells of a thread or processor. Most have few states, so ``index`` maps a state to its cell's number + 1, 0: none.
    uint8_t index[STATES]
    Cell* cells
    int32_t used
    int32_t room

ctypedef struct Thread:
    # ^ A software thread, identified by its block in RAM. Block 0: the code that a hart runs before its first block.
    uint32_t block
    uint32_t id
    int32_t number
    # ^ Its place among the machine's threads.
    uint8_t name[32]
    int64_t birth
    int64_t end
    int32_t hart
    # ^ The hart that runs it; -1: none.
    int32_t away
    # ^ Its state while no hart runs it.
    int64_t since
    Account account

ctypedef struct Cache:
    uint32_t sets
    uint32_t ways
    uint32_t shift
    # ^ log2 of the line's size.
    uint32_t* tags
    # ^ Line number (address >> shift) + 1; 0: empty.
    int64_t* used
    # ^ When each line was used last, on the cache's own count of uses.
    int64_t* filled
    # ^ The tick at which each line arrives or arrived.
    uint8_t* dirty
    uint8_t* external
    int64_t uses
    uint32_t hints[HINTS]
    # ^ Where a line was found last, by the lowest bits of its number: looked at first, and checked.

ctypedef struct Request:
    uint32_t line
    uint8_t kind
    uint8_t hart
    uint8_t displaces
    # ^ A dirty line is displaced; it is written back afterwards.

ctypedef struct Traced:
    # ^ The trace unit's state for a hart (docs/trace-format.md).
    uint32_t wanted
    # ^ Whether the hart is to be traced: TRACE_PERMITTED, TRACE_ASKED.
    uint32_t on
    uint32_t lost
    # ^ Packets were lost: tracing of this hart begins again when there is room.
    uint32_t due
    # ^ A periodic I-sync is to be sent.
    uint32_t executed
    # ^ E atoms that no packet holds yet.
    uint32_t stalled
    # ^ Cycles of the stall that follows them; the next field is its reason.
    uint32_t reason
    uint32_t base
    # ^ The last address that was sent.
    uint32_t told
    # ^ Type and cause of the last branch that was sent; 0xFF: none since an I-sync.
    uint32_t id
    # ^ The last thread id that was sent.
    uint32_t target
    # ^ Target of the last indirect jump; 1: none since an I-sync.
    uint32_t returns[16]
    uint32_t depth
    uint32_t short_stalls[4]
    # ^ The last four different short stalls: reason << 8 | cycles - 1.
    uint32_t single
    # ^ Number of the short stall after one E atom that is held back to form a pair; 4: none.
    int64_t woken
    # ^ The cycle in which the hart was woken.
    int64_t told_until
    # ^ The cycle up to which packets already tell its sleep.
    int32_t asleep
    # ^ The state from which it was woken.
    uint64_t outcomes
    # ^ Without cycles: what waypoints did that no packet has told yet, the oldest in bit 0; the next field is how many.
    uint32_t outcomes_count
    uint32_t steps
    # ^ Instructions since the last waypoint.
    uint8_t group[48]
    int32_t length

ctypedef struct Watched:
    # ^ What an encoder of E-Trace knows of an instruction, or of a trap in the place of one.
    uint32_t pc
    uint32_t context
    int64_t time
    uint32_t value
    uint8_t kind
    uint8_t size
    uint8_t privilege
    uint8_t branch
    # ^ 1: taken. 2: not taken.
    uint8_t indirect
    uint8_t calls
    uint8_t returns
    uint8_t jumps_by
    uint8_t loaded
    # ^ The register that got a constant.
    uint8_t back
    # ^ It goes backwards, and its target is not sent.
    uint8_t cause
    uint8_t interrupt
    uint8_t reported
    # ^ A packet has told of the trap.
    uint8_t updiscon
    # ^ Its target must be sent.
    uint8_t mispredicted
    # ^ The depth of the stack at a return that went elsewhere.

ctypedef struct Encoder:
    # ^ The encoder of E-Trace of a hart (docs/trace.md).
    Watched before
    Watched current
    uint32_t privilege
    # ^ Before the next instruction; the next field likewise.
    uint32_t context
    uint32_t base
    # ^ The last address that was sent.
    uint32_t map
    uint32_t branches
    # ^ Branches that no packet has told yet; the first 31 are in the map.
    uint32_t predicted
    # ^ Whether all of them were predicted.
    uint32_t failed
    uint32_t depth
    uint32_t returns[16]
    uint32_t returned
    # ^ There was a return since the last call, branch or packet.
    uint32_t marked
    # ^ The last backward jump or return since the last branch or packet, + 1; 0: none.
    uint32_t marks[8]
    uint32_t marks_count
    # ^ All of them.
    uint32_t synced
    # ^ The current instruction is in a synchronisation packet.
    uint32_t due
    # ^ 2: the branches are to be told. 3: then a synchronisation packet.
    uint32_t lost
    int64_t sent
    # ^ Bytes since the last synchronisation packet; the next field is instructions.
    int64_t retired
    uint8_t predictor[512]
    uint32_t cache[64]

ctypedef struct Block:
    # ^ A trigger block: two address comparators, one data comparator, a counter.
    uint32_t control
    uint32_t first
    uint32_t second
    uint32_t value
    uint32_t mask
    int64_t reload
    int64_t left

ctypedef struct TraceUnit:
    # ^ The trace unit of a core, which makes packets of what the core's harts do.
    int32_t exists
    int32_t cycle_accurate
    int32_t all_targets
    int32_t etrace
    # ^ The unit makes packets of E-Trace.
    uint32_t etrace_options
    int32_t etrace_timed
    int32_t period
    # ^ Bytes between a head and the next A-sync.
    int64_t depth
    int64_t port
    # ^ Depth of the FIFO in bits, and bits that leave it each cycle (0: any number).
    int64_t level
    int64_t level_at
    int32_t thread
    # ^ The thread that was selected last; -1: none.
    int64_t left
    # ^ Bytes until the next A-sync.
    uint32_t number
    uint32_t check
    # ^ CRC-32 of the bytes since the last A-sync, as it is before it is complemented.
    uint32_t length
    # ^ The number of these bytes.
    uint32_t vouched
    # ^ How many of them were sent when the last check packet was, or their head.
    uint8_t parity[COLUMNS]
    # ^ Exclusive or of every COLUMNSth byte, by column.
    uint32_t column
    # ^ The column of the next byte.
    int64_t anchor
    # ^ Thread cycle of the last I-sync of any thread, or of the last A-sync, whichever was later.
    int64_t groups_lost
    Block blocks[4]
    uint32_t selected
    # ^ The register that hwtval accesses.
    uint32_t moves[6]
    # ^ The sequencer's moves: for each state, the blocks that move it to the next state and to the one after that.
    uint32_t actions[3]
    uint32_t state
    uint32_t traced_in
    # ^ States in which harts are traced, one bit each.
    uint32_t line
    # ^ The line of the PLIC that it may raise.
    uint32_t matching
    # ^ Whether any block is on.
    int64_t window
    # ^ Cycles of a profiling window; 0: none.
    int64_t window_left
    int64_t window_at
    # ^ The cycle up to which the window's have been counted.
    uint32_t profiled_in
    uint32_t profiled[6]
    # ^ The harts that each counter counts, and what of them.
    uint32_t sources[6]
    uint64_t profile[6]
    uint32_t changes
    # ^ Instructions that were found to differ from those of the loaded program.
    uint8_t* bytes
    int64_t size
    int64_t room
    int64_t ring
    # ^ Bytes of the trace buffer; 0: all output is kept until it is taken.
    int64_t after
    # ^ Bytes that the buffer still takes after the trigger; -1: there was no trigger.
    int64_t kept
    # ^ Bytes that it takes from the trigger on, as configured.
    int64_t written

ctypedef struct Logged:
    # ^ An entry of the log: a span of a hart's time as it really was.
    int64_t cycle
    int64_t cycles
    uint32_t address
    uint16_t hart
    uint16_t what

ctypedef struct Row:
    # ^ A row of a recording (docs/recordings.md).
    int64_t time
    int64_t duration
    int64_t taken
    int32_t thread
    # ^ Number of the thread; -1: none.
    int32_t count
    int32_t waker
    int16_t cpu
    # ^ The hart; -1: none.
    uint8_t state
    uint8_t waker_state

ctypedef struct Signal:
    # ^ An entry of what is told of every cycle; its kinds are in signals.pxd.
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

ctypedef struct Rows:
    # ^ Rows that nobody has taken yet.
    int32_t on
    Row* entries
    int64_t count
    int64_t room

ctypedef struct Loaded:
    # ^ A part of the program as it was loaded.
    uint32_t start
    uint32_t size
    uint8_t* bytes

ctypedef struct Log:
    Logged* entries
    int64_t count
    int64_t room

ctypedef struct Hart:
    # What every turn needs is together, in as few lines of the host's cache as possible. Cycles are those of its core.
    int64_t ready
    # ^ When it can issue; NEVER while that is unknown.
    int64_t free
    # ^ The first cycle that has not been charged yet.
    int64_t due
    # ^ The latest cycle at which a register becomes usable.
    int64_t instret
    Decoded* code
    # ^ The open page of code, decoded.
    uint32_t page
    # ^ Number of that page.
    uint32_t pc
    uint32_t fetched
    # ^ The cache line of the last instruction fetch, + 1.
    uint32_t attention
    # ^ What must be handled before an instruction is issued: INTERRUPTED, PROFILING …
    uint32_t data_page
    uint8_t reason
    # ^ Why it cannot issue between free and ready.
    uint8_t slot
    uint8_t core
    uint8_t range

    uint32_t x[33]
    uint32_t fetch_page
    uint32_t privilege
    uint32_t latch
    int64_t arrival
    # ^ The tick until which it waits for memory, if ``ready`` was computed from it; 0: not waiting for a tick.
    int64_t usable[33]

    # Memory.
    uint32_t wanted
    # ^ The line that it waits for, + 1.
    uint32_t wanted_kind
    uint32_t served[2]
    # ^ Lines + 1 that were brought or upgraded for the waiting instruction.
    uint32_t served_fetch
    uint32_t translated[4]
    # ^ Pages + 1 that were translated for it; an instruction needs four at most.
    uint32_t reserved
    # ^ Line + 1 that LR reserved.
    uint32_t* tlb
    int64_t* tlb_used
    int64_t tlb_uses
    uint16_t tlb_hints[TLB_HINTS]
    # ^ Where a page was found last, by the lowest bits of its number: looked at first, and checked.
    int32_t buffer
    # ^ The one-word store buffer: 0 free, 1 waits for the bus.
    int64_t buffer_free

    # Where it is.
    int32_t number
    int32_t started
    int32_t halted
    # ^ The halted state in which WFI waits, 1 to 3; 0: not halted.
    int64_t trap_count
    # ^ Traps that it has entered.
    int32_t cost
    # ^ Cycles for which the instruction holds the hart.

    # What a debugger asks of it (debug.pxd).
    int32_t held
    # ^ It is kept from issuing while others run: HOLD_ASKED, HOLD_NOW; 0: it is not.
    int64_t step_to
    # ^ The machine stops before the turn with this number (turn_number), or a later one; 0: it does not.
    int64_t reported
    # ^ The number of the turn (turn_number) before which the machine stopped last for it.
    int64_t touching
    # ^ The number + 1 of a turn whose instruction accesses watched memory; 0: none does.
    uint32_t touched
    # ^ The watched address that it accesses.

    # The parts of caches and bus that it may use.
    uint32_t ways[DIVIDED]
    # ^ The ways of each cache in which it may place lines, a bit each.
    uint32_t own_ways[DIVIDED]
    # ^ The same where the thread's block says nothing.
    uint32_t share
    # ^ Sixteenths of each bus window; 0: no limit.
    uint32_t own_share
    int64_t bus_window
    # ^ The window in which it used the bus last; the next field is for how many ticks.
    int64_t bus_used

    # CSRs.
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
    uint64_t mcycle
    # ^ The value to add to the core's cycles.
    uint64_t minstret
    uint64_t mcycle_held
    uint64_t minstret_held
    # ^ The values that they show while they are inhibited.
    uint32_t pwstate
    uint32_t pmpcfg[4]
    uint32_t pmpaddr[16]

    # Progress unit and state monitor.
    uint32_t control
    uint32_t depth
    uint8_t trapped[8]
    # ^ The states of the nested traps.
    uint32_t signals
    uint32_t polled
    # ^ The poll latch: 0 or the number of its state.
    uint32_t correction
    uint32_t block
    uint32_t leave
    uint32_t monitor
    int32_t state
    int32_t mode
    uint64_t counters[COUNTERS]
    uint64_t told_counters[COUNTERS]
    # ^ While signals are told: the counters as they were told last.
    Thread* thread
    Cell* cell
    Cell* processor_cell
    int64_t since
    # ^ The cycle up to which the cells are complete.
    int64_t since_tick
    int64_t told
    # ^ While a recording is made: the tick up to which its rows are complete.
    int64_t since_instret
    int64_t since_stolen
    # ^ Ticks of system-management interrupts up to then; the next field is their number.
    int64_t since_interrupts
    int32_t before
    # ^ Mode in the cycle before ``since``.
    int64_t lost[REASONS]

    # Profile buffer.
    uint32_t profile
    uint32_t profile_base
    uint32_t profile_size
    uint32_t profile_head
    uint32_t profile_seen
    # ^ The head at the last de-authorisation.
    uint32_t profile_period
    uint32_t authorised
    int64_t profile_left
    int64_t profile_last
    int64_t profile_missed

    Account account
    Traced traced
    Encoder* encoder
    # ^ NULL: the trace unit does not make packets of E-Trace.

ctypedef struct Clock:
    int64_t tick
    int64_t cycle
    # ^ Cycle ``cycle`` is at tick ``tick``.
    int64_t speed
    # ^ Sixteenths of the machine's clock.
    int64_t running
    # ^ Ticks of each window in which the clock runs.
    int64_t window
    int64_t stolen
    # ^ Ticks of system-management interrupts before this clock began; the next field is their number.
    int64_t interrupts
    int64_t stopped
    # ^ Ticks for which pwduty had stopped the clock before this one began; the next field is how often.
    int64_t stops

ctypedef struct Core:
    Hart* harts
    int32_t threads
    int64_t cycle
    # ^ The last cycle in which an instruction was tried.
    int64_t next_cycle
    int64_t next
    # ^ Tick of the next cycle in which one is tried; NEVER if none is known.
    Hart* pick
    int32_t last
    Cache icache
    Cache dcache
    uint8_t* tcm
    Decoded** tcm_pages

    # The clock. While ``plain`` is set, a cycle is a tick.
    int32_t plain
    Clock clock
    Clock past[MAX_THREADS]
    # ^ The clock before its last changes, the latest first: in strict turn a hart is charged for cycles of a rotation ago.
    uint32_t stopped
    # ^ The eighths of a window for which its clock is stopped.
    uint64_t counters[COUNTERS]
    int32_t depth
    # ^ 0: the core runs; 1 to 3: the shallowest halted state of its harts.
    int64_t since
    int64_t since_tick

    Request queue[3 * MAX_THREADS]
    int32_t queued
    int32_t head

    TraceUnit unit

ctypedef struct Source:
    # ^ An external interrupt line that the configuration drives.
    uint32_t number
    int64_t next
    int64_t every
    int64_t left

ctypedef struct StatusRegister:
    # ^ A register that programs ask whether something is ready.
    uint32_t address
    uint32_t mask
    uint32_t ready
    # ^ The value of the mask's bits when it is ready.
    uint8_t any
    # ^ Instead: it is ready when any bit of the mask is set.
    uint8_t state
    # ^ The state of a hart that found it not ready.

ctypedef int (*Access)(void* attached, int what, uint32_t address, uint32_t* value) noexcept nogil
# ^ Loads from a device that is not of the machine, stores to it, or lets such devices do what is due now.

ctypedef struct Machine:
    # Configuration.
    int32_t cores_count
    int32_t threads
    int32_t harts_count
    int32_t strict
    int32_t unit
    # ^ The unit in which a hart's cycles are counted: rotations of this many cycles in strict turn, else single cycles.
    int32_t boot_all
    int32_t refill
    int32_t load
    int32_t multiply
    int32_t divide
    int32_t device
    int32_t switching
    int32_t authorise
    int32_t tlb_entries
    int32_t tlb_shift
    int32_t tlb_miss
    int32_t bus_line
    int32_t bus_word
    int32_t latency
    int32_t write_back
    int32_t has_l2
    int32_t l2_hit
    int32_t window
    int32_t wake[4]
    uint8_t modes[STATES]
    int64_t divider

    Core cores[MAX_CORES]
    Hart harts[MAX_CORES * MAX_THREADS]
    uint8_t* ram
    uint32_t ram_size
    uint32_t tcm_size
    Decoded** pages
    int32_t pages_open
    # ^ Pages of decoded code in RAM and in the tightly coupled memories.
    uint16_t* sharers
    # ^ For each line, the cores that have it in their data caches, one bit each; NULL with one core.
    int32_t reservations
    uint32_t range_start[64]
    uint32_t range_end[64]
    int32_t ranges
    StatusRegister polls[32]
    # ^ MAX_POLLS entries.
    int32_t polls_count

    int64_t now
    int32_t stop
    int32_t stopped_hart
    int32_t halfway
    # ^ A debugger stopped the machine within a tick: the core that has its turn next, + 1; 0: it did not.
    uint32_t* breakpoints
    # ^ Addresses before which the machine stops, in ascending order; the next field is their number.
    int32_t breakpoints_count
    uint32_t watch_start[16]
    uint32_t watch_size[16]
    uint32_t watch_kind[16]
    # ^ Memory after whose accesses the machine stops: WATCH_LOADS, WATCH_STORES. MAX_WATCHES entries each.
    int32_t watches
    int32_t stopped_for
    # ^ What it stopped for: FOR_BREAKPOINT, FOR_STEP, FOR_WATCH.
    uint32_t tohost
    # ^ 0: the program has none.
    uint32_t entry

    # Bus.
    int64_t bus_free
    int64_t bus_next
    # ^ When the arbiter next has something to do; NEVER if nothing waits.
    int32_t bus_last
    int64_t bus_window
    # ^ Ticks of a window in which harts have their shares of the bus.
    int32_t bus_shares
    # ^ The number of harts with a share.
    uint32_t all_ways[DIVIDED]
    # ^ All ways of each cache.
    Cache l2

    # Devices.
    int64_t next_event
    int64_t timer_next
    int64_t compare[MAX_CORES * MAX_THREADS]
    int64_t timer_offset
    uint32_t software[MAX_CORES * MAX_THREADS]
    uint32_t priority[32]
    uint32_t pending
    uint32_t held_up
    # ^ Lines that trace units hold up.
    uint32_t level
    # ^ Lines that devices hold up.
    uint32_t claimed
    uint32_t enabled[MAX_CORES * MAX_THREADS]
    uint32_t threshold[MAX_CORES * MAX_THREADS]
    Source sources[32]
    int32_t sources_count
    int64_t lost_interrupts
    # ^ Edges of a line that was already pending.

    # Devices that are not of the machine.
    void* attached
    # ^ The object that has them; ``access`` is called with it.
    Access access
    uint32_t window_start[16]
    uint32_t window_size[16]
    # ^ MAX_WINDOWS entries each.
    int32_t windows
    uint32_t attached_up
    # ^ Lines that they hold up.
    int64_t attached_at
    # ^ When they have something to do; NEVER if nothing is due.

    uint8_t* uart_input
    int64_t* uart_at
    int64_t uart_length
    int64_t uart_next
    # ^ Index of the next byte to arrive.
    uint8_t received[256]
    int32_t received_head
    int32_t received_count
    uint8_t sending[16]
    int32_t sending_head
    int32_t sending_count
    int64_t sent_at
    int64_t uart_tick
    uint32_t uart_enable
    uint8_t* sent
    int64_t sent_count
    int64_t sent_room
    int64_t uart_lost

    uint8_t* blocks
    uint32_t sectors
    uint32_t block_sector
    uint32_t block_address
    uint32_t block_count
    uint32_t block_command
    uint32_t block_status
    uint32_t block_enable
    uint32_t block_done
    int64_t block_at
    int64_t block_latency
    int64_t block_each

    int64_t smi_first
    # ^ When the first system-management interrupt comes; the next field is when the next one does.
    int64_t smi_next
    int64_t smi_every
    int64_t smi_ticks
    int64_t smi_until
    # ^ The end of the current system-management interrupt; 0: there is none.
    int64_t smi_count

    # Software threads.
    Thread** threads_seen
    int32_t threads_count
    int32_t threads_room
    int32_t* by_block
    # ^ Hash table with open addressing: the index + 1 of a thread by its block.
    int32_t by_block_room
    Log log
    Rows rows
    Signals signals
    Loaded loaded[16]
    # ^ The program as it was loaded, if there is a trace unit; MAX_LOADED entries.
    int32_t loaded_count
    uint32_t crc[4][256]
    # ^ Tables of CRC-32: of a byte, and of one that is followed by one to three others.
    int64_t lost_threads
    int64_t lost_wakes
    Cell nowhere
    # ^ Takes charges when no memory is left for a cell. It is never read, because the machine stops then.
    Row no_row
    # ^ The same for rows.
