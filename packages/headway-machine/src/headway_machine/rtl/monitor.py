"""The state monitor: how often each state occurred, for how many cycles, with how many instructions.

After "Internal Processor State Performance Monitoring" (IBM, 1992): hardware counters measure the state that runs. When
it changes they are read and reset, and their values added to what has gathered for that state in memory.
"""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In, Out

__all__ = ["StateMonitor"]


class StateMonitor(Component):
    """The monitor of one thread, for states 0 to ``states`` - 1, with sums of ``width`` bits.

    A program reads the sums of a state, with what the state that runs has counted so far. States beyond the last share
    its row. All sums begin at 0 and are never cleared: a program takes differences.
    """

    def __init__(self, states: int = 256, width: int = 64, step: int = 1) -> None:
        if not 2 <= states <= 256:
            raise ValueError("a monitor has 2 to 256 states")
        if not 1 <= width <= 64 or not 1 <= step <= 8:
            raise ValueError("counters are 1 to 64 bits wide, and a cycle counts 1 to 8")
        self._states = states
        self._width = width
        self.step = step
        super().__init__(
            {
                # As the progress unit has them; idle states come of the core.
                "cycle": In(1),
                "state": In(8),
                "anew": In(1),
                # An instruction is retired in this cycle.
                "retired": In(1),
                # The row that a program reads.
                "read_state": In(8),
                # The state of the last cycle.
                "state_register": Out(8),
                # The row's sums.
                "occurrences": Out(width),
                "cycles": Out(width),
                "instructions": Out(width),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Build the module."""
        m = Module()
        width, last = self._width, self._states - 1
        running, state, reading = Signal(8), Signal(8), Signal(8)
        m.d.comb += [
            state.eq(Mux(self.state > last, last, self.state)),
            reading.eq(Mux(self.read_state > last, last, self.read_state)),
            self.state_register.eq(running),
        ]
        changes = Signal()
        m.d.comb += changes.eq(self.cycle & ((state != running) | self.anew))
        parts = (("occurrences", self.anew, 1), ("cycles", 1, self.step), ("instructions", self.retired, 1))
        for name, counts, amount in parts:
            live = Signal(width, name=f"live_{name}")
            more = Mux(counts, amount, 0)
            sums = Memory(shape=width, depth=self._states, init=[])
            m.submodules[f"{name}_of_states"] = sums
            write = sums.write_port()
            old, shown = sums.read_port(domain="comb"), sums.read_port(domain="comb")
            # What the state that ends has gathered is added to its row; the cycle that ends is the next state's first.
            m.d.comb += [
                old.addr.eq(running),
                shown.addr.eq(reading),
                write.addr.eq(running),
                write.data.eq(old.data + live),
                write.en.eq(changes),
                getattr(self, name).eq(shown.data + Mux(reading == running, live, 0)),
            ]
            with m.If(changes):
                m.d.sync += live.eq(more)
            with m.Elif(self.cycle):
                m.d.sync += live.eq(live + more)
        with m.If(self.cycle):
            m.d.sync += running.eq(state)
        return m
