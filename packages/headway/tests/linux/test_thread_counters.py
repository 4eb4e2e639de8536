"""Counters of single threads, with software events, which every machine and every user has."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.compiling import PROGRAMS
from tests.linux.measuring import until_asleep

from headway.errors import HeadwayError
from headway.linux.options import MeasureOptions, Selection
from headway.linux.perf import counters, thread_counters
from headway.linux.perf.counters import CounterPlan, plan
from headway.linux.perf.events import EventError, EventFinder
from headway.linux.perf.perf_event import CounterReading, Event
from headway.linux.perf.thread_counters import ThreadCounters
from headway.linux.sources.proc import ProcSource
from headway.model import Cell, Counted, Ledger, Quality, violations

pytestmark = pytest.mark.kernel

NOBODY = 65534
PAGE = os.sysconf("SC_PAGE_SIZE")
PAGES = 3000


def paranoid() -> int:
    try:
        return int(Path("/proc/sys/kernel/perf_event_paranoid").read_text())
    except (OSError, ValueError):
        return 9


needs_perf = pytest.mark.skipif(
    paranoid() > 2 and os.geteuid() != 0, reason="kernel.perf_event_paranoid is above 2: no counters without privileges"
)


def interpreter() -> str | None:
    """One that this user may execute; the one that runs the tests may be in its owner's home."""
    candidates = [sys.executable, "/usr/bin/python3", "/usr/local/bin/python3"]
    return next((path for path in candidates if os.access(path, os.X_OK)), None)


