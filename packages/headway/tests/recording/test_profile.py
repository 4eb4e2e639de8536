"""A profile in a recording: it comes back as it was, and what is damaged is called that."""

from __future__ import annotations

import json
import os
import shutil
import tracemalloc
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings

from headway.errors import HeadwayError
from headway.model import Ledger, Profile, Window
from headway.recording.document import Document
from headway.recording.profile import has_profile, open_profile, profile_settings, write_profile
from headway.recording.writer import RecordingWriter
from headway.text import valid

from ..profiles import profiles, small


def write(path: Path, profile: Profile) -> None:
    document = Document(Ledger("bpf", Window(0, 0)), settings=profile_settings(profile.period))
    writer = RecordingWriter(path, document)
    write_profile(writer, profile)


def rows(profile: Profile) -> list[Any]:
    """What each row says, in words: numbers of frames and stacks are not kept."""
    return [
        (
            thread if thread < 0 else profile.ledger.threads[thread].key,
            state,
            weight,
            count,
            [
                [*(None if word is None else valid(word) for word in (f.function, f.file, f.module, f.kind)), f.line]
                for f in (profile.frames[number] for number in stack)
            ],
        )
        for thread, state, weight, count, stack in profile.rows()
    ]


@settings(max_examples=40, deadline=None)
@given(profiles())
def test_what_is_written_comes_back(profile: Profile) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "prof.hw"
        write(path, profile)
        assert has_profile(path)
        again, document = open_profile(path)
    assert document.closed
    assert rows(again) == rows(profile)
    assert again.samples.time.tolist() == profile.samples.time.tolist()
    assert again.samples.cpu.tolist() == profile.samples.cpu.tolist()
    assert again.period == profile.period
    assert list(again.notes) == [valid(note) for note in profile.notes]
    assert {**again.losses} == {**profile.losses}
    assert again.collection == profile.collection
    assert {t.key: {s: c.time for s, c in t.states.items()} for t in again.ledger.threads} == {
        t.key: {s: c.time for s, c in t.states.items()} for t in profile.ledger.threads
    }


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    path = tmp_path / "prof.hw"
    write(path, small())
    return path


def change(path: Path, table: str, **columns: Any) -> None:
    """Put other columns into the only part of a table, which stays a good file."""
    file = path / table / "part-000000.parquet"
    old = pq.read_table(file, partitioning=None)
    metadata = pq.read_schema(file).metadata
    for name, values in columns.items():
        field = old.schema.field(name)
        new = pa.array(values, field.type) if not pa.types.is_dictionary(field.type) else pa.array(values)
        if pa.types.is_dictionary(field.type):
            new = new.dictionary_encode()
        old = old.set_column(old.schema.get_field_index(name), field, new)
    pq.write_table(old.replace_schema_metadata(metadata), file)


def refused(path: Path, *words: str) -> None:
    with pytest.raises(HeadwayError) as error:
        open_profile(path)
    text = str(error.value)
    assert "\n" not in text
    for word in words:
        assert word in text


def test_a_frame_that_is_not_there_is_damage(recorded: Path) -> None:
    change(recorded, "stacks", frames=[[2, 1, 0], [1, 0], [2, 1, 99, 0], [4, 3, 0]])
    refused(recorded, "damaged", "a frame that does not exist")


def test_a_stack_that_is_not_there_is_damage(recorded: Path) -> None:
    change(recorded, "samples", stack=[77] * 1002)
    refused(recorded, "damaged", "a stack that does not exist")


def test_a_thread_that_is_not_there_is_damage(recorded: Path) -> None:
    change(recorded, "samples", thread=[5] * 1002)
    refused(recorded, "damaged", "thread that does not exist")


def test_a_thread_with_a_large_number_takes_no_more_memory_than_another(recorded: Path) -> None:
    rows = pq.read_table(recorded / "threads" / "part-000000.parquet", partitioning=None).num_rows
    numbers = [(1 << 31) - 1, *range(1, rows)]
    change(recorded, "threads", thread=numbers)
    tracemalloc.start()
    try:
        refused(recorded, "damaged", "thread that does not exist")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 64 << 20


def test_more_time_than_there_is_is_damage(recorded: Path) -> None:
    change(recorded, "samples", weight=[1 << 61] * 1002)
    refused(recorded, "damaged", "the times of its samples are too large")


def test_a_kind_of_frame_that_is_none_is_damage(recorded: Path) -> None:
    change(recorded, "frames", kind=["user", "user", "user", "user", "\x1b[31m"])
    refused(recorded, "damaged", "kind")


@pytest.mark.parametrize(
    ("name", "value"),
    [("policy", "\x1b[31m"), ("policy", 3), ("looks", -1), ("capacity", 0), ("stacks_ns", 1.5), ("drains", None)],
)
def test_a_collection_that_cannot_be_is_damage(recorded: Path, name: str, value: object) -> None:
    file = recorded / "recording.json"
    document = json.loads(file.read_text())
    document["settings"]["profile"]["collection"][name] = value
    file.write_text(json.dumps(document))
    refused(recorded, "damaged", name)


@pytest.mark.parametrize("table", ["samples", "stacks", "frames", "states"])
@pytest.mark.parametrize("size", [0, 10, 200])
def test_a_file_that_is_cut_off_is_damage(recorded: Path, table: str, size: int) -> None:
    os.truncate(recorded / table / "part-000000.parquet", size)
    refused(recorded, "damaged")


def test_a_table_that_is_missing_is_said(recorded: Path) -> None:
    shutil.rmtree(recorded / "stacks")
    refused(recorded, "damaged", "stacks")
    shutil.rmtree(recorded / "samples")
    refused(recorded, "there is no profile in")


def test_a_folder_that_is_none_and_one_that_is_no_recording(tmp_path: Path) -> None:
    refused(tmp_path / "nowhere", "nowhere", "cannot be opened")
    refused(tmp_path, "is not a recording")
