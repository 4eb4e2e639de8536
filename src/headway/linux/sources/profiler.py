"""A source that takes a profile beside its ledger.

The ledger says how much time each thread had in each state, the profile where in the program that was. On the processor
the kernel samples each thread every so many ns of its processor time, into a buffer of the thread's own; an eBPF
program tells the state it was in. Off the processor the eBPF programs add up the time by stack, exactly. Without eBPF
there are only the samples, of user code and of the kernel.
"""

from __future__ import annotations

import os
import struct
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from headway.errors import HeadwayError
from headway.linux.bpf.stacks import Away
from headway.linux.options import MeasureOptions, Selection
from headway.linux.perf.sample_buffer import CPU_CLOCK, DEFAULT_FIELDS, PerfBuffer, Sampling
from headway.linux.perf.sample_buffer import Samples as RawSamples
from headway.linux.perf.sampler import Sampler
from headway.linux.perf.thread_buffers import COMM, FORK, MMAP2
from headway.linux.procfs.maps import Mapping
from headway.linux.symbols.frames import Stacks
from headway.linux.symbols.modules import Modules, Space
from headway.model import Ledger, Profile, SampleColumns

from .choose import may_use_bpf, start_source
from .ebpf import BpfSource
from .source import LinuxSource

__all__ = ["DEFAULT_FREQUENCY", "ProfileSource"]

DEFAULT_FREQUENCY = 997
"""Samples a second of processor time: a prime, so that no period of a program's or of the kernel's falls in step with
it. Ten seconds of processor time are ten thousand samples, which tell a share of a half to within one per cent."""
SERVICE_SECONDS = 0.05
PAGES, PAGES_UNPRIVILEGED = 32, 8
"""Of a thread's buffer: half of it holds the samples of 50 ms and more, whatever the depth of their stacks."""
_KERNEL_MARK, _USER_MARK = (1 << 64) - 128, (1 << 64) - 512  # PERF_CONTEXT_KERNEL, PERF_CONTEXT_USER
_MARKS = (1 << 64) - 4095
_MMAP2_HEAD = struct.Struct("=IIQQQIIQQII")
_MISC_EXEC = 1 << 13  # PERF_RECORD_MISC_COMM_EXEC
_SAMPLE_ID = struct.Struct("=IIQ")  # behind every record that is no sample: pid, tid, time


