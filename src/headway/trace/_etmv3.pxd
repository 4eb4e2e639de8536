# The C interface of packets for the layers above.
from libc.stdint cimport uint8_t, uint32_t, uint64_t

cdef enum Kind:
    NOISE = 0          # bytes that are no packet
    INCOMPLETE = 1     # the beginning of a packet at the end of the stream
    ALIGNMENT = 2      # A-sync
    SYNC = 3           # I-sync
    ATOMS = 4          # P-header
    BRANCH = 5
    CYCLES = 6
    TIMESTAMP = 7
    CONTEXT = 8
    MACHINE = 9        # VMID
    TRIGGER = 10
    IGNORE = 11
    ENTRY = 12         # exception entry (ARMv7-M)
    RETURN = 13        # return from exception
    DATA = 14
    KINDS = 15

cdef enum Has:
    COUNT = 1          # an I-sync with a cycle count
    PROGRESS = 2       # an I-sync during a load or store: the instruction at `before` has been executed
    EXCEPTION = 4      # a branch that is an exception
    CANCEL = 8         # … that cancels the last instruction
    FULL = 16          # a branch with all its address bits
    SWITCH = 32        # a branch with exception information but no exception: the security state changed
    BASED = 64         # a branch whose missing bits come from an address with no damage after it; a timestamp with all its bits

cdef enum ISA:
    ARM = 0
    THUMB = 1
    THUMBEE = 2
    JAZELLE = 3

cdef struct Packet:
    uint64_t index     # of its first byte in the stream
    uint64_t value     # address, time, cycles, context, or the header itself
    uint64_t count     # I-sync: cycles. Noise: number of bytes
    uint32_t context   # I-sync: context ID. Branch: exception number
    uint32_t before    # I-sync during a load or store: address of that instruction
    uint8_t kind
    uint8_t size       # bytes (0 for noise, see count)
    uint8_t has
    uint8_t isa        # of the address
    uint8_t reason     # I-sync: 0 periodic, 1 trace on, 2 overflow, 3 debug exit
    uint8_t bits       # number of bits of the value that were in the packet
    uint8_t header
    uint8_t world      # I-sync: info bits NS (1) and Hyp (2)

cdef struct Atom:
    uint8_t executed
    uint8_t cycles     # cycles that passed before the atom, including its own

cdef int atoms_of(uint8_t header, bint cycle_accurate, Atom* out, int* left) noexcept nogil

cdef class Packets:
    cdef Packet* data
    cdef Py_ssize_t size

cdef class Parser:
    cdef bint cycle_accurate, alternative, values, addresses, machines, deprecated
    cdef int context_bytes, time_bytes
    cdef uint64_t position      # index of the first byte that has not become part of a packet
    cdef uint64_t zeros         # number of bytes 0 before it
    cdef uint64_t address, time
    cdef uint8_t isa, alternate
    cdef bint based, timed
    cdef bytes rest
    cdef bint ended
    cdef Packets parse(self, const uint8_t* data, size_t size, bint last)
    cdef int packet(self, const uint8_t* data, size_t size, Packet* out) noexcept nogil
    cdef int branch(self, const uint8_t* data, size_t size, Packet* out) noexcept nogil
    cdef int sync(self, const uint8_t* data, size_t size, Packet* out) noexcept nogil
    cdef int timestamp(self, const uint8_t* data, size_t size, Packet* p) noexcept nogil
    cdef int data_packet(self, const uint8_t* data, size_t size, Packet* p) noexcept nogil
    cdef Packets take(self, bytes data, bint last)
