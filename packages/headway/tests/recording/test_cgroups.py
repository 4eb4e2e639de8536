"""The control groups of threads in recordings, and recordings of an older headway, which have no column for them."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pyarrow.parquet as pq
import pytest

from headway.mcp.readable import ReadableFiles
from headway.mcp.tools import ask
from headway.model import Group, GroupBy, grouped
from headway.recording.reader import Recording

from .queries.runs import Recorded, lawful, write

GROUPS = ("/system.slice/nginx.service", "/batch", None, "/batch")


def made() -> Recorded:
    """Threads on processors of their own, in some control groups."""
    found = lawful(Random(3))
    found.rows = [
        row if row.cpu is None else row._replace(cpu=row.thread) for row in found.rows if row.thread is not None
    ]
    found.threads = [one._replace(cgroup=cgroup) for one, cgroup in zip(found.threads, GROUPS, strict=True)]
    return found


@pytest.fixture
def older(tmp_path: Path) -> Path:
    """A recording whose files of threads have no column cgroup."""
    path = write(made(), tmp_path / "older.hw")
    for file in (path / "threads").iterdir():
        table = pq.read_table(file)
        pq.write_table(table.drop_columns(["cgroup"]).replace_schema_metadata(table.schema.metadata), file)
    return path


def test_threads_have_their_control_groups(tmp_path: Path) -> None:
    with Recording(write(made(), tmp_path / "run.hw")) as recording:
        for ledger in (recording.ledger(), recording.kept_ledger()):
            assert ledger is not None
            assert [one.cgroup for one in ledger.threads] == [*GROUPS]
            names = {
                Group(tuple(ledger.threads[at] for at in places), GroupBy.CGROUP).name
                for places in grouped(ledger.threads, GroupBy.CGROUP)
            }
            assert {"/system.slice/nginx.service", "/batch"} <= names


def test_a_recording_without_the_column_is_the_same_without_groups(tmp_path: Path, older: Path) -> None:
    with Recording(write(made(), tmp_path / "run.hw")) as recording, Recording(older) as without:
        assert without.damaged == {}
        for whole, lacking in (
            (recording.ledger(), without.ledger()),
            (recording.kept_ledger(), without.kept_ledger()),
        ):
            assert whole is not None
            assert lacking is not None
            assert [one.states for one in lacking.threads] == [one.states for one in whole.threads]
            assert {one.cgroup for one in lacking.threads} == {None}
            assert len(grouped(lacking.threads, GroupBy.POD)) >= 1


def test_a_recording_without_the_column_can_be_queried(older: Path) -> None:
    files = ReadableFiles([str(older)])
    answer = ask("query", {"file": str(older), "sql": "SELECT count(*) AS n FROM threads"}, files)
    assert answer["rows"] == [[len(GROUPS)]]
