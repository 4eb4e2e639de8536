"""Samples of processors as JSON: the document that ``headway cpu --json`` prints (headway.cpu/1).

What each field means and in which unit it is stands in the schema beside this file (``headway schema cpu``).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from headway.model import Quality, Sample, Utilisation, kind_of

__all__ = ["cpu_document", "cpu_schema"]

SCHEMA = "headway.cpu/1"


def cpu_document(
    samples: Sequence[Sample],
    *,
    interval_ms: float,
    command: Sequence[str] | None = None,
    exit_status: int | None = None,
    losses: Mapping[str, int] | None = None,
) -> dict[str, Any]:
    """Consecutive samples as plain dicts and lists, in the order of the schema."""
    dropped: dict[str, int] = {}
    reasons: dict[str, str] = {}
    for sample in samples:
        reasons |= sample.reasons
        for name, count in sample.dropped.items():
            dropped[name] = dropped.get(name, 0) + count
    last = samples[-1] if samples else None
    return {
        "schema": SCHEMA,
        "source": last.source if last else None,
        "counter": last.counter if last else None,
        "interval_ms": interval_ms,
        "command": None if command is None else [_text(word) for word in command],
        "exit_status": exit_status,
        "samples": [_sample(sample) for sample in samples],
        "dropped": dropped,
        "losses": dict(losses or {}),
        "reasons": {name: _text(reason) for name, reason in reasons.items()},
    }


def cpu_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of the document."""
    found: dict[str, Any] = json.loads(files(__package__).joinpath("cpu.schema.json").read_text(encoding="utf-8"))
    return found


def _sample(sample: Sample) -> dict[str, Any]:
    second = sample.processors[0].second if sample.processors else 1e9
    return {
        "start": _ns(sample.start, second),
        "end": _ns(sample.end, second),
        "skew_ns": _ns(sample.skew, second),
        "held_ns": _ns(sample.held, second),
        "dropped": dict(sample.dropped),
        "processors": [_processor(sample, row) for row in sample.processors],
    }


def _ns(time: int | None, second: float) -> int | None:
    """A time of which ``second`` are a second."""
    return time if time is None or second == 1e9 else round(time * 1e9 / second)


def _processor(sample: Sample, row: Utilisation) -> dict[str, Any]:
    utilisation, unhalted = row.utilisation, row.unhalted
    figures = {
        "utilisation": utilisation,
        "states": row.span,
        "effective_hz": row.effective_hz,
        "actual_hz": row.actual_hz,
        "idle": row.idle or None,
        "throttled": row.throttled,
        "smi": row.smi,
    }
    return {
        "cpu": row.cpu,
        "span_ns": _ns(row.span, row.second),
        "utilisation": None if utilisation is None else utilisation * 100,
        "busy_ns": _ns(row.busy, row.second),
        "stolen_ns": _ns(row.stolen, row.second),
        "states": [
            {
                "state": _text(state),
                "kind": kind_of(state).value,
                "count": cell.count,
                "time": _ns(cell.time, row.second),
            }
            for state, cell in row.states.items()
        ],
        "idle_ns": {_text(name): _ns(time, row.second) for name, time in row.idle.items()},
        "busy_ticks": row.ticks,
        "effective_hz": row.effective_hz,
        "actual_hz": row.actual_hz,
        "unhalted": None if unhalted is None else unhalted * 100,
        "skew_ns": _ns(row.skew, row.second),
        "throttled": row.throttled,
        "stopped_ns": _ns(row.stopped, row.second),
        "smi": row.smi,
        "quality": {
            name: (Quality.UNAVAILABLE if value is None else sample.quality.get(name, Quality.EXACT)).value
            for name, value in figures.items()
        },
        "dropped": row.dropped,
    }


def _text(text: str) -> str:
    """Text that every JSON parser takes: half characters and bytes that were no text are written as their number."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
