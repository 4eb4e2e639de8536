"""The source for users without privileges: what /proc tells of every thread, looked at again and again.

How much of it is exact. Run time and run-queue time come from ``schedstat``, in ns, as of the scheduler's last update
(a tick ago at most, for a thread that is on a processor; complete for every other). Time that is neither is waiting. So
the division of a thread's life into running, ready and waiting is the kernel's own; what is sampled is the division of
the running into user and kernel (the kernel samples it at its tick) and that of the waiting by reason (what the thread
was found waiting for at a look). Regions that the program marks are taken out of user time
(`headway.linux.regions.marked`).

What cannot be seen is counted. Threads come and go between two looks, and the last slice of a thread that ends may be
missed; but the clock of their process holds their time too, and a parent is told the time of the children that it waits
for. What these say beyond what was seen is in the losses, not in any thread's cells.

Times are ns of CLOCK_MONOTONIC; the birth of a thread is in ns since boot, in steps of a clock tick (proc_pid_stat(5),
field 22), which tells apart threads that use the same id one after the other.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from headway.errors import HeadwayError
from headway.linux.options import MeasureOptions, Selection
from headway.model import Ledger

from .measurement import ProcMeasurement

__all__ = ["ProcSource"]


class ProcSource:
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
        self._measurement: ProcMeasurement | None = None
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

    @property
    def _running(self) -> ProcMeasurement:
        if self._measurement is None:
            raise RuntimeError("nothing is measured: begin() comes first, and nothing after end()")
        return self._measurement

    def poll_fds(self) -> Iterable[int]:
        """None: /proc tells nobody that something happened."""
        return ()

    def service(self) -> float | None:
        """Look at every thread once; seconds until the next look, so that looking takes 3 % of a processor at most.

        Not if that was done just before, by a reading.
        """
        return self._measurement.service() if self._measurement is not None else None

    def wait_until_exit_is_seen(self, pid: int) -> None:
        """Nothing to wait for: a process that has ended is a zombie at once."""

    def read(self) -> Ledger:
        """Everything since `begin`, as of now; after `end`, as of then."""
        return self._last if self._last is not None else self._running.read()

    def interval(self) -> Ledger:
        """What happened since the last `interval`, or since `begin`."""
        return self._running.interval()

    def end_interval(self) -> Ledger:
        """What happened since the last `interval`, and measure no more."""
        last = self.interval()
        self.end()
        return last

    def end(self) -> Ledger:
        """Everything since `begin`, as of now, and measure no more.

        Of a command, call it when it has ended and before it is waited for (waitid(2) with WNOWAIT): the figures of a
        zombie are complete.
        """
        self._last = self.read()
        self.close()
        return self._last

    def close(self) -> None:
        """Let go of all files; may be called at any time, more than once."""
        if self._measurement is not None:
            self._measurement.close()
            self._measurement = None


def _check(options: MeasureOptions, selection: Selection) -> None:
    """Refuse what no source could follow; what only another source can is said in the ledger. Raises SelectionError."""
    from headway.linux.bpf import checks

    checks.load(options.checks)
    if options.functions:
        from headway.linux.regions.functions import resolve

        resolve(options.functions, selection.pids, selection.argv)
