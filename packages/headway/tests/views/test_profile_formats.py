"""Profiles for other tools: nothing is lost or made on the way, whatever things are called."""

from __future__ import annotations

import gzip
import json
from collections import Counter

from hypothesis import given

from headway.model import Profile
from headway.views.folded import folded
from headway.views.pprof import message_types, pprof
from headway.views.speedscope import speedscope

from ..profiles import profiles, small


def total(profile: Profile) -> int:
    return sum(weight for _, _, weight, _, _ in profile.rows())


@given(profiles())
def test_folded_lines_have_all_weights_and_each_is_one_line(profile: Profile) -> None:
    lines = list(folded(profile))
    assert sum(int(line.rpartition(" ")[2]) for line in lines) == total(profile)
    assert len({line.rpartition(" ")[0] for line in lines}) == len(lines)
    depths = {len(stack) or 1 for _, _, _, _, stack in profile.rows()}
    for line in lines:
        assert line.isprintable()
        line.encode()
        assert line.count(";") - 1 in depths  # thread;frames...;state
        assert all(line.rpartition(" ")[0].split(";"))


def test_folded_stacks_begin_with_the_thread_and_end_with_the_state() -> None:
    assert list(folded(small())) == [
        "app;main;nanosleep;schedule;[wait.sleep] 700000000",
        "app;main;work;inner;[user] 600000000",
        "app;main;work;[user] 300000000",
        "app;[stack not known];[wait.sleep] 300000000",
        "app;main;work;work;inner;[user] 100000000",
    ]


@given(profiles())
def test_speedscope_has_all_weights_and_keeps_its_schemas_rules(profile: Profile) -> None:
    document = json.loads(json.dumps(speedscope(profile, "prof.hw"), allow_nan=False))
    assert document["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    frames = document["shared"]["frames"]
    assert all(set(frame) <= {"name", "file", "line", "col"} for frame in frames)
    assert all(isinstance(frame["name"], str) and frame["name"] for frame in frames)
    weights = 0
    for one in document["profiles"]:
        assert set(one) == {"type", "name", "unit", "startValue", "endValue", "samples", "weights"}
        assert (one["type"], one["unit"]) == ("sampled", "nanoseconds")
        assert len(one["samples"]) == len(one["weights"])
        assert one["endValue"] - one["startValue"] == sum(one["weights"])
        assert all(0 <= number < len(frames) for sample in one["samples"] for number in sample)
        weights += sum(one["weights"])
    assert weights == total(profile)


@given(profiles())
def test_pprof_has_all_weights_by_thread_and_state_and_refers_to_nothing_missing(profile: Profile) -> None:
    message = message_types()["Profile"]()
    message.ParseFromString(gzip.decompress(pprof(profile, 5)))
    texts = message.string_table
    assert texts[0] == ""
    assert [(texts[kind.type], texts[kind.unit]) for kind in message.sample_type] == [
        ("samples", "count"),
        ("time", "nanoseconds"),
    ]
    locations = {location.id: location for location in message.location}
    functions = {function.id for function in message.function}
    mappings = {mapping.id for mapping in message.mapping} | {0}
    assert 0 not in {*locations, *functions}
    for location in message.location:
        assert location.mapping_id in mappings
        assert all(line.function_id in functions for line in location.line)
    states: Counter[str] = Counter()
    counts = 0
    for sample in message.sample:
        assert set(sample.location_id) <= set(locations)
        counts += sample.value[0]
        states[next(texts[label.str] for label in sample.label if texts[label.key] == "state")] += sample.value[1]
    expected: Counter[str] = Counter()
    for _, state, weight, _, _ in profile.rows():
        expected[state] += weight
    assert states == expected
    assert counts == sum(count for _, _, _, count, _ in profile.rows())
    assert message.period == profile.period


def test_pprof_lists_frames_innermost_first_with_their_lines() -> None:
    message = message_types()["Profile"]()
    message.ParseFromString(gzip.decompress(pprof(small())))
    names = {function.id: message.string_table[function.name] for function in message.function}
    lines = {loc.id: (names[loc.line[0].function_id], loc.line[0].line) for loc in message.location}
    deepest = max(message.sample, key=lambda sample: len(sample.location_id))
    assert [lines[number] for number in deepest.location_id] == [("inner", 3), ("work", 2), ("work", 2), ("main", 1)]
    files = {message.string_table[mapping.filename] for mapping in message.mapping}
    assert files == {"/bin/app", "/lib/libc.so.6", "[kernel]"}
