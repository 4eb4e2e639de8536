"""The report of a profile as JSON: ``headway.profile/1``. Times are in its ``time_unit``, ns; shares are of one."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from headway.model import Frame, Profile, StateSummary, summaries

__all__ = ["SCHEMA", "profile_document"]

SCHEMA = "headway.profile/1"


def profile_document(
    profile: Profile, *, part: str | None = None, state: str | None = None, limit: int | None = None
) -> dict[str, Any]:
    """Return the document, with at most ``limit`` functions and stacks of each state."""
    window = profile.ledger.window
    return {
        "schema": SCHEMA,
        "source": profile.ledger.source,
        "time_unit": profile.ledger.time_unit,
        "window": {"start": window.start, "end": window.end, "duration": window.duration},
        "period": profile.period,
        "threads": [
            {"tid": t.tid, "pid": t.pid, "name": t.name, "start": t.start, "end": t.end} for t in profile.ledger.threads
        ],
        "states": [_state(one, limit) for one in summaries(profile.narrowed(part=part, state=state))],
        "losses": {**profile.ledger.losses, **profile.losses},
        "notes": list(profile.notes),
        "collection": None if profile.collection is None else asdict(profile.collection),
    }


def _state(one: StateSummary, limit: int | None) -> dict[str, Any]:
    return {
        "state": one.state,
        "kind": one.kind.value,
        "time": one.time,
        "rows_time": one.rows_time,
        "rows": one.rows,
        "quality": one.quality.value,
        "functions": [
            {
                "function": spot.function,
                "module": spot.module,
                "kind": spot.kind,
                "self": one.share(spot.own),
                "self_error": one.error(spot.own),
                "total": one.share(spot.total),
                "total_error": one.error(spot.total),
            }
            for spot in one.functions[:limit]
        ],
        "stacks": [
            {"time": stack.time, "count": stack.count, "frames": [_frame(frame) for frame in stack.frames]}
            for stack in one.stacks[:limit]
        ],
    }


def _frame(frame: Frame) -> dict[str, Any]:
    return {
        "name": frame.name,
        "function": frame.function,
        "file": frame.file,
        "line": frame.line,
        "module": frame.module,
        "kind": frame.kind,
    }
