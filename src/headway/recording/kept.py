"""Which parts a recording keeps that must not grow beyond its limits: the newest, as in a ring.

A part that is dropped takes its rows with it. What later parts need of it is carried over into the part after it: who
its threads are, what they were in the midst of, and what was lost.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from headway.model import OpenState, ThreadSeen

__all__ = ["KeptPart", "KeptParts"]


@dataclass(frozen=True, slots=True)
class KeptPart:
    """A part that has been written, as far as it matters for what comes after it."""

    number: int
    start: int
    end: int
    sizes: Mapping[str, int]
    """Bytes of each of its files, by table."""
    rows: int = 0
    threads: Mapping[int, ThreadSeen] = field(default_factory=dict)
    open: Mapping[int, OpenState] = field(default_factory=dict)
    losses: Mapping[str, int] = field(default_factory=dict)

    def after(self, dropped: KeptPart) -> KeptPart:
        """With what was known of the part before it, which is to go."""
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
    """The parts that are there, oldest first, within ``most_bytes`` and ``longest`` (time units); None: no limit."""

    def __init__(self, most_bytes: int | None, longest: int | None) -> None:
        self.limited = most_bytes is not None or longest is not None
        self.dropped = 0
        self.size = 0
        self.rows = 0
        # The rest of the folder takes its room too.
        self._most = None if most_bytes is None else most_bytes - most_bytes // 16
        self._longest = longest
        self._parts: deque[KeptPart] = deque()

    @property
    def start(self) -> int | None:
        """From when on everything is there; None: from the beginning."""
        return self._parts[0].start if self.dropped and self._parts else None

    def add(self, part: KeptPart) -> None:
        """A part has been written."""
        self.size += sum(part.sizes.values())
        self.rows += part.rows
        if self.limited:
            self._parts.append(part)

    def too_many(self, coming: int, until: int) -> bool:
        """Whether the oldest must go before ``coming`` bytes are written, which reach until then."""
        if not self._parts:
            return False
        first = self._parts[0]
        too_long = self._longest is not None and first.end <= until - self._longest
        carried = sum(size for table, size in first.sizes.items() if table != "transitions")  # twice, for a moment
        return too_long or (self._most is not None and self.size + coming + carried > self._most)

    def drop(self) -> tuple[KeptPart, KeptPart | None]:
        """The oldest, which is to be removed, and the one after it, which is to be written anew, if there is one."""
        first = self._parts.popleft()
        self.dropped += 1
        self.size -= sum(first.sizes.values())
        self.rows -= first.rows
        if not self._parts:
            return first, None
        self._parts[0] = self._parts[0].after(first)
        return first, self._parts[0]

    def resized(self, sizes: Mapping[str, int]) -> None:
        """The oldest part's files have these sizes now."""
        first = self._parts[0]
        self._parts[0] = replace(first, sizes={**first.sizes, **sizes})
        self.size += sum(self._parts[0].sizes.values()) - sum(first.sizes.values())
