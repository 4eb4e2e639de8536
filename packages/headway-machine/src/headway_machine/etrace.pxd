"""The encoder of E-Trace: what a hart retires becomes te_inst packets ("Efficient Trace for RISC-V" 2.0, chapter 10).

Each hart is a source. An encoder looks at three instructions at a time: the current one, that before it and that after
it. A trap that retires nothing takes the place of an instruction. Packets are encapsulated as "Unformatted Trace &
Diagnostic Data Packet Encapsulation for RISC-V" recommends.

A loop without a branch, and a function that returns where nothing needs to be sent, come to the same address more than
once. So that a decoder cannot stop too early, the encoder reports the last backward jump or return, with the bit
`notify`, before it comes again, and before anything that depends on the place.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memset

from .architecture cimport *
from .port cimport fill, fits, have_room, id_of, keep_byte
from .structures cimport Core, Decoded, Encoder, Hart, Machine, Traced, TraceUnit, Watched

cdef enum:  # Of Watched.kind
    ABSENT = 0
    RETIRED = 1
    TRAPPED = 2

cdef enum:  # Options, as bits of ioptions
    IMPLICIT_RETURN = 1
    FULL_ADDRESS = 4
    JUMP_TARGET_CACHE = 8
    BRANCH_PREDICTION = 16
    SEQUENTIAL_JUMP = 32
    OPTION_BITS = 6

cdef enum:  # The parameters
    CONTEXT_BITS = 32
    TIME_BITS = 48
    CAUSE_BITS = 4
    ADDRESS_BITS = 31
    PREDICTOR_BITS = 9
    CACHE_BITS = 6
    RETURN_BITS = 4
    DEPTH_BITS = 5
    RETURN_STACK = 16

cdef enum:
    MAP_FULL = 31
    MARKS = 8
    LONGEST_PACKET = 40
    LOST = 2
    ENDED_REPORTED = 1
    # As many null packets in a row can be within a packet; one more makes a synchronisation sequence.
    NULLS = 32
    # In as many periods there is one such sequence.
    NULLS_EVERY = 4
    # Instructions between two synchronisation packets, however few bytes they take.
    MOST_RETIRED = 1 << 16

ctypedef struct Payload:
    uint64_t words[5]
    uint32_t bits


# --- packets ---

cdef inline void put(Payload* p, uint64_t value, uint32_t bits) noexcept nogil:
    """Add up to 48 bits."""
    cdef uint32_t word = p.bits >> 6, shift = p.bits & 63
    value &= (<uint64_t>1 << bits) - 1
    p.words[word] |= value << shift
    if shift + bits > 64:
        p.words[word + 1] |= value >> (64 - shift)
    p.bits += bits


cdef inline uint32_t bit_of(Payload* p, uint32_t bit) noexcept nogil:
    return <uint32_t>(p.words[bit >> 6] >> (bit & 63)) & 1


cdef inline void send_nulls(Machine* m, Core* c) noexcept nogil:
    """Send a synchronisation sequence, after which a packet begins whatever came before."""
    cdef TraceUnit* u = &c.trace_unit
    cdef int _
    if not fits(c, NULLS + 1) or not have_room(m, u, NULLS + 1):
        return
    for _ in range(NULLS):
        keep_byte(u, 0)
    keep_byte(u, 0x80)
    fill(u, NULLS + 1)


cdef inline bint send_payload(Machine* m, Core* c, Hart* h, Payload* p) noexcept nogil:
    """Send a packet, without the bits at its end that repeat the one before them. Return whether there was room."""
    cdef TraceUnit* u = &c.trace_unit
    cdef Encoder* e = h.encoder
    cdef uint32_t last = bit_of(p, p.bits - 1), size, i, bits = p.bits
    cdef uint8_t byte
    if e.lost:
        return False
    while bits > 1 and bit_of(p, bits - 2) == last:
        bits -= 1
    size = (bits + 7) // 8
    if not fits(c, size + 2):
        e.lost = 1
        u.groups_lost += 1
        return False
    if not have_room(m, u, size + 2):
        return False
    keep_byte(u, <uint8_t>size)
    keep_byte(u, <uint8_t>h.number)
    for i in range(size):
        byte = <uint8_t>(p.words[i >> 3] >> (8 * (i & 7)))
        if last and 8 * i + 8 > p.bits:
            byte |= <uint8_t>(0xFF << (p.bits - 8 * i))
        keep_byte(u, byte)
    fill(u, size + 2)
    e.sent += size + 2
    return True


cdef inline void send_support(Machine* m, Core* c, Hart* h, uint32_t enabled, uint32_t status) noexcept nogil:
    cdef Payload p
    memset(&p, 0, sizeof(p))
    put(&p, 0xF, 4)
    put(&p, enabled, 1)
    put(&p, 0, 1)
    put(&p, status, 2)
    put(&p, c.trace_unit.etrace_options, OPTION_BITS)
    put(&p, 0, 6)
    send_payload(m, c, h, &p)


cdef inline void forget(Encoder* e) noexcept nogil:
    """Reset what a decoder that begins with a synchronisation packet cannot know."""
    e.branches = e.map = 0
    e.predicted = 1
    e.failed = 0
    e.depth = 0
    e.sent = e.retired = 0
    e.due = 0
    e.marked = 0
    e.returned = 0
    memset(e.predictor, 1, sizeof(e.predictor))
    memset(e.cache, 0, sizeof(e.cache))


cdef inline void put_place(Core* c, Payload* p, Watched* at) noexcept nogil:
    put(p, at.branch != 1, 1)
    put(p, at.privilege, 2)
    if c.trace_unit.etrace_timed:
        put(p, <uint64_t>at.time, TIME_BITS)
    put(p, at.context, CONTEXT_BITS)


cdef inline void put_map(Payload* p, Encoder* e, uint32_t* last) noexcept nogil:
    cdef uint32_t many = e.branches
    cdef uint32_t bits = 31 if many > 15 else 15 if many > 7 else 7 if many > 3 else 3 if many > 1 else many
    put(p, e.branches, 5)
    put(p, e.map, bits)
    last[0] = bit_of(p, p.bits - 1)


cdef inline void put_depth(Core* c, Payload* p, uint32_t last, bint reported, uint32_t depth) noexcept nogil:
    put(p, last ^ reported, 1)
    if reported:
        put(p, depth, DEPTH_BITS)
    else:
        put(p, 0x1F if last else 0, DEPTH_BITS)


cdef inline void put_address(
    Core* c, Payload* p, Encoder* e, uint32_t address, bint notify, bint updiscon, bint reported, uint32_t depth
) noexcept nogil:
    cdef uint32_t value = address if c.trace_unit.etrace_options & FULL_ADDRESS else address - e.base
    cdef uint32_t last = value >> 31
    put(p, value >> 1, ADDRESS_BITS)
    last ^= notify
    put(p, last, 1)
    last ^= updiscon
    put(p, last, 1)
    put_depth(c, p, last, reported, depth)


cdef inline void begin_map(Encoder* e) noexcept nogil:
    e.branches = e.map = 0
    e.predicted = 1
    e.failed = 0


cdef inline void report(
    Machine* m, Core* c, Hart* h, uint32_t address, bint target, bint notify, bint updiscon, bint failed
) noexcept nogil:
    """Send the branches so far and an address: the target of a jump, or a place on the way."""
    cdef Encoder* e = h.encoder
    cdef Payload p
    cdef bint reported = False
    cdef uint32_t depth = e.depth, last = 0, slot = address >> 1 & ((1 << CACHE_BITS) - 1)
    cdef bint cached = False
    cdef uint32_t far = address - e.base
    far ^= 0xFFFFFFFFu if far >> 31 else 0
    if target and e.before.mispredicted:
        # The decoder must not take an earlier return at this depth for the one that went elsewhere.
        reported = True
        depth = e.before.mispredicted
    elif not target and not notify and c.trace_unit.etrace_options & IMPLICIT_RETURN and e.returned:
        reported = True
    if target and c.trace_unit.etrace_options & JUMP_TARGET_CACHE:
        cached = e.cache[slot] == (address | 1)
        e.cache[slot] = address | 1
    memset(&p, 0, sizeof(p))
    if e.branches >= MAP_FULL and e.predicted and c.trace_unit.etrace_options & BRANCH_PREDICTION:
        put(&p, 0, 3)
        put(&p, e.branches - MAP_FULL, 32)
        put(&p, 3 if failed else 2, 2)
        put_address(c, &p, e, address, notify, updiscon, reported, depth)
    elif cached and not updiscon and not notify and far >> (8 if e.branches else 13):
        put(&p, 4, 3)
        put(&p, slot, CACHE_BITS)
        put_map(&p, e, &last)
        put_depth(c, &p, last, reported, depth)
    elif e.branches:
        put(&p, 1, 2)
        put_map(&p, e, &last)
        put_address(c, &p, e, address, notify, updiscon, reported, depth)
    else:
        put(&p, 2, 2)
        put_address(c, &p, e, address, notify, updiscon, reported, depth)
    e.base = address
    begin_map(e)
    e.returned = 0
    send_payload(m, c, h, &p)


cdef inline void tell_mark(Machine* m, Core* c, Hart* h) noexcept nogil:
    """Report the backward jump or the return that was taken since the decoder's last certain place."""
    cdef Encoder* e = h.encoder
    cdef uint32_t at = e.marked
    if at:
        e.marked = 0
        report(m, c, h, at & ~1u, False, True, False, False)


