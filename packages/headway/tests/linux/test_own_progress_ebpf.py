"""What a measured thread reads of itself is what the report says of the same moment, to the nanosecond."""

from __future__ import annotations

import mmap
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from tests.compiling import Compile
from tests.effort import FEW, exhaustive

import headway
from headway.errors import HeadwayError
from headway.linux.levels import Level
from headway.linux.options import MarkedFunctions, MeasureOptions, Selection
from headway.linux.sources.clocks import ClockSource
from headway.linux.sources.ebpf import BpfSource
from headway.linux.sources.ebpf.publication import SOCKET
from headway.model import Kind, Ledger, violations

from .measuring import check, measure

pytestmark = [pytest.mark.kernel, pytest.mark.root]

FIELDS = ("since", "at", "rpi", "epi", "kpi", "iopi", "ready", "wait", "other")
ENTRY = struct.Struct(f"={len(FIELDS)}Q")
ROOM = 1 << 16
HEADWAY = [sys.executable, "-c", "from headway.commands import main; main()"]
PUBLISH = MeasureOptions(publish=True)
READINGS = 2 if FEW else 5


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where the observer publishes, and its programs ask."""
    with tempfile.TemporaryDirectory(prefix="hw") as path:
        os.chmod(path, 0o755)
        monkeypatch.setenv(SOCKET, f"{path}/progress")
        yield Path(path)


class Log:
    """What own_progress.c logs of itself."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "log"
        self.path.write_bytes(bytes(16 + ROOM * ENTRY.size))
        with self.path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), 0)

    def _n(self) -> int:
        return int.from_bytes(self._memory[:8], "little")

    def _last(self) -> int:
        """The moment of the last entry."""
        place = 16 + ((self._n() - 1) % ROOM) * ENTRY.size + 8
        return int.from_bytes(self._memory[place : place + 8], "little")

    def around(self, at: int) -> tuple[dict[str, int], dict[str, int]] | None:
        """Return the last entry before a moment and the first after it; None: the log does not have them any more."""
        deadline = time.monotonic() + 200
        while self._last() <= at:  # the thread may not have a processor just now
            assert time.monotonic() < deadline, "it logs nothing more"
            time.sleep(0.001)
        n = self._n()
        content = self._memory[16:]
        places = range(max(0, n - ROOM + 64), n)
        i = bisect_right(places, at, key=lambda i: struct.unpack_from("=Q", content, (i % ROOM) * ENTRY.size + 8)[0])
        if not 0 < i < len(places):
            return None
        before, after = (
            dict(zip(FIELDS, ENTRY.unpack_from(content, (places[j] % ROOM) * ENTRY.size), strict=True))
            for j in (i - 1, i)
        )
        return before, after


def logging(program: Path, log: Log, *words: str) -> subprocess.Popen[str]:
    """Start own_progress.c. It goes before others on the processors, so that it has one at most moments."""
    started = subprocess.Popen([program, log.path, "120", *words], stdout=subprocess.PIPE, text=True)
    with suppress(OSError):
        os.sched_setscheduler(started.pid, os.SCHED_FIFO, os.sched_param(1))
    return started


def compare(log: Log, ledger: Ledger, pid: int, going_on: str) -> bool:
    """Compare what the thread read just before a reading with that; False: something changed just then.

    Between two entries of the log in which only the figure `going_on` grows, as time does, there was no event.
    """
    (thread,) = (thread for thread in ledger.threads if thread.pid == pid)
    found = log.around(ledger.window.end)
    if found is None:
        return False
    before, after = found
    passed = after["at"] - before["at"]
    grown = {name: after[name] - before[name] for name in FIELDS}
    expected = dict.fromkeys(FIELDS, 0) | {"at": passed, "rpi": passed, going_on: passed}
    if grown != expected:
        return False
    until = ledger.window.end - before["at"]
    times = thread.times()
    assert thread.birth == before["since"]
    assert times.get(Kind.EFFECTIVE, 0) == before["epi"] + (until if going_on == "epi" else 0)
    assert times.get(Kind.KERNEL, 0) == before["kpi"] + (until if going_on == "kpi" else 0)
    assert times.get(Kind.POLL, 0) == before["iopi"] + (until if going_on == "iopi" else 0)
    assert times.get(Kind.READY, 0) == before["ready"]
    assert times.get(Kind.WAIT, 0) == before["wait"]
    others = (Kind.STOLEN, Kind.OVERHEAD, Kind.UNKNOWN)
    assert sum(times.get(kind, 0) for kind in others) == before["other"]
    assert before["rpi"] == before["epi"] + before["kpi"] + before["iopi"]
    return True


