"""The explanation is a function of a ledger and the truth: made-up ones show that it says what they say."""

from __future__ import annotations

import pytest

from headway.demo import OwnFigures, ThreadTruth, Truth
from headway.demo.explain import FigureComparison, ThreadReport, explain
from headway.model import EXACT, Cell, Ledger, Precision, Quality, Thread, Window

SECOND = 1_000_000_000
SAMPLED = Precision(Quality.EXACT, Quality.SAMPLED, Quality.UNAVAILABLE, Quality.SAMPLED, Quality.UNAVAILABLE)


def thread(tid: int, name: str, **times: int) -> Thread:
    states = {state.replace("__", "."): Cell(time, 7) for state, time in times.items()}
    span = sum(times.values())
    return Thread(tid, 100, name, birth=tid, start=0, end=span, until=span, span=span, states=states)


def ledger(*threads: Thread, precision: Precision = EXACT) -> Ledger:
    return Ledger("bpf", Window(0, 3 * SECOND), threads, precision=precision)


def truth(name: str, figures: OwnFigures | None, skipped: str | None = None, tid: int = 101) -> Truth:
    return Truth(
        100, 3 * SECOND, False, 4_000_000, (ThreadTruth(name, tid, "works", "all the time", figures, skipped),)
    )


def one(ledger: Ledger, truth: Truth) -> ThreadReport:
    (account,) = explain(ledger, truth)
    return account


def compared(account: ThreadReport) -> dict[str, tuple[int | None, int]]:
    return {c.what: (c.measured, c.truth) for c in account.comparisons}


def test_processor_time_is_compared_with_interrupts_and_observer_in_it() -> None:
    measured = thread(101, "compute", user=900, irq__timer=60, overhead=40, ready=500)
    account = one(ledger(measured), truth("compute", OwnFigures(cpu_ns=1001, elapsed_ns=1500, ready_ns=499)))
    assert compared(account) == {"on the processor": (1000, 1001), "waiting for its turn": (500, 499)}


def test_calls_are_compared_one_by_one() -> None:
    measured = thread(101, "syscalls", user=1, kernel__getppid=9)
    account = one(ledger(measured), truth("syscalls", OwnFigures(cpu_ns=10, elapsed_ns=10, calls=8)))
    assert compared(account)["calls of getppid"] == (7, 8)


def test_what_the_source_cannot_tell_is_not_compared_as_zero() -> None:
    measured = thread(101, "lock", user=1, wait=99)
    account = one(ledger(measured), truth("lock", OwnFigures(cpu_ns=1, elapsed_ns=100, lock_ns=90, wait_ns=99)))
    assert compared(account)["waiting for the mutex"] == (None, 90)
    measured = thread(101, "syscalls", user=10)
    account = one(ledger(measured), truth("syscalls", OwnFigures(cpu_ns=10, elapsed_ns=10, calls=8)))
    assert compared(account)["calls of getppid"] == (None, 8)


def test_waiting_for_the_mutex_is_told_from_other_waits() -> None:
    measured = thread(101, "lock", user=1, wait__futex=90, wait__sleep=9)
    account = one(ledger(measured), truth("lock", OwnFigures(cpu_ns=1, elapsed_ns=100, lock_ns=90, wait_ns=99)))
    assert compared(account)["waiting for the mutex"] == (90, 90)
    assert compared(account)["waiting, all in all"] == (99, 99)
    assert [part.what for part in account.parts] == ["effective", "kernel", "ready", "wait.futex", "wait.sleep"]


DODGER = OwnFigures(
    cpu_ns=SECOND,
    elapsed_ns=3 * SECOND,
    user_ns=SECOND // 2,
    kernel_ns=SECOND // 2,
    tick_user_ns=SECOND,
    tick_kernel_ns=0,
)


