"""The level clocks: the arithmetic of readings, whatever they say, and real threads."""

from __future__ import annotations

import os
import resource
import struct
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from tests.compiling import Compile, script

from headway.commands import stat
from headway.linux.bpf.clocks._clock_accounts import ClockAccounts, ClockThread
from headway.linux.bpf.clocks._clock_layout import CONSTANTS, STRUCTURES
from headway.linux.levels import COUNTED_AT_CLOCKS, Level
from headway.linux.options import MeasureOptions, Selection
from headway.linux.sources.choose import start_source
from headway.linux.sources.clocks import ClockSource
from headway.linux.sources.clocks.measurement import ClockMeasurement
from headway.linux.sources.clocks.rows import _EVENTS, row_of, row_since_told
from headway.linux.sources.proc.waits import reason_of_call
from headway.linux.structures import Structures
from headway.linux.syscalls.table import numbers
from headway.model import Cell, Quality, Thread, Window, processor_time

from .measuring import check, go, measure, measure_intervals, only, python, until_asleep

pytestmark = pytest.mark.kernel

CLOCKS = MeasureOptions(level=Level.CLOCKS)
TICK = 4_000_000
needs_root = pytest.mark.root

# ---- readings ----

_LAYOUT = Structures(STRUCTURES)
SEEN, FOUND, BEGUN, EXITING, ENDED = (
    CONSTANTS[f"CLOCKS_{name}"] for name in ("SEEN", "FOUND", "BEGUN", "EXITING", "ENDED")
)
RUNNABLE = CONSTANTS["CLOCKS_RUNNABLE"]


def reading(**values: int | bytes) -> bytes:
    """A reading of a thread that waits in a futex."""
    return _LAYOUT.pack("clock_reading", {"call": numbers()["futex"], "tid": 7, "pid": 7, "task": 1, **values})


def sum_of(thread: ClockThread, accounts: ClockAccounts) -> int:
    run, states, _ = thread.figures(accounts.names)
    return run + sum(states.values())


words = st.integers(0, 2**64 - 1) | st.integers(0, 2**40)
readings = st.fixed_dictionaries(
    {
        "task": st.integers(0, 2),
        "born": st.integers(0, 3) | words,
        "at": st.integers(0, 100) | words,
        "run": words,
        "ready": words,
        "arrivals": words,
        "user": words,
        "system": words,
        "kind": st.integers(0, 6),
        "flags": st.integers(0, 31),
        "call": st.integers(0, 2**32 - 1) | st.sampled_from(sorted(numbers().values())),
        "file": st.integers(0, 9),
        "tid": st.integers(0, 2**32 - 1),
    }
)
looks = st.lists(st.tuples(st.integers(0, 2**62) | st.integers(0, 100), st.lists(readings), st.lists(readings)))


@given(looks, st.binary(max_size=200))
def test_whatever_is_read_time_is_conserved_and_never_goes_back(
    taken: list[tuple[int, list[dict[str, int]], list[dict[str, int]]]], nonsense: bytes
) -> None:
    accounts = ClockAccounts(TICK, reason_of_call)
    told: dict[int, Counter[str]] = {}
    threads: list[ClockThread] = []
    for at, seen, events in taken:
        for each in events:
            accounts.add(reading(**each))
        accounts.feed(b"".join(reading(**each) for each in seen) + nonsense)
        accounts.take(at)
        there = [*accounts.threads.values(), *accounts.take_ended()]
        threads += [thread for thread in there if not any(thread is other for other in threads)]
        for thread in threads:
            assert sum_of(thread, accounts) == thread.until - thread.start
            assert thread.start <= thread.until <= max(accounts.at, thread.start)
            row = row_since_told(thread, accounts.names, TICK)
            assert sum(cell.time for cell in row.states.values()) == row.span
            assert all(cell.time >= 0 for cell in row.states.values())
            told.setdefault(id(thread), Counter()).update(total=row.span)
    for thread in threads:
        assert told[id(thread)]["total"] == row_of(thread, accounts.names, TICK).span


phases = st.lists(st.tuples(st.sampled_from(["run", "ready", "wait"]), st.integers(1, 10**9)), min_size=1)


