"""Recordings with stacks of real programs whose waits are known: times by function are those of the ledger."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from tests.compiling import PROGRAMS
from tests.running import headway

from headway.model import Kind, Profile, Thread, kind_of
from headway.model.places import place_of
from headway.recording.queries.tables import open_tables
from headway.recording.reader import Recording
from headway.recording.stack_profile import profile_of_stacks

from ..views.html.reading import Page
from .measuring import one_after_the_other, until_asleep

pytestmark = [
    pytest.mark.root,
    pytest.mark.kernel,
    pytest.mark.skipif(os.uname().machine != "x86_64", reason="stacks are walked by call frame information on x86-64"),
]
PYTHON_FRAMES = (3, 9) <= sys.version_info[:2] <= (3, 14)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return one recording of both programs."""
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("needs gcc")
    folder = tmp_path_factory.mktemp("stacks")
    words = [compiler, "-O1", "-g", "-fomit-frame-pointer", "-pthread", "-o", str(folder / "waiting")]
    if subprocess.run([*words, str(PROGRAMS / "waiting_functions.c")], check=False).returncode:
        pytest.skip(f"gcc cannot build it here: {' '.join(words)}")
    programs = [[str(folder / "waiting")], [sys.executable, str(PROGRAMS / "waiting_functions.py")]]
    done = headway("record", "--stacks", "-o", folder / "run.hw", "--", *one_after_the_other(programs, folder))
    assert done.returncode == 0, done.stderr
    return folder / "run.hw"


def profile(path: Path, *, wakers: bool = False) -> Profile:
    with Recording(path) as recording:
        return profile_of_stacks(recording, wakers=wakers)


def thread_of(profile: Profile, name: str) -> tuple[int, Thread]:
    found = [(place, thread) for place, thread in enumerate(profile.ledger.threads) if thread.name == name]
    assert len(found) == 1, [thread.name for thread in profile.ledger.threads]
    return found[0]


def times(profile: Profile, name: str, state: str) -> Counter[str]:
    """Return how long a thread was in a state, ns, by the function that was the place of its stack."""
    number, _ = thread_of(profile, name)
    found: Counter[str] = Counter()
    for thread, in_state, weight, _, stack in profile.rows():
        if thread == number and in_state == state:
            frames = [profile.frames[frame] for frame in stack]
            place = place_of(frames)
            found["" if place is None else frames[place].name] += weight
    return found


def test_the_waits_of_all_stacks_are_the_ledgers(recorded: Path) -> None:
    found = profile(recorded)
    sums: Counter[tuple[int, str]] = Counter()
    for thread, state, weight, _, _ in found.rows():
        if kind_of(state) is Kind.WAIT:
            sums[thread, state] += weight
    kept = {
        (place, state): cell.time
        for place, thread in enumerate(found.ledger.threads)
        for state, cell in thread.states.items()
        if kind_of(state) is Kind.WAIT and cell.time
    }
    assert {key: time for key, time in sums.items() if time} == kept


@pytest.mark.parametrize(
    ("state", "waits", "wakes"), [("wait.futex", "await_turn", "give_turn"), ("wait.pipe", "await_byte", "give_byte")]
)
def test_the_time_off_the_processor_by_function(recorded: Path, state: str, waits: str, wakes: str) -> None:
    found = profile(recorded)
    _, waiter = thread_of(found, "waiter")
    assert times(found, "waiter", state) == {waits: waiter.states[state].time}
    assert times(profile(recorded, wakers=True), "waiter", state) == {wakes: waiter.states[state].time}


@pytest.mark.skipif(not PYTHON_FRAMES, reason="frames of this Python are not read")
def test_functions_of_python_wait_and_wake(recorded: Path) -> None:
    found = profile(recorded)
    _, taker = thread_of(found, "taker")
    assert times(found, "taker", "wait.pipe") == {"take": taker.states["wait.pipe"].time}
    assert times(profile(recorded, wakers=True), "taker", "wait.pipe") == {"fill": taker.states["wait.pipe"].time}


def test_samples_of_processor_time_have_stacks(recorded: Path) -> None:
    found = profile(recorded)
    functions: Counter[str] = Counter()
    for _, state, weight, _, stack in found.rows():
        if state == "user":
            functions.update(dict.fromkeys({found.frames[frame].name for frame in stack}, weight))
    assert functions["calculate"]


