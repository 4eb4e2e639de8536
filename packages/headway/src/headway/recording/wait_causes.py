"""What is behind the waits of a recording: who ended them and, with stacks, where in the program that was."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from headway.errors import HeadwayError
from headway.model import NO_STATE, Batch, Behind, Kind, Ledger, ThreadSeen, kind_of, list_causes
from headway.model.cause import WOKEN_BY
from headway.model.places import place_of, words_of_place

from .parts import Damage
from .stacks import has_stacks, names_of

if TYPE_CHECKING:
    from headway.model.cause import CauseKey

    from .reader import Recording

__all__ = ["with_wait_causes"]

_Key = tuple[int, str, int, int, str, int, int]
"""Thread, state, waker, waker's tid, interrupt that woke it, stack, waker's stack."""
_COLUMNS = ("thread", "state", "waker", "waker_tid", "waker_state", "stack", "waker_stack")


def with_wait_causes(recording: Recording, ledger: Ledger) -> tuple[Ledger, str]:
    """Return the ledger with the causes of waits, and why places in the program are not among them; empty: they are.

    Raises HeadwayError if stacks are damaged.
    """
    sums: defaultdict[_Key, list[int]] = defaultdict(lambda: [0, 0])
    for batch in recording.batches():
        _add(batch, sums)
    places, problem = _places(recording)
    threads = recording.threads()
    causes: defaultdict[tuple[int, int], dict[CauseKey, tuple[int, int]]] = defaultdict(dict)
    for (thread, state, waker, tid, interrupt, stack, waker_stack), (time, count) in sums.items():
        seen = threads.get(thread)
        if seen is None:
            continue
        own = causes[seen.tid, seen.birth]
        for key in (
            _waker(state, waker, tid, interrupt, threads),
            _place(state, places.get(stack), waker_stack, places),
        ):
            if key is not None:
                before = own.get(key, (0, 0))
                own[key] = before[0] + time, before[1] + count
    found = tuple(
        replace(thread, causes=list_causes(causes[thread.key])) if thread.key in causes else thread
        for thread in ledger.threads
    )
    return replace(ledger, threads=found), problem


def _add(batch: Batch, sums: defaultdict[_Key, list[int]]) -> None:
    rows = batch.transitions
    waits = np.array([*(kind_of(name) is Kind.WAIT for name in rows.states), False], np.bool_)
    there = np.flatnonzero(waits[rows.state] & (rows.thread >= 0))
    if not len(there):
        return
    none = np.full(len(rows), -1, np.int32)
    columns = [getattr(rows, name) for name in _COLUMNS]
    keys = np.stack([(none if column is None else column)[there].astype(np.int64) for column in columns])
    order = np.lexsort(keys)
    keys = keys[:, order]
    first = np.flatnonzero(np.any(np.diff(keys, prepend=-2) != 0, axis=0))
    times = np.add.reduceat((rows.duration - rows.taken)[there][order], first).tolist()
    counts = np.add.reduceat(rows.count[there][order].astype(np.int64), first).tolist()
    for (thread, state, waker, tid, word, *stacks), time, count in zip(
        keys[:, first].T.tolist(), times, counts, strict=True
    ):
        interrupt = "" if word == NO_STATE else rows.states[word]
        cell = sums[thread, rows.states[state], waker, tid, interrupt, stacks[0], stacks[1]]
        cell[0] += time
        cell[1] += count


def _places(recording: Recording) -> tuple[Mapping[int, str], str]:
    """Return the places of stacks in words, by number, and why there are none."""
    if not has_stacks(recording):
        return {}, "where in the program it waited was not recorded: headway record --stacks does"
    if not recording.closed:
        return {}, "where in the program it waited has no names: the recording was not closed"
    try:
        stacks, frames = names_of(recording)
    except Damage as error:
        raise HeadwayError(f"the stacks of {str(recording.path)!a} cannot be used: {error}") from None
    found = {}
    for number, stack in enumerate(stacks):
        of_stack = [frames[frame] for frame in stack]
        place = place_of(of_stack)
        if place is not None:
            found[number] = words_of_place(of_stack[place])
    return found, ""


def _waker(state: str, waker: int, tid: int, interrupt: str, threads: Mapping[int, ThreadSeen]) -> CauseKey | None:
    if interrupt:
        return state, Behind.WAKER, interrupt, None
    if waker in threads:
        return state, Behind.WAKER, threads[waker].name, threads[waker].tid
    return (state, Behind.WAKER, "", tid) if tid else None


def _place(state: str, place: str | None, waker_stack: int, places: Mapping[int, str]) -> CauseKey | None:
    if place is None:
        return None
    waker = places.get(waker_stack)
    return state, Behind.PLACE, place if waker is None else f"{place}{WOKEN_BY}{waker}", None