cdef inline void send_start(Machine* m, Core* c, Hart* h) noexcept nogil:
    """Send where the hart is."""
    cdef Encoder* e = h.encoder
    cdef Payload p
    tell_mark(m, c, h)
    memset(&p, 0, sizeof(p))
    put(&p, 3, 4)
    put_place(c, &p, &e.current)
    put(&p, e.current.pc >> 1, ADDRESS_BITS)
    forget(e)
    e.base = e.current.pc
    e.synced = 1
    send_payload(m, c, h, &p)


cdef inline void send_trap(Machine* m, Core* c, Hart* h, Watched* trap, bint handler) noexcept nogil:
    """Send a trap, with the current instruction as the first of its handler, or as that which trapped."""
    cdef Encoder* e = h.encoder
    cdef Payload p
    memset(&p, 0, sizeof(p))
    put(&p, 7, 4)
    put_place(c, &p, &e.current)
    put(&p, trap.cause, CAUSE_BITS)
    put(&p, trap.interrupt, 1)
    put(&p, handler, 1)
    put(&p, e.current.pc >> 1, ADDRESS_BITS)
    if not trap.interrupt:
        put(&p, trap.value, 32)
    forget(e)
    e.base = e.current.pc
    e.synced = handler
    send_payload(m, c, h, &p)


