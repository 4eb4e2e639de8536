"""The packets of E-Trace (te_inst), read from their payloads ("Efficient Trace for RISC-V" 2.0, chapter 7).

A payload is shortened: bits that are missing at its end equal the last bit that is there.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

cdef enum:  # Subformat of format 3
    START = 0
    TRAP = 1
    CONTEXT = 2
    SUPPORT = 3

cdef enum:  # Status of qualification
    NO_CHANGE = 0
    ENDED_REPORTED = 1
    LOST = 2
    ENDED_ANYWAY = 3

cdef enum:  # Option: what a bit of ioptions means, in the order of `parameters.OPTIONS`
    IMPLICIT_RETURN = 1
    IMPLICIT_EXCEPTION = 2
    FULL_ADDRESS = 4
    JUMP_TARGET_CACHE = 8
    BRANCH_PREDICTION = 16
    SEQUENTIAL_JUMP = 32

cdef enum:
    # Bytes of a payload.
    LONGEST = 31

ctypedef struct Widths:
    # The parameters of the encoder, in bits.
    uint32_t address
    uint32_t low
    uint32_t context
    uint32_t time
    uint32_t cause
    uint32_t privilege
    uint32_t subformat
    uint32_t predictor
    uint32_t cache
    # Bits of irdepth.
    uint32_t depth
    # What each bit of ioptions means; 0: nothing.
    uint32_t options[8]
    uint32_t options_count
    # Bits of the type before the payload.
    uint32_t type
    # Where traps go, as mtvec has it, if the trap's packet does not say; 1 more, 0: not known.
    uint64_t vector

ctypedef struct Packet:
    uint32_t format
    uint32_t subformat
    uint32_t branches      # outcomes in `map`
    uint32_t map           # a bit for each branch, the oldest lowest: 1 not taken
    uint32_t whole_map     # the map is full, and the packet has no address
    uint64_t predicted     # format 0: branches that were predicted
    uint32_t failed        # the branch after them was not
    uint32_t index         # of the jump target cache
    uint32_t addressed
    uint64_t address       # full, or a difference
    uint32_t notify
    uint32_t updiscon
    uint32_t irreport
    uint32_t irdepth
    uint32_t branch
    uint32_t privilege
    uint64_t time
    uint64_t context
    uint32_t cause
    uint32_t interrupt
    uint32_t thaddr
    uint64_t value         # tval
    uint32_t enabled
    uint32_t status
    uint32_t options
    int64_t offset         # of the stream, where the packet begins
    int64_t end
    int64_t stamp          # the time of the encapsulation; -1: none

ctypedef struct Bits:
    uint64_t words[12]
    uint32_t at
    uint32_t had           # bits that were there


cdef inline void open_bits(Bits* b, const uint8_t* p, uint32_t size) noexcept nogil:
    """Begin to read a payload of 1 to 31 bytes."""
    memset(b.words, 0xFF if p[size - 1] & 0x80 else 0, sizeof(b.words))
    memcpy(b.words, p, size)
    b.at = 0
    b.had = size * 8


cdef inline uint64_t take(Bits* b, uint32_t bits) noexcept nogil:
    """Read up to 64 bits."""
    cdef uint32_t word = b.at >> 6, shift = b.at & 63
    cdef uint64_t found
    if not bits or word > 9:
        return 0
    found = b.words[word] >> shift
    if shift:
        found |= b.words[word + 1] << (64 - shift)
    b.at += bits
    return found if bits == 64 else found & ((<uint64_t>1 << bits) - 1)


cdef inline uint32_t map_size(uint32_t branches) noexcept nogil:
    return 31 if branches > 15 else 15 if branches > 7 else 7 if branches > 3 else 3 if branches > 1 else branches


cdef inline void take_depth(Bits* b, Packet* p, const Widths* w, uint32_t before) noexcept nogil:
    p.irreport = <uint32_t>take(b, 1)
    p.irdepth = <uint32_t>take(b, w.depth)
    p.irreport ^= before


cdef inline void take_address(Bits* b, Packet* p, const Widths* w) noexcept nogil:
    """Read an address, and notify, updiscon and irreport, which differ from the bit before them if they are set."""
    cdef uint32_t bits = w.address - w.low, last, notify, updiscon
    p.addressed = 1
    p.address = take(b, bits)
    last = <uint32_t>(p.address >> (bits - 1)) & 1
    if last and bits < 64:
        p.address |= ~<uint64_t>0 << bits
    p.address <<= w.low
    notify = <uint32_t>take(b, 1)
    updiscon = <uint32_t>take(b, 1)
    p.notify = notify ^ last
    p.updiscon = updiscon ^ notify
    take_depth(b, p, w, updiscon)


cdef inline void take_place(Bits* b, Packet* p, const Widths* w) noexcept nogil:
    p.privilege = <uint32_t>take(b, w.privilege)
    p.time = take(b, w.time)
    p.context = take(b, w.context)


cdef inline bint read_packet(
    const uint8_t* data, uint32_t size, const Widths* w, uint32_t options, Packet* p
) noexcept nogil:
    """Read a payload. Return False if it is none of a packet."""
    cdef Bits b
    cdef uint32_t i, bits
    memset(p, 0, sizeof(Packet))
    open_bits(&b, data, size)
    take(&b, w.type)
    p.format = <uint32_t>take(&b, 2)
    if p.format == 1:
        p.branches = <uint32_t>take(&b, 5)
        if not p.branches:
            p.whole_map, p.branches = 1, 31
            p.map = <uint32_t>take(&b, 31)
        else:
            p.map = <uint32_t>take(&b, map_size(p.branches)) & (0xFFFFFFFFu >> (32 - p.branches))
            take_address(&b, p, w)
    elif p.format == 2:
        take_address(&b, p, w)
    elif p.format == 0:
        if w.subformat:
            p.subformat = <uint32_t>take(&b, w.subformat)
        else:
            p.subformat = 0 if options & BRANCH_PREDICTION else 1
        if p.subformat == 0:
            if not options & BRANCH_PREDICTION:
                return False
            p.predicted = take(&b, 32) + 31
            i = <uint32_t>take(&b, 2)
            if i == 1:
                return False
            p.failed = i != 2
            if i:
                take_address(&b, p, w)
        elif p.subformat == 1:
            if not options & JUMP_TARGET_CACHE:
                return False
            p.index = <uint32_t>take(&b, w.cache)
            p.branches = <uint32_t>take(&b, 5)
            bits = map_size(p.branches)
            if bits:
                p.map = <uint32_t>take(&b, bits)
                i = p.map >> (bits - 1)
                p.map &= 0xFFFFFFFFu >> (32 - p.branches)
            else:
                i = 0
            take_depth(&b, p, w, i)
        else:
            return False
    else:
        p.subformat = <uint32_t>take(&b, 2)
        if p.subformat == SUPPORT:
            p.enabled = <uint32_t>take(&b, 1)
            if take(&b, 1):
                return False
            p.status = <uint32_t>take(&b, 2)
            for i in range(w.options_count):
                if take(&b, 1):
                    p.options |= w.options[i]
            return True
        if p.subformat != CONTEXT:
            p.branch = <uint32_t>take(&b, 1)
        take_place(&b, p, w)
        if p.subformat == CONTEXT:
            return b.had < b.at + 8
        if p.subformat == TRAP:
            p.cause = <uint32_t>take(&b, w.cause)
            p.interrupt = <uint32_t>take(&b, 1)
            p.thaddr = <uint32_t>take(&b, 1)
        if p.subformat == START or not (p.thaddr and options & IMPLICIT_EXCEPTION):
            p.addressed = 1
            p.address = take(&b, w.address - w.low) << w.low
        if p.subformat == TRAP and not p.interrupt:
            p.value = take(&b, w.address)
    return b.had < b.at + 8
