"""The progress unit with all of its counters brought out, which a processor has no use for and a comparison needs."""

from __future__ import annotations

from amaranth.hdl import Module
from amaranth.lib.data import ArrayLayout
from amaranth.lib.wiring import Component, Out

from ..names import COUNTERS
from ..progress import ProgressUnit

__all__ = ["ObservedUnit"]


class ObservedUnit(Component):
    """A `ProgressUnit` and one more port, ``counters``: those of all threads."""

    def __init__(self, threads: int, width: int = 64, step: int = 1, depth_bits: int = 16, ranges: int = 0) -> None:
        self._unit = ProgressUnit(threads, width, step, depth_bits, ranges)
        counters = ArrayLayout(ArrayLayout(width, COUNTERS), threads)
        super().__init__(dict(self._unit.signature.members) | {"counters": Out(counters)})

    def elaborate(self, platform: object) -> Module:
        """Build the module."""
        m = Module()
        m.submodules.unit = unit = self._unit
        for name, member in unit.signature.members.items():
            ours, its = getattr(self, name), getattr(unit, name)
            m.d.comb += ours.eq(its) if member.flow is Out else its.eq(ours)
        m.d.comb += [self.counters[n].eq(thread.bank.counters) for n, thread in enumerate(unit.threads)]
        return m
