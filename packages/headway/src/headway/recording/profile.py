"""Profiles in a recording: the tables ``samples``, ``stacks`` and ``frames`` beside the ledger's.

A row of ``samples`` in a state off the processor, or of stolen time, is a sum over the window: it has ``count``
occurrences with ``weight`` ns together, and ``time`` is the window's end. Every other row is one sample and stands for
``weight`` ns. ``stack`` is null if it is not known. ``stacks`` lists frames, innermost first.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headway.errors import HeadwayError
from headway.model import Batch, Collection, Ledger, Profile, SampleColumns, ThreadSeen, Transitions
from headway.text import valid

from .document import Document
from .format import SAMPLES, part_name
from .parts import Damage
from .reader import Recording
from .stack_profile import profile_of_stacks
from .stacks import collection_of, frames_table, has_stacks, sampling_settings, stacks_of, stacks_table
from .writer import RecordingWriter

__all__ = ["has_profile", "open_profile", "profile_settings", "write_profile"]

_NOTE = "profile"
"""Notes are stored among the ledger's reasons, under this word and a number."""


def profile_settings(period: int, collection: Collection | None = None) -> Mapping[str, Any]:
    """Return the settings of the document for a profile. ``period`` is ns of processor time between two samples."""
    return {"profile": sampling_settings(period, collection)}


def write_profile(writer: RecordingWriter, profile: Profile) -> None:
    """Write a profile into an empty recording and close it. Raises HeadwayError."""
    writer.add_settings(profile_settings(profile.period, profile.collection))
    writer.put("frames", frames_table(profile.frames))
    writer.put("stacks", stacks_table(profile.stacks, profile.frames))
    writer.put("samples", _samples_table(profile))
    ledger = profile.ledger
    start, end = ledger.window.start, ledger.window.end
    threads = [
        ThreadSeen(number, t.tid, t.pid, t.name, t.birth, t.start, t.end, t.cgroup)
        for number, t in enumerate(ledger.threads)
    ]
    writer.add(Batch(start, end, _no_transitions(), threads, (), {}))
    notes = {f"{_NOTE} {number}": note for number, note in enumerate(profile.notes)}
    writer.close(replace(ledger, reasons={**ledger.reasons, **notes}, losses={**ledger.losses, **profile.losses}))


def _no_transitions() -> Transitions:
    kinds = {"time": np.int64, "duration": np.int64, "cpu": np.int16, "state": np.uint16, "waker_state": np.uint16}
    names = ("time", "duration", "taken", "cpu", "thread", "state", "count", "waker", "waker_tid", "waker_state")
    columns: dict[str, Any] = {name: np.empty(0, kinds.get(name, np.int32)) for name in names}
    return Transitions(**columns, states=())


def _samples_table(profile: Profile) -> pa.Table:
    s = profile.samples
    words = pa.array([valid(name) for name in profile.states], pa.string())
    columns = {
        "time": pa.array(s.time),
        "thread": pa.array(s.thread, mask=s.thread < 0),
        "cpu": pa.array(s.cpu, mask=s.cpu < 0),
        "state": pa.DictionaryArray.from_arrays(pa.array(s.state), words),
        "weight": pa.array(s.weight),
        "count": pa.array(s.count),
        "stack": pa.array(s.stack, mask=s.stack < 0),
    }
    return pa.Table.from_arrays([columns[field.name] for field in SAMPLES], schema=SAMPLES)


def has_profile(path: str | os.PathLike[str]) -> bool:
    """Return whether a folder has a table of samples, without reading it."""
    return os.path.isfile(os.path.join(path, "samples", part_name(0)))


