"""The flow of the machine's threads: packets of the six-thread protocol become what each thread did in each cycle.

A core's stream is decoded one segment at a time, and only segments that are as they were sent are trusted. Every thread
has a place of its own in the program and in time, and its packets move it. An E atom is one instruction of the image,
an N atom is a branch that was not taken, and S and W atoms are cycles at the place. A part that is not known is a gap
with a reason, from the last known cycle to the I-sync that ends the gap. Time goes on where only the program is not
known.
"""

from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcpy, memset

from specification.riscv.decode cimport Decoded, decode_half, decode_word
from specification.riscv.encodings cimport Encodings, list_encodings
from specification.riscv.operations cimport BEQ, BGEU, JAL, JALR, MRET, is_link
from headway_trace._records cimport Named, SymbolCells
from headway_trace._text cimport put_address, put_bytes, put_decimal
from specification.six_threads.protocol cimport (
    DIRECT, EXECUTED, JUMP, LONG, MAX_THREADS, MOST_STEPS, NO_TARGET, NOT_TAKEN, TRAPS, TRIGGER_MARK,
)
from headway_trace.threads.packets cimport (
    ALIGNMENT, ATOMS, BRANCH, CHANGED, CHECKED, CLOCKS, CYCLES, KINDS, NOISE, OFF, PROFILED, RESTART, SELECTION,
    STEPPED, SYNC, TRIGGERED, Packet, packet_at, packet_of,
)

__all__ = ["ThreadDecoder", "ThreadRows", "count_packets"]

# How the flow continues after an instruction.
cdef enum:  # Going
    UNSEEN = 0
    PLAIN
    BRANCHING
    CALLING            # JAL
    INDIRECT           # JALR, MRET
    ALTERED            # the program has changed it
    NOTHING            # no bytes are known

cdef enum:
    MANY = 1 << 16     # rows that are given at once
    LINKS = 1          # the instruction is a call
    RETURNS = 2

cdef extern from *:
    """
    #define HEADWAY_LATEST (1LL << 58)  /* cycles of a thread that a stream may reach; 8 times as many fit */
    """
    const int64_t LATEST "HEADWAY_LATEST"

cdef struct Code:
    uint32_t target
    uint8_t going
    uint8_t size
    uint8_t links
    uint8_t unused

cdef struct Region:
    uint32_t start
    uint32_t size
    uint8_t* bytes
    Code* code

cdef struct Place:
    # The place of a thread in the program and in time.
    int64_t cycle        # its next cycle, counted in its own cycles
    uint64_t since       # its cycles since its last instruction
    int64_t gap          # the cycle at which the gap began; -1: not known
    int64_t lost         # the byte of the stream at which the gap began
    uint32_t address
    uint32_t last        # address of its last instruction
    uint32_t base
    uint32_t told
    uint32_t id
    uint32_t target
    uint32_t expected    # target of its indirect jump, unless a packet gives another
    uint32_t depth
    uint32_t returns[16]
    uint32_t stalls[4]
    uint8_t known        # the address is known
    uint8_t timed        # the time is known
    uint8_t waiting      # it waits for the target of an indirect jump
    uint8_t synchronised
    uint8_t broken       # packets are missing: up to an I-sync, no other packet can be trusted
    uint8_t shallow      # calls were missed: a return beyond those that were seen may go anywhere
    uint8_t why

cdef struct State:
    Place places[MAX_THREADS]
    int64_t anchor
    int64_t torn         # the first byte of the stream from which on nothing is known; -1: none
    uint32_t thread
    uint32_t number      # of the next segment
    uint32_t changes
    uint8_t begun
    uint8_t selected
    uint8_t anchored
    uint8_t distrusted   # a change of the program was missed
    uint8_t ended        # the last head ended the trace
    uint8_t cut          # the rest of the last segment is missing, or what was before the first one


cdef Encodings _encodings
list_encodings(&_encodings)


cdef inline uint32_t limited(uint64_t cycles) noexcept nogil:
    """Return a number of cycles, or the largest that fits into a row."""
    return <uint32_t>min(cycles, <uint64_t>0xFFFFFFFF)


