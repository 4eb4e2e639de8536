# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, embedsignature=True
"""The kernel's ring buffers of perf events, read without a Python object for each record.

The layout is that of perf_event_open(2) and include/uapi/linux/perf_event.h: a page that says how far the kernel has
written (``data_head``) and how far we have read (``data_tail``), followed by the data. The kernel writes the data
before the head, and overwrites nothing beyond the tail. So the head is read with acquire, and the tail is written with
release ordering.
"""

import os
from typing import NamedTuple

import numpy

from libc.errno cimport errno as last_error
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy

cdef extern from *:
    """
    #include <linux/perf_event.h>
    #include <stdint.h>
    #include <sys/mman.h>
    #include <unistd.h>

    static inline uint64_t headway_head(const struct perf_event_mmap_page *p) {
        return __atomic_load_n(&p->data_head, __ATOMIC_ACQUIRE);
    }
    static inline void headway_release(struct perf_event_mmap_page *p, uint64_t tail) {
        __atomic_store_n(&p->data_tail, tail, __ATOMIC_RELEASE);
    }
    /* The time for which the event's thread has had a processor, as of its last dispatch; `lock` is a sequence lock. */
    static inline uint64_t headway_dispatched(const struct perf_event_mmap_page *p) {
        uint32_t before;
        uint64_t time;
        int tries = 0;
        do {
            before = __atomic_load_n(&p->lock, __ATOMIC_ACQUIRE);
            time = __atomic_load_n(&p->time_enabled, __ATOMIC_RELAXED);
            __atomic_thread_fence(__ATOMIC_ACQUIRE);
        } while ((before & 1 || __atomic_load_n(&p->lock, __ATOMIC_RELAXED) != before) && ++tries < 1000);
        return time;
    }
    static void *headway_map(int fd, size_t length) {
        void *p = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        return p == MAP_FAILED ? NULL : p;
    }
    static void headway_unmap(void *p, size_t length) { munmap(p, length); }
    static ssize_t headway_read(int fd, uint64_t *words, size_t length) { return read(fd, words, length); }
    """
    struct perf_event_mmap_page:
        pass
    uint64_t headway_head(const perf_event_mmap_page *p) nogil
    void headway_release(perf_event_mmap_page *p, uint64_t tail) nogil
    uint64_t headway_dispatched(const perf_event_mmap_page *p) nogil
    void *headway_map(int fd, size_t length) nogil
    void headway_unmap(void *p, size_t length) nogil
    ssize_t headway_read(int fd, uint64_t *words, size_t length) nogil

cdef enum:
    LOST = 2, THROTTLE = 5, SAMPLE = 9, LOST_SAMPLES = 13
    HEADER = 8
    IP = 1 << 0, TID = 1 << 1, TIME = 1 << 2, ADDR = 1 << 3, CALLCHAIN = 1 << 5, ID = 1 << 6, CPU = 1 << 7
    PERIOD = 1 << 8, STREAM_ID = 1 << 9, IDENTIFIER = 1 << 16

PAGE = os.sysconf("SC_PAGE_SIZE")

FIELDS = {
    "ip": IP, "tid": TID, "time": TIME, "addr": ADDR, "callchain": CALLCHAIN, "id": ID, "cpu": CPU, "period": PERIOD,
    "stream_id": STREAM_ID, "identifier": IDENTIFIER,
}
"""The PERF_SAMPLE_* that `Tray.samples` can read, by name."""


class Samples(NamedTuple):
    """Samples, column by column, all arrays of shape (n,). A column that was not requested from the kernel has zeros.
    """

    time: numpy.ndarray
    """int64, ns of the requested clock."""
    pid: numpy.ndarray
    tid: numpy.ndarray
    """int32, process and thread; -1: none."""
    cpu: numpy.ndarray
    """int32."""
    kernel: numpy.ndarray
    """bool: whether the processor was in the kernel (PERF_RECORD_MISC_CPUMODE)."""
    period: numpy.ndarray
    """int64: the number of events that the sample stands for; ns for a clock."""
    ip: numpy.ndarray
    """uint64: the instruction's address."""
    first: numpy.ndarray
    """int64, shape (n + 1,): the frames of sample i are ``frames[first[i]:first[i + 1]]``."""
    frames: numpy.ndarray
    """uint64, innermost first, with the kernel's markers in between (PERF_CONTEXT_*, above 2^64 - 4096)."""


