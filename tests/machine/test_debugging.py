"""A run that is stopped, looked at, set back and let go is the same to the cycle as one that runs through."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.few import FEW

from headway import Machine
from headway.errors import HeadwayError
from headway.machine.debugging import DebugSession, Stop
from headway.machine.device import Device
from headway.machine.run import Result

from .elves import A0, A1, RAM, ZERO, addi, csrw, jump, li, lw, sw
from .examples import MAX_CYCLES, Shape, config_of, program
from .programs import check, leave, loop
from .programs import program as made

pytestmark = pytest.mark.unit

EXAMPLES = ("sleepers", "stats", "uart-interrupt", "mutex")
SHAPES: tuple[Shape, ...] = ((1, 1, "strict"), (1, 6, "skip"), (2, 3, "strict"), (3, 2, "skip"))
WHERE = 0x2000_0000
WFI = 0x1050_0073


@cache
def whole(name: str, shape: Shape) -> Result:
    return Machine(config_of(name, shape)).run(program(name), max_cycles=MAX_CYCLES)


def session(name: str, shape: Shape) -> DebugSession:
    return Machine(config_of(name, shape)).debug(program(name))


def disturb(session: DebugSession, chance: random.Random, names: list[str]) -> Stop:
    """Do one of the things that a user of a debugger does."""
    what = chance.randrange(7)
    if what == 0:
        return session.run_until(chance.choice(names), cycle=session.now + chance.randrange(50_000))
    if what == 1:
        return session.step(count=chance.randrange(1, 30))
    if what == 2:
        session.break_at(chance.choice(names))
        stop = session.run(cycles=chance.randrange(100_000))
        for place in session.breakpoints:
            session.clear(place)
        return stop
    if what == 3:
        saved = session.save()
        for _ in range(chance.randrange(3)):
            disturb(session, chance, names)
        session.restore(saved)
        return Stop("cycle", session.now, None)
    if what == 4:
        asked = chance.randrange(1, 200)
        seen = iter(range(asked))
        return session.run_until(when=lambda _: next(seen, None) is None, cycle=session.now + 10_000)
    for hart in range(session.harts):
        session.registers(hart)
        session.where(hart)
    session.read(RAM, 64)
    return session.run(cycles=chance.randrange(30_000))


@pytest.mark.parametrize("name", EXAMPLES)
@given(shape=st.sampled_from(SHAPES), seed=st.integers(0, 1 << 30))
@settings(max_examples=2 if FEW else 8, deadline=None)
def test_a_disturbed_run_is_the_same_to_the_cycle(name: str, shape: Shape, seed: int) -> None:
    chance = random.Random(seed)
    going = session(name, shape)
    names = ["main", "trap", "kernel_trap", "schedule"]
    names = [found for found in names if found in going.names] or sorted(going.names)[:4]
    for _ in range(40):
        if going.ended:
            break
        disturb(going, chance, names)
    assert going.run().why == "exit"
    assert going.result().digest == whole(name, shape).digest


def test_each_step_is_one_instruction_or_one_trap() -> None:
    going = Machine(cores=1, threads=1).debug(made(addi(A0, ZERO, 3), addi(A0, A0, 1), addi(A1, A0, 0), *leave(7)))
    places, values = [], []
    while not going.ended:
        places.append(going.pc())
        values.append(going.registers()["a0"])
        stop = going.step()
    assert stop.why == "exit"
    assert places[:4] == [RAM, RAM + 4, RAM + 8, RAM + 12]
    assert values[:4] == [0, 3, 4, 4]
    assert going.result().exit_status == 7


def test_a_branch_to_itself_is_a_step() -> None:
    going = Machine(cores=1, threads=1).debug(made(jump(0)))
    before = going.result().instructions
    assert going.step(count=5).why == "step"
    assert going.pc() == RAM
    assert going.result().instructions == before + 5


def test_it_stops_before_a_symbol_each_time() -> None:
    going = session("sleepers", (1, 2, "strict"))
    first = going.run_until("main")
    assert first.why == "breakpoint"
    assert first.hart is not None
    assert going.where(first.hart) == "main"
    assert going.run_until("main", cycle=going.now + 1000).why == "cycle", "it goes on from there"


def test_registers_and_memory_can_be_changed() -> None:
    going = Machine(cores=1, threads=1).debug(made(li(A0, 3), li(A1, RAM + 0x1800), sw(A0, A1), *leave(0)))
    going.step(count=2)
    going.set_register(0, "a0", 77)
    while going.read(RAM + 0x1800, 4) == bytes(4):
        going.step()
    assert going.read(RAM + 0x1800, 4) == (77).to_bytes(4, "little")
    going.write(RAM + 0x1800, b"abcd")
    going.set_register(0, "pc", RAM + 0x100)
    assert going.pc() == RAM + 0x100
    assert going.read(RAM + 0x1800, 4) == b"abcd"


# --- one hart held ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("issue", ["strict", "skip"])
@pytest.mark.parametrize("cores", [1, 2])
def test_a_hart_that_is_held_stands_while_others_run(cores: int, issue: str) -> None:
    going = Machine(cores=cores, threads=2, boot="all", issue=issue).debug(made(*loop(2000), *leave(0)))
    going.run(cycles=500)
    going.hold(1)
    going.run(cycles=50)
    stands = going.registers(1)
    others = going.registers(0)
    going.run(cycles=1000)
    assert going.registers(1) == stands
    assert going.registers(0) != others
    going.release(1)
    going.run(cycles=100)
    assert going.registers(1) != stands
    assert going.run().why == "exit"
    result = going.result()
    check(result)
    (held,) = (p for p in result.ledger.processors if p.cpu == 1)
    assert 1000 <= held.states["stopped"].time <= 1060
    assert not any("stopped" in p.states for p in result.ledger.processors if p.cpu != 1)


def test_a_hart_may_be_held_twice_and_while_it_is_asleep() -> None:
    going = Machine(cores=1, threads=2, boot="all").debug(made(WFI, *leave(0)))
    going.run(cycles=1000)
    assert going.halted(0)
    going.hold(0)
    going.hold(0)
    going.release(0)
    going.release(0)
    assert going.run().why == "standstill"
    check(going.result())


# --- devices ----------------------------------------------------------------------------------------------------------


class Answering(Device):
    """Answers what was written to register 0, plus one, in register 4; some ticks later it interrupts."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.dues: list[int] = []

    def load(self, offset: int) -> int | None:
        return self.asked[-1] + 1 if offset == 4 else None

    def store(self, offset: int, value: int) -> bool:
        if offset == 0:
            self.asked.append(value)
            self.call_at(self.now + 300)
        elif offset == 8:
            self.interrupt(False)
        return offset in (0, 8)

    def due(self) -> None:
        self.dues.append(self.now)
        self.interrupt()


