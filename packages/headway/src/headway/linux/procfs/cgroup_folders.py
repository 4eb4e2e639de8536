"""Directories of control groups: from what a user gives to a directory, and to its id and level (cgroups(7))."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from headway.errors import SelectionError

from .mounts import Mount, mounts

__all__ = ["cgroup2_id", "cgroup_folder", "processes_in"]

_MEMBERS = ("cgroup.procs", "tasks")
"""Files that every group has one of: of version 2 and 1, and of version 1."""


def cgroup_folder(path: str, among: Iterable[Mount] | None = None) -> Path:
    """Return the directory of a control group, of version 2 or 1.

    ``path``: the directory, or its path below the root of a hierarchy. ``among``: the mounts; None: those of this
    process. Raises SelectionError where there is no such group.
    """
    found = list(mounts() if among is None else among)
    kinds = {"cgroup2": "cgroup v2", "cgroup": "cgroup v1"}
    roots = {mount.point: kinds[kind] for kind in kinds for mount in found if mount.kind == kind}
    for folder in (Path(path), *(Path(root, path.lstrip("/")) for root in roots)):
        if any((folder / name).exists() for name in _MEMBERS):
            return folder
    example = next((f"a directory below {root} ({kind})" for root, kind in roots.items()), "")
    example = example or "its directory, for example /sys/fs/cgroup/system.slice"
    raise SelectionError(f"there is no cgroup {path}: give {example}")


def cgroup2_id(path: str) -> tuple[int, int]:
    """Return the id of a control group of version 2, and its level: the root's is 0. Raises SelectionError."""
    found = mounts()
    folder = cgroup_folder(path, found).resolve()
    roots = [mount.point for mount in found if mount.kind == "cgroup2"]
    for root in map(Path, roots):
        if folder.is_relative_to(root.resolve()):
            return folder.stat().st_ino, len(folder.relative_to(root.resolve()).parts)
    raise SelectionError(f"{folder} is not in a cgroup v2 hierarchy ({', '.join(roots) or 'none is mounted'})")


def processes_in(path: str) -> Iterator[int]:
    """Yield the processes in a control group and below it. Raises SelectionError where there is no such group."""
    for directory, _, _ in os.walk(cgroup_folder(path)):
        try:
            numbers = Path(directory, "cgroup.procs").read_bytes().split()
        except OSError:  # it is gone, or has threads of processes of other groups
            continue
        yield from (int(number) for number in numbers if number.isdigit() and int(number))
