"""A buffer that writes bytes in blocks of about a megabyte."""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport uint8_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

cdef enum:
    ROOM = 1 << 20


cdef class Output:
    """A buffer in front of ``write``."""

    def __cinit__(self, write):
        self._write = write
        self._size = 0
        self._data = <uint8_t*>malloc(ROOM)
        if self._data == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self._data)

    cdef uint8_t* room(self, size_t length) except NULL:
        """Return a place for ``length`` bytes, at most a thousand. `took` must be called with their end."""
        if length > ROOM - self._size:
            self.flush()
        return self._data + self._size

    cdef void took(self, const uint8_t* end) noexcept:
        """Mark the end of the bytes put at `room`."""
        self._size = end - self._data

    cdef int add(self, const void* data, size_t length) except -1:
        """Add any number of bytes."""
        if length > ROOM - self._size:
            self.flush()
            if length > ROOM:
                self._write(PyBytes_FromStringAndSize(<const char*>data, length))
                return 0
        memcpy(self._data + self._size, data, length)
        self._size += length
        return 0

    cpdef flush(self):
        """Write what is in the buffer."""
        if self._size:
            data = PyBytes_FromStringAndSize(<char*>self._data, self._size)
            self._size = 0
            self._write(data)
