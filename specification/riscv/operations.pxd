"""The operations of RV32IMAC with Zicsr and Zifencei to which instruction words are decoded."""

cdef enum:
    # The register that receives results for x0.
    NOWHERE = 32

cdef enum:  # Operation
    UNDECODED = 0
    BAD
    LUI
    AUIPC
    JAL
    JALR
    BEQ
    BNE
    BLT
    BGE
    BLTU
    BGEU
    LB
    LH
    LW
    LBU
    LHU
    SB
    SH
    SW
    ADDI
    SLTI
    SLTIU
    XORI
    ORI
    ANDI
    SLLI
    SRLI
    SRAI
    ADD
    SUB
    SLL
    SLT
    SLTU
    XOR
    SRL
    SRA
    OR
    AND
    MUL
    MULH
    MULHSU
    MULHU
    DIV
    DIVU
    REM
    REMU
    FENCE
    FENCE_I
    ECALL
    EBREAK
    MRET
    WFI
    CSRRW
    CSRRS
    CSRRC
    CSRRWI
    CSRRSI
    CSRRCI
    LR
    SC
    AMOSWAP
    AMOADD
    AMOXOR
    AMOAND
    AMOOR
    AMOMIN
    AMOMAX
    AMOMINU
    AMOMAXU


cdef inline bint is_link(int register) noexcept nogil:
    """Return whether the register is x1 or x5.

    A jump that writes one of them is a call, and one that reads it is a return ("The RISC-V Instruction Set Manual",
    2.5).
    """
    return register == 1 or register == 5
