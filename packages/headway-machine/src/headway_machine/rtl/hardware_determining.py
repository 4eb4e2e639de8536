"""The determining unit for hardware: what the pipeline's signals mean for progress, at the level of instructions."""

from __future__ import annotations

from amaranth.hdl import Module
from amaranth.lib.wiring import Component, In, Out

__all__ = ["HardwareDetermining"]


class HardwareDetermining(Component):
    """Makes HWNE and MPHW of the core's signals. It has no registers."""

    def __init__(self) -> None:
        super().__init__(
            {
                # Nothing is executed: a register is not usable yet, or another thread has the slot.
                "core_stall": In(1),
                # 0: the pipeline is being filled again, after a branch or an interrupt.
                "ex_valid": In(1),
                # The thread waits for memory inside: second-level cache, upgrade of a line, micro-TLB.
                "int_ls_stall": In(1),
                # The thread waits for external memory.
                "ext_ls_stall": In(1),
                # The control register's HWNE: stalls are not effective.
                "honoured": In(1),
                "mphw_internal": Out(1),
                "mphw_external": Out(1),
                # The cycle is not effective, for a reason in hardware; memory is one.
                "hwne": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Build the module."""
        m = Module()
        m.d.comb += [
            self.mphw_external.eq(self.ext_ls_stall),
            self.mphw_internal.eq(self.int_ls_stall & ~self.ext_ls_stall),
            self.hwne.eq(self.honoured & (self.core_stall | ~self.ex_valid | self.int_ls_stall | self.ext_ls_stall)),
        ]
        return m
