"""The numbers of RV32I that the core knows ("The RISC-V Instruction Set Manual", volumes I and II, 20211203)."""

from __future__ import annotations

from enum import IntEnum

__all__ = ["Cause", "Csr", "Opcode", "System"]


class Opcode(IntEnum):
    """Bits 2 to 6 of an instruction word; bits 0 and 1 are set."""

    LOAD = 0b00000
    MISC_MEM = 0b00011
    OP_IMM = 0b00100
    AUIPC = 0b00101
    STORE = 0b01000
    OP = 0b01100
    LUI = 0b01101
    BRANCH = 0b11000
    JALR = 0b11001
    JAL = 0b11011
    SYSTEM = 0b11100


class System(IntEnum):
    """Instruction words of SYSTEM that have no operands."""

    ECALL = 0x0000_0073
    EBREAK = 0x0010_0073
    MRET = 0x3020_0073
    WFI = 0x1050_0073


class Cause(IntEnum):
    """Values of mcause, for exceptions, and `TIMER` for the interrupt."""

    FETCH_MISALIGNED = 0
    FETCH_FAULT = 1
    ILLEGAL = 2
    BREAKPOINT = 3
    LOAD_MISALIGNED = 4
    LOAD_FAULT = 5
    STORE_MISALIGNED = 6
    STORE_FAULT = 7
    TIMER = 7
    CALL_FROM_USER = 8
    CALL_FROM_MACHINE = 11


class Csr(IntEnum):
    """Control and status registers of the standard that the core has."""

    MSTATUS = 0x300
    MISA = 0x301
    MIE = 0x304
    MTVEC = 0x305
    MSCRATCH = 0x340
    MEPC = 0x341
    MCAUSE = 0x342
    MTVAL = 0x343
    MIP = 0x344
    MCYCLE = 0xB00
    MCYCLEH = 0xB80
    MVENDORID = 0xF11
    MARCHID = 0xF12
    MIMPID = 0xF13
    MHARTID = 0xF14
    MCONFIGPTR = 0xF15
