"""Recordings: the document and the Parquet files of a folder, of which one or two are changed."""

from __future__ import annotations

import os
import shutil
import struct
import tempfile
from functools import cached_property
from io import BytesIO
from pathlib import Path
from random import Random
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from tests.fuzz.mutation import mutated, mutated_text, number
from tests.fuzz.target import Target
from tests.profiles import small
from tests.recording.test_ledger import write
from tests.recording.test_profile import write as write_small_profile
from tests.recordings import Run

from headway.model import violations
from headway.recording.clock import Anchor
from headway.recording.profile import open_profile
from headway.recording.reader import Recording

_ENTRY = struct.Struct("=HI")


class RecordingTarget(Target):
    """An input is files, each a number among the recording's own files, a length, and the content."""

    name = "recording"
    unit = 300

    def __init__(self) -> None:
        shm = "/dev/shm" if os.path.isdir("/dev/shm") else None
        self._folder = Path(tempfile.mkdtemp(prefix="headway-fuzz-", dir=shm))
        # Without the clock of this machine the files are always the same.
        with patch("headway.recording.writer.read_anchor", return_value=Anchor(1_000_000, 1 << 60, 5)):
            write(self._folder / "run.hw", Run(Random(11), threads=2), 3, moves=6, rows=12)
            write_small_profile(self._folder / "profile.hw", small())
        self._names = sorted(
            file.relative_to(self._folder) for file in self._folder.rglob("*") if file.suffix in (".json", ".parquet")
        )
        self._sound = [(self._folder / name).read_bytes() for name in self._names]

    @cached_property
    def seeds(self) -> list[bytes]:
        """Return the recording as it is."""
        return [b"", _ENTRY.pack(0, len(self._sound[0])) + self._sound[0]]

    def make(self, random: Random) -> bytes:
        """Change bytes of files, or columns behind right checksums."""
        found = b""
        for _ in range(random.choice((1, 1, 1, 2))):
            which = random.randrange(len(self._sound))
            content = self._sound[which]
            if self._names[which].suffix == ".json":
                changed = mutated_text(random, content, self._sound)
            elif random.random() < 0.5:
                changed = _with_columns(random, content)
            elif random.random() < 0.7:  # what a file says of itself stands at its end
                tail = min(len(content), 1500)
                changed = content[:-tail] + mutated(random, content[-tail:], self._sound)
            else:
                changed = mutated(random, content, self._sound)
            found += _ENTRY.pack(which, len(changed)) + changed
        return found

    def read(self, data: bytes, random: Random) -> None:
        """Ask for the ledgers and the rows; damaged files are left out and counted."""
        changed, at = [0], 0
        while len(data) - at >= _ENTRY.size:
            which, size = _ENTRY.unpack_from(data, at)
            at += _ENTRY.size
            changed.append(which % len(self._names))
            (self._folder / self._names[changed[-1]]).write_bytes(data[at : at + size])
            at += size
        try:
            path = self._folder / self._names[changed[-1]].parts[0]
            if path.name == "profile.hw":
                profile, _ = open_profile(path)
                assert violations(profile.ledger) == []
            else:
                _ask(path, random.randrange(4))
        finally:
            for which in changed:
                (self._folder / self._names[which]).write_bytes(self._sound[which])

    def close(self) -> None:
        """Remove the recording."""
        shutil.rmtree(self._folder)


def _ask(path: Path, question: int) -> None:
    with Recording(path) as recording:
        try:
            if question < 2:
                ledger = recording.ledger() if question else recording.kept_ledger()
                assert ledger is None or violations(ledger) == []
            elif question == 2:
                for batch in recording.batches():
                    assert len(batch.transitions.time) == len(batch.transitions.duration)
            else:
                recording.open_states()
                assert recording.window.start <= recording.window.end
        finally:
            recording.losses()
            damaged = recording.damaged
        assert all(why.isprintable() and len(why) < 500 for why in damaged.values()), damaged


def _with_columns(random: Random, content: bytes) -> bytes:
    """Return the file with other values in a column, another column, or other metadata, and with right checksums."""
    table = pq.read_table(BytesIO(content))
    kind, at = random.randrange(6), random.randrange(table.num_columns)
    field = table.schema.field(at)
    if kind < 3 and table.num_rows and pa.types.is_integer(field.type):
        values = table.column(at).to_pylist()
        limits = np.iinfo(field.type.to_pandas_dtype())
        for _ in range(random.choice((1, 1, table.num_rows))):
            value = number(random) * random.choice((1, 1, -1))
            values[random.randrange(len(values))] = min(max(value, int(limits.min)), int(limits.max))
        table = table.set_column(at, field, pa.array(values, field.type))
    elif kind == 3:
        names = list(table.column_names)
        names[at] = random.choice((*names, "x", ""))
        table = table.rename_columns(names)
    elif kind == 4:
        start = random.randrange(table.num_rows + 1)
        table = table.slice(start) if random.random() < 0.5 else pa.concat_tables([table, table.slice(start)])
    else:
        metadata = dict(table.schema.metadata or {})
        for key in list(metadata):
            if random.random() < 0.3:
                metadata[key] = random.choice((b"%d" % number(random), b"", b"-1", metadata[key] + b"0"))
        table = table.replace_schema_metadata(metadata)
    stream = BytesIO()
    pq.write_table(table, stream, write_page_checksum=True)
    return stream.getvalue()


TARGET = RecordingTarget
