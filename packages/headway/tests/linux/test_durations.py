"""Durations on the real kernel: as many as occurrences, in the buckets of their lengths, and those of the rows."""

from __future__ import annotations

import subprocess
from contextlib import closing
from pathlib import Path

import pytest
from tests.compiling import Compile, script
from tests.effort import FEW, exhaustive

from headway.linux.levels import Level
from headway.linux.options import MeasureOptions, Selection
from headway.linux.sources.ebpf import BpfSource, programs
from headway.model import (
    READY,
    READY_PARTS,
    Cell,
    Durations,
    Kind,
    Ledger,
    Quality,
    Thread,
    bucket_of,
    count_of_durations,
    limit_of,
    time_with_causes,
)
from headway.recording.durations import DurationsOfRows

from .measuring import (
    PATIENT,
    Together,
    measure,
    measure_intervals,
    measure_together,
    only,
    python,
    rows_broken,
    say_when_looked,
    until_ended,
)
from .recorded import record

pytestmark = [pytest.mark.root, pytest.mark.kernel]

KEPT = MeasureOptions(durations=1)
MS = 1_000_000
FAULTS = {"kernel.fault", "kernel.fault.minor", "kernel.fault.major"}  # one may turn out to be another: docs/model.md
SUMMED = ("irq", "softirq")  # of interrupts that one handler was late for, only the sum is known
LOOP = "for n in 1 2 3; do cat /proc/self/status | sort | wc -l; sleep 0.01; done > /dev/null"
PIPES = ("sh", "-c", f"PATH=/usr/bin:/bin; {LOOP}")
"""With a PATH that has a folder twice the shell asks twice for the same missing file, which is polling."""


@pytest.fixture(scope="module")
def together(compile_c: Compile) -> Together:
    programs: dict[str, list[str | Path]] = {
        "getppid": [compile_c("getppid"), "50000"],
        "polling": [*python(POLLING)],
        "regions": [*python(REGIONS)],
    }
    return measure_together(programs, options=MeasureOptions(durations=1, checks=PATIENT.checks))


@pytest.fixture(scope="module")
def in_eight_parts() -> Together:
    return measure_together({"sleeps": python(SLEEPS), "pipes": PIPES}, options=MeasureOptions(durations=8))


def of(thread: Thread, state: str) -> Durations:
    assert thread.durations is not None
    return thread.durations[state]


def state_of(name: str) -> str:
    """The state that has the durations of this one."""
    return READY if name in READY_PARTS else name


def placed_all(ledger: Ledger, *but: str, merged: bool = False) -> None:
    """Every occurrence of a thread that has ended is in a bucket; `violations` has compared the numbers.

    ``merged``: of several readings, whose times of states may be a little less than there was (`Cells.less`).
    """
    for thread in ledger.threads:
        assert thread.durations is not None
        counted = {state_of(state) for state, cell in thread.states.items() if cell.count}
        assert thread.durations.keys() == counted, thread
        for state, durations in thread.durations.items():
            if not state.startswith((*SUMMED, *but)):
                assert durations.unplaced == 0, (thread.name, state, durations)
            assert durations.open == 0 or thread.end is None
            longest, stolen = durations.longest, thread.states.get("stolen", Cell()).time
            if longest is not None and longest.quality is Quality.EXACT and not merged:
                assert longest.time <= time_with_causes(thread.states, state) + stolen


def test_every_occurrence_has_a_duration(together: Together) -> None:
    ledger, _ = together["getppid"]
    placed_all(ledger)
    thread = only(ledger)
    calls = of(thread, "kernel.getppid")
    assert calls.placed == calls.count == 50000
    assert calls.at_most(0.5) is not None


SLEEPS = "import time\nfor n in range(20): time.sleep(0.004)\nfor n in range(3): time.sleep(0.04)"


