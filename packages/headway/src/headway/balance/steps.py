"""Weights in steps: nice values, whose steps are a factor of 1.25 (``sched_prio_to_weight`` in kernel/sched/core.c)."""

from __future__ import annotations

from math import log

__all__ = ["steps_for"]

NICE = 1.25
"""The factor between the weights of two neighbouring nice values. The kernel's table rounds it."""
_SLACK = 0.6
"""How far a weight may be from that of the present number of steps, in steps, before another is taken. With 0.5, noise
around the middle between two would change them all the time."""


def steps_for(weight: float, present: int, step: float = NICE) -> int:
    """Return by how many steps to lower a weight so that it is ``weight`` times what it was.

    Args:
        weight: the factor wanted; a larger one is fewer steps, less than none if it is above 1
        present: by how many it is lowered now; kept if that is near enough
        step: the factor of one step
    """
    exact = -log(weight) / log(step)
    return present if abs(exact - present) <= _SLACK else round(exact)
