"""What is known of one run of a command: the figures by which runs are compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import or_

from headway.conditions import belongs
from headway.model import EXACT, Indices, Kind, Ledger, Quality, Thread, add_states, indices_of, kind_of

__all__ = ["INDICES", "KINDS", "NAMES", "CommandRun", "run_of"]

INDICES = ("rpi", "epi", "mpi", "kpi", "iopi")
KINDS = ("ready", "wait", "stolen")
"""The kinds of time off the processor that are figures of their own."""
WALL = "wall"
INSTRUCTIONS = "instructions"
NAMES = (WALL, *INDICES, *KINDS, INSTRUCTIONS, "poll", "stall")
"""Names of figures beside states and groups of states."""

_MEASURED = {Kind.STALL: "mpi", Kind.MEMORY: "mpi", Kind.EFFECTIVE: "epi", Kind.KERNEL: "kpi", Kind.POLL: "iopi"}
"""The index that has the quality of a state of this kind."""


@dataclass(frozen=True, slots=True)
class CommandRun:
    """One run of a command, with everything that it created while it ran.

    Times are in ns, sums over all threads.
    """

    wall: int
    """From the moment at which it was executed to its exit."""
    unit: str
    """The unit of the indices: ns or cycles."""
    indices: Indices
    times: Mapping[str, int]
    """The time in each state."""
    sampled: frozenset[str] = frozenset()
    """The states of which a part was divided by samples, or found by looks."""
    counts: Mapping[str, int | None] = field(default_factory=dict)
    """Instructions, and the events that were asked for. None: not known of this run."""
    losses: Mapping[str, int] = field(default_factory=dict)
    """What could not be seen, without zeros."""
    outlived: int = 0
    """The number of threads that were still there when the command had ended."""

    def value(self, name: str) -> int | None:
        """Return the figure of this name; None: it is not known. A state, or a group of states, that was not entered is
        0.
        """
        if name == WALL:
            return self.wall
        if name in INDICES:
            found: int | None = getattr(self.indices, name)
            return found
        if name in self.counts:
            return self.counts[name]
        if name == INSTRUCTIONS:
            return None
        return sum([time for state, time in self.times.items() if belongs(name, state)])

    def unit_of(self, name: str) -> str:
        """Return the unit of the figure of this name: ``ns``, ``cycles``, or empty for a number."""
        if name in INDICES:
            return self.unit
        return "" if name in self.counts or name == INSTRUCTIONS else "ns"

    def quality_of(self, name: str) -> Quality:
        """Return the quality of the figure of this name."""
        if self.value(name) is None:
            return Quality.UNAVAILABLE
        if name in INDICES:
            return self.indices.quality[name]
        if name == WALL or name in KINDS or name in self.counts:
            return Quality.EXACT
        return reduce(or_, [self._quality(state) for state in self.times if belongs(name, state)], Quality.EXACT)

    def _quality(self, state: str) -> Quality:
        if state in self.sampled:
            return Quality.SAMPLED
        kind = kind_of(state)
        found = self.indices.quality[_MEASURED[kind]] if kind in _MEASURED else Quality.EXACT
        return Quality.EXACT if found is Quality.UNAVAILABLE else found


def run_of(ledger: Ledger, pid: int, since: int, wall: int) -> CommandRun:
    """Return what a command did, from the ledger of the interval in which it ran.

    Args:
        ledger: The interval. Threads that are older than the command are left out.
        pid: The command's process.
        since: A moment before the command was executed, in ns of CLOCK_MONOTONIC.
        wall: How long it ran, in ns, if the ledger does not tell exactly.
    """
    threads = [thread for thread in ledger.threads if thread.birth >= since or ledger.source == "proc"]
    states = add_states(*(thread.states for thread in threads))
    estimated = {state for thread in threads for state, part in thread.sampled.items() if part.told_by_samples}
    if ledger.source == "proc":  # what a thread waited for is what it was found waiting for
        estimated |= {state for state in states if state.startswith("wait.")}
    indices = ledger.indices(*threads) if threads else indices_of({}, EXACT)
    return CommandRun(
        wall=_wall(threads, pid, wall) if ledger.source == "bpf" else wall,
        unit=ledger.unit,
        indices=indices,
        times={state: cell.time for state, cell in sorted(states.items())},
        sampled=frozenset(estimated),
        counts=_counts(ledger, threads),
        losses={name: number for name, number in ledger.losses.items() if number},
        outlived=sum(thread.end is None for thread in threads),
    )


def _wall(threads: Sequence[Thread], pid: int, otherwise: int) -> int:
    """Return the time from the command's execution to the exit of the last thread of its process."""
    own = [thread for thread in threads if thread.pid == pid]
    if not own or any(thread.end is None for thread in own):
        return otherwise
    return max(thread.until for thread in own) - min(thread.start for thread in own)


def _counts(ledger: Ledger, threads: Sequence[Thread]) -> dict[str, int | None]:
    """Return what was counted in all states of all threads together."""
    found: dict[str, int | None] = {}
    cells = [cell for thread in threads for cell in thread.states.values()]
    if INSTRUCTIONS in ledger.counted:
        known = [cell.instructions for cell in cells if cell.instructions is not None]
        found[INSTRUCTIONS] = sum(known) if known else None
    for name in ledger.events:
        events = [(cell.events or {}).get(name) for cell in cells if cell.time]
        found[name] = sum(count for count in events if count is not None) if None not in events else None
    return found
