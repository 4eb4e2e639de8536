"""`headway.progress` and ``headway_progress`` without a kernel: what a process makes of an observer's memory.

The observer here is a test: it writes the memory that the eBPF programs write otherwise, true or not.
"""

from __future__ import annotations

import mmap
import os
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Self

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.regions.conftest import Compile

import headway
from headway.errors import HeadwayError
from headway.linux.bpf.shared import layout
from headway.linux.bpf.shared._layout import CONSTANTS, STRUCTURES
from headway.linux.regions import _block_layout
from headway.linux.sources.ebpf import publication
from headway.linux.sources.ebpf.publication import SOCKET, Publication
from headway.regions import Progress

pytestmark = pytest.mark.end_to_end

ENTRIES, SIZE = 8, layout.size_of("published_thread")
HEAD = layout.packing("publication", "magic", "version", "entry_size", "entries", "kernel_known", "until")
FIELDS = (
    "tid", "pid_namespace", "birth", "sequence", "kind", "since", "deferred", "times", "regions", "open_region",
    "marked",
)  # fmt: skip
ENTRY = layout.packing("published_thread", *FIELDS)
KINDS = layout.PUBLISHED_KINDS
ON, EVER = ("effective", "kernel", "poll", "undivided"), (1 << 64) - 1
NAMESPACE = os.stat("/proc/self/ns/pid").st_ino
NOBODY = "import headway; assert headway.progress() is None; assert headway.progress() is None"


class Observer:
    """Publishes what a test writes, at a socket of its own, for as long as the ``with`` block lasts."""

    def __init__(self, folder: Path, *, measured: bool = True, size: int = ENTRIES * SIZE, units: int = 0) -> None:
        fd = os.memfd_create("published")
        os.ftruncate(fd, max(size, mmap.PAGESIZE))
        self.memory, self._fd = mmap.mmap(fd, 0), fd
        self.path, self.asked, self.ended = folder / "progress", list[int](), 0
        self._measured, self._over, self._units = measured, threading.Event(), units
        self.head()

    def head(self, **changes: int) -> None:
        """Write the first entry."""
        values = {
            "magic": layout.PUBLICATION_MAGIC,
            "version": layout.PUBLICATION_VERSION,
            "entry_size": SIZE,
            "entries": ENTRIES,
            "kernel_known": 1,
            "until": EVER,
        } | changes
        self.memory[:SIZE] = HEAD.pack(*values.values())

    def thread(self, place: int, tid: int, **changes: int) -> None:
        """Write an entry: by default the thread was born a second ago, and runs its own code since then."""
        now = time.monotonic_ns()
        values = dict.fromkeys(FIELDS, 0) | {"tid": tid, "pid_namespace": NAMESPACE, "birth": now - 10**9}
        values |= {"since": now - 10**9, "kind": KINDS["effective"]} | changes
        arrays = {"times": [values.get(kind, 0) for kind in (*KINDS, "none")][:8], "regions": [0, 0]}
        flat = [word for field in FIELDS for word in arrays.get(field, [values[field]])]
        self.memory[place * SIZE : (place + 1) * SIZE] = ENTRY.pack(*flat)

    def __enter__(self) -> Self:
        self._publication = Publication(
            self.path, lambda user: self._fd, ENTRIES, self._is_measured, self._end, self._units
        )
        self._serving = threading.Thread(target=self._serve)
        self._serving.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._serving.join()
        self._publication.close()
        self._publication.close()
        os.close(self._fd)

    def _serve(self) -> None:
        while not self._over.wait(0.001):
            self._publication.answer()

    def _is_measured(self, pid: int, user: int) -> bool:
        self.asked.append(pid)
        return self._measured

    def _end(self) -> None:
        self.ended += 1
        self.head(until=0)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder whose path is short enough for a socket."""
    with tempfile.TemporaryDirectory(prefix="hw") as path:
        yield Path(path)


@pytest.fixture(scope="module")
def observer() -> Iterator[Observer]:
    """Who measures this thread."""
    with tempfile.TemporaryDirectory(prefix="hw") as path, pytest.MonkeyPatch.context() as patch:
        found = Observer(Path(path))
        patch.setenv(SOCKET, str(found.path))
        with found:
            found.thread(3, threading.get_native_id())
            deadline = time.monotonic() + 200
            while headway.progress() is None:
                assert time.monotonic() < deadline, "it is never found"
                time.sleep(0.05)
            yield found
        assert headway.progress() is None, "it ended"


def python(code: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run Python code in a process that asks in this folder."""
    environment = {**os.environ, SOCKET: str(folder / "progress"), **environment}
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=250)


