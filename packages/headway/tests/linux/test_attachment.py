"""Attaching to a running Python (PEP 768): what is read and written of any memory, the folder, and a real Python."""

from __future__ import annotations

import ctypes
import json
import os
import re
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from tests.newer_python import python3_14

from headway.commands import stat
from headway.linux.attachment import attach as attaching
from headway.linux.attachment.attach import _built, attach
from headway.linux.attachment.debugger import AttachError, Debugger, PythonThread
from headway.linux.attachment.folder import Folder
from headway.linux.attachment.process import ProcessMemory
from headway.linux.attachment.script import run
from headway.linux.symbols import python

# ---- the protocol, with any memory ----

RUNTIME, INTERPRETER, THREADS, END = 0x10000, 0x11000, (0x12000, 0x12800), 0x13000
"""Where they are; from the interpreter on, the memory may be written."""
TIDS = (4711, 4712)
SAID: dict[str, int] = {
    "version": 0x030E08F0,
    "free_threaded": 0,
    "runtime_size": 0x800,
    "runtime_interpreters": 0x400,
    "interpreter_size": 0x800,
    "interpreter_id": 16,
    "interpreter_next": 24,
    "interpreter_threads": 32,
    "thread_size": 0x400,
    "thread_next": 8,
    "thread_interpreter": 16,
    "thread_native_id": 24,
    "eval_breaker": 32,
    "support": 0x100,
    "enabled": 40,
    "pending": 0,
    "script": 4,
    "script_size": 512,
}
PLACES: Mapping[str, int] = python._layouts()[14]["attaching"]


class Fake:
    """The memory of a Python with two threads."""

    def __init__(self, said: Mapping[str, int] = SAID, *, debug: int = 1) -> None:
        self.bytes = bytearray(END - RUNTIME)
        self.written: list[tuple[int, int]] = []
        self.reads = 0
        self.put(RUNTIME, b"xdebugpy")
        for name, value in said.items():
            self.word(RUNTIME + PLACES[name], value)
        self.word(RUNTIME + SAID["runtime_interpreters"], INTERPRETER)
        self.word(INTERPRETER + SAID["interpreter_threads"], THREADS[0])
        self.put(INTERPRETER + SAID["enabled"], struct.pack("<i", debug))
        for address, following, tid in zip(THREADS, (THREADS[1], 0), TIDS, strict=True):
            self.word(address + SAID["thread_next"], following)
            self.word(address + SAID["thread_interpreter"], INTERPRETER)
            self.word(address + SAID["thread_native_id"], tid)
            self.word(address + SAID["eval_breaker"], 0x1201)

    def put(self, address: int, data: bytes) -> None:
        self.bytes[address - RUNTIME : address - RUNTIME + len(data)] = data

    def word(self, address: int, value: int) -> None:
        self.put(address, struct.pack("<Q", value))

    def read(self, address: int, size: int) -> bytes:
        self.reads += 1
        start = address - RUNTIME
        return bytes(self.bytes[start : start + size]) if 0 <= start <= len(self.bytes) else b""

    def write(self, address: int, data: bytes) -> None:
        assert self.is_writable(address, len(data))
        self.written.append((address, len(data)))
        self.put(address, data)

    def is_writable(self, address: int, size: int) -> bool:
        return address >= INTERPRETER and address + size <= END


def debugger(memory: Fake) -> Debugger:
    return Debugger(memory, 14, RUNTIME, lambda: TIDS)


def test_a_thread_is_asked_and_what_it_has_not_begun_is_withdrawn() -> None:
    memory = Fake()
    python = debugger(memory)
    assert [thread.tid for thread in python.threads()] == list(TIDS)
    thread = python.threads()[1]
    assert python.ask(thread, b"/tmp/a.py")
    assert memory.read(THREADS[1] + 0x100, 4 + 10) == struct.pack("<i", 1) + b"/tmp/a.py\0"
    assert memory.read(THREADS[1] + 32, 8) == struct.pack("<Q", 0x1221), "nothing but the flag has changed"
    assert not python.ask(thread, b"/tmp/b.py"), "somebody else's script is left alone"
    python.withdraw(thread, b"/tmp/b.py")
    assert python.is_asked(thread)
    python.withdraw(thread, b"/tmp/a.py")
    assert not python.is_asked(thread)
    with pytest.raises(ValueError, match="no path"):
        python.ask(thread, b"x" * 512)


