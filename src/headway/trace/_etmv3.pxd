# What the layers above read of packets, in C.
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
    PROGRESS = 2       # an I-sync amid a load or store: one instruction has been executed at `before`
    EXCEPTION = 4      # a branch that is an exception
    CANCEL = 8         # … which takes the last instruction back
    FULL = 16          # a branch with all its address bits
    SWITCH = 32        # a branch with exception information but no exception: another security state
    BASED = 64         # a branch whose missing bits come from an address that no damage lies after; a timestamp that has all bits

cdef enum ISA:
    ARM = 0
    THUMB = 1
    THUMBEE = 2
    JAZELLE = 3

cdef struct Packet:
    uint64_t index     # of its first byte in the stream
    uint64_t value     # address, time, cycles, context, or the header itself
    uint64_t count     # I-sync: cycles. Noise: how many bytes
    uint32_t context   # I-sync: context ID. Branch: exception number
    uint32_t before    # I-sync amid a load or store: address of that instruction
    uint8_t kind
    uint8_t size       # bytes (of noise: 0, see count)
    uint8_t has
    uint8_t isa        # of the address
    uint8_t reason     # I-sync: 0 periodic, 1 trace on, 2 overflow, 3 debug exit
    uint8_t bits       # of the value, that were in the packet
    uint8_t header
    uint8_t world      # I-sync: info bits NS (1) and Hyp (2)

cdef struct Atom:
    uint8_t executed
    uint8_t cycles     # that passed before it, its own included

cdef int atoms_of(uint8_t header, bint cycle_accurate, Atom* out, int* left) noexcept nogil

cdef class Packets:
    cdef Packet* data
    cdef Py_ssize_t size

cdef class Parser:
    cdef bint cycle_accurate, alternative, values, addresses, machines, deprecated
    cdef int context_bytes, time_bytes
    cdef uint64_t position      # of the first byte that has not become a packet
    cdef uint64_t zeros         # so many bytes 0 are before it
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
