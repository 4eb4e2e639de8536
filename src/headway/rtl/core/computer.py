"""A core and its devices, with a port for memory: all that a program of the machine's tightly coupled memory needs."""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib.data import ArrayLayout
from amaranth.lib.wiring import Component, In, Out

from ..names import COUNTERS
from .barrel import BarrelCore
from .devices import Devices

__all__ = ["MEMORY_BITS", "Computer"]

MEMORY_BITS = 20
"""Memory has 2 ** 20 bytes of addresses."""
_HOST = 0x8000_0000
"""Where the machine's RAM begins. Here are only the eight bytes by which a program ends (HTIF)."""


class Computer(Component):
    """A core of ``threads`` threads that begins at ``base``, where its memory is.

    The counters of its unit are brought out, for a comparison.
    """

    def __init__(self, threads: int, base: int) -> None:
        self._threads = threads
        self._base = base
        super().__init__(
            {
                "fetch_address": Out(32),
                "fetch_enable": Out(1),
                "fetch_word": In(32),
                "data_address": Out(32),
                "data_mask": Out(4),
                "data_out": Out(32),
                "data_word": In(32),
                "sends": Out(1),
                "sent": Out(8),
                "started": Out(1),
                "thread": Out(3),
                "retired": Out(1),
                "state": Out(ArrayLayout(8, threads)),
                "anew": Out(threads),
                "counters": Out(ArrayLayout(ArrayLayout(64, COUNTERS), threads)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Build the module."""
        m = Module()
        m.submodules.core = core = BarrelCore(self._threads, reset=self._base)
        m.submodules.devices = devices = Devices(self._threads)
        in_memory = Signal()
        high = self._base >> MEMORY_BITS
        with m.If(core.fetch_enable):
            m.d.sync += core.fetch_fault.eq(core.fetch_address[MEMORY_BITS:] != high)
        m.d.comb += [
            self.fetch_address.eq(core.fetch_address),
            self.fetch_enable.eq(core.fetch_enable),
            core.fetch_word.eq(self.fetch_word),
            in_memory.eq((core.data_address[MEMORY_BITS:] == high) | (core.data_address[3:] == _HOST >> 3)),
            devices.thread.eq(core.thread),
            devices.address.eq(core.data_address),
            devices.size.eq(core.data_size),
            devices.write.eq(core.data_mask != 0),
            devices.data.eq(core.data_out),
            core.data_fault.eq(~(in_memory | devices.there)),
            core.device.eq(devices.there),
            core.device_value.eq(devices.value),
            core.status_state.eq(devices.status_state),
            core.status_ready.eq(devices.status_ready),
            core.timer.eq(devices.timer),
            core.ticks.eq(devices.ticks),
            core.data_word.eq(self.data_word),
            self.data_address.eq(core.data_address),
            self.data_mask.eq(Mux(in_memory, core.data_mask, 0)),
            self.data_out.eq(core.data_out),
            self.sends.eq(devices.sends),
            self.sent.eq(devices.sent),
            self.started.eq(core.started),
            self.thread.eq(core.thread),
            self.retired.eq(core.retired),
        ]
        unit = core.unit
        assert unit is not None
        m.d.comb += [self.state.eq(unit.state), self.anew.eq(unit.anew)]
        m.d.comb += [self.counters[n].eq(thread.bank.counters) for n, thread in enumerate(unit.threads)]
        return m
