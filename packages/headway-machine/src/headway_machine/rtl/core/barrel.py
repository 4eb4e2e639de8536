"""A barrel processor: RV32I for T hardware threads in strict turn, with the progress unit attached.

The pipeline has four places: the address of an instruction is sent, the instruction comes from memory, it is executed,
and its result is written. A thread's clock comes once in T clocks, in which its instruction is executed.
"""

from __future__ import annotations

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib.wiring import Component, In, Out

from ..names import Register
from ..progress import CORE_SIGNALS, ProgressUnit
from .alignment import LoadAlignment, StoreAlignment
from .arithmetic import Arithmetic
from .decoder import Decoder
from .fetch import Fetch
from .instructions import Cause
from .registers import Registers
from .traps import Traps

__all__ = ["WARM_UP", "BarrelCore"]

WARM_UP = 2
"""Clocks after reset before the first instruction is executed. The first to have one is the last thread."""
_EXCEPTION, _INTERRUPT, _CALL = 128, 144, 160
"""The first of the states of exceptions, interrupts and system calls (docs/machine.md, section 6)."""
_CALLS = 31
_MACHINE_ONLY = {"executes", "int_ls_stall", "ext_ls_stall"}
"""Signals of the unit for which this core has no source: it has neither address ranges nor caches."""


