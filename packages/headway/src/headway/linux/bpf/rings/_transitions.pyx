# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, embedsignature=True
"""Decode the rings of transitions into rows. bpf/rings/transition_rings.h defines their content, bpf/shared/layout.h its encoding.

The decoder checks every word. If it finds an impossible one, the ring is damaged, and the decoder reads no more of it.
"""

import numpy as np

from bpf_layout cimport (
    ABSENCE_NUMBER, ABSENCE_WAKER, ABSENCE_WOKEN_BY, MOVE_COUNT, MOVE_TO, N_ABSENCE_STACKS, N_READY_PARTS, N_STATES,
    N_TASK_NAMES, PART_TIME, READY_PART, RECORD_ABSENCE, RECORD_AMOUNT, RECORD_BITS, RECORD_CONTEXT, RECORD_COUNT,
    RECORD_LONG, RECORD_MOVE, RECORD_NUMBER, RECORD_STACKED, RECORD_STATE, RECORD_TASK, RECORD_TASK_NAME,
    RECORD_THREAD, RECORD_TIME, SPAN_DURATION, SPAN_ENDED, SPAN_STATE, SPAN_TAKEN, STATE_MASK, TAKEN_BITS, THREAD_RECORD_BITS, UNKNOWN,
    WAIT_FUTEX, WOKEN_BY_BITS, WOKEN_BY_MEASURED, WOKEN_BY_STATE, WOKEN_BY_TID,
)
from libc.stdint cimport INT32_MAX, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memset

cdef inline uint32_t kind_of_record(uint64_t word) noexcept nogil:
    return word & ((1 << RECORD_BITS) - 1)


cdef inline uint32_t state_of_record(uint64_t word) noexcept nogil:
    return (word >> RECORD_STATE) & STATE_MASK


cdef inline uint32_t thread_of_absence(uint64_t word) noexcept nogil:
    """Return the number of the thread record."""
    return (word >> ABSENCE_NUMBER) & ((1 << THREAD_RECORD_BITS) - 1)


cdef inline uint32_t kind_of_waker(uint64_t word) noexcept nogil:
    return (word >> ABSENCE_WOKEN_BY) & ((1 << WOKEN_BY_BITS) - 1)


cdef inline uint64_t words_of_absence(uint64_t word) noexcept nogil:
    """Return how many words an absence has.

    Of a time ready, each part but the largest has one behind the first three; of a wait at a futex, its address; and
    the stacks are behind these.
    """
    cdef uint32_t state = state_of_record(word)
    if is_ready_part(state):
        return 3 + (word >> ABSENCE_WAKER)
    return (4 if state == WAIT_FUTEX else 3) + (N_ABSENCE_STACKS if is_stacked(word) else 0)


cdef inline bint is_stacked(uint64_t word) noexcept nogil:
    return kind_of_record(word) == RECORD_STACKED


cdef inline bint is_ready_part(uint32_t state) noexcept nogil:
    return READY_PART <= state < READY_PART + N_READY_PARTS


cdef enum:
    NOTHING = 0xffff
    RECENT = 64 # the last rows of a processor, among which `rename` seeks the row to change
    MIN_ROOM = 1 << 16 # rows
    JUST_NOW = 8 # the last of these rows, among which `take_back` seeks the count to take back


cdef struct ring:
    uint64_t at # words read so far
    bint damaged


cdef struct place: # of a processor
    ring spans, absences
    int64_t time # its spans have been read until this moment
    uint32_t thread_record
    uint32_t n_recent
    size_t recent[RECENT]


cdef struct row_stacks: # the hashes of a row's stacks, by enum absence_stack
    uint64_t hash[N_ABSENCE_STACKS]


cdef struct life: # of a thread in its record
    int64_t birth, end
    int32_t thread, former # `former`: the previous life in the same thread record; -1: none


