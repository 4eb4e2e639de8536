"""The sources of a screen's ledgers: a running measurement, or a finished recording."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol, runtime_checkable

from headway.model import Ledger

__all__ = ["Live", "Timeline"]


@runtime_checkable
class Live(Protocol):
    """A running measurement. Each interval comes once, in the order of time."""

    title: str
    """What is measured, in words; not sanitised for a terminal."""

    def ledgers(self) -> AsyncIterator[Ledger]:
        """Yield the ledger of each interval at its end, until measuring ends."""

    def last_words(self) -> str:
        """Return why measuring ended, for the screen that stays."""


@runtime_checkable
class Timeline(Protocol):
    """Consecutive intervals of equal length that are all available, so that the user can move among them."""

    title: str
    """What was measured, in words; not sanitised for a terminal."""

    @property
    def number(self) -> int:
        """The number of intervals, at least 1."""

    @property
    def began(self) -> int:
        """The start of the first interval, in the ledgers' time unit."""

    def ledgers(self, last: int, most: int) -> list[Ledger]:
        """Return the ledgers of up to ``most`` intervals, of which the last is number ``last`` (from 0).

        It may take a while.

        Raises HeadwayError if they cannot be read.
        """

    def rescaled(self, halve: bool, at: int) -> int | None:
        """Make the intervals half or twice as long, and return the number of the one that contains the start of ``at``.

        Returns None, and changes nothing, if that is not possible.
        """
