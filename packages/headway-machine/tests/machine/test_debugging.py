"""A run that is stopped, looked at, set back and let go is the same to the cycle as one that runs through."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.effort import FEW

from headway.errors import HeadwayError
from headway_machine import Machine
from headway_machine.debugging import DebugSession, Stop
from headway_machine.device import Device
from headway_machine.run import Result

from .elves import A0, A1, RAM, ZERO, addi, csrw, jump, li, lw, sw
from .examples import MAX_CYCLES, Shape, config_of, program
from .programs import check, leave, loop, semihost
from .programs import program as made

pytestmark = pytest.mark.unit

EXAMPLES = ("sleepers", "stats", "uart-interrupt", "mutex")
SHAPES: tuple[Shape, ...] = ((1, 1, "strict"), (1, 6, "skip"), (2, 3, "strict"), (3, 2, "skip"))
WHERE = 0x2000_0000
WFI = 0x1050_0073
WORD = RAM + 0xF0_0000
"""Memory that no program here uses."""


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


# --- moments in files -------------------------------------------------------------------------------------------------


def meddle(session: DebugSession, chance: random.Random, names: list[str]) -> None:
    """Do one of the things that a user of a debugger does, also such as change the program."""
    what = chance.randrange(5)
    hart = chance.randrange(session.harts)
    if what == 0:
        session.set_register(hart, chance.choice(("t3", "t4", "t5", "t6")), chance.randrange(1 << 32))
    elif what == 1:
        session.write(WORD, chance.randbytes(chance.randrange(1, 9)))
    elif what == 2:
        session.hold(hart)
        session.run(cycles=chance.randrange(3_000))
        session.release(hart)
    else:
        disturb(session, chance, names)


@given(name=st.sampled_from(EXAMPLES), shape=st.sampled_from(SHAPES), seed=st.integers(0, 1 << 32))
@settings(max_examples=6 if FEW else 40, deadline=None)
def test_a_moment_in_a_file_is_the_same_to_the_cycle(
    tmp_path_factory: pytest.TempPathFactory, name: str, shape: Shape, seed: int
) -> None:
    chance = random.Random(seed)
    path = tmp_path_factory.mktemp("moment") / "saved"
    first, again = session(name, shape), session(name, shape)
    names = sorted(first.names - {"trap_entry"})[:40]
    for _ in range(chance.randrange(1, 6)):
        meddle(first, chance, names)
        if first.ended:
            break
    first.save_to(path)
    for _ in range(chance.randrange(3)):  # where the other one is does not matter
        meddle(again, chance, names)
    again.restore_from(path)
    assert again.now == first.now
    assert again.result().digest == first.result().digest
    again.save_to(path.with_name("again"))
    assert path.with_name("again").read_bytes() == path.read_bytes()
    limit = first.now + 300_000
    ends = [one.run_until(cycle=limit) for one in (first, again)]
    assert ends[0] == ends[1]
    assert again.result().digest == first.result().digest


def test_what_was_read_is_in_the_file_and_nothing_is_written_twice(tmp_path: Path) -> None:
    # Reads a byte by semihosting (SYS_READC) and sends it by the UART, for ever.
    elf = made(li(9, 0x1000_0000), *semihost(7, 0), sw(A0, 9, 8), *loop(400), jump(-4 * (7 + 1 + 4)))
    outputs = [io.BytesIO(), io.BytesIO()]
    first = Machine().debug(elf, input=io.BytesIO(b"abcdefgh"), output=outputs[0])
    first.run(cycles=12_000)
    first.save_to(tmp_path / "saved")
    again = Machine().debug(elf, input=io.BytesIO(b""), output=outputs[1])
    again.restore_from(tmp_path / "saved")
    sent = outputs[0].getvalue()
    assert len(sent) > 1
    assert b"abcdefgh".startswith(sent)
    assert outputs[1].getvalue() == b""
    assert again.result().output == first.result().output == sent


def test_a_moment_is_refused_where_it_does_not_belong(tmp_path: Path) -> None:
    path = tmp_path / "saved"
    one = session("mutex", (1, 2, "skip"))
    one.run(cycles=5_000)
    one.set_register(0, "t6", 5)
    one.run(cycles=500)
    one.save_to(path)
    kept = path.read_text()
    place, now = json.loads(kept), one.now

    def refused(text: str | bytes, sentence: str, machine: DebugSession | None = None) -> None:
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        other = one if machine is None else machine
        before = other.now
        with pytest.raises(HeadwayError, match=sentence):
            other.restore_from(path)
        assert other.now == before

    refused(kept, "is of another configuration", session("mutex", (1, 3, "skip")))
    refused(kept, "is of another program", session("stats", (1, 2, "skip")))
    refused(kept, "of another command line", Machine(config_of("mutex", (1, 2, "skip"))).debug(
        program("mutex"), arguments=("x",)))  # fmt: skip
    refused("", "is no saved moment")
    refused(b"\x7fELF" + bytes(100), "is no saved moment")
    refused("[" * 100_000, "is no saved moment")
    refused(kept.replace("moment/1", "moment/2"), "another version of headway")
    refused(json.dumps({**place, "digest": "0" * 64}), "does not lead to the moment")
    refused(json.dumps({**place, "at": ["tick", now + 3, 0, 0]}), "does not lead to the moment")
    refused(json.dumps({**place, "at": ["turn", now, 0, 5]}), "does not lead to the moment")
    refused(json.dumps({**place, "at": ["turn", now, 77, 5]}), "does not lead to the moment")
    held = [[["tick", 0, 0, 0], "hold", hart, "", 0, ""] for hart in range(2)]
    refused(json.dumps({**place, "deeds": held, "at": ["turn", now, 0, 5]}), "does not lead to the moment")
    refused(json.dumps({**place, "at": ["tick", 3, 0, 0]}), "is damaged")
    deed = place["deeds"][0]
    refused(json.dumps({**place, "deeds": [deed, [["tick", 3, 0, 0], *deed[1:]]]}), "is damaged")
    refused(json.dumps({**place, "deeds": [[deed[0], "write", 5, "", 0, ""]]}), "does not lead to the moment")
    assert one.run_until(cycle=now).cycle == now
    with pytest.raises(HeadwayError, match="cannot be read"):
        one.restore_from(tmp_path / "nothing")
    with pytest.raises(HeadwayError, match="cannot be written"):
        one.save_to(tmp_path)
    one.attach(Device(), WHERE)
    with pytest.raises(HeadwayError, match="devices in Python"):
        one.save_to(tmp_path / "other")


VALUES = st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.floats() | st.lists(st.integers())


@given(data=st.data())
@settings(max_examples=20 if FEW else 150, deadline=None)
def test_a_file_that_was_changed_gives_a_sentence(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    one = Machine(cores=1, threads=1).debug(made(*loop(500), *leave(0)))
    one.run(cycles=100)
    one.set_register(0, "t6", 5)
    path = tmp_path_factory.mktemp("moment") / "saved"
    one.save_to(path)
    found = json.loads(path.read_text())
    key = data.draw(st.sampled_from(sorted(set(found) - {"schema"})))
    if key == "deeds" and data.draw(st.booleans()):
        found[key][0][data.draw(st.integers(0, 5))] = data.draw(VALUES)
    elif key == "at":
        found[key][data.draw(st.integers(0, 3))] = data.draw(VALUES)
    else:
        found[key] = data.draw(VALUES)
    path.write_text(json.dumps(found))
    digest = one.result().digest
    with suppress(HeadwayError):
        one.restore_from(path)
    assert one.result().digest == digest


WRONG: dict[str, Callable[[DebugSession], object]] = {
    "run": lambda s: s.run(cycles="5"),  # type: ignore[arg-type]
    "run, stepping": lambda s: s.run(cycles=5, stepping=["x"]),  # type: ignore[list-item]
    "step": lambda s: s.step(count=2.5),  # type: ignore[arg-type]
    "step, hart": lambda s: s.step("0"),  # type: ignore[arg-type]
    "run_until": lambda s: s.run_until(1.5),  # type: ignore[arg-type]
    "run_until, cycle": lambda s: s.run_until(cycle="x"),  # type: ignore[arg-type]
    "run_until, when": lambda s: s.run_until(when=5),  # type: ignore[arg-type]
    "run_until, hart": lambda s: s.run_until("main", hart="x"),  # type: ignore[arg-type]
    "break_at": lambda s: s.break_at(None),  # type: ignore[arg-type]
    "clear": lambda s: s.clear([]),  # type: ignore[arg-type]
    "watch": lambda s: s.watch("main", "4"),  # type: ignore[arg-type]
    "hold": lambda s: s.hold(None),  # type: ignore[arg-type]
    "pc": lambda s: s.pc("x"),  # type: ignore[arg-type]
    "set_register": lambda s: s.set_register(0, "a0", "5"),  # type: ignore[arg-type]
    "set_register, name": lambda s: s.set_register(0, 5, 5),  # type: ignore[arg-type]
    "set_register, size": lambda s: s.set_register(0, "a0", 1 << 40),
    "read": lambda s: s.read("main", "4"),  # type: ignore[arg-type]
    "read, negative": lambda s: s.read("main", -4),
    "write": lambda s: s.write("main", "text"),  # type: ignore[arg-type]
    "name": lambda s: s.name("main"),  # type: ignore[arg-type]
    "attach": lambda s: s.attach(Device(), "x"),  # type: ignore[arg-type]
    "core_cycle": lambda s: s.core_cycle(9),
    "restore": lambda s: s.restore("saved"),  # type: ignore[arg-type]
    "restore, other": lambda s: s.restore(Machine(cores=2).debug(made(*leave(0))).save()),
    "save_to": lambda s: s.save_to(5),  # type: ignore[arg-type]
    "restore_from": lambda s: s.restore_from(None),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("what", WRONG)
def test_an_argument_of_the_wrong_type_is_one_sentence(what: str) -> None:
    one = Machine(cores=1, threads=1).debug(made(*loop(50), *leave(0)))
    with pytest.raises(HeadwayError) as found:
        WRONG[what](one)
    assert "\n" not in str(found.value)
    assert Machine(cores=1, threads=1).run(made(*loop(50), *leave(0))).digest == finished(one).digest


def finished(session: DebugSession) -> Result:
    session.run()
    return session.result()
