"""Debugging with trace: the trace unit stops the debugger, and what led there can be read while the program stands."""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.effort import FEW

from headway.errors import HeadwayError
from headway_machine import Machine
from headway_machine.config import Action, Config, SequencerMove, TraceUnitConfig, Trigger
from headway_trace.threads.container import TraceFile

from .elves import A0, A1, RAM, T2, addi, csrw, jump, li, sw
from .examples import EXAMPLES, MAX_CYCLES, Shape, config_of, program
from .programs import DATA, check, leave, loop
from .programs import program as made
from .test_gdb import Client, served

pytestmark = pytest.mark.unit

X = DATA + 0x100
WRITES = made(li(A1, X), li(T2, 105), sw(T2, A1), addi(T2, T2, 1), sw(T2, A1), jump(-20))
"""Writes 105 and 106 to X by turns, for ever."""
WRITE = RAM + 8 + 8
SHAPE: Shape = (1, 6, "skip")
FORMATS: tuple[dict[str, Any], ...] = ({}, {"cycle_accurate": False}, {"format": "etrace"})


def stops_at(trigger: Trigger, **action: bool) -> TraceUnitConfig:
    """Enter state 1, with this action, when the trigger fires."""
    return TraceUnitConfig(
        enabled=True, triggers=(trigger,), moves=(SequencerMove(0, 1, 1),), actions=(Action(1, **action),)
    )


THIRD = Trigger(first=X, watch="store", mask=0xFFFF_FFFF, value=105, count=3, harts=0b100)
"""The third write of 105 to X by hart 2."""


def contents(path: Path) -> list[bytes]:
    """Each core's stream in a trace file that is complete and undamaged."""
    found = TraceFile(path)
    assert found.complete
    assert found.remarks == ()
    return [b"".join(found.pieces(core)) for core in range(found.shape.cores)]


def test_the_third_write_of_a_value_by_one_hart_stops_the_debugger() -> None:
    config = Config(threads=3, boot="all", trace=stops_at(THIRD, halt=True, mark=True))
    going = Machine(config).debug(WRITES)
    stop = going.run()
    assert (stop.why, stop.hart) == ("trigger", 2)
    assert going.pc(2) == WRITE + 4
    rows = going.recent(2, 1000)
    assert rows[-1].state == "trigger"
    assert [row.address for row in rows if row.state == "executed"].count(WRITE) == 3
    assert (rows[-2].address, rows[-2].state) == (WRITE, "executed")
    assert going.recent(2, 2) == rows[-2:]
    assert going.run(cycles=1000).why == "cycle", "the sequencer stays in its state"


def test_without_a_debugger_it_does_nothing() -> None:
    elf = made(li(A1, X), li(T2, 105), sw(T2, A1), *leave(3))
    plain = Machine(threads=1).run(elf)
    trace = stops_at(Trigger(first=X, watch="store"), halt=True)
    assert Machine(threads=1, trace=trace).run(elf).digest == plain.digest
    going = Machine(threads=1, trace=trace).debug(elf)
    assert [going.run().why, going.run().why] == ["trigger", "exit"]
    assert going.result().digest == plain.digest
    unheeded = Machine(threads=1, trace=trace).debug(elf)
    unheeded.heed_triggers(False)
    assert unheeded.run().why == "exit"


def test_a_breakpoint_exception_stops_the_debugger_before_it_is_taken() -> None:
    code = (li(A0, RAM + 0x100), csrw(0x305, A0), li(A1, X), sw(A0, A1), addi(A0, A0, 1), jump(0))
    going = Machine(threads=1, trace=stops_at(Trigger(first=X, watch="store"), stop=True)).debug(made(*code))
    assert going.run().why == "trigger"
    after = going.pc()
    assert going.step().why == "step"
    assert (going.pc(), going.registers()["mepc"]) == (RAM + 0x100, after)