CASES = {"": "epi", "noneffective": "kpi", "poll": "iopi", "state": "epi"}


@pytest.mark.parametrize("region", ["", "poll", *exhaustive("noneffective", "state")])
def test_a_thread_reads_what_the_report_says_of_the_same_moment(compile_c: Compile, folder: Path, region: str) -> None:
    log = Log(folder)
    program = logging(compile_c("own_progress"), log, region)
    assert program.stdout is not None
    try:
        with headway.observe(program.pid, source="bpf", publish=True) as seen:
            assert program.stdout.readline() == "measured\n"
            equal, deadline = 0, time.monotonic() + 200
            while equal < READINGS:
                assert time.monotonic() < deadline, f"only {equal} readings without a change"
                time.sleep(0.005)
                ledger = seen.read()
                assert violations(ledger) == []
                equal += compare(log, ledger, program.pid, CASES[region])
        check(seen.read())
        assert program.stdout.readline() == "nobody\n", "when measuring ends, it is told"
    finally:
        program.kill()
        program.wait()


def test_regions_that_begin_and_end_are_in_the_figures(compile_c: Compile, folder: Path) -> None:
    """Between two events a region may begin and end: the thread reads its own block, as the programs do later."""
    log = Log(folder)
    program = logging(compile_c("own_progress"), log, "bursts")
    assert program.stdout is not None
    try:
        with headway.observe(program.pid, source="bpf", publish=True) as seen:
            assert program.stdout.readline() == "measured\n"
            time.sleep(0.3)
            ledger = seen.read()
            found = log.around(ledger.window.end)
        (thread,) = ledger.threads
        assert found is not None
        before, after = found
        times = thread.times()
        assert thread.states["noneffective.burst"].time > times[Kind.EFFECTIVE]
        slack = after["at"] - before["at"] + 100_000  # marks are taken out later
        assert before["kpi"] - slack <= times[Kind.KERNEL] <= after["kpi"] + slack
        assert before["epi"] - slack <= times[Kind.EFFECTIVE] <= after["epi"] + slack
        assert before["ready"] <= times.get(Kind.READY, 0) <= after["ready"]
    finally:
        program.kill()
        program.wait()


def told(words: Sequence[str]) -> dict[str, list[int]]:
    """The figures that own_progress_once.c says, by name."""
    rows = [words[i : i + 11] for i in range(0, len(words), 11)]
    return {row[0]: [int(word) for word in row[1:]] for row in rows}


def test_each_thread_and_each_child_reads_its_own_from_the_first_call(compile_c: Compile, folder: Path) -> None:
    ledger, words = measure(compile_c("own_progress_once"), "fork", options=PUBLISH)
    found = told(words)
    assert found.keys() == {"main", "other", "child"}
    threads = {thread.tid: thread for thread in ledger.threads}
    for known, rpi, epi, kpi, iopi, ready, wait, other, span, tid in found.values():
        assert known
        assert rpi == epi + kpi + iopi
        assert rpi + ready + wait + other == span
        whole = threads[tid]
        times = whole.times()
        assert 0 < span <= whole.span
        later_taken_out = times.get(Kind.STOLEN, 0) + times.get(Kind.OVERHEAD, 0)
        assert 0 < epi <= times[Kind.EFFECTIVE] + later_taken_out
        assert wait <= times.get(Kind.WAIT, 0)
        assert ready <= times.get(Kind.READY, 0)
    assert found["other"][6] >= 20_000_000, "it slept"


