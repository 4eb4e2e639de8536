"""A core and its devices, with a port for memory: all that a program of the machine's tightly coupled memory needs."""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib.data import ArrayLayout
from amaranth.lib.wiring import Component, Out

from ..names import COUNTERS
from .barrel import BarrelCore
from .devices import Devices

__all__ = ["MEMORY_BITS", "Computer"]

MEMORY_BITS = 20
"""Memory has 2 ** 20 bytes of addresses."""
_HOST = 0x8000_0000
"""Where the machine's RAM begins. Here are only the eight bytes by which a program ends (HTIF)."""
_OF_CORE = (
    *("fetch_address", "fetch_enable", "fetch_word", "data_address", "data_out", "data_word"),
    *("started", "thread", "retired"),
)
"""Ports of the core that are the computer's too."""


class Computer(Component):
    """A core of ``threads`` threads that begins at ``base``, where its memory is.

    The counters of its unit are brought out, for a comparison.
    """

    def __init__(self, threads: int, base: int) -> None:
        self._threads = threads
        self._base = base
        self._core = BarrelCore(threads, reset=base)
        super().__init__(
            {name: self._core.signature.members[name] for name in _OF_CORE}
            | {
                "data_mask": Out(4),
                "sends": Out(1),
                "sent": Out(8),
                "state": Out(ArrayLayout(8, threads)),
                "anew": Out(threads),
                "counters": Out(ArrayLayout(ArrayLayout(64, COUNTERS), threads)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Build the module."""
        m = Module()
        m.submodules.core = core = self._core
        m.submodules.devices = devices = Devices(self._threads)
        for name in _OF_CORE:
            ours, its = getattr(self, name), getattr(core, name)
            m.d.comb += ours.eq(its) if core.signature.members[name].flow is Out else its.eq(ours)
        in_memory = Signal()
        high = self._base >> MEMORY_BITS
        with m.If(core.fetch_enable):
            m.d.sync += core.fetch_fault.eq(core.fetch_address[MEMORY_BITS:] != high)
        m.d.comb += [
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
            self.data_mask.eq(Mux(in_memory, core.data_mask, 0)),
            self.sends.eq(devices.sends),
            self.sent.eq(devices.sent),
        ]
        unit = core.unit
        assert unit is not None
        m.d.comb += [self.state.eq(unit.state), self.anew.eq(unit.anew)]
        m.d.comb += [self.counters[n].eq(thread.bank.counters) for n, thread in enumerate(unit.threads)]
        return m
