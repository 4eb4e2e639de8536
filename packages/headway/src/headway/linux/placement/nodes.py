"""The NUMA node that a process belongs on, and how much of its memory lies elsewhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Set

from headway.dataclass import dataclass
from headway.linux.procfs.processors import as_list

from .controls import Controls
from .refused import Refused

__all__ = ["Home", "home"]

_NOTABLE = 0.05
"""Memory on other nodes is worth moving if it is more than this share of the process's memory."""
_LEAST = 1 << 20
"""... and more than this many bytes."""


@dataclass(frozen=True, slots=True)
class Home:
    """The node on which the processors of a process are."""

    node: int
    cpus: frozenset[int]
    """The node's processors that the process may run on."""
    elsewhere: int
    """The bytes of the process that lie on other nodes."""
    total: int
    """All bytes of the process that it does not share."""


def home(controls: Controls, pid: int, allowed: Set[int], processors: int) -> Home:
    """Return the node that a process's memory belongs on: the one where its processors are.

    A process that may run on several nodes belongs where most of its threads ran last. ``allowed``: the processors that
    it may run on; ``processors``: how many it needs. Raises Refused where nothing would be won, or it does not fit.
    """
    nodes = controls.nodes()
    if len(nodes) < 2:
        raise Refused("this machine has one memory node")
    there = {node: frozenset(cpus & allowed) for node, cpus in nodes.items() if cpus & allowed}
    if not there:
        raise Refused("no memory is at its processors")
    pages = controls.pages(pid)
    ran = Counter(controls.processor(tid) for tid in controls.threads(pid))

    def weight(node: int) -> tuple[int, int, int]:
        return sum(ran[cpu] for cpu in there[node]), pages.get(node, 0), -node

    node = max(there, key=weight)
    cpus = there[node]
    if len(cpus) < processors:
        raise Refused(f"it needs {processors} processors, and node {node} has {as_list(cpus)} for it")
    total = sum(pages.values())
    if not total:
        raise Refused("where its memory is cannot be read")
    elsewhere = total - pages.get(node, 0)
    if elsewhere <= max(_NOTABLE * total, _LEAST):
        raise Refused(f"its memory is on node {node}, at its processors, already ({_mib(elsewhere)} elsewhere)")
    free = controls.free_memory(node)
    if free < elsewhere:
        raise Refused(f"{_mib(elsewhere)} of its memory are on other nodes, and node {node} has {_mib(free)} free")
    return Home(node, cpus, elsewhere, total)


def _mib(size: int) -> str:
    return f"{size / (1 << 20):,.0f} MiB"
