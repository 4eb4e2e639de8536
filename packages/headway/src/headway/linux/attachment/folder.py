"""A folder in the file system of another process, with what that is to execute, and a file for what it says.

The process may have a root directory, a user and mounts of its own. So the files are copied to where it can read them,
and to no other place. The folder and all in it are made anew, by a name that nobody knows beforehand. The folder stays
ours, so that nobody puts a link into it; the files are those of the process's user, and nobody else may read them.
"""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterable
from contextlib import suppress

from headway.linux.procfs.living import with_memory
from headway.linux.procfs.status import status
from headway.other_root import open_within

__all__ = ["Folder"]

_PLACES = ("/tmp", "/var/tmp", "/dev/shm", "/run")
_FILE, _FOLDER = 0o600, 0o755
_SAID = "said"
_LONGEST = 4096


class Folder:
    """A new folder. Raises OSError: there is no place for it."""

    def __init__(self, pid: int) -> None:
        self._made: list[tuple[str, bool]] = []
        """What is in the folder, and whether that is a folder; each after the one in which it is."""
        self._owner = _owner(pid)
        self._place, self._name = -1, ""
        self._fd, self._said = -1, -1
        self._begin(f"/proc/{with_memory(pid)}/root")
        try:
            self._said = self._new(_SAID, os.O_RDWR)
            self._give(self._said)
        except OSError:
            self.remove()
            raise

    def _begin(self, root: str) -> None:
        """Make the folder in the first place that has room for programs. Raises OSError."""
        why: OSError | None = None
        for place in _PLACES:
            try:
                fd = open_within(root, place, os.O_RDONLY | os.O_DIRECTORY)
            except OSError as error:
                why = why or error
                continue
            try:
                if os.fstatvfs(fd).f_flag & (os.ST_NOEXEC | os.ST_RDONLY):
                    raise OSError(errno.EACCES, f"programs in {place} may not be executed")
                self._name, self._fd = _new_folder(fd)
            except OSError as error:
                why = why or error
                os.close(fd)
                continue
            self._place = fd
            self.path = f"{place}/{self._name}"
            """As the process sees it."""
            return
        assert why is not None
        raise why

    def add(self, name: str, contents: bytes) -> None:
        """Put a file into it, whose name is a path in it. Raises OSError."""
        for place in _folders_of(name):
            if (place, True) not in self._made:
                os.mkdir(place, _FOLDER, dir_fd=self._fd)
                self._made.append((place, True))
                os.chmod(place, _FOLDER, dir_fd=self._fd)
        with open(self._new(name, os.O_WRONLY), "wb") as file:
            file.write(contents)
            self._give(file.fileno())

    def _new(self, name: str, how: int) -> int:
        fd = os.open(name, how | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, _FILE, dir_fd=self._fd)
        self._made.append((name, False))
        return fd

    def _give(self, fd: int) -> None:
        """Make a file the user's who is to read it."""
        found = os.fstat(fd)
        if (found.st_uid, found.st_gid) != self._owner:
            os.fchown(fd, *self._owner)

    def said(self) -> str:
        """Return what the process has written; empty: nothing yet, or nothing that ends."""
        text = os.pread(self._said, _LONGEST, 0).decode(errors="replace")
        return text.removesuffix("\n") if text.endswith("\n") else ""

    def forget(self) -> None:
        """Have it say something new. Raises OSError."""
        os.ftruncate(self._said, 0)

    def remove(self) -> None:
        """Remove the folder and what was made in it; may be called again."""
        for name, is_folder in reversed(self._made):
            with suppress(OSError):
                (os.rmdir if is_folder else os.unlink)(name, dir_fd=self._fd)
        self._made.clear()
        if self._name:
            with suppress(OSError):
                os.rmdir(self._name, dir_fd=self._place)
        self.close()

    def close(self) -> None:
        """Leave it where it is; may be called again."""
        self._name = ""
        for fd in (self._said, self._fd, self._place):
            if fd >= 0:
                os.close(fd)
        self._said = self._fd = self._place = -1


def _new_folder(place: int) -> tuple[str, int]:
    """Make a folder in another one. Return its name and a descriptor of it. Raises OSError."""
    name = f"headway-{secrets.token_hex(8)}"
    os.mkdir(name, 0o700, dir_fd=place)
    try:
        fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=place)
        os.fchmod(fd, _FOLDER)
    except OSError:
        os.rmdir(name, dir_fd=place)
        raise
    return name, fd


def _folders_of(name: str) -> Iterable[str]:
    """Return the folders in which a path is, the outermost first."""
    parts = name.split("/")[:-1]
    return ["/".join(parts[: n + 1]) for n in range(len(parts))]


def _owner(pid: int) -> tuple[int, int]:
    """Return user and group as which a process opens files. Raises OSError."""
    fields = status(f"/proc/{pid}")
    try:
        return int(fields["Uid"].split()[3]), int(fields["Gid"].split()[3])
    except (KeyError, IndexError, ValueError):
        raise ProcessLookupError(f"process {pid} has ended") from None