class Worker:
    """A program that does what it is told, and says when it is done."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [interpreter() or sys.executable, str(PROGRAMS / "obey_and_touch.py"), str(PAGES)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        self.answer("there")

    def answer(self, word: str) -> None:
        assert self.process.stdout is not None
        assert self.process.stdout.readline().strip() == word

    def do(self, what: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(what + "\n")
        self.answer("done")

    def end(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOWAIT)


@contextmanager
def working() -> Iterator[Worker]:
    worker = Worker()
    try:
        yield worker
    finally:
        worker.process.kill()
        worker.process.wait()
        for stream in (worker.process.stdin, worker.process.stdout):
            assert stream is not None
            stream.close()


@contextmanager
def counting(worker: Worker, *events: str, **more: int) -> Iterator[ProcSource]:
    source = ProcSource(Selection(pids=(worker.process.pid,)), MeasureOptions(events=events), **more)  # type: ignore[arg-type]
    source.begin()
    try:
        yield source
    finally:
        source.close()


def of_all(ledger: Ledger, name: str) -> int:
    counts = [cell.events[name] for t in ledger.threads for cell in t.states.values() if cell.events]
    return sum(count for count in counts if count is not None)


def counts_what_the_program_does() -> None:
    with working() as worker, counting(worker, "page-faults,task-clock") as source:
        worker.do("touch()")
        worker.do("burn(30_000_000)")
        first = source.read()
        (thread,) = first.threads
        assert violations(first) == []
        assert set(first.counted) >= {"page-faults", "task-clock"}
        assert first.events == ("page-faults", "task-clock")
        found = thread.states["user"].events
        assert found is not None
        assert (found["page-faults"] or 0) >= PAGES
        assert (found["task-clock"] or 0) >= 30_000_000
        assert all(cell.events is None for state, cell in thread.states.items() if state != "user")
        worker.do("touch()")
        worker.end()
        last = source.end()
        assert of_all(last, "page-faults") >= 2 * PAGES
        assert first.counted["page-faults"].whole


def as_nobody(claim: Callable[[], None]) -> None:
    """Check the claim in a child without privileges; in this process where it has none."""
    if os.geteuid() != 0:
        claim()
        return
    if paranoid() > 2:
        pytest.skip("kernel.perf_event_paranoid is above 2: no counters without privileges")
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
            status = 77 if interpreter() is None else status
            if status != 77:
                claim()
                status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status == 77:
        pytest.skip("needs a Python that every user may execute")
    assert status == 0


@needs_perf
def test_events_of_user_code_are_charged_to_it() -> None:
    counts_what_the_program_does()


@needs_perf
def test_an_ordinary_user_counts_the_same() -> None:
    as_nobody(counts_what_the_program_does)


@needs_perf
def test_a_thread_that_has_ended_keeps_its_counts_and_no_file() -> None:
    with working() as worker, counting(worker, "page-faults") as source:
        source.read()
        before = len(os.listdir("/proc/self/fd"))
        worker.do("go = threading.Event(); t = threading.Thread(target=lambda: (go.wait(), touch())); t.start()")
        source.read()
        assert len(os.listdir("/proc/self/fd")) > before
        worker.do("go.set(); t.join(); there = lambda: str(t.native_id) in os.listdir('/proc/self/task')")
        worker.do("while there(): time.sleep(0.01)")
        ledger = source.read()
        assert of_all(ledger, "page-faults") >= PAGES
        (ended,) = [t for t in ledger.threads if t.end is not None]
        events = ended.states["user"].events
        assert events is not None
        assert (events["page-faults"] or 0) >= PAGES
        source.read()
        assert len(os.listdir("/proc/self/fd")) <= before + 1


@needs_perf
def test_intervals_add_up_to_the_whole() -> None:
    with working() as worker, counting(worker, "page-faults") as source:
        parts = []
        for _ in range(3):
            worker.do("touch()")
            until_asleep(worker.process.pid)
            parts.append(of_all(source.interval(), "page-faults"))
        assert all(part >= PAGES for part in parts)
        assert sum(parts) == of_all(source.read(), "page-faults")


@needs_perf
def test_what_ran_before_its_counter_was_there_is_told() -> None:
    chosen = plan(["page-faults"], user_only=True)
    with working() as worker:
        pid = worker.process.pid
        counters = ThreadCounters(chosen, 100)
        counters.follow([(pid, 1)])
        ran = 10**12
        counters.charge((pid, 1), {"user": Cell(ran, None)}, ended=False)
        assert ran - 10**11 < counters.losses()["uncounted_ns"] <= ran
        counters.charge((pid, 1), {"user": Cell(ran, None)}, ended=True)
        assert counters.losses()["uncounted_ns"] > ran - 10**11
        assert counters.counted()["page-faults"].whole
        counters.close()


@needs_perf
def test_what_was_missed_is_not_taken_back_where_a_later_look_finds_an_older_run_time() -> None:
    chosen = plan(["page-faults"], user_only=True)
    with working() as worker:
        key = worker.process.pid, 1
        counters = ThreadCounters(chosen, 100)
        counters.follow([key])
        told = []
        for ran, ended in ((10**12, False), (10**12 - 10**9, False), (0, True)):
            counters.charge(key, {"user": Cell(ran, None)}, ended=ended)
            told.append(counters.losses()["uncounted_ns"])
        assert told[0] > 0
        assert told == sorted(told)
        counters.close()


@needs_perf
def test_a_thread_that_there_is_no_counter_for_is_counted_as_lost_and_its_events_are_not_known() -> None:
    chosen = plan(["page-faults"], user_only=True)
    counters = ThreadCounters(chosen, len(chosen.events))
    counters.follow([(os.getpid(), 1), (os.getppid(), 2), (2**22 + 5, 3)])
    counters.follow([(os.getppid(), 2)])
    assert counters.losses()["uncounted_threads"] == 2
    states = counters.charge((os.getppid(), 2), {"user": Cell(5, None)}, ended=False)
    assert states["user"].events == {"page-faults": None}
    counters.close()


@needs_perf
def test_too_few_files_leave_the_rest_of_the_source_working() -> None:
    with working() as worker, counting(worker, "page-faults", descriptors=0) as source:
        worker.do("burn(5_000_000)")
        ledger = source.read()
        assert violations(ledger) == []
        assert ledger.losses["uncounted_threads"] == 1
        (thread,) = ledger.threads
        assert thread.states["user"].events == {"page-faults": None}


@needs_perf
def test_the_counter_of_a_sleeping_thread_stands_still() -> None:
    with working() as worker:
        counters = ThreadCounters(plan(["page-faults"], user_only=True), 100)
        key = worker.process.pid, 1
        counters.follow([key])
        counters.charge(key, {}, ended=False)
        until_asleep(worker.process.pid)
        counters.charge(key, {}, ended=False)
        before = counters.counted()["page-faults"].enabled
        time.sleep(0.01)
        counters.charge(key, {}, ended=False)
        assert counters.counted()["page-faults"].enabled == before
        counters.close()


@needs_perf
def test_indices_follow_from_what_was_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The way of hardware events, walked with software ones: a clock for cycles, page faults for stalls."""
    clock, faults = EventFinder().find_all(["task-clock,page-faults"])
    stood_in = CounterPlan(
        events=tuple(replace(event, exclude_kernel=True, exclude_hv=True) for event in (clock, faults)),
        fields={"cycles": (0,), "stall_cycles": (1,), "memory_stall_cycles": (1,)},
        processors=("a processor",),
    )
    monkeypatch.setattr(counters, "plan", lambda *_, **__: stood_in)
    with working() as worker, counting(worker) as source:
        worker.do("burn(50_000_000); touch()")
        ledger = source.read()
    (thread,) = ledger.threads
    i = ledger.indices(thread)
    user = thread.states["user"]
    assert i.rpi is not None
    assert i.epi is not None
    assert i.mpi is not None
    assert i.kpi is not None
    assert (user.memory_stall_cycles or 0) >= PAGES
    assert i.mpi == user.time * (user.stall_cycles or 0) // (user.cycles or 1)
    assert (
        i.rpi == i.epi + i.mpi + i.kpi == sum(thread.states[s].time for s in ("user", "kernel") if s in thread.states)
    )
    assert i.quality["mpi"] is Quality.SAMPLED
    assert "a processor" in ledger.reasons["mpi"]
    assert ledger.unit == "ns"


