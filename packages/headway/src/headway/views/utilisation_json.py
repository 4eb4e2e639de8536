"""Samples of processors as JSON: the document that ``headway cpu --json`` prints (headway.cpu/1).

The schema beside this file says what each field means and its unit (``headway schema cpu``). The text is written
directly, because it is written several times a second and its cost matters.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from headway.advice import Advice
from headway.model import FIGURES, Kind, Quality, Sample, Utilisation, kind_of, listed

from .schemas import schema_of

__all__ = ["cpu_json", "cpu_schema"]

SCHEMA = "headway.cpu/1"
_WORDS = {quality: f'"{quality.value}"' for quality in Quality}
_UNAVAILABLE = _WORDS[Quality.UNAVAILABLE]


def cpu_json(
    samples: Sequence[Sample],
    *,
    interval_ms: float,
    command: Sequence[str] | None = None,
    exit_status: int | None = None,
    losses: Mapping[str, int] | None = None,
    advice: Sequence[Advice] = (),
) -> str:
    """Return consecutive samples as one line of ASCII, in the order of the schema, without a newline at its end."""
    dropped: dict[str, int] = {}
    reasons: dict[str, str] = {}
    for sample in samples:
        reasons |= sample.reasons
        for name, count in sample.dropped.items():
            dropped[name] = dropped.get(name, 0) + count
    last = samples[-1] if samples else None
    words = "null" if command is None else f"[{','.join([_text(word) for word in command])}]"
    return (
        f'{{"schema":"{SCHEMA}","source":{_text(last.source if last else None)},'
        f'"counter":{_text(last.counter if last else None)},"time_unit":"ns","interval_ms":{_number(interval_ms)},'
        f'"command":{words},"exit_status":{_number(exit_status)},'
        f'"samples":[{",".join([_sample(sample) for sample in samples])}],"dropped":{_numbers(dropped)},'
        f'"losses":{_numbers(losses or {})},"reasons":{{'
        f"{','.join([f'{_text(name)}:{_text(reason)}' for name, reason in reasons.items()])}}},"
        f'"advice":[{",".join([_advice(piece) for piece in advice])}]}}'
    )


def cpu_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of the document."""
    return schema_of("cpu")


def _advice(piece: Advice) -> str:
    return (
        f'{{"index":{_text(piece.index)},"value":{_number(piece.value)},"threshold":{_number(piece.threshold)},'
        f'"at_stake_ns":{_number(piece.at_stake)},"text":{_text(piece.text)},"command":{_text(piece.command)}}}'
    )


def _sample(sample: Sample) -> str:
    worth = tuple([sample.quality.get(name, Quality.EXACT) for name in FIGURES])
    return (
        f'{{"start":{sample.start},"end":{sample.end},"skew_ns":{_number(sample.skew)},'
        f'"held_ns":{_number(sample.held)},"dropped":{_numbers(sample.dropped)},'
        f'"processors":[{",".join([_processor(worth, row) for row in sample.processors])}]}}'
    )


@lru_cache(maxsize=256)
def _qualities(worth: tuple[Quality, ...], known: tuple[bool, ...]) -> str:
    """Return the qualities of `FIGURES` as JSON; of a figure that is not known there is none."""
    return ",".join(
        [
            f'"{name}":{_WORDS[quality] if there else _UNAVAILABLE}'
            for name, quality, there in zip(FIGURES, worth, known, strict=True)
        ]
    )


def _processor(worth: tuple[Quality, ...], row: Utilisation) -> str:
    span, effective, actual = row.span, row.effective_hz, row.actual_hz
    busy = stolen = share = None
    if span is not None:
        times = row.times
        stolen = times[Kind.STOLEN]
        busy = span - times[Kind.WAIT] - stolen
        share = busy / span * 100 if span else None
    unhalted = effective / actual * 100 if effective is not None and actual else None
    states = ",".join([f'{_state(state)}{_number(count)},"time":{time}}}' for state, count, time in listed(row.states)])
    known = (  # in the order of FIGURES
        share is not None,
        span is not None,
        effective is not None,
        actual is not None,
        bool(row.idle),
        row.throttled is not None,
        row.throttled_ns is not None,
        row.limit_hz is not None,
        row.smi is not None,
    )
    return (
        f'{{"cpu":{row.cpu},"span_ns":{_number(span)},"utilisation":{_number(share)},"busy_ns":{_number(busy)},'
        f'"stolen_ns":{_number(stolen)},"states":[{states}],"idle_ns":{_numbers(row.idle)},'
        f'"busy_ticks":{_number(row.ticks)},"effective_hz":{_number(effective)},"actual_hz":{_number(actual)},'
        f'"unhalted":{_number(unhalted)},"skew_ns":{_number(row.skew)},'
        f'"throttled":{_number(row.throttled)},"throttled_ns":{_number(row.throttled_ns)},'
        f'"limit_hz":{_number(row.limit_hz)},"highest_hz":{_number(row.highest_hz)},"stopped_ns":{_number(row.stopped)},"smi":{_number(row.smi)},'
        f'"quality":{{{_qualities(worth, known)}}},"dropped":{_text(row.dropped)}}}'
    )


@lru_cache(maxsize=4096)
def _state(state: str) -> str:
    """Return the part of a state's JSON that is always the same."""
    return f'{{"state":{_text(state)},"kind":"{kind_of(state).value}","count":'


def _number(value: float | None) -> str:
    return "null" if value is None else repr(value)


def _numbers(values: Mapping[str, int | None]) -> str:
    return f"{{{','.join([f'{_text(name)}:{_number(value)}' for name, value in values.items()])}}}"


@lru_cache(maxsize=4096)
def _text(text: str | None) -> str:
    """Return JSON that every parser accepts: surrogates, and bytes that were not text, are written as escapes."""
    return "null" if text is None else json.dumps(text.encode("utf-8", "backslashreplace").decode("utf-8"))
