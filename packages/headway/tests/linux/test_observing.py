"""`headway.observe`: what a program sees of others, and of itself, while a block runs."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Iterator
from itertools import pairwise

import pytest
from tests.compiling import script

import headway
from headway.errors import HeadwayError, SelectionError
from headway.model import Kind, violations

pytestmark = pytest.mark.kernel

SOURCES = [pytest.param("bpf", marks=pytest.mark.root), "proc"]


@pytest.fixture
def program() -> Iterator[int]:
    running = subprocess.Popen(script("spinner_and_sleepers"), stdout=subprocess.PIPE)
    assert running.stdout is not None
    running.stdout.readline()
    yield running.pid
    running.kill()
    running.wait()
    running.stdout.close()


def attached() -> int:
    """Descriptors of this process that hold something in the kernel."""
    there = 0
    for fd in os.listdir("/proc/self/fd"):
        try:
            there += "bpf" in os.readlink(f"/proc/self/fd/{fd}") or "perf" in os.readlink(f"/proc/self/fd/{fd}")
        except FileNotFoundError:
            continue
    return there


@pytest.mark.parametrize("source", SOURCES)
def test_a_process_is_seen_while_the_block_runs(program: int, source: str) -> None:
    before, threads = attached(), threading.active_count()
    with headway.observe(program, source=source) as seen:
        assert seen.source == source
        first = seen.read()
        began = time.clock_gettime(~program << 3 | 2)
        while time.clock_gettime(~program << 3 | 2) < began + 0.05:  # until it has computed so long
            time.sleep(0.01)
        second = seen.read()
    for ledger in (first, second, seen.read()):
        assert violations(ledger) == []
        assert len(ledger.threads) == 4
        assert {t.pid for t in ledger.threads} == {program}
    assert first.window.start == second.window.start < first.window.end < second.window.end <= seen.read().window.end
    busiest = max(second.threads, key=lambda t: t.times().get(Kind.EFFECTIVE, 0))
    assert busiest.times()[Kind.EFFECTIVE] > 0
    assert seen.read() is seen.read(), "what there was when the block was left stays"
    assert seen.source == ""
    assert attached() == before
    assert threading.active_count() == threads


@pytest.mark.parametrize("source", SOURCES)
def test_intervals_follow_each_other(program: int, source: str) -> None:
    with headway.observe(pid=program, source=source) as seen:
        parts = []
        for _ in range(4):
            time.sleep(0.05)
            parts.append(seen.interval())
    for before, after in pairwise(parts):
        assert before.window.end == after.window.start
    assert all(violations(part) == [] for part in parts)


@pytest.mark.root
def test_threads_that_end_between_readings_are_there() -> None:
    deadline = time.monotonic() + 200
    with headway.observe(os.getpid(), source="bpf") as seen:
        for _ in range(200):
            one = threading.Thread(target=time.sleep, args=(0,))
            one.start()
            one.join()
        ledger = seen.read()
        while sum(thread.end is not None for thread in ledger.threads) < 200:  # Python joins them before they end
            assert time.monotonic() < deadline, "threads that have been joined do not end"
            time.sleep(0.01)
            ledger = seen.read()
    assert ledger.losses.get("exits_lost", 0) == 0


def test_several_threads_read_at_once(program: int) -> None:
    ledgers = []
    with headway.observe(program) as seen:
        readers = [threading.Thread(target=lambda: ledgers.append(seen.read())) for _ in range(8)]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()
    assert len(ledgers) == 8
    assert all(violations(ledger) == [] for ledger in ledgers)


def test_an_error_in_the_block_is_the_callers_and_nothing_stays(program: int) -> None:
    before = attached()
    with pytest.raises(ZeroDivisionError), headway.observe(program):
        raise ZeroDivisionError
    assert attached() == before


@pytest.mark.parametrize("source", SOURCES)
def test_a_child_forked_in_the_block_ends_nothing(source: str) -> None:
    with headway.observe(os.getpid(), source=source) as seen:
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                with pytest.raises(RuntimeError, match="of its own"):
                    seen.read()
                seen.__exit__(None, None, None)
                status = 0
            finally:
                os._exit(status)
        assert os.waitpid(pid, 0)[1] == 0
        before = time.monotonic_ns()
        while time.monotonic_ns() - before < 50_000_000:
            pass
        ledger = seen.read()
    own = next(thread for thread in ledger.threads if thread.tid == os.getpid())
    assert violations(ledger) == []
    assert own.span >= 50_000_000
    assert (ledger.indices(own).rpi or 0) > 0


@pytest.mark.parametrize("wrong", ["1", True, 0, -1, 2**40, 1.5, None, [1, "2"], b"1"])
def test_what_is_no_id_is_refused(wrong: object) -> None:
    with pytest.raises(SelectionError, match="is no id"):
        headway.observe(pid=wrong)  # type: ignore[arg-type]
    with pytest.raises(SelectionError, match="is no id"):
        headway.observe(tid=wrong)  # type: ignore[arg-type]


def test_what_cannot_be_observed_is_said() -> None:
    with pytest.raises(SelectionError, match="nothing to observe"):
        headway.observe()
    with pytest.raises(SelectionError, match="no source 'perf'"):
        headway.observe(1, source="perf")
    with pytest.raises(HeadwayError), headway.observe(4_194_303):
        pass
    with pytest.raises(RuntimeError, match="outside the with block"):
        headway.observe(os.getpid()).read()


def test_an_observation_is_entered_once(program: int) -> None:
    seen = headway.observe(program, source="proc")
    with seen, pytest.raises(RuntimeError, match="entered once"), seen:
        pass
    with pytest.raises(RuntimeError, match="entered once"), seen:
        pass
