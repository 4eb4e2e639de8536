"""The debugger's protocol: packets, hostile bytes, stops that change nothing, one hart stopped while others run."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.effort import FEW

from headway.errors import HeadwayError
from headway.model import Cell
from headway_machine import Machine
from headway_machine.commands.gdb import serve_debugger
from headway_machine.config import TraceUnitConfig
from headway_machine.debugging import DebugSession
from headway_machine.gdb.packets import Connection, ConnectionBrokenError, binary
from headway_machine.gdb.server import GdbServer, listen

from .elves import A0, RAM, addi, jump, li
from .examples import EXAMPLES, Shape, config_of, program
from .programs import check, leave, loop
from .programs import program as made

SHAPE: Shape = (1, 6, "strict")


class Client:
    """A debugger: it sends packets, and takes replies and notifications."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._socket.settimeout(60)
        self._stream = connected.makefile("rb")

    @classmethod
    def to(cls, port: int) -> Client:
        return cls(socket.create_connection(("127.0.0.1", port)))

    def ask(self, text: str | bytes) -> str:
        self.tell(text)
        return self.reply()

    def tell(self, text: str | bytes) -> None:
        data = text.encode() if isinstance(text, str) else text
        self._socket.sendall(b"$" + data + b"#%02x" % (sum(data) & 0xFF))

    def raw(self, data: bytes) -> None:
        self._socket.sendall(data)

    def reply(self) -> str:
        """The next packet or notification (with its %)."""
        while (first := self._stream.read(1)) not in (b"$", b"%"):
            if not first:
                raise EOFError
        data = b""
        while (byte := self._stream.read(1)) != b"#":
            data += byte
        self._stream.read(2)
        return ("%" if first == b"%" else "") + data.decode("latin-1")

    def close(self) -> None:
        self._stream.close()
        self._socket.close()


@contextmanager
def served(session: DebugSession) -> Iterator[tuple[Client, list[object]]]:
    """A server of this session, and what it ended with once it has."""
    ours, theirs = socket.socketpair()
    ended: list[object] = []

    def serve() -> None:
        with theirs:
            try:
                ended.append(GdbServer(session, theirs).serve())
            except BaseException as error:
                ended.append(error)

    thread = threading.Thread(target=serve)
    thread.start()
    client = Client(ours)
    try:
        yield client, ended
    finally:
        client.close()
        thread.join(60)
    assert len(ended) == 1


# --- packets ----------------------------------------------------------------------------------------------------------


@pytest.mark.unit
@given(st.binary(max_size=200))
def test_binary_data_arrives_as_it_was_sent(data: bytes) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(b"$" + binary(data) + b"#%02x" % (sum(binary(data)) & 0xFF))
        assert Connection(theirs).packet(0) == data
        assert ours.recv(10) == b"+"


@pytest.mark.unit
@given(st.lists(st.binary(max_size=40), max_size=8))
def test_hostile_bytes_are_no_packets(pieces: list[bytes]) -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        with ours:
            for piece in pieces:
                ours.sendall(piece)
            ours.sendall(b"$" + b"a" * 10)
        connection, more = Connection(theirs), True
        while more:
            try:
                assert connection.packet(0) is not None
            except ConnectionBrokenError:
                more = False


@pytest.mark.unit
def test_a_damaged_packet_is_asked_for_again() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(b"$OK#00$OK#9a")
        assert Connection(theirs).packet(0) == b"OK"
        assert ours.recv(10) == b"-+"


WORDS = st.sampled_from(
    ["?", "g", "G", "p", "P", "m", "M", "X", "Z", "z", "H", "T", "vCont;", "vCont?", "qXfer:features:read:target.xml:",
     "qXfer:threads:read::", "qRcmd,", "qThreadExtraInfo,", "QNonStop:", "vStopped", "qC", "s", "Zx", "qfThreadInfo"]
)  # fmt: skip
REST = st.text(st.sampled_from("0123456789abcdefcst,;:=-#$}*\x03xgZ"), max_size=30)


