"""Records in C, which become those of `records` one by one when they are asked for, and their writer."""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcpy, memmove, memset

from headway_trace._text cimport put_address, put_bytes, put_decimal
from headway_trace.records import Exception_, Gap, Instruction, Timestamp, Why

DEF LINE = 160         # the most bytes of a line of CSV, without the words that it has
DEF NAMED = 1 << 16    # addresses whose names are kept

cdef bytes NOT_EXECUTED_ = b"not_executed"
cdef bytes EXECUTED_ = b"executed"
cdef bytes CONDITIONAL_ = b"conditional"
cdef bytes ASSUMED_ = b"assumed"
cdef bytes ABORTED_ = b"aborted"


cdef inline bytes state_of(uint8_t executed):
    """Return the name of the state of an instruction."""
    return (
        EXECUTED_ if executed == PASSED else ABORTED_ if executed & ABORTED else ASSUMED_ if executed & ASSUMED
        else CONDITIONAL_ if executed == UNTRACED else NOT_EXECUTED_
    )


def csv_cell(text):
    """Return a text as a cell of CSV, in UTF-8; characters that UTF-8 cannot hold become escapes."""
    quoted = '"' + text.replace('"', '""') + '"' if any(one in text for one in ',"\r\n') else text
    return quoted.encode("utf-8", "backslashreplace")


cdef class SymbolCells:
    """The names of a program's functions as cells of CSV. ``symbol(address)`` returns a name, or ""."""

    def __cinit__(self):
        self.kept = <Named*>calloc(NAMED, sizeof(Named))
        if self.kept == NULL:
            raise MemoryError

    def __init__(self, symbol):
        self.symbol, self.cells = symbol, {}

    def __dealloc__(self):
        free(self.kept)

    cdef Named* at(self, uint64_t address) except NULL:
        cdef Named* found = &self.kept[address >> 1 & (NAMED - 1)]
        if found.name == NULL or found.address != address:
            name = self.symbol(address)
            cell = self.cells.get(name)
            if cell is None:
                cell = self.cells[name] = csv_cell(name)
            found.address, found.name, found.length = address, <const char*>(<bytes>cell), len(cell)
        return found


cdef class Totals:
    """What is in records: instructions, and gaps by reason with their cycles, None if those of one are not known."""

    def __init__(self):
        memset(self.gaps, 0, sizeof(self.gaps))
        memset(self.cycles, 0, sizeof(self.cycles))
        memset(self.unknown, 0, sizeof(self.unknown))

    @property
    def by_reason(self):
        """The number of gaps and their cycles, by reason."""
        return {
            why: (self.gaps[why], None if self.unknown[why] else self.cycles[why]) for why in Why if self.gaps[why]
        }