cdef class Tray:
    """Whole records drained from any number of rings, one after the other."""

    cdef uint8_t *bytes
    cdef size_t room
    cdef readonly size_t used
    """The number of bytes in it."""

    def __dealloc__(self):
        free(self.bytes)

    def __len__(self):
        return self.used

    def clear(self):
        """Forget the content and keep the memory."""
        self.used = 0

    def tobytes(self):
        """Return all records as they came: struct perf_event_header, followed by what its type says."""
        return self.bytes[:self.used]

    def put(self, const uint8_t[::1] records):
        """Append records from elsewhere, such as a file. Raises ValueError if they are not whole records."""
        cdef size_t n = records.shape[0], at = 0
        cdef uint16_t size
        while n - at >= HEADER:
            memcpy(&size, &records[at + 6], 2)
            if size < HEADER or size > n - at:
                break
            at += size
        if at != n:
            raise ValueError(f"byte {at} begins no whole record")
        if n:
            memcpy(self.make_room(n), &records[0], n)
            self.used += n

    cdef uint8_t *make_room(self, size_t n) except NULL:
        cdef uint8_t *larger
        cdef size_t room
        if self.used + n > self.room or self.bytes == NULL:
            room = max(2 * self.room, self.used + n, <size_t>65536)
            larger = <uint8_t *>realloc(self.bytes, room)
            if larger == NULL:
                raise MemoryError
            self.bytes = larger
            self.room = room
        return self.bytes + self.used

    def others(self):
        """Return the records that are not samples, in order: (type, misc, the bytes after the header)."""
        cdef size_t at = 0
        cdef uint32_t type
        cdef uint16_t misc, size
        cdef list found = []
        while at < self.used:
            memcpy(&type, self.bytes + at, 4)
            memcpy(&misc, self.bytes + at + 4, 2)
            memcpy(&size, self.bytes + at + 6, 2)
            if type != SAMPLE:
                found.append((type, misc, self.bytes[at + HEADER:at + size]))
            at += size
        return found

    def samples(self, uint64_t fields):
        """Return the samples. ``fields`` is the sample_type that was requested from the kernel, of `FIELDS`.

        A sample that is shorter than its fields is left out. Raises ValueError for fields that are not in `FIELDS`.
        """
        if fields & ~<uint64_t>(IP | TID | TIME | ADDR | CALLCHAIN | ID | CPU | PERIOD | STREAM_ID | IDENTIFIER):
            raise ValueError(f"sample_type {fields:#x} has fields that are not known here")
        cdef size_t fixed = HEADER + 8 * bin(fields & ~<uint64_t>CALLCHAIN).count("1")
        cdef size_t at = 0, n = 0, n_frames = 0, place
        cdef uint32_t type
        cdef uint16_t misc, size
        cdef uint64_t depth
        # Count samples and frames first.
        while at < self.used:
            memcpy(&type, self.bytes + at, 4)
            memcpy(&size, self.bytes + at + 6, 2)
            if type == SAMPLE and self.depth(at, size, fixed, fields, &depth):
                n += 1
                n_frames += depth
            at += size
        time_, pid_, tid_, cpu_ = (numpy.zeros(n, kind) for kind in (numpy.int64, numpy.int32, numpy.int32, numpy.int32))
        kernel_, period_, ip_ = (numpy.zeros(n, kind) for kind in (numpy.uint8, numpy.int64, numpy.uint64))
        first_, frames_ = numpy.zeros(n + 1, numpy.int64), numpy.empty(n_frames, numpy.uint64)
        cdef int64_t[::1] time = time_, period = period_, first = first_
        cdef int32_t[::1] pid = pid_, tid = tid_, cpu = cpu_
        cdef uint64_t[::1] ip = ip_, frames = frames_
        cdef uint8_t[::1] kernel = kernel_
        at = n = n_frames = 0
        while at < self.used:
            memcpy(&type, self.bytes + at, 4)
            memcpy(&misc, self.bytes + at + 4, 2)
            memcpy(&size, self.bytes + at + 6, 2)
            if type == SAMPLE and self.depth(at, size, fixed, fields, &depth):
                kernel[n] = misc & 7 == 1
                place = at + HEADER
                if fields & IDENTIFIER:
                    place += 8
                if fields & IP:
                    memcpy(&ip[n], self.bytes + place, 8)
                    place += 8
                if fields & TID:
                    memcpy(&pid[n], self.bytes + place, 4)
                    memcpy(&tid[n], self.bytes + place + 4, 4)
                    place += 8
                if fields & TIME:
                    memcpy(&time[n], self.bytes + place, 8)
                    place += 8
                if fields & ADDR:
                    place += 8
                if fields & ID:
                    place += 8
                if fields & STREAM_ID:
                    place += 8
                if fields & CPU:
                    memcpy(&cpu[n], self.bytes + place, 4)
                    place += 8
                if fields & PERIOD:
                    memcpy(&period[n], self.bytes + place, 8)
                    place += 8
                if depth:
                    memcpy(&frames[n_frames], self.bytes + place + 8, 8 * depth)
                    n_frames += depth
                n += 1
                first[n] = n_frames
            at += size
        return Samples(time_, pid_, tid_, cpu_, kernel_.view(numpy.bool_), period_, ip_, first_, frames_)

    cdef bint depth(self, size_t at, size_t size, size_t fixed, uint64_t fields, uint64_t *depth) noexcept:
        """Set the number of frames of a sample. Return False if it is shorter than it claims."""
        depth[0] = 0
        if not fields & CALLCHAIN:
            return size >= fixed
        if size < fixed + 8:
            return False
        memcpy(depth, self.bytes + at + fixed, 8)
        return depth[0] <= (size - fixed - 8) // 8


