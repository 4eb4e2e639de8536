"""A balance as lines and as JSON: what each party did in an interval, and what its weight is now."""

from __future__ import annotations

from collections.abc import Iterable
from math import isinf
from typing import Any

from headway.balance import Place
from headway.session.balancing import RECENT, Turn, TurnOfParty
from headway.text import valid

from .figures import MARKS, share
from .lines import Line
from .printable import fit

__all__ = ["ratio_in_words", "turn_document", "turn_lines"]

SCHEMA = "headway.balance/1"
_WORTH_SAYING = 0.01
"""The part of the processor time from which on it is said what was not counted."""
_NOTES = {
    Place.NEW: "new",
    Place.HELD: "",
    Place.CONTENT: "waits for no processor",
    Place.RESTS: "rests",
    Place.LIMIT: "at its limit",
    Place.IDLE: "idle",
    Place.ALONE: "alone",
    Place.UNKNOWN: "EPI not known",
}


def ratio_in_words(ratio: float | None) -> str:
    """Return a ratio of progress."""
    if ratio is None:
        return "–"
    return "∞" if isinf(ratio) else f"{ratio:.2f}"


def turn_lines(turn: Turn, before: float | None, width: int) -> Iterable[Line]:
    """Yield the ratio, now and ``before`` anything was changed, and a line for each party."""
    text = f"progress ratio {ratio_in_words(turn.ratio)} in the last {RECENT} intervals"
    yield [(fit(f"{text}, {ratio_in_words(before)} in the first", width).rstrip(), "")]
    room = max(width - 53, 12)
    yield [(f"{'party':{room}} share    EPI processor ready  set        ".rstrip(), "bold")]
    span = turn.window.duration
    for row in turn.parties:
        party, seen = row.party, row.seen
        name = party.name if party.cgroup is not None else f"{party.name} {party.pid or party.tid}"
        epi = share(None if seen.progress is None or not span else seen.progress / span)
        waits = seen.ready / (seen.ran + seen.ready) if seen.ran + seen.ready else 0.0
        figures = f"{row.share:5g} {MARKS[row.quality] + epi:>6} {share(seen.ran / span if span else 0.0):>9}"
        text = f"{fit(name, room)} {figures} {share(waits):>5}  {row.set:10} {_NOTES[row.place]}"
        yield [(fit(text, width).rstrip(), "")]
    ran = turn.unplaced + sum(row.seen.ran for row in turn.parties)
    if turn.unplaced > _WORTH_SAYING * ran:
        text = f"not counted: {share(turn.unplaced / ran)} of the processor time, of processes that ended too soon"
        yield [(fit(text, width).rstrip(), "")]


def turn_document(turn: Turn) -> dict[str, Any]:
    """Return the interval as it is in JSON (``headway schema balance``)."""
    return {
        "schema": SCHEMA,
        "window": {"start": turn.window.start, "end": turn.window.end, "duration": turn.window.duration},
        "ratio": None if turn.ratio is None or isinf(turn.ratio) else turn.ratio,
        "unplaced": turn.unplaced,
        "parties": [_party(row) for row in turn.parties],
    }


def _party(row: TurnOfParty) -> dict[str, Any]:
    party = row.party
    return {
        "name": valid(party.name),
        "pid": party.pid,
        "tid": party.tid,
        "cgroup": None if party.cgroup is None else valid(party.cgroup),
        "share": row.share,
        "epi": row.seen.progress,
        "quality": row.quality.value,
        "ran": row.seen.ran,
        "ready": row.seen.ready,
        "place": row.place.value,
        "weight": row.weight,
        "set": row.set,
    }
