"""Quality: how far a figure can be trusted."""

from __future__ import annotations

from enum import Enum

__all__ = ["Quality"]


class Quality(Enum):
    """The quality of a figure, from best to worst. A figure made of several has the worst of their qualities."""

    EXACT = "exact"
    ESTIMATED = "estimated"
    """Counted, and corrected by what observing cost, which is not known well: `Overhead.range` says how well."""
    BOUND = "bound"
    """The true value is at most this."""
    BY_MODE = "by_mode"
    """Divided by the share of the cycles that a processor counted in user mode and in kernel mode: exact in cycles. In
    time it is exact as far as the clock rate was the same in both modes.
    """
    SAMPLED = "sampled"
    """Estimated from samples."""
    PARTIAL = "partial"
    """Counted exactly in a part of the time, or a figure that rests on a bound. The true value is at least this."""
    UNAVAILABLE = "unavailable"
    """The source cannot tell it here; the figure is None."""

    __hash__ = object.__hash__
    """Members are single objects, as those of `Kind`: what follows from a precision is kept by it, for each thread."""

    def __or__(self, other: Quality) -> Quality:
        """Return the worse of two qualities (commutative, associative, EXACT is neutral)."""
        return self if _ORDER[self] >= _ORDER[other] else other


_ORDER = {quality: order for order, quality in enumerate(Quality)}
