"""Stacks in a recording: the tables ``stacks`` and ``frames``, and the samples of processor time that have some.

A recording whose settings say ``stacks`` has the numbers of stacks in its rows of waits. The names come when measuring
has ended, with the last part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from headway.errors import HeadwayError
from headway.model import Collection, Frame, Samples
from headway.model.places import place_of
from headway.text import valid
from headway.values import WrongValueError, integer, shown, table, text

from .format import FRAMES, SAMPLES, STACKS
from .parts import Damage
from .tables import columns_table

if TYPE_CHECKING:
    from .contents import Contents

__all__ = [
    "SETTING",
    "collection_of",
    "frames_table",
    "has_stacks",
    "names_of",
    "samples_table",
    "sampling_settings",
    "stack_settings",
    "stacks_table",
]

SETTING = "stacks"
"""The setting of a document that says that there are stacks."""
_POLICIES = frozenset({"cpu-time", "watermark", "fixed"})
_KINDS = frozenset({"user", "kernel", "python", "none"})


def sampling_settings(period: int, collection: Collection | None = None) -> Mapping[str, Any]:
    """Return how samples were taken, for a document. ``period``: ns of processor time between two."""
    return {"period": period, **({} if collection is None else {"collection": asdict(collection)})}


def stack_settings(period: int, collection: Collection | None = None) -> Mapping[str, Any]:
    """Return the settings of the document of a recording that has stacks."""
    return {SETTING: sampling_settings(period, collection)}


def collection_of(found: object) -> Collection:
    """Return how samples were collected, as a document says it. Raises Damage."""
    try:
        values = table(found, "the collection")
        policy = text(values, "policy", 20)
        if policy not in _POLICIES:
            raise WrongValueError(f"policy is {shown(policy)}")
        numbers = {f.name: integer(values, f.name, f.name == "capacity") for f in fields(Collection)[1:]}
    except WrongValueError as error:
        raise Damage(str(error)) from None
    return Collection(policy, **numbers)


def frames_table(frames: Sequence[Frame]) -> pa.Table:
    """Return the table ``frames``."""

    def name(word: str | None) -> str | None:
        return None if word is None else valid(word)

    columns: list[list[Any]] = [
        list(range(len(frames))),
        [name(frame.function) for frame in frames],
        [name(frame.file) for frame in frames],
        [frame.line for frame in frames],
        [name(frame.module) for frame in frames],
        [frame.address for frame in frames],
        [frame.kind for frame in frames],
    ]
    return columns_table(columns, FRAMES)


def stacks_table(stacks: Sequence[tuple[int, ...]], frames: Sequence[Frame]) -> pa.Table:
    """Return the table ``stacks``: for each the numbers of its frames, and which of them is its place."""
    places = [place_of([frames[number] for number in stack]) for stack in stacks]
    place = [None if at is None else stack[at] for stack, at in zip(stacks, places, strict=True)]
    return columns_table([list(range(len(stacks))), [list(stack) for stack in stacks], place], STACKS)


def samples_table(batches: Sequence[Samples]) -> pa.Table:
    """Return samples of processor time as the table ``processor_samples``."""
    names: dict[str, int] = {}
    states = [np.empty(0, np.int32)]
    for batch in batches:
        numbers = np.array([names.setdefault(name, len(names)) for name in batch.states], np.int32)
        states.append(numbers[batch.state])

    def column(name: str, kind: Any, *, nullable: bool = False) -> pa.Array:
        whole = np.concatenate([np.empty(0, kind), *(getattr(batch, name) for batch in batches)])
        return pa.array(whole, mask=whole < 0) if nullable else pa.array(whole)

    words = pa.array([valid(name) for name in names], pa.string())
    columns = {
        "time": column("time", np.int64),
        "thread": column("thread", np.int32, nullable=True),
        "cpu": column("cpu", np.int16, nullable=True),
        "state": pa.DictionaryArray.from_arrays(pa.array(np.concatenate(states)), words),
        "weight": column("weight", np.int64),
        "count": pa.array(np.ones(sum(map(len, batches)), np.int64)),
        "stack": column("stack", np.int32, nullable=True),
    }
    return pa.Table.from_arrays([columns[field.name] for field in SAMPLES], schema=SAMPLES)


def has_stacks(recording: Contents) -> bool:
    """Return whether the rows of a recording have stacks."""
    return SETTING in recording.document.settings


def names_of(recording: Contents) -> tuple[tuple[tuple[int, ...], ...], tuple[Frame, ...]]:
    """Return the stacks by number, as numbers of frames, and the frames. The folder is not trusted.

    Raises HeadwayError if they are not there; Damage if they cannot be used.
    """
    where = ascii(str(recording.path))
    if not has_stacks(recording):
        raise HeadwayError(f"{where} has no stacks: record them with headway record --stacks")
    found = [list(recording.tables(name)) for name in ("stacks", "frames")]
    if not all(found):
        why = "it was not closed, and they come last" if not recording.closed else "their files are missing or damaged"
        raise HeadwayError(f"the stacks of {where} have no names: {why}")
    return stacks_of(*(pa.concat_tables(tables) for tables in found))


def stacks_of(stacks: pa.Table, frames: pa.Table) -> tuple[tuple[tuple[int, ...], ...], tuple[Frame, ...]]:
    """Return what two tables say, as `names_of` does. Raises Damage."""
    places = [
        Frame(row["function"], row["file"], row["line"], row["module"], row["address"], _kind(row["kind"]))
        for row in _in_order(frames, "frame")
    ]
    lists = [tuple(row["frames"]) for row in _in_order(stacks, "stack")]
    if any(not 0 <= number < len(places) for stack in lists for number in stack):
        raise Damage("a stack refers to a frame that does not exist")
    return tuple(lists), tuple(places)


def _in_order(table: pa.Table, number: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = table.to_pylist()
    if any(row[number] != i for i, row in enumerate(rows)):
        raise Damage(f"its rows of {number}s are not in order")
    return rows


def _kind(word: str) -> str:
    if word not in _KINDS:
        raise Damage(f"a frame is of the unknown kind {word!a}")
    return word
