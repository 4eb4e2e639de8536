"""Events by state (-e) in the eBPF programs: counted where they happened, of threads that live, end and fork."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import time
from collections import Counter
from pathlib import Path

import jsonschema
import pytest
from click.testing import CliRunner
from tests.compiling import Compile

from headway.cli.run import exit_status
from headway.commands import group, stat
from headway.errors import HeadwayError
from headway.linux.options import MeasureOptions, Selection
from headway.linux.perf.counters import MAX_EVENTS, default_set
from headway.model import Cell, Ledger, Thread
from headway.model.ledger import States
from headway.session.measure import observe
from headway.views.json import schema

from .measuring import Together, after_running, count_of, measure, measure_intervals, measure_together, only

pytestmark = [pytest.mark.root, pytest.mark.kernel]


ONCE = "each page that is touched counts once; how many those of programs and libraries are, the page cache decides"


def happened(cell: Cell, event: str) -> int:
    """How often an event happened in a state; none in the observer's, where nothing is counted."""
    return (cell.events or {}).get(event) or 0


def total(states: States, event: str) -> int:
    return sum(happened(cell, event) for cell in states.values())


@pytest.fixture
def program(compile_c: Compile) -> Path:
    return compile_c("counting")


@pytest.fixture(scope="module")
def together(compile_c: Compile) -> Together:
    ways = [("touch", "20000"), ("sleep", "100"), ("threads", "100"), ("forks", "20")]
    programs: dict[str, list[str | Path]] = {how: [compile_c("counting"), how, number] for how, number in ways}
    return measure_together(programs, options=counting("page-faults", "minor-faults", "context-switches"))


class Elapsed:
    """The time since this was made, by the clock of the test: no counter of one thread can have more."""

    def __init__(self) -> None:
        self._start = time.monotonic_ns()

    def most(self) -> float:
        """The most that the processor's clock can have counted, ns. NTP corrects that clock by 500 ppm at most."""
        return 1.001 * (time.monotonic_ns() - self._start)


def counting(*events: str) -> MeasureOptions:
    return MeasureOptions(events=events)


def test_pages_touched_are_faults_in_the_state_of_faults(together: Together) -> None:
    thread = only(together["touch"][0])
    faults = {state: cell for state, cell in thread.states.items() if state.startswith("kernel.fault")}
    in_faults = total(faults, "page-faults")
    assert in_faults == sum(cell.count or 0 for cell in faults.values())
    assert 20_000 <= in_faults < 2 * 20_000, ONCE
    assert total(thread.states, "page-faults") - in_faults < 100, "elsewhere: in system calls"
    assert happened(faults["kernel.fault.minor"], "minor-faults") <= in_faults


def test_the_processors_clock_counts_no_more_than_the_time_that_passed(program: Path) -> None:
    elapsed = Elapsed()
    thread = only(measure(program, "spin", "30", options=counting("cpu-clock"))[0])
    user = thread.states["user"]
    assert happened(user, "cpu-clock") > 0
    assert total(thread.states, "cpu-clock") <= elapsed.most()


def test_switches_are_counted_in_the_call_that_gave_the_processor_away(together: Together) -> None:
    thread = only(together["sleep"][0])
    sleeping = next(cell for state, cell in thread.states.items() if state.endswith("nanosleep"))
    # A timer that has run out before the thread has left the processor leaves nothing to wait for.
    assert 0 < happened(sleeping, "context-switches") <= 100 + count_of(thread, "ready")
    left = sum(cell.count or 0 for state, cell in thread.states.items() if state.startswith("wait"))
    ready = count_of(thread, "ready")
    assert left <= total(thread.states, "context-switches") <= left + ready


def by_state(rows: list[States], event: str) -> Counter[str]:
    found: Counter[str] = Counter()
    for states in rows:
        for state, cell in states.items():
            found[state] += happened(cell, event)
    return found


def test_threads_and_processors_count_the_same(program: Path) -> None:
    ledger, _ = measure(program, "threads", "50", options=counting("page-faults", "cpu-clock"))
    for event in ("page-faults", "cpu-clock"):
        threads = by_state([t.states for t in ledger.threads], event)
        processors = by_state([p.states for p in ledger.processors], event)
        for state, count in threads.items():
            if state == "user" or state.startswith("kernel."):
                assert count == processors[state], (event, state)
            elif state != "unknown" and not state.startswith(("ready", "wait.")):
                assert count <= processors[state], (event, state)


