"""Stacks in a recording: waits by stack add up to the ledger, whatever its parts; without stacks it is as ever."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.errors import HeadwayError
from headway.model import Batch, Frame, Kind, Ledger, Samples, is_exact, kind_of
from headway.recording.format import STACKED, TRANSITIONS, part_name
from headway.recording.reader import Recording
from headway.recording.stack_profile import profile_of_stacks
from headway.recording.stacks import frames_table, stack_settings, stacks_table
from headway.recording.writer import RecordingWriter
from headway.text import valid

from ..recordings import Run, document
from .test_ledger import QUICK, seeds
from .test_ledger import write as write_without

FRAMES = (
    Frame("schedule", None, None, "[kernel]", 8, "kernel"),
    Frame("read", None, None, "/lib/libc.so.6", 9, "user"),
    Frame("parse", "load.c", 88, "/bin/app", 1, "user"),
    Frame("main", "app.c", 5, "/bin/app", 2, "user"),
)
STACKS = ((0, 1, 2, 3), (0,), (0, 1, 3))


def stacked(batch: Batch, random: Random) -> Batch:
    """Give the batch stacks, some of them not known, and a sample."""
    rows = batch.transitions

    def numbers() -> np.ndarray[tuple[int], np.dtype[np.int32]]:
        return np.array([random.randrange(-1, len(STACKS)) for _ in range(len(rows))], np.int32)

    one = np.ones(1, np.int32)
    moment = np.array([batch.start], np.int64)
    sample = Samples(moment, one * 0, np.zeros(1, np.int16), one * 0, one.astype(np.int64), one, ("user",))
    return replace(batch, transitions=replace(rows, stack=numbers(), waker_stack=numbers()), samples=sample)


def write(path: Path, seed: int, *, rows: int = 20, most_bytes: int | None = None) -> tuple[Ledger, list[Batch]]:
    """Record a run with stacks; its ledger and batches."""
    random, run = Random(seed), Run(Random(seed))
    start = replace(document(run.start), settings=dict(stack_settings(1_000)))
    writer = RecordingWriter(path, start, rows=rows, stacks=True, most_bytes=most_bytes)
    batches = [stacked(batch, random) for batch in run.batches(8, 10)]
    last, ledger = run.end()
    batches.append(stacked(last, random))
    for batch in batches:
        writer.add(batch)
    tables = {"stacks": stacks_table(STACKS, FRAMES), "frames": frames_table(FRAMES)}
    writer.close(ledger, tables=tables)
    return ledger, batches


@settings(deadline=None, phases=QUICK, max_examples=20)
@given(seeds, st.integers(1, 60), st.booleans())
def test_waits_by_stack_are_those_of_the_rows_and_add_up_to_the_ledger(seed: int, rows: int, wakers: bool) -> None:
    with TemporaryDirectory() as scratch:
        ledger, batches = write(Path(scratch) / "run.hw", seed, rows=rows)
        with Recording(Path(scratch) / "run.hw") as recording:
            found = profile_of_stacks(recording, wakers=wakers)
    wanted: defaultdict[tuple[int, str, tuple[int, ...]], int] = defaultdict(int)
    for batch in batches:
        table = batch.transitions
        stacks = table.waker_stack if wakers else table.stack
        assert stacks is not None
        columns = (table.thread, table.state, table.duration - table.taken, stacks)
        for thread, state, time, stack in zip(*(column.tolist() for column in columns), strict=True):
            name = table.states[state]
            if thread >= 0 and (kind_of(name) is Kind.WAIT if wakers else is_exact(name)):
                wanted[thread, name, STACKS[stack] if stack >= 0 else ()] += time
    keys = {thread.key: number for number, thread in enumerate(ledger.threads)}
    number = [keys[thread.key] for thread in found.ledger.threads]
    sums: defaultdict[tuple[int, str, tuple[int, ...]], int] = defaultdict(int)
    for thread, state, weight, _, stack in found.rows():
        if is_exact(state):
            sums[number[thread], state, stack] += weight
    assert {key: time for key, time in sums.items() if time} == {key: time for key, time in wanted.items() if time}
    times: Counter[tuple[int, str]] = Counter()
    for (thread, state, _), time in sums.items():
        times[thread, state] += time
    for place, one in enumerate(ledger.threads):
        for state, cell in one.states.items():
            if kind_of(state) is Kind.WAIT:
                assert times[place, valid(state)] == cell.time


def test_what_is_left_of_a_recording_with_a_limit_has_its_stacks(tmp_path: Path) -> None:
    write(tmp_path / "run.hw", 3, rows=5, most_bytes=40_000)
    with Recording(tmp_path / "run.hw") as recording:
        assert recording.dropped_parts
        found = profile_of_stacks(recording)
    assert found.stacks == STACKS
    assert found.frames == FRAMES
    assert any(row[4] for row in found.rows())


def test_a_stack_has_a_place(tmp_path: Path) -> None:
    write(tmp_path / "run.hw", 1)
    (file,) = (tmp_path / "run.hw" / "stacks").iterdir()
    assert pq.read_table(file).column("place").to_pylist() == [2, 0, 3]


def test_only_rows_with_stacks_have_columns_for_them(tmp_path: Path) -> None:
    write(tmp_path / "with.hw", 1)
    write_without(tmp_path / "without.hw", Run(Random(1)), 6, rows=10)
    for name, schema in (("with.hw", STACKED), ("without.hw", TRANSITIONS)):
        for file in (tmp_path / name / "transitions").iterdir():
            assert pq.read_schema(file).equals(schema), file
    assert not {"stacks", "frames", "processor_samples"} & {one.name for one in (tmp_path / "without.hw").iterdir()}


def test_a_recording_without_names_of_stacks_is_one_sentence(tmp_path: Path) -> None:
    write_without(tmp_path / "run.hw", Run(Random(1)), 6)
    with Recording(tmp_path / "run.hw") as recording, pytest.raises(HeadwayError, match=r"headway record --stacks"):
        profile_of_stacks(recording)


@pytest.mark.parametrize(
    ("table", "column", "values"),
    [
        ("stacks", "frames", [[7], [0], [0]]),
        ("stacks", "stack", [0, 2, 1]),
        ("frames", "kind", ["user", "kernel", "user", "heavenly"]),
        ("stacks", "stack", None),
    ],
)
def test_damaged_stacks_are_one_sentence(tmp_path: Path, table: str, column: str, values: list[object] | None) -> None:
    write(tmp_path / "run.hw", 1)
    (file,) = (tmp_path / "run.hw" / table).iterdir()
    before = pq.read_table(file)
    if values is None:
        changed = before.slice(0, 1)  # rows refer to more
        changed = changed.replace_schema_metadata({**before.schema.metadata, b"headway.rows": b"1"})
    else:
        at = before.schema.get_field_index(column)
        field = before.schema.field(at)
        array = pa.array(values)
        changed = before.set_column(
            at, field, array.dictionary_encode() if column == "kind" else array.cast(field.type)
        )
    pq.write_table(changed, tmp_path / "run.hw" / table / part_name(int(file.stem.rpartition("-")[2])))
    with (
        Recording(tmp_path / "run.hw") as recording,
        pytest.raises(HeadwayError, match=r"stacks of .* (damaged|cannot)"),
    ):
        profile_of_stacks(recording)
