"""The walk of a program from waypoint to waypoint, for protocols that trace only these (PTM, ETMv4, ETE).

A waypoint is an instruction that can change the flow, or a barrier, as the protocol and the unit's setting say. An atom
tells whether the next one was executed. All instructions before it are those of the image. So the trace and the image
must agree:

* a waypoint without a condition cannot have failed it;
* an address comes where the program branches indirectly, and only there;
* an address that is repeated for synchronisation is the one that the walk has reached.

Where they disagree, a gap begins, until the next address; then `_waypoint_regain` may find the place by the atoms
before it. An address that may be wrong (because it was completed from bits that came before damage) is on trial: what
follows from it becomes records only once the walk has come to an indirect branch just when the trace says so. If the
trial fails, the gap goes on.

Code that is in no image makes calls and returns that cannot be seen, so the return stack is unknown after it. A return
to an address that was there before is a gap without an image.

A walk that assumes goes on where trace and program disagree, as if the trace were right and the program another one
than that which ran: a branch without a condition that is not executed is passed by, and the return stack is kept. What
was executed from there up to the next address of the trace that has all its bits is marked `ASSUMED`. So is what
follows after a return to a call of before.

Cycles are known at waypoints. An instruction before a waypoint has the cycle at which the waypoint before it was done,
and 0 cycles.
"""

cimport cython
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from headway_trace._packets cimport A64, THUMB, Packet, Packets
from headway_trace._program cimport (
    ABSENT, AWAITING, DIRECT, HERE, IT, NOWHERE, PLAIN, RETURNS, Code, InstructionTable, Place,
    code_at, key_of,
)
from headway_trace._records cimport (
    ASSUMED, CONTRADICTION, COUNTED, DAMAGE, FAILED, GAP, IMAGE, INSTRUCTION, ISA_, NO_THREAD, PASSED, TAKEN, TIME,
    UNSYNCHRONISED, UNTRACED, Records, Row, add_row, damaged,
)
from headway_trace._waypoint_regain cimport ANYTHING, ATOM, CREDITED, ELAPSED, STAMP, Event, WaypointRegain

DEF LONGEST_RUN = 1 << 16  # instructions without a waypoint; more are no program
DEF RETURN_STACK = 16    # entries of the return stack, as many as a decoder can need
DEF PROOF = 3            # atoms that fit before an indirect branch, so that an address on trial is certain
DEF HELD = 1 << 14       # rows that a trial may hold back
DEF RARE = 64            # waypoints for each contradiction; if there are fewer, another program ran
DEF BLOCK = 1 << 15      # rows that are given at a time; more than a trial holds back


cdef inline uint64_t within(uint64_t address, uint8_t isa) noexcept nogil:
    """Return an address as an instruction set has it: those of A32 and T32 have 32 bits."""
    return address if isa == A64 else <uint32_t>address


