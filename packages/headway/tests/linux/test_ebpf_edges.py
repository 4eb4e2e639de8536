"""The eBPF source at its edges: too much, too little, what moves while it is measured, and what stands in its way."""

from __future__ import annotations

import errno
import itertools
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest
from tests.compiling import Compile, script
from tests.effort import FEW

from headway.errors import HeadwayError, SelectionError
from headway.linux.bpf.programs import kernel_types, libbpf
from headway.linux.bpf.programs.libbpf import Library
from headway.linux.options import Selection
from headway.linux.perf import perf_event as perf
from headway.linux.sources.choose import start_source
from headway.linux.sources.ebpf import BpfSource
from headway.model import READY_PARTS, Ledger, Quality, interrupt_time, merge, violations
from headway.session.child import SuspendedChild
from headway.session.measure import observe

from .measuring import Together, check, count_of, measure, measure_together, only

pytestmark = pytest.mark.kernel

root = pytest.mark.root
ALIVE = 1000 if FEW else 5000
GENERATIONS = 3 if FEW else 4


@pytest.fixture(scope="module")
def together(compile_c: Compile, tmp_path_factory: pytest.TempPathFactory) -> Together:
    data = tmp_path_factory.mktemp("io_uring") / "data"
    programs: dict[str, list[str | Path]] = {
        "threads_at_once": [compile_c("threads_at_once"), str(ALIVE)],
        "bomb": [compile_c("bomb"), str(GENERATIONS)],
        "efault": [compile_c("efault")],
        "spawn": [compile_c("spawn")],
    }
    with suppress(subprocess.CalledProcessError):  # where this system's headers have no io_uring
        program = compile_c("io_uring")
        if subprocess.run([program, data]).returncode != 77:
            programs["io_uring"] = [program, data]
    return measure_together(programs)


# ---- what stands in its way ----


@pytest.mark.libbpf
def test_a_kernel_without_types_is_said_and_proc_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_types, "BTF", Path("/no/such/file"))
    with pytest.raises(HeadwayError, match=r"no type information.*--source proc"):
        BpfSource(Selection(everything=True)).begin()
    monkeypatch.setattr("headway.linux.sources.choose.may_use_bpf", lambda: True)
    source, why = start_source(Selection(pids=(os.getpid(),)))
    source.close()
    assert source.name == "proc"
    assert "type information" in why
    with pytest.raises(HeadwayError, match="type information"):
        start_source(Selection(pids=(os.getpid(),)), "bpf")


def test_a_libbpf_that_is_missing_or_too_old_is_said() -> None:
    with pytest.raises(HeadwayError, match=r"libnothing\.so\.9 is not installed.*libbpf1.*--source proc"):
        Library("libnothing.so.9")
    with pytest.raises(HeadwayError, match=r"libc\.so\.6 is too old \(before 0\.6\).*1\.0"):
        Library("libc.so.6")


def test_a_libbpf_that_lacks_one_function_names_its_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(libbpf._SIGNATURES, "bpf_function_of_the_future", (None, []))
    try:
        with pytest.raises(HeadwayError, match=r"is too old \(v\d+\.\d+\)"):
            Library()
    except AssertionError:
        pytest.skip("libbpf is not installed")


@root
def test_few_open_files_are_made_more_or_said() -> None:
    code = (
        "from headway.linux.sources.ebpf import BpfSource; from headway.linux.options import Selection\n"
        "import resource; limits = resource.getrlimit(resource.RLIMIT_NOFILE)\n"
        "source = BpfSource(Selection(everything=True)); source.begin(); source.close()\n"
        "assert resource.getrlimit(resource.RLIMIT_NOFILE) == limits"
    )
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    for soft, most, works in ((30, hard, True), (30, 30, False), (12, 12, False)):
        done = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            preexec_fn=partial(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, most)),
        )
        assert (done.returncode == 0) == works, done.stderr
        assert works or "more than are allowed: raise the limit (ulimit -n)" in done.stderr


