"""Recordings of runs on the machine: the rows that the compiled processor keeps, written to disk while it runs.

The format is that of ``headway record`` (headway/docs/recordings.md), with times in ticks of the machine.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from headway.model import NO_STATE, Batch, Ledger, OpenState, ThreadSeen, Transitions
from headway.recording.document import Document
from headway.recording.writer import RecordingWriter

from .ledger import RawCell, ledger_of, negative_times, process_of, thread_ids, thread_name

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ._processor import MachineProcessor
    from .config import Config

__all__ = ["HOST", "ROW", "ROWS_OF_A_BATCH", "TICKS_OF_A_BATCH", "RunRecorder", "describe", "recorder_to"]

ROW = np.dtype(
    [
        ("time", np.int64),
        ("duration", np.int64),
        ("taken", np.int64),
        ("thread", np.int32),
        ("count", np.int32),
        ("waker", np.int32),
        ("cpu", np.int16),
        ("state", np.uint8),
        ("waker_state", np.uint8),
    ]
)
"""A row as the compiled processor hands it over: `struct Row` in structures.pxd. A waker's state of 0 is none."""

HOST = "reference-machine"
"""The name of the host in a recording: what is recorded does not depend on the computer that simulates it."""
ROWS_OF_A_BATCH = 1 << 18
TICKS_OF_A_BATCH = 1 << 22
_STATES = 256
_LARGEST = (1 << 31) - 1


def describe(config: Config, names: Mapping[int, str], command: Sequence[str], program: str = "") -> Document:
    """Return the description of a recording that begins now.

    ``names`` has the name of every state, ``program`` is the digest of the program.
    """
    return Document(
        ledger=ledger_of((), (), until=0, names=names, losses={}),
        host=HOST,
        command=tuple(command),
        program=program,
        settings={"cores": config.cores, "threads": config.threads, "issue": config.issue},
    )


class RunRecorder:
    """Writes what a processor does. Call `take` from time to time while it runs, and then `close`."""

    def __init__(
        self,
        processor: MachineProcessor,
        writer: RecordingWriter,
        names: Mapping[int, str],
        *,
        rows: int = ROWS_OF_A_BATCH,
        ticks: int = TICKS_OF_A_BATCH,
    ) -> None:
        """``names`` has the name of every state. A batch has at least so many ``rows``, or ``ticks`` of the run."""
        self._most_rows, self._most_ticks = rows, ticks
        self._processor, self._writer = processor, writer
        self._names = tuple(names[number] for number in range(_STATES))
        self._threads: list[tuple[int, int, bool]] = []
        """Id, birth, and whether it stands for a hart, of all threads so far."""
        self._sent: dict[int, ThreadSeen] = {}
        self._open: dict[int, OpenState] = {}
        self._alive = 0
        """All threads with lower numbers have ended."""
        self._taken = 0
        processor.record()

    def take(self) -> None:
        """Hand a batch to the writer if there is enough for one. Raises HeadwayError if it cannot be written."""
        if self._processor.waiting >= self._most_rows or self._processor.now - self._taken >= self._most_ticks:
            self._add(self._rows(), last=False)

    def close(self, ledger: Ledger, exit_status: int | None) -> None:
        """Write what is left, and the ledger of the run. Raises HeadwayError if it cannot be written."""
        self._processor.end_record()
        self._add(np.concatenate([self._rows(), self._given_back()]), last=True)
        self._writer.close(ledger)
        self._writer.amend(exit_status)

    def abandon(self) -> None:
        """Stop. What was written stays and can be read. After `close` it does nothing."""
        self._writer.abandon()

    def _rows(self) -> NDArray[np.void]:
        return np.frombuffer(self._processor.recorded(), ROW)

    def _add(self, rows: NDArray[np.void], *, last: bool) -> None:
        now = self._processor.now
        threads, open_ = self._news(last=last)
        losses = self._processor.losses
        self._writer.add(Batch(self._taken, now, self._transitions(rows), threads, open_, losses))
        self._taken = now

    def _transitions(self, rows: NDArray[np.void]) -> Transitions:
        wakers = rows["waker_state"].astype(np.uint16)
        return Transitions(
            time=rows["time"],
            duration=rows["duration"],
            taken=rows["taken"].astype(np.int32),
            cpu=rows["cpu"],
            thread=rows["thread"],
            state=rows["state"].astype(np.uint16),
            count=rows["count"],
            waker=rows["waker"],
            waker_tid=np.zeros(len(rows), np.int32),
            waker_state=np.where(wakers == 0, NO_STATE, wakers).astype(np.uint16),
            states=self._names,
        )

    def _news(self, *, last: bool) -> tuple[list[ThreadSeen], list[OpenState]]:
        """Return the threads of which something is new, and those whose state is another than the last time.

        The ids of harts depend on those of all threads, so they are final when it is the ``last`` time.
        """
        first = 0 if last else self._alive
        found = self._processor.seen(first)
        self._threads += [(id, birth, hart) for id, _, birth, _, hart, _, _, _ in found[len(self._threads) - first :]]
        ids = thread_ids(self._threads)
        threads: list[ThreadSeen] = []
        open_: list[OpenState] = []
        for number, (_, name, birth, end, hart, cpu, state, since) in enumerate(found, first):
            called = thread_name(self._threads[number][0], name, hart)
            ended = None if end < 0 else end
            seen = ThreadSeen(number, ids[number], process_of(hart), called, birth, birth, ended)
            if self._sent.get(number) != seen:
                self._sent[number] = seen
                threads.append(seen)
            now = OpenState(number, cpu, self._names[state], since)
            if end < 0 and not last and self._open.get(number) != now:
                self._open[number] = now
                open_.append(now)
        while self._alive < len(self._threads) and self._sent[self._alive].end is not None:
            self._alive += 1
        return threads, open_

    def _given_back(self) -> NDArray[np.void]:
        """Return the rows that take back what of corrections exceeds the time of their states, as `ledger_of` does."""
        rows: list[tuple[int, ...]] = []
        now = self._processor.now
        for number, (_, _, _, end, _, cells) in enumerate(self._processor.threads()):
            rows += self._corrections(cells, now if end < 0 else end, thread=number)
        for number, cells in self._processor.processors():
            rows += self._corrections(cells, now, cpu=number)
        return np.array(rows, ROW)

    def _corrections(
        self, cells: Iterable[RawCell], at: int, *, thread: int = -1, cpu: int = -1
    ) -> Iterator[tuple[int, ...]]:
        """Yield the rows that make negative times of cells 0, at the expense of overhead, in the order of `ROW`."""
        overhead = self._names.index("overhead")
        for name, time in negative_times(cells, dict(enumerate(self._names))).items():
            for part in _parts(time):
                yield at, 0, part, thread, 0, -1, cpu, self._names.index(name), 0
                yield at, 0, -part, thread, 0, -1, cpu, overhead, 0


def _parts(time: int) -> Iterator[int]:
    """Divide a negative time into parts that a row can have."""
    while time:
        yield (part := max(time, -_LARGEST))
        time -= part


def recorder_to(
    path: str | os.PathLike[str],
    processor: MachineProcessor,
    config: Config,
    names: Mapping[int, str],
    command: Sequence[str],
    program: str,
) -> RunRecorder:
    """Make the folder of the recording, and return the recorder of a run that begins now. Raises HeadwayError."""
    return RunRecorder(processor, RecordingWriter(path, describe(config, names, command, program)), names)
