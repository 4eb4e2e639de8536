# The C interface of ETMv3's packets for the layers above.
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from headway_trace._packets cimport Packet, StreamParser

cdef struct Atom:
    uint8_t executed
    uint8_t cycles     # cycles that passed before the atom, including its own

cdef int atoms_of(uint8_t header, bint cycle_accurate, Atom* out, int* left) noexcept nogil

cdef class Parser(StreamParser):
    cdef bint cycle_accurate, alternative, values, addresses, deprecated
    cdef int time_bytes
    cdef uint64_t address, time
    cdef uint8_t isa, alternate
    cdef bint timed
    cdef int branch(self, const uint8_t* data, size_t size, Packet* out) noexcept nogil
    cdef int sync(self, const uint8_t* data, size_t size, Packet* out) noexcept nogil
    cdef int timestamp(self, const uint8_t* data, size_t size, Packet* p) noexcept nogil
    cdef int data_packet(self, const uint8_t* data, size_t size, Packet* p) noexcept nogil
