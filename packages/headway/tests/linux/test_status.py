"""What /proc says of a thread by name, of threads that call themselves whatever they like."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.linux.placement.controls import Controls
from headway.linux.procfs.ids import ids_inwards, process_of
from headway.linux.procfs.status import status


def fake(folder: Path, text: bytes) -> Path:
    """A directory of a thread, in a /proc of its own."""
    thread = folder / "4711"
    thread.mkdir(exist_ok=True)
    (thread / "status").write_bytes(text)
    return thread


@pytest.mark.parametrize(
    "name", ["x\rTgid:\t1", "x\x0bTgid:\t1", "x\x85Tgid:\t1", "\rNSpid:\t1", "x\nTgid:\t1", "Tgid:\t1"]
)
def test_no_name_makes_a_thread_another_processs(name: str) -> None:
    asked, done = threading.Event(), threading.Event()
    tids: list[int] = []

    def run() -> None:
        Path("/proc/thread-self/comm").write_bytes(name.encode("latin-1"))
        tids.append(threading.get_native_id())
        asked.set()
        done.wait()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        assert asked.wait(10)
        (tid,) = tids
        assert process_of(tid) == Controls().process_of(tid) == os.getpid()
        assert ids_inwards(f"/proc/{tid}")[0] == tid
    finally:
        done.set()
        thread.join()


def test_one_that_is_not_there_has_nothing() -> None:
    assert status("/proc/4194304") == {}
    assert process_of(4194304) is None
    assert ids_inwards("/proc/4194304") == []


def test_a_process_is_found_by_an_open_directory() -> None:
    fd = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY)
    try:
        assert process_of(os.getpid(), proc="", dir_fd=fd) == os.getpid()
    finally:
        os.close(fd)


@given(st.binary(max_size=300))
def test_any_bytes_are_survived_and_the_first_of_a_name_counts(
    tmp_path_factory: pytest.TempPathFactory, text: bytes
) -> None:
    folder = tmp_path_factory.getbasetemp()
    thread = fake(folder, b"Tgid:\t12\nNSpid:\t12\t7\n" + text)
    assert process_of(4711, proc=folder) == 12
    assert ids_inwards(str(thread)) == [12, 7]
    fake(folder, text)
    assert (process_of(4711, proc=folder) or 0) >= 0
