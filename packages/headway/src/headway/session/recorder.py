"""Recording: the transitions of a source are written to disk while it measures."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from headway.errors import HeadwayError
from headway.linux.options import Selection
from headway.linux.sources.source import RecordingSource, SourceAround
from headway.model import Ledger, Window
from headway.recording.clock import boot
from headway.recording.document import Document
from headway.recording.stacks import frames_table, stack_settings, stacks_table
from headway.recording.writer import RecordingWriter

from .lock_names import LockNames
from .measure import Observation, observe

if TYPE_CHECKING:
    from headway.linux.sources.profiler.recorded import StackSource

__all__ = ["Recorder", "StackRecorder", "describe", "record"]

TAKE_SECONDS = 0.25
"""Seconds between two batches, at most."""
TAKE_ROWS = 1 << 18
"""A batch is taken as soon as it has this many rows, where nobody says how many."""


class Recorder(SourceAround):
    """A source (`LinuxSource`) that records what another one hands over.

    A write error ends the recording, not the command: ``error`` says what failed, and nothing more is recorded.
    """

    _source: RecordingSource

    def __init__(
        self,
        source: RecordingSource,
        writer: RecordingWriter,
        shown: Callable[[], None] = lambda: None,
        *,
        take_rows: int = TAKE_ROWS,
    ) -> None:
        """``shown`` is called now and then while recording. A batch is taken when it has ``take_rows`` rows."""
        super().__init__(source)
        self._take_rows = take_rows
        self.error = ""
        """Why the recording could not be written; empty if it was."""
        self._writer, self._shown = writer, shown
        self._next = 0.0
        self._lock_names = LockNames()

    def begin(self) -> None:
        """Start measuring and recording. Raises HeadwayError as the source does."""
        self._source.begin()
        self._writer.begin(self._source.empty_ledger())
        self._next = time.monotonic() + TAKE_SECONDS

    def service(self) -> float | None:
        """Let the source do its work, and record what it has when that is due."""
        pause = self._source.service()
        now = time.monotonic()
        if now >= self._next or self._source.waiting >= self._take_rows:
            self._next = now + TAKE_SECONDS
            self._record()
            self._shown()
        rest = max(self._next - now, 0.0)
        return rest if pause is None else min(pause, rest)

    def end(self) -> Ledger:
        """Stop measuring, and close the recording."""
        return self._finish(self._source.end())

    def end_interval(self) -> Ledger:
        """Stop measuring, and close the recording. Return the ledger of the last interval."""
        return self._finish(self._source.end_interval())

    def _close(self, ledger: Ledger) -> None:
        """Close the recording. Raises HeadwayError."""
        self._writer.close(ledger)

    def close(self) -> None:
        """Detach everything. An empty recording is removed."""
        super().close()
        self._writer.abandon()

    def _finish(self, ledger: Ledger) -> Ledger:
        self._record()
        if not self.error:
            try:
                self._close(ledger)
            except HeadwayError as error:
                self.error = str(error)
        return ledger

    def _record(self) -> None:
        batch = self._source.take()
        if self.error:
            return
        if self._lock_names.look(batch):
            self._writer.name_locks(self._lock_names.found)
        try:
            self._writer.add(batch)
        except HeadwayError as error:
            self.error = str(error)


class StackRecorder(Recorder):
    """A recorder of transitions with stacks. When it ends, it finds the names of these."""

    _source: StackSource

    def _close(self, ledger: Ledger) -> None:
        found = self._source.stacks()
        notes = {f"stacks {number}": note for number, note in enumerate(found.notes)}
        self._writer.add_settings(stack_settings(found.period, found.collection))
        self._writer.close(
            replace(ledger, reasons={**ledger.reasons, **notes}, losses={**ledger.losses, **found.losses}),
            tables={"frames": frames_table(found.frames), "stacks": stacks_table(found.stacks, found.frames)},
        )


def record(
    make: Callable[[Selection], RecordingSource],
    writer: RecordingWriter,
    selection: Selection,
    command: Sequence[str] = (),
    *,
    seconds: float | None = None,
    shown: Callable[[], None] = lambda: None,
    failed: Callable[[str], None] = lambda why: None,
    recorder: Callable[[Any, RecordingWriter, Callable[[], None]], Recorder] = Recorder,
) -> tuple[Observation, str]:
    """Measure as `observe` does, with the source that ``make`` gives, and record; why that failed, empty if it did not.

    ``failed`` is told so at once. ``recorder`` makes a recorder of source, writer and ``shown``. Raises HeadwayError
    where measuring or the command cannot be started; nothing is left of the recording then.
    """
    recorders: list[Recorder] = []

    def start(chosen: Selection) -> Recorder:
        made = recorder(make(chosen), writer, shown)
        recorders.append(made)
        try:
            made.begin()
        except BaseException:
            made.close()
            raise
        return made

    said = ""

    def enough() -> bool:
        nonlocal said
        error = recorders[0].error
        if error and not said:
            failed(error)
            said = error
        return bool(error)

    try:
        observation = observe(selection, command, seconds=seconds, start=start, enough=enough)
        enough()
        if not said and observation.exit_status is not None:
            try:
                writer.amend(observation.exit_status)
            except HeadwayError as error:
                recorders[0].error = str(error)
                enough()
    finally:
        writer.abandon()
    return observation, said


def describe(selection: Selection, command: Sequence[str]) -> Document:
    """Return the description of a recording that begins now, as far as it is known before measuring."""
    system, now = os.uname(), time.monotonic_ns()
    return Document(
        ledger=Ledger("bpf", Window(now, now)),
        host=system.nodename,
        boot=boot(),
        command=tuple(command) or None,
        settings={
            "kernel": system.release,
            "machine": system.machine,
            "processors": os.cpu_count(),
            "pids": list(selection.pids),
            "tids": list(selection.tids),
            "everything": selection.everything,
        },
    )
