"""Recordings for other tools: what an independent reader finds is what the ledger of the same run says."""

from __future__ import annotations

import csv
import io
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from tests.perfetto import Read, Slice, read
from tests.recording.queries import runs
from tests.recordings import Run, document

from headway.commands.export import _about, _profile_of
from headway.model import NO_STATE, Batch, Ledger, ThreadSeen, Transitions, Window, kind_of
from headway.recording.batches import Chosen
from headway.recording.reader import Recording
from headway.recording.writer import RecordingWriter
from headway.text import csv_text, valid
from headway.views import chrome
from headway.views.columns import write_csv, write_parquet
from headway.views.exported import Exported
from headway.views.folded import folded
from headway.views.perfetto import recorded

seeds = st.integers(0, 1 << 32)
QUICK = (Phase.explicit, Phase.reuse, Phase.generate)
"""An example is a whole recording, and its seed says nothing by being smaller."""
HOSTILE = ("work", "\udcff[red]", "", 'quo"te, \\', "new\nline", "\x1b[31m", "\u202eright", "n" * 10_000, "=cmd()", "]")
Sums = Mapping[tuple[int, int, str], tuple[int, int]]
"""(tid, birth, state) -> time, count."""


@contextmanager
def run_of(seed: int, batches: int = 6, moves: int = 15, *, rows: int = 40, closed: bool = True) -> Iterator[Recording]:
    """A recording of a lawful run."""
    run = Run(Random(seed), names=HOSTILE)
    with TemporaryDirectory() as scratch:
        path = Path(scratch) / "run.hw"
        writer = RecordingWriter(path, document(run.start), rows=rows)
        for batch in run.batches(batches, moves):
            writer.add(batch)
        if closed:
            batch, ledger = run.end()
            writer.add(batch)
            writer.close(ledger)
        else:
            writer.abandon()
        with Recording(path) as recording:
            yield recording


def exported(recording: Recording) -> Exported:
    return _about(recording, Chosen())


def of_ledger(ledger: Ledger) -> Sums:
    found = {}
    for thread in ledger.threads:
        for state, cell in thread.states.items():
            found[thread.tid, thread.birth, valid(state)] = cell.time, cell.count or 0
    return found


def perfetto(recording: Recording, chosen: Chosen | None = None) -> Read:
    stream = io.BytesIO()
    notes = recorded.write(_about(recording, chosen or Chosen()), recording.batches(chosen), stream)
    assert notes == []
    return read(stream.getvalue())


def owners(found: Read, recording: Recording) -> dict[int, tuple[int, int]]:
    """Track -> (tid, birth): of threads of one id the tracks are in the order in which their first rows are."""
    by_name: dict[int, tuple[int, int]] = {}
    for track in found.tracks.values():
        rows = (*found.slices, *(one for one in found.instants if "amount" in one.notes))
        starts = [one.start for one in rows if one.track == track.uuid]
        for seen in recording.threads().values():
            same = track.tid == seen.tid or track.name == f"{seen.name} {seen.tid}, another of this id"
            if same and starts and min(starts) == seen.start:
                by_name[track.uuid] = seen.tid, seen.birth
    return by_name


def sums_of(found: Read, recording: Recording) -> Sums:
    who = owners(found, recording)
    times: defaultdict[tuple[int, int, str], list[int]] = defaultdict(lambda: [0, 0])
    for one in found.slices:
        if one.track in who:
            taken, count = one.notes.get("taken", 0), one.notes.get("count", 1)
            assert isinstance(taken, int)
            assert isinstance(count, int)
            _add(times, who[one.track], one.name, one.end - one.start, taken, count)
    for one in found.instants:
        if one.track in who and "amount" in one.notes:
            amount, count = one.notes["amount"], one.notes.get("count", 1)
            assert isinstance(amount, int)
            assert isinstance(count, int)
            _add(times, who[one.track], one.name, 0, -amount, count)
    return _settled(times)


