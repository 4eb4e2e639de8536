"""Which names say that something is a lock."""

from __future__ import annotations

import pytest

from headway.model.locks import names_a_lock


@pytest.mark.parametrize(
    "name", ["search: cache_lock", "lock", "WALWriteLock", "mutex", "a: queue_mutex_t", "mtx", "server: big_lock+0x8"]
)
def test_names_of_locks(name: str) -> None:
    assert names_a_lock(name)


@pytest.mark.parametrize("name", ["heap 0x5581", "clock", "a: block", "lockfree: queue", "blocked", "cond", ""])
def test_other_names(name: str) -> None:
    assert not names_a_lock(name)
