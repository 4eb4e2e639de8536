# The C interface of packets of any protocol for the layers above.
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memset

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
    WAYPOINT = 15      # waypoint update (PTM)
    # of ETMv4 and ETE
    INFO = 16          # trace info
    ON = 17            # trace on
    ADDRESS = 18
    RAISED = 19        # exception
    COMMIT = 20
    CANCELLED = 21     # cancel or mispredict
    QUOTA = 22         # Q: so many instructions were executed
    SOURCE = 23        # source address: the instruction there was executed
    EVENT = 24
    CONDITIONAL = 25   # a conditional instruction, or a result
    LOST = 26          # overflow
    DISCARD = 27
    TRANSACTION = 28
    INSTRUMENTATION = 29
    MARKER = 30        # timestamp marker
    # of ITM and DWT
    LOCAL = 31         # local timestamp
    EXTENSION = 32
    COUNTERS = 33      # event counters that wrapped
    SAMPLE = 34        # periodic PC sample
    HARDWARE = 35      # a hardware source packet of no known kind
    KINDS = 36

cdef enum Has:
    COUNT = 1          # an I-sync with a cycle count
    PROGRESS = 2       # an I-sync during a load or store: the instruction at `before` has been executed
    EXCEPTION = 4      # a branch that is an exception
    CANCEL = 8         # … that cancels the last instruction
    FULL = 16          # a branch with all its address bits
    SWITCH = 32        # a branch with exception information but no exception: the security state changed
    # A branch whose missing bits come from an address with no damage after it; a timestamp with all its bits
    BASED = 64

cdef enum ISA:
    ARM = 0
    THUMB = 1
    THUMBEE = 2
    JAZELLE = 3
    A64 = 4

cdef struct Packet:
    uint64_t index     # of its first byte in the stream
    uint64_t value     # address, time, cycles, context, or the header itself
    uint64_t count     # cycles, of an I-sync or with a PTM packet. Noise: number of bytes
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

cdef class Packets:
    cdef Packet* data
    cdef Py_ssize_t size

cdef class StreamParser:
    cdef uint64_t position      # index of the first byte that has not become part of a packet
    cdef uint64_t zeros         # number of bytes 0 before it
    cdef int longest            # bytes of the longest packet, or more
    cdef int aligner            # bytes 0 of an A-sync
    cdef bint extended          # a byte 0 may begin another packet than an A-sync
    cdef bint based             # an address in full has come since bytes were lost
    cdef bytes rest
    cdef int context_bytes      # of a context ID in a packet of ETMv3 or PTM; 0: there is none
    cdef bint machines          # such packets have VMIDs
    cdef Packets parse(self, const uint8_t* data, size_t size, bint last)
    cdef list own(self)
    cdef int load_own(self, list state) except -1
    cdef Packets take(self, bytes data, bint last)
    cdef int packet(self, const uint8_t* data, size_t size, Packet* p) noexcept nogil
    cdef int simple_packet(self, const uint8_t* data, size_t size, Packet* p) noexcept nogil

cdef inline int length7(const uint8_t* data, size_t size, int most) noexcept nogil:
    """Return the bytes of a number with continuation bits; 0: it does not end within `most`; -1: data ends in it."""
    cdef int i
    for i in range(most):
        if <size_t>i >= size:
            return -1
        if data[i] < 0x80:
            return i + 1
    return 0

cdef inline uint64_t little(const uint8_t* data, int size) noexcept nogil:
    cdef int i
    cdef uint64_t value = 0
    for i in range(size):
        value |= <uint64_t>data[i] << 8 * i
    return value

cdef inline void add_noise(Packet* p, uint64_t index, uint64_t size) noexcept nogil:
    memset(p, 0, sizeof(Packet))
    p.kind, p.index, p.count = NOISE, index, size
