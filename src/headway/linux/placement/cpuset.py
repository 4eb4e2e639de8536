"""From a remedy to a plan: the processors that a process gets, the changes needed, and what prevents it.

Where control groups (v2) permit it, the process gets a partition: processors that the kernel keeps everybody else off.
Elsewhere processor affinity is used: the process is bound to some processors, and the processes that it was seen to
wait for to the others. That helps only if these are known.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from headway.advice import Remedy
from headway.linux.procfs.mounts import parse_mounts
from headway.linux.procfs.processors import as_list, parse_list

from .changes import PREFIX, Bind, Bound, Change, Enable, MakeGroup, Move, Partition
from .controls import Controls

__all__ = ["PlacementPlan", "choose", "plan"]

_LIMITS = ("memory.max", "memory.high", "cpu.max", "io.max")
"""The limits that a process would escape by leaving its group."""


@dataclass(frozen=True, slots=True)
class PlacementPlan:
    """What will be done, in order, and what was asked for but will not be done."""

    id: str
    changes: tuple[Change, ...] = ()
    notes: tuple[str, ...] = ()
    """What the user should know before agreeing."""
    refused: tuple[str, ...] = ()
    """Why a remedy is not in the plan, one sentence each."""


class _Refused(Exception):  # noqa: N818 - not an error: an answer
    """Why this cannot be done, in a clause."""


@dataclass(slots=True)
class _Draft:
    """A plan being made."""

    id: str
    controls: Controls
    free: frozenset[int]
    """The processors that no part of the plan has taken yet."""
    changes: list[Change] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)


def plan(remedies: Sequence[Remedy], controls: Controls, myself: Iterable[int] = ()) -> PlacementPlan:
    """Return what can be done of the remedies on this machine, one for each process. Nothing is changed.

    ``myself``: processes that must be left alone (headway, and the processes that it was started from).
    """
    draft = _Draft(secrets.token_hex(3), controls, controls.online())
    untouched = frozenset(myself)
    try:
        root, why_not = _cpuset_root(controls), ""
    except _Refused as reason:
        root, why_not = "", str(reason)
    else:
        taken = controls.read(f"{root}/cpuset.cpus.effective")
        if taken:  # others may have partitions already
            draft.free &= frozenset(parse_list(taken))
    for remedy in {remedy.pid: remedy for remedy in reversed(remedies)}.values():
        try:
            birth = _movable(remedy.pid, controls, untouched)
            try:
                if not root:
                    raise _Refused(why_not)
                _partition(draft, remedy, birth, root)
            except _Refused as reason:
                _affinity(draft, remedy, untouched, str(reason))
        except _Refused as reason:
            draft.refused.append(f"process {remedy.pid} is left as it is: {reason}")
    return PlacementPlan(draft.id, tuple(draft.changes), tuple(draft.notes), tuple(draft.refused))


def choose(free: frozenset[int], wanted: int, cores: Sequence[tuple[int, ...]]) -> tuple[int, ...] | None:
    """Return processors for a process of its own, whole cores if possible, from the last on; None: none would be left.

    The first ones are left to the others, because the kernel does most of its own work there. ``cores`` is that of
    `Controls.cores`.
    """
    there = [tuple(cpu for cpu in core if cpu in free) for core in cores]
    there = [core for core in there if core]
    chosen: list[int] = []
    for core in reversed(there[1:]):
        if len(chosen) >= wanted:
            break
        chosen += core
    if len(chosen) < wanted:
        chosen = sorted(free)[-wanted:] if len(free) > wanted else []
    return tuple(sorted(chosen)) or None


def _movable(pid: int, controls: Controls, untouched: frozenset[int]) -> int:
    birth = controls.birth(pid)
    if birth is None:
        raise _Refused("it has ended")
    if pid == 1 or pid in untouched:
        raise _Refused("it is the process that everything here runs under")
    if controls.is_kernel_thread(pid):
        raise _Refused("it belongs to the kernel")
    return birth


# --- control groups ---------------------------------------------------------------------------------------------------


def _cpuset_root(controls: Controls) -> str:
    """The root of the cgroup v2 hierarchy, if partitions can be made there."""
    mounted = parse_mounts(controls.mounts())
    unified = next((mount for mount in mounted if mount.kind == "cgroup2"), None)
    first = next(
        (mount.point for mount in reversed(mounted) if mount.kind == "cgroup" and "cpuset" in mount.options), ""
    )
    if unified is None:
        raise _Refused("no cgroup v2 hierarchy is mounted" + (f", only v1 ({first})" if first else ""))
    root = unified.point
    if "cpuset" not in (controls.read(f"{root}/cgroup.controllers") or "").split():
        raise _Refused(
            f"the cpuset controller belongs to cgroup v1 here ({first}), which has no partitions"
            if first
            else f"{root} has no cpuset controller"
        )
    if "ro" in unified.options:
        raise _Refused(f"{root} is mounted read-only, as in containers")
    if controls.read(f"{root}/cgroup.type") is not None:
        raise _Refused(f"{root} is part of a hierarchy that is controlled from outside, as in containers")
    if not controls.may_write(f"{root}/cgroup.subtree_control"):
        raise _Refused(f"only root may change {root} (sudo headway advise --apply ...)")
    return root


def _partition(draft: _Draft, remedy: Remedy, birth: int, root: str) -> None:
    controls = draft.controls
    path = controls.group_of(remedy.pid)
    if path is None or "/.." in path or path.endswith(" (deleted)"):
        raise _Refused("its control group is not in this hierarchy")
    former = root + path.rstrip("/")
    if controls.read(f"{former}/cgroup.type") == "threaded":
        raise _Refused(f"its threads are in groups of their own ({path})")
    above = former
    while above != root:
        for limit in _LIMITS:
            value = controls.read(f"{above}/{limit}") or "max"
            if not value.startswith("max"):
                raise _Refused(
                    f"its group limits it ({above}/{limit}: {value[:60]}), and it would be without that limit"
                )
        if controls.read(f"{above}/pids.max") not in (None, "max"):
            draft.notes.append(f"meanwhile {above}/pids.max does not count for process {remedy.pid}")
        above = above.rpartition("/")[0]
    masks = {controls.affinity(tid) for tid in controls.threads(remedy.pid)} - {None}
    if len(masks) != 1:
        raise _Refused("its threads are bound to processors of their own already")
    (mask,) = masks
    chosen = _chosen(draft, draft.free & (mask or frozenset()), remedy.processors)
    group = f"{root}/{PREFIX}{draft.id}-{remedy.pid}"
    enabled = "cpuset" in (controls.read(f"{root}/cgroup.subtree_control") or "").split()
    if not enabled and not any(isinstance(change, Enable) for change in draft.changes):
        draft.changes.append(Enable(root))
    draft.changes += [
        MakeGroup(group),
        Partition(group, chosen),
        Move(remedy.pid, birth, group, former, root),
    ]
    draft.free -= frozenset(chosen)


def _chosen(draft: _Draft, free: frozenset[int], wanted: int) -> tuple[int, ...]:
    if free == draft.free:
        chosen = choose(free, wanted, draft.controls.cores())
    else:  # it is bound already; the others have what it may not use
        chosen = choose(free | (draft.free - free), wanted, draft.controls.cores())
        if chosen is None or not frozenset(chosen) <= free:
            chosen = tuple(sorted(free)[-wanted:]) if len(free) >= wanted and draft.free - free else None
    if chosen is None:
        many = f"processors {as_list(free)}" if len(free) > 1 else f"processor {as_list(free)}" if free else "none"
        raise _Refused(f"it needs {wanted} of {many}, and none would be left for the others")
    return chosen


# --- affinity ---------------------------------------------------------------------------------------------------------


def _affinity(draft: _Draft, remedy: Remedy, untouched: frozenset[int], why_not: str) -> None:
    """Bind the process and its neighbours to different processors. ``why_not``: why it cannot have a partition."""
    controls = draft.controls
    neighbours: dict[int, None] = {}
    for tid in remedy.neighbours:
        pid = controls.process_of(tid)
        if pid is None or pid in untouched or pid in (1, remedy.pid) or controls.is_kernel_thread(pid):
            continue
        neighbours[pid] = None
    if not neighbours:
        raise _Refused(
            f"{why_not}; and without knowing who it waits for, binding it to a processor would not help: "
            "measure the others too (-a)"
        )
    leader = controls.affinity(remedy.pid)
    chosen = frozenset(_chosen(draft, draft.free & (leader or frozenset()), remedy.processors))
    mine = _bind(controls, remedy.pid, lambda before: before & chosen)
    theirs = [bind for pid in neighbours if (bind := _bind(controls, pid, lambda before: before - chosen))]
    if mine is None or not theirs:
        raise _Refused(f"{why_not}; and its neighbours are bound to the same processors")
    draft.notes.append(f"processor affinity, because {why_not}: what is started later is not kept apart")
    draft.changes += [*theirs, mine]
    draft.free -= chosen


def _bind(controls: Controls, pid: int, rule: Callable[[frozenset[int]], frozenset[int]]) -> Bind | None:
    """Bind the process to the processors that the rule leaves; None if a thread of it would have none."""
    threads = []
    for tid in controls.threads(pid):
        before, birth = controls.affinity(tid), controls.birth(tid)
        if before is None or birth is None:
            continue
        after = rule(before)
        if not after:
            return None
        threads.append(Bound(tid, birth, tuple(sorted(before)), tuple(sorted(after))))
    threads.sort(key=lambda bound: bound.tid != pid)
    return Bind(pid, controls.name(pid), tuple(threads)) if threads and threads[0].tid == pid else None
