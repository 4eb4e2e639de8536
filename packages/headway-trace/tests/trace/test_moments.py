"""What every stream was doing at a moment: what looking through all records finds, by looking at few."""

from __future__ import annotations

import shutil
from itertools import pairwise
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.trace.encoding import frames
from tests.trace.snapshots import STREAM, write

from headway.errors import HeadwayError
from headway_trace import moments, stream_index
from headway_trace.alignment import fit
from headway_trace.commands.trace import command
from headway_trace.decode import Capture, Stream
from headway_trace.index_files import IndexFolder
from headway_trace.moments import Index
from headway_trace.records import Gap, Instruction, Timestamp


def by_looking_at_all(stream: Stream, time: float | None, cycle: int | None) -> Instruction | Gap | None:
    """The first that is done at or after the moment."""
    records = list(stream.records())
    found = fit(one for one in records if isinstance(one, Timestamp))
    end, epoch = 0, -1
    for record in records:
        if not isinstance(record, Instruction | Gap) or record.cycle is None:
            continue
        begin = end if record.epoch == epoch else 0
        end, epoch = record.cycle, record.epoch
        wanted: float | None = cycle if epoch == 0 else None
        if wanted is None and time is not None:
            wanted = found.cycle(time, epoch)
        if wanted is not None and (begin < wanted <= end or wanted == begin == 0):
            return record
    return None


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_the_index_finds_what_looking_through_all_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: st.DataObject
) -> None:
    monkeypatch.setattr(stream_index, "_PIECE", data.draw(st.integers(1, 200)))
    monkeypatch.setattr(stream_index, "_RECORDS", data.draw(st.integers(1, 50)))
    monkeypatch.setattr(moments, "_SMALL", 0)
    shutil.rmtree(tmp_path / "index", ignore_errors=True)
    trace = bytearray(STREAM * 3)
    for _ in range(data.draw(st.integers(0, 6))):
        at = data.draw(st.integers(0, len(trace) - 1))
        trace[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    try:
        stream = Capture.open(str(write(tmp_path, frames([(0x10, bytes(trace))])))).streams[0x10]
        folder = IndexFolder(tmp_path / "index")
        index = Index([stream], folder)
    except HeadwayError:
        return
    assert folder.read("0x10")
    if data.draw(st.booleans()):  # as another command finds it
        stream = Capture.open(str(tmp_path)).streams[0x10]
        index = Index([stream], folder)
    for cycle in data.draw(st.lists(st.integers(0, 4000), min_size=5, max_size=20)):
        try:
            (moment,) = index.at_cycle(0x10, cycle)
        except HeadwayError:  # it ends before
            continue
        assert moment.record == by_looking_at_all(stream, moment.time, cycle)
    for time in data.draw(st.lists(st.integers(990, 1120), min_size=5, max_size=20)):
        try:
            (moment,) = index.at_time(time)
        except HeadwayError:
            continue
        assert moment.record == by_looking_at_all(stream, time, None)
        assert (moment.record is None) == bool(moment.why)


def test_every_cycle_of_a_capture_is_found(tc2: Path) -> None:
    streams = list(Capture.open(str(tc2)).streams.values())
    index = Index(streams)
    for stream in streams:
        records = [one for one in stream.records() if isinstance(one, Instruction | Gap)]
        for before, record in list(pairwise(records))[::97]:
            assert record.cycle is not None
            assert before.cycle is not None
            if before.cycle < record.cycle:
                moments = index.at_cycle(stream.id, record.cycle)
                assert moments[streams.index(stream)].record == record


@pytest.mark.parametrize("chosen", [["0x11"], ["0x10", "0x12"]])
def test_the_streams_that_were_not_asked_for_are_left_out(tc2: Path, chosen: list[str]) -> None:
    options = [word for one in chosen for word in ("--stream", one)]
    result = CliRunner().invoke(command, ["at", str(tc2), "--time", "562536984200", *options, "--format", "csv"])
    assert [line.split(",")[0] for line in result.stdout.splitlines()[1:]] == chosen
