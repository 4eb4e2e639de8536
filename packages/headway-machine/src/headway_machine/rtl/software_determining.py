"""The determining unit for software: which code the thread is in, kernel, marked region, polling, or its own."""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib.wiring import Component, In, Out

from .names import Control, Mark, State

__all__ = ["SoftwareDetermining"]


def _at_most(tag: Value, most: int) -> Value:
    return Mux(tag > most, most, tag)


class SoftwareDetermining(Component):
    """Makes the signals of software and the number of the state. The first reason that applies wins. No registers."""

    def __init__(self) -> None:
        super().__init__(
            {
                "control": In(13),
                "marks": In(16),
                "irq_detect_latch": In(1),
                "irq_state": In(8),
                "polled": In(8),
                "machine_mode": In(1),
                # The number of the address range that the instruction is in; 0: none.
                "range": In(6),
                "range_noneffective": In(1),
                "range_poll": In(1),
                # KPC counts.
                "kpsw": Out(1),
                # IOPC counts.
                "iosw": Out(1),
                # The cycle is not effective, for a reason in software.
                "swne": Out(1),
                "state": Out(8),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Build the module."""
        m = Module()
        tag = Signal(8)
        m.d.comb += [tag.eq(self.marks[8:]), self.swne.eq(1)]
        with m.If(self.irq_detect_latch):
            m.d.comb += [self.kpsw.eq(1), self.state.eq(self.irq_state)]
        with m.Elif(self.machine_mode & self.control[Control.MK]):
            m.d.comb += [self.kpsw.eq(1), self.state.eq(State.MACHINE_MODE)]
        with m.Elif(self.marks[Mark.KPSW]):
            m.d.comb += [self.kpsw.eq(1), self.state.eq(State.NONEFFECTIVE + _at_most(tag, 31))]
        with m.Elif(self.marks[Mark.IOSW]):
            m.d.comb += [self.iosw.eq(1), self.state.eq(State.POLL + _at_most(tag, 23))]
        with m.Elif(self.range_noneffective):
            m.d.comb += [self.kpsw.eq(1), self.state.eq(self.range)]
        with m.Elif((self.polled != 0) & self.control[Control.POLL]):
            m.d.comb += [self.iosw.eq(1), self.state.eq(self.polled)]
        with m.Elif(self.range_poll):
            m.d.comb += [self.iosw.eq(1), self.state.eq(self.range)]
        with m.Elif(self.marks[Mark.SWNE] & self.control[Control.SWNE]):
            m.d.comb += self.state.eq(State.MARKED)
        with m.Else():
            m.d.comb += [self.swne.eq(0), self.state.eq(self.range)]
        return m
