"""libipt's block decoder, and the records of its blocks.

A block is a run of instructions without a choice. Its instructions are found once, by libipt's instruction decoder on a
trace of one packet that begins at the block, and kept. From then on a block costs one call and one row for each of its
instructions.

Time is the time stamp counter, which libipt computes from TSC, TMA, MTC, CYC and CBR packets. It is reported at
ticks. Like a cycle count of PTM, the time up to a tick belongs to the last instruction before it.

Structures are those of intel-pt.h in version 2.0. libipt is told their sizes, so a newer one fills no more of them.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcpy, memmove, memset

from headway_trace._records cimport (
    ABORTED, CONTRADICTION, DAMAGE, GAP, IMAGE, INSTRUCTION, OFF, OVERFLOW, PASSED, TAKEN, TIME, TRUNCATED,
    UNSYNCHRONISED, Records, Row,
)

from headway.errors import HeadwayError
from headway_trace.pt.library import error_name, functions

DEF EVENT_PENDING = 1
DEF END = 4
DEF KINDS = 32         # of events and of packets; newer ones are counted together
DEF KEPT = 1 << 22     # instructions of blocks that are kept
DEF TRIES = 8          # at one place, to go on before the next PSB
DEF STAMP = 1 << 12    # ticks between two timestamps
DEF HELD = 1 << 20     # rows of a transaction that wait for how it ends

cdef enum Error:       # pte_*, negated when they are returned
    BAD_OPC = 4
    BAD_PACKET = 5
    EOS = 7
    NOMAP = 13
    IGNORED = 24

cdef enum EventType:   # ptev_*
    ENABLED = 0
    DISABLED = 1
    ASYNC_DISABLED = 2
    ASYNC_BRANCH = 3
    OVERFLOWED = 6
    TRANSACTION = 8
    TICK = 17

cdef struct Config:
    size_t size
    const uint8_t* begin
    const uint8_t* end
    void* callback
    void* context
    int32_t vendor
    uint16_t family
    uint8_t model, stepping
    uint32_t errata[16]
    uint32_t eax, ebx
    uint8_t mtc_period, nominal
    uint32_t flags[4]
    uint64_t filters
    uint64_t ranges[8]
    uint64_t reserved[8]

cdef struct Block:
    uint64_t ip, end_ip
    int32_t section, mode, kind
    uint16_t count
    uint8_t raw[15]
    uint8_t size
    uint8_t flags, more

cdef struct Insn:
    uint64_t ip
    int32_t section, mode, kind
    uint8_t raw[15]
    uint8_t size
    uint32_t flags

cdef struct Event:
    int32_t type
    uint32_t flags     # 1: no address, 2: a repetition in a PSB+, 4: it has a time
    uint64_t tsc
    uint32_t lost_mtc, lost_cyc
    uint64_t reserved[2]
    uint64_t address, second, third

# As large as libipt's own: of a larger one it clears the rest at the wrong place (pt_pkt_next)
cdef struct PacketHead:
    int32_t type
    uint8_t size
    uint8_t more[19]

ctypedef int (*f_errata)(void*, const void*) noexcept nogil
ctypedef void* (*f_named)(const char*) noexcept nogil
ctypedef void (*f_free)(void*) noexcept nogil
ctypedef int (*f_file)(void*, const char*, uint64_t, uint64_t, const void*, uint64_t) noexcept nogil
ctypedef void* (*f_alloc)(const Config*) noexcept nogil
ctypedef int (*f_plain)(void*) noexcept nogil
ctypedef int (*f_set)(void*, uint64_t) noexcept nogil
ctypedef int (*f_get)(void*, uint64_t*) noexcept nogil
ctypedef int (*f_image)(void*, void*) noexcept nogil
ctypedef int (*f_time)(void*, uint64_t*, uint32_t*, uint32_t*) noexcept nogil
ctypedef int (*f_block)(void*, Block*, size_t) noexcept nogil
ctypedef int (*f_event)(void*, Event*, size_t) noexcept nogil
ctypedef int (*f_insn)(void*, Insn*, size_t) noexcept nogil
ctypedef int (*f_packet)(void*, PacketHead*, size_t) noexcept nogil

cdef struct Library:
    f_errata cpu_errata
    f_named image_alloc
    f_free image_free
    f_file image_add_file
    f_alloc blk_alloc_decoder
    f_free blk_free_decoder
    f_plain blk_sync_forward
    f_set blk_sync_set
    f_get blk_get_offset
    f_get blk_get_sync_offset
    f_image blk_set_image
    f_time blk_time
    f_block blk_next
    f_event blk_event
    f_plain blk_resync
    f_alloc insn_alloc_decoder
    f_free insn_free_decoder
    f_plain insn_sync_forward
    f_image insn_set_image
    f_insn insn_next
    f_event insn_event
    f_alloc pkt_alloc_decoder
    f_free pkt_free_decoder
    f_plain pkt_sync_forward
    f_packet pkt_next

cdef Library ipt
cdef bint loaded = False


cdef int load() except -1:
    """Take the addresses of libipt's functions. Raises HeadwayError if there is no libipt."""
    global loaded
    if loaded:
        return 0
    at = functions()
    ipt.cpu_errata = <f_errata><size_t>at["pt_cpu_errata"]
    ipt.image_alloc = <f_named><size_t>at["pt_image_alloc"]
    ipt.image_free = <f_free><size_t>at["pt_image_free"]
    ipt.image_add_file = <f_file><size_t>at["pt_image_add_file"]
    ipt.blk_alloc_decoder = <f_alloc><size_t>at["pt_blk_alloc_decoder"]
    ipt.blk_free_decoder = <f_free><size_t>at["pt_blk_free_decoder"]
    ipt.blk_sync_forward = <f_plain><size_t>at["pt_blk_sync_forward"]
    ipt.blk_sync_set = <f_set><size_t>at["pt_blk_sync_set"]
    ipt.blk_get_offset = <f_get><size_t>at["pt_blk_get_offset"]
    ipt.blk_get_sync_offset = <f_get><size_t>at["pt_blk_get_sync_offset"]
    ipt.blk_set_image = <f_image><size_t>at["pt_blk_set_image"]
    ipt.blk_time = <f_time><size_t>at["pt_blk_time"]
    ipt.blk_next = <f_block><size_t>at["pt_blk_next"]
    ipt.blk_event = <f_event><size_t>at["pt_blk_event"]
    ipt.blk_resync = <f_plain><size_t>at["pt_blk_resync"]
    ipt.insn_alloc_decoder = <f_alloc><size_t>at["pt_insn_alloc_decoder"]
    ipt.insn_free_decoder = <f_free><size_t>at["pt_insn_free_decoder"]
    ipt.insn_sync_forward = <f_plain><size_t>at["pt_insn_sync_forward"]
    ipt.insn_set_image = <f_image><size_t>at["pt_insn_set_image"]
    ipt.insn_next = <f_insn><size_t>at["pt_insn_next"]
    ipt.insn_event = <f_event><size_t>at["pt_insn_event"]
    ipt.pkt_alloc_decoder = <f_alloc><size_t>at["pt_pkt_alloc_decoder"]
    ipt.pkt_free_decoder = <f_free><size_t>at["pt_pkt_free_decoder"]
    ipt.pkt_sync_forward = <f_plain><size_t>at["pt_pkt_sync_forward"]
    ipt.pkt_next = <f_packet><size_t>at["pt_pkt_next"]
    loaded = True
    return 0


