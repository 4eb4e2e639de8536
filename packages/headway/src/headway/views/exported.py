"""The description of a recording for views of its rows. A view takes it first, and then the batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field

import numpy as np
from numpy.typing import NDArray

from headway.dataclass import dataclass
from headway.model import ThreadSeen, Window

__all__ = ["Exported", "Shown", "labels"]

Shown = Callable[[int], object]
"""Called with the number of rows written so far."""


@dataclass(frozen=True, slots=True)
class Exported:
    """The description of what is exported, without its rows. Times are in ``time_unit``."""

    window: Window
    threads: Mapping[int, ThreadSeen]
    """The threads by their number in the recording, as they were last seen."""
    time_unit: str = "ns"
    """``ns`` (of CLOCK_MONOTONIC) or ``cycles``."""
    host: str = ""
    anchors: Sequence[tuple[int, int]] = ()
    """Instants in CLOCK_MONOTONIC and CLOCK_REALTIME, both in ns, in the order of time."""
    realtime: Callable[[NDArray[np.int64]], NDArray[np.int64]] | None = None
    """Converts times, shape (n,), to ns since 1970; None: it is not known."""
    bound: bool = True
    """Whether the time of progress is an upper bound."""
    facts: Mapping[str, str | int] = field(default_factory=dict)
    """Other properties, for people."""


def labels(threads: Mapping[int, ThreadSeen]) -> dict[int, str]:
    """Return the name of each process by pid: that of its first thread or, if that is unknown, of another."""
    found: dict[int, tuple[bool, int, str]] = {}
    for number, thread in threads.items():
        place = thread.tid != thread.pid, number, thread.name
        found[thread.pid] = min(found.get(thread.pid, place), place)
    return {pid: name for pid, (_, _, name) in found.items()}
