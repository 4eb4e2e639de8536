"""Utilisation and effective frequency of processors, from their ledgers and from counters of unhalted cycles.

US patent 7,617,488, *Determining processor utilization*, defines: busy ticks are the clock ticks in which a processor
is not halted. Effective frequency = busy ticks / interval. Utilisation = effective frequency / actual frequency, where
the actual frequency is that of the processor while it is not halted. A ledger gives the same exactly, in time: the time
that was neither idle nor stolen. A sample covers all processors between two readings that nothing disturbed. Where a
reading was disturbed, the sample has no figures but the reason, and the next sample of that processor begins at its
last good reading.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any, NamedTuple

from .cell import Cell
from .indices import interrupt_time, time_by_kind
from .kinds import Kind
from .ledger import States, add_states
from .quality import Quality

__all__ = ["ALL", "FIGURES", "Sample", "Utilisation", "across", "joined"]


_NOTHING: Mapping[str, Any] = MappingProxyType({})


class Utilisation(NamedTuple):
    """One processor in one sample; times in ns.

    A figure that is not available is None; `Sample.reasons` says why.
    """

    cpu: int
    span: int | None = None
    """The length of the sample, from the processor's last good reading; None if this reading was dropped."""
    states: States = _NOTHING
    """The processor's ledger in that time: the states add up to the span."""
    ticks: int | None = None
    """Busy ticks: cycles in which the processor was not halted."""
    actual_hz: float | None = None
    """The frequency of the processor while it was not halted."""
    idle: Mapping[str, int | None] = _NOTHING
    """Time in each power state of the idle processor, by the name that cpuidle gives it."""
    skew: int | None = None
    """How much later than the first processor this one was read."""
    throttled: int | None = None
    """How often the processor was slowed down (its clock was stopped) because it or the package was too hot."""
    stopped: int | None = None
    """Time in which its clock was stopped to slow it down, whether it was halted or not."""
    smi: int | None = None
    """System management interrupts. They stop all processors without the kernel's knowledge."""
    dropped: str | None = None
    """Why the reading that ends the sample is not to be trusted; None: it is good."""
    throttled_ns: int | None = None
    """Time for which the core, or its package, was slowed down because it was too hot. The kernel adds it when that
    ends, so a part may have been before the sample.
    """
    limit_hz: int | None = None
    """The highest frequency that it was allowed at the end of the sample; of several samples the lowest of these."""
    highest_hz: int | None = None
    """The highest frequency that it can have."""

    @property
    def times(self) -> Mapping[Kind, int]:
        """Time of each kind. A processor that waits is idle."""
        return time_by_kind(self.states)

    @property
    def halted(self) -> int | None:
        """Time in which the processor was idle."""
        return None if self.span is None else self.times[Kind.WAIT]

    @property
    def stolen(self) -> int | None:
        """Time that the hypervisor gave to others."""
        return None if self.span is None else self.times[Kind.STOLEN]

    @property
    def busy(self) -> int | None:
        """Time in which the processor was neither idle nor stolen."""
        if self.span is None:
            return None
        times = self.times
        return self.span - times[Kind.WAIT] - times[Kind.STOLEN]

    @property
    def utilisation(self) -> float | None:
        """`busy` as a share of the span."""
        busy = self.busy
        return busy / self.span if self.span and busy is not None else None

    @property
    def effective_hz(self) -> float | None:
        """Busy ticks per second of the span."""
        return self.ticks * 1e9 / self.span if self.ticks is not None and self.span else None

    @property
    def unhalted(self) -> float | None:
        """Effective divided by actual frequency: the utilisation by the counters (turbostat calls it Busy%)."""
        effective = self.effective_hz
        return effective / self.actual_hz if effective is not None and self.actual_hz else None


