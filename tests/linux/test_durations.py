"""Durations on the real kernel: as many as occurrences, in the buckets of their lengths, and those of the rows."""

from __future__ import annotations

import pytest
from tests.compiling import Compile

from headway.linux.bpf.durations import HISTOGRAMS
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

from .measuring import measure, measure_intervals, only, python
from .recorded import record

pytestmark = [pytest.mark.root, pytest.mark.kernel]

KEPT = MeasureOptions(durations=1)
MS = 1_000_000
FAULTS = {"kernel.fault", "kernel.fault.minor", "kernel.fault.major"}  # one may turn out to be another: docs/model.md
SUMMED = ("irq", "softirq")  # of interrupts that one handler was late for, only the sum is known
PIPES = ("sh", "-c", "for n in 1 2 3 4 5 6; do cat /proc/self/status | sort | wc -l; sleep 0.01; done > /dev/null")


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


def test_every_occurrence_has_a_duration(compile_c: Compile) -> None:
    ledger, _ = measure(compile_c("getppid"), "50000", options=KEPT)
    placed_all(ledger)
    thread = only(ledger)
    calls = of(thread, "kernel.getppid")
    assert calls.placed == calls.count == 50000
    limit = calls.at_most(0.5)
    assert limit is not None
    assert limit < 1 * MS


@pytest.mark.parametrize("parts", [1, 8])
def test_sleeps_are_in_the_buckets_of_their_lengths(parts: int) -> None:
    code = "import time\nfor n in range(30): time.sleep(0.003)\nfor n in range(3): time.sleep(0.1)"
    ledger, _ = measure(*python(code), options=MeasureOptions(durations=parts))
    placed_all(ledger)
    sleeps = of(only(ledger), "wait.sleep")
    assert sleeps.placed == 33
    assert all(bucket >= bucket_of(3 * MS, parts) for bucket, _ in sleeps.buckets)
    assert sum(n for bucket, n in sleeps.buckets if bucket >= bucket_of(100 * MS, parts)) >= 3
    longest = sleeps.longest
    assert longest is not None
    assert longest.ended is not None
    assert 100 * MS <= longest.time <= only(ledger).states["wait.sleep"].time
    assert ledger.window.start + longest.time <= longest.ended <= ledger.window.end
    ready = of(only(ledger), "ready")
    assert ready.placed == count_of_durations(only(ledger).states, "ready")
    assert only(ledger).states.keys() & READY_PARTS.keys(), "ready is divided all the same"


def test_durations_add_up_to_the_time_of_their_state() -> None:
    ledger, _ = measure(*PIPES, options=MeasureOptions(durations=8))
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


def test_threads_that_come_and_go_have_their_own_and_give_them_back(compile_c: Compile) -> None:
    # They need more histograms than there are, but not so many more that a reader that comes late would lose some.
    ledger, _ = measure(compile_c("threads"), "11000", options=KEPT)
    assert len(ledger.threads) == 11001
    assert sum(len(thread.durations or {}) for thread in ledger.threads) > HISTOGRAMS
    placed_all(ledger)


def test_intervals_add_up_to_the_whole_and_what_goes_on_counts_once() -> None:
    code = (
        "import threading, time\n"
        "def sleep(n, s):\n for _ in range(n): time.sleep(s)\n"
        "threads = [threading.Thread(target=sleep, args=a) for a in ((400, 0.001), (4, 0.1), (1, 0.4))]\n"
        "[t.start() for t in threads]; [t.join() for t in threads]"
    )
    whole, parts = measure_intervals(0.05, *python(code), options=KEPT)
    assert len(parts) > 4
    placed_all(whole, merged=True)
    for part in parts:
        for thread in part.threads:
            assert thread.durations is not None
            for state, durations in thread.durations.items():
                assert durations.unplaced == 0 or state.startswith(SUMMED), (state, durations)
                assert all(n > 0 for _, n in durations.buckets)
    names = sorted(of(thread, "wait.sleep").placed for thread in whole.threads if "wait.sleep" in thread.states)
    assert names == [1, 4, 400]


def test_a_wait_that_does_not_end_is_under_way() -> None:
    whole, parts = measure_intervals(0.1, *python("import time; time.sleep(0.5)"), options=KEPT)
    opened = [of(only(part), "wait.sleep").open for part in parts if "wait.sleep" in (only(part).durations or {})]
    assert sum(opened) == 0
    assert 1 in opened
    assert -1 in opened
    first = next(part for part in parts if "wait.sleep" in (only(part).durations or {}))
    longest = of(only(first), "wait.sleep").longest
    assert longest is not None
    assert longest.under_way
    assert of(only(whole), "wait.sleep").placed == 1


def test_polling_takes_back_what_it_turns_out_to_be() -> None:
    code = (
        "import os, time\nr, w = os.pipe(); os.set_blocking(r, False)\n"
        "end = time.monotonic() + 0.2\n"
        "while time.monotonic() < end:\n"
        " try: os.read(r, 1)\n except BlockingIOError: pass\n"
        "time.sleep(0.01)\n"
    )
    ledger, _ = measure(*python(code), options=KEPT)
    placed_all(ledger, "poll", "user", "kernel.read")
    polls = of(only(ledger), "poll.read.pipe")
    assert polls.placed > 100
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


@pytest.mark.parametrize("parts", [1, 4])
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


def test_marked_regions_have_only_their_sum() -> None:
    code = (
        "import headway, time\n"
        "for n in range(50):\n"
        " with headway.noneffective('parse'): sum(range(2000))\n"
        " time.sleep(0.0001)\n"
    )
    ledger, _ = measure(*python(code), options=KEPT)
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
