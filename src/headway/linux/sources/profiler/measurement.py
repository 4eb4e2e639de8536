"""One measurement with a profile: it runs a source, and a sampler of the same threads beside it."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import ExitStack, closing
from dataclasses import replace

from headway.errors import HeadwayError
from headway.linux.options import MeasureOptions, Selection
from headway.linux.perf.sample_buffer import CPU_CLOCK, PerfBuffer, Sampling
from headway.linux.perf.sampler import Sampler
from headway.linux.procfs.ids import process_of

from ..choose import may_use_bpf, start_source
from ..ebpf import BpfSource
from .assembling import FinishedProfile
from .samples import SampleLog
from .spaces import Spaces

__all__ = ["ProfileMeasurement"]

SERVICE_SECONDS = 0.05
PAGES, PAGES_UNPRIVILEGED = 32, 8
"""Of a thread's buffer: half of it holds the samples of 50 ms and more, whatever the depth of their stacks."""


class ProfileMeasurement:
    """What was selected is measured and sampled from the moment at which this exists; `close` in any case.

    ``period``: ns of processor time from one sample to the next. Raises HeadwayError; then nothing is left attached.
    """

    def __init__(self, selection: Selection, options: MeasureOptions, prefer: str | None, period: int) -> None:
        self.period = period
        self._notes: list[str] = []
        with ExitStack() as stack:
            self._spaces = Spaces()
            self._log = SampleLog(self._spaces)
            files = stack.enter_context(ExitStack())  # apart: a finished profile keeps them
            files.callback(self._spaces.close)
            self.source, why_not_exact = start_source(selection, prefer, options=options)
            stack.callback(self.source.close)
            self._states = self.source.stacks if isinstance(self.source, BpfSource) else None
            if why_not_exact:
                self._notes.append(
                    f"no eBPF ({why_not_exact}): states are user and kernel only, and time off the "
                    "processor has no stacks"
                )
            self._sampler = stack.enter_context(closing(self._sample(selection)))
            self._files = files
            self._resources = stack.pop_all()

    def _sample(self, selection: Selection) -> Sampler:
        """Begin to sample what the source measures, the kernel too where that may be."""
        pids, tids = list(selection.pids), list(selection.tids)
        if selection.command is not None:
            pids.append(selection.command)
        if selection.everything or selection.name or selection.cgroup:
            if not isinstance(self.source, BpfSource):
                raise HeadwayError(
                    "without eBPF a profile is of processes (-p), threads (-t) or a command: run headway as root"
                )
            tids += [thread.tid for thread in self.source.living()]
        sampling = Sampling(frequency=0, period=self.period, pages=PAGES if may_use_bpf() else PAGES_UNPRIVILEGED)
        try:
            return Sampler(pids, sampling, tids=tids, opened=self._opened)
        except HeadwayError:
            if may_use_bpf():
                raise
        user_only = replace(CPU_CLOCK, exclude_kernel=True, exclude_hv=True)
        allowed = replace(sampling, event=user_only, kernel_stacks=False)
        sampler = Sampler(pids, allowed, tids=tids, opened=self._opened)
        self._notes.append("the kernel was not sampled: kernel.perf_event_paranoid allows user code only")
        return sampler

    def _opened(self, buffer: PerfBuffer) -> None:
        """Have the states of a thread's samples told, and know what its process has mapped."""
        if self._states is not None:
            self._states.attach(buffer.fd)
        self._spaces.of(buffer.pid or process_of(buffer.tid) or buffer.tid)

    def poll_fds(self) -> Iterable[int]:
        """Return descriptors that are readable when the source has work, or threads have come."""
        return [*self.source.poll_fds(), *self._sampler.fds]

    def service(self) -> float:
        """Find new threads, and look into the buffers that are due. Return the seconds until the next time."""
        wanted = self.source.service()
        self._sampler.update()
        self._sampler.step(time.monotonic_ns())
        self._log.take(self._sampler)
        return min(SERVICE_SECONDS, wanted) if wanted is not None else SERVICE_SECONDS

    def finish(self) -> FinishedProfile:
        """End the measurement. Return all that was collected; the files of its symbols stay open."""
        ledger = self.source.end()
        self._sampler.finish()
        self._log.take(self._sampler)
        away = () if self._states is None else tuple(self._states.away(ledger.window.end))
        finished = FinishedProfile(
            ledger, self._log, self._spaces, self._states, away, self._sampler.losses, self.period, self._notes
        )
        self._files.pop_all()
        return finished

    def close(self) -> None:
        """Detach and free everything; may be called again."""
        self._resources.close()
