"""A /proc file system that is kept open: its files are read by path."""

from __future__ import annotations

import os
from contextlib import suppress

from headway.errors import HeadwayError
from headway.linux.procfs._procfs import parse_schedstat
from headway.linux.procfs.ids import process_of

__all__ = ["ProcDirectory"]


class ProcDirectory:
    """The directory at ``path``, open until `close`. Raises HeadwayError where it cannot be read."""

    def __init__(self, path: str) -> None:
        try:
            self.fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as why:
            raise HeadwayError(f"{path} cannot be read ({why.strerror}): mount it, proc(5) says how") from None
        self._loadavg = -1
        with suppress(OSError):
            self._loadavg = os.open("loadavg", os.O_RDONLY | os.O_CLOEXEC, dir_fd=self.fd)
            if os.fstat(self._loadavg).st_dev != os.fstat(self.fd).st_dev:  # something else, mounted over it
                os.close(self._loadavg)
                self._loadavg = -1

    def process_of(self, tid: int) -> int | None:
        """Return the process of a thread; None: there is no such thread, or it is hidden."""
        return process_of(tid, proc="", dir_fd=self.fd)

    def newest_id(self) -> bytes | None:
        """Return the id that was given out last in this pid namespace (proc_loadavg(5)); None: that is not told."""
        if self._loadavg < 0:
            return None
        try:
            last = os.pread(self._loadavg, 256, 0).split()[-1]
        except (OSError, IndexError):
            return None
        return last if last.isdigit() and last != b"0" else None

    def has_schedstat(self) -> bool:
        """Return whether the kernel keeps schedstat.

        One built without CONFIG_SCHED_INFO has no such file, or three zeros in it; this process has run for a while.
        """
        figures = parse_schedstat(self._contents("self/schedstat"))
        return figures is not None and figures[0] > 0

    def close(self) -> None:
        """Close it; may be called again."""
        for fd in (self.fd, self._loadavg):
            if fd >= 0:
                os.close(fd)
        self.fd = self._loadavg = -1

    def _contents(self, path: str) -> bytes:
        """Return what is in a file of it; nothing if that cannot be read."""
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=self.fd)
        except OSError:
            return b""
        try:
            return os.read(fd, 1 << 16)
        except OSError:
            return b""
        finally:
            os.close(fd)
