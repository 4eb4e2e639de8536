"""The mounts of this process's mount namespace (proc_pid_mountinfo(5))."""

from __future__ import annotations

import os
import re
from pathlib import Path

from headway.dataclass import dataclass

__all__ = ["Mount", "mounts", "parse_mounts"]

_ESCAPED = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class Mount:
    """A file system in the tree of files."""

    point: str
    """The directory at which it is mounted."""
    kind: str
    """The type of the file system, ``cgroup2``."""
    options: frozenset[str]
    """The options of the mount and those of the file system."""


def mounts(proc: str | os.PathLike[str] = "/proc") -> list[Mount]:
    """Return the mounts, in the order in which the kernel lists them. Raises OSError."""
    return parse_mounts((Path(proc) / "self/mountinfo").read_text(errors="surrogateescape"))


def parse_mounts(text: str) -> list[Mount]:
    """Return the mounts in the text of a ``mountinfo`` file. Lines of another form are left out."""
    found = []
    for line in text.split("\n"):
        before, _, after = line.partition(" - ")
        mounted, system = before.split(" "), after.split(" ")
        if len(mounted) >= 6 and len(system) >= 3:
            options = frozenset((*mounted[5].split(","), *system[2].split(",")))
            found.append(Mount(_unescaped(mounted[4]), system[0], options))
    return found


def _unescaped(path: str) -> str:
    """A path without escapes: the kernel writes white space and backslashes as octal numbers."""
    return _ESCAPED.sub(lambda octal: chr(int(octal[1], 8)), path)
