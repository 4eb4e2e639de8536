# The C interface of the walk from waypoint to waypoint, for the flows of protocols.
cimport cython
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from headway_trace._packets cimport Packet, Packets
from headway_trace._program cimport Code, InstructionTable, Place
from headway_trace._records cimport Lacuna, Records, RecordWriter
from headway_trace._waypoint_regain cimport WaypointRegain

cdef struct Return:        # an entry of the return stack
    uint64_t address
    uint8_t isa
    bint assumed


@cython.final
cdef class Walk(RecordWriter):
    cdef InstructionTable program
    cdef bint stack
    cdef bint holds            # cycles may still be added to the last waypoint
    cdef uint32_t barriers     # bit n: barriers of kind n are waypoints
    cdef Place place
    cdef Return returns[16]
    cdef size_t calls, top
    cdef bint strange          # code that is in no image may have left entries that are not known
    cdef bint assumes          # where trace and program contradict each other, the walk goes on
    cdef bint assumed          # the place follows from such a contradiction
    cdef bint links            # the branch whose target comes next is a call, and returns to `link`
    cdef uint64_t link
    cdef size_t first          # rows before the instructions since the last waypoint
    cdef bint trial            # the address is not certain yet
    cdef size_t mark, proved   # rows before the trial, and atoms that fit since
    cdef uint64_t confirmed    # trials that showed the address to be right
    cdef Lacuna before         # the gap that goes on if it fails
    cdef uint64_t began        # the cycle at which it began
    cdef readonly uint64_t stretches, contradictions
    cdef WaypointRegain regain
    cdef bint resuming         # what was kept while the place was not known is being applied
    cdef bint seeks(self) noexcept
    cdef int keep(self, uint8_t sort, bint executed, uint64_t value, uint64_t index) except -1
    cdef int resume(self, uint8_t end, uint64_t address) except -1
    cdef Records give(self, bint last)
    cdef int elapse(self, uint64_t cycles) except -1
    cdef int credit(self, uint64_t cycles) except -1
    cdef int lose(self, uint8_t why, uint64_t index) except -1
    cdef int open_gap(self, uint8_t why, uint64_t index) except -1
    cdef int contradict(self, uint64_t index) except -1
    cdef int assume(self, uint64_t index) except -1
    cdef int pass_by(self, uint64_t index) except -1
    cdef bint outside(self, uint64_t address, uint8_t isa) except -1
    cdef void ascertain(self, bint certain) noexcept
    cdef int arrive(self, uint64_t address, uint8_t isa, bint certain, uint64_t index) except -1
    cdef int roll_back(self) except -1
    cdef bint doubts(self) noexcept
    cdef int confirm(self, size_t least) except -1
    cdef int convince(self) except -1
    cdef bint stops(self, Code* code) noexcept
    cdef int passes(self, Code* code, uint64_t index) except -1
    cdef int run(self, Code** at, uint64_t index) except -1
    cdef bint reach(self, Code** at, uint64_t index) except -1
    cdef int refuse(self, uint64_t index) except -1
    cdef int take(self, Code* code, bint executed, uint64_t index) except -1
    cdef int atom(self, bint executed, uint64_t index) except -1
    cdef int indirect(self, Packet* p, bint broadcast) except -1
    cdef int upto(self, uint64_t address, bint inclusive, uint64_t index) except -1
    cdef int source(self, uint64_t address, uint8_t isa, uint64_t index) except -1
    cdef int count(self, uint64_t number, uint64_t address, uint64_t index) except -1
    cdef int push(self, uint64_t address, uint8_t isa) except -1
    cdef int clear_stack(self) except -1
    cdef int doubt_stack(self) except -1
    cdef int go_back(self, uint64_t index) except -1
    cdef int stamp(self, uint64_t time, uint64_t index) except -1
    cdef int taken(self, uint32_t number, uint64_t address, bint known, uint64_t index) except -1
    cdef list state(self)
    cdef int take_over(self, list state) except -1

cdef class WaypointFlow:
    cdef Walk walk
    cdef bint aligned          # there has been an A-sync
    cdef uint64_t end
    cdef Packets packets       # those that are being followed
    cdef Py_ssize_t next
    cdef int packet(self, Packet* p) except -1
    cdef int forget(self, uint8_t why, uint64_t index) except -1
    cdef int conclude(self) except -1
    cdef list own(self)
    cdef int load_own(self, list state) except -1
