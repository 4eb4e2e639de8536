"""The /proc source: parsing of hostile input, the arithmetic, made-up /proc trees, and real threads."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.compiling import PROGRAMS, script

from headway.errors import HeadwayError, SelectionError
from headway.linux.options import MeasureOptions, Selection
from headway.linux.procfs._procfs import (
    FIRST_REASONS,
    RUNNABLE,
    UNREADABLE,
    WAITING,
    WHOLE_SHARE,
    ThreadAccount,
    parse_schedstat,
    parse_stat,
    parse_syscall,
)
from headway.linux.sources.proc import ProcSource
from headway.linux.sources.proc.waits import reason_of_wchan
from headway.linux.sources.source import LinuxSource
from headway.linux.syscalls.table import numbers
from headway.model import KNOWN_LOSSES, Ledger, Quality, Thread, since, violations

from .measuring import until_asleep

pytestmark = pytest.mark.kernel

TICK = 4_000_000
PATIENCE = 100.0
"""Seconds after which something that must happen is held not to."""

# -- parsing ----------------------------------------------------------------------------------------------------------

names = st.binary(max_size=64).filter(lambda b: b"\0" not in b) | st.sampled_from(
    [b"", b")", b"(", b") R 1 2 3", b"a b", b"x\ny", b"\xff\xfe", b"((()", b"S) S (S"]
)
ticks = st.integers(0, 2**62)


def stat_line(
    pid: int,
    name: bytes,
    state: str = "S",
    parent: int = 1,
    user: int = 0,
    system: int = 0,
    birth: int = 0,
    flags: int = 0,
) -> bytes:
    middle = f"{state} {parent} 1 1 -1 -1 {flags} 1 2 3 4 {user} {system} 5 6 -20 -1 1 0 {birth} 100 200"
    return b"%d (%s) %s\n" % (pid, name, middle.encode())


@given(names, st.sampled_from("RSDZTtXIP"), st.integers(0, 2**22), ticks, ticks, ticks)
def test_any_name_is_parsed(name: bytes, state: str, parent: int, user: int, system: int, birth: int) -> None:
    most = 2**60
    found = parse_stat(stat_line(12, name, state, parent, user, system, birth, flags=7))
    assert found is not None
    assert found[:4] == (name, state, parent, 7)
    assert found[6] == 11
    for number, written in ((found[4], user), (found[5], system), (found[7], birth)):
        assert number == written or written > most // 10, "exact, or too large to be real"
        assert 0 <= number <= 11 * most


@given(st.binary(max_size=400))
def test_nonsense_is_refused_quietly(text: bytes) -> None:
    for parse in (parse_stat, parse_schedstat, parse_syscall):
        parse(text)


@given(names, st.integers(0, 200))
def test_a_line_cut_short_is_refused_or_right(name: bytes, length: int) -> None:
    line = stat_line(12, name, birth=77)
    found = parse_stat(line[:length])
    if found is not None and found[0] == name and length >= len(line) - 1:
        assert found[7] == 77


@given(st.integers(0, 2**59), st.integers(0, 2**59), st.integers(0, 2**40))
def test_the_schedstat_file_is_parsed(run: int, ready: int, switches: int) -> None:
    assert parse_schedstat(b"%d %d %d\n" % (run, ready, switches)) == (run, ready, switches)
    assert parse_schedstat(b"%d -1 %d\n" % (run, switches)) is None
    assert parse_schedstat(b"%d %d\n" % (run, ready)) is None


def test_the_syscall_file_is_parsed() -> None:
    assert parse_syscall(b"202 0x7f00 0x80 0x0 0x0 0x0 0x0 0x7ffe00000000 0x7f0000000000\n") == (202, 0x7F00)
    assert parse_syscall(b"-1 0x7ffe00000000 0x7f0000000000\n")[0] == -1
    assert parse_syscall(b"running\n")[0] == -2
    assert parse_syscall(b"3 0x1 0x2 0x3 0x0 0x0 0x0 0xffffd000 0xf7fc0000\n")[0] == -2, "a 32-bit program's numbers"


def test_the_wchan_file_is_parsed() -> None:
    assert reason_of_wchan(b"futex_do_wait") == "wait.futex"
    assert reason_of_wchan(b"hrtimer_nanosleep") == "wait.sleep"
    assert reason_of_wchan(b"\xffnonsense") is None


# -- the arithmetic ---------------------------------------------------------------------------------------------------

figures = st.integers(0, 2**40) | st.integers(0, 2**63 - 1) | st.just(0)
steps = st.tuples(
    st.integers(-(10**6), 10**11) | st.just(0),
    figures,
    figures,
    st.integers(0, 5),
    st.integers(0, 10**6),
    st.integers(0, 10**6),
    st.integers(0, WHOLE_SHARE),
    st.sampled_from([RUNNABLE, WAITING, UNREADABLE]),
    st.integers(0, len(FIRST_REASONS) - 1),
)


@given(st.integers(0, 2**50), st.lists(steps, max_size=30), st.integers(0, 10**12))
def test_whatever_is_read_time_is_conserved_and_cells_never_go_back(
    start: int, readings: list[tuple[int, ...]], rest: int
) -> None:
    account = ThreadAccount(start, tick=TICK)
    now = latest = start
    before: dict[str, int] = {}
    for passed, *reading in readings:
        now = max(now + passed, 0)
        latest = max(latest, now)
        account.advance(now, *reading)
        after = account.states(list(FIRST_REASONS))
        assert sum(after.values()) == account.span == latest - start
        assert all(after.get(state, 0) >= spent for state, spent in before.items())
        assert all(spent > 0 for spent in after.values())
        before = after
    account.close(latest + rest)
    after = account.states(list(FIRST_REASONS))
    assert sum(after.values()) == account.span <= latest - start + rest
    assert all(after.get(state, 0) >= spent for state, spent in before.items())


def total_run(account: ThreadAccount) -> int:
    states = account.states(list(FIRST_REASONS))
    return states.get("user", 0) + states.get("kernel", 0)


lives = st.lists(
    st.tuples(st.sampled_from(["run", "ready", "wait"]), st.integers(1, 30_000_000), st.booleans()),
    min_size=1,
    max_size=60,
)


@settings(max_examples=300)
@given(lives, st.integers(0, TICK - 1))
def test_run_time_is_the_kernels_within_a_tick_and_exact_once_settled(
    life: list[tuple[str, int, bool]], phase: int
) -> None:
    """A simulated kernel: run time is brought up to date at ticks and switches, queue time when the queue is left."""
    account = ThreadAccount(0, tick=TICK)
    now = run = told_run = queued = told_ready = switches = 0
    running = False
    for state, length, look in life:
        for part in (length // 2, length - length // 2):
            if state == "run":
                if not running:
                    running, switches = True, switches + 1
                    told_ready, queued = told_ready + queued, 0
                last_tick = (now + part + phase) // TICK * TICK - phase
                if last_tick > now:
                    told_run = run + (last_tick - now)
                run += part
            else:
                running, told_run = False, run
                queued += part if state == "ready" else 0
                if state == "wait":
                    told_ready, queued = told_ready + queued, 0
            now += part
            if look:
                condition = WAITING if state == "wait" else RUNNABLE
                account.advance(now, told_run, told_ready, switches, 0, 0, WHOLE_SHARE, condition, 0)
                assert account.span == now
                assert abs(total_run(account) - run) <= TICK
                if account.settled and condition == WAITING:
                    assert total_run(account) == run


def test_division_into_user_and_kernel_follows_the_ticks() -> None:
    account = ThreadAccount(0, tick=TICK)
    account.advance(10**9, 8 * 10**8, 0, 1, 60, 20, 0, WAITING, 0)
    states = account.states(list(FIRST_REASONS))
    assert states == {"user": 6 * 10**8, "kernel": 2 * 10**8, "wait": 2 * 10**8}


def test_without_ticks_the_division_is_the_processs() -> None:
    account = ThreadAccount(0, tick=TICK)
    account.advance(10**9, 8 * 10**8, 0, 1, 0, 0, WHOLE_SHARE // 4, WAITING, 0)
    assert account.states(list(FIRST_REASONS)) == {"user": 2 * 10**8, "kernel": 6 * 10**8, "wait": 2 * 10**8}


def test_a_wait_is_shared_by_what_was_found_at_both_ends() -> None:
    disk, net = FIRST_REASONS.index("wait.disk"), FIRST_REASONS.index("wait.net")
    account = ThreadAccount(0, tick=TICK)
    account.advance(100, 0, 0, 0, 0, 0, 0, WAITING, disk)
    account.advance(201, 0, 0, 1, 0, 0, 0, WAITING, net)
    account.advance(301, 0, 0, 2, 0, 0, 0, RUNNABLE, 0)
    assert account.states(list(FIRST_REASONS)) == {"wait.disk": 150, "wait.net": 151}


def test_figures_that_jump_are_not_taken_for_progress() -> None:
    account = ThreadAccount(0, tick=TICK)
    account.advance(10**9, 10**8, 0, 1, 5, 5, 0, WAITING, 0)
    account.restart(9 * 10**10, 5, 7, 100, 300)
    account.advance(2 * 10**9, 9 * 10**10 + 10**8, 5, 8, 110, 310, 0, WAITING, 0)
    assert total_run(account) == 2 * 10**8
    assert account.settled


# -- made-up /proc trees ----------------------------------------------------------------------------------------------

PID = 2**22 + 17  # larger than any real one


class Tree:
    """A made-up /proc, and a clock to go with it. Its boot was when CLOCK_BOOTTIME says that ours was."""

    def __init__(self, root: Path, schedstat: bool = True) -> None:
        self.root = root
        self.now = time.monotonic_ns()
        (root / "self").mkdir()
        if schedstat:
            (root / "self" / "schedstat").write_text("5 5 5\n")

    def thread(self, pid: int, tid: int, stat: bytes, schedstat: str | None = None) -> Path:
        directory = self.root / str(pid) / "task" / str(tid)
        directory.mkdir(parents=True, exist_ok=True)
        for place in {directory, self.root / str(pid)} if pid == tid else {directory}:
            (place / "stat").write_bytes(stat)
            if schedstat is not None:
                (place / "schedstat").write_text(schedstat)
        for known in {pid, tid}:
            (self.root / str(known)).mkdir(exist_ok=True)
            (self.root / str(known) / "status").write_text(f"Name:\tx\nTgid:\t{pid}\n")
        return directory

    def source(self, **chosen: object) -> ProcSource:
        selection = Selection(**chosen)  # type: ignore[arg-type]
        return ProcSource(selection, proc=str(self.root), clock=lambda: self.now, descriptors=0)


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def lawful(ledger: Ledger) -> Ledger:
    assert violations(ledger) == []
    return ledger


def only(ledger: Ledger) -> Thread:
    assert len(ledger.threads) == 1, ledger.threads
    return ledger.threads[0]


def spent(thread: Thread) -> dict[str, int]:
    assert all(cell.count is None for cell in thread.states.values()), "occurrences are not known"
    return {state: cell.time for state, cell in thread.states.items()}


@pytest.mark.parametrize("name", [b"a b) R 1 (", b"line\nbreak", b"\xff\xfeok", b""])
def test_hostile_names_are_kept(tree: Tree, name: bytes) -> None:
    tree.thread(PID, PID, stat_line(PID, name), "0 0 0\n")
    source = tree.source(pids=(PID,))
    source.begin()
    thread = only(lawful(source.end()))
    assert thread.name == name.decode("utf-8", "backslashreplace")


def test_the_figures_of_a_thread_become_states(tree: Tree) -> None:
    tree.thread(PID, PID, stat_line(PID, b"x", user=10, system=10, birth=5), "1000 500 3\n")
    directory = tree.thread(PID, PID, stat_line(PID, b"x", user=10, system=10, birth=5), "1000 500 3\n")
    source = tree.source(pids=(PID,))
    source.begin()
    tree.now += 10_000
    (directory / "stat").write_bytes(stat_line(PID, b"x", user=13, system=11, birth=5))
    (directory / "schedstat").write_text("5000 1500 4\n")
    ledger = lawful(source.read())
    assert spent(only(ledger)) == {"user": 3000, "kernel": 1000, "ready": 1000, "wait": 5000}
    assert only(ledger).birth == 50_000_000
    assert ledger.precision.total is Quality.EXACT
    assert ledger.precision.effective is Quality.SAMPLED
    assert ledger.precision.memory is ledger.precision.poll is Quality.UNAVAILABLE
    assert ledger.indices(only(ledger)).rpi == 4000
    assert ledger.indices(only(ledger)).mpi is None


def test_without_schedstat_ticks_are_used_and_it_is_said(tmp_path: Path) -> None:
    tree = Tree(tmp_path, schedstat=False)
    tree.thread(PID, PID, stat_line(PID, b"x", user=10, system=10))
    source = tree.source(pids=(PID,))
    source.begin()
    tree.now += 10**9
    tree.thread(PID, PID, stat_line(PID, b"x", user=40, system=20))
    ledger = lawful(source.end())
    assert spent(only(ledger)) == {"user": 300_000_000, "kernel": 100_000_000, "wait": 600_000_000}
    assert ledger.precision.total is Quality.SAMPLED
    assert {"rpi", "ready"} <= ledger.reasons.keys()


def test_what_only_ebpf_can_know_has_a_reason() -> None:
    options = MeasureOptions(tasks=True, durations=8)
    with closing(ProcSource(Selection(pids=(os.getpid(),)), options)) as source:
        source.begin()
        assert {"tasks", "durations"} <= source.end().reasons.keys()


def test_an_interval_is_what_lies_between(tree: Tree) -> None:
    tree.thread(PID, PID, stat_line(PID, b"x"), "0 0 0\n")
    source = tree.source(pids=(PID,))
    source.begin()
    tree.now += 100
    tree.thread(PID, PID, stat_line(PID, b"x"), "60 0 1\n")
    first = lawful(source.interval())
    tree.now += 50
    second = lawful(source.end_interval())
    assert (spent(only(first)), spent(only(second))) == ({"user": 60, "wait": 40}, {"wait": 50})
    assert second.window.start == first.window.end


def test_vanished_threads_keep_what_was_last_seen(tree: Tree) -> None:
    tree.thread(PID, PID, stat_line(PID, b"x"), "0 0 0\n")
    gone = tree.thread(PID, PID + 1, stat_line(PID + 1, b"y"), "0 0 0\n")
    source = tree.source(pids=(PID,))
    source.begin()
    tree.now += 100
    tree.thread(PID, PID + 1, stat_line(PID + 1, b"y"), "70 0 1\n")
    source.read()
    tree.now += 100
    shutil.rmtree(gone)
    ledger = lawful(source.read())
    x, y = ledger.threads
    assert (x.end, x.span) == (None, 200)
    assert (y.end, y.span, spent(y)) == (ledger.window.start + 100, 100, {"user": 70, "wait": 30})
    assert ledger.losses["unseen_ends"] == 1
    assert ledger.precision.total is Quality.SAMPLED
    tree.now += 100
    shutil.rmtree(tree.root / str(PID))
    ledger = lawful(source.end())
    assert [t.end is not None for t in ledger.threads] == [True, True]
    assert ledger.losses["unseen_ends"] == 2


def test_what_cannot_be_read_is_unknown(tree: Tree) -> None:
    directory = tree.thread(PID, PID, stat_line(PID, b"x"), "0 0 0\n")
    source = tree.source(pids=(PID,))
    source.begin()
    tree.now += 100
    (directory / "schedstat").write_text("nonsense")
    assert spent(only(lawful(source.read()))) == {"unknown": 100}
    tree.now += 100
    tree.thread(PID, PID, stat_line(PID, b"x"), "50 0 2\n")
    ledger = lawful(source.end())
    assert spent(only(ledger)) == {"unknown": 100, "user": 50, "wait": 50}
    assert ledger.precision.total is Quality.SAMPLED


def test_a_reused_id_is_another_thread(tree: Tree) -> None:
    tree.thread(PID, PID, stat_line(PID, b"x"), "0 0 0\n")
    tree.thread(PID, PID + 1, stat_line(PID + 1, b"old", birth=5), "10 0 1\n")
    source = tree.source(pids=(PID,))
    source.begin()
    tree.now += 10**9
    boot = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - time.monotonic_ns()
    born = (tree.now + boot - 5 * 10**8) // 10**7
    tree.thread(PID, PID + 1, stat_line(PID + 1, b"new", birth=born), "3000 0 1\n")
    ledger = lawful(source.end())
    old, new = (t for t in ledger.threads if t.tid == PID + 1)
    assert (old.name, old.end is None, old.birth) == ("old", False, 50_000_000)
    assert (new.name, new.end is None, new.birth) == ("new", True, born * 10**7)
    assert spent(new)["user"] == 3000


def test_kernel_threads_and_stopped_threads_have_waits_of_their_own(tree: Tree) -> None:
    tree.thread(PID, PID, stat_line(PID, b"kworker/0:1", state="I", flags=0x00200000), "0 0 0\n")
    tree.thread(PID, PID + 1, stat_line(PID + 1, b"x", state="T"), "0 0 0\n")
    tree.thread(PID, PID + 2, stat_line(PID + 2, b"x", state="D"), "0 0 0\n")
    source = tree.source(pids=(PID,))
    source.begin()
    tree.now += 100
    assert [spent(t) for t in lawful(source.end()).threads] == [
        {"wait.work": 100},
        {"stopped": 100},
        {"wait.disk": 100},
    ]


def test_a_thread_of_the_kernel_has_no_code_of_a_program(tree: Tree) -> None:
    tree.thread(PID, PID, stat_line(PID, b"kworker/0:1", flags=0x00200000), "0 0 0\n")
    source = tree.source(pids=(PID,))
    source.begin()
    tree.now += 10**9
    tree.thread(PID, PID, stat_line(PID, b"kworker/0:1", flags=0x00200000, user=3), "800000000 0 3\n")
    ledger = lawful(source.end())
    assert spent(only(ledger))["kernel.thread"] == 800_000_000
    assert not spent(only(ledger)).keys() & {"user", "kernel", "running"}
    assert ledger.indices(only(ledger)).epi == 0


def test_threads_are_selected_by_cgroup(tree: Tree, tmp_path_factory: pytest.TempPathFactory) -> None:
    group = tmp_path_factory.mktemp("group")
    (group / "below").mkdir()
    (group / "cgroup.procs").write_text(f"{PID}\n")
    (group / "cgroup.threads").write_text(f"0\n{PID}\n")
    (group / "below" / "tasks").write_text(f"{PID + 5}\n{PID + 99}\n")
    tree.thread(PID, PID, stat_line(PID, b"x"), "0 0 0\n")
    tree.thread(PID, PID + 1, stat_line(PID + 1, b"not in it"), "0 0 0\n")
    tree.thread(PID + 4, PID + 5, stat_line(PID + 5, b"y"), "0 0 0\n")
    source = tree.source(cgroup=str(group))
    source.begin()
    tree.now += 100
    assert [t.tid for t in lawful(source.end()).threads] == [PID, PID + 5]


# -- errors -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("selection", "kind", "says"),
    [
        (Selection(pids=(PID,)), SelectionError, f"there is no process {PID}"),
        (Selection(tids=(PID,)), SelectionError, f"there is no thread {PID}"),
        (Selection(cgroup="/no/such/group"), SelectionError, "there is no cgroup /no/such/group"),
        (Selection(everything=True, cpus=(0,)), HeadwayError, "eBPF"),
    ],
)
def test_what_cannot_be_measured_is_refused_in_one_sentence(
    selection: Selection, kind: type[HeadwayError], says: str
) -> None:
    open_before = set(os.listdir("/proc/self/fd"))
    source = ProcSource(selection)
    with pytest.raises(kind, match=says) as raised:
        source.begin()
    assert "\n" not in str(raised.value)
    source.close()
    assert set(os.listdir("/proc/self/fd")) <= open_before | {str(max(map(int, open_before)) + 1)}


def test_without_proc_the_source_refuses_to_begin(tmp_path: Path) -> None:
    with pytest.raises(HeadwayError, match="cannot be read"):
        ProcSource(Selection(everything=True), proc=str(tmp_path / "nowhere")).begin()


def test_proc_is_a_source(tree: Tree) -> None:
    tree.thread(PID, PID, stat_line(PID, b"x"), "0 0 0\n")
    source: LinuxSource = tree.source(pids=(PID,))
    assert source.service() is None
    with pytest.raises(RuntimeError):
        source.read()
    source.begin()
    assert list(source.poll_fds()) == []
    pause = source.service()
    assert pause is not None
    assert 0 < pause <= 1
    source.wait_until_exit_is_seen(PID)
    last = source.end()
    assert source.read() is last
    source.close()
    source.close()
    assert source.service() is None


# -- real threads -----------------------------------------------------------------------------------------------------


class Program:
    """Another process that does what it is told, and says when it is done."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(script("obey"), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.pid = self.process.pid
        self.do("pass")

    def tell(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

    def hear(self) -> None:
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == b"done\n"

    def do(self, line: str) -> None:
        self.tell(line)
        self.hear()
        self.until_asleep()

    def until_alone(self) -> None:
        """All its threads but the first are gone (one may still be on its way out when it has been joined)."""
        eventually(lambda: len(os.listdir(f"/proc/{self.pid}/task")) == 1)

    def until_asleep(self) -> None:
        """Its first thread is back in its read, and its figures are complete."""
        until_asleep(self.pid)


def eventually(holds: Callable[[], object]) -> None:
    limit = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < limit, "it never happened"
        time.sleep(0.002)


@pytest.fixture
def program() -> Iterator[Program]:
    program = Program()
    yield program
    program.process.kill()
    program.process.communicate()


@contextmanager
def measuring(**chosen: object) -> Iterator[ProcSource]:
    source = ProcSource(Selection(**chosen))  # type: ignore[arg-type]
    try:
        source.begin()
        yield source
    finally:
        source.close()


def cpu_time(pid: int) -> int:
    """The process's CPU clock (clock_getcpuclockid(3)), ended threads included."""
    return time.clock_gettime_ns((~pid << 3) | 2)


def run_of(ledger: Ledger) -> int:
    total = 0
    for thread in ledger.threads:
        rpi = ledger.indices(thread).rpi
        assert rpi is not None
        total += rpi
    return total


def test_run_time_is_the_kernels_own(program: Program) -> None:
    before = cpu_time(program.pid)
    with measuring(pids=(program.pid,)) as source:
        program.do("burn(time.thread_time_ns() + 50_000_000)")
        ledger = lawful(source.end())
    assert ledger.precision.total is Quality.EXACT
    assert run_of(ledger) == cpu_time(program.pid) - before >= 50_000_000
    assert only(ledger).start == ledger.window.start
    assert only(ledger).end is None


def test_what_threads_ran_unseen_is_counted(program: Program) -> None:
    before = cpu_time(program.pid)
    with measuring(pids=(program.pid,)) as source:
        program.do("for _ in range(5): on_thread(burn, 10_000_000).join()")
        program.until_alone()
        source.read()
        ledger = lawful(source.end())
    assert len(ledger.threads) == 1, "none of the five was there at a look"
    assert ledger.losses["unseen_ns"] >= 50_000_000
    assert run_of(ledger) + ledger.losses["unseen_ns"] == cpu_time(program.pid) - before
    assert ledger.precision.total is Quality.SAMPLED


def test_what_children_ran_unseen_is_counted(program: Program) -> None:
    with measuring(pids=(program.pid,)) as source:
        program.do("for _ in range(5): os.fork() or (burn(40_000_000), os._exit(0)); os.wait()")
        ledger = lawful(source.end())
    assert len(ledger.threads) == 1
    assert ledger.losses["unseen_ns"] >= 5 * 40_000_000 - 20_000_000, "in steps of 10 ms, user and system apart"


def test_threads_that_come_and_go_are_followed(program: Program) -> None:
    with measuring(pids=(program.pid,)) as source:
        program.do("go = threading.Event(); sleeper = on_thread(go.wait)")
        first = lawful(source.read())
        assert len(first.threads) == 2
        second_thread = next(t for t in first.threads if t.tid != program.pid)
        assert second_thread.start > first.window.start - 20_000_000
        program.do("go.set(); sleeper.join()")
        program.until_alone()
        ledger = lawful(source.end())
    ended = next(t for t in ledger.threads if t.key == second_thread.key)
    assert ended.end is not None
    assert first.window.start <= ended.start <= ended.end <= ledger.window.end
    assert lawful(since(ledger, first)).window.start == first.window.end


@pytest.mark.parametrize("follow", [True, False])
def test_children_are_followed_unless_told(program: Program, follow: bool) -> None:
    with measuring(pids=(program.pid,), follow=follow) as source:
        program.do("child = os.fork() or time.sleep(1000)")
        found = {t.pid for t in lawful(source.read()).threads}
        children = {int(pid) for pid in Path(f"/proc/{program.pid}/task/{program.pid}/children").read_text().split()}
        assert found == {program.pid} | (children if follow else set())
        program.do("os.kill(child, 9); os.waitpid(child, 0)")
        ledger = lawful(source.end())
    assert {t.pid for t in ledger.threads if t.end is not None} == (children if follow else set())


def test_children_of_a_single_thread_are_followed(program: Program) -> None:
    if not Path(f"/proc/{program.pid}/task/{program.pid}/children").exists():
        pytest.skip("this kernel has no CONFIG_PROC_CHILDREN")
    program.do("go = threading.Event(); sleeper = on_thread(go.wait)")
    with measuring(tids=(program.pid,)) as source:
        program.do("child = os.fork() or time.sleep(1000)")
        ledger = lawful(source.end())
        program.do("os.kill(child, 9); os.waitpid(child, 0); go.set()")
    assert len(ledger.threads) == 2
    assert {t.tid for t in ledger.threads} > {program.pid}
    assert {t.pid for t in ledger.threads} != {program.pid}


def test_a_thread_id_is_not_a_process(program: Program) -> None:
    program.do("go = threading.Event(); sleeper = on_thread(go.wait)")
    tid = next(int(t) for t in os.listdir(f"/proc/{program.pid}/task") if int(t) != program.pid)
    with pytest.raises(SelectionError, match=f"-t {tid}"), measuring(pids=(tid,)):
        pass


def test_threads_are_selected_by_name(program: Program) -> None:
    name = f"hw{os.getpid()}x"
    rename = f"open('/proc/thread-self/comm', 'w').write('{name}')"
    program.do(f"go = threading.Event(); on_thread(lambda: ({rename}, go.wait()))")
    comms = Path(f"/proc/{program.pid}/task")
    eventually(lambda: any(c.read_text() == f"{name}\n" for c in comms.glob("*/comm")))
    for chosen in (name, name[:-1] + "*"):
        with measuring(name=chosen) as source:
            assert [t.name for t in lawful(source.end()).threads] == [name]
    with measuring(name=name[:-1]) as source:
        assert lawful(source.end()).threads == ()


def test_everything_has_this_process_and_counts_the_cost_of_looking() -> None:
    with measuring(everything=True) as source:
        source.service()
        ledger = lawful(source.end())
    assert os.getpid() in {t.tid for t in ledger.threads}
    assert ledger.overhead.events is not None
    assert ledger.overhead.events >= len(ledger.threads)
    assert ledger.overhead.time is not None
    assert ledger.overhead.time > 0


@pytest.mark.parametrize(
    ("doing", "state"),
    [
        ("time.sleep(1000)", "wait.sleep"),
        ("os.read(os.pipe()[0], 1)", "wait.pipe"),
        ("import socket; pair = socket.socketpair(); pair[0].recv(1)", "wait.net"),
        ("import select; select.poll().poll(10**6)", "wait.poll"),
        ("import select; select.epoll().poll(10**6)", "wait.epoll"),
        ("import threading; l = threading.Lock(); l.acquire(); l.acquire()", "wait.futex"),
        ("os.fork() and os.wait() or time.sleep(1000)", "wait.child"),
        ("import signal; signal.pause()", "wait.signal"),
        ("os.kill(os.getpid(), 19)", "stopped"),
    ],
)
def test_what_a_thread_waits_for_is_its_state(doing: str, state: str) -> None:
    process = subprocess.Popen([sys.executable, "-c", f"import os, time\n{doing}"], start_new_session=True)
    try:
        try:
            Path(f"/proc/{process.pid}/syscall").read_bytes()
        except OSError as why:
            pytest.skip(f"this user may not see the system calls of its own processes: {why}")
        with measuring(pids=(process.pid,)) as source:
            eventually(lambda: any(state in t.states for t in lawful(source.read()).threads))
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.mark.parametrize("reaped_first", [False, True])
def test_a_command_and_its_children_are_accounted_for(reaped_first: bool) -> None:
    """What was seen and what was not add up to what the kernel tells whoever waits for the command, at most."""
    gate, release = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(release)
            os.read(gate, 1)
            os.execv(sys.executable, [sys.executable, "-S", str(PROGRAMS / "burn_in_children.py")])
        finally:
            os._exit(99)
    until_asleep(pid)
    before = cpu_time(pid)
    with measuring(command=pid) as source:
        os.write(release, b"!")
        os.close(gate)
        os.close(release)
        usage = None
        while os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            time.sleep(source.service() or 0)
        if reaped_first:
            _, status, usage = os.wait4(pid, 0)
        ledger = lawful(source.end())
        if usage is None:
            _, status, usage = os.wait4(pid, 0)
    assert status == 0
    used = round((usage.ru_utime + usage.ru_stime) * 1e9) - before
    main = next(t for t in ledger.threads if t.pid == pid)
    assert main.end is not None
    assert used >= 180_000_000
    in_the_books = run_of(ledger) + ledger.losses["unseen_ns"]
    # Children are told of in steps of 10 ms, user and system apart; a thread that ended is lent a tick at most.
    assert in_the_books <= used + len(ledger.threads) * TICK + 1_000_000
    assert in_the_books >= used - 20_000_000 - 1_000_000 if not reaped_first else in_the_books >= used - 1_000_000


def test_the_time_of_other_children_is_not_the_commands() -> None:
    def burning(ns: int) -> int:
        pid = os.fork()
        if pid == 0:
            while time.thread_time_ns() < ns:
                pass
            os._exit(0)
        return pid

    gate, release = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(release)
        os.read(gate, 1)
        os._exit(0)
    until_asleep(pid)
    with measuring(command=pid) as source:
        os.waitpid(burning(60_000_000), 0)
        source.read()
        os.close(release)
        os.close(gate)
        _, status, usage = os.wait4(pid, 0)
        ledger = lawful(source.end())
    assert status == 0
    used = round((usage.ru_utime + usage.ru_stime) * 1e9)
    assert run_of(ledger) + ledger.losses["unseen_ns"] <= used + TICK + 1_000_000


def test_threads_starting_and_ending_all_the_time_break_nothing(program: Program) -> None:
    with measuring(pids=(program.pid,)) as source:
        program.tell("for _ in range(300): on_thread(burn, 100_000); os.fork() or os._exit(0); os.wait()")
        readings = [lawful(source.read()) for _ in range(40)]
        program.hear()
        last = lawful(source.end())
    for earlier, later in zip(readings, [*readings[1:], last], strict=True):
        lawful(since(later, earlier))
        assert later.losses.keys() == earlier.losses.keys()
        assert later.losses.keys() <= KNOWN_LOSSES.keys()
        assert all(later.losses[name] >= earlier.losses[name] for name in later.losses)
        cells = {(t.key, state): cell.time for t in later.threads for state, cell in t.states.items()}
        assert all(
            cells.get((t.key, state), 0) >= cell.time for t in earlier.threads for state, cell in t.states.items()
        ), "cells never go back"
    assert len({t.key for t in last.threads}) == len(last.threads)


def test_another_thread_executes_a_program(program: Program) -> None:
    """The first thread's id goes to the thread that executes: what that did under its own id is not counted twice."""
    much = 200_000_000
    with measuring(pids=(program.pid,)) as source:
        go = f"on_thread(lambda: (burn({much}), burnt.set(), go.wait(), os.execv('/bin/sleep', ['sleep', '1000'])))"
        program.do(f"burnt, go = threading.Event(), threading.Event(); {go}; burnt.wait()")
        tasks = Path(f"/proc/{program.pid}/task")
        eventually(lambda: lawful(source.read()) and all(b") S " in s.read_bytes() for s in tasks.glob("*/stat")))
        program.tell("go.set(); time.sleep(1000)")
        eventually(lambda: len(lawful(source.read()).threads) == 2 and len(os.listdir(tasks)) == 1)
        executed = source.read().window.end
        eventually(lambda: lawful(source.read()).window.end > executed + much)  # there would be room to count it twice
        ledger = lawful(source.end())
    first = next(t for t in ledger.threads if t.tid == program.pid)
    assert first.end is None
    assert first.name == "sleep"
    assert (ledger.indices(first).rpi or 0) < much // 2
    assert run_of(ledger) >= much


def test_a_process_outlives_its_first_thread(program: Program) -> None:
    program.do("go = threading.Event(); sleeper = on_thread(time.sleep, 1000); import ctypes")
    with measuring(pids=(program.pid,)) as source:
        program.tell(f"ctypes.CDLL(None).syscall({numbers()['exit']}, 0)")
        stat = Path(f"/proc/{program.pid}/task/{program.pid}/stat")
        eventually(lambda: b") Z " in stat.read_bytes())
        assert [t.end for t in lawful(source.read()).threads] == [None, None]
        program.process.kill()
        eventually(lambda: os.waitid(os.P_PID, program.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT))
        ledger = lawful(source.end())
    assert all(t.end is not None for t in ledger.threads)
    assert ledger.losses["hidden"] == 0
