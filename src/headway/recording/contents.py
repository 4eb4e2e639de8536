"""What is in a recording: one that is whole, one that still grows, one whose recorder was killed, one from anywhere."""

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
from .parts import Damage, Folder, Part

__all__ = ["Contents"]

_MAX_THREADS = 2_000_000
"""A kilobyte each while they are read."""


class Contents:
    """A recording on disk, as it was when it was opened: parts that are written later are not in it.

    A context manager; otherwise to be closed. All times are in `Document.ledger`'s time unit: nanoseconds of
    CLOCK_MONOTONIC on Linux, cycles on the reference machine. What is damaged is left out, and is in `damaged`.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Open it. Raises HeadwayError where it is not a recording, or one of a later version."""
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
            """Files that are missing or cannot be used, and why; nothing of them is in any answer."""
            self.parts: tuple[Part, ...] = tuple(self._find_parts())
            """Its complete parts, in the order of time."""
        except BaseException:
            self._folder.close()
            raise

    def _read_document(self, words: str) -> Document:
        try:
            data = self._folder.read(DOCUMENT, MAX_BYTES)
        except FileNotFoundError:
            raise HeadwayError(
                f"{words} is no recording, it has no {DOCUMENT}: give a folder that headway record has made"
            ) from None
        except Damage as error:
            raise HeadwayError(
                f"{DOCUMENT} in {words} cannot be used, {error}: give a folder that headway record has made"
            ) from None
        return parse(data, self.path)

    def _find_parts(self) -> Iterator[Part]:
        numbers = self._folder.numbers("transitions")
        expected = self.document.dropped_parts
        if numbers and self.document.limited and not self.closed:
            expected = numbers[0]  # what it has dropped by now it says when it is closed
        latest = self.document.ledger.window.start
        for number in numbers:
            for missing in range(expected, min(number, expected + 1000)):
                self.damaged[_file(missing)] = "it is missing"
            expected = number + 1
            try:
                part = self._folder.part(part_name(number), number)
                if part.start < latest and (part.start, part.end) != (latest, latest):
                    raise Damage(f"it is of {part.start} to {part.end}, and the one before it reaches until {latest}")
            except FileNotFoundError:
                continue  # dropped since, by who records on
            except Damage as error:
                self.damaged[_file(number)] = str(error)
                continue
            latest = part.end
            yield part
        for missing in range(expected, min(self.document.parts or 0, expected + 1000)):
            self.damaged[_file(missing)] = "it is missing"

    def close(self) -> None:
        """Let go of it."""
        self._folder.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def closed(self) -> bool:
        """Whether it was ended as it should; otherwise it still grows, or its recorder was killed."""
        return self.document.closed

    @property
    def window(self) -> Window:
        """The time of which everything is there (but for what is damaged)."""
        whole = self.document.ledger.window
        start = self.parts[0].start if self.parts and self.parts[0].number else whole.start
        end = whole.end if self.closed else max((part.end for part in self.parts), default=whole.start)
        return Window(min(start, end), end)

    @property
    def dropped_parts(self) -> int:
        """So many of the first parts were dropped while it was recorded, to keep it within its limits."""
        return self.parts[0].number if self.parts else self.document.dropped_parts

    @property
    def rows(self) -> int:
        """Rows of ``transitions``."""
        return sum(part.rows for part in self.parts)

    @property
    def anchors(self) -> tuple[Anchor, ...]:
        """What time of day it was at several instants of the clock of all times, in the order of time."""
        found = {*self.document.anchors, *(part.anchor for part in self.parts if part.anchor is not None)}
        return tuple(sorted(found, key=lambda anchor: anchor.monotonic))

    def tables(self, table: str, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """A table part by part, in the order of time, with the format's columns, or some of them.

        A part that turns out to be damaged is passed over, and added to `damaged`.
        """
        for _, found in self.by_part(table, columns):
            yield found

    def by_part(
        self, table: str, columns: Sequence[str] | None = None, parts: Sequence[Part] | None = None
    ) -> Iterator[tuple[Part, pa.Table]]:
        """The same with the part that each is; of all parts, or only of these."""
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
        """Its threads by number, as they were last seen. Raises HeadwayError where they are too many to hold."""
        found: dict[int, ThreadSeen] = {}
        for table in self.tables("threads"):
            if len(found) + table.num_rows > _MAX_THREADS:
                raise HeadwayError(
                    f"{str(self.path)!a} names more than {_MAX_THREADS:,} threads, which no view holds: "
                    "ask it with headway query"
                )
            found |= {row["thread"]: ThreadSeen(**row) for row in table.to_pylist()}
        return found

    def open_states(self) -> list[OpenState]:
        """What threads were in the midst of when the last part ended; empty if the recording is closed.

        What was so before a part that is damaged is not known to be still so, and is left out.
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
        """What could not be seen while it was recorded, and what of it is damaged, by name."""
        found: dict[str, int] = dict(self.document.ledger.losses) if self.closed else {}
        for table in () if self.closed else self.tables("losses"):
            found.update((row["name"], row["count"]) for row in table.to_pylist())
        return {**found, **({"files_damaged": len(self.damaged)} if self.damaged else {})}


def _file(number: int) -> str:
    return f"transitions/{part_name(number)}"
