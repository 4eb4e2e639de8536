"""A user id that nothing else has."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.linux import unshared_user as module
from headway.linux.unshared_user import DYNAMIC, is_mapped, may_change_groups, unshared_user

MAPS = st.lists(st.tuples(st.integers(0, 70_000), st.integers(0, 1000), st.integers(1, 70_000)), max_size=5)


def written(folder: Path, users: list[tuple[int, int, int]], groups: list[tuple[int, int, int]]) -> str:
    for name, rows in (("uid_map", users), ("gid_map", groups)):
        (folder / name).write_text("".join(f"{inner:10} {outer:10} {count:10}\n" for inner, outer, count in rows))
    return str(folder)


@given(MAPS, MAPS, st.integers(0, 140_000))
def test_an_id_means_something_where_both_maps_have_it(
    tmp_path_factory: pytest.TempPathFactory,
    users: list[tuple[int, int, int]],
    groups: list[tuple[int, int, int]],
    number: int,
) -> None:
    folder = written(tmp_path_factory.mktemp("maps"), users, groups)
    both = [any(first <= number < first + count for first, _, count in rows) for rows in (users, groups)]
    assert is_mapped(number, folder=folder) is all(both)


@given(st.sets(st.sampled_from(DYNAMIC), max_size=3))
def test_only_an_id_that_means_something_is_taken(mapped: set[int]) -> None:
    found = unshared_user(mapped.__contains__)
    if found is None:
        assert not mapped
    else:
        assert found.uid == found.gid
        assert found.uid in mapped
        with pytest.raises(KeyError):
            pwd.getpwuid(found.uid)


def test_an_id_of_an_account_or_that_systemd_has_given_out_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    account = max((each.pw_uid for each in pwd.getpwall()), default=0)
    monkeypatch.setattr(module, "_GIVEN_OUT", str(tmp_path))
    (tmp_path / "61200").symlink_to("headway")
    monkeypatch.setattr(module, "DYNAMIC", (account, 61200))
    assert unshared_user(lambda number: True) is None
    monkeypatch.setattr(module, "DYNAMIC", (account, 61200, 61201))
    found = unshared_user(lambda number: True)
    assert found is not None
    assert found.uid == 61201


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become somebody else")
@pytest.mark.kernel
def test_an_id_that_a_process_has_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = unshared_user()
    assert taken is not None
    read, write = os.pipe()
    told, tell = os.pipe()
    if (pid := os.fork()) == 0:
        os.setuid(taken.uid)
        os.close(write)
        os.write(tell, b"!")
        os.read(read, 1)
        os._exit(0)
    try:
        assert os.read(told, 1)
        monkeypatch.setattr(module, "DYNAMIC", (taken.uid,))
        assert unshared_user() is None
    finally:
        for fd in (write, read, told, tell):
            os.close(fd)
        os.waitpid(pid, 0)


def test_whether_groups_can_be_changed_is_what_the_namespace_says(tmp_path: Path) -> None:
    for words, may in (("allow\n", True), ("deny\n", False)):
        (tmp_path / "setgroups").write_text(words)
        assert may_change_groups(folder=str(tmp_path)) is may
    assert may_change_groups(folder=str(tmp_path / "none"))