@pytest.mark.parametrize("values", FORMATS)
@given(places=st.lists(st.integers(1, 30_000), min_size=1, max_size=4))
@settings(max_examples=2 if FEW else 10, deadline=None)
def test_a_trace_can_be_read_at_each_stop_and_goes_on_as_if_it_had_not_been(
    tmp_path_factory: pytest.TempPathFactory, values: dict[str, Any], places: list[int]
) -> None:
    path = tmp_path_factory.mktemp("traced") / "t.hwt"
    other = path.with_suffix(".other")
    machine = Machine(config_of("mutex", SHAPE), trace=TraceUnitConfig(**values))

    def traced(cycles: int) -> list[bytes]:
        with other.open("wb") as stream:
            machine.run(program("mutex"), max_cycles=cycles, trace=stream)
        return contents(other)

    with path.open("wb") as stream:
        going = machine.debug(program("mutex"), trace=stream)
        for cycles in places:
            going.run(cycles=cycles)
            for _ in range(2):
                assert going.end_trace_for_now()
            assert contents(path) == traced(going.now)
        going.run()
        going.end_trace()
    assert contents(path) == traced(MAX_CYCLES)


def test_a_stream_that_cannot_go_back_gets_the_trace_once() -> None:
    class Pipe(io.BytesIO):
        def seekable(self) -> bool:
            return False

    pipe, whole = Pipe(), io.BytesIO()
    going = Machine(threads=1).debug(made(*loop(100), *leave(0)), trace=pipe)
    going.run(cycles=100)
    assert not going.end_trace_for_now()
    assert going.run().why == "exit"
    going.end_trace()
    Machine(threads=1).run(made(*loop(100), *leave(0)), trace=whole)
    assert pipe.getvalue() == whole.getvalue()


@pytest.mark.parametrize("values", FORMATS)
def test_a_hart_that_is_held_is_not_traced_meanwhile(tmp_path: Path, values: dict[str, Any]) -> None:
    path = tmp_path / "t.hwt"
    with path.open("wb") as stream:
        machine = Machine(threads=2, boot="all", trace=TraceUnitConfig(**values))
        going = machine.debug(made(*loop(3000), *leave(0)), trace=stream)
        going.run(cycles=5000)
        going.hold(1)
        going.run(cycles=5000)
        if values.get("format") != "etrace":
            assert going.recent(1, 1)[0].state == "unknown.trace_off"
        going.release(1)
        assert going.run().why == "exit"
        if values.get("format") != "etrace":
            states = [row.state for row in going.recent(1, 100_000)]
            gaps = [state for state in states[states.index("executed") :] if state.startswith("unknown")]
            assert gaps == ["unknown.trace_off"]
        going.end_trace()
    contents(path)
    check(going.result())


def test_what_happened_after_a_moment_is_forgotten_when_it_is_restored() -> None:
    config = config_of("mutex", SHAPE).with_values(trace=TraceUnitConfig(enabled=True, sync=64))
    going = Machine(config).debug(program("mutex"))
    going.run(cycles=20_000)
    saved = going.save()
    going.run(cycles=20_000)
    first = going.recent(0, 5)
    going.run(cycles=20_000)
    going.restore(saved)
    going.run(cycles=20_000)
    assert going.recent(0, 5) == first


def test_a_session_with_a_trace_does_not_go_back(tmp_path: Path) -> None:
    going = Machine(threads=1).debug(made(*leave(0)), trace=io.BytesIO())
    with pytest.raises(HeadwayError, match="cannot go back"):
        going.restore(going.save())
    with pytest.raises(HeadwayError, match="cannot go back"):
        going.restore_from(tmp_path / "m")
    with pytest.raises(HeadwayError, match="there is no trace"):
        Machine(threads=1).debug(made(*leave(0))).recent()


