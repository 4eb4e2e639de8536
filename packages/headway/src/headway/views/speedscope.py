"""A profile in speedscope's format (https://www.speedscope.app/file-format-schema.json): one profile for each thread.

Samples are in the order of time, and sums follow them. The innermost frame is the state, in brackets.
"""

from __future__ import annotations

from typing import Any

from headway._version import __version__
from headway.model import Profile

from .printable import clean

__all__ = ["speedscope"]

_SCHEMA = "https://www.speedscope.app/file-format-schema.json"


def speedscope(profile: Profile, name: str) -> dict[str, Any]:
    """Return the document for JSON, with weights in the ledger's time unit. ``name`` is its title."""
    frames: list[dict[str, Any]] = []
    for frame in profile.frames:
        entry: dict[str, Any] = {"name": clean(frame.name, 1000)}
        file = frame.file or frame.module
        if file:
            entry["file"] = clean(file)
        if frame.line:
            entry["line"] = frame.line
        frames.append(entry)
    states = len(frames)
    frames += [{"name": f"[{clean(state, 1000)}]"} for state in profile.states]
    by_thread: dict[int, tuple[list[list[int]], list[int]]] = {}
    s = profile.samples
    for i in s.time.argsort(kind="stable").tolist():
        samples, weights = by_thread.setdefault(int(s.thread[i]), ([], []))
        stack = profile.stacks[s.stack[i]] if s.stack[i] >= 0 else ()
        samples.append([*reversed(stack), states + int(s.state[i])])
        weights.append(int(s.weight[i]))
    unit = "nanoseconds" if profile.ledger.time_unit == "ns" else "none"  # it has no cycles
    profiles = []
    for thread in sorted(by_thread, key=lambda thread: -sum(by_thread[thread][1])):
        samples, weights = by_thread[thread]
        profiles.append(
            {
                "type": "sampled",
                "name": _thread_name(profile, thread),
                "unit": unit,
                "startValue": 0,
                "endValue": sum(weights),
                "samples": samples,
                "weights": weights,
            }
        )
    return {
        "$schema": _SCHEMA,
        "exporter": f"headway@{__version__}",
        "name": clean(name, 1000),
        "activeProfileIndex": 0,
        "shared": {"frames": frames},
        "profiles": profiles,
    }


def _thread_name(profile: Profile, number: int) -> str:
    if number < 0:
        return "thread not known"
    thread = profile.ledger.threads[number]
    return f"{clean(thread.name, 64)} {thread.tid}"