def test_queries_name_function_and_line(recorded: Path) -> None:
    source = (PROGRAMS / "waiting_functions.c").read_text().splitlines()
    line = next(number for number, text in enumerate(source, 1) if "the wait at the futex" in text)
    with open_tables(str(recorded)) as tables:
        answer = tables.ask(
            "SELECT DISTINCT function, file, line, waker_function, waker_file FROM waits "
            "WHERE name = 'waiter' AND state = 'wait.futex'"
        )
        assert [tuple(row) for row in answer.rows] == [
            ("await_turn", "waiting_functions.c", line, "give_turn", "waiting_functions.c")
        ]
        sums = "SELECT sum(duration) FROM waits UNION ALL SELECT sum(time) FROM states WHERE kind = 'wait'"
        (waits,), (kept,) = tables.ask(sums).rows
        assert waits == kept


def test_a_report_names_the_waiter_s_and_the_waker_s_place(recorded: Path) -> None:
    lines = [" ".join(line.split()) for line in headway("report", recorded, "--why", "wait").stdout.splitlines()]
    (at,) = (i for i, line in enumerate(lines) if line.startswith("in await_turn() at waiting_functions.c:"))
    assert lines[at + 1].startswith("woken by give_turn() at waiting_functions")
    said = json.loads(headway("report", recorded, "--why", "wait", "--json").stdout)
    (waiter,) = (thread for thread in said["threads"] if thread["name"] == "waiter")
    places = [cause for cause in waiter["causes"] if cause["behind"] == "place" and cause["state"] == "wait.futex"]
    states = {state["state"]: state["time"] for state in waiter["states"]}
    assert [cause["time"] for cause in places] == [states["wait.futex"]]


def test_folded_stacks(recorded: Path) -> None:
    folded = headway("export", recorded, "--to", "folded", "--name", "waiter", "--state", "wait.futex").stdout
    (line,) = folded.splitlines()
    assert line.startswith("waiter;")
    assert ";wait_in_turns;await_turn;" in line
    wakers = headway("export", recorded, "--to", "folded", "--name", "waiter", "--state", "wait.futex", "--wakers")
    (of_waker,) = wakers.stdout.splitlines()
    assert ";main;give_turn;" in of_waker
    assert of_waker.rpartition(" ")[2] == line.rpartition(" ")[2]


def test_at_an_instant_a_waiting_thread_has_a_place(recorded: Path) -> None:
    with open_tables(str(recorded)) as tables:
        ((time, tid),) = tables.ask(
            'SELECT w.time + w.duration // 2 - r."start", w.tid FROM waits AS w JOIN recordings AS r ON w.run = r.run '
            "WHERE w.name = 'waiter' AND w.state = 'wait.futex' ORDER BY w.duration DESC LIMIT 1"
        ).rows
    said = json.loads(headway("at", recorded, f"{time / 1e9:.9f}s", "--format", "json").stdout)
    (row,) = (row for row in said if row["tid"] == tid)
    assert row["place"].startswith("await_turn() at waiting_functions.c:")


def test_two_runs_differ_by_stack(recorded: Path) -> None:
    lines = headway("diff", recorded, recorded, "--folded").stdout.splitlines()
    assert any(";await_turn;" in line for line in lines)
    assert all(line.split()[-1] == line.split()[-2] for line in lines)


def test_what_a_faster_function_would_gain_is_said_without_a_profile(recorded: Path) -> None:
    done = headway("what-if", recorded, "--faster", "calculate=2x", "--anyway", "--format", "json")
    assert done.returncode == 0, done.stderr
    assert "calculate" in done.stdout


def test_the_page_has_waits_by_stack_and_by_waker(recorded: Path, tmp_path: Path) -> None:
    assert headway("report", recorded, "--html", tmp_path / "run.html").returncode == 0
    flames = json.loads(Page((tmp_path / "run.html").read_text()).section("profile"))
    names = {"rows": set[str](), "wakers": set[str]()}
    sums = Counter[str]()
    for side, functions in names.items():
        for _, state, stack, time, _ in flames[side]:
            if flames["states"][state].startswith("wait."):
                sums[side] += time
                functions |= {flames["frames"][frame][0] for frame in flames["stacks"][stack]} if stack >= 0 else set()
    assert sums["rows"] == sums["wakers"] > 0
    assert "await_turn" in names["rows"]
    assert "give_turn" in names["wakers"]


def test_a_wait_that_was_there_before_and_goes_on_has_the_stack_in_the_kernel(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "100"]) as sleeper:
        try:
            until_asleep(sleeper.pid)
            done = headway("record", "--stacks", "-o", tmp_path / "run.hw", "-p", sleeper.pid, "-d", "0.1")
        finally:
            sleeper.kill()
    assert done.returncode == 0, done.stderr
    found = profile(tmp_path / "run.hw")
    (thread,) = found.ledger.threads
    ((_, state, weight, count, stack),) = [row for row in found.rows() if row[1].startswith("wait.")]
    assert (state, weight, count) == ("wait.sleep", thread.states["wait.sleep"].time, 1)
    assert {found.frames[frame].kind for frame in stack} == {"kernel"}
