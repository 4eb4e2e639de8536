# Cells of CSV, written in C.
from libc.stdint cimport uint64_t
from libc.string cimport memcpy


cdef inline Py_ssize_t put_decimal(char* at, uint64_t value) noexcept nogil:
    """Write a number; return its bytes."""
    cdef char digits[20]
    cdef Py_ssize_t n = 0, i
    while value >= 10:
        digits[n] = <char>(48 + value % 10)
        value //= 10
        n += 1
    digits[n] = <char>(48 + value)
    for i in range(n + 1):
        at[i] = digits[n - i]
    return n + 1


cdef inline Py_ssize_t put_address(char* at, uint64_t value) noexcept nogil:
    """Write 0x and at least eight digits; return their bytes."""
    cdef int i, digits = 8
    cdef uint64_t digit
    while digits < 16 and value >> 4 * digits:
        digits += 1
    at[0], at[1] = c"0", c"x"
    for i in range(digits):
        digit = value >> 4 * (digits - 1 - i) & 15
        at[2 + i] = <char>(48 + digit if digit < 10 else 87 + digit)
    return 2 + digits


cdef inline Py_ssize_t put_bytes(char* at, bytes text) noexcept:
    """Write a text; return its bytes."""
    memcpy(at, <const char*>text, len(text))
    return len(text)
