"""The form of answers: each figure with its unit, quality and source, and never more than a client can take."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

from headway.model import KNOWN_LOSSES, Indices, Kind, Ledger, Quality, kind_of
from headway.text import valid

__all__ = ["LARGEST", "figure", "indices", "limited", "of_ledger", "short", "state_quality"]

LARGEST = 60_000
"""The largest number of characters that the rows of an answer have."""
_COUNTED = 1_000_000
"""Rows that are left out are counted up to this number."""
_LONGEST = 400

_INDICES = ("rpi", "epi", "mpi", "kpi", "iopi")


def figure(value: float | None, unit: str, quality: Quality, source: str) -> dict[str, Any]:
    """Return a figure. ``unit``: ns, cycles, 1 (a share of one), or empty for a number."""
    return {"value": value, "unit": unit, "quality": quality.value, "source": source}


def indices(found: Indices, ledger: Ledger) -> dict[str, Any]:
    """Return the indices of threads of a ledger."""
    return {
        name: figure(getattr(found, name), ledger.unit, found.quality[name], ledger.source)
        | ({"interval": list(limits)} if (limits := found.interval.get(name)) is not None else {})
        for name in _INDICES
    }


_INDEX_OF = {Kind.EFFECTIVE: "epi", Kind.MEMORY: "mpi", Kind.KERNEL: "kpi", Kind.POLL: "iopi", Kind.STALL: "mpi"}


def state_quality(state: str, found: Indices, sampled: Iterable[str], source: str) -> Quality:
    """Return the quality of the time in a state."""
    if state in sampled:
        return Quality.SAMPLED
    kind = kind_of(state)
    if not kind.in_rpi:
        return Quality.SAMPLED if "proc" in source and state.startswith("wait.") else Quality.EXACT
    quality = found.quality[_INDEX_OF[kind]]
    return Quality.EXACT if quality is Quality.UNAVAILABLE else quality


def of_ledger(ledger: Ledger) -> dict[str, Any]:
    """Return what must be known to read a ledger's figures: where they come from, why not exact, and what was lost."""
    return {
        "source": ledger.source,
        "window": figure(ledger.window.duration, ledger.time_unit, Quality.EXACT, ledger.source),
        "reasons": {valid(name): valid(reason) for name, reason in ledger.reasons.items()},
        "losses": [
            {"name": valid(name), "number": number, "what": KNOWN_LOSSES[name].what if name in KNOWN_LOSSES else None}
            for name, number in ledger.losses.items()
            if number
        ],
    }


def short(value: Any) -> Any:
    """Return a value with long texts cut, in lists and tables too."""
    if isinstance(value, str):
        value = valid(value)
        return value if len(value) <= _LONGEST else f"{value[: _LONGEST - 1]}…"
    if isinstance(value, Mapping):
        return {short(str(name)): short(part) for name, part in islice(value.items(), _LONGEST)}
    if isinstance(value, (list, tuple)):
        return [short(part) for part in value[:_LONGEST]]
    return value


def limited(
    rows: Iterable[Any], limit: int, form: Callable[[Any], Any] = short, most: int = LARGEST
) -> tuple[list[Any], dict[str, Any]]:
    """Return the first rows, and how many are left out.

    There are at most ``limit`` rows, and at most ``most`` characters of JSON. ``form`` makes a row of the answer.
    """
    found: list[Any] = []
    size = 0
    source = iter(rows)
    left_out = 0
    for row in source:
        if len(found) == limit:
            left_out = 1
            break
        made = form(row)
        size += len(json.dumps(made, default=str))
        if size > most:
            left_out = 1
            break
        found.append(made)
    if left_out:
        left_out += sum(1 for _ in islice(source, _COUNTED - 1))
    return found, {"rows": left_out, "at_least": left_out == _COUNTED}


def listed(texts: Sequence[str]) -> list[str]:
    """Return remarks as they are answered."""
    return [short(text) for text in texts]
