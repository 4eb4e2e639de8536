"""Recordings: the document and the Parquet files of a folder, of which one or two are changed."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from random import Random
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from tests.fuzz.folder import FolderTarget
from tests.fuzz.mutation import mutated, mutated_text, number
from tests.profiles import small
from tests.recording.test_ledger import write
from tests.recording.test_profile import write as write_small_profile
from tests.recordings import Run

from headway.model import violations
from headway.recording.clock import Anchor
from headway.recording.profile import open_profile
from headway.recording.reader import Recording


class RecordingTarget(FolderTarget):
    """An input is files of a recording and of a profile."""

    name = "recording"
    unit = 300
    changes = (1, 1, 1, 2)

    def fill(self) -> None:
        """Write both. Without the clock of this machine the files are always the same."""
        with patch("headway.recording.writer.read_anchor", return_value=Anchor(1_000_000, 1 << 60, 5)):
            write(self.folder / "run.hw", Run(Random(11), threads=2), 3, moves=6, rows=12)
            write_small_profile(self.folder / "profile.hw", small())

    def is_input(self, file: Path) -> bool:
        """Return whether a file of the folder may be changed."""
        return file.suffix in (".json", ".parquet")

    def changed(self, random: Random, which: int) -> bytes:
        """Change bytes of a file, or columns behind right checksums."""
        content = self.sound[which]
        if self.names[which].suffix == ".json":
            return mutated_text(random, content, self.sound)
        if random.random() < 0.5:
            return _with_columns(random, content)
        if random.random() < 0.7:  # what a file says of itself stands at its end
            tail = min(len(content), 1500)
            return content[:-tail] + mutated(random, content[-tail:], self.sound)
        return mutated(random, content, self.sound)

    def read_folder(self, last: Path, random: Random) -> None:
        """Ask for the ledgers and the rows; damaged files are left out and counted."""
        path = self.folder / last.relative_to(self.folder).parts[0]
        if path.name == "profile.hw":
            profile, _ = open_profile(path)
            assert violations(profile.ledger) == []
        else:
            _ask(path, random.randrange(4))


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
