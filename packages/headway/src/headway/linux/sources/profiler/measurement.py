"""One measurement with a profile: it runs a source, and a sampler of the same threads beside it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack, closing
from dataclasses import replace

from headway.dataclass import dataclass
from headway.errors import HeadwayError
from headway.linux import time_namespace
from headway.linux.bpf.samples.stacks import StackReader
from headway.linux.options import MeasureOptions, Selection
from headway.linux.perf.sample_buffer import CPU_CLOCK, NOTHING, PAGE, PerfBuffer, Sampling
from headway.linux.perf.sampler import DEFAULT_POLICY, POLICIES, Sampler
from headway.linux.procfs.descendants import descendants
from headway.linux.procfs.ids import process_of
from headway.linux.symbols.code import UserCode
from headway.model import Collection, Ledger

from ..choose import may_use_bpf
from ..ebpf import BpfSource
from ..source import LinuxSource
from .assembling import FinishedProfile
from .samples import SampleLog
from .spaces import Spaces

__all__ = ["Buffers", "Prepared", "ProfileMeasurement"]

Prepared = Callable[[StackReader], None]
"""Called with the reader of stacks, just before measuring begins."""

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

    ``start``: starts the source of the ledger, and returns why it is not the exact one (empty: it is). ``period``: ns
    of processor time from one sample to the next; 0: threads are followed, and not sampled. ``spin``: find user code
    that spins. ``java_maps``: have Java write its perf maps at the end. Raises HeadwayError; then nothing is left
    attached.
    """

    def __init__(
        self,
        selection: Selection,
        options: MeasureOptions,
        start: Callable[[Prepared], tuple[LinuxSource, str]],
        period: int,
        buffers: Buffers,
        *,
        spin: bool = False,
        java_maps: bool = False,
    ) -> None:
        self.period, self._selection, self._java_maps, self.spaces = period, selection, java_maps, Spaces()
        self._code = UserCode() if spin else None
        self._buffers = buffers
        self._collecting_ns = self._stacks_ns = 0
        self.notes: list[str] = []
        with ExitStack() as stack:
            self.log = SampleLog(self.spaces, self._code, tolerance=period // 2)
            files = stack.enter_context(ExitStack())  # apart: a finished profile keeps them
            files.callback(self.spaces.close)
            children = descendants(selection.pids) if selection.descendants else ()
            chosen = [*selection.pids, *children, *(process_of(tid) or tid for tid in selection.tids)]
            if selection.everything or selection.name or selection.cgroup:
                chosen += [int(name) for name in os.listdir("/proc") if name.isdigit()]
            if options.unwind and may_use_bpf():
                self.spaces.prepare(chosen)
                if selection.argv:
                    self.spaces.expect(selection.command or os.getpid(), selection.argv)

            def prepared(stacks: StackReader) -> None:
                if stacks.tables is not None:
                    stacks.tables.files = self.spaces.files
                    self.spaces.tables, self.log.walks = stacks.tables, stacks
                    self.spaces.stacks.python = stacks.python
                    self.spaces.begin(chosen)

            self.source, why_not_exact = start(prepared)
            stack.callback(self.source.close)
            self.states = self.source.stacks if isinstance(self.source, BpfSource) else None
            if why_not_exact:
                self.notes.append(
                    f"no eBPF ({why_not_exact}): states are user and kernel only, and time off the "
                    "processor has no stacks"
                )
            self.sampler = stack.enter_context(closing(self._sample(selection)))
            self.spaces.begin(chosen)  # once more: from now on the kernel tells of changes
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
        event = CPU_CLOCK if self.period else NOTHING
        sampling = Sampling(
            event=event, frequency=0, period=self.period, pages=self._buffers.pages, user_stacks=self.log.walks is None
        )
        policy = POLICIES[self._buffers.policy]
        largest = _FIXED_PART + _FRAME * (self.log.max_stack + _MARKS)
        samples = sampling.capacity // 2 // largest
        self._half_full = min(max(samples * self.period / 1e9, SHORTEST), LONGEST) if self.period else LONGEST
        try:
            return Sampler(pids, sampling, tids=tids, policy=policy, opened=self._opened)
        except HeadwayError:
            if may_use_bpf():
                raise
        user_only = replace(CPU_CLOCK, exclude_kernel=True, exclude_hv=True)
        allowed = replace(sampling, event=user_only, kernel_stacks=False)
        sampler = Sampler(pids, allowed, tids=tids, policy=policy, opened=self._opened)
        self.notes.append("the kernel was not sampled: kernel.perf_event_paranoid allows user code only")
        return sampler

    def _opened(self, buffer: PerfBuffer) -> None:
        """Have the states of a thread's samples told, and know what its process has mapped."""
        if self.states is not None and self.period:
            self.states.attach(buffer.fd)
        self.spaces.of(buffer.pid or process_of(buffer.tid) or buffer.tid)

    def poll_fds(self) -> Iterable[int]:
        """Return descriptors that are readable when the source has work, or threads have come."""
        return [*self.source.poll_fds(), *self.sampler.fds]

    def service(self) -> float:
        """Find new threads, and look into the buffers that are due. Return the seconds until the next time.

        Where the kernel tells of full buffers, it tells only the first who asks (perf_poll), so nobody else may wait
        for the files of the buffers. It is asked before any thread can have filled its second half.
        """
        wanted = self.source.service()
        began = time.thread_time_ns()
        self.sampler.update()
        self.sampler.step(time.monotonic_ns())
        self._take(began)
        planned = self.sampler.pause()
        pause = self._half_full if planned is None else min(max(planned, SHORTEST), LONGEST)
        return pause if wanted is None else min(pause, wanted)

    def stop(self) -> Ledger:
        """End the measurement. Return its ledger."""
        ledger = self.source.end()
        began = time.thread_time_ns()
        self.sampler.finish()
        self._take(began)
        if self._selection.command is not None:
            self.spaces.remember()
        if self._java_maps:
            self.notes += self.spaces.write_java_maps()
        if self.spaces.tables is not None:
            self.notes += self.spaces.tables.pythons.problems.values()
        return ledger

    def finish(self) -> FinishedProfile:
        """End the measurement. Return all that was collected; the files of its symbols stay open."""
        ledger = self.stop()
        away = () if self.states is None else tuple(self.states.away(ledger.window.end))
        finished = FinishedProfile(
            ledger, self.log, self.spaces, self.states, away, self.sampler.losses, self.period, self.notes,
            self.collection(), self._code,
        )  # fmt: skip
        self._files.pop_all()
        return finished

    def follow(self) -> None:
        """Take what the kernel has told until now of threads and of their mappings."""
        began = time.thread_time_ns()
        self.sampler.update()
        self._take(began)

    def _take(self, began: int) -> None:
        """Take what was collected since ``began`` (ns of this thread's processor time), and note what both cost."""
        collected = time.thread_time_ns()
        self.log.take(self.sampler)
        self._collecting_ns += collected - began
        self._stacks_ns += time.thread_time_ns() - collected

    def collection(self) -> Collection:
        """Return how samples were collected, and what that cost."""
        figures = self.sampler.figures
        return Collection(
            policy=self._buffers.policy,
            capacity=self.sampler.sampling.capacity,
            looks=figures.looks,
            drains=figures.drains,
            useful=figures.useful,
            last_drains=self.sampler.last_drains,
            clock_reads=figures.clock_reads,
            wakeups=figures.wakeups,
            collecting_ns=self._collecting_ns,
            stacks_ns=self._stacks_ns,
        )

    def close(self) -> None:
        """Detach and free everything; may be called again."""
        self._resources.close()
