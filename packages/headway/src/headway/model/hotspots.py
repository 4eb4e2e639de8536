"""Hotspots: the time of each state of a profile, and the functions and stacks in which it was spent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from headway.dataclass import dataclass

from .kinds import Kind, kind_of
from .profile import Frame, Profile, is_exact, matches, sampling_error
from .quality import Quality

__all__ = ["Hotspot", "StackShare", "StateSummary", "function_of", "innermost_first", "summaries", "unsampled"]


@dataclass(frozen=True, slots=True)
class Hotspot:
    """A function with the time spent in it (``own``) and in it and its callees (``total``), in ns of the profile's
    rows.
    """

    function: str
    module: str | None
    kind: str
    own: int
    total: int
    file: str | None = None
    """The file of the source, without its folders; None: not known."""
    line: int | None = None
    """The line there in which most of ``own`` was; None: not known."""


@dataclass(frozen=True, slots=True)
class StackShare:
    """All stacks with the same functions, and their time in ns.

    ``frames`` (innermost first) are those of the stack with most time.
    """

    frames: tuple[Frame, ...]
    time: int
    count: int


@dataclass(frozen=True, slots=True)
class StateSummary:
    """One state over all threads of the profile."""

    state: str
    kind: Kind
    time: int
    """ns by the ledger, with the ledger's quality; ns by the rows if the ledger does not have this state."""
    rows_time: int
    """ns that the rows stand for: all of the time if they are sums, an estimate if they are samples."""
    rows: int
    """The number of samples, or of occurrences if the rows are sums."""
    quality: Quality
    """The quality of the shares of functions and stacks."""
    functions: tuple[Hotspot, ...]
    """Sorted by own time, descending."""
    stacks: tuple[StackShare, ...]
    """Sorted by time, descending."""

    def share(self, time: int) -> float:
        """Return ``time`` as a share of the time of all rows."""
        return time / self.rows_time if self.rows_time else 0.0

    def error(self, time: int) -> float | None:
        """Return the half width of the 95 % interval of that share; 0.0 if it is exact, None if it is not known."""
        return 0.0 if self.quality is Quality.EXACT else sampling_error(self.share(time), self.rows)


def function_of(frame: Frame) -> tuple[str, str | None, str]:
    """Return the key by which two frames are the same function: name (or place, if there is none), module and kind."""
    return frame.name, frame.module, frame.kind


def innermost_first(profile: Profile, state: str, stack: Sequence[int]) -> tuple[Frame, ...]:
    """Return the frames of a stack that say where the program was, innermost first.

    For time off the processor these are the program's own frames. The kernel's frames are dropped, because every thread
    goes to sleep in the same kernel functions.
    """
    frames = tuple(profile.frames[number] for number in stack)
    if is_exact(state) and any(frame.kind in ("user", "python") for frame in frames):
        return tuple(frame for frame in frames if frame.kind != "kernel")
    return frames


def summaries(profile: Profile) -> list[StateSummary]:
    """Return a summary of every state of the profile's rows, the state with most time first."""
    times = _times(profile)
    rows: dict[str, Counter[tuple[int, ...]]] = {}
    counts: dict[str, Counter[tuple[int, ...]]] = {}
    for _, state, weight, count, stack in profile.rows():
        rows.setdefault(state, Counter())[stack] += weight
        counts.setdefault(state, Counter())[stack] += count
    found = [_summary(profile, state, weights, counts[state], times.get(state)) for state, weights in rows.items()]
    return sorted(found, key=lambda one: (-one.time, one.state))


def unsampled(profile: Profile, *, part: str | None = None, state: str | None = None) -> list[tuple[str, int]]:
    """Return the states that threads were in but that have no row, each with its time in ns, the longest first.

    Such a state was too short, or was never sampled. ``part`` and ``state`` select as in `matches`.
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
    lines: dict[tuple[str, str | None, str], Counter[tuple[str | None, int | None]]] = {}
    stacks: Counter[tuple[tuple[str, str | None, str], ...]] = Counter()
    occurrences: Counter[tuple[tuple[str, str | None, str], ...]] = Counter()
    examples: dict[tuple[tuple[str, str | None, str], ...], tuple[int, tuple[Frame, ...]]] = {}
    for stack, weight in weights.items():
        frames = innermost_first(profile, state, stack)
        called = tuple(map(function_of, frames))  # the same functions, whichever lines the calls came from
        stacks[called] += weight
        occurrences[called] += counts[stack]
        examples[called] = max(examples.get(called, (-1, ())), (weight, frames), key=lambda one: one[0])
        places = [frame for frame in frames if frame.kind != "none"]
        if places:
            own[function_of(places[0])] += weight
            lines.setdefault(function_of(places[0]), Counter())[places[0].file, places[0].line] += weight
        for function in {function_of(frame) for frame in places}:  # once per stack, however often it recurses
            total[function] += weight
    functions = [
        Hotspot(*function, own[function], time, *(lines[function].most_common(1)[0][0] if function in lines else ()))
        for function, time in total.items()
    ]
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
