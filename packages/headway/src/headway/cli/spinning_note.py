"""What to say of a recording in which samples found spinning, where only its rows are looked at."""

from __future__ import annotations

import os
from contextlib import suppress

from headway.views.figures import with_unit
from headway.views.printable import clean

from .say import say

__all__ = ["say_spinning"]


def say_spinning(path: str | os.PathLike[str], *, named: bool = False) -> None:
    """Say how much of the time in user code of a recording was found spinning, if anything was.

    ``named``: there are several recordings, so that it must be said of which one this is.
    """
    from headway.recording.spinning import time_found_spinning

    time = 0
    with suppress(OSError):
        time = time_found_spinning(path)
    if time:
        where = f"{clean(os.fspath(path))}: " if named else ""
        amount = with_unit(time, "ns", 6).strip()
        say(f"{where}samples found ~{amount} of user code spinning, and do not say when: headway report divides it")
