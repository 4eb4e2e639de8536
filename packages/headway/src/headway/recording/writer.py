"""Writing a recording while it runs: batches are collected into parts, and each part is written when it is due.

A thread of its own encodes and writes, so that the disk does not delay the reading of the source. When that thread is
two parts behind, `RecordingWriter.add` waits. The files of a part get their names when they are complete, and that of
``transitions`` is the last. So a reader sees only whole parts, at any moment and however recording ended.
"""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Mapping, Set
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from headway.errors import HeadwayError
from headway.exhaustion import start
from headway.model import Batch, Ledger, OpenState, Samples, ThreadSeen, Transitions

from .clock import Anchor, read_anchor
from .document import Document
from .format import ANCHOR, BESIDE, FROM, LAST, PART, ROWS, UNTIL, part_name
from .kept import KeptPart, KeptParts
from .parquet import encode
from .stacks import samples_table
from .tables import losses_table, open_table, processors_table, states_table, threads_table, transitions_table
from .target import Target

__all__ = ["ROWS_OF_A_PART", "SECONDS_OF_A_PART", "RecordingWriter"]

ROWS_OF_A_PART = 1 << 20
SECONDS_OF_A_PART = 2.0
"""A part is due after this many seconds, or when it is full. A reader of a growing recording is at most that far
behind.
"""
FIRST_SECONDS = 0.25
"""The first part is due after this many seconds, so that even a recorder that is killed at once leaves something."""
SLOWER = 15
"""A part in which nothing happens is due after this many times as long."""
BEHIND = 2
"""The number of parts that may wait to be written."""
LARGEST_ROW = 16
"""A safe estimate of the bytes of a row on disk. With a size limit, parts are made small enough by it."""
MAX_ANCHORS = 1000
_TABLES = ("transitions", "threads", "open", "losses")


@dataclass(slots=True)
class _Part:
    """What is collected for one part."""

    number: int
    start: int
    end: int
    begun: float
    """The time by `time.monotonic`."""
    rows: int = 0
    transitions: list[Transitions] = field(default_factory=list)
    threads: dict[int, ThreadSeen] = field(default_factory=dict)
    open: dict[int, OpenState] = field(default_factory=dict)
    losses: dict[str, int] = field(default_factory=dict)
    samples: list[Samples] = field(default_factory=list)
    ledger: Ledger | None = None
    """The source's own ledger, in the last part only."""
    tables: Mapping[str, pa.Table] = field(default_factory=dict)
    """More tables, in the last part only."""
    last: bool = False


@dataclass(frozen=True, slots=True)
class _Event:
    """What is to be kept of a ring in a recording of its own, once all parts before are written."""

    path: str
    words: str
    ledger: Ledger
    """What must be known to read the rows."""
    holds: int
    """How many holds it releases, of all that there were. Another may have been made since."""


