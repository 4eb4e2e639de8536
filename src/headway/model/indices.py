"""The indices of progress: a projection of the ledger, computed here and nowhere else (law 3).

RPI is all processor time that a thread had. EPI is the part in which it made progress. MPI, KPI and IOPI are the parts
lost to waiting for caches and memory, to the kernel, and to polling for input or output. The definitions are from US
patent 9,223,615 ("Apparatus and method for thread progress tracking"):

   Td = RPI - EPI,  TE = 1 - Td/RPI,  ME = 1 - MPI/Td,  KE = 1 - KPI/Td,  IOE = 1 - IOPI/Td      (1 where Td = 0)

Where hardware counters are available, the name of a state is not all that is known of it: user code stalls, and part of
its stalls are waits for memory. So a thread's time is first divided into `Amounts` of each kind, in cycles or in time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from operator import itemgetter

from .cell import Cell
from .kinds import Kind, kind_of
from .quality import Quality

__all__ = [
    "EXACT",
    "Amounts",
    "Indices",
    "Precision",
    "amounts_of",
    "indices_of",
    "interrupt_time",
    "is_interrupt",
    "listed",
    "processor_time",
    "time_by_kind",
]


@dataclass(frozen=True, slots=True)
class Precision:
    """How well a source tells the kinds of processor time apart.

    A kind that is UNAVAILABLE is not seen by the source. Its time is in EFFECTIVE, which is then at best a bound.
    ``total`` is the quality of RPI, all processor time together, which may be better than that of its parts.
    """

    total: Quality = Quality.EXACT
    effective: Quality = Quality.EXACT
    memory: Quality = Quality.EXACT
    kernel: Quality = Quality.EXACT
    poll: Quality = Quality.EXACT
    stall: Quality | None = None
    """The quality of all stalls of user code. Where stalls are seen and waits for memory are not, these waits are in
    STALL and not in EFFECTIVE. None: the same as ``memory``.
    """

    def __post_init__(self) -> None:
        if self.stall is None:
            object.__setattr__(self, "stall", self.memory)

    def __or__(self, other: Precision) -> Precision:
        """Return the worse quality of each figure: the precision of figures made from two ledgers."""
        return Precision(*(getattr(self, f.name) | getattr(other, f.name) for f in fields(self)))


EXACT = Precision()


@dataclass(frozen=True, slots=True)
class Indices:
    """RPI, EPI, MPI, KPI, IOPI and Td in the ledger's unit; TE, ME, KE and IOE from 0 to 1. None: unavailable."""

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
    """The quality of each of the ten indices, by name."""
    mpi_internal: int | None = None
    """The part of MPI that waited for a cache of the processor; None where it is not known. Its quality is that of MPI.
    """
    mpi_external: int | None = None
    """The part of MPI that waited for memory outside the processor; None where it is not known."""


_NO_TIME = dict.fromkeys(Kind, 0)
_on_processor = itemgetter(*(kind for kind in Kind if kind.in_rpi))


def time_by_kind(states: Mapping[str, Cell]) -> Mapping[Kind, int]:
    """Return the time of each kind, in the states' time unit. A kind without a state has 0.

    A mapping may provide the result in an attribute ``time_by_kind``; sources with many threads do so.
    """
    ready: Mapping[Kind, int] | None = getattr(states, "time_by_kind", None)
    if ready is not None:
        return ready
    times = _NO_TIME.copy()
    for state, cell in states.items():
        times[kind_of(state)] += cell.time
    return times


def interrupt_time(states: Mapping[str, Cell]) -> int:
    """Return the time in interrupts and soft interrupts: the part of the kernel's time that mostly served others.

    A mapping may provide the result in an attribute ``interrupt_time``.
    """
    ready: int | None = getattr(states, "interrupt_time", None)
    if ready is not None:
        return ready
    return sum([cell.time for state, cell in states.items() if is_interrupt(state)])


def listed(states: Mapping[str, Cell]) -> list[tuple[str, int | None, int]]:
    """Return name, occurrences and time of each state. A mapping may provide the result in an attribute ``listed``."""
    ready: list[tuple[str, int | None, int]] | None = getattr(states, "listed", None)
    if ready is not None:
        return ready
    return [(state, cell.count, cell.time) for state, cell in states.items()]


@lru_cache(maxsize=4096)
def is_interrupt(state: str) -> bool:
    """Return whether the state is an interrupt or a soft interrupt."""
    return state.partition(".")[0] in ("irq", "softirq")


