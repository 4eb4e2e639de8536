"""The decoder from instruction words to operations that the hart executes.

It decodes RV32IMAC with Zicsr and Zifencei, from "The RISC-V Instruction Set Manual, Volume I" (20191213): chapters 2,
3, 7, 8, 9, 16 and the opcode tables of chapter 24. A compressed instruction is decoded to the instruction that it
expands to. Every word that is reserved, or that belongs to another extension, is decoded to BAD, which traps.
"""

from libc.stdint cimport int32_t, uint8_t, uint32_t

from .encodings cimport (
    B_TYPE, CSR, CSR_IMMEDIATE, I_TYPE, J_TYPE, R_TYPE, S_TYPE, SHIFT, U_TYPE, Encoding, Encodings,
)
from .operations cimport *

ctypedef struct Decoded:
    uint8_t operation
    uint8_t rd
    uint8_t rs1
    uint8_t rs2
    int32_t immediate
    # The size of the instruction, 2 or 4 bytes.
    uint8_t size
    # The second half of the instruction is in the next cache line.
    uint8_t crosses
    # The state monitor's address range that contains the instruction; 0: none.
    uint8_t range
    uint8_t uimm
    # The instruction word, as trap values show it.
    uint32_t word


cdef inline uint32_t bits(uint32_t word, int high, int low) noexcept nogil:
    return (word >> low) & ((1u << (high - low + 1)) - 1u)


cdef inline int32_t signed(uint32_t value, int width) noexcept nogil:
    """Return the two's complement number in the lowest ``width`` bits."""
    return <int32_t>(value << (32 - width)) >> (32 - width)


cdef inline void put(
    Decoded* d, int operation, uint32_t rd, uint32_t rs1, uint32_t rs2, int32_t immediate
) noexcept nogil:
    d.operation = <uint8_t>operation
    d.rd = <uint8_t>(rd if rd else NOWHERE)
    d.rs1 = <uint8_t>rs1
    d.rs2 = <uint8_t>rs2
    d.immediate = immediate


cdef inline int32_t branch_offset(uint32_t w) noexcept nogil:
    return signed(bits(w, 31, 31) << 12 | bits(w, 7, 7) << 11 | bits(w, 30, 25) << 5 | bits(w, 11, 8) << 1, 13)


cdef inline int32_t jump_offset(uint32_t w) noexcept nogil:
    return signed(bits(w, 31, 31) << 20 | bits(w, 19, 12) << 12 | bits(w, 20, 20) << 11 | bits(w, 30, 21) << 1, 21)


cdef inline void put_operands(Decoded* d, Encoding* e, uint32_t w) noexcept nogil:
    """Give the operation its operands, which are in the word where its form has them."""
    cdef uint32_t rd = bits(w, 11, 7), rs1 = bits(w, 19, 15), rs2 = bits(w, 24, 20)
    cdef int operation = e.operation, form = e.form
    if form == R_TYPE:
        put(d, operation, rd, rs1, rs2, 0)
    elif form == I_TYPE:
        put(d, operation, rd, rs1, 0, signed(w >> 20, 12))
    elif form == SHIFT:
        put(d, operation, rd, rs1, 0, <int32_t>rs2)
    elif form == S_TYPE:
        put(d, operation, 0, rs1, rs2, signed(bits(w, 31, 25) << 5 | rd, 12))
    elif form == B_TYPE:
        put(d, operation, 0, rs1, rs2, branch_offset(w))
    elif form == U_TYPE:
        put(d, operation, rd, 0, 0, <int32_t>(w & 0xFFFFF000u))
    elif form == J_TYPE:
        put(d, operation, rd, 0, 0, jump_offset(w))
    elif form == CSR:
        put(d, operation, rd, rs1, 0, <int32_t>(w >> 20))
    elif form == CSR_IMMEDIATE:
        # The immediate has a field of its own. In rs1 it would look like a register to wait for.
        put(d, operation, rd, 0, 0, <int32_t>(w >> 20))
        d.uimm = <uint8_t>rs1
    else:
        put(d, operation, 0, 0, 0, 0)


cdef inline void decode_word(Encodings* e, Decoded* d, uint32_t w) noexcept nogil:
    """Decode a 32-bit instruction by the table."""
    cdef uint32_t major = w >> 2 & 31
    cdef int i
    d.size = 4
    d.word = w
    put(d, BAD, 0, 0, 0, 0)
    for i in range(e.first[major], e.end[major]):
        if w & e.rows[i].mask == e.rows[i].match:
            put_operands(d, &e.rows[i], w)
            return


cdef inline void decode_compressed_arithmetic(Decoded* d, uint32_t w) noexcept nogil:
    """Decode c.srli, c.srai, c.andi, c.sub, c.xor, c.or and c.and."""
    cdef uint32_t f3 = bits(w, 11, 10), low = 8 + bits(w, 4, 2), high = 8 + bits(w, 9, 7), rs2 = bits(w, 6, 2)
    if f3 == 0 and not bits(w, 12, 12):
        put(d, SRLI, high, high, 0, <int32_t>rs2)
    elif f3 == 1 and not bits(w, 12, 12):
        put(d, SRAI, high, high, 0, <int32_t>rs2)
    elif f3 == 2:
        put(d, ANDI, high, high, 0, signed(bits(w, 12, 12) << 5 | rs2, 6))
    elif f3 == 3 and not bits(w, 12, 12):
        f3 = bits(w, 6, 5)
        if f3 == 0:
            put(d, SUB, high, high, low, 0)
        elif f3 == 1:
            put(d, XOR, high, high, low, 0)
        elif f3 == 2:
            put(d, OR, high, high, low, 0)
        else:
            put(d, AND, high, high, low, 0)