def test_dodger_shows_how_wrong_the_tick_is() -> None:
    measured = thread(101, "dodger", user=SECOND // 2, kernel__getrandom=SECOND // 2)
    account = one(ledger(measured), truth("dodger", DODGER))
    assert compared(account)["in the kernel"] == (SECOND // 2, SECOND // 2)
    said = " ".join(account.notes)
    assert "user 1.000 s, system 0.000 s" in said
    assert "wrong by 0.500 s of 1.000 s" in said
    assert "so is this source" not in said


def test_a_sampling_source_admits_that_the_dodger_deceives_it() -> None:
    measured = thread(101, "dodger", user=SECOND, kernel=0)
    account = one(ledger(measured, precision=SAMPLED), truth("dodger", DODGER))
    assert "so is this source" in " ".join(account.notes)
    assert {part.what: part.quality for part in account.parts}["effective"] is Quality.SAMPLED


def test_exact_accounting_is_not_accused() -> None:
    right = OwnFigures(cpu_ns=100, elapsed_ns=300, user_ns=50, kernel_ns=50, tick_user_ns=52, tick_kernel_ns=48)
    account = one(ledger(thread(101, "dodger", user=50, kernel=50)), truth("dodger", right))
    assert "wrong" not in " ".join(account.notes)


def test_stalls_that_cannot_be_counted_are_said_to_hide() -> None:
    figures = OwnFigures(cpu_ns=10, elapsed_ns=10, access_ns=80.0, buffer_bytes=2**27, cache_bytes=2**25)
    measured = thread(101, "memory", user=10)
    assert one(ledger(measured), truth("memory", figures)).notes == (
        "80 ns per access in 128 MiB; the caches hold 32 MiB",
    )
    assert "hardware counters" in one(ledger(measured, precision=SAMPLED), truth("memory", figures)).notes[1]


POLLER = OwnFigures(cpu_ns=200, elapsed_ns=1000, poll_ns=100, user_ns=100, checks=14, found=1)


def test_what_the_observer_took_of_a_row_was_polling_to_the_thread() -> None:
    measured = thread(101, "poller", user=100, poll__epoll_wait__epoll=60, overhead=40, wait__sleep=800)
    account = one(ledger(measured), truth("poller", POLLER))
    assert compared(account) == {
        "polling": (100, 100),
        "its work": (100, 100),
        "checks that found nothing": (7, 14),
        "on the processor": (200, 200),
    }
    assert account.notes == (
        "50% of its processor time is asking for what is not there yet: it is busy, and makes no progress (IOPI)",
    )
    assert ("poll", 60) in {(part.what, part.time) for part in account.parts}


def test_a_source_that_sees_no_polling_says_what_it_takes_it_for() -> None:
    measured = thread(101, "poller", user=160, kernel=40, wait__sleep=800)
    account = one(ledger(measured, precision=SAMPLED), truth("poller", POLLER))
    assert compared(account)["polling"] == (None, 100)
    assert compared(account)["checks that found nothing"] == (None, 14)
    assert "takes it for work" in " ".join(account.notes)


MARKED = OwnFigures(cpu_ns=300, elapsed_ns=1000, user_ns=100, parse_ns=101, poll_ns=99, regions=14)


def test_marked_regions_are_compared_one_by_one() -> None:
    measured = thread(101, "marked", user=100, noneffective__parse=100, poll__spin=100, overhead=1)
    account = one(ledger(measured), truth("marked", MARKED))
    assert compared(account) == {
        "in noneffective.parse": (100, 101),
        "in poll.spin": (100, 99),
        "its work": (100, 100),
        "regions entered": (14, 14),
        "on the processor": (301, 300),
    }
    assert "IOPI" in " ".join(account.notes)


def test_marks_that_are_read_now_and_then_are_said_to_be() -> None:
    measured = thread(101, "marked", user=200, noneffective__parse=60, poll__spin=40)
    account = one(ledger(measured, precision=SAMPLED), truth("marked", MARKED))
    assert "certain between two looks" in " ".join(account.notes)
    assert {part.what: part.time for part in account.parts}["poll"] == 40, "polling that is marked needs no eBPF"


def test_marks_that_nobody_read_are_not_compared_as_zero() -> None:
    account = one(ledger(thread(101, "marked", user=300)), truth("marked", MARKED))
    assert compared(account)["in poll.spin"] == (None, 99)
    assert compared(account)["regions entered"] == (None, 14)
    assert "were not seen" in " ".join(account.notes)


def test_skipped_and_unseen_threads_are_named() -> None:
    assert one(ledger(), truth("disk", None, "no directory")).notes == ("did not work: no directory",)
    assert one(ledger(), truth("disk", OwnFigures(cpu_ns=1, elapsed_ns=1))).notes == (
        "was not seen by the measurement",
    )


def test_a_thread_of_another_process_with_the_same_id_is_not_taken_for_it() -> None:
    other = Thread(101, 999, "compute", birth=0, start=0, end=None, until=5, span=5, states={"user": Cell(5)})
    account = one(ledger(other), truth("compute", OwnFigures(cpu_ns=5, elapsed_ns=5)))
    assert account.notes == ("was not seen by the measurement",)


@pytest.mark.parametrize(("measured", "relative"), [(110, 0.1), (100, 0.0), (90, -0.1), (None, None)])
def test_apart_is_measured_less_truth(measured: int | None, relative: float | None) -> None:
    assert FigureComparison("", measured, 100).relative == (None if relative is None else pytest.approx(relative))


def test_nothing_is_a_share_of_nothing() -> None:
    assert FigureComparison("", 5, 0).relative is None
    assert FigureComparison("", 5, 0).apart == 5