def _add(
    times: dict[tuple[int, int, str], list[int]],
    who: tuple[int, int],
    state: str,
    duration: int,
    taken: int,
    count: int,
) -> None:
    times[*who, state][0] += duration - taken
    times[*who, state][1] += count
    times[*who, "overhead"][0] += taken


def _settled(times: Mapping[tuple[int, int, str], list[int]]) -> Sums:
    return {key: (time, count) for key, (time, count) in times.items() if time or count}


@settings(deadline=None, phases=QUICK, max_examples=20)
@given(seeds, st.integers(0, 8), st.integers(1, 60))
@pytest.mark.exhaustive  # it needs perfetto's schema
def test_a_perfetto_trace_has_the_ledger_to_the_nanosecond(seed: int, batches: int, rows: int) -> None:
    with run_of(seed, batches, rows=rows) as recording:
        ledger = recording.ledger()
        found = perfetto(recording)
        assert sums_of(found, recording) == of_ledger(ledger)
        for track in owners(found, recording):
            slices = [one for one in found.slices if one.track == track]
            assert all(one.depth == 0 for one in slices)
            assert all(one.category == kind_of(one.name).value for one in slices)
            assert all(one.end == after.start for one, after in pairwise(slices))


@settings(deadline=None, phases=QUICK, max_examples=10)
@given(seeds)
@pytest.mark.exhaustive  # it needs perfetto's schema
def test_processors_are_shown_by_who_had_them(seed: int) -> None:
    with run_of(seed) as recording:
        found = perfetto(recording)
        expected: defaultdict[tuple[int, str], int] = defaultdict(int)
        threads = recording.threads()
        for batch in recording.batches():
            rows = batch.transitions
            for time, duration, cpu, thread, state in zip(
                rows.time, rows.duration, rows.cpu, rows.thread, rows.state, strict=True
            ):
                if cpu >= 0 and duration:
                    seen = threads.get(int(thread))
                    name = rows.states[state] if seen is None else f"{seen.name} {seen.tid}"
                    expected[int(cpu), valid(name)] += int(duration)
                assert time >= 0
        shown: defaultdict[tuple[int, str], int] = defaultdict(int)
        for one in found.slices:
            name = found.tracks[one.track].name
            if found.tracks[one.track].parent and name.startswith("cpu "):
                shown[int(name[4:]), one.name] += one.end - one.start
                assert one.depth == 0
        assert {key: time for key, time in shown.items() if time} == dict(expected)


@settings(deadline=None, phases=QUICK, max_examples=15)
@given(seeds)
@pytest.mark.exhaustive  # it needs perfetto's schema
def test_wake_ups_lead_from_who_woke_to_what_the_woken_did_next(seed: int) -> None:
    with run_of(seed) as recording:
        found = perfetto(recording)
        threads = recording.threads()
        wakes = []
        for batch in recording.batches():
            rows = batch.transitions
            for time, duration, thread, waker in zip(rows.time, rows.duration, rows.thread, rows.waker, strict=True):
                if waker >= 0 and duration:
                    wakes.append((int(time + duration), threads[int(waker)].tid, threads[int(thread)]))
        assert len(found.flows) + found.unfinished == len(wakes)
        who = owners(found, recording)
        tids = {track: tid for track, (tid, _) in who.items()}
        for flow in found.flows:
            assert flow.source.name == "wakes"
            assert flow.source.start == flow.source.end == flow.target.start
            assert any(
                time == flow.target.start and (seen.tid, seen.birth) == who[flow.target.track]
                for time, _, seen in wakes
            )
        sources = sorted((one.start, tids.get(one.track, -1)) for one in found.instants if one.name == "wakes")
        assert sources == sorted((time, tid) for time, tid, _ in wakes)
        last = {seen.birth for seen in threads.values() if seen.end is not None}
        ends = [time for time, _, seen in wakes if seen.birth in last or time == recording.window.end]
        assert found.unfinished <= len(ends) + sum(time == recording.window.end for time, _, _ in wakes)


