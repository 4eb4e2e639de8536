"""Two profiles beside each other: the time of each stack, and of each place in the program, in both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from headway.dataclass import dataclass
from headway.model import Profile, is_exact
from headway.model.places import place_of, words_of_place

from .folded import stacks_of

__all__ = ["PlaceDifference", "differing_places", "folded_of_both"]


@dataclass(frozen=True, slots=True)
class PlaceDifference:
    """The time that threads of one name waited at one place in the program, in both, ns."""

    name: str
    state: str
    place: str
    a: int
    b: int

    @property
    def difference(self) -> int:
        """The time of b minus that of a."""
        return self.b - self.a


def folded_of_both(a: Profile, b: Profile) -> Iterator[str]:
    """Yield each stack as the format ``folded`` has it, with its time in ``a`` and in ``b``."""
    times_a, times_b = stacks_of(a), stacks_of(b)
    for stack in sorted({*times_a, *times_b}):
        yield f"{stack} {times_a[stack]} {times_b[stack]}"


def differing_places(a: Profile, b: Profile) -> list[PlaceDifference]:
    """Return the waits whose time differs, by thread name, state and place, the largest difference first."""
    times_a, times_b = _places(a), _places(b)
    found = [PlaceDifference(*key, times_a[key], times_b[key]) for key in {*times_a, *times_b}]
    return sorted(
        (one for one in found if one.difference), key=lambda one: (-abs(one.difference), one.name, one.state, one.place)
    )


def _places(profile: Profile) -> Counter[tuple[str, str, str]]:
    """Return the exact times of the profile by thread name, state and place."""
    words: dict[tuple[int, ...], str] = {}
    found: Counter[tuple[str, str, str]] = Counter()
    for thread, state, weight, _, stack in profile.rows():
        if not is_exact(state) or not stack:
            continue
        if stack not in words:
            frames = [profile.frames[number] for number in stack]
            at = place_of(frames)
            words[stack] = "" if at is None else words_of_place(frames[at])
        name = profile.ledger.threads[thread].name if thread >= 0 else ""
        found[name, state, words[stack]] += weight
    return found