@given(phases, st.lists(st.floats(0, 1), max_size=8), st.booleans(), st.integers(0, 10**9))
def test_run_and_ready_are_the_kernels_and_waits_are_the_rest(
    did: list[tuple[str, int]], looked: list[float], newborn: bool, before: int
) -> None:
    born = 1000
    life = sum(took for _, took in did)
    accounts = ClockAccounts(0, reason_of_call)
    accounts.take(born)

    def clocks(at: int) -> tuple[dict[str, int], str]:
        had, now, what = Counter(run=before, ready=before), born, did[0][0]
        for what, took in did:
            had[what] += min(took, at - now)
            now += took
            if now >= at:
                break
        return {"run": had["run"], "ready": had["ready"], "wait": had["wait"]}, what

    def take(at: int, kind: int) -> bytes:
        had, what = clocks(at)
        base = 0 if newborn else before
        figures = {"run": had["run"] - before + base, "ready": had["ready"] - before + base}
        flags = 0 if what == "wait" and kind == SEEN else RUNNABLE
        return reading(born=born, at=at, kind=kind, flags=flags, arrivals=at, **figures)

    if not newborn:
        accounts = ClockAccounts(0, reason_of_call)
        accounts.feed(take(born, FOUND))
        accounts.take(born)
    for part in sorted(looked):
        at = born + int(part * life)
        accounts.feed(take(at, SEEN))
        accounts.take(at)
        for thread in accounts.threads.values():
            run, states, _ = thread.figures(accounts.names)
            had = clocks(at)[0]
            assert (run, states.get("ready", 0)) == (had["run"] - before, had["ready"] - before)
            assert sum(states.values()) - states.get("ready", 0) == had["wait"]
    end = born + life
    accounts.add(take(end, EXITING))
    accounts.add(take(end, ENDED))
    accounts.take(end)
    (thread,) = accounts.take_ended()
    assert thread.ended
    assert thread.until == end
    run, states, _ = thread.figures(accounts.names)
    assert run == sum(took for what, took in did if what == "run")
    assert states.get("ready", 0) == sum(took for what, took in did if what == "ready")


def test_a_thread_that_lives_between_two_looks_is_not_lost() -> None:
    accounts = ClockAccounts(0, reason_of_call)
    accounts.take(100)
    accounts.add(reading(born=110, at=150, kind=EXITING, run=25, ready=5, arrivals=1))
    accounts.add(reading(born=110, at=160, kind=ENDED, run=35, ready=5, arrivals=1))
    accounts.take(200)
    (thread,) = accounts.take_ended()
    assert (thread.start, thread.until) == (110, 160)
    run, states, _ = thread.figures(accounts.names)
    assert (run, states["ready"]) == (35, 15), "it never waited: the kernel put it on a processor once"


def test_what_belongs_to_a_later_moment_waits_for_the_next_look() -> None:
    accounts = ClockAccounts(0, reason_of_call)
    accounts.feed(reading(born=90, kind=FOUND, run=5, at=100))
    accounts.take(100)
    accounts.feed(reading(born=90, kind=ENDED, run=50, at=250))
    accounts.take(200)
    assert not accounts.take_ended()
    (thread,) = accounts.threads.values()
    assert thread.until == 200
    accounts.take(300)
    (ended,) = accounts.take_ended()
    assert ended is thread
    assert ended.until == 250
    assert accounts.unseen_ends == 0


@pytest.mark.parametrize("told", [False, True])
def test_processor_time_of_an_ended_thread_is_the_kernels_unless_more_was_told(told: bool) -> None:
    accounts = ClockAccounts(0, reason_of_call)
    accounts.feed(reading(born=90, kind=FOUND, run=5, at=100, flags=RUNNABLE))
    accounts.take(100)
    accounts.feed(reading(born=90, kind=SEEN, run=45, at=150, flags=RUNNABLE))
    accounts.take(150)
    (thread,) = accounts.threads.values()
    if told:
        row_since_told(thread, accounts.names, TICK)
    accounts.add(reading(born=90, kind=ENDED, run=35, at=200))
    accounts.take(200)
    run, states, _ = thread.figures(accounts.names)
    assert run == (40 if told else 30)
    assert run + sum(states.values()) == 100


