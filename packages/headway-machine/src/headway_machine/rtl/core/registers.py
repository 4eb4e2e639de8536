"""The registers of all threads: 32 words each, of which two are read and one is written in a cycle."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In, Out

__all__ = ["Registers", "of_each_thread", "rows"]


def rows(threads: int) -> int:
    """Return the rows of a memory that has one for each thread: a power of two, so that every address has one."""
    return 2 if threads <= 2 else 4 if threads <= 4 else 8


def of_each_thread(
    m: Module,
    name: str,
    width: int,
    threads: int,
    *,
    read: Value,
    write: Value,
    enable: Value,
    data: Value,
    init: int = 0,
) -> Signal:
    """Add a register that each thread has, and return its value for the thread ``read``.

    That of the thread ``write`` becomes ``data`` at the end of a cycle with ``enable``. It is a memory with a row for
    each thread, and for one thread a register.
    """
    if threads == 1:
        value = Signal(width, name=name, init=init)
        with m.If(enable):
            m.d.sync += value.eq(data)
        return value
    words = Memory(shape=width, depth=rows(threads), init=[init] * rows(threads))
    m.submodules[name] = words
    out, into = words.read_port(domain="comb"), words.write_port()
    m.d.comb += [out.addr.eq(read), into.addr.eq(write), into.data.eq(data), into.en.eq(enable)]
    return out.data


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