cdef inline void send_map(Machine* m, Core* c, Hart* h) noexcept nogil:
    """Send a full map of branches, or the number of those that were predicted before one that was not."""
    cdef Encoder* e = h.encoder
    cdef Payload p
    memset(&p, 0, sizeof(p))
    if e.failed:
        put(&p, 0, 3)
        put(&p, e.branches - MAP_FULL, 32)
        put(&p, 0, 2)
    else:
        put(&p, 1, 7)
        put(&p, e.map, MAP_FULL)
    begin_map(e)
    send_payload(m, c, h, &p)


# --- the algorithm ---

cdef inline bint changes(Watched* a, Watched* b) noexcept nogil:
    """Return whether privilege or context change, which is told precisely."""
    return a.privilege != b.privilege or a.context != b.context


cdef inline bint note_branch(Core* c, Encoder* e, Watched* at) noexcept nogil:
    """Add the branch to the map, or to the count of predicted ones.

    Return whether its prediction failed beyond a full map.
    """
    cdef uint8_t state
    cdef bint right
    e.marked = 0
    e.returned = 0
    if not c.trace_unit.etrace_options & BRANCH_PREDICTION:
        e.map |= <uint32_t>(at.branch != 1) << e.branches
        e.branches += 1
        return False
    state = e.predictor[at.pc >> 1 & ((1 << PREDICTOR_BITS) - 1)]
    right = (state >> 1) == (at.branch == 1)
    if e.branches < MAP_FULL:
        e.map |= <uint32_t>(at.branch != 1) << e.branches
        e.branches += 1
        e.predicted = e.predicted and right
        return False
    if right:
        e.branches += 1
        return False
    return True


cdef inline void learn(Core* c, Encoder* e, Watched* at) noexcept nogil:
    cdef uint8_t* state
    if at.branch and c.trace_unit.etrace_options & BRANCH_PREDICTION:
        state = &e.predictor[at.pc >> 1 & ((1 << PREDICTOR_BITS) - 1)]
        if at.branch == 1:
            state[0] = 1 if state[0] == 0 else 3
        else:
            state[0] = 2 if state[0] == 3 else 0


