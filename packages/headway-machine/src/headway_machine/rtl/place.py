"""Where a thread is: the address range of its instructions, and the state in which it was outside of traps.

A kernel's instructions are in no range, and from a trap the thread returns to where it was. So how often a state occurs
does not depend on interrupts. Both go with the thread when a kernel switches.
"""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib.data import StructLayout
from amaranth.lib.wiring import Component, In, Out

__all__ = ["PLACE", "Place"]

PLACE = StructLayout({"range": 6, "unused": 2, "outside": 8, "more_unused": 15, "has_run": 1})
"""What a thread's block keeps: its range, its state outside of traps, and whether it has been outside of one."""


class Place(Component):
    """The place of one thread, where there are ``ranges`` address ranges."""

    def __init__(self, ranges: int = 0) -> None:
        self._ranges = ranges
        self.held = Signal(PLACE)
        """What is known of the thread up to this cycle."""
        self.was_inside = Signal()
        """Whether the kernel had it in the cycle before."""
        super().__init__(
            {
                # A cycle of the thread ends with this clock.
                "cycle": In(1),
                "running": In(1),
                # An instruction other than MRET begins in this cycle, in the range `found`.
                "executes": In(1),
                # With `looks_back` the range of the address to which MRET returns.
                "found": In(6),
                # The range of the address at which threads begin after reset.
                "first": In(6),
                # The interrupt detect latch, in this cycle and after the clock.
                "latched": In(1),
                "latched_next": In(1),
                # A trap has the thread, or a kernel in machine mode.
                "inside": In(1),
                "irq_return": In(1),
                # The state of this cycle.
                "state": In(8),
                # Another thread comes, which was in `loaded`.
                "load": In(1),
                "loaded": In(PLACE),
                # The trap of a thread ends that has not been outside of one: it begins with the code that comes now.
                "looks_back": Out(1),
                "range": Out(6),
                # Its value after the clock.
                "range_next": Out(6),
                # What the thread's block keeps, this cycle counted.
                "saved": Out(PLACE),
                # The cycle is the first outside of the kernel.
                "comes_out": Out(1),
                # It is in another state there than before.
                "elsewhere": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Build the module."""
        m = Module()
        place, was_inside = self.held, self.was_inside
        begun, outside = Signal(), Signal()
        m.d.comb += [
            outside.eq(self.running & ~self.inside),
            self.looks_back.eq(~place.has_run & self.inside & ~self.latched_next & (self.irq_return | self.latched)),
            self.comes_out.eq(~self.inside & (was_inside | ~place.has_run)),
            self.elsewhere.eq(~place.has_run | (self.state != place.outside)),
            self.saved.has_run.eq(place.has_run | outside),
        ]
        # Of a thread that has been nowhere, nothing else is kept.
        with m.If(self.saved.has_run):
            m.d.comb += [
                self.saved.range.eq(self.range),
                self.saved.outside.eq(Mux(outside, self.state, place.outside)),
            ]
        if self._ranges:
            self._find_range(m, begun)
        with m.If(self.cycle):
            m.d.sync += was_inside.eq(self.inside)
            with m.If(self.load):
                m.d.sync += [place.outside.eq(self.loaded.outside), place.has_run.eq(self.loaded.has_run)]
            with m.Else():
                m.d.sync += [
                    place.outside.eq(Mux(outside, self.state, place.outside)),
                    place.has_run.eq(self.saved.has_run),
                ]
            with m.If(self.running):
                m.d.sync += begun.eq(1)
        return m

    def _find_range(self, m: Module, begun: Signal) -> None:
        """Keep the range of the last instruction outside of the kernel."""
        place = self.held
        m.d.comb += [self.range.eq(place.range), self.range_next.eq(self.range)]
        with m.If(~self.inside & self.executes):
            m.d.comb += self.range.eq(self.found)
        with m.Elif(~self.inside & ~begun & ~place.has_run):
            m.d.comb += self.range.eq(self.first)
        with m.If(self.load & self.latched):
            m.d.comb += self.range_next.eq(Mux(self.loaded.has_run, self.loaded.range, 0))
        with m.Elif(self.looks_back):
            m.d.comb += self.range_next.eq(self.found)
        with m.If(self.cycle):
            m.d.sync += place.range.eq(self.range_next)
