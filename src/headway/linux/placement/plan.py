"""From remedies to a plan: the processors that a process gets, the changes needed, and what prevents it.

Where control groups (v2) permit it, the process gets a partition: processors that the kernel keeps everybody else off.
Elsewhere processor affinity is used: the process is bound to some processors, and the processes that it was seen to
wait for to the others. That helps only if these are known.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence, Set

from headway.advice import Remedy
from headway.linux.procfs.processors import parse_list

from .affinity import keep_apart
from .controls import Controls
from .cpuset import cpuset_root, make_group
from .draft import Draft, PlacementPlan
from .refused import Refused

__all__ = ["plan"]


def plan(remedies: Sequence[Remedy], controls: Controls, myself: Iterable[int] = ()) -> PlacementPlan:
    """Return what can be done of the remedies on this machine, one for each process. Nothing is changed.

    ``myself``: processes that must be left alone (headway, and the processes that it was started from).
    """
    draft = Draft(secrets.token_hex(3), controls, controls.online())
    untouched = frozenset(myself)
    try:
        root, why_not = cpuset_root(controls), ""
    except Refused as reason:
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
                    raise Refused(why_not)
                make_group(draft, remedy.pid, birth, root, processors=remedy.processors)
            except Refused as reason:
                keep_apart(draft, remedy, untouched, str(reason))
        except Refused as reason:
            draft.refused.append(f"process {remedy.pid} is left as it is: {reason}")
    return draft.done()


def _movable(pid: int, controls: Controls, untouched: Set[int]) -> int:
    birth = controls.birth(pid)
    if birth is None:
        raise Refused("it has ended")
    if pid == 1 or pid in untouched:
        raise Refused("it is the process that everything here runs under")
    if controls.is_kernel_thread(pid):
        raise Refused("it belongs to the kernel")
    return birth
