"""Traces of E-Trace: moments from states that are kept, and parts by time and by thread."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.trace.etrace.runs import EtraceRun, run_example

from headway.errors import HeadwayError
from headway_trace.etrace import reading
from headway_trace.etrace.reading import EtraceTrace
from headway_trace.selection import Wanted
from headway_trace.threads.reading import TracedProgram

if TYPE_CHECKING:
    from headway_trace.etrace._decoder import Row

UNKNOWN = 32
NAMES = ("mix", "six-threads", "interrupt-storm")


@cache
def ran(name: str) -> EtraceRun:
    return run_example(name, (2, 2, "strict"), 30_000, sync=64)


def trace_of(run: EtraceRun, streams: Sequence[bytes]) -> EtraceTrace:
    def pieces(stream: bytes, start: int) -> Iterator[bytes]:
        yield stream[start : start + 700]
        yield stream[start + 700 :]

    return EtraceTrace(
        "it", run.parameters, [partial(pieces, one) for one in streams], TracedProgram(tuple(run.program))
    )


def all_rows(trace: EtraceTrace, wanted: Wanted | None = None) -> list[Row]:
    return [rows[number] for rows, _ in trace.blocks(wanted=wanted) for number in range(len(rows))]


def last_of(rows: Sequence[Row], time: int) -> dict[int, Row]:
    """The last row of each source with a time that is not after one."""
    return {row[0]: row for row in rows if row[1] is not None and row[1] <= time}


def damaged(streams: Sequence[bytes], data: st.DataObject) -> list[bytes]:
    found = [bytearray(stream) for stream in streams]
    for _ in range(data.draw(st.integers(0, 3))):
        one = data.draw(st.sampled_from([stream for stream in found if len(stream) > 50]))
        at = data.draw(st.integers(0, len(one) - 1))
        one[at : at + data.draw(st.integers(0, 40))] = data.draw(st.binary(max_size=20))
    return [bytes(stream) for stream in found]


@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_a_moment_from_a_kept_state_is_that_of_the_whole(data: st.DataObject) -> None:
    run = ran(data.draw(st.sampled_from(NAMES)))
    streams = damaged(run.streams, data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "_EVERY", data.draw(st.sampled_from([16, 200, 1000])))
        patch.setattr(reading, "_KEPT", data.draw(st.sampled_from([1 << 12, 1 << 26])))
        trace = trace_of(run, streams)
        rows = all_rows(trace)
        for time in data.draw(st.lists(st.integers(0, 32_000), min_size=3, max_size=10)):
            expected = last_of(rows, time)
            if not expected:
                with pytest.raises(HeadwayError, match="nothing is known"):
                    trace.at(time)
                continue
            found = {one.source: (one.time, one.address) for one in trace.at(time)}
            assert found == {source: (row[1], row[3] if row[5] < UNKNOWN else None) for source, row in expected.items()}


def test_states_are_kept_and_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_EVERY", 200)
    run = ran("mix")
    read: list[int] = []

    def pieces(start: int) -> Iterator[bytes]:
        read.append(start)
        yield run.streams[0][start:]

    trace = EtraceTrace("it", run.parameters, [pieces], TracedProgram(tuple(run.program)))
    first = trace.at(29_000)
    assert trace.at(29_000) == first
    assert read[0] == 0
    assert read[1] == read[2] > 0


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_part_has_what_may_have_been_executed_in_it(data: st.DataObject) -> None:
    run = ran(data.draw(st.sampled_from(NAMES)))
    trace = trace_of(run, damaged(run.streams, data))
    times = st.none() | st.integers(0, 32_000)
    begin, end = data.draw(times), data.draw(times)
    rows = all_rows(trace)
    contexts = sorted({row[2] for row in rows if row[5] < UNKNOWN})
    threads = tuple(data.draw(st.lists(st.sampled_from(contexts or [0]), max_size=2)))
    before: dict[int, int] = {}
    expected = []
    floors = {source: row[1] for source, row in last_of(rows, begin).items()} if begin is not None else {}
    for row in rows:
        source, time, context, _, _, code, after = row
        if time is not None:
            before[source] = time
        since = before.get(source, -1)
        until = max(since, after) if code >= UNKNOWN and after is not None else since
        if begin is not None or end is not None:
            floor = floors.get(source, begin) if begin is not None else -1
            if until < 0 or until < (floor or 0) or (end is not None and since >= end):
                continue
        if threads and code < UNKNOWN and context not in threads:
            continue
        expected.append(row)
    assert all_rows(trace, Wanted(threads=threads, begin=begin, end=end)) == expected
