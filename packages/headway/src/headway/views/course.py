"""The course of a recording in time: its batches are turned into slices and handed to a view that writes them.

A view defines how threads, processors, states and losses are written. The slices, wake-ups and amounts are the same for
all views, and are found by compiled code (`_course`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from headway.model import NO_STATE, Batch, Kind, ThreadSeen, Window, kind_of
from headway.model.task_slices import TaskSlice, TaskSlices

from ._course import CPUS, Sink, ThreadSlices
from .exported import Exported, Shown

__all__ = ["CPUS", "View", "play"]

_STEPS = 1000
"""The largest number of steps in which progress is summed."""
_MIN_STEP = 1_000_000
"""The shortest step, in ns."""
_MAX_VALUES = 1 << 22
"""The largest number of steps of all threads together."""


class View(Protocol):
    """The receiver of a recording's course. Everything is described before it appears in a slice."""

    @property
    def sink(self) -> Sink:
        """The receiver of slices."""

    def thread(self, place: int, thread: ThreadSeen) -> None:
        """Describe a thread. Slices refer to it by its index among all threads, in the order of their numbers."""

    def processor(self, cpu: int) -> None:
        """Describe a processor, from 0 to `CPUS` - 1."""

    def states(self, names: Sequence[str], used: NDArray[np.intp], wakers: NDArray[np.intp]) -> None:
        """Name the states of the next rows.

        ``used`` are the indices of rows' states, ``wakers`` those of wakers' states.
        """

    def task(self, slice: TaskSlice) -> None:
        """Take a time in which a thread worked on one task."""

    def losses(self, losses: Mapping[str, int], time: int) -> None:
        """Take all losses until ``time``."""

    def progress(self, place: int, name: str, rates: Sequence[tuple[int, float]]) -> None:
        """Take a thread's counter: pairs of a time and the per cent of progress from that time on."""


def play(exported: Exported, batches: Iterable[Batch], view: View, shown: Shown) -> list[str]:
    """Pass all batches and then each thread's progress to the view. Return notes for the user."""
    width, steps = _steps(exported)
    numbers = sorted(exported.threads)
    known = np.array(numbers, np.int64)
    threads = [exported.threads[number] for number in numbers]
    tids = np.array([thread.tid for thread in threads], np.int32)
    course = ThreadSlices(view.sink, tids, exported.window.start, width, steps)
    described = np.zeros(len(threads), np.bool_)
    processors = np.zeros(CPUS, np.bool_)
    done = unnamed = 0
    tasks = TaskSlices()
    for batch in batches:
        rows = batch.transitions
        (thread, named), (waker, _) = _places(known, rows.thread), _places(known, rows.waker)
        there = np.zeros(len(threads) + 1, np.bool_)
        there[thread] = there[waker] = True
        for place in np.flatnonzero(there[:-1] & ~described).tolist():
            view.thread(place, threads[place])
        described |= there[:-1]
        for cpu in np.unique(rows.cpu).tolist():
            if cpu >= 0 and not processors[cpu]:
                view.processor(cpu)
                processors[cpu] = True
        used = np.flatnonzero(np.bincount(rows.state, minlength=1))
        wakers = np.flatnonzero(np.bincount(rows.waker_state, minlength=1)[:NO_STATE])
        view.states(rows.states, used, wakers)
        order = np.argsort(rows.time, kind="stable")
        if not named.all():  # threads without a name are in no ledger either
            order = order[named[order]]
            unnamed += int(np.count_nonzero(~named))
        course.put(
            order,
            rows.time,
            rows.duration,
            rows.taken,
            rows.cpu,
            thread,
            rows.state.astype(np.int32),
            rows.count,
            waker,
            rows.waker_tid,
            np.where(rows.waker_state == NO_STATE, -1, rows.waker_state.astype(np.int32)).astype(np.int32),
            np.array([kind_of(state) is Kind.EFFECTIVE for state in rows.states], np.uint8),
        )
        for slice in tasks.add(rows, thread):
            view.task(slice)
        view.losses(batch.losses, batch.end)
        done += len(rows)
        shown(done)
    course.finish()
    for slice in tasks.rest():
        view.task(slice)
    for place, seen in enumerate(threads):
        rates = _rates(exported.window, seen, course.progress[place], int(course.reached[place]), width)
        if rates:
            view.progress(place, f"EPI rate{' ≤' if exported.bound else ''}", rates)
    notes = []
    if course.passed:
        notes.append(f"{course.passed:,} spans overlap others of their thread or processor and were cut")
    if unnamed:
        notes.append(f"{unnamed:,} rows are left out, as nothing is known of their threads")
    return notes


def _steps(exported: Exported) -> tuple[int, int]:
    """Return the width and the number of the steps in which progress is summed."""
    duration = exported.window.duration
    most = min(_STEPS, max(_MAX_VALUES // max(len(exported.threads), 1), 1))
    width = max(-(-duration // most), _MIN_STEP if exported.time_unit == "ns" else 1)
    return width, -(-duration // width)


def _rates(
    window: Window, thread: ThreadSeen, amounts: NDArray[np.int64], reached: int, width: int
) -> list[tuple[int, float]]:
    """Return (time, per cent of progress from then on), ending with 0 where the thread ends; empty without any
    progress.
    """
    first, last = max(thread.start, window.start), min(reached, window.end)
    if first >= last or not amounts.any():
        return []
    steps = window.start + width * np.arange(len(amounts) + 1)
    begins, ends = np.maximum(steps[:-1], first), np.minimum(steps[1:], last)
    there = begins < ends
    begins, rates = begins[there], 100 * amounts[there] / (ends - begins)[there]
    changes = np.flatnonzero(np.diff(rates, prepend=-1.0))
    return [*zip(begins[changes].tolist(), rates[changes].tolist(), strict=True), (last, 0.0)]


def _places(known: NDArray[np.int64], numbers: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    """Return the index of each thread number, -1 if it is unknown, and whether it is known or negative."""
    if not len(known):
        return np.full(len(numbers), -1, np.int32), numbers < 0
    place = np.minimum(np.searchsorted(known, numbers), len(known) - 1)
    found = known[place] == numbers
    return np.where(found, place, -1).astype(np.int32), found | (numbers < 0)
