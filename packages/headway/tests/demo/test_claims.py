"""A claim is a function of a ledger and the truth: what is right is ticked, wrong crossed, unseen neither."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.demo.measured import NAMES, TRUTH, any_ledgers, cells, right, sampled

from headway.demo.claims import Claim, claims
from headway.model import Behind, Cause, Cell, KernelClock, Ledger, Quality, Thread


def verdicts(ledger: Ledger) -> dict[str, bool | None]:
    return {claim.name: claim.holds for claim in claims(ledger, TRUTH)}


def changed(ledger: Ledger, name: str, **changes: object) -> Ledger:
    """The ledger with one thread changed."""
    threads = [replace(t, **changes) if t.name == name else t for t in ledger.threads]  # type: ignore[arg-type]
    return replace(ledger, threads=tuple(threads))


def thread(ledger: Ledger, name: str) -> Thread:
    (found,) = (t for t in ledger.threads if t.name == name)
    return found


def test_a_right_ledger_is_ticked_everywhere() -> None:
    assert verdicts(right()) == dict.fromkeys([*NAMES, "all 10"], True)


def test_of_what_proc_samples_nothing_is_ticked_or_crossed() -> None:
    assert verdicts(sampled()) == dict.fromkeys([*NAMES, "all 10"])


@given(st.integers(1, 10**15))
def test_no_time_makes_a_tick_a_cross(times: int) -> None:
    """However long a thread ran, waited, or had no processor: what it counted remains what it counted."""
    ledger = right()
    longer = {t.name: cells({s: (c.time * times, c.count) for s, c in t.states.items()}) for t in ledger.threads}
    for name, states in longer.items():
        ledger = changed(ledger, name, states=states)
    assert verdicts(ledger) == verdicts(right())


@pytest.mark.parametrize(
    ("name", "state"),
    [
        ("syscalls", "kernel.getppid"),
        ("holder", "kernel.clock_nanosleep"),
        ("sleeper", "kernel.clock_nanosleep"),
        ("dodger", "kernel.getrandom"),
        ("disk", "kernel.pwrite64"),
        ("disk", "kernel.pread64"),
        ("poller", "poll.epoll_wait.epoll"),
        ("poller", "kernel.epoll_wait"),
        ("marked", "noneffective.parse"),
        ("marked", "poll.spin"),
        ("lock", "wait.futex"),
    ],
)
@pytest.mark.parametrize("apart", [-1, 1])
def test_a_count_that_is_off_by_one_is_crossed(name: str, state: str, apart: int) -> None:
    states = dict(thread(right(), name).states)
    states[state] = replace(states[state], count=(states[state].count or 0) + apart)
    assert verdicts(changed(right(), name, states=states)) == verdicts(right()) | {name: False}


@pytest.mark.parametrize("name", ["syscalls", "sleeper", "dodger", "disk", "poller", "marked"])
def test_calls_that_were_not_seen_at_all_are_crossed(name: str) -> None:
    states = {"kernel.gettid": Cell(1, 1), "user": Cell(1, 1)}
    assert verdicts(changed(right(), name, states=states))[name] is False


@pytest.mark.parametrize("name", ["compute", "memory"])
@pytest.mark.parametrize(("state", "holds"), [("wait.sleep", False), ("wait.futex", False), ("wait.fault", True)])
def test_a_wait_that_nobody_asked_for_is_crossed(name: str, state: str, holds: bool) -> None:
    states: Mapping[str, Cell] = {**thread(right(), name).states, state: Cell(5, 1)}
    assert verdicts(changed(right(), name, states=states))[name] is holds


def test_a_wait_that_another_thread_ended_is_crossed() -> None:
    causes = (
        Cause("wait.futex", Behind.WAKER, "holder", 90, 199, tid=TRUTH.threads[4].tid),
        Cause("wait.futex", Behind.WAKER, "sleeper", 10, 1, tid=TRUTH.threads[5].tid),
    )
    found = {claim.name: claim for claim in claims(changed(right(), "lock", causes=causes), TRUTH)}
    assert found["lock"].holds is False
    assert found["lock"].words == "199 of 200 ended by holder"


def test_wakers_that_were_not_asked_for_are_not_held_against_it() -> None:
    assert verdicts(changed(right(), "lock", causes=()))["lock"] is None


@pytest.mark.parametrize(
    ("name", "loss", "verdict"),
    [
        ("lock", "wakeups_unseen", None),
        ("lock", "handlers_skipped", None),
        ("syscalls", "handlers_skipped", None),
        ("syscalls", "wakeups_unseen", False),
        ("syscalls", "stolen_ns_unplaced", False),
    ],
)
def test_what_was_lost_and_is_said_to_be_is_no_error(name: str, loss: str, verdict: bool | None) -> None:
    states = {s: replace(c, count=(c.count or 0) + 1) for s, c in thread(right(), name).states.items()}
    assert verdicts(changed(replace(right(), losses={loss: 1}), name, states=states))[name] is verdict
    assert verdicts(replace(right(), losses={loss: 1}))[name] is True, "what agrees all the same is right"


def test_a_clock_that_is_behind_what_the_thread_read_is_crossed() -> None:
    behind = changed(right(), "compute", kernel_clock=KernelClock(999_999_999, Quality.EXACT))
    assert verdicts(behind)["all 10"] is False
    assert verdicts(changed(right(), "compute", kernel_clock=None))["all 10"] is None


def test_what_the_program_did_not_count_is_neither_ticked_nor_crossed() -> None:
    silent = [replace(t, figures=replace(t.figures, calls=None) if t.figures else None) for t in TRUTH.threads]
    found = {claim.name: claim.holds for claim in claims(right(), replace(TRUTH, threads=tuple(silent)))}
    assert found["syscalls"] is None
    assert found["sleeper"] is None


def test_skipped_and_unseen_threads_say_so() -> None:
    first, second, *rest = TRUTH.threads
    skipped = replace(first, figures=None, skipped="no memory")
    found = {c.name: c for c in claims(right(), replace(TRUTH, threads=(skipped, replace(second, tid=1), *rest)))}
    assert (found["compute"].holds, found["compute"].words) == (None, "did not work: no memory")
    assert (found["memory"].holds, found["memory"].words) == (None, "not seen by the measurement")


@given(any_ledgers)
def test_any_ledger_gets_a_claim_for_each_thread(ledger: Ledger) -> None:
    found: list[Claim] = claims(ledger, TRUTH)
    assert [claim.name for claim in found] == [*NAMES, "all 10"]