class RecordingWriter:
    """The writer of one recording. It must not be used from several threads.

    Call `add` with batches in the order of time. Their arrays are kept until they are written and must not change. Call
    `close` with the ledger that the source itself kept. If the disk fills up or the recorder is killed before, what has
    been written can still be read.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        document: Document,
        *,
        rows: int = ROWS_OF_A_PART,
        seconds: float = SECONDS_OF_A_PART,
        most_bytes: int | None = None,
        longest: int | None = None,
        most_threads: int | None = None,
        stacks: bool = False,
    ) -> None:
        """Make the folder. Raises HeadwayError if that fails.

        A part is finished when it has ``rows`` rows or is ``seconds`` old. With ``most_bytes`` and ``longest`` (in time
        units) the oldest parts are dropped, so that the recording is not larger or longer. The parts that are left
        name ``most_threads`` threads at most then. ``stacks``: rows have the numbers of stacks.
        """
        if most_bytes is not None:
            rows = min(rows, max(most_bytes // (8 * LARGEST_ROW), 1))
        self._most_rows, self._seconds, self._stacks = rows, seconds, stacks
        self._kept = KeptParts(most_bytes, longest, most_threads)
        self._timed = document.ledger.time_unit == "ns"
        """Whether times are those of this machine's clock, which anchors tie to the time of day."""
        self._document = replace(document, anchors=(*document.anchors, *self._anchors()), limited=self._kept.limited)
        self._target = Target(path, self._document.text(), _TABLES)
        self._part: _Part | None = None
        self._parts = 0
        self._losses: dict[str, int] = {}
        self._queue: queue.Queue[_Part | _Event | None] = queue.Queue(BEHIND)
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None
        self._end = document.ledger.window.start
        self.rows = 0
        """The number of rows taken over, including those that wait to be written."""
        self.threads = 0
        """The number of threads seen."""
        self.losses: dict[str, int] = {}
        """What could not be seen, by name, according to the last batch."""
        self.until = document.ledger.window.start
        """The end of the last batch taken over."""

    @property
    def path(self) -> str:
        """The path of the recording."""
        return os.fspath(self._target.path)

    @property
    def bytes(self) -> int:
        """The size in bytes of the parts that are on the disk now."""
        return self._kept.size

    @property
    def rows_kept(self) -> int:
        """The number of rows of the parts that are on the disk now."""
        return self._kept.rows

    @property
    def dropped_parts(self) -> int:
        """The number of parts dropped so far to stay within the limits."""
        return self._kept.dropped

    @property
    def complete_from(self) -> int | None:
        """The time from which on everything is there; None: from the beginning."""
        return self._kept.start

    def begin(self, ledger: Ledger) -> None:
        """Write what is now known of the recording, without threads and processors. Raises HeadwayError."""
        self._document = replace(self._document, ledger=ledger)
        self.until = self._end = ledger.window.start
        self._write_document()

    def add(self, batch: Batch) -> None:
        """Take over a batch. Raises HeadwayError if the recording cannot be written."""
        self._check()
        part = self._part
        if part is None:
            part = self._part = _Part(self._parts, batch.start, batch.end, time.monotonic())
            self._parts += 1
        part.end = self.until = batch.end
        if len(batch.transitions):
            part.transitions.append(batch.transitions)
            part.rows += len(batch.transitions)
            self.rows += len(batch.transitions)
        if batch.samples is not None:
            part.samples.append(batch.samples)
        for thread in batch.threads:
            part.threads[thread.thread] = thread
            self.threads = max(self.threads, thread.thread + 1)
        for state in batch.open:
            part.open[state.thread] = state
        part.losses.update(batch.losses)
        self.losses.update(batch.losses)
        if part.rows >= self._most_rows or time.monotonic() - part.begun >= self._due(part):
            self._submit()

    def _due(self, part: _Part) -> float:
        """Return the seconds after which a part is due that is not full."""
        if not part.number:
            return min(FIRST_SECONDS, self._seconds)
        nothing = not (part.rows or part.threads or part.open)
        return self._seconds * (SLOWER if nothing else 1)

    def hold(self) -> None:
        """Drop no part because of its age from now on, until `keep`."""
        self._kept.holds += 1

    def keep(self, path: str | os.PathLike[str], event: str, ledger: Ledger) -> None:
        """Make a recording of its own of all parts until now. In this one old parts are dropped again from then on.

        ``event`` says in words why. ``ledger`` is as in `begin`. The recording is there a little later, or `add` and
        `close` raise what failed. Raises HeadwayError as `add`.
        """
        self._check()
        if self._part is not None:
            self._submit()
        self._start()
        self._queue.put(_Event(os.fspath(path), event, ledger, self._kept.holds))

    def close(self, ledger: Ledger, *, rows_only: bool = False, tables: Mapping[str, pa.Table] | None = None) -> None:
        """Write what is left, the ledger, and a document that says the recording is closed.

        Raises HeadwayError as `add`.

        ``ledger`` is the one that the source kept. Its window becomes the recording's. ``rows_only``: its threads and
        processors are not written, so that whoever reads the recording counts its rows. ``tables``: more tables, by
        their names in the format.
        """
        self._check()
        if self._part is None:
            self._part = _Part(self._parts, self.until, self.until, time.monotonic())
            self._parts += 1
        self._part.end = max(self._part.end, ledger.window.end)
        self._part.losses.update(ledger.losses)
        self._part.ledger = None if rows_only else ledger
        self._part.tables = tables or {}
        self._part.last = True
        self._submit()
        self._finish()
        self._check()
        self._document = replace(
            self._document,
            ledger=replace(ledger, threads=(), processors=()),
            closed=True,
            parts=self._parts,
            dropped_parts=self._kept.dropped,
            complete_from=self._kept.start,
            anchors=(*self._document.anchors[:MAX_ANCHORS], *self._anchors()),
        )
        self._write_document()

    def put(self, name: str, table: pa.Table) -> None:
        """Write a table that has only one part, beside those of the transitions. Raises HeadwayError as `add`."""
        start = self._document.ledger.window.start
        try:
            self._target.write_part(name, 0, encode(table, _about(KeptPart(0, start, start, {}), table)))
        except OSError as error:
            raise self._explained(error) from None

    def add_settings(self, settings: Mapping[str, Any]) -> None:
        """Add to the settings in the document, which is written by `close` at the latest."""
        self._document = replace(self._document, settings={**self._document.settings, **settings})

    def name_locks(self, names: Mapping[tuple[int, int], str]) -> None:
        """Set the names of locks in the document, by process and address; likewise."""
        self._document = replace(self._document, locks=dict(names))

    def amend(self, exit_status: int | None) -> None:
        """Record the exit status of the command, which may come long after the measurement has ended.

        Raises HeadwayError.
        """
        self._document = replace(self._document, exit_status=exit_status)
        self._write_document()

    def abandon(self) -> None:
        """Stop without closing. What has been written stays; a recording without any part is removed."""
        self._part = None
        self._finish()
        if not self._parts:
            self._target.remove()

    # ---- in the thread that writes ----

    def _work(self) -> None:
        while (part := self._queue.get()) is not None:
            if self._failure is None:
                try:
                    if isinstance(part, _Event):
                        self._keep(part)
                    else:
                        self._write(part)
                except BaseException as error:  # add and close raise it
                    self._failure = error

    def _write(self, part: _Part) -> None:
        table, short = transitions_table(part.transitions, stacks=self._stacks)
        part.transitions.clear()
        files = {} if part.ledger is None else self._ledger_files(part, part.ledger)
        losses = {**self._losses, **part.losses}
        here = KeptPart(part.number, part.start, part.end, {}, threads=part.threads, open=part.open, losses=losses)
        # Losses are repeated only when they have increased.
        fresh = here if losses != self._losses else replace(here, losses={})
        files.update(self._beside(fresh, all_tables=not part.number))
        more_tables = {**part.tables, **({"processor_samples": samples_table(part.samples)} if part.samples else {})}
        files.update({name: encode(one, _about(here, one)) for name, one in more_tables.items()})
        anchors = self._anchors()
        more = {BESIDE: ",".join(files)}
        for anchor in anchors:
            more[ANCHOR] = f"{anchor.monotonic} {anchor.realtime} {anchor.uncertainty}"
        if part.last:
            more[LAST] = "1"
        rows = encode(table, {**_about(here, table), **{name: text.encode() for name, text in more.items()}}, short)
        before = self._make_room(rows.size + sum(data.size for data in files.values()), part.end, len(part.threads))
        if before is not None:
            here = here.after(before)
            files.update(self._beside(here, all_tables=False))
        files["transitions"] = rows  # gets its name last
        written = []
        try:
            for name, data in files.items():
                self._target.write_part(name, part.number, data)
                written.append(name)
        except BaseException:
            for name in written:
                self._target.remove_part(name, part.number)
            raise
        sizes = {name: data.size for name, data in files.items()}
        self._kept.add(replace(here, sizes=sizes, rows=table.num_rows))
        self._losses, self._end = losses, part.end
        if len(self._document.anchors) < MAX_ANCHORS:
            self._document = replace(self._document, anchors=(*self._document.anchors, *anchors))

    def _keep(self, event: _Event) -> None:
        ledger = replace(event.ledger, window=self._document.ledger.window)
        document = replace(self._document, event=event.words, ledger=ledger)
        self._target.link(event.path, document.text(), self._kept.files)
        self._kept.released = event.holds

    def _beside(self, part: KeptPart, *, all_tables: bool) -> dict[str, pa.Buffer]:
        """Return the files of the tables beside the transitions that have news."""
        tables = {
            "threads": (threads_table(part.threads.values()), part.threads),
            "open": (open_table(part.open.values()), part.open),
            "losses": (losses_table(part.losses), part.losses),
        }
        return {
            name: encode(table, _about(part, table)) for name, (table, rows) in tables.items() if rows or all_tables
        }

    def _make_room(self, coming: int, until: int, threads: int) -> KeptPart | None:
        """Drop the oldest parts until there is room.

        Returns the last dropped part if no other part is left that could carry what was known of it, else None.
        """
        while self._kept.too_many(coming, until, threads):
            dropped, head = [], None
            while self._kept.too_many(coming, until, threads):
                first, head = self._kept.drop()
                dropped.append(first)
            if head is not None:
                files = self._beside(head, all_tables=False)
                for name, data in files.items():
                    self._target.write_part(name, head.number, data)
                self._kept.resized({name: data.size for name, data in files.items()})
            for part in dropped:
                for name in ("transitions", *part.sizes):
                    self._target.remove_part(name, part.number)
            if head is None:
                return dropped[-1]
        return None

    def _ledger_files(self, part: _Part, ledger: Ledger) -> dict[str, pa.Buffer]:
        """Return the files of the ledger that the source kept. Threads not named by batches go into the part."""
        known = {**self._threads_written({thread.key for thread in ledger.threads}), **part.threads}
        numbers = {(thread.tid, thread.birth): number for number, thread in known.items()}
        # numbers are never reused, because rows may name threads that have ended
        following = max(self.threads, *known, -1) + 1
        for thread in ledger.threads:
            number = numbers.get(thread.key)
            if number is None:
                number = numbers[thread.key] = following
                following += 1
            seen = ThreadSeen(
                number, thread.tid, thread.pid, thread.name, thread.birth, thread.start, thread.end, thread.cgroup
            )
            if known.get(number) != seen or self._kept.limited:  # the part that named it may yet be dropped
                known[number] = part.threads[number] = seen
        here = KeptPart(part.number, part.start, part.end, {})
        tables = {"states": states_table(ledger.threads, numbers), "processors": processors_table(ledger.processors)}
        return {name: encode(table, _about(here, table)) for name, table in tables.items()}

    def _threads_written(self, keys: Set[tuple[int, int]]) -> dict[int, ThreadSeen]:
        """Return those of these threads, by tid and birth, that are in the parts that are there."""
        folder = self._target.path / "threads"
        found: dict[int, ThreadSeen] = {}
        for number in range(self._kept.dropped, self._parts):
            path = folder / part_name(number)
            if path.exists():
                table = pq.ParquetFile(path, pre_buffer=False).read(use_threads=False)
                born = zip(*(table.column(name).to_numpy().tolist() for name in ("tid", "birth")), strict=True)
                places = [place for place, key in enumerate(born) if key in keys]
                for row in table.take(places).to_pylist() if places else []:
                    found[row["thread"]] = ThreadSeen(**row)
        return found

    # ---- between the two ----

    def _start(self) -> None:
        if self._thread is None:  # not earlier, because the process forks a command first
            thread = threading.Thread(target=self._work, name="headway-writer", daemon=True)
            start(thread)
            self._thread = thread

    def _submit(self) -> None:
        self._start()
        self._queue.put(self._part)
        self._part = None

    def _finish(self) -> None:
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join()
            self._thread = None

    def _check(self) -> None:
        if self._failure is not None:
            raise self._explained(self._failure) from None

    def _anchors(self) -> tuple[Anchor, ...]:
        """Return an anchor of now. The clock of the reference machine has none."""
        return (read_anchor(),) if self._timed else ()

    def _write_document(self) -> None:
        try:
            self._target.write_document(self._document.text())
        except OSError as error:
            raise self._explained(error) from None

    def _explained(self, error: BaseException) -> BaseException:
        if not isinstance(error, OSError):
            return error
        words = f"the recording {self.path!a} cannot be continued ({error.strerror or error}); "
        time = self._end - self._document.ledger.window.start
        if not time:
            return HeadwayError(f"{words}nothing of it can be read: make room, or give another place with -o")
        if not self._timed:
            return HeadwayError(f"{words}its first {time:,} cycles are there and can be read: make room")
        return HeadwayError(
            f"{words}its first {time / 1e9:.3f} s are there and can be read: make room, or limit it with --max-size"
        )


def _about(part: KeptPart, table: pa.Table) -> dict[bytes, bytes]:
    """Return the metadata that every file of a part has."""
    values = {PART: part.number, FROM: part.start, UNTIL: part.end, ROWS: table.num_rows}
    return {name: b"%d" % value for name, value in values.items()}
