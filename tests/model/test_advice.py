from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from tests.ledgers import ledgers

from headway.model import Cell, Counted, Kind, Ledger, Processor, Thread, Window
from headway.model.advice import Advice, References, advise

SECOND = 10**9


def thread(tid: int = 4712, pid: int = 4711, /, **shares: float) -> Thread:
    """A thread measured for a second; the shares of its states, ``__`` for a dot; what is left is ``wait.sleep``."""
    cells = {state.replace("__", "."): Cell(round(share * SECOND), 1000) for state, share in shares.items()}
    cells["wait.sleep"] = Cell(SECOND - sum(c.time for c in cells.values()), 1)
    return Thread(tid, pid, "a", 0, 0, None, SECOND, SECOND, cells)


def ledger(*threads: Thread, source: str = "bpf", processors: tuple[Processor, ...] = ()) -> Ledger:
    return Ledger(source, Window(0, SECOND), threads, processors)


def only(*threads: Thread) -> Advice:
    (advice,) = advise(ledger(*threads))
    return advice


def test_a_thread_that_makes_progress_needs_no_advice() -> None:
    assert advise(ledger(thread(user=0.95, kernel__read=0.05))) == ()


def test_what_is_lost_is_looked_at_only_when_it_passes_its_reference() -> None:
    found = ledger(thread(user=0.8, kernel__read=0.2))
    assert advise(found, References(td=0.21)) == ()
    assert advise(found, References(kpi=1.0)) == ()
    (advice,) = advise(found, References(td=0.19))
    assert (advice.thread, advice.index, advice.value, advice.reference) == (4712, "kpi", 1.0, 0.25)


@pytest.mark.parametrize(
    ("state", "words", "command"),
    [
        ("kernel.futex", "lock", "sys_enter_futex -t 4712"),
        ("kernel.read", "io_uring", "strace -c -p 4712"),
        ("kernel.fault", "huge pages", "page-faults -t 4712"),
        ("kernel.munmap", "trim_threshold", "-p 4712"),
        ("kernel.fsync", "force them once", "fdatasync"),
        ("kernel.sched_yield", "spins", "-t 4712"),
        ("kernel.epoll_wait", "wakes up often", "-p 4712"),
        ("kernel.getdents64", "less often", "-p 4712"),
        ("softirq.net_rx", "smp_affinity_list", "taskset -cp 4712"),
        ("irq.timer", "smp_affinity_list", "taskset -cp 4712"),
        ("noneffective.parse", "marks", "-t 4712"),
        ("memory", "cache", "echo 4712"),
        ("poll", "block", "-p 4712"),
    ],
)
def test_the_state_that_dominates_names_the_cause(state: str, words: str, command: str) -> None:
    advice = only(thread(user=0.5, **{state.replace(".", "__"): 0.3, "kernel__other": 0.05}))
    assert words in advice.text
    assert advice.command is not None
    assert command in advice.command


def test_calls_of_one_cause_are_seen_together() -> None:
    advice = only(thread(user=0.4, kernel__read=0.1, kernel__write=0.1, kernel__openat=0.15))
    assert "io_uring" in advice.text
    assert "most in kernel.write (1,000 times)" in advice.text


def test_waiting_for_a_processor_is_not_having_enough_of_them() -> None:
    advice = only(thread(user=0.5, ready=0.3))
    assert advice.index == "ready"
    assert advice.value == pytest.approx(0.375)
    assert advice.command == "taskset -acp 4711"


def test_what_the_hypervisor_takes_is_the_machines_matter() -> None:
    advice = only(thread(user=0.9, stolen=0.1))
    assert (advice.thread, advice.index, advice.command) == (None, "stolen", "vmstat -w 1 5")
    assert advice.value == pytest.approx(0.1)


def test_a_processor_full_of_interrupts_is_named() -> None:
    cells = {"idle": Cell(SECOND // 2), "softirq.net_rx": Cell(SECOND // 4), "irq.eth0": Cell(SECOND // 4)}
    (advice,) = advise(ledger(processors=(Processor(3, SECOND, cells),)))
    assert advice.thread is None
    assert "processor 3 spent 50%" in advice.text


def test_a_thread_that_mostly_waits_is_told_why_but_sleeping_is_its_own_wish() -> None:
    advice = only(thread(user=0.01, wait__disk=0.7))
    assert (advice.index, advice.value, advice.command) == ("wait", 0.7, "cat /proc/4711/io")
    assert advise(ledger(thread(user=0.01))) == ()


def test_threads_of_a_process_with_the_same_cause_are_spoken_of_once() -> None:
    many = [thread(tid, 4711, user=0.5, kernel__futex=0.3 + tid / 1000) for tid in range(1, 9)]
    advice = only(*many)
    assert advice.thread == 8
    assert "(7 more threads of this process alike)" in advice.text


def test_of_very_many_threads_it_says_at_least() -> None:
    many = [thread(tid, 4711, user=0.5, kernel__futex=0.3) for tid in range(1, 201)]
    assert "(at least 63 more threads" in only(*many).text


def test_a_thread_that_hardly_ran_is_not_spoken_of() -> None:
    assert advise(ledger(thread(kernel__read=0.005))) == ()


def test_the_machine_has_no_shell() -> None:
    (advice,) = advise(ledger(thread(user=0.5, memory=0.5), source="machine"))
    assert advice.command is None


@given(ledgers())
def test_advice_is_bounded_worst_first_and_about_threads_that_are_there(found: Ledger) -> None:
    everything = advise(found, References(most=1000))
    assert advise(found) == everything[: References().most]
    assert len({(a.thread, a.index, a.text) for a in everything}) == len(everything)
    by_tid = {t.tid: t for t in found.threads}
    kinds = {"mpi": Kind.MEMORY, "kpi": Kind.KERNEL, "iopi": Kind.POLL, "ready": Kind.READY}
    lost = []
    for advice in everything:
        assert advice.value > advice.reference
        assert advice.value <= 1
        if advice.thread is None:
            continue
        at = by_tid[advice.thread]
        if advice.index in kinds:
            lost.append(found.times(at)[kinds[advice.index]])
        if advice.command is not None:
            assert str(at.tid) in advice.command or str(at.pid) in advice.command
    assert lost == sorted(lost, reverse=True)


@given(ledgers())
def test_the_order_of_the_threads_does_not_matter(found: Ledger) -> None:
    assert advise(found) == advise(replace(found, threads=found.threads[::-1]))


def test_stalls_for_memory_that_hardware_counted_are_worth_a_word() -> None:
    second = 10**9
    cells = {"user": Cell(second, 1, 10**9, 10**9, 8 * 10**8, 7 * 10**8)}
    one = Thread(7, 7, "a", 0, 0, None, second, second, cells)
    counted = dict.fromkeys(("cycles", "stall_cycles", "memory_stall_cycles"), Counted(1, 1))
    found = Ledger("bpf", Window(0, second), (one,), unit="cycles", counted=counted)
    assert [piece.index for piece in advise(found)] == ["mpi"]
    assert advise(found)[0].value == pytest.approx(7 / 8)
