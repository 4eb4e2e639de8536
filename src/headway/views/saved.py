"""A saved document of ``headway stat --json`` as a ledger again.

The file may come from anywhere: every value is checked before it is used, and what does not keep the laws of a ledger
is refused. Fields that are not known are passed over; a later version may have more.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import reduce
from typing import Any, NoReturn

from headway.errors import HeadwayError
from headway.model import (
    Behind,
    Cause,
    Cell,
    Counted,
    Ledger,
    Overhead,
    Precision,
    Processor,
    Quality,
    Thread,
    Window,
    merge,
    violations,
)

from .json import SCHEMA

__all__ = ["from_documents"]

_LARGEST = 1 << 63
_LONGEST = 100_000
"""Characters of a name; the kernel's have 15, those of marks are the program's own."""
_SOURCES = {"bpf", "proc", "machine", "recording"}


class _WrongError(ValueError):
    """What is wrong with a document, in a clause."""


def from_documents(lines: Iterable[str], name: str) -> Ledger:
    """One ledger from the documents in ``lines``, one a line or one in all; ``name``: of the file, for errors.

    Raises HeadwayError with the line and what is wrong with it.
    """
    ledgers: list[Ledger] = []
    births: dict[tuple[int, int], int] = {}
    for number, document in _documents(list(lines), name):
        try:
            ledger = _ledger(document)
            if ledgers and (ledger.window.start < ledgers[-1].window.end or ledger.unit != ledgers[-1].unit):
                raise _WrongError("it does not follow the one before it: their times overlap, or their units differ")
            ledgers.append(_same_threads(ledger, births))
        except (_WrongError, RecursionError) as error:
            raise HeadwayError(f"{name}, line {number}: {error}: give what headway stat --json has written") from None
    return reduce(merge, ledgers)


def _documents(lines: list[str], name: str) -> Iterable[tuple[int, Any]]:
    text = "".join(lines)
    if not text.strip():
        raise HeadwayError(f"{name} is empty: give what headway stat --json has written")
    try:
        yield 1, json.loads(text, parse_constant=_no_number)
        return
    except (ValueError, RecursionError) as error:
        if len(lines) == 1:
            raise HeadwayError(f"{name} is no JSON ({error}): give what headway stat --json has written") from None
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            found = json.loads(line, parse_constant=_no_number)
        except (ValueError, RecursionError) as error:
            raise HeadwayError(
                f"{name}, line {number} is no JSON ({error}): give what headway stat --json has written"
            ) from None
        yield number, found


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number of JSON")


def _same_threads(ledger: Ledger, births: dict[tuple[int, int], int]) -> Ledger:
    """With ``-I`` a thread starts anew in each document: the one that outlived the last window is still the same."""
    threads = []
    for thread in ledger.threads:
        key = thread.tid, thread.pid
        birth = births.get(key, thread.birth) if thread.start <= ledger.window.start else thread.birth
        if thread.end is None:
            births[key] = birth
        else:
            births.pop(key, None)
        threads.append(replace(thread, birth=birth))
    return replace(ledger, threads=tuple(threads))


def _ledger(found: object) -> Ledger:
    document = _table(found, "the document")
    schema = document.get("schema")
    if schema != SCHEMA:
        raise _WrongError(f"its schema is {_shown(schema)}, not {SCHEMA}")
    source = _text(document, "source", 60)
    if not set(source.split("+")) <= _SOURCES:
        raise _WrongError(f"source is {_shown(source)}")
    units = {name: _text(document, name, 10) for name in ("unit", "time_unit")}
    if not set(units.values()) <= {"ns", "cycles"}:
        raise _WrongError(f"unit is {_shown(units['unit'])}, time_unit {_shown(units['time_unit'])}")
    times = _table(document.get("window"), "window")
    window = Window(_integer(times, "start", -_LARGEST), _integer(times, "end", -_LARGEST))
    rows = [_table(row, "a thread") for row in _list(document, "threads")]
    cost = _table(document.get("overhead"), "overhead")
    ledger = Ledger(
        source=source,
        window=window,
        threads=tuple(_thread(row, window) for row in rows),
        processors=tuple(_processor(_table(row, "a processor")) for row in _list(document, "processors")),
        precision=_precision(rows),
        losses=_integers(document, "losses"),
        overhead=Overhead(_optional(cost, "time"), _optional(cost, "events")),
        counted=_counted(document),
        events=_events(rows),
        unit=units["unit"],
        time_unit=units["time_unit"],
    )
    if len({t.key for t in ledger.threads}) < len(ledger.threads):
        raise _WrongError("a thread is in it twice")
    if len({p.cpu for p in ledger.processors}) < len(ledger.processors):
        raise _WrongError("a processor is in it twice")
    broken = violations(ledger)
    if broken:
        raise _WrongError(f"its figures do not add up ({_shown(broken[0])})")
    return ledger


def _thread(row: Mapping[str, Any], window: Window) -> Thread:
    start, end, states = _integer(row, "start", -_LARGEST), row.get("end"), _states(row)
    if end is not None:
        end = _integer(row, "end", -_LARGEST)
    return Thread(
        tid=_integer(row, "tid", 1),
        pid=_integer(row, "pid", 0),
        name=_text(row, "name", _LONGEST),
        birth=start,
        start=start,
        end=end,
        until=window.end if end is None else end,
        span=sum(cell.time for cell in states.values()),
        states=states,
        causes=tuple(_cause(_table(item, "a cause"), states) for item in _list({"causes": [], **row}, "causes")),
    )


def _cause(row: Mapping[str, Any], states: Mapping[str, Cell]) -> Cause:
    state, behind = _text(row, "state", _LONGEST), _text(row, "behind", 10)
    if behind not in {kind.value for kind in Behind}:
        raise _WrongError(f"behind is {_shown(behind)}")
    cause = Cause(
        state=state,
        behind=Behind(behind),
        name=_text(row, "name", _LONGEST),
        time=_integer(row, "time", 0),
        count=_integer(row, "count", 0),
        tid=None if row.get("tid") is None else _integer(row, "tid", 1),
    )
    if state not in states or cause.time > states[state].time:
        raise _WrongError(f"a cause has more time than {_shown(state)}, the state it is behind")
    return cause


def _processor(row: Mapping[str, Any]) -> Processor:
    states = _states(row)
    return Processor(_integer(row, "cpu", 0), sum(cell.time for cell in states.values()), states)


def _states(row: Mapping[str, Any]) -> dict[str, Cell]:
    states: dict[str, Cell] = {}
    for item in _list(row, "states"):
        found = _table(item, "a state")
        name = _text(found, "state", _LONGEST)
        if name in states:
            raise _WrongError(f"the state {_shown(name)} is there twice")
        counted = {key: _optional(found, key) for key in _COUNTED}
        events = None
        if "events" in found:
            given = _table(found["events"], "events")
            events = {event: number for event in given if (number := _optional(given, event)) is not None}
        states[name] = Cell(_integer(found, "time", 0), _optional(found, "count"), **counted, events=events)
    return states


_COUNTED = ("cycles", "instructions", "stall_cycles", "memory_stall_cycles", "external_stall_cycles")
_FINE = 1_000_000
"""The share of time in which an event was counted is written as a number from 0 to 1: this is 1."""


def _counted(document: Mapping[str, Any]) -> dict[str, Counted]:
    counted = {}
    for name, share in _table(document.get("counted", {}), "counted").items():
        if isinstance(share, bool) or not isinstance(share, (int, float)) or not 0 <= share <= 1:
            raise _WrongError(f"the share of time in which {_shown(name)} was counted is {_shown(share)}")
        counted[name] = Counted(_FINE, round(share * _FINE))
    return counted


def _events(rows: list[Mapping[str, Any]]) -> tuple[str, ...]:
    """The events asked for: those that every state has."""
    for row in rows:
        for state in _list(row, "states"):
            return tuple(_table(_table(state, "a state").get("events", {}), "events"))
    return ()


def _precision(rows: list[Mapping[str, Any]]) -> Precision:
    """The worst of the threads'."""
    precision = Precision()
    for quality in {tuple(sorted(_qualities(row).items())) for row in rows}:
        by_index = dict(quality)
        rpi, epi, mpi, kpi, iopi = (Quality(by_index[index]) for index in ("rpi", "epi", "mpi", "kpi", "iopi"))
        # Where EPI is no bound although MPI is not known, stalls of every sort were counted together.
        apart = mpi is Quality.UNAVAILABLE and epi not in (Quality.BOUND, Quality.UNAVAILABLE)
        precision |= Precision(rpi, epi, mpi, kpi, iopi, stall=epi if apart else None)
    return precision


