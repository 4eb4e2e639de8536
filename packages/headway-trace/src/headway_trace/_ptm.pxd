# The C interface of PTM's packets for the layers above.
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from headway_trace._packets cimport Packet, StreamParser

cdef class Parser(StreamParser):
    cdef bint cycle_accurate, gray
    cdef int time_bytes
    cdef uint64_t time
    cdef uint32_t address
    cdef uint8_t isa
    cdef bint timed
    cdef int branch(self, const uint8_t* data, size_t size, Packet* p) noexcept nogil
    cdef int update(self, const uint8_t* data, size_t size, Packet* p) noexcept nogil
    cdef int sync(self, const uint8_t* data, size_t size, Packet* p) noexcept nogil
    cdef int timestamp(self, const uint8_t* data, size_t size, Packet* p) noexcept nogil
    cdef int locate(self, const uint8_t* data, size_t size, Packet* p, int* information) noexcept nogil
    cdef void arrive(self, Packet* p, uint8_t isa) noexcept nogil
