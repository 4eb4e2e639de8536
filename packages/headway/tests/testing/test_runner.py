from __future__ import annotations

import os
import threading
import time

from hypothesis import given
from hypothesis import strategies as st
from tests.ledgers import ledgers

from headway.model import Ledger, kind_of
from headway.testing.runner import run_time, with_run_time


@given(ledgers(), st.integers(-(10**9), 10**13))
def test_the_states_still_add_up_and_those_on_a_processor_to_the_run_time(ledger: Ledger, time: int) -> None:
    for thread in ledger.threads:
        found = with_run_time(thread, time)
        assert sum(cell.time for cell in found.states.values()) == thread.span
        assert all(cell.time >= 0 for cell in found.states.values())
        on = sum(cell.time for state, cell in found.states.items() if kind_of(state).in_rpi)
        assert on == min(max(time, 0), thread.span)


def test_the_run_time_of_a_thread_that_waits_is_its_own_clocks() -> None:
    own: list[tuple[int, int]] = []
    asked, answered = threading.Event(), threading.Event()

    def work() -> None:
        until = time.thread_time() + 0.02
        while time.thread_time() < until:
            pass
        own.append((threading.get_native_id(), time.thread_time_ns()))
        asked.set()
        answered.wait()

    thread = threading.Thread(target=work)
    thread.start()
    asked.wait()
    tid, ran = own[0]
    deadline = time.monotonic() + 60
    while (found := run_time(os.getpid(), tid)) is not None and found < ran and time.monotonic() < deadline:
        time.sleep(0.01)  # it is on its way to sleep
    answered.set()
    thread.join()
    assert found is None or found >= ran


def test_what_is_no_thread_has_none() -> None:
    assert run_time(os.getpid(), 1 << 30) is None