cdef class Records:
    """A sequence of records."""

    def __dealloc__(self):
        free(self.data)

    def __iter__(self):
        return (self[i] for i in range(self.size))

    def __len__(self):
        return self.size

    def __getitem__(self, Py_ssize_t i):
        if not 0 <= i < self.size:
            raise IndexError(i)
        cdef Row* r = &self.data[i]
        cycle = r.cycle if r.counted else None
        if r.sort == INSTRUCTION:
            return Instruction(
                cycle, r.cycles if r.counted else None, r.address, r.size,
                None if r.executed & UNTRACED else r.executed & PASSED != 0,
                r.thread if self.threads and r.thread != NO_THREAD else None, r.epoch, r.index, r.why,
                r.executed & ASSUMED != 0,
                r.executed & ABORTED != 0,
            )
        if r.sort == GAP:
            return Gap(Why(r.why), cycle, r.cycles if r.counted and not r.size else None, r.index, r.end, r.epoch)
        if r.sort == TIME:
            return Timestamp(r.cycles, cycle, r.epoch, r.index)
        return Exception_(r.thread, None if r.size else r.address, cycle, r.epoch, r.index)

    def add_to(self, Totals totals not None):
        """Count the records."""
        cdef Py_ssize_t i
        cdef Row* r
        for i in range(self.size):
            r = &self.data[i]
            if r.sort == INSTRUCTION:
                totals.instructions += 1
                totals.assumed += r.executed & ASSUMED != 0
                totals.aborted += r.executed & ABORTED != 0
            elif r.sort == GAP:
                totals.gaps[r.why] += 1
                if r.counted and not r.size:
                    totals.cycles[r.why] += r.cycles
                else:
                    totals.unknown[r.why] = True
                if r.why == UNSYNCHRONISED:
                    totals.unread += r.end - r.index
        return None

    def contexts(self):
        """Return the threads of the instructions, a set, without those that are not known; empty: none are traced."""
        cdef Py_ssize_t i
        cdef uint32_t last = 0
        cdef bint any = False
        found = set()
        for i in range(self.size if self.threads else 0):
            if self.data[i].sort == INSTRUCTION and not (any and self.data[i].thread == last):
                any, last = True, self.data[i].thread
                if last != NO_THREAD:
                    found.add(last)
        return found

    def reaches(self, int64_t epoch, uint64_t end):
        """Return (epoch, begin, end) of the cycles that instructions and gaps reach, for each epoch in turn.

        ``epoch`` and ``end`` are those of the last record before these (epoch -1: there is none); the first of them do
        not reach ``begin`` itself.
        """
        cdef Py_ssize_t i
        cdef Row* r
        cdef uint64_t begin = end
        cdef bint any = False
        found = []
        for i in range(self.size):
            r = &self.data[i]
            if r.sort != INSTRUCTION and r.sort != GAP or not r.counted:
                continue
            if r.epoch != epoch:
                if any:
                    found.append((epoch, begin, end))
                begin, epoch = 0, r.epoch
            any, end = True, r.cycle
        if any:
            found.append((epoch, begin, end))
        return found

    def first_at(self, int64_t epoch, uint64_t end, int64_t of, uint64_t cycle):
        """Return (place, epoch, end): where the first record is that ends at or after a cycle of the epoch ``of``.

        That is the one that was in progress at the cycle; place -1: there is none here. ``epoch`` and ``end`` are as
        of `reaches`, and those returned are for the records that follow.
        """
        cdef Py_ssize_t i
        cdef Row* r
        cdef uint64_t begin
        for i in range(self.size):
            r = &self.data[i]
            if r.sort != INSTRUCTION and r.sort != GAP or not r.counted:
                continue
            begin = end if r.epoch == epoch else 0
            epoch, end = r.epoch, r.cycle
            if epoch == of and (begin < cycle <= end or not cycle and not begin):
                return i, epoch, end
        return -1, epoch, end

    def timestamps(self):
        """Return the `Timestamp` records."""
        cdef Py_ssize_t i
        return [self[i] for i in range(self.size) if self.data[i].sort == TIME]

    def of_thread(self, thread, bint mine, bint within, judge):
        """Return (records, mine, within): those of one thread (None: of all), without the times.

        ``mine``: the last instruction before these was of the thread; what is no instruction belongs to the thread of
        the one before. ``within``: the last time before these was one to take. ``judge(time)`` returns whether what
        follows a time is taken; None: all is.
        """
        cdef Records found = Records()
        cdef Py_ssize_t i
        cdef Row* r
        cdef bint every = thread is None, limited = judge is not None
        cdef uint32_t number = 0 if every else thread
        found.threads = self.threads
        found.data = <Row*>malloc((self.size + 1) * sizeof(Row))
        if found.data == NULL:
            raise MemoryError
        for i in range(self.size):
            r = &self.data[i]
            if r.sort == TIME:
                if limited:
                    within = judge(r.cycles)
                continue
            if r.sort == INSTRUCTION:
                mine = every or self.threads and r.thread == number
            if mine and within:
                found.data[found.size] = r[0]
                found.size += 1
        return found, mine, within

    def csv(
        self, bytes stream, SymbolCells symbols not None, state, SymbolCells texts=None, *, bytes thread=b"",
        bint every_epoch=False,
    ):
        """Return lines with the columns stream, thread, cycle, cycles, address, size, state and symbol.

        They are those of instructions and gaps. ``state(why, start, end)`` returns the state of a gap in these bytes of
        the stream. With ``texts`` there is another column: what they have for `records.place_of` each instruction.
        ``thread``: the thread of gaps. ``every_epoch``: cycles are shown of all epochs, not of the first alone.
        """
        cdef Py_ssize_t i, room = self.size * 64 + LINE, used = 0
        cdef char* out = <char*>malloc(room)
        cdef char* larger
        cdef char* at
        cdef Row* r
        cdef Named* named = NULL
        cdef Named* text = NULL
        cdef bytes word
        cdef Py_ssize_t more
        if out == NULL:
            raise MemoryError
        try:
            for i in range(self.size):
                r = &self.data[i]
                if r.sort == INSTRUCTION:
                    named = symbols.at(r.address)
                    more = named.length
                    if texts is not None:
                        text = texts.at(place_of(r.address, r.why))
                        more += text.length
                elif r.sort == GAP:
                    word = state(r.why, r.index, r.end).encode()
                    more = len(word)
                else:
                    continue
                if used + more + len(stream) + len(thread) + LINE > room:
                    room = 2 * room + more + len(stream) + len(thread)
                    larger = <char*>realloc(out, room)
                    if larger == NULL:
                        raise MemoryError
                    out = larger
                at = out + used
                at += put_bytes(at, stream)
                at[0] = c","
                at += 1
                if r.sort == GAP:
                    at += put_bytes(at, thread)
                elif self.threads and r.thread != NO_THREAD:
                    at += put_decimal(at, r.thread)
                at[0] = c","
                at += 1
                if r.counted and (every_epoch or not r.epoch):
                    at += put_decimal(at, r.cycle)
                at[0] = c","
                at += 1
                if r.counted and not (r.sort == GAP and r.size):
                    at += put_decimal(at, r.cycles)
                at[0] = c","
                at += 1
                if r.sort == INSTRUCTION:
                    at += put_address(at, r.address)
                    at[0] = c","
                    at[1] = <char>(48 + r.size)
                    at[2] = c","
                    at += 3
                    at += put_bytes(at, state_of(r.executed))
                    at[0] = c","
                    memcpy(at + 1, named.name, named.length)
                    at += 1 + named.length
                    if texts is not None:
                        at[0] = c","
                        memcpy(at + 1, text.name, text.length)
                        at += 1 + text.length
                else:
                    memcpy(at, <const char*>b",0,", 3)
                    at += 3 + put_bytes(at + 3, word)
                    at[0] = c","
                    at += 1
                    if texts is not None:
                        at[0] = c","
                        at += 1
                at[0] = c"\n"
                used = at + 1 - out
            return PyBytes_FromStringAndSize(out, used)
        finally:
            free(out)

    def instructions(self):
        """Return (address, size, cycles) of each instruction without making records, to compare many of them."""
        cdef Py_ssize_t i
        return [
            (self.data[i].address, self.data[i].size, self.data[i].cycles)
            for i in range(self.size) if self.data[i].sort == INSTRUCTION
        ]