@cython.final
cdef class Walk:
    """The walk of one stream through its program.

    ``barriers`` has bit n set if barriers of kind n (`code.BARRIER`) are waypoints. ``stack``: an executed indirect
    branch without an address goes to the address on top of the return stack. ``assumes``: go on where trace and program
    disagree.
    """

    def __init__(self, InstructionTable program not None, *, counted, threads, stack, barriers, assumes=False):
        self.program, self.counted, self.threads, self.assumes = program, counted, threads, assumes
        self.stack, self.barriers = stack, barriers
        self.gap.open, self.gap.why = True, UNSYNCHRONISED
        self.regain = WaypointRegain(program, barriers=barriers, stack=stack)

    cdef Records give(self, bint last):
        """Return all final rows: all, but those that a trial or a gap may still change."""
        cdef size_t n = self.used
        if self.trial:
            if last:
                self.roll_back()
                n = self.used
            elif self.used - self.mark > HELD:
                self.convince()
            else:
                n = self.mark
        if not last and n and n == self.used and self.rows[n - 1].sort == GAP:
            n -= 1  # it may go on
        elif not last and self.holds and n == self.used:
            while n and self.used - n < HELD and self.rows[n - 1].sort == TIME:
                n -= 1
            n -= n > 0 and self.rows[n - 1].sort == INSTRUCTION
        if self.trial:
            self.mark -= n
        return self.hand_over(n)

    # Time and gaps

    cdef int elapse(self, uint64_t cycles) except -1:
        """Let cycles pass. They belong to the next waypoint, or to the gap."""
        if self.regain.count:
            return self.keep(ELAPSED, False, cycles, 0)
        self.cycle += cycles
        if self.gap.open:
            self.gap.cycles += cycles
        else:
            self.pending += cycles
        return 0

    cdef int credit(self, uint64_t cycles) except -1:
        """Let cycles pass that belong to the last waypoint, or to the gap."""
        cdef size_t i = self.used, k
        if self.regain.count:
            return self.keep(CREDITED, False, cycles, 0)
        while i and self.rows[i - 1].sort == TIME:
            i -= 1
        if self.gap.open or not i or self.rows[i - 1].sort != INSTRUCTION or self.rows[i - 1].epoch != self.epoch:
            return self.elapse(cycles)
        self.cycle += cycles
        self.rows[i - 1].cycles += cycles
        for k in range(i - 1, self.used):
            self.rows[k].cycle += cycles
        return 0

    cdef int lose(self, uint8_t why, uint64_t index) except -1:
        """Begin a part in which neither address nor time are known."""
        if self.trial:
            self.roll_back()
        self.open_gap(why, index)
        self.lose_time()
        if why == DAMAGE:
            self.thread = NO_THREAD  # what says that another goes on may be missing
        return 0

    cdef int open_gap(self, uint8_t why, uint64_t index) except -1:
        """Begin a part in which the address is not known.

        A gap that ended just now, without an instruction, goes on. An address on trial that leads out of the program
        has not turned out to be right.
        """
        if self.trial and why == IMAGE:
            return self.roll_back()
        self.resume(ANYTHING, 0)
        self.place.known = NOWHERE
        self.begin_gap(why, index, not self.trial)
        if self.assumes and (why == CONTRADICTION or why == IMAGE):
            self.strange = self.strange or why == IMAGE
            return self.doubt_stack()
        return self.clear_stack()

    cdef int contradict(self, uint64_t index) except -1:
        """Begin a gap, because packets and program do not agree. A walk that assumes loses no time by it."""
        if self.trial:
            self.roll_back()
            return 0
        self.contradictions += 1
        if self.assumes:
            return self.open_gap(CONTRADICTION, index)
        self.lose(CONTRADICTION, index)
        return 0

    cdef int assume(self, uint64_t index) except -1:
        """Take what was executed since the last waypoint, and what follows, for what the program would do there."""
        cdef size_t i
        self.contradictions += 1
        self.assumed = True
        for i in range(self.first, self.used):
            if self.rows[i].sort == INSTRUCTION:
                self.rows[i].executed |= ASSUMED
        return self.doubt_stack()

    # Places

    cdef int arrive(self, uint64_t address, uint8_t isa, bint certain, uint64_t index) except -1:
        """Go on at an address of the trace. ``certain``: all its bits are known to be right."""
        self.resume(ANYTHING, 0)
        cdef bint doubted = not certain and self.doubts()
        if isa != A64 and isa > THUMB:
            self.open_gap(ISA_, index)
            return 0
        if isa == A64 and address & 3:
            self.contradict(index)
            return 0
        address = within(address, isa)
        if (doubted or self.gap.open and damaged(self.gap.why)) and self.outside(address, isa):
            return 0  # after damage nothing says that this is an address at all
        if doubted:
            self.trial, self.mark, self.proved = True, self.used, 0
            self.before, self.began = self.gap, self.cycle
        self.close_gap(index)
        self.stretches += 1
        if self.place.known != AWAITING or isa != THUMB:
            self.place.doubtful = 0
        if self.place.known == AWAITING and self.links:
            self.push(self.link, self.place.isa)
        self.place.address, self.place.isa, self.place.known, self.place.block = address, isa, HERE, 0
        self.ascertain(certain)
        return 0

    cdef bint outside(self, uint64_t address, uint8_t isa) except -1:
        """Return whether no code is known at an address."""
        return code_at(self.program, within(address, isa), isa).branching == ABSENT

    cdef void ascertain(self, bint certain) noexcept:
        """Take the place for certain again, as an address of the trace is there, if all its bits are right."""
        self.assumed = self.assumed and not certain

    cdef bint doubts(self) noexcept:
        """Return whether the place was lost in a way that addresses may be wrong, of which not all bits are certain."""
        return self.gap.open and self.gap.why != IMAGE and self.gap.why != COUNTED and self.gap.why != ISA_

    cdef int confirm(self, size_t least) except -1:
        """End a trial after so many atoms that fit: the walk has come to an indirect branch where the trace has one."""
        return self.convince() if self.proved >= least else 0

    cdef int convince(self) except -1:
        """End a trial: the address is right."""
        self.confirmed += self.trial
        self.trial = False
        return 0

    cdef int roll_back(self) except -1:
        """Take back what followed from an address on trial, but the times, and go on with the gap before it."""
        cdef size_t i, n = self.mark
        for i in range(self.mark, self.used):
            if self.rows[i].sort == TIME:
                self.rows[n] = self.rows[i]
                n += 1
        self.used = n
        self.gap, self.trial = self.before, False
        self.gap.cycles += self.cycle - self.began
        self.pending = self.calls = 0
        self.place.known = NOWHERE
        return 0

    # Finding a lost place again

    cdef bint seeks(self) noexcept:
        """Return whether the place was lost by damage, and may be found by atoms."""
        return self.place.known == NOWHERE and self.gap.open and not self.resuming and damaged(self.gap.why)

    cdef int keep(self, uint8_t sort, bint executed, uint64_t value, uint64_t index) except -1:
        """Keep an atom or a time until the place is found, or something comes by which it is not."""
        if not self.regain.add(sort, executed, value, index):
            self.resume(ANYTHING, 0)
        return 0

    cdef int resume(self, uint8_t end, uint64_t address) except -1:
        """Search for the place by the atoms that were kept, and apply what was kept. ``end``: what comes after it."""
        cdef size_t count = self.regain.count, first = count, i
        cdef Event* events
        cdef Place found
        if not count:
            return 0
        events = self.regain.begin()
        if self.place.known == NOWHERE and self.contradictions * RARE < self.regain.head:
            first = self.regain.where(count, end, address, &found)
        self.resuming = True
        for i in range(count):
            if i == first:
                self.close_gap(events[i].index)
                self.stretches += 1
                self.place, self.assumed = found, False
            if events[i].sort == STAMP:
                self.stamp(events[i].value, events[i].index)
            elif events[i].sort == ELAPSED:
                self.elapse(events[i].value)
            elif events[i].sort == CREDITED:
                self.credit(events[i].value)
            elif i >= first:
                self.atom(events[i].executed, events[i].index)
        self.resuming = False
        return 0

    # Instructions

    cdef bint stops(self, Code* code) noexcept:
        """Return whether the instruction is a waypoint."""
        if code.branching == PLAIN:
            return code.block and self.barriers >> code.block & 1
        return code.branching != IT

    cdef int passes(self, Code* code, uint64_t index) except -1:
        """Add the instruction at the place, which is no waypoint."""
        cdef Row* row = add_row(self, INSTRUCTION, index)
        row.address, row.size, row.cycle = self.place.address, code.size, self.cycle - self.pending
        row.executed, row.why = UNTRACED if code.conditional or self.place.block else PASSED, self.place.isa
        row.executed |= ASSUMED if self.assumed else 0
        if self.place.block:
            self.place.block -= 1
        if self.place.doubtful:
            self.place.doubtful -= 1
        if code.branching == IT:
            self.place.block, self.place.doubtful = code.block, 0
        self.place.address += code.size
        return 0

    cdef int run(self, Code** at, uint64_t index) except -1:
        """Add the instructions before the next waypoint. Return 0, or why there is none."""
        cdef int _
        for _ in range(LONGEST_RUN):
            at[0] = code_at(self.program, self.place.address, self.place.isa)
            if at[0].branching == ABSENT:
                return IMAGE
            if self.stops(at[0]):
                return 0
            self.passes(at[0], index)
        return CONTRADICTION

    cdef bint reach(self, Code** at, uint64_t index) except -1:
        """Go to the next waypoint. Return whether that is possible; otherwise there is a gap."""
        cdef int why
        if self.place.known == AWAITING:
            self.go_back(index)
        if self.place.known != HERE:
            return False
        self.first = self.used
        why = self.run(at, index)
        if why == IMAGE:
            self.open_gap(IMAGE, index)
        elif why:
            self.refuse(index)
        return not why

    cdef int refuse(self, uint64_t index) except -1:
        """Take back the instructions since the last waypoint, and begin a gap."""
        self.used = self.first
        self.contradict(index)
        return 0

    cdef int take(self, Code* code, bint executed, uint64_t index) except -1:
        """Add the waypoint at the place, and go to where it leads."""
        cdef Row* row = add_row(self, INSTRUCTION, index)
        cdef uint64_t after = self.place.address + code.size
        row.address, row.size, row.executed = self.place.address, code.size, PASSED if executed else FAILED
        row.executed |= ASSUMED if self.assumed else 0
        row.why, row.cycles, self.pending = self.place.isa, self.pending, 0
        self.regain.taken(key_of(self.place.address, self.place.isa))
        self.proved += 1
        if self.place.block:
            self.place.block -= 1
        if self.place.doubtful:
            self.place.doubtful -= 1
        self.place.address = after
        if not executed or code.branching == PLAIN:
            return 0
        if code.branching == DIRECT:
            if code.block:
                self.push(after, self.place.isa)
            self.place.address, self.place.isa, self.place.block = code.target, code.target_isa, 0
        else:
            self.links, self.link = code.block, after
            self.place.known, self.place.block = AWAITING, 0
            self.place.doubtful = 4 if code.branching == RETURNS else 0
        return 0

    cdef int atom(self, bint executed, uint64_t index) except -1:
        """Go to the next waypoint, which was executed, or whose condition failed, and take it."""
        cdef Code* code = NULL
        if self.place.known == NOWHERE and self.seeks():
            return self.keep(ATOM, executed, 0, index)
        if not self.reach(&code, index):
            return 0
        if not executed and not (code.conditional or self.place.block or self.place.doubtful) and (
            code.branching != DIRECT or code.target != self.place.address + code.size
        ):
            if not self.assumes or self.trial:
                self.refuse(index)
                return self.keep(ATOM, executed, 0, index) if self.seeks() else 0
            self.assume(index)
        return self.take(code, executed, index)

    cdef int indirect(self, Packet* p, bint broadcast) except -1:
        """Take the next waypoint, an indirect branch, whose target comes next.

        It may be a direct one to another instruction set (``broadcast``: any) if the packet repeats its target.
        """
        cdef Code* code = NULL
        cdef uint64_t mask = (<uint64_t>1 << p.bits) - 1
        if not self.reach(&code, p.index):
            return 0
        if code.branching == PLAIN or code.branching == DIRECT and (
            not broadcast and code.target_isa == self.place.isa or code.target_isa != p.isa
            or (code.target ^ p.value) & mask
        ):
            return self.refuse(p.index)
        self.take(code, True, p.index)
        return self.confirm(PROOF)

    cdef int upto(self, uint64_t address, bint inclusive, uint64_t index) except -1:
        """Go to an address, without a branch on the way. ``inclusive``: the instruction there was executed, too."""
        cdef Code* code
        cdef size_t first = self.used
        cdef int _
        if self.place.known != HERE:
            return 0
        address = within(address, self.place.isa)
        for _ in range(LONGEST_RUN):
            if not inclusive and self.place.address == address:
                return 0
            code = code_at(self.program, self.place.address, self.place.isa)
            if code.branching == ABSENT:
                self.open_gap(IMAGE, index)
                return 0
            if inclusive and self.place.address == address:
                self.passes(code, index)
                return 0
            if self.stops(code) and code.branching != PLAIN:
                break
            self.passes(code, index)
        self.used = first
        self.contradict(index)
        return 0

    cdef int source(self, uint64_t address, uint8_t isa, uint64_t index) except -1:
        """Go to an address past branches that were not taken; the instruction there was executed."""
        cdef Code* code
        cdef int _
        if self.place.known == AWAITING:
            self.go_back(index)
        if self.place.known != HERE:
            return 0
        address = within(address, self.place.isa)
        self.first = self.used
        for _ in range(LONGEST_RUN):
            code = code_at(self.program, self.place.address, self.place.isa)
            if code.branching == ABSENT:
                self.open_gap(IMAGE, index)
                return 0
            if self.place.address == address:
                return self.take(code, True, index) if self.stops(code) else self.passes(code, index)
            if not self.stops(code):
                self.passes(code, index)
            elif code.conditional or self.place.block or self.place.doubtful:
                self.take(code, False, index)
            else:
                break
        return self.refuse(index)

    cdef int count(self, uint64_t number, uint64_t address, uint64_t index) except -1:
        """Go so many instructions on, to an address; a gap if there is a branch before the last of them."""
        cdef Code* code
        cdef uint64_t n
        if self.place.known != HERE:
            return 0
        address = within(address, self.place.isa)
        self.first = self.used
        for n in range(min(number, <uint64_t>LONGEST_RUN)):
            code = code_at(self.program, self.place.address, self.place.isa)
            if code.branching == ABSENT:
                break
            if not self.stops(code):
                self.passes(code, index)
                continue
            if n + 1 == number and code.branching != PLAIN:
                if code.branching != DIRECT or code.target == address:
                    return self.take(code, True, index)
                if code.conditional and self.place.address + code.size == address:
                    return self.take(code, False, index)
            break
        else:
            if number <= LONGEST_RUN and self.place.address == address:
                return 0
        self.used = self.first
        self.open_gap(COUNTED, index)
        return 0

    cdef int pass_by(self, uint64_t index) except -1:
        """Go on behind an indirect branch of which it is not known where it went."""
        self.place.known, self.first = HERE, self.used
        return self.assume(index)

    # The return stack

    cdef int push(self, uint64_t address, uint8_t isa) except -1:
        self.top = (self.top + 1) % RETURN_STACK
        self.returns[self.top].address, self.returns[self.top].isa = address, isa
        self.returns[self.top].assumed = self.assumed
        self.calls = min(self.calls + 1, <size_t>RETURN_STACK)
        return 0

    cdef int clear_stack(self) except -1:
        """Empty the return stack, because that of the trace unit is empty, or is not known."""
        self.calls, self.strange = 0, self.gap.open and self.gap.why == IMAGE
        return 0

    cdef int doubt_stack(self) except -1:
        """Assume that the return stack is what it was, though there may have been calls and returns."""
        cdef size_t i
        for i in range(RETURN_STACK):
            self.returns[i].assumed = True
        return 0

    cdef int go_back(self, uint64_t index) except -1:
        """Go to the address on top of the return stack. If there is none, a gap begins."""
        cdef Return found
        if not self.stack or not self.calls:
            return self.open_gap(IMAGE, index) if self.stack and self.strange else self.contradict(index)
        found = self.returns[self.top]
        if found.assumed and self.links:  # a call does not go to where another one returns: its function is not seen
            return self.pass_by(index)
        self.calls -= 1
        self.top = (self.top + RETURN_STACK - 1) % RETURN_STACK
        if self.links:
            self.push(self.link, self.place.isa)
        self.place.address, self.place.isa, self.place.known = found.address, found.isa, HERE
        self.assumed = self.assumed or found.assumed
        return 0

    # Other records

    cdef int stamp(self, uint64_t time, uint64_t index) except -1:
        """Add a time of the common clock."""
        if self.regain.count:
            return self.keep(STAMP, False, time, index)
        cdef Row* row = add_row(self, TIME, index)
        row.cycles = time
        return 0

    cdef int taken(self, uint32_t number, uint64_t address, bint known, uint64_t index) except -1:
        """Add an exception, which continues at an address, if that is known."""
        self.resume(ANYTHING, 0)
        cdef Row* row = add_row(self, TAKEN, index)
        row.address, row.thread, row.size = address, number, not known
        return 0

    # States

    cdef list state(self):
        """Return the state, which is every attribute that packets change, in values that JSON has."""
        return [
            self.saved(), self.place, self.returns, self.calls, self.top, self.links, self.link, self.first, self.trial,
            self.mark, self.proved, self.before, self.began, self.stretches, self.contradictions, self.strange,
            self.confirmed, self.assumed, self.regain.saved(),
        ]

    cdef int take_over(self, list state) except -1:
        """Go on from a state. Raises ValueError, TypeError, KeyError, IndexError or OverflowError if it is none."""
        cdef size_t i
        (
            rows, self.place, returns, self.calls, self.top, self.links, self.link, self.first, self.trial, self.mark,
            self.proved, self.before, self.began, self.stretches, self.contradictions, self.strange, self.confirmed,
            self.assumed, regain,
        ) = state
        if len(returns) != RETURN_STACK:
            raise ValueError("returns")
        for i in range(RETURN_STACK):
            self.returns[i] = returns[i]
        self.restore(rows)
        self.regain.restore(regain)
        if (
            self.place.known > AWAITING or self.place.isa > A64 or self.calls > RETURN_STACK or self.top >= RETURN_STACK
            or self.trial and self.mark > self.used or self.before.why > COUNTED
        ):
            raise ValueError("walk")
        self.first = min(self.first, self.used)
        return 0


