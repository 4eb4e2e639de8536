"""From remedies to a plan: the changes for each process, and what prevents them. Nothing is changed here.

Where control groups (v2) permit it, a process that waits for a processor gets a partition: processors that the kernel
keeps everybody else off. One that loses time to device interrupts gets that too, isolated where that is possible, and
the interrupts that arrive on its processors go elsewhere. One that waits for memory gets its memory on the node where
its processors are, and a part of the cache of its own, as far as the machine has them.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence, Set

from headway.advice import DeviceInterrupt, Remedy
from headway.errors import HeadwayError
from headway.linux.procfs.processors import parse_list

from .affinity import keep_apart, movable_neighbours
from .controls import Controls
from .cpuset import common_affinity, cpuset_root, make_group
from .division import division
from .draft import Draft, PlacementPlan
from .interrupts import redirections
from .nodes import Home, home
from .refused import Refused

__all__ = ["plan"]

_Wanted = Mapping[str, Remedy]
"""The remedies of one process, by their actions."""


def plan(
    remedies: Sequence[Remedy],
    controls: Controls,
    myself: Iterable[int] = (),
    interrupts: Sequence[DeviceInterrupt] = (),
) -> PlacementPlan:
    """Return what can be done of the remedies on this machine: the first of each action for each process.

    ``myself``: processes that must be left alone (headway, and the processes that it was started from).
    ``interrupts``: those of devices, with how often they arrived while the processes were measured.
    """
    draft = Draft(secrets.token_hex(3), controls, controls.online(), tuple(dict.fromkeys(r.pid for r in remedies)))
    untouched = frozenset(myself)
    try:
        root, why_not = cpuset_root(controls), ""
    except Refused as reason:
        root, why_not = "", str(reason)
    else:
        taken = controls.read(f"{root}/cpuset.cpus.effective")
        if taken:  # others may have partitions already
            draft.free &= frozenset(parse_list(taken))
    processes: dict[int, dict[str, Remedy]] = {}
    for remedy in remedies:
        processes.setdefault(remedy.pid, {}).setdefault(remedy.action, remedy)
    quiet: set[int] = set()
    memory: dict[Remedy, str] = {}
    for pid, wanted in processes.items():
        try:
            birth = _movable(pid, controls, untouched)
        except Refused as reason:
            draft.refused.append(f"process {pid} is left as it is: {reason}")
            continue
        process = _Process(draft, pid, birth, wanted, untouched)
        process.place(root, why_not)
        quiet |= process.quiet()
        if "memory" in wanted:
            memory[wanted["memory"]] = process.why_no_node
    # An interrupt has one affinity and a cache one division, whatever the number of processes.
    if quiet:
        _redirect(draft, frozenset(quiet), interrupts)
    if memory:
        _divide(draft, memory, untouched)
    return draft.done()


def _redirect(draft: Draft, quiet: frozenset[int], interrupts: Sequence[DeviceInterrupt]) -> None:
    """Keep device interrupts off these processors."""
    controls = draft.controls
    try:
        others = (draft.free or controls.online()) - quiet
        if not others:
            raise Refused("there is no other processor to send them to")
        if not controls.may_write(f"{controls.interrupts}/default_smp_affinity"):
            raise Refused(f"{controls.interrupts} cannot be written (only root can, and not in a container)")
        draft.changes += redirections(interrupts, quiet, others, controls)
    except (Refused, HeadwayError, ValueError) as reason:
        draft.refused.append(f"device interrupts stay where they are: {reason}")


def _divide(draft: Draft, memory: Mapping[Remedy, str], untouched: Set[int]) -> None:
    """Give processes a part of the cache of their own. The values are empty if their memory gets a node of its own."""
    controls = draft.controls
    pids = [remedy.pid for remedy in memory]
    neighbours = {pid: None for remedy in memory for pid in movable_neighbours(controls, remedy, untouched)}
    try:
        changes, notes = division(controls, draft.id, pids, [pid for pid in neighbours if pid not in pids])
    except Refused as reason:
        for remedy, why_no_node in memory.items():
            if why_no_node:
                draft.refused.append(f"process {remedy.pid} shares memory and cache as before: {why_no_node}; {reason}")
    else:
        draft.changes += changes
        draft.notes += notes


def _movable(pid: int, controls: Controls, untouched: Set[int]) -> int:
    birth = controls.birth(pid)
    if birth is None:
        raise Refused("it has ended")
    if pid == 1 or pid in untouched:
        raise Refused("it is the process that everything here runs under")
    if controls.is_kernel_thread(pid):
        raise Refused("it belongs to the kernel")
    return birth


class _Process:
    """The part of a plan that is for one process."""

    def __init__(self, draft: Draft, pid: int, birth: int, wanted: _Wanted, untouched: Set[int]) -> None:
        self._draft, self._pid, self._birth, self._wanted = draft, pid, birth, wanted
        self._untouched = untouched
        self._own: frozenset[int] = frozenset()
        """The processors that only the process has."""
        self.why_no_node = ""
        """Why its memory stays where it is; empty: it does not."""

    def place(self, root: str, why_not: str) -> None:
        """Give it a group of its own, with processors, a memory node, or both.

        ``root``: that of the control groups; empty: there is none, for the reason ``why_not``.
        """
        node = self._node()
        apart = self._wanted.get("partition") or self._wanted.get("interrupts")
        if apart is None and node is None:
            return
        try:
            try:
                if not root:
                    raise Refused(why_not)
                self._own = make_group(
                    self._draft,
                    self._pid,
                    self._birth,
                    root,
                    processors=apart.processors if apart else 0,
                    isolated="interrupts" in self._wanted,
                    node=node,
                )
            except Refused as reason:
                self.why_no_node = self.why_no_node or str(reason)
                if "partition" not in self._wanted:
                    raise
                self._own = keep_apart(self._draft, self._wanted["partition"], self._untouched, str(reason))
        except Refused as reason:
            if "partition" in self._wanted:
                self._refuse(f"is left as it is: {reason}")
            elif apart is not None:
                self._refuse(f"gets no processors of its own: {reason}")

    def _node(self) -> Home | None:
        """Return the node that its memory is to be on; None: nothing would be won."""
        memory = self._wanted.get("memory")
        if memory is None:
            return None
        controls = self._draft.controls
        try:
            return home(controls, self._pid, common_affinity(controls, self._pid), memory.processors)
        except Refused as reason:
            self.why_no_node = str(reason)
            return None

    def quiet(self) -> frozenset[int]:
        """Return the processors that device interrupts are to be kept off for it, after `place`."""
        if "interrupts" not in self._wanted:
            return frozenset()
        controls = self._draft.controls
        try:
            cpus = self._own or common_affinity(controls, self._pid)
            if controls.online() <= cpus:
                raise Refused("it may run on every processor, so there is none to send them to")
        except Refused as reason:
            self._refuse(f"keeps its interrupts: {reason}")
            return frozenset()
        return cpus

    def _refuse(self, why: str) -> None:
        self._draft.refused.append(f"process {self._pid} {why}")
