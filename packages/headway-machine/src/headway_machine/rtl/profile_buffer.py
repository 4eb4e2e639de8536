"""The profile buffer: records that fill a program's buffer while it is authorised, until that is full.

After "Mechanism to Reduce the Overhead of Hardware Based Profiling" (IP.com, 2015). A full buffer takes no more
records and gives no notice: the program asks how far it is filled, and has to end the authorisation for that.
"""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib.wiring import Component, In, Out

__all__ = ["RECORD", "ProfileBuffer"]

RECORD = 16
"""Bytes of a record: address of the instruction, number of the state, and 64 bits of time."""


class ProfileBuffer(Component):
    """The buffer of one thread. Software writes its registers only while it is not authorised, else it is `refused`.

    Register 0 chooses what is counted: 0 nothing, 1 cycles, 2 instructions, 3 taken branches. 1 is the buffer's base,
    2 its size in bytes, 3 how far it is filled, as of the last end of an authorisation, and 4 the period. With each
    period a record leaves by the port ``record``, to be written at ``record_address``. One leaves in a cycle at most:
    a period of cycles must not be shorter than ``step``.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                # A cycle of the thread ends, and counts so much where cycles are counted.
                "cycle": In(1),
                "step": In(16),
                # What the thread does, and what a record holds.
                "retired": In(1),
                "taken": In(1),
                "pc": In(32),
                "state": In(8),
                "time": In(64),
                # Writes of `hwauth`; that cycle is not recorded.
                "authorise": In(1),
                "deauthorise": In(1),
                # The thread goes on after a halt: a period of cycles begins anew.
                "resumes": In(1),
                # The register that software writes or reads.
                "write": In(1),
                "index": In(3),
                "data": In(32),
                # An illegal instruction: a write while authorised or of a wrong value, or nothing to authorise.
                "refused": Out(1),
                "value": Out(32),
                "authorised": Out(1),
                # A record, to be written there.
                "record_valid": Out(1),
                "record_address": Out(32),
                "record": Out(128),
                # Records that found the buffer full.
                "missed": Out(32),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Build the module."""
        m = Module()
        source, base, size, head, period = Signal(2), Signal(32), Signal(32), Signal(32), Signal(32)
        seen, left, missed, authorised = Signal(32), Signal(33), Signal(32), Signal()
        amount, due, possible = Signal(17), Signal(), Signal()
        m.d.comb += possible.eq((source != 0) & (period != 0))
        wrong = Signal()
        with m.Switch(self.index):
            with m.Case(0):
                m.d.comb += wrong.eq(self.data > 3)
            with m.Case(1):
                m.d.comb += wrong.eq(self.data[:3] != 0)
        m.d.comb += self.refused.eq((self.write & (authorised | wrong)) | (self.authorise & ~possible))
        with m.Switch(source):
            with m.Case(1):
                m.d.comb += amount.eq(self.step)
            with m.Case(2):
                m.d.comb += amount.eq(self.retired)
            with m.Case(3):
                m.d.comb += amount.eq(self.taken)
        # Neither the instruction that authorises is recorded, nor the one that ends it.
        m.d.comb += due.eq(self.cycle & authorised & ~self.deauthorise & (amount != 0) & (left <= amount))
        full = Signal()
        m.d.comb += [
            full.eq(head >= size),
            self.record_valid.eq(due & ~full),
            self.record_address.eq(base + head),
            self.record.eq(Cat(self.pc, self.state, Signal(24), self.time)),
            self.authorised.eq(authorised),
            self.missed.eq(missed),
        ]
        with m.If(self.cycle & authorised & ~self.deauthorise):
            m.d.sync += left.eq(Mux(due, left + period - amount, left - amount))
        with m.If(self.cycle & self.resumes & (source == 1)):
            m.d.sync += left.eq(period)
        with m.If(self.record_valid):
            m.d.sync += head.eq(head + RECORD)
        with m.Elif(due):
            m.d.sync += missed.eq(missed + 1)
        with m.If(self.cycle & self.authorise & possible & ~authorised):
            m.d.sync += authorised.eq(1)
            with m.If(source == 1):
                m.d.sync += left.eq(period)
        with m.If(self.cycle & self.deauthorise):
            m.d.sync += [authorised.eq(0), seen.eq(head)]
        with m.If(self.cycle & self.write & ~self.refused), m.Switch(self.index):
            with m.Case(0):
                m.d.sync += source.eq(self.data)
            with m.Case(1):
                m.d.sync += base.eq(self.data)
            with m.Case(2):
                m.d.sync += size.eq(self.data & ~(RECORD - 1))
            with m.Case(3):
                m.d.sync += [head.eq(self.data & ~(RECORD - 1)), seen.eq(self.data & ~(RECORD - 1))]
            with m.Case(4):
                m.d.sync += [period.eq(self.data), left.eq(self.data)]
        with m.Switch(self.index):
            for index, register in enumerate((source, base, size, seen, period)):
                with m.Case(index):
                    m.d.comb += self.value.eq(register)
        return m
