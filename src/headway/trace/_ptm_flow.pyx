"""The flow of a program by PTM packets, which become the steps of a walk from waypoint to waypoint.

A branch packet stands for the execution of an indirect branch, and has its target. With the return stack, an atom may
stand for one, too. An exception comes after the last waypoint; if instructions were executed since, a waypoint update
tells the last of them.

Source: ARM IHI 0035B, chapters 2 and 4.
"""

from libc.stdint cimport uint64_t

from headway.trace._packets cimport (
    ALIGNMENT, ATOMS, BASED, BRANCH, CONTEXT, EXCEPTION, FULL, INCOMPLETE, NOISE, SYNC, TIMESTAMP, WAYPOINT, Packet, Packets,
)
from headway.trace._program cimport AWAITING, DMB, DSB, HERE, ISB, InstructionTable
from headway.trace._records cimport DAMAGE, OVERFLOW, TRUNCATED, Records
from headway.trace._waypoints cimport Walk

DEF BLOCK = 1 << 15    # rows that are given at a time; more than a trial holds back


cdef class PtmFlow:
    """The flow of one stream through its program."""

    cdef Walk walk
    cdef bint cycle_accurate, broadcast
    cdef bint aligned          # there has been an A-sync
    cdef uint64_t end
    cdef Packets packets       # those that are being followed
    cdef Py_ssize_t next

    def __init__(
        self, InstructionTable program not None, *, cycle_accurate, branch_broadcast, return_stack, barriers, threads
    ):
        kinds = 1 << ISB | (1 << DMB | 1 << DSB if barriers else 0)
        self.walk = Walk(program, counted=cycle_accurate, threads=threads, stack=return_stack, barriers=kinds)
        self.cycle_accurate, self.broadcast = cycle_accurate, branch_broadcast

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
    def waiting(self):
        """Whether `more` has more records of the packets that were fed."""
        return self.packets is not None

    def begins(self):
        """Report that nothing is missing before the stream's first byte: its first I-sync is valid without an A-sync."""
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
        if self.walk.trial:
            self.walk.roll_back()
        self.walk.close_gap(self.end)
        return self.walk.give(True)

    def lost(self, uint64_t index):
        """Report that bytes are missing here (after the parser's own ``lost``)."""
        if self.aligned:
            self.walk.lose(DAMAGE, index)

    cdef int packet(self, Packet* p) except -1:
        cdef int i
        cdef Walk walk = self.walk
        self.end = p.index + (p.count if p.kind <= INCOMPLETE else p.size)
        if p.kind == INCOMPLETE:
            walk.lose(TRUNCATED, p.index)
        elif p.kind == ALIGNMENT:
            self.aligned = True
        elif not self.aligned:
            return 0
        elif p.kind == ATOMS:
            walk.elapse(p.count)
            for i in range(p.bits):
                walk.atom(not p.value >> i & 1, p.index)
                if walk.place.known == AWAITING and not walk.pop():
                    walk.contradict(p.index)
        elif p.kind == BRANCH:
            self.branch(p)
        elif p.kind == SYNC:
            self.sync(p)
        elif p.kind == WAYPOINT:
            if p.has & BASED:
                walk.upto(p.value, True, p.index)
        elif p.kind == TIMESTAMP:
            walk.elapse(p.count)
            if p.has & BASED:
                walk.stamp(p.value, p.index)
        elif p.kind == CONTEXT:
            walk.thread = <unsigned int>p.value
        elif p.kind == NOISE:
            walk.lose(DAMAGE, p.index)
        return 0

    cdef int branch(self, Packet* p) except -1:
        self.walk.elapse(p.count)
        if p.has & EXCEPTION:
            self.walk.taken(p.context, p.value, p.index)
        else:
            self.walk.indirect(self.broadcast, p.index)
        self.walk.arrive(p.value, p.isa, p.has & FULL, p.index)
        return 0

    cdef int sync(self, Packet* p) except -1:
        cdef Walk walk = self.walk
        if p.reason:
            if walk.trial:
                walk.roll_back()
            walk.open_gap(p.reason, p.index)
            walk.elapse(p.count)
            if not self.cycle_accurate or p.reason == OVERFLOW:
                walk.lose(p.reason, p.index)
        elif walk.place.known == HERE:
            if walk.place.address == p.value and walk.place.isa == p.isa:
                walk.thread, walk.trial = p.context, False
                return 0
            walk.contradict(p.index)
        walk.thread = p.context
        walk.arrive(p.value, p.isa, True, p.index)
        walk.calls, walk.place.doubtful = 0, 4
        return 0
