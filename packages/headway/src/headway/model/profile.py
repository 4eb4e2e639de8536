"""The profile: where the time of each state went, by stack, together with the ledger that says how much it was.

On the processor stacks are sampled: each sample stands for the time since the one before it. Off the processor, and for
stolen time, they are exact: the time between leaving the processor and coming back is charged to the stack with which
the thread left. The kind of a row's state tells which of the two the row is (`is_exact`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING

from headway.dataclass import dataclass

from .kinds import Kind, kind_of
from .ledger import Ledger

if TYPE_CHECKING:  # importing the model must stay cheap
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "PARTS",
    "Collection",
    "Frame",
    "Profile",
    "SampleColumns",
    "is_exact",
    "matches",
    "part_of",
    "sampling_error",
]

PARTS: Mapping[str, frozenset[Kind]] = {
    "effective": frozenset({Kind.EFFECTIVE}),
    "memory": frozenset({Kind.MEMORY}),
    "kernel": frozenset({Kind.KERNEL}),
    "poll": frozenset({Kind.POLL}),
    "stall": frozenset({Kind.STALL}),
    "stolen": frozenset({Kind.STOLEN}),
    "ready": frozenset({Kind.READY}),
    "wait": frozenset({Kind.WAIT}),
    "overhead": frozenset({Kind.OVERHEAD}),
    "unknown": frozenset({Kind.UNKNOWN}),
    "lost": frozenset(set(Kind) - {Kind.EFFECTIVE, Kind.OVERHEAD}),
    "processor": frozenset(kind for kind in Kind if kind.in_rpi),
}
"""The parts of a profile that a user can select, each with its kinds of states. ``lost`` is everything but progress and
overhead.
"""

_EXACT = frozenset({Kind.STOLEN, Kind.READY, Kind.WAIT})


def is_exact(state: str) -> bool:
    """Return whether the rows of a state are sums of all its time, and not samples."""
    return kind_of(state) in _EXACT


def part_of(state: str, part: str) -> bool:
    """Return whether a state belongs to one of `PARTS`."""
    return kind_of(state) in PARTS[part]


def sampling_error(share: float, samples: int) -> float | None:
    """Return half the width of the 95 % interval of a share found in ``samples`` samples (Wilson 1927), or None for no
    samples.

    It is positive also for a share of 0 or 1: what was never sampled may still have happened.
    """
    if samples <= 0:
        return None
    z = 1.96
    return z * math.sqrt(share * (1 - share) / samples + (z / (2 * samples)) ** 2) / (1 + z * z / samples)


@dataclass(frozen=True, slots=True)
class Frame:
    """A place in a program. A field is None if it is not known."""

    function: str | None
    file: str | None
    line: int | None
    module: str | None
    """The file that contains the code; ``[kernel]``, or a kernel module's name in brackets."""
    address: int | None
    """The address in the module, as linked; the address in memory if there is no module."""
    kind: str
    """``user``, ``kernel`` or ``python``; ``none``: not a place, but the reason why the stack ends here."""

    @property
    def name(self) -> str:
        """The name to show: the function, or else the module and address."""
        if self.function:
            return self.function
        place = (self.module or "").rpartition("/")[2] or "[unknown]"
        return place if self.address is None else f"{place}+{self.address:#x}"


