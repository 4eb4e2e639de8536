"""The mappings of a process, and the files behind them, also in a container or after they were deleted."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator

from headway.dataclass import dataclass
from headway.other_root import open_within

from .living import with_memory

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
    """The offset of the first byte in the file."""
    inode: int
    """0: there is no file behind the mapping."""
    path: str
    """The path in the process's own file system, or a name such as ``[heap]``, or empty."""
    deleted: bool


def mappings(pid: int) -> list[Mapping]:
    """Return all mappings of a process, ascending. Raises OSError if it is gone, or may not be read."""
    with open(f"/proc/{with_memory(pid)}/maps", "rb") as file:
        return list(parse(file.read(_MAX_BYTES)))


def parse(text: bytes, containing: bytes = b"") -> Iterator[Mapping]:
    """Yield the valid lines of /proc/PID/maps, only those that contain ``containing``, which is fast if they are few.

    A path can contain any byte, but the kernel escapes newlines, so only a newline ends a line.
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
    """Return a path by which this process can open the file of another's mapping; None: there is none.

    It is the file's own path if that leads to the same file here, else the path in the process's root, else (for a
    deleted or replaced file) the kernel's link, which only root may follow.
    """
    if not mapping.inode or not mapping.path.startswith("/"):
        return None
    pid = with_memory(pid)
    inside = f"/proc/{pid}/root{mapping.path}"
    link = f"/proc/{pid}/map_files/{mapping.start:x}-{mapping.end:x}"
    try:
        found = _status(f"/proc/{pid}/root", mapping.path)
        # The device is not compared: file systems with many volumes show another one in maps than in stat(2).
        if found.st_ino == mapping.inode:
            return mapping.path if _is(mapping.path, found) else inside
    except (OSError, ValueError):
        pass
    try:
        return link if os.stat(link).st_ino == mapping.inode else None
    except OSError:
        return None


def _status(root: str, path: str) -> os.stat_result:
    """Return the status of a file within a root directory. Raises OSError and ValueError."""
    try:
        fd = open_within(root, path, os.O_PATH)
    except OSError as error:
        if error.errno not in (errno.ENOSYS, errno.EPERM):
            raise
        return os.stat(root + path)  # openat2(2) is not there, or a seccomp filter refuses it
    try:
        return os.fstat(fd)
    finally:
        os.close(fd)


def _is(path: str, other: os.stat_result) -> bool:
    try:
        return os.path.samestat(os.stat(path), other)
    except OSError:
        return False
