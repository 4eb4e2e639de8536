"""Depth on demand: calls are seen of the threads for which a condition holds, and of no others."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import pytest
from tests.compiling import Compile
from tests.effort import FEW, exhaustive

from headway.conditions import Scope, parse_condition
from headway.linux.bpf.programs import loading
from headway.linux.bpf.shared.states import NAMES
from headway.linux.levels import Level
from headway.linux.options import MeasureOptions, Selection
from headway.linux.sources.ebpf import BpfSource, depth_control
from headway.model import Ledger, Quality, Thread, merge, violations

from .measuring import after_running, check, measure_intervals, only, python
from .recorded import assert_tiles, record

pytestmark = pytest.mark.root

MS = 1_000_000
WORKER = """
import os, sys, threading
def work(threads):
    pids = []
    for line in sys.stdin:
        what, number = line.split()
        if what == "calls":
            for i in range(int(number)): os.getppid()
        if what == "beside":  # until the other thread has done so much
            end = rounds[0] + 1 + int(number)
            while rounds[0] < end: event.wait(0.001)
        if what == "threads":
            for i in range(int(number)):
                thread = threading.Thread(target=lambda: [os.getppid() for i in range(50)], name="born")
                thread.start(); thread.join()
        if what == "children":
            for i in range(int(number)):
                child = os.fork()
                if not child:
                    for i in range(50): os.getppid()
                    os._exit(0)
                os.waitpid(child, 0)
        print("done", flush=True)
def beside():
    while True:
        for i in range(50): os.getppid()
        rounds[0] += 1
        event.wait(0.01)
rounds, event = [0], threading.Event()
threading.Thread(target=beside, daemon=True).start()
print(threading.get_native_id(), flush=True)
work(0)
"""


def when(*conditions: str) -> MeasureOptions:
    """The options with which a thread is deep when one of the conditions holds."""
    return MeasureOptions(level=Level.SWITCHES, when=tuple(parse_condition(text, NAMES) for text in conditions))


def serve_until(source: BpfSource, holds: Callable[[], bool], meanwhile: Callable[[], None]) -> None:
    """Have a source do its work until something holds."""
    deadline = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < deadline, "it never holds"
        meanwhile()
        source.service()


class Worker:
    """A process with a thread that does what it is told and one that does calls all the time, measured by a source."""

    def __init__(self, process: subprocess.Popen[str], source: BpfSource) -> None:
        self.process, self.source = process, source
        assert process.stdout is not None
        self.tid = int(process.stdout.readline())
        source.begin()

    def do(self, what: str, number: int) -> None:
        """Have the worker do something, and wait until it is done."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{what} {number}\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "done\n"

    def serve_until(self, holds: Callable[[], bool], what: tuple[str, int] | None = None) -> None:
        """Have the source do its work until something holds, and the worker something meanwhile."""
        serve_until(self.source, holds, (lambda: time.sleep(0.02)) if what is None else (lambda: self.do(*what)))

    @property
    def deep(self) -> set[tuple[Scope, int]]:
        """What is deep now."""
        return {(target.scope, target.id) for target in self.source.deep}

    @property
    def sees_calls(self) -> bool:
        """Whether programs that see calls are attached."""
        attached = self.source._running._attachments._links  # that they are is nobody else's business
        return any(not loading.is_needed_at(Level.SWITCHES, name) for name in attached)


