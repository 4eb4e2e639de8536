"""Where a screen's ledgers come from: from something that goes on, or from what is there already."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol, runtime_checkable

from headway.model import Ledger

__all__ = ["Live", "Timeline"]


@runtime_checkable
class Live(Protocol):
    """Measuring goes on: each interval comes once, in the order of time."""

    title: str
    """What is measured, in words; not clean."""

    def ledgers(self) -> AsyncIterator[Ledger]:
        """The ledger of each interval, when it is over, until measuring ends."""

    def last_words(self) -> str:
        """Why it ended, for the screen that stays."""


@runtime_checkable
class Timeline(Protocol):
    """Intervals of equal length that are all there, one after the other; one can move among them."""

    title: str
    """What was measured, in words; not clean."""

    @property
    def number(self) -> int:
        """How many there are; 1 at least."""

    @property
    def began(self) -> int:
        """When the first began, in the ledgers' time unit."""

    def ledgers(self, last: int, most: int) -> list[Ledger]:
        """The ledger of interval ``last``, from 0, with up to ``most`` - 1 before it; it may take a while.

        Raises HeadwayError where it cannot be read.
        """

    def rescaled(self, halve: bool, at: int) -> int | None:
        """Make the intervals half or twice as long: the number of the one that has the beginning of ``at``.

        None: they stay as they are.
        """
