"""Durations: how long the single occurrences of a state lasted, as a histogram.

An occurrence of a state begins when the state is entered and ends when it is left for good. What only interrupts it (an
interrupt, a fault, a time off the processor) is not a part of it. So its duration is the sum of its pieces, and the
durations of a state add up to the state's time, but for what was moved to another state later.

The buckets are spans between powers of two: bucket n has the durations above 2^(n-1) and up to 2^n units of time. With
several ``parts`` each span is divided into as many of one length. A percentile is therefore known as the limits of the
bucket that it is in. The longest duration is known exactly.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import accumulate
from math import ceil

from headway.dataclass import dataclass

from .quality import Quality
from .ready import Counted, count_of_durations

__all__ = [
    "DIVIDED_BY_SAMPLES",
    "MAX_PARTS",
    "N_POWERS",
    "Buckets",
    "Durations",
    "Longest",
    "StateDurations",
    "add_durations",
    "bucket_of",
    "known_durations",
    "limit_of",
    "subtract_durations",
]

N_POWERS = 43
"""Powers of two that have buckets. The last one has all durations that are longer than 2^41."""
MAX_PARTS = 8
"""The most parts of a power of two."""
DIVIDED_BY_SAMPLES = "those of user are of all user code: the spinning that samples found is in them"
"""Said of a ledger in which samples divided the time of ``user`` and not its occurrences."""

Buckets = tuple[tuple[int, int], ...]
"""The buckets that have occurrences, in ascending order, and how many each has."""


def bucket_of(duration: int, parts: int = 1) -> int:
    """Return the bucket of a duration. ``parts``: 1, 2, 4 or 8 buckets for each power of two."""
    below = max(duration - 1, 0)
    power = below.bit_length()
    if power >= N_POWERS - 1:
        return (N_POWERS - 1) * parts
    return power * parts + ((below * parts >> power - 1) - parts if power else 0)


def limit_of(bucket: int, parts: int = 1) -> int | None:
    """Return the longest duration that is in this bucket or in one before it; None: the last bucket has no limit."""
    power, part = divmod(bucket, parts)
    if power >= N_POWERS - 1:
        return None
    return -(-((parts + part + 1) << power - 1) // parts) if power else 1


@dataclass(frozen=True, slots=True)
class Longest:
    """The longest duration."""

    time: int
    """In the ledger's time unit."""
    ended: int | None
    """When it ended, on the ledger's clock. None: it has not ended, and ``time`` is how long it has lasted; or the
    moment is not known, because ``time`` is a bound.
    """
    quality: Quality = Quality.EXACT
    """`Quality.BOUND`: none was longer than ``time``, which is the limit of a bucket."""

    @property
    def under_way(self) -> bool:
        """Whether it has not ended."""
        return self.ended is None and self.quality is Quality.EXACT


def _longer(a: Longest | None, b: Longest | None) -> Longest | None:
    """Return the longer one. Of a bound and a figure that is not above it, the bound remains."""
    if a is None or b is None:
        return a or b
    return max(a, b, key=lambda x: (x.time, x.quality is Quality.EXACT, -1 if x.ended is None else x.ended))


