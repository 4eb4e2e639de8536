"""What a recording is of, for views of its rows: they take this and then its batches, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from headway.model import ThreadSeen, Window

__all__ = ["Exported", "Shown", "labels"]

Shown = Callable[[int], object]
"""Told how many rows have been written."""


@dataclass(frozen=True, slots=True)
class Exported:
    """What is exported, but for its rows. Times are in ``time_unit``."""

    window: Window
    threads: Mapping[int, ThreadSeen]
    """By their number in the recording, as they were last seen."""
    time_unit: str = "ns"
    """``ns`` (of CLOCK_MONOTONIC) or ``cycles``."""
    host: str = ""
    anchors: Sequence[tuple[int, int]] = ()
    """Instants in CLOCK_MONOTONIC and CLOCK_REALTIME, both in ns, in the order of time."""
    realtime: Callable[[NDArray[np.int64]], NDArray[np.int64]] | None = None
    """Makes ns since 1970 of times; None: it is not known."""
    bound: bool = True
    """Whether time of progress is only known to be at most what rows say."""
    facts: Mapping[str, str | int] = field(default_factory=dict)
    """Whatever else is known of it, for people."""


def labels(threads: Mapping[int, ThreadSeen]) -> dict[int, str]:
    """What processes are called, by pid: after their first thread, or where that is not known after another."""
    found: dict[int, tuple[bool, int, str]] = {}
    for number, thread in threads.items():
        place = thread.tid != thread.pid, number, thread.name
        found[thread.pid] = min(found.get(thread.pid, place), place)
    return {pid: name for pid, (_, _, name) in found.items()}
