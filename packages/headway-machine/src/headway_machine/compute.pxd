"""Instructions that change nothing but a register and the program counter, and the values of loads."""

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

from .architecture cimport *
from .structures cimport Decoded

cdef enum:
    TAKEN_BIT = 1


cdef inline uint32_t size_of(int operation) noexcept nogil:
    """Return the bytes that a load or store from LB to SW accesses."""
    return 1u << (0x9124u >> 2 * (operation - LB) & 3)


cdef inline uint32_t loaded(int operation, uint32_t value) noexcept nogil:
    """Return what a load from LB to LHU makes of the bytes that it has read."""
    if operation == LB:
        return <uint32_t><int32_t><int8_t>value
    if operation == LH:
        return <uint32_t><int32_t><int16_t>value
    return value


cdef inline uint32_t compute(Decoded* d, uint32_t* x, uint32_t pc) noexcept nogil:
    """Execute an instruction from LUI to FENCE other than a load or store.

    Return the address of the next instruction, with TAKEN_BIT set if a branch was taken.
    """
    cdef int operation = d.operation
    cdef uint32_t a = x[d.rs1], b = x[d.rs2], i = <uint32_t>d.immediate, next = pc + d.size
    if operation == ADDI:
        x[d.rd] = a + i
    elif operation == ADD:
        x[d.rd] = a + b
    elif operation == BEQ:
        if a == b:
            next = pc + i | TAKEN_BIT
    elif operation == BNE:
        if a != b:
            next = pc + i | TAKEN_BIT
    elif operation == BLT:
        if <int32_t>a < <int32_t>b:
            next = pc + i | TAKEN_BIT
    elif operation == BGE:
        if <int32_t>a >= <int32_t>b:
            next = pc + i | TAKEN_BIT
    elif operation == BLTU:
        if a < b:
            next = pc + i | TAKEN_BIT
    elif operation == BGEU:
        if a >= b:
            next = pc + i | TAKEN_BIT
    elif operation == JAL:
        x[d.rd] = next
        next = pc + i | TAKEN_BIT
    elif operation == JALR:
        x[d.rd] = next
        next = a + i | TAKEN_BIT
    elif operation == LUI:
        x[d.rd] = i
    elif operation == AUIPC:
        x[d.rd] = pc + i
    elif operation == SUB:
        x[d.rd] = a - b
    elif operation == SLLI:
        x[d.rd] = a << i
    elif operation == SRLI:
        x[d.rd] = a >> i
    elif operation == SRAI:
        x[d.rd] = <uint32_t>(<int32_t>a >> i)
    elif operation == ANDI:
        x[d.rd] = a & i
    elif operation == ORI:
        x[d.rd] = a | i
    elif operation == XORI:
        x[d.rd] = a ^ i
    elif operation == SLTI:
        x[d.rd] = <int32_t>a < d.immediate
    elif operation == SLTIU:
        x[d.rd] = a < i
    elif operation == AND:
        x[d.rd] = a & b
    elif operation == OR:
        x[d.rd] = a | b
    elif operation == XOR:
        x[d.rd] = a ^ b
    elif operation == SLL:
        x[d.rd] = a << (b & 31)
    elif operation == SRL:
        x[d.rd] = a >> (b & 31)
    elif operation == SRA:
        x[d.rd] = <uint32_t>(<int32_t>a >> (b & 31))
    elif operation == SLT:
        x[d.rd] = <int32_t>a < <int32_t>b
    elif operation == SLTU:
        x[d.rd] = a < b
    elif operation == MUL:
        x[d.rd] = a * b
    elif operation == MULH:
        x[d.rd] = <uint32_t>(<uint64_t>(<int64_t><int32_t>a * <int64_t><int32_t>b) >> 32)
    elif operation == MULHSU:
        x[d.rd] = <uint32_t>(<uint64_t>(<int64_t><int32_t>a * <int64_t>b) >> 32)
    elif operation == MULHU:
        x[d.rd] = <uint32_t>(<uint64_t>a * <uint64_t>b >> 32)
    elif operation == DIV:
        x[d.rd] = (
            0xFFFFFFFFu if not b
            else a if b == 0xFFFFFFFFu and a == 0x80000000u
            else <uint32_t>(<int32_t>a // <int32_t>b)
        )
    elif operation == DIVU:
        x[d.rd] = a // b if b else 0xFFFFFFFFu
    elif operation == REM:
        x[d.rd] = a if not b else 0 if b == 0xFFFFFFFFu else <uint32_t>(<int32_t>a % <int32_t>b)
    elif operation == REMU:
        x[d.rd] = a % b if b else a
    return next
