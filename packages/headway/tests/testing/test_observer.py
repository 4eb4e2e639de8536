from __future__ import annotations

from collections.abc import Iterable

import pytest

from headway.model import Cell, Kind, Ledger, Precision, Quality, Thread, Window
from headway.testing import observer
from headway.testing.observer import PhaseObserver

PID = 7
TICK = 1_000_000


class Source:
    """A source of ready-made intervals: of each the threads, as (tid, pid, run time, ended)."""

    def __init__(self, name: str, *intervals: Iterable[tuple[int, int, int, bool]]) -> None:
        self.name = name
        self.losses: dict[str, int] = {}
        self._intervals = iter(intervals)
        self.events: list[str] = []

    def interval(self) -> Ledger:
        self.events.append("reads")
        threads = []
        for tid, pid, run, ended in next(self._intervals):
            states = {"user": Cell(run), "ready": Cell(TICK - run)}
            threads.append(Thread(tid, pid, "t", tid, 0, TICK if ended else None, TICK, TICK, states))
        return Ledger(
            self.name,
            Window(0, TICK),
            tuple(threads),
            precision=Precision(total=Quality.SAMPLED),
            losses=self.losses,
        )

    def begin(self) -> None: ...
    def poll_fds(self) -> Iterable[int]:
        return ()

    def service(self) -> float | None:
        return None

    def wait_until_exit_is_seen(self, pid: int) -> None: ...
    def read(self) -> Ledger:
        return self.interval()

    end = end_interval = read

    def close(self) -> None: ...


RUNNER = (PID, PID, 10, False)


@pytest.fixture(autouse=True)
def all_threads_sleep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observer, "wait_until_asleep", lambda pid, tid: True)


def test_a_tests_threads_are_its_runner_and_those_that_came_since_it_began() -> None:
    source = Source(
        "bpf",
        [RUNNER, (8, PID, 100, False)],
        [RUNNER, (8, PID, 100, False)],
        [RUNNER, (8, PID, 100, False), (9, PID, 1000, False), (20, 20, 10_000, True)],
        [RUNNER, (8, PID, 100, False), (9, PID, 1000, False)],
        [RUNNER, (8, PID, 100, False), (9, PID, 1000, False)],
    )
    found = PhaseObserver(source, PID)
    found.test(PID)
    lap = found.lap(PID)
    assert (lap.time[Kind.EFFECTIVE], lap.others) == (11_010, 100)
    lap = found.test(PID)  # 9 is still the last test's
    assert (lap.time[Kind.EFFECTIVE], lap.others) == (1010, 100)
    lap = found.lap(PID)
    assert (lap.time[Kind.EFFECTIVE], lap.others) == (10, 1100)


def test_another_thread_may_run_the_tests() -> None:
    source = Source("bpf", [RUNNER, (8, PID, 100, False)], *([[RUNNER, (8, PID, 100, False)]] * 2))
    found = PhaseObserver(source, PID)
    found.test(8)
    lap = found.lap(8)
    assert (lap.time[Kind.EFFECTIVE], lap.others) == (100, 10)


@pytest.mark.parametrize(
    ("others", "losses", "quality"),
    [
        ([], {}, Quality.EXACT),
        ([(9, PID, 1000, True)], {}, Quality.SAMPLED),
        ([], {"unseen_ns": 1}, Quality.SAMPLED),
    ],
)
def test_by_proc_the_runners_time_is_the_kernels_and_exact_if_there_is_no_other(
    monkeypatch: pytest.MonkeyPatch,
    others: list[tuple[int, int, int, bool]],
    losses: dict[str, int],
    quality: Quality,
) -> None:
    times = iter([5000, 5000, 5123])
    monkeypatch.setattr(observer, "run_time", lambda pid, tid: next(times))
    source = Source("proc", [RUNNER], [RUNNER], [RUNNER, *others])
    found = PhaseObserver(source, PID)
    found.test(PID)
    source.losses = losses
    lap = found.lap(PID)
    assert lap.precision.total is quality
    assert lap.time[Kind.EFFECTIVE] == 123 + sum(run for _, _, run, _ in others)
    assert sum(lap.time.values()) == TICK * (1 + len(others))


@pytest.mark.parametrize("name", ["bpf", "proc"])
def test_it_reads_when_the_thread_that_asks_has_left_its_processor(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Else stolen time that the kernel has not told yet would be the thread's progress for good."""
    source = Source(name, *([[RUNNER]] * 3))
    found = PhaseObserver(source, PID)
    source.events.clear()

    def wait(pid: int, tid: int) -> bool:
        source.events.append(f"waits for {tid} of {pid}")
        return True

    monkeypatch.setattr(observer, "wait_until_asleep", wait)
    found.test(PID)
    found.lap(8)
    assert source.events == [f"waits for {PID} of {PID}", "reads", f"waits for 8 of {PID}", "reads"]


@pytest.mark.parametrize(
    ("asking", "sleeping", "qualities"),
    [
        ([PID, PID, PID], [True, True, True], [Quality.EXACT, Quality.EXACT]),
        ([PID, PID, PID], [False, True, True], [Quality.SAMPLED, Quality.EXACT]),
        ([PID, PID, PID], [True, False, True], [Quality.SAMPLED, Quality.SAMPLED]),
        ([PID, 8, PID], [True, True, True], [Quality.SAMPLED, Quality.SAMPLED]),
    ],
)
def test_by_proc_the_runners_time_is_exact_only_if_it_slept_at_both_readings(
    monkeypatch: pytest.MonkeyPatch, asking: list[int], sleeping: list[bool], qualities: list[Quality]
) -> None:
    answers = iter(sleeping)
    monkeypatch.setattr(observer, "wait_until_asleep", lambda pid, tid: next(answers))
    monkeypatch.setattr(observer, "run_time", lambda pid, tid: 5000)
    found = PhaseObserver(Source("proc", *([[RUNNER]] * 4)), PID)
    found.test(asking[0])
    assert [found.lap(tid).precision.total for tid in asking[1:]] == qualities
