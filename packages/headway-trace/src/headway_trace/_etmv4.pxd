# The C interface of the packets of ETMv4 and ETE for the layers above.
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from headway_trace._packets cimport Packet, StreamParser

cdef enum Information:  # bits of a packet's header, in a packet with a context
    LEVEL = 3              # exception level
    WIDE = 16              # SF: A64
    HAS_MACHINE = 64
    HAS_THREAD = 128

cdef enum Also:         # bits of a packet's `has`, beside those of any protocol
    WITH_CONTEXT = 2       # an address with a context
    MISPREDICT = 32        # a cancel that ends with a mispredict

cdef class Parser(StreamParser):
    cdef bint embedded          # ETE
    cdef bint conditions, quotas, commits, data
    cdef int version, machine_bytes, thread_bytes, deepest
    cdef uint64_t places[3]     # the last addresses, the newest first
    cdef uint8_t sets[3]        # their instruction sets, 0 or 1
    cdef uint64_t time
    cdef uint32_t threshold     # of cycle counts
    cdef bint timed
    cdef void remember(self, Packet* p) noexcept nogil
    cdef int address(self, const uint8_t* data, size_t size, Packet* p, int form) noexcept nogil
    cdef int context(self, const uint8_t* data, size_t size, Packet* p) noexcept nogil
    cdef int info(self, const uint8_t* data, size_t size, Packet* p) noexcept nogil
    cdef int timestamp(self, const uint8_t* data, size_t size, Packet* p) noexcept nogil
    cdef int cycles(self, const uint8_t* data, size_t size, Packet* p) noexcept nogil
    cdef int exception(self, const uint8_t* data, size_t size, Packet* p) noexcept nogil
    cdef int speculation(self, const uint8_t* data, size_t size, Packet* p) noexcept nogil
    cdef int conditional(self, const uint8_t* data, size_t size, Packet* p) noexcept nogil
    cdef int quota(self, const uint8_t* data, size_t size, Packet* p) noexcept nogil
