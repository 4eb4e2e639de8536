"""Predictions as a table, as rows, and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TextIO

from headway.replay.predict import GENERAL, MAX_ERROR, Model, Prediction
from headway.text import valid

from .figures import with_unit
from .printable import clean, wrap
from .rows import Cell, write_rows

__all__ = ["COLUMNS", "document_of_predictions", "prediction_rows", "write_predictions"]

SCHEMA = "headway.what-if/1"
COLUMNS = ("change", "low", "high", "least_gain", "most_gain")
_WIDTH = 80
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
            }
            for one in found
        ],
        "assumptions": list(GENERAL),
        "notes": _notes(model),
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
