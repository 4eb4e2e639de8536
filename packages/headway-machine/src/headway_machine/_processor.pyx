"""The compiled simulator: its main loop, and the class `MachineProcessor` that Python drives it by.

The parts are inline functions in the .pxd files beside this one. The docstring of this package lists them, and follows
one cycle through them.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset

from specification.riscv.encodings cimport Encodings, list_encodings

from .architecture cimport *
from .attempt cimport attempt
from .burst cimport burst, burst_together
from .cells cimport find_cells
from .clocks cimport count_stops, cycle_of, end_tick
from .config import ANY
from .code cimport NO_PAGE, PAGE, forget_code, forget_tcm
from .copying cimport copy_of, free_machine, free_trace_copy, trace_copy_of
from .csr_table cimport ABSENT, CSRS, list_csrs
from .debug cimport (
    FOR_BREAKPOINT, HOLD_ASKED, MAX_WATCHES, WATCH_LOADS, WATCH_STORES, look_at_requests, release, turn_number,
)
from .division cimport divide, set_own_part
from .events cimport take_external, write_resource
from .devices cimport DEVICE_DUE, DEVICE_LOAD, DEVICE_STORE, MAX_WINDOWS, find_next_event, handle_events, look_at_plic
from .etrace cimport stop_encoder
from .memory cimport BANKED, WAITED, forget_served, grant
from .power cimport start_hart
from .polling cimport GIVES_UP
from .progress_unit cimport end_polling, settle
from .structures cimport (
    STOP_DEBUG, STOP_HTIF, STOP_LIMIT, STOP_NO_MEMORY, STOP_SEMIHOST, STOP_STANDSTILL, Account, Cache, Cell, Core, Csr,
    Decoded, Encoder, Hart, Logged, Machine, Row, Signal, Thread,
)
from .transitions cimport tell_account, tell_away, tell_span
from .states import poll_states
from .trace cimport (
    LOGGED, MAX_LOADED, SIGNALLED, TRACED, TRACE_ASKED, TRACE_PERMITTED, doing_of, flush, send_group, send_head,
    send_window, watch_gap, watch_sleep,
)
from .turns cimport new_turn

__all__ = ["DEBUG", "DUE", "HTIF", "LIMIT", "LOAD", "REGISTERS", "SEMIHOST", "STANDSTILL", "STORE", "MachineProcessor"]

LIMIT = STOP_LIMIT
HTIF = STOP_HTIF
SEMIHOST = STOP_SEMIHOST
STANDSTILL = STOP_STANDSTILL
DEBUG = STOP_DEBUG
LOAD = DEVICE_LOAD
STORE = DEVICE_STORE
DUE = DEVICE_DUE

REGISTERS = ("pc", "mstatus", "mie", "mip", "mtvec", "mscratch", "mepc", "mcause", "mtval")
"""The registers beside x0 to x31 that `MachineProcessor.special` returns, in its order."""


cdef Csr[CSRS] _csrs
cdef Hart _any_hart
list_csrs(_csrs, &_any_hart)
cdef Encodings _encodings
list_encodings(&_encodings)


cdef int stand_still(Machine* m) noexcept nogil:
    """Stop because nothing will ever happen again. Time ends at the tick at which the last hart began to wait."""
    cdef int i
    for i in range(m.harts_count):
        m.now = max(m.now, m.harts[i].since_tick)
    return STOP_STANDSTILL


cdef inline int64_t find_next(Machine* m, int64_t* other) noexcept nogil:
    """Return the tick of the next turn of any core.

    ``other`` is set to that of the core after it, which may be the same.
    """
    cdef int64_t soonest = m.cores[0].next, at
    cdef int k
    other[0] = NEVER
    for k in range(1, m.cores_count):
        at = m.cores[k].next
        other[0] = min(other[0], max(at, soonest))
        soonest = min(soonest, at)
    return soonest


cdef inline void go_on(Machine* m, Core* c, int64_t until) noexcept nogil:
    """Take the core's turn at tick `now`, and those after it up to a tick before which nothing else happens."""
    if burst(m, c, until) and not m.stop:
        m.now = c.next
        attempt(m, c)


cdef inline bint stops_after(Machine* m, int k) noexcept nogil:
    """Return whether the machine stops after the turn of core k.

    Cores that have not had their turn of this tick take it when the machine goes on.
    """
    if not m.stop:
        return False
    if m.stop == STOP_DEBUG:
        m.halfway = k + 1 if m.cores_count > 1 else 0
    else:
        m.now += 1
    return True


cdef inline bint take_turns(Machine* m, int first, int64_t until) noexcept nogil:
    """Let the cores from ``first`` on that have a turn at this tick take it, in the order of their numbers.

    While they need nothing but usual turns, they go on up to the tick ``until``. A turn may make a later core take one
    in the same tick. Return whether the machine stops.
    """
    cdef int k = burst_together(m, first, until)
    while k < m.cores_count:
        attempt(m, &m.cores[k])
        if unlikely(stops_after(m, k)):
            return True
        k = burst_together(m, k + 1, 0)
    return stops_after(m, k)


