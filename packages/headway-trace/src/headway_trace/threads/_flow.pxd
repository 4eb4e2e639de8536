# The C interface of decoded rows: what each thread of the machine did.
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

# Why it is not known what a thread did: codes of docs/trace-format.md from 32 on.
cdef enum:  # Why
    BEFORE = 32        # before the first synchronisation
    UNTRACED = 33
    OVERFLOW = 34
    DAMAGE = 35
    CONTRADICTION = 36
    IMAGE = 37
    CODE = 38
    CUT_OFF = 39

cdef struct Row:
    int64_t cycle        # of the core; -1: not known
    uint32_t cycles      # of an instruction, since the thread's instruction before; otherwise the duration
    uint32_t address     # of a gap, its duration in units of 2^32 cycles
    uint32_t id          # of a gap, the number of its span
    uint8_t thread
    uint8_t size
    uint8_t what
    uint8_t unused

cdef struct Span:
    # A span of bytes of the stream.
    int64_t start
    int64_t end


cdef inline int64_t length_of(const Row* r) noexcept nogil:
    """Return the duration of a row that is not an instruction; -1: not known."""
    return <int64_t>(<uint64_t>r.address << 32 | r.cycles) if r.what >= BEFORE else <int64_t>r.cycles


cdef class ThreadRows:
    cdef Row* data
    cdef Span* spans
    cdef Py_ssize_t size, room, spanned, spans_room
    cdef Py_ssize_t find_cycle(self, int thread, int64_t cycle, int64_t unit) noexcept nogil
    cdef int need(self, Py_ssize_t more) except -1
