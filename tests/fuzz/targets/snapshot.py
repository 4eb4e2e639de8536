"""CoreSight snapshots: the INI files that say what is in the folder, and the buffer."""

from __future__ import annotations

from pathlib import Path
from random import Random

from tests.fuzz.folder import FolderTarget
from tests.fuzz.mutation import mutated, mutated_text
from tests.trace.snapshots import write

from headway.trace.decode import Capture


class SnapshotTarget(FolderTarget):
    """An input is files of a snapshot."""

    name = "snapshot"
    unit = 500

    def fill(self) -> None:
        """Write a snapshot."""
        write(self.folder)

    def changed(self, random: Random, which: int) -> bytes:
        """Change the text of an INI file, or bytes of another."""
        change = mutated_text if self.names[which].suffix == ".ini" else mutated
        return change(random, self.sound[which], self.sound)

    def read_folder(self, last: Path, random: Random) -> None:
        """Open the snapshot and decode its stream."""
        capture = Capture.open(str(self.folder))
        for stream in capture.chosen(()):
            stream.check()
            stream.statistics()
            stream.check_image()
            for block in stream.blocks():
                assert len(block.instructions()) <= len(block)
            assert stream.places.span(0, 1 << 40) >= (0, 0)


TARGET = SnapshotTarget
