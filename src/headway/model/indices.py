"""The indices of progress: a projection of the ledger, computed here and nowhere else (law 3).

RPI is all the processor time that a thread had; EPI the part in which it made progress; MPI, KPI and IOPI the parts
that it lost to shared memory, to the kernel and to asking again and again for input or output. From US patent 9,223,615
("Apparatus and method for thread progress tracking"):

    Td = RPI - EPI,  TE = 1 - Td/RPI,  ME = 1 - MPI/Td,  KE = 1 - KPI/Td,  IOE = 1 - IOPI/Td      (1 where Td = 0)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from operator import itemgetter

from .cell import Cell
from .kinds import Kind, kind_of
from .quality import Quality

__all__ = ["EXACT", "Indices", "Precision", "indices_of", "interrupt_time", "processor_time", "time_by_kind"]


@dataclass(frozen=True, slots=True)
class Precision:
    """How well a source tells the kinds of processor time apart.

    A kind that is UNAVAILABLE is not seen by the source: its time hides in EFFECTIVE, which is then a bound at best.
    ``total`` is the quality of RPI, all processor time together, which may be better than that of its parts.
    """

    total: Quality = Quality.EXACT
    effective: Quality = Quality.EXACT
    memory: Quality = Quality.EXACT
    kernel: Quality = Quality.EXACT
    poll: Quality = Quality.EXACT

    def __or__(self, other: Precision) -> Precision:
        """The worse of both, figure by figure: the precision of figures made from two ledgers."""
        return Precision(*(getattr(self, f.name) | getattr(other, f.name) for f in fields(self)))


EXACT = Precision()


@dataclass(frozen=True, slots=True)
class Indices:
    """RPI, EPI, MPI, KPI, IOPI and Td in the ledger's unit; TE, ME, KE, IOE from 0 to 1. None: unavailable."""

    rpi: int | None
    epi: int | None
    mpi: int | None
    kpi: int | None
    iopi: int | None
    td: int | None
    te: float | None
    me: float | None
    ke: float | None
    ioe: float | None
    quality: Mapping[str, Quality]
    """The quality of each of the ten, by name."""


_NO_TIME = dict.fromkeys(Kind, 0)
_on_processor = itemgetter(*(kind for kind in Kind if kind.in_rpi))


def time_by_kind(states: Mapping[str, Cell]) -> Mapping[Kind, int]:
    """Time of each kind, in the states' time unit; kinds without a state are 0.

    A source with many threads may pass a mapping that has the answer ready, as an attribute of this function's name.
    """
    ready: Mapping[Kind, int] | None = getattr(states, "time_by_kind", None)
    if ready is not None:
        return ready
    times = _NO_TIME.copy()
    for state, cell in states.items():
        times[kind_of(state)] += cell.time
    return times


def interrupt_time(states: Mapping[str, Cell]) -> int:
    """Time in interrupts and soft interrupts: the part of the kernel's time that mostly served somebody else.

    Like `time_by_kind`, it takes the answer from an attribute of its name, if the mapping has one.
    """
    ready: int | None = getattr(states, "interrupt_time", None)
    if ready is not None:
        return ready
    return sum([cell.time for state, cell in states.items() if _is_interrupt(state)])


@lru_cache(maxsize=4096)
def _is_interrupt(state: str) -> bool:
    return state.partition(".")[0] in ("irq", "softirq")


def processor_time(times: Mapping[Kind, int]) -> int:
    """RPI, whatever its quality: all the processor time that a thread (or many) had, from its time of each kind."""
    return sum(_on_processor(times))


def indices_of(times: Mapping[Kind, int], precision: Precision = EXACT) -> Indices:
    """The indices of a thread (or of many) from its time of each kind.

    RPI = EPI + MPI + KPI + IOPI + stall, exactly; an index that is unavailable counts as nothing there, because its
    time is in EPI, which makes EPI a bound at best. Where EPI is more than it should be, whether exactly known or
    sampled, RPI - EPI is not Td but less, and Td, ME, KE and IOE, which rest on it, are unavailable; TE is as good as
    EPI.
    """
    hidden = Quality.UNAVAILABLE in (precision.memory, precision.kernel, precision.poll)
    effective = precision.effective | (Quality.BOUND if hidden else Quality.EXACT)
    times = {**_NO_TIME, **times}
    rpi = processor_time(times)
    values: dict[str, int | float | None] = {
        "rpi": rpi,
        "epi": times[Kind.EFFECTIVE],
        "mpi": times[Kind.MEMORY],
        "kpi": times[Kind.KERNEL],
        "iopi": times[Kind.POLL],
    }
    quality = {
        "rpi": precision.total,
        "epi": effective,
        "mpi": precision.memory,
        "kpi": precision.kernel,
        "iopi": precision.poll,
    }
    quality["te"] = effective | precision.total
    lost = Quality.UNAVAILABLE if hidden or effective is Quality.BOUND else quality["te"]
    quality["td"] = lost
    td = rpi - times[Kind.EFFECTIVE]
    values["td"] = td
    values["te"] = 1 - td / rpi if rpi else 1.0
    for efficiency, index in (("me", "mpi"), ("ke", "kpi"), ("ioe", "iopi")):
        part = values[index]
        values[efficiency] = 1 - part / td if part is not None and td else 1.0
        quality[efficiency] = lost | quality[index]
    for name, worth in quality.items():
        if worth is Quality.UNAVAILABLE:
            values[name] = None
    return Indices(**values, quality=quality)  # type: ignore[arg-type]
