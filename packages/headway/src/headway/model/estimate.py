"""Estimates: the part of a state's time that was not counted state by state, but divided among states.

At the level of detail ``switches`` a source counts all processor time of a thread exactly, and takes samples of the
state that the thread is in. It divides the time among the states in proportion to these samples. So each state's time
may have a part that is an estimate. The parts add up to the time that was divided, so the ledger's law of conservation
holds to the last unit. How far an estimate may be from the truth follows from the number of samples (`wilson`).

Where a processor counts its cycles in user mode and in kernel mode, these cycles tell user code from the kernel
(`divide_by_mode`). Then samples only tell what the kernel did.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt

from headway.dataclass import dataclass

__all__ = [
    "KERNEL",
    "RUNNING",
    "SPINNING",
    "USER",
    "Estimate",
    "ModeCycles",
    "add_sampled",
    "divide",
    "divide_by_mode",
    "subtract_sampled",
    "wilson",
]

USER = "user"
"""The state of the program's own code."""
_REGION = "user."
"""The beginning of the states of regions of user code that have a name."""
KERNEL_THREAD = "kernel.thread"
"""The state of a thread of the kernel that has a processor: it has no program's code."""
KERNEL = "kernel"
"""The state of time in the kernel of which it is not known what the kernel did."""

SPINNING = "poll.spin"
"""The state of user code that samples found spinning."""

RUNNING = "running"
"""The state of processor time that is not divided, because no sample fell into it."""

_Z = 1.96
"""The 97.5 % quantile of the normal distribution: an interval from -z to z has 95 % of it."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """Of a state's time, the parts that were divided among states, and by what.

    The time of the state's cell includes both ``time`` and ``by_mode``. They are in the ledger's time unit.
    """

    time: int = 0
    """The part that samples divided, user code from the kernel too."""
    samples: int = 0
    """The samples of that time which fell into the state."""
    by_mode: int = 0
    """The part of which the cycles in user mode and in kernel mode told whether it was user code or the kernel."""
    mode_samples: int = 0
    """The samples that told which state of the kernel, or which region of user code, that part was in.

    0 of `KERNEL`, and of user code in which no sample fell into a region.
    """

    def __add__(self, other: Estimate) -> Estimate:
        """Return the sum of both."""
        return Estimate(
            self.time + other.time,
            self.samples + other.samples,
            self.by_mode + other.by_mode,
            self.mode_samples + other.mode_samples,
        )

    def __sub__(self, earlier: Estimate) -> Estimate:
        """Return what was added since an earlier reading."""
        return Estimate(
            self.time - earlier.time,
            self.samples - earlier.samples,
            self.by_mode - earlier.by_mode,
            self.mode_samples - earlier.mode_samples,
        )

    @property
    def whole(self) -> int:
        """All of the state's time that was divided, by whatever."""
        return self.time + self.by_mode

    @property
    def told_by_samples(self) -> int:
        """The part of the time of which samples told the state, by themselves or within the kernel's time."""
        return self.time + self.by_mode if self.mode_samples else self.time


@dataclass(frozen=True, slots=True)
class ModeCycles:
    """The cycles that a processor counted in a time, and the time that the observer took meanwhile.

    ``overhead`` is not in the time that is to be divided, but its cycles are among those of the kernel.
    """

    user: int
    kernel: int
    overhead: int = 0

    @property
    def credible(self) -> bool:
        """Whether the time can be divided by them. Counters that ran backwards, or not at all, cannot be believed."""
        return min(self.user, self.kernel, self.overhead) >= 0 and self.user + self.kernel > 0


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


def divide_by_mode(time: int, cycles: ModeCycles, samples: Mapping[str, int]) -> dict[str, Estimate]:
    """Divide a time into user code and the kernel by its cycles, and each of the two by samples of its states.

    The parts add up to ``time`` exactly. User code gets its share of all that the cycles were counted in, the
    observer's time too, rounded to the nearest unit; the kernel gets the rest. Without a sample in the kernel its time
    is in the state `KERNEL`. User code is divided only if a sample fell into one of its regions (``user.TAG``). Raises
    ValueError if the time or a number of samples is negative, or if the cycles are not `ModeCycles.credible`.
    """
    if time < 0 or not cycles.credible:
        raise ValueError(f"a time of {time} cannot be divided by {cycles}")
    whole = cycles.user + cycles.kernel
    user = min(time, (2 * (time + cycles.overhead) * cycles.user + whole) // (2 * whole))
    own = {state: n for state, n in samples.items() if state == USER or state.startswith(_REGION)}
    found = {USER: Estimate(by_mode=user)} if user else {}
    if any(n for state, n in own.items() if state != USER):
        found = _by_mode(divide(user, own))
    kernel = divide(time - user, {state: n for state, n in samples.items() if state not in own})
    return found | {KERNEL if state == RUNNING else state: part for state, part in _by_mode(kernel).items()}


def _by_mode(parts: Mapping[str, Estimate]) -> dict[str, Estimate]:
    """Return parts of one mode's time, which samples divided."""
    return {state: Estimate(by_mode=part.time, mode_samples=part.samples) for state, part in parts.items()}


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
