"""What can run out does, once, at each place that asks for it: threads, processes, descriptors, memory, disk, eBPF.

``tests/programs/exhausted.c`` is preloaded, and has the n-th call of a kind fail. Whatever it is: headway ends with the
status of the command or its own, says a sentence at most about it, and leaves no process and no part of a file.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.compiling import PROGRAMS, built_once, compiler
from tests.effort import FEW

ARMED = "import ctypes; from headway.commands import main; ctypes.CDLL(None).exhaust_from_now(); main()"
KINDS = {
    "bpf": errno.ENOMEM,
    "epoll_create": errno.EMFILE,
    "eventfd": errno.EMFILE,
    "fork": errno.EAGAIN,
    "fsync": errno.EDQUOT,
    "ftruncate": errno.ENOSPC,
    "memfd_create": errno.EMFILE,
    "mkdir": errno.ENOSPC,
    "mmap": errno.ENOMEM,
    "open": errno.EMFILE,
    "perf_event_open": errno.EMFILE,
    "pidfd_open": errno.EMFILE,
    "pipe": errno.EMFILE,
    "pthread_create": errno.EAGAIN,
    "socket": errno.EMFILE,
    "write": errno.ENOSPC,
}
"""The errno with which each kind of call fails."""
OUTPUT = "report.json"
COMMANDS = {
    "stat": ["stat", "--json", "-q", "-o", OUTPUT],
    "stat by /proc": ["stat", "--source", "proc", "--json", "-q", "-o", OUTPUT],
    "record": ["record", "-q", "-o", "run.hw"],
    "serve": ["serve", "--source", "proc", "-q", "--listen", "127.0.0.1:0"],
}
MEASURED = ["sh", "-c", "echo ran; exit 3"]
BY_LIBRARIES = ("<jemalloc>:",)
"""What libraries say by themselves."""
SLOW = {("stat", "bpf", 4), ("record", "bpf", 4)}
"""libbpf cannot find out then whether the kernel verifies functions one by one, and the kernel verifies for minutes."""
BY_PYTHON = {("record", "mmap")}
"""Python's import of NumPy ends with a SystemError of the interpreter where there is no memory."""


class Ended(NamedTuple):
    """How headway ended, and what it left."""

    failed: bool
    """Whether there was an n-th call."""
    status: int
    output: str
    errors: str
    processes: list[int]
    files: list[str]


@pytest.fixture(scope="module")
def library(shared_folder: Path) -> Path:
    words: list[str | Path] = [compiler(), "-O1", "-Wall", "-Werror", "-shared", "-fPIC", PROGRAMS / "exhausted.c"]
    return built_once(shared_folder, words, "exhausted.so")


def run(library: Path, folder: Path, which: str, kind: str, n: int) -> Ended:
    """Run headway; the n-th call of this kind fails."""
    place = folder / f"{kind}-{n}"
    place.mkdir()
    seen = os.memfd_create("seen", 0)
    settings = {"EXHAUSTED": f"{kind}:{n}:{KINDS[kind]}:{seen}", "LD_PRELOAD": str(library)}
    process = subprocess.Popen(
        [sys.executable, "-c", ARMED, *COMMANDS[which], "--", *MEASURED],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **settings},
        cwd=place,
        text=True,
        process_group=0,
        pass_fds=[seen],
    )
    try:
        output, errors = process.communicate(timeout=100)
    finally:
        left = list(living(process.pid))
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    files = sorted(path.name for path in place.iterdir())
    failed = os.fstat(seen).st_size > 0
    os.close(seen)
    return Ended(failed, process.returncode, output, errors, left, files)


def living(group: int) -> Iterator[int]:
    """The processes of a group that are no zombies, after those had a moment that are about to end."""
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            deadline = time.monotonic() + 20
            while (fields := (path / "stat").read_text(errors="replace").rpartition(")")[2].split())[2] == str(group):
                if fields[0] in "ZX":
                    break
                if time.monotonic() > deadline:
                    yield int(path.name)
                    break
                time.sleep(0.01)


