from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.ledgers import HOSTILE_NAMES, names

from headway.errors import HeadwayError
from headway.model import Quality
from headway.testing.baseline import FIGURES, Baseline, BaselineEntry, MeasuredMachine
from headway.text import valid

from .progresses import levels, qualities

HERE = MeasuredMachine.here()
blocks = st.builds(
    BaselineEntry,
    st.sampled_from(["ns", "cycles"]),
    st.fixed_dictionaries(dict.fromkeys(("rpi", "epi", "mpi", "kpi", "iopi"), qualities)),
    st.fixed_dictionaries(dict.fromkeys(FIGURES, levels)),
)
entries = blocks.flatmap(
    lambda entry: st.dictionaries(names.map(valid), blocks, max_size=2).map(
        lambda inner: BaselineEntry(entry.unit, entry.quality, entry.levels, inner)
    )
)


@given(st.dictionaries(names.map(valid), entries, max_size=4))
def test_what_is_read_is_what_was_written(
    tmp_path_factory: pytest.TempPathFactory, tests: dict[str, BaselineEntry]
) -> None:
    path = str(tmp_path_factory.mktemp("baselines") / "base.json")
    written = Baseline(HERE, "bpf", tests, "2026-11-22T00:00:00+00:00")
    written.write(path)
    assert Baseline.read(path) == written


def test_every_hostile_name_can_be_kept(tmp_path: Path) -> None:
    entry = BaselineEntry(
        "ns", dict.fromkeys(("rpi", "epi", "mpi", "kpi", "iopi"), Quality.EXACT), dict.fromkeys(FIGURES)
    )
    Baseline(HERE, "proc", dict.fromkeys(HOSTILE_NAMES, entry)).write(str(tmp_path / "b"))
    assert set(Baseline.read(str(tmp_path / "b")).tests) == set(map(valid, HOSTILE_NAMES))


def document() -> dict[str, Any]:
    entry = {"unit": "ns", "quality": dict.fromkeys(("rpi", "epi", "mpi", "kpi", "iopi"), "exact")}
    entry |= {figure: {"median": 5, "spread": None, "rounds": 1} for figure in FIGURES}
    return {
        "schema": "headway.pytest/1",
        "created": "",
        "machine": {"architecture": "x", "processor": "y", "processors": 2, "kernel": "6", "python": "C"},
        "source": "bpf",
        "tests": {"a": entry},
    }


@given(st.data())
def test_a_wrong_value_anywhere_is_one_sentence(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    found = document()
    place: Any = found
    while True:
        key = data.draw(st.sampled_from(sorted(place)))
        if not (isinstance(place[key], dict) and data.draw(st.booleans())):
            break
        place = place[key]
    place[key] = data.draw(st.sampled_from([None, [], {}, "\x1b[31m", -1, 1e999, True, 1 << 70, "x" * 20_000, {"": 0}]))
    path = tmp_path_factory.mktemp("baselines") / "base.json"
    path.write_text(json.dumps(found))
    said = "give a file that pytest --headway-save has written"
    with suppress(HeadwayError):  # a value may be right by chance
        Baseline.read(str(path))
        said = ""
    if said:
        with pytest.raises(HeadwayError, match=said) as raised:
            Baseline.read(str(path))
        assert str(raised.value).isprintable()
        assert len(str(raised.value)) < 1000


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "is not JSON"),
        (b"\xff\xfe\x00", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b"[]", "the document is a list"),
        (b'{"schema": "headway.pytest/2"}', "its schema is 'headway.pytest/2', not headway.pytest/1"),
        (b'{"schema": "headway.stat/1"}', "its schema is 'headway.stat/1'"),
        (json.dumps({**document(), "tests": {"\x1b": 7}}).encode(), "the test '\\x1b' is 7"),
    ],
)
def test_what_is_no_baseline_is_refused(tmp_path: Path, data: bytes, said: str) -> None:
    path = tmp_path / "base.json"
    path.write_bytes(data)
    with pytest.raises(HeadwayError) as raised:
        Baseline.read(str(path))
    assert said in str(raised.value)


def test_what_cannot_be_opened_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name, said in (("none", "cannot be opened (No such file"), ("pipe", "is not a file"), (".", "is not a file")):
        with pytest.raises(HeadwayError, match="give a file") as raised:
            Baseline.read(str(tmp_path / name))
        assert said in str(raised.value)


def test_a_file_that_cannot_be_written_stays_as_it_was(tmp_path: Path) -> None:
    with pytest.raises(HeadwayError, match="cannot be written"):
        Baseline(HERE, "bpf", {}).write(str(tmp_path / "none" / "base.json"))
    (tmp_path / "folder").mkdir()
    with pytest.raises(HeadwayError, match="cannot be written"):
        Baseline(HERE, "bpf", {}).write(str(tmp_path / "folder"))
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_another_processor_is_no_machine_to_compare_with_another_kernel_is() -> None:
    other = MeasuredMachine("aarch64", HERE.processor, HERE.processors, HERE.kernel, HERE.python)
    assert "another architecture" in HERE.unlike(other)
    other = MeasuredMachine(HERE.architecture, "i486", HERE.processors, HERE.kernel, HERE.python)
    assert "another processor ('i486'; here" in HERE.unlike(other)
    other = MeasuredMachine(HERE.architecture, HERE.processor, 64, "2.6.32", HERE.python)
    assert not HERE.unlike(other)
    assert [words.split()[0] for words in HERE.changes(other)] == ["processors:", "kernel"]


def test_a_link_stays_one_and_what_is_no_regular_file_is_written_as_it_is(tmp_path: Path) -> None:
    real, link, pipe = tmp_path / "real.json", tmp_path / "link.json", tmp_path / "pipe"
    real.write_text("before")
    link.symlink_to(real)
    os.mkfifo(pipe)
    baseline = Baseline(HERE, "proc", {})
    baseline.write(str(link))
    assert link.is_symlink()
    assert Baseline.read(str(real)).source == "proc"
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        baseline.write(str(pipe))
        assert json.loads(os.read(reader, 1 << 16))["source"] == "proc"
    finally:
        os.close(reader)
    assert pipe.is_fifo()
