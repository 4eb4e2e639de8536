"""The indices of progress: a projection of the ledger, computed here and nowhere else (law 3).

RPI is all processor time that a thread had. EPI is the part in which it made progress. MPI, KPI and IOPI are the parts
lost to waiting for caches and memory, to the kernel, and to polling for input or output. The definitions are from US
patent 9,223,615 ("Apparatus and method for thread progress tracking"):

   Td = RPI - EPI,  TE = 1 - Td/RPI,  ME = 1 - MPI/Td,  KE = 1 - KPI/Td,  IOE = 1 - IOPI/Td      (1 where Td = 0)

Where hardware counters are available, the name of a state is not all that is known of it: user code stalls, and part of
its stalls are waits for memory. So a thread's time is first divided into `Amounts` of each kind, in cycles or in time.

Where a part of the time was divided by samples (`estimate`), an index has an exact and an estimated part.
`Indices.exact_share` says how large the exact part is, and `Indices.interval` how far the estimate may be from the
truth. Time that was divided by the cycles of user and kernel mode is not exact either, and no interval is known of it.

Without hardware counters waiting for memory (M) and other stalls (S) are in EPI. With K = KPI and P = IOPI, which are
exact, the true Td is K + P + M + S, where 0 <= M + S <= EPI as shown. So these bounds hold, and no closer ones:

   figure   at least          at most
   EPI, TE                    what is shown
   Td       K + P             RPI
   KE       1 - K / (K + P)   1 - K / RPI
   IOE      1 - P / (K + P)   1 - P / RPI
   MPI      0                 EPI as shown
   ME       (K + P) / RPI

The lower bounds of Td, KE and IOE are shown; MPI and ME are None.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field, fields, replace
from functools import lru_cache
from math import ceil, floor
from operator import itemgetter
from types import MappingProxyType

from headway.dataclass import dataclass

from .cell import Cell
from .estimate import RUNNING, Estimate, wilson
from .kinds import Kind, kind_of
from .quality import Quality

__all__ = [
    "EXACT",
    "Amounts",
    "Indices",
    "Precision",
    "amounts_in_time",
    "amounts_of",
    "indices_of",
    "interrupt_time",
    "is_interrupt",
    "listed",
    "observer_share",
    "processor_time",
    "time_by_kind",
    "undivided_time",
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
    exact_share: Mapping[str, float | None] = field(default_factory=dict)
    """Of RPI, EPI, MPI, KPI and IOPI by name: the share of the figure that was counted exactly, from 0 to 1. The rest
    was divided by samples or by cycles. Of IOPI it is the share of RPI in which polling could be seen. None: the
    figure is unavailable, or the source samples all of it and has no numbers of samples.
    """
    interval: Mapping[str, tuple[int, int] | None] = field(default_factory=dict)
    """Of the same five: the lowest and the highest value that the samples allow, at 95 %, in the ledger's unit. None:
    nothing was sampled.
    """


_PARTS = ("rpi", "epi", "mpi", "kpi", "iopi")
"""The indices that have an exact share and an interval."""
_NO_INTERVAL: Mapping[str, tuple[int, int] | None] = dict.fromkeys(_PARTS)
_NO_TIME = dict.fromkeys(Kind, 0)
_NOT_SAMPLED: Mapping[str, Estimate] = MappingProxyType({})
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


def undivided_time(states: Mapping[str, Cell]) -> int:
    """Return the time of the state `RUNNING`: processor time that was not divided among states.

    A mapping may provide the result in an attribute ``undivided_time``. One that provides ``time_by_kind`` and not this
    does not have the state.
    """
    if type(states) is not dict:
        ready: int | None = getattr(states, "undivided_time", None)
        if ready is not None:
            return ready
        if hasattr(type(states), "time_by_kind"):
            return 0
    cell = states.get(RUNNING)
    return 0 if cell is None else cell.time


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
    sampled: Mapping[Kind, Estimate] = field(default_factory=dict)
    """The parts of each kind that were divided by samples and by cycles, in the same unit, and the samples of the
    states of that kind.
    """
    samples: int = 0
    """The number of all samples of states on a processor."""
    undivided: int = 0
    """The part of Kind.EFFECTIVE that was not divided among states, because no sample fell into it."""

    def __add__(self, other: Amounts) -> Amounts:
        """Return the sum of both. What is not known of one is not known of the sum."""
        sampled = self.sampled
        if other.sampled:
            sampled = _add_estimates(sampled, other.sampled)
        return Amounts(
            {kind: self.by_kind.get(kind, 0) + other.by_kind.get(kind, 0) for kind in Kind},
            None if self.external is None or other.external is None else self.external + other.external,
            self.memory_seen and other.memory_seen,
            self.stall_seen and other.stall_seen,
            sampled,
            self.samples + other.samples,
            self.undivided + other.undivided,
        )

    @property
    def by_samples(self) -> int:
        """The part of RPI that was divided by samples."""
        return sum([estimate.time for estimate in self.sampled.values()])

    @property
    def by_mode(self) -> int:
        """The part of RPI that was divided by the cycles of user and kernel mode."""
        return sum([estimate.by_mode for estimate in self.sampled.values()])

    @property
    def spinning_sampled(self) -> bool:
        """Whether samples told polling from other user code, and nothing else: the kernel's time is exact then."""
        return Kind.POLL in self.sampled and Kind.KERNEL not in self.sampled and not self.by_mode

    def range_of(self, kind: Kind) -> tuple[int, int]:
        """Return the lowest and the highest value of the kind's sampled part that the samples allow, at 95 %.

        It is the Wilson score interval of the kind's share of the samples, times all time that was divided by them.
        Time that was divided piece by piece need not be in proportion to the sums, so the interval is widened to have
        the sampled part in it.
        """
        whole, estimate = self.by_samples, self.sampled.get(kind, Estimate())
        low, high = wilson(estimate.samples, self.samples)
        if kind in _USER_CODE:  # counters divide it further, the samples are of all of it
            together = sum([self.sampled[part].time for part in _USER_CODE if part in self.sampled])
            share = estimate.time / together if together else 1.0
            low, high = low * share, high * share
        most = min(ceil(high * whole), whole)
        return max(min(floor(low * whole), estimate.time), 0), max(most, estimate.time)

    def worth(self, precision: Precision) -> Precision:
        """Return the precision of these amounts in a ledger of the given precision.

        Samples tell user code from the kernel, so both are SAMPLED; where cycles tell them, both are BY_MODE. Neither
        tells polling: IOPI is that of the time that was counted exactly, and UNAVAILABLE if there is none. Where
        samples tell spinning from the rest of user code, EPI and IOPI are SAMPLED and KPI is what it was. Time that
        was not divided at all makes EPI a bound, and KPI UNAVAILABLE unless this time is less than the sampling error
        of KPI anyway.
        """
        sampled, by_mode = (self.by_samples, self.by_mode) if self.sampled else (0, 0)
        if self.memory_seen and self.stall_seen and not sampled and not by_mode and not self.undivided:
            return precision
        unseen = Quality.UNAVAILABLE
        memory = precision.memory if self.memory_seen else unseen
        stall = (precision.stall or precision.memory) if self.stall_seen else unseen
        effective, kernel, poll = precision.effective, precision.kernel, precision.poll
        spins = self.spinning_sampled
        for part, worth in ((by_mode, Quality.BY_MODE), (sampled, Quality.SAMPLED)):
            if part:
                memory, stall = memory | worth, stall | worth
                effective, kernel = effective | worth, kernel if spins else kernel | worth
        if self.undivided:
            effective = effective | Quality.BOUND
            low, high = self.range_of(Kind.KERNEL)
            part = self.sampled.get(Kind.KERNEL, Estimate()).time
            if self.undivided > max(high - part, part - low):
                kernel = unseen
        blind = self.undivided if spins else sampled + by_mode + self.undivided
        if spins:
            poll = poll | Quality.SAMPLED
        if blind:
            poll = poll | (Quality.PARTIAL if blind < processor_time(self.by_kind) else unseen)
        return Precision(precision.total, effective, memory, kernel, poll, stall)

    def indices(self, precision: Precision = EXACT) -> Indices:
        """Return the indices of these amounts in a ledger of the given precision."""
        found = indices_of(self.by_kind, self.worth(precision), external=self.external)
        sampled, by_mode = (self.by_samples, self.by_mode) if self.sampled else (0, 0)
        if not sampled and not by_mode and not self.undivided:
            return found
        return replace(
            found,
            exact_share=self._exact_shares(found, precision, sampled + by_mode),
            interval=self._intervals(found, precision, sampled, by_mode) if sampled else _NO_INTERVAL,
        )

    def _exact_shares(self, found: Indices, precision: Precision, divided: int) -> dict[str, float | None]:
        shares = dict(indices_of({}, precision).exact_share)
        spins = self.spinning_sampled
        for name, kind in (*_SAMPLED_PARTS, *([("iopi", Kind.POLL)] if spins else [])):
            whole = self.by_kind.get(kind, 0)
            estimated = self.sampled[kind].whole if kind in self.sampled else 0
            if kind is Kind.EFFECTIVE:
                estimated += self.undivided
            if getattr(found, name) is None:
                shares[name] = None
            elif shares[name] is not None:
                shares[name] = (whole - estimated) / whole if whole else 0.0
        if found.iopi is None:
            shares["iopi"] = None
        elif shares["iopi"] is not None and not spins:
            rpi = processor_time(self.by_kind)
            shares["iopi"] = (rpi - divided - self.undivided) / rpi
        return shares

    def _intervals(
        self, found: Indices, precision: Precision, sampled: int, by_mode: int
    ) -> dict[str, tuple[int, int] | None]:
        intervals = dict(_NO_INTERVAL)
        spins = self.spinning_sampled
        for name, kind in (*_SAMPLED_PARTS, *([("iopi", Kind.POLL)] if spins else [])):
            if kind is Kind.MEMORY and found.mpi is None:
                continue
            if kind is Kind.KERNEL and (spins or precision.kernel is Quality.UNAVAILABLE):
                continue
            low, high = self.range_of(kind)
            had, part = self.by_kind.get(kind, 0), self.sampled.get(kind, Estimate()).time
            if kind is Kind.EFFECTIVE:  # none of what was not divided need be effective
                had -= self.undivided
            more = self.undivided if kind in (Kind.EFFECTIVE, Kind.KERNEL) else 0
            intervals[name] = had - part + low, had - part + high + more
        if found.iopi is not None and not spins:  # all that was not seen may be polling
            intervals["iopi"] = found.iopi, found.iopi + sampled + by_mode + self.undivided
        return intervals