cdef class Ring:
    """The ring buffer of one perf event, or of several that were set to share it.

    The file belongs to the caller that opened the event. After it is closed, the ring can still be read.
    """

    cdef perf_event_mmap_page *page
    cdef uint8_t *data
    cdef size_t length
    cdef uint64_t tail
    cdef readonly uint64_t size
    """The capacity in bytes."""
    cdef readonly uint64_t samples, lost, throttled, damaged
    """The numbers so far of: samples; records that the kernel says it could not store; times that the kernel stopped
    the event because of its rate; and readings that found no whole record where there must be one.
    """

    cdef readonly uint64_t time, dropped
    """As of the last `ask`: ns for which the thread had a processor, and samples without room (since Linux 6.0)."""
    cdef uint64_t dispatched
    cdef bint still

    def __cinit__(self, int fd, int pages):
        """``pages``: of data, a power of two. Raises OSError with mmap's errno; EPERM: more than may be locked."""
        if pages < 1 or pages & (pages - 1):
            raise ValueError(f"{pages} pages: not a power of two")
        cdef size_t page = PAGE
        self.length = (1 + <size_t>pages) * page
        self.page = <perf_event_mmap_page *>headway_map(fd, self.length)
        if self.page == NULL:
            raise OSError(last_error, os.strerror(last_error))
        self.data = <uint8_t *>self.page + page
        self.size = <uint64_t>pages * page

    def __dealloc__(self):
        if self.page != NULL:
            headway_unmap(self.page, self.length)

    def close(self):
        """Unmap the ring. Records still in it are lost."""
        if self.page != NULL:
            headway_unmap(self.page, self.length)
            self.page = NULL

    @property
    def filled(self):
        """The number of bytes that were written and not yet read."""
        return headway_head(self.page) - self.tail if self.page != NULL else 0

    def ask(self, int fd):
        """Read the event (PERF_FORMAT_TOTAL_TIME_ENABLED, PERF_FORMAT_LOST) and return `time`.

        The page has the time as of the thread's last dispatch. If that is unchanged after two readings that agreed, the
        thread has not run, and nothing needs to be read.
        """
        cdef uint64_t words[3]
        cdef uint64_t dispatched
        cdef ssize_t n
        if self.page == NULL:
            return self.time
        dispatched = headway_dispatched(self.page)
        if self.still and dispatched == self.dispatched:
            return self.time
        n = headway_read(fd, words, 24)
        if n < 16:  # the event was taken out of service
            return self.time
        self.still = words[1] == self.time and dispatched == self.dispatched
        self.dispatched = dispatched
        self.time = words[1]
        if n == 24:
            self.dropped = words[2]
        return self.time

    def stood_still(self):
        """Return whether the thread has certainly not run since the last two calls of `ask`."""
        return self.page != NULL and self.still and headway_dispatched(self.page) == self.dispatched

    def drain(self, Tray into):
        """Move all records to the end of the tray. Return their size in bytes."""
        if self.page == NULL:
            return 0
        cdef uint64_t head = headway_head(self.page)
        cdef uint64_t n = head - self.tail, at = 0, start = self.tail & (self.size - 1), lost
        cdef uint8_t *to
        cdef uint32_t type
        cdef uint16_t size
        if not n:
            return 0
        if n > self.size:
            self.damaged += 1
            n = 0
        else:
            to = into.make_room(n)
            if start + n <= self.size:
                memcpy(to, self.data + start, n)
            else:
                memcpy(to, self.data + start, self.size - start)
                memcpy(to + (self.size - start), self.data, n - (self.size - start))
        self.tail = head
        headway_release(self.page, head)
        while at < n:
            if n - at >= HEADER:
                memcpy(&type, to + at, 4)
                memcpy(&size, to + at + 6, 2)
            else:
                size = 0  # not even a header is left
            if size < HEADER or size > n - at:
                self.damaged += 1
                break
            if type == SAMPLE:
                self.samples += 1
            elif type == LOST and size >= HEADER + 16:
                memcpy(&lost, to + at + 16, 8)
                self.lost += lost
            elif type == LOST_SAMPLES and size >= HEADER + 8:
                memcpy(&lost, to + at + 8, 8)
                self.lost += lost
            elif type == THROTTLE:
                self.throttled += 1
            at += size
        into.used += at
        return at
