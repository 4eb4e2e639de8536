"""A profile as folded stacks: one line for each stack, ``thread;outermost;…;innermost;[state] NS``.

This is the format of Brendan Gregg's stackcollapse scripts, which flamegraph.pl, inferno and others read. The number is
ns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from headway.model import Profile

from .printable import clean

__all__ = ["folded", "stacks_of"]


def folded(profile: Profile) -> Iterator[str]:
    """Yield the lines without their ends, most time first. Characters that separate frames are replaced in names."""
    for line, weight in stacks_of(profile).most_common():
        yield f"{line} {weight}"


def stacks_of(profile: Profile) -> Counter[str]:
    """Return the time of each stack, ns, by its line without the number."""
    threads = [_name(thread.name) or "?" for thread in profile.ledger.threads]
    names = [_name(frame.name) or "?" for frame in profile.frames]
    total: Counter[str] = Counter()
    for thread, state, weight, _, stack in profile.rows():
        root = threads[thread] if thread >= 0 else "[thread not known]"
        frames = [names[number] for number in reversed(stack)] or ["[stack not known]"]
        total[";".join([root, *frames, f"[{_name(state)}]"])] += weight
    return total


def _name(text: str) -> str:
    """Return the name without semicolons, which separate frames, and without characters that end a line."""
    return clean(text, 1000).replace(";", ":")
