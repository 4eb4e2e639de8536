from __future__ import annotations

import os
import signal

import pytest

from headway.exhaustion import fork
from headway.readable import is_readable
from headway.session import child as child_module
from headway.session.child import SuspendedChild
from headway.session.measure import caught_signals


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_a_signal_that_came_before_the_child_was_there_ends_it(number: signal.Signals) -> None:
    with caught_signals() as (_, received):
        os.kill(os.getpid(), number)
        child = SuspendedChild(["sleep", "60"], received=received)
        child.release()
        assert child.wait() == -number
    assert received == [number]


def test_a_child_that_got_no_signal_executes_its_command() -> None:
    with caught_signals() as (_, received):
        child = SuspendedChild(["sh", "-c", "exit 7"], received=received)
        child.release()
        assert child.wait() == 7


def test_a_signal_that_comes_just_before_the_fork_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is blocked then, and a child does not inherit what waits. Another thread may take it, and note it later."""

    def fork_late() -> int:
        os.kill(os.getpid(), signal.SIGINT)
        return fork()

    monkeypatch.setattr(child_module, "fork", fork_late)
    with caught_signals() as (wakeup, received):
        child = SuspendedChild(["sleep", "60"], received=received)
        while not received:
            is_readable(wakeup, 60)
        child.release()
        assert child.wait() == -signal.SIGINT
    assert received == [signal.SIGINT]


def test_a_signal_that_another_thread_notes_after_the_fork_is_not_lost() -> None:
    received: list[int] = []
    child = SuspendedChild(["sleep", "60"], received=received)
    received.append(signal.SIGINT)
    child.release()
    assert child.wait() == -signal.SIGINT
