"""Locks are named for what they are, in real programs and interpreters; nothing hostile confuses the naming."""

from __future__ import annotations

import glob
import os
import struct
import subprocess
import sys
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.compiling import PROGRAMS, Compile
from tests.effort import exhaustive

from headway.linux.procfs.maps import mappings
from headway.linux.symbols import futexes as module
from headway.linux.symbols.futexes import Interpreter, LockName, Locks
from headway.linux.syscalls.table import numbers

pytestmark = pytest.mark.kernel


@contextmanager
def running(*command: str | Path) -> Iterator[tuple[int, str]]:
    """A program that says a line when it is ready and ends when its input does: its id and the line."""
    process = subprocess.Popen(
        [str(word) for word in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield process.pid, process.stdout.readline()
    finally:
        process.kill()
        process.stdin.close()
        process.stdout.close()
        process.wait()


def waits(pid: int, least: int = 20, wanted: Collection[int] = ()) -> set[int]:
    """The futexes that threads of a process are found waiting at; at least so many findings, and these among them."""
    futex = str(numbers()["futex"])
    found = []
    for _ in range(20_000):
        for tid in os.listdir(f"/proc/{pid}/task"):
            with suppress(FileNotFoundError, ProcessLookupError):  # it has ended
                words = Path(f"/proc/{pid}/task/{tid}/syscall").read_text().split()
                if words[0] == futex:
                    found.append(int(words[1], 16))
        if len(found) >= least and found and set(wanted) <= set(found):
            return set(found)
        time.sleep(0.0005)
    pytest.fail("no thread was found waiting at a futex")


def pythons() -> list[Any]:
    """The interpreters that are installed here, each once."""
    places = [sys.executable, "/usr/bin/python3", *glob.glob("/root/.pyenv/versions/3.*/bin/python3")]
    places += glob.glob(os.path.expanduser("~/.pyenv/versions/3.*/bin/python3"))
    found: dict[str, str] = {}
    for place in places:
        if os.access(place, os.X_OK):
            found.setdefault(os.path.realpath(place), place)
    return [found.pop(os.path.realpath(sys.executable)), *exhaustive(*sorted(found.values()))]


def version_of(python: str) -> tuple[int, int]:
    text = subprocess.run([python, "-c", "import sys; print(*sys.version_info[:2])"], capture_output=True, text=True)
    major, minor = text.stdout.split()
    return int(major), int(minor)


def readable() -> None:
    if not os.access("/proc/self/syscall", os.R_OK):
        pytest.skip("/proc/PID/syscall may not be read here")


@pytest.mark.parametrize("python", pythons())
def test_threads_that_contend_for_the_gil_wait_at_what_is_called_the_gil(python: str) -> None:
    readable()
    version = version_of(python)
    if version < (3, 7):
        pytest.skip("before 3.7 there is no _PyRuntime to know the GIL by")
    with running(python, PROGRAMS / "gil_spinners.py") as (pid, _):
        names = Locks().names(pid, waits(pid))
        found = Locks().interpreter(pid)
    assert set(names.values()) == {LockName("Python's GIL", True)}
    assert found is not None
    assert (found.version, found.free_threaded, found.has_gil) == (version, False, True)


@pytest.mark.parametrize("python", pythons())
def test_a_lock_of_a_python_program_is_not_its_gil(python: str) -> None:
    readable()
    with running(python, PROGRAMS / "held_lock.py") as (pid, _):
        waits(pid)  # until what the start waited for is over
        names = Locks().names(pid, waits(pid))
    assert names
    assert not any(name.is_gil for name in names.values()), names


@pytest.mark.parametrize("python", pythons())
def test_the_gil_of_a_sub_interpreter_is_a_gil_too(python: str) -> None:
    readable()
    if version_of(python) < (3, 13):
        pytest.skip("before 3.13 the interpreter does not tell where the GIL of a sub-interpreter is")
    with running(python, PROGRAMS / "own_gil.py") as (pid, _):
        names = Locks().names(pid, waits(pid))
        gils = [address for address, name in names.items() if name.is_gil]
        files = [m.path for m in mappings(pid) for gil in gils if m.start <= gil < m.end]
    assert gils, names
    assert not any("python" in path for path in files), "it has memory of its own"


def test_mutexes_are_named_by_the_symbol_or_the_memory_that_they_are_in(compile_c: Compile) -> None:
    program = compile_c("mutexes")
    with running(program) as (pid, line):
        account, hidden, heap, stack, shared = places = [int(word, 16) for word in line.split()[:5]]
        assert set(places) <= waits(pid, wanted=places)
        names = {address: name.text for address, name in Locks().names(pid, places).items()}
    assert names[account] == "mutexes: account+0x10"
    assert names[hidden] == "mutexes: hidden"
    assert names[heap] == f"heap {heap:#x}"
    assert names[stack] == f"stack of thread {pid} {stack:#x}"
    assert names[shared].startswith("/dev/zero+")


def test_data_that_is_zero_at_the_start_has_symbols_though_no_file_is_mapped_there(
    compile_c: Compile,
) -> None:
    program = compile_c("mutexes")
    with running(program) as (pid, line):
        large = int(line.split()[5], 16)
        assert all(not m.inode for m in mappings(pid) if m.start <= large < m.end)
        name = Locks().name(pid, large)
    assert name == LockName(f"mutexes: large+{30_000 * 8:#x}", False)


def test_a_thread_joined_is_waited_for_on_its_stack(compile_c: Compile) -> None:
    readable()
    with running(compile_c("joining")) as (pid, _):
        (address,) = waits(pid, 1)
        (other,) = (int(tid) for tid in os.listdir(f"/proc/{pid}/task") if int(tid) != pid)
        name = Locks().name(pid, address)
    assert name == LockName(f"stack of thread {other} {address:#x}", False)


def test_a_program_that_was_deleted_keeps_its_names(compile_c: Compile, tmp_path: Path) -> None:
    if os.geteuid():
        pytest.skip("only root may follow the kernel's link to a deleted file")
    copy = tmp_path / "gone"
    copy.write_bytes(compile_c("mutexes").read_bytes())
    copy.chmod(0o755)
    with running(copy) as (pid, line):
        copy.unlink()
        name = Locks().name(pid, int(line.split()[0], 16))
    assert name == LockName("gone: account+0x10", False)


def test_what_is_not_there_has_no_name() -> None:
    locks = Locks()
    assert locks.name(os.getpid(), 0) is None
    assert locks.name(os.getpid(), 1 << 63) is None
    assert locks.name(os.getpid(), -1) is None
    assert locks.name(2**22 + 1, 4096) is None
    assert locks.interpreter(2**22 + 1) is None


def test_a_program_that_is_no_python_is_none(compile_c: Compile) -> None:
    with running(compile_c("mutexes")) as (pid, _):
        assert Locks().interpreter(pid) is None


# ---- the offsets that the interpreter tells ----


def table(*, free_threaded: bool, extra: int, gil: int = 90_000) -> bytes:
    """The beginning of a runtime, as of 3.13 (``extra`` 0), or with words that later releases put in."""
    first = 8 if free_threaded else 0
    interpreter = [200_000, 8, 16, 24, *[32] * extra, 40, 48, 56, 64, 72]
    words = [0x30E00F0, int(free_threaded), 300_000, 8, 640, *interpreter, gil, 0, gil + first + 16, gil + first + 8]
    return b"xdebugpy" + struct.pack(f"<{len(words)}Q", *words) + bytes(400)


@pytest.mark.parametrize("free_threaded", [False, True])
@pytest.mark.parametrize("extra", [0, 1, 3])
def test_the_gil_is_found_in_the_table_of_any_release(free_threaded: bool, extra: int) -> None:
    found = module._offsets(table(free_threaded=free_threaded, extra=extra))
    assert found is not None
    assert found.free_threaded is free_threaded
    assert (found.interpreters, found.next, found.gil_pointer, found.gil) == (640, 16, 72, 90_000)


@given(st.binary(max_size=600))
def test_a_table_that_lies_is_no_table(noise: bytes) -> None:
    assert module._offsets(noise) is None
    found = module._offsets(b"xdebugpy" + noise)
    assert found is None or found.gil > 0


@pytest.mark.parametrize("enabled", [False, True])
def test_a_build_without_a_gil_is_told_and_whether_it_switched_one_on(compile_c: Compile, enabled: bool) -> None:
    program = compile_c("free_threaded")
    with running(program, *["x"] * enabled) as (pid, line):
        gil, other, stack = (int(word, 16) for word in line.split())
        names = Locks().names(pid, [gil, other, stack])
        assert Locks().interpreter(pid) == Interpreter(str(program), (3, 13), True, enabled)
    assert names[gil].is_gil
    assert not names[other].is_gil
    assert names[other].text.startswith("free_threaded: _PyRuntime+")
    assert "object's lock" in names[stack].text
