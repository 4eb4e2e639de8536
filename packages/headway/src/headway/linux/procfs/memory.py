"""How much memory this process can still take: what the machine has, and what its control groups allow.

The files are those of proc_meminfo(5), and of cgroup v2 and v1 (Documentation/admin-guide/cgroup-v2.rst, and
cgroup-v1/memory.rst). Everything in them is taken as bytes of unknown origin: what is no number is no limit.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from headway.dataclass import dataclass
from headway.text import is_number

from .mounts import mounts

__all__ = ["Room", "room"]

_LIMITS = ("memory.max", "memory.high", "memory.limit_in_bytes")
_USED = ("memory.current", "memory.usage_in_bytes")
_OF_FILES = ("total_cache", "file"), ("total_shmem", "shmem")
"""The names in memory.stat, of v1 and v2: all pages of files, and those of files that are in memory only."""


@dataclass(frozen=True, slots=True)
class Room:
    """Memory that can still be taken."""

    size: int
    """Bytes. Pages of files count as free, because the kernel takes them back when it needs memory."""
    limited_by: str
    """The file of the control group's limit; empty: the machine has no more."""


def room(proc: str = "/proc") -> Room | None:
    """Return the room that is left where there is least of it; None: nothing tells."""
    found = [Room(size, "") for size in _of_machine(proc)]
    for folder in _groups(proc):
        found += _of_group(folder)
    return min(found, key=lambda one: one.size, default=None)


def _of_machine(proc: str) -> Iterator[int]:
    found = _table(Path(proc, "meminfo")).get("MemAvailable:")
    if found is not None:
        yield found << 10


def _groups(proc: str) -> Iterator[Path]:
    """Yield the directories of this process's control groups that may limit memory, and those above them."""
    with suppress(OSError):
        paths = dict(_paths(Path(proc, "self/cgroup").read_text(errors="surrogateescape")))
        for mount in mounts(proc):
            kind = mount.kind if mount.kind == "cgroup2" else "memory" if "memory" in mount.options else ""
            if mount.kind in ("cgroup", "cgroup2") and kind in paths:
                yield from _upwards(Path(mount.point), paths[kind])


def _paths(text: str) -> Iterator[tuple[str, str]]:
    """Yield the paths in the text of /proc/self/cgroup: of cgroup2, and of the v1 hierarchy of memory."""
    for line in text.splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers:
            yield "cgroup2", path
        elif "memory" in controllers.split(","):
            yield "memory", path


def _upwards(point: Path, path: str) -> Iterator[Path]:
    """Yield the directory of a group and those above it.

    A container may see only its own part of the hierarchy. The path is not below it then, and the mount is the group.
    """
    parts = [part for part in path.split("/") if part]
    folder = point.joinpath(*parts)
    if ".." in parts or not folder.is_dir():
        folder, parts = point, []
    yield folder
    yield from folder.parents[: len(parts)]


def _of_group(folder: Path) -> Iterator[Room]:
    stat = _table(folder / "memory.stat")
    cache, shared = (next((stat[name] for name in names if name in stat), 0) for names in _OF_FILES)
    used = next((size for name in _USED if (size := _number(folder / name)) is not None), 0)
    taken = max(used - max(cache - shared, 0), 0)
    limits = {name: _number(folder / name) for name in _LIMITS}
    limits["memory.stat"] = stat.get("hierarchical_memory_limit")  # of v1: the lowest of those above, seen or not
    for name, limit in limits.items():
        if limit is not None:
            yield Room(max(limit - taken, 0), str(folder / name))


def _number(path: Path) -> int | None:
    """Return the number in a file; None: it has none, as where v2 says ``max`` and v1 a number of 19 digits."""
    with suppress(OSError):
        text = path.read_text(errors="replace").strip()
        return int(text) if is_number(text) else None
    return None


def _table(path: Path) -> dict[str, int]:
    """Return the numbers of a file with a name and a number in each line; empty if it cannot be read."""
    with suppress(OSError):
        lines = (line.split() for line in path.read_text(errors="replace").splitlines())
        return {words[0]: int(words[1]) for words in lines if len(words) >= 2 and is_number(words[1])}
    return {}
