from __future__ import annotations

import os
import signal

import pytest

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
