"""One measurement with a profile: it runs a source, and a sampler of the same threads beside it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from contextlib import ExitStack, closing
from dataclasses import replace

from headway.dataclass import dataclass
from headway.errors import HeadwayError
from headway.linux import time_namespace
from headway.linux.bpf.samples.stacks import StackReader
from headway.linux.options import MeasureOptions, Selection
from headway.linux.perf.sample_buffer import CPU_CLOCK, PAGE, PerfBuffer, Sampling
from headway.linux.perf.sampler import DEFAULT_POLICY, POLICIES, Sampler
from headway.linux.procfs.descendants import descendants
from headway.linux.procfs.ids import process_of
from headway.linux.symbols.code import UserCode
from headway.model import Collection

from ..choose import may_use_bpf, start_source
from ..ebpf import BpfSource
from .assembling import FinishedProfile
from .samples import SampleLog
from .spaces import Spaces

__all__ = ["Buffers", "ProfileMeasurement"]

PAGES, PAGES_UNPRIVILEGED = 32, 8
"""Of a thread's buffer: half of it holds the samples of 50 ms and more, whatever the depth of their stacks."""
SHORTEST, LONGEST = 0.001, 1.0
"""The shortest and the longest time in seconds between two looks for what the kernel told."""
_FIXED_PART, _FRAME, _MARKS = 64, 8, 8
"""Bytes of a sample beside its stack and of a frame; marks in a stack (perf_event_max_contexts_per_stack)."""


