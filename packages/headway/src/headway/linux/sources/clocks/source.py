"""The source at the level `clocks`: no program of it runs at anything that happens often.

**What is exact.** The scheduler counts how long each thread ran and was ready. A look reads these clocks of all
threads as of one moment, and the rest of a thread's life is waiting. So the kernel itself divides a life, to the
nanosecond of its clocks. The programs are told of births and ends, so no thread is lost, however short it lives.

**What is sampled.** The kernel samples at its tick how processor time divides into user and kernel. A look samples what
each thread waits for.

The cost depends on how many threads there are and how often they are looked at, and not on what they do. Where eBPF is
not possible, `ProcSource` reads the same clocks out of /proc, less often and without births and ends.
"""

from __future__ import annotations

from collections.abc import Iterable

from headway.errors import HeadwayError
from headway.linux.bpf.programs import loading
from headway.linux.bpf.programs.libbpf import BpfError
from headway.linux.bpf.programs.refusals import explain
from headway.linux.options import MeasureOptions, Selection
from headway.model import Ledger

from ..measuring import MeasuringSource
from .measurement import ClockMeasurement

__all__ = ["ClockSource"]


class ClockSource(MeasuringSource[ClockMeasurement]):
    """Ledgers of the kernel's clocks, for the threads selected (`LinuxSource`).

    ``intervals``: `interval` will be called. ``forget``: threads that have ended are in the interval in which they did,
    and in no reading since `begin`. Times are ns of CLOCK_MONOTONIC.
    """

    name = "bpf"

    def __init__(
        self,
        selection: Selection,
        options: MeasureOptions = MeasureOptions(),  # noqa: B008
        *,
        intervals: bool = False,
        forget: bool = False,
    ) -> None:
        self._selection, self._options = selection, options
        self._intervals, self._forget = intervals, forget
        self._last: Ledger | None = None

    def begin(self) -> None:
        """Load, attach and start measuring. Raises HeadwayError; then nothing is left attached."""
        if self._selection.cpus is not None:
            raise HeadwayError(
                "the kernel's clocks do not tell on which processor a thread spent its time: "
                "-C needs --level switches or more"
            )
        if self._options.publish:
            raise HeadwayError(
                "the kernel's clocks cannot tell threads their progress: publishing needs the level switches or more"
            )
        try:
            with loading.files_as_allowed():
                self._measurement = ClockMeasurement(
                    self.name, self._selection, self._options, intervals=self._intervals, forget=self._forget
                )
                self._measurement.begin()
        except BpfError as error:
            raise explain(error) from None

    def poll_fds(self) -> Iterable[int]:
        """Return the descriptor of the ring of ended threads: readable when many have ended."""
        return self._running.poll_fds() if self._measurement is not None else ()

    def service(self) -> float | None:
        """Look at every thread if it is time to. Return the seconds until the next look."""
        return self._measurement.service() if self._measurement is not None else None

    def wait_until_exit_is_seen(self, pid: int) -> None:
        """Wait until the kernel has told of the end of all threads of a process that has ended."""
        self._running.wait_until_exit_is_seen(pid)

    def read(self) -> Ledger:
        """Return everything since `begin`, as of now; after `end`, as of then."""
        return self._last if self._last is not None else self._running.read()

    def interval(self) -> Ledger:
        """Return what happened since the last `interval`, or since `begin`."""
        return self._running.interval()

    def end(self) -> Ledger:
        """Return everything since `begin`, as of now, and measure no more."""
        self._last = self.read()
        self.close()
        return self._last

    def end_interval(self) -> Ledger:
        """Return what happened since the last `interval`, and measure no more."""
        last = self.interval()
        self._last = self._running.read()
        self.close()
        return last

    @property
    def tells_without_privileges(self) -> bool:
        """Whether the kernel lets a look begin without CAP_BPF: before 5.19 it may not (commit c8644cd0efe7)."""
        return self._running.tells_without_privileges