@pytest.mark.unit
@given(st.lists(st.tuples(WORDS, REST), max_size=20))
@settings(max_examples=10 if FEW else 60, deadline=None)
def test_whatever_a_debugger_sends_is_answered(packets: list[tuple[str, str]]) -> None:
    session = Machine(cores=1, threads=2).debug(made(*loop(50), *leave(0)))
    with served(session) as (client, ended):
        for word, rest in packets:
            data = binary((word + rest).encode())
            client.raw(b"$" + data + b"#%02x" % (sum(data) & 0xFF))
        client.raw(b"\x03$?#3f")
        client.reply()
    assert ended in (["over"], ["lost"], ["killed"], ["detached"])


# --- conversations ----------------------------------------------------------------------------------------------------


@pytest.mark.unit
@pytest.mark.parametrize("traced", [False, True])
def test_a_program_under_a_debugger_is_the_same_to_the_cycle(traced: bool) -> None:
    config = config_of("mutex", SHAPE).with_values(trace=TraceUnitConfig(enabled=traced))
    whole = Machine(config).run(program("mutex"))
    session = Machine(config).debug(program("mutex"))
    at = session.address("mutex_lock")
    with served(session) as (client, _):
        assert "vContSupported+" in client.ask("qSupported:swbreak+")
        assert client.ask("QStartNoAckMode") == "OK"
        assert client.ask("?") == "T05thread:1;"
        assert client.ask("qfThreadInfo") == "m1,2,3,4,5,6"
        assert client.ask(f"Z0,{at:x},4") == "OK"
        for _ in range(20):
            stop = client.ask("vCont;c")
            assert stop.startswith("T05thread:")
            hart = stop[len("T05thread:") : -1]
            assert client.ask(f"Hg{hart}") == "OK"
            assert client.ask("p20") == at.to_bytes(4, "little").hex()
            assert len(client.ask("g")) == 33 * 8
            assert client.ask(f"z0,{at:x},4") == "OK", "a debugger leaves a breakpoint like this"
            assert client.ask(f"vCont;s:{hart}") == f"T05thread:{hart};"
            assert client.ask(f"Z0,{at:x},4") == "OK"
        assert client.ask(f"z0,{at:x},4") == "OK"
        assert client.ask("vCont;c") == "W00"
    assert session.result().digest == whole.digest


@pytest.mark.unit
def test_a_store_to_watched_memory_is_reported_after_it() -> None:
    session = Machine(config_of("mutex", SHAPE)).debug(program("mutex"))
    place = next(name for name in sorted(session.names) if name == "counter" or name == "count")
    at = session.address(place)
    with served(session) as (client, _):
        assert client.ask(f"Z2,{at:x},4") == "OK"
        values = []
        for _ in range(5):
            assert client.ask("vCont;c").startswith(f"T05watch:{at:x};thread:")
            values.append(int.from_bytes(bytes.fromhex(client.ask(f"m{at:x},4")), "little"))
        assert client.ask("D") == "OK"
    assert values == sorted(values)
    assert values[-1] > values[0]


@pytest.mark.unit
def test_one_hart_is_stopped_while_the_others_run() -> None:
    session = Machine(cores=1, threads=2, boot="all").debug(made(*loop(1 << 30), *leave(3)))
    with served(session) as (client, ended):
        assert client.ask("QStartNoAckMode") == "OK"
        assert client.ask("QNonStop:1") == "OK"
        assert client.ask("?") == "T00thread:1;"
        assert client.ask("vStopped") == "OK"
        before = client.ask("g")
        while int(bytes.fromhex(client.ask("qRcmd," + b"cycle".hex()))) < 10_000:
            pass
        assert client.ask("g") == before
        client.tell("vCont;t:2")
        assert {client.reply(), client.reply()} == {"OK", "%Stop:T00thread:2;"}
        assert client.ask("vStopped") == "OK"
        client.tell("k")
    assert ended == ["killed"]
    result = session.result()
    check(result)
    first, second = (p.states.get("stopped", Cell()).time for p in result.ledger.processors)
    assert first > 9_000
    assert first + sum(c.time for s, c in result.ledger.processors[0].states.items() if s != "stopped") == result.cycles
    assert second < first