cdef void configure(Config* config, setting):
    memset(config, 0, sizeof(Config))
    config.size = sizeof(Config)
    if setting.family:
        config.vendor, config.family = 1, setting.family
        config.model, config.stepping = setting.model, setting.stepping
        ipt.cpu_errata(config.errata, &config.vendor)  # an unknown processor has none
    config.ebx, config.eax = setting.crystal
    config.mtc_period, config.nominal = setting.mtc_period, setting.nominal
    for i, (kind, first, last) in enumerate(setting.filters[:4]):
        config.filters |= <uint64_t>kind << 4 * i
        config.ranges[2 * i], config.ranges[2 * i + 1] = first, last


cdef struct Known:         # a block whose instructions have been found
    uint64_t ip, end_ip
    uint32_t first         # among the kept instructions
    uint16_t count, found  # of its instructions; those that could be found
    uint8_t mode


@cython.final
cdef class Image:
    """The memory of a process: parts of files at addresses. A part that is added later covers earlier ones."""

    cdef void* image
    cdef Known* table
    cdef size_t capacity, entries
    cdef uint64_t* addresses
    cdef uint8_t* sizes
    cdef size_t kept, room
    cdef readonly list parts

    def __cinit__(self):
        load()
        self.image = ipt.image_alloc(NULL)
        self.capacity = 4096
        self.table = <Known*>calloc(self.capacity, sizeof(Known))
        self.room = 1 << 14
        self.addresses = <uint64_t*>malloc(self.room * sizeof(uint64_t))
        self.sizes = <uint8_t*>malloc(self.room)
        self.parts = []
        if self.image == NULL or self.table == NULL or self.addresses == NULL or self.sizes == NULL:
            raise MemoryError

    def __dealloc__(self):
        if self.image != NULL:
            ipt.image_free(self.image)
        free(self.table)
        free(self.addresses)
        free(self.sizes)

    def add(self, path, uint64_t offset, uint64_t size, uint64_t address):
        """Add ``size`` bytes of a file. Return "", or why they cannot be added."""
        cdef bytes name = path if isinstance(path, bytes) else path.encode("utf-8", "surrogateescape")
        cdef int status
        if not size:
            return "it has no bytes there"
        status = ipt.image_add_file(self.image, name, offset, size, NULL, address)
        self.forget()
        if status >= 0:
            self.parts.append((address, address + size, path, offset))
        return "" if status >= 0 else error_name(-status)

    cdef void forget(self):
        memset(self.table, 0, self.capacity * sizeof(Known))
        self.entries = self.kept = 0

    cdef Known* known(self, Block* block, Config* config) except NULL:
        """Return the instructions of a block."""
        cdef uint64_t key = (block.ip ^ block.end_ip << 20) * <uint64_t>0x9E3779B97F4A7C15 + block.count
        cdef size_t at = key >> 32 & (self.capacity - 1)
        cdef Known* one = &self.table[at]
        while one.count:
            if (
                one.ip == block.ip and one.end_ip == block.end_ip
                and one.count == block.count and one.mode == block.mode
            ):
                return one
            at = at + 1 & (self.capacity - 1)
            one = &self.table[at]
        if self.kept + block.count > KEPT:
            self.forget()
            return self.known(block, config)
        if self.entries * 2 >= self.capacity:
            self.grow()
            return self.known(block, config)
        self.find(block, config, one)
        return one

    cdef int grow(self) except -1:
        cdef size_t old = self.capacity, i, at
        cdef Known* before = self.table
        cdef Known* one
        cdef Known* after = <Known*>calloc(old * 2, sizeof(Known))
        if after == NULL:
            raise MemoryError
        for i in range(old):
            one = &before[i]
            if one.count:
                at = ((one.ip ^ one.end_ip << 20) * <uint64_t>0x9E3779B97F4A7C15 + one.count) >> 32 & (old * 2 - 1)
                while after[at].count:
                    at = at + 1 & (old * 2 - 1)
                after[at] = one[0]
        free(before)
        self.table, self.capacity = after, old * 2
        return 0

    cdef int find(self, Block* block, Config* config, Known* one) except -1:
        """Decode the block once more, with a trace that says only where it begins."""
        cdef uint8_t trace[29]
        cdef uint64_t* addresses
        cdef uint8_t* sizes
        cdef Config own = config[0]
        cdef Insn insn
        cdef Event event
        cdef void* decoder
        cdef int status, i
        for i in range(0, 16, 2):
            trace[i], trace[i + 1] = 0x02, 0x82                 # PSB
        trace[16] = 0xDD                                        # FUP with a whole address
        memcpy(&trace[17], &block.ip, 8)
        trace[25], trace[26] = 0x99, 1 if block.mode == 3 else 2 if block.mode == 2 else 0  # MODE.Exec
        trace[27], trace[28] = 0x02, 0x23                       # PSBEND
        if self.kept + block.count > self.room:
            self.room = max(self.room * 2, self.kept + block.count)
            addresses = <uint64_t*>realloc(self.addresses, self.room * sizeof(uint64_t))
            if addresses == NULL:
                raise MemoryError
            self.addresses = addresses
            sizes = <uint8_t*>realloc(self.sizes, self.room)
            if sizes == NULL:
                raise MemoryError
            self.sizes = sizes
        own.begin, own.end = trace, trace + 29
        memset(own.flags, 0, sizeof(own.flags))
        decoder = ipt.insn_alloc_decoder(&own)
        if decoder == NULL:
            raise MemoryError
        one.ip, one.end_ip, one.count, one.mode = block.ip, block.end_ip, block.count, block.mode
        one.first, one.found = self.kept, 0
        self.entries += 1
        ipt.insn_set_image(decoder, self.image)
        status = ipt.insn_sync_forward(decoder)
        while one.found < block.count and status >= 0:
            while status >= 0 and status & EVENT_PENDING:
                status = ipt.insn_event(decoder, &event, sizeof(event))
            if status < 0:
                break
            memset(&insn, 0, sizeof(insn))
            status = ipt.insn_next(decoder, &insn, sizeof(insn))
            if not insn.size:
                break
            self.addresses[self.kept] = insn.ip
            self.sizes[self.kept] = insn.size
            self.kept += 1
            one.found += 1
        ipt.insn_free_decoder(decoder)
        return 0


