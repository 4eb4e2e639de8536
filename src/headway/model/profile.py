"""A profile: where the time of each state went, by stack, beside the ledger that says how much it was.

On the processor stacks are sampled: each sample stands for the time since the one before it. Off the processor, and for
time that was stolen, they are exact: the time between leaving and coming back is charged to the stack that the thread
left with. Which of the two a row is follows from its state's kind (`is_exact`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from .kinds import Kind, kind_of
from .ledger import Ledger

if TYPE_CHECKING:  # importing the model must stay cheap
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["PARTS", "Frame", "Profile", "SampleColumns", "is_exact", "matches", "part_of", "sampling_error"]

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
"""What a flame graph can be asked for, and the kinds of states that it is; ``lost``: all that is not progress."""

_EXACT = frozenset({Kind.STOLEN, Kind.READY, Kind.WAIT})


def is_exact(state: str) -> bool:
    """Whether the rows of a state are sums of all its time, not samples."""
    return kind_of(state) in _EXACT


def part_of(state: str, part: str) -> bool:
    """Whether a state is of one of `PARTS`."""
    return kind_of(state) in PARTS[part]


def sampling_error(share: float, samples: int) -> float | None:
    """Half the width of the 95 % interval of a share found in so many samples (Wilson 1927); None: no samples.

    Of a share of 0 or 1, too, it is more than nothing: what was never seen may still be there.
    """
    if samples <= 0:
        return None
    z = 1.96
    return z * math.sqrt(share * (1 - share) / samples + (z / (2 * samples)) ** 2) / (1 + z * z / samples)


@dataclass(frozen=True, slots=True)
class Frame:
    """A place in a program, as far as it is known; None where it is not."""

    function: str | None
    file: str | None
    line: int | None
    module: str | None
    """The file with the code, ``[kernel]`` or a kernel module's name in brackets."""
    address: int | None
    """In the module, as linked; in memory where there is no module."""
    kind: str
    """``user``, ``kernel``, ``python``, or ``none``: not a place, but why the stack ends here."""

    @property
    def name(self) -> str:
        """What to show: its function, or where it is."""
        if self.function:
            return self.function
        place = (self.module or "").rpartition("/")[2] or "[unknown]"
        return place if self.address is None else f"{place}+{self.address:#x}"


@dataclass(frozen=True, slots=True)
class SampleColumns:
    """Rows of samples and of sums, column by column; numpy arrays of one length."""

    time: NDArray[np.int64]
    """ns of CLOCK_MONOTONIC; of a sum the end of what it is over."""
    thread: NDArray[np.int32]
    """Number of the thread in the profile; -1: not known."""
    cpu: NDArray[np.int16]
    """-1: none, of sums."""
    state: NDArray[np.int32]
    """Index into the profile's states."""
    weight: NDArray[np.int64]
    """ns"""
    count: NDArray[np.int64]
    """1, or the occurrences that were added up."""
    stack: NDArray[np.int32]
    """Index into the profile's stacks; -1: not known."""

    def __len__(self) -> int:
        """How many rows."""
        return len(self.time)

    @classmethod
    def of(cls, rows: Sequence[tuple[int, int, int, int, int, int, int]]) -> SampleColumns:
        """From rows in the order of the fields."""
        import numpy as np

        columns = list(zip(*rows, strict=True)) if rows else [()] * 7
        kinds = (np.int64, np.int32, np.int16, np.int32, np.int64, np.int64, np.int32)
        return cls(*(np.array(column, dtype=kind) for column, kind in zip(columns, kinds, strict=True)))

    def select(self, rows: NDArray[np.bool_]) -> SampleColumns:
        """Some of the rows."""
        return SampleColumns(*(getattr(self, name)[rows] for name in self.__slots__))


@dataclass(frozen=True, slots=True)
class Profile:
    """Samples and sums with their stacks, and the ledger of the same window."""

    ledger: Ledger
    """Its ``threads`` in the order of their numbers."""
    samples: SampleColumns
    states: tuple[str, ...]
    stacks: tuple[tuple[int, ...], ...]
    """Indices into ``frames``, innermost first."""
    frames: tuple[Frame, ...]
    period: int
    """ns of processor time from one sample to the next."""
    losses: Mapping[str, int] = field(default_factory=dict)
    """What is missing, by name."""
    notes: tuple[str, ...] = ()
    """What must be known to read it, one sentence each."""

    def rows(self, samples: SampleColumns | None = None) -> Iterator[tuple[int, str, int, int, tuple[int, ...]]]:
        """(thread, state, weight, count, stack's frames) of each row."""
        s = self.samples if samples is None else samples
        for thread, state, weight, count, stack in zip(
            s.thread.tolist(), s.state.tolist(), s.weight.tolist(), s.count.tolist(), s.stack.tolist(), strict=True
        ):
            yield thread, self.states[state], weight, count, self.stacks[stack] if stack >= 0 else ()

    def narrowed(self, *, part: str | None = None, state: str | None = None) -> Profile:
        """What is of one of `PARTS`, and of a state (or, with a final ``*``, of all that begin so)."""
        import numpy as np

        wanted = np.array([matches(name, part=part, state=state) for name in self.states], dtype=bool)
        rows = wanted[self.samples.state] if len(self.states) else np.zeros(0, dtype=bool)
        return replace(self, samples=self.samples.select(rows))


def matches(name: str, *, part: str | None = None, state: str | None = None) -> bool:
    """Whether a state is of one of `PARTS`, and is ``state`` or below it; None: any is."""
    return (part is None or part_of(name, part)) and (state is None or _below(name, state))


def _below(name: str, wanted: str) -> bool:
    if wanted.endswith("*"):
        return name.startswith(wanted[:-1])
    return name == wanted or name.startswith(f"{wanted}.")
