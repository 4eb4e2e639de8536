"""The flow of a program by PTM packets, which become the steps of a walk from waypoint to waypoint.

A branch packet stands for the execution of an indirect branch, and has its target. With the return stack, an atom may
stand for one, too. Of a direct branch it repeats the target, and comes only where branches are broadcast, or the
instruction set changes. An exception comes after the last waypoint; if instructions were executed since, a waypoint
update tells the last of them.

Source: ARM IHI 0035B, chapters 2 and 4.
"""

from libc.stdint cimport uint8_t

from headway_trace._packets cimport (
    ALIGNMENT, ATOMS, BASED, BRANCH, CONTEXT, EXCEPTION, FULL, INCOMPLETE, NOISE, SYNC, THUMB, TIMESTAMP, WAYPOINT,
    Packet,
)
from headway_trace._program cimport AWAITING, DMB, DSB, HERE, ISB, InstructionTable
from headway_trace._records cimport DAMAGE, OVERFLOW, TRUNCATED, damaged
from headway_trace._waypoint_regain cimport ADDRESSED, ANYTHING, BRANCHED
from headway_trace._waypoints cimport Walk, WaypointFlow


cdef class PtmFlow(WaypointFlow):
    """The flow of one stream through its program."""

    cdef bint cycle_accurate, broadcast

    def __init__(
        self, InstructionTable program not None, *, cycle_accurate, branch_broadcast, return_stack, barriers, threads,
        assumes,
    ):
        kinds = 1 << ISB | (1 << DMB | 1 << DSB if barriers else 0)
        self.walk = Walk(
            program, counted=cycle_accurate, threads=threads, stack=return_stack, barriers=kinds, assumes=assumes
        )
        self.cycle_accurate, self.broadcast = cycle_accurate, branch_broadcast

    cdef int packet(self, Packet* p) except -1:
        cdef int i
        cdef Walk walk = self.walk
        self.end = p.index + (p.count if p.kind <= INCOMPLETE else p.size)
        if p.kind == ALIGNMENT:
            self.aligned = True
        elif not self.aligned:
            return 0
        elif p.kind == INCOMPLETE:
            walk.lose(TRUNCATED, p.index)
        elif p.kind == ATOMS:
            walk.elapse(p.count)
            for i in range(p.bits):
                walk.atom(not p.value >> i & 1, p.index)
                if walk.place.known == AWAITING and walk.stack:
                    walk.go_back(p.index)
                elif walk.place.known == AWAITING:
                    walk.refuse(p.index)
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
            walk.resume(ANYTHING, 0)
            walk.thread = <unsigned int>p.value
        elif p.kind == NOISE:
            walk.lose(DAMAGE, p.index)
        return 0

    cdef int branch(self, Packet* p) except -1:
        self.walk.elapse(p.count)
        if p.has & EXCEPTION:
            self.walk.taken(p.context, p.value, True, p.index)
        else:
            self.walk.resume(BRANCHED, 0)
            self.walk.indirect(p, self.broadcast)
        self.walk.arrive(p.value, p.isa, p.has & FULL, p.index)
        return 0

    cdef int sync(self, Packet* p) except -1:
        cdef Walk walk = self.walk
        cdef uint8_t why = p.reason
        walk.resume(ANYTHING if why else ADDRESSED, p.value)
        if why:
            if walk.trial:
                walk.roll_back()
            if walk.gap.open and damaged(walk.gap.why) and p.isa <= THUMB and walk.outside(p.value, p.isa):
                why = walk.gap.why  # nothing says that this is an I-sync at all
            walk.open_gap(why, p.index)
            walk.elapse(p.count)
            if not self.cycle_accurate or why == OVERFLOW:
                walk.lose(why, p.index)
        elif walk.place.known == HERE:
            if walk.place.address == p.value and walk.place.isa == p.isa:
                walk.thread = p.context
                walk.ascertain(True)
                return walk.convince()
            walk.contradict(p.index)
        walk.thread = p.context
        walk.arrive(p.value, p.isa, True, p.index)
        walk.clear_stack()
        walk.place.doubtful = 4 if p.isa == THUMB else 0
        return 0