@cython.final
cdef class Decoder:
    """A decoder of one contiguous piece of trace.

    ``position`` is that of the piece's first byte in its stream, ``base`` the tick at which cycles are 0 (None:
    the first that is known). ``since`` is the tick up to which the stream has been decoded before; from then on
    it was not traced, or, if ``lost`` is true, what was traced was lost. ``thread`` is given to the records, None: they
    have none.
    """

    cdef Py_buffer buffer
    cdef bint held
    cdef void* decoder
    cdef Config config
    cdef Image image
    cdef Row* rows
    cdef size_t used, room
    cdef uint64_t position, now, last_stamp, pending
    cdef uint64_t reached      # the tick that records have come to
    cdef readonly object base
    cdef uint64_t first
    cdef bint timed, based
    cdef uint64_t shift, multiplier, zero
    cdef bint converted
    cdef bint enabled, fresh, done
    cdef bint open             # a gap has begun
    cdef bint presumed         # it is one only if time passes in it
    cdef uint8_t why
    cdef uint64_t gap_index, gap_cycles
    cdef int status
    cdef uint64_t synchronised, regained
    cdef int tries
    cdef uint64_t events[KINDS]
    cdef uint64_t error_counts[KINDS]
    cdef uint32_t thread_number
    cdef bint has_thread
    cdef int64_t transaction   # the first row of the transaction that is going on; -1: there is none
    cdef readonly uint64_t instructions
    cdef readonly uint64_t backwards   # ticks at which the time seemed to go back; it stayed where it was

    def __init__(
        self, data, setting, Image image not None, *, uint64_t position=0, base=None, since=None, lost=False,
        thread=None,
    ):
        load()
        PyObject_GetBuffer(data, &self.buffer, PyBUF_SIMPLE)
        self.held = True
        configure(&self.config, setting)
        self.config.begin = <const uint8_t*>self.buffer.buf
        self.config.end = self.config.begin + self.buffer.len
        # Blocks end on calls, at ticks, and on jumps. With filters libipt would take such a jump for the one that
        # leaves
        # the filtered code, where an erratum makes it look for that (pt_blk_proceed_skl014).
        self.config.flags[0] = 2 if setting.filters else 7
        if not self.buffer.len:
            self.done = True
        else:
            self.decoder = ipt.blk_alloc_decoder(&self.config)
            if self.decoder == NULL:
                raise HeadwayError(
                    "libipt cannot decode this trace with the setting that the file has: record it again"
                )
        self.position, self.base = position, base
        if base is not None:
            self.based, self.first, self.reached = True, base, base if since is None else since
        if setting.ticks is not None:
            self.converted = True
            self.shift, self.multiplier, self.zero = setting.ticks.shift, setting.ticks.multiplier, setting.ticks.zero
        self.has_thread = thread is not None
        self.thread_number = thread or 0
        self.fresh, self.transaction = True, -1
        self.open, self.gap_index = True, position
        self.why = UNSYNCHRONISED if since is None else OVERFLOW if lost else OFF
        self.use(image)

    def __dealloc__(self):
        if self.decoder != NULL:
            ipt.blk_free_decoder(self.decoder)
        if self.held:
            PyBuffer_Release(&self.buffer)
        free(self.rows)

    def use(self, Image image not None):
        """Go on with the memory of another process, or with that of the same process after a change."""
        self.image = image
        if self.decoder != NULL:
            ipt.blk_set_image(self.decoder, image.image)

    @property
    def finished(self):
        """Whether everything has been decoded."""
        return self.done

    @property
    def tick(self):
        """The last value of the time stamp counter that is known, or None."""
        return self.now if self.timed else None

    @property
    def errors(self):
        """How often libipt could not go on, by its name for the reason."""
        return {error_name(i): self.error_counts[i] for i in range(KINDS) if self.error_counts[i]}

    @property
    def offset(self):
        """The byte of the piece that has been reached."""
        cdef uint64_t offset = 0
        if self.decoder != NULL and not self.fresh:
            ipt.blk_get_offset(self.decoder, &offset)
        return offset

    def start(self, uint64_t offset):
        """Begin at a PSB, at this byte of the piece, instead of at the first one."""
        if self.decoder != NULL:
            self.gap_index = self.position + offset
            self.begin(ipt.blk_sync_set(self.decoder, offset))

    def skip(self, uint64_t until):
        """Decode on to a tick, without records. What lies in between was not traced of this stream.

        If libipt lost its way there and has not found it again, the reason for that is the reason of the gap.
        """
        cdef uint64_t passed = self.gap_cycles if self.open else self.pending
        cdef bint lost = self.open and self.why != UNSYNCHRONISED and self.why != OFF
        cdef bint known = self.based, going = True
        cdef uint64_t index = self.gap_index if self.open else self.position + <uint64_t>self.offset
        cdef uint8_t why = self.why
        cdef uint64_t errors[KINDS]
        memcpy(errors, self.error_counts, sizeof(errors))
        if self.fresh and not self.done:
            self.begin(ipt.blk_sync_forward(self.decoder))
        while going and not self.done and not (self.timed and self.now >= until):
            going = self.step()
            self.used = 0
        memcpy(self.error_counts, errors, sizeof(errors))
        self.used, self.pending, self.last_stamp, self.transaction = 0, 0, 0, -1
        if not self.open or self.why == UNSYNCHRONISED or not lost and self.why == OFF:
            self.why = why if lost else OFF
        self.open, self.presumed, self.gap_index = True, False, index
        self.gap_cycles = passed + (self.now - self.reached if known and self.now > self.reached else 0)
        self.reached = max(self.now, self.reached)

    def run(self, Py_ssize_t most=1 << 16, uint64_t until=0xFFFFFFFFFFFFFFFF):
        """Decode on. Return about ``most`` records, fewer if the trace ends or if it comes to the tick ``until``."""
        cdef bint going = True
        if self.fresh and not self.done:
            self.begin(ipt.blk_sync_forward(self.decoder))
        while going and not self.done and self.final() < most and not (self.timed and self.now >= until):
            going = self.step()
        if self.done:
            self.close_gap(self.position + <uint64_t>self.buffer.len)
        self.reached = max(self.now, self.reached)
        return self.give(self.done or self.timed and self.now >= until)

    # Synchronisation

    cdef int begin(self, int status) except -1:
        """Take the result of a synchronisation; if it failed, try the next PSB."""
        cdef uint64_t offset = 0
        self.fresh = False
        while status < 0:
            if status == -EOS:
                self.done = True
                return 0
            self.failed(status)
            ipt.blk_get_offset(self.decoder, &offset)
            if offset <= self.synchronised:
                self.done = True
                return 0
            self.synchronised = offset
            status = ipt.blk_sync_forward(self.decoder)
        ipt.blk_get_sync_offset(self.decoder, &offset)
        self.synchronised = offset
        self.status, self.enabled = status, False
        if self.open and self.why == UNSYNCHRONISED:
            self.close_gap(self.position + offset)
            self.open_gap(OFF, self.position + offset)
            self.presumed = True  # unless the PSB+ has an address
        return self.clock()

    cdef int clock(self) except -1:
        """Take the time from libipt, if it has one."""
        cdef uint64_t tsc = 0
        cdef uint32_t lost_mtc, lost_cyc
        if ipt.blk_time(self.decoder, &tsc, &lost_mtc, &lost_cyc) >= 0:
            self.elapse(tsc)
        return 0

    cdef int failed(self, int status) except -1:
        """Begin a gap because libipt cannot go on."""
        cdef uint64_t offset = 0
        cdef int code = -status
        self.error_counts[code if code < KINDS else 0] += 1
        ipt.blk_get_offset(self.decoder, &offset)
        if code == EOS:
            return self.open_gap(TRUNCATED, self.position + offset)
        return self.open_gap(
            IMAGE if code == NOMAP else DAMAGE if code == BAD_OPC or code == BAD_PACKET else CONTRADICTION,
            self.position + offset,
        )

    cdef bint step(self) except -1:
        """Take the next event, or else the next block. Return whether to go on."""
        cdef Block block
        cdef Event event
        cdef int status = self.status
        if status & EVENT_PENDING:
            status = ipt.blk_event(self.decoder, &event, sizeof(event))
            if status >= 0:
                self.happened(&event)
                self.status = status
                if status & EVENT_PENDING or not status & END:
                    return True
        if status >= 0 and not status & END:
            block.count = 0
            status = ipt.blk_next(self.decoder, &block, sizeof(block))
            if block.count:
                self.execute(&block)
        if status >= 0 and (status & EVENT_PENDING or not status & END):
            self.status = status
            return True
        if status >= 0 or status == -EOS:
            self.begin(ipt.blk_sync_forward(self.decoder))
            return not self.done
        self.failed(status)
        if not self.regain(status):
            self.begin(ipt.blk_sync_forward(self.decoder))
        return not self.done

    cdef bint regain(self, int status) except -1:
        """Go on at the next packet with an address, before the next PSB. Return whether libipt can."""
        cdef Event event
        cdef uint64_t offset = 0
        if ipt.blk_resync == NULL or status == -BAD_OPC or status == -BAD_PACKET:
            return False
        ipt.blk_get_offset(self.decoder, &offset)
        self.tries = self.tries + 1 if offset == self.regained else 0
        self.regained = offset
        if self.tries >= TRIES:
            return False
        status = ipt.blk_resync(self.decoder)
        while status == -IGNORED:
            status = ipt.blk_event(self.decoder, &event, sizeof(event))
            if status < 0:
                return False
            if event.flags & 4:
                self.elapse(event.tsc)
            status = ipt.blk_resync(self.decoder)
        if status < 0:
            return False
        self.status, self.enabled = status, False
        return True

    # What blocks and events become

    cdef int happened(self, Event* event) except -1:
        cdef uint64_t offset = 0
        cdef Row* row
        if event.flags & 4:
            self.elapse(event.tsc)
        if event.type == TICK:
            return 0
        self.events[event.type if 0 <= event.type < KINDS else KINDS - 1] += 1
        ipt.blk_get_offset(self.decoder, &offset)
        offset += self.position
        if event.type == ENABLED:
            self.enabled = True
            self.close_gap(offset)
        elif event.type == DISABLED or event.type == ASYNC_DISABLED:
            self.enabled = False
            self.open_gap(OFF, offset)
        elif event.type == OVERFLOWED:
            self.open_gap(OVERFLOW, offset)
            self.enabled = not event.flags & 1
            if not self.enabled:
                self.close_gap(offset)
                self.open_gap(OFF, offset)
        elif event.type == TRANSACTION:
            self.transact(event.second & 1, event.second & 2)
        elif event.type == ASYNC_BRANCH:
            row = self.add(TAKEN, offset)
            row.address, row.size, row.thread = event.second, event.flags & 1, 0
        return 0

    cdef void transact(self, bint going, bint aborted) noexcept:
        """Begin a transaction, or end it: what was executed in one that was aborted has been undone."""
        cdef size_t i
        if going:
            if self.transaction < 0:
                self.transaction = <int64_t>self.used
            return
        if aborted and self.transaction >= 0:
            for i in range(<size_t>self.transaction, self.used):
                if self.rows[i].sort == INSTRUCTION:
                    self.rows[i].executed |= ABORTED
        self.transaction = -1

    cdef Py_ssize_t final(self) noexcept:
        """Return how many rows do not wait for the end of a transaction."""
        if self.transaction >= 0 and <int64_t>self.used - self.transaction > HELD:
            self.transaction = -1  # no processor has so long ones
        return <Py_ssize_t>(self.used if self.transaction < 0 else self.transaction)

    cdef int execute(self, Block* block) except -1:
        cdef Known* known = self.image.known(block, &self.config)
        cdef uint64_t offset = 0
        cdef uint32_t i
        cdef Row* row
        ipt.blk_get_offset(self.decoder, &offset)
        offset += self.position
        self.close_gap(offset)
        self.instructions += known.found
        self.reserve(known.found)
        for i in range(known.found):
            row = &self.rows[self.used]
            self.used += 1
            row.index, row.end, row.cycle, row.cycles = offset, 0, self.now - self.first, self.pending
            row.address, row.thread, row.epoch = self.image.addresses[known.first + i], self.thread_number, 0
            row.sort, row.size, row.executed, row.why = INSTRUCTION, self.image.sizes[known.first + i], PASSED, 0
            row.counted = self.timed
            self.pending = 0
        if known.found < block.count:
            self.open_gap(CONTRADICTION, offset)
        return 0

    cdef int elapse(self, uint64_t tsc) except -1:
        """Take a new time: what has passed belongs to the last instruction, or to the gap."""
        cdef uint64_t passed
        cdef Row* row
        if not self.timed:
            self.timed = True
            if not self.based:
                self.base, self.first, self.reached, self.based = tsc, tsc, tsc, True
            self.now = min(tsc, self.reached)
            self.stamp_at(tsc)
        if tsc <= self.now:
            self.backwards += tsc < self.now
            return 0
        passed, self.now = tsc - self.now, tsc
        if self.open:
            self.gap_cycles += passed
        elif self.used and self.rows[self.used - 1].sort == INSTRUCTION and self.rows[self.used - 1].counted:
            row = &self.rows[self.used - 1]
            row.cycle += passed
            row.cycles += passed
        else:
            self.pending += passed
        if self.now - self.last_stamp >= STAMP:
            self.stamp_at(self.now)
        return 0

    cdef int stamp_at(self, uint64_t tsc) except -1:
        """Report the time of the common clock."""
        cdef Row* row
        cdef uint64_t offset = 0
        if self.used and self.rows[self.used - 1].sort == INSTRUCTION and self.last_stamp:
            # The instruction before must stay the last one, so that it gets what passes later too.
            row = self.add(TIME, 0)
            row = &self.rows[self.used - 1]
            row[0], self.rows[self.used - 2] = self.rows[self.used - 2], row[0]
            row = &self.rows[self.used - 2]
            self.transaction += self.transaction == <int64_t>self.used - 1
        else:
            row = self.add(TIME, 0)
        ipt.blk_get_offset(self.decoder, &offset)
        row.index, row.cycle, row.counted = self.position + offset, tsc - self.first, True
        row.cycles = self.nanoseconds(tsc) if self.converted else tsc
        self.last_stamp = tsc
        return 0

    cdef uint64_t nanoseconds(self, uint64_t tsc) noexcept:
        cdef uint64_t rest = tsc & ((<uint64_t>1 << self.shift) - 1)
        return self.zero + (tsc >> self.shift) * self.multiplier + (rest * self.multiplier >> self.shift)

    # Gaps and rows

    cdef int open_gap(self, uint8_t why, uint64_t index) except -1:
        if why != OFF and why != IMAGE:
            self.transaction = -1  # how it ended is not known
        if self.open:
            if self.why == OFF and why != OFF:
                self.why, self.presumed = why, False  # what was lost is more than what was left out
            return 0
        self.open, self.why, self.gap_index, self.gap_cycles = True, why, index, self.pending
        self.pending = 0
        return 0

    cdef int close_gap(self, uint64_t end) except -1:
        cdef Row* row
        if not self.open:
            return 0
        self.open = False
        if self.why == UNSYNCHRONISED and end <= self.gap_index or self.presumed and not self.gap_cycles:
            self.presumed = False
            return 0
        self.presumed = False
        row = self.add(GAP, self.gap_index)
        row.end, row.cycles, row.why = max(end, self.gap_index), self.gap_cycles, self.why
        row.size = not self.timed
        self.gap_cycles = 0
        return 0

    cdef int reserve(self, size_t more) except -1:
        cdef Row* grown
        if self.used + more > self.room:
            self.room = max(self.room * 2, max(<size_t>4096, self.used + more))
            grown = <Row*>realloc(self.rows, self.room * sizeof(Row))
            if grown == NULL:
                raise MemoryError
            self.rows = grown
        return 0

    cdef Row* add(self, uint8_t sort, uint64_t index) except NULL:
        cdef Row* row
        self.reserve(1)
        row = &self.rows[self.used]
        self.used += 1
        memset(row, 0, sizeof(Row))
        row.sort, row.index, row.cycle, row.counted = sort, index, self.now - self.first, self.timed
        row.thread = self.thread_number
        return row

    cdef Records give(self, bint last):
        """Return the rows that are final: without the last one, to which time may still be added."""
        cdef size_t n = self.used
        cdef Records found = Records()
        if not last and n:
            n = min(n - 1, <size_t>self.final())
        self.transaction = max(self.transaction - <int64_t>n, <int64_t>0) if self.transaction >= 0 else -1
        found.threads = self.has_thread
        found.data = <Row*>malloc((n + 1) * sizeof(Row))
        if found.data == NULL:
            raise MemoryError
        found.size = n
        if n:
            memcpy(found.data, self.rows, n * sizeof(Row))
            memmove(self.rows, self.rows + n, (self.used - n) * sizeof(Row))
        self.used -= n
        return found


