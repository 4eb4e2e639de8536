"""The poll latch: set by a status check that finds nothing ready, cleared by the first that finds something."""

from __future__ import annotations

from amaranth.hdl import Module, Signal
from amaranth.lib.wiring import Component, In, Out

__all__ = ["PollLatch"]


class PollLatch(Component):
    """The poll latch of one thread: 0, or the number of the state that a status register stands for."""

    def __init__(self) -> None:
        super().__init__(
            {
                # A cycle of the thread ends with this clock.
                "cycle": In(1),
                # The thread loads from a status register in this cycle.
                "status_check": In(1),
                # What it loads says ready.
                "status_ready": In(1),
                # The state of a thread that finds this register not ready.
                "status_state": In(8),
                # A driver in the kernel does not poll for the thread.
                "irq_detect_latch": In(1),
                # Software clears the latch in this cycle.
                "clear": In(1),
                # Another thread comes, with `loaded` in its latch.
                "load": In(1),
                "loaded": In(8),
                "polled": Out(8),
                # Its value after the clock.
                "polled_next": Out(8),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Build the module."""
        m = Module()
        polled = Signal(8)
        m.d.comb += [self.polled.eq(polled), self.polled_next.eq(polled)]
        with m.If(self.load):
            m.d.comb += self.polled_next.eq(self.loaded)
        with m.Elif(self.clear):
            m.d.comb += self.polled_next.eq(0)
        with m.Elif(self.status_check & ~self.irq_detect_latch):
            m.d.comb += self.polled_next.eq(0)
            with m.If(~self.status_ready):
                m.d.comb += self.polled_next.eq(self.status_state)
        with m.If(self.cycle):
            m.d.sync += polled.eq(self.polled_next)
        return m
