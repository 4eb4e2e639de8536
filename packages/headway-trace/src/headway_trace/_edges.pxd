# The C interface of the maker of edges: producers report spans of time to it without objects in between.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

cdef struct Track:
    uint64_t number
    int64_t begin      # of the open slice
    int64_t end        # up to which it is known what the track did
    uint64_t thread    # of the open slice, if it is of one
    int32_t label      # of the open slice
    bint open, threaded

cdef struct Labelled:
    uint64_t address
    int32_t label      # one more than it; 0: none is kept here

cdef struct Kept:      # a head that is in the list
    uint64_t address, thread
    int32_t label
    int32_t place      # one more than it; 0: none is kept here
    uint8_t has

cdef class EdgeClock:
    cdef int64_t convert(self, int64_t time) except? -1

cdef class SliceEdges:
    cdef object names, receive
    cdef EdgeClock clock
    cdef Track* tracks
    cdef Py_ssize_t count, room
    cdef dict numbers          # of tracks: their places
    cdef int32_t near[64]      # of the tracks that were used last: one more than their places
    cdef dict labels           # (name, category): number
    cdef list meanings         # of labels
    cdef Labelled* functions   # labels of the functions of addresses
    cdef list heads
    cdef Kept* kept
    cdef int64_t* owners       # the edges of the next block: their tracks
    cdef int64_t* times
    cdef int32_t* places
    cdef Py_ssize_t used
    cdef readonly uint64_t passed

    cdef int32_t label(self, name, category) except -1
    cdef int executed(
        self, uint64_t track, int64_t start, int64_t end, uint64_t address, bint threaded, uint64_t thread
    ) except -1
    cdef int spent(self, uint64_t track, int64_t start, int64_t end, int32_t label, uint64_t address) except -1
    cdef int was_apart(
        self, uint64_t track, int64_t start, int64_t end, int32_t label, bint placed, uint64_t address
    ) except -1
    cdef int marked(self, uint64_t track, int64_t time, int32_t label, uint64_t address) except -1
    cdef int paused(self, uint64_t track) except -1

    cdef Track* find(self, uint64_t number) except? NULL
    cdef Track* fit(self, uint64_t number, int64_t* start, int64_t end) except? NULL
    cdef int32_t function_at(self, uint64_t address) except -1
    cdef int32_t head(self, int32_t label, uint8_t has, uint64_t address, uint64_t thread) except -1
    cdef int put(self, uint64_t track, int64_t time, int32_t place) except -1
    cdef int end_slice(self, Track* now) except -1