@pytest.mark.unit
def test_memory_and_registers_are_written_and_a_run_is_interrupted() -> None:
    session = Machine(cores=1, threads=1).debug(made(li(A0, 5), addi(A0, A0, 1), *loop(1 << 30)))
    with served(session) as (client, ended):
        assert client.ask("P0a=44332211") == "OK"
        assert client.ask("pa") == "44332211"
        assert client.ask(f"M{RAM + 0x1800:x},2:abcd") == "OK"
        assert client.ask(f"X{RAM + 0x1802:x},2:".encode() + binary(b"#}")) == "OK"
        assert client.ask(f"m{RAM + 0x1800:x},4") == "abcd237d"
        for wrong in ("m0,4", f"M{RAM:x},4:00", f"X{RAM:x},4:ab", "P20", "G00", "qXfer:features:read:target.xml:-1,f"):
            assert client.ask(wrong) == "E01", wrong
        for unknown in (f"Z9,{RAM:x},4", "qCRC:0,4"):
            assert client.ask(unknown) == "", unknown
        assert client.ask("qRcmd," + b"cycle".hex()) == b"0\n".hex()
        client.tell("c")
        client.raw(b"\x03")
        assert client.reply() == "T02thread:1;"
        assert client.ask("vKill;1") == "OK"
    assert ended == ["killed"]


@pytest.mark.unit
def test_a_debugger_that_is_gone_leaves_the_machine_standing_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """An endless program would run on for ever, with nobody there."""
    session = Machine(cores=1, threads=1).debug(made(jump(0)))
    server = listen(0)
    port = server.getsockname()[1]
    monkeypatch.setattr("headway_machine.commands.gdb.listen", lambda port: server)
    asked = threading.Event()
    ended: list[str] = []
    serving = threading.Thread(target=lambda: ended.append(serve_debugger(session, port, "prog.elf", asked.is_set)))
    serving.start()

    client = Client.to(port)
    assert client.ask(f"Z0,{RAM + 64:x},2") == "OK"
    client.tell("vCont;c")
    client.close()
    again = Client.to(port)
    assert again.ask("?").startswith("T05")
    stood = session.now
    assert session.breakpoints == frozenset()
    assert again.ask("qRcmd," + b"cycle".hex()) == f"{stood}\n".encode().hex()
    again.tell("vKill;1")
    assert again.reply() == "OK"
    serving.join(60)
    assert ended == ["killed"]
    again.close()


@pytest.mark.unit
def test_waiting_for_the_next_debugger_ends_when_the_user_asks_for_it() -> None:
    session = Machine(cores=1, threads=1).debug(made(jump(0)))
    asked = threading.Event()
    ended: list[str] = []
    serving = threading.Thread(target=lambda: ended.append(serve_debugger(session, 0, "prog.elf", asked.is_set)))
    serving.start()
    asked.set()
    serving.join(60)
    assert ended == ["interrupted"]


@pytest.mark.unit
def test_a_port_that_is_taken_is_refused() -> None:
    with listen(0) as server, pytest.raises(HeadwayError, match="cannot be listened on"):
        listen(server.getsockname()[1])


# --- GDB --------------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(shutil.which("gdb-multiarch") is None, reason="needs gdb-multiarch")
def test_gdb_stops_at_functions_and_sees_harts_as_threads(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "headway", "machine", "run", str(EXAMPLES / "mutex.elf")]
    command += ["--gdb", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        assert run.stderr is not None
        waiting = run.stderr.readline()
        assert "waiting for a debugger" in waiting
        (port,) = re.findall(r"target remote :(\d+)", waiting)
        script = tmp_path / "script.gdb"
        script.write_text(
            "set pagination off\nset confirm off\n"
            f"target remote :{port}\nbreak main\ncontinue\ninfo threads\nstepi\nstepi\nx/i $pc\nmonitor progress\n"
            "info registers mepc rpc\ndelete\ncontinue\n"
        )
        gdb = ["gdb-multiarch", "-nx", "-batch", "-x", str(script), str(EXAMPLES / "mutex.elf")]
        said = subprocess.run(gdb, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        report = run.stderr.read()
        run.wait()
    assert "hit Breakpoint 1, 0x" in said.stdout
    assert "in main ()" in said.stdout
    assert '"hart 5"' in said.stdout
    assert "hart          epc" in said.stderr
    assert "exited normally" in said.stdout
    whole = Machine().run(EXAMPLES / "mutex.elf")
    assert json.loads(report)["window"]["duration"] == whole.cycles, "no cycle was added"
