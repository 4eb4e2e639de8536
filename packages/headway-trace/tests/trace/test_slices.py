"""A capture as slices: nested, in the common time, and never more than is known."""

from __future__ import annotations

import io
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.perfetto import read_back
from tests.trace.encoding import ALIGNMENT, atom, branch, frames, sync, timestamp
from tests.trace.programs import BASE
from tests.trace.slices import check_nesting, told_of
from tests.trace.snapshots import STREAM, write

from headway.errors import HeadwayError
from headway.views.perfetto.tracks import File
from headway_trace.alignment import AlignedTime, Fit, fit
from headway_trace.decode import Capture, Stream
from headway_trace.edges import Edge
from headway_trace.records import Gap, Instruction, Timestamp
from headway_trace.slices import PER_TICK, plan, track_of, walk
from headway_trace.slices import write as write_slices


def fits(folder: Path) -> list[tuple[Stream, Fit]]:
    found = []
    for stream in Capture.open(str(folder)).streams.values():
        found.append((stream, fit(one for one in stream.records() if isinstance(one, Timestamp))))
    return found


def edges(stream: Stream, found: Fit | None) -> list[Edge]:
    edges: list[Edge] = []
    walk(stream, found, edges.extend)
    return edges


def damaged(folder: Path, trace: bytes, most: int, data: st.DataObject) -> list[tuple[Stream, Fit | None]]:
    """What can be shown of a stream of which bytes were changed at up to ``most`` places."""
    stream = bytearray(trace)
    for _ in range(data.draw(st.integers(0, most))):
        at = data.draw(st.integers(0, len(stream) - 1))
        stream[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    try:
        chosen, _ = plan(fits(write(folder, frames([(0x10, bytes(stream))]))))
    except HeadwayError:
        return []
    return chosen


def outer(edges: list[Edge]) -> list[tuple[str, str, int, int]]:
    """(name, category, start, end) of the slices that are in no other."""
    found, open_ = [], list[Edge]()
    for edge in edges:
        if edge.name is not None:
            open_.append(edge)
        else:
            begun = open_.pop()
            if not open_:
                found.append((begun.name or "", begun.category, begun.time, edge.time))
    return found


def test_the_slices_of_a_capture_are_where_its_instructions_are(tc2: Path) -> None:
    for stream, found in fits(tc2):
        slices = outer(edges(stream, found))
        times: list[tuple[int, bool]] = []
        for record in stream.records():
            if isinstance(record, Instruction | Gap):
                moment = found.moment(record.epoch, record.cycle)
                assert isinstance(moment, AlignedTime)
                times.append((round(moment.time * PER_TICK), isinstance(record, Instruction)))
        assert check_nesting(edges(stream, found)) == 2
        at = 0
        for time, executed in times:
            while slices[at][3] < time:
                at += 1
            assert slices[at][2] <= time <= slices[at][3]
            assert slices[at][1] == ("function" if executed else "gap") or time == slices[at][3]


def test_every_cycle_of_a_capture_is_in_one_slice(tc2: Path) -> None:
    """From the first instruction, or gap of known length, to the last: tc2 loses no time."""
    for stream, found in fits(tc2):
        slices = outer(edges(stream, found))
        assert all(one[3] == after[2] for one, after in pairwise(slices))


@pytest.mark.exhaustive  # only make test-all has Perfetto's reader
def test_what_is_written_of_a_capture_is_a_perfetto_trace(tc2: Path) -> None:
    out = io.BytesIO()
    file = File(out)
    chosen, notes = plan(fits(tc2))
    assert notes + write_slices(chosen, file) == []
    file.close()
    slices, tracks = read_back(out.getvalue())
    assert len(slices) == file.slices
    assert set(tracks) == {track_of(stream) for stream, _ in chosen}
    assert {one.category for one in slices} == {"function", "gap", "stall"}
    assert "unknown.trace_off" in {one.name for one in slices}


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_slices_nest_whatever_happened_to_the_bytes(tmp_path: Path, data: st.DataObject) -> None:
    for one, found in damaged(tmp_path, STREAM * 3, 20, data):
        told = edges(one, found)
        assert check_nesting(told) <= 2
        assert all(edge.time >= 0 for edge in told)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_slices_are_those_of_the_records_one_by_one(tmp_path: Path, data: st.DataObject) -> None:
    """Also where the bytes are damaged, time is lost, and streams are on their own clocks."""
    stream = STREAM + run(1000, 400) + STREAM + LOST + run(2000, 1000) + run(7000, 400) + STREAM
    for one, found in damaged(tmp_path, stream, 10, data):
        for fitted in (found, None):
            told, given = told_of(one, fitted), list[Edge]()
            assert walk(one, fitted, given.extend) == told.passed
            assert given == told.edges


def test_slices_of_a_capture_are_those_of_its_records_one_by_one(tc2: Path) -> None:
    for stream, found in fits(tc2):
        for fitted in (found, None):
            assert edges(stream, fitted) == told_of(stream, fitted).edges


LOST = ALIGNMENT + sync(BASE, reason=1, cycles=5)


def run(time: int, cycles: int) -> bytes:
    """From the beginning of the program: some instructions between two timestamps, ten cycles a tick."""
    return timestamp(time) + atom(True, 10) * (cycles // 10) + timestamp(time + cycles // 10)


def test_a_loss_of_time_is_a_gap_from_what_is_known_to_what_is_known(tmp_path: Path) -> None:
    damage = b"\x1f\x0e" * 4
    stream = LOST + run(1000, 400) + damage + LOST + run(5000, 400)
    ((one, found),) = fits(write(tmp_path, frames([(0x10, stream)])))
    slices = outer(edges(one, found))
    names = [(name, category) for name, category, _, _ in slices]
    gaps = [("unknown.damage", "gap"), ("unknown.trace_off", "gap")]
    assert names[-4:] == [("0xc0008000", "function"), *gaps, ("0xc0008000", "function")]
    before, gap, off, after = slices[-4:]
    assert before[3] == gap[2]
    assert gap[3] == off[2]
    assert off[3] == after[2]
    assert gap[2] // PER_TICK in range(1038, 1042)
    assert gap[3] // PER_TICK in range(4998, 5002)


def test_a_stream_without_timestamps_is_on_its_own_clock_or_left_out(tmp_path: Path) -> None:
    plain = LOST + atom(True, 10) * 40
    (alone,) = fits(write(tmp_path / "alone", frames([(0x10, plain)])))
    chosen, notes = plan([alone])
    assert chosen == [(alone[0], None)]
    assert "own clock" in notes[0]
    assert outer(edges(alone[0], None))[-1][1:] == ("function", 5, 405)
    (timed,) = fits(write(tmp_path / "timed", frames([(0x10, LOST + run(1000, 400))])))
    chosen, notes = plan([alone, timed])
    assert chosen == [timed]
    assert "left out" in notes[0]


def test_a_stream_that_counts_no_cycles_has_no_slices(tmp_path: Path) -> None:
    text = (write(tmp_path) / "etm.ini").read_text().replace("0x10001000", "0x10000000")
    (one,) = fits(write(tmp_path, None, etm=text))
    assert not one[0].setting.cycle_accurate
    with pytest.raises(HeadwayError, match="counts no cycles"):
        plan([one])


def test_a_wait_is_seen_and_a_call_begins_a_slice(tmp_path: Path) -> None:
    (tmp_path / "names").write_text(f"{BASE:08x} T first\n{BASE + 4:08x} T second\n")
    stream = (
        LOST + run(1000, 400) + atom(True, 200) + atom(True, 10) * 24 + branch(BASE) + atom(True, 10) + timestamp(1085)
    )
    folder = write(tmp_path / "s", frames([(0x10, stream)]))
    one = Capture.open(str(folder), [str(tmp_path / "names")]).streams[0x10]
    told = edges(one, fit(record for record in one.records() if isinstance(record, Timestamp)))
    names = [name for name, category, *_ in outer(told) if category == "function"]
    assert names == ["first", "second", "first"]
    lengths: dict[str, list[int]] = defaultdict(list)
    begun = None
    for edge in told:
        if edge.category == "stall":
            begun = edge
        elif edge.name is None and begun is not None:
            lengths["stall"].append(edge.time - begun.time)
            begun = None
    assert max(lengths["stall"]) // PER_TICK in range(18, 22)