@dataclass(frozen=True, slots=True)
class Amounts:
    """The amount of each kind that one thread or several had, in the unit of the indices."""

    by_kind: Mapping[Kind, int]
    external: int | None = None
    """The part of Kind.MEMORY that waited for memory outside the processor; None where it is not known."""
    memory_seen: bool = True
    """Whether every wait of user code for memory was counted."""
    stall_seen: bool = True
    """Whether every stall of user code was counted."""

    def __add__(self, other: Amounts) -> Amounts:
        """Return the sum of both. What is not known of one is not known of the sum."""
        return Amounts(
            {kind: self.by_kind.get(kind, 0) + other.by_kind.get(kind, 0) for kind in Kind},
            None if self.external is None or other.external is None else self.external + other.external,
            self.memory_seen and other.memory_seen,
            self.stall_seen and other.stall_seen,
        )

    def worth(self, precision: Precision) -> Precision:
        """Return the precision of these amounts in a ledger of the given precision."""
        if self.memory_seen and self.stall_seen:
            return precision
        unseen = Quality.UNAVAILABLE
        return replace(
            precision,
            memory=precision.memory if self.memory_seen else unseen,
            stall=precision.stall if self.stall_seen else unseen,
        )


def amounts_of(states: Mapping[str, Cell], *, cycles: bool) -> Amounts:
    """Divide the states' cycles or time into kinds, using the hardware counters of user code.

    ``cycles``: the amounts are in cycles, which every state on a processor must have; kinds off the processor are then
    0. Otherwise they are in time. A state of kind EFFECTIVE with S stall cycles, M of them for memory, is divided into

       memory = M        stall = S - M        effective = cycles - S

    and, in time, the state's time is divided in these proportions. The counters are not read at one instant and may
    have been scaled. A counter that exceeds the one before it in cycles >= S >= M >= external is reduced to that one,
    so the parts are never negative and always add up to the whole (law 3).
    """
    found = _NO_TIME.copy()
    external: int | None = 0
    memory_seen = stall_seen = True
    for state, cell in states.items():
        kind = kind_of(state)
        had = (cell.cycles or 0) if cycles and kind.in_rpi else 0 if cycles else cell.time
        if kind is not Kind.EFFECTIVE:
            found[kind] += had
            if kind is Kind.MEMORY and had:
                external = None
            continue
        whole = cell.cycles
        memory = cell.memory_stall_cycles if whole is not None else None
        stall = cell.stall_cycles if whole is not None else None
        if had:
            memory_seen = memory_seen and memory is not None
            stall_seen = stall_seen and stall is not None
        whole = max(whole or 0, 0)
        lost = min(max(stall if stall is not None else memory or 0, 0), whole)
        for_memory = min(max(memory or 0, 0), lost)
        outside = cell.external_stall_cycles
        external = (
            None if external is None or outside is None else external + _part(had, min(outside, for_memory), whole)
        )
        memory_part, lost_part = _part(had, for_memory, whole), _part(had, lost, whole)
        found[Kind.MEMORY] += memory_part
        found[Kind.STALL] += lost_part - memory_part
        found[Kind.EFFECTIVE] += had - lost_part
    return Amounts(found, external, memory_seen, stall_seen)


def _part(had: int, some: int, whole: int) -> int:
    """Return ``some`` of ``whole`` cycles, converted to the unit of ``had``."""
    return some if had == whole else had * some // whole if whole > 0 else 0


def processor_time(times: Mapping[Kind, int]) -> int:
    """Return RPI, whatever its quality: the sum of the kinds of time that count as processor time."""
    return sum(_on_processor(times))


def indices_of(times: Mapping[Kind, int], precision: Precision = EXACT, *, external: int | None = None) -> Indices:
    """Return the indices of one thread or several from the amount of each kind, in time or in cycles.

    RPI = EPI + MPI + KPI + IOPI + stall, exactly. An unavailable index counts as 0 in this sum: its time is in EPI,
    which makes EPI at best a bound. (Unavailable memory time is in the stalls instead, where stalls are seen.) If
    EPI is an upper bound, RPI - EPI is less than Td; then Td and the indices ME, KE and IOE
    that are computed from it are unavailable. TE has the quality of EPI. ``external`` is the part of memory time that
    waited outside the processor.
    """
    hidden = Quality.UNAVAILABLE in (precision.stall, precision.kernel, precision.poll)
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
    mpi = values["mpi"]
    apart = {} if external is None or mpi is None else {"mpi_internal": mpi - external, "mpi_external": external}
    return Indices(**values, quality=quality, **apart)  # type: ignore[arg-type]