def count_packets(data, setting):
    """Return the numbers of packets by kind (as in libipt's ppt_*) and, as kind 0, of bytes that are no packet."""
    cdef Config config
    cdef PacketHead packet
    cdef void* decoder
    cdef int status
    cdef uint64_t counts[64]
    cdef Py_buffer buffer
    load()
    memset(counts, 0, sizeof(counts))
    configure(&config, setting)
    PyObject_GetBuffer(data, &buffer, PyBUF_SIMPLE)
    try:
        if not buffer.len:
            return {}
        config.begin = <const uint8_t*>buffer.buf
        config.end = config.begin + buffer.len
        decoder = ipt.pkt_alloc_decoder(&config)
        if decoder == NULL:
            raise HeadwayError("libipt cannot decode this trace with the setting that the file has: record it again")
        with nogil:
            status = ipt.pkt_sync_forward(decoder)
            while status >= 0:
                memset(&packet, 0, sizeof(packet))
                status = ipt.pkt_next(decoder, &packet, sizeof(packet))
                if status >= 0:
                    counts[packet.type if 0 <= packet.type < 64 else 0] += 1
                elif status != -EOS:
                    counts[0] += 1
                    status = ipt.pkt_sync_forward(decoder)
        ipt.pkt_free_decoder(decoder)
        return {i: counts[i] for i in range(64) if counts[i]}
    finally:
        PyBuffer_Release(&buffer)
