"""The data of the live page: what happened between two readings, as JSON.

Shares are of one processor, or of the thread's time. Names are free of characters that could deceive
(`views.printable`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from headway.model import Kind, indices_of, kind_of, processor_time

from ..losses import named_losses
from ..palette import ORDER, PALETTE
from .totals import Series, State, TotalsSnapshot

__all__ = ["MAX_ROWS", "live", "stylesheet"]

MAX_ROWS = 200
"""The largest number of rows of threads. All others are added up in one row."""
MAX_STATES = 6
"""The number of states named in a row."""


def live(now: TotalsSnapshot, before: TotalsSnapshot | None) -> str:
    """Return what happened since ``before``, or since measuring began, as JSON."""
    span = max(now.at - (before.at if before is not None else now.began), 1)
    earlier = {series.labels: series for series in before.series} if before is not None else {}
    rows = [_Row(series, earlier.get(series.labels)) for series in now.series]
    rows.append(_Row(now.rest, before.rest if before is not None else None, rest=True))
    rows.sort(key=lambda row: (-row.had, -row.series.living, row.series.labels))
    shown = [row for row in rows if (row.series.living or row.had or row.spent) and not row.rest][:MAX_ROWS]
    hidden = {id(row) for row in shown}
    others = [row for row in rows if id(row) not in hidden]
    document = {
        "at": now.at + now.epoch,
        "span": span,
        "source": now.source,
        "living": now.living,
        "seen": now.seen,
        "ended": now.ended,
        "rows": [row.document(now, span) for row in shown],
        "others": _others(others, now, span),
        "processors": _processors(now, before, span),
        "quality": {name: quality.value for name, quality in now.whole().quality.items() if name in _SHOWN},
        "reasons": now.reasons,
        "work": None if now.work is None else now.work._asdict(),
        "losses": named_losses(now.losses),
        "overhead": _rate(now.overhead, before.overhead if before is not None else 0, span),
        "cost": _rate(now.cost.cpu, before.cost.cpu if before is not None else None, span),
        "series": [now.taken, now.room],
        "legend": [[kind.value, PALETTE[kind].letter, PALETTE[kind].words] for kind in ORDER],
    }
    return json.dumps(document, separators=(",", ":"), allow_nan=False)


_SHOWN = ("rpi", "epi", "mpi", "kpi", "iopi")


def _rate(now: int | None, before: int | None, span: int) -> float | None:
    return None if now is None or before is None else max(now - before, 0) / span


class _Row:
    """What the threads of one series did between the readings."""

    def __init__(self, series: Series, before: Series | None, *, rest: bool = False) -> None:
        self.series, self.before, self.rest = series, before, rest
        then = before.times() if before is not None else {}
        self.times = {kind: max(time - then.get(kind, 0), 0) for kind, time in series.times().items()}
        self.had = processor_time(self.times)
        self.spent = sum(self.times.values())

    def document(self, snapshot: TotalsSnapshot, span: int) -> dict[str, Any]:
        return {
            "labels": dict(self.series.labels),
            "threads": self.series.living,
            **_figures(self.times, self.spent, snapshot, span),
            "states": _states(self.series.states, self.before.states if self.before is not None else ()),
        }


def _figures(times: dict[Kind, int], spent: int, snapshot: TotalsSnapshot, span: int) -> dict[str, Any]:
    indices = indices_of(times, snapshot.precision)
    return {
        "rpi": None if indices.rpi is None else indices.rpi / span,
        "epi": None if indices.epi is None else indices.epi / span,
        "te": indices.te if processor_time(times) else None,
        "kinds": {kind.value: times[kind] / spent for kind in ORDER if times.get(kind)} if spent else {},
    }


def _others(rows: list[_Row], snapshot: TotalsSnapshot, span: int) -> dict[str, Any] | None:
    """Return the sum of all rows that are not shown."""
    living = sum(row.series.living for row in rows)
    spent = sum(row.spent for row in rows)
    if not living and not spent:
        return None
    times = {kind: sum(row.times[kind] for row in rows) for kind in Kind}
    return {"rows": len(rows), "threads": living, **_figures(times, spent, snapshot, span)}


def _states(now: Iterable[State], before: Iterable[State]) -> list[list[Any]]:
    """Return [name, kind, share] of the states with most time."""
    then = {name: time for name, time, _, _ in before}
    found = [(time - then.get(name, 0), name) for name, time, _, _ in now]
    total = sum(time for time, _ in found if time > 0)
    most = sorted((pair for pair in found if pair[0] > 0), key=lambda pair: (-pair[0], pair[1]))[:MAX_STATES]
    return [[name, kind_of(name).value, time / total] for time, name in most]


def _processors(now: TotalsSnapshot, before: TotalsSnapshot | None, span: int) -> list[dict[str, Any]]:
    earlier = dict(before.processors) if before is not None else {}
    found = []
    for cpu, states in now.processors:
        then = {name: time for name, time, _, _ in earlier.get(cpu, ())}
        times = dict.fromkeys(Kind, 0)
        for name, time, _, _ in states:
            times[kind_of(name)] += max(time - then.get(name, 0), 0)
        found.append({"cpu": cpu, "kinds": {kind.value: times[kind] / span for kind in ORDER if times[kind]}})
    return found


def stylesheet() -> str:
    """Return the CSS of the kinds' colours, for a light and a dark background."""
    light = "".join(_rule(kind.value, look.on_light, look.ink_on_light) for kind, look in PALETTE.items())
    dark = "".join(_rule(kind.value, look.on_dark, look.ink_on_dark) for kind, look in PALETTE.items())
    return f"{light}@media (prefers-color-scheme: dark) {{\n{dark}}}\n"


def _rule(kind: str, ground: str, ink: str) -> str:
    return f".{kind} {{ background: {ground}; color: {ink}; }}\n"
