"""headway report --html: the page has what the recording has, and what is wrong is said in one sentence."""

from __future__ import annotations

import os
import stat
import zlib
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from headway.cli.pages import write_recording_page
from headway.model import NO_STATE, Ledger, kind_of
from headway.recording.format import part_name
from headway.recording.queries.catalogue import find
from headway.recording.queries.instant import at
from headway.recording.reader import Recording
from headway.recording.writer import RecordingWriter
from headway.views.html import page, slices
from headway.views.printable import visible

from ..profiles import small
from ..recording.test_ledger import write
from ..recording.test_profile import write as write_profile
from ..recordings import Run, document
from ..running import headway
from ..views.html.reading import Page, Row, rows_of


def page_of(path: Path) -> Page:
    """The page of a recording."""
    target = path.with_suffix(".html")
    with Recording(path) as recording:
        ledger = recording.kept_ledger() or recording.ledger()
        write_recording_page(str(target), str(path), ledger, recording, ())
    return Page(target.read_text(encoding="utf-8"))


def rows_in(found: Page) -> list[Row]:
    """Every row of its timeline; the state by its place in the page's list."""
    said = found.document
    states = said["timeline"]["states"]
    kinds = [said["kinds"][said["state_kinds"][state]]["name"] for state in states]
    waits, off = [kind == "wait" for kind in kinds], [kind in ("wait", "ready") for kind in kinds]
    edges = said["timeline"]["edges"]
    parts = [*zip(found.slices(), edges, strict=False), (found.section("over_edges"), 0)]
    return [row for data, begin in parts for row in rows_of(data, begin, waits, off)]


@settings(deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate), max_examples=8)
@given(st.integers(0, 1 << 32), st.integers(0, 8), st.booleans())
def test_every_stretch_is_in_the_page_and_it_answers_as_headway_at(seed: int, batches: int, closed: bool) -> None:
    with TemporaryDirectory() as scratch, pytest.MonkeyPatch.context() as patch:
        patch.setattr(slices, "A_SLICE", 16)
        patch.setattr(slices, "_HELD", 40)
        path = Path(scratch) / "run.hw"
        run = Run(Random(seed))
        if closed:
            write(path, run, batches, rows=30)
        else:
            writer = RecordingWriter(path, document(run.start), rows=30)
            for batch in run.batches(batches, 10):
                writer.add(batch)
            writer.abandon()
            if not path.exists():
                return
        with Recording(path) as recording:
            if not recording.rows:
                return
            ledger, window = recording.ledger(), recording.window
            expected = []
            for table in (batch.transitions for batch in recording.batches()):
                for i in range(len(table)):
                    if table.duration[i]:
                        start = int(table.time[i]) - window.start
                        waker = (
                            int(table.waker[i]),
                            int(table.waker_tid[i]),
                            table.waker_state[i] != NO_STATE,
                        )
                        by = 1 if waker[0] >= 0 else 2 if waker[1] else 3 if waker[2] else 0
                        end = start + int(table.duration[i])
                        state = table.states[table.state[i]]
                        expected.append(
                            (start, end, state, int(table.cpu[i]), by if kind_of(state).value == "wait" else 0)
                        )
            threads = recording.threads()
        found = page_of(path)
        said = found.document
        names = [said["states"][state] for state in said["timeline"]["states"]]
        rows = rows_in(found)
        cpus = [processor["cpu"] for processor in said["processors"]]
        shown = [
            (start, end, names[state], cpus[cpu] if cpu >= 0 else -1, (waker - 1) % 3 + 1 if waker else 0)
            for _, start, end, state, cpu, waker in rows
        ]
        assert sorted(shown) == sorted(expected)
        assert said["timeline"]["rows"] == len(expected)
        _compare_with_at(path, rows, names, ledger, window.start, Random(seed))
        assert {thread.tid for thread in threads.values()} >= set(said["threads"]["tid"])


