"""A recording with stacks as a profile: samples of processor time, and the exact time of waits by stack.

The rows of waits are added up by thread, state and stack. Those whose stack is not known are a sum of their own, so the
times of a state add up to the ledger's.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from headway.errors import HeadwayError
from headway.model import Batch, Kind, Ledger, Profile, SampleColumns, Window, is_exact, kind_of

from .ledger import of_times
from .parts import Damage
from .stacks import SETTING, collection_of, names_of
from .states import profile_of_states

if TYPE_CHECKING:
    from .batches import Chosen
    from .reader import Recording

__all__ = ["profile_of_stacks"]

_Row = tuple[int, int, int, int, int, int, int]


def profile_of_stacks(
    recording: Recording, chosen: Chosen | None = None, *, wakers: bool = False, ledger: Ledger | None = None
) -> Profile:
    """Return the profile of a recording with stacks, of all rows or those ``chosen``.

    ``wakers``: each wait has the stack of its waker instead of the thread's own, and nothing else has a row.
    ``ledger``: that of the recording, whose threads the profile is to have; None: as the recording has it. Raises
    HeadwayError if there are no stacks in it, or they are damaged.
    """
    try:
        stacks, frames = names_of(recording)
        if ledger is None or chosen is not None:
            ledger = _ledger(recording, chosen)
        places = {thread.key: place for place, thread in enumerate(ledger.threads)}
        threads = {number: places.get((seen.tid, seen.birth), -1) for number, seen in recording.threads().items()}
        states: dict[str, int] = {}
        rows = _waits(recording, chosen, threads, states, ledger.window, wakers=wakers)
        if not wakers:
            rows += _samples(recording, chosen, threads, states, ledger.window)
        if any(row[6] >= len(stacks) for row in rows):
            raise Damage("a row refers to a stack that does not exist")
        settings = recording.document.settings.get(SETTING)
        values: dict[str, Any] = settings if isinstance(settings, dict) else {}
        collection = values.get("collection")
        period = values.get("period")
        return Profile(
            ledger=replace(ledger, losses={}),
            samples=SampleColumns.of(rows),
            states=tuple(states),
            stacks=stacks,
            frames=frames,
            period=period if isinstance(period, int) and 0 < period < 1 << 62 else 1,
            losses=recording.losses(),
            notes=tuple(r for name, r in ledger.reasons.items() if name.partition(" ")[0] == SETTING),
            collection=None if collection is None else collection_of(collection),
        )
    except Damage as error:
        raise HeadwayError(f"the stacks of {str(recording.path)!a} cannot be used: {error}") from None


def _ledger(recording: Recording, chosen: Chosen | None) -> Ledger:
    """Return the ledger of all rows, or of those chosen."""
    if chosen is None or (chosen.threads is None and chosen.window is None):
        return recording.kept_ledger() or recording.ledger()
    frame = of_times(recording.document.ledger)
    window = chosen.window or recording.window
    return profile_of_states(recording.batches(chosen), recording.threads(), window, frame).ledger


def _waits(
    recording: Recording,
    chosen: Chosen | None,
    threads: dict[int, int],
    states: dict[str, int],
    window: Window,
    *,
    wakers: bool,
) -> list[_Row]:
    """Return a sum for each thread, state off the processor, and stack."""
    sums: defaultdict[tuple[int, str, int], list[int]] = defaultdict(lambda: [0, 0])
    for batch in recording.batches(chosen):
        _add(batch, sums, wakers=wakers)
    found = []
    for (thread, state, stack), (time, count) in sums.items():
        if time or count:
            number = states.setdefault(state, len(states))
            found.append((window.end, threads.get(thread, -1), -1, number, time, max(count, 0), stack))
    return found


def _add(batch: Batch, sums: defaultdict[tuple[int, str, int], list[int]], *, wakers: bool) -> None:
    rows = batch.transitions
    wanted = [kind_of(name) is Kind.WAIT if wakers else is_exact(name) for name in rows.states]
    there = np.flatnonzero(np.array([*wanted, False], np.bool_)[rows.state] & (rows.thread >= 0))
    if not len(there):
        return
    stack = rows.waker_stack if wakers else rows.stack
    stacks = np.full(len(there), -1, np.int64) if stack is None else stack[there].astype(np.int64)
    keys = np.stack([rows.thread[there].astype(np.int64), rows.state[there].astype(np.int64), stacks])
    order = np.lexsort(keys)
    keys = keys[:, order]
    first = np.flatnonzero(np.any(np.diff(keys, prepend=-2) != 0, axis=0))
    times = np.add.reduceat((rows.duration - rows.taken)[there][order], first)
    counts = np.add.reduceat(rows.count[there][order].astype(np.int64), first)
    columns = (keys[:, first].T.tolist(), times.tolist(), counts.tolist())
    for (thread, state, number), time, count in zip(*columns, strict=True):
        cell = sums[thread, rows.states[state], number]
        cell[0] += time
        cell[1] += count


def _samples(
    recording: Recording, chosen: Chosen | None, threads: dict[int, int], states: dict[str, int], window: Window
) -> list[_Row]:
    """Return the samples of processor time. Those that are not of a known thread are left out."""
    only = None if chosen is None else chosen.threads
    found: list[_Row] = []
    for table in recording.tables("processor_samples"):
        columns = (table.column(name).to_pylist() for name in ("time", "thread", "cpu", "state", "weight", "stack"))
        for moment, thread, cpu, state, weight, stack in zip(*columns, strict=True):
            if thread not in threads or (only is not None and thread not in only):
                continue
            if window.start <= moment < window.end and not is_exact(state):
                number = states.setdefault(state, len(states))
                at = -1 if stack is None else stack
                found.append((moment, threads[thread], -1 if cpu is None else cpu, number, weight, 1, at))
    if sum(row[4] for row in found) >= 1 << 62:
        raise Damage("the times of its samples are too large")
    return found
