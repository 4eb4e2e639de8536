"""Estimates: the part of a state's time that was divided by samples.

At the level of detail ``switches`` a source counts all processor time of a thread exactly, and takes samples of the
state that the thread is in. It divides the time among the states in proportion to these samples. So each state's time
may have a part that is an estimate. The parts add up to the time that was divided, so the ledger's law of conservation
holds to the last unit. How far an estimate may be from the truth follows from the number of samples (`wilson`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt

__all__ = ["RUNNING", "Estimate", "add_sampled", "divide", "subtract_sampled", "wilson"]

RUNNING = "running"
"""The state of processor time that is not divided, because no sample fell into it."""

_Z = 1.96
"""The 97.5 % quantile of the normal distribution: an interval from -z to z has 95 % of it."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """Of a state's time, the part that was divided by samples, and the number of samples that fell into the state."""

    time: int = 0
    """In the ledger's time unit. The time of the state's cell includes it."""
    samples: int = 0

    def __add__(self, other: Estimate) -> Estimate:
        """Return the sum of both."""
        return Estimate(self.time + other.time, self.samples + other.samples)

    def __sub__(self, earlier: Estimate) -> Estimate:
        """Return what was added since an earlier reading."""
        return Estimate(self.time - earlier.time, self.samples - earlier.samples)


def divide(time: int, samples: Mapping[str, int]) -> dict[str, Estimate]:
    """Divide a time among states in proportion to their samples. The parts add up to ``time`` exactly.

    Each part is rounded down, and the rest goes one unit each to the states with the largest remainders; of equal ones
    to that with more samples, then by name. States without a sample get no part. If there is no sample at all, the
    whole time is `RUNNING`. Raises ValueError if the time or a number of samples is negative.
    """
    if time < 0 or any(number < 0 for number in samples.values()):
        raise ValueError(f"a time of {time} cannot be divided by {dict(samples)}: both must not be negative")
    whole = sum(samples.values())
    if not whole:
        return {RUNNING: Estimate(time, 0)} if time else {}
    parts = {state: divmod(time * number, whole) for state, number in samples.items() if number}
    rest = time - sum([part for part, _ in parts.values()])
    order = sorted(parts, key=lambda state: (-parts[state][1], -samples[state], state)) if rest else []
    more = set(order[:rest])
    return {state: Estimate(part + (state in more), samples[state]) for state, (part, _) in parts.items()}


def wilson(part: int, whole: int) -> tuple[float, float]:
    """Return the interval for a share of which ``part`` of ``whole`` samples were seen, at 95 %.

    It is the score interval of Wilson, *Probable inference, the law of succession, and statistical inference* (Journal
    of the American Statistical Association 22, 1927). Unlike the usual ± it holds for few samples, and for shares near
    0 and 1. Without a sample it is from 0 to 1.
    """
    if not whole:
        return 0.0, 1.0
    share, square = part / whole, _Z * _Z
    middle = share + square / (2 * whole)
    half = _Z * sqrt(share * (1 - share) / whole + square / (4 * whole * whole))
    scale = 1 + square / whole
    low = 0.0 if part == 0 else max((middle - half) / scale, 0.0)
    high = 1.0 if part == whole else min((middle + half) / scale, 1.0)
    return low, high


def add_sampled(*many: Mapping[str, Estimate]) -> dict[str, Estimate]:
    """Return the estimates of several threads or processors added up, state by state."""
    total: dict[str, Estimate] = {}
    for sampled in many:
        for state, estimate in sampled.items():
            total[state] = total[state] + estimate if state in total else estimate
    return total


def subtract_sampled(later: Mapping[str, Estimate], earlier: Mapping[str, Estimate]) -> dict[str, Estimate]:
    """Return what was added between two readings, state by state. States to which nothing was added are left out."""
    nothing = Estimate()
    found = {state: estimate - earlier.get(state, nothing) for state, estimate in later.items()}
    return {state: estimate for state, estimate in found.items() if estimate != nothing}
