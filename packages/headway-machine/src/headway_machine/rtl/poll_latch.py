"""The poll latches: set by a status check that finds nothing ready, cleared by the first that finds something.

A thread has one for each name of status registers. It may also give up: it makes a system call, it runs for a while
without such a check, or it leaves a device out of a round of its checks (docs/machine.md, section 4).
"""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib.data import StructLayout
from amaranth.lib.wiring import Component, In, Out

from .names import State

__all__ = ["DEVICES", "POLLS", "PollLatches"]

DEVICES = 8
"""States from `State.POLL_LATCH` on that a latch can stand for, `State.MARKED` among them, which none does."""
POLLS = StructLayout({"latches": DEVICES, "asked": DEVICES, "left": 16})
"""What a thread's block keeps: the latches, those asked in vain in this round, cycles until it has given up."""


class PollLatches(Component):
    """The poll latches of one thread, whose cycles count ``step`` each."""

    def __init__(self, step: int = 1) -> None:
        self._step = step
        self.held = Signal(POLLS)
        """The latches, and what is left until the thread has given up, as of the beginning of this cycle."""
        super().__init__(
            {
                # A cycle of the thread ends with this clock.
                "cycle": In(1),
                "running": In(1),
                # The thread loads from a status register in this cycle.
                "status_check": In(1),
                # What it loads says ready.
                "status_ready": In(1),
                # The state of a thread that finds this register not ready.
                "status_state": In(8),
                # A driver in the kernel does not poll for the thread.
                "irq_detect_latch": In(1),
                # The thread makes a system call.
                "call": In(1),
                # Software keeps the latches `kept` in this cycle, and clears the others.
                "clear": In(1),
                "kept": In(DEVICES),
                # Cycles without a fruitless check after which the thread has given up; 0: it never does.
                "gap": In(16),
                # Software writes the gap.
                "restart": In(1),
                "new_gap": In(16),
                # Another thread comes, with `loaded` in its latches.
                "load": In(1),
                "loaded": In(POLLS),
                # What the thread's block keeps, this cycle counted.
                "saved": Out(POLLS),
                "latches": Out(DEVICES),
                # The state of the lowest latch that is set; 0: none is.
                "polled": Out(8),
                # Its value after the clock.
                "polled_next": Out(8),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Build the module."""
        m = Module()
        now, following = self.held, Signal(POLLS)
        m.d.comb += self.latches.eq(now.latches)
        self._count(m)
        self._follow(m, following)
        for latches, polled in ((now.latches, self.polled), (following.latches, self.polled_next)):
            for n in reversed(range(DEVICES)):
                with m.If(latches[n]):
                    m.d.comb += polled.eq(State.POLL_LATCH + n)
        with m.If(self.cycle):
            m.d.sync += now.latches.eq(following.latches)
            m.d.sync += now.asked.eq(following.asked & following.latches)
            # Without a latch there is nothing to give up.
            m.d.sync += now.left.eq(Mux(following.latches != 0, following.left, 0))
        return m

    def _count(self, m: Module) -> None:
        """Count this cycle, if it is the thread's own. With the last one it has given up."""
        now, counting = self.held, Signal()
        m.d.comb += [
            counting.eq(self.running & ~self.irq_detect_latch & (now.latches != 0) & (self.gap != 0)),
            self.saved.eq(now),
        ]
        with m.If(counting & (now.left <= self._step)):
            m.d.comb += self.saved.eq(0)
        with m.Elif(counting):
            m.d.comb += self.saved.left.eq(now.left - self._step)

    def _follow(self, m: Module, following: Signal) -> None:
        """Set what the latches are after the clock."""
        saved = self.saved
        device, again = Signal(DEVICES), Signal()
        m.d.comb += [
            device.eq(1 << self.status_state[:3]),
            again.eq((saved.asked & device) != 0),
            following.eq(saved),
        ]
        with m.If(self.load):
            m.d.comb += following.eq(self.loaded)
        with m.Elif(self.call):
            m.d.comb += following.latches.eq(0)
        with m.Elif(self.clear):
            m.d.comb += following.latches.eq(saved.latches & self.kept)
        with m.Elif(self.restart):
            m.d.comb += following.left.eq(self.new_gap)
        with m.Elif(self.status_check & ~self.irq_detect_latch):
            with m.If(self.status_ready):
                m.d.comb += following.latches.eq(saved.latches & ~device)
            with m.Else():
                # A device that is asked again begins a round, and ends what the round before has left out.
                m.d.comb += [
                    following.latches.eq(Mux(again, saved.asked, saved.latches) | device),
                    following.asked.eq(Mux(again, 0, saved.asked) | device),
                    following.left.eq(self.gap),
                ]
