"""The verdict: its causes, its order, and that it claims no more than was measured."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from tests.ledgers import ledgers

from headway.model import Behind, Cause, Cell, Ledger, Precision, Quality, Thread, Window
from headway.model.uses import LockHolder, LockUse, Uses
from headway.verdict import MOST, Verdict, Why, verdict

SECOND = 10**9
_COUNT = 1000


def thread(tid: int = 1, pid: int = 1, name: str = "a", /, *causes: Cause, **shares: float) -> Thread:
    """A thread that ended; of its second the shares of its states, ``__`` for a dot."""
    cells = {state.replace("__", "."): Cell(round(share * SECOND), _COUNT) for state, share in shares.items()}
    span = sum(cell.time for cell in cells.values())
    return Thread(tid, pid, name, 0, 0, span, span, span, cells, causes=causes)


def living(one: Thread) -> Thread:
    return replace(one, end=None, until=SECOND)


def ledger(*threads: Thread, source: str = "bpf", precision: Precision | None = None) -> Ledger:
    return Ledger(source, Window(0, SECOND), threads, (), precision or Precision())


def object_(name: str, share: float, state: str = "wait.futex") -> Cause:
    return Cause(state, Behind.OBJECT, name, round(share * SECOND), 9)


def waker(name: str, tid: int, share: float, state: str = "wait.futex") -> Cause:
    return Cause(state, Behind.WAKER, name, round(share * SECOND), 9, tid)


def first(*threads: Thread, source: str = "bpf") -> Verdict:
    return verdict(ledger(*threads, source=source))[0]


@given(ledgers())
def test_shares_are_shares_and_the_most_wall_time_comes_first(found: Ledger) -> None:
    said = verdict(found)
    assert len(said) <= MOST
    assert all(0 < one.share <= 1 and 0 < one.wall <= found.window.duration for one in said)
    assert [one.wall for one in said] == sorted((one.wall for one in said), reverse=True)
    assert all(one.quality is not Quality.UNAVAILABLE for one in said)


@given(ledgers())
def test_no_cause_has_more_time_than_its_threads(found: Ledger) -> None:
    spans = {one.tid: one.span for one in found.threads}
    for one in verdict(found):
        assert one.number == len(one.threads)  # there are four threads at most
        assert one.time <= sum(spans[tid] for tid in one.threads)
        assert one.idle + one.number <= len(found.threads)


@given(ledgers())
def test_no_verdict_is_made_of_figures_that_are_not_known(found: Ledger) -> None:
    unseen = Precision(*[Quality.UNAVAILABLE] * 6)
    on_processor = {Why.OWN_CODE, Why.MEMORY, Why.STALLS, Why.MARKED, Why.SYSTEM_CALLS, Why.POLLING, Why.SPINNING}
    assert not {one.why for one in verdict(replace(found, precision=unseen))} & on_processor


@given(ledgers())
def test_threads_that_rest_change_nothing_but_their_number(found: Ledger) -> None:
    window = found.window
    rests = {"wait.epoll": Cell(window.duration, 1)}
    idle = Thread(5_000_000, 5_000_000, "idle", 0, window.start, None, window.end, window.duration, rests)
    before, after = verdict(found), verdict(replace(found, threads=(*found.threads, idle)))
    if any(one.why is Why.CHILDREN for one in before):  # the other process may be the child
        return
    assert [replace(one, idle=0) for one in before] == [replace(one, idle=0) for one in after]
    assert idle.tid not in {tid for one in after for tid in one.threads}


@pytest.mark.parametrize(
    ("states", "why", "words"),
    [
        ({"user": 0.9, "kernel.read": 0.1}, Why.OWN_CODE, "more processors would not help"),
        ({"memory": 0.6, "user": 0.4}, Why.MEMORY, "caches and memory"),
        ({"stall": 0.6, "user": 0.4}, Why.STALLS, "stalled"),
        ({"noneffective.parse": 0.6, "user": 0.4}, Why.MARKED, "most in parse (1,000 times)"),
        ({"kernel.write": 0.6, "user": 0.4}, Why.SYSTEM_CALLS, "most in write (1,000 times)"),
        ({"kernel.madvise": 0.6, "user": 0.4}, Why.PAGE_FAULTS, "most in madvise"),
        ({"kernel.fault.minor": 0.6, "user": 0.4}, Why.PAGE_FAULTS, "most in fault.minor"),
        ({"wait.fault": 0.6, "user": 0.4}, Why.PAGE_FAULTS, "page faults"),
        ({"softirq.net_rx": 0.6, "user": 0.4}, Why.INTERRUPTS, "softirq.net_rx"),
        ({"ready.interrupt": 0.6, "user": 0.4}, Why.INTERRUPTS, "interrupts"),
        ({"poll.epoll_wait.epoll": 0.6, "user": 0.4}, Why.POLLING, "most in epoll_wait.epoll"),
        ({"poll.spin": 0.6, "user": 0.4}, Why.SPINNING, "spun"),
        ({"ready.own": 0.6, "user": 0.4}, Why.OWN_THREADS, "other threads of its process"),
        ({"ready.neighbour": 0.6, "user": 0.4}, Why.NEIGHBOURS, "--why ready"),
        ({"ready.throttled": 0.6, "user": 0.4}, Why.QUOTA, "quota"),
        ({"ready.wakeup": 0.6, "user": 0.4}, Why.WAKE_UP, "wake up"),
        ({"ready": 0.6, "user": 0.4}, Why.PROCESSOR, "no processor was free"),
        ({"stolen": 0.4, "ready.stolen": 0.2, "user": 0.4}, Why.HYPERVISOR, "hypervisor"),
        ({"wait.mmap_lock": 0.6, "user": 0.4}, Why.LOCK, "mmap_lock"),
        ({"wait.gil": 0.6, "user": 0.4}, Why.LOCK, "GIL"),
        ({"wait.disk": 0.6, "kernel.read": 0.2, "user": 0.2}, Why.DISK_READS, "reads"),
        ({"wait.disk": 0.6, "kernel.fsync": 0.2, "user": 0.2}, Why.DISK_WRITES, "forced by fsync (1,000 times)"),
        ({"kernel.fdatasync": 0.6, "user": 0.4}, Why.DISK_WRITES, "spent 60 % of its time (600 ms) on writes"),
        ({"wait.disk": 0.9, "user": 0.1}, Why.DISK, "for a disk"),
        ({"wait.net": 0.9, "user": 0.1}, Why.NETWORK, "--why wait"),
        ({"wait.pipe": 0.9, "user": 0.1}, Why.PIPE, "pipe"),
        ({"wait.epoll": 0.9, "user": 0.1}, Why.EVENTS, "events"),
        ({"wait.sleep": 0.9, "user": 0.1}, Why.SLEEP, "on purpose"),
        ({"wait.sleep": 1.0}, Why.SLEEP, "slept 100 % of its time (1.00 s)"),
        ({"wait.child": 1.0}, Why.CHILDREN, "not measured"),
        ({"wait.sysinfo": 0.9, "user": 0.1}, Why.OTHER, "in sysinfo"),
    ],
)
def test_each_cause_has_its_sentence(states: dict[str, float], why: Why, words: str) -> None:
    found = first(thread(**{state.replace(".", "__"): share for state, share in states.items()}))
    assert (found.why, found.threads) == (why, (1,))
    assert words in found.text
    assert "a (1)" in found.text


def test_a_lock_has_its_name_and_who_released_it() -> None:
    about = object_("search: cache_lock", 0.9), waker("refresher", 2, 0.8)
    found = first(thread(1, 1, "search", *about, wait__futex=0.9, user=0.1), thread(2, 1, "refresher", user=0.5))
    assert found.why is Why.LOCK
    assert found.text == (
        "search (1) waited 90 % of its time (900 ms) for search: cache_lock, 89 % of that until refresher released it"
    )


def test_who_had_a_lock_comes_before_who_released_it() -> None:
    had = Cause("wait.futex", Behind.HOLDER, "refresher", SECOND * 3 // 4, 9, 2)
    about = object_("heap 0x10", 0.9), waker("search", 3, 0.8), had
    one = thread(1, 1, "search", *about, wait__futex=0.9, user=0.1)
    found = first(one, thread(2, 1, "refresher", user=0.5))
    assert found.why is Why.LOCK
    assert found.text.endswith("for heap 0x10, 83 % of that in waits that began while refresher had it")


@pytest.mark.parametrize(
    ("doing", "words"),
    [
        ({"wait.disk": 80, "user": 20}, ", which meanwhile waited for a disk for 80 % of the time"),
        (
            {"ready.neighbour": 50, "ready": 10, "user": 40},
            ", which meanwhile was ready without a processor for 60 % and ran its own code for 40 % of the time",
        ),
        ({"wait.futex": 100}, ", which meanwhile waited for another lock for 100 % of the time"),
        ({"unknown": 60, "wait.disk": 40}, ""),
        ({"kernel.reclaim": 25, "user": 25, "wait.net": 25, "stolen": 25}, ""),
        ({}, ""),
    ],
)
def test_what_the_holder_did_meanwhile_is_said_where_it_is_known(doing: dict[str, int], words: str) -> None:
    had = Cause("wait.futex", Behind.HOLDER, "refresher", SECOND * 9 // 10, 9, 2)
    one = thread(1, 1, "search", object_("cache_lock", 0.9), had, wait__futex=0.9, user=0.1)
    holder = LockHolder(2, "refresher", 100, 9, doing)
    others = LockHolder(2, "refresher", 100, 9, {"wait.sleep": 100})
    locks = (
        LockUse(1, "cache_lock", "wait.futex", 9, 100, 100, (holder,)),
        LockUse(7, "cache_lock", "wait.futex", 9, 100, 100, (others,)),
    )
    found = ledger(one, thread(2, 1, "refresher", user=0.5))
    (said, *_) = verdict(replace(found, uses=Uses(locks=locks)))
    assert said.text.endswith(f"in waits that began while refresher had it{words}")


def test_the_lock_of_a_recording_has_who_released_it_and_what_that_did() -> None:
    one = thread(1, 1, "search", wait__futex=0.6, user=0.4)
    waited = SECOND * 6 // 10
    holder = LockHolder(2, "refresher", waited, 9, {"wait.disk": SECOND * 45 // 100, "user": SECOND * 15 // 100})
    lock = LockUse(1, "cache_lock", "wait.futex", 9, waited, waited, (holder,))
    found = ledger(one, thread(2, 1, "refresher", user=0.1), source="recording")
    (said, *_) = verdict(replace(found, uses=Uses(locks=(lock,))))
    assert said.text == (
        "search (1) waited 60 % of its time (600 ms) for cache_lock, 100 % of that until refresher released it, "
        "which meanwhile waited for a disk for 75 % of the time"
    )


def test_an_interrupt_does_not_release_a_lock() -> None:
    """Waits for CPython's GIL time out every 5 ms."""
    timed_out = Cause("wait.gil", Behind.WAKER, "irq.timer", SECOND // 2, 100)
    one = thread(2, 1, "w", object_("Python's GIL", 0.6, "wait.gil"), timed_out, **{"wait.gil": 0.6, "user": 0.4})
    assert "irq.timer" not in first(one).text


def test_threads_that_end_each_others_waits_wait_for_a_lock() -> None:
    every = [
        thread(
            tid, 1, "worker", object_("heap 0x10", 0.95), waker("worker", 3 - tid, 0.95), wait__futex=0.95, user=0.04
        )
        for tid in (1, 2)
    ]
    assert (first(*every).why, first(*every).number) == (Why.LOCK, 2)


def test_a_pool_without_work_rests() -> None:
    main = thread(1, 1, "main", user=0.95, wait__sleep=0.05)
    pool = [
        thread(tid, 1, "pool", object_("heap 0x10", 0.98), waker("main", 1, 0.98), wait__futex=0.98, user=0.02)
        for tid in range(2, 10)
    ]
    (only,) = verdict(ledger(main, *pool))
    assert (only.why, only.threads, only.idle) == (Why.OWN_CODE, (1,), 8)


def test_the_last_waits_of_a_pool_that_its_threads_end_are_no_lock() -> None:
    about = object_("heap 0x10", 0.99), waker("pool", 2, 0.99)
    pool = [thread(tid, 1, "pool", *about, user=0.01) for tid in range(2, 10)]
    pool = [replace(one, span=SECOND, states={**one.states, "wait.futex": Cell(SECOND * 99 // 100, 2)}) for one in pool]
    (only,) = verdict(ledger(thread(1, 1, "main", user=1.0), *pool))
    assert (only.why, only.threads) == (Why.OWN_CODE, (1,))


@pytest.mark.parametrize("state", ["wait.gil", "wait.net"])
def test_no_interrupt_is_said_to_have_done_what_a_thread_does(state: str) -> None:
    by = Cause(state, Behind.WAKER, "irq.timer", SECOND // 2, 9)
    found = first(thread(1, 1, "a", by, user=0.5, **{state.replace(".", "__"): 0.5}))
    assert "irq" not in found.text


def test_without_causes_a_thread_that_has_its_work_elsewhere_waits_for_a_lock() -> None:
    found = first(thread(wait__futex=0.8, wait__sleep=0.18, user=0.02))
    assert (found.why, found.option) == (Why.LOCK, "--why wait")
    assert "for a lock, or for another thread (futex); --why wait names it" in found.text


def test_threads_that_do_by_turns_what_one_could_do_wait_for_a_lock() -> None:
    every = [thread(tid, 1, "turn", wait__futex=0.8, user=0.2) for tid in range(1, 6)]
    assert first(*every).why is Why.LOCK


def test_who_waits_for_its_threads_to_end_rests() -> None:
    main = thread(1, 1, "main", user=0.01)
    main = replace(main, span=SECOND, end=SECOND, states={**main.states, "wait.futex": Cell(SECOND * 99 // 100, 2)})
    workers = [thread(tid, 1, "worker", user=0.98) for tid in (2, 3)]
    (only,) = verdict(ledger(main, *workers))
    assert (only.why, only.number, only.idle) == (Why.OWN_CODE, 2, 1)


def test_who_waits_for_its_helper_and_to_write_rests() -> None:
    main = thread(1, 1, "main", wait__futex=0.8, wait__pipe=0.15, user=0.05)
    (only,) = verdict(ledger(main, thread(2, 1, "helper", user=0.97)))
    assert (only.why, only.threads, only.idle) == (Why.OWN_CODE, (2,), 1)


def test_what_main_threads_wait_for_comes_before_the_rests_of_helpers() -> None:
    main = thread(1, 1, "main", wait__pipe=0.95, user=0.02)
    helpers = [thread(tid, 1, "helper", wait__epoll=1.0) for tid in (2, 3, 4)]
    (only,) = verdict(ledger(main, *helpers))
    assert (only.why, only.threads, only.idle) == (Why.PIPE, (1,), 3)


def test_threads_that_wait_as_the_main_thread_does_are_counted_with_it() -> None:
    found = first(*[thread(tid, 1, "a", wait__net=1.0) for tid in range(1, 5)])
    assert (found.why, found.number, found.idle) == (Why.NETWORK, 4, 0)


def test_a_helper_with_little_work_beside_a_busy_thread_rests_in_its_sleep() -> None:
    said = verdict(ledger(thread(1, 1, "busy", user=1.0), thread(2, 1, "ticks", user=0.2, wait__sleep=0.8)))
    assert [one.why for one in said] == [Why.OWN_CODE]


def test_a_server_without_requests_is_no_cause() -> None:
    assert verdict(ledger(living(thread(wait__epoll=0.99, user=0.01)))) == ()
    assert verdict(ledger(living(thread(wait__futex=1.0)))) == ()
    assert verdict(ledger(living(thread(wait__net=0.99, user=0.01)))) == ()


def test_a_shell_that_waits_for_a_command_is_not_what_took_the_time() -> None:
    (only,) = verdict(ledger(thread(1, 1, "sh", wait__child=1.0), thread(2, 2, "sleep", wait__sleep=1.0)))
    assert (only.why, only.threads) == (Why.SLEEP, (2,))


def test_many_processes_that_hardly_live_are_a_cause() -> None:
    brief = [thread(tid, tid, "true", kernel__execve=0.004, user=0.004) for tid in range(2, 102)]
    found = first(thread(1, 1, "sh", wait__child=0.8, user=0.2), *brief)
    assert (found.why, found.number) == (Why.STARTS, 100)


def test_bounds_and_samples_say_what_they_are() -> None:
    one = thread(user=1.0)
    (bound,) = verdict(ledger(one, precision=Precision(effective=Quality.BOUND, memory=Quality.UNAVAILABLE)))
    assert "at most 100 %" in bound.text
    waits = first(thread(user=0.5, wait__net=0.5), source="proc")
    assert waits.quality is not Quality.SAMPLED or "about" in waits.text


def test_processes_beside_each_other_have_no_more_wall_time_than_the_window() -> None:
    found = first(*[thread(tid, tid, "cc1", user=1.0) for tid in range(1, 9)])
    assert (found.time, found.wall, found.share) == (8 * SECOND, SECOND, 1.0)