@contextmanager
def worker(options: MeasureOptions) -> Iterator[Worker]:
    """A worker whose threads sleep but for the one that does calls."""
    process = subprocess.Popen([sys.executable, "-c", WORKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        with closing(BpfSource(Selection(pids=(process.pid,)), options, intervals=True)) as source:
            yield Worker(process, source)
    finally:
        process.kill()
        process.communicate()


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at the conditions often, and forget soon that they held."""
    monkeypatch.setattr(depth_control, "PERIOD_NS", 100_000_000)
    monkeypatch.setattr(depth_control, "HOLD_NS", 300_000_000)


def counted(ledger: Ledger, tid: int, state: str) -> int | None:
    """How often a thread was in a state that was counted; None: it was not counted."""
    (thread,) = (t for t in ledger.threads if t.tid == tid)
    cell = thread.states.get(state)
    return None if cell is None else cell.count


def is_divided_exactly(thread: Thread) -> bool:
    return not thread.sampled and "running" not in thread.states


def test_only_the_thread_for_which_the_condition_holds_is_deep_and_only_while_it_does() -> None:
    # Of a loaded machine a thread that computes has a small share; the other thread needs a hundredth of a processor.
    with worker(when("running > 5 %")) as one:
        one.serve_until(lambda: (Scope.THREAD, one.tid) in one.deep, ("calls", 100_000))
        assert one.sees_calls
        one.source.interval()
        one.do("calls", 1000)
        one.do("beside", 1)
        deep = one.source.interval()
        one.serve_until(lambda: not one.deep)
        assert not one.sees_calls
        between = one.source.interval()
        one.do("calls", 1000)
        after = one.source.end_interval()
    for ledger in (deep, between, after):
        check(ledger)
    assert violations(merge(merge(deep, between), after)) == []
    assert counted(deep, one.tid, "kernel.getppid") == 1000
    assert not counted(after, one.tid, "kernel.getppid")
    (beside,) = (t for t in deep.threads if t.tid != one.tid)
    assert not is_divided_exactly(beside)
    assert not counted(deep, beside.tid, "kernel.getppid")
    assert deep.precision.kernel is Quality.PARTIAL
    assert str(one.tid) in deep.reasons["depth"]


def test_threads_that_a_deep_process_creates_are_deep_from_their_birth_and_its_children_are_not() -> None:
    with worker(when("process: running > 1 %")) as one:
        one.serve_until(lambda: (Scope.PROCESS, one.process.pid) in one.deep, ("calls", 50_000))
        one.source.interval()
        one.do("threads", 20)
        one.do("children", 5)
        ledger = one.source.end_interval()
    check(ledger)
    born = [t for t in ledger.threads if t.end is not None and t.pid == one.process.pid]
    children = [t for t in ledger.threads if t.pid != one.process.pid]
    assert len(born) == 20
    assert len(children) == 5
    for thread in born:
        assert is_divided_exactly(thread)
        assert thread.states["kernel.getppid"].count == 50
    for thread in children:
        assert not counted(ledger, thread.tid, "kernel.getppid")


def test_a_deep_cgroup_has_its_processes_to_come() -> None:
    with worker(when("cgroup: running > 1 %")) as one:
        one.serve_until(lambda: bool(one.deep), ("calls", 50_000))
        one.source.interval()
        one.do("children", 5)
        ledger = one.source.end_interval()
    check(ledger)
    children = [t for t in ledger.threads if t.pid != one.process.pid]
    assert len(children) == 5
    for thread in children:
        assert is_divided_exactly(thread)
        assert thread.states["kernel.getppid"].count == 50


def test_a_thread_that_never_leaves_its_processor_becomes_deep(compile_c: Compile) -> None:
    """It does nothing but calls: what it does changes at a snapshot, not at a switch."""
    with (
        subprocess.Popen([compile_c("getppid"), "2000000000"]) as program,
        closing(BpfSource(Selection(pids=(program.pid,)), when("running > 1 %"), intervals=True)) as source,
    ):
        try:
            source.begin()
            for has_run in (after_running(program.pid, ns=100 * MS), after_running(program.pid, ns=20 * MS)):
                while not has_run():
                    time.sleep(0.01)
                serve_until(source, lambda: bool(source.deep), lambda: time.sleep(0.02))
                source.interval()
            whole = source.end()
        finally:
            program.kill()
    check(whole)
    thread = only(whole)
    assert 0 < thread.sampled["kernel.getppid"].time < thread.states["kernel.getppid"].time
    assert 0 < (whole.indices(thread).exact_share["rpi"] or 0) <= 1


CONDITIONS = ["running > 20 %", "cgroup: ready > 1 %", "process: running > 20 %", "user > 99 %"]


@pytest.mark.parametrize("condition", CONDITIONS[:2] if FEW else CONDITIONS)
def test_the_laws_hold_while_threads_come_and_go_and_the_depth_changes(
    condition: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(depth_control, "PERIOD_NS", 30_000_000)
    monkeypatch.setattr(depth_control, "HOLD_NS", 30_000_000)
    command = python(
        "import os, random, threading, time\n"
        "chance = random.Random(1)\n"
        "def work():\n"
        "    for i in range(chance.randrange(50)):\n"
        "        for j in range(chance.randrange(300)): os.getppid()\n"
        "        time.sleep(chance.random() / 1000)\n"
        "for i in range(12):\n"
        "    threads = [threading.Thread(target=work) for i in range(4)]\n"
        "    [t.start() for t in threads]\n"
        "    os.wait4(os.spawnlp(1, 'true', 'true'), 0)\n"
        "    [t.join() for t in threads]"
    )
    whole, _ = measure_intervals(0.05, *command, options=when(condition))
    waits = {state for thread in whole.threads for state in thread.states if state.startswith("wait.")}
    assert {"wait.sleep", "wait.futex", "wait.child"} <= waits
    assert not waits & {"wait.getppid", "wait.net", "wait.poll", "wait.epoll"}, waits


@pytest.mark.parametrize("condition", ["running > 60 % or wait.sleep > 60 %", *exhaustive("running > 1 %")])
def test_the_rows_of_a_recording_add_up_to_the_ledger_while_the_depth_changes(
    condition: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(depth_control, "PERIOD_NS", 30_000_000)
    monkeypatch.setattr(depth_control, "HOLD_NS", 30_000_000)
    command = python(
        "import os, threading, time\n"
        "def work():\n"
        "    for i in range(8):\n"
        "        for j in range(5000): os.getppid()\n"
        "        time.sleep(.03)\n"
        "threads = [threading.Thread(target=work) for i in range(3)]\n"
        "[t.start() for t in threads]; [t.join() for t in threads]"
    )
    recorded = record(*command, options=when(condition), lawful=False)
    assert_tiles(recorded)
    from_rows = recorded.sums("thread")
    numbers = {(seen.tid, seen.birth): number for number, seen in recorded.threads.items()}
    changed = 0
    for thread in recorded.ledger.threads:
        times = {state: cell.time for state, cell in thread.states.items()}
        sampled = {state: estimate.time for state, estimate in thread.sampled.items()}
        counted = {state: time - sampled.get(state, 0) for state, time in times.items()}
        counted["running"] = times.get("running", 0) + sum(sampled.values())
        rows = from_rows.get(numbers[thread.key], {})
        assert {s: time for s, time in counted.items() if time} == {s: time for s, (time, _) in rows.items() if time}
        changed += bool(counted["running"] and counted.get("kernel.getppid"))
    assert changed or condition != "running > 1 %", "no thread was deep for a part of its time"
