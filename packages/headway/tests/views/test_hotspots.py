"""The report of a profile: within its width, whatever things are called, and with its qualities on it."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.model import PARTS, Profile
from headway.views.console import Console
from headway.views.hotspots import print_profile
from headway.views.printable import width_of
from headway.views.profile_json import profile_document
from headway.views.schemas import schema_of

from ..profiles import profiles, small

VALIDATOR = jsonschema.Draft202012Validator(schema_of("profile"))


def shown(profile: Profile, width: int = 80, part: str | None = None, limit: int = 8) -> str:
    stream = io.StringIO()
    console = Console(stream, width=width)
    print_profile(console, profile, part=part, limit=limit)
    return stream.getvalue()


@given(profiles(), st.integers(60, 200), st.sampled_from([None, *PARTS]), st.integers(1, 9))
def test_no_line_is_wider_than_there_is_room_and_nothing_acts_on_the_terminal(
    profile: Profile, width: int, part: str | None, limit: int
) -> None:
    for line in shown(profile, width, part, limit).splitlines():
        assert width_of(line) <= width
        assert line.isprintable()


def test_code_that_runs_comes_before_waits_that_take_longer() -> None:
    text = shown(small())
    assert 0 < text.index("\nuser ") < text.index("\nwait.sleep ")
    assert "42 ×, exact" in text
    assert "70 % nanosleep ← main" in text
    assert "30 % stack not known" in text
    assert "lost 0" in text
    lost = shown(small(), part="lost")
    assert "wait.sleep" in lost
    assert "user" not in lost.partition("\n\n")[2]


def test_it_says_how_samples_were_collected_and_what_that_cost() -> None:
    text = " ".join(shown(small()).split())
    assert "collected by watermark from buffers of 128 KiB: 12 looks, 10 drains (8 of half a buffer or more)" in text
    assert "3 when a thread or the profile ended, 21 wake-ups" in text
    assert "cost 4.20 ms (0.21 % of a processor), 3.00 ms of it for stacks" in text
    assert "collected by" not in shown(replace(small(), collection=None))


def test_samples_have_their_mark_and_their_error() -> None:
    lines = shown(small(), part="effective", limit=9).splitlines()
    state = next(i for i, line in enumerate(lines) if line.startswith("user"))
    assert lines[state].split() == ["user", "999", "ms", "50", "%", "1,000", "samples"]
    assert lines[state + 2].split() == ["~70", "%", "~70", "%", "2.8", "%", "inner", "(app)"]
    assert lines[state + 3].split() == ["~30", "%", "~100", "%", "2.8", "%", "work", "(app)"]
    assert "   ~10 % inner ← work (2 ×) ← main" in lines


def test_a_part_of_which_there_is_nothing_says_so() -> None:
    assert "nothing of that was seen" in shown(small(), part="poll")


@given(profiles(), st.sampled_from([None, *PARTS]), st.none() | st.integers(1, 9))
def test_every_profile_makes_a_document_that_fits_the_schema(
    profile: Profile, part: str | None, limit: int | None
) -> None:
    VALIDATOR.validate(json.loads(json.dumps(profile_document(profile, part=part, limit=limit))))


@pytest.mark.parametrize("part", [None, "wait", "effective"])
def test_the_document_has_the_same(part: str | None) -> None:
    document = json.loads(json.dumps(profile_document(small(), part=part)))
    assert document["schema"] == "headway.profile/1"
    states = {state["state"]: state for state in document["states"]}
    assert set(states) == {None: {"user", "wait.sleep"}, "wait": {"wait.sleep"}, "effective": {"user"}}[part]
    if "user" in states:
        assert states["user"]["quality"] == "sampled"
        assert {f["function"]: f["self"] for f in states["user"]["functions"]} == {"main": 0, "work": 0.3, "inner": 0.7}
    if "wait.sleep" in states:
        assert states["wait.sleep"]["quality"] == "exact"
        assert states["wait.sleep"]["time"] == 10**9
