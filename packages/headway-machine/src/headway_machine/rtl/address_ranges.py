"""The state monitor's address ranges: which of them an instruction is in."""

from __future__ import annotations

from amaranth.hdl import Module, Signal
from amaranth.lib.data import ArrayLayout
from amaranth.lib.wiring import Component, In, Out

__all__ = ["RANGES", "AddressRanges"]

RANGES = 63
"""The most ranges that there can be: the states after that of user code (docs/machine.md, section 6)."""


class AddressRanges(Component):
    """Finds the first of ``ranges`` ranges that contains an address. It has no registers.

    Range n, from 1 on, has the addresses from `start` n - 1 up to, but without, `end` n - 1. One that ends where it
    begins contains none.
    """

    def __init__(self, ranges: int) -> None:
        if not 1 <= ranges <= RANGES:
            raise ValueError(f"there are 1 to {RANGES} address ranges")
        self._ranges = ranges
        super().__init__(
            {
                "start": In(ArrayLayout(32, ranges)),
                "end": In(ArrayLayout(32, ranges)),
                "address": In(32),
                # The number of the range; 0: none contains the address.
                "number": Out(6),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Build the module."""
        m = Module()
        contains = Signal(self._ranges)
        m.d.comb += [
            contains[n].eq((self.address >= self.start[n]) & (self.address < self.end[n])) for n in range(self._ranges)
        ]
        for n in reversed(range(self._ranges)):
            with m.If(contains[n]):
                m.d.comb += self.number.eq(n + 1)
        return m
