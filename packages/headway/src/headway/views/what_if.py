"""Predictions as a table, as rows, and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TextIO

from headway.replay.predict import GENERAL, MAX_ERROR, Model, Prediction
from headway.replay.units import UnitPrediction
from headway.text import valid

from .figures import with_unit
from .printable import clean, fit_name, wrap
from .rows import Cell, write_rows

__all__ = ["COLUMNS", "document_of_predictions", "prediction_rows", "write_predictions"]

SCHEMA = "headway.what-if/1"
COLUMNS = ("change", "low", "high", "least_gain", "most_gain")
_WIDTH = 80
_TITLE = 17
"""The largest width of the name of a task."""
_PER = {"ns": "per second", "cycles": "per million cycles"}
_UNKNOWN = "–"
_TOO_FAR_OFF = (
    f"{_UNKNOWN}: replayed without a change, these tasks are more than 10 % off: the recording lacks something that "
    "decided when threads ran"
)
_NOT_MODELLED = "not modelled: new waits, other work beside, caches, and rates of processors that change with load"


def _changes(one: Prediction) -> str:
    return ", ".join(str(change) for change in one.changes)


def prediction_rows(found: Iterable[Prediction]) -> Iterator[tuple[Cell, ...]]:
    """Yield the predictions as rows of `COLUMNS`: wall times, and gains as shares of the recorded wall time."""
    for one in found:
        least, most = one.gain
        yield _changes(one), one.low, one.high, round(least, 6), round(most, 6)


def document_of_predictions(found: Sequence[Prediction], model: Model, recording: str) -> dict[str, Any]:
    """Return the document ``headway.what-if/1``."""
    thread = model.graph.rows.threads[model.graph.end.thread]
    return {
        "schema": SCHEMA,
        "recording": valid(recording),
        "time_unit": model.graph.rows.time_unit,
        "thread": {"tid": thread.tid, "pid": thread.pid, "name": valid(thread.name)},
        "processors": model.graph.processors,
        "recorded": model.recorded,
        "replayed": model.replayed,
        "error": model.error,
        "predictions": [
            {
                "changes": [valid(str(change)) for change in one.changes],
                "low": one.low,
                "high": one.high,
                "least_gain": one.gain[0],
                "most_gain": one.gain[1],
                "assumptions": list(one.assumptions),
                "notes": list(one.notes),
                "units": [_unit(unit) for unit in one.units],
            }
            for one in found
        ],
        "assumptions": list(GENERAL),
        "notes": _notes(model),
    }


def _unit(one: UnitPrediction) -> dict[str, Any]:
    """Return what becomes of units of work, for the document."""
    ends = {"recorded": one.recorded, "low": one.low, "high": one.high}

    def figure(name: str) -> dict[str, float | None]:
        return {end: None if of is None else getattr(of, name) for end, of in ends.items()}

    return {
        "title": valid(one.title) if one.title else None,
        "count": one.count,
        "error": one.error,
        **{name: figure(name) for name in ("mean", "p99", "rate")},
    }


def _notes(model: Model) -> list[str]:
    """Return what is to be known about the model, in words."""
    rows, wakeups = model.graph.rows, model.graph.wakeups
    found = [f"{count:,} {what}" for what, count in rows.dropped.items()]
    if abs(model.error) > MAX_ERROR:
        found.append(
            f"the unchanged replay is {abs(model.error):.0%} off: the recording lacks something that decided when "
            "threads ran, and every range is that much wider"
        )
    if wakeups.asleep:
        found.append(
            f"{wakeups.asleep:,} waits were ended by a thread that was asleep: they count as ended from outside"
        )
    if wakeups.inferred:
        found.append(f"{wakeups.inferred:,} wake-ups came over the loopback device, from the thread that sent")
    if model.given_up:
        found.append(f"{model.given_up:,} waits of the unchanged replay were given up: nothing ended them")
    return found


def write_predictions(
    stream: TextIO, found: Sequence[Prediction], model: Model, *, ranked: bool, verbose: bool
) -> None:
    """Write the table. ``ranked``: the changes were chosen by headway; ``verbose``: list all assumptions."""
    rows = model.graph.rows
    unit = rows.time_unit
    if model.whole and found and all(one.units for one in found):
        _write_units(stream, found, model, ranked=ranked)
        _write_grounds(stream, found, model, verbose=verbose)
        return
    thread = rows.threads[model.graph.end.thread]
    many = "" if model.graph.processors == 1 else "s"
    title = (
        f"{clean(thread.name)} {thread.tid} took {with_unit(model.recorded, unit, 7, ' ')} on "
        f"{model.graph.processors} processor{many}; replayed without a change it takes "
        f"{with_unit(model.replayed, unit, 7, ' ')} ({model.error:+.2%})"
    )
    stream.write("\n".join(wrap(title, _WIDTH)) + "\n\n")
    if not found:
        stream.write("nothing on the critical path is worth a change\n")
        return
    table: list[tuple[Cell, ...]] = []
    for one in found:
        low, high = (with_unit(time, unit, 7, " ") for time in (one.low, one.high))
        least, most = one.gain
        table.append((_changes(one), _range(low, high), _gains(least, most)))
    first = "what is worth it" if ranked else "what if"
    write_rows(stream, (first, "it would take", "gain"), table, "table", width=_WIDTH)
    if not ranked and found[0].units:
        stream.write("\n")
        _write_titles(stream, found[0].units, unit)
    _write_grounds(stream, found, model, verbose=verbose)


def _write_units(stream: TextIO, found: Sequence[Prediction], model: Model, *, ranked: bool) -> None:
    """Write what becomes of the units of work, where the run has no end of its own."""
    unit, every = model.graph.rows.time_unit, found[0].units[0]
    many = "" if model.graph.processors == 1 else "s"
    title = (
        f"{every.count:,} tasks on {model.graph.processors} processor{many}: each took "
        f"{_length(every.recorded.mean, unit)}, 99 % up to {_length(every.recorded.p99, unit)}, "
        f"{_rate(every.recorded.rate, unit)} {_PER[unit]}; replayed without a change they take {every.error:+.2%}"
    )
    stream.write("\n".join(wrap(title, _WIDTH)) + "\n\n")
    first = "what is worth it" if ranked else "what if"
    heads = (first, "each would take", "gain", _PER[unit])
    table = [(_changes(one), *_of_units(one.units[0], unit)) for one in found]
    write_rows(stream, heads, table, "table", width=_WIDTH)
    if any(each.low is None for one in found for each in one.units):
        stream.write("\n" + "\n".join(wrap(_TOO_FAR_OFF, _WIDTH)) + "\n")
    if not ranked:
        stream.write("\n")
        _write_titles(stream, found[0].units, unit)


def _of_units(one: UnitPrediction, unit: str) -> tuple[Cell, ...]:
    """Return how long units would take, the gain, and how many there would be."""
    if one.low is None or one.high is None:
        return _UNKNOWN, _UNKNOWN, _UNKNOWN
    rates = _short_range(_rate(one.low.rate, unit), _rate(one.high.rate, unit))
    return _lengths(one.low.mean, one.high.mean, unit), _gains(*one.gain), rates


def _write_titles(stream: TextIO, units: Sequence[UnitPrediction], unit: str) -> None:
    """Write the table of units by title. Those of which the unchanged replay is too far off have no prediction."""
    table: list[tuple[Cell, ...]] = []
    for one in units[1:]:
        would, gain, _ = _of_units(one, unit)
        p99 = _UNKNOWN
        if one.low is not None and one.high is not None:
            p99 = _lengths(one.low.p99, one.high.p99, unit)
        title = fit_name(clean(one.title), _TITLE).rstrip()
        table.append((title, one.count, _length(one.recorded.mean, unit), would, p99, gain))
    write_rows(stream, ("task", "count", "took", "would take", "99 % up to", "gain"), table, "table", width=_WIDTH)


def _length(value: float, unit: str) -> str:
    return with_unit(round(value), unit, 7, " ")


def _lengths(low: float, high: float, unit: str) -> str:
    return _short_range(_length(low, unit), _length(high, unit))


def _short_range(low: str, high: str) -> str:
    """Return a range in words. The unit stands once where it is that of both."""
    number, _, unit = low.partition(" ")
    return _range(number if unit and high.endswith(f" {unit}") and low != high else low, high)


def _rate(value: float, unit: str) -> str:
    """Return how many units there are in a second, or in a million cycles."""
    number = value * (1e9 if unit == "ns" else 1e6)
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def _write_grounds(stream: TextIO, found: Sequence[Prediction], model: Model, *, verbose: bool) -> None:
    """Write what the ranges rest on, and what is to be known."""
    lines = [*GENERAL, *dict.fromkeys(text for one in found for text in one.assumptions)]
    if verbose:
        stream.write("\nthe ranges rest on this\n")
        _list(stream, lines)
    else:
        stream.write("\n" + "\n".join(wrap(f"{_NOT_MODELLED} (-v: all {len(lines)} assumptions)", _WIDTH)) + "\n")
    notes = [*_notes(model)]
    for one in found:
        notes += [f"{_changes(one)}: {note}" if len(found) > 1 else note for note in one.notes]
    if notes:
        stream.write("\nto be known\n")
        _list(stream, notes)


def _range(low: str, high: str) -> str:
    """Return a range in words; one value where it has no width that can be seen."""
    return low if low == high else f"{low} to {high}"


def _gains(least: float, most: float) -> str:
    """Return a range of gains. Where none of it is above 0, nothing is gained."""
    return "nothing" if _gain(most).startswith(("0 %", "-")) else _range(_gain(least), _gain(most))


def _gain(share: float) -> str:
    text = f"{share * 100:.0f} %"
    return "0 %" if text == "-0 %" else text


def _list(stream: TextIO, lines: Iterable[str]) -> None:
    for line in lines:
        first, *rest = wrap(clean(line), _WIDTH - 2)
        stream.write(f"- {first}\n" + "".join(f"  {more}\n" for more in rest))
