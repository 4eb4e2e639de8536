"""Reading the files of a recording. The folder may come from anywhere, so nothing in it is trusted.

No file outside the folder is opened, and only regular files are read. What a file claims about its size is checked
before memory is allocated for it. Every column is checked before it is returned.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headway.linux.confinement import limited_memory
from headway.values import LARGEST

from .clock import Anchor
from .format import ANCHOR, BESIDE, FROM, LAST, LATER, PART, ROWS, SCHEMAS, UNTIL, part_number

__all__ = ["Damage", "Folder", "TransitionsPart"]

MAX_ROWS = 1 << 23
"""The largest number of rows of a part."""
MAX_BYTES = 1 << 30
"""The largest size of an unpacked part, in bytes."""
MAX_LONG = 1 << 16
"""The largest number of values in a row of a column that has lists or maps. All rows have `MAX_ROWS` at most."""
MEMORY = 3 << 29
"""The most memory that unpacking a part may take, in bytes, whatever the part claims about itself."""
BATCH = 1 << 18
"""The number of rows that are unpacked at once."""
MAX_FILES = 1 << 20
_ANY_SIGN = frozenset({"taken", "address", "task_id", "futex"})
"""The columns whose values may be negative or exceed `_LATEST`. All other numbers are checked."""
_LATEST = LARGEST >> 1
"""Times are smaller than this, so that their sums do not overflow."""


class Damage(ValueError):  # noqa: N818
    """A file is damaged. The message is a clause that says how."""


@dataclass(frozen=True, slots=True)
class TransitionsPart:
    """What a part of ``transitions`` says in its metadata."""

    number: int
    start: int
    """The start of the time in which its rows were written (included), in the recording's time unit."""
    end: int
    """The end of that time (excluded)."""
    rows: int
    beside: tuple[str, ...] = ()
    """The other tables that have a part of this number."""
    anchor: Anchor | None = None
    last: bool = False


class Folder:
    """An open folder of a recording. Call `close` when done."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Open the folder. Raises OSError if it cannot be opened, ValueError if ``path`` is not a file name."""
        self._fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def close(self) -> None:
        """Close the folder. It may be called more than once."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def read(self, name: str, most: int) -> bytes:
        """Return the content of a file of at most ``most`` bytes. Raises OSError; Damage if it is no such file."""
        fd = _open(name, self._fd)
        try:
            with open(fd, "rb") as stream:
                # No more than the file has: a read takes the memory of all bytes that it asks for.
                data = stream.read(min(most, os.fstat(fd).st_size) + 1)
        except OSError as error:
            raise Damage(f"it cannot be read ({error.strerror})") from None
        if len(data) > most:
            raise Damage(f"it has more than {most >> 20} MiB")
        return data

    def numbers(self, table: str) -> list[int]:
        """Return the numbers of a table's parts, ascending. Files with other names are ignored."""
        try:
            fd = os.open(table, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self._fd)
        except OSError:
            return []
        found = []
        try:
            with suppress(OSError), os.scandir(fd) as entries:
                for count, entry in enumerate(entries):
                    if count >= MAX_FILES:
                        break
                    number = part_number(entry.name)
                    if number is not None:
                        found.append(number)
        finally:
            os.close(fd)
        return sorted(found)

    def part(self, name: str, number: int) -> TransitionsPart:
        """Return the metadata of a part of ``transitions``. Raises FileNotFoundError and Damage."""
        with _File(self._fd, "transitions", name) as file:
            values = {key: file.integer(key) for key in (PART, FROM, UNTIL, ROWS)}
            if values[PART] != number:
                raise Damage(f"it says that it is part {values[PART]}")
            if not 0 <= values[FROM] <= values[UNTIL] < _LATEST:
                raise Damage(f"it says that it covers {values[FROM]} to {values[UNTIL]}")
            if values[ROWS] != file.rows:
                raise Damage(f"it says that it has {values[ROWS]} rows and has {file.rows}")
            beside = tuple(name for name in file.text(BESIDE).split(",") if name in SCHEMAS)
            anchor = None
            with suppress(ValueError):
                monotonic, realtime, uncertainty = (int(word) for word in file.text(ANCHOR).split())
                if 0 <= min(monotonic, realtime, uncertainty) <= max(monotonic, realtime, uncertainty) < LARGEST:
                    anchor = Anchor(monotonic, realtime, uncertainty)
            return TransitionsPart(
                number, values[FROM], values[UNTIL], file.rows, beside, anchor, last=file.text(LAST) == "1"
            )

    def table(self, table: str, name: str, number: int, columns: Sequence[str] | None = None) -> pa.Table:
        """Return columns of a part, in the types and order of the format. Raises FileNotFoundError and Damage."""
        with _File(self._fd, table, name) as file:
            if file.integer(PART) != number:
                raise Damage(f"it says that it is part {file.integer(PART)}")
            with limited_memory(MEMORY):
                return file.table(columns)


def _open(name: str, folder: int) -> int:
    """Open a regular file in a folder and return its descriptor. Raises FileNotFoundError and Damage."""
    try:
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise Damage(f"it cannot be opened ({error.strerror})") from None
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise Damage("it is not a file")
    return fd