@pytest.mark.parametrize("parts", [8, *exhaustive(1)])
def test_sleeps_are_in_the_buckets_of_their_lengths(in_eight_parts: Together, parts: int) -> None:
    if parts == 8:
        ledger, _ = in_eight_parts["sleeps"]
    else:
        ledger, _ = measure(*python(SLEEPS), options=MeasureOptions(durations=parts))
    placed_all(ledger)
    sleeps = of(only(ledger), "wait.sleep")
    assert sleeps.placed == 23
    # The timer starts a little before the thread leaves its processor: half of the time is more than that.
    assert all(bucket >= bucket_of(2 * MS, parts) for bucket, _ in sleeps.buckets)
    assert sum(n for bucket, n in sleeps.buckets if bucket >= bucket_of(20 * MS, parts)) >= 3
    longest = sleeps.longest
    assert longest is not None
    assert longest.ended is not None
    assert 20 * MS <= longest.time <= only(ledger).states["wait.sleep"].time
    assert ledger.window.start + longest.time <= longest.ended <= ledger.window.end
    ready = of(only(ledger), "ready")
    assert ready.placed == count_of_durations(only(ledger).states, "ready")
    assert only(ledger).states.keys() & READY_PARTS.keys(), "ready is divided all the same"


def test_durations_add_up_to_the_time_of_their_state(in_eight_parts: Together) -> None:
    ledger, _ = in_eight_parts["pipes"]
    for thread in ledger.threads:
        assert thread.durations is not None
        for state, durations in thread.durations.items():
            if durations.unplaced or state.startswith(("poll", "stolen")) or durations.buckets[-1][0] // 8 >= 42:
                continue
            stolen, polled = thread.states.get("stolen", Cell()).time, thread.times()[Kind.POLL]
            least = sum([number * _above(bucket) for bucket, number in durations.buckets])
            most = sum([number * (limit_of(bucket, 8) or 0) for bucket, number in durations.buckets])
            time = time_with_causes(thread.states, state)
            assert least - stolen - polled <= time, (state, durations)
            if state not in FAULTS or len(thread.states.keys() & FAULTS) == 1:
                assert time <= most + stolen + polled, (state, durations)


def _above(bucket: int) -> int:
    """The limit of the bucket before."""
    return (limit_of(bucket - 1, 8) or 0) if bucket else 0