def test_both_headers_have_the_same_structures() -> None:
    for ours in ("publication", "published_thread", "published_states", "published_tag"):
        size, fields = STRUCTURES[ours]
        assert _block_layout.STRUCTURES[f"headway_{ours}"] == (size, fields)
    for name, n in {
        "PUBLISHED_STATES": layout.PUBLISHED["N_PUBLISHED_STATES"],
        "UNIT_CELLS": layout.PUBLISHED["UNIT_CELLS"],
        "UNIT_TAGS": layout.PUBLISHED["UNIT_TAGS"],
        "UNIT_NAMES": layout.PUBLISHED["UNIT_NAMES"],
        "ABSENT": CONSTANTS["PUBLISHED_ABSENT"],
        "COUNT_BITS": CONSTANTS["COUNT_BITS"],
    }.items():
        assert _block_layout.CONSTANTS[f"HEADWAY_{name}_"] == n
    assert _block_layout.CONSTANTS["HEADWAY_PUBLICATION_MAGIC_"] == layout.PUBLICATION_MAGIC
    assert _block_layout.CONSTANTS["HEADWAY_PUBLICATION_VERSION_"] == layout.PUBLICATION_VERSION
    for name, n in KINDS.items():
        assert _block_layout.CONSTANTS[f"HEADWAY_{name.upper()}_"] == n


def test_where_nobody_measures_it_says_so(folder: Path) -> None:
    assert python(NOBODY, folder).returncode == 0
    assert python(NOBODY, folder, **{SOCKET: "x" * 200}).returncode == 0
    (folder / "progress").write_text("no socket")
    assert python(NOBODY, folder).returncode == 0


@given(
    st.fixed_dictionaries({name: st.integers(0, 1 << 40) for name in KINDS}),
    st.sampled_from([*KINDS]),
    st.integers(0, 1 << 30),
    st.integers(0, 1 << 20),
    st.booleans(),
)
def test_figures_are_what_was_charged_and_what_goes_on(
    observer: Observer, times: dict[str, int], kind: str, ago: int, deferred: int, kernel_known: bool
) -> None:
    since = time.monotonic_ns() - ago
    birth = since - sum(times.values()) - 12345  # the observer took the rest
    observer.head(kernel_known=kernel_known)
    observer.thread(
        3, threading.get_native_id(), birth=birth, since=since, kind=KINDS[kind], deferred=deferred, sequence=7, **times
    )
    before = time.monotonic_ns()
    found = headway.progress()
    after = time.monotonic_ns()
    assert isinstance(found, Progress)
    assert found.since == birth
    assert before <= found.at <= after
    span = found.at - since
    deferred = min(deferred, span)
    expected = dict(times)
    expected["kernel"] += deferred
    expected[kind] += span - deferred
    assert found.rpi == sum(expected[name] for name in ON)
    assert found.ready == expected["ready"]
    assert found.wait == expected["wait"]
    assert found.rpi + found.ready + found.wait + found.other == found.at - found.since
    whole = not expected["undivided"]
    assert found.epi == (expected["effective"] if whole else None)
    assert found.kpi == (expected["kernel"] if whole and kernel_known else None)
    assert found.iopi == (expected["poll"] if whole else None)


@given(st.binary(min_size=SIZE - 8, max_size=SIZE - 8))
def test_whatever_the_memory_has_does_no_harm(observer: Observer, content: bytes) -> None:
    observer.thread(3, threading.get_native_id())
    observer.memory[3 * SIZE + 8 : 4 * SIZE] = content
    found = headway.progress()
    assert found is None or isinstance(found, Progress)


