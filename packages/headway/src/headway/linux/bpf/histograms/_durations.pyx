# cython: language_level=3, boundscheck=False, wraparound=False, embedsignature=True
"""Read the histograms of durations in the memory that is shared with the eBPF programs (durations.h)."""

from bpf_layout cimport (
    N_BUCKETS, N_CELLS, histogram, thread_histograms,
)
from libc.stdint cimport int64_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy, memset

cdef extern from *:
    """
    #include <stddef.h>
    #include <stdint.h>
    #include <string.h>
    #include <unistd.h>
    #include <sys/syscall.h>
    #define HISTOGRAM_SIZE sizeof(struct histogram)
    #define THREAD_HISTOGRAMS_SIZE sizeof(struct thread_histograms)
    #define NUMBERS_AT offsetof(struct thread_histograms, numbers)
    static inline void headway_order(void) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
    /* bpf(2), BPF_MAP_UPDATE_ELEM: pushes a value on a stack of u32 */
    static inline int headway_push(int fd, uint32_t value) {
        struct { uint32_t fd, padding; uint64_t key, value, flags; } attributes = {0};
        attributes.fd = (uint32_t)fd;
        attributes.value = (uint64_t)(uintptr_t)&value;
        return (int)syscall(__NR_bpf, 2, &attributes, sizeof attributes);
    }
    """
    size_t HISTOGRAM_SIZE, THREAD_HISTOGRAMS_SIZE, NUMBERS_AT
    void headway_order() nogil
    int headway_push(int fd, uint32_t value) nogil

cdef int MAX_ATTEMPTS = 1000

cdef packed struct head:
    uint16_t cell, buckets
    uint32_t revoked
    uint64_t longest, longest_end, pieces

cdef packed struct entry:
    uint16_t bucket
    uint64_t count


cdef class DurationMaps:
    """The maps of histograms, and the ways to read them and to give histograms back.

    ``maps``: writable buffers over `thread_histograms`, `saved_thread_histograms`, `histograms` and `saved_histograms`.
    ``parts``: buckets for each power of two. ``max_histograms``: so many, times these parts, have room. ``free_fd``: of
    the map `free_histograms`.

    Histograms are packed as bytes, those without any occurrence left out: `headway.linux.bpf.histograms.durations` unpacks them.
    """

    cdef object buffers
    cdef char *threads
    cdef char *saved_threads
    cdef char *histograms
    cdef char *saved_histograms
    cdef readonly int parts
    cdef int bits, free_fd
    cdef uint32_t max_histograms
    cdef list done
    cdef char *room
    cdef size_t length, size

    def __cinit__(self, tuple maps, int parts, uint32_t max_histograms, int free_fd):
        cdef unsigned char[::1] view
        self.buffers = maps
        threads, saved_threads, histograms, saved_histograms = maps
        view = threads
        self.threads = <char *>&view[0]
        view = saved_threads
        self.saved_threads = <char *>&view[0]
        view = histograms
        self.histograms = <char *>&view[0]
        view = saved_histograms
        self.saved_histograms = <char *>&view[0]
        self.parts, self.bits = parts, parts.bit_length() - 1
        self.max_histograms, self.free_fd = max_histograms, free_fd
        self.done = []
        self.room = NULL
        self.length = self.size = 0

    def __dealloc__(self):
        free(self.room)

    def hand_out(self):
        """Have the programs use only the list of free histograms. Call this before they are attached."""
        cdef uint32_t number
        for number in range(self.max_histograms - 1, 0, -1):
            headway_push(self.free_fd, number)

    def read(self, uint32_t thread_record, int used, bint saved, int64_t snapshot):
        """Return the histograms of a living thread, packed, as of a snapshot, of which this is the number.

        ``used``: the cells that the thread has then. ``saved``: its record was copied since. A negative ``snapshot``:
        nothing is measured any more.
        """
        cdef thread_histograms *t = <thread_histograms *>(
            (self.saved_threads if saved else self.threads) + thread_record * THREAD_HISTOGRAMS_SIZE)
        return self.pack(t.numbers, used, snapshot)

    def take(self, bytes sent):
        """Return whose histograms a record of the ring of exits is about, (tid, birth), and these, packed.

        They are given back at the next `release`. Returns None where the record is damaged.
        """
        cdef thread_histograms *t = <thread_histograms *><char *>sent
        cdef size_t size = len(sent)
        cdef uint32_t i
        if size < NUMBERS_AT or t.used > N_CELLS or size < NUMBERS_AT + t.used * sizeof(uint32_t):
            return None
        for i in range(t.used):
            if 0 < t.numbers[i] < self.max_histograms:
                self.done.append(t.numbers[i])
        return (t.tid, t.birth), self.pack(t.numbers, t.used, -1)

    def release(self):
        """Give the histograms of ended threads back. No reading may be under way: it may still need them."""
        cdef uint32_t number
        done, self.done = self.done, []
        for number in done:
            memset(self.histograms + (<size_t>number << self.bits) * HISTOGRAM_SIZE, 0, self.parts * HISTOGRAM_SIZE)
            headway_order()
            headway_push(self.free_fd, number)

    cdef bytes pack(self, const uint32_t *numbers, int used, int64_t snapshot):
        cdef histogram *copy = <histogram *>malloc(self.parts * HISTOGRAM_SIZE)
        cdef int cell
        if copy == NULL:
            raise MemoryError
        self.length = 0
        try:
            for cell in range(min(used, N_CELLS)):
                if 0 < numbers[cell] < self.max_histograms and self.copy_at(numbers[cell], snapshot, copy):
                    self.add(cell, copy)
            return self.room[:self.length] if self.length else b""
        finally:
            free(copy)

    cdef bint copy_at(self, uint32_t number, int64_t snapshot, histogram *copy) noexcept:
        cdef size_t at = (<size_t>number << self.bits) * HISTOGRAM_SIZE, size = self.parts * HISTOGRAM_SIZE
        cdef histogram *live = <histogram *>(self.histograms + at)
        cdef uint32_t seen
        cdef int attempt
        for attempt in range(MAX_ATTEMPTS):
            seen = live.snapshot
            headway_order()
            if snapshot >= 0 and seen == <uint32_t>snapshot: # it has changed since, and was copied before
                memcpy(copy, self.saved_histograms + at, size)
                return True
            memcpy(copy, live, size)
            headway_order()
            if live.snapshot == seen:
                return True
        return False

    cdef int add(self, int cell, histogram *h) except -1:
        """Add a histogram to what is packed."""
        cdef head top
        cdef entry one
        cdef int power, part
        cdef size_t needed = sizeof(head) + N_BUCKETS * self.parts * sizeof(entry)
        cdef char *grown
        if self.size < self.length + needed:
            grown = <char *>realloc(self.room, 2 * (self.length + needed))
            if grown == NULL:
                raise MemoryError
            self.room, self.size = grown, 2 * (self.length + needed)
        cdef size_t at = self.length
        top.cell, top.buckets, top.revoked = cell, 0, h.revoked
        top.longest, top.longest_end, top.pieces = h.longest, h.longest_end, h.pieces
        self.length += sizeof(head)
        for power in range(N_BUCKETS):
            for part in range(self.parts):
                if h[part].counts[power]:
                    one.bucket, one.count = power * self.parts + part, h[part].counts[power]
                    memcpy(self.room + self.length, &one, sizeof(entry))
                    self.length += sizeof(entry)
                    top.buckets += 1
        if top.buckets or top.pieces:
            memcpy(self.room + at, &top, sizeof(head))
        else:
            self.length = at
        return 0
