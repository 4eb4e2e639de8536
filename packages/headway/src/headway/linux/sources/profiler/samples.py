"""Take samples out of the buffers, each with the number of its stack."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np

from headway.linux.bpf.samples.stacks import StackReader
from headway.linux.perf.sample_buffer import DEFAULT_FIELDS
from headway.linux.perf.sample_buffer import Samples as RawSamples
from headway.linux.perf.sampler import Sampler
from headway.linux.symbols.code import UserCode
from headway.linux.symbols.walked import Walked

from .spaces import CHANGES, Spaces

__all__ = ["SampleLog"]

_KERNEL_MARK, _USER_MARK = (1 << 64) - 128, (1 << 64) - 512  # PERF_CONTEXT_KERNEL, PERF_CONTEXT_USER
_MARKS = (1 << 64) - 4095
_SAMPLE_ID = struct.Struct("=IIQ")  # behind every record that is no sample: pid, tid, time


class SampleLog:
    """The samples so far; their stacks are in the stacks of ``spaces``."""

    def __init__(self, spaces: Spaces, code: UserCode | None = None, *, tolerance: int = 0) -> None:
        """``code``: remembers the code that user code was in; None: nobody wants to know.

        ``tolerance``: ns between a sample and what the programs told of it, at most.
        """
        self._spaces, self._code, self._tolerance = spaces, code, tolerance
        self.walks: StackReader | None = None
        """Has the user stacks of samples, by call frame information; None: they are in the samples themselves."""
        self.max_stack = _max_stack()
        """The kernel walks a stack no further than so many frames."""
        self._user: dict[int, tuple[Sequence[int], Walked | None]] = {}
        self.taken: list[tuple[RawSamples, list[int]]] = []
        """Samples, and for each the number of its stack."""

    def take(self, sampler: Sampler) -> None:
        """Take what was collected, in the order of time.

        Each sample gets its stack in the address space as it was then, by the changes that the kernel told.
        """
        told = [
            (_SAMPLE_ID.unpack(body[-16:])[2], kind, misc, body)
            for kind, misc, body in sampler.told.others()
            if len(body) >= 24 and kind in CHANGES
        ]
        sampler.told.clear()
        told.sort(key=lambda row: row[0])
        samples = sampler.tray.samples(DEFAULT_FIELDS)
        sampler.tray.clear()
        order = np.argsort(samples.time, kind="stable")
        times = samples.time[order]
        self._user = self._walked(samples, order)
        numbers = [-1] * len(order)
        at = 0
        for moment, kind, misc, body in told:
            until = int(np.searchsorted(times, moment))
            self._number(samples, order, numbers, at, until)
            at = max(at, until)
            self._spaces.change(kind, misc, body, moment)
        self._spaces.publish()
        self._number(samples, order, numbers, at, len(order))
        if len(order):
            self.taken.append((samples, numbers))

    def _number(self, samples: RawSamples, order: np.ndarray, numbers: list[int], start: int, end: int) -> None:
        """Give the samples at these places of the order the numbers of their stacks, in the spaces as they are now."""
        for i in order[start:end].tolist():
            chain = samples.frames[samples.first[i] : samples.first[i + 1]].tolist()
            user: Sequence[int]
            kernel, user = _divided(chain)
            walked = None
            if self._user:
                user, walked = self._user[i]
            space = self._spaces.of(int(samples.pid[i]))
            if self._code is not None and user and not kernel:
                self._code.keep(space, user[0])
            numbers[i] = self._spaces.stacks.add(space, user, kernel, most=self.max_stack, walked=walked)

    def _walked(self, samples: RawSamples, order: np.ndarray) -> dict[int, tuple[Sequence[int], Walked | None]]:
        """Return the user stacks by the places of the samples; none if they are in the samples."""
        if self.walks is None:
            return {}
        found = self.walks.sampled_stacks(samples.time[order], samples.tid[order], self._tolerance)
        return dict(zip(order.tolist(), found, strict=True))


def _divided(chain: list[int]) -> tuple[list[int], list[int]]:
    """Return the kernel's frames and the user's of a call chain, without the marks between them."""
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
