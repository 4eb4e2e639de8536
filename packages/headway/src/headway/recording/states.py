"""A recording without samples as a profile: the exact time of every state, and who ended the waits.

There are no stacks. In place of a stack, a row has the kind of the state and, for a wait that has ended, the thread
whose wake-up ended it. The weights of a thread's rows of a state add up to the state's time in the ledger.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from headway.model import (
    NO_STATE,
    Batch,
    Cell,
    Frame,
    Kind,
    Ledger,
    Profile,
    SampleColumns,
    Thread,
    ThreadSeen,
    Transitions,
    Window,
    kind_of,
)

__all__ = ["profile_of_states"]

_Key = tuple[int, str, str]


def profile_of_states(
    batches: Iterable[Batch], threads: Mapping[int, ThreadSeen], window: Window, frame: Ledger
) -> Profile:
    """Return the profile of these batches. ``frame`` is the recording's ledger without threads and processors.

    Rows of unknown threads are left out and counted as the loss ``threads_unnamed``.
    """
    sums: defaultdict[_Key, list[int]] = defaultdict(lambda: [0, 0])
    taken: defaultdict[int, int] = defaultdict(int)
    losses: Mapping[str, int] = {}
    for batch in batches:
        losses = batch.losses
        _add(batch.transitions, threads, sums, taken)
    _settle(sums, taken)
    unnamed = len({number for number, _, _ in sums} - threads.keys())
    found = {key: cell for key, cell in sums.items() if key[0] in threads and any(cell)}
    cells = _cells(found)
    known = tuple(_thread(threads[number], cells[number], window) for number in sorted(cells))
    ledger = replace(frame, source="recording", window=window, threads=known, processors=(), losses={})
    return _profile(found, sorted(cells), ledger, {**losses, **({"threads_unnamed": unnamed} if unnamed else {})})


def _add(
    rows: Transitions,
    threads: Mapping[int, ThreadSeen],
    sums: defaultdict[_Key, list[int]],
    taken: defaultdict[int, int],
) -> None:
    """Add the rows to ``sums``: (thread, state, waker) -> [time, count], and to ``taken``: thread -> time taken."""
    columns = ("thread", "state", "waker", "waker_tid", "waker_state")
    there = np.flatnonzero(rows.thread >= 0)
    keys = np.stack([getattr(rows, name)[there].astype(np.int64) for name in columns])
    if not len(there):
        return
    order = np.lexsort(keys)
    keys = keys[:, order]
    first = np.flatnonzero(np.any(np.diff(keys, prepend=-2) != 0, axis=0))
    figures = [
        np.add.reduceat(column[there][order], first).tolist()
        for column in (rows.duration - rows.taken, rows.count.astype(np.int64), rows.taken.astype(np.int64))
    ]
    for thread, state, waker, tid, word, time, count, part in zip(*keys[:, first].tolist(), *figures, strict=True):
        by = ""
        if waker >= 0:
            by = threads[waker].name if waker in threads else f"thread {waker}"
        elif tid:
            by = f"tid {tid}"
        elif word != NO_STATE:
            by = rows.states[word]
        cell = sums[thread, rows.states[state], by]
        cell[0] += time
        cell[1] += count
        taken[thread] += part


def _settle(sums: dict[_Key, list[int]], taken: Mapping[int, int]) -> None:
    """Charge the time taken to ``overhead``. Where rows were cut, raise negative times of states to zero."""
    for number, time in taken.items():
        sums.setdefault((number, "overhead", ""), [0, 0])[0] += time
    for (number, _, _), cell in list(sums.items()):
        if cell[0] < 0 and number in taken:
            sums[number, "overhead", ""][0] += cell[0]
            cell[0] = 0
    for number in taken:
        cell = sums[number, "overhead", ""]
        cell[0] = max(cell[0], 0)


def _cells(found: Mapping[_Key, Sequence[int]]) -> dict[int, dict[str, Cell]]:
    """Return thread -> state -> cell."""
    cells: defaultdict[int, dict[str, Cell]] = defaultdict(dict)
    for (thread, state, _), (time, count) in found.items():
        before = cells[thread].get(state, Cell())
        cells[thread][state] = Cell(before.time + time, (before.count or 0) + count)
    return dict(cells)


def _thread(seen: ThreadSeen, cells: Mapping[str, Cell], window: Window) -> Thread:
    end = seen.end if seen.end is not None and seen.end <= window.end else None
    until = window.end if end is None else end
    span = sum(cell.time for cell in cells.values())
    return Thread(seen.tid, seen.pid, seen.name, seen.birth, max(seen.start, window.start), end, until, span, cells)


def _profile(
    found: Mapping[_Key, Sequence[int]], numbers: Sequence[int], ledger: Ledger, losses: Mapping[str, int]
) -> Profile:
    place = {number: at for at, number in enumerate(numbers)}
    states: dict[str, int] = {}
    frames: dict[str, int] = {}
    stacks: dict[tuple[int, ...], int] = {}
    rows = []
    for (thread, state, by), (time, count) in found.items():
        kind = kind_of(state)
        names = [kind.value, *([f"woken by {by}"] if by and kind is Kind.WAIT else [])]
        stack = tuple(frames.setdefault(name, len(frames)) for name in reversed(names))
        rows.append(
            (
                ledger.window.end,
                place[thread],
                -1,
                states.setdefault(state, len(states)),
                time,
                count,
                stacks.setdefault(stack, len(stacks)),
            )
        )
    return Profile(
        ledger=ledger,
        samples=SampleColumns.of(rows),
        states=tuple(states),
        stacks=tuple(stacks),
        frames=tuple(Frame(name, None, None, None, None, "none") for name in frames),
        period=1,
        losses=losses,
        notes=("times of states, not samples: all of them, and exact",),
    )