def test_without_anything_to_count_the_states_stay_as_they_are() -> None:
    counters = ThreadCounters(CounterPlan(), 100)
    counters.follow([(1, 1)])
    states = {"user": Cell(5, None)}
    assert counters.charge((1, 1), states, ended=False) == states
    assert counters.losses() == {}
    assert counters.counted() == {}


@pytest.mark.parametrize(("events", "error"), [("page-fault", EventError), ("cs", EventError), ("r1a3,", EventError)])
def test_bad_events_are_refused_before_anything_is_measured(events: str, error: type[HeadwayError]) -> None:
    source = ProcSource(Selection(pids=(os.getpid(),)), MeasureOptions(events=(events,)))
    with pytest.raises(error):
        source.begin()
    source.close()


forms = st.integers(0, 10**9)


@given(st.lists(st.tuples(forms, forms), min_size=1, max_size=3))
def test_counters_of_several_types_of_core_are_one(parts: list[tuple[int, int]]) -> None:
    """A thread that was on each for a while had a counter all the time, though none of them ran all the time."""
    whole = sum(ran for _, ran in parts)
    event = Event("e", 0, 0, cpus=frozenset({0}), alternatives=(Event("e", 0, 0),) * (len(parts) - 1))
    readings: list[CounterReading | None] = [CounterReading(value, whole, ran) for value, ran in parts]
    both = thread_counters._together(event, readings)
    assert both is not None
    assert both.scaled == sum(value for value, _ in parts)
    assert Counted(both.enabled, both.running).whole
    assert thread_counters._together(event, [*readings, None]) is None


def test_this_machines_software_events_have_no_alternatives() -> None:
    assert EventFinder().find("page-faults").alternatives == ()