def test_monitor_trace_shows_what_led_to_the_stop() -> None:
    config = Config(threads=3, boot="all", trace=stops_at(THIRD, halt=True, mark=True))
    with served(Machine(config).debug(WRITES)) as (client, _):
        client.tell("vCont;c")
        assert bytes.fromhex(client.reply()[1:]) == b"the trace unit stopped hart 2\n"
        assert client.reply() == "T05thread:3;"
        shown = bytes.fromhex(client.ask("qRcmd," + b"trace 3".hex())).decode()
        assert re.fullmatch(
            r" +cycle  address     hart 2        function\n"
            rf" +\d+  0x\w+  executed      main\+0x\w+\n +\d+  {WRITE:#x}  executed      main\+0x10\n"
            rf" +\d+  {WRITE:#x}  trigger       main\+0x10\n",
            shown,
        ), shown
        for wrong in (b"trace x", b"trace 1 2"):
            assert b"monitor trace" in bytes.fromhex(client.ask("qRcmd," + wrong.hex()))
        client.tell("k")


def test_a_debugger_and_a_trace_go_together(tmp_path: Path) -> None:
    config, elf, trace = tmp_path / "c.toml", tmp_path / "p.elf", tmp_path / "t.hwt"
    config.write_text(Config(threads=3, boot="all", trace=stops_at(THIRD, halt=True, mark=True)).to_toml())
    elf.write_bytes(WRITES)
    trace.write_bytes(b"x" * 100_000)
    command = [sys.executable, "-m", "headway", "machine", "run", str(elf), "--config", str(config)]
    with subprocess.Popen([*command, "--gdb", "0", "--trace", str(trace)], stderr=subprocess.PIPE, text=True) as run:
        assert run.stderr is not None
        (port,) = re.findall(r"target remote :(\d+)", run.stderr.readline())
        client = Client.to(int(port))
        client.tell("vCont;c")
        assert client.reply().startswith("O")
        assert client.reply() == "T05thread:3;"
        stopped = contents(trace)
        assert client.ask("vCont;s:1") == "T05thread:1;"
        assert contents(trace) != stopped
        client.tell("k")
        client.close()
        run.stderr.read()
        assert run.wait() == 130
    contents(trace)


@pytest.mark.skipif(shutil.which("gdb-multiarch") is None, reason="needs gdb-multiarch")
def test_gdb_stops_where_the_trace_unit_says_and_shows_what_led_there(tmp_path: Path) -> None:
    """It leaves breakpoints that all harts meet, which holds harts, on the way."""
    config, trace, script = tmp_path / "c.toml", tmp_path / "t.hwt", tmp_path / "script.gdb"
    trigger = Trigger(symbol="inside", watch="store", mask=0xFFFF_FFFF, value=1, count=3, harts=0b100000)
    config.write_text(Config(trace=stops_at(trigger, halt=True, mark=True)).to_toml())
    elf = str(EXAMPLES / "mutex.elf")
    command = [sys.executable, "-m", "headway", "machine", "run", elf]
    command += ["--config", str(config), "--trace", str(trace)]
    with subprocess.Popen([*command, "--gdb", "0"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        assert run.stderr is not None
        (port,) = re.findall(r"target remote :(\d+)", run.stderr.readline())
        script.write_text(
            f"set pagination off\nset confirm off\ntarget remote :{port}\nbreak mutex_lock\ncontinue\ncontinue\n"
            "continue\ndelete\ncontinue\nmonitor trace 2\ninfo registers pc\ncontinue\n"
        )
        gdb = ["gdb-multiarch", "-nx", "-batch", "-x", str(script), elf]
        said = subprocess.run(gdb, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        run.stderr.read()
        assert run.wait() == 0
    text = said.stdout + said.stderr
    assert text.count("hit Breakpoint 1") == 3
    assert "the trace unit stopped hart 5" in text
    assert re.search(r"executed +work\+0x\w+\n +\d+  0x\w+  trigger +work\+0x\w+\n", text), text
    assert "exited normally" in text
    plain = tmp_path / "plain.hwt"
    with plain.open("wb") as stream:
        Machine(Config.from_toml(config)).run(elf, trace=stream)
    assert contents(trace) == contents(plain)
