"""Reading a recording: its ledger, and its rows as a source hands them over."""

from __future__ import annotations

import os
from collections.abc import Iterator

from headway.model import Batch, Ledger

from .batches import Chosen, batches
from .contents import Contents
from .ledger import counted, kept

__all__ = ["Recording", "open"]


class Recording(Contents):
    """A recording on disk, as it was when it was opened: parts that are written later are not in it.

    A context manager; otherwise to be closed. All times are in `Document.ledger`'s time unit: nanoseconds of
    CLOCK_MONOTONIC on Linux, cycles on the reference machine. What is damaged is left out, and is in `damaged`.
    """

    def ledger(self) -> Ledger:
        """The ledger, counted from the rows. Raises HeadwayError where these do not add up."""
        return counted(self)

    def batches(self, chosen: Chosen | None = None) -> Iterator[Batch]:
        """Its rows as a source hands them over, part by part; what was open at its end is the last. All, or some."""
        return batches(self, chosen)

    def kept_ledger(self) -> Ledger | None:
        """The ledger as its source has kept it beside the rows; None: it was not closed, or that part is damaged."""
        return kept(self)


def open(path: str | os.PathLike[str]) -> Recording:
    """Open a recording. Raises HeadwayError where it is not one, or one of a later version.

    ``with headway.open("run.hw") as run: run.ledger()``.
    """
    return Recording(path)
