"""Durations of states in a report: percentiles, the longest one, and histograms.

A percentile is known as the limits of the bucket that it is in, so what is shown is its upper limit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from headway.model import (
    MAX_PARTS,
    READY,
    Cell,
    Durations,
    Kind,
    Ledger,
    Longest,
    Quality,
    StateDurations,
    bucket_of,
    kind_of,
    limit_of,
)
from headway.values import WrongValueError, integer, items, optional, shown, table, text

from .figures import MARKS, with_unit

__all__ = [
    "PERCENTILES",
    "durations_document",
    "in_words",
    "kept_in",
    "read_durations",
    "rows_of",
    "states_listed",
    "what_is_shown",
]

PERCENTILES = {"p50": 0.50, "p90": 0.90, "p99": 0.99}
"""The percentiles of a report, by name."""


def kept_in(ledger: Ledger) -> bool:
    """Return whether durations were asked for: threads have them, or the ledger says why not."""
    return "durations" in ledger.reasons or any(thread.durations is not None for thread in ledger.threads)


def in_words(durations: Durations, ledger: Ledger, width: int) -> str:
    """Return the percentiles and the longest duration, with the moment at which it ended since the window began.

    What has no room in ``width`` columns is left out, first the moment. Empty where there are no two durations.
    """
    if durations.placed < 2:
        return ""
    unit = ledger.time_unit
    limits = {name: durations.at_most(part) for name, part in PERCENTILES.items()}
    pieces = [
        f"{name} " + ("–" if limit is None else f"≤{with_unit(limit, unit, 6)}").ljust(7)
        for name, limit in limits.items()
    ]
    longest = durations.longest
    if longest is not None:
        pieces.append(f"max {MARKS[longest.quality]}{with_unit(longest.time, unit, 6)}")
        if longest.under_way:
            pieces.append("so far")
        elif longest.ended is not None:
            pieces.append(f"at {with_unit(max(longest.ended - ledger.window.start, 0), unit, 6)}")
    if durations.unplaced:
        pieces.append(f"({durations.unplaced:,} not known)")
    words = ""
    for piece in pieces:
        if words and len(words) + 1 + len(piece) > width:
            break
        words += f" {piece}" if words else piece
    return words.rstrip()


def what_is_shown(durations: Durations) -> str:
    """Return what a reader must know of the figures of `in_words`, in a clause."""
    error = {1: "half of it", 2: "two thirds of it", 4: "four fifths of it", 8: "eight ninths of it"}
    return (
        f"p50, p90, p99: limits of buckets, the true value is above {error[durations.parts]}; max is exact, and ended "
        "so long after the beginning"
    )


def rows_of(durations: StateDurations) -> Iterator[tuple[str, Durations]]:
    """Yield the states that have durations, by kind, and of one kind by name."""
    kinds = list(Kind)
    yield from sorted(
        [(state, each) for state, each in durations.items() if each.placed],
        key=lambda row: (kinds.index(kind_of(row[0])), row[0]),
    )


# ---- JSON ----


def states_listed(states: Mapping[str, Cell], durations: StateDurations | None) -> Mapping[str, Cell]:
    """Return the states that a document lists: those of which something was gathered.

    ``ready`` is among them too if all of it is in its parts, for it has durations.
    """
    lasted = durations or {}
    if any(cell.empty and state not in lasted for state, cell in states.items()):
        states = {state: cell for state, cell in states.items() if state in lasted or not cell.empty}
    return {**states, READY: Cell(0, 0)} if READY in lasted and READY not in states else states


def durations_document(durations: Durations | None) -> dict[str, Any] | None:
    """Return durations as they are in a document."""
    if durations is None:
        return None
    longest = durations.longest
    return {
        **{name: durations.at_most(part) for name, part in PERCENTILES.items()},
        "max": None if longest is None else longest.time,
        "max_end": None if longest is None else longest.ended,
        "max_quality": (Quality.UNAVAILABLE if longest is None else longest.quality).value,
        "under_way": durations.open,
        "unplaced": durations.unplaced,
        "parts": durations.parts,
        "buckets": [[limit_of(bucket, durations.parts), number] for bucket, number in durations.buckets],
    }


def read_durations(found: object) -> Durations | None:
    """Return what `durations_document` has made. Raises WrongValueError."""
    if found is None:
        return None
    row = table(found, "durations")
    parts = integer(row, "parts", 1)
    if parts not in (1, 2, 4, MAX_PARTS):
        raise WrongValueError(f"parts is {shown(parts)}")
    quality = text(row, "max_quality", 20)
    if quality not in {one.value for one in Quality}:
        raise WrongValueError(f"max_quality is {shown(quality)}")
    time = optional(row, "max")
    longest = None if time is None else Longest(time, optional(row, "max_end", -(1 << 63)), Quality(quality))
    buckets: dict[int, int] = {}
    for each in items(row, "buckets"):
        if not isinstance(each, list) or len(each) != 2:
            raise WrongValueError(f"a bucket is {shown(each)}")
        pair: Mapping[str, Any] = {"limit": each[0], "number": each[1]}
        limit = optional(pair, "limit")
        bucket = bucket_of((1 << 62) if limit is None else limit, parts)
        if limit_of(bucket, parts) != limit or bucket in buckets:
            raise WrongValueError(f"the limit of a bucket is {shown(limit)}")
        buckets[bucket] = integer(pair, "number", 0)
    return Durations(
        tuple(sorted(buckets.items())),
        parts,
        integer(row, "unplaced", -(1 << 63)),
        integer(row, "under_way", -(1 << 63)),
        longest,
    )
