"""The writer of Perfetto's frequent packets: begins and ends of slices, instants, counters, rows, blocks of edges.

A trace is a series of TracePackets. All packets of headway belong to one sequence, whose defaults and names `packets`
writes.

Source: Perfetto, protos/perfetto/trace/trace_packet.proto, track_event/track_event.proto and debug_annotation.proto.
"""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, memset

from headway.errors import HeadwayError
from headway.views._course cimport Row, Sink
from headway.views._output cimport Output

cdef enum:
    MAX_EVENT_BYTES = 256  # the largest size of an event with everything that a row has
    SEQUENCE = 1

cdef enum Type:
    SLICE_BEGIN = 1
    SLICE_END = 2
    INSTANT = 3
    COUNTER = 4

cdef enum Note:  # the names of a row's annotations, in the order in which NOTES are interned
    TAKEN = 1
    COUNT = 2
    WAKER_TID = 3
    WAKER_STATE = 4
    AMOUNT = 5

NOTES = ("taken", "count", "waker_tid", "waker_state", "amount")


cdef inline uint8_t* varint(uint8_t* at, uint64_t value) noexcept nogil:
    while value >= 0x80:
        at[0] = <uint8_t>(value | 0x80)
        at += 1
        value >>= 7
    at[0] = <uint8_t>value
    return at + 1


cdef inline uint8_t* field(uint8_t* at, uint8_t number, uint64_t value) noexcept nogil:
    """Write an integer in a field whose number is below 16."""
    at[0] = number << 3
    return varint(at + 1, value)


cdef inline uint8_t* long_field(uint8_t* at, uint32_t number, uint64_t value) noexcept nogil:
    """Write an integer in a field with any number."""
    return varint(varint(at, number << 3), value)


cdef inline uint8_t* fixed64(uint8_t* at, uint32_t number, const void* value) noexcept nogil:
    at = varint(at, number << 3 | 1)
    memcpy(at, value, 8)
    return at + 8


cdef inline uint8_t* note(uint8_t* at, Note name, int64_t value) noexcept nogil:
    """Write a debug annotation with a number."""
    cdef uint8_t* inside = at + 2
    inside = field(inside, 1, name)
    inside = field(inside, 4, <uint64_t>value)
    at[0] = 4 << 3 | 2
    at[1] = <uint8_t>(inside - at - 2)
    return inside


cdef inline uint8_t* word_note(uint8_t* at, Note name, uint32_t word) noexcept nogil:
    """Write a debug annotation with an interned text."""
    cdef uint8_t* inside = at + 2
    inside = field(inside, 1, name)
    inside = long_field(inside, 17, word)
    at[0] = 4 << 3 | 2
    at[1] = <uint8_t>(inside - at - 2)
    return inside


cdef inline uint8_t* begun(uint8_t* at, Type kind, uint64_t track) noexcept nogil:
    at = field(at, 9, kind)
    return field(at, 11, track)


cdef inline uint8_t* named(uint8_t* at, uint32_t category, uint32_t name) noexcept nogil:
    at = field(at, 3, category)
    return field(at, 10, name)


