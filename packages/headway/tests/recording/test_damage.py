"""A recording from anywhere: whatever is in the folder, it is read, refused in a sentence, or left out and counted."""

from __future__ import annotations

import json
import os
import shutil
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import headway
from headway.errors import HeadwayError
from headway.model import violations
from headway.recording.format import DOCUMENT, LAST, STACKED, part_name
from headway.recording.parts import Folder
from headway.recording.reader import Recording
from headway.replay.rows import load

from ..recordings import Run
from .test_ledger import QUICK, write


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording of several parts, closed."""
    path = tmp_path_factory.mktemp("sound") / "run.hw"
    write(path, Run(Random(11)), 12, moves=20, rows=40)
    return path


@pytest.fixture
def copy(sound: Path, tmp_path: Path) -> Path:
    """One that may be damaged."""
    shutil.copytree(sound, tmp_path / "run.hw")
    return tmp_path / "run.hw"


def read(path: Path) -> dict[str, str]:
    """Ask for everything that there is; what was damaged. The answer may be a sentence, and nothing else."""
    try:
        with headway.open(path) as recording:
            try:
                for ledger in (recording.kept_ledger(), recording.ledger()):
                    assert ledger is None or violations(ledger) == []
                assert recording.open_states() == [] or not recording.closed
                assert recording.window.start <= recording.window.end
                recording.losses()
            finally:
                damaged = recording.damaged
            return damaged
    except HeadwayError as error:
        text = str(error)
        assert text.isprintable()
        assert "\n" not in text
        return {"": text}


def document(path: Path, **changes: object) -> None:
    """Change what recording.json says."""
    found = json.loads((path / "recording.json").read_text())
    (path / "recording.json").write_text(json.dumps({**found, **changes}))


def test_a_sound_recording_has_no_damage(sound: Path) -> None:
    assert read(sound) == {}


@settings(deadline=None, phases=QUICK, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_changed_bytes_give_figures_or_one_sentence(
    sound: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("changed") / "run.hw"
    shutil.copytree(sound, path)
    files = sorted(file for file in path.rglob("*") if file.is_file())
    for file in data.draw(st.lists(st.sampled_from(files), min_size=1, max_size=2, unique=True)):
        content = bytearray(file.read_bytes())
        size = len(content)
        # What a file says of itself stands at its end.
        where = st.integers(0, size - 1) | st.integers(max(size - 1500, 0), size - 1)
        for at, value in data.draw(st.lists(st.tuples(where, st.integers(0, 255)), min_size=1, max_size=6)):
            content[at] = value
        file.write_bytes(content)
    read(path)
    shutil.rmtree(path)


@settings(deadline=None, phases=QUICK, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_files_cut_short_and_missing_are_damage(
    sound: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("cut") / "run.hw"
    shutil.copytree(sound, path)
    files = sorted(file for file in path.glob("*/*.parquet"))
    changed = data.draw(st.lists(st.sampled_from(files), min_size=1, max_size=3, unique=True))
    for file in changed:
        length = data.draw(st.integers(0, file.stat().st_size - 1))
        if data.draw(st.booleans()):
            os.truncate(file, length)
        else:
            file.unlink()
    damaged = read(path)
    rows = {f"{file.parent.name}/{file.name}" for file in changed if file.parent.name == "transitions"}
    assert rows <= damaged.keys() or "" in damaged
    shutil.rmtree(path)


def test_a_part_that_is_missing_is_counted_and_the_rest_is_there(copy: Path) -> None:
    (copy / "transitions" / part_name(2)).unlink()
    with Recording(copy) as recording:
        assert recording.damaged == {f"transitions/{part_name(2)}": "it is missing"}
        assert recording.losses()["files_damaged"] == 1
        ledger = recording.ledger()
    assert "damaged" in ledger.reasons["recording"]
    assert ledger.threads


def test_threads_that_cannot_be_read_are_counted_in_what_the_source_kept(copy: Path) -> None:
    for part in (copy / "threads").iterdir():
        part.write_bytes(b"nothing")
    with Recording(copy) as recording:
        kept = recording.kept_ledger()
        assert kept is not None
        assert kept.losses["files_damaged"] == len(list((copy / "threads").iterdir()))
        assert kept.losses["threads_unnamed"] > 0


def test_a_replay_of_rows_that_are_all_damaged_says_so(copy: Path) -> None:
    for part in (copy / "transitions").iterdir():
        part.write_bytes(b"nothing")
    with Recording(copy) as recording, pytest.raises(HeadwayError, match="is damaged"):
        load(recording)


def test_two_parts_in_each_other_s_place_are_both_damage(copy: Path) -> None:
    one, two, aside = (copy / "transitions" / name for name in (part_name(1), part_name(2), "aside"))
    one.rename(aside)
    two.rename(one)
    aside.rename(two)
    assert set(read(copy)) == {f"transitions/{part_name(1)}", f"transitions/{part_name(2)}"}


@pytest.mark.parametrize("name", [f"transitions/{part_name(1)}", f"threads/{part_name(0)}", "recording.json"])
@pytest.mark.parametrize("what", ["link", "pipe", "folder"])
def test_what_is_no_file_is_not_opened(copy: Path, tmp_path: Path, name: str, what: str) -> None:
    file = copy / name
    outside = tmp_path / "outside"
    file.rename(outside)
    if what == "link":
        file.symlink_to(outside)
    elif what == "pipe":
        os.mkfifo(file)
    else:
        file.mkdir()
    assert name in read(copy) or "" in read(copy)


def test_a_table_that_is_a_link_is_not_followed(copy: Path, tmp_path: Path) -> None:
    (copy / "transitions").rename(tmp_path / "outside")
    (copy / "transitions").symlink_to(tmp_path / "outside")
    with Recording(copy) as recording:
        assert recording.parts == ()
        assert recording.damaged


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"schema": "headway.recording/2"}, "version 2.*use a newer headway"),
        ({"schema": "headway.recording/99999999999"}, "schema"),
        ({"schema": "headway.stat/1"}, "schema"),
        ({"schema": None}, "schema is missing"),
        ({"state": "half"}, "state"),
        ({"window": {"start": -1, "end": 5}}, "start is -1"),
        ({"window": {"start": 9, "end": 5}}, "end is 5"),
        ({"window": {"start": 0, "end": 1 << 70}}, "end is"),
        ({"unit": "years"}, "unit"),
        ({"command": "ls"}, "command"),
        ({"anchors": [{"monotonic": "x"}]}, "monotonic"),
        ({"precision": {"total": "good"}}, "good"),
        ({"losses": {"a": -1}}, "a is -1"),
        ({"counted": {"a": 3}}, "counted"),
        ({"host": "x" * 200_000}, "host"),
        ({"exit_status": 1.5}, "exit_status"),
    ],
)
def test_a_document_that_is_wrong(copy: Path, changes: dict[str, object], words: str) -> None:
    document(copy, **changes)
    with pytest.raises(HeadwayError, match=words):
        Recording(copy)


@pytest.mark.parametrize("name", ["a\nb", "\x1b[31m", "\ud800", "x" * 100_000])
@pytest.mark.parametrize("field", ["losses", "reasons", "counted"])
def test_a_name_in_a_document_is_shown_safely(copy: Path, field: str, name: str) -> None:
    document(copy, **{field: {name: -1}})
    with pytest.raises(HeadwayError) as refused:
        Recording(copy)
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 500 + len(str(copy))


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema": NaN}', "[" * 100_000, "\0", "\xff", '"' * 9_000_000])
def test_a_document_that_is_none(copy: Path, text: str) -> None:
    (copy / "recording.json").write_text(text, encoding="latin-1")
    with pytest.raises(HeadwayError, match=r"recording\.json"):
        Recording(copy)


def test_a_folder_or_file_that_is_no_recording_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "folder").mkdir()
    for name in ("file", "folder", "nowhere", "nul\0"):
        with pytest.raises(HeadwayError, match=r"recording"):
            Recording(tmp_path / name)


Change = Callable[[pa.Table], pa.Table]


def _with(name: str, value: int) -> Change:
    def change(table: pa.Table) -> pa.Table:
        at = table.schema.get_field_index(name)
        values = np.full(table.num_rows, value)
        return table.set_column(at, table.schema.field(name), pa.array(values).cast(table.schema.field(name).type))

    return change


def _retyped(name: str, kind: pa.DataType) -> Change:
    def change(table: pa.Table) -> pa.Table:
        at = table.schema.get_field_index(name)
        return table.set_column(at, pa.field(name, kind), pa.nulls(table.num_rows, kind))

    return change


@pytest.mark.parametrize(
    "change",
    [
        _with("duration", -5),
        _with("duration", (1 << 63) - 1),
        _with("time", -1),
        _with("time", (1 << 63) - 1),
        _with("thread", -3),
        _with("cpu", -1),
        _with("count", -1),
        _retyped("time", pa.float64()),
        _retyped("time", pa.int64()),
        _retyped("state", pa.int32()),
        _retyped("state", pa.binary()),
        _retyped("cpu", pa.list_(pa.int16())),
        lambda table: table.drop(["duration"]),
        lambda table: table.append_column("time2", table.column("time")).rename_columns([*table.column_names, "time"]),
        lambda table: table.slice(1),
        lambda table: table.replace_schema_metadata({}),
    ],
)
def test_columns_that_are_wrong_leave_the_part_out(copy: Path, change: Change) -> None:
    file = copy / "transitions" / part_name(1)
    table = pq.read_table(file, partitioning=None)
    pq.write_table(change(table), file)
    assert list(read(copy)) == [f"transitions/{part_name(1)}"]


def test_a_correction_takes_back_what_an_earlier_row_counted(copy: Path, sound: Path) -> None:
    file = copy / "transitions" / part_name(1)
    table = pq.read_table(file, partitioning=None)
    rows = table.to_pylist()
    at = next(at for at, row in enumerate(rows) if row["count"] and row["duration"])
    correction = {**rows[at], "time": rows[at]["time"] + rows[at]["duration"], "duration": 0, "taken": 0, "count": -1}
    rows[at]["count"] += 1
    changed = [*rows[: at + 1], correction, *rows[at + 1 :]]
    metadata = {**table.schema.metadata, b"headway.rows": str(len(changed)).encode()}
    pq.write_table(pa.Table.from_pylist(changed, table.schema.with_metadata(metadata)), file)
    assert read(copy) == {}
    with headway.open(copy) as recording, headway.open(sound) as before:
        assert recording.ledger() == before.ledger()


def test_columns_that_are_not_known_are_passed_over(copy: Path) -> None:
    file = copy / "transitions" / part_name(1)
    table = pq.read_table(file, partitioning=None)
    pq.write_table(table.append_column("more", table.column("time")), file)
    document(copy, more={"a": 1})
    with Recording(copy) as recording:
        assert all(found.schema.equals(STACKED) for found in recording.tables("transitions"))
    assert read(copy) == {}


def test_a_file_that_claims_too_much_is_damage(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from headway.recording import parts

    monkeypatch.setattr(parts, "MAX_ROWS", 10)
    assert all("claims" in why for why in read(copy).values())


def test_more_threads_than_can_be_held_are_refused(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from headway.recording import contents

    monkeypatch.setattr(contents, "_MAX_THREADS", 1)
    with Recording(copy) as recording, pytest.raises(HeadwayError, match="more than 1 threads"):
        recording.threads()


def test_names_that_mean_harm_go_through(tmp_path: Path) -> None:
    names = ["\udc80\udcff", "\ud800", "a\nb", "\x1b[31m", "x" * 5000, "nul\0", "日本語"]
    write(tmp_path / "a.hw", Run(Random(5), threads=9, names=names), 4)
    with Recording(tmp_path / "a.hw") as recording:
        found = {thread.name for thread in recording.threads().values()}
    assert found <= {"\\x80\\xff", "\\ud800", *names[2:]}


def test_after_a_part_that_is_missing_no_state_is_a_stale_one(copy: Path) -> None:
    document(copy, state="open", parts=None)
    last = sorted((copy / "transitions").iterdir())[-1]
    table = pq.read_table(last, partitioning=None)
    metadata = {key: value for key, value in table.schema.metadata.items() if key != LAST}
    pq.write_table(table.replace_schema_metadata(metadata), last)
    with Recording(copy) as recording:
        before = {state.thread for state in recording.open_states()}
        number = recording.parts[-2].number
    (copy / "transitions" / part_name(number)).unlink()
    with Recording(copy) as recording:
        after = {state.thread for state in recording.open_states()}
    assert after <= before


def test_a_document_takes_no_more_memory_than_it_has_bytes(sound: Path) -> None:
    folder = Folder(sound)
    tracemalloc.start()
    try:
        data = folder.read(DOCUMENT, 1 << 28)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        folder.close()
    assert data == (sound / DOCUMENT).read_bytes()
    assert peak < 1 << 20


def test_a_small_file_that_unpacks_to_a_long_row_is_damage(copy: Path) -> None:
    """Dictionaries and run lengths make millions of values of a few bytes."""
    (file,) = (copy / "states").iterdir()
    table = pq.read_table(file)
    none = np.zeros(1 << 20, np.int64)
    events = pa.MapArray.from_arrays(pa.array([0, len(none)], pa.int32()), pa.array(["x"]).take(pa.array(none)), none)
    at = table.schema.get_field_index("events")
    one = table.slice(0, 1).set_column(at, "events", events)
    pq.write_table(one.replace_schema_metadata(pq.read_schema(file).metadata), file, compression="zstd")
    assert file.stat().st_size < 10_000
    assert read(copy) == {f"states/{file.name}": "events has 1048576 values in a row"}
