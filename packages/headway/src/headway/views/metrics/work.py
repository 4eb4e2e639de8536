"""Work of a known amount, as it is served: when it will be done."""

from __future__ import annotations

from typing import NamedTuple

from headway.model import Ledger
from headway.model.work import FollowedWork

from ..forecast import forecast_text

__all__ = ["Promised", "promised"]


class Promised(NamedTuple):
    """Work of a known amount, and when it will be done."""

    state: str | None
    """The state whose entries are the steps of the work; None: the work is given in EPI."""
    amount: int
    """EPI in ns, or steps; so is ``done``."""
    done: int
    left: int | None
    """How long the rest will take, ns from the reading on, with its 95 % interval. None: not known."""
    least: int | None
    most: int | None
    words: str
    """All that in words."""


def promised(work: FollowedWork, ledger: Ledger) -> Promised:
    """Return when the work will be done, after the ledger of an interval too."""
    found = work.take(ledger)
    words = forecast_text(work.work, found, ledger)
    return Promised(work.work.state, found.work, found.done, found.left, found.least, found.most, words)