cdef class PerfettoEvents:
    """Writes packets to ``write``."""

    cdef Output _out
    cdef readonly uint64_t slices

    def __init__(self, write):
        self._out = Output(write)

    def flush(self):
        """Write what is in the buffer."""
        self._out.flush()

    def packet(self, bytes packet):
        """Write a whole packet."""
        cdef size_t length = len(packet)
        cdef uint8_t head[16]
        head[0] = 1 << 3 | 2
        self._out.add(head, varint(&head[1], length) - head)
        self._out.add(<const char*>packet, length)

    cdef int put(self, uint64_t time, const uint8_t* event, size_t length, const char* more=NULL,
                 size_t more_length=0) except -1:
        """Write a packet with a track event, given in two parts. The first has at most MAX_EVENT_BYTES."""
        cdef uint8_t inner[64]
        cdef uint8_t* at = inner
        cdef size_t size
        at = field(at, 8, time)
        at = field(at, 10, SEQUENCE)
        at = field(at, 13, 2)  # it needs the interned names
        at[0] = 11 << 3 | 2
        at = varint(at + 1, length + more_length)
        size = at - inner
        at = self._out.room(MAX_EVENT_BYTES + 128)
        at[0] = 1 << 3 | 2
        at = varint(at + 1, size + length + more_length)
        memcpy(at, inner, size)
        at += size
        memcpy(at, event, length)
        self._out.took(at + length)
        if more_length:
            self._out.add(more, more_length)
        return 0

    def begin(self, uint64_t track, uint64_t time, uint32_t category, uint32_t name, bytes more=b""):
        """Begin a slice. ``more``: further fields of its event, as bytes. If ``name`` is 0, the name is among them."""
        self.open(track, time, category, name, <const char*>more, len(more))

    cdef int open(
        self, uint64_t track, uint64_t time, uint32_t category, uint32_t name, const char* more, size_t length
    ) except -1:
        cdef uint8_t event[64]
        cdef uint8_t* at = begun(event, SLICE_BEGIN, track)
        at = field(at, 3, category)
        if name:
            at = field(at, 10, name)
        self.slices += 1
        return self.put(time, event, at - event, more, length)

    def end(self, uint64_t track, uint64_t time):
        """End the innermost slice of a track."""
        self.over(track, time)

    cdef int over(self, uint64_t track, uint64_t time) except -1:
        cdef uint8_t event[64]
        return self.put(time, event, begun(event, SLICE_END, track) - event)

    def instant(self, uint64_t track, uint64_t time, uint32_t category, uint32_t name, bytes more=b""):
        """Write an instant; ``more`` as in `begin`."""
        self.mark(track, time, category, name, <const char*>more, len(more))

    cdef int mark(
        self, uint64_t track, uint64_t time, uint32_t category, uint32_t name, const char* more, size_t length
    ) except -1:
        cdef uint8_t event[64]
        cdef uint8_t* at = named(begun(event, INSTANT, track), category, name)
        return self.put(time, event, at - event, more, length)

    def counter(self, uint64_t track, uint64_t time, double value):
        """Set a counter's value from ``time`` on."""
        cdef uint8_t event[64]
        cdef uint8_t* at = fixed64(begun(event, COUNTER, track), 44, &value)
        self.put(time, event, at - event)


cdef struct Fields:        # of a head
    const char* more       # further ones, of bytes that are kept
    size_t length
    uint32_t category, name
    bint known, instant


cdef class SliceTracks:
    """Writes blocks of edges as events.

    ``fields(head)`` returns the interned category and name of a head, and further fields as bytes. If the name is 0, it
    is among these.
    """

    cdef PerfettoEvents _events
    cdef object _fields, _heads
    cdef list _kept
    cdef Fields* _known
    cdef Py_ssize_t _room

    def __init__(self, PerfettoEvents events not None, fields):
        self._events, self._fields, self._heads, self._kept = events, fields, None, []

    def __dealloc__(self):
        free(self._known)

    def put(self, const int64_t[::1] tracks, const int64_t[::1] times, const int32_t[::1] places, heads):
        """Write the next edges (`views.edges.SliceEdges`). Raises HeadwayError for a time that Perfetto cannot hold."""
        cdef Py_ssize_t i
        cdef int32_t place
        cdef Fields* of
        if not len(tracks) == len(times) == len(places):
            raise ValueError("tracks, times and places are not of one length")
        if heads is not self._heads:
            self._heads, self._kept = heads, []
            if self._known != NULL:
                memset(self._known, 0, self._room * sizeof(Fields))
        self._make_room(len(heads))
        for i in range(len(tracks)):
            place = places[i]
            if times[i] < 0:
                raise HeadwayError(
                    f"a time of this trace, {times[i]} ns, is before 0, which Perfetto cannot hold: export a part of it"
                )
            if place < 0:
                self._events.over(tracks[i], times[i])
                continue
            if place >= self._room:
                raise IndexError(place)
            of = &self._known[place]
            if not of.known:
                self._learn(of, heads[place])
            if of.instant:
                self._events.mark(tracks[i], times[i], of.category, of.name, of.more, of.length)
            else:
                self._events.open(tracks[i], times[i], of.category, of.name, of.more, of.length)

    cdef int _make_room(self, Py_ssize_t count) except -1:
        cdef Fields* larger
        cdef Py_ssize_t room = max(2 * self._room, count)
        if count > self._room:
            larger = <Fields*>realloc(self._known, room * sizeof(Fields))
            if larger == NULL:
                raise MemoryError
            memset(larger + self._room, 0, (room - self._room) * sizeof(Fields))
            self._known, self._room = larger, room
        return 0

    cdef int _learn(self, Fields* of, head) except -1:
        """Find the fields of a head. This may write the packets of new names, before the first event that has them."""
        cdef bytes more
        of.category, of.name, more = self._fields(head)
        self._kept.append(more)
        of.more, of.length, of.instant, of.known = <const char*>more, len(more), head.instant, True
        return 0