cdef int simulate(Machine* m, int64_t until) noexcept nogil:
    """Run a machine until a tick, or until it stops.

    Cores take their turns of one tick in the order of their numbers.
    """
    cdef int64_t outside, other, soonest
    cdef Core* c
    cdef int k
    if m.halfway and m.now < until:
        k = m.halfway - 1
        m.halfway = 0
        if take_turns(m, k, 0):
            return m.stop
    soonest = find_next(m, &other)
    while True:
        outside = min(m.next_event, m.bus_next)
        if outside <= soonest:
            if outside >= until:
                if outside == NEVER:
                    return stand_still(m)
                m.now = max(m.now, until)
                return STOP_LIMIT
            m.now = outside
            if m.next_event <= m.now:
                handle_events(m)
            if unlikely(m.external_fired != 0):
                take_external(m)
            if m.bus_next <= m.now:
                c = grant(m)
                if c != NULL:
                    new_turn(m, c)
            soonest = find_next(m, &other)
            continue
        if soonest >= until:
            m.now = max(m.now, until)
            return STOP_LIMIT
        m.now = soonest
        if other > soonest + 1:
            # While one core has the ticks to itself, it goes on alone.
            k = 0
            while m.cores[k].next != soonest:
                k += 1
            go_on(m, &m.cores[k], min(outside, until, other))
            if stops_after(m, k) or take_turns(m, k + 1, 0):
                return m.stop
        elif take_turns(m, 0, min(outside, until)):
            return m.stop
        soonest = find_next(m, &other)


cdef void* zeros(size_t count, size_t size) except NULL:
    cdef void* p = calloc(count if count else 1, size)
    if p == NULL:
        raise MemoryError
    return p


cdef int make_cache(Cache* cache, part) except -1:
    cdef uint32_t lines = part.size // part.line
    cache.ways = part.ways
    cache.sets = lines // part.ways
    cache.shift = <uint32_t>(<int>part.line.bit_length() - 1)
    cache.tags = <uint32_t*>zeros(lines, sizeof(uint32_t))
    cache.used = <int64_t*>zeros(lines, sizeof(int64_t))
    cache.filled = <int64_t*>zeros(lines, sizeof(int64_t))
    cache.dirty = <uint8_t*>zeros(lines, 1)
    cache.external = <uint8_t*>zeros(lines, 1)
    return 0


cdef int access_attached(void* attached, int what, uint32_t address, uint32_t* value) noexcept with gil:
    """Serve an access to what is attached. Return whether there is a register. What it raises stops the machine."""
    cdef MachineProcessor processor = <MachineProcessor>attached
    try:
        found = processor.devices(what, address, value[0] if what == DEVICE_STORE else 0)
        if found is None:
            return False
        if what == DEVICE_LOAD:
            value[0] = <uint32_t>(found & 0xFFFFFFFF)
        return True
    except BaseException as problem:
        processor.problem = problem
        processor.m.stop = STOP_DEBUG
        return True


