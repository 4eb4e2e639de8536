"""What a path names, and that what it is not is said in one sentence."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.effort import FEW

from headway.errors import HeadwayError
from headway.recording import format as form
from headway.recording.queries import catalogue
from headway.recording.queries.catalogue import find
from headway.recording.queries.tables import Tables, open_tables

from .runs import lawful, write


def count(path: Path | str) -> tuple[int, list[str]]:
    """Rows of transitions, and what was left out."""
    with open_tables(str(path)) as tables:
        ((found, _),) = tables.ask_user("SELECT count(*), sum(duration) FROM transitions").rows
        return found, tables.left_out


def test_one_run_a_folder_of_runs_a_pattern_and_a_tree(tmp_path: Path) -> None:
    recorded = lawful(Random(1))
    size = len(recorded.rows)
    for place in ("a.hw", "odd [1] {x} 'n' *?.hw", "tree/host=one/run=1", "tree/host=tw%C3%B6/run=2"):
        write(recorded, tmp_path / place)
    assert count(tmp_path / "a.hw") == (size, [])
    assert count(tmp_path / "odd [1] {x} 'n' *?.hw") == (size, [])
    assert count(tmp_path) == (4 * size, [])
    assert count(tmp_path / "*.hw") == (2 * size, [])
    runs = find(str(tmp_path / "tree/host=*/run=*/")).runs
    assert [(run.host, run.run) for run in runs] == [("one", "1"), ("twö", "2")]
    assert [(run.host, run.run) for run in find(str(tmp_path / "a.hw")).runs] == [("here", "a")]


def test_a_place_with_a_scheme_is_read_through_its_store(tmp_path: Path) -> None:
    write(lawful(Random(1)), tmp_path / "host=one/run=1")
    write(lawful(Random(2)), tmp_path / "host=two/run=1")
    runs = find(f"file://{tmp_path}/host=*/run=*/").runs
    assert [(run.host, run.run, run.local) for run in runs] == [("one", "1", False), ("two", "1", False)]
    assert runs[0].files["threads"][0].startswith("file://")
    with pytest.raises(HeadwayError, match="not on this machine"):
        open_tables(f"file://{tmp_path}")
    with pytest.raises(HeadwayError, match="cannot be opened"):
        find("nosuch://bucket/x")


def test_runs_of_one_name_are_told_apart(tmp_path: Path) -> None:
    for place in ("one/run.hw", "two/run.hw"):
        write(lawful(Random(1)), tmp_path / place)
    assert [run.run for run in find(str(tmp_path)).runs] == ["run", "run (2)"]


def change(path: Path, **values: Any) -> None:
    document = json.loads((path / form.DOCUMENT).read_text())
    (path / form.DOCUMENT).write_text(json.dumps(document | values))


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda path: (path / form.DOCUMENT).unlink(), "is not a recording and has none in it"),
        (lambda path: (path / form.DOCUMENT).write_text("{"), "it is not JSON"),
        (lambda path: (path / form.DOCUMENT).write_bytes(b"\xff"), "it is not JSON"),
        (lambda path: (path / form.DOCUMENT).write_text("[" * 100_000), "it is not JSON"),
        (lambda path: (path / form.DOCUMENT).write_text("[]"), "cannot be used"),
        (lambda path: change(path, schema="headway.stat/1"), "its schema is"),
        (lambda path: change(path, schema="headway.recording/x"), "its schema is"),
        (lambda path: change(path, schema="headway.recording/2"), "use a newer headway"),
        (lambda path: change(path, window={}), "cannot be used"),
        (lambda path: change(path, window={"start": "0", "end": 1}), "cannot be used"),
        (lambda path: change(path, window={"start": 0, "end": 2**70}), "cannot be used"),
        (lambda path: change(path, anchors=[{"monotonic": None}]), "cannot be used"),
    ],
)
def test_a_document_that_is_none_is_said(tmp_path: Path, spoil: Callable[[Path], Any], words: str) -> None:
    path = write(lawful(Random(2)), tmp_path / "run.hw")
    spoil(path)
    with pytest.raises(HeadwayError, match=words) as caught:
        find(str(path))
    assert "\n" not in str(caught.value)


def test_what_is_no_recording_is_said(tmp_path: Path) -> None:
    with pytest.raises(HeadwayError, match="is not there"):
        find(str(tmp_path / "nothing"))
    with pytest.raises(HeadwayError, match="nothing matches"):
        find(str(tmp_path / "*.hw"))
    (tmp_path / "file").write_text("")
    with pytest.raises(HeadwayError, match="is a file"):
        find(str(tmp_path / "file"))


def test_a_bad_run_among_good_ones_is_left_out_and_said(tmp_path: Path) -> None:
    write(lawful(Random(1)), tmp_path / "good.hw")
    change(write(lawful(Random(2)), tmp_path / "newer.hw"), schema="headway.recording/9")
    found = find(str(tmp_path))
    assert [run.run for run in found.runs] == ["good"]
    assert "use a newer headway" in found.left_out[0]
    change(write(lawful(Random(2)), tmp_path / "cycles.hw"), time_unit="cycles")
    with pytest.raises(HeadwayError, match="which cannot be combined"):
        find(str(tmp_path))


def spoil_part(path: Path, how: str) -> None:
    """Damage one file."""
    data = path.read_bytes()
    table = pq.read_table(path)
    if how == "truncated":
        path.write_bytes(data[: len(data) // 2])
    elif how == "empty":
        path.write_bytes(b"")
    elif how == "text":
        path.write_text("no parquet")
    elif how == "column":
        pq.write_table(table.drop_columns(["duration"]), path)
    elif how == "type":
        strings = pa.array(["x"] * table.num_rows, pa.string())
        pq.write_table(table.set_column(table.column_names.index("duration"), "duration", strings), path)


@pytest.mark.parametrize("how", ["truncated", "empty", "text", "column", "type"])
@pytest.mark.parametrize("which", [1] if FEW else [0, 1])
def test_a_part_that_is_damaged_is_left_out_and_said(tmp_path: Path, how: str, which: int) -> None:
    recorded = lawful(Random(3), steps=60)
    recorded.cuts = [(recorded.start + recorded.end) // 2]
    path = write(recorded, tmp_path / "run.hw")
    spoil_part(path / "transitions" / form.part_name(which), how)
    found, left_out = count(path)
    assert found == sum(recorded.part(row) != which for row in recorded.rows)
    assert len(left_out) == 1
    assert "is left out" in left_out[0]
    assert "\n" not in left_out[0]


def test_a_part_that_may_not_be_read_is_not_called_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = find(str(write(lawful(Random(4)), tmp_path / "run.hw"))).runs[0]

    def refused(part: str, local: bool) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), part)

    monkeypatch.setattr(catalogue, "_metadata", refused)
    _, left_out = catalogue.sift(run)
    assert left_out
    assert all("is left out: it may not be read (Permission denied)" in one for one in left_out)


def test_links_out_of_a_recording_are_not_followed(tmp_path: Path) -> None:
    path = write(lawful(Random(4)), tmp_path / "run.hw")
    other = write(lawful(Random(5)), tmp_path / "other.hw")
    os.symlink(other / "transitions" / form.part_name(0), path / "transitions" / form.part_name(99))
    files = find(str(path)).runs[0].files["transitions"]
    assert form.part_name(99) not in [Path(file).name for file in files]
    (other / form.DOCUMENT).unlink()
    os.symlink(path / form.DOCUMENT, other / form.DOCUMENT)
    with pytest.raises(HeadwayError, match="is not a recording"):
        find(str(other))


def test_of_a_crash_only_complete_parts_are_read(tmp_path: Path) -> None:
    recorded = lawful(Random(6))
    path = write(recorded, tmp_path / "run.hw", parts=1)
    later = path / "threads" / form.part_name(7)
    later.write_bytes((path / "threads" / form.part_name(0)).read_bytes())
    (path / "transitions" / "part-000001.parquet.tmp").write_bytes(b"half")
    (run,) = find(str(path)).runs
    assert [len(run.files[table]) for table in ("transitions", "threads")] == [1, 1]
    assert count(path)[1] == []


def test_names_of_hosts_that_are_no_text(tmp_path: Path) -> None:
    path = write(lawful(Random(7)), tmp_path / "run.hw")
    for host in ("\ud800", "a'b\n", "x" * 10_000, ""):
        change(path, host=host)
        assert isinstance(find(str(path)).runs[0].host, str)
        assert count(path)[0]


def test_a_table_that_is_missing_is_empty(tmp_path: Path) -> None:
    path = write(lawful(Random(8)), tmp_path / "run.hw")
    for part in (path / "losses").iterdir():
        part.unlink()
    tables: Tables
    with open_tables(str(path)) as tables:
        assert list(tables.ask_user("SELECT * FROM losses").rows) == []