cdef class RecordWriter:
    """The records of one stream that a flow writes: the last ones are kept as long as they may change.

    Time goes on, or is lost and begins anew in another epoch. A gap is open as long as it is not known where the stream
    is; it becomes a record when it ends.
    """

    def __dealloc__(self):
        free(self.rows)

    cdef int grow(self) except -1:
        cdef size_t room = self.room * 2 if self.room else 1024
        cdef Row* grown = <Row*>realloc(self.rows, room * sizeof(Row))
        if grown == NULL:
            raise MemoryError
        self.rows, self.room = grown, room
        return 0

    cdef Records hand_over(self, size_t n):
        """Return the first rows, which will not change, and keep the others."""
        cdef Records found = Records()
        cdef size_t left = self.used - n, room = self.room
        cdef Row* rest
        found.threads = self.threads
        if not n:
            return found
        if n * 4 < room:
            room = n
        rest = <Row*>malloc(room * sizeof(Row))
        if rest == NULL:
            raise MemoryError
        if room == n:  # few of many: these are copied, not those
            memcpy(rest, self.rows, n * sizeof(Row))
            memmove(self.rows, self.rows + n, left * sizeof(Row))
            found.data = rest
        else:
            memcpy(rest, self.rows + n, left * sizeof(Row))
            found.data, self.rows = self.rows, rest
        found.size, self.used = n, left
        return found

    cdef bint would_begin(self, uint8_t why) noexcept:
        """Return whether `begin_gap` would begin one, or the one that is open has the same cause."""
        return not self.gap.open or is_another(why, self.gap.why)

    cdef int begin_gap(self, uint8_t why, uint64_t index, bint joins) except -1:
        """Begin a gap, unless one of the same cause is open.

        One of another cause ends. With ``joins`` one of the same that ended just now, without an instruction, goes on.
        """
        cdef Row* row
        if not self.would_begin(why):
            return 0
        self.close_gap(index)
        self.gap.open, self.gap.why, self.gap.index, self.gap.lost = True, why, index, False
        self.gap.cycles, self.pending = self.pending, 0
        row = &self.rows[self.used - 1] if self.used else NULL
        if joins and row != NULL and row.sort == GAP and row.why >= DAMAGE and not is_another(why, row.why):
            self.gap.why, self.gap.index, self.gap.lost = row.why, row.index, row.size
            self.gap.cycles += row.cycles
            self.used -= 1
        return 0

    cdef int close_gap(self, uint64_t end) except -1:
        """End the gap, if one is open, before a byte of the stream."""
        cdef Row* row
        if not self.gap.open:
            return 0
        self.gap.open = False
        row = add_row(self, GAP, self.gap.index)
        row.end = max(end, self.gap.index)
        row.cycles, row.why, row.size = self.gap.cycles, self.gap.why, self.gap.lost
        return 0

    cdef void lose_time(self) noexcept:
        """Begin a new epoch: it is not known how much time passes in the open gap."""
        self.gap.lost = True
        if self.cycle:
            self.epoch += 1
            self.cycle = 0

    cdef list saved(self):
        """Return the state in values that JSON has."""
        cdef bytes rows = PyBytes_FromStringAndSize(<const char*>self.rows, self.used * sizeof(Row))
        return [self.cycle, self.pending, self.epoch, self.thread, self.gap, rows.hex()]

    cdef int restore(self, list state) except -1:
        """Take over a state that `saved` returned.

        Raises ValueError, TypeError, KeyError or OverflowError for another.
        """
        cdef bytes rows
        cdef size_t i, used
        cdef Row* row
        self.cycle, self.pending, self.epoch, self.thread, self.gap, text = state
        rows = bytes.fromhex(text)
        used = len(rows) // sizeof(Row)
        if len(rows) % sizeof(Row) or self.gap.why > COUNTED:
            raise ValueError("rows or gap")
        while self.room < used:
            self.grow()
        if used:  # without any there is no room yet
            memcpy(self.rows, <const char*>rows, len(rows))
        for i in range(used):
            row = &self.rows[i]
            if row.sort > TAKEN or row.executed & ~ASSUMED > UNTRACED or row.why > COUNTED or row.size > 8:
                raise ValueError("row")
            row.counted = row.counted != 0
        self.used = used
        return 0
