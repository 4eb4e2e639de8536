"""The progress unit of a processor with T hardware threads."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux
from amaranth.lib.data import ArrayLayout
from amaranth.lib.wiring import Component, In, Out

from .address_ranges import AddressRanges
from .thread import ThreadProgress, block_layout

__all__ = ["CORE_SIGNALS", "ProgressUnit"]

CORE_SIGNALS = {
    # A cycle of the thread ends with this clock; in strict turn once a rotation. The others count only where it is set.
    "cycle": 1,
    # Neither halted nor stopped.
    "running": 1,
    # A trap is taken in this cycle; its state.
    "irq_detect": 1,
    "irq_state": 8,
    # MRET.
    "irq_return": 1,
    "machine_mode": 1,
    # A register is not usable yet, or another thread has the slot.
    "core_stall": 1,
    # 0: the pipeline is being filled again.
    "ex_valid": 1,
    # It waits for memory inside, outside.
    "int_ls_stall": 1,
    "ext_ls_stall": 1,
    # An instruction other than MRET begins, at `pc`; of one thread at a time.
    "executes": 1,
    # A load from a status register; what it finds; the register's state.
    "status_check": 1,
    "status_ready": 1,
    "status_state": 8,
}
"""What the core tells of each thread, with the width in bits. A port has these for all threads, thread 0 lowest."""


_GAP = 2000
"""Cycles without a fruitless status check after which a thread has given up polling, as the machine has it."""


class ProgressUnit(Component):
    """Counters for ``threads`` hardware threads, ``width`` bits each, which count ``step`` for each cycle of a thread.

    ``step`` is the number of threads in strict turn, where a thread has a cycle only once a rotation. Software reaches
    the registers of one thread at a time, and one thread at a time is switched to another software thread. Only one
    begins an instruction at a time, so all share the comparators of the ``ranges`` address ranges, 0 to 63.
    """

    def __init__(self, threads: int, width: int = 64, step: int = 1, depth_bits: int = 8, ranges: int = 0) -> None:
        if not 1 <= threads <= 8:
            raise ValueError("a processor has 1 to 8 hardware threads")
        self.threads = [ThreadProgress(width, step, depth_bits, ranges) for _ in range(threads)]
        """The unit of each thread."""
        self._ranges = ranges
        block = block_layout(width)
        configured = {
            # From where up to where, without that; the kind.
            "range_start": In(ArrayLayout(32, ranges)),
            "range_end": In(ArrayLayout(32, ranges)),
            "range_noneffective": In(ranges),
            "range_poll": In(ranges),
            # Where threads begin; the address of the instruction; `mepc` when a trap ends.
            "entry": In(32),
            "pc": In(32),
            "return_pc": In(32),
        }
        super().__init__(
            {name: In(ArrayLayout(bits, threads)) for name, bits in CORE_SIGNALS.items()}
            | (configured if ranges else {})
            | {
                # hwgap until software writes it.
                "reset_gap": In(16, init=_GAP),
                # The register that software reaches, by its number: `hwctl`, `hwlatch`, … `hwpoll`, counters.
                "register_thread": In(3),
                # A write counts from the next cycle on; the value is that before this cycle.
                "register_write": In(1),
                "register_address": In(12),
                "register_data": In(32),
                "register_value": Out(32),
                # Another software thread comes with the next cycle: what is loaded, and what is stored of the one that
                # leaves, this cycle counted.
                "switch_thread": In(3),
                "switch": In(1),
                "load": In(block),
                "copy": Out(block),
                "irq_detect_latch": Out(threads),
                # The number of the state, and whether it is entered, not returned to.
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
                thread.reset_gap.eq(self.reset_gap),
                self.irq_detect_latch[number].eq(thread.irq_detect_latch),
                self.state[number].eq(thread.state),
                self.anew[number].eq(thread.anew),
            ]
            with m.If(self.register_thread == number):
                m.d.comb += self.register_value.eq(thread.read_data)
            with m.If(self.switch_thread == number):
                m.d.comb += self.copy.eq(thread.copy)
        if self._ranges:
            self._find_ranges(m)
        return m

    def _find_ranges(self, m: Module) -> None:
        """Find the range of the instruction that begins, and of the address at which threads begin."""
        m.submodules.executed = executed = AddressRanges(self._ranges)
        m.submodules.first = first = AddressRanges(self._ranges)
        looks_back = Cat(thread.looks_back for thread in self.threads).any()
        m.d.comb += [executed.address.eq(Mux(looks_back, self.return_pc, self.pc)), first.address.eq(self.entry)]
        for finder in (executed, first):
            m.d.comb += [finder.start.eq(self.range_start), finder.end.eq(self.range_end)]
        for thread in self.threads:
            m.d.comb += [
                thread.found.eq(executed.number),
                thread.first.eq(first.number),
                thread.noneffective.eq(self.range_noneffective),
                thread.polling.eq(self.range_poll),
            ]
