"""A trace beside a recording of the same run: what each thread had executed last, or why that is not known."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.recording.queries.runs import Recorded, Row, Thread, write
from tests.running import headway

from headway_machine.programs import programs
from headway_trace.pt import library

from .test_threads import Made, recording, time_of

pytestmark = [
    pytest.mark.end_to_end,
    pytest.mark.skipif(not library.available(), reason="libipt is not installed"),
]

MONOTONIC = 1


def recorded(made: Made, folder: Path) -> Recorded:
    """The run as headway would have recorded it, and a thread that was not traced."""
    ends = [time_of(end) for runs in made.runs.values() for _, end in runs]
    start, end = ZERO_TIME, max(ends) + 1000
    rows, threads = [], []
    for number, tid in enumerate((100, 101, 102)):
        threads.append(Thread(number, tid, tid, f"prog{number}", start, start, None))
        at = start
        for begin, stop in made.runs.get(tid, []):
            rows.append(Row(at, time_of(begin) - at, 0, None, number, "wait.futex"))
            rows.append(Row(time_of(begin), time_of(stop) - time_of(begin), 0, 0, number, "user"))
            at = time_of(stop)
        rows.append(Row(at, end - at, 0, None, number, "wait.sleep"))
    return Recorded(start, end, rows, threads)


ZERO_TIME = 600


def test_each_thread_has_its_state_and_what_it_executed_last(tmp_path: Path) -> None:
    made = recording(tmp_path / "t", 5, 6, clock=MONOTONIC)
    path = write(recorded(made, tmp_path), tmp_path / "run.hw")
    begin, end = made.runs[101][0]
    when = time_of((begin + end) // 2) - ZERO_TIME
    result = headway("at", path, f"{when}ns", "--trace", made.path, "--format", "json")
    assert result.returncode == 0, result.stderr
    rows = {row["tid"]: row for row in json.loads(result.stdout)}
    assert rows[101]["state"] == "user"
    assert int(rows[101]["address"], 16) in {address for address, _ in made.executed[101]}
    assert rows[101]["instruction"]
    assert rows[101]["executed"] <= when + ZERO_TIME
    assert rows[100]["state"] == "wait.futex"
    assert int(rows[100]["address"], 16) in {address for address, _ in made.executed[100]}
    assert rows[100]["executed"] <= time_of(made.runs[100][0][1])
    assert rows[102]["executed_unknown"] == "not traced"
    assert rows[102]["address"] is None
    assert "have the same clock" in result.stderr
    assert headway("at", path, f"{when}ns", "--trace", made.path).returncode == 0


def test_before_the_trace_nothing_is_known_of_it(tmp_path: Path) -> None:
    made = recording(tmp_path / "t", 5, 6, clock=MONOTONIC)
    path = write(recorded(made, tmp_path), tmp_path / "run.hw")
    result = headway("at", path, "0", "--trace", made.path, "--format", "json")
    assert result.returncode == 0, result.stderr
    rows = json.loads(result.stdout)
    assert {row["executed_unknown"] for row in rows if row["tid"] < 102} == {"unknown.outside"}


def test_clocks_that_cannot_be_related_are_refused(tmp_path: Path) -> None:
    made = recording(tmp_path / "t", 5, 2)
    path = write(recorded(made, tmp_path), tmp_path / "run.hw")
    result = headway("at", path, "0", "--trace", made.path)
    assert result.returncode == 125
    assert "cannot be related" in result.stderr
    assert "Traceback" not in result.stderr


def test_an_image_alone_makes_no_sense(tmp_path: Path) -> None:
    result = headway("at", tmp_path, "0", "--image", "x")
    assert result.returncode == 125
    assert "--image is for --trace" in result.stderr


def test_a_trace_of_the_machine_stands_beside_its_recording(tmp_path: Path) -> None:
    path, traced = tmp_path / "run.hw", tmp_path / "run.hwt"
    assert headway("machine", "run", "sleepers", "--trace", traced, "-o", path, "-q").returncode == 0
    result = headway("at", path, 60000, "--trace", traced, "--image", "sleepers", "--format", "json")
    assert result.returncode == 0, result.stderr
    rows = {row["tid"]: row for row in json.loads(result.stdout)}
    told = headway("trace", "at", traced, "--image", "sleepers", "--cycle", 60000, "--format", "json")
    by_id = {row["id"]: row for row in json.loads(told.stdout) if row["id"]}
    assert rows.keys() == by_id.keys()
    for tid, row in rows.items():
        assert (row["address"], row["function"] or "", row["line"] or "") == (
            by_id[tid]["address"],
            by_id[tid]["symbol"],
            by_id[tid]["line"],
        )
        assert row["instruction"]
    assert headway("at", path, 60000, "--trace", traced).returncode == 125


def test_a_trace_of_another_program_of_the_machine_is_refused(tmp_path: Path) -> None:
    path, other = tmp_path / "run.hw", tmp_path / "other.hwt"
    assert headway("machine", "run", "sleepers", "-o", path, "-q").returncode == 0
    assert headway("machine", "run", "stats", "--trace", other, "-q").returncode == 0
    result = headway("at", path, 60000, "--trace", other, "--image", "stats")
    assert result.returncode == 125
    assert "give the trace of the same run" in result.stderr


@pytest.mark.parametrize("form", ["threads", "etrace"])
def test_a_trace_of_another_program_with_the_same_name_is_refused(tmp_path: Path, form: str) -> None:
    for folder, program in (("one", "sleepers"), ("two", "stats")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "prog.elf").write_bytes(programs()[program].read())
    path, other = tmp_path / "run.hw", tmp_path / "other.hwt"
    assert headway("machine", "run", tmp_path / "one/prog.elf", "-o", path, "-q").returncode == 0
    options = ["--trace", other, "--trace-format", form, "-q"]
    assert headway("machine", "run", tmp_path / "two/prog.elf", *options).returncode == 0
    result = headway("at", path, 60000, "--trace", other, "--image", tmp_path / "two/prog.elf")
    assert result.returncode == 125
    assert "are of different programs" in result.stderr