cdef class TransitionDecoder:
    """Reads the rings of all processors and keeps the rows until they are taken.

    ``spans`` and ``absences``: the words of the rings, of one processor after the other. ``words``: the number of words
    of a ring of spans, and of a ring of absences; both are powers of two. ``start``: when measuring began, ns; there is
    no row of a time before it. ``rows``: the number of rows that it makes room for at first.
    """

    cdef const uint64_t[::1] spans, absences
    cdef place *places
    cdef int n_cpus
    cdef uint64_t words, absence_words # of one processor
    cdef uint32_t max_thread_records
    cdef int64_t start
    cdef tuple columns # the rows, column by column, as far as `n`
    cdef size_t n, room, least_room
    cdef int64_t *time
    cdef int64_t *duration
    cdef int32_t *taken
    cdef int16_t *cpu
    cdef int32_t *thread # its thread record, until the rows are taken; 0: none
    cdef uint16_t *state
    cdef int32_t *count
    cdef int32_t *waker # likewise
    cdef int32_t *waker_tid
    cdef uint16_t *waker_state
    cdef uint64_t *futex
    cdef int32_t *stacks # the place of its stacks among `stacked`; -1: it has none
    cdef row_stacks *stacked
    cdef size_t n_stacked, stacked_room
    cdef size_t *woken # the rows in which a thread record stands as waker
    cdef size_t n_woken, woken_room
    cdef list changes # of tasks: time, thread record, number of the name, id, the trace's id
    cdef size_t empty # rows that were taken back
    cdef uint8_t *touched # thread records that have rows
    cdef uint8_t seen[N_STATES] # states that have rows
    cdef int32_t *latest # record -> its latest life; -1: none
    cdef life *lives
    cdef int n_lives, n_kept, lives_room
    cdef int64_t *until # thread -> the end of its last row
    cdef size_t until_room
    cdef readonly int damaged
    """Number of rings with impossible content."""
    cdef readonly object nameless
    """Number of rows of threads of which only the thread record is known."""

    def __cinit__(self, spans, absences, int n_cpus, words, uint32_t max_thread_records, int64_t start,
                  size_t rows=MIN_ROOM):
        cdef int i
        for there, said in zip((spans, absences), words):
            if said <= 0 or said & (said - 1) or len(there) < n_cpus * said:
                raise ValueError("the rings are not as long as said")
        if not rows:
            raise ValueError("there must be room for a row")
        self.words, self.absence_words = words
        self.spans, self.absences = spans, absences
        self.n_cpus, self.max_thread_records, self.start = n_cpus, max_thread_records, start
        self.places = <place *>calloc(n_cpus, sizeof(place))
        self.touched = <uint8_t *>calloc(max_thread_records, 1)
        self.latest = <int32_t *>malloc(max_thread_records * sizeof(int32_t))
        if self.places == NULL or self.touched == NULL or self.latest == NULL:
            raise MemoryError
        memset(self.latest, 0xff, max_thread_records * sizeof(int32_t))
        memset(self.seen, 0, sizeof(self.seen))
        self.nameless = 0
        self.changes = []
        self.columns = None
        self.least_room = rows
        self.make_room(rows)
        for i in range(n_cpus):
            self.places[i].time = start

    def __dealloc__(self):
        free(self.places)
        free(self.touched)
        free(self.latest)
        free(self.woken)
        free(self.stacked)
        free(self.lives)
        free(self.until)

    def __len__(self):
        """Return the number of rows that can be taken."""
        return self.n

    # ---- reading ----

    def read(self, written, int64_t horizon, int64_t now):
        """Decode what ended before ``horizon``, which is not after ``now``. Returns how full the fullest ring was, 0 to 1.

        ``written``: for each processor, how many words its two rings had before ``now``.
        """
        cdef int cpu
        cdef uint64_t of_spans, of_absences
        cdef double full = 0
        for cpu in range(self.n_cpus):
            of_spans, of_absences = written[cpu]
            full = max(full, (of_spans - self.places[cpu].spans.at) / <double>self.words)
            full = max(full, (of_absences - self.places[cpu].absences.at) / <double>self.absence_words)
            self.places[cpu].spans.damaged |= self.decode(cpu, of_spans, horizon, now)
            self.places[cpu].absences.damaged |= self.decode_absences(cpu, of_absences, horizon, now)
        self.damaged = 0
        for cpu in range(self.n_cpus):
            self.damaged += self.places[cpu].spans.damaged + self.places[cpu].absences.damaged
        return min(full, 1.0)

    def read_until(self, int cpu):
        """Return how many words of a processor's two rings are read."""
        return self.places[cpu].spans.at, self.places[cpu].absences.at

    cdef bint decode(self, int cpu, uint64_t written, int64_t horizon, int64_t now) except -1:
        """Decode a ring of spans. Returns whether it is damaged."""
        cdef place *p = &self.places[cpu]
        cdef const uint64_t *words = &self.spans[cpu * self.words]
        cdef uint64_t mask = self.words - 1, at = p.spans.at, word, second, third
        cdef int64_t duration, amount, count, elapsed = now - self.start
        cdef uint32_t state, to, kind
        if p.spans.damaged or written - at > self.words:
            p.spans.at = written
            return True
        while at < written:
            word = words[at & mask]
            state = (word >> SPAN_STATE) & STATE_MASK
            if not word & 1:
                duration = <int64_t>(word >> SPAN_DURATION)
                amount = (word >> SPAN_TAKEN) & ((1 << TAKEN_BITS) - 1)
                if amount > duration or duration > now - p.time or not 0 < state < N_STATES:
                    return self.give_up(&p.spans, written)
                if p.time + duration > horizon:
                    break
                self.append(cpu, p.time, duration, amount, p.thread_record, state, (word >> SPAN_ENDED) & 1)
                p.time += duration
                at += 1
                continue
            kind = kind_of_record(word)
            if kind == RECORD_THREAD:
                if word >> RECORD_NUMBER >= self.max_thread_records:
                    return self.give_up(&p.spans, written)
                p.thread_record = <uint32_t>(word >> RECORD_NUMBER)
                at += 1
                continue
            if written - at < 2:
                return self.give_up(&p.spans, written)
            second = words[(at + 1) & mask]
            third = words[(at + 2) & mask]
            state = state_of_record(word)
            count = <int64_t>word >> RECORD_COUNT
            if kind == RECORD_TIME:
                if <int64_t>second < p.time or <int64_t>second > now:
                    return self.give_up(&p.spans, written)
                if <int64_t>second > horizon:
                    break
                if <int64_t>second > p.time: # the spans in between did not fit the ring
                    self.append(cpu, p.time, <int64_t>second - p.time, 0, 0, UNKNOWN, 0)
                    p.time = <int64_t>second
                at += 2
                continue
            if kind == RECORD_TASK:
                if word >> RECORD_TASK_NAME > <uint64_t>N_TASK_NAMES:
                    return self.give_up(&p.spans, written)
                if p.thread_record:
                    self.changes.append((p.time, p.thread_record, word >> RECORD_TASK_NAME, second, 0))
                    self.touched[p.thread_record] = 1
                at += 2
                continue
            if kind == RECORD_CONTEXT:
                if written - at < 4 or word >> RECORD_TASK_NAME > <uint64_t>N_TASK_NAMES:
                    return self.give_up(&p.spans, written)
                if p.thread_record:
                    trace = <object>third << 64 | words[(at + 3) & mask]
                    self.changes.append((p.time, p.thread_record, word >> RECORD_TASK_NAME, second, trace))
                    self.touched[p.thread_record] = 1
                at += 4
                continue
            if not 0 < state < N_STATES:
                return self.give_up(&p.spans, written)
            if kind == RECORD_AMOUNT:
                amount = <int64_t>second
                if not -elapsed <= amount <= elapsed or not -elapsed <= count <= elapsed:
                    return self.give_up(&p.spans, written)
                if not amount:
                    count = self.take_back(p, state, count)
                self.append(cpu, p.time, 0, -amount, p.thread_record, state, count)
                at += 2
            elif kind == RECORD_MOVE:
                amount, to = <int64_t>second, (word >> MOVE_TO) & STATE_MASK
                if not 0 <= amount <= elapsed or not 0 < to < N_STATES:
                    return self.give_up(&p.spans, written)
                self.rename(cpu, state, to, amount, (word >> MOVE_COUNT) & 1)
                at += 2
            elif written - at < 3:
                return self.give_up(&p.spans, written)
            elif kind == RECORD_LONG:
                if now < p.time or second > <uint64_t>(now - p.time) or third > second or not 0 <= count <= elapsed:
                    return self.give_up(&p.spans, written)
                if p.time + <int64_t>second > horizon:
                    break
                self.append(cpu, p.time, second, third, p.thread_record, state, count)
                p.time += <int64_t>second
                at += 3
            elif kind == RECORD_ABSENCE or kind == RECORD_STACKED:
                if written - at < words_of_absence(word) or not self.is_absence(word, second, third, now):
                    return self.give_up(&p.spans, written)
                if <int64_t>third > horizon:
                    break
                if not self.append_absence(words, at, mask):
                    return self.give_up(&p.spans, written)
                at += words_of_absence(word)
            else:
                return self.give_up(&p.spans, written)
        p.spans.at = at
        return False

    cdef bint decode_absences(self, int cpu, uint64_t written, int64_t horizon, int64_t now) except -1:
        cdef ring *r = &self.places[cpu].absences
        cdef const uint64_t *words = &self.absences[cpu * self.absence_words]
        cdef uint64_t mask = self.absence_words - 1, word, since, until
        if r.damaged or written - r.at > self.absence_words:
            r.at = written
            return True
        while r.at < written:
            word, since, until = words[r.at & mask], words[(r.at + 1) & mask], words[(r.at + 2) & mask]
            if written - r.at < 3 or not (kind_of_record(word) == RECORD_ABSENCE or is_stacked(word)):
                return self.give_up(r, written)
            if written - r.at < words_of_absence(word) or not self.is_absence(word, since, until, now):
                return self.give_up(r, written)
            if <int64_t>until > horizon:
                break
            if not self.append_absence(words, r.at, mask):
                return self.give_up(r, written)
            r.at += words_of_absence(word)
        return False

    cdef bint is_absence(self, uint64_t word, uint64_t since, uint64_t until, int64_t now) noexcept:
        cdef uint32_t by = kind_of_waker(word)
        if not 0 < state_of_record(word) < N_STATES or not 0 < thread_of_absence(word) < self.max_thread_records:
            return False
        if is_ready_part(state_of_record(word)) and (by or word >> ABSENCE_WAKER >= N_READY_PARTS or is_stacked(word)):
            return False
        if by == WOKEN_BY_MEASURED and word >> ABSENCE_WAKER >= self.max_thread_records:
            return False
        if by == WOKEN_BY_STATE and word >> ABSENCE_WAKER >= N_STATES:
            return False
        return <uint64_t>self.start <= since <= until <= <uint64_t>now

    cdef bint give_up(self, ring *r, uint64_t written) noexcept:
        r.at = written
        return True

    # ---- rows ----

    cdef int make_room(self, size_t room) except -1:
        """Give the columns room for so many rows. The present rows are kept."""
        cdef tuple old = self.columns
        columns = (
            np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int32), np.empty(room, np.int16),
            np.empty(room, np.int32), np.empty(room, np.uint16), np.empty(room, np.int32), np.empty(room, np.int32),
            np.empty(room, np.int32), np.empty(room, np.uint16), np.empty(room, np.uint64), np.empty(room, np.int32),
        )
        if old is not None:
            for new, former in zip(columns, old):
                new[:self.n] = former[:self.n]
        cdef int64_t[::1] time = columns[0], duration = columns[1]
        cdef int32_t[::1] taken = columns[2], thread = columns[4], count = columns[6], waker = columns[7]
        cdef int32_t[::1] waker_tid = columns[8], stacks = columns[11]
        cdef int16_t[::1] cpu = columns[3]
        cdef uint16_t[::1] state = columns[5], waker_state = columns[9]
        cdef uint64_t[::1] futex = columns[10]
        self.time, self.duration, self.taken, self.cpu = &time[0], &duration[0], &taken[0], &cpu[0]
        self.thread, self.state, self.count = &thread[0], &state[0], &count[0]
        self.waker, self.waker_tid, self.waker_state = &waker[0], &waker_tid[0], &waker_state[0]
        self.futex, self.stacks = &futex[0], &stacks[0]
        self.columns, self.room = columns, room
        return 0

    cdef int append(
        self, int cpu, int64_t time, int64_t duration, int64_t taken, uint32_t record, uint32_t state, int64_t count
    ) except -1:
        """Append a row, or more than one if its figures do not fit one row."""
        cdef place *p
        cdef int64_t part, times
        cdef size_t n
        while True:
            part = min(max(taken, -INT32_MAX), INT32_MAX)
            times = min(max(count, -INT32_MAX), INT32_MAX)
            if duration or part or times:
                if self.n == self.room:
                    self.make_room(2 * self.room)
                n = self.n
                self.time[n], self.duration[n], self.taken[n], self.cpu[n] = time, duration, <int32_t>part, cpu
                self.thread[n], self.state[n], self.count[n] = record, state, <int32_t>times
                self.waker[n], self.waker_tid[n], self.waker_state[n], self.futex[n] = -1, 0, NOTHING, 0
                self.stacks[n] = -1
                self.n += 1
                if cpu >= 0:
                    p = &self.places[cpu]
                    p.recent[p.n_recent % RECENT] = n
                    p.n_recent += 1
                self.touched[record] = 1
                self.seen[state] = 1
            taken -= part
            count -= times
            duration = 0
            if not taken and not count:
                return 0

    cdef bint append_absence(self, const uint64_t *words, uint64_t at, uint64_t mask) except -1:
        """Append an absence, which `is_absence` has checked. Returns whether its parts are possible."""
        cdef size_t *longer
        cdef uint64_t word = words[at & mask], since = words[(at + 1) & mask], until = words[(at + 2) & mask]
        cdef uint64_t i, part, left = until - since
        cdef uint32_t by = kind_of_waker(word), record = thread_of_absence(word)
        if is_ready_part(state_of_record(word)):
            for i in range(3, words_of_absence(word)):
                part = words[(at + i) & mask]
                if not is_ready_part(part & STATE_MASK) or part >> PART_TIME > left:
                    return False
                left -= part >> PART_TIME
            self.append(-1, since, until - since, until - since - left, record, state_of_record(word), 1)
            for i in range(3, words_of_absence(word)): # nobody knows when it was: it stands at the end, without a duration
                part = words[(at + i) & mask]
                self.append(-1, until, 0, -<int64_t>(part >> PART_TIME), record, part & STATE_MASK, 0)
            return True
        self.append(-1, since, until - since, 0, record, state_of_record(word), 1)
        if state_of_record(word) == WAIT_FUTEX:
            self.futex[self.n - 1] = words[(at + 3) & mask]
        if is_stacked(word):
            i = at + words_of_absence(word) - N_ABSENCE_STACKS
            self.stack(words[i & mask], words[(i + 1) & mask], words[(i + 2) & mask], words[(i + 3) & mask])
        if by == WOKEN_BY_STATE:
            self.waker_state[self.n - 1] = word >> ABSENCE_WAKER
            self.seen[word >> ABSENCE_WAKER] = 1
        elif by == WOKEN_BY_TID:
            self.waker_tid[self.n - 1] = word >> ABSENCE_WAKER
        elif by == WOKEN_BY_MEASURED:
            self.waker[self.n - 1] = word >> ABSENCE_WAKER
            self.touched[word >> ABSENCE_WAKER] = 1
            if self.n_woken == self.woken_room:
                longer = <size_t *>realloc(self.woken, (2 * self.woken_room + 1024) * sizeof(size_t))
                if longer == NULL:
                    raise MemoryError
                self.woken, self.woken_room = longer, 2 * self.woken_room + 1024
            self.woken[self.n_woken] = self.n - 1
            self.n_woken += 1
        return True

    cdef int stack(self, uint64_t user, uint64_t kernel, uint64_t waker_user, uint64_t waker_kernel) except -1:
        """Give the last row its stacks, by enum absence_stack."""
        cdef row_stacks *longer
        if not self.n or not (user or kernel or waker_user or waker_kernel):
            return 0
        if self.n_stacked == self.stacked_room:
            longer = <row_stacks *>realloc(self.stacked, (2 * self.stacked_room + 1024) * sizeof(row_stacks))
            if longer == NULL:
                raise MemoryError
            self.stacked, self.stacked_room = longer, 2 * self.stacked_room + 1024
        self.stacked[self.n_stacked].hash[:] = [user, kernel, waker_user, waker_kernel]
        self.stacks[self.n - 1] = <int32_t>self.n_stacked
        self.n_stacked += 1
        return 0

    cdef int rename(self, int cpu, uint32_t state, uint32_t to, int64_t time, int64_t count) except -1:
        """Move time to another state: change the row itself if it is still here, else append two corrections."""
        cdef place *p = &self.places[cpu]
        cdef uint32_t i
        cdef size_t r
        cdef int64_t counted
        for i in range(min(p.n_recent, <uint32_t>RECENT)):
            r = p.recent[(p.n_recent - 1 - i) % RECENT]
            if (
                self.state[r] == state and <uint32_t>self.thread[r] == p.thread_record
                and self.duration[r] - self.taken[r] == time and (self.duration[r] or time)
            ):
                counted = self.count[r] - count
                self.state[r], self.count[r] = to, <int32_t>count
                self.seen[to] = 1
                self.append(cpu, self.time[r] + self.duration[r], 0, 0, p.thread_record, state, counted)
                return 0
        self.append(cpu, p.time, 0, time, p.thread_record, state, -count)
        self.append(cpu, p.time, 0, -time, p.thread_record, to, count)
        return 0

    cdef int64_t take_back(self, place *p, uint32_t state, int64_t count) noexcept:
        """Return how many of these occurrences belong to no row; the others cancel the opposite that a row counted.

        Occurrences that were none are taken from the rows that ended with them, if these are still here.
        """
        cdef uint32_t i
        cdef size_t r
        cdef bint placed
        cdef int64_t taken
        for i in range(min(p.n_recent, <uint32_t>RECENT)):
            r = p.recent[(p.n_recent - 1 - i) % RECENT]
            if not count:
                return 0
            if self.state[r] != state or <uint32_t>self.thread[r] != p.thread_record:
                continue
            placed = self.duration[r] or self.taken[r]
            if count < 0 and placed and self.count[r] > 0:
                taken = min(-count, self.count[r])
                self.count[r] -= <int32_t>taken
                count += taken
            elif not placed and i < JUST_NOW and self.count[r] == -count:
                count = 0
                if r == self.n - 1:
                    self.n -= 1
                    p.n_recent -= 1
                else:
                    self.count[r] = 0
                    self.empty += 1
        return count

    def add(self, int64_t time, int64_t duration, int64_t taken, int cpu, uint32_t record, uint32_t state, int64_t count):
        """Add a row that is on no ring. ``cpu`` -1: off the processor."""
        if not -1 <= cpu < self.n_cpus or record >= self.max_thread_records or not 0 < state < N_STATES or duration < 0:
            raise ValueError("there is no such row")
        if cpu >= 0 and duration:
            if time > self.places[cpu].time: # the spans in between did not fit the ring
                self.append(cpu, self.places[cpu].time, time - self.places[cpu].time, 0, 0, UNKNOWN, 0)
            self.places[cpu].time = time + duration
        self.append(cpu, time, duration, taken, record, state, count)

    def add_stacks(self, uint64_t user, uint64_t kernel):
        """Give the row that was added last the stacks of its thread."""
        self.stack(user, kernel, 0, 0)

    # ---- the threads of the rows ----

    def thread_records(self):
        """Return the thread records that have rows since rows were last taken, ascending."""
        cdef uint32_t i
        return [i for i in range(1, self.max_thread_records) if self.touched[i]]

    def states(self):
        """Return the numbers of the states that have had rows so far, ascending."""
        cdef int i
        return [i for i in range(N_STATES) if self.seen[i]]

    def has(self, uint32_t record, int64_t birth, int32_t thread):
        """Note that a thread has a thread record from ``birth`` on."""
        cdef life *grown
        cdef life *new
        cdef int32_t i, later = -1
        cdef size_t room
        cdef int64_t *longer
        if not 0 < record < self.max_thread_records or thread < 0:
            raise ValueError("there is no such thread record or thread")
        if self.n_lives == self.lives_room:
            grown = <life *>realloc(self.lives, max(2 * self.lives_room, 1024) * sizeof(life))
            if grown == NULL:
                raise MemoryError
            self.lives, self.lives_room = grown, max(2 * self.lives_room, 1024)
        if <size_t>thread >= self.until_room:
            room = max(2 * self.until_room, <size_t>thread + 1024)
            longer = <int64_t *>realloc(self.until, room * sizeof(int64_t))
            if longer == NULL:
                raise MemoryError
            self.until, self.until_room = longer, room
        self.until[thread] = birth
        i = self.latest[record]
        while i >= 0 and self.lives[i].birth > birth:
            later, i = i, self.lives[i].former
        new = &self.lives[self.n_lives]
        new.birth, new.end, new.thread, new.former = birth, (<uint64_t>1 << 63) - 1, thread, i
        if later < 0:
            self.latest[record] = self.n_lives
        else:
            self.lives[later].former = self.n_lives
        self.n_lives += 1

    def had(self, uint32_t record, int32_t thread, int64_t birth, int64_t end):
        """Note that the thread had the thread record from ``birth`` until ``end``."""
        cdef int32_t i = self.latest[record] if record < self.max_thread_records else -1
        while i >= 0:
            if self.lives[i].thread == thread:
                if self.until[thread] == self.lives[i].birth:
                    self.until[thread] = birth
                self.lives[i].birth, self.lives[i].end = birth, end
            i = self.lives[i].former

    def forget(self, int64_t until):
        """Forget the lives that ended before ``until``, once there are many."""
        cdef int32_t i, *link
        cdef uint32_t thread_record
        cdef life *kept
        cdef int n = 0
        if self.n_lives < max(4096, 2 * self.n_kept):
            return
        kept = <life *>malloc(self.lives_room * sizeof(life))
        if kept == NULL:
            raise MemoryError
        for record in range(self.max_thread_records):
            i = self.latest[record]
            link = &self.latest[record]
            link[0] = -1
            while i >= 0:
                if self.lives[i].end >= until:
                    kept[n] = self.lives[i]
                    kept[n].former = -1
                    link[0] = n
                    link = &kept[n].former
                    n += 1
                i = self.lives[i].former
        free(self.lives)
        self.lives, self.n_lives, self.n_kept = kept, n, n

    cdef int32_t whose(self, uint32_t record, int64_t since, int64_t until) noexcept:
        """Return the life that had a thread record all that time; -1: none is known."""
        cdef int32_t i = self.latest[record]
        while i >= 0:
            if self.lives[i].birth <= since and until <= self.lives[i].end:
                return i
            i = self.lives[i].former
        return -1

    cdef int32_t woken_by(self, uint32_t record, int64_t since, int64_t until) noexcept:
        """Return the life of a waker; -1: none is known.

        The waker may have ended before the wait did, because another processor may complete the wake-up.
        """
        cdef int32_t i = self.latest[record]
        while i >= 0:
            if self.lives[i].birth <= until:
                return i if self.lives[i].end >= since else -1
            i = self.lives[i].former
        return -1

    def until_of(self, int32_t thread):
        """Return the end of a thread's last row, of those taken."""
        return self.until[thread]

    def note(self, const int32_t[::1] thread, const int64_t[::1] time, const int64_t[::1] duration):
        """Note the end of each thread's last row."""
        cdef Py_ssize_t i
        cdef int32_t t
        for i in range(len(thread)):
            t = thread[i]
            if t >= 0 and duration[i] and time[i] + duration[i] > self.until[t]:
                self.until[t] = time[i] + duration[i]

    def torn(self, const int32_t[::1] thread, const int64_t[::1] time, const int64_t[::1] duration):
        """Return the threads whose rows do not add up to the time since their last row, ascending. Note the others' ends."""
        cdef Py_ssize_t i
        cdef int32_t t
        cdef int64_t *spent = <int64_t *>calloc(self.until_room + 1, sizeof(int64_t))
        cdef int64_t *end = <int64_t *>calloc(self.until_room + 1, sizeof(int64_t))
        cdef list found = []
        try:
            if spent == NULL or end == NULL:
                raise MemoryError
            for i in range(len(thread)):
                t = thread[i]
                if t >= 0:
                    spent[t] += duration[i]
                    end[t] = max(end[t], time[i] + duration[i])
            for t in range(<int32_t>self.until_room):
                if not spent[t]:
                    continue
                if end[t] - self.until[t] != spent[t]:
                    found.append(t)
                else:
                    self.until[t] = end[t]
            return found
        finally:
            free(spent)
            free(end)

    def gaps(self, const int32_t[::1] thread, const int64_t[::1] time, const int64_t[::1] duration):
        """Return the gaps between rows that are in order of time: a list of (thread, time, duration)."""
        cdef Py_ssize_t i
        cdef int32_t t
        cdef list found = []
        for i in range(len(thread)):
            t = thread[i]
            if t < 0 or not duration[i]:
                continue
            if time[i] > self.until[t]:
                found.append((t, self.until[t], time[i] - self.until[t]))
            self.until[t] = max(self.until[t], time[i] + duration[i])
        return found

    def take_changes(self):
        """Take the changes of tasks: a list of (thread, time, number of the task's name, its id, its trace's id or 0), in
        the order of time.

        Those of threads of which only the thread record is known are left out.
        """
        cdef int32_t at
        cdef list found = []
        for time, record, name, task, trace in self.changes:
            at = self.whose(record, time, time)
            if at >= 0:
                found.append((self.lives[at].thread, time, name, task, trace))
        self.changes = []
        found.sort(key=lambda change: change[1])
        return found

    def take_stacks(self):
        """Take the stacks of all rows, before these: an array of hashes of shape (n, 4), by enum absence_stack."""
        cdef size_t i
        cdef int which
        found = np.empty((self.n_stacked, N_ABSENCE_STACKS), np.uint64)
        cdef uint64_t[:, ::1] to = found
        for i in range(self.n_stacked):
            for which in range(N_ABSENCE_STACKS):
                to[i, which] = self.stacked[i].hash[which]
        self.n_stacked = 0
        return found

    def take(self):
        """Take all rows: a tuple of arrays, the columns of `headway.model.Transitions` in their order, and the futexes.

        Names are numbers. The last column has the place of each row's stacks among those of `take_stacks`; -1: it has
        none.

        The thread of a row is the one that had the thread record at that time.
        """
        cdef size_t i, n = self.n
        cdef uint32_t record, cached = 0
        cdef int64_t since, until, birth = 0, end = -1
        cdef int32_t thread = -1, at
        cdef uint64_t nameless = 0
        for i in range(n):
            record = self.thread[i]
            if not record:
                self.thread[i] = -1
                continue
            since = self.time[i]
            until = since + self.duration[i]
            if record != cached or since < birth or until > end:
                at = self.whose(record, since, until)
                if at < 0:
                    nameless += 1
                    self.thread[i] = -1
                    continue
                cached, thread, birth, end = record, self.lives[at].thread, self.lives[at].birth, self.lives[at].end
            self.thread[i] = thread
        self.nameless += nameless
        for i in range(self.n_woken):
            since = self.time[self.woken[i]]
            at = self.woken_by(self.waker[self.woken[i]], since, since + self.duration[self.woken[i]])
            self.waker[self.woken[i]] = self.lives[at].thread if at >= 0 else -1
        columns = tuple([column[:n] for column in self.columns])
        if self.empty:
            full = (columns[1] != 0) | (columns[2] != 0) | (columns[6] != 0)
            columns = tuple([column[full] for column in columns])
        self.n = self.n_woken = self.empty = 0
        self.columns = None
        self.make_room(max(n + n // 8, self.least_room))
        for i in range(<size_t>self.n_cpus):
            self.places[i].n_recent = 0
        memset(self.touched, 0, self.max_thread_records)
        return columns
