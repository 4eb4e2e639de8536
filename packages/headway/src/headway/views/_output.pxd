"""A buffer for bytes before they are written."""

from libc.stdint cimport uint8_t


cdef class Output:
    cdef object _write
    cdef uint8_t* _data
    cdef size_t _size

    cdef uint8_t* room(self, size_t length) except NULL
    cdef void took(self, const uint8_t* end) noexcept
    cdef int add(self, const void* data, size_t length) except -1
    cpdef flush(self)