def test_a_child_that_is_not_followed_reads_nothing(compile_c: Compile, folder: Path) -> None:
    command = (compile_c("own_progress_once"), "fork", "others")
    _, words = measure(*command, options=PUBLISH, selection=Selection(follow=False))
    known = {name: figures[0] for name, figures in told(words).items()}
    assert known == {"main": 1, "other": 0, "child": 0}


def test_without_publishing_nobody_tells(compile_c: Compile, folder: Path) -> None:
    _, words = measure(compile_c("own_progress_once"), "-", "all")
    assert not any(figures[0] for figures in told(words).values())


UNKNOWN = -1


@pytest.mark.parametrize("level", [level for level in Level if level is not Level.CLOCKS])
def test_what_a_level_does_not_tell_is_unknown(compile_c: Compile, folder: Path, level: Level) -> None:
    _, words = measure(compile_c("own_progress_once"), options=MeasureOptions(publish=True, level=level))
    for known, rpi, epi, kpi, iopi, ready, wait, other, span, _ in told(words).values():
        assert known
        assert rpi + ready + wait + other == span
        assert (epi == UNKNOWN) == (level is Level.SWITCHES)
        assert (iopi == UNKNOWN) == (level is Level.SWITCHES)
        assert (kpi == UNKNOWN) == (level is not Level.INTERRUPTS)


def test_clocks_cannot_publish_and_say_so() -> None:
    source = ClockSource(Selection(pids=(os.getpid(),)), MeasureOptions(publish=True, level=Level.CLOCKS))
    with pytest.raises(HeadwayError, match="cannot tell threads their progress"):
        source.begin()


def test_python_reads_the_same(folder: Path) -> None:
    with headway.observe(os.getpid(), source="bpf", publish=True) as seen:
        deadline = time.monotonic() + 200
        while (first := headway.progress()) is None:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        time.sleep(0.05)
        second = headway.progress()
        ledger = seen.read()
        third = headway.progress()
    assert second is not None
    assert third is not None
    assert second.wait - first.wait >= 50_000_000
    assert second.since == first.since == third.since
    (mine,) = (thread for thread in ledger.threads if thread.tid == os.getpid())
    times = mine.times()
    # What turns out to have been stolen, or headway's, leaves the other figures later (docs/own-progress.md).
    taken = third.other - second.other
    for kind, name in ((Kind.READY, "ready"), (Kind.WAIT, "wait"), (Kind.KERNEL, "kpi"), (Kind.EFFECTIVE, "epi")):
        assert getattr(second, name) - taken <= times.get(kind, 0) <= getattr(third, name) + taken
    assert headway.progress() is None


def test_a_killed_observer_leaves_no_figures_behind(compile_c: Compile, folder: Path) -> None:
    log = Log(folder)
    program = logging(compile_c("own_progress"), log)
    assert program.stdout is not None
    try:
        stat = [*HEADWAY, "stat", "--publish", "-q", "-o", os.devnull, "-p", str(program.pid)]
        with subprocess.Popen(stat) as observer:
            assert program.stdout.readline() == "measured\n"
            observer.send_signal(signal.SIGKILL)
        assert program.stdout.readline() == "nobody\n"
    finally:
        program.kill()
        program.wait()


def test_a_program_of_another_user_reads_without_privileges(compile_c: Compile, folder: Path) -> None:
    program = folder / "program"
    shutil.copy(compile_c("own_progress_once"), program)
    program.chmod(0o755)
    stat = [*HEADWAY, "stat", "--publish", "-q", "-o", os.devnull, "--"]
    privileges = [
        "setpriv",
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
        "--bounding-set=-all",
        "--inh-caps=-all",
    ]
    done = subprocess.run([*stat, *privileges, program], stdout=subprocess.PIPE, text=True, timeout=250, check=True)
    assert all(figures[0] for figures in told(done.stdout.split()).values())