class ProfileSource:
    """Measures a selection of threads, and samples them (`LinuxSource`); `profile` after `end`.

    ``frequency``: samples a second of each thread's processor time.
    """

    def __init__(
        self,
        selection: Selection,
        options: MeasureOptions = MeasureOptions(),  # noqa: B008
        *,
        prefer: str | None = None,
        frequency: int = DEFAULT_FREQUENCY,
    ) -> None:
        self._selection, self._prefer = selection, prefer
        self.name = "bpf"
        self._options = replace(options, stacks=True)
        self.period = max(1_000_000_000 // frequency, 1)
        """ns of processor time from one sample to the next."""
        self.why_not_exact = ""
        """Why eBPF is not used; empty: it is."""
        self._source: LinuxSource | None = None
        self._sampler: Sampler | None = None
        self._modules = Modules()
        self._stacks = Stacks(self._modules)
        self._spaces: dict[int, Space] = {}
        self._taken: list[tuple[RawSamples, list[int]]] = []
        self._notes: list[str] = []
        self._most = _max_stack()
        self._ledger: Ledger | None = None
        self._away: list[Away] = []

    def begin(self) -> None:
        """Start measuring and sampling. Raises HeadwayError; then nothing is left attached."""
        try:
            self._source, self.why_not_exact = start_source(self._selection, self._prefer, options=self._options)
            self.name = self._source.name
            if self.why_not_exact:
                self._notes.append(
                    f"no eBPF ({self.why_not_exact}): states are user and kernel only, and time off the "
                    "processor has no stacks"
                )
            self._sampler = self._begin_sampling()
        except BaseException:
            self.close()
            raise

    def _begin_sampling(self) -> Sampler:
        selection, source = self._selection, self._source
        pids, tids = list(selection.pids), list(selection.tids)
        if selection.command is not None:
            pids.append(selection.command)
        if selection.everything or selection.name or selection.cgroup:
            if not isinstance(source, BpfSource):
                raise HeadwayError(
                    "without eBPF a profile is of processes (-p), threads (-t) or a command: run headway as root"
                )
            tids += [tid for tid, _, _ in source.living()]
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
        stacks = self._source.stacks if isinstance(self._source, BpfSource) else None
        if stacks is not None:
            stacks.attach(buffer.fd)
        self._space(buffer.pid or self._pid_of(buffer.tid))

    def _pid_of(self, tid: int) -> int:
        from headway.linux.procfs.ids import process_of

        return process_of(tid) or tid

    def _space(self, pid: int) -> Space:
        if pid not in self._spaces:
            self._spaces[pid] = self._modules.space(pid)
            self._stacks.know(pid)
        return self._spaces[pid]

    # ---- while it runs ----

    def poll_fds(self) -> Iterable[int]:
        """Readable when the source has work, or threads have come."""
        assert self._source is not None
        return [*self._source.poll_fds(), *(self._sampler.fds if self._sampler is not None else ())]

    def service(self) -> float | None:
        """Find new threads, and look into the buffers that are due."""
        assert self._source is not None
        wanted = self._source.service()
        if self._sampler is not None:
            self._sampler.update()
            self._sampler.step(time.monotonic_ns())
            self._take()
        return min(SERVICE_SECONDS, wanted) if wanted is not None else SERVICE_SECONDS

    def _take(self) -> None:
        """What was collected, in the order of time, with what the kernel told of processes at its place among it."""
        assert self._sampler is not None
        told = [
            (_SAMPLE_ID.unpack(body[-16:])[2], kind, misc, body)
            for kind, misc, body in self._sampler.told.others()
            if len(body) >= 24 and kind in (COMM, FORK, MMAP2)
        ]
        self._sampler.told.clear()
        told.sort(key=lambda row: row[0])
        samples = self._sampler.tray.samples(DEFAULT_FIELDS)
        self._sampler.tray.clear()
        order = np.argsort(samples.time, kind="stable")
        times = samples.time[order]
        numbers = [-1] * len(order)
        at = 0
        for moment, kind, misc, body in told:
            until = int(np.searchsorted(times, moment))
            self._intern(samples, order, numbers, at, until)
            at = max(at, until)
            self._hear(kind, misc, body)
        self._intern(samples, order, numbers, at, len(order))
        if len(order):
            self._taken.append((samples, numbers))

    def _intern(self, samples: RawSamples, order: np.ndarray, numbers: list[int], start: int, end: int) -> None:
        for i in order[start:end].tolist():
            chain = samples.frames[samples.first[i] : samples.first[i + 1]].tolist()
            pid = int(samples.pid[i])
            kernel, user = _divided(chain)
            numbers[i] = self._stacks.add(self._space(pid), user, kernel, most=self._most)

    def _hear(self, kind: int, misc: int, body: bytes) -> None:
        if kind == MMAP2 and len(body) >= _MMAP2_HEAD.size:
            pid, _, start, length, offset, _, _, inode, _, protection, _ = _MMAP2_HEAD.unpack_from(body)
            if pid not in self._spaces or not protection & 4:  # PROT_EXEC
                return
            path = os.fsdecode(body[_MMAP2_HEAD.size : -16].partition(b"\0")[0])
            mapping = Mapping(start, start + length, "r-xp", offset, inode, path, False)
            space = self._spaces[pid]
            if space.replaces(mapping):  # what was known of addresses there was of something else
                space = self._spaces[pid] = space.copy(pid)
            space.add(mapping)
        elif kind == COMM and misc & _MISC_EXEC:
            pid = struct.unpack_from("=I", body)[0]
            if pid in self._spaces:
                self._spaces[pid] = Space(pid, self._modules)
                self._stacks.know(pid)
        elif kind == FORK:
            pid, parent = struct.unpack_from("=II", body)
            if pid != parent and parent in self._spaces:
                self._spaces[pid] = self._spaces[parent].copy(pid)
                self._stacks.know(pid)

    def wait_until_exit_is_seen(self, pid: int) -> None:
        """Wait until a process that has ended is seen to have ended."""
        assert self._source is not None
        self._source.wait_until_exit_is_seen(pid)

    # ---- at the end ----

    def read(self) -> Ledger:
        """The ledger so far."""
        assert self._source is not None
        return self._source.read()

    def interval(self) -> Ledger:
        """The ledger since the last one; the profile is of all of the time."""
        assert self._source is not None
        return self._source.interval()

    def end(self) -> Ledger:
        """The ledger of all of the time; from now on nothing is measured, and `profile` can be had."""
        assert self._source is not None
        self._ledger = self._source.end()
        if self._sampler is not None:
            self._sampler.finish()
            self._take()
        if isinstance(self._source, BpfSource) and self._source.stacks is not None:
            self._away = list(self._source.stacks.away(self._ledger.window.end))
        return self._ledger

    def end_interval(self) -> Ledger:
        """Not of a profile: its ledger is of all of the time."""
        return self.end()

    def profile(self) -> Profile:
        """What was sampled and added up until `end`, with names. May take seconds: symbols are read now."""
        ledger = self._ledger
        assert ledger is not None
        numbers = {thread.key: i for i, thread in enumerate(ledger.threads)}
        states: dict[str, int] = {}
        rows: list[tuple[int, int, int, int, int, int, int]] = []
        by_birth = {thread.birth: i for i, thread in enumerate(ledger.threads)}
        for away in self._away:
            thread = numbers.get((away.tid, away.birth), by_birth.get(away.birth, -1))
            stack = -1
            if away.known:
                space = self._spaces.get(away.pid)
                stack = self._stacks.add(space, away.user, away.kernel, most=self._most, left=True)
            state = states.setdefault(away.state, len(states))
            rows.append((ledger.window.end, thread, -1, state, away.time, away.count, stack))
        unmatched, outside = self._add_samples(rows, states, ledger)
        stacks, frames = self._stacks.resolve()
        weights: Counter[int] = Counter()
        for row in rows:
            weights[row[6]] += row[4]
        lost = self._sampler.losses if self._sampler is not None else None
        losses = {
            "samples_lost": lost.samples if lost else 0,
            "samplings_throttled": lost.throttled if lost else 0,
            "buffers_damaged": lost.damaged if lost else 0,
            "threads_not_sampled": lost.unseen_threads if lost else 0,
            "ns_before_sampling_began": lost.late_ns if lost else 0,
            "samples_outside_the_window": outside,
            "samples_without_their_state": unmatched,
            "ns_without_a_stack": sum(row[4] for row in rows if row[6] < 0),
        }
        return Profile(
            ledger=ledger,
            samples=SampleColumns.of(rows),
            states=tuple(states),
            stacks=stacks,
            frames=frames,
            period=self.period,
            losses=losses,
            notes=(*self._notes, *self._stacks.describe(weights)),
        )

    def _add_samples(
        self, rows: list[tuple[int, int, int, int, int, int, int]], states: dict[str, int], ledger: Ledger
    ) -> tuple[int, int]:
        """Adds a row for each sample; how many had to do without their state, and how many were not of the window."""
        reader = self._source.stacks if isinstance(self._source, BpfSource) else None
        lives: dict[int, list[tuple[int, int, int]]] = {}
        for i, thread in enumerate(ledger.threads):
            lives.setdefault(thread.tid, []).append((thread.start, thread.until, i))
        unmatched = outside = 0
        for samples, stacks in self._taken:
            if reader is not None:
                found, names = reader.states(samples.time, samples.tid, self.period // 2)
                known = [names[number] for number in found.tolist()]
            else:
                known = [""] * len(stacks)
            columns = zip(
                samples.time.tolist(), samples.tid.tolist(), samples.cpu.tolist(), samples.kernel.tolist(),
                samples.period.tolist(), known, stacks, strict=True,
            )  # fmt: skip
            for moment, tid, cpu, kernel, period, state, stack in columns:
                if not ledger.window.start <= moment < ledger.window.end:
                    outside += 1
                    continue
                number = next((i for start, until, i in lives.get(tid, ()) if start <= moment <= until), -1)
                if not state:
                    if reader is not None and number < 0:  # of a command before it is executed
                        outside += 1
                        continue
                    unmatched += reader is not None
                    state = "kernel" if kernel else "user"
                named = states.setdefault(state, len(states))
                rows.append((moment, number, cpu, named, period, 1, stack))
        return unmatched, outside

    def close(self) -> None:
        """Detach and free everything; may be called again."""
        if self._sampler is not None:
            self._sampler.close()
        if self._source is not None:
            self._source.close()
        if self._ledger is None:
            self._modules.close()


def _divided(chain: list[int]) -> tuple[list[int], list[int]]:
    """The kernel's frames and the user's of a call chain, without the marks between them."""
    kernel: list[int] = []
    user: list[int] = []
    into = user
    for address in chain:
        if address >= _MARKS:
            into = kernel if address == _KERNEL_MARK else user if address == _USER_MARK else []
        else:
            into.append(address)
    return kernel, user


def _max_stack() -> int:
    try:
        with open("/proc/sys/kernel/perf_event_max_stack") as file:
            return int(file.read())
    except (OSError, ValueError):
        return 127
