"""What a process has mapped where, and the file behind it: also in a container, also after it was deleted."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["Mapping", "file_of", "mappings", "parse"]

_MAX_BYTES = 64 << 20
_DELETED = " (deleted)"


@dataclass(frozen=True, slots=True)
class Mapping:
    """A line of /proc/PID/maps."""

    start: int
    end: int
    permissions: str
    """As in ``r-xp``."""
    offset: int
    """Of the first byte, in the file."""
    inode: int
    """0: there is no file behind it."""
    path: str
    """In the process's own file system; or a name like ``[heap]``; or nothing."""
    deleted: bool


def mappings(pid: int) -> list[Mapping]:
    """All of a process's, ascending. Raises OSError where it is gone, or may not be looked at."""
    with open(f"/proc/{pid}/maps", "rb") as file:
        return list(parse(file.read(_MAX_BYTES)))


def parse(text: bytes, containing: bytes = b"") -> Iterator[Mapping]:
    """The lines of /proc/PID/maps that make sense, with these bytes in them; it is fast where that is few.

    A path can have any byte in it, but the kernel hides newlines, so nothing else ends a line.
    """
    for line in _lines(text, containing) if containing else text.split(b"\n"):
        fields = line.split(None, 5)
        if len(fields) < 5:
            continue
        first, _, last = fields[0].partition(b"-")
        try:
            start, end, offset, inode = int(first, 16), int(last, 16), int(fields[2], 16), int(fields[4])
        except ValueError:
            continue
        path = os.fsdecode(fields[5]).replace("\\012", "\n") if len(fields) == 6 else ""
        deleted = path.endswith(_DELETED) and inode != 0
        path = path.removesuffix(_DELETED) if deleted else path
        yield Mapping(start, end, os.fsdecode(fields[1]), offset, inode, path, deleted)


def _lines(text: bytes, containing: bytes) -> Iterator[bytes]:
    at = text.find(containing)
    while at >= 0:
        end = text.find(b"\n", at)
        end = end if end >= 0 else len(text)
        yield text[text.rfind(b"\n", 0, at) + 1 : end]
        at = text.find(containing, end)


def file_of(pid: int, mapping: Mapping) -> str | None:
    """A path by which this process, not only that one, can open the file of a mapping; None: there is none.

    It is the file's own path where that leads to the same file here, else the path in the process's root, else (the
    file was deleted or replaced) the kernel's link, which only root may follow.
    """
    if not mapping.inode or not mapping.path.startswith("/"):
        return None
    inside = f"/proc/{pid}/root{mapping.path}"
    link = f"/proc/{pid}/map_files/{mapping.start:x}-{mapping.end:x}"
    try:
        found = os.stat(inside)
        # Not the device: file systems with many volumes show another one in maps than stat(2) does.
        if found.st_ino == mapping.inode:
            return mapping.path if _is(mapping.path, found) else inside
    except (OSError, ValueError):
        pass
    try:
        return link if os.stat(link).st_ino == mapping.inode else None
    except OSError:
        return None


def _is(path: str, other: os.stat_result) -> bool:
    try:
        return os.path.samestat(os.stat(path), other)
    except OSError:
        return False
