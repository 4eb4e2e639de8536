"""The demo program run for real: what it prints must be true of itself, whatever else the machine does."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
from tests.linux.measuring import PATIENT, rows_broken

from headway.demo import OwnFigures, Truth, program
from headway.errors import HeadwayError
from headway.linux.options import Selection
from headway.model import Kind, kind_of, violations
from headway.session.measure import observe

pytestmark = [pytest.mark.end_to_end, pytest.mark.alone]

NAMES = ["compute", "memory", "syscalls", "lock", "holder", "sleeper", "dodger", "disk", "poller", "marked"]


def run(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run([program(), *arguments], capture_output=True, text=True, timeout=60, cwd=cwd, check=False)


def worked(truth: Truth) -> dict[str, OwnFigures]:
    return {thread.name: thread.figures for thread in truth.threads if thread.figures is not None}


@pytest.fixture(scope="module")
def truth() -> Truth:
    result = run("--seconds", "1")
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    return Truth.parse(result.stdout)


def test_every_thread_works_and_has_its_own_id(truth: Truth) -> None:
    assert [thread.name for thread in truth.threads] == NAMES
    assert [thread.skipped for thread in truth.threads] == [None] * len(NAMES)
    ids = {thread.tid for thread in truth.threads}
    assert len(ids) == len(NAMES)
    assert truth.pid not in ids
    assert truth.elapsed_ns >= 1_000_000_000
    assert not truth.interrupted


def test_no_part_of_a_thread_is_larger_than_the_whole(truth: Truth) -> None:
    for name, figures in worked(truth).items():
        assert figures.cpu_ns > 0, name
        assert (figures.user_ns or 0) + (figures.kernel_ns or 0) <= figures.cpu_ns, name
        assert 0 <= (figures.lock_ns or 0) <= (figures.wait_ns or figures.elapsed_ns), name
        assert (figures.wait_ns or 0) + (figures.ready_ns or 0) <= figures.elapsed_ns, name
        assert (figures.away_ns or 0) <= figures.elapsed_ns, name


@pytest.mark.parametrize("name", ["compute", "memory"])
def test_a_thread_that_never_waits_is_in_user_code_or_ready(truth: Truth, name: str) -> None:
    figures = worked(truth)[name]
    assert figures.user_ns is not None
    assert figures.ready_ns is not None
    assert 0 < figures.user_ns <= figures.cpu_ns
    assert figures.ready_ns == 0 or figures.user_ns + figures.ready_ns <= figures.elapsed_ns


def test_the_time_of_an_access_to_memory_is_the_time_by_the_number_of_accesses(truth: Truth) -> None:
    figures = worked(truth)["memory"]
    assert figures.access_ns is not None
    assert figures.user_ns is not None
    assert figures.accesses
    assert figures.access_ns == pytest.approx(figures.user_ns / figures.accesses, abs=0.0051, rel=0)  # two decimals
    assert figures.buffer_bytes


def test_waiters_wait_as_long_as_they_ask_for(truth: Truth) -> None:
    threads = worked(truth)
    sleeper, holder, lock = (threads[name] for name in ("sleeper", "holder", "lock"))
    assert sleeper.calls
    assert sleeper.wait_ns == sleeper.calls * 5_000_000
    assert holder.wait_ns
    assert holder.wait_ns % 10_000_000 == 0, "9 ms with the mutex and 1 ms without"
    assert holder.held_ns is not None
    assert 9 * holder.wait_ns // 10 <= holder.held_ns <= holder.elapsed_ns
    assert lock.locks
    assert lock.wait_ns == (lock.lock_ns or 0) + lock.locks * 1_000_000


def test_dodger_has_user_and_kernel_time_in_its_bursts(truth: Truth) -> None:
    figures = worked(truth)["dodger"]
    assert figures.bursts
    assert figures.user_ns
    assert figures.kernel_ns
    assert figures.user_ns + figures.kernel_ns <= figures.cpu_ns
    assert figures.tick_user_ns is not None
    assert figures.tick_kernel_ns is not None


def test_poller_knows_what_of_its_time_is_polling(truth: Truth) -> None:
    figures = worked(truth)["poller"]
    assert figures.poll_ns
    assert figures.user_ns
    assert figures.poll_ns + figures.user_ns <= figures.cpu_ns
    assert figures.found
    assert figures.checks
    assert figures.checks > figures.found, "each row is of many checks that find nothing, and one that does"


def test_marked_knows_the_parts_of_its_time_by_its_marks(truth: Truth) -> None:
    figures = worked(truth)["marked"]
    assert figures.user_ns
    assert figures.parse_ns
    assert figures.poll_ns
    assert figures.user_ns + figures.parse_ns + figures.poll_ns <= figures.cpu_ns
    assert figures.regions
    assert figures.regions % 2 == 0, "it parses and spins alike"


@pytest.mark.root
def test_what_poller_and_marked_did_is_seen_as_often_as_they_did_it() -> None:
    with tempfile.TemporaryFile() as output:
        command = [str(program()), "--seconds", "1", "--only", "poller,marked"]
        done = observe(Selection(), command, options=PATIENT, prefer="bpf", stdout=output.fileno())
        output.seek(0)
        truth = Truth.parse(output.read().decode())
    ledger = done.ledger
    assert done.exit_status == 0
    assert violations(ledger) == []
    poller, marked = (worked(truth)[name] for name in ("poller", "marked"))
    states = {thread.name: thread.states for thread in ledger.threads}
    inside = [states["marked"][state].count for state in ("noneffective.parse", "poll.spin")]
    assert inside[0] == inside[1]
    assert sum(n or 0 for n in inside) == marked.regions
    (polling,) = (cell for state, cell in states["poller"].items() if kind_of(state) is Kind.POLL)
    assert poller.checks
    assert poller.found
    (thread,) = (thread for thread in ledger.threads if thread.name == "poller")
    assert poller.checks - poller.found - rows_broken(thread) <= (polling.count or 0) <= poller.checks
    fruitful = sum(cell.count or 0 for state, cell in states["poller"].items() if state.startswith("kernel.epoll_"))
    assert fruitful >= poller.found


def test_threads_have_their_names_while_they_run() -> None:
    with subprocess.Popen([program(), "--seconds", "30", "--only", "sleeper,lock"], stdout=subprocess.PIPE) as process:
        try:
            wanted = {"sleeper", "lock", "holder"}
            seen: set[str] = set()
            deadline = time.monotonic() + 10
            while not wanted <= seen and time.monotonic() < deadline:
                tasks = Path(f"/proc/{process.pid}/task")
                seen = {(task / "comm").read_text().strip() for task in tasks.iterdir()}
            assert wanted <= seen
        finally:
            process.send_signal(signal.SIGINT)
        assert process.stdout is not None
        truth = Truth.parse(process.stdout.read().decode())
    assert process.returncode == 0
    assert truth.interrupted
    assert truth.elapsed_ns < 30_000_000_000, "the signal ends it"
    assert [thread.name for thread in truth.threads] == ["lock", "holder", "sleeper"]


def test_interrupted_in_its_first_half_it_says_what_did_not_begin() -> None:
    only = ["--seconds", "60", "--only", "memory,syscalls"]
    with subprocess.Popen([program(), *only], stdout=subprocess.PIPE) as process:
        tasks = Path(f"/proc/{process.pid}/task")
        deadline = time.monotonic() + 20
        while len(list(tasks.iterdir())) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        assert process.stdout is not None
        memory, syscalls = Truth.parse(process.stdout.read().decode()).threads
    assert process.returncode == 0
    assert memory.figures is not None
    assert syscalls.figures is None
    assert syscalls.skipped == "interrupted before it began"


def test_system_calls_are_counted() -> None:
    truth = Truth.parse(run("--seconds", "0.2", "--only", "syscalls").stdout)
    (figures,) = worked(truth).values()
    assert figures.calls
    assert figures.calls % 256 == 0, "it calls in loops of 256"
    assert figures.call_ns
    assert (figures.call_ns - 0.051) * figures.calls <= figures.cpu_ns, "the figure has one decimal"


def test_disk_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    result = run("--seconds", "0.2", "--only", "disk", cwd=tmp_path)
    (figures,) = worked(Truth.parse(result.stdout)).values()
    assert figures.syncs
    assert figures.written_bytes
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--seconds", "0"], "not a number of seconds from 0.05 to 3600: '0'"),
        (["--seconds", "nan"], "'nan'"),
        (["--seconds", "3x"], "'3x'"),
        (["--only", "compute,dodo"], "no thread of that name: 'dodo'"),
        (["--only", ""], "no thread of that name: ''"),
        (["now"], "unexpected argument: 'now'"),
        (["--fast"], "--fast"),
    ],
)
def test_bad_options_are_named_with_the_way_out(arguments: list[str], complaint: str) -> None:
    result = run(*arguments)
    assert result.returncode == 2
    assert complaint in result.stderr
    assert "usage: threads" in result.stderr
    assert result.stdout == ""


def test_help_names_every_thread() -> None:
    result = run("--help")
    assert result.returncode == 0
    assert set(NAMES) <= set(re.findall(r"\w+", result.stdout))


@pytest.mark.parametrize("text", ["", "nonsense", "{}", json.dumps({"pid": 1, "threads": [{}]})])
def test_an_account_that_is_none_is_refused_in_one_sentence(text: str) -> None:
    with pytest.raises(HeadwayError, match="the demo program printed no account of itself"):
        Truth.parse(text)
