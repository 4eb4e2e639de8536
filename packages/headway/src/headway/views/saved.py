"""Reading a saved document of ``headway stat --json`` as a ledger.

The file may come from anywhere: every value is checked before it is used, and a document that breaks the laws of a
ledger is refused. Unknown fields are ignored, because a later version may have more.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import reduce
from io import StringIO, TextIOWrapper
from typing import Any, TextIO

from headway.errors import HeadwayError
from headway.files import open_regular
from headway.model import (
    Behind,
    Cause,
    Cell,
    Counted,
    Durations,
    Estimate,
    KernelClock,
    Ledger,
    Overhead,
    Precision,
    Processor,
    Quality,
    Thread,
    Window,
    merge,
    processor_time,
    time_with_causes,
    undivided_time,
    violations,
)
from headway.values import (
    LARGEST,
    WrongValueError,
    integer,
    integers,
    items,
    no_number,
    optional,
    overhead_range,
    shown,
    table,
    text,
)

from .durations import read_durations
from .json import SCHEMA

__all__ = ["from_documents", "ledgers_of", "read_ledgers"]

_LONGEST_PATH = 4096
"""Of the path of a control group (PATH_MAX)."""
_LONGEST = 100_000
"""The largest number of characters of a name. Thread names have up to 15, but names of marks are the program's own."""
_SOURCES = {"bpf", "proc", "machine", "recording"}
_MAX_CHARACTERS = 256 << 20
"""Characters of a file."""


def read_ledgers(file: str) -> list[Ledger]:
    """Return the ledgers in a file that ``headway stat --json`` has written, in the order of time, one at least.

    ``file``: its path; ``-``: standard input. Raises HeadwayError.
    """
    try:
        if file == "-":
            return ledgers_of(_lines(sys.stdin, "standard input"), "standard input")
        with TextIOWrapper(open_regular(file), encoding="utf-8") as stream:
            return ledgers_of(_lines(stream, file), file)
    except UnicodeDecodeError as error:
        raise HeadwayError(
            f"{file} is no text in UTF-8 (byte {error.start}): give what headway stat --json has written"
        ) from None
    except OSError as error:
        raise HeadwayError(
            f"{file} cannot be read ({error.strerror}): give a file that headway stat --json has written"
        ) from None


def _lines(stream: TextIO, name: str) -> list[str]:
    text = stream.read(_MAX_CHARACTERS + 1)
    if len(text) > _MAX_CHARACTERS:
        raise HeadwayError(
            f"{name} has more than {_MAX_CHARACTERS >> 20} MiB: give what headway stat --json has written"
        )
    return list(StringIO(text))


def from_documents(lines: Iterable[str], name: str) -> Ledger:
    """Return one ledger of all documents in ``lines``; see `ledgers_of`."""
    return reduce(merge, ledgers_of(lines, name))


def ledgers_of(lines: Iterable[str], name: str) -> list[Ledger]:
    """Return the ledgers of the documents in ``lines``, in the order of time; at least one.

    There is one document a line, or one in all lines. ``name`` is that of the file, for errors. Raises HeadwayError
    with the line and what is wrong with it.
    """
    ledgers: list[Ledger] = []
    births: dict[tuple[int, int], int] = {}
    for number, document in _documents(list(lines), name):
        try:
            ledger = _ledger(document)
            if ledgers and (ledger.window.start < ledgers[-1].window.end or ledger.unit != ledgers[-1].unit):
                raise WrongValueError("it does not follow the one before: their times overlap, or their units differ")
            ledgers.append(_same_threads(ledger, births))
        except (WrongValueError, RecursionError) as error:
            raise HeadwayError(f"{name}, line {number}: {error}: give what headway stat --json has written") from None
    return ledgers


def _documents(lines: list[str], name: str) -> Iterable[tuple[int, Any]]:
    text = "".join(lines)
    if not text.strip():
        raise HeadwayError(f"{name} is empty: give what headway stat --json has written")
    try:
        yield 1, json.loads(text, parse_constant=no_number)
        return
    except (ValueError, RecursionError) as error:
        if len(lines) == 1:
            raise HeadwayError(f"{name} is not JSON ({error}): give what headway stat --json has written") from None
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            found = json.loads(line, parse_constant=no_number)
        except (ValueError, RecursionError) as error:
            raise HeadwayError(
                f"{name}, line {number} is not JSON ({error}): give what headway stat --json has written"
            ) from None
        yield number, found


