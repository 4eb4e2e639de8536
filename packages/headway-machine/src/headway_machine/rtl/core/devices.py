"""What a core has beside its memory: a timer, a UART that sends, and a description, as the machine has them."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In, Out

from .barrel import WARM_UP
from .registers import rows

__all__ = ["Devices"]

_COMPARE, _TIME = 0x0200_4000, 0x0200_BFF8
_UART, _DESCRIPTION = 0x1000_0000, 0x1002_0000
_QUEUE = 16
"""Bytes that wait in the UART."""
_CAN_SEND = 121
"""The state of a thread that finds no room in the UART (docs/machine.md, section 6)."""


class Devices(Component):
    """The devices of a core of ``threads`` threads; sending a byte takes ``uart_ticks``. Accesses are of 32 bits.

    At the machine's addresses (docs/machine.md, section 3) are: mtimecmp and mtime of the CLINT, TXDATA and TXSTATUS of
    the UART, and of the description the number of cores and threads, the timer's divider, and the way of issue.
    """

    def __init__(self, threads: int, uart_ticks: int = 200) -> None:
        self._threads = threads
        self._uart_ticks = uart_ticks
        super().__init__(
            {
                "thread": In(3),
                "address": In(32),
                "size": In(2),
                "write": In(1),
                "data": In(32),
                # There is a register at the address.
                "there": Out(1),
                "value": Out(32),
                "status_state": Out(8),
                "status_ready": Out(1),
                "timer": Out(1),
                "ticks": Out(64),
                # A byte is put into the queue of the UART.
                "sends": Out(1),
                "sent": Out(8),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Build the module."""
        m = Module()
        known = Signal()
        write = Signal()
        m.d.comb += [self.there.eq(known & (self.size == 2)), write.eq(self.write & self.there)]
        self._keep_time(m, known, write)
        self._send(m, known, write)
        described = {0: 1, 4: self._threads, 16: 1, 20: 1}
        for offset, value in described.items():
            with m.If(self.address == _DESCRIPTION + offset):
                m.d.comb += [known.eq(~self.write), self.value.eq(value)]
        return m

    def _keep_time(self, m: Module, known: Signal, write: Signal) -> None:
        """Count ticks, in which the first rotation that a thread has whole begins with 0, and compare."""
        threads = self._threads
        ticks = Signal(64, init=(threads - 1 - WARM_UP) % (1 << 64))
        m.d.sync += ticks.eq(ticks + 1)
        at = Signal(32)
        chosen = Signal()
        m.d.comb += [at.eq(self.address - _COMPARE), chosen.eq(at < 8 * threads), self.ticks.eq(ticks)]
        words = []
        for half in range(2):
            memory = Memory(shape=32, depth=rows(threads), init=[0xFFFF_FFFF] * rows(threads))
            m.submodules[f"compare{half}"] = memory
            own, shown = memory.read_port(domain="comb"), memory.read_port(domain="comb")
            port = memory.write_port()
            m.d.comb += [
                own.addr.eq(self.thread),
                shown.addr.eq(at[3:]),
                port.addr.eq(at[3:]),
                port.data.eq(self.data),
                port.en.eq(write & chosen & (at[2] == half)),
            ]
            words.append(own.data)
            with m.If(chosen & (at[2] == half)):
                m.d.comb += [known.eq(1), self.value.eq(shown.data)]
        m.d.comb += self.timer.eq(ticks >= Cat(*words))
        for half in range(2):
            with m.If(self.address == _TIME + 4 * half):
                m.d.comb += [known.eq(~self.write), self.value.eq(ticks.word_select(half, 32))]

    def _send(self, m: Module, known: Signal, write: Signal) -> None:
        """Send what is in the queue, a byte after the other. The bytes themselves leave with `sends`."""
        waiting = Signal(range(_QUEUE + 1))
        left = Signal(range(self._uart_ticks + 1))
        ends = Signal()
        room = Signal()
        m.d.comb += [room.eq(waiting != _QUEUE), ends.eq(left == 1), self.sent.eq(self.data)]
        with m.If(self.address == _UART + 8):
            m.d.comb += [known.eq(self.write), self.sends.eq(write & room)]
        with m.If(self.address == _UART + 12):
            m.d.comb += [
                known.eq(~self.write),
                self.value.eq(room),
                self.status_state.eq(_CAN_SEND),
                self.status_ready.eq(room),
            ]
        following = waiting + self.sends - ends
        m.d.sync += waiting.eq(following)
        with m.If(ends):
            m.d.sync += left.eq(Mux(following != 0, self._uart_ticks, 0))
        with m.Elif(left != 0):
            m.d.sync += left.eq(left - 1)
        with m.Elif(self.sends):
            m.d.sync += left.eq(self._uart_ticks - 1)
