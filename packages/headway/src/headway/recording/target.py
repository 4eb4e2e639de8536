"""The folder that a recording is written to. Existing files are never touched, and every file appears complete."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import pyarrow as pa

from headway.errors import HeadwayError

from .format import DOCUMENT, part_name

__all__ = ["Target"]

_UNFINISHED = ".new"


class Target:
    """A new folder of a recording. Only its owner can read it, because it contains names of threads and commands."""

    def __init__(self, path: str | os.PathLike[str], document: str, tables: Iterable[str]) -> None:
        """Make the folder with this document. A folder that exists must be empty. Raises HeadwayError."""
        self.path = Path(path)
        self._tables = set(tables)
        words = ascii(os.fspath(path))
        try:
            if self.path.is_dir():
                self._fill(self.path, document)
            else:
                self._appear(document)
        except OSError as error:
            if error.errno in (errno.EEXIST, errno.ENOTEMPTY):
                why = "is there already, and is not overwritten: remove it, or give another name with -o"
            elif error.errno == errno.ENOENT:
                why = "cannot be made, there is no such folder to make it in: give another name with -o"
            else:
                why = f"cannot be made ({error.strerror}): give another name with -o"
            raise HeadwayError(f"the recording {words} {why}") from None
        except ValueError:
            raise HeadwayError(f"{words} is not a file name: give another name with -o") from None

    def _appear(self, document: str) -> None:
        """Make the folder under a temporary name and rename it, so that it appears with its document in it."""
        if os.path.lexists(self.path):
            raise FileExistsError(errno.EEXIST, "")
        name = self.path.name
        beside = Path(tempfile.mkdtemp(prefix=f".{name[:100]}.", dir=self.path.parent))
        try:
            self._fill(beside, document)
            os.rename(beside, self.path)  # rename(2) succeeds only if the target is absent or an empty folder
        except BaseException:
            shutil.rmtree(beside, ignore_errors=True)
            raise

    def _fill(self, folder: Path, document: str) -> None:
        if any(folder.iterdir()):
            raise FileExistsError(errno.EEXIST, "")
        for table in sorted(self._tables):
            (folder / table).mkdir(mode=0o700)
        _write(folder / DOCUMENT, document.encode())

    def link(self, path: str | os.PathLike[str], document: str, parts: Iterable[tuple[str, int]]) -> None:
        """Make another recording of some of the parts, by table and number. It appears when it is complete.

        Its files are links to those of this recording, or copies where the file system has no links. Raises OSError.
        """
        target = Path(path)
        beside = Path(tempfile.mkdtemp(prefix=f".{target.name[:100]}.", dir=target.parent))
        try:
            self._fill(beside, document)
            for table, number in parts:
                here, there = (folder / table / part_name(number) for folder in (self.path, beside))
                there.parent.mkdir(mode=0o700, exist_ok=True)
                try:
                    os.link(here, there)
                except OSError:
                    shutil.copy(here, there)
            os.rename(beside, target)
        except BaseException:
            shutil.rmtree(beside, ignore_errors=True)
            raise

    def write_document(self, text: str) -> None:
        """Replace ``recording.json``."""
        _write(self.path / DOCUMENT, text.encode())

    def write_part(self, table: str, number: int, data: pa.Buffer) -> None:
        """Write a part. It gets its name when it is complete and on the disk."""
        self._tables.add(table)
        folder = self.path / table
        folder.mkdir(mode=0o700, exist_ok=True)
        _write(folder / part_name(number), memoryview(data))

    def remove_part(self, table: str, number: int) -> None:
        """Remove a part, if it exists."""
        with suppress(FileNotFoundError):
            os.unlink(self.path / table / part_name(number))

    def remove(self) -> None:
        """Remove the recording, whose measurement has not begun. Files that others have put there stay."""
        for table in self._tables:
            shutil.rmtree(self.path / table, ignore_errors=True)
        for name in (DOCUMENT, DOCUMENT + _UNFINISHED):
            with suppress(OSError):
                os.unlink(self.path / name)
        with suppress(OSError):
            os.rmdir(self.path)


def _write(path: Path, data: bytes | memoryview) -> None:
    """Write a file under a temporary name, flush it to the disk, and rename it."""
    unfinished = path.with_name(path.name + _UNFINISHED)
    fd = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(fd, rest) :]
            os.fdatasync(fd)
        finally:
            os.close(fd)
        os.rename(unfinished, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(unfinished)
        raise