def test_threads_that_come_and_go_have_their_own_and_give_them_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """They need more histograms than there are, one after the other."""
    most = 200
    monkeypatch.setattr(programs, "_max_histograms", lambda options: most)
    needed = 0
    with (
        subprocess.Popen(script("batches_of_threads"), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program,
        closing(BpfSource(Selection(pids=(program.pid,)), KEPT, intervals=True)) as source,
    ):
        source.begin()
        try:
            while needed <= 2 * most:
                for thread in until_ended(source, program):
                    assert thread.durations
                    assert not [d for s, d in thread.durations.items() if d.unplaced and not s.startswith(SUMMED)]
                    needed += len(thread.durations)
        finally:
            program.kill()


def test_intervals_add_up_to_the_whole_and_what_goes_on_counts_once() -> None:
    code = (
        "import threading, time\n"
        "def sleep(n, s):\n for _ in range(n): time.sleep(s)\n"
        "threads = [threading.Thread(target=sleep, args=a) for a in ((50, 0.002), (3, 0.04), (1, 0.15))]\n"
        "[t.start() for t in threads]; [t.join() for t in threads]"
    )
    whole, parts = measure_intervals(0.05, *python(code), options=KEPT)
    placed_all(whole, merged=True)
    for part in parts:
        for thread in part.threads:
            assert thread.durations is not None
            for state, durations in thread.durations.items():
                assert durations.unplaced == 0 or state.startswith(SUMMED), (state, durations)
                assert all(n > 0 for _, n in durations.buckets)
    counts = sorted(of(thread, "wait.sleep").placed for thread in whole.threads if "wait.sleep" in thread.states)
    # A timer that has run out before the thread has left its processor leaves nothing to wait for.
    assert len(counts) == 3
    assert all(0 < count <= most for count, most in zip(counts, (1, 3, 50), strict=True)), counts


def test_a_wait_that_does_not_end_is_under_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread waits for a lock until two intervals have ended."""
    say_when_looked(monkeypatch, tmp_path, BpfSource, "interval")
    _, parts = measure_intervals(0.02, *script("lock_contention"), options=KEPT)
    waits = [
        thread.durations["wait.futex"]
        for part in parts
        for thread in part.threads
        if thread.tid != thread.pid and thread.durations and "wait.futex" in thread.durations
    ]
    opened = [wait.open for wait in waits]
    assert sum(opened) == 0
    assert 1 in opened
    assert -1 in opened
    assert any(wait.longest is not None and wait.longest.under_way for wait in waits)


POLLING = """
import os, time
r, w = os.pipe(); os.set_blocking(r, False)
for _ in range(20_000):
    try: os.read(r, 1)
    except BlockingIOError: pass
time.sleep(0.01)
"""


def test_polling_takes_back_what_it_turns_out_to_be(together: Together) -> None:
    ledger, _ = together["polling"]
    placed_all(ledger, "poll", "user", "kernel.read")
    polls = of(only(ledger), "poll.read.pipe")
    assert 20_000 - rows_broken(only(ledger)) <= polls.placed + polls.unplaced <= 20_000
    assert polls.placed > 0
    for state in ("user", "kernel.read", "poll.read.pipe"):
        assert of(only(ledger), state).unplaced >= 0
    assert ledger.losses["durations_of_unknown_buckets"] == 0


def test_at_the_level_switches_there_are_durations_of_waits_and_of_ready() -> None:
    code = "import time\nfor n in range(20): time.sleep(0.002)"
    ledger, _ = measure(*python(code), options=MeasureOptions(durations=1, level=Level.SWITCHES))
    thread = only(ledger)
    assert of(thread, "wait.sleep").placed == 20
    assert of(thread, "ready").placed == count_of_durations(thread.states, "ready")
    assert thread.durations is not None
    assert all(count_of_durations(thread.states, state) is not None for state in thread.durations)
    assert "waits" in ledger.reasons["durations"]


def test_without_the_option_there_are_none() -> None:
    ledger, _ = measure("true")
    assert only(ledger).durations is None
    assert "durations" not in ledger.reasons


@pytest.mark.parametrize("parts", [4] if FEW else [1, 4])
def test_the_rows_of_a_recording_have_the_same_durations(parts: int) -> None:
    recorded = record(*PIPES, options=MeasureOptions(durations=parts))
    window, seen = recorded.ledger.window, recorded.threads
    ended = {n: one.end for n, one in seen.items() if one.end is not None and one.end <= window.end}
    rows = DurationsOfRows(window.end, parts, ended)
    for batch in recorded.batches:
        rows.add(batch)
    found = rows.by_thread()
    kept = {thread.key: thread for thread in recorded.ledger.threads}
    for number, one in seen.items():
        thread = kept[one.tid, one.birth]
        assert thread.durations is not None
        mine = found.get(number, {})
        for state, durations in thread.durations.items():
            if state.startswith("poll"):  # a check that was renamed has only its last piece there
                continue
            assert mine[state].buckets == durations.buckets, (thread.name, state)
            assert mine[state].open == durations.open
            assert mine[state].longest == durations.longest or state == "unknown"


def test_there_is_room_only_for_so_many_and_what_has_none_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "_max_histograms", lambda options: 6)
    ledger, _ = measure(*python("import time; time.sleep(0.01)"), options=KEPT, allowed=["histograms_without_room"])
    assert ledger.losses["histograms_without_room"] > 0
    thread = only(ledger)
    assert thread.durations is not None
    assert sum(durations.unplaced for durations in thread.durations.values()) > 0
    assert sum(durations.placed for durations in thread.durations.values()) > 0


REGIONS = """
import headway, time
for n in range(50):
    with headway.noneffective('parse'): sum(range(2000))
    time.sleep(0.0001)
"""


def test_marked_regions_have_only_their_sum(together: Together) -> None:
    ledger, _ = together["regions"]
    thread = max(ledger.threads, key=lambda t: t.span)
    region = of(thread, "noneffective.parse")
    assert (region.placed, region.unplaced) == (0, 50)


def test_a_source_that_was_asked_for_them_gives_them_by_thread_while_it_runs() -> None:
    source = BpfSource(Selection(everything=True), KEPT, intervals=True)
    source.begin()
    try:
        first = source.interval()
        second = source.interval()
        last = source.end_interval()
    finally:
        source.close()
    for ledger in (first, second, last):
        assert all(thread.durations is not None for thread in ledger.threads)