_USER_CODE = frozenset({Kind.EFFECTIVE, Kind.MEMORY, Kind.STALL})
"""The kinds that user code is divided into by hardware counters."""
_SAMPLED_PARTS = (("epi", Kind.EFFECTIVE), ("mpi", Kind.MEMORY), ("kpi", Kind.KERNEL))
"""The indices that samples tell."""


def _add_estimates(a: Mapping[Kind, Estimate], b: Mapping[Kind, Estimate]) -> dict[Kind, Estimate]:
    total = dict(a)
    for kind, estimate in b.items():
        total[kind] = total[kind] + estimate if kind in total else estimate
    return total


def amounts_in_time(times: Mapping[Kind, int], sampled: Mapping[str, Estimate], undivided: int = 0) -> Amounts:
    """Return the amounts of threads without hardware counters: the time of each kind, and what was divided by samples.

    ``undivided``: the time in the state `RUNNING`.
    """
    found: dict[Kind, Estimate] = {}
    samples = 0
    for state, estimate in sampled.items():
        kind = kind_of(state)
        if kind.in_rpi and state != RUNNING:
            found[kind] = found[kind] + estimate if kind in found else estimate
            samples += estimate.samples
    return Amounts(times, sampled=found, samples=samples, undivided=undivided)


def amounts_of(states: Mapping[str, Cell], *, cycles: bool, sampled: Mapping[str, Estimate] = _NOT_SAMPLED) -> Amounts:
    """Divide the states' cycles or time into kinds, using the hardware counters of user code.

    ``cycles``: the amounts are in cycles, which every state on a processor must have; kinds off the processor are then
    0. Otherwise they are in time. A state of kind EFFECTIVE with S stall cycles, M of them for memory, is divided into

       memory = M        stall = S - M        effective = cycles - S

    and, in time, the state's time is divided in these proportions. The counters are not read at one instant and may
    have been scaled. A counter that exceeds the one before it in cycles >= S >= M >= external is reduced to that one,
    so the parts are never negative and always add up to the whole (law 3). The parts of a state that were divided by
    samples and by mode (``sampled``) are divided likewise.
    """
    found = _NO_TIME.copy()
    estimated: dict[Kind, Estimate] = {}
    samples = undivided = 0
    external: int | None = 0
    memory_seen = stall_seen = True
    for state, cell in states.items():
        kind = kind_of(state)
        had = (cell.cycles or 0) if cycles and kind.in_rpi else 0 if cycles else cell.time
        estimate = sampled.get(state) if sampled and kind.in_rpi and state != RUNNING else None
        if estimate is not None:
            samples += estimate.samples
        if kind is not Kind.EFFECTIVE:
            found[kind] += had
            if estimate is not None:
                _estimate(estimated, kind, _converted(estimate, had, cell.time))
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
        if state == RUNNING:
            undivided += had - lost_part
        if estimate is not None:
            part = _converted(estimate, had, cell.time)
            of_lost, of_memory = _share(part, lost_part, had), _share(part, memory_part, had)
            _estimate(estimated, Kind.EFFECTIVE, _without(part, of_lost))
            if lost_part:
                _estimate(estimated, Kind.MEMORY, of_memory)
                _estimate(estimated, Kind.STALL, _without(of_lost, of_memory))
    return Amounts(found, external, memory_seen, stall_seen, estimated, samples, undivided)