def _compare_with_at(path: Path, rows: list[Row], names: list[str], ledger: Ledger, start: int, random: Random) -> None:
    (run,) = find(str(path)).runs
    duration = ledger.window.duration
    for _ in range(3):
        time = random.randrange(duration) if duration else 0
        if not duration:
            return
        known = {doing.tid: doing for doing in at(run, f"{time}ns").threads}
        for place, thread in enumerate(ledger.threads):
            if thread.tid not in known or [t.tid for t in ledger.threads].count(thread.tid) > 1:
                continue
            here = [row for row in rows if row[0] == place and row[1] <= time < row[2]]
            doing = known[thread.tid]
            if not here:
                assert doing.state == "unknown"
                continue
            row = max(here, key=lambda row: row[1])
            assert (names[row[3]], row[1] + start) == (doing.state, doing.since)


def test_the_command_writes_one_file_and_says_what_is_in_it(tmp_path: Path) -> None:
    path, target = tmp_path / "run.hw", tmp_path / "out.html"
    write(path, Run(Random(3)), 6)
    done = headway("report", path, "--html", target)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert "every one of" in done.stderr
    assert stat.S_IMODE(target.stat().st_mode) & 0o600 == 0o600
    assert {entry.name for entry in tmp_path.iterdir()} == {"run.hw", "out.html"}
    said = Page(target.read_text(encoding="utf-8")).document
    with Recording(path) as recording:
        ledger = recording.kept_ledger()
        assert ledger is not None
    assert said["title"] == "run.hw"
    assert said["host"] == "here"
    assert said["threads"]["name"] == [visible(thread.name, 300) for thread in ledger.threads]
    assert said["chains"] is not None


def test_files_that_cannot_be_read_are_said_where_the_transitions_are_counted(tmp_path: Path) -> None:
    path, target = tmp_path / "run.hw", tmp_path / "out.html"
    write(path, Run(Random(3)), 6)
    (path / "transitions" / part_name(0)).write_bytes(b"no table")
    done = headway("report", path, "--html", target)
    assert done.returncode == 0, done.stderr
    assert "every one of" not in done.stderr
    assert "1 of the recording's files cannot be read" in done.stderr
    assert Page(target.read_text(encoding="utf-8")).document["damaged"] == 1
    for part in (path / "transitions").iterdir():
        part.write_bytes(b"no table")
    assert headway("report", path, "--html", target).returncode == 0
    missing = Page(target.read_text(encoding="utf-8")).document["missing"]
    assert missing["timeline"] == "no transition of this recording can be read"


def test_the_chains_add_up_to_all_waiting(tmp_path: Path) -> None:
    path = tmp_path / "run.hw"
    write(path, Run(Random(5), threads=6), 12)
    found = page_of(path)
    chains = found.document["chains"]
    waiting = sum(
        end - start
        for lane, start, end, state, *_ in rows_in(found)
        if lane >= 0 and _name(found, state).split(".")[0] in ("wait", "stopped")
    )
    assert chains["time"] == waiting
    assert sum(row[0] for row in chains["rows"]) + chains["more"]["time"] == waiting


def _name(found: Page, state: int) -> str:
    said = found.document
    name: str = said["states"][said["timeline"]["states"][state]]
    return name


def test_what_does_not_fit_is_in_buckets_and_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run.hw"
    write(path, Run(Random(3), threads=12), 40, moves=60)
    monkeypatch.setattr(page, "room_for_timeline", lambda most, ledger: 1_000)
    target = tmp_path / "out.html"
    with Recording(path) as recording:
        ledger = recording.ledger()
        text = write_recording_page(str(target), str(path), ledger, recording, ())
        rows = recording.rows
    found = Page(target.read_text(encoding="utf-8"))
    said = found.document["timeline"]
    assert "do not fit" in text
    assert said["edges"] is None
    assert 0 < said["rows"] <= rows
    assert found.slices() == []
    kinds = len(said["kinds"])
    cells = sum(until - first for first, until in zip(said["first"], said["until"], strict=True))
    assert len(found.section("levels")) == kinds * cells
    assert len(zlib.compress(found.section("levels"))) < 1_100


