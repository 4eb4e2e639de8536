"""A recording as trace events in JSON, which chrome://tracing, Perfetto and many other tools read.

It has the same slices as a Perfetto trace. Each thread has slices by state, with what the row says in ``args``. Amounts
without a place are instants, and wake-ups are flows. Processors are threads of a process 0, each with slices of the
threads that it ran. Tasks are asynchronous slices of their threads. Times are microseconds since the start of the
window, with nanosecond resolution. ``otherData`` has that start, and its clock.

Source: Trace Event Format (Google).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from headway.model import Batch, ThreadSeen, kind_of
from headway.model.task_slices import TaskSlice
from headway.text import valid

from ._trace_events import TraceEvents
from .course import play
from .exported import Exported, Shown, labels

__all__ = ["write"]

_PROCESSORS = 0
"""The process id that has the processors as its threads."""


def write(
    exported: Exported, batches: Iterable[Batch], stream: BinaryIO, shown: Shown = lambda rows: None
) -> list[str]:
    """Write the document, and return notes for the user."""
    stream.write(b'{"displayTimeUnit":"ns","traceEvents":[\n')
    view = _View(exported, stream)
    notes = play(exported, batches, view, shown)
    view.sink.flush()
    stream.write(f'\n],"otherData":{_json(_about(exported, view.lost))}}}\n'.encode())
    return notes


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def _about(exported: Exported, losses: Mapping[str, int]) -> dict[str, Any]:
    return {
        **{name: valid(value) if isinstance(value, str) else value for name, value in exported.facts.items()},
        "host": valid(exported.host),
        "time_unit": exported.time_unit,
        "start": exported.window.start,
        "anchors": [{"CLOCK_MONOTONIC": ours, "CLOCK_REALTIME": day} for ours, day in exported.anchors],
        "losses": {valid(name): count for name, count in losses.items()},
    }


class _View:
    def __init__(self, exported: Exported, stream: BinaryIO) -> None:
        self.sink = TraceEvents(stream.write, exported.window.start, len(exported.threads))
        self.lost: Mapping[str, int] = {}
        self._processes = labels(exported.threads)
        self._described: set[int] = set()
        self._names: dict[int, str] = {}
        self._start = exported.window.start
        self._tasks = 0

    def thread(self, place: int, thread: ThreadSeen) -> None:
        ids = f'"pid":{thread.pid},"tid":{thread.tid}'
        if thread.pid not in self._described:
            self._described.add(thread.pid)
            self._call("process_name", f'"pid":{thread.pid}', self._processes[thread.pid])
        self._call("thread_name", ids, thread.name)
        self.sink.threads[place] = ids.encode()
        name = self._names[place] = valid(f"{thread.name} {thread.tid}")
        self.sink.names[place] = f'"name":{_json(name)},"cat":"thread"'.encode()

    def processor(self, cpu: int) -> None:
        self._call("process_name", f'"pid":{_PROCESSORS}', "processors")
        self._call("thread_name", f'"pid":{_PROCESSORS},"tid":{cpu}', f"cpu {cpu}")

    def _call(self, what: str, whose: str, name: str) -> None:
        self.sink.event(f'{{"ph":"M",{whose},"name":"{what}","args":{{"name":{_json(valid(name))}}}}}'.encode())

    def states(self, names: Sequence[str], used: NDArray[np.intp], wakers: NDArray[np.intp]) -> None:
        words = [_json(valid(name)) for name in names]
        self.sink.states = [
            f'"name":{word},"cat":"{kind_of(name).value}"'.encode() for name, word in zip(names, words, strict=True)
        ]
        self.sink.words = [word.encode() for word in words]

    def task(self, slice: TaskSlice) -> None:
        self._tasks += 1
        ids = self.sink.threads[slice.place].decode()
        head = f'{ids},"cat":"task","id":{self._tasks},"name":{_json(valid(slice.title))}'
        more = f',"args":{json.dumps(dict(slice.about))}' if slice.about else ""
        self.sink.event(f'{{"ph":"b",{head},{self._at(slice.begin)}{more}}}'.encode())
        self.sink.event(f'{{"ph":"e",{head},{self._at(slice.end)}}}'.encode())

    def _at(self, time: int) -> str:
        passed = time - self._start
        return f'"ts":{passed // 1000}.{passed % 1000:03d}'

    def losses(self, losses: Mapping[str, int], time: int) -> None:
        self.lost = losses

    def progress(self, place: int, name: str, rates: Sequence[tuple[int, float]]) -> None:
        # Counters of a process are distinguished by name.
        head = f'{{"ph":"C",{self.sink.threads[place].decode()},"name":{_json(f"{name} {self._names[place]}")}'
        for time, rate in rates:
            self.sink.event(f'{head},{self._at(time)},"args":{{"%":{rate}}}}}'.encode())
