"""Work in a thread of its own: an interrupt at any instruction ends it, and nothing waits for ever."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable

import pytest
from tests.interrupts import PATIENCE, in_time, interrupted_at

from headway.exhaustion import OutOfProcessesError
from headway.interruptible import Job, LateError, any_left

pytestmark = pytest.mark.unit


def endless() -> tuple[Job[bool], Callable[[], None]]:
    """Work that does not end, and what interrupts it."""
    stop = threading.Lock()
    stop.acquire()

    def interrupt() -> None:
        if stop.locked():
            stop.release()

    return Job(lambda: stop.acquire(timeout=PATIENCE)), interrupt


def test_an_interrupt_at_any_instruction_ends_endless_work() -> None:
    def every_one() -> None:
        for instruction in range(1, 100_000):
            job, interrupt = endless()
            try:
                assert interrupted_at(instruction, functools.partial(job.result, 0.01))
            except LateError:  # all its instructions were run
                break
            finally:
                assert job.cancel(interrupt, PATIENCE)
        assert instruction > 20

    in_time(every_one)


def test_an_interrupt_at_any_instruction_does_no_harm_to_short_work() -> None:
    def every_one() -> None:
        for instruction in range(1, 100_000):
            job = Job(lambda: 1)
            if not interrupted_at(instruction, job.result):
                break
            assert job.cancel(lambda: None, PATIENCE)
        assert instruction > 20

    in_time(every_one)


def test_work_that_was_cancelled_before_it_began_does_not_begin() -> None:
    done: list[int] = []
    job = Job(lambda: done.append(1))
    assert job.cancel(lambda: None, 0)
    with pytest.raises(InterruptedError):
        job.result()
    assert not done


def test_work_that_does_not_stop_is_left_alone() -> None:
    job, interrupt = endless()
    with pytest.raises(LateError):
        job.result(0.01)
    assert not job.cancel(lambda: None, 0.1)
    assert not job.over
    assert any_left()
    assert job.cancel(interrupt, PATIENCE)
    assert job.over
    assert not any_left()


def test_what_work_returns_and_raises_is_the_caller_s() -> None:
    assert Job(lambda: 7).result() == 7
    with pytest.raises(ZeroDivisionError):
        Job(lambda: 1 // 0).result()


def test_work_for_which_no_thread_can_be_started_is_refused_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("_thread.start_new_thread", refused)
    job = Job(lambda: 1)
    with pytest.raises(OutOfProcessesError, match="no thread can be started: raise the limit of processes"):
        job.result()
    assert not any_left()
    monkeypatch.undo()
    assert job.result() == 1
