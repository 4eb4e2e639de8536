"""The contents of a recording, whether it is complete, still being written, left by a killed recorder, or untrusted."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import pyarrow as pa

from headway.errors import HeadwayError
from headway.model import OpenState, ThreadSeen, Window

from .clock import Anchor
from .document import MAX_BYTES, Document, parse
from .format import DOCUMENT, part_name
from .parts import Damage, Folder, TransitionsPart

__all__ = ["Contents"]

_MAX_THREADS = 2_000_000
"""The largest number of threads in a recording. Each takes a kilobyte while they are read."""


class Contents:
    """A recording on disk as it was when it was opened. Parts that are written later are not in it.

    Use it as a context manager, or call `close`. All times are in the time unit of `Document.ledger`: nanoseconds of
    CLOCK_MONOTONIC on Linux, cycles on the reference machine. Damaged files are left out and listed in `damaged`.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Open the recording. Raises HeadwayError if it is not a recording, or of a later version."""
        self.path = Path(path)
        words = ascii(os.fspath(path))
        try:
            self._folder = Folder(path)
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else "not a file name"
            raise HeadwayError(f"{words} cannot be opened ({why}): give a recording, a folder NAME.hw") from None
        try:
            self.document = self._read_document(words)
            self.damaged: dict[str, str] = {}
            """File name -> why the file is missing or cannot be used. Nothing of these files is in any result."""
            self.parts: tuple[TransitionsPart, ...] = tuple(self._find_parts())
            """The complete parts, in the order of time."""
        except BaseException:
            self._folder.close()
            raise

    def _read_document(self, words: str) -> Document:
        try:
            data = self._folder.read(DOCUMENT, MAX_BYTES)
        except FileNotFoundError:
            raise HeadwayError(
                f"{words} is not a recording: it has no {DOCUMENT}: give a folder that headway record has made"
            ) from None
        except Damage as error:
            raise HeadwayError(
                f"{DOCUMENT} in {words} cannot be used, {error}: give a folder that headway record has made"
            ) from None
        return parse(data, self.path)

    def _find_parts(self) -> Iterator[TransitionsPart]:
        numbers = self._folder.numbers("transitions")
        expected = self.document.dropped_parts
        if numbers and self.document.limited and not self.closed:
            expected = numbers[0]  # an open recording says how many parts it has dropped only when it is closed
        latest = self.document.ledger.window.start
        for number in numbers:
            for missing in range(expected, min(number, expected + 1000)):
                self.damaged[_file(missing)] = "it is missing"
            expected = number + 1
            try:
                part = self._folder.part(part_name(number), number)
                if part.start < latest and (part.start, part.end) != (latest, latest):
                    raise Damage(f"it covers {part.start} to {part.end}, but the one before it ends at {latest}")
            except FileNotFoundError:
                continue  # the recorder has dropped the part since the folder was listed
            except Damage as error:
                self.damaged[_file(number)] = str(error)
                continue
            latest = part.end
            yield part
        for missing in range(expected, min(self.document.parts or 0, expected + 1000)):
            self.damaged[_file(missing)] = "it is missing"

    def close(self) -> None:
        """Close the folder."""
        self._folder.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def closed(self) -> bool:
        """Whether it was closed properly. Otherwise it is still being written, or its recorder was killed."""
        return self.document.closed

    @property
    def window(self) -> Window:
        """The time for which everything is there, except what is damaged."""
        whole = self.document.ledger.window
        start = self.parts[0].start if self.parts and self.parts[0].number else whole.start
        end = whole.end if self.closed else max((part.end for part in self.parts), default=whole.start)
        return Window(min(start, end), end)

    @property
    def dropped_parts(self) -> int:
        """The number of parts at the beginning that were dropped during recording to stay within its limits."""
        return self.parts[0].number if self.parts else self.document.dropped_parts

    @property
    def rows(self) -> int:
        """The number of rows of ``transitions``."""
        return sum(part.rows for part in self.parts)

    @property
    def anchors(self) -> tuple[Anchor, ...]:
        """The clock anchors (time of day at instants of CLOCK_MONOTONIC), in the order of time."""
        found = {*self.document.anchors, *(part.anchor for part in self.parts if part.anchor is not None)}
        return tuple(sorted(found, key=lambda anchor: anchor.monotonic))

    def tables(self, table: str, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """Yield a table part by part, in the order of time, with all columns of the format or the given ones.

        A part that turns out to be damaged is skipped and added to `damaged`.
        """
        for _, found in self.by_part(table, columns):
            yield found

    def by_part(
        self, table: str, columns: Sequence[str] | None = None, parts: Sequence[TransitionsPart] | None = None
    ) -> Iterator[tuple[TransitionsPart, pa.Table]]:
        """Yield (part, table) like `tables`, for all parts or the given ones."""
        for part in self.parts if parts is None else parts:
            name = f"{table}/{part_name(part.number)}"
            if name in self.damaged:
                continue
            try:
                yield part, self._folder.table(table, part_name(part.number), part.number, columns)
            except FileNotFoundError:
                if table in part.beside or table == "transitions":
                    self.damaged[name] = "it is missing"
            except Damage as error:
                self.damaged[name] = str(error)

    def threads(self) -> dict[int, ThreadSeen]:
        """Return the threads by number, as last seen. Raises HeadwayError if there are more than 2,000,000."""
        found: dict[int, ThreadSeen] = {}
        for table in self.tables("threads"):
            if len(found) + table.num_rows > _MAX_THREADS:
                raise HeadwayError(
                    f"{str(self.path)!a} names more than {_MAX_THREADS:,} threads, more than a view can hold: "
                    "ask it with headway query"
                )
            found |= {row["thread"]: ThreadSeen(**row) for row in table.to_pylist()}
        return found

    def open_states(self) -> list[OpenState]:
        """Return the states that threads were in when the last part ended; empty if the recording is closed.

        A state noted before a damaged part may have ended in that part, so it is left out.
        """
        if self.closed or not self.parts or self.parts[-1].last:
            return []
        found: dict[int, OpenState] = {}
        following = self.parts[0].number
        for part in self.parts:
            try:
                table = self._folder.table("open", part_name(part.number), part.number)
            except FileNotFoundError:
                table = None
            except Damage as error:
                self.damaged[f"open/{part_name(part.number)}"] = str(error)
                table = None
            if part.number != following or (table is None and "open" in part.beside):
                found.clear()
            following = part.number + 1
            for row in [] if table is None else table.to_pylist():
                cpu = -1 if row["cpu"] is None else row["cpu"]
                found[row["thread"]] = OpenState(row["thread"], cpu, row["state"], row["since"])
        ended = {number for number, thread in self.threads().items() if thread.end is not None}
        until = self.window.end
        return [state for state in found.values() if state.thread not in ended and state.since <= until]

    def losses(self) -> dict[str, int]:
        """Return what could not be seen during recording, and the number of damaged files, by name of the loss."""
        found: dict[str, int] = dict(self.document.ledger.losses) if self.closed else {}
        for table in () if self.closed else self.tables("losses"):
            found.update((row["name"], row["count"]) for row in table.to_pylist())
        return {**found, **({"files_damaged": len(self.damaged)} if self.damaged else {})}


def _file(number: int) -> str:
    return f"transitions/{part_name(number)}"
