"""Who had a lock when a thread began to wait for it."""

from __future__ import annotations

import pytest
from tests.compiling import Compile

from headway.linux.options import MeasureOptions
from headway.linux.sources.ebpf.causes import with_holders_of_locks
from headway.model import Behind, Cause, Ledger, Thread

from .measuring import count_of, measure, only

pytestmark = [pytest.mark.root, pytest.mark.kernel]


@pytest.fixture(scope="module")
def measured(compile_c: Compile) -> Ledger:
    return measure(compile_c("lock_owner"), options=MeasureOptions(why=True))[0]


def holders(thread: Thread) -> list[Cause]:
    return [c for c in thread.causes if c.behind is Behind.HOLDER and c.state == "wait.futex"]


@pytest.mark.parametrize("kind", ["plain", "inheriting"])
def test_a_wait_for_a_mutex_names_the_thread_that_had_it(measured: Ledger, kind: str) -> None:
    main = next(thread for thread in measured.threads if thread.tid == thread.pid)
    thread = only(measured, kind)
    (held,) = holders(thread)
    assert (held.tid, held.name) == (main.tid, main.name)
    assert held.time == thread.states["wait.futex"].time
    assert held.count == count_of(thread, "wait.futex")


def test_nobody_holds_a_condition(measured: Ledger) -> None:
    held = holders(only(measured, "condition"))
    main = next(thread for thread in measured.threads if thread.tid == thread.pid)
    assert {cause.tid for cause in held} <= {main.tid}, "its guard may have been taken when it was woken"
    assert sum(cause.count for cause in held) <= 1


def test_only_a_thread_of_the_process_is_a_holder() -> None:
    """A futex that is no lock may have any value."""
    causes = [
        Cause("wait.futex", Behind.HOLDER, "", 9, 1, 12),
        Cause("wait.futex", Behind.HOLDER, "", 8, 1, 13),
        Cause("wait.futex", Behind.WAKER, "b", 7, 1, 13),
        Cause("ready", Behind.HOLDER, "c", 6, 1, 99),
    ]
    found = with_holders_of_locks(1, {(1, 12): "a", (2, 13): "b"}, causes)
    assert [(c.state, c.behind, c.name, c.tid) for c in found] == [
        ("wait.futex", Behind.HOLDER, "a", 12),
        ("wait.futex", Behind.WAKER, "b", 13),
        ("ready", Behind.HOLDER, "c", 99),
    ]