def test_a_program_in_a_pid_namespace_of_its_own_reads_its_own(compile_c: Compile, folder: Path) -> None:
    own = ["unshare", "--pid", "--fork", "--mount-proc"]
    if subprocess.run([*own, "true"], capture_output=True, check=False).returncode:
        pytest.skip("needs namespaces of its own")
    stat = [*HEADWAY, "stat", "--publish", "-q", "-o", os.devnull, "--", *own]
    words = [*stat, str(compile_c("own_progress_once"))]
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, timeout=250, check=True)
    found = told(done.stdout.split())
    assert found["main"][0]
    assert found["main"][-1] == 1, "its id there"


def test_nobody_in_user_space_can_write_the_figures(folder: Path) -> None:
    source = BpfSource(Selection(pids=(os.getpid(),)), PUBLISH)
    source.begin()
    try:
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(os.environ[SOCKET])
            source.service()
            _, (fd,), _, _ = socket.recv_fds(client, 100, 1)
        with pytest.raises(OSError, match="Operation not permitted"):
            mmap.mmap(fd, mmap.PAGESIZE, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
        mmap.mmap(fd, mmap.PAGESIZE, mmap.MAP_SHARED, mmap.PROT_READ).close()
        os.close(fd)
    finally:
        source.close()
    assert os.listdir(folder) == ["progress.lock"]


def test_a_second_observer_is_refused_in_a_sentence(folder: Path) -> None:
    with headway.observe(os.getpid(), source="bpf", publish=True):
        done = subprocess.run(
            [*HEADWAY, "stat", "--publish", "--", "true"], capture_output=True, text=True, timeout=250
        )
    assert done.returncode == 125
    assert "another headway publishes at" in done.stderr
    assert "Traceback" not in done.stderr


def test_marked_functions_are_of_their_kind(compile_c: Compile, folder: Path) -> None:
    """They have states of their own, as regions do, and the programs are told their kinds."""
    program = compile_c("own_progress_once")
    for kind in ("poll", "noneffective", "user")[: 1 if FEW else 3]:
        name = "named" if kind == "user" else ""
        options = MeasureOptions(publish=True, functions=(MarkedFunctions(f"{program}:tell", kind, name),))
        try:
            _, words = measure(program, options=options)
        except HeadwayError as error:
            pytest.skip(str(error))
        for known, _, epi, kpi, iopi, *_ in told(words).values():
            assert known
            most = {"poll": iopi, "noneffective": kpi, "user": epi}[kind]
            assert most == max(epi, kpi, iopi), f"it works in a function that is marked as {kind}"


def test_the_example_has_as_many_workers_as_get_a_processor(folder: Path) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    source = Path(__file__).parents[2] / "examples" / "regions" / "workers.c"
    program = str(folder / "workers")
    options = ["-O2", "-Wall", "-Wextra", "-Werror", "-pthread", f"-I{headway.get_include()}"]
    subprocess.run([compiler, *options, str(source), "-o", program], check=True)
    threads = 4 * len(os.sched_getaffinity(0))

    def working(*before: str) -> int:
        words = [*before, program, str(threads), "1"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=250, check=True)
        work, of, all_of_them, *_ = done.stdout.split()
        assert (of, int(all_of_them)) == ("of", threads)
        return int(work)

    assert working() == threads, "nobody measures"
    assert 1 <= working(*HEADWAY, "stat", "--publish", "-q", "-o", os.devnull, "--") < threads


def test_a_recording_can_publish_too(compile_c: Compile, folder: Path) -> None:
    target = folder / "run.hw"
    record = [*HEADWAY, "record", "--publish", "-o", str(target), "--", str(compile_c("own_progress_once"))]
    done = subprocess.run(record, capture_output=True, text=True, timeout=250, check=True)
    assert all(figures[0] for figures in told(done.stdout.split()).values())