def test_threads_that_end_and_children_keep_what_they_counted(together: Together) -> None:
    ledger, _ = together["threads"]
    threads = [t for t in ledger.threads if t.tid != t.pid]
    assert len(threads) == 100
    for thread in threads:
        assert 300 <= total(thread.states, "page-faults") < 2 * 300, ONCE
    ledger, _ = together["forks"]
    children = [t for t in ledger.threads if t.name == "child"]
    assert len(children) == 20
    for child in children:
        assert 1000 <= total(child.states, "page-faults") < 2 * 1000, ONCE


def growing(thread: Thread, event: str) -> None:
    for state, cell in thread.states.items():
        assert happened(cell, event) >= 0, state


def test_intervals_add_up(program: Path) -> None:
    events = counting("page-faults", "cpu-clock")
    elapsed = Elapsed()
    whole, parts = measure_intervals(0.02, program, "slowly", "50", options=events)
    for part in parts:
        for thread in part.threads:
            growing(thread, "page-faults")
            growing(thread, "cpu-clock")
    thread = only(whole)
    assert 2500 <= total(thread.states, "page-faults") < 2 * 2500, ONCE
    assert total(thread.states, "cpu-clock") <= elapsed.most()


def test_a_process_from_outside_is_counted(program: Path) -> None:
    elapsed = Elapsed()
    with subprocess.Popen([program, "spin", "600000"]) as target:
        try:
            chosen = Selection(pids=(target.pid,))
            ledger, _ = measure(selection=chosen, options=counting("cpu-clock"), enough=after_running(target.pid))
        finally:
            target.kill()
    thread = only(ledger)
    assert total(thread.states, "cpu-clock") <= elapsed.most()
    assert happened(thread.states["user"], "cpu-clock") > 0


# ---- what cannot be counted ----

NINE = (
    "page-faults",
    "cpu-clock",
    "task-clock",
    "context-switches",
    "cpu-migrations",
    "minor-faults",
    "major-faults",
    "alignment-faults",
    "emulation-faults",
)


def programs_held() -> int:
    """eBPF programs and counters that this process has open."""
    gc.collect()  # what earlier tests left in cycles goes now, not in between
    paths = [Path(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")]
    links = [os.readlink(path) for path in paths if path.is_symlink()]
    return sum("bpf" in link or "perf_event" in link for link in links)


@pytest.mark.parametrize(
    ("events", "words"),
    [
        pytest.param(("page-fault",), "did you mean page-faults", marks=pytest.mark.exhaustive),
        (("nothing/event=1/",), "has no unit 'nothing'"),
        pytest.param(NINE, f"at most {MAX_EVENTS} are possible in all", marks=pytest.mark.exhaustive),
        (("cycles",), "no performance monitoring unit"),
        pytest.param(("page-faults", "r1234"), "no performance monitoring unit", marks=pytest.mark.exhaustive),
    ],
)
def test_what_cannot_be_counted_is_one_sentence_and_nothing_is_attached(events: tuple[str, ...], words: str) -> None:
    if "performance" in words and not isinstance(default_set(), str):
        pytest.skip("this machine has hardware counters")
    before = programs_held()
    with pytest.raises(HeadwayError, match=words) as raised:
        observe(Selection(), ["true"], options=MeasureOptions(events=events), prefer="bpf")
    assert "\n" not in str(raised.value)
    assert programs_held() == before


def test_the_command_line_says_it_and_ends_with_125(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    started = tmp_path / "started"
    for events in ("page-fault", ",".join(NINE)):
        words = ["stat", "--source", "bpf", "-e", events, "--", "touch", str(started)]
        assert exit_status(group, words) == 125
        said = capfd.readouterr().err
        assert said.startswith("headway: ")
        assert said.count("\n") == 1
        assert not started.exists()


def test_the_json_has_what_was_counted(program: Path) -> None:
    words = ["--source", "bpf", "-e", "cpu-clock,page-faults", "--json", "--", str(program), "touch", "3000"]
    done = CliRunner().invoke(stat.command, words)
    assert done.exit_code == 0, done.stderr
    document = json.loads(done.stderr)
    jsonschema.validate(document, schema())
    (thread,) = document["threads"]
    (faults,) = [state for state in thread["states"] if state["state"] == "kernel.fault.minor"]
    assert list(faults["events"]) == ["cpu-clock", "page-faults"]
    assert 3000 <= faults["events"]["page-faults"] < 2 * 3000, ONCE
    assert document["counted"] == {"cpu-clock": 1, "page-faults": 1}


def test_a_ledger_says_what_was_asked_for(program: Path) -> None:
    ledger: Ledger = measure(program, "touch", "1", options=counting("cs", "page-faults:u"))[0]
    assert ledger.events == ("cs", "page-faults:u")
    assert set(ledger.counted) == {"cs", "page-faults:u"}
    assert all(counted.whole for counted in ledger.counted.values())
