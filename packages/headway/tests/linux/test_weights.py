"""Weights that a balance gives are taken back, whatever happened; those of others are left alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.linux.kernel import ROOT, FakeKernel, KilledError

from headway.errors import HeadwayError
from headway.linux.placement import levers
from headway.linux.placement.documents import change_of, document_of
from headway.linux.placement.journal import Journal
from headway.linux.placement.levers import GroupLever, Lever, ProcessLever, SessionLever, ThreadLever, process_levers
from headway.linux.placement.weights import GroupWeight, Niced, Reniced, SessionNice

NAME = "balance-1-2"


def kernel() -> FakeKernel:
    found = FakeKernel()
    found.add(10, threads=3)
    found.add(20, threads=2)
    found.add(15, parent=10)
    found.nices = {12: 5, 15: 3}
    return found


def weighed(found: FakeKernel, folder: Path, chosen: dict[int, Lever], weights: dict[int, float]) -> None:
    """Do what a balance does in an interval."""
    seen = {10: (10, 15), 20: (20,)}
    new = [chosen[pid].want(weight, seen[pid]) for pid, weight in weights.items()]
    if any(new):
        records = [record for lever in chosen.values() for record in lever.records()]
        Journal(folder, found).keep(NAME, [*dict.fromkeys(records)])
    for pid in weights:
        chosen[pid].apply()


def by_process(found: FakeKernel) -> dict[int, Lever]:
    return {pid: ProcessLever(found, pid, (10, 20)) for pid in (10, 20)}


def by_session(found: FakeKernel) -> dict[int, Lever]:
    found.sessions = {10: "autogroup-1", 15: "autogroup-1", 20: "autogroup-2"}
    return dict(process_levers(found, (10, 20)))


def test_each_thread_keeps_its_distance_to_the_others(tmp_path: Path) -> None:
    found = kernel()
    chosen = by_process(found)
    weighed(found, tmp_path, chosen, {10: 1.25**-4, 20: 1.25**2})
    assert found.nices == {10: 4, 11: 4, 12: 9, 15: 7, 20: -2, 21: -2}
    assert [chosen[pid].set() for pid in (10, 20)] == ["nice 4", "nice -2"]
    weighed(found, tmp_path, chosen, {10: 1.25**-30, 20: 1.0})
    assert found.nices[12] == 19


@pytest.mark.parametrize("of", [by_process, by_session])
@pytest.mark.parametrize("after", [False, True])
def test_a_kill_at_any_moment_can_be_undone(
    tmp_path: Path, of: Callable[[FakeKernel], dict[int, Lever]], after: bool
) -> None:
    for step in range(40):
        found = kernel()
        chosen = of(found)
        before, folder = found.state(), tmp_path / str(step)
        found.kill_at, found.kill_after = step, after
        try:
            for weights in ({10: 0.5, 20: 1.5}, {10: 0.2, 20: 1.8}, {10: 0.5, 20: 1.5}):
                weighed(found, folder, chosen, weights)
        except KilledError:
            found.revive()
        else:
            break
        journal = Journal(folder, found)
        for name in journal.ids():
            assert journal.undo(name) == []
        found.session_nices = {group: nice for group, nice in found.session_nices.items() if nice}
        assert found.state() == before
    else:
        pytest.fail("it was never done")


def test_what_was_started_since_is_set_back_and_what_others_set_is_not(tmp_path: Path) -> None:
    found = kernel()
    weighed(found, tmp_path, by_process(found), {10: 0.2, 20: 1.0})
    given_now = found.nices[10]
    found.table[10].threads[13] = (5000, found.cpus)
    found.add(16, parent=10)
    found.table[16].birth = 5000
    found.table[16].threads[16] = (5000, found.cpus)
    found.nices |= {13: given_now, 16: given_now, 11: 1}
    (note,) = Journal(tmp_path, found).undo(NAME)
    assert note == "a thread keeps the nice value that somebody else gave it, in process 10"
    assert found.nices == {10: 0, 11: 1, 12: 5, 13: 0, 15: 3, 16: 0}


def test_a_new_thread_does_not_inherit_the_weight_of_its_creator(tmp_path: Path) -> None:
    found = kernel()
    process = ThreadLever.of_process(found, 10)
    first = ThreadLever(process, found, 10)
    assert first.want(0.2)
    Journal(tmp_path, found).keep(NAME, first.records())
    first.apply()
    assert found.nices[10] == 7
    found.table[10].threads[13] = (5000, found.cpus)
    found.nices[13] = 7
    new = ThreadLever(process, found, 13)
    if new.want(1.0):
        Journal(tmp_path, found).keep(NAME, new.records())
    new.apply()
    assert (found.nices[10], found.nices[13]) == (7, 0)
    Journal(tmp_path, found).undo(NAME)
    assert found.nices[10] == 0


def test_a_group_has_its_weight_again_unless_somebody_else_wrote_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(levers, "cgroup_folder", Path)
    found = FakeKernel()
    found.add(10, f"{ROOT}/a")
    found.all[f"{ROOT}/a"].files["cpu.weight"] = "100"
    lever = GroupLever(found, f"{ROOT}/a")
    assert lever.want(0.5)
    Journal(tmp_path, found).keep(NAME, lever.records())
    lever.apply()
    assert 48 <= int(found.all[f"{ROOT}/a"].files["cpu.weight"]) <= 52
    assert not lever.want(0.5)
    Journal(tmp_path, found).undo(NAME)
    assert found.all[f"{ROOT}/a"].files["cpu.weight"] == "100"
    found.all[f"{ROOT}/a"].files["cpu.weight"] = "300"
    lever.want(0.1)
    lever.apply()
    assert found.all[f"{ROOT}/a"].files["cpu.weight"] == "300"
    assert "somebody else" in lever.records()[0].undo(found)[0]
    found.all[f"{ROOT}/a"].files.clear()
    with pytest.raises(HeadwayError, match=r"has no cpu\.weight"):
        GroupLever(found, f"{ROOT}/a")


def test_the_lever_is_the_one_that_counts_between_the_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(levers, "lowest_nice", lambda: -20)
    found = kernel()
    assert {type(lever) for lever in process_levers(found, (10, 20)).values()} == {ProcessLever}
    found.sessions = {10: "autogroup-1", 20: "autogroup-1"}
    assert {type(lever) for lever in process_levers(found, (10, 20)).values()} == {ProcessLever}
    found.sessions[20] = "autogroup-2"
    assert {type(lever) for lever in process_levers(found, (10, 20)).values()} == {SessionLever}
    found.sessions[15] = "autogroup-2"
    with pytest.raises(HeadwayError, match="nice values say nothing between sessions, and some of the processes"):
        process_levers(found, (10, 15, 20))
    found.add(30, f"{ROOT}/group")
    with pytest.raises(HeadwayError, match=r"between control groups.*10 in /, 30 in /group\): balance these"):
        process_levers(found, (10, 30))


def test_without_the_right_to_lower_a_nice_value_it_is_not_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(levers, "lowest_nice", lambda: 20)
    with pytest.raises(HeadwayError, match="can only be raised, and not be set back"):
        process_levers(kernel(), (10, 20))
    found = kernel()
    found.foreign = {20}
    with pytest.raises(HeadwayError, match="process 20 belongs to another user"):
        process_levers(found, (10, 20))


nice = st.integers(-20, 19)
ids = st.integers(1, 1 << 22)
reniced = st.builds(
    Reniced,
    ids,
    ids,
    st.text(max_size=15),
    nice,
    st.lists(st.builds(Niced, ids, ids, nice), max_size=3).map(tuple),
    st.lists(st.integers(-39, 39), max_size=3).map(tuple),
    st.lists(ids, max_size=3).map(tuple),
)
session = st.builds(SessionNice, st.just("autogroup-7"), nice, st.lists(nice, max_size=3).map(tuple))
group = st.builds(
    GroupWeight, st.just("/sys/fs/cgroup/a"), st.integers(1, 10_000), st.lists(st.integers(1, 10_000)).map(tuple)
)


@given(st.one_of(reniced, session, group))
def test_what_is_kept_is_read_back(change: Reniced | SessionNice | GroupWeight) -> None:
    assert change_of(json.loads(json.dumps(document_of(change)))) == change


@pytest.mark.parametrize(
    "broken",
    [
        {"before": 20},
        {"offsets": [40]},
        {"offsets": "3"},
        {"others": [3]},
        {"others": [{"tid": 0, "birth": 1, "before": 0}]},
        {"apart": [0]},
    ],
)
def test_a_document_that_headway_would_not_write_is_refused(broken: dict[str, Any]) -> None:
    good = json.loads(json.dumps(document_of(Reniced(1, 2, "a", 0, (), (1,)))))
    change_of(good)
    with pytest.raises(ValueError, match=r" is "):
        change_of(good | broken)