@dataclass(frozen=True, slots=True)
class Durations:
    """How long the occurrences of a state lasted.

    The law: `placed` + ``unplaced`` + ``open`` is the count of the state's cell; for ``ready`` the counts of all of its
    parts are in it (`count_of_durations`).
    """

    buckets: Buckets = ()
    parts: int = 1
    """Buckets for each power of two: 1, 2, 4 or 8."""
    unplaced: int = 0
    """Occurrences that have ended and are in no bucket, because their durations are not known one by one."""
    open: int = 0
    """Occurrences that had not ended when the window did, less those that had begun before it."""
    longest: Longest | None = None
    """None: nothing has ended, or it is not known."""

    @property
    def placed(self) -> int:
        """The number of occurrences whose durations are known: those in the buckets."""
        return sum([number for _, number in self.buckets])

    @property
    def count(self) -> int:
        """The number of occurrences, by the law."""
        return self.placed + self.unplaced + self.open

    def limits(self, share: float) -> tuple[int, int | None] | None:
        """Return within which limits a percentile is, ``share`` from 0 to 1: above the first, and at most the second.

        The second is None where it is in the last bucket and the longest is not known. Returns None if no duration is
        known.
        """
        whole = self.placed
        if not whole:
            return None
        sums = list(accumulate(number for _, number in self.buckets))
        bucket = self.buckets[bisect_left(sums, max(1, ceil(whole * share - 1e-9)))][0]
        above = limit_of(bucket - 1, self.parts) or 0 if bucket else 0
        limit = limit_of(bucket, self.parts)
        longest = self.longest
        if longest is not None and (limit is None or longest.time < limit):
            limit = max(longest.time, above)
        return above, limit

    def at_most(self, share: float) -> int | None:
        """Return the upper limit of a percentile; None: it is not known."""
        limits = self.limits(share)
        return None if limits is None else limits[1]

    def below(self, limit: int) -> int:
        """Return how many of the placed lasted at most so long. It must be the limit of a bucket."""
        most = bucket_of(limit, self.parts)
        return sum([number for bucket, number in self.buckets if bucket <= most])

    def coarser(self, parts: int) -> Durations:
        """Return the same with fewer buckets for each power of two."""
        if parts == self.parts:
            return self
        step = self.parts // parts
        return replace(self, buckets=_sum((bucket // step, number) for bucket, number in self.buckets), parts=parts)

    def __add__(self, other: Durations) -> Durations:
        """Return both together, with the fewer buckets of the two."""
        parts = min(self.parts, other.parts)
        a, b = self.coarser(parts), other.coarser(parts)
        return Durations(
            a.buckets if not b.buckets else b.buckets if not a.buckets else _sum((*a.buckets, *b.buckets)),
            parts,
            self.unplaced + other.unplaced,
            self.open + other.open,
            _longer(self.longest, other.longest),
        )

    def __sub__(self, earlier: Durations) -> Durations:
        """Return what was added since an earlier reading of the same thread and state.

        The longest is exact if it was longer than any before. Otherwise the limit of the last bucket is a bound.
        """
        parts = min(self.parts, earlier.parts)
        a, b = self.coarser(parts), earlier.coarser(parts)
        buckets = _sum((*a.buckets, *((bucket, -number) for bucket, number in b.buckets)))
        new = Durations(buckets, parts, a.unplaced - b.unplaced, a.open - b.open)
        return replace(new, longest=_new_longest(new, a.longest, b.longest))


def _sum(buckets: Iterable[tuple[int, int]]) -> Buckets:
    found: dict[int, int] = {}
    for bucket, number in buckets:
        found[bucket] = found.get(bucket, 0) + number
    return tuple(sorted([(bucket, number) for bucket, number in found.items() if number]))


def _new_longest(new: Durations, later: Longest | None, earlier: Longest | None) -> Longest | None:
    if later is None or earlier is None or later.under_way:
        return later
    if later.quality is Quality.EXACT and (later.time > earlier.time or later.ended != earlier.ended):
        return later
    if not new.buckets:
        return None
    limit = limit_of(new.buckets[-1][0], new.parts)
    return Longest(later.time if limit is None else min(limit, later.time), None, Quality.BOUND)


StateDurations = Mapping[str, Durations]
"""By state. A state that is missing has no durations, for a reason that the ledger gives."""


def add_durations(*many: StateDurations | None, of: Mapping[str, Counted] | None = None) -> StateDurations | None:
    """Return the durations of several threads together, state by state; None if those of a thread are not known.

    ``of``: the cells of their states together. A state whose durations are not known of one of the threads is left out.
    """
    total: dict[str, Durations] = {}
    for durations in many:
        if durations is None:
            return None
        for state, found in durations.items():
            total[state] = total[state] + found if state in total else found
    return total if of is None else known_durations(total, of)


def subtract_durations(
    later: StateDurations | None, earlier: StateDurations | None, of: Mapping[str, Counted] | None = None
) -> StateDurations | None:
    """Return what was added between two readings, state by state; None if one of them is not known.

    ``of``: the cells of what was added, as for `add_durations`.
    """
    if later is None or earlier is None:
        return None
    found = {state: each - earlier[state] if state in earlier else each for state, each in later.items()}
    new = {state: each for state, each in found.items() if each.buckets or each.unplaced or each.open}
    return new if of is None else known_durations(new, of)


def known_durations(durations: StateDurations | None, of: Mapping[str, Counted]) -> StateDurations | None:
    """Return the durations of the states of which there are as many as these cells have occurrences."""
    if durations is None:
        return None
    return {state: each for state, each in durations.items() if each.count == count_of_durations(of, state)}
