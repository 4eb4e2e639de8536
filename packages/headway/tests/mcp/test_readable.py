"""The files that may be read: what was named and what is in it, and nothing else, whatever a client asks for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.mcp.asked import recorded_in

from headway.errors import HeadwayError
from headway.mcp.readable import ReadableFiles

SAVED = '{"schema":"headway.stat/1"}'


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what may be read, and beside it what may not."""
    folder = tmp_path_factory.mktemp("house")
    runs = folder / "runs"
    (runs / "deep").mkdir(parents=True)
    (folder / "secret").mkdir()
    recorded_in(runs / "a.hw", 1)
    recorded_in(runs / "deep" / "b.hw", 2)
    recorded_in(folder / "secret" / "c.hw", 3)
    (runs / "saved.json").write_text(SAVED)
    (runs / "other.json").write_text('{"schema":"something/1"}')
    (folder / "secret" / "saved.json").write_text(SAVED)
    os.symlink(folder / "secret", runs / "way-out")
    os.symlink(folder / "secret" / "saved.json", runs / "link.json")
    os.symlink("saved.json", runs / "inside.json")
    os.mkfifo(runs / "pipe.json")
    return folder


def test_what_is_there_is_listed(house: Path) -> None:
    files, more = ReadableFiles([str(house / "runs")]).listed()
    assert [(each.path, each.kind) for each in files] == [
        ("a.hw", "recording"),
        ("deep/b.hw", "recording"),
        ("saved.json", "document"),
    ]
    assert more == 0
    assert files[2].size == len(SAVED)


def test_what_is_listed_can_be_found(house: Path) -> None:
    for places in ([str(house / "runs")], [str(house / "runs" / "a.hw"), str(house / "runs" / "saved.json")]):
        readable = ReadableFiles(places)
        files, _ = readable.listed()
        assert len(files) >= 2
        for each in files:
            assert os.path.exists(readable.find(each.path, each.kind))


def test_a_link_inside_is_followed(house: Path) -> None:
    assert ReadableFiles([str(house / "runs")]).find("inside.json", "document") == os.path.realpath(
        house / "runs" / "saved.json"
    )


@pytest.mark.parametrize(
    "path",
    [
        "../secret/c.hw",
        "way-out/c.hw",
        "deep/../../secret/c.hw",
        "{house}/secret/c.hw",
        "{house}/runs/../secret/c.hw",
        "/etc/passwd",
        "",
        ".",
        "/",
        "a.hw\0",
        "a.hw/transitions",
        "s3://bucket/run.hw",
        "*.hw",
        "-",
        "n" * 100_000,
    ],
)
def test_nothing_else_is_found_and_no_word_is_said_about_it(house: Path, path: str) -> None:
    readable = ReadableFiles([str(house / "runs")])
    with pytest.raises(HeadwayError, match=r"there is no recording .* files lists them") as caught:
        readable.find(path.replace("{house}", str(house)), "recording")
    assert len(str(caught.value)) < 1000
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    "path", ["link.json", "way-out/saved.json", "../secret/saved.json", "pipe.json", "other.json", "a.hw"]
)
def test_no_other_document_is_found(house: Path, path: str) -> None:
    with pytest.raises(HeadwayError, match="there is no document"):
        ReadableFiles([str(house / "runs")]).find(path, "document")


def test_a_folder_whose_name_begins_alike_is_another_one(tmp_path: Path) -> None:
    for name in ("run", "runs"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "saved.json").write_text(SAVED)
    with pytest.raises(HeadwayError):
        ReadableFiles([str(tmp_path / "run")]).find(str(tmp_path / "runs" / "saved.json"), "document")


@given(
    st.lists(st.sampled_from(["..", ".", "a.hw", "deep", "way-out", "secret", "c.hw", "", "/", "\0", "é"]), max_size=8)
)
def test_whatever_is_found_lies_inside(house: Path, parts: list[str]) -> None:
    runs = os.path.realpath(house / "runs")
    try:
        found = ReadableFiles([runs]).find("/".join(parts), "recording")
    except HeadwayError:
        return
    assert found in (f"{runs}/a.hw", f"{runs}/deep/b.hw")


def test_a_place_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(HeadwayError, match=r"cannot be read .No such file"):
        ReadableFiles([str(tmp_path / "nothing")])