def test_what_is_known_late_of_an_exit_is_told_in_an_interval_that_has_room_for_it() -> None:
    measurement = object.__new__(ClockMeasurement)
    measurement._late = []
    exiting = Thread(1, 1, "name", 5, 80, 95, 95, 15, {"running": Cell(15, None)})
    assert measurement._within(Window(100, 110), [exiting]) == []
    (told,) = measurement._within(Window(110, 200), [])
    assert (told.start, told.until, told.end, told.span) == (110, 125, 125, 15)
    assert measurement._within(Window(200, 300), []) == []


def test_a_thread_that_vanishes_is_counted() -> None:
    accounts = ClockAccounts(0, reason_of_call)
    accounts.feed(reading(born=90, kind=FOUND, at=100))
    accounts.take(100)
    accounts.take(200)
    assert accounts.unseen_ends == 1
    assert len(accounts.take_ended()) == 1


@pytest.mark.parametrize(
    ("values", "state"),
    [
        ({"call": numbers()["futex"]}, "wait.futex"),
        ({"call": numbers()["read"], "file": 1}, "wait.pipe"),
        ({"call": numbers()["read"], "file": 2}, "wait.net"),
        ({"call": numbers()["read"], "flags": CONSTANTS["CLOCKS_UNINTERRUPTIBLE"]}, "wait.disk"),
        ({"call": CONSTANTS["CLOCKS_NO_CALL"]}, "wait.fault"),
        ({"call": CONSTANTS["CLOCKS_CALL_UNKNOWN"]}, "wait"),
        ({"flags": CONSTANTS["CLOCKS_STOPPED"]}, "stopped"),
        ({"flags": CONSTANTS["CLOCKS_KERNEL_THREAD"]}, "wait.work"),
    ],
)
def test_a_wait_is_for_what_a_look_finds(values: Mapping[str, int], state: str) -> None:
    accounts = ClockAccounts(0, reason_of_call)
    accounts.feed(reading(born=90, kind=FOUND, at=100, **values))
    accounts.take(100)
    accounts.feed(reading(born=90, at=200, **values))
    accounts.take(200)
    (thread,) = accounts.threads.values()
    assert thread.figures(accounts.names)[1] == {state: 100}


def test_a_thread_of_the_kernel_runs_no_code_of_a_program() -> None:
    figures = (70, {"wait.work": 30}, (0, 0, 2, 1, 1, 0, 0))
    worker = SimpleNamespace(
        tid=2, pid=2, name="kworker", birth=0, start=0, until=100, in_kernel=True, ended=False, gone=False
    )
    worker.figures = lambda names: figures
    row = row_of(worker, [], 4_000_000, ["cs"])  # type: ignore[arg-type]
    assert {state: cell.time for state, cell in row.states.items()} == {"kernel.thread": 70, "wait.work": 30}
    assert (row.states["kernel.thread"].events, row.sampled) == ({"cs": 2}, {})


# ---- options ----


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (("--noneffective", "malloc"), "--noneffective"),
        (("-e", "cycles"), "cycles"),
        (("-e", "cs", "-e", "cycles"), "cycles"),
        (("-e", "cs,page-faults,cycles"), "cycles"),
        (("--why", "kernel"), "--why"),
        (("--why", "wait"), "--why needs"),
        (("--locks",), "--locks needs"),
        (("--durations", "1"), "--durations needs"),
        (("--spin",), "--spin"),
        (("-C", "0"), "-C needs"),
        (("--publish",), "--publish needs"),
        (("--budget", "1%"), "--budget"),
    ],
)
def test_what_clocks_cannot_tell_is_refused_with_one_sentence(options: tuple[str, ...], word: str) -> None:
    result = CliRunner().invoke(stat.command, ["--level", "clocks", *options, "--", "true"])
    assert result.exit_code == 2
    assert word in result.output
    assert "Traceback" not in result.output