cdef inline void resolve(Core* c, Encoder* e, Watched* at, uint32_t next) noexcept nogil:
    """Find whether a decoder can tell where the jump goes that has been retired, and keep the stack of returns."""
    cdef bint returns
    cdef int i
    at.updiscon = at.mispredicted = 0
    if at.indirect:
        returns = at.returns and e.depth and c.trace_unit.etrace_options & IMPLICIT_RETURN
        if (
            c.trace_unit.etrace_options & SEQUENTIAL_JUMP and not e.synced
            and e.before.kind == RETIRED and e.before.loaded
            and e.before.loaded == at.jumps_by
        ):
            if next <= at.pc:
                at.back = 1
        elif returns and e.returns[e.depth - 1] == next:
            e.depth -= 1
            e.returned = 1
            at.back = 1
        else:
            at.updiscon = 1
            at.mispredicted = e.depth if returns else 0
    if at.calls and c.trace_unit.etrace_options & IMPLICIT_RETURN:
        e.returned = 0
        if e.depth == RETURN_STACK:
            for i in range(RETURN_STACK - 1):
                e.returns[i] = e.returns[i + 1]
            e.depth = RETURN_STACK - 1
        e.returns[e.depth] = at.pc + at.size
        e.depth += 1


cdef inline void mark(Machine* m, Core* c, Hart* h, uint32_t pc) noexcept nogil:
    """Note a backward jump or a return whose target is not sent. Report the one before it if this one comes again."""
    cdef Encoder* e = h.encoder
    cdef bint again
    cdef uint32_t i
    if not e.marked:
        e.marks_count = 0
    again = e.marks_count == MARKS
    for i in range(e.marks_count):
        again = again or e.marks[i] == pc
    if again:
        tell_mark(m, c, h)
        e.marks_count = 0
    e.marks[e.marks_count] = pc
    e.marks_count += 1
    e.marked = pc | 1


cdef inline void encode(Machine* m, Core* c, Hart* h, Watched* next) noexcept nogil:
    """Send what the current instruction needs, knowing the next one."""
    cdef Encoder* e = h.encoder
    cdef Watched* at = &e.current
    cdef Watched* before = &e.before
    cdef bint syncs = e.due == 3 or e.due == 2 and not at.loaded, failed, ends, done = False
    e.synced = 0
    if at.kind == TRAPPED:
        if before.kind == TRAPPED:
            if not before.reported:
                send_trap(m, c, h, before, False)
        elif before.kind == ABSENT or before.updiscon:
            if before.updiscon and before.mispredicted:
                tell_mark(m, c, h)
            send_trap(m, c, h, at, False)
            at.reported = 1
        return
    failed = note_branch(c, e, at) if at.branch else False
    ends = next.kind == TRAPPED or next.kind == ABSENT or changes(at, next) or (syncs and e.due == 2)
    if before.kind == TRAPPED and not before.reported:
        send_trap(m, c, h, before, True)
        done = True
    elif before.kind != RETIRED or changes(before, at) or e.due == 3:
        send_start(m, c, h)
        done = True
    elif before.updiscon:
        if before.mispredicted:
            tell_mark(m, c, h)
        report(m, c, h, at.pc, True, False, ends, failed)
        done = True
    elif next.kind == TRAPPED or next.kind == ABSENT or e.branches and (changes(at, next) or syncs):
        tell_mark(m, c, h)
        report(m, c, h, at.pc, False, False, False, failed)
        done = True
    elif failed or e.branches == MAP_FULL and not (e.predicted and c.trace_unit.etrace_options & BRANCH_PREDICTION):
        e.failed = failed
        send_map(m, c, h)
        done = True
    learn(c, e, at)
    if done:
        e.marked = 0
    if e.due == 2 and syncs:
        e.due = 3
    if not e.due and (e.sent >= c.trace_unit.period or e.retired >= MOST_RETIRED):
        e.due = 2
    e.retired += 1
    resolve(c, e, at, next.pc)
    if at.back and not at.updiscon and not done:
        mark(m, c, h, at.pc)