cdef inline void decode_quadrant_0(Decoded* d, uint32_t w) noexcept nogil:
    """Decode loads, stores and addresses on the stack."""
    cdef uint32_t f3 = bits(w, 15, 13), low = 8 + bits(w, 4, 2), high = 8 + bits(w, 9, 7)
    cdef int32_t offset
    offset = <int32_t>(bits(w, 12, 10) << 3 | bits(w, 6, 6) << 2 | bits(w, 5, 5) << 6)
    if f3 == 0:
        offset = <int32_t>(bits(w, 12, 11) << 4 | bits(w, 10, 7) << 6 | bits(w, 6, 6) << 2 | bits(w, 5, 5) << 3)
        if offset:
            put(d, ADDI, low, 2, 0, offset)
    elif f3 == 2:
        put(d, LW, low, high, 0, offset)
    elif f3 == 6:
        put(d, SW, 0, high, low, offset)


cdef inline void decode_quadrant_1(Decoded* d, uint32_t w) noexcept nogil:
    """Decode constants, arithmetic, jumps and branches."""
    cdef uint32_t f3 = bits(w, 15, 13), rd = bits(w, 11, 7), high = 8 + bits(w, 9, 7)
    cdef int32_t six = signed(bits(w, 12, 12) << 5 | bits(w, 6, 2), 6), offset
    if f3 == 0:
        put(d, ADDI, rd, rd, 0, six)
    elif f3 == 1 or f3 == 5:
        offset = signed(
            bits(w, 12, 12) << 11 | bits(w, 11, 11) << 4 | bits(w, 10, 9) << 8 | bits(w, 8, 8) << 10
            | bits(w, 7, 7) << 6 | bits(w, 6, 6) << 7 | bits(w, 5, 3) << 1 | bits(w, 2, 2) << 5, 12
        )
        put(d, JAL, 1 if f3 == 1 else 0, 0, 0, offset)
    elif f3 == 2:
        put(d, ADDI, rd, 0, 0, six)
    elif f3 == 3:
        if rd == 2:
            offset = signed(
                bits(w, 12, 12) << 9 | bits(w, 6, 6) << 4 | bits(w, 5, 5) << 6 | bits(w, 4, 3) << 7
                | bits(w, 2, 2) << 5, 10
            )
            if offset:
                put(d, ADDI, 2, 2, 0, offset)
        elif six:
            put(d, LUI, rd, 0, 0, <int32_t>(<uint32_t>six << 12))
    elif f3 == 4:
        decode_compressed_arithmetic(d, w)
    else:
        offset = signed(
            bits(w, 12, 12) << 8 | bits(w, 11, 10) << 3 | bits(w, 6, 5) << 6 | bits(w, 4, 3) << 1
            | bits(w, 2, 2) << 5, 9
        )
        put(d, BEQ if f3 == 6 else BNE, 0, high, 0, offset)


cdef inline void decode_quadrant_2(Decoded* d, uint32_t w) noexcept nogil:
    """Decode what needs two whole registers, or the stack pointer."""
    cdef uint32_t f3 = bits(w, 15, 13), rd = bits(w, 11, 7), rs2 = bits(w, 6, 2)
    if f3 == 0:
        if not bits(w, 12, 12):
            put(d, SLLI, rd, rd, 0, <int32_t>rs2)
    elif f3 == 2:
        if rd:
            put(d, LW, rd, 2, 0, <int32_t>(bits(w, 12, 12) << 5 | bits(w, 6, 4) << 2 | bits(w, 3, 2) << 6))
    elif f3 == 4:
        if not bits(w, 12, 12):
            if rs2:
                put(d, ADD, rd, 0, rs2, 0)
            elif rd:
                put(d, JALR, 0, rd, 0, 0)
        elif rs2:
            put(d, ADD, rd, rd, rs2, 0)
        elif rd:
            put(d, JALR, 1, rd, 0, 0)
        else:
            put(d, EBREAK, 0, 0, 0, 0)
    elif f3 == 6:
        put(d, SW, 0, 2, rs2, <int32_t>(bits(w, 12, 9) << 2 | bits(w, 8, 7) << 6))


cdef inline void decode_half(Decoded* d, uint32_t w) noexcept nogil:
    """Decode a compressed instruction (chapter 16) to the instruction that it expands to."""
    cdef uint32_t quadrant = w & 3
    d.size = 2
    d.word = w
    put(d, BAD, 0, 0, 0, 0)
    if quadrant == 0:
        decode_quadrant_0(d, w)
    elif quadrant == 1:
        decode_quadrant_1(d, w)
    else:
        decode_quadrant_2(d, w)
