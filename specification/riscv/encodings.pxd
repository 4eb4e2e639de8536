"""The 32-bit encodings of RV32IMA with Zicsr and Zifencei as data: one row an instruction, as riscv-opcodes has them.

Source: "The RISC-V Instruction Set Manual, Volume I" (20191213), chapter 24.
"""

from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport memset

from .operations cimport *

cdef enum:  # Form: where an instruction has its operands
    # It has none that the hart reads or writes.
    BARE = 0
    R_TYPE
    I_TYPE
    S_TYPE
    B_TYPE
    U_TYPE
    J_TYPE
    # I_TYPE, with a number of bits to shift.
    SHIFT
    # I_TYPE, with the number of a CSR; with an immediate in the place of rs1, too.
    CSR
    CSR_IMMEDIATE

cdef enum:  # Which bits of a word are fixed
    OPCODE = 0x0000007F
    FUNCT3 = 0x0000707F
    FUNCT7 = 0xFE00707F
    FUNCT5 = 0xF800707F
    # Those of LR, whose rs2 is 0.
    FUNCT5_RS2 = 0xF9F0707F
    WORD = 0xFFFFFFFF

# An instruction is those words that have the bits ``match`` under ``mask``.
ctypedef struct Encoding:
    uint32_t mask
    uint32_t match
    uint8_t operation
    uint8_t form

# The encodings, those of a major opcode (bits 2 to 6 of a word) in a row. The first that matches counts.
ctypedef struct Encodings:
    Encoding rows[80]
    uint8_t count
    # For each major opcode, where its encodings begin and end.
    uint8_t first[32]
    uint8_t end[32]


cdef inline void encode(Encodings* e, uint32_t mask, uint32_t match, int operation, int form) noexcept nogil:
    """Add an encoding. Those of a major opcode are added one after the other."""
    cdef uint32_t major = match >> 2 & 31
    cdef Encoding* row = &e.rows[e.count]
    if e.end[major] == 0:
        e.first[major] = e.count
    e.count += 1
    e.end[major] = e.count
    row.mask = mask
    row.match = match
    row.operation = <uint8_t>operation
    row.form = <uint8_t>form


cdef inline void list_memory(Encodings* e) noexcept nogil:
    """List loads and stores. A reserved width waits for the same registers, and traps then."""
    encode(e, FUNCT3, 0x00000003, LB, I_TYPE)
    encode(e, FUNCT3, 0x00001003, LH, I_TYPE)
    encode(e, FUNCT3, 0x00002003, LW, I_TYPE)
    encode(e, FUNCT3, 0x00004003, LBU, I_TYPE)
    encode(e, FUNCT3, 0x00005003, LHU, I_TYPE)
    encode(e, OPCODE, 0x00000003, BAD, I_TYPE)
    encode(e, FUNCT3, 0x00000023, SB, S_TYPE)
    encode(e, FUNCT3, 0x00001023, SH, S_TYPE)
    encode(e, FUNCT3, 0x00002023, SW, S_TYPE)
    encode(e, OPCODE, 0x00000023, BAD, S_TYPE)


cdef inline void list_jumps(Encodings* e) noexcept nogil:
    encode(e, OPCODE, 0x0000006F, JAL, J_TYPE)
    encode(e, FUNCT3, 0x00000067, JALR, I_TYPE)
    encode(e, FUNCT3, 0x00000063, BEQ, B_TYPE)
    encode(e, FUNCT3, 0x00001063, BNE, B_TYPE)
    encode(e, FUNCT3, 0x00004063, BLT, B_TYPE)
    encode(e, FUNCT3, 0x00005063, BGE, B_TYPE)
    encode(e, FUNCT3, 0x00006063, BLTU, B_TYPE)
    encode(e, FUNCT3, 0x00007063, BGEU, B_TYPE)
    encode(e, OPCODE, 0x00000063, BAD, B_TYPE)


