"""The rows of a recording of the machine are its ledger: state by state, to the cycle, whatever runs on it."""

from __future__ import annotations

import random
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.effort import FEW
from tests.machine.assembler import Bench
from tests.machine.examples import MAX_CYCLES, SHAPES, Shape, config_of, names, program
from tests.machine.streams import bench
from tests.machine.test_laws import SEEDS, STOPS, digest

import headway
from headway.model import Ledger, Processor, Thread, violations
from headway.recording.durations import with_durations
from headway.recording.writer import RecordingWriter
from headway_machine.image import NumberNames
from headway_machine.ledger import RawCell
from headway_machine.machine import Machine
from headway_machine.recording import ROW, RunRecorder, describe
from headway_machine.states import name_states

pytestmark = pytest.mark.unit

CHECK = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
ON_DISK = settings(CHECK, max_examples=15)
OVERHEAD = 210

Figures = dict[int, dict[int, tuple[int, int]]]
"""Time and count, by thread or hart and by number of the state."""


def recorded(seed: int, stops: list[int]) -> tuple[Bench, NDArray[np.void]]:
    """A random program on a random machine, and the rows of its run."""
    b = bench(random.Random(seed))
    b.processor.record()
    rows = []
    for step in stops:
        b.run(b.processor.now + step)
        rows.append(np.frombuffer(b.processor.recorded(), ROW))
    b.processor.end_record()
    rows.append(np.frombuffer(b.processor.recorded(), ROW))
    return b, np.concatenate(rows)