cdef class WaypointFlow:
    """The flow of one stream through its program; each protocol has its own `packet`."""

    cdef int packet(self, Packet* p) except -1:
        """Follow one packet."""
        return 0

    cdef int forget(self, uint8_t why, uint64_t index) except -1:
        """Begin a gap in which packets are missing."""
        return self.walk.lose(why, index)

    cdef int conclude(self) except -1:
        """Do what is left to do at the end of the stream."""
        return 0

    @property
    def stretches(self):
        """The number of addresses that were gone on from."""
        return self.walk.stretches

    @property
    def contradictions(self):
        """The number of times that packets and program did not agree."""
        return self.walk.contradictions

    @property
    def left(self):
        """As of `_flow.Flow`; not counted."""
        return 0

    @property
    def visited(self):
        """As of `_flow.Flow`; not counted."""
        return 0

    @property
    def searches(self):
        """The number of searches for a lost place."""
        return self.walk.regain.searches

    @property
    def given_up(self):
        """The number of those that were given up, because a search may take only so long."""
        return self.walk.regain.given_up

    @property
    def waiting(self):
        """Whether `more` has more records of the packets that were fed."""
        return self.packets is not None

    def begins(self):
        """Report that nothing is missing before the first byte: the first I-sync is valid without an A-sync."""
        self.aligned = True

    def feed(self, Packets packets not None):
        """Take more packets, once none are waiting. Return records that can no longer be taken back."""
        self.packets, self.next = packets, 0
        return self.more()

    def more(self):
        """Return more records of the packets that were fed."""
        while self.packets is not None and self.walk.used < BLOCK + (self.walk.mark if self.walk.trial else 0):
            if self.next == self.packets.size:
                self.packets = None
                break
            self.packet(&self.packets.data[self.next])
            self.next += 1
        return self.walk.give(False)

    def finish(self):
        """End the stream. Return the records that are left."""
        self.conclude()
        self.walk.resume(ANYTHING, 0)
        if self.walk.trial:
            self.walk.roll_back()
        self.walk.close_gap(self.end)
        return self.walk.give(True)

    def lost(self, uint64_t index):
        """Report that bytes are missing here (after the parser's own ``lost``)."""
        if self.aligned:
            self.forget(DAMAGE, index)

    # States

    cdef list own(self):
        """Return the state that only this protocol has, in values that JSON has."""
        return []

    cdef int load_own(self, list state) except -1:
        """Go on from such a state."""
        return 0

    def remember(self):
        """As of `_flow.Flow`; nothing needs to be kept."""

    @property
    def remembers(self):
        """As of `_flow.Flow`."""
        return True

    def history(self):
        """Return, as bytes, what all states that were saved have in common: the instructions of the program."""
        return self.walk.program.save()

    def save(self):
        """Return the state while none are `waiting`, in values that JSON has."""
        return [self.walk.state(), self.aligned, self.end, self.own()]

    def load(self, list state not None, bytes history not None):
        """As of `_flow.Flow`."""
        walk, self.aligned, self.end, own = state
        self.walk.program.load(history)
        self.walk.take_over(walk)
        self.load_own(own)
