"""How much of their processor time threads spend in a function, by the samples of a profile of the same program."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

import numpy as np

from headway.errors import HeadwayError
from headway.model import Profile, kind_of
from headway.model.estimate import wilson
from headway.recording.profile import open_profile
from headway.recording.reader import Recording
from headway.recording.stack_profile import profile_of_stacks
from headway.recording.stacks import has_stacks

__all__ = ["FunctionShares", "read_shares", "shares_in"]


@dataclass(frozen=True, slots=True)
class FunctionShares:
    """A profile, asked for functions."""

    profile: Profile

    def names(self) -> list[str]:
        """Return the functions that were sampled, those with the most samples first."""
        weights: defaultdict[str, int] = defaultdict(int)
        for name, weight in self._innermost():
            weights[name] += weight
        return sorted(weights, key=lambda name: (-weights[name], name))

    def _innermost(self) -> list[tuple[str, int]]:
        samples = self.profile.samples
        on = self._on_processor()
        numbers = np.bincount(samples.stack[on & (samples.stack >= 0)], minlength=len(self.profile.stacks))
        return [
            (self.profile.frames[stack[0]].name, int(number))
            for stack, number in zip(self.profile.stacks, numbers, strict=True)
            if number and stack
        ]

    def _on_processor(self) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        table = np.array([kind_of(state).in_rpi for state in self.profile.states], np.bool_)
        samples = self.profile.samples
        return table[samples.state] if len(samples) else np.zeros(0, np.bool_)

    def find(self, function: str) -> Mapping[str, tuple[float, float]]:
        """Return, by name of the threads, the share of their processor time with the function on the stack.

        ``function`` is a name or a pattern. The share is an interval: the lowest and the highest at 95 %. The mapping
        is empty if the function was never sampled.
        """
        samples = self.profile.samples
        frames = np.array([fnmatchcase(frame.name, function) for frame in self.profile.frames], np.bool_)
        if not frames.any():
            return {}
        stacks = np.array([*(bool(frames[list(stack)].any()) for stack in self.profile.stacks), False], np.bool_)
        chosen = self._on_processor() & (samples.thread >= 0)
        found: dict[str, tuple[float, float]] = {}
        by_name: defaultdict[str, list[int]] = defaultdict(list)
        for place, thread in enumerate(self.profile.ledger.threads):
            by_name[thread.name].append(place)
        for name, places in by_name.items():
            of_name = chosen & np.isin(samples.thread, places)
            whole = int(np.count_nonzero(of_name))
            part = int(np.count_nonzero(of_name & stacks[samples.stack]))
            if part:
                found[name] = wilson(part, whole)
        return found


def read_shares(path: str | os.PathLike[str]) -> FunctionShares:
    """Read the profile in a recording. Raises HeadwayError if there is none, or it has no sample."""
    profile, _ = open_profile(path)
    found = FunctionShares(profile)
    if not len(profile.samples):
        raise HeadwayError(f"the profile {os.fspath(path)!a} has no sample: profile for longer")
    return found


def shares_in(recording: Recording) -> FunctionShares | None:
    """Return the samples of a recording with stacks; None: it has none. Raises HeadwayError if they are damaged."""
    if not has_stacks(recording) or not recording.closed:
        return None
    found = FunctionShares(profile_of_stacks(recording))
    return found if found.names() else None
