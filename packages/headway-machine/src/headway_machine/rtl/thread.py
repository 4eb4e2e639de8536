"""The progress unit of one thread: latches, determining units, enables and counters put together."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib.data import ArrayLayout, StructLayout
from amaranth.lib.wiring import Component, In, Out

from .counters import CounterBank
from .enables import CounterEnables
from .hardware_determining import HardwareDetermining
from .interrupt_latch import InterruptLatch
from .names import COUNTERS, Control, Mark, Register
from .poll_latch import PollLatch
from .software_determining import SoftwareDetermining

__all__ = ["ThreadProgress", "block_layout"]

_CONTROL_RESET = 0x7FF
_MARKS_WRITABLE = 0xFF07


def block_layout(width: int) -> StructLayout:
    """Return what of a thread the copying unit stores and the loading unit loads (docs/machine.md, section 5)."""
    return StructLayout({"counters": ArrayLayout(width, COUNTERS), "marks": 32, "polled": 8})


class ThreadProgress(Component):
    """Counts one hardware thread. All inputs are of the thread's cycle that ends with this clock, if `cycle` is set."""

    def __init__(self, width: int = 64, step: int = 1, depth_bits: int = 8) -> None:
        self._width = width
        self._latch = InterruptLatch(depth_bits)
        self.bank = CounterBank(width, step)
        """The counters."""
        self.enables = CounterEnables()
        """Which of them counts."""
        self.control = Signal(13, init=_CONTROL_RESET)
        """The control register."""
        super().__init__(
            {
                "cycle": In(1),
                "running": In(1),
                "irq_detect": In(1),
                "irq_state": In(8),
                "irq_return": In(1),
                "machine_mode": In(1),
                "core_stall": In(1),
                "ex_valid": In(1),
                "int_ls_stall": In(1),
                "ext_ls_stall": In(1),
                "range": In(6),
                "range_noneffective": In(1),
                "range_poll": In(1),
                "status_check": In(1),
                "status_ready": In(1),
                "status_state": In(8),
                "write": In(1),
                "address": In(12),
                "data": In(32),
                "read_data": Out(32),
                "switch": In(1),
                "load": In(block_layout(width)),
                "copy": Out(block_layout(width)),
                "irq_detect_latch": Out(1),
                "state": Out(8),
                "anew": Out(1),
                "epi": Out(width),
                "rpi": Out(width),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Build the module."""
        m = Module()
        m.submodules.latch = latch = self._latch
        m.submodules.poll = poll = PollLatch()
        m.submodules.hardware = hardware = HardwareDetermining()
        m.submodules.software = software = SoftwareDetermining()
        m.submodules.following = following = SoftwareDetermining()
        m.submodules.enables = enables = self.enables
        m.submodules.bank = bank = self.bank
        control = self.control
        correction = Signal(32)
        marks = Signal(16)
        marks_next = Signal(16)
        cleared = Signal(16)
        control_next = Signal(13)
        counter = Signal()
        ends = Signal()

        m.d.comb += [
            latch.cycle.eq(self.cycle),
            latch.irq_detect.eq(self.irq_detect),
            latch.irq_state.eq(self.irq_state),
            latch.irq_return.eq(self.irq_return),
            latch.hl.eq(control[Control.HL]),
            poll.cycle.eq(self.cycle),
            poll.status_check.eq(self.status_check),
            poll.status_ready.eq(self.status_ready),
            poll.status_state.eq(self.status_state),
            poll.irq_detect_latch.eq(latch.irq_detect_latch),
            poll.load.eq(self.switch),
            poll.loaded.eq(self.load.polled),
            hardware.core_stall.eq(self.core_stall),
            hardware.ex_valid.eq(self.ex_valid),
            hardware.int_ls_stall.eq(self.int_ls_stall),
            hardware.ext_ls_stall.eq(self.ext_ls_stall),
            hardware.honoured.eq(control[Control.HWNE]),
            software.control.eq(control),
            software.marks.eq(marks),
            software.irq_detect_latch.eq(latch.irq_detect_latch),
            software.irq_state.eq(latch.state),
            software.polled.eq(poll.polled),
            following.control.eq(control_next),
            following.marks.eq(marks_next),
            following.irq_detect_latch.eq(latch.latched_next),
            following.irq_state.eq(latch.state_next),
            following.polled.eq(poll.polled_next),
            enables.running.eq(self.running),
            enables.honoured.eq(control[Control.HWNE]),
            enables.enabled.eq(control[:8]),
            bank.cycle.eq(self.cycle),
            bank.counts.eq(enables.counts),
            bank.enabled.eq(control[:8]),
            bank.correction.eq(correction),
            bank.data.eq(self.data),
            bank.load.eq(self.switch),
            bank.loaded.eq(self.load.counters),
            self.copy.counters.eq(bank.counted),
            self.copy.marks.eq(marks),
            self.copy.polled.eq(poll.polled),
            self.irq_detect_latch.eq(latch.irq_detect_latch),
            self.state.eq(software.state),
            self.epi.eq(bank.epi),
            self.rpi.eq(bank.rpi),
        ]
        for unit in (software, following):
            m.d.comb += [
                unit.machine_mode.eq(self.machine_mode),
                unit.range.eq(self.range),
                unit.range_noneffective.eq(self.range_noneffective),
                unit.range_poll.eq(self.range_poll),
            ]
        for name in ("kpsw", "iosw", "swne"):
            m.d.comb += getattr(enables, name).eq(getattr(software, name))
        for name in ("hwne", "mphw_internal", "mphw_external"):
            m.d.comb += getattr(enables, name).eq(getattr(hardware, name))

        m.d.comb += [marks_next.eq(marks), control_next.eq(control)]
        low, high = self._is(Register.LOW), self._is(Register.HIGH)
        m.d.comb += [counter.eq(low | high), bank.high.eq(high), bank.index.eq(self.address[:3])]
        with m.If(self.switch):
            m.d.comb += marks_next.eq(self.load.marks[:16])
        with m.Elif(self.write):
            m.d.comb += bank.write.eq(counter)
            with m.Switch(self.address):
                with m.Case(Register.CONTROL):
                    m.d.comb += control_next.eq(self.data[:13])
                with m.Case(Register.LATCH):
                    m.d.comb += [latch.clear.eq(~self.data[0]), poll.clear.eq(~self.data[1])]
                    m.d.comb += ends.eq(latch.irq_detect_latch & ~latch.latched_next)
                with m.Case(Register.CORRECTION), m.If(self.cycle):
                    m.d.sync += correction.eq(self.data)
                with m.Case(Register.MARKS):
                    m.d.comb += marks_next.eq(self.data[:16] & _MARKS_WRITABLE)
                    m.d.comb += cleared.eq(marks & ~marks_next)
                    m.d.comb += ends.eq(cleared[Mark.SWNE] | cleared[Mark.KPSW])
        with m.If(self.cycle):
            m.d.sync += [marks.eq(marks_next), control.eq(control_next)]
        # A correction belongs to the state that follows: it is taken from the effective time of the code that goes on.
        m.d.comb += bank.correct.eq(ends & ~following.swne)
        self._count_entries(m, cleared, following.state)
        self._read(m, control, correction, marks, poll)
        return m

    def _is(self, base: Register) -> Signal:
        return self.address[3:] == base >> 3

    def _count_entries(self, m: Module, cleared: Signal, state_next: Signal) -> None:
        """Tell whether a state that differs from the cycle before is entered anew, or returned to."""
        returned = Signal()
        was = Signal(8)
        back = Signal()
        m.d.comb += back.eq(
            self.switch
            | self.write & (self.address == Register.LATCH)
            | self.write & (self.address == Register.MARKS) & (cleared[Mark.SWNE] | cleared[Mark.KPSW])
        )
        with m.If(self.cycle):
            # After MRET the range is that of the code that goes on, which the core tells with its first cycle.
            m.d.sync += [returned.eq(self.irq_return), was.eq(Mux(back, state_next, self.state))]
        m.d.comb += self.anew.eq(self.irq_detect | ((self.state != was) & ~returned))

    def _read(self, m: Module, control: Signal, correction: Signal, marks: Signal, poll: PollLatch) -> None:
        values = self.bank.counters
        with m.Switch(self.address):
            with m.Case(Register.CONTROL):
                m.d.comb += self.read_data.eq(control)
            with m.Case(Register.LATCH):
                m.d.comb += self.read_data.eq(Cat(self.irq_detect_latch, poll.polled != 0))
            with m.Case(Register.CORRECTION):
                m.d.comb += self.read_data.eq(correction)
            with m.Case(Register.MARKS):
                m.d.comb += self.read_data.eq(marks)
            with m.Default():
                with m.If(self._is(Register.LOW) | self._is(Register.USER_LOW)):
                    m.d.comb += self.read_data.eq(values[self.address[:3]][: min(32, self._width)])
                if self._width > 32:
                    with m.If(self._is(Register.HIGH) | self._is(Register.USER_HIGH)):
                        m.d.comb += self.read_data.eq(values[self.address[:3]][32:])
