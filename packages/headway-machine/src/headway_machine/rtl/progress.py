"""The progress unit of a processor with T hardware threads."""

from __future__ import annotations

from amaranth.hdl import Module
from amaranth.lib.data import ArrayLayout
from amaranth.lib.wiring import Component, In, Out

from .thread import ThreadProgress, block_layout

__all__ = ["CORE_SIGNALS", "ProgressUnit"]

CORE_SIGNALS = {
    "cycle": 1,
    "running": 1,
    "irq_detect": 1,
    "irq_state": 8,
    "irq_return": 1,
    "machine_mode": 1,
    "core_stall": 1,
    "ex_valid": 1,
    "int_ls_stall": 1,
    "ext_ls_stall": 1,
    "range": 6,
    "range_noneffective": 1,
    "range_poll": 1,
    "status_check": 1,
    "status_ready": 1,
    "status_state": 8,
}
"""What the core tells of each thread, with the width in bits. A port has these for all threads, thread 0 lowest."""


class ProgressUnit(Component):
    """Counters for ``threads`` hardware threads, ``width`` bits each, which count ``step`` for each cycle of a thread.

    ``step`` is the number of threads in strict turn, where a thread has a cycle only once a rotation. Software reaches
    the registers of one thread at a time, and one thread at a time is switched to another software thread.
    """

    def __init__(self, threads: int, width: int = 64, step: int = 1, depth_bits: int = 8) -> None:
        if not 1 <= threads <= 8:
            raise ValueError("a processor has 1 to 8 hardware threads")
        self.threads = [ThreadProgress(width, step, depth_bits) for _ in range(threads)]
        """The unit of each thread."""
        block = block_layout(width)
        super().__init__(
            {name: In(ArrayLayout(bits, threads)) for name, bits in CORE_SIGNALS.items()}
            | {
                "register_thread": In(3),
                "register_write": In(1),
                "register_address": In(12),
                "register_data": In(32),
                "register_value": Out(32),
                "switch_thread": In(3),
                "switch": In(1),
                "load": In(block),
                "copy": Out(block),
                "irq_detect_latch": Out(threads),
                "state": Out(ArrayLayout(8, threads)),
                "anew": Out(threads),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Build the module."""
        m = Module()
        for number, thread in enumerate(self.threads):
            m.submodules[f"thread{number}"] = thread
            m.d.comb += [getattr(thread, name).eq(getattr(self, name)[number]) for name in CORE_SIGNALS]
            m.d.comb += [
                thread.address.eq(self.register_address),
                thread.data.eq(self.register_data),
                thread.write.eq(self.register_write & (self.register_thread == number)),
                thread.load.eq(self.load),
                thread.switch.eq(self.switch & (self.switch_thread == number)),
                self.irq_detect_latch[number].eq(thread.irq_detect_latch),
                self.state[number].eq(thread.state),
                self.anew[number].eq(thread.anew),
            ]
            with m.If(self.register_thread == number):
                m.d.comb += self.register_value.eq(thread.read_data)
            with m.If(self.switch_thread == number):
                m.d.comb += self.copy.eq(thread.copy)
        return m
