"""The registers of all threads: 32 words each, of which two are read and one is written in a cycle."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In, Out

__all__ = ["Registers", "rows"]


def rows(threads: int) -> int:
    """Return the rows of a memory that has one for each thread: a power of two, so that every address has one."""
    return 2 if threads <= 2 else 4 if threads <= 4 else 8


class Registers(Component):
    """The registers x0 to x31 of ``threads`` threads. What is written is read from the next cycle on."""

    def __init__(self, threads: int) -> None:
        self._threads = threads
        super().__init__(
            {
                "thread": In(3),
                "rs1": In(5),
                "rs2": In(5),
                "value1": Out(32),
                "value2": Out(32),
                "write": In(1),
                "write_thread": In(3),
                "rd": In(5),
                "data": In(32),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Build the module."""
        m = Module()
        m.submodules.words = words = Memory(shape=32, depth=32 * rows(self._threads), init=[])
        write = words.write_port()
        m.d.comb += [
            write.addr.eq(Cat(self.rd, self.write_thread)),
            write.data.eq(self.data),
            write.en.eq(self.write & (self.rd != 0)),
        ]
        for number, value in ((self.rs1, self.value1), (self.rs2, self.value2)):
            read = words.read_port(domain="comb")
            m.d.comb += [read.addr.eq(Cat(number, self.thread)), value.eq(Mux(number == 0, 0, read.data))]
        return m
