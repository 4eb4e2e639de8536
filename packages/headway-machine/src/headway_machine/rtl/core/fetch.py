"""Fetching: the program counters of all threads, and the two cycles in which an instruction comes from memory."""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib.wiring import Component, In, Out

from .registers import of_each_thread

__all__ = ["Fetch"]


class Fetch(Component):
    """Brings the instruction of a thread two cycles after its address.

    With three threads and more, the thread has executed its instruction before the address of the next is needed. With
    one or two, the address is taken to be that of the instruction behind; `redirect` drops what was fetched so.
    """

    def __init__(self, threads: int, reset: int) -> None:
        self._threads = threads
        self._reset = reset
        super().__init__(
            {
                # The thread whose instruction is executed, and that whose address is sent.
                "thread": In(3),
                "ahead": In(3),
                # The instruction is not done in this cycle: keep it.
                "hold": In(1),
                "done": In(1),
                "next_pc": In(32),
                "redirect": In(1),
                "address": Out(32),
                "enable": Out(1),
                "word": In(32),
                "fault": In(1),
                "valid": Out(1),
                "pc": Out(32),
                "instruction": Out(32),
                "faulty": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Build the module."""
        m = Module()
        threads = self._threads
        coming_valid, coming_pc = Signal(), Signal(32)
        address = of_each_thread(
            m,
            "counters",
            32,
            threads,
            read=self.ahead,
            write=self.thread,
            enable=self.done,
            data=self.next_pc,
            init=self._reset,
        )
        m.d.comb += [self.enable.eq(~self.hold), self.address.eq(address)]
        if threads == 1:
            with m.If(coming_valid | self.valid):
                m.d.comb += self.address.eq(Mux(coming_valid, coming_pc, self.pc) + 4)
        elif threads == 2:
            with m.If(self.valid):
                m.d.comb += self.address.eq(self.pc + 4)
        with m.If(~self.hold):
            m.d.sync += [
                coming_valid.eq(~self.redirect if threads <= 2 else 1),
                coming_pc.eq(self.address),
                self.valid.eq(coming_valid & ~self.redirect if threads == 1 else coming_valid),
                self.pc.eq(coming_pc),
                self.instruction.eq(self.word),
                self.faulty.eq(self.fault),
            ]
        return m
