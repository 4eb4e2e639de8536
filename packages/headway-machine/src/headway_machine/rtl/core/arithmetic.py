"""The arithmetic unit: sums, comparisons, logic and shifts of two words."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib.wiring import Component, In, Out

__all__ = ["Arithmetic"]


class Arithmetic(Component):
    """Computes by the function of an instruction (bits 12 to 14 of its word). It has no registers."""

    def __init__(self) -> None:
        super().__init__(
            {
                "a": In(32),
                "b": In(32),
                "function": In(3),
                # SUB instead of ADD, SRA instead of SRL.
                "alternate": In(1),
                # The function is that of a branch: `less` and `equal` are asked for.
                "branch": In(1),
                # Only add, whatever the function is.
                "add": In(1),
                "result": Out(32),
                "less": Out(1),
                "equal": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Build the module."""
        m = Module()
        a, b, function = self.a, self.b, self.function
        comparing = Signal()
        subtracts = Signal()
        unsigned = Signal()
        total = Signal(33)
        m.d.comb += [
            comparing.eq(~self.add & (self.branch | (function[1:] == 1))),
            subtracts.eq(comparing | (~self.add & self.alternate)),
            unsigned.eq(Mux(self.branch, function[1], function[0])),
        ]
        first = Cat(a, a[31] & ~unsigned)
        second = Cat(b, b[31] & ~unsigned)
        m.d.comb += [
            total.eq(first + (second ^ subtracts.replicate(33)) + subtracts),
            self.less.eq(total[32]),
            self.equal.eq(a == b),
        ]
        left = Signal()
        shifted = Signal(32)
        filling = Signal()
        m.d.comb += [left.eq(~function[2]), filling.eq(self.alternate & a[31])]
        m.d.comb += shifted.eq(Cat(Mux(left, a[::-1], a), filling.replicate(32)) >> b[:5])
        with m.If(self.add):
            m.d.comb += self.result.eq(total)
        with m.Else(), m.Switch(function):
            with m.Case(0):
                m.d.comb += self.result.eq(total)
            with m.Case(1, 5):
                m.d.comb += self.result.eq(Mux(left, shifted[::-1], shifted))
            with m.Case(2, 3):
                m.d.comb += self.result.eq(self.less)
            with m.Case(4):
                m.d.comb += self.result.eq(a ^ b)
            with m.Case(6):
                m.d.comb += self.result.eq(a | b)
            with m.Case(7):
                m.d.comb += self.result.eq(a & b)
        return m
