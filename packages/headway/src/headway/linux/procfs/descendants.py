"""Descendants: the living processes that a process has started, and those that these have started."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping

from ._procfs import parse_stat

__all__ = ["below", "descendants"]


def descendants(pids: Iterable[int], proc: str | os.PathLike[str] = "/proc") -> tuple[int, ...]:
    """Return the living descendants of processes, as `below` does. Processes that /proc hides are not among them."""
    return below(pids, dict(_parents(proc)))


def below(pids: Iterable[int], parents: Mapping[int, int]) -> tuple[int, ...]:
    """Return the processes below these ones in a tree, parents before their children, without the ones given.

    ``parents``: the parent of each process that lives (ppid of proc_pid_stat(5)). A process whose parent has ended
    belongs to init or a subreaper (PR_SET_CHILD_SUBREAPER(2const)), and so to no other. This process and what it has
    started are left out: a shell that is measured has often started headway, too.
    """
    children: dict[int, list[int]] = {}
    for pid, parent in sorted(parents.items()):
        children.setdefault(parent, []).append(pid)
    seen = {*pids, os.getpid()}
    found: list[int] = []
    due = sorted(seen - {os.getpid()})
    for pid in due:
        new = [child for child in children.get(pid, ()) if child not in seen]
        seen.update(new)
        found += new
        due += new
    return tuple(found)


def _parents(proc: str | os.PathLike[str]) -> Iterator[tuple[int, int]]:
    """Yield each process that has not ended, and its parent."""
    for name in os.listdir(proc):
        if not (name.isascii() and name.isdigit()):
            continue
        try:
            with open(os.path.join(proc, name, "stat"), "rb") as file:
                known = parse_stat(file.read(4096))
        except OSError:  # it has ended, or is hidden
            continue
        if known is not None and known[1] not in "ZX":
            yield int(name), known[2]
