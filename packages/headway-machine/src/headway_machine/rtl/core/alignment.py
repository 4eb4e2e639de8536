"""The place of bytes and half words in a word of memory: what a store writes, and what a load has read."""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib.wiring import Component, In, Out

__all__ = ["LoadAlignment", "StoreAlignment"]


class StoreAlignment(Component):
    """Makes a word and a mask of its bytes of what a store writes. It has no registers."""

    def __init__(self) -> None:
        super().__init__(
            {
                "size": In(2),
                "low": In(2),
                "data": In(32),
                "word": Out(32),
                "mask": Out(4),
                # The address is no multiple of the size.
                "misaligned": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Build the module."""
        m = Module()
        with m.Switch(self.size):
            with m.Case(0):
                m.d.comb += [self.word.eq(self.data[:8].replicate(4)), self.mask.eq(1 << self.low)]
            with m.Case(1):
                m.d.comb += [self.word.eq(self.data[:16].replicate(2)), self.mask.eq(Mux(self.low[1], 0b1100, 0b0011))]
                m.d.comb += self.misaligned.eq(self.low[0])
            with m.Default():
                m.d.comb += [self.word.eq(self.data), self.mask.eq(0b1111), self.misaligned.eq(self.low != 0)]
        return m


class LoadAlignment(Component):
    """Takes the value of a load out of a word of memory. It has no registers."""

    def __init__(self) -> None:
        super().__init__({"function": In(3), "low": In(2), "word": In(32), "value": Out(32)})

    def elaborate(self, platform: object) -> Module:
        """Build the module."""
        m = Module()
        half, byte = Signal(16), Signal(8)
        signed = ~self.function[2]
        m.d.comb += [half.eq(self.word.word_select(self.low[1], 16)), byte.eq(half.word_select(self.low[0], 8))]
        with m.Switch(self.function[:2]):
            with m.Case(0):
                m.d.comb += self.value.eq(byte | Mux(signed & byte[7], 0xFFFF_FF00, 0))
            with m.Case(1):
                m.d.comb += self.value.eq(half | Mux(signed & half[15], 0xFFFF_0000, 0))
            with m.Default():
                m.d.comb += self.value.eq(self.word)
        return m
