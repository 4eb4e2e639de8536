"""Of each state of a profile: how much time it took, and the functions and stacks in which it was spent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .kinds import Kind, kind_of
from .profile import Frame, Profile, is_exact, matches, sampling_error
from .quality import Quality

__all__ = ["Hotspot", "StackShare", "StateSummary", "function_of", "innermost_first", "summaries", "unsampled"]


@dataclass(frozen=True, slots=True)
class Hotspot:
    """A function: the time spent in it, and in it and what it called; both ns of the rows."""

    function: str
    module: str | None
    kind: str
    own: int
    total: int


@dataclass(frozen=True, slots=True)
class StackShare:
    """The stacks of the same functions, and their time: the frames, innermost first, are those of the one with most."""

    frames: tuple[Frame, ...]
    time: int
    count: int


@dataclass(frozen=True, slots=True)
class StateSummary:
    """One state over all threads of the profile."""

    state: str
    kind: Kind
    time: int
    """ns by the ledger, exact as far as that is; by the rows where it has none of this state."""
    rows_time: int
    """ns that the rows stand for: all of it where they are sums, about as much where they are samples."""
    rows: int
    """Samples; or occurrences, where they are sums."""
    quality: Quality
    """Of the shares of functions and stacks."""
    functions: tuple[Hotspot, ...]
    """Most own time first."""
    stacks: tuple[StackShare, ...]
    """Most time first."""

    def share(self, time: int) -> float:
        """A time of the rows as a share of them all."""
        return time / self.rows_time if self.rows_time else 0.0

    def error(self, time: int) -> float | None:
        """By how much that share may be off, either way, in 95 of 100 cases; 0 where it is exact; None: not known."""
        return 0.0 if self.quality is Quality.EXACT else sampling_error(self.share(time), self.rows)


def function_of(frame: Frame) -> tuple[str, str | None, str]:
    """What makes two frames the same function: its name, or its place, the module, and the kind."""
    return frame.name, frame.module, frame.kind


def innermost_first(profile: Profile, state: str, stack: Sequence[int]) -> tuple[Frame, ...]:
    """The frames of a stack that say where the program was.

    Off the processor that is its own code: how the kernel put it to sleep is the same for all.
    """
    frames = tuple(profile.frames[number] for number in stack)
    if is_exact(state) and any(frame.kind in ("user", "python") for frame in frames):
        return tuple(frame for frame in frames if frame.kind != "kernel")
    return frames


def summaries(profile: Profile) -> list[StateSummary]:
    """Every state of the profile's rows, most time first."""
    times = _times(profile)
    rows: dict[str, Counter[tuple[int, ...]]] = {}
    counts: dict[str, Counter[tuple[int, ...]]] = {}
    for _, state, weight, count, stack in profile.rows():
        rows.setdefault(state, Counter())[stack] += weight
        counts.setdefault(state, Counter())[stack] += count
    found = [_summary(profile, state, weights, counts[state], times.get(state)) for state, weights in rows.items()]
    return sorted(found, key=lambda one: (-one.time, one.state))


def unsampled(profile: Profile, *, part: str | None = None, state: str | None = None) -> list[tuple[str, int]]:
    """States that threads were in, of a part or below a name, of which there is no row: too short, or never sampled.

    Each with its time, most first.
    """
    there = {name for _, name, _, _, _ in profile.rows()}
    return sorted(
        (
            (name, time)
            for name, time in _times(profile).items()
            if time and name not in there and matches(name, part=part, state=state)
        ),
        key=lambda one: (-one[1], one[0]),
    )


def _times(profile: Profile) -> Mapping[str, int]:
    total: Counter[str] = Counter()
    for thread in profile.ledger.threads:
        for state, cell in thread.states.items():
            total[state] += cell.time
    return total


def _summary(
    profile: Profile,
    state: str,
    weights: Counter[tuple[int, ...]],
    counts: Counter[tuple[int, ...]],
    time: int | None,
) -> StateSummary:
    own: Counter[tuple[str, str | None, str]] = Counter()
    total: Counter[tuple[str, str | None, str]] = Counter()
    stacks: Counter[tuple[tuple[str, str | None, str], ...]] = Counter()
    occurrences: Counter[tuple[tuple[str, str | None, str], ...]] = Counter()
    examples: dict[tuple[tuple[str, str | None, str], ...], tuple[int, tuple[Frame, ...]]] = {}
    for stack, weight in weights.items():
        frames = innermost_first(profile, state, stack)
        called = tuple(map(function_of, frames))  # whatever the lines are that were called from
        stacks[called] += weight
        occurrences[called] += counts[stack]
        examples[called] = max(examples.get(called, (-1, ())), (weight, frames), key=lambda one: one[0])
        places = [frame for frame in frames if frame.kind != "none"]
        if places:
            own[function_of(places[0])] += weight
        for function in {function_of(frame) for frame in places}:  # once, however often it calls itself
            total[function] += weight
    functions = [Hotspot(*function, own[function], total[function]) for function in total]
    functions.sort(key=lambda one: (-one.own, -one.total, one.function))
    shares = [StackShare(examples[called][1], weight, occurrences[called]) for called, weight in stacks.items()]
    shares.sort(key=lambda one: -one.time)
    rows_time = weights.total()
    return StateSummary(
        state=state,
        kind=kind_of(state),
        time=rows_time if time is None else time,
        rows_time=rows_time,
        rows=counts.total(),
        quality=Quality.EXACT if is_exact(state) else Quality.SAMPLED,
        functions=tuple(functions),
        stacks=tuple(shares),
    )
