"""A kind of input that is the files of a folder, of which one or two are changed."""

from __future__ import annotations

import os
import shutil
import struct
import tempfile
from abc import abstractmethod
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from random import Random

from tests.fuzz.target import Target

__all__ = ["FolderTarget"]

_ENTRY = struct.Struct("=HI")


class FolderTarget(Target):
    """An input is files, each a number among the folder's own files, a length, and the content."""

    changes: Sequence[int] = (1, 1, 2)
    """How many files an input changes: one of these."""
    altered: frozenset[str] = frozenset()
    """The paths of the files that the input which is being read has changed."""

    def __init__(self) -> None:
        shm = "/dev/shm" if os.path.isdir("/dev/shm") else None
        self.folder = Path(tempfile.mkdtemp(prefix="headway-fuzz-", dir=shm))
        self.fill()
        self.names = sorted(file.relative_to(self.folder) for file in self.folder.rglob("*") if self.is_input(file))
        self.paths = [str(self.folder / name) for name in self.names]
        self.sound = [Path(path).read_bytes() for path in self.paths]

    @abstractmethod
    def fill(self) -> None:
        """Write the sound files into the folder."""

    def is_input(self, file: Path) -> bool:
        """Return whether a file of the folder may be changed."""
        return file.is_file()

    @abstractmethod
    def changed(self, random: Random, which: int) -> bytes:
        """Return a hostile content of a file."""

    @abstractmethod
    def read_folder(self, last: Path, random: Random) -> None:
        """Read the folder as headway does; ``last``: the file that was changed last. Raises HeadwayError."""

    @cached_property
    def seeds(self) -> list[bytes]:
        """Return the folder as it is."""
        return [b"", _ENTRY.pack(0, len(self.sound[0])) + self.sound[0]]

    def make(self, random: Random) -> bytes:
        """Change files."""
        found = b""
        for _ in range(random.choice(self.changes)):
            which = random.randrange(len(self.sound))
            content = self.changed(random, which)
            found += _ENTRY.pack(which, len(content)) + content
        return found

    def read(self, data: bytes, random: Random) -> None:
        """Change the files, read the folder, and restore the files."""
        changed, at = list[int](), 0
        while len(data) - at >= _ENTRY.size:
            which, size = _ENTRY.unpack_from(data, at)
            at += _ENTRY.size
            changed.append(which % len(self.names))
            _write(self.paths[changed[-1]], data[at : at + size])
            at += size
        self.altered = frozenset(self.paths[which] for which in changed)
        try:
            self.read_folder(Path(self.paths[changed[-1] if changed else 0]), random)
        finally:
            for which in set(changed):
                _write(self.paths[which], self.sound[which])

    def close(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.folder)


def _write(path: str, data: bytes) -> None:
    with open(path, "wb", buffering=0) as stream:
        stream.write(data)
