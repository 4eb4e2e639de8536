"""Perf maps: the functions that a just-in-time compiler has made, listed in /tmp/perf-PID.map.

Each line is a function: ``START SIZE NAME``, both numbers in hexadecimal (tools/perf/Documentation/jit-interface.txt of
Linux). Python writes a map with ``-X perf``, Node.js with ``--perf-basic-prof``, Java with an agent. Anybody can write
to /tmp, so a map is used only if it is a plain file of the process's own user or of root, and not too large.
"""

from __future__ import annotations

import errno
import os
import stat
from array import array
from bisect import bisect_right

from headway.other_root import open_within

__all__ = ["PerfMap", "parse", "read"]

_MAX_BYTES = 128 << 20
_MAX_LINES = 2_000_000
_LONGEST_NAME = 1000


class PerfMap:
    """The functions of one map, by address."""

    def __init__(self, rows: list[tuple[int, int, str]]) -> None:
        """Take rows (start, size, name). Of two with the same start the later holds, because code is replaced."""
        kept = {start: (size, name) for start, size, name in rows}
        ordered = sorted(kept.items())
        self._starts = array("Q", (start for start, _ in ordered))
        self._rest = [rest for _, rest in ordered]

    def __len__(self) -> int:
        """Return the number of functions."""
        return len(self._starts)

    def at(self, address: int) -> tuple[str, int] | None:
        """Return name and start of the function that contains an address, or None."""
        place = bisect_right(self._starts, address) - 1
        if place < 0:
            return None
        size, name = self._rest[place]
        return (name, self._starts[place]) if address < self._starts[place] + size else None


def parse(data: bytes) -> PerfMap:
    """Return the map of all well-formed lines; others are skipped."""
    rows = []
    for line in data.split(b"\n", _MAX_LINES)[:_MAX_LINES]:
        fields = line.split(None, 2)
        if len(fields) != 3:
            continue
        try:
            start, size = int(fields[0], 16), int(fields[1], 16)
        except ValueError:
            continue
        if 0 <= start < 1 << 64 and 0 < size < 1 << 47:
            rows.append((start, size, fields[2][:_LONGEST_NAME].decode(errors="backslashreplace").rstrip("\r")))
    return PerfMap(rows)


def _open(root: str, path: str) -> int:
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    return os.open(path, flags) if root == "/" else open_within(root, path, flags)


def read(pid: int, uid: int, *, inner: int | None = None, root: str | None = None) -> tuple[PerfMap | None, str]:
    """Return the perf map of a process of this user, or why it is not used ("" if there is none).

    ``inner``: the process's id in its own PID namespace. ``root``: the path of its file system (/proc/PID/root).
    """
    places = [("/", f"/tmp/perf-{pid}.map")]
    if inner is not None and root is not None:
        places.insert(0, (root, f"/tmp/perf-{inner}.map"))
    for top, path in places:
        place = path if top == "/" else top + path
        try:
            fd = _open(top, path)
        except OSError as error:
            if error.errno == errno.ELOOP:
                return None, f"{place} is a symbolic link, and was not read: anybody could have put it there"
            if isinstance(error, PermissionError):
                return None, f"{place} may not be read"
            continue
        try:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode):
                return None, f"{place} is no plain file, and was not read"
            if status.st_uid not in (uid, 0):
                return None, f"{place} belongs to user {status.st_uid}, not to the process's {uid}, and was not read"
            if status.st_size > _MAX_BYTES:
                return (
                    None,
                    f"{place} has {status.st_size >> 20} MiB, and was not read: {_MAX_BYTES >> 20} are the most",
                )
            with os.fdopen(os.dup(fd), "rb") as file:
                return parse(file.read(_MAX_BYTES)), ""
        finally:
            os.close(fd)
    return None, ""