def _same_threads(ledger: Ledger, births: dict[tuple[int, int], int]) -> Ledger:
    """Give a thread that outlived the last window its old birth. With ``-I`` threads start anew in each document."""
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
    document = table(found, "the document")
    schema = document.get("schema")
    if schema != SCHEMA:
        raise WrongValueError(f"its schema is {shown(schema)}, not {SCHEMA}")
    source = text(document, "source", 60)
    if not set(source.split("+")) <= _SOURCES:
        raise WrongValueError(f"source is {shown(source)}")
    units = {name: text(document, name, 10) for name in ("unit", "time_unit")}
    if not set(units.values()) <= {"ns", "cycles"}:
        raise WrongValueError(f"unit is {shown(units['unit'])}, time_unit {shown(units['time_unit'])}")
    times = table(document.get("window"), "window")
    window = Window(integer(times, "start", -LARGEST), integer(times, "end", -LARGEST))
    rows = [table(row, "a thread") for row in items(document, "threads")]
    cost = table(document.get("overhead"), "overhead")
    threads = tuple(_thread(row, window) for row in rows)
    ledger = Ledger(
        source=source,
        window=window,
        threads=threads,
        processors=tuple(_processor(table(row, "a processor")) for row in items(document, "processors")),
        precision=_precision(rows, threads),
        losses=integers(document, "losses"),
        overhead=Overhead(
            optional(cost, "time"),
            optional(cost, "events"),
            overhead_range(cost),
            optional(cost, "own"),
            optional(cost, "others"),
        ),
        counted=_counted(document),
        events=_events(rows),
        unit=units["unit"],
        time_unit=units["time_unit"],
    )
    if len({t.key for t in ledger.threads}) < len(ledger.threads):
        raise WrongValueError("a thread is in it twice")
    if len({p.cpu for p in ledger.processors}) < len(ledger.processors):
        raise WrongValueError("a processor is in it twice")
    broken = violations(ledger)
    if broken:
        raise WrongValueError(f"its figures do not add up ({shown(broken[0])})")
    return ledger


def _thread(row: Mapping[str, Any], window: Window) -> Thread:
    start, end, states = integer(row, "start", -LARGEST), row.get("end"), _states(row)
    if end is not None:
        end = integer(row, "end", -LARGEST)
    return Thread(
        tid=integer(row, "tid", 1),
        pid=integer(row, "pid", 0),
        name=text(row, "name", _LONGEST),
        birth=start,
        start=start,
        end=end,
        until=window.end if end is None else end,
        span=sum(cell.time for cell in states.values()),
        states=states,
        causes=tuple(_cause(table(item, "a cause"), states) for item in items({"causes": [], **row}, "causes")),
        kernel_clock=_clock(table(row["kernel_clock"], "kernel_clock")) if "kernel_clock" in row else None,
        sampled=_sampled(row),
        durations=_durations(row),
        cgroup=text(row, "cgroup", _LONGEST_PATH) if "cgroup" in row else None,
    )


def _durations(row: Mapping[str, Any]) -> dict[str, Durations] | None:
    """Return the durations of a thread; None if none of its states says anything about them."""
    given = {state["state"]: state["durations"] for state in items(row, "states") if "durations" in state}
    found = {state: durations for state, one in given.items() if (durations := read_durations(one)) is not None}
    return found if given else None


def _sampled(row: Mapping[str, Any]) -> dict[str, Estimate]:
    """Return the parts that were divided by samples and by mode; `violations` compares them with the states' times."""
    found = {}
    for item in items(row, "states"):
        state = {"sampled": 0, "samples": 0, "by_mode": 0, "mode_samples": 0, **item}
        estimate = Estimate(*[integer(state, name, 0) for name in ("sampled", "samples", "by_mode", "mode_samples")])
        if estimate != Estimate():
            found[item["state"]] = estimate
    return found


def _clock(row: Mapping[str, Any]) -> KernelClock:
    quality = text(row, "quality", 20)
    if quality not in {one.value for one in Quality}:
        raise WrongValueError(f"quality is {shown(quality)}")
    time = None if row.get("time") is None else integer(row, "time", 0)
    if (time is None) != (quality == Quality.UNAVAILABLE.value):
        raise WrongValueError("a kernel_clock is unavailable if it has no time, and only then")
    return KernelClock(time, Quality(quality))


def _cause(row: Mapping[str, Any], states: Mapping[str, Cell]) -> Cause:
    state, behind = text(row, "state", _LONGEST), text(row, "behind", 10)
    if behind not in {kind.value for kind in Behind}:
        raise WrongValueError(f"behind is {shown(behind)}")
    cause = Cause(
        state=state,
        behind=Behind(behind),
        name=text(row, "name", _LONGEST),
        time=integer(row, "time", 0),
        count=integer(row, "count", 0),
        tid=None if row.get("tid") is None else integer(row, "tid", 1),
        pid=None if row.get("pid") is None else integer(row, "pid", 0),
        cgroup=text(row, "cgroup", _LONGEST_PATH) if "cgroup" in row else None,
    )
    if cause.time > time_with_causes(states, state):
        raise WrongValueError(f"a cause has more time than {shown(state)}, the state it is behind")
    return cause


