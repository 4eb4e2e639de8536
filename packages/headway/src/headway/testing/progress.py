"""The progress of a test: its measured laps added up, and the indices computed from them.

A lap is what happened between two readings in the thread that runs the test, and in the threads and processes created
since the test began. Times are in ns. Where the hardware counts cycles, the indices are in cycles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import reduce
from operator import add
from typing import Any

from headway.model import (
    EXACT,
    Amounts,
    Kind,
    Ledger,
    Overhead,
    Precision,
    Quality,
    Thread,
    amounts_of,
    indices_of,
    kind_of,
)

__all__ = ["Lap", "PhaseProgress", "lap_of", "together"]

_NONE: Mapping[Kind, int] = dict.fromkeys(Kind, 0)


@dataclass(frozen=True, slots=True)
class Lap:
    """The figures of all threads of a test between two readings."""

    time: Mapping[Kind, int] = field(default_factory=lambda: dict(_NONE))
    """By kind, in ns."""
    cycles: Mapping[Kind, int] | None = None
    """By kind on a processor; None if they are not counted."""
    instructions: int | None = None
    """Executed in states of kind EFFECTIVE; None if they are not counted."""
    precision: Precision = EXACT
    others: int = 0
    """Processor time of threads of the same process that are older than the test, in ns. It is in none of the above."""
    losses: Mapping[str, int] = field(default_factory=dict)
    """What could not be seen: name -> number or time, without zeros."""
    overhead: Overhead = field(default_factory=Overhead)

    def __add__(self, later: Lap) -> Lap:
        """Return the sum of both. What is not known of one is not known of the sum."""
        return Lap(
            _sum(self.time, later.time),
            None if self.cycles is None or later.cycles is None else _sum(self.cycles, later.cycles),
            None if self.instructions is None or later.instructions is None else self.instructions + later.instructions,
            self.precision | later.precision,
            self.others + later.others,
            {name: self.losses.get(name, 0) + later.losses.get(name, 0) for name in {**self.losses, **later.losses}},
            self.overhead + later.overhead,
        )

    def to_document(self) -> dict[str, Any]:
        """Return the lap as plain lists and numbers."""
        return {
            "time": _listed(self.time),
            "cycles": None if self.cycles is None else _listed(self.cycles),
            "instructions": self.instructions,
            "precision": [getattr(self.precision, f.name).value for f in fields(Precision)],
            "others": self.others,
            "losses": dict(self.losses),
            "overhead": [self.overhead.time, self.overhead.events, self.overhead.range],
        }

    @classmethod
    def of_document(cls, found: Mapping[str, Any]) -> Lap:
        """Return the lap that `to_document` wrote."""
        return cls(
            dict(zip(Kind, found["time"], strict=True)),
            None if found["cycles"] is None else dict(zip(Kind, found["cycles"], strict=True)),
            found["instructions"],
            Precision(*map(Quality, found["precision"])),
            found["others"],
            found["losses"],
            Overhead(found["overhead"][0], found["overhead"][1], tuple(found["overhead"][2])),
        )


def _sum(a: Mapping[Kind, int], b: Mapping[Kind, int]) -> dict[Kind, int]:
    return {kind: a[kind] + b[kind] for kind in Kind}


def _listed(amounts: Mapping[Kind, int]) -> list[int]:
    return [amounts[kind] for kind in Kind]


def lap_of(ledger: Ledger, belongs: Callable[[Thread], bool]) -> Lap:
    """Return the sum over the threads of a ledger that belong to a test. Processor time of the others is kept apart."""
    threads = [thread for thread in ledger.threads if belongs(thread)]
    in_cycles = ledger.unit == "cycles"
    time, cycles = Amounts(_NONE), Amounts(_NONE)
    precision = ledger.precision
    instructions: int | None = 0 if ledger.counted else None
    for thread in threads:
        had = ledger.amounts(thread)
        precision |= had.worth(ledger.precision)
        if in_cycles:
            cycles += had
            had = amounts_of(thread.states, cycles=False)
        time += had
        instructions = _executed(thread, instructions)
    return Lap(
        time.by_kind,
        cycles.by_kind if in_cycles else None,
        instructions,
        precision,
        sum(_processor_time(thread.times()) for thread in ledger.threads if not belongs(thread)),
        {name: amount for name, amount in ledger.losses.items() if amount},
        ledger.overhead,
    )


def _executed(thread: Thread, so_far: int | None) -> int | None:
    for state, cell in thread.states.items():
        if kind_of(state) is Kind.EFFECTIVE and so_far is not None:
            so_far = None if cell.instructions is None else so_far + cell.instructions
    return so_far


def _processor_time(times: Mapping[Kind, int]) -> int:
    return sum(time for kind, time in times.items() if kind.in_rpi)


@dataclass(frozen=True, slots=True)
class PhaseProgress:
    """The figures of a test, of one of its phases or of a block within it, over all its threads.

    Indices are in ``unit``, times in ns. A figure that is not available is None.
    """

    unit: str
    """``ns`` or ``cycles``."""
    wall: int
    """Time from beginning to end, less the time for which the thread waited for readings, in ns."""
    rpi: int | None
    """All processor time (or cycles). Of one thread it is at most `wall`."""
    epi: int | None
    """Effective progress: the part of `rpi` spent in the program's own code."""
    mpi: int | None
    kpi: int | None
    iopi: int | None
    te: float | None
    """EPI / RPI."""
    quality: Mapping[str, Quality]
    """The quality of each index, by name."""
    instructions: int | None
    """Executed in the program's own code."""
    ready: int
    """Time in which its threads could have run but had no processor, in ns."""
    wait: int
    """Time in which its threads waited, in ns. With several threads it may exceed `wall`."""
    stolen: int
    """Time in which the hypervisor ran something else, in ns."""
    others: int
    """Processor time of older threads of the same process meanwhile, in ns; in none of the figures above."""
    losses: Mapping[str, int]
    """What could not be seen, by name."""
    overhead: int | None
    """What measuring took of all processors meanwhile, in ns; in none of the figures above. None: not known."""

    def to_document(self) -> dict[str, Any]:
        """Return the progress as plain tables, lists, numbers and words."""
        return {**asdict(self), "quality": {name: quality.value for name, quality in self.quality.items()}}

    @classmethod
    def of_document(cls, found: Mapping[str, Any]) -> PhaseProgress:
        """Return the progress that `to_document` wrote."""
        quality = {name: Quality(word) for name, word in found["quality"].items()}
        return cls(**{**found, "quality": quality})


_INDICES = ("rpi", "epi", "mpi", "kpi", "iopi")


def together(*spans: tuple[Iterable[Lap], int]) -> PhaseProgress:
    """Return the sum of some spans. Each is given by its laps, at least one in all, and its length in ns."""
    whole = reduce(add, [lap for laps, _ in spans for lap in laps])
    indices = indices_of(whole.time if whole.cycles is None else whole.cycles, whole.precision)
    return PhaseProgress(
        unit="ns" if whole.cycles is None else "cycles",
        wall=sum(wall for _, wall in spans),
        **{name: getattr(indices, name) for name in _INDICES},
        te=indices.te,
        quality={name: indices.quality[name] for name in (*_INDICES, "te")},
        instructions=whole.instructions,
        ready=whole.time[Kind.READY],
        wait=whole.time[Kind.WAIT],
        stolen=whole.time[Kind.STOLEN],
        others=whole.others,
        losses=whole.losses,
        overhead=whole.overhead.time,
    )
