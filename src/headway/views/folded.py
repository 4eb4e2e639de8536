"""A profile as folded stacks: one line a stack, ``thread;outermost;…;innermost;[state] NS``.

The format of Brendan Gregg's stackcollapse scripts, which flamegraph.pl, inferno and others read; the number is ns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from headway.model import Profile

from .printable import clean

__all__ = ["folded"]


def folded(profile: Profile) -> Iterator[str]:
    """The lines, without their ends, most time first. What would end a frame's name is written otherwise."""
    threads = [_name(thread.name) or "?" for thread in profile.ledger.threads]
    names = [_name(frame.name) or "?" for frame in profile.frames]
    total: Counter[str] = Counter()
    for thread, state, weight, _, stack in profile.rows():
        root = threads[thread] if thread >= 0 else "[thread not known]"
        frames = [names[number] for number in reversed(stack)] or ["[stack not known]"]
        total[";".join([root, *frames, f"[{_name(state)}]"])] += weight
    for line, weight in total.most_common():
        yield f"{line} {weight}"


def _name(text: str) -> str:
    """Without the semicolon, which ends it, and with nothing that could end the line."""
    return clean(text, 1000).replace(";", ":")
