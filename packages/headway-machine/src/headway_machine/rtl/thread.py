"""The progress unit of one thread: latches, determining units, enables and counters put together."""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib.data import ArrayLayout, StructLayout
from amaranth.lib.wiring import Component, In, Out

from .counters import CounterBank
from .enables import CounterEnables
from .hardware_determining import HardwareDetermining
from .interrupt_latch import InterruptLatch
from .names import COUNTERS, Control, Mark, Register
from .place import PLACE, Place
from .poll_latch import DEVICES, POLLS, PollLatches
from .software_determining import SoftwareDetermining

__all__ = ["ThreadProgress", "block_layout"]

_CONTROL_RESET = 0x7FF
_MARKS_WRITABLE = 0xFF07
_CALL = 0b101
"""The highest bits of the states of system calls, 160 to 191."""


def block_layout(width: int) -> StructLayout:
    """Return what of a thread the copying unit stores and the loading unit loads (docs/machine.md, section 5)."""
    return StructLayout({"counters": ArrayLayout(width, COUNTERS), "marks": 32, "polls": POLLS, "place": PLACE})


class ThreadProgress(Component):
    """Counts one hardware thread. All inputs are of the thread's cycle that ends with this clock, if `cycle` is set.

    The state monitor has ``ranges`` address ranges.
    """

    def __init__(self, width: int = 64, step: int = 1, depth_bits: int = 8, ranges: int = 0) -> None:
        self._width = width
        self._latch = InterruptLatch(depth_bits)
        self.polls = PollLatches(step)
        """Which devices the thread polls."""
        self.place = Place(ranges)
        """Which address range it is in, and from which state it was interrupted."""
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
                "executes": In(1),
                "found": In(6),
                "looks_back": Out(1),
                "first": In(6),
                "noneffective": In(max(1, ranges)),
                "polling": In(max(1, ranges)),
                "reset_gap": In(16),
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
        m.submodules.polls = polls = self.polls
        m.submodules.place = place = self.place
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
            hardware.core_stall.eq(self.core_stall),
            hardware.ex_valid.eq(self.ex_valid),
            hardware.int_ls_stall.eq(self.int_ls_stall),
            hardware.ext_ls_stall.eq(self.ext_ls_stall),
            hardware.honoured.eq(control[Control.HWNE]),
            software.control.eq(control),
            software.marks.eq(marks),
            software.irq_detect_latch.eq(latch.irq_detect_latch),
            software.irq_state.eq(latch.state),
            software.polled.eq(polls.polled),
            following.control.eq(control_next),
            following.marks.eq(marks_next),
            following.irq_detect_latch.eq(latch.latched_next),
            following.irq_state.eq(latch.state_next),
            following.polled.eq(polls.polled_next),
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
            self.copy.polls.eq(polls.saved),
            self.copy.place.eq(place.saved),
            self.irq_detect_latch.eq(latch.irq_detect_latch),
            self.state.eq(software.state),
            self.epi.eq(bank.epi),
            self.rpi.eq(bank.rpi),
        ]
        for unit, number in ((software, place.range), (following, place.range_next)):
            m.d.comb += [
                unit.machine_mode.eq(self.machine_mode),
                unit.range.eq(number),
                unit.range_noneffective.eq((Cat(Const(0, 1), self.noneffective) >> number)[0]),
                unit.range_poll.eq((Cat(Const(0, 1), self.polling) >> number)[0]),
            ]
        self._ask_devices(m)
        self._find_place(m)
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
                    m.d.comb += [latch.clear.eq(~self.data[0]), polls.clear.eq(~self.data[1])]
                    m.d.comb += ends.eq(latch.irq_detect_latch & ~latch.latched_next)
                with m.Case(Register.CORRECTION), m.If(self.cycle):
                    m.d.sync += correction.eq(self.data)
                with m.Case(Register.POLLS):
                    m.d.comb += [polls.clear.eq(1), polls.kept.eq(self.data[:DEVICES])]
                with m.Case(Register.GAP):
                    m.d.comb += polls.restart.eq(1)
                with m.Case(Register.MARKS):
                    m.d.comb += marks_next.eq(self.data[:16] & _MARKS_WRITABLE)
                    m.d.comb += cleared.eq(marks & ~marks_next)
                    m.d.comb += ends.eq(cleared[Mark.SWNE] | cleared[Mark.KPSW])
        with m.If(self.cycle):
            m.d.sync += [marks.eq(marks_next), control.eq(control_next)]
        # A correction belongs to the state that follows: it is taken from the effective time of the code that goes on.
        m.d.comb += bank.correct.eq(ends & ~following.swne)
        self._count_entries(m, cleared, following.state)
        self._read(m, control, correction, marks)
        return m

    def _ask_devices(self, m: Module) -> None:
        """Connect the poll latches, and keep the gap: that of reset until software writes another."""
        polls, latched = self.polls, self._latch.irq_detect_latch
        gap, written = Signal(16), Signal()
        m.d.comb += [
            polls.cycle.eq(self.cycle),
            polls.running.eq(self.running),
            polls.status_check.eq(self.status_check),
            polls.status_ready.eq(self.status_ready),
            polls.status_state.eq(self.status_state),
            polls.irq_detect_latch.eq(latched),
            polls.call.eq(self.irq_detect & (self.irq_state[5:] == _CALL)),
            polls.gap.eq(Mux(written, gap, self.reset_gap)),
            polls.new_gap.eq(self.data[:16]),
            polls.load.eq(self.switch),
            polls.loaded.eq(self.load.polls),
        ]
        with m.If(self.cycle & polls.restart):
            m.d.sync += [gap.eq(self.data[:16]), written.eq(1)]

    def _find_place(self, m: Module) -> None:
        """Connect what knows the address range, and the state outside of traps."""
        place, latch = self.place, self._latch
        m.d.comb += [
            place.cycle.eq(self.cycle),
            place.running.eq(self.running),
            place.executes.eq(self.executes),
            place.found.eq(self.found),
            place.first.eq(self.first),
            place.latched.eq(latch.irq_detect_latch),
            place.latched_next.eq(latch.latched_next),
            place.inside.eq(latch.irq_detect_latch | (self.machine_mode & self.control[Control.MK])),
            place.irq_return.eq(self.irq_return),
            place.state.eq(self.state),
            place.load.eq(self.switch),
            place.loaded.eq(self.load.place),
            self.looks_back.eq(place.looks_back),
        ]

    def _is(self, base: Register) -> Signal:
        return self.address[3:] == base >> 3

    def _count_entries(self, m: Module, cleared: Signal, state_next: Signal) -> None:
        """Tell whether a state that differs from the cycle before is entered anew, or returned to."""
        was = Signal(8)
        back = Signal()
        m.d.comb += back.eq(
            self.switch
            | self.irq_return
            | self.write & (self.address == Register.LATCH)
            | self.write & (self.address == Register.MARKS) & (cleared[Mark.SWNE] | cleared[Mark.KPSW])
        )
        with m.If(self.cycle):
            m.d.sync += was.eq(Mux(back, state_next, self.state))
        # From a kernel a thread returns to the state in which it was before.
        changed = Mux(self.place.comes_out, self.place.elsewhere, self.state != was)
        m.d.comb += self.anew.eq(self.irq_detect | changed)

    def _read(self, m: Module, control: Signal, correction: Signal, marks: Signal) -> None:
        values = self.bank.counters
        with m.Switch(self.address):
            with m.Case(Register.CONTROL):
                m.d.comb += self.read_data.eq(control)
            with m.Case(Register.LATCH):
                m.d.comb += self.read_data.eq(Cat(self.irq_detect_latch, self.polls.latches != 0))
            with m.Case(Register.CORRECTION):
                m.d.comb += self.read_data.eq(correction)
            with m.Case(Register.MARKS):
                m.d.comb += self.read_data.eq(marks)
            with m.Case(Register.POLLS):
                m.d.comb += self.read_data.eq(self.polls.latches)
            with m.Case(Register.GAP):
                m.d.comb += self.read_data.eq(self.polls.gap)
            with m.Default():
                with m.If(self._is(Register.LOW) | self._is(Register.USER_LOW)):
                    m.d.comb += self.read_data.eq(values[self.address[:3]][: min(32, self._width)])
                if self._width > 32:
                    with m.If(self._is(Register.HIGH) | self._is(Register.USER_HIGH)):
                        m.d.comb += self.read_data.eq(values[self.address[:3]][32:])