def _qualities(row: Mapping[str, Any]) -> dict[str, str]:
    found = _table(row.get("quality"), "quality")
    words = {quality.value for quality in Quality}
    for index in ("rpi", "epi", "mpi", "kpi", "iopi"):
        if not isinstance(found.get(index), str) or found[index] not in words:
            raise _WrongError(f"the quality of {index} is {_shown(found.get(index))}")
    return {index: found[index] for index in ("rpi", "epi", "mpi", "kpi", "iopi")}


def _table(found: object, name: str) -> Mapping[str, Any]:
    if not isinstance(found, dict):
        raise _WrongError(f"{name} is {_shown(found)}")
    return found


def _list(found: Mapping[str, Any], name: str) -> list[Any]:
    value = found.get(name)
    if not isinstance(value, list):
        raise _WrongError(f"{name} is {_shown(value)}")
    return value


def _text(found: Mapping[str, Any], name: str, longest: int) -> str:
    value = found.get(name)
    if not isinstance(value, str) or len(value) > longest:
        raise _WrongError(f"{name} is {_shown(value)}")
    return value


def _integer(found: Mapping[str, Any], name: str, least: int) -> int:
    value = found.get(name)
    if type(value) is not int or not least <= value < _LARGEST:
        raise _WrongError(f"{name} is {_shown(value)}")
    return value


def _optional(found: Mapping[str, Any], name: str) -> int | None:
    return None if found.get(name) is None else _integer(found, name, 0)


def _integers(found: Mapping[str, Any], name: str) -> dict[str, int]:
    table = _table(found.get(name), name)
    return {key: _integer(table, key, 0) for key in table}


def _shown(found: object) -> str:
    text = "missing" if found is None else "a list" if isinstance(found, list) else ascii(found)
    text = "a table" if isinstance(found, dict) else text
    return text if len(text) <= 80 else f"{text[:79]}…"