cdef class ThreadRows:
    """What the threads did, in the order of each thread's time.

    ``rows[i]`` is (thread, cycle, cycles, address, size, what, id). For an instruction (``what`` 16 or 17), ``cycle``
    is the cycle of the core in which it was issued, None if that is not known, and ``cycles`` the time since the
    thread's instruction before, without gaps. For anything else, they are the first cycle and the number of cycles,
    None if not known. ``size`` is then 0, and for a gap ``address`` and ``id`` are 0, too. A trigger marker has no
    cycles; it is the instruction's that fired, in its last cycle, and its ``address`` is 0 if the thread's place is not
    known.
    """

    def __dealloc__(self):
        free(self.data)
        free(self.spans)

    def __len__(self):
        return self.size

    def __getitem__(self, Py_ssize_t i):
        cdef Row* r
        if not 0 <= i < self.size:
            raise IndexError(i)
        r = &self.data[i]
        cycle = None if r.cycle < 0 else r.cycle
        if r.what >= BEFORE:
            cycles = length_of(r)
            return (r.thread, cycle, None if cycles < 0 else cycles, 0, 0, r.what, 0)
        return (r.thread, cycle, None if cycle is None and not r.cycles else r.cycles, r.address, r.size, r.what, r.id)

    def span(self, Py_ssize_t i):
        """Return the bytes (first, end) behind a gap: from the last known place to the next; None: no gap."""
        if not 0 <= i < self.size:
            raise IndexError(i)
        if self.data[i].what < BEFORE:
            return None
        return self.spans[self.data[i].id].start, self.spans[self.data[i].id].end

    def counts(self):
        """Return the number of rows by code."""
        cdef Py_ssize_t i
        cdef int64_t counts[64]
        memset(counts, 0, sizeof(counts))
        for i in range(self.size):
            counts[self.data[i].what & 63] += 1
        return {i: counts[i] for i in range(64) if counts[i]}

    def find(self, int thread, cycle, int64_t unit):
        """Return the index of the row of what a thread did in a cycle of its core; -1 if there is none."""
        # The clock of another core may run far beyond, so the cycle may be any integer.
        return self.find_cycle(thread, cycle, unit) if 0 <= cycle < 1 << 63 else -1

    cdef Py_ssize_t find_cycle(self, int thread, int64_t cycle, int64_t unit) noexcept nogil:
        cdef Py_ssize_t i
        cdef Row* r
        for i in range(self.size):
            r = &self.data[i]
            if r.thread != thread or r.cycle < 0:
                continue
            if r.what == EXECUTED or r.what == NOT_TAKEN:
                if r.cycle - unit < cycle <= r.cycle:
                    return i
                continue
            if r.cycle <= cycle < r.cycle + length_of(r):
                return i
        return -1

    def chosen(self, uint32_t threads, first, end, int64_t unit):
        """Return the rows of threads (a bit for each) that are in cycles of their core from ``first`` up to ``end``.

        ``end`` is None without a limit; with ``first`` None too, cycles do not matter. ``unit``: cycles of the core in
        one of a thread.
        """
        cdef ThreadRows found = ThreadRows()
        cdef Py_ssize_t i
        cdef Row* r
        cdef int64_t begin, after, low = 0, high = LATEST * 8 - 1
        cdef bint timed = first is not None or end is not None
        if first is not None:
            low = max(0, min(first, high))
        if end is not None:
            high = max(0, min(end, high))
        found.need(self.size + 1)
        for i in range(self.size):
            r = &self.data[i]
            if not threads >> r.thread & 1:
                continue
            if timed:
                if r.cycle < 0:
                    continue
                begin = after = r.cycle
                if r.what == EXECUTED or r.what == NOT_TAKEN:
                    begin -= unit - 1
                elif r.what != TRIGGER_MARK:
                    after += max(length_of(r), <int64_t>1) - 1
                if after < low or begin >= high:
                    continue
            found.data[found.size] = r[0]
            if r.what >= BEFORE:
                found.data[found.size].id = <uint32_t>found.spanned
                found.spans[found.spanned] = self.spans[r.id]
                found.spanned += 1
            found.size += 1
        return found

    def csv(self, bytes stream, int first, list states, list functions, bytes located, SymbolCells texts=None):
        """Return lines with the columns stream, thread, cycle, cycles, address, size, state, symbol.

        ``first``: the number of thread 0. ``states``: a name (bytes) for each code. ``functions``: (start, end, name),
        ordered by start. ``located``: codes of gaps that are shown with the bytes from which they come. With ``texts``
        there is another column: what they have for the address of each instruction.
        """
        cdef Py_ssize_t i, room = 4096, used = 0, names = len(functions), low, high, middle
        cdef char* out = <char*>malloc(room)
        cdef char* larger
        cdef Row* r
        cdef bytes name = b"", word
        cdef Named* text = NULL
        cdef Py_ssize_t more = 0
        cdef uint32_t start = 1, end = 0
        cdef int64_t length
        if out == NULL:
            raise MemoryError
        try:
            for i in range(self.size):
                r = &self.data[i]
                if r.what < BEFORE and not start <= r.address < end:
                    low, high, name = 0, names, b""
                    start, end = r.address, r.address + 1
                    while low < high:
                        middle = (low + high) // 2
                        if functions[middle][0] <= r.address:
                            low = middle + 1
                        else:
                            high = middle
                    if low and r.address < functions[low - 1][1]:
                        start, end, name = functions[low - 1]
                word = states[r.what]
                if r.what >= BEFORE and r.what in located:
                    word += b"[%d:%d]" % (self.spans[r.id].start, self.spans[r.id].end)
                if texts is not None and r.size:
                    text = texts.at(r.address)
                    more = text.length
                if used + 128 + len(stream) + len(word) + len(name) + more > room:
                    room = 2 * room + 256 + len(stream) + len(word) + len(name) + more
                    larger = <char*>realloc(out, room)
                    if larger == NULL:
                        raise MemoryError
                    out = larger
                used += put_bytes(out + used, stream)
                out[used] = c","
                used += 1 + put_decimal(out + used + 1, first + r.thread)
                out[used] = c","
                used += 1
                if r.cycle >= 0:
                    used += put_decimal(out + used, r.cycle)
                out[used] = c","
                used += 1
                if r.what >= BEFORE:
                    length = length_of(r)
                    if length >= 0:
                        used += put_decimal(out + used, length)
                    used += put_bytes(out + used, b",,0,")
                else:
                    if r.cycles or r.cycle >= 0:
                        used += put_decimal(out + used, r.cycles)
                    out[used] = c","
                    used += 1
                    if r.address or r.what != TRIGGER_MARK:
                        used += put_address(out + used, r.address)
                    out[used] = c","
                    used += 1 + put_decimal(out + used + 1, r.size)
                    out[used] = c","
                    used += 1
                used += put_bytes(out + used, word)
                out[used] = c","
                used += 1
                if r.what < BEFORE:
                    used += put_bytes(out + used, name)
                if texts is not None:
                    out[used] = c","
                    used += 1
                    if r.size:
                        memcpy(out + used, text.name, text.length)
                        used += text.length
                out[used] = c"\n"
                used += 1
            return out[:used]
        finally:
            free(out)

    cdef int need(self, Py_ssize_t more) except -1:
        """Make room for ``more`` rows and gaps."""
        cdef Row* larger
        cdef Span* longer
        if self.spanned + more > self.spans_room:
            self.spans_room = max(2 * self.spans_room, self.spanned + more)
            longer = <Span*>realloc(self.spans, self.spans_room * sizeof(Span))
            if longer == NULL:
                raise MemoryError
            self.spans = longer
        if self.size + more > self.room:
            self.room = max(2 * self.room, self.size + more, 4096)
            larger = <Row*>realloc(self.data, self.room * sizeof(Row))
            if larger == NULL:
                raise MemoryError
            self.data = larger
        return 0


