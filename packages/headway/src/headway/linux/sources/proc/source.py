"""The source for users without privileges: it reads each thread's files in /proc again and again.

**What is exact.** The run time and the run-queue time of a thread come from ``schedstat``, in ns. They are as of the
scheduler's last update: at most a tick ago for a thread on a processor, and complete for every other thread. The rest
of the time is waiting. So the kernel itself divides the life of a thread into running, ready and waiting. Two divisions
are sampled. The kernel samples at its tick how the running time divides into user and kernel. A look samples what the
thread waits for. Regions that the
program marks are taken out of user time (`headway.linux.regions.charging`).

**What cannot be seen is counted.** Threads come and go between two looks, and the last slice of a thread that ends may
be missed. But the clock of their process holds their time too, and the kernel tells a parent the time of the children
that it waits for. The excess of these clocks over the seen time is in the losses, and not in the cells of any thread.

Times are ns of CLOCK_MONOTONIC. The birth of a thread is in ns since boot, in steps of a clock tick (proc_pid_stat(5),
field 22), which tells apart threads that use the same id one after the other.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from headway.errors import HeadwayError
from headway.linux.options import MeasureOptions, Selection
from headway.model import Ledger

from ..measuring import MeasuringSource
from .measurement import ProcMeasurement

__all__ = ["ProcSource"]


class ProcSource(MeasuringSource[ProcMeasurement]):
    """Ledgers from /proc (proc(5)), for the threads selected (`LinuxSource`)."""

    name = "proc"

    def __init__(
        self,
        selection: Selection,
        options: MeasureOptions = MeasureOptions(),  # noqa: B008
        *,
        forget: bool = False,
        proc: str = "/proc",
        clock: Callable[[], int] = time.monotonic_ns,
        descriptors: int | None = None,
    ) -> None:
        """``clock`` gives ns of CLOCK_MONOTONIC; ``descriptors``: files to keep open at most (None: as can be).

        ``forget``: threads that have ended are in the interval in which they did, and in no reading since `begin`.
        """
        self._selection, self._options = selection, options
        self._forget, self._path, self._clock, self._descriptors = forget, proc, clock, descriptors
        self._last: Ledger | None = None

    def begin(self) -> None:
        """Start measuring. Raises HeadwayError where the selection cannot be measured."""
        if self._selection.cpus is not None:
            raise HeadwayError(
                "/proc does not tell on which processor a thread spent its time: "
                "measuring some processors only needs the eBPF source (run headway as root)"
            )
        _check(self._options, self._selection)
        self._measurement = ProcMeasurement(
            self._selection,
            self._options,
            forget=self._forget,
            proc=self._path,
            clock=self._clock,
            descriptors=self._descriptors,
        )

    def poll_fds(self) -> Iterable[int]:
        """Return none: /proc does not tell when something happens."""
        return ()

    def service(self) -> float | None:
        """Look at every thread once, unless a reading did that just before. Return the seconds until the next look.

        Looking takes 3 % of one processor at most.
        """
        return self._measurement.service() if self._measurement is not None else None

    def wait_until_exit_is_seen(self, pid: int) -> None:
        """Do nothing: a process that has ended is a zombie at once."""

    def read(self) -> Ledger:
        """Return everything since `begin`, as of now; after `end`, as of then."""
        return self._last if self._last is not None else self._running.read()

    def interval(self) -> Ledger:
        """Return what happened since the last `interval`, or since `begin`."""
        return self._running.interval()

    def end_interval(self) -> Ledger:
        """Return what happened since the last `interval`, and measure no more."""
        last = self.interval()
        self.end()
        return last

    def end(self) -> Ledger:
        """Return everything since `begin`, as of now, and measure no more.

        Of a command, call it when it has ended and before it is waited for (waitid(2) with WNOWAIT): the figures of a
        zombie are complete.
        """
        self._last = self.read()
        self.close()
        return self._last


def _check(options: MeasureOptions, selection: Selection) -> None:
    """Raise HeadwayError for options that cannot be followed. What only eBPF can measure is told in the ledger."""
    if options.checks is not None:
        from headway.linux.bpf.polling import checks

        checks.load(options.checks)
    if options.publish:
        raise HeadwayError("threads are told their own progress by eBPF only", "run headway as root")
    if options.functions:
        from headway.linux.regions.functions import resolve

        resolve(options.functions, selection.pids, selection.argv)
