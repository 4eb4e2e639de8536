"""The parts that a recording with limits keeps: the newest, as in a ring.

A dropped part takes its rows with it. What later parts need of it is carried over into the next part: the threads, the
states they were in, and the losses.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from headway.model import OpenState, ThreadSeen

__all__ = ["KeptPart", "KeptParts"]


@dataclass(frozen=True, slots=True)
class KeptPart:
    """What later parts need to know of a part that has been written."""

    number: int
    start: int
    end: int
    sizes: Mapping[str, int]
    """The size of each of its files in bytes, by table."""
    rows: int = 0
    threads: Mapping[int, ThreadSeen] = field(default_factory=dict)
    open: Mapping[int, OpenState] = field(default_factory=dict)
    losses: Mapping[str, int] = field(default_factory=dict)

    def after(self, dropped: KeptPart) -> KeptPart:
        """Return this part with what was known from the part before it, which is to be dropped."""
        ends = {n: t.end for n, t in {**dropped.threads, **self.threads}.items() if t.end is not None}
        gone = {number for number, end in ends.items() if end < dropped.start}
        threads = {number: thread for number, thread in dropped.threads.items() if number not in gone}
        still = {number: state for number, state in dropped.open.items() if number not in ends}
        return replace(
            self,
            threads={**threads, **self.threads},
            open={**still, **self.open},
            losses={**dropped.losses, **self.losses},
        )


class KeptParts:
    """The parts on disk, oldest first, limited to ``most_bytes`` and to ``longest`` (in time units). None: no limit.

    With either limit, they name ``most_threads`` threads at most, because what they name is kept in memory.
    """

    def __init__(self, most_bytes: int | None, longest: int | None, most_threads: int | None = None) -> None:
        self.limited = most_bytes is not None or longest is not None
        self.holds = self.released = 0
        """No part is dropped because of its age unless all holds, counted by the one who makes them, are released."""
        self.dropped = 0
        self.size = 0
        self.rows = 0
        # Keep a sixteenth for the other files of the folder.
        self._most = None if most_bytes is None else most_bytes - most_bytes // 16
        self._longest = longest
        self._most_threads = most_threads
        self._threads = 0
        self._parts: deque[KeptPart] = deque()

    @property
    def start(self) -> int | None:
        """The time from which on everything is there; None: from the beginning."""
        return self._parts[0].start if self.dropped and self._parts else None

    @property
    def files(self) -> list[tuple[str, int]]:
        """The files of all parts: table and number."""
        return [(table, part.number) for part in self._parts for table in sorted({"transitions", *part.sizes})]

    def add(self, part: KeptPart) -> None:
        """Add a part that has been written."""
        self.size += sum(part.sizes.values())
        self.rows += part.rows
        if self.limited:
            self._parts.append(part)
            self._threads += len(part.threads)

    def too_many(self, coming: int, until: int, threads: int = 0) -> bool:
        """Return whether the oldest part must be dropped before another one is written.

        That part has ``coming`` bytes, ends at ``until`` and names ``threads`` threads.
        """
        if not self._parts:
            return False
        first = self._parts[0]
        too_long = self._longest is not None and self.holds == self.released and first.end <= until - self._longest
        # these exist twice for a moment
        carried = sum(size for table, size in first.sizes.items() if table != "transitions")
        too_large = self._most is not None and self.size + coming + carried > self._most
        return too_long or too_large or self._names_too_many(threads)

    def _names_too_many(self, coming: int) -> bool:
        """Return so. Those of the only part would all be carried over: to drop it would not help."""
        most = self._most_threads
        return most is not None and self._threads + coming > most and len(self._parts) > 1

    def drop(self) -> tuple[KeptPart, KeptPart | None]:
        """Drop the oldest part. Return it, and the part after it (None: there is none), which must be written again."""
        first = self._parts.popleft()
        self.dropped += 1
        self.size -= sum(first.sizes.values())
        self.rows -= first.rows
        self._threads -= len(first.threads)
        if not self._parts:
            return first, None
        second = self._parts[0]
        self._parts[0] = head = second.after(first)
        self._threads += len(head.threads) - len(second.threads)
        return first, head

    def resized(self, sizes: Mapping[str, int]) -> None:
        """Set the sizes of the oldest part's files."""
        first = self._parts[0]
        self._parts[0] = replace(first, sizes={**first.sizes, **sizes})
        self.size += sum(self._parts[0].sizes.values()) - sum(first.sizes.values())
