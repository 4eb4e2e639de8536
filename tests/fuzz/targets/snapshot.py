"""CoreSight snapshots: the INI files that say what is in the folder, and the buffer."""

from __future__ import annotations

from pathlib import Path
from random import Random

from tests.fuzz.folder import FolderTarget
from tests.fuzz.instructions import RememberedInstructions
from tests.fuzz.mutation import mutated, mutated_text
from tests.fuzz.target import replaced
from tests.trace.snapshots import write

from headway_trace import decode, snapshot
from headway_trace.decode import Capture
from headway_trace.snapshot import _Ini


class SnapshotTarget(FolderTarget):
    """An input is files of a snapshot.

    The INI files that it leaves as they are have been parsed before, and the instructions disassembled.
    """

    name = "snapshot"
    unit = 500

    def __init__(self) -> None:
        super().__init__()
        self._parsed: dict[str, _Ini] = {}
        self._instructions = RememberedInstructions()

    def _ini(self, folder: Path, name: str) -> _Ini:
        path = f"{self.folder}/{name}"
        if path in self.altered or path not in self.paths:
            return _Ini(folder, name)
        if name not in self._parsed:
            self._parsed[name] = _Ini(folder, name)
        return self._parsed[name]

    def fill(self) -> None:
        """Write a snapshot."""
        write(self.folder)

    def changed(self, random: Random, which: int) -> bytes:
        """Change the text of an INI file, or bytes of another."""
        change = mutated_text if self.names[which].suffix == ".ini" else mutated
        return change(random, self.sound[which], self.sound)

    def read_folder(self, last: Path, random: Random) -> None:
        """Open the snapshot and decode its stream."""
        with replaced(snapshot, "_Ini", self._ini), replaced(decode, "Code", self._instructions.code):
            self._decode()

    def _decode(self) -> None:
        capture = Capture.open(str(self.folder))
        for stream in capture.chosen(()):
            stream.check()
            stream.statistics()
            stream.check_image()
            for block in stream.blocks():
                assert len(block.instructions()) <= len(block)
            assert stream.places.span(0, 1 << 40) >= (0, 0)


TARGET = SnapshotTarget
