"""Reading a recording: its ledger, and its rows as batches."""

from __future__ import annotations

import os
from collections.abc import Iterator

from headway.model import Batch, Ledger

from .batches import Chosen, batches
from .contents import Contents
from .ledger import counted, kept

__all__ = ["Recording", "open"]


class Recording(Contents):
    """A recording on disk as it was when it was opened. Parts that are written later are not in it.

    Use it as a context manager, or call `close`. All times are in the time unit of `Document.ledger`: nanoseconds of
    CLOCK_MONOTONIC on Linux, cycles on the reference machine. Damaged files are left out and listed in `damaged`.
    """

    def ledger(self) -> Ledger:
        """Return the ledger, computed from the rows. Raises HeadwayError if the rows do not add up."""
        return counted(self)

    def batches(self, chosen: Chosen | None = None) -> Iterator[Batch]:
        """Yield the rows as batches, part by part, all or only ``chosen``.

        The last batch has the states that were open.
        """
        return batches(self, chosen)

    def kept_ledger(self) -> Ledger | None:
        """Return the ledger that the source kept beside the rows.

        Returns None if the recording was not closed or that part is damaged. Raises HeadwayError if it does not add up.
        """
        return kept(self)


def open(path: str | os.PathLike[str]) -> Recording:
    """Open a recording. Raises HeadwayError if it is not a recording, or of a later version.

    Example: ``with headway.open("run.hw") as run: run.ledger()``.
    """
    return Recording(path)