def check(which: str, place: Path, found: Ended) -> None:
    """The laws that hold whatever has run out."""
    said = [line for line in found.errors.splitlines() if not line.startswith(BY_LIBRARIES)]
    assert "Traceback" not in found.errors
    assert all(line.startswith("headway: ") for line in said), said
    assert found.processes == []
    assert found.status in (3, 125), found
    if found.status == 125:
        assert len(said) <= 1 + (which == "serve"), said  # one of each process
        assert said
        assert OUTPUT not in found.files
    else:
        assert found.output == "ran\n"
    assert set(found.files) <= {OUTPUT, "run.hw"}, "no file that was begun is left"
    if OUTPUT in found.files:
        assert json.loads((place / OUTPUT).read_text())["command"] == MEASURED


def numbers() -> Iterator[int]:
    """Which calls fail: each of the first, and then every seventh, because what is asked for often is in loops."""
    yield from range(1, 60)
    yield from count(60, 7)


def all_of_a_kind(library: Path, folder: Path, which: str, kind: str) -> None:
    """Have each of these calls fail, until there are no more."""
    for n in numbers():
        if (which, kind, n) in SLOW:
            continue
        found = run(library, folder, which, kind, n)
        try:
            check(which, folder / f"{kind}-{n}", found)
        except AssertionError as error:
            raise AssertionError(f"{which}: {kind} {n}: {error}\n{found}") from None
        if not found.failed:
            return


SAMPLED = [
    pytest.param("stat", "pthread_create", 2, marks=pytest.mark.root),
    pytest.param("stat", "pthread_create", 3, marks=pytest.mark.root),
    pytest.param("stat", "fork", 2, marks=pytest.mark.root),
    pytest.param("stat", "bpf", 30, marks=pytest.mark.root),
    pytest.param("stat", "perf_event_open", 2, marks=pytest.mark.root),
    ("stat by /proc", "fork", 1),
    ("stat by /proc", "pidfd_open", 1),
    ("stat by /proc", "open", 20),
    ("stat by /proc", "mmap", 3),
    ("stat by /proc", "write", 1),
    ("serve", "fork", 1),
]
"""The sentences and the ways out that are there for this, and some of the rest."""


@pytest.mark.parametrize(("which", "kind", "n"), SAMPLED)
def test_what_has_run_out_is_said_in_a_sentence_and_nothing_is_left(
    which: str, kind: str, n: int, library: Path, tmp_path: Path
) -> None:
    found = run(library, tmp_path, which, kind, n)
    check(which, tmp_path / f"{kind}-{n}", found)
    assert found.failed, "there is no such call any more: choose another"


@pytest.mark.root
@pytest.mark.exhaustive
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("which", COMMANDS)
def test_whatever_has_run_out_wherever_it_is_asked_for(which: str, kind: str, library: Path, tmp_path: Path) -> None:
    if (which, kind) in BY_PYTHON:
        pytest.skip("Python itself fails where it imports NumPy without memory")
    all_of_a_kind(library, tmp_path, which, kind)


@pytest.mark.root
@pytest.mark.parametrize("n", [1, 2, 3][: 1 if FEW else None])
def test_without_threads_it_is_measured_exactly_all_the_same(
    n: int, library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(COMMANDS, "stat by eBPF", [*COMMANDS["stat"], "--source", "bpf"])
    found = run(library, tmp_path, "stat by eBPF", "pthread_create", n)
    if found.status == 125:  # it was the one thread without which prices cannot be found
        assert "the process that headway calibrates with has no thread" in found.errors
        return
    assert (found.status, found.errors) == (3, "")
    assert json.loads((tmp_path / f"pthread_create-{n}" / OUTPUT).read_text())["source"] == "bpf"


def test_a_process_that_cannot_be_started_is_said_with_what_to_do(library: Path, tmp_path: Path) -> None:
    found = run(library, tmp_path, "stat by /proc", "fork", 1)
    assert (found.status, found.output) == (125, "")
    assert found.errors == (
        "headway: no process can be started: raise the limit of processes (pids.max of the control group, ulimit -u)\n"
    )


def test_the_command_does_not_get_what_keeps_libraries_from_starting_threads() -> None:
    words = [sys.executable, "-m", "headway", "stat", "--source", "proc", "-q", "-o", os.devnull, "--", "env"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=200, check=True)
    assert ("OPENBLAS_NUM_THREADS" in done.stdout) is ("OPENBLAS_NUM_THREADS" in os.environ)