cdef class TransitionTracks(Sink):
    """Writes rows of transitions as events.

    The caller describes the tracks and fills in their numbers: those of threads by index, with the interned name of
    each, and those of processors. ``wakes`` and ``on_processor`` are the interned name of a wake-up and the interned
    category of threads on processors.
    """

    cdef PerfettoEvents _events
    cdef uint64_t[::1] _threads, _cpus
    cdef uint32_t[::1] _thread_names
    cdef const uint32_t[::1] _names, _categories, _words
    cdef uint32_t _wakes, _on_processor

    def __init__(self, PerfettoEvents events, thread_tracks, thread_names, cpu_tracks, uint32_t wakes, uint32_t on_processor):
        self._events, self._wakes, self._on_processor = events, wakes, on_processor
        self._threads, self._thread_names, self._cpus = thread_tracks, thread_names, cpu_tracks

    def states(self, const uint32_t[::1] names, const uint32_t[::1] categories, const uint32_t[::1] words):
        """Set the interned names of the states of the next rows: as slice names, categories, and texts in annotations.
        """
        self._names, self._categories, self._words = names, categories, words

    cdef int slice(self, int32_t who, int64_t begin, int64_t end, const Row* row, uint64_t flow) except -1:
        cdef uint8_t event[MAX_EVENT_BYTES]
        cdef uint64_t track = self._threads[who]
        cdef uint8_t* at = begun(event, SLICE_BEGIN, track)
        at = named(at, self._categories[row.state], self._names[row.state])
        if row.taken:
            at = note(at, TAKEN, row.taken)
        if row.count != 1:
            at = note(at, COUNT, row.count)
        if row.waker_tid:
            at = note(at, WAKER_TID, row.waker_tid)
        if row.waker_state >= 0:
            at = word_note(at, WAKER_STATE, self._words[row.waker_state])
        if flow:
            at = fixed64(at, 48, &flow)
        self._events.slices += 1
        self._events.put(begin, event, at - event)
        return self._events.over(track, end)

    cdef int wake(self, int32_t waker, int64_t time, int32_t state, uint64_t flow) except -1:
        # In the file a flow must begin before the slice that it leads to.
        cdef uint8_t event[MAX_EVENT_BYTES]
        cdef uint8_t* at = begun(event, INSTANT, self._threads[waker])
        at = fixed64(named(at, self._categories[state], self._wakes), 47, &flow)
        return self._events.put(time, event, at - event)

    cdef int amount(self, int32_t who, int16_t cpu, int64_t time, const Row* row) except -1:
        cdef uint8_t event[MAX_EVENT_BYTES]
        cdef uint8_t* at = begun(event, INSTANT, self._threads[who] if who >= 0 else self._cpus[cpu])
        at = named(at, self._categories[row.state], self._names[row.state])
        at = note(at, AMOUNT, -<int64_t>row.taken)
        if row.count != 1:
            at = note(at, COUNT, row.count)
        return self._events.put(time, event, at - event)

    cdef int run(self, int16_t cpu, int64_t begin, int64_t end, int32_t who, int32_t state) except -1:
        cdef uint8_t event[MAX_EVENT_BYTES]
        cdef uint8_t* at = begun(event, SLICE_BEGIN, self._cpus[cpu])
        if who >= 0:
            at = named(at, self._on_processor, self._thread_names[who])
        else:
            at = named(at, self._categories[state], self._names[state])
        self._events.slices += 1
        self._events.put(begin, event, at - event)
        return self._events.over(self._cpus[cpu], end)