class Sample(NamedTuple):
    """All processors between two readings; times in ns."""

    source: str
    """The source of busy time: ``bpf``, ``cpuidle``, ``proc`` or ``machine``."""
    start: int
    end: int
    """The first processor's readings, in ns of CLOCK_MONOTONIC; on the reference machine since its start."""
    processors: tuple[Utilisation, ...] = ()
    skew: int | None = None
    """The time between the first and the last processor's reading at the end; None: no two were read together."""
    held: int | None = None
    """The longest time for which the reading at the end kept a processor from its work."""
    counter: str | None = None
    """The counter of busy ticks; None: there is none."""
    quality: Mapping[str, Quality] = _NOTHING
    """The quality of each figure in `FIGURES`, by name."""
    reasons: Mapping[str, str] = _NOTHING
    """Why a figure is not exact: one clause by the figure's name."""
    dropped: Mapping[str, int] = _NOTHING
    """The number of dropped readings of a processor, by reason. Each was tried again."""

    @property
    def duration(self) -> int:
        """Length of the sample."""
        return self.end - self.start


FIGURES = ("utilisation", "states", "effective_hz", "actual_hz", "idle", "throttled", "throttled_ns", "limit_hz", "smi")
"""The names in `Sample.quality` and `Sample.reasons`."""


ALL = -1
"""The number that stands for all processors as one."""


def across(sample: Sample) -> Utilisation | None:
    """Return all processors of a sample as one, or None if fewer than two are known.

    Shares and frequencies are means. Times and counts add up, so the span is the sum of all spans.
    """
    good = [row for row in sample.processors if row.span is not None]
    return joined(ALL, good) if len(good) > 1 else None


def joined(cpu: int, rows: Iterable[Utilisation]) -> Utilisation:
    """Return several rows as one: of one processor one after the other, or of several processors.

    At least one row must not be dropped. Times, ticks and counts add up. Actual frequencies are averaged by the time
    that the processor was not halted. The skew is the largest. A figure that is not known of one row is not known of
    the result.
    """
    good = [row for row in rows if row.span is not None]
    ticks = [row.ticks for row in good]
    known = [(row.ticks, row.actual_hz) for row in good if row.ticks and row.actual_hz]
    names = dict.fromkeys(name for row in good for name in row.idle)
    return Utilisation(
        cpu=cpu,
        span=sum(row.span or 0 for row in good),
        states=_Together([row.states for row in good]),
        ticks=_sum(ticks),
        actual_hz=_mean(known) if known else good[-1].actual_hz,
        idle={name: _sum([row.idle.get(name) for row in good]) for name in names},
        skew=max((row.skew for row in good if row.skew is not None), default=None),
        throttled=_sum([row.throttled for row in good]),
        stopped=_sum([row.stopped for row in good]),
        smi=_sum([row.smi for row in good]),
        throttled_ns=_sum([row.throttled_ns for row in good]),
        limit_hz=_bounded(min, [row.limit_hz for row in good]),
        highest_hz=_bounded(max, [row.highest_hz for row in good]),
    )


def _mean(known: Sequence[tuple[int, float]]) -> float:
    """Return the mean frequency of groups of (ticks, Hz): all ticks divided by all time."""
    if len(known) == 1:  # without rounding
        return known[0][1]
    return sum(count for count, _ in known) / sum(count / hz for count, hz in known)


class _Together(Mapping[str, Cell]):
    """The states of several mappings added up. Cells are added only when one is read; most readers need only times."""

    def __init__(self, parts: Sequence[States]) -> None:
        self._parts = parts

    @property
    def time_by_kind(self) -> Mapping[Kind, int]:
        """See `headway.model.indices.time_by_kind`."""
        times = [time_by_kind(part) for part in self._parts]
        return {kind: sum([each[kind] for each in times]) for kind in times[0]}

    @property
    def interrupt_time(self) -> int:
        """See `headway.model.indices.interrupt_time`."""
        return sum([interrupt_time(part) for part in self._parts])

    @cached_property
    def _cells(self) -> dict[str, Cell]:
        return add_states(*self._parts)

    def __getitem__(self, state: str) -> Cell:
        return self._cells[state]

    def __iter__(self) -> Iterator[str]:
        return iter(self._cells)

    def __len__(self) -> int:
        return len(self._cells)


def _bounded(choose: Callable[[Sequence[int]], int], figures: Sequence[int | None]) -> int | None:
    """Return the smallest or largest, or None if one is not known."""
    known = [figure for figure in figures if figure is not None]
    return choose(known) if known and len(known) == len(figures) else None


def _sum(figures: Iterable[int | None]) -> int | None:
    """Return the sum, or None if a part is not known."""
    total = 0
    for figure in figures:
        if figure is None:
            return None
        total += figure
    return total