cdef class MachineProcessor:
    """All cores with their memory and devices. The configuration is read once.

    Addresses are physical, times in ticks. The class is not thread-safe: use one caller at a time.
    """

    cdef Machine* m
    cdef object config
    cdef bytes image
    # Called with (what, address, value) for what is attached; returns the value loaded, or None where nothing is there.
    cdef object devices
    # What it raised.
    cdef object problem

    def __cinit__(self):
        self.m = <Machine*>zeros(1, sizeof(Machine))

    def __init__(self, config):
        """Build the machine of a `headway_machine.config.Config`. Raises MemoryError if there is not enough memory."""
        cdef Machine* m = self.m
        cdef Core* c
        cdef Hart* h
        cdef int k, i
        if self.config is not None:
            raise RuntimeError("a MachineProcessor is made once")
        self.config = config
        m.cores_count = config.cores
        m.threads = config.threads
        m.harts_count = m.cores_count * m.threads
        m.strict = config.issue == "strict"
        m.csrs = _csrs
        m.encodings = &_encodings
        m.quantum = m.threads if m.strict else 1
        m.boot_all = config.boot == "all"
        self._set_timing(config)
        m.ram_size = config.memory.ram
        m.tcm_size = config.memory.tcm
        m.ram = <uint8_t*>zeros(m.ram_size, 1)
        m.pages = <Decoded**>zeros(m.ram_size // PAGE, sizeof(Decoded*))
        if m.cores_count > 1:
            m.sharers = <uint16_t*>zeros(m.ram_size // config.l1d.line, sizeof(uint16_t))
        if m.has_l2:
            make_cache(&m.l2, config.l2)
        for k in range(m.cores_count):
            c = &m.cores[k]
            c.harts = &m.harts[k * m.threads]
            c.threads = m.threads
            c.plain = 1
            c.clock.speed = 16
            c.clock.running = m.window
            c.clock.window = m.window
            for i in range(MAX_THREADS):
                c.past[i] = c.clock
            c.cycle = -1
            c.last = m.threads - 1
            c.bank_cycle = -2
            c.next = c.next_cycle = NEVER
            c.pick = c.harts
            c.depth = 3
            make_cache(&c.icache, config.l1i)
            make_cache(&c.dcache, config.l1d)
            c.tcm = <uint8_t*>zeros(m.tcm_size, 1)
            c.tcm_pages = <Decoded**>zeros(m.tcm_size // PAGE + 1, sizeof(Decoded*))
        self._set_modes(config)
        for i in range(m.harts_count):
            h = &m.harts[i]
            h.number = i
            h.page = NO_PAGE
            h.core = <uint8_t>(i // m.threads)
            h.slot = <uint8_t>(i % m.threads)
            h.ready = NEVER
            h.privilege = MACHINE
            h.control = CTL_RESET
            h.pwstate = 1
            h.tlb = <uint32_t*>zeros(m.tlb_entries, sizeof(uint32_t))
            h.tlb_used = <int64_t*>zeros(m.tlb_entries, sizeof(int64_t))
            h.gap = config.progress.gap
            h.state = UNSTARTED
            h.mode = HALTED
            if m.banks:
                h.attention |= BANKED
            h.outside = -1
            find_cells(m, h)
            h.processor_cell.count = 1
            m.compare[i] = -1
        self._set_division(config.divisions)
        self._set_devices(config)
        if config.trace.enabled:
            self._set_trace(config.trace)

    def _set_division(self, divisions):
        """Give each hart its parts of caches and bus: all of them, or those of its entry."""
        cdef Machine* m = self.m
        cdef Hart* h
        cdef int i
        for i in range(m.harts_count):
            h = &m.harts[i]
            memcpy(h.own_ways, m.all_ways, sizeof(m.all_ways))
            for part in divisions:
                if part.harts >> i & 1:
                    for which, value in enumerate((part.l1i, part.l1d, part.l2, part.bus)):
                        set_own_part(m, h, <uint32_t>which, <uint32_t>value)
            divide(m, h, 0)

    def _set_trace(self, config):
        cdef Machine* m = self.m
        cdef Core* c
        cdef Hart* h
        cdef int k, i, _
        cdef uint32_t value, register
        for i in range(256):
            value = <uint32_t>i
            for _ in range(8):
                value = value >> 1 ^ (0xEDB88320u if value & 1 else 0)
            m.crc[0][i] = value
        for i in range(256):
            for k in range(1, 4):
                m.crc[k][i] = m.crc[k - 1][i] >> 8 ^ m.crc[0][m.crc[k - 1][i] & 0xFF]
        for k in range(m.cores_count):
            c = &m.cores[k]
            c.trace_unit.exists = 1
            c.trace_unit.cycle_accurate = config.cycle_accurate and config.format == "threads"
            c.trace_unit.etrace = config.format == "etrace"
            c.trace_unit.etrace_timed = config.cycle_accurate
            c.trace_unit.etrace_options = config.etrace_options()
            c.trace_unit.all_targets = config.all_targets
            c.trace_unit.direct_branches = config.direct_branches
            c.trace_unit.period = config.sync
            c.trace_unit.depth = 8 * config.fifo
            c.trace_unit.port = config.port
            c.trace_unit.check = 0xFFFFFFFFu
            c.trace_unit.after = -1
            c.trace_unit.kept = 4 * config.after
            for register, value in config.registers():
                write_resource(m, c, register, value)
            if config.buffer:
                c.trace_unit.bytes = <uint8_t*>zeros(config.buffer, 4)
                c.trace_unit.ring = c.trace_unit.room = 4 * config.buffer
        for i in range(m.harts_count):
            if config.format == "etrace":
                m.harts[i].encoder = <Encoder*>zeros(1, sizeof(Encoder))
            if config.harts >> i & 1:
                h = &m.harts[i]
                h.traced.wanted |= TRACE_PERMITTED | (TRACE_ASKED if config.start else 0)

    def _set_timing(self, config):
        cdef Machine* m = self.m
        m.refill = config.pipeline.refill
        m.load = config.pipeline.load
        m.multiply = config.pipeline.multiply
        m.divide = config.pipeline.divide
        m.device = config.pipeline.device
        m.switching = config.progress.switch
        m.authorise = config.profile.authorise
        m.tlb_entries = config.tlb.entries
        m.tlb_shift = config.tlb.page.bit_length() - 1
        m.tlb_miss = config.tlb.miss
        m.bus_line = config.bus.line
        m.bus_word = config.bus.word
        m.latency = config.memory.latency
        m.write_back = config.l1d.write == "back"
        m.banks = config.l1d.banks
        m.has_l2 = config.l2 is not None
        m.l2_hit = config.l2.hit if config.l2 is not None else 0
        m.window = config.power.window
        m.wake[1], m.wake[2], m.wake[3] = config.power.c1, config.power.c2, config.power.c3
        m.divider = config.timer.divider
        m.bus_next = NEVER
        m.bus_last = m.cores_count - 1
        m.bus_window = config.bus.window
        m.all_ways[IN_L1I] = <uint32_t>((1 << config.l1i.ways) - 1)
        m.all_ways[IN_L1D] = <uint32_t>((1 << config.l1d.ways) - 1)
        m.all_ways[IN_L2] = <uint32_t>((1 << config.l2.ways) - 1) if config.l2 is not None else 0

    def _set_modes(self, config):
        """Set for each state which progress counters it counts (docs/machine.md, section 6)."""
        cdef Machine* m = self.m
        cdef int state
        for state in range(STATES):
            if state < NONEFFECTIVE:
                m.modes[state] = EFFECTIVE
            elif state < POLL or EXCEPTION <= state <= MACHINE_MODE:
                m.modes[state] = KERNEL
            elif state < POLL_LATCH:
                m.modes[state] = POLLING
            elif state == MARKED:
                m.modes[state] = MARKED_ONLY
            elif state < SMI:
                m.modes[state] = HALTED
            else:
                m.modes[state] = STOPPED
        for r in config.ranges:
            m.ranges += 1
            m.range_start[m.ranges] = r.start
            m.range_end[m.ranges] = r.end
            m.modes[m.ranges] = {"noneffective": KERNEL, "poll": POLLING}.get(r.kind, EFFECTIVE)
        for number, register in zip(poll_states(config.polls), config.polls):
            m.modes[number] = POLLING
            m.polls[m.polls_count].address = register.address
            m.polls[m.polls_count].mask = register.mask
            m.polls[m.polls_count].any = register.ready == ANY
            m.polls[m.polls_count].ready = 0 if register.ready == ANY else register.ready
            m.polls[m.polls_count].state = number
            m.polled_devices |= 1u << (number - POLL_LATCH)
            m.polls_count += 1

    def _set_devices(self, config):
        cdef Machine* m = self.m
        cdef int i
        cdef int64_t k
        m.timer_next = m.block_at = m.sent_at = m.attached_at = m.next_event = NEVER
        m.uart_tick = config.uart.tick
        arriving = sorted(
            (at + i * config.uart.every, order, byte)
            for order, (at, text) in enumerate(config.uart.arrivals())
            for i, byte in enumerate(text)
        )
        m.uart_length = len(arriving)
        m.uart_input = <uint8_t*>zeros(m.uart_length, 1)
        m.uart_at = <int64_t*>zeros(m.uart_length, sizeof(int64_t))
        for k, (at, _, byte) in enumerate(arriving):
            m.uart_at[k] = at
            m.uart_input[k] = byte
        self.image = config.block.contents()
        m.sectors = <uint32_t>(len(self.image) // 512)
        m.blocks = <uint8_t*>zeros(m.sectors, 512)
        memcpy(m.blocks, <const uint8_t*>self.image, <size_t>m.sectors * 512)
        m.block_status = 1
        m.block_latency = config.block.latency
        m.block_each = config.block.sector
        for line in config.interrupts:
            i = m.sources_count
            m.sources[i].number = line.source
            m.sources[i].next = line.at
            m.sources[i].every = line.every
            m.sources[i].left = line.count
            m.sources_count += 1
        m.smi_next = NEVER
        if config.smi.ticks:
            m.smi_first = m.smi_next = config.smi.at
            m.smi_every = config.smi.every
            m.smi_ticks = config.smi.ticks

    def __dealloc__(self):
        free_machine(self.m)

    cdef uint8_t* _at(self, uint32_t address, size_t size) except NULL:
        cdef Machine* m = self.m
        if address >= RAM and address - RAM <= m.ram_size and size <= m.ram_size - (address - RAM):
            return m.ram + (address - RAM)
        if m.tcm_size and TCM <= address <= TCM + m.tcm_size and size <= m.tcm_size - (address - TCM):
            return m.cores[0].tcm + (address - TCM)
        raise ValueError(f"{size} bytes at {address:#010x} are not in RAM or the tightly coupled memory")

    def write(self, address: int, data: bytes) -> None:
        """Write bytes to RAM, or to the tightly coupled memory of core 0. Raises ValueError if they do not fit."""
        cdef const uint8_t[::1] source = data
        cdef size_t size = <size_t>len(data)
        if not 0 <= address < 1 << 32:
            raise ValueError(f"{address:#x} is not an address")
        cdef uint8_t* at = self._at(address, size)
        if size:
            self._keep(address, data)
            memcpy(at, &source[0], size)
            if address >= RAM:
                forget_code(self.m, address, <uint32_t>size)
            else:
                forget_tcm(&self.m.cores[0], <uint32_t>address - TCM, <uint32_t>size)

    cdef int _keep(self, uint32_t address, bytes data) except -1:
        """Keep the program as it is loaded, before anything runs: the trace units compare with it."""
        cdef Machine* m = self.m
        if not m.cores[0].trace_unit.exists or m.entry or m.loaded_count == MAX_LOADED:
            return 0
        m.loaded[m.loaded_count].start = address
        m.loaded[m.loaded_count].size = <uint32_t>len(data)
        m.loaded[m.loaded_count].bytes = <uint8_t*>zeros(len(data), 1)
        memcpy(m.loaded[m.loaded_count].bytes, <const uint8_t*>data, <size_t>len(data))
        m.loaded_count += 1
        return 0

    def read(self, address: int, size: int) -> bytes:
        """Return bytes of RAM, or of the tightly coupled memory of core 0. Raises ValueError for an address outside."""
        if not 0 <= address < 1 << 32 or size < 0:
            raise ValueError(f"{size} bytes at {address:#x} are not in memory")
        return (<char*>self._at(address, size))[:size]

    def start(self, entry: int, tohost: int | None = None) -> None:
        """End reset: harts start at ``entry``. ``tohost`` is the address of the program's HTIF word, if it has one."""
        cdef int i
        self.m.entry = entry
        self.m.tohost = 0 if tohost is None else tohost
        for i in range(self.m.harts_count if self.m.boot_all else 1):
            start_hart(self.m, &self.m.cores[self.m.harts[i].core], &self.m.harts[i])
        find_next_event(self.m)

    def run(self, until: int) -> int:
        """Simulate without the GIL until the tick or a stop; return LIMIT, HTIF, SEMIHOST, STANDSTILL or DEBUG.

        Raises what an attached device raised.
        """
        cdef int64_t limit = min(until, NEVER)
        cdef Machine* m = self.m
        cdef int stop
        m.stop = 0
        with nogil:
            stop = simulate(m, limit)
        if self.problem is not None:
            problem, self.problem = self.problem, None
            raise problem
        if stop == STOP_NO_MEMORY:
            raise MemoryError
        return stop

    # --- for a debugger ---

    def breakpoints(self, addresses) -> None:
        """Stop before instructions at these addresses, on any hart, and at no others."""
        cdef uint32_t* places
        cdef Machine* m = self.m
        cdef int i
        wanted = sorted(set(addresses))
        places = <uint32_t*>zeros(len(wanted), sizeof(uint32_t))
        for i, address in enumerate(wanted):
            places[i] = address
        free(m.breakpoints)
        m.breakpoints = places
        m.breakpoints_count = <int32_t>len(wanted)
        for i in range(m.harts_count):
            look_at_requests(m, &m.harts[i])

    def watches(self, ranges) -> None:
        """Stop after accesses to these ranges of memory, and to no others: (address, bytes, loads, stores) each.

        Raises ValueError if there are too many.
        """
        cdef Machine* m = self.m
        cdef int i
        if len(ranges) > MAX_WATCHES:
            raise ValueError(f"there can be {MAX_WATCHES} watchpoints")
        m.watches = 0
        for i, (address, size, loads, stores) in enumerate(ranges):
            m.watch_start[i] = address
            m.watch_size[i] = size
            m.watch_kind[i] = (WATCH_LOADS if loads else 0) | (WATCH_STORES if stores else 0)
            m.watches = i + 1
        for i in range(m.harts_count):
            m.harts[i].touching = 0
            look_at_requests(m, &m.harts[i])

    def stopped_for(self) -> tuple:
        """Return what `run` stopped for: "breakpoint", "step", "watch" or "trigger"; and the address accessed."""
        cdef Hart* h = &self.m.harts[self.m.stopped_hart]
        return ("breakpoint", "step", "watch", "trigger")[self.m.stopped_for - FOR_BREAKPOINT], h.touched

    def debugger(self, there: bool) -> None:
        """Let trace units stop the machine for a debugger, or no longer."""
        cdef int i
        self.m.debugged = there
        for i in range(self.m.harts_count):
            self.m.harts[i].triggered = 0
            look_at_requests(self.m, &self.m.harts[i])

    def rearm(self, hart: int) -> None:
        """Stop again for the turn before which the machine has stopped last. Raises IndexError."""
        self._check(hart, 0)
        self.m.harts[<int>hart].reported = -1

    def turns(self, hart: int) -> int:
        """Return how many instructions the hart has executed and how many traps it has entered. Raises IndexError."""
        self._check(hart, 0)
        return turn_number(&self.m.harts[<int>hart])

    def step_to(self, hart: int, turn: int) -> None:
        """Stop before the hart's turn with this number (`turns`), or a later one, once; 0: do not.

        Raises IndexError.
        """
        self._check(hart, 0)
        cdef Hart* h = &self.m.harts[<int>hart]
        h.step_to = turn
        if turn:
            h.reported = turn_number(h)
        look_at_requests(self.m, h)

    def hold(self, hart: int) -> None:
        """Keep the hart from issuing while others run. Raises IndexError, and ValueError if it is logged."""
        self._check(hart, 0)
        cdef Hart* h = &self.m.harts[<int>hart]
        if h.attention & LOGGED:
            raise ValueError("what it does is logged")
        if not h.held:
            h.held = HOLD_ASKED
        look_at_requests(self.m, h)

    def release(self, hart: int) -> None:
        """Let a hart go on that is held. Raises IndexError."""
        self._check(hart, 0)
        cdef Hart* h = &self.m.harts[<int>hart]
        release(self.m, &self.m.cores[h.core], h)
        look_at_requests(self.m, h)

    def special(self, hart: int) -> list:
        """Return the registers of `REGISTERS` of a hart. Nothing changes by it. Raises IndexError."""
        self._check(hart, 0)
        cdef Hart* h = &self.m.harts[<int>hart]
        return [h.pc, h.mstatus, h.mie, h.mip, h.mtvec, h.mscratch, h.mepc, h.mcause, h.mtval]

    def set_pc(self, hart: int, address: int) -> None:
        """Let the hart go on at another address, which is even. Raises IndexError."""
        self._check(hart, 0)
        cdef Hart* h = &self.m.harts[<int>hart]
        h.pc = <uint32_t>(address & 0xFFFFFFFE)
        forget_served(h)
        # Whatever it waited for is forgotten by `attempt`.
        h.attention |= WAITED

    def halted(self, hart: int) -> int:
        """Return the halted state in which the hart waits for an interrupt, 1 to 3; 0: it does not; -1: not started."""
        self._check(hart, 0)
        cdef Hart* h = &self.m.harts[<int>hart]
        return h.halted if h.started else -1

    # --- copies ---

    def copy(self):
        """Return a processor that is as this one is now, and shares nothing with it. Raises MemoryError."""
        cdef MachineProcessor found = MachineProcessor.__new__(MachineProcessor)
        cdef Machine* copied = copy_of(self.m)
        if copied == NULL:
            raise MemoryError
        free_machine(found.m)
        found.m = copied
        found.config = self.config
        found.image = self.image
        return found

    def become(self, MachineProcessor other) -> None:
        """Be as another processor of the same configuration is now. What is attached stays. Raises MemoryError."""
        if other.config != self.config:
            raise ValueError("it is of another configuration")
        cdef Machine* copied = copy_of(other.m)
        if copied == NULL:
            raise MemoryError
        copied.debugged = self.m.debugged
        copied.attached = self.m.attached
        copied.access = self.m.access
        copied.windows = self.m.windows
        memcpy(copied.window_start, self.m.window_start, sizeof(copied.window_start))
        memcpy(copied.window_size, self.m.window_size, sizeof(copied.window_size))
        free_machine(self.m)
        self.m = copied

    # --- devices that are not of the machine ---

    def attach(self, start: int, size: int, devices) -> None:
        """Call ``devices`` for 32-bit accesses to these addresses: (what, address, value) -> the value loaded, or None.

        None: there is no register, and the access is a fault. It is called with DUE, too, at the tick of `call_at`.
        Raises ValueError if there are too many.
        """
        cdef Machine* m = self.m
        if m.windows == MAX_WINDOWS:
            raise ValueError(f"there can be {MAX_WINDOWS} devices")
        m.window_start[m.windows] = start
        m.window_size[m.windows] = size
        m.windows += 1
        self.devices = devices
        m.attached = <void*>self
        m.access = access_attached

    def call_at(self, tick: int | None) -> None:
        """Call the devices at this tick, or as soon as possible; None: at none."""
        self.m.attached_at = NEVER if tick is None else max(<int64_t>tick, self.m.now)
        find_next_event(self.m)

    def hold_line(self, line: int, up: bool) -> None:
        """Hold a line of the PLIC (1 to 31) up, or not."""
        if up:
            self.m.attached_up |= 1u << <int>line
        else:
            self.m.attached_up &= ~(1u << <int>line)
        look_at_plic(self.m)

    @property
    def now(self) -> int:
        """Ticks since reset."""
        return self.m.now

    @property
    def stopped_hart(self) -> int:
        """The hart that caused the last stop of the machine."""
        return self.m.stopped_hart

    @property
    def instructions(self) -> int:
        """The number of instructions that all harts together have retired."""
        return sum(self.m.harts[i].instret for i in range(self.m.harts_count))

    def register(self, hart: int, n: int) -> int:
        """Return register x0 to x31 of a hart. Raises IndexError."""
        self._check(hart, n)
        return self.m.harts[<int>hart].x[<int>n]

    def set_register(self, hart: int, n: int, value: int) -> None:
        """Set register x1 to x31 of a hart; x0 stays 0. Raises IndexError."""
        self._check(hart, n)
        if n:
            self.m.harts[<int>hart].x[<int>n] = value & 0xFFFFFFFF

    cdef int _check(self, hart, n) except -1:
        if not 0 <= hart < self.m.harts_count or not 0 <= n < 32:
            raise IndexError(f"there is no register x{n} of hart {hart}")
        return 0

    def hart(self, n: int) -> dict:
        """Return the counters of hart n by the names of docs/machine.md.

        They are as of its last instruction; of a halted hart, as of the moment it halted. The result also has the
        hart's pc, the instructions that it retired, whether it was started, and its profile buffer.
        """
        cdef Hart* h
        cdef Core* c
        self._check(n, 0)
        h = &self.m.harts[<int>n]
        c = &self.m.cores[h.core]
        if h.mode < HALTED and h.since < h.free and end_tick(c, h.free) <= self.m.now:
            if h.attention & GIVES_UP and h.gap_end <= h.free:
                end_polling(self.m, c, h)
            settle(self.m, c, h, h.free)
        names = ("epc", "mpci", "mpcx", "kpc", "iopc", "rpc", "spc", "opc", "unhalted", "reference", "c1", "c2", "c3")
        return {
            "pc": h.pc,
            "instret": h.instret,
            "started": h.started,
            "profile_base": h.profile_base,
            "profile_head": h.profile_head,
            "profile_missed": h.profile_missed,
            **{name: h.counters[i] for i, name in enumerate(names)},
        }

    cdef list _cells(self, Account* account, Hart* running, bint is_thread):
        """Return the cells as of now, including the time of the running hart that has not been charged to them yet."""
        cdef int state, r
        cdef Cell cell
        cdef int64_t lost[REASONS]
        cdef int64_t cycle, time = 0, cycles = 0, instructions = 0, stolen = 0, interrupts = 0
        cdef Core* c
        cells = []
        memset(lost, 0, sizeof(lost))
        if running != NULL:
            c = &self.m.cores[running.core]
            stolen = c.clock.stolen - running.since_stolen
            interrupts = c.clock.interrupts - running.since_interrupts
            if self.m.smi_until:
                stolen -= self.m.smi_until - self.m.now
            time = self.m.now - running.since_tick - stolen
            cycle = min(cycle_of(c, self.m.now), NEVER)
            cycles = cycle - running.since
            instructions = running.instret - running.since_instret
            memcpy(lost, running.lost, sizeof(lost))
            self._pending(running, cycle, lost)
        for state in range(STATES):
            memset(&cell, 0, sizeof(cell))
            if account.index[state]:
                cell = account.cells[account.index[state] - 1]
            if running != NULL and state == running.state:
                cell.time += time
                cell.cycles += cycles
                cell.instructions += instructions
                for r in range(REASONS):
                    cell.lost[r] += lost[r]
            if state == SMI:
                cell.time += stolen
                cell.count += interrupts
            if cell.time or cell.cycles or cell.count or cell.instructions:
                cells.append((state, cell.time, cell.cycles, cell.instructions, cell.count, *_lost_of(&cell)))
        return cells

    cdef void _pending(self, Hart* h, int64_t cycle, int64_t* lost) noexcept:
        """Add to ``lost`` the cycles since the hart's last turn that it has already lost."""
        cdef Core* c = &self.m.cores[h.core]
        cdef int64_t ready, until
        if h.mode >= HALTED or h.free >= cycle or not h.started:
            return
        ready = h.ready
        if self.m.strict:
            if ready != NEVER:
                ready = max(ready, c.cycle + 1)
                ready += (h.slot - ready % c.threads + c.threads) % c.threads
                until = min(cycle, ready + 1 - c.threads)
            else:
                until = cycle
            if until > h.free:
                lost[h.reason if h.reason else SLOT] += until - h.free
        else:
            until = min(cycle, max(ready, h.free))
            lost[h.reason] += until - h.free
            lost[SLOT] += cycle - until

    def threads(self) -> list:
        """Return what ran, in order of birth.

        Each is (id, name, birth, end or -1, whether it is a hart without a kernel, cells). A cell is (state, time,
        cycles, instructions, count, stall, memory stall, external stall, (data, refill, slot, fetch, load, store,
        micro-TLB)); the three stalls and the seven reasons are in cycles.
        """
        cdef int i
        cdef Thread* t
        cdef Hart* running
        found = []
        for i in range(self.m.threads_count):
            t = self.m.threads_seen[i]
            running = NULL
            if t.hart >= 0 and t.end < 0:
                running = &self.m.harts[t.hart]
            cells = self._cells(&t.account, running, True)
            if t.hart < 0 and t.end < 0:
                cells = _with_time(cells, t.away, self.m.now - t.since)
            found.append((t.id, (<char*>t.name)[:32].split(b"\0")[0], t.birth, t.end, not t.block, cells))
        return found

    def processors(self) -> list:
        """Return (hart, cells) for every hart."""
        cdef int i
        return [(i, self._cells(&self.m.harts[i].account, &self.m.harts[i], False)) for i in range(self.m.harts_count)]

    def core(self, n: int) -> dict:
        """Return the counters of core n's clock, as of its last change.

        They are the unhalted cycles, the reference ticks, and the ticks in C1, C2 and C3.
        """
        cdef Core* c
        if not 0 <= n < self.m.cores_count:
            raise IndexError(f"there is no core {n}")
        c = &self.m.cores[<int>n]
        names = ("unhalted", "reference", "c1", "c2", "c3")
        return {name: c.counters[UNHALTED + i] for i, name in enumerate(names)}

    def throttled(self, n: int) -> tuple:
        """Return how many ticks the duty cycle of core n has stopped its clock, and how often."""
        cdef int64_t stopped = 0, stops = 0
        if not 0 <= n < self.m.cores_count:
            raise IndexError(f"there is no core {n}")
        count_stops(&self.m.cores[<int>n].clock, self.m.now, &stopped, &stops)
        return stopped, stops

    def transmitted(self) -> bytes:
        """Return what the UART has sent since the last call."""
        sent = (<char*>self.m.sent)[: self.m.sent_count] if self.m.sent_count else b""
        self.m.sent_count = 0
        return sent

    def untransmitted(self) -> bytes:
        """Return the bytes in the UART's transmit queue."""
        cdef Machine* m = self.m
        return bytes([m.sending[(m.sending_head + i) & 15] for i in range(m.sending_count)])

    def end_trace(self) -> None:
        """End the trace: send everything that the trace units hold back. Nothing may run afterwards."""
        cdef Machine* m = self.m
        cdef Core* c
        cdef Hart* h
        cdef int64_t cycle
        cdef int k, i
        for k in range(m.cores_count):
            c = &m.cores[k]
            cycle = min(cycle_of(c, m.now), NEVER)
            for i in range(c.threads):
                h = &c.harts[i]
                if h.attention & (TRACED | LOGGED) and h.started and h.state != UNSTARTED and h.state != HELD \
                        and cycle > h.free:
                    self._end_gap(c, h, cycle)
                if c.trace_unit.etrace:
                    c.trace_unit.port = 0
                    stop_encoder(m, c, h)
                elif h.traced.on:
                    flush(m, c, h)
                    c.trace_unit.port = 0
                    send_group(m, c, h)
            if c.trace_unit.etrace:
                continue
            if c.trace_unit.window:
                c.trace_unit.port = 0
                send_window(m, c, cycle)
            if c.trace_unit.exists:
                # Send the head twice: the first makes the last segment known, and the second makes the first known.
                c.trace_unit.port = 0
                send_head(m, c, cycle, m.now, True)
                send_head(m, c, cycle, m.now, True)

    def trace_so_far(self) -> list:
        """Return for each core what `trace` would if the trace ended now. Nothing changes by it. Raises MemoryError."""
        cdef Machine* m = self.m
        cdef Machine* copied = trace_copy_of(m)
        if copied == NULL:
            raise MemoryError
        self.m = copied
        try:
            self.end_trace()
            return [self.trace(core) for core in range(m.cores_count)]
        finally:
            self.m = m
            free_trace_copy(copied)

    cdef void _end_gap(self, Core* c, Hart* h, int64_t cycle) noexcept:
        """Trace what the hart has done since its last turn, in whole cycles of its own."""
        cdef Machine* m = self.m
        cdef int64_t whole = h.free + (cycle - h.free) // m.quantum * m.quantum, own
        if h.halted:
            h.traced.woken = whole
            watch_sleep(m, c, h, h.free, whole, h.halted)
        elif h.state == WAKING:
            watch_sleep(m, c, h, h.free, whole, h.traced.asleep)
        else:
            own = whole if m.strict else min(max(h.ready, h.free), whole)
            watch_gap(m, c, h, h.free, own - h.free, doing_of(h.reason if h.reason or not m.strict else SLOT))
            watch_gap(m, c, h, own, whole - own, SLOT)

    def trace(self, core: int) -> bytes:
        """Return what has left a core's trace port since the last call, or the contents of its trace buffer."""
        cdef Core* c
        cdef int64_t at
        if not 0 <= core < self.m.cores_count:
            raise IndexError(f"there is no core {core}")
        c = &self.m.cores[<int>core]
        if c.trace_unit.ring:
            at = c.trace_unit.written % c.trace_unit.ring
            if c.trace_unit.written <= c.trace_unit.ring:
                return (<char*>c.trace_unit.bytes)[: c.trace_unit.written]
            return (<char*>c.trace_unit.bytes)[at : c.trace_unit.ring] + (<char*>c.trace_unit.bytes)[:at]
        found = (<char*>c.trace_unit.bytes)[: c.trace_unit.size] if c.trace_unit.size else b""
        c.trace_unit.size = 0
        return found

    def log(self, on: bool = True) -> None:
        """Start a log of what every hart does in each of its cycles; or end it, and forget it."""
        cdef int i
        for i in range(self.m.harts_count):
            if on:
                self.m.harts[i].attention |= LOGGED
            else:
                self.m.harts[i].attention &= ~<uint32_t>LOGGED
        self.m.log.count = 0

    def core_cycle(self, core: int) -> int:
        """Return the cycle of a core's clock that begins now, or next. Raises IndexError."""
        if not 0 <= core < self.m.cores_count:
            raise IndexError(f"there is no core {core}")
        return cycle_of(&self.m.cores[<int>core], self.m.now)

    def logged(self) -> list:
        """Return the log: (hart, cycle of its core, cycles, address, what). Each hart's entries are in time order.

        ``what`` is a code of headway-trace/docs/trace-format.md.
        """
        cdef int64_t i
        cdef Logged* one
        found = []
        for i in range(self.m.log.count):
            one = &self.m.log.entries[i]
            found.append((one.hart, one.cycle, one.cycles, one.address, one.what))
        return found

    def tell_signals(self) -> None:
        """Tell the signals of every cycle from now on. Call it before the machine starts."""
        cdef int i
        self.m.signals.on = 1
        for i in range(self.m.harts_count):
            self.m.harts[i].attention |= SIGNALLED

    def signals(self) -> bytes:
        """Return what was told since the last call: entries of `signals.pxd`, 24 bytes each."""
        found = (<char*>self.m.signals.entries)[: self.m.signals.count * <int64_t>sizeof(Signal)] \
            if self.m.signals.count else b""
        self.m.signals.count = 0
        return found

    def record(self) -> None:
        """Keep rows of what every hart and thread does from now on. Call it before the machine starts."""
        cdef int i
        self.m.rows.on = 1
        for i in range(self.m.harts_count):
            self.m.harts[i].processor_cell.open = i + 1

    def end_record(self) -> None:
        """Keep the rows of what every hart and thread is doing now, as if it ended now. Nothing may run afterwards."""
        cdef Machine* m = self.m
        cdef Thread* t
        cdef int i
        for i in range(m.harts_count):
            tell_span(m, &m.harts[i], m.now, True)
            tell_account(m, &m.harts[i].account, m.now, NULL)
        for i in range(m.threads_count):
            t = m.threads_seen[i]
            if t.end < 0:
                if t.hart < 0:
                    tell_away(m, t, m.now, NULL)
                tell_account(m, &t.account, m.now, t)
        m.rows.on = 0
        if m.stop == STOP_NO_MEMORY:
            raise MemoryError

    @property
    def waiting(self) -> int:
        """The number of rows that `recorded` would return."""
        return self.m.rows.count

    def recorded(self) -> bytes:
        """Return the rows since the last call, as an array of `headway_machine.recording.ROW`."""
        found = (<char*>self.m.rows.entries)[: self.m.rows.count * <int64_t>sizeof(Row)] if self.m.rows.count else b""
        self.m.rows.count = 0
        return found

    def seen(self, first: int = 0) -> list:
        """Return the threads from number ``first`` on, in order of birth, and what each is doing.

        Each is (id, name, birth, end or -1, whether it is a hart without a kernel, hart or -1, state number, since).
        """
        cdef Machine* m = self.m
        cdef Thread* t
        cdef Hart* h
        cdef int i
        found = []
        for i in range(first, m.threads_count):
            t = m.threads_seen[i]
            name = (<char*>t.name)[:32].split(b"\0")[0]
            known = (t.id, name, t.birth, t.end, not t.block)
            if t.hart >= 0:
                h = &m.harts[t.hart]
                found.append((*known, t.hart, h.state, h.told))
            else:
                found.append((*known, -1, t.away, t.since))
        return found

    def block_image(self) -> bytes:
        """Return the current sectors of the block device."""
        return (<char*>self.m.blocks)[: <size_t>self.m.sectors * 512]

    @property
    def losses(self) -> dict:
        """What could not be kept or placed, counted by name of the loss."""
        return {
            "threads_unplaced": self.m.lost_threads,
            "wakes_of_running_threads": self.m.lost_wakes,
            "interrupts_merged": self.m.lost_interrupts,
            "uart_overruns": self.m.uart_lost,
            "profile_records": sum(self.m.harts[i].profile_missed for i in range(self.m.harts_count)),
            **self._trace_losses(),
        }

    def _trace_losses(self):
        if not self.m.cores[0].trace_unit.exists:
            return {}
        return {"trace_groups": sum(self.m.cores[i].trace_unit.groups_lost for i in range(self.m.cores_count))}


cdef tuple _lost_of(Cell* cell):
    """Return stall, memory-stall, external-stall cycles, and (data, refill, slot, fetch, load, store, micro-TLB)."""
    cdef int64_t* lost = cell.lost
    cdef int64_t fetching = lost[FETCH_INTERNAL] + lost[FETCH_EXTERNAL]
    cdef int64_t loading = lost[LOAD_INTERNAL] + lost[LOAD_EXTERNAL]
    cdef int64_t storing = lost[STORE_INTERNAL] + lost[STORE_EXTERNAL]
    cdef int64_t memory = fetching + loading + storing + lost[TLB_MISS]
    cdef int64_t external = lost[FETCH_EXTERNAL] + lost[LOAD_EXTERNAL] + lost[STORE_EXTERNAL]
    cdef int64_t other = lost[DATA] + lost[REFILL] + lost[SLOT]
    reasons = (lost[DATA], lost[REFILL], lost[SLOT], fetching, loading, storing, lost[TLB_MISS])
    return (memory + other, memory, external, reasons)


def csrs() -> dict:
    """Return the control and status registers: by number, the name and the bits that a write reaches."""
    cdef Csr* csr
    cdef int number
    found = {}
    for number in range(CSRS):
        csr = &_csrs[number]
        if csr.reads != ABSENT:
            name = csr.name.decode().format(csr.which) + ("h" if csr.high else "")
            found[number] = (name, csr.bits)
    return found


cdef list _with_time(list cells, int state, int64_t time):
    """Return the cells with ``time`` added to a state."""
    found = [(s, t + time if s == state else t, *rest) for s, t, *rest in cells]
    if not any(s == state for s, *_ in cells) and time:
        found.append((state, time, 0, 0, 0, 0, 0, 0, (0,) * 7))
    return found