@settings(deadline=None, phases=QUICK, max_examples=10)
@given(seeds)
@pytest.mark.exhaustive  # it needs perfetto's schema
def test_counters_of_progress_add_up_to_it(seed: int) -> None:
    with run_of(seed) as recording:
        found = perfetto(recording)
        ledger = recording.ledger()
        epi = {(t.tid, t.birth): sum(c.time for s, c in t.states.items() if s == "user") for t in ledger.threads}
        who = owners(found, recording)
        shown = dict.fromkeys(epi, 0.0)
        for uuid, values in found.counters.items():
            track = found.tracks[uuid]
            assert track.unit == "%"
            assert values[-1][1] == 0
            for (time, value), (after, _) in pairwise(values):
                shown[who[track.parent]] += value * (after - time) / 100
        for key, time in epi.items():
            assert shown[key] == pytest.approx(time, abs=1e-6 * max(time, 1))


def column(values: list[int], kind: Any) -> Any:
    return np.array(values, kind)


def work_and_wait(unit: int) -> Batch:
    """Three units of work, and one of waiting."""
    rows = Transitions(
        time=column([0, 3 * unit], np.int64),
        duration=column([3 * unit, unit], np.int64),
        taken=column([0, 0], np.int32),
        cpu=column([0, -1], np.int16),
        thread=column([0, 0], np.int32),
        state=column([0, 1], np.uint16),
        count=column([1, 1], np.int32),
        waker=column([-1, -1], np.int32),
        waker_tid=column([0, 0], np.int32),
        waker_state=column([NO_STATE, NO_STATE], np.uint16),
        states=("user", "wait.futex"),
    )
    return Batch(0, 4 * unit, rows, (), (), {})


@pytest.mark.parametrize("unit", ["ns", "cycles"])
@pytest.mark.exhaustive  # it needs perfetto's schema
def test_progress_over_many_steps_is_spread_evenly(unit: str) -> None:
    length = 10**9 if unit == "ns" else 7
    stream = io.BytesIO()
    about = Exported(Window(0, 4 * length), {0: ThreadSeen(0, 7, 7, "a", 0, 0, None)}, unit, bound=False)
    assert recorded.write(about, [work_and_wait(length)], stream) == []
    found = read(stream.getvalue())
    ((uuid, values),) = found.counters.items()
    assert found.tracks[uuid].name == "EPI rate"
    assert values == [(0, 100.0), (3 * length, 0.0), (4 * length, 0.0)]
    assert bool(found.clocks) == bool(found.clock) == (unit == "ns")
    assert {one.name: (one.start, one.end) for one in found.slices if one.category != "thread"} == {
        "user": (0, 3 * length),
        "wait.futex": (3 * length, 4 * length),
    }


@settings(deadline=None, phases=QUICK, max_examples=10)
@given(seeds)
@pytest.mark.exhaustive  # it needs perfetto's schema
def test_trace_events_in_json_have_the_ledger(seed: int) -> None:
    with run_of(seed) as recording:
        stream = io.BytesIO()
        assert chrome.write(exported(recording), recording.batches(), stream) == []
        found = json.loads(stream.getvalue())
        times: defaultdict[tuple[int, int, str], list[int]] = defaultdict(lambda: [0, 0])
        flows: dict[str, dict[int, float]] = {"s": {}, "f": {}}
        for event in found["traceEvents"]:
            if event["ph"] in "sf":
                assert event["id"] not in flows[event["ph"]]
                flows[event["ph"]][event["id"]] = event["ts"]
            if event["ph"] not in "Xi" or event["pid"] == 0:
                continue
            args = event["args"]
            taken = args["taken"] if event["ph"] == "X" else -args["amount"]
            duration = round(event.get("dur", 0) * 1000)
            _add(times, (event["tid"], 0), event["name"], duration, taken, args["count"])
        expected: defaultdict[tuple[int, int, str], list[int]] = defaultdict(lambda: [0, 0])
        for (tid, _, state), (time, count) in of_ledger(recording.ledger()).items():  # of all threads that had that id
            expected[tid, 0, state][0] += time
            expected[tid, 0, state][1] += count
        assert _settled(times) == _settled(expected)
        assert found["otherData"]["start"] == recording.window.start
        counted = [event for event in found["traceEvents"] if event["ph"] == "C"]
        in_perfetto = [value for values in perfetto(recording).counters.values() for _, value in values]
        assert sorted(event["args"]["%"] for event in counted) == pytest.approx(sorted(in_perfetto))
        assert all(flows["s"][number] == time for number, time in flows["f"].items())
        assert flows["f"].keys() <= flows["s"].keys()


