"""Rows of transitions as trace events in JSON, one event a line, as bytes.

Source: Trace Event Format (Google).
"""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy, strlen

from headway.views._course cimport Row, Sink
from headway.views._output cimport Output

cdef enum:
    DIGITS = 24


cdef inline uint8_t* number(uint8_t* at, int64_t value) noexcept nogil:
    """Write an integer in decimal."""
    cdef uint8_t digits[DIGITS]
    cdef int n = DIGITS
    cdef uint64_t rest = <uint64_t>value
    if value < 0:
        at[0] = b"-"
        at += 1
        rest = 0 - rest
    while True:
        n -= 1
        digits[n] = 48 + rest % 10
        rest //= 10
        if rest == 0:
            break
    memcpy(at, digits + n, DIGITS - n)
    return at + (DIGITS - n)


cdef class TraceEvents(Sink):
    """Writes the events of a recording. Times are relative to ``start``.

    The caller provides words as JSON. `threads` and `names` have the ids of each thread and its name on processors; the
    caller fills them in. `states` has the name and kind of each state and `words` its name alone; the caller replaces
    them.
    """

    cdef Output _out
    cdef int64_t _start
    cdef bint _any
    cdef public list threads, names, states, words

    def __init__(self, write, int64_t start, Py_ssize_t threads):
        self._out = Output(write)
        self._start = start
        self.threads, self.names = [b""] * threads, [b""] * threads
        self.states, self.words = [], []

    def event(self, bytes event):
        """Write any event, given as JSON."""
        self._begin(b"")
        self._add(event)

    def flush(self):
        """Write what is in the buffer."""
        self._out.flush()

    cdef int _add(self, bytes text) except -1:
        return self._out.add(<const char*>text, len(text))

    cdef int _number(self, int64_t value) except -1:
        cdef uint8_t* at = self._out.room(DIGITS)
        self._out.took(number(at, value))
        return 0

    cdef int _microseconds(self, int64_t time) except -1:
        """Write ns as microseconds with three decimals."""
        cdef uint8_t* at = self._out.room(DIGITS + 8)
        cdef uint64_t size = <uint64_t>time
        cdef int part
        if time < 0:
            at[0] = b"-"
            at += 1
            size = 0 - size
        part = <int>(size % 1000)
        at = number(at, <int64_t>(size // 1000))
        at[0], at[1], at[2], at[3] = b".", 48 + part // 100, 48 + part // 10 % 10, 48 + part % 10
        self._out.took(at + 4)
        return 0

    cdef int _text(self, const char* text) except -1:
        return self._out.add(text, strlen(text))

    cdef int _begin(self, const char* head) except -1:
        """Begin an event, after a comma if it is not the first."""
        if self._any:
            self._text(b",\n")
        self._any = True
        return self._text(head)

    cdef int _at(self, int64_t time) except -1:
        self._text(b',"ts":')
        return self._microseconds(time - self._start)

    cdef int _place(self, int32_t who, int16_t cpu) except -1:
        """Write whose event it is: a thread's or a processor's."""
        if who >= 0:
            return self._add(<bytes>self.threads[who])
        self._text(b'"pid":0,"tid":')
        return self._number(cpu)

    cdef int _complete(self, int32_t who, int16_t cpu, int64_t begin, int64_t end) except -1:
        self._begin(b'{"ph":"X",')
        self._place(who, cpu)
        self._at(begin)
        self._text(b',"dur":')
        self._microseconds(end - begin)
        return self._text(b",")

    cdef int slice(self, int32_t who, int64_t begin, int64_t end, const Row* row, uint64_t flow) except -1:
        self._complete(who, -1, begin, end)
        self._add(<bytes>self.states[row.state])
        self._text(b',"args":{"taken":')
        self._number(row.taken)
        self._text(b',"count":')
        self._number(row.count)
        if row.waker_tid:
            self._text(b',"waker_tid":')
            self._number(row.waker_tid)
        if row.waker_state >= 0:
            self._text(b',"waker_state":')
            self._add(<bytes>self.words[row.waker_state])
        self._text(b"}}")
        if flow:
            self._begin(b'{"ph":"f","bp":"e",')
            self._flow(who, begin, flow)
        return 0

    cdef int wake(self, int32_t waker, int64_t time, int32_t state, uint64_t flow) except -1:
        self._begin(b'{"ph":"s",')
        return self._flow(waker, time, flow)

    cdef int _flow(self, int32_t who, int64_t time, uint64_t flow) except -1:
        self._place(who, -1)
        self._at(time)
        self._text(b',"name":"wakes","cat":"wait","id":')
        self._number(flow)
        return self._text(b"}")

    cdef int amount(self, int32_t who, int16_t cpu, int64_t time, const Row* row) except -1:
        self._begin(b'{"ph":"i","s":"t",')
        self._place(who, cpu)
        self._at(time)
        self._text(b",")
        self._add(<bytes>self.states[row.state])
        self._text(b',"args":{"amount":')
        self._number(-<int64_t>row.taken)
        self._text(b',"count":')
        self._number(row.count)
        return self._text(b"}}")

    cdef int run(self, int16_t cpu, int64_t begin, int64_t end, int32_t who, int32_t state) except -1:
        self._complete(-1, cpu, begin, end)
        self._add(<bytes>(self.names[who] if who >= 0 else self.states[state]))
        return self._text(b"}")