PLIC = 0x0C00_0000


def asking() -> bytes:
    """A program that asks, sleeps until the interrupt, and ends with the answer."""
    return made(
        *(li(A0, 7), li(A1, PLIC + 4 * 9), sw(A0, A1)),
        *(li(A0, 1 << 9), li(A1, PLIC + 0x2000), sw(A0, A1)),
        *(li(A0, 0x800), csrw(0x304, A0)),
        *(li(A0, 41), li(A1, WHERE), sw(A0, A1)),
        *(WFI, lw(A0, A1, 4), sw(ZERO, A1, 8)),
        *leave(0),
    )


def test_a_device_in_python_answers_and_interrupts() -> None:
    going = Machine(cores=1, threads=1).debug(asking())
    device = Answering()
    going.attach(device, WHERE, size=16, line=9)
    while not going.halted(0):
        going.run(cycles=1)
    asleep = going.now
    assert device.asked == [41]
    saved = going.save()
    ends = []
    for _ in range(2):
        assert going.run().why == "exit"
        assert going.registers()["a0"] == 42
        ends.append((going.now, going.result().digest, device.dues))
        assert device.dues[0] > asleep
        going.restore(saved)
        assert device.dues == []
    assert ends[0] == ends[1], "from a saved moment everything goes on as before"


def test_what_no_register_has_is_a_fault() -> None:
    going = Machine(cores=1, threads=1).debug(made(li(A1, WHERE), lw(A0, A1, 0), *leave(0)))
    going.attach(Answering(), WHERE, size=16)
    while not going.registers()["mcause"]:
        going.step()
    assert going.registers()["mcause"] == 5


def test_what_a_device_raises_is_raised() -> None:
    going = Machine(cores=1, threads=1).debug(made(li(A1, WHERE), lw(A0, A1, 4), *leave(0)))
    going.attach(Answering(), WHERE, size=16)
    with pytest.raises(IndexError):
        going.run()


# --- mistakes ---------------------------------------------------------------------------------------------------------

MISTAKES: dict[str, tuple[Callable[[DebugSession], object], str]] = {
    "nothing": (lambda s: s.run_until(), "needs an address"),
    "no name": (lambda s: s.break_at("nowhere"), "no function or variable 'nowhere'"),
    "offset": (lambda s: s.break_at("main+x"), "'x' is no number"),
    "address": (lambda s: s.break_at(1 << 32), "no address of 32 bits"),
    "hart": (lambda s: s.step(9), "no hart 9"),
    "register": (lambda s: s.set_register(0, "mstatus", 0), "cannot be set"),
    "memory": (lambda s: s.read(0, 4), "not in RAM"),
    "back": (lambda s: s.run(cycles=-1), "cannot run backwards"),
    "device": (lambda s: s.attach(Answering(), RAM), "give it whole words from"),
    "line": (lambda s: s.attach(Answering(), WHERE, line=3), "line 3 is not one of"),
    "no device": (lambda s: s.attach(object(), WHERE), "inherit from"),  # type: ignore[arg-type]
    "unattached": (lambda s: Answering().interrupt(), "no line"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_one_sentence(mistake: str) -> None:
    do, sentence = MISTAKES[mistake]
    with pytest.raises(HeadwayError, match=sentence) as raised:
        do(Machine(cores=1, threads=2).debug(made(*loop(3), *leave(0))))
    assert "\n" not in str(raised.value)


def test_two_devices_do_not_share_addresses() -> None:
    going = Machine(cores=1, threads=1).debug(made(*leave(0)))
    device = Answering()
    going.attach(device, WHERE, size=16)
    with pytest.raises(HeadwayError, match="another device"):
        going.attach(Answering(), WHERE + 12, size=16)
    with pytest.raises(HeadwayError, match="attached already"):
        going.attach(device, WHERE + 0x100, size=16)
