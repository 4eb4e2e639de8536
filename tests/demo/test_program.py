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

from headway.demo import OwnFigures, Truth, program
from headway.errors import HeadwayError
from headway.model import Kind, kind_of, violations
from headway.session.measure import observe_command

pytestmark = [pytest.mark.end_to_end, pytest.mark.alone]

NAMES = ["compute", "memory", "syscalls", "lock", "holder", "sleeper", "dodger", "disk", "poller", "marked"]
LEEWAY = 0.2e9
"""Nanoseconds: a second on a busy machine is no better than this."""


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
    assert 0.9e9 < truth.elapsed_ns < 60e9
    assert not truth.interrupted


def test_no_part_of_a_thread_is_larger_than_the_whole(truth: Truth) -> None:
    for name, figures in worked(truth).items():
        assert 0 < figures.cpu_ns <= figures.elapsed_ns + LEEWAY, name
        assert (figures.user_ns or 0) + (figures.kernel_ns or 0) <= figures.cpu_ns, name
        assert 0 <= (figures.lock_ns or 0) <= (figures.wait_ns or figures.elapsed_ns), name
        assert (figures.wait_ns or 0) + (figures.ready_ns or 0) <= figures.elapsed_ns, name
        assert (figures.away_ns or 0) + figures.cpu_ns <= figures.elapsed_ns + LEEWAY, name


@pytest.mark.parametrize("name", ["compute", "memory"])
def test_a_thread_that_never_waits_accounts_for_all_of_its_time(truth: Truth, name: str) -> None:
    figures = worked(truth)[name]
    assert figures.user_ns is not None
    assert figures.ready_ns is not None
    assert figures.user_ns + figures.ready_ns == pytest.approx(figures.elapsed_ns, rel=0.05)


def test_memory_is_slower_than_a_cache_and_larger(truth: Truth) -> None:
    figures = worked(truth)["memory"]
    assert figures.access_ns is not None
    assert figures.user_ns is not None
    assert figures.accesses
    assert figures.access_ns == pytest.approx(figures.user_ns / figures.accesses, rel=0.01)
    assert figures.access_ns > 2
    assert figures.buffer_bytes


def test_waiters_wait_most_of_the_time(truth: Truth) -> None:
    threads = worked(truth)
    for name in ("lock", "holder", "sleeper"):
        figures = threads[name]
        assert (figures.wait_ns or 0) + (figures.ready_ns or 0) > 0.5 * figures.elapsed_ns, name
    assert (threads["lock"].lock_ns or 0) <= (threads["holder"].held_ns or 0) + LEEWAY


def test_dodger_uses_user_and_kernel_time_alike(truth: Truth) -> None:
    # Beside six others that are busy it has few bursts, and a pause that is not said to be stolen may hit one of them.
    for _ in range(5):
        figures = worked(truth)["dodger"]
        if 0.3 < (figures.user_ns or 0) / max(figures.cpu_ns, 1) < 0.7:
            break
        truth = Truth.parse(run("--seconds", "1", "--only", "dodger").stdout)
    assert figures.user_ns
    assert figures.kernel_ns
    assert figures.bursts
    assert 0.3 < figures.user_ns / (figures.user_ns + figures.kernel_ns) < 0.7
    assert figures.user_ns + figures.kernel_ns > 0.9 * figures.cpu_ns
    assert figures.tick_user_ns is not None
    assert figures.tick_kernel_ns is not None
    assert figures.tick_user_ns + figures.tick_kernel_ns <= figures.cpu_ns + 1e7


def test_poller_knows_what_of_its_time_is_polling(truth: Truth) -> None:
    figures = worked(truth)["poller"]
    assert figures.poll_ns
    assert figures.user_ns
    assert figures.poll_ns + figures.user_ns <= figures.cpu_ns
    assert figures.found
    assert figures.checks
    assert figures.checks > figures.found, "each row is of many checks that find nothing, and one that does"


def test_marked_accounts_for_all_of_its_time_by_its_marks(truth: Truth) -> None:
    figures = worked(truth)["marked"]
    assert figures.user_ns
    assert figures.parse_ns
    assert figures.poll_ns
    assert 0.7 * figures.cpu_ns < figures.user_ns + figures.parse_ns + figures.poll_ns <= figures.cpu_ns
    assert figures.regions
    assert figures.regions % 2 == 0, "it parses and spins alike"


@pytest.mark.root
def test_what_poller_and_marked_did_is_seen_as_often_as_they_did_it() -> None:
    with tempfile.TemporaryFile() as output:
        command = [str(program()), "--seconds", "1", "--only", "poller,marked"]
        ledger, status = observe_command(command, prefer="bpf", stdout=output.fileno())
        output.seek(0)
        truth = Truth.parse(output.read().decode())
    assert status == 0
    assert violations(ledger) == []
    poller, marked = (worked(truth)[name] for name in ("poller", "marked"))
    states = {thread.name: thread.states for thread in ledger.threads}
    inside = [states["marked"][state].count for state in ("noneffective.parse", "poll.spin")]
    assert inside[0] == inside[1]
    assert sum(n or 0 for n in inside) == marked.regions
    (polling,) = (cell for state, cell in states["poller"].items() if kind_of(state) is Kind.POLL)
    # A check that a preemption leaves alone between two gaps is no polling.
    assert polling.count == pytest.approx(poller.checks, rel=0.01)
    fruitful = sum(cell.count or 0 for state, cell in states["poller"].items() if state.startswith("kernel.epoll_"))
    assert fruitful >= (poller.found or 0)


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
    assert truth.elapsed_ns < 20e9
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
    assert figures.call_ns == pytest.approx(figures.cpu_ns / figures.calls, rel=0.05)


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
