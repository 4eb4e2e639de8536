"""The interrupt detect latch: set by an interrupt or trap, and kept until its end, however deeply traps nest."""

from __future__ import annotations

from amaranth.hdl import Array, Module, Mux, Signal
from amaranth.lib.wiring import Component, In, Out

__all__ = ["REMEMBERED", "InterruptLatch"]

REMEMBERED = 8
"""The number of nested traps whose states are remembered."""


class InterruptLatch(Component):
    """The latch of one thread.

    `irq_detect_latch` includes an interrupt that is detected in this cycle; `latched_next` is its value after the
    clock, which the correction needs. ``depth_bits`` is the width of the count of nested traps, which stays at its
    greatest value where more nest.
    """

    def __init__(self, depth_bits: int = 8) -> None:
        super().__init__(
            {
                # A cycle of the thread ends with this clock.
                "cycle": In(1),
                # A trap is taken in this cycle.
                "irq_detect": In(1),
                # The state of the trap.
                "irq_state": In(8),
                # The thread executes MRET in this cycle.
                "irq_return": In(1),
                # Software clears the latch in this cycle.
                "clear": In(1),
                # Only software ends a trap, one at a time.
                "hl": In(1),
                "irq_detect_latch": Out(1),
                "latched_next": Out(1),
                "state_next": Out(8),
                # The state of the innermost trap.
                "state": Out(8),
            }
        )
        self._bits = depth_bits

    def elaborate(self, platform: object) -> Module:
        """Build the module."""
        m = Module()
        depth = Signal(self._bits)
        entered = Signal(self._bits)
        left = Signal(self._bits)
        states = Array(Signal(8, name=f"state{n}") for n in range(REMEMBERED))
        m.d.comb += [
            entered.eq(depth + (self.irq_detect & ~depth.all())),
            left.eq(entered),
            self.irq_detect_latch.eq(entered != 0),
            self.latched_next.eq(left != 0),
            self.state_next.eq(Mux(self.irq_detect, self.irq_state, states[(left - 1)[:3]])),
            self.state.eq(Mux(self.irq_detect, self.irq_state, states[(depth - 1)[:3]])),
        ]
        with m.If(self.clear & (entered != 0)):
            m.d.comb += left.eq(Mux(self.hl, entered - 1, 0))
        with m.Elif(self.irq_return & ~self.hl & (entered != 0)):
            m.d.comb += left.eq(entered - 1)
        with m.If(self.cycle):
            m.d.sync += depth.eq(left)
            with m.If(self.irq_detect):
                m.d.sync += states[depth[:3]].eq(self.irq_state)
        return m