@dataclass(frozen=True, slots=True)
class SampleColumns:
    """Rows of samples and sums, column by column: numpy arrays of shape (n,)."""

    time: NDArray[np.int64]
    """ns of CLOCK_MONOTONIC; for a sum, the end of the time that it covers."""
    thread: NDArray[np.int32]
    """Number of the thread in the profile; -1: not known."""
    cpu: NDArray[np.int16]
    """The processor; -1 for sums, which have none."""
    state: NDArray[np.int32]
    """Index into the profile's states."""
    weight: NDArray[np.int64]
    """ns"""
    count: NDArray[np.int64]
    """1 for a sample; the number of occurrences for a sum."""
    stack: NDArray[np.int32]
    """Index into the profile's stacks; -1: not known."""

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.time)

    @classmethod
    def of(cls, rows: Sequence[tuple[int, int, int, int, int, int, int]]) -> SampleColumns:
        """Make columns from rows whose values are in the order of the fields."""
        import numpy as np

        columns = list(zip(*rows, strict=True)) if rows else [()] * 7
        kinds = (np.int64, np.int32, np.int16, np.int32, np.int64, np.int64, np.int32)
        return cls(*(np.array(column, dtype=kind) for column, kind in zip(columns, kinds, strict=True)))

    def select(self, rows: NDArray[np.bool_]) -> SampleColumns:
        """Return the rows where the mask ``rows``, of shape (n,), is true."""
        return SampleColumns(*(getattr(self, name)[rows] for name in self.__slots__))


@dataclass(frozen=True, slots=True)
class Collection:
    """How samples were collected from the threads' buffers, and what that cost."""

    policy: str
    """The policy that said when to look: ``cpu-time``, ``watermark`` or ``fixed``."""
    capacity: int
    """The size of a thread's buffer in bytes."""
    looks: int
    """How often the fill level of a buffer was read."""
    drains: int
    """How often a buffer was emptied because of a look."""
    useful: int
    """Drains of at least half a buffer."""
    last_drains: int
    """How often a buffer was emptied because its thread, or the profile, had ended."""
    clock_reads: int
    """How often the processor time of a thread was read."""
    wakeups: int
    """How often the collector asked what was due."""
    collecting_ns: int
    """Processor time of finding new threads, looking and draining, in ns."""
    stacks_ns: int
    """Processor time of bringing the collected samples in order, with their stacks, in ns."""


@dataclass(frozen=True, slots=True)
class Profile:
    """Samples and sums with their stacks, and the ledger of the same window."""

    ledger: Ledger
    """Its ``threads`` are in the order of their numbers."""
    samples: SampleColumns
    states: tuple[str, ...]
    stacks: tuple[tuple[int, ...], ...]
    """Indices into ``frames``, innermost first."""
    frames: tuple[Frame, ...]
    period: int
    """ns of processor time from one sample to the next."""
    losses: Mapping[str, int] = field(default_factory=dict)
    """What is missing: name -> number or time."""
    notes: tuple[str, ...] = ()
    """What a reader must know, one sentence each."""
    collection: Collection | None = None
    """How the samples were collected; None: not known."""

    def rows(self, samples: SampleColumns | None = None) -> Iterator[tuple[int, str, int, int, tuple[int, ...]]]:
        """Yield (thread, state, weight, count, the stack's frames) of each row."""
        s = self.samples if samples is None else samples
        for thread, state, weight, count, stack in zip(
            s.thread.tolist(), s.state.tolist(), s.weight.tolist(), s.count.tolist(), s.stack.tolist(), strict=True
        ):
            yield thread, self.states[state], weight, count, self.stacks[stack] if stack >= 0 else ()

    def narrowed(self, *, part: str | None = None, state: str | None = None) -> Profile:
        """Return the profile reduced to rows that match ``part`` and ``state`` (see `matches`)."""
        import numpy as np

        wanted = np.array([matches(name, part=part, state=state) for name in self.states], dtype=bool)
        rows = wanted[self.samples.state] if len(self.states) else np.zeros(0, dtype=bool)
        return replace(self, samples=self.samples.select(rows))


def matches(name: str, *, part: str | None = None, state: str | None = None) -> bool:
    """Return whether a state belongs to ``part``, one of `PARTS`, and is ``state`` or below it.

    ``state`` with a final ``*`` selects every name that begins so. None selects everything.
    """
    return (part is None or part_of(name, part)) and (state is None or _below(name, state))


def _below(name: str, wanted: str) -> bool:
    if wanted.endswith("*"):
        return name.startswith(wanted[:-1])
    return name == wanted or name.startswith(f"{wanted}.")
