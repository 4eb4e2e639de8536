"""The flight recorder: it keeps the last seconds, and for each event what was before it, in a recording of its own.

An event lasts as long as the source has something deep: a thread, process or cgroup for which a condition holds. While
it lasts nothing is dropped because of its age. When it is over, all that is there becomes a recording of its own.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Set
from dataclasses import replace
from itertools import count
from typing import Protocol

from headway.errors import HeadwayError
from headway.linux.sources.source import RecordingSource
from headway.model import Ledger, Overhead, Window
from headway.recording.writer import RecordingWriter

from .recorder import TAKE_ROWS, Recorder

__all__ = ["FlightRecorder", "event_paths"]

FORGET_SECONDS = 10.0
"""How often threads that have ended are forgotten: a flight recorder may run for ever."""
_NAMED = 5
"""Threads, processes and cgroups that an event names."""


class _DeepSource(RecordingSource, Protocol):
    """A source that measures some threads at a higher level while a condition holds."""

    @property
    def deep(self) -> Set[object]:
        """Those threads, processes and cgroups now. Each has a name in words (`str`)."""


def event_paths(path: str) -> Iterator[str]:
    """Yield the paths of the events of a flight recorder that writes to this one, those that are free."""
    stem, suffix = os.path.splitext(path)
    stem, suffix = (stem, suffix) if suffix == ".hw" else (path, "")
    for number in count(1):
        name = f"{stem}-{number}{suffix}"
        if not os.path.lexists(name):
            yield name


class FlightRecorder(Recorder):
    """A recorder whose writer keeps the newest part only, and which keeps events (`events`).

    The ledger that the source kept is not recorded: it is of a longer time than the rows.
    """

    _source: _DeepSource

    def __init__(
        self,
        source: _DeepSource,
        writer: RecordingWriter,
        shown: Callable[[], None] = lambda: None,
        told: Callable[[str], None] = lambda text: None,
        *,
        take_rows: int = TAKE_ROWS,
    ) -> None:
        """``told`` is called with a sentence when an event begins and when it is over."""
        super().__init__(source, writer, shown, take_rows=take_rows)
        self.events: list[str] = []
        """The paths of the recordings of events."""
        self._told = told
        self._paths = event_paths(writer.path)
        self._began: float | None = None
        self._of: dict[str, None] = {}

    def begin(self) -> None:
        """Start measuring and recording. Raises HeadwayError as the source does."""
        super().begin()
        self._start = self._writer.until
        self._forgot = time.monotonic()

    def service(self) -> float | None:
        """Let the source do its work, record what it has when that is due, and see to events."""
        pause = super().service()
        now, deep = time.monotonic(), self._source.deep
        if deep:
            self._of.update(dict.fromkeys(sorted(map(str, deep))))
        if deep and self._began is None:
            self._began = now
            self._writer.hold()
            self._told(f"event {len(self.events) + 1}: calls are seen of {self._names()} from now on")
        elif not deep and self._began is not None:
            self._record()
            self._end_event()
        if now - self._forgot >= FORGET_SECONDS:
            self._forgot = now
            self._source.interval()
        return pause

    def end(self) -> Ledger:
        """Stop measuring, and close the recording. Return a ledger without threads and processors."""
        if (
            self._began is not None
        ):  # before the source ends: then its last rows end all states, and this is no end of them
            self._record()
            self._end_event()
        ledger = self._source.end_interval()
        self._record()
        ledger = replace(
            ledger,
            window=Window(self._start, ledger.window.end),
            threads=(),
            processors=(),
            losses={**ledger.losses, **self._writer.losses},
            overhead=Overhead(),
        )
        if not self.error:
            try:
                self._writer.close(ledger, rows_only=True)
            except HeadwayError as error:
                self.error = str(error)
        return ledger

    def end_interval(self) -> Ledger:
        """Stop measuring, and close the recording: as `end`."""
        return self.end()

    def _end_event(self) -> None:
        assert self._began is not None
        seconds, names = time.monotonic() - self._began, self._names()
        self._began = None
        self._of.clear()
        if self.error:
            return
        path = next(self._paths)
        try:
            self._writer.keep(
                path,
                f"kept by the flight recorder: calls were seen of {names}, in the last {seconds:.1f} s of it",
                self._source.empty_ledger(),
            )
        except HeadwayError as error:
            self.error = str(error)
            return
        self.events.append(path)
        self._told(f"event {len(self.events)} is over after {seconds:.1f} s: {ascii(path)[1:-1]} has it")

    def _names(self) -> str:
        names = list(self._of)
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        return ", ".join(names[:_NAMED]) + more