class BarrelCore(Component):
    """A core of ``threads`` threads, 1 to 8, each of which begins at the address ``reset``.

    Memory answers in the clock after its address. ``progress``: whether there is a progress unit, `unit`, whose
    counters are ``width`` bits wide.
    """

    def __init__(self, threads: int, *, reset: int = 0, progress: bool = True, width: int = 64) -> None:
        if not 1 <= threads <= 8:
            raise ValueError("a core has 1 to 8 hardware threads")
        self._threads = threads
        self._reset = reset
        self.unit = ProgressUnit(threads, width, threads) if progress else None
        super().__init__(
            {
                "fetch_address": Out(32),
                # Without it memory keeps its word.
                "fetch_enable": Out(1),
                # The word at the address of the clock before, and whether nothing is there.
                "fetch_word": In(32),
                "fetch_fault": In(1),
                "data_address": Out(32),
                "data_read": Out(1),
                # The bytes that are written; none: no write.
                "data_mask": Out(4),
                "data_out": Out(32),
                # The size of an access: 0 a byte, 1 a half word, 2 a word.
                "data_size": Out(2),
                # The word at the address of the clock before.
                "data_word": In(32),
                # At once: nothing is there, or it is a device's, with its value.
                "data_fault": In(1),
                "device": In(1),
                "device_value": In(32),
                # The register that is read is a status register, with this state; what it says.
                "status_state": In(8),
                "status_ready": In(1),
                # The thread whose instruction is executed in this clock, and whether it was retired: from the third
                # clock on, which `started` says.
                "thread": Out(3),
                "retired": Out(1),
                "started": Out(1),
                # The timer's interrupt is pending for this thread.
                "timer": In(1),
                # `mcycle`.
                "ticks": In(64),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Build the module."""
        m = Module()
        threads = self._threads
        m.submodules.fetch = fetch = Fetch(threads, self._reset)
        m.submodules.decoder = decoder = Decoder()
        m.submodules.registers = registers = Registers(threads)
        m.submodules.arithmetic = arithmetic = Arithmetic()
        m.submodules.traps = traps = Traps(threads)
        thread = self._take_turns(m, fetch)

        # The instruction and its operands.
        first, second, waits = self._operands(m, fetch, decoder, registers)
        m.d.comb += [
            decoder.word.eq(fetch.instruction),
            registers.thread.eq(thread),
            registers.rs1.eq(decoder.rs1),
            registers.rs2.eq(decoder.rs2),
            arithmetic.a.eq(Mux(decoder.from_zero, 0, Mux(decoder.from_pc, fetch.pc, first))),
            arithmetic.b.eq(Mux(decoder.with_immediate, decoder.immediate, second)),
            arithmetic.function.eq(decoder.function),
            arithmetic.alternate.eq(decoder.alternate),
            arithmetic.branch.eq(decoder.branch),
            arithmetic.add.eq(~(decoder.computes | decoder.branch)),
        ]
        goes, interrupt, executes, done = Signal(), Signal(), Signal(), Signal()
        m.d.comb += [
            goes.eq(fetch.valid & ~waits),
            interrupt.eq(goes & traps.interrupted),
            executes.eq(goes & ~interrupt),
            fetch.hold.eq(fetch.valid & waits),
            fetch.done.eq(goes),
        ]

        # Where the thread goes on.
        taken, target = Signal(), Signal(32)
        met = Mux(decoder.function[2], arithmetic.less, arithmetic.equal) ^ decoder.function[0]
        m.d.comb += [
            taken.eq(decoder.jal | decoder.jalr | (decoder.branch & met)),
            target.eq(Mux(decoder.jalr, arithmetic.result & ~1, fetch.pc + decoder.immediate)),
        ]
        known, value, register_write = self._control_registers(m, fetch, decoder, traps, first, done)
        cause, tval, exception = self._exceptions(m, fetch, decoder, traps, arithmetic, taken, target, known)
        m.d.comb += [
            done.eq(executes & ~exception),
            traps.trap.eq(interrupt | (executes & exception)),
            traps.interrupt.eq(interrupt),
            traps.cause.eq(Mux(interrupt, Cause.TIMER, cause)),
            traps.tval.eq(Mux(interrupt, 0, tval)),
            traps.pc.eq(fetch.pc),
            traps.mret.eq(done & decoder.mret),
            fetch.redirect.eq(traps.trap | (done & (taken | decoder.mret | decoder.fence_i))),
            self.retired.eq(done),
        ]
        with m.If(traps.trap):
            m.d.comb += fetch.next_pc.eq(traps.vector)
        with m.Elif(decoder.mret):
            m.d.comb += fetch.next_pc.eq(traps.epc)
        with m.Elif(taken):
            m.d.comb += fetch.next_pc.eq(target)
        with m.Else():
            m.d.comb += fetch.next_pc.eq(fetch.pc + 4)

        result = Signal(32)
        m.d.comb += result.eq(arithmetic.result)
        with m.If(decoder.csr):
            m.d.comb += result.eq(value)
        with m.Elif(decoder.jal | decoder.jalr):
            m.d.comb += result.eq(fetch.pc + 4)
        self._access_memory(m, decoder, arithmetic, second, executes)
        self._write_back(m, thread, decoder, registers, arithmetic, result, done)
        if self.unit is not None:
            detected, state = self._trap_states(m, thread, decoder, traps, second, interrupt)
            self._attach(
                m,
                {
                    "running": Const(1),
                    "irq_detect": interrupt | detected,
                    "irq_state": Mux(interrupt, _INTERRUPT + Cause.TIMER, state),
                    "irq_return": traps.mret,
                    "machine_mode": ~traps.user | interrupt,
                    "core_stall": fetch.hold,
                    "ex_valid": fetch.valid,
                    "status_check": done & decoder.load & (self.status_state != 0),
                    "status_ready": self.status_ready,
                    "status_state": self.status_state,
                },
            )
            m.d.comb += [
                self.unit.register_thread.eq(thread),
                self.unit.register_address.eq(fetch.instruction[20:]),
                self.unit.register_write.eq(register_write),
                self.unit.register_data.eq(traps.data),
            ]
        return m

    def _take_turns(self, m: Module, fetch: Fetch) -> Signal:
        """Give each clock to the next thread."""
        threads = self._threads
        thread = Signal(3, init=(threads - 1 - WARM_UP) % threads)
        ahead = Signal(3, init=threads - 1)
        warm = Signal(WARM_UP)
        if threads > 1:
            for turn in (thread, ahead):
                m.d.sync += turn.eq(Mux(turn == threads - 1, 0, turn + 1))
        m.d.sync += warm.eq(Cat(Const(1), warm))
        m.d.comb += [
            self.started.eq(warm.all()),
            self.thread.eq(thread),
            fetch.thread.eq(thread),
            fetch.ahead.eq(ahead),
            fetch.word.eq(self.fetch_word),
            fetch.fault.eq(self.fetch_fault),
            self.fetch_address.eq(fetch.address),
            self.fetch_enable.eq(fetch.enable),
        ]
        return thread

    def _operands(
        self, m: Module, fetch: Fetch, decoder: Decoder, registers: Registers
    ) -> tuple[Signal, Signal, Signal]:
        """Return the values of rs1 and rs2, and whether the instruction waits for the load before it."""
        first, second, waits = Signal(32), Signal(32), Signal()
        m.d.comb += [first.eq(registers.value1), second.eq(registers.value2)]
        if self._threads == 1:
            # The instruction before writes its register in this clock. Who computes with what it loads waits. A system
            # call does not wait for its number: only the unit looks at that, and it comes in time.
            used = Signal()
            written = registers.write & (registers.rd != 0)
            loads = Signal(name="loads")
            uses = ((decoder.reads_rs1, decoder.rs1, first), (decoder.reads_rs2, decoder.rs2, second))
            for reads, number, operand in uses:
                with m.If(written & (number == registers.rd)):
                    m.d.comb += operand.eq(registers.data)
                    with m.If(reads):
                        m.d.comb += used.eq(1)
            with m.If(written & decoder.writes & (decoder.rd == registers.rd)):
                m.d.comb += used.eq(1)
            m.d.comb += waits.eq(used & loads)
            m.d.sync += loads.eq(self.retired & decoder.load)
        return first, second, waits

    def _control_registers(
        self, m: Module, fetch: Fetch, decoder: Decoder, traps: Traps, first: Signal, done: Signal
    ) -> tuple[Signal, Signal, Signal]:
        """Return whether there is the register, its value, and whether one of the unit's is written."""
        address = fetch.instruction[20:]
        known, value, write = Signal(), Signal(32), Signal()
        operand = Mux(decoder.function[2], decoder.rs1, first)
        m.d.comb += [
            traps.thread.eq(self.thread),
            traps.address.eq(address),
            traps.timer.eq(self.timer),
            traps.ticks.eq(self.ticks),
            value.eq(traps.value),
            write.eq((decoder.function[:2] == 1) | (decoder.rs1 != 0)),
        ]
        in_unit = Signal()
        if self.unit is not None:
            counters = [base >> 3 for base in (Register.LOW, Register.HIGH, Register.USER_LOW, Register.USER_HIGH)]
            own = set(Register) - {Register.LOW, Register.HIGH, Register.USER_LOW, Register.USER_HIGH}
            m.d.comb += in_unit.eq(
                Cat(*(address[3:] == base for base in counters), *(address == r for r in sorted(own))).any()
            )
            with m.If(in_unit):
                m.d.comb += value.eq(self.unit.register_value)
        with m.Switch(decoder.function[:2]):
            with m.Case(2):
                m.d.comb += traps.data.eq(value | operand)
            with m.Case(3):
                m.d.comb += traps.data.eq(value & ~operand)
            with m.Default():
                m.d.comb += traps.data.eq(operand)
        allowed = ~(traps.user & address[8:10].any()) & ~(write & address[10:].all())
        m.d.comb += [
            known.eq((traps.known | in_unit) & allowed),
            traps.write.eq(done & decoder.csr & write),
        ]
        return known, value, traps.write & in_unit

    def _exceptions(
        self,
        m: Module,
        fetch: Fetch,
        decoder: Decoder,
        traps: Traps,
        arithmetic: Arithmetic,
        taken: Signal,
        target: Signal,
        known: Signal,
    ) -> tuple[Signal, Signal, Signal]:
        """Return the cause of an exception, its value for mtval, and whether there is one."""
        cause, tval, exception = Signal(4), Signal(32), Signal()
        misaligned = Signal()
        size = decoder.function[:2]
        m.d.comb += [
            misaligned.eq(((size == 1) & arithmetic.result[0]) | ((size == 2) & (arithmetic.result[:2] != 0))),
            exception.eq(1),
        ]
        illegal = decoder.illegal | (decoder.csr & ~known) | (decoder.mret & traps.user)
        with m.If(fetch.faulty):
            m.d.comb += [cause.eq(Cause.FETCH_FAULT), tval.eq(fetch.pc)]
        with m.Elif(illegal):
            m.d.comb += [cause.eq(Cause.ILLEGAL), tval.eq(fetch.instruction)]
        with m.Elif(decoder.ecall):
            m.d.comb += cause.eq(Mux(traps.user, Cause.CALL_FROM_USER, Cause.CALL_FROM_MACHINE))
        with m.Elif(decoder.ebreak):
            m.d.comb += [cause.eq(Cause.BREAKPOINT), tval.eq(fetch.pc)]
        with m.Elif(taken & target[1]):
            m.d.comb += [cause.eq(Cause.FETCH_MISALIGNED), tval.eq(target)]
        with m.Elif((decoder.load | decoder.store) & misaligned):
            m.d.comb += cause.eq(Mux(decoder.store, Cause.STORE_MISALIGNED, Cause.LOAD_MISALIGNED))
            m.d.comb += tval.eq(arithmetic.result)
        with m.Elif((decoder.load | decoder.store) & self.data_fault):
            m.d.comb += cause.eq(Mux(decoder.store, Cause.STORE_FAULT, Cause.LOAD_FAULT))
            m.d.comb += tval.eq(arithmetic.result)
        with m.Else():
            m.d.comb += exception.eq(0)
        return cause, tval, exception

    def _access_memory(
        self, m: Module, decoder: Decoder, arithmetic: Arithmetic, second: Signal, executes: Signal
    ) -> None:
        """Send the address of a load, and what a store writes. Memory does nothing at an address that is a fault."""
        m.submodules.storing = storing = StoreAlignment()
        m.d.comb += [
            storing.size.eq(decoder.function[:2]),
            storing.low.eq(arithmetic.result[:2]),
            storing.data.eq(second),
            self.data_address.eq(arithmetic.result),
            self.data_size.eq(decoder.function[:2]),
            self.data_read.eq(executes & decoder.load & ~decoder.illegal & ~storing.misaligned),
            self.data_out.eq(storing.word),
        ]
        with m.If(executes & decoder.store & ~decoder.illegal & ~storing.misaligned):
            m.d.comb += self.data_mask.eq(storing.mask)

    def _write_back(
        self,
        m: Module,
        thread: Signal,
        decoder: Decoder,
        registers: Registers,
        arithmetic: Arithmetic,
        result: Signal,
        done: Signal,
    ) -> None:
        """Write the result in the clock after, in which what a load reads comes."""
        m.submodules.loading = loading = LoadAlignment()
        of_memory, low, function, kept = Signal(), Signal(2), Signal(3), Signal(32)
        m.d.sync += [
            registers.write.eq(done & decoder.writes),
            registers.write_thread.eq(thread),
            registers.rd.eq(decoder.rd),
            of_memory.eq(decoder.load & ~self.device),
            low.eq(arithmetic.result[:2]),
            function.eq(decoder.function),
            kept.eq(Mux(decoder.load, self.device_value, result)),
        ]
        m.d.comb += [
            loading.function.eq(function),
            loading.low.eq(low),
            loading.word.eq(self.data_word),
            registers.data.eq(Mux(of_memory, loading.value, kept)),
        ]

    def _trap_states(
        self, m: Module, thread: Signal, decoder: Decoder, traps: Traps, second: Signal, interrupt: Signal
    ) -> tuple[Signal, Signal]:
        """Return whether the thread's instruction before was an exception, and the state of it.

        The clock of an instruction that cannot be done is still that of its program; the latch is set with the next.
        """
        count = range(self._threads)
        pending = Array(Signal(name=f"exception{n}") for n in count)
        states = Array(Signal(8, name=f"state{n}") for n in count)
        state = Signal(8)
        with m.If(decoder.ecall & ~decoder.illegal):
            m.d.comb += state.eq(_CALL + Mux(second > _CALLS, _CALLS, second[:5]))
        with m.Else():
            m.d.comb += state.eq(_EXCEPTION + traps.cause)
        with m.If(self.started):
            m.d.sync += pending[thread].eq(traps.trap & ~interrupt)
        with m.If(traps.trap):
            m.d.sync += states[thread].eq(state)
        return pending[thread], states[thread]

    def _attach(self, m: Module, told: dict[str, object]) -> None:
        """Tell the unit what the thread whose clock it is does. It looks at no other thread then."""
        unit = self.unit
        assert unit is not None
        m.submodules.progress = unit
        for number in range(self._threads):
            m.d.comb += unit.cycle[number].eq(self.started & (self.thread == number))
            m.d.comb += [getattr(unit, name)[number].eq(signal) for name, signal in told.items()]
        assert set(told) | {"cycle"} | _MACHINE_ONLY == set(CORE_SIGNALS)
