"""Samples of real threads, as the kernel leaves them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO

import numpy
import pytest
from tests.compiling import Compile

from headway.errors import HeadwayError, SelectionError
from headway.linux.perf.perf_event import HARDWARE, Event
from headway.linux.perf.sample_buffer import CPU_CLOCK, DEFAULT_FIELDS, FIELDS, PerfBuffer, Sampling, Tray
from headway.linux.perf.thread_buffers import SampledThreads

pytestmark = pytest.mark.kernel

USER_CLOCK = replace(CPU_CLOCK, exclude_kernel=True, exclude_hv=True)


def burn(ns: int) -> None:
    end = time.thread_time_ns() + ns
    while time.thread_time_ns() < end:
        pass


def open_buffer(tid: int, sampling: Sampling) -> PerfBuffer:
    try:
        return PerfBuffer(tid, sampling)
    except HeadwayError as error:
        pytest.skip(f"no samples here: {error}")


def test_a_thread_is_sampled_while_it_runs() -> None:
    opened = time.monotonic_ns()
    buffer, tray = open_buffer(threading.get_native_id(), Sampling(USER_CLOCK, frequency=1000)), Tray()
    burn(30_000_000)
    assert buffer.look() > 0
    assert 0 < buffer.cpu_time() < time.monotonic_ns() - opened
    assert buffer.drain(tray) == len(tray)
    buffer.close(tray)
    found = tray.samples(DEFAULT_FIELDS)
    assert buffer.samples == len(found.time) > 1
    assert buffer.lost == 0
    assert set(found.tid.tolist()) == {threading.get_native_id()}
    assert set(found.pid.tolist()) == {os.getpid()}
    assert numpy.all(numpy.diff(found.time) > 0)
    assert opened < found.time[0] < found.time[-1] < time.monotonic_ns()
    assert not found.kernel.any()
    assert numpy.all(found.first[1:] - found.first[:-1] >= 2), "each has a stack: a mark, and frames"


def test_what_finds_no_room_is_counted() -> None:
    sampling = Sampling(USER_CLOCK, period=100_000, fields=FIELDS["ip"] | FIELDS["tid"], frequency=0, pages=1)
    buffer, tray = open_buffer(threading.get_native_id(), sampling), Tray()
    deadline = time.monotonic() + 60
    while not buffer.lost and time.monotonic() < deadline:
        burn(10_000_000)
        buffer.look()
    assert buffer.capacity - 64 < buffer.look() <= buffer.capacity
    assert buffer.drain(tray) > buffer.capacity - 64
    lost = buffer.lost
    burn(1_000_000)
    buffer.close(tray)
    assert buffer.lost >= lost > 0
    assert 24 * buffer.lost <= buffer.lost_bytes < 30 * buffer.lost
    assert buffer.samples == len(tray.samples(sampling.fields).time)


def test_a_thread_that_stands_still_is_known_to() -> None:
    """And one that has run since is never taken for one that has not."""
    go, done, end = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        while not end.is_set():
            go.wait()
            go.clear()
            burn(2_000_000)
            done.set()

    thread = threading.Thread(target=work)
    thread.start()
    assert thread.native_id is not None
    buffer = open_buffer(thread.native_id, Sampling(USER_CLOCK))
    try:
        for _ in range(5):
            deadline = time.monotonic() + 60
            while not buffer.stood_still() and time.monotonic() < deadline:
                before = buffer.cpu_time()
                time.sleep(0.001)
            assert buffer.stood_still()
            assert buffer.cpu_time() == before
            go.set()
            done.wait()
            done.clear()
            assert not buffer.stood_still()
            assert buffer.cpu_time() > before
    finally:
        end.set()
        go.set()
        thread.join()
        buffer.close()


def test_a_thread_that_has_ended_is_not_found() -> None:
    thread = threading.Thread(target=lambda: None)
    thread.start()
    thread.join()
    ended = thread.native_id
    assert ended is not None
    while os.path.exists(f"/proc/self/task/{ended}"):  # join() does not wait for the kernel
        time.sleep(0.001)
    with pytest.raises(ProcessLookupError):
        PerfBuffer(ended, Sampling(USER_CLOCK))
    with pytest.raises(SelectionError, match="no such process"):
        SampledThreads([ended], Sampling(USER_CLOCK))


def test_what_cannot_be_sampled_is_said() -> None:
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(HeadwayError, match="nonsense cannot be counted"):
        PerfBuffer(0, Sampling(Event("nonsense", HARDWARE, 999)))
    assert len(os.listdir("/proc/self/fd")) == before


@contextmanager
def program(path: Path) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    assert process.stdin is not None
    try:
        yield process
        process.stdin.close()
        process.wait(60)
    finally:
        process.kill()
        process.wait()


def follow(pid: int, start: IO[bytes]) -> tuple[SampledThreads, list[PerfBuffer], Tray]:
    """Follow a process until five threads besides its first have ended."""
    sampled = SampledThreads([pid], Sampling(USER_CLOCK, frequency=1000))
    all_ended: list[PerfBuffer] = []
    tray = Tray()
    start.write(b"\n")
    start.flush()
    deadline = time.monotonic() + 60
    while len(all_ended) < 5 and time.monotonic() < deadline:
        _, ended = sampled.update()
        for buffer in ended:
            sampled.drop(buffer, tray)
        all_ended += ended
        time.sleep(0.005)
    for buffer in sampled.buffers.values():
        buffer.drain(tray)
    sampled.close()
    return sampled, all_ended, tray


@pytest.mark.root
def test_threads_and_processes_that_come_later_are_sampled(compile_c: Compile) -> None:
    with program(compile_c("later")) as process:
        assert process.stdin is not None
        sampled, ended, tray = follow(process.pid, process.stdin)
    check(process.pid, sampled, ended, tray)


def check(pid: int, sampled: SampledThreads, ended: list[PerfBuffer], tray: Tray) -> None:
    assert len(ended) == 5
    assert {buffer.pid for buffer in ended} >= {pid}
    assert len({buffer.pid for buffer in ended}) == 2, "the child is another process"
    assert all(buffer.samples > 0 and buffer.fd == -1 for buffer in ended)
    found = tray.samples(DEFAULT_FIELDS)
    assert {buffer.tid for buffer in ended} <= set(found.tid.tolist())
    assert (sampled.unseen, sampled.lost, sampled.damaged) == (0, 0, 0)
    kinds = [kind for kind, _, _ in sampled.tray.others()]
    assert kinds.count(7) >= 5
    assert kinds.count(4) >= 5


@pytest.mark.root
def test_later_threads_are_sampled_without_privileges_as_well(compile_c: Compile) -> None:
    """The same as nobody: then what tells of tasks is opened for each thread, and inherited."""
    paranoid = int(Path("/proc/sys/kernel/perf_event_paranoid").read_text())
    if paranoid > 2:
        pytest.skip("kernel.perf_event_paranoid forbids users to sample their own threads")
    with TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        as_nobody(Path(shutil.copy(compile_c("later"), folder)))


def as_nobody(path: Path) -> None:
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.setgid(65534)
            os.setuid(65534)
            with program(path) as process:
                assert process.stdin is not None
                sampled, ended, tray = follow(process.pid, process.stdin)
            check(process.pid, sampled, ended, tray)
            status = 0
        except BaseException as error:
            print(f"as nobody: {error!r}", file=sys.stderr)
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