def _estimate(found: dict[Kind, Estimate], kind: Kind, estimate: Estimate) -> None:
    found[kind] = found.get(kind, Estimate()) + estimate


def _converted(estimate: Estimate, had: int, time: int) -> Estimate:
    """Return an estimate of a state's ``time`` in the unit of ``had``, which is the state's amount."""
    parts = _part(had, estimate.time, time), _part(had, estimate.by_mode, time)
    return replace(estimate, time=parts[0], by_mode=parts[1])


def _share(estimate: Estimate, some: int, whole: int) -> Estimate:
    """Return the share ``some / whole`` of an estimate's amounts; it rests on the same samples."""
    return replace(estimate, time=_part(estimate.time, some, whole), by_mode=_part(estimate.by_mode, some, whole))


def _without(estimate: Estimate, part: Estimate) -> Estimate:
    return replace(estimate, time=estimate.time - part.time, by_mode=estimate.by_mode - part.by_mode)


def _part(had: int, some: int, whole: int) -> int:
    """Return ``some`` of ``whole`` cycles, converted to the unit of ``had``."""
    return some if had == whole else had * some // whole if whole > 0 else 0


def processor_time(times: Mapping[Kind, int]) -> int:
    """Return RPI, whatever its quality: the sum of the kinds of time that count as processor time."""
    return sum(_on_processor(times))


