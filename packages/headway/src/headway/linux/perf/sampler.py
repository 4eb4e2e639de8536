"""The sampler of all threads of some processes: one loop collects the samples under one policy."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from headway.buffers.collector import CollectionFigures, Collector
from headway.buffers.policies.cpu_time import CpuTime, Usual
from headway.buffers.policies.fixed import Fixed
from headway.buffers.policies.watermark import Watermark
from headway.buffers.policy import NEVER, Policy
from headway.dataclass import dataclass

from .sample_buffer import CPU_CLOCK, PerfBuffer, Sampling, Tray
from .thread_buffers import SampledThreads

__all__ = ["DEFAULT_POLICY", "POLICIES", "Policies", "SampleLosses", "Sampler"]

LIKELY_SIZE = 150
"""The assumed size of a sample with its stack in bytes, until there are samples."""


Policies = Callable[[Sampling], Callable[[], Policy]]
"""Takes how the threads are sampled, and returns a function that makes the policy of each buffer."""


def _cpu_time(sampling: Sampling) -> Callable[[], Policy]:
    clock = sampling.event == CPU_CLOCK
    frequency = sampling.frequency or (1e9 / sampling.period if clock and sampling.period else 0)
    usual = Usual(frequency * LIKELY_SIZE / 1e9)
    return lambda: CpuTime(sampling.capacity, usual=usual)


POLICIES: dict[str, Policies] = {
    "cpu-time": _cpu_time,
    "watermark": lambda sampling: Watermark,
    "fixed": lambda sampling: lambda: Fixed(sampling.capacity),
}
"""The policies by name."""
DEFAULT_POLICY = "watermark"
"""The cheapest where a kernel wakes the collector, by the measurements in docs/profile-buffers.md."""


@dataclass(frozen=True, slots=True)
class SampleLosses:
    """What is missing, and why."""

    samples: int
    """Samples that had no room in their thread's buffer."""
    throttled: int
    """Times that the kernel stopped a thread's sampling for a while, because of its rate."""
    unseen_threads: int
    """Threads that had ended before they could be sampled."""
    late_ns: int
    """Processor time of new threads before their sampling began, in ns."""
    damaged: int
    """Readings that found no whole record where there must be one."""
    tasks: int
    """Lost records about new threads and programs. Their threads were found in /proc instead."""


class Sampler:
    """Samples the threads of processes, including later ones, until it is closed.

    After each step the owner takes the content of ``tray`` and of ``told`` (records about tasks), and clears them.
    """

    def __init__(
        self,
        pids: Iterable[int],
        sampling: Sampling | None = None,
        *,
        tids: Iterable[int] = (),
        policy: Policies = POLICIES[DEFAULT_POLICY],
        opened: Callable[[PerfBuffer], None] = lambda buffer: None,
    ) -> None:
        """Begin to sample. Raises SelectionError if there is nothing to sample, HeadwayError if it is not possible.

        ``opened`` is called with each thread's buffer, at the beginning and when a new one is opened.
        """
        self.sampling = sampling or Sampling()
        self.tray = Tray()
        self._new_policy, self._opened = policy(self.sampling), opened
        self._ended_lost = self._ended_throttled = self._ended_damaged = 0
        self.last_drains = 0
        """Buffers that were drained because their thread, or the sampling, had ended."""
        self._threads = SampledThreads(pids, self.sampling, tids=tids)
        self._collector = Collector(self.tray)
        for buffer in self._threads.buffers.values():
            self._serve(buffer)
        for fd in self._threads.fds:
            self._collector.watch(fd, self.update)

    @property
    def told(self) -> Tray:
        """The kernel's records about tasks (`thread_buffers`): new ones, their names, ends and mappings."""
        return self._threads.tray

    @property
    def threads(self) -> int:
        """The number of threads that are being sampled."""
        return len(self._threads.buffers)

    @property
    def fds(self) -> list[int]:
        """Files that become readable when a thread begins or ends."""
        return self._threads.fds

    @property
    def figures(self) -> CollectionFigures:
        """The figures of the collector."""
        return self._collector.figures

    @property
    def losses(self) -> SampleLosses:
        """What is missing so far."""
        threads = self._threads
        now = threads.buffers.values()
        return SampleLosses(
            self._ended_lost + sum(buffer.lost for buffer in now),
            self._ended_throttled + sum(buffer.throttled for buffer in now),
            threads.unseen,
            threads.late_ns,
            self._ended_damaged + threads.damaged + sum(buffer.damaged for buffer in now),
            threads.lost,
        )

    def pause(self) -> float | None:
        """Return the seconds after which `step` is due; None: the kernel alone knows, and tells only `step`."""
        return self._collector.pause()

    def step(self, until: int = NEVER) -> None:
        """Sleep until there is something to collect, or ``until`` (ns of CLOCK_MONOTONIC), and collect it."""
        self._collector.step(until)

    def drain(self) -> None:
        """Take what waits in all buffers now."""
        self.update()
        self._collector.drain_all()

    def finish(self) -> None:
        """End the sampling, and take the remaining samples."""
        self.update()
        for buffer in list(self._threads.buffers.values()):
            self._end(buffer)

    def close(self) -> None:
        """Release everything."""
        self._collector.close()
        self._threads.close()

    def update(self) -> None:
        """Take in the threads that have begun and ended, for an owner who polls `fds` together with other files.

        A poll reports that there is something only once, to the first caller.
        """
        new, ended = self._threads.update()
        for buffer in new:
            self._serve(buffer)
        for buffer in ended:
            self._end(buffer)

    def _serve(self, buffer: PerfBuffer) -> None:
        self._opened(buffer)
        policy = self._new_policy()
        self._collector.add(buffer, policy, fd=buffer.fd if policy.waits_for_kernel else -1)

    def _end(self, buffer: PerfBuffer) -> None:
        self._collector.remove(buffer)
        self._threads.drop(buffer, self.tray)
        self.last_drains += 1
        self._ended_lost += buffer.lost
        self._ended_throttled += buffer.throttled
        self._ended_damaged += buffer.damaged
