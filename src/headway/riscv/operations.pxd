"""Operations of RV32IMAC with Zicsr and Zifencei, as an instruction word is decoded to them."""

cdef enum:
    NOWHERE = 32
    # ^ The register that results for x0 go to.

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
    """x1 and x5: a jump that writes one is a call, one that reads it a return ("The RISC-V Instruction Set Manual", 2.5)."""
    return register == 1 or register == 5