cdef inline void restart_encoder(Machine* m, Core* c, Hart* h) noexcept nogil:
    """Begin to trace the hart: the next instruction is the first."""
    cdef Encoder* e = h.encoder
    cdef bint lost = e.lost
    if lost and c.trace_unit.port and not fits(c, (c.trace_unit.depth >> 4) + LONGEST_PACKET):
        return
    e.lost = 0
    e.before.kind = e.current.kind = ABSENT
    h.traced.on = 1
    forget(e)
    send_support(m, c, h, 1, LOST if lost else 0)


cdef inline void next_watched(Machine* m, Core* c, Hart* h, Watched* next) noexcept nogil:
    """Take the next instruction or trap."""
    cdef Encoder* e = h.encoder
    if e.current.kind != ABSENT:
        encode(m, c, h, next)
        if e.lost:
            h.traced.on = 0
            e.before.kind = e.current.kind = ABSENT
            return
    e.before = e.current
    e.current = next[0]


cdef inline void fill_watched(Machine* m, Core* c, Hart* h, Watched* next, uint32_t pc) noexcept nogil:
    memset(next, 0, sizeof(Watched))
    next.pc = pc
    next.privilege = h.encoder.privilege
    next.context = h.encoder.context
    next.time = m.now


cdef inline void encode_retired(
    Machine* m, Core* c, Hart* h, Decoded* d, uint32_t pc, uint32_t next_pc, bint taken
) noexcept nogil:
    """Take an instruction that has been retired."""
    cdef Encoder* e = h.encoder
    cdef Watched next
    cdef int operation = d.operation
    fill_watched(m, c, h, &next, pc)
    next.kind = RETIRED
    next.size = d.size
    if BEQ <= operation <= BGEU:
        next.branch = 1 if taken else 2
    elif operation == JAL:
        next.calls = d.rd == 1
        next.back = next_pc <= pc
    elif operation == JALR:
        next.calls = d.rd == 1
        if d.rs1:
            next.indirect = 1
            next.jumps_by = d.rs1
            next.returns = d.rs1 == 1 and (d.rd == NOWHERE or not d.rd)
        else:
            next.back = next_pc <= pc
    elif operation == MRET:
        next.indirect = 1
    elif (operation == LUI or operation == AUIPC) and d.rd != NOWHERE:
        next.loaded = d.rd
    next_watched(m, c, h, &next)
    e.privilege = h.privilege
    e.context = id_of(h)


cdef inline void encode_trap(Machine* m, Core* c, Hart* h, uint32_t pc) noexcept nogil:
    """Take a trap, which came instead of the instruction at the place."""
    cdef Encoder* e = h.encoder
    cdef Watched next
    fill_watched(m, c, h, &next, pc)
    next.kind = TRAPPED
    next.cause = h.mcause & 15
    next.interrupt = h.mcause >> 31
    next.value = h.mtval
    next_watched(m, c, h, &next)
    e.privilege = h.privilege
    e.context = id_of(h)


cdef inline void stop_encoder(Machine* m, Core* c, Hart* h) noexcept nogil:
    """Stop tracing the hart: report its last instruction."""
    cdef Encoder* e = h.encoder
    cdef Watched none
    if not h.traced.on:
        if e.lost and fits(c, LONGEST_PACKET):
            e.lost = 0
            send_support(m, c, h, 0, LOST)
        return
    memset(&none, 0, sizeof(none))
    none.privilege, none.context = e.current.privilege, e.current.context
    if e.current.kind == TRAPPED and e.before.kind != ABSENT and not e.current.reported and not e.before.updiscon:
        # The handler has not begun, so only this packet tells of the trap.
        send_trap(m, c, h, &e.current, False)
    else:
        next_watched(m, c, h, &none)
    if not e.lost:
        send_support(m, c, h, 0, ENDED_REPORTED)
    h.traced.on = 0
    e.before.kind = e.current.kind = ABSENT


cdef inline void watch_encoder_turn(Machine* m, Core* c, Hart* h) noexcept nogil:
    """Do what is due before the hart's turn."""
    cdef TraceUnit* u = &c.trace_unit
    if u.left <= 0:
        u.left = NULLS_EVERY * u.period
        send_nulls(m, c)
    if not h.traced.on:
        h.encoder.privilege = h.privilege
        h.encoder.context = id_of(h)
        restart_encoder(m, c, h)
