"""CoreSight snapshots: the INI files that say what is in the folder, and the buffer."""

from __future__ import annotations

import os
import shutil
import struct
import tempfile
from functools import cached_property
from pathlib import Path
from random import Random

from tests.fuzz.mutation import mutated, mutated_text
from tests.fuzz.target import Target
from tests.trace.snapshots import write

from headway.trace.decode import Capture

_ENTRY = struct.Struct("=HI")


class SnapshotTarget(Target):
    """An input is files, each a number among the snapshot's own files, a length, and the content."""

    name = "snapshot"
    unit = 500

    def __init__(self) -> None:
        shm = "/dev/shm" if os.path.isdir("/dev/shm") else None
        self._folder = write(Path(tempfile.mkdtemp(prefix="headway-fuzz-", dir=shm)))
        self._names = sorted(file.name for file in self._folder.iterdir())
        self._sound = [(self._folder / name).read_bytes() for name in self._names]

    @cached_property
    def seeds(self) -> list[bytes]:
        """Return the snapshot as it is."""
        return [b"", _ENTRY.pack(0, len(self._sound[0])) + self._sound[0]]

    def make(self, random: Random) -> bytes:
        """Change one file or two."""
        found = b""
        for _ in range(random.choice((1, 1, 2))):
            which = random.randrange(len(self._sound))
            change = mutated_text if self._names[which].endswith(".ini") else mutated
            changed = change(random, self._sound[which], self._sound)
            found += _ENTRY.pack(which, len(changed)) + changed
        return found

    def read(self, data: bytes, random: Random) -> None:
        """Open the snapshot and decode its stream."""
        changed, at = set[int](), 0
        while len(data) - at >= _ENTRY.size:
            which, size = _ENTRY.unpack_from(data, at)
            at += _ENTRY.size
            which %= len(self._names)
            (self._folder / self._names[which]).write_bytes(data[at : at + size])
            changed.add(which)
            at += size
        try:
            capture = Capture.open(str(self._folder))
            for stream in capture.chosen(()):
                stream.check()
                stream.statistics()
                stream.check_image()
                for block in stream.blocks():
                    assert len(block.instructions()) <= len(block)
                assert stream.places.span(0, 1 << 40) >= (0, 0)
        finally:
            for which in changed:
                (self._folder / self._names[which]).write_bytes(self._sound[which])

    def close(self) -> None:
        """Remove the snapshot."""
        shutil.rmtree(self._folder)


TARGET = SnapshotTarget