@pytest.mark.parametrize(
    ("said", "debug", "words"),
    [
        ({}, 0, "does not allow"),
        ({"free_threaded": 1}, 1, "free-threaded"),
        ({"version": 0x030E00A1}, 1, "released"),
        ({"version": 0x030F00F0}, 1, "not known"),
        ({"eval_breaker": 0x3FC}, 1, "not known"),
        ({"eval_breaker": 0x108}, 1, "not known"),
        ({"script_size": 1 << 40}, 1, "not known"),
        ({"runtime_interpreters": 0x300}, 1, "main interpreter"),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(said: dict[str, int], debug: int, words: str) -> None:
    memory = Fake({**SAID, **said}, debug=debug)
    with pytest.raises(AttachError, match=words):
        debugger(memory)
    assert not memory.written


words_at = st.sampled_from([*range(0, 800, 8), 0x400, *range(0x1000, 0x1040, 8), *range(0x2000, 0x2030, 8)])
hostile = st.one_of(
    st.integers(0, (1 << 64) - 1),
    st.sampled_from([*THREADS, RUNTIME, INTERPRETER, END - 8, 0x400, 0x3F8]),
    st.sampled_from([*SAID.values()]),
)


@given(st.dictionaries(words_at, hostile, max_size=6))
def test_any_memory_is_read_in_bounded_time_and_written_in_a_thread_alone(changes: dict[int, int]) -> None:
    memory = Fake()
    for place, value in changes.items():
        memory.word(RUNTIME + place, value)
    try:
        python = debugger(memory)
    except AttachError:
        return
    size = int.from_bytes(memory.read(RUNTIME + PLACES["thread_size"], 8), "little")
    for thread in python.threads():
        del memory.written[:]
        if python.ask(thread, b"/tmp/a.py"):
            python.withdraw(thread, b"/tmp/a.py")
        assert all(thread.address <= at and at + n <= thread.address + size for at, n in memory.written)
    assert memory.reads < 50_000


def test_a_thread_that_is_gone_is_not_written_to() -> None:
    memory = Fake()
    python = debugger(memory)
    assert not python.ask(PythonThread(THREADS[0], 9), b"/tmp/a.py")
    memory.word(THREADS[0] + SAID["thread_interpreter"], 0)
    assert [thread.tid for thread in python.threads()] == [TIDS[1]]
    assert not python.ask(PythonThread(THREADS[0], TIDS[0]), b"/tmp/a.py")
    assert not memory.written


# ---- the folder, and the script ----


def test_the_folder_has_the_files_and_goes_without_a_trace() -> None:
    folder = Folder(os.getpid())
    try:
        folder.add("a.py", b"first")
        folder.add("b/c/d.py", b"second")
        place = Path(folder.path)
        assert (place / "b/c/d.py").read_bytes() == b"second"
        assert (place / "a.py").stat().st_mode & 0o777 == 0o600
        assert place.stat().st_mode & 0o22 == 0, "nobody else puts anything into it"
        assert folder.said() == ""
        (place / "said").write_text("done")
        assert folder.said() == "", "it may not be all of it"
        (place / "said").write_text("done\n")
        assert folder.said() == "done"
    finally:
        folder.remove()
    assert not place.exists()


def test_the_script_says_what_went_wrong_and_raises_nothing(tmp_path: Path) -> None:
    (tmp_path / "said").touch()
    before = list(sys.meta_path), sys.dont_write_bytecode
    run(str(tmp_path), "no such", "coroutine")
    assert "no such" in (tmp_path / "said").read_text()
    assert (list(sys.meta_path), sys.dont_write_bytecode) == before
    run(str(tmp_path / "gone"), "end", "coroutine")


def test_memory_that_others_see_or_that_is_read_only_is_not_written() -> None:
    memory = ProcessMemory(os.getpid())
    try:
        where = bytearray(b"abc")
        inside = (ctypes.c_char * 3).from_buffer(where)
        assert memory.is_writable(ctypes.addressof(inside), 3)
        code = ctypes.cast(ctypes.CDLL(None).getpid, ctypes.c_void_p).value or 0
        assert not memory.is_writable(code, 8)
        assert not memory.is_writable(0, 8)
    finally:
        memory.close()


# ---- a real Python ----

TICKING = """
import asyncio, sys, threading, time

async def work():
    end = time.monotonic_ns() + 1_000_000
    while time.monotonic_ns() < end: pass
    await asyncio.sleep(0.002)

async def main():
    while True:
        await asyncio.create_task(work())
        marked.value = asyncio.get_running_loop().get_task_factory() is not None

class marked: value = False

threading.Thread(target=asyncio.run, args=(main(),), daemon=True).start()
print("ready", flush=True)
for line in sys.stdin:
    time.sleep(0.05)
    print(marked.value, "headway" in sys.modules, flush=True)
"""
"""Its event loop is in a thread that is not the main one, which waits for a line most of the time."""
IDLE = """
import sys
print("ready", flush=True)
for line in sys.stdin:
    print("headway" in sys.modules, flush=True)
"""


@contextmanager
def running(python: str, *arguments: str) -> Iterator[tuple[int, IO[str], IO[str]]]:
    """A program that is ready: its process, and what it reads and writes."""
    with subprocess.Popen(
        [python, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdin
            assert process.stdout
            assert process.stderr
            assert process.stdout.readline() == "ready\n"
            yield process.pid, process.stdin, process.stdout
            process.stdin.close()
            assert process.wait(20) == 0
            assert process.stderr.read() == "", "the program says nothing that it would not say by itself"
        finally:
            process.kill()


OWN = re.compile("headway-[0-9a-f]{16}")


def folders() -> set[str]:
    """What is in the place for folders that a program reads."""
    return {name for name in os.listdir("/tmp") if OWN.fullmatch(name)}


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    """Meanwhile this child executes nothing."""
    os.kill(pid, signal.SIGSTOP)
    os.waitpid(pid, os.WUNTRACED)
    yield
    os.kill(pid, signal.SIGCONT)


def asked(stdin: IO[str], stdout: IO[str]) -> str:
    stdin.write("\n")
    stdin.flush()
    return stdout.readline().strip()


def test_what_runs_no_python_that_can_be_attached_to_is_left_alone() -> None:
    with subprocess.Popen(["sleep", "100"]) as process:
        try:
            assert attach(process.pid) is None
        finally:
            process.kill()


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="needs a Python before 3.14")
def test_an_older_python_is_refused() -> None:
    with running(sys.executable, "-c", IDLE) as (pid, _, _), pytest.raises(AttachError, match=r"3\.14 and later can"):
        attach(pid)


@pytest.fixture
def loadable() -> str:
    """A Python 3.14 that can load what is compiled here."""
    found = python3_14()
    try:
        _built("regions/_regions", 14)
    except AttachError as error:
        pytest.skip(str(error))
    return found


def test_one_that_does_not_allow_it_is_refused() -> None:
    with (
        running(python3_14(), "-X", "disable-remote-debug", "-c", IDLE) as (pid, _, _),
        pytest.raises(AttachError, match="does not allow"),
    ):
        attach(pid)


def test_a_program_that_waits_is_attached_to_when_it_goes_on(loadable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attaching, "PATIENCE", 0.3)
    with running(loadable, "-c", IDLE) as (pid, stdin, stdout):
        with stopped(pid):
            never = attach(pid)
            assert never is not None
            never.settle(time.monotonic() + 0.3)
            assert never.waits
            assert never.end(), "it has not begun"
        assert asked(stdin, stdout) == "False"
        with stopped(pid):
            later = attach(pid)
            assert later is not None
            later.settle(time.monotonic() + 0.3)
            assert later.waits
        asked(stdin, stdout)
        assert asked(stdin, stdout) == "True"
        with stopped(pid):
            assert not later.end()
        assert asked(stdin, stdout) == "True"


KILLED = """
import os, signal, sys, click
from headway.cli.attaching import attach_meanwhile
with click.Context(click.Command("stat")):
    attach_meanwhile([int(sys.argv[1])], only=True)
    print(*os.listdir("/tmp"), sep="\\n", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_nothing_is_left_where_headway_is_killed(loadable: str) -> None:
    before = folders()
    with running(loadable, "-c", TICKING) as (pid, stdin, stdout):
        done = subprocess.run([sys.executable, "-c", KILLED, str(pid)], capture_output=True, text=True, timeout=60)
        assert done.returncode == -signal.SIGKILL, done
        assert {name for name in done.stdout.split() if OWN.fullmatch(name)} - before
        until = time.monotonic() + 20
        while asked(stdin, stdout) != "False True" and time.monotonic() < until:
            pass
        assert asked(stdin, stdout) == "False True"
    while folders() - before and time.monotonic() < until:
        time.sleep(0.01)
    assert not folders() - before


@pytest.mark.root
@pytest.mark.kernel
def test_tasks_of_a_program_that_runs_are_measured_and_nothing_is_left(loadable: str, tmp_path: Path) -> None:
    before = folders()
    with running(loadable, "-c", TICKING) as (pid, stdin, stdout):
        assert asked(stdin, stdout) == "False False"
        out = tmp_path / "out"
        done = CliRunner().invoke(
            stat.command, ["-p", str(pid), "--python-tasks", "--json", "-d", "0.3", "-o", str(out)]
        )
        assert done.exit_code == 0, done.output
        assert asked(stdin, stdout) == "False True", "the loop's tasks are as before"
    document = json.loads(out.read_text())
    found = [task for thread in document["threads"] for task in thread.get("tasks", ())]
    assert any(task["title"] == "work" and task["changes"] > 2 for task in found), found
    assert not folders() - before