def test_proc_is_the_same_level_by_another_reader() -> None:
    source, why = start_source(Selection(pids=(os.getpid(),)), "proc", options=CLOCKS)
    with closing(source):
        assert source.name == "proc"
        assert why == ""
        check(source.end())


# ---- the kernel ----


@needs_root
def test_no_thread_is_lost_however_short_it_lives(compile_c: Compile) -> None:
    ledger, _ = measure(compile_c("threads"), "500", options=CLOCKS)
    assert len(ledger.threads) == 501
    assert all(thread.end is not None for thread in ledger.threads)


@needs_root
def test_run_time_is_what_the_kernel_tells_a_parent() -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    code = (
        "import time\n"
        "first = time.monotonic_ns(), time.process_time_ns()\n"
        "while time.process_time_ns() < first[1] + 2e8: pass\n"
        "time.sleep(.05)\n"
        "last = time.monotonic_ns(), time.process_time_ns()\n"
        "print(*(b - a for a, b in zip(first, last)))"
    )
    ledger, said = measure(*python(code), options=CLOCKS)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    told = (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1e9
    thread = only(ledger)
    run = processor_time(thread.times())
    assert int(said[1]) <= run <= told + 2000, "the child had lived before, and the kernel tells whole microseconds"
    assert thread.span >= int(said[0])
    assert ledger.precision.total is Quality.EXACT
    assert "level" in ledger.reasons


@needs_root
def test_what_the_kernel_counts_anyway_is_told_of_each_thread() -> None:
    events = ("context-switches", "voluntary", "involuntary", "page-faults", "minor-faults", "major-faults")
    code = (
        "import resource, time\n"
        "first = resource.getrusage(0)\n"
        "for i in range(50): time.sleep(.001)\n"
        "last = resource.getrusage(0)\n"
        "print(last.ru_nvcsw - first.ru_nvcsw, last.ru_minflt - first.ru_minflt)"
    )
    options = MeasureOptions(level=Level.CLOCKS, events=events)
    ledger, said = measure(*python(code), options=options)
    assert ledger.events == events
    thread = only(ledger)
    (counts,) = (cell.events for cell in thread.states.values() if cell.events)
    assert (counts["voluntary"] or 0) >= int(said[0]) >= 50
    assert (counts["minor-faults"] or 0) >= int(said[1])
    assert counts["context-switches"] == (counts["voluntary"] or 0) + (counts["involuntary"] or 0)
    assert counts["page-faults"] == (counts["minor-faults"] or 0) + (counts["major-faults"] or 0)


def test_the_events_that_the_options_let_through_are_those_that_there_are() -> None:
    assert _EVENTS.keys() == COUNTED_AT_CLOCKS


@needs_root
def test_children_are_followed_and_named_by_what_they_execute() -> None:
    code = "import os\nfor i in range(20): os.wait4(os.spawnlp(1, 'true', 'true'), 0)"
    whole, parts = measure_intervals(0.02, *python(code), options=CLOCKS)
    assert Counter(thread.name for thread in whole.threads)["true"] == 20
    assert len(parts) > 1


@needs_root
def test_a_thread_that_executes_a_program_keeps_its_account() -> None:
    code = (
        "import os, threading, time\n"
        "def go():\n"
        "    end = time.thread_time() + .05\n"
        "    while time.thread_time() < end: pass\n"
        "    os.execlp('sleep', 'sleep', '0.05')\n"
        "threading.Thread(target=go).start()\n"
        "time.sleep(60)"
    )
    ledger, _ = measure(*python(code), options=CLOCKS)
    assert len(ledger.threads) == 2
    (executed,) = (thread for thread in ledger.threads if thread.name == "sleep")
    assert executed.tid == executed.pid
    assert processor_time(executed.times()) >= 50_000_000


@needs_root
@pytest.mark.parametrize("reason", ["pipe", "poll", "epoll", "futex", "sleep", "net"])
def test_a_long_wait_has_its_reason(reason: str) -> None:
    """Each thread waits until nothing but the end of its process ends that."""
    waits = {
        "pipe": "os.read(os.pipe()[0], 1)",
        "poll": "select.select([], [], [])",
        "epoll": "select.epoll().poll()",
        "futex": "l = threading.Lock(); l.acquire(); l.acquire()",
        "sleep": "time.sleep(1000)",
        "net": "a, b = socket.socketpair(); a.recv(1)",
    }
    words = python(f"import os, select, socket, threading, time\n{waits[reason]}")
    program = subprocess.Popen(words)
    try:
        until_asleep(program.pid)
        time.sleep(0.05)
        with closing(ClockSource(Selection(pids=(program.pid,)), CLOCKS)) as source:
            source.begin()
            time.sleep(0.05)
            ledger = source.end()
    finally:
        program.kill()
        program.wait()
    check(ledger)
    thread = only(ledger)
    assert thread.states.keys() - {"user", "kernel", "running", "ready"} == {f"wait.{reason}"}


@needs_root
def test_every_thread_of_the_machine_is_there() -> None:
    own = threading.get_native_id()
    with closing(ClockSource(Selection(everything=True), CLOCKS, intervals=True)) as source:
        source.begin()
        others = {pid for pid in os.listdir("/proc") if pid.isdigit()} - {"1"}  # some kernels hide a hypervisor's agent
        there = {int(tid) for pid in others for tid in tasks_of(pid)}
        first, second = source.interval(), source.end_interval()
    for part in (first, second):
        check(part, "unseen_ends")  # other programs run, too: such an end is counted
    found = {thread.tid for thread in first.threads}
    assert {tid for tid in there - found if is_alive(tid)} == set()
    (thread,) = (thread for thread in second.threads if thread.tid == own)
    assert processor_time(thread.times()) > 0, "this thread runs, and its clock is up to date"
    assert second.window.start == first.window.end


def is_alive(tid: int) -> bool:
    """Whether a thread is there, and not one that has ended and waits for its parent to ask."""
    try:
        text = Path(f"/proc/{tid}/stat").read_text(errors="replace")
    except OSError:
        return False
    return text.rpartition(")")[2].split()[0] not in "ZX"


def tasks_of(pid: str) -> list[str]:
    try:
        return os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []


@needs_root
def test_a_thread_that_only_runs_has_run_all_the_time(compile_c: Compile) -> None:
    """Its clock is that of the look, and not of the last tick: what is left is stolen, or was for others."""
    program = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        with closing(ClockSource(Selection(pids=(program.pid,)), CLOCKS, intervals=True)) as source:
            source.begin()
            for _ in range(5):
                time.sleep(0.03)
                ledger = source.interval()
                check(ledger)
                thread = only(ledger)
                assert thread.span == ledger.window.duration
    finally:
        program.kill()
        program.wait()


@needs_root
def test_threads_of_a_program_that_goes_on_are_told_when_they_end() -> None:
    with (
        subprocess.Popen(script("batches_of_threads"), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program,
        closing(ClockSource(Selection(pids=(program.pid,)), CLOCKS, intervals=True, forget=True)) as source,
    ):
        source.begin()
        for _ in range(2):
            go(program)
        ended: set[tuple[int, int]] = set()
        while len(ended) < 5:
            part = source.interval()
            check(part)
            ended |= {thread.key for thread in part.threads if thread.end is not None}
        program.kill()


@needs_root
def test_what_is_selected_by_name_is_found_and_no_other() -> None:
    words = python("open('/proc/self/comm', 'w').write('clockwork')\nimport time; time.sleep(1000)")
    program = subprocess.Popen(words)
    try:
        until_asleep(program.pid)
        while Path(f"/proc/{program.pid}/comm").read_text() != "clockwork\n":
            time.sleep(0.001)
        with closing(ClockSource(Selection(name="clockw*"), CLOCKS)) as source:
            source.begin()
            ledger = source.end()
    finally:
        program.kill()
        program.wait()
    check(ledger)
    assert only(ledger).tid == program.pid


def test_the_layout_has_no_holes() -> None:
    _, fields = STRUCTURES["clock_reading"]
    assert sum(struct.calcsize(f"={code}") for _, code in fields.values()) == _LAYOUT.size_of("clock_reading")
