"""Recordings: the document and the Parquet files of a folder, of which one or two are changed."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any, TypeVar
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from tests.fuzz.folder import FolderTarget
from tests.fuzz.mutation import mutated, mutated_text, number
from tests.fuzz.target import replaced
from tests.profiles import small
from tests.recording.test_ledger import write
from tests.recording.test_profile import write as write_small_profile
from tests.recordings import Run

from headway.model import violations
from headway.recording import contents
from headway.recording.clock import Anchor
from headway.recording.parts import Folder, TransitionsPart
from headway.recording.profile import open_profile
from headway.recording.reader import Recording

_T = TypeVar("_T")


class RecordingTarget(FolderTarget):
    """An input is files of a recording and of a profile. Those that it leaves as they are have been read before."""

    name = "recording"
    unit = 300
    changes = (1, 1, 1, 2)

    def __init__(self) -> None:
        super().__init__()
        self._found: dict[tuple[object, ...], object] = {}

    def _once(self, path: str, asked: object, read: Callable[[], _T]) -> _T:
        """Return what is read from a file, which is read only the first time if it is not changed."""
        if path in self.altered:
            return read()
        key = path, asked
        if key not in self._found:
            self._found[key] = read()
        return self._found[key]  # type: ignore[return-value]

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
            return _with_columns(random, self._tables[which])
        if random.random() < 0.7:  # what a file says of itself stands at its end
            tail = min(len(content), 1500)
            return content[:-tail] + mutated(random, content[-tail:], self.sound)
        return mutated(random, content, self.sound)

    @cached_property
    def _tables(self) -> dict[int, pa.Table]:
        """The tables of the files, by the numbers of these."""
        found = {}
        for which, name in enumerate(self.names):
            if name.suffix == ".parquet":
                found[which] = pq.ParquetFile(pa.BufferReader(self.sound[which])).read(use_threads=False)
        return found

    def read_folder(self, last: Path, random: Random) -> None:
        """Ask for the ledgers and the rows; damaged files are left out and counted."""
        with replaced(contents, "Folder", lambda path: _Folder(path, self._once)):
            path = self.folder / last.relative_to(self.folder).parts[0]
            if path.name == "profile.hw":
                profile, _ = open_profile(path)
                assert violations(profile.ledger) == []
            else:
                _ask(path, random.randrange(4))


class _Folder(Folder):
    """A folder of a recording; ``once(path, asked, read)`` returns what is read from a file."""

    def __init__(self, path: str | os.PathLike[str], once: Callable[..., Any]) -> None:
        super().__init__(path)
        self._path, self._once = os.fspath(path), once

    def part(self, name: str, number: int) -> TransitionsPart:
        """Return the metadata of a part."""
        read = super().part
        found: TransitionsPart = self._once(f"{self._path}/transitions/{name}", number, lambda: read(name, number))
        return found

    def table(self, table: str, name: str, number: int, columns: Sequence[str] | None = None) -> pa.Table:
        """Return columns of a part."""
        read, asked = super().table, (number, None if columns is None else tuple(columns))
        return self._once(f"{self._path}/{table}/{name}", asked, lambda: read(table, name, number, columns))


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


def _with_columns(random: Random, table: pa.Table) -> bytes:
    """Return a file of the table with other values in a column, columns, or metadata, and right checksums."""
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
    stream = pa.BufferOutputStream()
    pq.write_table(table, stream, write_page_checksum=True)
    return bytes(stream.getvalue())


TARGET = RecordingTarget
