"""The enables of the counters: in which one a cycle of a running thread is counted."""

from __future__ import annotations

from amaranth.hdl import Const, Module, Signal
from amaranth.lib.wiring import Component, In, Out

from .names import COUNTERS, Counter

__all__ = ["CounterEnables"]


class CounterEnables(Component):
    """Chooses one counter, and RPC with it: KPC, then IOPC, then memory, then stalls, then EPC. It has no registers."""

    def __init__(self) -> None:
        super().__init__(
            {
                "running": In(1),
                "kpsw": In(1),
                "iosw": In(1),
                "swne": In(1),
                "hwne": In(1),
                "mphw_internal": In(1),
                "mphw_external": In(1),
                # Stalls are not effective: see `headway_machine.rtl.hardware_determining.HardwareDetermining`.
                "honoured": In(1),
                # Counters that software enables: enable_epc is bit 0, enable_mpc bits 1 and 2, enable_kpc bit 3 …
                "enabled": In(COUNTERS),
                # The counters whose turn it is, enabled or not: one of six, and RPC; none if not running.
                "chosen": Out(COUNTERS),
                # Those of them that are enabled.
                "counts": Out(COUNTERS),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Build the module."""
        m = Module()
        one = Signal(COUNTERS)
        memory = Signal()
        m.d.comb += memory.eq((self.swne | self.honoured) & (self.mphw_internal | self.mphw_external))
        with m.If(self.kpsw):
            m.d.comb += one.eq(1 << Counter.KPC)
        with m.Elif(self.iosw):
            m.d.comb += one.eq(1 << Counter.IOPC)
        with m.Elif(memory & self.mphw_external):
            m.d.comb += one.eq(1 << Counter.MPCX)
        with m.Elif(memory):
            m.d.comb += one.eq(1 << Counter.MPCI)
        with m.Elif(self.swne | self.hwne):
            m.d.comb += one.eq(1 << Counter.SPC)
        with m.Else():
            m.d.comb += one.eq(1 << Counter.EPC)
        with m.If(self.running):
            m.d.comb += self.chosen.eq(one | Const(1 << Counter.RPC, COUNTERS))
        m.d.comb += self.counts.eq(self.chosen & self.enabled)
        return m