def count_packets(bytes data, bint waypoints=False):
    """Return the number of packets by kind in a whole segment; bytes that are no packet count as kind 0.

    ``waypoints``: it is of a trace without cycles that tells of waypoints only.
    """
    cdef const uint8_t* p = data
    cdef const uint8_t* end = p + len(data)
    cdef int64_t counts[KINDS]
    cdef Packet packet
    cdef long n
    memset(counts, 0, sizeof(counts))
    with nogil:
        while p < end:
            n = packet_of(p, end, waypoints, &packet)
            if not n:
                counts[NOISE] += end - p
                break
            counts[packet.kind] += 1
            p += n
    return [counts[i] for i in range(KINDS)]


cdef class ThreadDecoder:
    """The decoder of the threads of one core.

    ``program``: (address, bytes) of what was loaded. ``strict``: the threads take strict turns, so that each cycle of a
    thread stands for as many cycles of the core as it has threads, otherwise for one. ``stalls``: make rows also for
    cycles in which nothing was executed.
    """

    cdef Region regions[64]
    cdef int regions_count
    cdef Region* region
    cdef State state
    cdef int threads
    cdef int64_t unit
    cdef bint cycle_accurate, stalls, waypoints
    cdef bytes data            # of the segment that is being decoded
    cdef Py_ssize_t at         # the next byte of it
    cdef Py_ssize_t limit      # rows from which on the rest waits for `more`
    cdef int64_t place         # and its place in the stream
    cdef ThreadRows rows
    cdef list clocks, windows, marks
    # Where in the stream the current packet begins and ends, and where the segment ends.
    cdef int64_t begun, after, end
    cdef readonly int64_t contradictions, triggers

    def __cinit__(self):
        memset(self.regions, 0, sizeof(self.regions))
        memset(&self.state, 0, sizeof(self.state))

    def __init__(
        self, program, *, int threads, bint strict, bint cycle_accurate, bint stalls=False, bint waypoints=False
    ):
        cdef int i
        if self.rows is not None or not 1 <= threads <= MAX_THREADS:
            raise ValueError(threads)
        for address, data in program:
            self.add_region(address, data)
        self.region = &self.regions[0]
        self.threads, self.unit = threads, threads if strict else 1
        self.cycle_accurate, self.stalls, self.waypoints = cycle_accurate, stalls, waypoints
        self.rows = ThreadRows()
        self.clocks = []
        self.windows = []
        self.marks = []
        self.state.torn = -1
        for i in range(MAX_THREADS):
            self.state.places[i].gap = 0
            self.state.places[i].why = BEFORE

    def __dealloc__(self):
        cdef int i
        for i in range(64):
            free(self.regions[i].bytes)
            free(self.regions[i].code)

    cdef int add_region(self, uint32_t address, bytes data) except -1:
        cdef Region* r
        if self.regions_count == 64:
            raise ValueError("more than 64 segments")
        if not len(data):
            return 0
        r = &self.regions[self.regions_count]
        r.start, r.size = address, <uint32_t>len(data)
        r.bytes = <uint8_t*>malloc(len(data))
        r.code = <Code*>calloc(len(data) // 2 + 1, sizeof(Code))
        if r.bytes == NULL or r.code == NULL:
            raise MemoryError
        memcpy(r.bytes, <const uint8_t*>data, <size_t>len(data))
        self.regions_count += 1
        return 0

    # --- the program ---

    cdef inline Code* code_at(self, uint32_t address) noexcept nogil:
        """Return the instruction at the address; NULL if none is known there."""
        cdef Code* code
        cdef int i
        if address - self.region.start >= self.region.size:
            for i in range(self.regions_count):
                if address - self.regions[i].start < self.regions[i].size:
                    self.region = &self.regions[i]
                    break
            else:
                return NULL
        code = &self.region.code[(address - self.region.start) >> 1]
        if code.going == UNSEEN:
            self.look(code, address)
        return code

    cdef void look(self, Code* code, uint32_t address) noexcept nogil:
        cdef uint32_t offset = address - self.region.start, word = 0
        cdef Decoded d
        code.going = NOTHING
        if offset + 2 > self.region.size:
            return
        memcpy(&word, self.region.bytes + offset, 2)
        if word & 3 == 3:
            if offset + 4 > self.region.size:
                return
            memcpy(&word, self.region.bytes + offset, 4)
            decode_word(&_encodings, &d, word)
        else:
            decode_half(&d, <uint16_t>word)
        code.size = d.size
        code.target = address + <uint32_t>d.immediate
        if BEQ <= d.operation <= BGEU:
            code.going = BRANCHING
        elif d.operation == JAL:
            code.going = CALLING
            code.links = LINKS if is_link(d.rd) else 0
        elif d.operation == JALR:
            code.going = INDIRECT
            code.links = LINKS if is_link(d.rd) else RETURNS if is_link(d.rs1) else 0
        elif d.operation == MRET:
            code.going = INDIRECT
        else:
            code.going = PLAIN

    cdef void forget_code(self, uint32_t address) noexcept nogil:
        cdef Code* code = self.code_at(address)
        if code != NULL:
            code.going = ALTERED

    # --- rows ---

    cdef inline int64_t core_cycle(self, int thread, int64_t cycle) noexcept nogil:
        """Return the cycle of the core in which a cycle of the thread begins."""
        return cycle if self.unit == 1 else cycle * self.unit + thread + 1 - self.unit

    cdef inline void add(self, int thread, Place* t, int what, uint32_t cycles) noexcept nogil:
        """Add a row for something other than an instruction, from the thread's cycle on."""
        cdef Row* r = &self.rows.data[self.rows.size]
        self.rows.size += 1
        r.cycle = self.core_cycle(thread, t.cycle) if t.timed else -1
        r.cycles = limited(cycles * <uint64_t>self.unit)
        r.address = t.last if what == LONG else t.address
        r.id = t.id
        r.thread = <uint8_t>thread
        r.size = 0
        r.what = <uint8_t>what
        r.unused = 0

    cdef void close_gap(self, int thread, Place* t, bint timed) noexcept nogil:
        """Add a row for the time in which the thread was not known, which ends here."""
        cdef Row* r
        cdef int64_t length = -1
        if timed and t.gap >= 0:
            length = (t.cycle - t.gap) * self.unit
            if not length:
                return
            if length < 0:
                # Bytes came twice or out of order.
                length = t.gap = -1
        r = &self.rows.data[self.rows.size]
        self.rows.size += 1
        r.cycle = self.core_cycle(thread, t.gap) if t.gap >= 0 else -1
        if t.gap == 0 and r.cycle < 0:
            # In strict turn, a thread's first cycle is incomplete.
            length += r.cycle if length > 0 else 0
            r.cycle = 0
        r.cycles, r.address = <uint32_t>length, <uint32_t>(<uint64_t>length >> 32)
        r.id = <uint32_t>self.rows.spanned
        self.rows.spans[r.id].start, self.rows.spans[r.id].end = t.lost, max(t.lost, min(self.after, self.end))
        self.rows.spanned += 1
        r.thread = <uint8_t>thread
        r.size = 0
        r.what = t.why
        r.unused = 0

    cdef void lose(self, Place* t, int why, bint time_too) noexcept nogil:
        """Begin a part in which it is not known what the thread does."""
        if t.known or not t.synchronised:
            t.gap = t.cycle if t.timed else -1
            t.lost = self.begun
            t.why = <uint8_t>why
        elif time_too and t.why < DAMAGE:
            t.why = <uint8_t>why
        t.known = 0
        t.waiting = 0
        if time_too:
            t.timed = 0
            t.broken = 1

    # --- atoms ---

    cdef inline bint settle(self, Place* t) noexcept nogil:
        """Take the expected target of an indirect jump without a packet. Return False if no target is expected."""
        t.waiting = 0
        if t.expected == NO_TARGET:
            self.contradictions += not t.shallow
            self.lose(t, t.why if t.shallow else CONTRADICTION, False)
            return False
        t.address = t.target = t.expected
        return True

    cdef void execute(self, int thread, Place* t, int count, bint taken) noexcept nogil:
        """Execute E atoms, or one N atom."""
        cdef Code* code
        cdef Row* r
        cdef int _
        for _ in range(count):
            if t.waiting and not self.settle(t):
                pass
            if not t.known:
                t.cycle += 1
                continue
            code = self.code_at(t.address)
            if code == NULL or code.going >= ALTERED:
                self.lose(t, CODE if code != NULL and code.going == ALTERED else IMAGE, False)
                t.cycle += 1
                continue
            if not taken and code.going != BRANCHING:
                self.contradictions += 1
                self.lose(t, CONTRADICTION, False)
                t.cycle += 1
                continue
            r = &self.rows.data[self.rows.size]
            self.rows.size += 1
            r.cycle = self.core_cycle(thread, t.cycle) + self.unit - 1 if t.timed else -1
            t.since += 1
            r.cycles = limited(t.since * <uint64_t>self.unit) if self.cycle_accurate else 0
            r.address = t.address
            r.id = t.id
            r.thread = <uint8_t>thread
            r.size = code.size
            r.what = EXECUTED if taken else NOT_TAKEN
            r.unused = 0
            t.since = 0
            t.cycle += 1
            t.last = t.address
            if code.going == PLAIN or not taken:
                t.address += code.size
            elif code.going == INDIRECT:
                t.waiting = 1
                t.expected = t.target
                if code.links == RETURNS and t.depth:
                    t.depth -= 1
                    t.expected = t.returns[t.depth & 15]
                elif code.links == RETURNS and t.shallow:
                    t.expected = NO_TARGET
                elif code.links == LINKS:
                    t.returns[t.depth & 15] = t.address + code.size
                    t.depth += 1
            else:
                if code.links:
                    t.returns[t.depth & 15] = t.address + code.size
                    t.depth += 1
                t.address = code.target

    cdef void stand(self, int thread, Place* t, uint32_t reason, uint32_t cycles) noexcept nogil:
        """Add S and W atoms: cycles at the place."""
        if t.waiting:
            self.settle(t)
        if self.stalls and t.known:
            self.add(thread, t, <int>reason, cycles)
        t.cycle += cycles
        t.since += cycles
        if t.cycle >= LATEST:
            # No trace unit counts so far, so the time is not known.
            self.contradictions += 1
            self.lose(t, CONTRADICTION, True)
            t.cycle = 0

    cdef void remember(self, Place* t, uint32_t stall) noexcept nogil:
        cdef int i = 0, j
        while i < 3 and t.stalls[i] != stall:
            i += 1
        for j in range(i, 0, -1):
            t.stalls[j] = t.stalls[j - 1]
        t.stalls[0] = stall

    cdef void atoms(self, int thread, Place* t, uint32_t header) noexcept nogil:
        if not header & 4:
            if not header & 2:
                self.execute(thread, t, <int>(header >> 3 & 15) + 1, True)
                return
            self.execute(thread, t, <int>(header >> 3 & 15), True)
            self.execute(thread, t, 1, False)
            return
        if header & 0x40:
            self.execute(thread, t, 1, True)
            self.stall_again(thread, t, header >> 4 & 3)
            self.execute(thread, t, 1, True)
        else:
            self.execute(thread, t, <int>(header >> 4 & 3), True)
        self.stall_again(thread, t, (header >> 2 & 2) | (header >> 1 & 1))

    cdef void stall_again(self, int thread, Place* t, uint32_t place) noexcept nogil:
        """Repeat one of the thread's last four short stalls."""
        cdef uint32_t stall = t.stalls[place]
        if t.broken:
            return
        if stall == 0xFFFFFFFFu:
            self.contradictions += 1
            self.lose(t, CONTRADICTION, True)
            return
        self.remember(t, stall)
        self.stand(thread, t, stall >> 8, (stall & 0xFF) + 1)

    # --- packets ---

    cdef Row* executed(self, int thread, Place* t, Code* code, int what) noexcept nogil:
        """Add the instruction at the place, of a trace without cycles. Return NULL if there is no memory."""
        cdef Row* r
        if self.rows.size + 64 > self.rows.room and self.grow():
            return NULL
        r = &self.rows.data[self.rows.size]
        self.rows.size += 1
        r.cycle = -1
        r.cycles = 0
        r.address = t.last = t.address
        r.id = t.id
        r.thread = <uint8_t>thread
        r.size = code.size
        r.what = <uint8_t>what
        r.unused = 0
        return r

    cdef bint grow(self) noexcept nogil:
        """Make room for more rows. Return whether there is no memory."""
        with gil:
            try:
                self.rows.need(MANY)
            except MemoryError:
                return True
        return False

    cdef Code* straight(self, int thread, Place* t, int most, bint all_of_them) noexcept nogil:
        """Execute instructions that are no waypoints: up to the next waypoint, which is returned, or ``most`` of them.

        Return NULL if that is not possible, and after all of them.
        """
        cdef Code* code
        while True:
            code = self.code_at(t.address)
            if code == NULL or code.going >= ALTERED:
                self.lose(t, CODE if code != NULL and code.going == ALTERED else IMAGE, False)
                return NULL
            if code.going == BRANCHING or code.going == INDIRECT:
                if all_of_them:
                    self.contradictions += 1
                    self.lose(t, CONTRADICTION, False)
                    return NULL
                return code
            if not most:
                self.contradictions += 1
                self.lose(t, CONTRADICTION, False)
                return NULL
            if self.executed(thread, t, code, EXECUTED) == NULL:
                return NULL
            most -= 1
            if code.going == CALLING:
                if code.links:
                    t.returns[t.depth & 15] = t.address + code.size
                    t.depth += 1
                t.address = code.target
            else:
                t.address += code.size
            if all_of_them and not most:
                return NULL

    cdef void steps(self, int thread, Place* t, int count) noexcept nogil:
        """Execute as many instructions as there were since the last waypoint."""
        if t.known:
            self.straight(thread, t, count, True)

    cdef bint leap(self, int thread, Place* t, Code* code) noexcept nogil:
        """Execute the indirect jump at the place, and find where a decoder expects it to go."""
        if self.executed(thread, t, code, EXECUTED) == NULL:
            return False
        t.expected = t.target
        if code.links == RETURNS and t.depth:
            t.depth -= 1
            t.expected = t.returns[t.depth & 15]
        elif code.links == RETURNS and t.shallow:
            t.expected = NO_TARGET
        elif code.links == LINKS:
            t.returns[t.depth & 15] = t.address + code.size
            t.depth += 1
        return True

    cdef void outcome(self, int thread, Place* t, bint taken) noexcept nogil:
        """Execute up to the next waypoint, and the waypoint."""
        cdef Code* code
        if not t.known:
            return
        code = self.straight(thread, t, MOST_STEPS, False)
        if code == NULL:
            return
        if code.going == BRANCHING:
            if self.executed(thread, t, code, EXECUTED if taken else NOT_TAKEN) != NULL:
                t.address = code.target if taken else t.address + code.size
        elif not taken:
            self.contradictions += 1
            self.lose(t, CONTRADICTION, False)
        elif self.leap(thread, t, code):
            self.settle(t)

    cdef void branch(self, int thread, Place* t, Packet* p) noexcept nogil:
        cdef uint32_t mask = (<uint32_t>((<uint64_t>1 << p.bits) - 1)) << 1, address
        cdef bint trap, direct
        cdef Code* code
        address = p.value & mask | t.base & ~mask
        if p.told != 0xFFFFFFFFu:
            t.told = p.told
        direct = (t.told >> 1 & 3) == DIRECT
        trap = not direct and (t.told >> 1 & 3) != JUMP
        if direct:
            # The atom before it has gone there already.
            if t.waiting:
                self.settle(t)
            if t.known and t.address != address:
                self.contradictions += 1
                self.lose(t, CONTRADICTION, False)
        elif trap:
            if t.waiting:
                self.settle(t)
            if self.stalls and t.known:
                self.add(thread, t, TRAPS, 1)
            t.cycle += 1
            t.since += 1
        else:
            if self.waypoints and t.known:
                code = self.straight(thread, t, MOST_STEPS, False)
                if code != NULL and code.going == INDIRECT:
                    self.leap(thread, t, code)
                elif code != NULL:
                    self.contradictions += 1
                    self.lose(t, CONTRADICTION, False)
            elif t.known and not t.waiting:
                self.contradictions += 1
            t.target = address
        if p.has_id:
            t.id = p.id
        t.waiting = 0
        t.base = address
        if not t.synchronised or t.broken:
            return
        if not t.known:
            self.close_gap(thread, t, t.timed)
            t.known = t.shallow = 1
            t.depth = 0
            t.since = 0
            if trap or direct:
                t.target = NO_TARGET
        t.address = address

    cdef void sync(self, int thread, Place* t, Packet* p) noexcept nogil:
        """Do an I-sync, which gives the place of the thread and, unless its count has lost its base, the time."""
        cdef State* s = &self.state
        cdef int64_t now = -1
        cdef int why = t.why
        if p.timed == 2:
            now = <int64_t>p.count
        elif p.timed == 1 and s.anchored and p.count != 0xFFFF and s.anchor < LATEST:
            now = s.anchor + <int64_t>p.count
        if now >= 0:
            s.anchor, s.anchored = now, 1
        if t.waiting and p.kind != RESTART:
            self.settle(t)
        t.waiting = 0
        if p.kind == RESTART:  # a packet with the target of a jump may be among those that were lost
            why = OVERFLOW if p.reason == 2 else UNTRACED
            if t.known:
                self.lose(t, why, True)
            elif t.synchronised and t.why == UNTRACED:
                t.why = <uint8_t>why
            elif not t.synchronised and s.begun == 2 and t.why == BEFORE:
                t.why = UNTRACED
        elif t.known and (t.address != p.value or t.timed and now >= 0 and now != t.cycle):
            self.contradictions += 1
            self.lose(t, CONTRADICTION, True)
        if now >= 0:
            t.cycle = now
        if not t.known:
            self.close_gap(thread, t, now >= 0 or t.timed)
            t.since = 0
        if now >= 0:
            t.timed = 1
        elif p.kind == RESTART:
            t.timed = 0
        t.known = t.synchronised = 1
        t.broken = t.shallow = 0
        t.address = t.base = p.value
        t.id = p.id
        t.told = 0
        t.target = NO_TARGET
        t.depth = 0
        memset(t.stalls, 0xFF, sizeof(t.stalls))

    cdef int segment(self, const uint8_t* p, const uint8_t* end) except -1:
        """Decode packets of a whole segment until there are many rows.

        If the segment was mended, its places are exact to a few bytes.
        """
        cdef State* s = &self.state
        cdef const uint8_t* first = p
        cdef int64_t offset = self.place
        p += self.at
        cdef Packet packet
        cdef Place* t = NULL
        cdef long n
        cdef int i
        packet.count = packet.tick = packet.running = 0
        while p < end:
            self.at, self.place = p - first, offset
            if self.rows.size >= self.limit:
                return 0
            n = packet_of(p, end, self.waypoints, &packet)
            if not n:
                self.at = end - first
                # The trace unit sends no such bytes: this is another protocol, or another version of it.
                self.contradictions += 1
                self.lose_all(CONTRADICTION)
                return 0
            self.begun = offset
            offset += n
            self.after = offset
            p += n
            if self.rows.size + 64 > self.rows.room or self.rows.spanned + 64 > self.rows.spans_room:
                self.rows.need(64)
            if packet.kind == ALIGNMENT:
                s.selected = 0
                s.anchor, s.anchored = <int64_t>packet.count // self.unit, 1
                s.ended = <uint8_t>packet.ends
                if packet.changes != s.changes:
                    s.distrusted = 1
                self.add_clock(&packet)
                continue
            if packet.kind == CHECKED:
                continue
            if packet.kind == CLOCKS:
                self.add_clock(&packet)
                continue
            if packet.kind == CHANGED:
                s.changes += 1
                self.forget_code(packet.value)
                continue
            if packet.kind == PROFILED:
                self.windows.append((packet.count, *[packet.profile[i] for i in range(6)]))
                continue
            if packet.kind == SELECTION or packet.kind == SYNC or packet.kind == RESTART:
                if packet.thread >= <uint32_t>self.threads:
                    self.at = end - first
                    self.contradictions += 1
                    self.lose_all(CONTRADICTION)
                    return 0
                s.thread, s.selected = packet.thread, 1
                t = &s.places[s.thread]
                if packet.kind != SELECTION:
                    self.sync(<int>s.thread, t, &packet)
                    if s.distrusted:
                        self.lose(t, CODE, False)
                continue
            if not s.selected:
                self.at = end - first
                self.contradictions += 1
                self.lose_all(CONTRADICTION)
                return 0
            t = &s.places[s.thread]
            if packet.kind == TRIGGERED:
                self.mark(<int>s.thread, t)
            elif packet.kind == ATOMS and self.waypoints:
                for i in range(<int>packet.bits):
                    self.outcome(<int>s.thread, t, packet.outcomes >> i & 1)
            elif packet.kind == STEPPED:
                self.steps(<int>s.thread, t, <int>packet.count)
            elif packet.kind == ATOMS:
                self.atoms(<int>s.thread, t, packet.value)
            elif packet.kind == CYCLES:
                if packet.value <= 256:
                    self.remember(t, packet.reason << 8 | (packet.value - 1))
                self.stand(<int>s.thread, t, packet.reason, packet.value)
            elif packet.kind == BRANCH:
                self.branch(<int>s.thread, t, &packet)
                if s.distrusted:
                    self.lose(t, CODE, False)
            elif packet.kind == OFF:
                if t.waiting:
                    self.settle(t)
                self.lose(t, UNTRACED, True)
        self.at = end - first
        return 0

    cdef int mark(self, int thread, Place* t) except -1:
        """Add a row for a trigger marker, which follows the instruction that fired."""
        cdef Row* r = &self.rows.data[self.rows.size]
        self.rows.size += 1
        self.triggers += 1
        r.cycle = self.core_cycle(thread, t.cycle) - 1 if t.known and t.timed else -1
        r.cycles = 0
        r.address = t.last if t.known else 0
        r.id = t.id if t.known else 0
        r.thread = <uint8_t>thread
        r.size = 0
        r.what = TRIGGER_MARK
        r.unused = 0
        if r.cycle >= 0:
            self.marks.append((thread, r.cycle))
        return 0

    cdef int add_clock(self, Packet* p) except -1:
        """Keep a clock packet, unless it is a head that repeats what is known of a clock at full speed."""
        cdef tuple last
        cdef tuple now = (p.count, p.tick, p.speed, p.running, p.kind == CLOCKS)
        if self.clocks and p.kind != CLOCKS:
            last = self.clocks[len(self.clocks) - 1]
            if last[2:4] == now[2:4] and now[2] == 16 and now[1] - now[0] == last[1] - last[0]:
                return 0
        self.clocks.append(now)
        return 0

    cdef void lose_all(self, int why) noexcept nogil:
        cdef int i
        for i in range(self.threads):
            self.lose(&self.state.places[i], why, True)
        self.state.anchored = 0
        self.state.selected = 0

    def feed(self, segment):
        """Decode one segment, or its beginning, if it stands for many rows: `more` decodes the rest.

        Rows are added only for segments that are certain.
        """
        cdef State* s = &self.state
        while self.more():
            pass
        if not segment.whole:
            if s.torn < 0:
                s.torn = segment.offset
            if not s.begun and (segment.offset or segment.number >= 0):
                s.cut = 1
            return
        # Compare numbers, because unknown bytes may not be part of any segment that was sent.
        if (s.cut or segment.number != <int>(s.number & 0xFFFF)) if s.begun else (s.cut and segment.number):
            self.tear(segment.offset)
        s.torn = -1
        if not s.begun:
            s.begun = 2 if segment.number == 0 else 1
        s.number = <uint32_t>segment.number + 1
        s.cut = segment.cut
        self.data, self.at, self.place = segment.data, 0, segment.offset
        self.limit = self.rows.size + MANY
        self.end = segment.end
        self.segment(self.data, <const uint8_t*>self.data + len(self.data))

    def more(self):
        """Decode more of the last segment, after the rows have been taken. Return whether there was more of it."""
        if self.data is None or self.at >= len(self.data):
            return False
        self.limit = self.rows.size + MANY
        self.segment(self.data, <const uint8_t*>self.data + len(self.data))
        return True

    cdef void tear(self, int64_t offset) noexcept nogil:
        """Report that something is missing before that byte of the stream."""
        self.begun = self.state.torn if self.state.torn >= 0 else offset
        self.lose_all(DAMAGE)

    def take(self):
        """Return the rows since the last call."""
        cdef ThreadRows found = self.rows
        self.rows = ThreadRows()
        return found

    def finish(self, segment=None):
        """End the stream, with the segment after the last A-sync; close the gaps that are still open."""
        cdef int i
        cdef Place* t
        cdef Packet packet
        cdef const uint8_t* p
        cdef bytes data
        cdef bint closed
        while self.more():
            pass
        closed = self.state.ended
        self.rows.need(MAX_THREADS)
        self.begun = self.after = self.end
        if segment is not None:
            self.begun = segment.offset
            self.after = self.end = segment.end
        if self.state.torn >= 0:
            self.tear(self.begun)
        if segment is not None and segment.number >= 0 and self.state.number & 0xFFFF == segment.number:
            # If of the last two heads only the second is damaged, the first is here.
            data = segment.data
            p = data
            closed |= packet_at(p, p + len(data), &packet) > 0 and packet.ends
        for i in range(self.threads):
            t = &self.state.places[i]
            if t.waiting:
                self.settle(t)
            if t.known and not closed:
                self.lose(t, CUT_OFF, True)
            if not t.known and (t.synchronised or not closed or t.why >= DAMAGE):
                self.close_gap(i, t, False)

    def changes_of_clock(self):
        """Return how the core's clock runs from each cycle on, in the form that `Clock` takes.

        Each is (cycle, tick, speed in sixteenths, ticks of a window in which it runs, whether it changed there; if not,
        a head repeats it).
        """
        return list(self.clocks)

    def profile(self):
        """Return the profile's windows since the last call.

        Each is (cycle of the core at which it ended, data-cache misses, their cycles, instruction-cache misses, their
        cycles, micro-TLB misses, all stall cycles). It includes the windows before it that were not sent, because they
        counted nothing or found no room.
        """
        found, self.windows = self.windows, []
        return found

    def markers(self):
        """Return the trigger markers of known time since the last call: thread, and cycle of the core."""
        found, self.marks = self.marks, []
        return found

    def save(self):
        """Return the current state, as bytes, with which another decoder can continue from here."""
        return (<char*>&self.state)[: sizeof(State)], self.contradictions

    def load(self, saved):
        """Continue from a state that `save` returned. Raises ValueError if it has another size."""
        cdef bytes data = saved[0]
        if len(data) != sizeof(State):
            raise ValueError(len(data))
        memcpy(&self.state, <const char*>data, sizeof(State))

    def reasons(self):
        """Return for each thread the code of why its place is not known; None if it is known."""
        cdef int i
        return [None if self.state.places[i].known else self.state.places[i].why for i in range(self.threads)]

    def times(self):
        """Return for each thread the cycle of the core up to which its time is known; None if it is not."""
        cdef int i
        return [
            self.core_cycle(i, self.state.places[i].cycle) if self.state.places[i].timed else None
            for i in range(self.threads)
        ]