def observer_share(threads: Iterable[Mapping[Kind, int]]) -> float | None:
    """Return the share of the threads' time on processors that the observer took; None: they had no such time.

    Args:
        threads: The times of each thread, by kind.
    """
    taken = had = 0
    for times in threads:
        taken += times[Kind.OVERHEAD]
        had += processor_time(times)
    return taken / (taken + had) if taken + had > 0 else None


def indices_of(times: Mapping[Kind, int], precision: Precision = EXACT, *, external: int | None = None) -> Indices:
    """Return the indices of one thread or several from the amount of each kind, in time or in cycles.

    RPI = EPI + MPI + KPI + IOPI + stall, exactly. An unavailable index counts as 0 in this sum: its time is in EPI,
    which makes EPI at best a bound. (Unavailable memory time is in the stalls instead, where stalls are seen. Of KPI
    that is unavailable because time was not divided, a part may be known; it is in no index.) If EPI is an upper
    bound, RPI - EPI is the part of Td that was seen: Td is PARTIAL, at least this. A larger Td makes ME, KE and IOE
    larger, so they are PARTIAL too, where MPI, KPI and IOPI are exact; otherwise they are unavailable. TE has the
    quality of EPI. ``external`` is the part of memory time that waited outside the processor.
    """
    quality, exact_share, missing = _qualities(precision)
    times = {**_NO_TIME, **times}
    rpi = processor_time(times)
    values: dict[str, int | float | None] = {
        "rpi": rpi,
        "epi": times[Kind.EFFECTIVE],
        "mpi": times[Kind.MEMORY],
        "kpi": times[Kind.KERNEL],
        "iopi": times[Kind.POLL],
    }
    td = rpi - times[Kind.EFFECTIVE]
    values["td"] = td
    values["te"] = 1 - td / rpi if rpi else 1.0
    for efficiency, index in (("me", "mpi"), ("ke", "kpi"), ("ioe", "iopi")):
        part = values[index]
        values[efficiency] = 1 - part / td if part is not None and td else 1.0
    for name in missing:
        values[name] = None
    mpi = values["mpi"]
    apart = {} if external is None or mpi is None else {"mpi_internal": mpi - external, "mpi_external": external}
    return Indices(
        **values,  # type: ignore[arg-type]
        **apart,  # type: ignore[arg-type]
        quality=quality,
        exact_share=exact_share,
        interval=_NO_INTERVAL,
    )


