"""Progress over time: what every thread and every hart had of each kind of time, in equal steps of the run.

The machine's counters are read while the program runs, which takes no cycle of it. A run may last for any time, so the
steps become twice as long whenever there are too many.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from headway.model import Kind, kind_of

from .ledger import RawCell, RawThread, thread_ids
from .states import IDLE, SMI

__all__ = ["KINDS", "POWER", "Series", "Steps"]

FIRST_STEP = 256
"""Ticks of a step at first."""
MOST_STEPS = 640
"""When there are so many steps, each two become one."""
KINDS = tuple(Kind)
"""The kinds, in the order of the amounts."""
POWER = ("running", *IDLE, "stopped", SMI)
"""What a hart's power is used for, in the order of the amounts: it runs, or is in one of the states of these names."""
_EFFECTIVE, _MEMORY, _STALL = (KINDS.index(kind) for kind in (Kind.EFFECTIVE, Kind.MEMORY, Kind.STALL))

Amounts = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Steps:
    """The steps of a run. The last one may be shorter."""

    width: int
    """Ticks of a step."""
    threads: Mapping[tuple[int, int], tuple[int, Sequence[Amounts]]]
    """For (tid, birth): the first step in which it lived, and its ticks of each of `KINDS` in that and later ones."""
    processors: Sequence[Sequence[Amounts]]
    """For each hart its ticks of each of `KINDS`, in each step."""
    power: Sequence[Sequence[Amounts]]
    """For each hart its ticks in each of `POWER`, in each step."""
    cycles: Sequence[Sequence[int]]
    """For each hart the cycles of its core's clock while it ran, in each step."""


@dataclass(frozen=True, slots=True)
class _Sample:
    """Sums since reset."""

    threads: Sequence[Amounts]
    processors: Sequence[Amounts]
    power: Sequence[Amounts]
    cycles: Sequence[int]


class Series:
    """Takes the cells of all threads and harts from time to time, and gives what they had in each step."""

    def __init__(self) -> None:
        self._names: Mapping[int, str] = {}
        self._width = FIRST_STEP
        self._samples: list[_Sample] = []
        self._of: dict[int, tuple[int, int]] = {}
        """For the number of a state, where its time belongs: in `KINDS`, and in `POWER`."""

    def begin(self, names: Mapping[int, str]) -> None:
        """Take the names of the states."""
        self._names = names

    @property
    def next(self) -> int:
        """The tick of the next sample."""
        return (len(self._samples) + 1) * self._width

    def take(self, threads: Iterable[RawThread], processors: Iterable[tuple[int, Sequence[RawCell]]]) -> None:
        """Take a sample, at the tick ``next``."""
        self._samples.append(self._sample(threads, processors))
        if len(self._samples) == MOST_STEPS:
            self._samples = self._samples[1::2]
            self._width *= 2

    def steps(
        self, until: int, threads: Sequence[RawThread], processors: Iterable[tuple[int, Sequence[RawCell]]]
    ) -> Steps:
        """Return the steps of a run that ended at the tick ``until`` with these cells."""
        samples = list(self._samples)
        if until > len(samples) * self._width:
            samples.append(self._sample(threads, processors))
        ids = thread_ids([(number, birth, hart) for number, _, birth, _, hart, _ in threads])
        of_threads = {}
        for place, (tid, (_, _, birth, _, _, _)) in enumerate(zip(ids, threads, strict=True)):
            first = birth // self._width
            rows = [one.threads[place] if place < len(one.threads) else None for one in samples]
            of_threads[tid, birth] = first, _differences(rows)[first:]
        harts = range(len(samples[-1].processors) if samples else 0)
        return Steps(
            width=self._width,
            threads=of_threads,
            processors=[_differences([one.processors[hart] for one in samples]) for hart in harts],
            power=[_differences([one.power[hart] for one in samples]) for hart in harts],
            cycles=[[row[0] for row in _differences([(one.cycles[hart],) for one in samples])] for hart in harts],
        )

    def _sample(self, threads: Iterable[RawThread], processors: Iterable[tuple[int, Sequence[RawCell]]]) -> _Sample:
        harts = [self._of_hart(cells) for _, cells in processors]
        return _Sample(
            threads=[self._by_kind(cells) for *_, cells in threads],
            processors=[kinds for kinds, _, _ in harts],
            power=[power for _, power, _ in harts],
            cycles=[cycles for _, _, cycles in harts],
        )

    def _place(self, state: int) -> tuple[int, int]:
        found = self._of.get(state)
        if found is None:
            name = self._names[state]
            found = KINDS.index(kind_of(name)), POWER.index(name) if name in POWER else 0
            self._of[state] = found
        return found

    def _by_kind(self, cells: Sequence[RawCell]) -> Amounts:
        """Return the time of each kind. That of a program's own code is divided like its cycles."""
        found = [0] * len(KINDS)
        for state, time, cycles, _, _, stall, memory, _, _ in cells:
            kind, _ = self._place(state)
            if kind == _EFFECTIVE and stall and cycles > 0:
                lost = min(stall, cycles)
                for_memory, for_all = time * min(memory, lost) // cycles, time * lost // cycles
                found[_MEMORY] += for_memory
                found[_STALL] += for_all - for_memory
                time -= for_all
            found[kind] += time
        return tuple(found)

    def _of_hart(self, cells: Sequence[RawCell]) -> tuple[Amounts, Amounts, int]:
        power = [0] * len(POWER)
        running = 0
        for state, time, cycles, *_ in cells:
            _, place = self._place(state)
            power[place] += time
            running += cycles if place == 0 else 0
        return self._by_kind(cells), tuple(power), running


def _differences(sums: Sequence[Amounts | None]) -> list[Amounts]:
    """Return what came in each step.

    A correction, or the end of a state that was taken for another, may take back more than came in a step. The rest is
    taken from the steps before, so that the sum is right and no step has less than nothing.
    """
    least: list[Amounts | None] = []
    for row in reversed(sums):
        after = least[-1] if least else None
        least.append(row if row is None or after is None else tuple(map(min, row, after)))
    found: list[Amounts] = []
    before: Amounts = ()
    for row in reversed(least):
        if row is None:
            found.append(())
            continue
        found.append(tuple([now - then for now, then in zip(row, before or (0,) * len(row), strict=True)]))
        before = row
    return found