@settings(deadline=None, phases=QUICK, max_examples=10)
def _in_csv(value: str | int | None) -> str:
    return "" if value is None else csv_text(value) if isinstance(value, str) else str(value)


@given(seeds)
def test_tables_have_the_ledger_and_the_same_rows(seed: int) -> None:
    with run_of(seed) as recording:
        about, streams = exported(recording), (io.BytesIO(), io.BytesIO())
        write_parquet(about, recording.batches(), streams[0])
        write_csv(about, recording.batches(), streams[1])
        table = pq.read_table(io.BytesIO(streams[0].getvalue()))
        at = table.schema.get_field_index("realtime")
        days = table.column(at).cast(pa.int64())
        rows = table.set_column(at, "realtime", days).to_pylist()
        lines = list(csv.DictReader(io.StringIO(streams[1].getvalue().decode(), newline="")))
        threads = recording.threads()
        times: defaultdict[tuple[int, int, str], list[int]] = defaultdict(lambda: [0, 0])
        for row in rows:
            if row["thread"] is not None:
                seen = threads[row["thread"]]
                assert (row["tid"], row["pid"], row["name"]) == (seen.tid, seen.pid, valid(seen.name))
                _add(times, (seen.tid, seen.birth), row["state"], row["duration"], row["taken"], row["count"])
            assert row["kind"] == kind_of(row["state"]).value
            assert row["host"] == "here"
        assert _settled(times) == of_ledger(recording.ledger())
        assert len(rows) == len(lines) == recording.rows
        for row, line in zip(rows, lines, strict=True):
            plain = {name: _in_csv(value) for name, value in row.items() if name != "realtime"}
            assert plain == {name: value for name, value in line.items() if name != "realtime"}
            second, _, rest = line["realtime"].rpartition(".")
            day = datetime.fromisoformat(second).replace(tzinfo=UTC)
            assert int(day.timestamp()) * 10**9 + int(rest.removesuffix("Z")) == row["realtime"]


@settings(deadline=None, phases=QUICK, max_examples=15)
@given(seeds, st.booleans())
def test_stacks_of_states_have_the_ledger(seed: int, closed: bool) -> None:
    with run_of(seed, closed=closed) as recording:
        profile = _profile_of(recording, exported(recording), recording.batches())
        ledger = recording.ledger()
        assert of_ledger(profile.ledger) == of_ledger(ledger)
        times: defaultdict[str, int] = defaultdict(int)
        for line in folded(profile):
            stack, _, weight = line.rpartition(" ")
            times[stack.rpartition(";")[2]] += int(weight)
        expected: defaultdict[str, int] = defaultdict(int)
        for (_, _, state), (time, _) in of_ledger(ledger).items():
            expected[f"[{state}]"] += time
        assert {k: v for k, v in times.items() if v} == {k: v for k, v in expected.items() if v}


