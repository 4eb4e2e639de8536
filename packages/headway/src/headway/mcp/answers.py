"""The form of answers: each figure with its unit, quality and source, and never more than a client can take.

Clients give answers to language models, and refuse those with more than so many tokens (25,000 is usual). An answer
has at most 10,000. How many a text has depends on the model, so they are estimated from above (`tokens`): answers are
rather shorter than they might be.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

from headway.model import Indices, Kind, Ledger, Quality, kind_of, loss_of
from headway.text import json_text, valid

__all__ = [
    "LARGEST",
    "LARGEST_ANSWER",
    "figure",
    "indices",
    "limited",
    "listed",
    "of_ledger",
    "short",
    "state_quality",
    "tokens",
    "written",
]

LARGEST = 7_000
"""The largest number of tokens that the rows of an answer have."""
LARGEST_ANSWER = 10_000
"""The same of a whole answer: what says how to read the rows is in it too."""
_COUNTED = 1_000_000
"""Rows that are left out are counted up to this number."""
_LONGEST = 400
_REMARKS = 20
_PIECES = re.compile(r"[A-Za-z]+|\d+|[^\x00-\x7f]+|\s+|.", re.ASCII | re.DOTALL)

_INDICES = ("rpi", "epi", "mpi", "kpi", "iopi")


def tokens(text: str) -> int:
    """Return an estimate, from above, of how many tokens a language model makes of a text.

    Words have about four letters a token; three are counted. A digit, a sign or a byte beyond ASCII may be one each.
    """
    found = 0
    for piece in _PIECES.findall(text):
        first = piece[0]
        if first.isascii() and first.isalpha():
            found += -(-len(piece) // 3)
        elif first.isspace():
            found += 0 if piece == " " else len(piece)
        else:
            found += len(piece.encode(errors="replace"))
    return found


def written(value: object) -> str:
    """Return an answer, or a part of one, as the server writes it."""
    return json_text(value, separators=(",", ":"), default=str)


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
            {"name": valid(name), "number": number, "what": loss.what if loss is not None else None}
            for name, number in ledger.losses.items()
            if number
            for loss in (loss_of(name),)
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
    rows: Iterable[Any],
    limit: int,
    form: Callable[[Any], Any] = short,
    most: int = LARGEST,
    *,
    offset: int = 0,
    shorter: str = "ask for less in a row",
) -> tuple[list[Any], dict[str, Any]]:
    """Return the rows from ``offset`` on, and how many after them are left out and how to get them.

    There are at most ``limit`` rows, and at most ``most`` `tokens`. ``form`` makes a row of the answer. ``shorter``:
    what to do about a row that is too long by itself.
    """
    found: list[Any] = []
    size = 0
    source = islice(iter(rows), offset, None)
    left_out = 0
    for row in source:
        if len(found) == limit:
            left_out = 1
            break
        made = form(row)
        size += tokens(written(made)) + 1
        if size > most:
            left_out = 1
            break
        found.append(made)
    if left_out:
        left_out += sum(1 for _ in islice(source, _COUNTED - 1))
    rest: dict[str, Any] = {"rows": left_out, "at_least": left_out == _COUNTED}
    if left_out:
        rest["how"] = f"ask again with offset {offset + len(found)}" if found else f"this row is too long: {shorter}"
    return found, rest


def listed(texts: Sequence[str], most: int = _REMARKS) -> list[str]:
    """Return remarks as they are answered: the first ones, and how many more there are."""
    more = [f"… {len(texts) - most:,} more"] if len(texts) > most else []
    return [*(short(text) for text in texts[:most]), *more]