@lru_cache(maxsize=256)
def _qualities(precision: Precision) -> tuple[Mapping[str, Quality], Mapping[str, float | None], tuple[str, ...]]:
    """Return the quality of each index, the exact shares where nothing was divided by samples, and what is unavailable.

    A ledger has one precision for thousands of threads, so this is found once.
    """
    unavailable = Quality.UNAVAILABLE
    hidden = unavailable in (precision.stall, precision.kernel, precision.poll)
    hidden = hidden or precision.poll is Quality.PARTIAL
    effective = precision.effective | (Quality.BOUND if hidden else Quality.EXACT)
    quality = {
        "rpi": precision.total,
        "epi": effective,
        "mpi": precision.memory,
        "kpi": precision.kernel,
        "iopi": precision.poll,
    }
    quality["te"] = effective | precision.total
    lost = quality["te"]
    if hidden or effective is Quality.BOUND:
        counted = precision.total in (Quality.EXACT, Quality.ESTIMATED)
        lost = Quality.PARTIAL if quality["te"] is Quality.BOUND and counted else unavailable
    quality["td"] = lost
    for efficiency, index in (("me", "mpi"), ("ke", "kpi"), ("ioe", "iopi")):
        # too large or too small: not known
        of_part = lost is Quality.PARTIAL and quality[index] not in (Quality.EXACT, Quality.ESTIMATED)
        quality[efficiency] = unavailable if of_part else lost | quality[index]
    untold = (Quality.BY_MODE, Quality.SAMPLED, Quality.UNAVAILABLE)
    shares = {name: None if quality[name] in untold else 1.0 for name in _PARTS}
    missing = tuple([name for name, worth in quality.items() if worth is Quality.UNAVAILABLE])
    return quality, shares, missing
