"""A recording as a Perfetto trace: states of threads as slices, wake-ups as flows, progress as counters.

Every row of a thread with a duration is a slice of its track. The slice is named after the state, and its category is
the kind. Its annotations have the rest of the row: ``taken``, ``count`` if it is not 1, ``waker_tid``, ``waker_state``.
An amount without a place is an instant with its ``amount``. So slices, instants and annotations contain all of the
ledger: over a thread's slices of a state, sum(duration - taken) plus the instants' amounts is its time.

A thread that worked on tasks has a track of them below its own: a slice for each time that it worked on one, with the
task's id, or with those of its trace and span.

A processor's track has one slice for the time that it ran one thread, and slices by state for rows that belong to no
thread. Memory does not grow with the recording, because the rows are written batch by batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from headway.model import Batch, ThreadSeen, kind_of
from headway.model.task_slices import TaskSlice
from headway.views.course import CPUS, play
from headway.views.exported import Exported, Shown, labels

from ._events import NOTES, TransitionTracks
from .packets import MONOTONIC, REALTIME, PerfettoTrace, annotated
from .wire import text

__all__ = ["write"]

_ABOUT, _LOSSES, _PROCESSORS = 1, 2, 3
_FIRST_CPU = 1 << 32
"""The first number of processors' tracks. Small numbers take fewer bytes, so threads have those."""


def write(
    exported: Exported, batches: Iterable[Batch], stream: BinaryIO, shown: Shown = lambda rows: None
) -> list[str]:
    """Write the trace, and return notes for the user."""
    view = _View(exported, stream)
    notes = play(exported, batches, view, shown)
    view.flush()
    return notes


class _View:
    def __init__(self, exported: Exported, stream: BinaryIO) -> None:
        self._exported = exported
        in_ns = exported.time_unit == "ns"
        self._trace = PerfettoTrace(stream.write, clock=MONOTONIC if in_ns else None)
        self._events = self._trace.events
        for note in NOTES:
            self._trace.note(note)
        self._processes = labels(exported.threads)
        self._described: dict[int, int] = {}
        self._ids: set[tuple[int, int]] = set()
        self._lost: dict[str, int] = {}
        self._states: dict[str, tuple[int, int]] = {}
        self._next = _PROCESSORS
        self._task_tracks: dict[int, int] = {}
        self._thread_tracks = np.zeros(len(exported.threads), np.uint64)
        self._thread_names = np.zeros(len(exported.threads), np.uint32)
        self._cpu_tracks = np.zeros(CPUS, np.uint64)
        wakes, on_processor = self._trace.name("wakes"), self._trace.category("thread")
        self.sink = TransitionTracks(
            self._events, self._thread_tracks, self._thread_names, self._cpu_tracks, wakes, on_processor
        )
        self._say_about(in_ns)

    def _say_about(self, in_ns: bool) -> None:
        """Write what was recorded and, if it is known, the time of day."""
        trace, exported = self._trace, self._exported
        if in_ns:
            for monotonic, realtime in exported.anchors:
                trace.same_time({MONOTONIC: monotonic, REALTIME: realtime})
            if not exported.anchors:
                trace.same_time({MONOTONIC: exported.window.start})
        trace.track(_ABOUT, "headway", rank=0)
        facts = {**exported.facts, "host": exported.host, "time unit": exported.time_unit}
        notes = annotated((trace.note(name), value) for name, value in facts.items())
        number = trace.name("recording")
        self._events.instant(_ABOUT, exported.window.start, trace.category("recording"), number, notes)
        trace.track(_LOSSES, "losses", rank=1)

    def thread(self, place: int, thread: ThreadSeen) -> None:
        trace = self._trace
        process = self._described.get(thread.pid)
        if process is None:
            process = self._described[thread.pid] = self._new_track()
            name = self._processes[thread.pid]
            if thread.pid > 0:
                trace.process(process, thread.pid, name)
            else:  # in Perfetto, process 0 is the idle task
                trace.track(process, f"{name} {thread.pid}")
        track = self._new_track()
        ids = thread.pid, thread.tid
        if min(ids) > 0 and ids not in self._ids:
            trace.thread(track, *ids, thread.name)
        else:  # Perfetto would take a reused id for the same thread
            trace.track(track, f"{thread.name} {thread.tid}, another of this id", parent=process)
        self._ids.add(ids)
        self._thread_tracks[place] = track
        self._thread_names[place] = trace.name(f"{thread.name} {thread.tid}")

    def processor(self, cpu: int) -> None:
        if not self._cpu_tracks.any():
            self._trace.group(_PROCESSORS, "processors", rank=2)
        self._cpu_tracks[cpu] = _FIRST_CPU + cpu
        self._trace.track(_FIRST_CPU + cpu, f"cpu {cpu}", parent=_PROCESSORS, rank=cpu)

    def _new_track(self) -> int:
        self._next += 1
        return self._next

    def states(self, names: Sequence[str], used: NDArray[np.intp], wakers: NDArray[np.intp]) -> None:
        numbers, categories, words = (np.zeros(len(names), np.uint32) for _ in range(3))
        for place in used.tolist():
            state = names[place]
            if state not in self._states:
                self._states[state] = self._trace.name(state), self._trace.category(kind_of(state).value)
            numbers[place], categories[place] = self._states[state]
        for place in wakers.tolist():
            words[place] = self._trace.word(names[place])
        self.sink.states(numbers, categories, words)

    def task(self, slice: TaskSlice) -> None:
        track = self._task_tracks.get(slice.place)
        if track is None:
            track = self._task_tracks[slice.place] = self._new_track()
            self._trace.track(track, "tasks", parent=int(self._thread_tracks[slice.place]))
        name = self._trace.name_if_room(slice.title)
        more = b"" if name else text(23, slice.title)
        if slice.about:
            more += annotated((self._trace.note(note), said) for note, said in slice.about)
        self._events.begin(track, slice.begin, self._trace.category("task"), name, more)
        self._events.end(track, slice.end)

    def losses(self, losses: Mapping[str, int], time: int) -> None:
        for name, count in losses.items():
            before = self._lost.get(name, 0)
            if count > before:
                notes = [(self._trace.note("lost"), count - before), (self._trace.note("in all"), count)]
                number = self._trace.name(name.replace("_", " "))
                self._events.instant(_LOSSES, time, self._trace.category("loss"), number, annotated(notes))
            self._lost[name] = max(count, before)

    def progress(self, place: int, name: str, rates: Sequence[tuple[int, float]]) -> None:
        track = self._new_track()
        self._trace.counter(track, name, "%", int(self._thread_tracks[place]))
        for time, rate in rates:
            self._events.counter(track, time, rate)

    def flush(self) -> None:
        self._events.flush()
