"""Groups of threads: those of one process, name, control group or pod, shown as one.

A group's time in a state is the sum of its threads' times, and its indices are computed from these sums (by
`Ledger.indices`, as a thread's are). So groups add up to what their threads add up to, and a group has of no kind less
time than one of its threads. A figure has the weakest of the threads' qualities. What was divided by samples is the
exception: its quality follows from the sums, because all samples of the group together tell more than those of a thread
(`Amounts.worth`).

A share of time is a share of the window (`Ledger.share`), of a thread as of a group: 1 is one processor, or off the
processor one thread, for all of the window. A group with several threads can have more than 1, as a process has in
top(1). A mean over the threads would not add up, and would be less than what one of them has.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from functools import cached_property, reduce

from headway.dataclass import dataclass

from .cause import Cause, add_causes
from .cell import Cell
from .durations import StateDurations, add_durations
from .estimate import Estimate, add_sampled
from .group_by import GroupBy
from .indices import listed
from .kernel_clock import KernelClock
from .kinds import Kind
from .ledger import Thread, add_states
from .origin import origin_of

__all__ = ["NO_CGROUP", "Group", "add_times", "grouped"]

NO_CGROUP = "control group not known"
"""The name of the group of the threads whose control group could not be read."""


def _key(thread: Thread, by: GroupBy) -> Hashable:
    if by is GroupBy.THREAD:
        return thread.key
    if by is GroupBy.NAME:
        return thread.name
    return _place(thread, by) if by.needs_cgroups else thread.pid


def _place(thread: Thread, by: GroupBy) -> str:
    """Return the name of the control group or pod of a thread."""
    if thread.cgroup is None:
        return NO_CGROUP
    return thread.cgroup if by is GroupBy.CGROUP else origin_of(thread.cgroup).pod


def grouped(threads: Iterable[Thread], by: GroupBy) -> list[list[int]]:
    """Return the places of each group's threads, the groups in the order in which their first threads come."""
    found: dict[Hashable, list[int]] = {}
    for place, thread in enumerate(threads):
        found.setdefault(_key(thread, by), []).append(place)
    return list(found.values())


def add_times(many: Iterable[Mapping[Kind, int]]) -> dict[Kind, int]:
    """Return the sum of the times of each kind."""
    every = list(many)
    return {kind: sum([times.get(kind, 0) for times in every]) for kind in Kind}


@dataclass(frozen=True)
class Group:
    """One thread or more, taken together."""

    threads: tuple[Thread, ...]
    """At least one."""
    by: GroupBy

    @property
    def name(self) -> str:
        """The name of the threads; of a process that of its first thread; or that of the control group or pod."""
        if self.by.needs_cgroups:
            return _place(self.threads[0], self.by)
        if self.by is GroupBy.PROCESS:
            return next((thread for thread in self.threads if thread.tid == thread.pid), self.threads[0]).name
        return self.threads[0].name

    @cached_property
    def pid(self) -> int | None:
        """The id of the process of the threads; None if they are of several."""
        pids = {thread.pid for thread in self.threads}
        return pids.pop() if len(pids) == 1 else None

    @cached_property
    def states(self) -> Mapping[str, Cell]:
        """The cells of the threads added up, state by state."""
        if len(self.threads) == 1:
            return self.threads[0].states
        return add_states(*(thread.states for thread in self.threads))

    @cached_property
    def sampled(self) -> Mapping[str, Estimate]:
        """The parts of the states' times that were divided by samples or cycles, added up."""
        if len(self.threads) == 1:
            return self.threads[0].sampled
        return add_sampled(*[thread.sampled for thread in self.threads if thread.sampled])

    @cached_property
    def durations(self) -> StateDurations | None:
        """How long the single occurrences of the states lasted; None if that is not known of one of the threads."""
        if len(self.threads) == 1:
            return self.threads[0].durations
        return add_durations(*(thread.durations for thread in self.threads), of=self.states)

    @cached_property
    def kernel_clock(self) -> KernelClock | None:
        """The processor time by the kernel's clock; None if no source tells it of one of the threads."""
        clocks = [thread.kernel_clock for thread in self.threads]
        known = [clock for clock in clocks if clock is not None]
        return reduce(KernelClock.__add__, known) if len(known) == len(clocks) else None

    @cached_property
    def causes(self) -> tuple[Cause, ...]:
        """The causes of the states, where they were recorded."""
        if len(self.threads) == 1:
            return self.threads[0].causes
        return add_causes(*(thread.causes for thread in self.threads))

    def times(self) -> dict[str, int]:
        """Return the time in each state. This costs less than `states`."""
        found: dict[str, int] = {}
        for thread in self.threads:
            for state, _, time in listed(thread.states):
                found[state] = found.get(state, 0) + time
        return found
