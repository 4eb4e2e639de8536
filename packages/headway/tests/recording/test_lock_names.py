"""The names of locks in ``recording.json``, and how they are found."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.ledgers import names
from tests.replay.schedules import transitions, written

from headway.errors import HeadwayError
from headway.linux.symbols.futexes import LockName, Locks
from headway.model import Batch, Ledger, Window
from headway.recording.document import Document, parse
from headway.session.lock_names import LockNames
from headway.text import valid

EMPTY = Document(Ledger("bpf", Window(0, 0)))
LOCKS = st.dictionaries(st.tuples(st.integers(1, 1 << 22), st.integers(1, (1 << 63) - 1)), names, max_size=5)


@given(LOCKS)
def test_names_of_locks_come_back(locks: dict[tuple[int, int], str]) -> None:
    document = Document(Ledger("bpf", Window(0, 0)), locks=locks)
    assert parse(document.text().encode(), "run.hw").locks == {key: valid(name) for key, name in locks.items()}


def test_a_recording_of_an_earlier_version_has_none() -> None:
    found = json.loads(EMPTY.text())
    del found["locks"]
    assert parse(json.dumps(found).encode(), "run.hw").locks == {}


@pytest.mark.parametrize(
    "locks",
    [7, ["name"], [{}], [{"pid": -1, "address": 1, "name": "a"}], [{"pid": 1, "address": "1", "name": "a"}]]
    + [[{"pid": 1, "address": 1, "name": name}] for name in (None, 7, ["a"])],
)
def test_what_is_no_name_of_a_lock_is_refused_in_a_sentence(locks: object) -> None:
    found = {**json.loads(EMPTY.text()), "locks": locks}
    with pytest.raises(HeadwayError, match=r"recording\.json in 'run\.hw' cannot be used"):
        parse(json.dumps(found).encode(), "run.hw")


def test_each_lock_is_looked_up_once_while_its_process_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, list[int]]] = []

    def find(_: Locks, pid: int, addresses: dict[int, int]) -> dict[int, LockName]:
        asked.append((pid, sorted(addresses)))
        return {0x10: LockName("server: cache_lock", False)} if 0x10 in addresses else {}

    monkeypatch.setattr(Locks, "names", find)
    threads = [[(5, "wait.futex", 0x10, 1), (5, "wait.futex", 0x20, 1), (5, "user", 0, -1)], [(15, "user", 0, -1)]]
    rows, seen, window = written(threads, first=0)
    batch = Batch(window.start, window.end, transitions(rows), seen, (), {})
    found = LockNames()
    assert found.look(batch)
    assert found.found == {(100, 0x10): "server: cache_lock"}
    assert asked == [(100, [0x10, 0x20])]
    assert not found.look(batch)
    assert len(asked) == 1