def test_an_entry_of_another_thread_is_not_believed(observer: Observer) -> None:
    mine = threading.get_native_id()
    observer.thread(3, mine)
    assert headway.progress() is not None
    for changes in ({"tid": mine + 1}, {"pid_namespace": NAMESPACE ^ 1}, {"birth": 0}, {"kind": 7}):
        observer.thread(3, **{"tid": mine} | changes)
        assert headway.progress() is None
    observer.thread(3, mine)
    deadline = time.monotonic() + 200
    while headway.progress() is None:
        assert time.monotonic() < deadline, "it is never found again"
        time.sleep(0.05)


def test_a_child_does_not_take_its_parents_figures_for_its_own(observer: Observer) -> None:
    observer.thread(3, threading.get_native_id())
    assert headway.progress() is not None
    child = os.fork()
    if not child:
        os._exit(headway.progress() is not None)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_another_thread_has_its_own_entry(observer: Observer) -> None:
    found: list[Progress | None] = []

    def read() -> None:
        found.append(headway.progress())
        observer.thread(5, threading.get_native_id(), ready=77)
        deadline = time.monotonic() + 200
        while (mine := headway.progress()) is None and time.monotonic() < deadline:
            time.sleep(0.05)
        found.append(mine)

    thread = threading.Thread(target=read)
    thread.start()
    thread.join()
    assert found[0] is None
    assert found[1] is not None
    assert found[1].ready == 77


WRONG_HEADS = [{"magic": 1}, {"version": 2}, {"entries": 3}, {"until": 5}]


@pytest.mark.parametrize("head", WRONG_HEADS, ids=lambda head: next(iter(head)))
def test_memory_that_is_not_as_the_answer_says_is_not_used(folder: Path, head: dict[str, int]) -> None:
    with Observer(folder) as other:
        other.head(**head)
        assert python(NOBODY, folder).returncode == 0
        assert len(other.asked) == 1


def test_a_process_that_is_not_measured_gets_nothing(folder: Path) -> None:
    with Observer(folder, measured=False) as other:
        assert python(NOBODY, folder).returncode == 0
        assert len(other.asked) == 1


def test_an_observer_that_does_not_answer_delays_a_process_little(folder: Path) -> None:
    """It asks once a second, however often the program calls."""
    publisher = Publication(folder / "progress", lambda user: 0, ENTRIES, lambda pid, user: False, lambda: None)
    code = f"{NOBODY}\nfor i in range(100000): assert headway.progress() is None"
    assert python(code, folder).returncode == 0
    publisher.close()


def answer(magic: bytes = b"hwpansr1", version: int = 1, size: int = SIZE, entries: int = ENTRIES) -> bytes:
    """What an observer sends."""
    return magic + struct.pack("=IIII", version, size, entries, 0)