def refuse_fault_events(monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    """The kernel opens so many of the events at the end of page faults, and from then on none."""
    opened = itertools.count()
    open_counter = perf.open_counter

    def open_or_refuse(event: perf.Event, *, pid: int = -1, cpu: int = -1) -> int:
        if event in perf.FAULTS and next(opened) >= after:
            raise OSError(errno.ENODEV, os.strerror(errno.ENODEV))
        return open_counter(event, pid=pid, cpu=cpu)

    monkeypatch.setattr(perf, "open_counter", open_or_refuse)


@root
def test_a_kernel_without_events_of_page_faults_is_measured_and_said_to_have_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refuse_fault_events(monkeypatch, 0)
    ledger, _ = measure("true")
    assert "page faults are in EPI" in ledger.reasons["kpi"]
    assert ledger.precision.kernel is Quality.UNAVAILABLE
    assert not any(state.startswith("kernel.fault") for state in ledger.threads[0].states)


def open_events() -> int:
    """How many perf events this process has open."""
    found = 0
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            found += os.readlink(f"/proc/self/fd/{name}") == "anon_inode:[perf_event]"
    return found


@root
@pytest.mark.parametrize("after", [2, 3])
def test_a_processor_that_goes_while_its_page_faults_are_to_be_seen_is_said(
    monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    refuse_fault_events(monkeypatch, after)
    before = open_events()
    source = BpfSource(Selection(everything=True))
    with pytest.raises(HeadwayError, match=r"cannot be counted on processor \d+.*try again, or use --source proc$"):
        source.begin()
    assert open_events() == before


# ---- too much ----


@root
def test_threads_beyond_the_room_are_counted_and_the_others_are_complete(compile_c: Compile) -> None:
    held = SuspendedChild([str(compile_c("threads_at_once")), "300"])
    source = BpfSource(Selection(command=held.pid), max_threads=64)
    try:
        source.begin()
        held.release()
        held.wait()
        source.wait_until_exit_is_seen(held.pid)
        ledger = source.end()
    finally:
        source.close()
    check(ledger, "threads_unmeasured")
    assert len(ledger.threads) == 64
    assert ledger.losses["threads_unmeasured"] == 301 - 64
    assert all(thread.end is not None for thread in ledger.threads)


@root
def test_thousands_of_threads_alive_at_once_are_all_measured(together: Together) -> None:
    ledger, _ = together["threads_at_once"]
    assert len(ledger.threads) == ALIVE + 1


@root
def test_processes_that_fork_processes_are_all_there(together: Together) -> None:
    ledger, _ = together["bomb"]
    assert len(ledger.threads) == sum(4**generation for generation in range(GENERATIONS + 2))
    assert all(thread.end is not None for thread in ledger.threads)


@root
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the numbers are those of x86-64")
def test_states_beyond_a_threads_cells_share_one_and_nothing_is_lost_of_the_time(compile_c: Compile) -> None:
    ledger, _ = measure(compile_c("many_calls"), allowed=["states_sharing_a_cell"])
    thread = only(ledger)
    assert len(thread.states.keys() - {"overhead", "stolen", *READY_PARTS}) <= 128, "those are no cells of their own"
    assert ledger.losses["states_sharing_a_cell"] > 0
    count = sum(cell.count or 0 for state, cell in thread.states.items() if state.startswith(("kernel.", "unknown")))
    assert count >= 3 * (80 + 41) + 1000


# ---- what the kernel does for a program ----


@root
def test_calls_that_fail_at_their_memory_are_counted(together: Together) -> None:
    thread = only(together["efault"][0])
    assert 1000 <= (thread.states["kernel.pread64"].count or 0) <= 1004
    # One fault a call, or two: on some processors the kernel tries the copy again, byte by byte.
    assert 1000 <= (thread.states["kernel.fault"].count or 0) <= 2200, "none of them is minor or major"
    assert count_of(thread, "kernel.fault.minor") < 1000


@root
def test_the_workers_of_io_uring_are_threads_of_the_program(together: Together) -> None:
    if "io_uring" not in together:
        pytest.skip("this system's headers have no io_uring, or it is not allowed here")
    ledger, _ = together["io_uring"]
    main = next(thread for thread in ledger.threads if thread.tid == thread.pid)
    workers = [thread for thread in ledger.threads if thread is not main]
    assert workers
    assert all(worker.pid == main.pid and worker.name.startswith("iou-wrk") for worker in workers)
    assert sum(worker.states["kernel.thread"].time for worker in workers if "kernel.thread" in worker.states) > 0
    assert not any(state in ("user", "kernel.read") for worker in workers for state in worker.states)


@root
def test_the_thread_that_looks_for_submissions_polls_while_there_are_none(compile_c: Compile) -> None:
    try:
        program = compile_c("io_uring_thread")
    except subprocess.CalledProcessError:
        pytest.skip("this system's headers have no io_uring")
    if subprocess.run([program, "1"], capture_output=True).returncode == 77:
        pytest.skip("io_uring is not allowed here")
    ledger, (tid, in_vain) = measure(program, "20")
    submitter = next(thread for thread in ledger.threads if thread.tid == int(tid))
    assert submitter.name == f"iou-sqp-{submitter.pid}"
    polled, done = submitter.states["poll.io_uring"], submitter.states["kernel.thread"]
    interrupted = interrupt_time(submitter.states) + sum(
        cell.time for state, cell in submitter.states.items() if state in ("stolen", "overhead")
    )
    assert polled.time + interrupted >= int(in_vain)
    assert 1 <= (done.count or 0) <= 21  # how it ends is one too
    assert polled.time > done.time


@root
def test_every_way_to_make_a_process_is_followed(together: Together) -> None:
    ledger, _ = together["spawn"]
    assert Counter(thread.name for thread in ledger.threads) == {"spawn": 1, "true": 3}
    main = next(thread for thread in ledger.threads if thread.name == "spawn")
    assert main.states["wait.child"].count
    assert not any("clone" in state or "fork" in state for state in main.states if state.startswith("wait."))


# ---- what moves while it is measured ----


@contextmanager
def a_cgroup(name: str) -> Iterator[Path]:
    """A cgroup of version 2, made for a while."""
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    top = next((Path(at) for _, at, kind, *_ in mounts if kind == "cgroup2"), None)
    if top is None:
        pytest.skip("no cgroup v2 hierarchy is mounted")
    folder = top / f"headway-{name}-{os.getpid()}"
    try:
        (folder / "inner").mkdir(parents=True)
    except OSError as error:
        pytest.skip(f"no cgroup can be made: {error}")
    try:
        yield folder
    finally:
        for each in (folder / "inner", folder):
            for _ in range(100):  # what was in it takes a moment to be gone
                try:
                    each.rmdir()
                    break
                except OSError:
                    time.sleep(0.05)


@root
def test_a_cgroup_with_what_is_in_it_below_it_and_comes_to_it() -> None:
    with a_cgroup("members") as folder:
        targets = [subprocess.Popen(["sleep", "60"]) for _ in range(4)]
        inside, below, later, _outside = targets
        try:
            (folder / "cgroup.procs").write_text(str(inside.pid))
            (folder / "inner" / "cgroup.procs").write_text(str(below.pid))
            source = BpfSource(Selection(cgroup=str(folder)))
            try:
                source.begin()
                (folder / "cgroup.procs").write_text(str(later.pid))
                born = subprocess.run(
                    ["sh", "-c", f"echo $$ > {folder}/inner/cgroup.procs; /bin/true; echo $$"], capture_output=True
                )
                ledger = source.end()
            finally:
                source.close()
        finally:
            for target in targets:
                target.kill()
                target.wait()
    check(ledger)
    sleepers = {thread.tid: thread for thread in ledger.threads if thread.name == "sleep"}
    assert sleepers.keys() == {inside.pid, below.pid, later.pid}
    assert sleepers[later.pid].start > sleepers[inside.pid].start
    assert int(born.stdout) in {thread.tid for thread in ledger.threads}
    assert "true" in {thread.name for thread in ledger.threads}


@root
def test_a_cgroup_is_found_from_a_cgroup_namespace() -> None:
    code = (
        "import sys; from headway.session.measure import observe; from headway.linux.options import Selection\n"
        "ledger = observe(Selection(cgroup=sys.argv[1]), prefer='bpf', seconds=0.05).ledger\n"
        "print([thread.name for thread in ledger.threads])"
    )
    with a_cgroup("namespace") as folder:
        script = (
            f"echo $$ > {folder}/cgroup.procs; exec unshare --cgroup --mount sh -c '"
            'set -e; t=$(mktemp -d); mount -t cgroup2 none "$t"; sleep 60 & echo $! > "$t/inner/cgroup.procs"; '
            f'"$0" -c "$1" "$t/inner"; kill $!; umount "$t"; rmdir "$t"\' "$0" "$1"'
        )
        done = subprocess.run(["sh", "-c", script, sys.executable, code], capture_output=True, text=True)
    if "['sleep']" not in done.stdout and ("unshare" in done.stderr or "mount" in done.stderr):
        pytest.skip(f"no cgroup namespace can be made: {done.stderr.strip()}")
    assert done.stdout == "['sleep']\n", done.stderr


@root
def test_threads_that_take_the_name_while_measuring_are_measured_from_then_on() -> None:
    target = subprocess.Popen(script("late_name"), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert target.stdin is not None
    assert target.stdout is not None
    source = BpfSource(Selection(name="headway-late"))
    try:
        target.stdout.readline()
        source.begin()
        target.stdin.write(b"\n")
        target.stdin.flush()
        target.stdout.readline()
        ledger = source.end()
    finally:
        source.close()
        target.kill()
        target.wait()
    (thread,) = ledger.threads
    assert thread.tid == target.pid
    assert thread.name == "headway-other", "one that is measured stays so"
    assert thread.start > ledger.window.start
    assert thread.states["wait.sleep"].time > 0
    assert thread.span >= 50_000_000, "it sleeps so long with the name"
    assert violations(ledger) == []


@root
def test_threads_that_end_while_nobody_looks_are_not_lost() -> None:
    number = 100 if FEW else 300
    held = SuspendedChild(["sh", "-c", f"i=0; while [ $i -lt {number} ]; do /bin/true; i=$((i+1)); done"])
    source = BpfSource(Selection(command=held.pid))
    try:
        source.begin()
        held.release()
        held.wait()
        ledger = source.end()
    finally:
        source.close()
    assert len(ledger.threads) == number + 1
    check(ledger)


@root
def test_a_process_that_is_not_there_leaves_nothing_attached() -> None:
    source = BpfSource(Selection(pids=(4194303,)))
    with pytest.raises(SelectionError):
        source.begin()
    source.close()
    source.close()


# ---- everything, under load: threads that the kernel hides from tracing (a hypervisor's agent) are among it ----


@contextmanager
def load() -> Iterator[None]:
    """Processes that come and go, threads that compute, files that are written."""
    compiler = shutil.which("gcc") or "true"
    xz = shutil.which("xz") or "cat"
    scripts = [
        f"while :; do echo 'int main(void) {{ return 0; }}' | {compiler} -x c -c - -o /dev/null; done",
        f"while :; do head -c 3000000 {sys.executable} | {xz} -T2 >/dev/null; done",
    ]
    loads = [
        subprocess.Popen(["sh", "-c", s], start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for s in scripts
    ]
    try:
        yield
    finally:
        for each in loads:
            os.killpg(each.pid, signal.SIGKILL)
            each.wait()


@root
def test_everything_in_short_intervals_under_load() -> None:
    ledgers: list[Ledger] = []
    with load():
        seconds = 0.5 if FEW else 10
        done = observe(Selection(everything=True), prefer="bpf", interval=0.05, seconds=seconds, each=ledgers.append)
    ledgers.append(done.ledger)
    for ledger in ledgers:
        check(ledger, "switches_unseen", "threads_without_kernel_memory")
    for before, after in itertools.pairwise(ledgers):
        assert before.window.end == after.window.start
    known: dict[tuple[int, int], int] = {}
    for ledger in ledgers:
        for thread in ledger.threads:
            assert known.get(thread.key, thread.start) == thread.start, "no moment of a thread is between two intervals"
            known[thread.key] = thread.until
    whole = ledgers[0]
    for ledger in ledgers[1:]:
        whole = merge(whole, ledger)
    assert violations(whole) == []
    for one in whole.threads:
        assert one.span == one.until - one.start
    for processor in whole.processors:
        assert processor.span == whole.window.duration


@root
def test_processors_and_threads_tell_the_same_story_under_load() -> None:
    with load():
        ledger = observe(Selection(everything=True), prefer="bpf", seconds=0.5 if FEW else 2).ledger
    # A thread that the kernel had no memory for at its birth is counted, and is not among the threads then.
    allowed = ("switches_unseen", "threads_without_kernel_memory")
    check(ledger, *allowed)
    there: Counter[str] = Counter()
    here: Counter[str] = Counter()
    for processor in ledger.processors:
        for state, cell in processor.states.items():
            there[state] += cell.time
    for thread in ledger.threads:
        for state, cell in thread.states.items():
            here[state] += cell.time
    if any(ledger.losses[name] for name in allowed):
        return
    for state in there:
        if state == "user" or state.startswith("kernel."):
            assert here[state] == there[state], state
        elif state.startswith(("irq.", "softirq.")):
            assert here[state] <= there[state], "some of it hit nobody"
