"""Two things at once: one in another thread, and both have ended before anything is returned or raised."""

from __future__ import annotations

from threading import Event, Thread, get_ident

import pytest

from headway.exhaustion import at_once

pytestmark = pytest.mark.unit


def test_the_work_is_done_by_another_thread_while_this_one_does_something_else() -> None:
    begun, done = Event(), Event()

    def work() -> int:
        begun.set()
        assert done.wait(60)
        return get_ident()

    def meanwhile() -> None:
        assert begun.wait(60)
        done.set()

    assert at_once(work, meanwhile) != get_ident()


def test_where_no_thread_can_be_started_both_are_done_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(Thread, "start", refuse)
    done: list[int] = []
    assert at_once(get_ident, lambda: done.append(1)) == get_ident()
    assert done == [1]


@pytest.mark.parametrize("of_work", [True, False])
def test_what_one_of_them_raises_is_raised_when_the_other_has_ended(of_work: bool) -> None:
    begun = Event()
    ended: list[str] = []

    def work() -> None:
        assert begun.wait(60)
        if of_work:
            raise ValueError("work")
        ended.append("work")

    def meanwhile() -> None:
        begun.set()
        if not of_work:
            raise ValueError("meanwhile")
        ended.append("meanwhile")

    with pytest.raises(ValueError, match="work" if of_work else "meanwhile"):
        at_once(work, meanwhile)
    assert ended == ["meanwhile" if of_work else "work"]