def test_of_a_profile_there_is_a_flame_graph_and_no_timeline(tmp_path: Path) -> None:
    path, target = tmp_path / "prof.hw", tmp_path / "out.html"
    write_profile(path, small())
    done = headway("report", path, "--html", target)
    assert done.returncode == 0, done.stderr
    found = Page(target.read_text(encoding="utf-8"))
    assert found.document["timeline"] is None
    assert "no transition" in found.document["missing"]["timeline"]
    assert b'"inner"' in found.section("profile")


def test_of_what_is_damaged_the_rest_is_shown_and_the_damage_said(tmp_path: Path) -> None:
    path = tmp_path / "run.hw"
    run = Run(Random(8), threads=3)
    writer = RecordingWriter(path, document(run.start), rows=20)
    for batch in run.batches(8, 20):
        writer.add(batch)
    last, ledger = run.end()
    writer.add(last)
    writer.close(ledger)
    (path / "transitions" / part_name(2)).write_bytes(b"PAR1 not at all")
    found = page_of(path)
    assert any("part-000002" in remark for remark in found.document["remarks"])


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["report", "{run}", "--html", "{folder}"], "Is a directory"),
        (["report", "{run}", "--html", "{folder}/none/out.html"], "No such file or directory"),
        (["report", "{run}", "--html", "{run}/recording.json"], "over or into what it is made of"),
        (["report", "{run}", "--html", "{folder}/out.html", "--json"], "leave out --json"),
        (["report", "{run}", "--html", "{folder}/out.html", "--index", "wait"], "leave out"),
        (["report", "{folder}/not.hw", "--html", "{folder}/out.html"], "give a recording"),
    ],
)
def test_a_mistake_is_one_sentence_and_leaves_nothing(tmp_path: Path, words: list[str], why: str) -> None:
    run = tmp_path / "run.hw"
    write(run, Run(Random(1)), 2)
    before = {entry.name for entry in tmp_path.iterdir()}
    done = headway(*(word.format(run=run, folder=tmp_path) for word in words))
    assert done.returncode in (2, 125)
    assert why in done.stderr
    assert {entry.name for entry in tmp_path.iterdir()} == before


def test_what_was_there_stays_until_the_page_is_whole(tmp_path: Path) -> None:
    run, target = tmp_path / "run.hw", tmp_path / "out.html"
    write(run, Run(Random(1)), 2)
    target.write_text("before")
    os.chmod(target, 0o600)
    with Recording(run) as recording:
        ledger = recording.ledger()
        broken = recording
        broken.batches = None  # type: ignore[assignment, method-assign]
        with pytest.raises(TypeError):
            write_recording_page(str(target), str(run), ledger, broken, ())
    assert target.read_text() == "before"
    assert {entry.name for entry in tmp_path.iterdir()} == {"run.hw", "out.html"}


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["stat", "--html", "{folder}/none/out.html", "--", "touch", "{folder}/begun"], "cannot be written"),
        (
            ["stat", "-I", "100", "--html", "{folder}/out.html", "--", "touch", "{folder}/begun"],
            "leave out --html or -I",
        ),
    ],
)
def test_nothing_is_begun_where_no_page_can_be_written(tmp_path: Path, words: list[str], why: str) -> None:
    done = headway(*(word.format(folder=tmp_path) for word in words))
    assert done.returncode in (2, 125)
    assert why in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_stat_writes_a_page_beside_its_table(tmp_path: Path) -> None:
    target = tmp_path / "out.html"
    done = headway("stat", "--source", "proc", "--html", target, "--", "sh", "-c", "exit 3")
    assert done.returncode == 3
    said = Page(target.read_text(encoding="utf-8")).document
    assert (said["command"], said["exit_status"], said["title"]) == ("sh -c exit 3", 3, "sh")
    assert "headway record" in said["missing"]["timeline"]