@settings(deadline=None, phases=QUICK, max_examples=15)
@given(seeds, st.integers(0, 100), st.integers(0, 100), st.just(set()) | st.sets(st.integers(0, 12)))
@pytest.mark.exhaustive  # it needs perfetto's schema
def test_what_is_chosen_is_cut_to_the_time_and_the_threads(seed: int, one: int, other: int, some: set[int]) -> None:
    with run_of(seed) as recording:
        whole = recording.window
        edges = sorted(whole.start + whole.duration * share // 100 for share in (one, other))
        threads = frozenset(some) or None
        chosen = Chosen(threads, Window(*edges))
        expected: defaultdict[tuple[int, str], int] = defaultdict(int)
        for batch in recording.batches():
            rows = batch.transitions
            for time, duration, thread, state in zip(rows.time, rows.duration, rows.thread, rows.state, strict=True):
                length = min(int(time + duration), edges[1]) - max(int(time), edges[0])
                if duration and length > 0 and (threads is None or thread in threads):
                    expected[int(thread), rows.states[state]] += length
        found: defaultdict[tuple[int, str], int] = defaultdict(int)
        for batch in recording.batches(chosen):
            rows = batch.transitions
            assert ((rows.time >= edges[0]) & (rows.time + rows.duration <= edges[1])).all()
            assert (rows.taken <= rows.duration)[rows.duration > 0].all()
            for duration, thread, state in zip(rows.duration, rows.thread, rows.state, strict=True):
                if duration:
                    found[int(thread), rows.states[state]] += int(duration)
        assert found == expected
        shown = perfetto(recording, chosen)
        assert all(edges[0] <= slice_.start <= slice_.end <= edges[1] for slice_ in shown.slices)


def test_parts_that_can_have_nothing_of_it_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    with run_of(11, batches=40, moves=20, rows=20) as recording:
        parts, whole = len(recording.parts), recording.window
        assert parts > 20
        read_in_full: list[int] = []
        by_part = Recording.by_part

        def counted(self: Recording, table: str, columns: Any = None, parts: Any = None) -> Any:
            for part, found in by_part(self, table, columns, parts):
                if table == "transitions" and columns is None:
                    read_in_full.append(part.number)
                yield part, found

        monkeypatch.setattr(Recording, "by_part", counted)
        middle = whole.start + whole.duration // 2
        chosen = Chosen(None, Window(middle, middle + 1))
        found = sum(len(batch.transitions) for batch in recording.batches(chosen))
        assert found
        assert len(read_in_full) < parts // 2


@pytest.mark.exhaustive  # it needs perfetto's schema
def test_one_that_was_not_closed_is_shown_until_its_last_part() -> None:
    with run_of(5, closed=False, rows=10) as recording:
        assert recording.open_states()
        assert sums_of(perfetto(recording), recording) == of_ledger(recording.ledger())


@pytest.mark.exhaustive  # it needs perfetto's schema
def test_times_of_day_and_what_it_is_of_are_in_the_trace() -> None:
    from headway.views.perfetto.packets import MONOTONIC, REALTIME

    with run_of(3) as recording:
        found = perfetto(recording)
        assert found.clock == MONOTONIC
        anchors = {anchor.monotonic: anchor.realtime for anchor in recording.anchors}
        assert {clock[MONOTONIC]: clock[REALTIME] for clock in found.clocks} == anchors
        about = next(one for one in found.instants if one.name == "recording")
        assert about.notes["host"] == "here"
        assert about.notes["command"] == "work -x"
        lost = [one for one in found.instants if found.tracks[one.track].name == "losses"]
        assert sum(int(one.notes["lost"]) for one in lost) == recording.losses()["handlers_skipped"]


@pytest.mark.exhaustive  # it needs perfetto's schema
def test_a_recording_of_nothing_has_no_slices() -> None:
    with run_of(0, 0) as recording:
        empty = recording.window
        assert perfetto(recording, Chosen(frozenset(), Window(empty.start, empty.start))).slices == []


@pytest.mark.exhaustive  # it needs perfetto's schema
def test_slices_of_tasks_say_which_span_of_which_trace(tmp_path: Path) -> None:
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    rows = [
        runs.Row(0, 10, 0, 0, 0, "user", task="/cart", task_id=0xF067AA0BA902B7, trace_id=trace),
        runs.Row(10, 10, 0, 0, 0, "user", task_id=0x1234, trace_id=trace),
        runs.Row(20, 10, 0, 0, 0, "user", task="checkout", task_id=7),
    ]
    run = runs.Recorded(0, 30, rows, [runs.Thread(0, 1, 1, "a", 0, 0, None)])
    expected = {
        "/cart": {"trace_id": trace, "span_id": "00f067aa0ba902b7"},
        "span 0000000000001234": {"trace_id": trace, "span_id": "0000000000001234"},
        "checkout": {"task id": "7"},
    }
    with Recording(runs.write(run, tmp_path / "run.hw")) as recording:
        found = perfetto(recording)
        stream = io.BytesIO()
        chrome.write(exported(recording), recording.batches(), stream)
    assert {one.name: one.notes for one in found.slices if one.category == "task"} == expected
    events = json.loads(stream.getvalue())["traceEvents"]
    begun = {event["name"]: event["args"] for event in events if event["ph"] == "b"}
    assert begun == expected


@pytest.mark.exhaustive  # it needs perfetto's schema
def test_rows_that_lie_over_each_other_are_cut_and_counted() -> None:
    with run_of(3) as recording:
        twice = [batch for batch in recording.batches() for _ in range(2)]
        stream = io.BytesIO()
        (note,) = recorded.write(exported(recording), twice, stream)
        assert "overlap others" in note
        slices: list[Slice] = read(stream.getvalue()).slices
        assert slices
        assert "overlap others" in chrome.write(exported(recording), twice, io.BytesIO())[0]


numbers = st.sampled_from([0, 1, 2, 3, 7, 2**31 - 1])
moments = st.integers(0, 50) | st.integers(0, 2**60)
rows_of_anybody = st.lists(
    st.builds(
        runs.Row,
        time=moments,
        duration=moments,
        taken=st.integers(-(2**31), 2**31 - 1) | st.integers(-5, 5),
        cpu=st.none() | st.sampled_from([0, 1, 32767]),
        thread=st.none() | numbers,
        state=st.sampled_from(["user", "wait.futex", "idle", "", "\x00", "kernel.\u202e"]) | st.text(max_size=5),
        count=st.integers(0, 2**31 - 1),
        waker=st.none() | numbers,
        waker_tid=st.none() | numbers,
        waker_state=st.none() | st.text(max_size=5),
        task=st.none() | st.text(max_size=5),
        task_id=st.none() | st.integers(0, 2**64 - 1),
        futex=st.none() | st.integers(0, 2**64 - 1),
        trace_id=st.none() | st.just("ab" * 16) | st.text(max_size=5),
    ),
    max_size=30,
)
threads_of_anybody = st.lists(
    st.builds(runs.Thread, numbers, numbers, numbers, st.text(max_size=9), moments, moments, st.none() | moments),
    max_size=5,
)


@settings(deadline=None, max_examples=40)
@given(rows_of_anybody, threads_of_anybody, st.lists(st.tuples(moments, moments), max_size=3), moments)
@pytest.mark.exhaustive  # it needs perfetto's schema
def test_whatever_rows_say_slices_nest_and_flows_lead_forward(
    rows: list[runs.Row], threads: list[runs.Thread], anchors: list[tuple[int, int]], start: int
) -> None:
    known = [{"monotonic": one, "realtime": other, "uncertainty": 5} for one, other in anchors]
    lie = runs.Recorded(start, start + 2**59, rows, threads, anchors=known)
    with TemporaryDirectory() as scratch:
        runs.write(lie, Path(scratch) / "a.hw")
        with Recording(Path(scratch) / "a.hw") as recording:
            about, stream = exported(recording), io.BytesIO()
            notes = recorded.write(about, recording.batches(), stream)
            strange = sum(row.thread is not None and row.thread not in about.threads for row in rows)
            assert any("nothing is known" in note and note.startswith(f"{strange} ") for note in notes) == bool(strange)
            found = read(stream.getvalue())
            assert all(one.depth == 0 and one.start <= one.end for one in found.slices)
            stream = io.BytesIO()
            chrome.write(about, recording.batches(), stream)
            json.loads(stream.getvalue())
            write_parquet(about, recording.batches(), io.BytesIO())
            write_csv(about, recording.batches(), io.BytesIO())
            list(folded(_profile_of(recording, about, recording.batches())))
