"""The counters of one thread: counted up, corrected, written by software, copied and loaded at a context switch."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal, signed
from amaranth.lib.data import ArrayLayout
from amaranth.lib.wiring import Component, In, Out

from .names import COUNTERS, Counter

__all__ = ["CounterBank", "scaled_width"]


def scaled_width(hertz: float, seconds: float = 3600.0 * 24) -> int:
    """Return the width in bits of counters that software reads at least every ``seconds`` at a clock of ``hertz``.

    One bit more than the cycles need: the highest bit is the sign of a counter that a correction precedes. A day at
    50 MHz takes 44 bits. Raises ValueError if either is not positive.
    """
    if hertz <= 0 or seconds <= 0:
        raise ValueError("the clock and the time between two readings are more than 0")
    return min(64, int(hertz * seconds).bit_length() + 1)


class CounterBank(Component):
    """The counters of one thread, ``width`` bits each (at most 64), that count ``step`` for a cycle of the thread.

    A counter is kept modulo 2 ** ``width``, as software sees it. A correction may come before the cycles that it
    corrects; EPC is then negative for a while. The indices `epi` and `rpi` show 0 until those cycles have come.
    """

    def __init__(self, width: int = 64, step: int = 1) -> None:
        if not 8 <= width <= 64:
            raise ValueError("counters are 8 to 64 bits wide")
        if not 1 <= step <= 8:
            raise ValueError("a cycle counts 1, or as much as a processor has hardware threads: up to 8")
        self._width = width
        self.step = step
        counters = ArrayLayout(width, COUNTERS)
        super().__init__(
            {
                "cycle": In(1),
                "counts": In(COUNTERS),
                "enabled": In(COUNTERS),
                "correct": In(1),
                "correction": In(32),
                "write": In(1),
                "index": In(3),
                "high": In(1),
                "data": In(32),
                "load": In(1),
                "loaded": In(counters),
                "counters": Out(counters),
                "counted": Out(counters),
                "epi": Out(width),
                "rpi": Out(width),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Build the module."""
        m = Module()
        width = self._width
        values = [Signal(width, name=counter.name.lower()) for counter in Counter]
        for counter, value in zip(Counter, values, strict=True):
            add = Signal(signed(34), name=f"add_{counter.name.lower()}")
            counted = self.counted[counter]
            following = Signal(width, name=f"next_{counter.name.lower()}")
            m.d.comb += [
                self.counters[counter].eq(value),
                add.eq(Mux(self.counts[counter], self.step, 0)),
                counted.eq(value + add),
                following.eq(counted),
            ]
            if counter in (Counter.EPC, Counter.RPC, Counter.OPC):
                amount = self.correction if counter is Counter.OPC else -self.correction
                with m.If(self.correct & self.enabled[counter]):
                    m.d.comb += add.eq(amount + Mux(self.counts[counter], self.step, 0))
            low = min(width, 32)
            with m.If(self.load):
                m.d.comb += following.eq(self.loaded[counter])
            with m.Elif(self.write & (self.index == counter)):
                with m.If(~self.high):
                    m.d.comb += following.eq(Cat(self.data[:low], counted[low:]))
                if width > 32:
                    with m.Else():
                        m.d.comb += following.eq(Cat(counted[:32], self.data[: width - 32]))
            with m.If(self.cycle):
                m.d.sync += value.eq(following)
        for index, value in ((self.epi, values[Counter.EPC]), (self.rpi, values[Counter.RPC])):
            m.d.comb += index.eq(Mux(value[-1], 0, value))
        return m
