"""The user's choice of the lines of threads in a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headway.dataclass import dataclass

if TYPE_CHECKING:
    from headway.model import GroupBy

__all__ = ["DEFAULT", "LINES", "Listing"]

LINES = 25
"""The number of lines of threads where no terminal limits it."""


@dataclass(frozen=True, slots=True)
class Listing:
    """Which lines of threads a table has."""

    limit: int | None = LINES
    """The largest number of lines; None: no limit. The threads without a line are summed up in one more."""
    height: int | None = None
    """The number of lines for the table with its notes, instead of the limit; None: the limit counts."""
    by: GroupBy | None = None
    """What a line is for; None: for a thread, or for the threads of a name where there are more threads than lines."""
    before: GroupBy | None = None
    """What a line was for in the interval before. Names stay until the threads take half of the lines, so that a number
    of threads that goes up and down does not change the table each time.
    """


DEFAULT = Listing()
