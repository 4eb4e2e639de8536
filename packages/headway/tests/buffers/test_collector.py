"""The loop that collects: what it serves, when it wakes, and what it counts."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable, Iterator

import pytest
from tests.compiling import Compile

from headway.buffers.collector import GRAIN, Collector
from headway.buffers.policies.cpu_time import CpuTime, Usual
from headway.buffers.policies.fixed import Fixed
from headway.buffers.policies.watermark import Watermark
from headway.buffers.policy import Policy
from headway.errors import HeadwayError, SelectionError
from headway.linux.perf.sample_buffer import DEFAULT_FIELDS, Sampling
from headway.linux.perf.sampler import POLICIES, Sampler
from headway.linux.perf.thread_buffers import EXIT

from .fleet import MS, SECOND, ModelBuffer, Phase
from .test_perf import program


class Clock:
    """A clock that goes on only while somebody sleeps: it takes the place of epoll, too."""

    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        return self.now

    def poll(self, timeout: float, maxevents: int) -> list[tuple[int, int]]:
        assert timeout >= 0, "nothing else would wake it"
        self.now += round(timeout * SECOND)
        return []

    def close(self) -> None:
        pass


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def collector(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector[None]]:
    monkeypatch.setattr(select, "epoll", lambda: clock)
    made: Collector[None] = Collector(None, clock=clock)
    yield made
    made.close()


class Timed(ModelBuffer):
    """A model's buffer that is at the clock's moment when it is looked at."""

    def __init__(self, clock: Clock, phases: list[Phase]) -> None:
        super().__init__(1000, phases)
        self.clock = clock
        self.closed = False

    def cpu_time(self) -> int:
        self.advance(self.clock.now)
        return super().cpu_time()

    def look(self) -> int:
        assert not self.closed
        self.advance(self.clock.now)
        return super().look()


@pytest.mark.parametrize("policy", [lambda: CpuTime(1000), lambda: Fixed(1000, period=10 * MS)])
def test_what_is_due_is_collected_and_counted(
    collector: Collector[None], clock: Clock, policy: Callable[[], Policy]
) -> None:
    buffers = [Timed(clock, [Phase(SECOND, 1.0, rate)]) for rate in (0, 3_000, 5_000)]
    for buffer in buffers:
        collector.add(buffer, policy())
    collector.run(4 * SECOND)
    figures = collector.figures
    assert figures.looks >= figures.drains >= figures.useful > 10
    assert figures.bytes == sum(buffer.collected for buffer in buffers)
    assert all(buffer.dropped == 0 for buffer in buffers)
    assert buffers[0].collected == 0
    collector.drain_all()
    assert all(buffer.waiting < 1 for buffer in buffers)


def test_the_clock_of_a_thread_that_stood_still_is_not_read(collector: Collector[None], clock: Clock) -> None:
    class Still(Timed):
        still = False

        def stood_still(self) -> bool:
            return self.still

    buffer = Still(clock, [Phase(SECOND, 1.0, 5_000)])
    collector.add(buffer, CpuTime(1000, usual=Usual(5_000 / SECOND)))
    collector.run(2 * SECOND)
    buffer.still = True
    reads, collected = collector.figures.clock_reads, buffer.collected
    buffer.advance(clock.now)
    buffer.phases = [Phase(SECOND, 0.0, 0)]
    collector.run(4 * SECOND)
    assert collector.figures.clock_reads == reads
    buffer.still = False
    buffer.advance(clock.now)
    buffer.phases = [Phase(SECOND, 1.0, 5_000)]
    collector.run(6 * SECOND)
    assert buffer.collected > collected
    assert buffer.dropped == 0


def test_it_says_when_the_next_look_is_due(collector: Collector[None], clock: Clock) -> None:
    assert collector.pause() is None
    collector.add(Timed(clock, []), Watermark())
    assert collector.pause() is None, "the kernel tells"
    collector.add(Timed(clock, [Phase(SECOND, 1.0, 0)]), Fixed(1000, period=10 * MS))
    assert collector.pause() == (10 * MS + GRAIN) / SECOND
    clock.now = 15 * MS
    assert collector.pause() == 0


def test_one_that_is_removed_is_looked_at_no_more(collector: Collector[None], clock: Clock) -> None:
    stays, goes = (Timed(clock, [Phase(SECOND, 1.0, 50_000)]) for _ in range(2))
    for buffer in (stays, goes):
        collector.add(buffer, Fixed(1000, period=5 * MS))
    collector.remove(goes)
    collector.remove(goes)
    goes.closed = True
    collector.run(SECOND)
    assert stays.collected > 0


def test_one_that_is_removed_while_it_is_served_is_left_alone(collector: Collector[None], clock: Clock) -> None:

    class Ending(Timed):
        def drain(self, into: object) -> int:
            collector.remove(self)
            self.closed = True
            return super().drain(into)

    buffer = Ending(clock, [Phase(SECOND, 1.0, 50_000)])
    collector.add(buffer, Fixed(1000, period=20 * MS))
    collector.run(SECOND)
    assert buffer.closed
    assert collector.figures.drains == 1


def test_the_kernel_wakes_it_at_the_watermark() -> None:
    collector: Collector[None] = Collector(None)
    buffer = ModelBuffer(1000, [Phase(SECOND, 1.0, 1000)])
    buffer.waiting = 500
    read_end, write_end = os.pipe()
    collector.add(buffer, Watermark(), fd=read_end)
    collector.step(time.monotonic_ns() + MS)
    assert collector.figures.looks == 0
    os.write(write_end, b"x")
    collector.step()
    assert (collector.figures.looks, collector.figures.drains, collector.figures.useful) == (1, 1, 1)
    os.close(write_end)
    os.read(read_end, 1)
    collector.step()  # the other end is gone: once
    looks = collector.figures.looks
    collector.step(time.monotonic_ns() + MS)
    assert collector.figures.looks == looks
    collector.remove(buffer)
    collector.close()
    os.close(read_end)


def test_looks_that_are_due_together_are_taken_in_one_waking(collector: Collector[None]) -> None:
    for _ in range(500):
        collector.add(ModelBuffer(1000, [Phase(SECOND, 1.0, 0)]), Fixed(1000, period=700 * GRAIN))
    collector.run(1500 * GRAIN)
    assert collector.figures.looks == 1000
    assert collector.figures.wakeups <= 4


@pytest.mark.root
@pytest.mark.parametrize("name", POLICIES)
def test_each_policy_collects_the_same_of_a_real_program(name: str, compile_c: Compile) -> None:
    with program(compile_c("later")) as process:
        assert process.stdin is not None
        try:
            sampler = Sampler([process.pid], Sampling(frequency=2000, pages=1), policy=POLICIES[name])
        except SelectionError:
            raise
        except HeadwayError as error:
            pytest.skip(str(error))
        process.stdin.write(b"\n")
        process.stdin.flush()
        deadline = time.monotonic_ns() + 100 * SECOND
        while [kind for kind, _, _ in sampler.told.others()].count(EXIT) < 5 and time.monotonic_ns() < deadline:
            sampler.step(min(deadline, time.monotonic_ns() + 50 * MS))
        sampler.finish()
        found = sampler.tray.samples(DEFAULT_FIELDS)
        assert len(set(found.tid.tolist())) >= 5
        assert sampler.figures.drains > 0
        assert sampler.losses.unseen_threads == sampler.losses.damaged == sampler.losses.tasks == 0
        assert sampler.threads == 0
        sampler.close()
