"""How much of a recording's time in user code was found spinning: its rows do not say."""

from __future__ import annotations

import os
from contextlib import closing

import pyarrow.compute as pc

from headway.model import SPINNING

from .format import part_name
from .parts import Damage, Folder

__all__ = ["time_found_spinning"]


def time_found_spinning(path: str | os.PathLike[str]) -> int:
    """Return for how long threads of a recording spun, as samples found (`record --spin`), in its time unit.

    In the rows that time is ``user``: samples say how much of it spun, and not when. 0: nothing was found, nobody
    looked, or what the source kept at the end is not there or damaged. No row is read. Raises OSError.
    """
    with closing(Folder(path)) as folder:
        for number in reversed(folder.numbers("states")):
            try:
                states = folder.table("states", part_name(number), number, ("state", "sampled"))
            except (FileNotFoundError, Damage):
                continue
            spun = states.filter(pc.equal(states.column("state").cast("string"), SPINNING))
            return pc.sum(spun.column("sampled")).as_py() or 0
    return 0
