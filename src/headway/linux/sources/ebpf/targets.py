"""What the target options mean on this machine: whether it is there, which cgroup, which processors."""

from __future__ import annotations

import os
import re
from pathlib import Path

from headway.errors import SelectionError
from headway.linux.options import Selection
from headway.linux.procfs import processors
from headway.linux.procfs.ids import process_of

__all__ = ["cgroup_of", "check_targets", "measured_cpus"]


def check_targets(selection: Selection) -> None:
    """Raise SelectionError where a chosen process, thread or processor is not there."""
    for kind, ids in (("process", selection.pids), ("thread", selection.tids)):
        for number in ids:
            path = f"/proc/{number}/task" if kind == "process" else f"/proc/{number}/stat"
            if not os.path.exists(path):
                raise SelectionError(f"there is no {kind} {number}: it may have ended; ps -eLf lists them")
            leader = process_of(number) if kind == "process" else number
            if leader not in (number, None):
                raise SelectionError(
                    f"{number} is a thread of process {leader}: choose it with -t {number}, or all with -p {leader}"
                )
    for cpu in selection.cpus or ():
        if cpu not in processors.online():
            there = ",".join(map(str, processors.online()))
            raise SelectionError(f"there is no processor {cpu} that is on; these are: {there}")


def measured_cpus(selection: Selection) -> list[int]:
    """Return the processors that are measured now: those chosen, as far as they are on."""
    return [cpu for cpu in processors.online() if selection.cpus is None or cpu in selection.cpus]


def cgroup_of(path: str) -> tuple[int, int]:
    """Return the id and the level of a cgroup v2 directory. Raises SelectionError where it is none."""
    folder = Path(path)
    mounts = [line.split() for line in Path("/proc/mounts").read_text(errors="surrogateescape").splitlines()]
    roots = [Path(_unescape(at)) for _, at, kind, *_ in mounts if kind == "cgroup2"]
    if not folder.is_absolute() and roots:
        folder = roots[0] / folder
    if not folder.is_dir():
        raise SelectionError(
            f"there is no cgroup {folder}: give a directory below {roots[0] if roots else 'a cgroup2 mount'}"
        )
    for root in roots:
        if folder.resolve().is_relative_to(root.resolve()):
            level = len(folder.resolve().relative_to(root.resolve()).parts)
            return folder.stat().st_ino, level
    raise SelectionError(
        f"{folder} is not in a cgroup v2 hierarchy ({', '.join(map(str, roots)) or 'none is mounted'})"
    )


def _unescape(path: str) -> str:
    """Return a path of /proc/mounts, where blanks and the like are written in octal, as it is."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found.group(1), 8)), path)
