"""Utilisation and effective frequency of processors, from their ledgers and from counters of unhalted cycles.

US patent 7,617,488, *Determining processor utilization*: busy ticks are the clock ticks in which a processor is not
halted; effective frequency = busy ticks / interval; utilisation = effective frequency / actual frequency, which is that
at which it runs while it is not halted. A ledger says the same exactly in time: what was neither idle nor stolen. A
sample is of all processors between two readings that nothing disturbed; where a reading was disturbed there are no
figures but the reason, and the next sample of that processor goes back to its last good reading.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
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

    A figure that cannot be had is None; `Sample.reasons` says why.
    """

    cpu: int
    span: int | None = None
    """How long the sample is, back to the processor's last good reading; None where it was dropped."""
    states: States = _NOTHING
    """Its ledger in that time: they add up to the span."""
    ticks: int | None = None
    """Busy ticks: cycles in which it was not halted."""
    actual_hz: float | None = None
    """The frequency at which it ran while it was not halted."""
    idle: Mapping[str, int | None] = _NOTHING
    """Time in each power state of the idle processor, by the name that cpuidle gives it."""
    skew: int | None = None
    """How much later than the first processor it was read."""
    throttled: int | None = None
    """How often it was slowed down (its clock was stopped) because it, or the package, was too hot."""
    stopped: int | None = None
    """Time in which its clock was stopped to slow it down, whether it was halted or not."""
    smi: int | None = None
    """System management interrupts, which stop all processors without the kernel knowing."""
    dropped: str | None = None
    """Why the reading that ends the sample is not to be trusted; None: it is good."""

    @property
    def times(self) -> Mapping[Kind, int]:
        """Time of each kind: a processor that waits is idle."""
        return time_by_kind(self.states)

    @property
    def halted(self) -> int | None:
        """Time idle."""
        return None if self.span is None else self.times[Kind.WAIT]

    @property
    def stolen(self) -> int | None:
        """Time that the hypervisor gave to others."""
        return None if self.span is None else self.times[Kind.STOLEN]

    @property
    def busy(self) -> int | None:
        """Time that it was neither idle nor stolen."""
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
        """Effective by actual frequency: the utilisation as the counters see it (turbostat calls it Busy%)."""
        effective = self.effective_hz
        return effective / self.actual_hz if effective is not None and self.actual_hz else None


class Sample(NamedTuple):
    """All processors between two readings; times in ns."""

    source: str
    """Where busy time is from: ``bpf``, ``cpuidle``, ``proc`` or ``machine``."""
    start: int
    end: int
    """Of the first processor's readings, by CLOCK_MONOTONIC; on the reference machine since its start."""
    processors: tuple[Utilisation, ...] = ()
    skew: int | None = None
    """Between the first and the last processor's reading at the end; None: no two were read together."""
    held: int | None = None
    """The longest that a processor was kept from its work by the reading at the end."""
    counter: str | None = None
    """What counts busy ticks; None: nothing does."""
    quality: Mapping[str, Quality] = _NOTHING
    """Of each figure, by name: all of `FIGURES`."""
    reasons: Mapping[str, str] = _NOTHING
    """Why a figure is not exact: one clause by its name."""
    dropped: Mapping[str, int] = _NOTHING
    """Readings of a processor that were dropped, by reason; each was tried again."""

    @property
    def duration(self) -> int:
        """Length of the sample."""
        return self.end - self.start


FIGURES = ("utilisation", "states", "effective_hz", "actual_hz", "idle", "throttled", "smi")
"""The names that `Sample.quality` and `Sample.reasons` have."""


ALL = -1
"""The number of all processors as one."""


def across(sample: Sample) -> Utilisation | None:
    """All processors of a sample as one, whose shares and frequencies are means; None where fewer than two are known.

    Times and counts add up, so the span is that of all of them, one after the other.
    """
    good = [row for row in sample.processors if row.span is not None]
    return joined(ALL, good) if len(good) > 1 else None


def joined(cpu: int, rows: Iterable[Utilisation]) -> Utilisation:
    """Several as one: of one processor one after the other, or of several processors. Some must not be dropped.

    Times, ticks and counts add up; actual frequencies by the time that the processor was not halted; the skew is the
    largest. What is not known of one is not known.
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
    )


def _mean(known: Sequence[tuple[int, float]]) -> float:
    """The frequency of all these ticks, each so many at a frequency."""
    if len(known) == 1:  # without rounding
        return known[0][1]
    return sum(count for count, _ in known) / sum(count / hz for count, hz in known)


class _Together(Mapping[str, Cell]):
    """The states of several added up, cell by cell only if somebody asks for cells: most ask for their times."""

    def __init__(self, parts: Sequence[States]) -> None:
        self._parts = parts

    @property
    def time_by_kind(self) -> Mapping[Kind, int]:
        """As `headway.model.time_by_kind`."""
        times = [time_by_kind(part) for part in self._parts]
        return {kind: sum([each[kind] for each in times]) for kind in times[0]}

    @property
    def interrupt_time(self) -> int:
        """As `headway.model.interrupt_time`."""
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


def _sum(figures: Iterable[int | None]) -> int | None:
    """The sum; None where a part of it is not known."""
    total = 0
    for figure in figures:
        if figure is None:
            return None
        total += figure
    return total