@dataclass(frozen=True, slots=True)
class Buffers:
    """How samples wait to be collected: the user's choice."""

    policy: str = DEFAULT_POLICY
    """One of `POLICIES`: when to look into a thread's buffer."""
    capacity: int = 0
    """The size of a thread's buffer in bytes, rounded up to a power of two of pages; 0: as is usual."""

    @property
    def pages(self) -> int:
        """The number of pages of a buffer."""
        if not self.capacity:
            return PAGES if may_use_bpf() else PAGES_UNPRIVILEGED
        return 1 << (-(-self.capacity // PAGE) - 1).bit_length()


class ProfileMeasurement:
    """What was selected is measured and sampled from the moment at which this exists; `close` in any case.

    ``period``: ns of processor time from one sample to the next. ``spin``: find user code that spins.
    ``java_maps``: have Java write its perf maps at the end. Raises HeadwayError; then nothing is left attached.
    """

    def __init__(
        self,
        selection: Selection,
        options: MeasureOptions,
        prefer: str | None,
        period: int,
        buffers: Buffers,
        *,
        spin: bool = False,
        java_maps: bool = False,
    ) -> None:
        self.period, self._selection, self._java_maps = period, selection, java_maps
        self._code = UserCode() if spin else None
        self._buffers = buffers
        self._collecting_ns = self._stacks_ns = 0
        self._notes: list[str] = []
        with ExitStack() as stack:
            self._spaces = Spaces()
            self._log = SampleLog(self._spaces, self._code, tolerance=period // 2)
            files = stack.enter_context(ExitStack())  # apart: a finished profile keeps them
            files.callback(self._spaces.close)
            children = descendants(selection.pids) if selection.descendants else ()
            chosen = [*selection.pids, *children, *(process_of(tid) or tid for tid in selection.tids)]
            if selection.everything or selection.name or selection.cgroup:
                chosen += [int(name) for name in os.listdir("/proc") if name.isdigit()]
            if options.unwind and may_use_bpf():
                self._spaces.prepare(chosen)
                if selection.argv:
                    self._spaces.expect(selection.command or os.getpid(), selection.argv)

            def prepared(stacks: StackReader) -> None:
                if stacks.tables is not None:
                    stacks.tables.files = self._spaces.files
                    self._spaces.tables, self._log.walks = stacks.tables, stacks
                    self._spaces.stacks.python = stacks.python
                    self._spaces.begin(chosen)

            self.source, why_not_exact = start_source(selection, prefer, options=options, prepared=prepared)
            stack.callback(self.source.close)
            self._states = self.source.stacks if isinstance(self.source, BpfSource) else None
            if why_not_exact:
                self._notes.append(
                    f"no eBPF ({why_not_exact}): states are user and kernel only, and time off the "
                    "processor has no stacks"
                )
            self._sampler = stack.enter_context(closing(self._sample(selection)))
            self._spaces.begin(chosen)  # once more: from now on the kernel tells of changes
            self._files = files
            self._resources = stack.pop_all()

    def _sample(self, selection: Selection) -> Sampler:
        """Begin to sample what the source measures, the kernel too where that may be."""
        pids = [*selection.pids, *(descendants(selection.pids) if selection.descendants else ())]
        tids = list(selection.tids)
        if selection.command is not None:
            pids.append(selection.command)
        if selection.everything or selection.name or selection.cgroup:
            if not isinstance(self.source, BpfSource):
                raise HeadwayError(
                    "without eBPF a profile is of processes (-p), threads (-t) or a command: run headway as root"
                )
            tids += [thread.tid for thread in self.source.living()]
        time_namespace.must_leave()
        sampling = Sampling(
            frequency=0, period=self.period, pages=self._buffers.pages, user_stacks=self._log.walks is None
        )
        policy = POLICIES[self._buffers.policy]
        largest = _FIXED_PART + _FRAME * (self._log.max_stack + _MARKS)
        samples = sampling.capacity // 2 // largest
        self._half_full = min(max(samples * self.period / 1e9, SHORTEST), LONGEST)
        try:
            return Sampler(pids, sampling, tids=tids, policy=policy, opened=self._opened)
        except HeadwayError:
            if may_use_bpf():
                raise
        user_only = replace(CPU_CLOCK, exclude_kernel=True, exclude_hv=True)
        allowed = replace(sampling, event=user_only, kernel_stacks=False)
        sampler = Sampler(pids, allowed, tids=tids, policy=policy, opened=self._opened)
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
        """Find new threads, and look into the buffers that are due. Return the seconds until the next time.

        Where the kernel tells of full buffers, it tells only the first who asks (perf_poll), so nobody else may wait
        for the files of the buffers. It is asked before any thread can have filled its second half.
        """
        wanted = self.source.service()
        began = time.thread_time_ns()
        self._sampler.update()
        self._sampler.step(time.monotonic_ns())
        self._take(began)
        planned = self._sampler.pause()
        pause = self._half_full if planned is None else min(max(planned, SHORTEST), LONGEST)
        return pause if wanted is None else min(pause, wanted)

    def finish(self) -> FinishedProfile:
        """End the measurement. Return all that was collected; the files of its symbols stay open."""
        ledger = self.source.end()
        began = time.thread_time_ns()
        self._sampler.finish()
        self._take(began)
        if self._selection.command is not None:
            self._spaces.remember()
        if self._java_maps:
            self._notes += self._spaces.write_java_maps()
        if self._spaces.tables is not None:
            self._notes += self._spaces.tables.pythons.problems.values()
        away = () if self._states is None else tuple(self._states.away(ledger.window.end))
        finished = FinishedProfile(
            ledger, self._log, self._spaces, self._states, away, self._sampler.losses, self.period, self._notes,
            self._collection(), self._code,
        )  # fmt: skip
        self._files.pop_all()
        return finished

    def _take(self, began: int) -> None:
        """Take what was collected since ``began`` (ns of this thread's processor time), and note what both cost."""
        collected = time.thread_time_ns()
        self._log.take(self._sampler)
        self._collecting_ns += collected - began
        self._stacks_ns += time.thread_time_ns() - collected

    def _collection(self) -> Collection:
        figures = self._sampler.figures
        return Collection(
            policy=self._buffers.policy,
            capacity=self._sampler.sampling.capacity,
            looks=figures.looks,
            drains=figures.drains,
            useful=figures.useful,
            last_drains=self._sampler.last_drains,
            clock_reads=figures.clock_reads,
            wakeups=figures.wakeups,
            collecting_ns=self._collecting_ns,
            stacks_ns=self._stacks_ns,
        )

    def close(self) -> None:
        """Detach and free everything; may be called again."""
        self._resources.close()
