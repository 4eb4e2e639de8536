"""A profile for the page: the stacks, and the time that each thread spent in them, by state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from headway.model import Frame, Profile, is_exact, kind_of
from headway.views.palette import ORDER
from headway.views.printable import visible

__all__ = ["MAX_STACKS", "flames_document"]

MAX_STACKS = 100_000
"""The largest number of rows (thread, state, stack). The rows with least time are left out."""
_NAME = 500


def flames_document(profile: Profile, wakers: Profile | None = None) -> Mapping[str, Any]:
    """Return the profile as plain values. Samples of one thread, state and stack are one row. Times are in ns.

    ``wakers``: a profile of the same recording in which each wait has the stack of its waker; None: there is none.
    """
    names = tuple(dict.fromkeys([*profile.states, *(wakers.states if wakers is not None else ())]))
    rows, left = _rows(profile, names)
    ends, left_of_ends = ([], (0, 0)) if wakers is None else _rows(wakers, names)
    stacks = sorted({row[2] for row in (*rows, *ends) if row[2] >= 0})
    frames = sorted({frame for number in stacks for frame in profile.stacks[number]})
    of_stack = {number: at for at, number in enumerate(stacks)}
    of_frame = {number: at for at, number in enumerate(frames)}

    def numbered(found: list[list[int]]) -> list[list[int]]:
        return [[thread, state, of_stack.get(stack, -1), *rest] for thread, state, stack, *rest in found]

    return {
        "period": profile.period,
        "states": [visible(name, _NAME) for name in names],
        "kinds": [ORDER.index(kind_of(name)) for name in names],
        "exact": [is_exact(name) for name in names],
        "frames": [_frame(profile.frames[number]) for number in frames],
        "stacks": [[of_frame[frame] for frame in profile.stacks[number]] for number in stacks],
        "rows": numbered(rows),
        "wakers": numbered(ends),
        "left_out": {"rows": left[0] + left_of_ends[0], "time": left[1] + left_of_ends[1]},
        "notes": [visible(note, _NAME) for note in profile.notes],
        "losses": [[visible(name, _NAME), amount] for name, amount in profile.losses.items() if amount],
    }


def _rows(profile: Profile, names: Sequence[str]) -> tuple[list[list[int]], tuple[int, int]]:
    """Return rows of thread, state among ``names``, stack, time and count; how many are left out, and their time."""
    s = profile.samples
    place_of = np.array([names.index(name) for name in profile.states] or [0], np.int64)
    keys = np.stack([s.thread.astype(np.int64), place_of[s.state], s.stack.astype(np.int64)])
    rows, place = np.unique(keys, axis=1, return_inverse=True)
    place = np.reshape(place, -1)
    weight = np.zeros(rows.shape[1], np.int64)
    count = np.zeros(rows.shape[1], np.int64)
    np.add.at(weight, place, s.weight)
    np.add.at(count, place, s.count)
    kept = np.sort(np.argsort(-weight, kind="stable")[:MAX_STACKS])
    left = np.ones(rows.shape[1], np.bool_)
    left[kept] = False
    figures = zip(rows[:, kept].T.tolist(), weight[kept].tolist(), count[kept].tolist(), strict=True)
    return [[*key, time, times] for key, time, times in figures], (int(left.sum()), int(weight[left].sum()))


def _frame(frame: Frame) -> list[Any]:
    """Return the frame's name, its place in the source or its module, and its kind."""
    where = "" if frame.file is None else frame.file if frame.line is None else f"{frame.file}:{frame.line}"
    return [visible(frame.name, _NAME), visible(where or frame.module or "", _NAME), frame.kind]