cdef inline void list_computations(Encodings* e) noexcept nogil:
    """List what changes only a register. A reserved function waits for the same registers, and traps then."""
    encode(e, OPCODE, 0x00000037, LUI, U_TYPE)
    encode(e, OPCODE, 0x00000017, AUIPC, U_TYPE)
    encode(e, FUNCT3, 0x00000013, ADDI, I_TYPE)
    encode(e, FUNCT7, 0x00001013, SLLI, SHIFT)
    encode(e, FUNCT3, 0x00002013, SLTI, I_TYPE)
    encode(e, FUNCT3, 0x00003013, SLTIU, I_TYPE)
    encode(e, FUNCT3, 0x00004013, XORI, I_TYPE)
    encode(e, FUNCT7, 0x00005013, SRLI, SHIFT)
    encode(e, FUNCT7, 0x40005013, SRAI, SHIFT)
    encode(e, FUNCT3, 0x00006013, ORI, I_TYPE)
    encode(e, FUNCT3, 0x00007013, ANDI, I_TYPE)
    encode(e, OPCODE, 0x00000013, BAD, I_TYPE)
    encode(e, FUNCT7, 0x00000033, ADD, R_TYPE)
    encode(e, FUNCT7, 0x40000033, SUB, R_TYPE)
    encode(e, FUNCT7, 0x00001033, SLL, R_TYPE)
    encode(e, FUNCT7, 0x00002033, SLT, R_TYPE)
    encode(e, FUNCT7, 0x00003033, SLTU, R_TYPE)
    encode(e, FUNCT7, 0x00004033, XOR, R_TYPE)
    encode(e, FUNCT7, 0x00005033, SRL, R_TYPE)
    encode(e, FUNCT7, 0x40005033, SRA, R_TYPE)
    encode(e, FUNCT7, 0x00006033, OR, R_TYPE)
    encode(e, FUNCT7, 0x00007033, AND, R_TYPE)
    encode(e, FUNCT7, 0x02000033, MUL, R_TYPE)
    encode(e, FUNCT7, 0x02001033, MULH, R_TYPE)
    encode(e, FUNCT7, 0x02002033, MULHSU, R_TYPE)
    encode(e, FUNCT7, 0x02003033, MULHU, R_TYPE)
    encode(e, FUNCT7, 0x02004033, DIV, R_TYPE)
    encode(e, FUNCT7, 0x02005033, DIVU, R_TYPE)
    encode(e, FUNCT7, 0x02006033, REM, R_TYPE)
    encode(e, FUNCT7, 0x02007033, REMU, R_TYPE)
    encode(e, OPCODE, 0x00000033, BAD, R_TYPE)


cdef inline void list_system(Encodings* e) noexcept nogil:
    encode(e, FUNCT3, 0x0000000F, FENCE, BARE)
    encode(e, FUNCT3, 0x0000100F, FENCE_I, BARE)
    encode(e, WORD, 0x00000073, ECALL, BARE)
    encode(e, WORD, 0x00100073, EBREAK, BARE)
    encode(e, WORD, 0x30200073, MRET, BARE)
    encode(e, WORD, 0x10500073, WFI, BARE)
    encode(e, FUNCT3, 0x00001073, CSRRW, CSR)
    encode(e, FUNCT3, 0x00002073, CSRRS, CSR)
    encode(e, FUNCT3, 0x00003073, CSRRC, CSR)
    encode(e, FUNCT3, 0x00005073, CSRRWI, CSR_IMMEDIATE)
    encode(e, FUNCT3, 0x00006073, CSRRSI, CSR_IMMEDIATE)
    encode(e, FUNCT3, 0x00007073, CSRRCI, CSR_IMMEDIATE)


cdef inline void list_atomics(Encodings* e) noexcept nogil:
    """List the atomic operations. A reserved one waits for the same registers, and traps then."""
    encode(e, FUNCT5_RS2, 0x1000202F, LR, R_TYPE)
    encode(e, FUNCT5, 0x1800202F, SC, R_TYPE)
    encode(e, FUNCT5, 0x0800202F, AMOSWAP, R_TYPE)
    encode(e, FUNCT5, 0x0000202F, AMOADD, R_TYPE)
    encode(e, FUNCT5, 0x2000202F, AMOXOR, R_TYPE)
    encode(e, FUNCT5, 0x6000202F, AMOAND, R_TYPE)
    encode(e, FUNCT5, 0x4000202F, AMOOR, R_TYPE)
    encode(e, FUNCT5, 0x8000202F, AMOMIN, R_TYPE)
    encode(e, FUNCT5, 0xA000202F, AMOMAX, R_TYPE)
    encode(e, FUNCT5, 0xC000202F, AMOMINU, R_TYPE)
    encode(e, FUNCT5, 0xE000202F, AMOMAXU, R_TYPE)
    encode(e, FUNCT3, 0x0000202F, BAD, R_TYPE)


cdef inline void list_encodings(Encodings* e) noexcept nogil:
    """Fill the table."""
    memset(e, 0, sizeof(Encodings))
    list_memory(e)
    list_jumps(e)
    list_computations(e)
    list_system(e)
    list_atomics(e)