def sums(rows: NDArray[np.void], column: str) -> Figures:
    """What the rows add up to, by thread or by hart."""
    times: dict[int, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    counts: dict[int, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for row in rows[rows[column] >= 0]:
        who, state = int(row[column]), int(row["state"])
        times[who][state] += int(row["duration"] - row["taken"])
        times[who][OVERHEAD] += int(row["taken"])
        counts[who][state] += int(row["count"])
    return {
        who: {state: (time, counts[who][state]) for state, time in found.items() if time or counts[who][state]}
        for who, found in times.items()
    }


def cells(who: Sequence[tuple[int, Sequence[RawCell]]]) -> Figures:
    """The same of what the machine itself has counted."""
    found = {number: {cell[0]: (cell[1], cell[4]) for cell in of if cell[1] or cell[4]} for number, of in who}
    return {number: of for number, of in found.items() if of}


@CHECK
@given(SEEDS, STOPS)
def test_the_rows_of_threads_and_harts_add_up_to_their_cells(seed: int, stops: list[int]) -> None:
    b, rows = recorded(seed, stops)
    assert sums(rows, "thread") == cells([(n, t[-1]) for n, t in enumerate(b.processor.threads())])
    assert sums(rows, "cpu") == cells(b.processor.processors())


@CHECK
@given(SEEDS, STOPS)
def test_the_rows_of_a_thread_fill_its_life_and_those_of_a_hart_the_run(seed: int, stops: list[int]) -> None:
    b, rows = recorded(seed, stops)
    lives = [(birth, b.processor.now if end < 0 else end) for _, _, birth, end, *_ in b.processor.threads()]
    runs = [(0, b.processor.now)] * b.config.harts
    for column, spans in (("thread", lives), ("cpu", runs)):
        for number, (start, end) in enumerate(spans):
            own = rows[(rows[column] == number) & (rows["duration"] != 0)]
            own = own[np.argsort(own["time"], kind="stable")]
            ends = own["time"] + own["duration"]
            assert [start, *ends] == [*own["time"], end]


@CHECK
@given(SEEDS, STOPS)
def test_a_recorded_run_is_the_same_run(seed: int, stops: list[int]) -> None:
    b, _ = recorded(seed, stops)
    assert digest(b) == digest(bench(random.Random(seed)).run(sum(stops)))


@CHECK
@given(SEEDS, STOPS)
def test_a_wait_is_ended_by_a_thread_or_an_interrupt_and_nothing_else_is(seed: int, stops: list[int]) -> None:
    b, rows = recorded(seed, stops)
    woken = rows[(rows["waker"] >= 0) | (rows["waker_state"] > 0)]
    assert (woken["state"] > 220).all()
    assert ((woken["waker"] >= 0) != (woken["waker_state"] > 0)).all()
    assert (woken["waker"] < len(b.processor.threads())).all()


def of_states(row: Thread | Processor) -> dict[str, tuple[int, int | None]]:
    return {state: (cell.time, cell.count) for state, cell in row.states.items() if cell.time or cell.count}


def check(path: Path, kept: Ledger) -> None:
    """The recording's rows, and the ledger that it keeps, are the machine's."""
    with headway.open(path) as recording:
        of_rows, saved = recording.ledger(), recording.kept_ledger()
        assert recording.damaged == {}
        assert recording.anchors == ()
    assert violations(of_rows) == []
    assert (of_rows.window, of_rows.time_unit) == (kept.window, "cycles")
    assert saved is not None
    # A recording does not keep which registers the poll latch saw.
    assert {t.key: t for t in saved.threads} == {t.key: replace(t, causes=()) for t in kept.threads}
    assert saved.processors == kept.processors
    lives = {t.key: (t.pid, t.name, t.start, t.end, t.until, t.span) for t in kept.threads}
    assert {t.key: (t.pid, t.name, t.start, t.end, t.until, t.span) for t in of_rows.threads} == lives
    assert {t.key: of_states(t) for t in of_rows.threads} == {t.key: of_states(t) for t in kept.threads}
    assert {p.cpu: of_states(p) for p in of_rows.processors} == {p.cpu: of_states(p) for p in kept.processors}


def recorder_of(b: Bench, path: Path, rows: int) -> RunRecorder:
    """Its batches and parts are as small as they can be."""
    found = name_states(NumberNames(), b.config.ranges, b.config.polls)
    writer = RecordingWriter(path, describe(b.config, found, ["x"]), rows=rows)
    return RunRecorder(b.processor, writer, found, rows=1, ticks=1)


@ON_DISK
@given(SEEDS, STOPS, st.integers(1, 200))
def test_a_recording_on_disk_is_the_ledger(seed: int, stops: list[int], rows: int) -> None:
    b = bench(random.Random(seed))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.hw"
        recorder = recorder_of(b, path, rows)
        for step in stops:
            b.run(b.processor.now + step)
            recorder.take()
        recorder.close(b.ledger(), None)
        check(path, b.ledger())


@ON_DISK
@given(SEEDS, STOPS)
def test_a_recording_that_was_not_closed_is_the_ledger_of_threads_until_its_last_part(
    seed: int, stops: list[int]
) -> None:
    b = bench(random.Random(seed))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.hw"
        recorder = recorder_of(b, path, rows=1)
        for step in stops:
            b.run(b.processor.now + step)
            recorder.take()
        recorder.abandon()
        with headway.open(path) as recording:
            until = recording.window.end
            found = sorted((thread.birth, thread.span) for thread in recording.ledger().threads if thread.span)
    lives = [(thread.birth, min(thread.until, until) - thread.birth) for thread in b.ledger().threads]
    assert found == sorted((birth, span) for birth, span in lives if span > 0)


@ON_DISK
@given(SEEDS, STOPS)
def test_the_durations_of_a_recording_are_as_many_as_its_counts(seed: int, stops: list[int]) -> None:
    b = bench(random.Random(seed))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.hw"
        recorder = recorder_of(b, path, rows=100)
        b.run(sum(stops))
        recorder.close(b.ledger(), None)
        with headway.open(path) as recording:
            ledger = with_durations(recording, recording.ledger(), 4)
    assert violations(ledger) == []


@ON_DISK
@given(
    st.sampled_from(names()),
    st.integers(1, 4),
    st.integers(1, 8),
    st.sampled_from(["strict", "skip"]),
    st.integers(1, 400_000),
)
def test_a_recording_of_a_program_until_any_cycle_is_its_ledger(
    name: str, cores: int, threads: int, issue: str, cycles: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.hw"
        machine = Machine(config_of(name, (cores, threads, issue)))
        check(path, machine.run(program(name), max_cycles=cycles, recording=path).ledger)


@pytest.mark.parametrize("shape", SHAPES[-1:] if FEW else SHAPES, ids=lambda shape: "x".join(map(str, shape)))
@pytest.mark.parametrize("name", names())
def test_a_recording_of_a_program_is_its_ledger(name: str, shape: Shape, tmp_path: Path) -> None:
    machine, path = Machine(config_of(name, shape)), tmp_path / "run.hw"
    done = machine.run(program(name), max_cycles=MAX_CYCLES, recording=path)
    check(path, done.ledger)
    assert done.digest == machine.run(program(name), max_cycles=MAX_CYCLES).digest
