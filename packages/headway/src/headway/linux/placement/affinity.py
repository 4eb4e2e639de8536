"""Processor affinity, where there can be no partition: a process and its neighbours on different processors.

That helps only if the neighbours are known. Binding alone takes a choice from the scheduler, and gives nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Set

from headway.advice import Remedy

from .changes import Bind, Bound
from .controls import Controls
from .cpuset import chosen
from .draft import Draft
from .refused import Refused

__all__ = ["keep_apart", "movable_neighbours"]


def keep_apart(draft: Draft, remedy: Remedy, untouched: Set[int], why_not: str) -> frozenset[int]:
    """Add the changes that bind a process and its neighbours to different processors. Return those of the process.

    ``why_not``: why it cannot have a partition. Raises Refused.
    """
    controls = draft.controls
    if not controls.may_bind(remedy.pid):
        raise Refused(f"{why_not}; and it belongs to another user (binding it needs CAP_SYS_NICE)")
    movable = movable_neighbours(controls, remedy, untouched)
    neighbours = [pid for pid in movable if controls.may_bind(pid)]
    others = len(movable) - len(neighbours)
    if others and not neighbours:
        raise Refused(f"{why_not}; and its neighbours belong to other users (binding them needs CAP_SYS_NICE)")
    if not neighbours:
        raise Refused(
            f"{why_not}; and without knowing who it waits for, binding it to a processor would not help: "
            "measure the others too (-a)"
        )
    leader = controls.affinity(remedy.pid)
    cpus = frozenset(chosen(draft, draft.free & (leader or frozenset()), remedy.processors))
    mine = _bind(controls, remedy.pid, lambda before: before & cpus)
    theirs = [bind for pid in neighbours if (bind := _bind(controls, pid, lambda before: before - cpus))]
    if mine is None or not theirs:
        raise Refused(f"{why_not}; and its neighbours are bound to the same processors")
    draft.notes.append(f"processor affinity, because {why_not}: what is started later is not kept apart")
    if others:
        draft.notes.append(
            f"neighbours of process {remedy.pid} that may run on its processors as before, because they belong to "
            f"other users: {others}"
        )
    draft.changes += [*theirs, mine]
    draft.free -= cpus
    return cpus


def movable_neighbours(controls: Controls, remedy: Remedy, untouched: Set[int]) -> tuple[int, ...]:
    """Return the processes of the neighbours that a plan may change."""
    found: dict[int, None] = {}
    for tid in remedy.neighbours:
        pid = controls.process_of(tid)
        if pid is None or pid in untouched or pid in (1, remedy.pid) or controls.is_kernel_thread(pid):
            continue
        found[pid] = None
    return tuple(found)


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
