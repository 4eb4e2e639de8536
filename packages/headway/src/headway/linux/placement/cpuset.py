"""A control group with processors, or a memory node, of its own: where it can be made, and the changes that make it.

In a partition the kernel keeps everybody else off the processors. Where only the memory is to be on one node, the
processors of the node are shared as before.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from headway.linux.procfs.mounts import parse_mounts
from headway.linux.procfs.processors import as_list

from .changes import PREFIX, Enable, MakeGroup, Move, Partition, UseNode
from .controls import Controls
from .draft import Draft
from .nodes import Home
from .refused import Refused

__all__ = ["choose", "chosen", "common_affinity", "cpuset_root", "make_group"]

_LIMITS = ("memory.max", "memory.high", "cpu.max", "io.max")
"""The limits that a process would escape by leaving its group."""


def choose(free: frozenset[int], wanted: int, cores: Sequence[tuple[int, ...]]) -> tuple[int, ...] | None:
    """Return processors for a process of its own, whole cores if possible, from the last on; None: none would be left.

    The first ones are left to the others, because the kernel does most of its own work there. ``cores`` is that of
    `Controls.cores`.
    """
    there = [tuple(cpu for cpu in core if cpu in free) for core in cores]
    there = [core for core in there if core]
    found: list[int] = []
    for core in reversed(there[1:]):
        if len(found) >= wanted:
            break
        found += core
    if len(found) < wanted:
        found = sorted(free)[-wanted:] if len(free) > wanted else []
    return tuple(sorted(found)) or None


def chosen(draft: Draft, free: frozenset[int], wanted: int) -> tuple[int, ...]:
    """Return processors for a process that may run on those in ``free`` only. Raises Refused."""
    if free == draft.free:
        found = choose(free, wanted, draft.controls.cores())
    else:  # it is bound already; the others have what it may not use
        found = choose(free | (draft.free - free), wanted, draft.controls.cores())
        if found is None or not frozenset(found) <= free:
            found = tuple(sorted(free)[-wanted:]) if len(free) >= wanted and draft.free - free else None
    if found is None:
        many = f"processors {as_list(free)}" if len(free) > 1 else f"processor {as_list(free)}" if free else "none"
        raise Refused(f"it needs {wanted} of {many}, and none would be left for the others")
    return found


def common_affinity(controls: Controls, pid: int) -> frozenset[int]:
    """Return the processors that every thread of a process may run on. Raises Refused if they differ."""
    masks = {controls.affinity(tid) for tid in controls.threads(pid)} - {None}
    if len(masks) != 1:
        raise Refused("its threads are bound to processors of their own already")
    (mask,) = masks
    return mask or frozenset()


def cpuset_root(controls: Controls) -> str:
    """Return the root of the cgroup v2 hierarchy, if groups with processors can be made there. Raises Refused."""
    mounted = parse_mounts(controls.mounts())
    unified = next((mount for mount in mounted if mount.kind == "cgroup2"), None)
    first = next(
        (mount.point for mount in reversed(mounted) if mount.kind == "cgroup" and "cpuset" in mount.options), ""
    )
    if unified is None:
        raise Refused("no cgroup v2 hierarchy is mounted" + (f", only v1 ({first})" if first else ""))
    root = unified.point
    if "cpuset" not in (controls.read(f"{root}/cgroup.controllers") or "").split():
        raise Refused(
            f"the cpuset controller belongs to cgroup v1 here ({first}), which has no partitions"
            if first
            else f"{root} has no cpuset controller"
        )
    if "ro" in unified.options:
        raise Refused(f"{root} is mounted read-only, as in containers")
    if controls.read(f"{root}/cgroup.type") is not None:
        raise Refused(f"{root} is part of a hierarchy that is controlled from outside, as in containers")
    if not controls.may_write(f"{root}/cgroup.subtree_control"):
        raise Refused(f"only root may change {root} (sudo headway advise --apply ...)")
    return root


def make_group(
    draft: Draft, pid: int, birth: int, root: str, *, processors: int, isolated: bool, node: Home | None
) -> frozenset[int]:
    """Add the changes that put a process into a group of its own. Return the processors that only it has then.

    ``processors``: how many of its own it gets; 0: it gets memory of its own, on ``node``. ``isolated``: also the
    kernel's own work is to stay away. Raises Refused.
    """
    controls = draft.controls
    former = _former_group(draft, pid, root)
    mask = common_affinity(controls, pid)
    group = f"{root}/{PREFIX}{draft.id}-{pid}"
    cpus: tuple[int, ...] = ()
    placed: list[UseNode | Partition] = []
    if processors:
        cpus = chosen(draft, draft.free & mask & (node.cpus if node else mask), processors)
        placed.append(Partition(group, cpus, _kind(draft, pid, cpus, isolated=isolated)))
    if node is not None:
        placed.insert(0, UseNode(group, node.node, () if processors else tuple(sorted(node.cpus))))
        draft.notes.append(
            f"about {node.elsewhere / (1 << 20):,.0f} of {node.total / (1 << 20):,.0f} MiB of process {pid} move to "
            f"node {node.node}, which takes a moment"
        )
    enabled = "cpuset" in (controls.read(f"{root}/cgroup.subtree_control") or "").split()
    if not enabled and not any(isinstance(change, Enable) for change in draft.changes):
        draft.changes.append(Enable(root))
    draft.changes += [MakeGroup(group), *placed, Move(pid, birth, group, former, root)]
    draft.free -= frozenset(cpus)
    return frozenset(cpus)


def _kind(draft: Draft, pid: int, cpus: Set[int] | Sequence[int], *, isolated: bool) -> str:
    if not isolated:
        return "root"
    threads = len(draft.controls.threads(pid))
    if len(cpus) == 1 or threads == 1:
        return "isolated"
    draft.notes.append(
        f"the partition of process {pid} is not isolated: its {threads} threads would not be balanced over "
        f"{len(cpus)} processors"
    )
    return "root"


def _former_group(draft: Draft, pid: int, root: str) -> str:
    """Return the group that a process is in, if it may leave that. Raises Refused."""
    controls = draft.controls
    path = controls.group_of(pid)
    if path is None or "/.." in path or path.endswith(" (deleted)"):
        raise Refused("its control group is not in this hierarchy")
    former = root + path.rstrip("/")
    if controls.read(f"{former}/cgroup.type") == "threaded":
        raise Refused(f"its threads are in groups of their own ({path})")
    above = former
    while above != root:
        for limit in _LIMITS:
            value = controls.read(f"{above}/{limit}") or "max"
            if not value.startswith("max"):
                raise Refused(
                    f"its group limits it ({above}/{limit}: {value[:60]}), and it would be without that limit"
                )
        if controls.read(f"{above}/pids.max") not in (None, "max"):
            draft.notes.append(f"meanwhile {above}/pids.max does not count for process {pid}")
        above = above.rpartition("/")[0]
    return former
