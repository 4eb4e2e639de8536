"""The walk back along wake-ups, from the end of a thread to the beginning of the run."""

from libc.stdint cimport int8_t, int32_t, int64_t
from libc.stdlib cimport free, realloc

import numpy as np

cdef enum:
    RUNS = 0
    READY = 1
    WAITS = 2
    SPAN = 0      # on a processor, or ready for one
    OUTSIDE = 1   # asleep until something outside the measured threads happened
    UNDER_WAY = 2 # a wake-up had been sent, and had not arrived
    BEFORE = 3    # nothing is known of the thread yet


def walk(
    Py_ssize_t row,
    int64_t time,
    int64_t start,
    const int32_t[::1] thread,
    const int64_t[::1] begin,
    const int64_t[::1] end,
    const int8_t[::1] activity,
    const int64_t[::1] source,
    const int64_t[::1] sent,
    const int64_t[::1] creator,
):
    """Return the pieces of the critical path, the last first: row, from, until and what each is.

    The path ends at ``time`` in ``row``, whose span has the moment just before ``time``. Its pieces tile the time from
    ``start`` on.
    """
    cdef int64_t *found = NULL
    cdef int64_t *more
    cdef size_t n = 0, room = 0
    cdef int64_t since, at = time
    cdef int what
    cdef Py_ssize_t there = row, after
    cdef int64_t until
    try:
        while at > start:
            after, until = there, at
            what = SPAN
            since = begin[there]
            if activity[there] == WAITS:
                if source[there] >= 0 and at == end[there]:
                    since, what = sent[there], UNDER_WAY
                    after = source[there]
                else:
                    what = OUTSIDE
            if since < start:
                since = start
            at = since
            if until > since:
                if n == room:
                    room = 2 * room + 1024
                    more = <int64_t *>realloc(found, 4 * room * sizeof(int64_t))
                    if more == NULL:
                        raise MemoryError
                    found = more
                found[4 * n], found[4 * n + 1], found[4 * n + 2], found[4 * n + 3] = there, since, until, what
                n += 1
            if at <= start:
                break
            if after != there: # the wake-up was sent then, in the span of another thread
                there = after
                continue
            if there > 0 and thread[there - 1] == thread[there]:
                there -= 1
                continue
            if creator[thread[there]] >= 0 and begin[creator[thread[there]]] < at:
                there = creator[thread[there]]
                continue
            if n == room:
                room += 1
                more = <int64_t *>realloc(found, 4 * room * sizeof(int64_t))
                if more == NULL:
                    raise MemoryError
                found = more
            found[4 * n], found[4 * n + 1], found[4 * n + 2], found[4 * n + 3] = there, start, at, BEFORE
            n += 1
            break
        pieces = np.empty((n, 4), np.int64)
        view(pieces, found, n)
        return pieces
    finally:
        free(found)


cdef int view(object pieces, const int64_t *found, size_t n) except -1:
    cdef int64_t[:, ::1] to = pieces
    cdef size_t i, j
    for i in range(n):
        for j in range(4):
            to[i, j] = found[4 * i + j]
    return 0
