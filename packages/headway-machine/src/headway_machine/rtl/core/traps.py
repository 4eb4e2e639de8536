"""Control and status registers, and what a trap and its end do to them, for all threads."""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib.wiring import Component, In, Out

from .instructions import Cause, Csr
from .registers import of_each_thread

__all__ = ["Traps"]

_MISA = 0x4010_0100
"""RV32I with user mode."""


class Traps(Component):
    """The registers of ``threads`` threads, of which one is read and changed in a cycle: ``thread``.

    A thread is in machine mode or in user mode, in machine mode after reset.
    """

    def __init__(self, threads: int) -> None:
        self._threads = threads
        super().__init__(
            {
                "thread": In(3),
                "address": In(12),
                "known": Out(1),
                "value": Out(32),
                "write": In(1),
                "data": In(32),
                "trap": In(1),
                "interrupt": In(1),
                "cause": In(4),
                "pc": In(32),
                "tval": In(32),
                "mret": In(1),
                # The timer's interrupt is pending.
                "timer": In(1),
                "ticks": In(64),
                "user": Out(1),
                # The timer's interrupt is pending, enabled, and not held back.
                "interrupted": Out(1),
                "vector": Out(32),
                "epc": Out(32),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Build the module."""
        m = Module()
        chosen = self.write & ~self.trap
        m.d.comb += self.known.eq(1)

        scratch = self._register(m, "mscratch", 32, chosen & (self.address == Csr.MSCRATCH), self.data)
        aligned = Cat(Const(0, 2), self.data[2:])
        vector = self._register(m, "mtvec", 32, chosen & (self.address == Csr.MTVEC), aligned)
        enabled = self._register(m, "mie", 1, chosen & (self.address == Csr.MIE), self.data[7])
        epc = self._register(
            m, "mepc", 32, self.trap | (chosen & (self.address == Csr.MEPC)), Mux(self.trap, self.pc, aligned)
        )
        cause = self._register(
            m,
            "mcause",
            6,
            self.trap | (chosen & (self.address == Csr.MCAUSE)),
            Mux(self.trap, Cat(self.cause, Const(0), self.interrupt), Cat(self.data[:5], self.data[31])),
        )
        tval = self._register(
            m, "mtval", 32, self.trap | (chosen & (self.address == Csr.MTVAL)), Mux(self.trap, self.tval, self.data)
        )

        # Of mstatus: MIE, MPIE, the lower bit of MPP, and whether the thread is in user mode.
        following = Signal(4)
        status = self._register(m, "mstatus", 4, self.trap | self.mret | chosen, following)
        mie, mpie, mpp, user = status
        m.d.comb += following.eq(status)
        with m.If(self.trap):
            m.d.comb += following.eq(Cat(Const(0), mie, ~user, Const(0)))
        with m.Elif(self.mret):
            m.d.comb += following.eq(Cat(mpie, Const(1), Const(0), ~mpp))
        with m.Elif(self.address == Csr.MSTATUS):
            m.d.comb += following.eq(Cat(self.data[3], self.data[7], self.data[11:13].all(), user))

        m.d.comb += [
            self.user.eq(user),
            self.interrupted.eq(self.timer & enabled & (user | mie)),
            self.vector.eq(vector),
            self.epc.eq(epc),
        ]
        values = {
            Csr.MSTATUS: Cat(Const(0, 3), mie, Const(0, 3), mpie, Const(0, 3), mpp, mpp),
            Csr.MISA: Const(_MISA, 32),
            Csr.MIE: Cat(Const(0, Cause.TIMER), enabled),
            Csr.MTVEC: vector,
            Csr.MSCRATCH: scratch,
            Csr.MEPC: epc,
            Csr.MCAUSE: Cat(cause[:5], Const(0, 26), cause[5]),
            Csr.MTVAL: tval,
            Csr.MIP: Cat(Const(0, Cause.TIMER), self.timer),
            Csr.MCYCLE: self.ticks[:32],
            Csr.MCYCLEH: self.ticks[32:],
            Csr.MHARTID: self.thread,
        }
        with m.Switch(self.address):
            for number, value in values.items():
                with m.Case(number):
                    m.d.comb += self.value.eq(value)
            with m.Case(Csr.MVENDORID, Csr.MARCHID, Csr.MIMPID, Csr.MCONFIGPTR):
                pass
            with m.Default():
                m.d.comb += self.known.eq(0)
        return m

    def _register(self, m: Module, name: str, width: int, write: Value, data: Value) -> Signal:
        """Return the value of a register of the thread; it is written at the end of the cycle."""
        thread = self.thread
        return of_each_thread(m, name, width, self._threads, read=thread, write=thread, enable=write, data=data)