def _processor(row: Mapping[str, Any]) -> Processor:
    states = _states(row)
    return Processor(integer(row, "cpu", 0), sum(cell.time for cell in states.values()), states, _sampled(row))


def _states(row: Mapping[str, Any]) -> dict[str, Cell]:
    states: dict[str, Cell] = {}
    for item in items(row, "states"):
        found = table(item, "a state")
        name = text(found, "state", _LONGEST)
        if name in states:
            raise WrongValueError(f"the state {shown(name)} is there twice")
        counted = {key: optional(found, key) for key in _COUNTED}
        events = None
        if "events" in found:
            given = table(found["events"], "events")
            events = {event: number for event in given if (number := optional(given, event)) is not None}
        states[name] = Cell(integer(found, "time", 0), optional(found, "count"), **counted, events=events)
    return states


_COUNTED = ("cycles", "instructions", "stall_cycles", "memory_stall_cycles", "external_stall_cycles")
_FINE = 1_000_000
"""The value for 1. The share of time in which an event was counted is written as a number from 0 to 1."""


def _counted(document: Mapping[str, Any]) -> dict[str, Counted]:
    counted = {}
    for name, share in table(document.get("counted", {}), "counted").items():
        if isinstance(share, bool) or not isinstance(share, (int, float)) or not 0 <= share <= 1:
            raise WrongValueError(f"the share of time in which {shown(name)} was counted is {shown(share)}")
        counted[name] = Counted(_FINE, round(share * _FINE))
    return counted


def _events(rows: list[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the events asked for, which every state has."""
    for row in rows:
        for state in items(row, "states"):
            return tuple(table(table(state, "a state").get("events", {}), "events"))
    return ()


def _precision(rows: list[Mapping[str, Any]], threads: Iterable[Thread]) -> Precision:
    """Return the worst precision of the threads, before time was divided by samples or by mode."""
    precision = Precision()
    found = {tuple(_before_samples(row, thread).items()) for row, thread in zip(rows, threads, strict=True)}
    for quality in found:
        rpi, epi, mpi, kpi, iopi = (worth for _, worth in quality)
        # If EPI is not a bound although MPI is not known, all stalls were counted together.
        apart = mpi is Quality.UNAVAILABLE and epi not in (Quality.BOUND, Quality.UNAVAILABLE)
        precision |= Precision(rpi, epi, mpi, kpi, iopi, stall=epi if apart else None)
    return precision


def _before_samples(row: Mapping[str, Any], thread: Thread) -> dict[str, Quality]:
    """Return the qualities of the indices as they were before samples or cycles divided a part of them.

    What these changed follows from them again (`headway.model.Amounts.worth`). Where they hide what it was, it makes no
    difference to this thread.
    """
    found = {index: Quality(word) for index, word in _qualities(row).items()}
    sampled = sum([estimate.time for estimate in thread.sampled.values()])
    by_mode = sum([estimate.by_mode for estimate in thread.sampled.values()])
    undivided = undivided_time(thread.states)
    if not sampled and not by_mode and not undivided:
        return found
    shares = table(row.get("exact_share", {}), "exact_share")
    for index in ("epi", "mpi", "kpi", "iopi"):
        made = (Quality.BY_MODE, Quality.SAMPLED, *((Quality.PARTIAL,) if index == "iopi" else ()))
        if found[index] in made:
            hidden = sampled or index == "iopi"
            unknown = Quality.BY_MODE if hidden else found[index]
            found[index] = Quality.EXACT if shares.get(index) is not None else unknown
    if found["epi"] is Quality.BOUND and undivided:
        found["epi"] = Quality.EXACT
    if undivided and (not sampled or table(row.get("interval", {}), "interval").get("kpi") is not None):
        found["kpi"] = Quality.EXACT
    if sampled + by_mode + undivided >= processor_time(thread.times()):
        found["iopi"] = Quality.EXACT
    return found


def _qualities(row: Mapping[str, Any]) -> dict[str, str]:
    found = table(row.get("quality"), "quality")
    words = {quality.value for quality in Quality}
    for index in ("rpi", "epi", "mpi", "kpi", "iopi"):
        if not isinstance(found.get(index), str) or found[index] not in words:
            raise WrongValueError(f"the quality of {index} is {shown(found.get(index))}")
    return {index: found[index] for index in ("rpi", "epi", "mpi", "kpi", "iopi")}
