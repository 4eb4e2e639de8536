"""Thresholds from files: every file either means what it says, or is refused in one sentence."""

from __future__ import annotations

import math
import tomllib
from contextlib import suppress
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.advice import Thresholds
from headway.advice.threshold_files import defaults_text, load_thresholds
from headway.errors import HeadwayError

pytestmark = pytest.mark.unit

NAMES = [value.name for value in fields(Thresholds)]
WHOLE = {"least_ns": 10**18, "most": 1000}


@pytest.fixture(autouse=True)
def _nothing_of_the_users_own(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))


def written(folder: Path, text: str | bytes) -> str:
    file = folder / "mine.toml"
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return str(file)


def refused(file: str, *words: str) -> None:
    with pytest.raises(HeadwayError) as caught:
        load_thresholds(file)
    text = str(caught.value)
    assert text.count("\n") == 0
    for word in (file, *words):
        assert word in text


def test_the_file_that_comes_with_it_has_every_value_and_the_same_ones() -> None:
    assert tomllib.loads(defaults_text()) == asdict(Thresholds())
    assert load_thresholds() == Thresholds()


def test_ones_own_file_counts_and_the_one_given_counts_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "headway").mkdir()
    (tmp_path / "headway/thresholds.toml").write_text("td = 0.5\nkpi = 0.5\n")
    found = load_thresholds(written(tmp_path, "kpi = 1\nmost = 7\n"))
    assert (found.td, found.kpi, found.most, found.mpi) == (0.5, 1, 7, 0.25)


def test_without_xdg_it_is_in_the_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".config/headway").mkdir(parents=True)
    (tmp_path / ".config/headway/thresholds.toml").write_text("wait = 0.9\n")
    assert load_thresholds().wait == 0.9


def test_where_nobody_can_look_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in the home of another user, which $HOME names still after a change of user."""
    monkeypatch.setenv("XDG_CONFIG_HOME", "/" + "x" * 1000)
    assert load_thresholds() == Thresholds()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("tb = 0.1", ["'tb'", "there are td, mpi, kpi"]),
        ("td = 1.5", ["td is 1.5", "a share from 0 to 1"]),
        ("td = -0.1", ["td is -0.1"]),
        ("td = nan", ["td is nan"]),
        ("td = inf", ["td is inf"]),
        (f"td = {'9' * 400}", ["td is a number of more than 20 digits"]),
        (f"most = -{'9' * 400}", ["most is a number of more than 20 digits"]),
        ("td = true", ["td is true"]),
        ("td = '0.1'", ["td is '0.1'"]),
        ("td = [0.1]", ["td is [0.1]"]),
        ("[td]\nx = 1", ["td is {'x': 1}"]),
        ("td = 1979-05-27", ["td is datetime.date"]),
        ("most = 0", ["most is 0", "a whole number from 1 to 1000"]),
        ("most = 2.0", ["most is 2.0"]),
        ("least_ns = 1" + "0" * 300, ["least_ns is a number of more than 20 digits"]),
        ("td = 0.1\ntd = 0.2", ["TOML"]),
        ("td == 1", ["TOML"]),
        ("x = " + "[" * 20000, ["nested too deeply"]),
        (b"td = 0.1 # \xff", ["UTF-8"]),
        ("#" * 70_000, ["64 KiB"]),
        ("'\\u001b[31m' = 1", ["there is no threshold"]),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path: Path, text: str | bytes, words: list[str]) -> None:
    refused(written(tmp_path, text), *words)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    refused(str(tmp_path / "none"), "No such file")
    refused(str(tmp_path), "directory")


values = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.lists(st.integers(), max_size=2)
)


@given(st.sampled_from(NAMES), values)
def test_a_value_is_taken_exactly_where_it_is_allowed(name: str, value: Any) -> None:
    if name in WHOLE:
        allowed = type(value) is int and (name == "least_ns" or value >= 1) and 0 <= value <= WHOLE[name]
    else:
        allowed = type(value) in (int, float) and math.isfinite(value) and 0 <= value <= 1
    if allowed:
        assert getattr(Thresholds(**{name: value}), name) == value
    else:
        with pytest.raises(ValueError, match=name):
            Thresholds(**{name: value})


@given(st.binary(max_size=200))
def test_no_file_brings_it_down(tmp_path_factory: pytest.TempPathFactory, raw: bytes) -> None:
    file = written(tmp_path_factory.mktemp("any"), raw)
    with suppress(HeadwayError):
        load_thresholds(file)