HOSTILE = {
    "nothing": (b"", 0),
    "no descriptor": (answer(), 0),
    "two descriptors": (answer(), 2),
    "three descriptors": (answer(), 3),
    "half an answer": (answer()[:12], 1),
    "another magic number": (answer(b"hwpansr2"), 1),
    "another version": (answer(version=2), 1),
    "another size": (answer(size=64), 1),
    "no entries": (answer(entries=1), 1),
    "too many entries": (answer(entries=1 << 31), 1),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_answer_leaves_nothing_open(folder: Path, kind: str) -> None:
    said, descriptors = HOSTILE[kind]
    code = """
import os, headway
headway.current_task()
before = os.listdir("/proc/self/fd")
assert headway.progress() is None
assert os.listdir("/proc/self/fd") == before
"""
    with socket.socket(socket.AF_UNIX) as server, open(os.devnull, "rb") as file:
        server.bind(str(folder / "progress"))
        server.listen()
        with subprocess.Popen(
            [sys.executable, "-c", code], env={**os.environ, SOCKET: f"{folder}/progress"}
        ) as program:
            peer, _ = server.accept()
            with peer, suppress(BrokenPipeError):  # it does not wait for long
                if descriptors:
                    socket.send_fds(peer, [said], [file.fileno()] * descriptors)
                else:
                    peer.send(said)
        assert program.returncode == 0


SAYS = """
import headway, time
for i in range(600):
    if mine := headway.progress(): break
    time.sleep(0.05)
print("measured", mine.ready, flush=True)
for i in range(600):
    if headway.progress() is None: break
    time.sleep(0.01)
else: raise SystemExit(1)
print("nobody", flush=True)
"""


def test_a_program_finds_an_observer_that_comes_later_and_the_next_one(folder: Path) -> None:
    environment = {**os.environ, SOCKET: str(folder / "progress")}
    with subprocess.Popen(
        [sys.executable, "-c", SAYS * 2], env=environment, stdout=subprocess.PIPE, text=True
    ) as program:
        assert program.stdout is not None
        for ready in (11, 22):
            with Observer(folder) as observer:
                observer.thread(2, program.pid, ready=ready)
                assert program.stdout.readline() == f"measured {ready}\n"
            assert observer.ended == 1, "that it ends is said once"
            assert program.stdout.readline() == "nobody\n"
    assert program.returncode == 0


def test_a_program_in_c_reads_its_entry(compile_marked: Compile, folder: Path) -> None:
    program = compile_marked("own_progress_once.c", flags=("-std=gnu11",))
    with Observer(folder) as observer:
        environment = {**os.environ, SOCKET: str(observer.path)}
        with subprocess.Popen([program, "-", "others"], env=environment, stdout=subprocess.PIPE, text=True) as running:
            observer.thread(1, running.pid)
            said = running.communicate(timeout=250)[0]
    first = said.split()
    assert first[0] == "main"
    assert first[1] == "1"


# ---- who publishes ----


def test_only_one_observer_publishes_at_a_path(folder: Path) -> None:
    with Observer(folder) as first:
        with pytest.raises(HeadwayError, match=r"another headway publishes at .*: end it, or let HEADWAY_PROGRESS"):
            Observer(folder).__enter__()
        assert first.path.is_socket()
    assert not first.path.exists()
    with Observer(folder):
        pass


def test_what_a_killed_observer_left_behind_is_replaced(folder: Path) -> None:
    code = f"""
from headway.linux.sources.ebpf.publication import Publication
from pathlib import Path
import os, signal
Publication(Path({str(folder / "progress")!r}), lambda user: 0, 2, lambda pid, user: False, lambda: None)
os.kill(os.getpid(), signal.SIGKILL)
"""
    assert python(code, folder).returncode == -9
    assert (folder / "progress").is_socket()
    with Observer(folder) as observer:
        assert observer.path.is_socket()


def test_a_file_that_is_no_socket_stays(folder: Path) -> None:
    (folder / "progress").write_text("mine")
    with pytest.raises(HeadwayError, match=r"threads cannot be told their progress at .*: let HEADWAY_PROGRESS name"):
        Observer(folder).__enter__()
    assert (folder / "progress").read_text() == "mine"


def test_a_path_that_cannot_be_used_is_refused_in_a_sentence(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SOCKET, str(folder / ("x" * 120)))
    with pytest.raises(HeadwayError, match="too long for the path of a socket"):
        publication.socket_path()
    with pytest.raises(HeadwayError, match="No such file or directory"):
        Observer(folder / "nowhere").__enter__()


def test_a_folder_that_others_can_write_is_refused(folder: Path) -> None:
    folder.chmod(0o777)
    with pytest.raises(HeadwayError, match="is not a folder that only this user can write"):
        publication._make_own_folder(folder)
    (folder / "link").symlink_to(folder)
    with pytest.raises(HeadwayError, match="is not a folder that only this user can write"):
        publication._make_own_folder(folder / "link")
    publication._make_own_folder(folder / "fresh")
    assert (folder / "fresh").stat().st_mode & 0o777 == 0o755


def test_observers_and_programs_meet_in_a_folder_of_roots(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So do a service, and those who look for it, if root gave the folder to its user."""
    monkeypatch.delenv(SOCKET, raising=False)
    header = (Path(headway.get_include()) / "headway.h").read_text()
    assert f'"{publication._OF_ROOT}/socket"' in header
    (folder / "own").mkdir(mode=0o755)
    monkeypatch.setattr(publication, "_OF_ROOT", folder / "own")
    assert publication.socket_path() == folder / "own" / "socket"
