"""How much a figure can be trusted."""

from __future__ import annotations

from enum import Enum

__all__ = ["Quality"]


class Quality(Enum):
    """The quality of a figure, from best to worst; a figure made of several has the worst of theirs."""

    EXACT = "exact"
    BOUND = "bound"
    """The true value is at most this."""
    SAMPLED = "sampled"
    """Estimated from samples."""
    UNAVAILABLE = "unavailable"
    """Cannot be had here; the figure is None."""

    def __or__(self, other: Quality) -> Quality:
        """The worse of two qualities (commutative, associative, EXACT is neutral)."""
        return self if _ORDER[self] >= _ORDER[other] else other


_ORDER = {quality: order for order, quality in enumerate(Quality)}