def open_profile(path: str | os.PathLike[str]) -> tuple[Profile, Document]:
    """Return the profile in a recording and the document; of a recording with stacks, the profile that it amounts to.

    The folder is not trusted. Raises HeadwayError.
    """
    where = ascii(os.fspath(path))
    with Recording(path) as recording:
        if has_stacks(recording):
            return profile_of_stacks(recording), recording.document
        if not has_profile(path):
            raise HeadwayError(
                f"there is no profile in {where}: make one with headway profile -o NAME.hw, and let it finish, "
                "or record with --stacks"
            )
        try:
            return _profile(recording), recording.document
        except Damage as error:
            raise HeadwayError(f"the profile in {where} is damaged: {error}: make a new one") from None


def _only(recording: Recording, name: str) -> pa.Table:
    """Return the only part of a table. Raises Damage."""
    found = next(recording.tables(name), None)
    if found is None:
        why = next((f"{file}: {why}" for file, why in recording.damaged.items()), f"its {name} are missing")
        raise Damage(why)
    return found


def _profile(recording: Recording) -> Profile:
    samples, stacks, frames = (_only(recording, name) for name in ("samples", "stacks", "frames"))
    lists, places = stacks_of(stacks, frames)
    ledger = recording.kept_ledger()
    if ledger is None:
        raise Damage(next((f"{file}: {why}" for file, why in recording.damaged.items()), "it was not finished"))
    columns, states = _columns(samples, _threads(recording, ledger))
    if len(columns) and columns.stack.max() >= len(lists):
        raise Damage("a sample refers to a stack that does not exist")
    settings = recording.document.settings.get("profile")
    period = settings.get("period") if isinstance(settings, dict) else None
    collection = settings.get("collection") if isinstance(settings, dict) else None
    notes = [reason for name, reason in ledger.reasons.items() if name.partition(" ")[0] == _NOTE]
    reasons = {name: reason for name, reason in ledger.reasons.items() if name.partition(" ")[0] != _NOTE}
    return Profile(
        ledger=replace(ledger, reasons=reasons, losses={}),
        samples=columns,
        states=states,
        stacks=lists,
        frames=places,
        period=period if isinstance(period, int) and 0 < period < 1 << 62 else 1,
        losses=recording.losses(),
        notes=tuple(notes),
        collection=None if collection is None else collection_of(collection),
    )


def _threads(recording: Recording, ledger: Ledger) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return the numbers of the threads in the recording, ascending, and their indices in the ledger.

    An index is -1 if the ledger has no such thread. The first number is -1, which stands for no thread.
    """
    places = {thread.key: place for place, thread in enumerate(ledger.threads)}
    seen = sorted(recording.threads().items())
    found = [-1, *(places.get((thread.tid, thread.birth), -1) for _, thread in seen)]
    return np.array([-1, *(number for number, _ in seen)], np.int32), np.array(found, np.int32)


def _columns(
    table: pa.Table, threads: tuple[NDArray[np.int32], NDArray[np.int32]]
) -> tuple[SampleColumns, tuple[str, ...]]:
    def numbers(name: str, kind: Any, none: int) -> Any:
        return table.column(name).fill_null(none).to_numpy().astype(kind)

    states = table.column("state").combine_chunks()
    if isinstance(states, pa.ChunkedArray):
        empty = pa.DictionaryArray.from_arrays(pa.array([], pa.int32()), pa.array([], pa.string()))
        states = states.chunk(0) if states.num_chunks else empty
    weight, thread = numbers("weight", np.int64, 0), numbers("thread", np.int32, -1)
    if len(weight) and float(weight.sum(dtype=np.float64)) >= 2.0**62:
        raise Damage("the times of its samples are too large")
    known, places = threads
    at = np.minimum(np.searchsorted(known, thread), len(known) - 1)
    if (known[at] != thread).any():
        raise Damage("a sample refers to a thread that does not exist")
    return SampleColumns(
        time=numbers("time", np.int64, 0),
        thread=places[at],
        cpu=numbers("cpu", np.int16, -1),
        state=states.indices.to_numpy(zero_copy_only=False).astype(np.int32),
        weight=weight,
        count=numbers("count", np.int64, 1),
        stack=numbers("stack", np.int32, -1),
    ), tuple(states.dictionary.to_pylist())
