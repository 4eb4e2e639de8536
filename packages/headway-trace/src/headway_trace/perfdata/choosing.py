"""What all traces of perf.data have alike for a reader: their threads by ID, and what was left out, in one line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from headway.errors import SelectionError

__all__ = ["chosen_threads", "left_out_in_words"]

_NOTED = 12
"""So many notes are in the line, at most."""
_LISTED = 20
"""So many threads are named, at most."""

_Stream = TypeVar("_Stream")


def chosen_threads(streams: Mapping[int, _Stream], ids: Iterable[int], path: str) -> list[_Stream]:
    """Return the streams with these IDs, or all if there are none. Raises SelectionError for an unknown ID."""
    wanted = list(ids)
    for number in wanted:
        if number not in streams:
            have = ", ".join(map(str, list(streams)[:_LISTED]))
            raise SelectionError(f"there is no thread {number} in {path!a}: there are {have or 'none'}")
    return [stream for number, stream in sorted(streams.items()) if not wanted or number in wanted]


def left_out_in_words(notes: Sequence[str]) -> str:
    """Return what is missing or was left out, in one line; empty: nothing."""
    more = f", and {len(notes) - _NOTED} more" if len(notes) > _NOTED else ""
    return f"left out: {', '.join(notes[:_NOTED])}{more}" if notes else ""