class _File:
    """One Parquet file, used as a context manager. Every error inside becomes Damage."""

    def __init__(self, folder: int, table: str, name: str) -> None:
        self._table = table
        try:
            inside = os.open(table, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise Damage(f"{table} cannot be opened ({error.strerror})") from None
        try:
            fd = _open(name, inside)
        finally:
            os.close(inside)
        self._stream = open(fd, "rb")  # noqa: SIM115

    def __enter__(self) -> _File:
        try:
            words = [f.name for f in SCHEMAS[self._table] if pa.types.is_dictionary(f.type)]
            # Without pre_buffer this thread reads. Otherwise one of Arrow's does, which may let go of the stream while
            # Python ends, and then ends the process (terminate called without an active exception).
            self._file = pq.ParquetFile(
                self._stream, read_dictionary=words, page_checksum_verification=True, pre_buffer=False
            )
            # Read no other metadata: an exception there ends the process, because pyarrow catches only those in
            # reading.
            metadata = self._file.metadata
            self.rows: int = metadata.num_rows
            if not 0 <= self.rows <= MAX_ROWS:
                raise Damage(f"it claims {self.rows} rows")
            self._values = {bytes(k): bytes(v) for k, v in (metadata.metadata or {}).items()}
        except BaseException as error:
            self._stream.close()
            raise _damage(error) from None
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._stream.close()
        if error is not None:
            raise _damage(error) from None

    def integer(self, key: bytes) -> int:
        """Return a number from the file's own metadata. Raises Damage."""
        value = self._values.get(key, b"")
        if not (value.isdigit() and len(value) < 20):
            raise Damage(f"it does not say its {key.decode()}")
        return int(value)

    def text(self, key: bytes) -> str:
        """Return a text from the file's own metadata, or "" if there is none."""
        return self._values.get(key, b"").decode(errors="replace")

    def table(self, columns: Sequence[str] | None) -> pa.Table:
        """Return the checked columns; None: all of them."""
        schema = SCHEMAS[self._table]
        wanted = [f for f in schema if columns is None or f.name in columns]
        there = self._file.schema_arrow
        absent = [f for f in wanted if f.name in LATER and f.name not in there.names]
        wanted = [f for f in wanted if f not in absent]
        for field in wanted:
            if there.get_field_index(field.name) < 0:
                raise Damage(f"it has no column {field.name}, or several")
        batches, rows, size = [], 0, 0
        for batch in self._file.iter_batches(BATCH, columns=[f.name for f in wanted], use_threads=False):
            batches.append(batch)
            rows, size = rows + batch.num_rows, size + batch.nbytes
            if rows > self.rows or size > MAX_BYTES:
                raise Damage(f"it claims {self.rows} rows, and has {rows} or more in {size} bytes")
        if rows != self.rows:
            raise Damage(f"it claims {self.rows} rows and has {rows}")
        table = pa.Table.from_batches(batches, None if batches else pa.schema([there.field(f.name) for f in wanted]))
        arrays = [_checked(table.column(field.name), field) for field in wanted]
        nothing = [pa.nulls(rows, field.type) for field in absent]
        found = pa.Table.from_arrays([*arrays, *nothing], schema=pa.schema([*wanted, *absent]))
        _check_counts(found)
        return found


def _check_counts(table: pa.Table) -> None:
    """Check that no count is negative, except in a correction, which has no duration. Raises Damage."""
    if "count" not in table.column_names or not table.num_rows:
        return
    least = pc.min(table.column("count")).as_py()
    if least is None or least >= 0:
        return
    if "duration" in table.column_names:
        least = pc.min(table.filter(pc.greater(table.column("duration"), 0)).column("count")).as_py()
        if least is None or least >= 0:
            return
    raise Damage(f"count is {least}")


def _checked(column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    """Return a column after checking its type and its values. Raises Damage."""
    kind = field.type
    if pa.types.is_dictionary(kind) and pa.types.is_dictionary(column.type):
        if column.type.value_type != kind.value_type:
            raise Damage(f"{field.name} is {column.type}, not {kind}")
        if column.type.index_type != kind.index_type:
            column = column.cast(kind)
        column = column.unify_dictionaries()
    elif pa.types.is_nested(kind):
        column = column.cast(kind)
        sizes = [np.diff(chunk.offsets.to_numpy()) for chunk in column.chunks]
        longest = max((int(some.max(initial=0)) for some in sizes), default=0)
        if longest > MAX_LONG or sum(int(some.sum()) for some in sizes) > MAX_ROWS:
            raise Damage(f"{field.name} has {longest} values in a row")
    elif column.type != kind:
        raise Damage(f"{field.name} is {column.type}, not {kind}")
    column.validate(full=True)
    if column.null_count and not field.nullable:
        raise Damage(f"{field.name} is missing in {column.null_count} rows")
    if pa.types.is_integer(kind) and field.name not in _ANY_SIGN and len(column) > column.null_count:
        least, most = pc.min_max(column).as_py().values()
        negative = least < 0 and field.name != "count"  # `_check_counts` looks at these
        if negative or most >= _LATEST:
            raise Damage(f"{field.name} is {least if negative else most}")
    return column


def _damage(error: BaseException) -> BaseException:
    """Return an error of the Parquet library as Damage, and every other error unchanged."""
    if isinstance(error, (Damage, KeyboardInterrupt, SystemExit)):
        return error
    if isinstance(error, MemoryError):
        return Damage(f"it takes more than {MEMORY >> 20} MiB of memory")
    if isinstance(error, (pa.ArrowException, OSError, ValueError, TypeError, KeyError, OverflowError)):
        words = (str(error).splitlines() or [""])[0]
        return Damage(f"it cannot be read as a Parquet file ({ascii(words[:120])[1:-1]})")
    return error
