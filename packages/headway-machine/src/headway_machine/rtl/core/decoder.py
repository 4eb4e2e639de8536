"""The decoder: what an instruction word asks of the other units."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib.wiring import Component, In, Out

from .instructions import Opcode, System

__all__ = ["Decoder"]

_CALL_NUMBER = 17
"""The register a7, which has the number of a system call."""


class Decoder(Component):
    """Decodes RV32I and Zicsr. It has no registers."""

    def __init__(self) -> None:
        super().__init__(
            {
                "word": In(32),
                "rd": Out(5),
                "rs1": Out(5),
                "rs2": Out(5),
                "function": Out(3),
                "immediate": Out(32),
                # The result is written to rd.
                "writes": Out(1),
                "reads_rs1": Out(1),
                "reads_rs2": Out(1),
                # The first operand is the address of the instruction, or nothing.
                "from_pc": Out(1),
                "from_zero": Out(1),
                # The second operand is the immediate.
                "with_immediate": Out(1),
                # The arithmetic unit computes by `function`; else it adds.
                "computes": Out(1),
                # SUB or SRA.
                "alternate": Out(1),
                "load": Out(1),
                "store": Out(1),
                "branch": Out(1),
                "jal": Out(1),
                "jalr": Out(1),
                "fence_i": Out(1),
                "csr": Out(1),
                "ecall": Out(1),
                "ebreak": Out(1),
                "mret": Out(1),
                "illegal": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Build the module."""
        m = Module()
        word, opcode, seventh = self.word, self.word[2:7], self.word[25:]
        sign = word[31]
        upper = Cat(Signal(12), word[12:])
        jump = Cat(Signal(1), word[21:31], word[20], word[12:20], sign.replicate(12))
        branch = Cat(Signal(1), word[8:12], word[25:31], word[7], sign.replicate(20))
        store = Cat(word[7:12], word[25:], sign.replicate(20))
        short = Cat(word[20:], sign.replicate(20))
        m.d.comb += [
            self.rd.eq(word[7:12]),
            self.rs1.eq(word[15:20]),
            self.rs2.eq(Mux(opcode == Opcode.SYSTEM, _CALL_NUMBER, word[20:25])),
            self.function.eq(word[12:15]),
            self.immediate.eq(short),
            self.illegal.eq(word[:2] != 3),
        ]
        shifts = self.function[:2] == 1
        right = self.function == 5
        with m.Switch(opcode):
            with m.Case(Opcode.LUI):
                m.d.comb += [self.writes.eq(1), self.from_zero.eq(1), self.immediate.eq(upper)]
                m.d.comb += self.with_immediate.eq(1)
            with m.Case(Opcode.AUIPC):
                m.d.comb += [self.writes.eq(1), self.from_pc.eq(1), self.immediate.eq(upper)]
                m.d.comb += self.with_immediate.eq(1)
            with m.Case(Opcode.JAL):
                m.d.comb += [self.writes.eq(1), self.jal.eq(1), self.immediate.eq(jump)]
            with m.Case(Opcode.JALR):
                m.d.comb += [self.writes.eq(1), self.jalr.eq(1), self.reads_rs1.eq(1), self.with_immediate.eq(1)]
                with m.If(self.function != 0):
                    m.d.comb += self.illegal.eq(1)
            with m.Case(Opcode.BRANCH):
                m.d.comb += [self.branch.eq(1), self.reads_rs1.eq(1), self.reads_rs2.eq(1), self.immediate.eq(branch)]
                with m.If(self.function[1:] == 1):
                    m.d.comb += self.illegal.eq(1)
            with m.Case(Opcode.LOAD):
                m.d.comb += [self.load.eq(1), self.writes.eq(1), self.reads_rs1.eq(1), self.with_immediate.eq(1)]
                with m.If((self.function == 3) | (self.function[1:] == 3)):
                    m.d.comb += self.illegal.eq(1)
            with m.Case(Opcode.STORE):
                m.d.comb += [self.store.eq(1), self.reads_rs1.eq(1), self.reads_rs2.eq(1), self.immediate.eq(store)]
                m.d.comb += self.with_immediate.eq(1)
                with m.If((self.function == 3) | self.function[2]):
                    m.d.comb += self.illegal.eq(1)
            with m.Case(Opcode.OP_IMM):
                m.d.comb += [self.computes.eq(1), self.writes.eq(1), self.reads_rs1.eq(1), self.with_immediate.eq(1)]
                m.d.comb += self.alternate.eq(right & word[30])
                with m.If(shifts & (seventh & Mux(right, 0b1011111, 0b1111111)).any()):
                    m.d.comb += self.illegal.eq(1)
            with m.Case(Opcode.OP):
                m.d.comb += [self.computes.eq(1), self.writes.eq(1), self.reads_rs1.eq(1), self.reads_rs2.eq(1)]
                m.d.comb += self.alternate.eq(word[30])
                with m.If((seventh & Mux(right | (self.function == 0), 0b1011111, 0b1111111)).any()):
                    m.d.comb += self.illegal.eq(1)
            with m.Case(Opcode.MISC_MEM):
                m.d.comb += self.fence_i.eq(self.function == 1)
                with m.If(self.function[1:] != 0):
                    m.d.comb += self.illegal.eq(1)
            with m.Case(Opcode.SYSTEM):
                with m.If(self.function == 0):
                    m.d.comb += [
                        self.ecall.eq(word == System.ECALL),
                        self.ebreak.eq(word == System.EBREAK),
                        self.mret.eq(word == System.MRET),
                    ]
                    with m.If(~(self.ecall | self.ebreak | self.mret | (word == System.WFI))):
                        m.d.comb += self.illegal.eq(1)
                with m.Elif(self.function == 4):
                    m.d.comb += self.illegal.eq(1)
                with m.Else():
                    m.d.comb += [self.csr.eq(1), self.writes.eq(1), self.reads_rs1.eq(~self.function[2])]
            with m.Default():
                m.d.comb += self.illegal.eq(1)
        return m
