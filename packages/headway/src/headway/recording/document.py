"""``recording.json``: what was recorded, and what is needed to make a ledger of the rows.

The file may come from anywhere, so every value is checked before it is used. Unknown fields are ignored, because a
later version may have more.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from headway._version import __version__
from headway.errors import HeadwayError
from headway.model import Counted, Ledger, Overhead, Precision, Quality, Window
from headway.text import valid
from headway.values import (
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

from .clock import Anchor
from .format import NAME, SCHEMA, VERSION

__all__ = ["MAX_BYTES", "Document", "parse"]

MAX_BYTES = 8 << 20
"""The largest size of a document, in bytes."""
_LONGEST = 100_000
"""The largest number of characters of a text."""


@dataclass(frozen=True, slots=True)
class Document:
    """The content of ``recording.json``."""

    ledger: Ledger
    """The ledger without threads and processors: source, window (its end equals its start until the recording is
    closed), units, precision, reasons, losses, overhead, and what was counted.
    """
    closed: bool = False
    host: str = ""
    """The host name of the machine."""
    boot: str = ""
    """The boot id (/proc/sys/kernel/random/boot_id). CLOCK_MONOTONIC is comparable within one boot."""
    command: tuple[str, ...] | None = None
    exit_status: int | None = None
    program: str = ""
    """The digest of the machine's program, as its traces have it (`headway_trace.threads.container`); else empty."""
    parts: int | None = None
    """The number of parts written, dropped ones included; None: the recording was not closed."""
    limited: bool = False
    """Whether the recording has a limit, so that its first parts may be dropped."""
    dropped_parts: int = 0
    """The number of parts at the beginning that were dropped to stay within the limits."""
    complete_from: int | None = None
    """The time from which on everything is there; None: from the window's start."""
    event: str = ""
    """Why a flight recorder kept it, in words; empty: it was not kept because of an event."""
    anchors: tuple[Anchor, ...] = ()
    headway: str = __version__
    settings: Mapping[str, Any] = field(default_factory=dict)
    """The options of the recording, for people: plain values by name."""
    locks: Mapping[tuple[int, int], str] = field(default_factory=dict)
    """The names of locks by process and address, as far as they were found while the process lived."""

    def text(self) -> str:
        """Return the document as JSON text."""
        ledger, window = self.ledger, self.ledger.window
        return json.dumps(
            {
                "schema": SCHEMA,
                "state": "closed" if self.closed else "open",
                "host": valid(self.host),
                "boot": valid(self.boot),
                "headway": self.headway,
                "source": ledger.source,
                "unit": ledger.unit,
                "time_unit": ledger.time_unit,
                "command": None if self.command is None else [valid(word) for word in self.command],
                "exit_status": self.exit_status,
                "program": valid(self.program) or None,
                "window": {"start": window.start, "end": window.end if self.closed else None},
                "parts": self.parts,
                "limited": self.limited,
                "dropped_parts": self.dropped_parts,
                "complete_from": self.complete_from,
                "event": valid(self.event) or None,
                "anchors": [
                    {"monotonic": a.monotonic, "realtime": a.realtime, "uncertainty": a.uncertainty}
                    for a in self.anchors
                ],
                "precision": {f.name: getattr(ledger.precision, f.name).value for f in fields(Precision)},
                "reasons": {valid(name): valid(reason) for name, reason in ledger.reasons.items()},
                "losses": {valid(name): count for name, count in ledger.losses.items()},
                "overhead": {
                    "time": ledger.overhead.time,
                    "events": ledger.overhead.events,
                    "range": ledger.overhead.range,
                    "own": ledger.overhead.own,
                    "others": ledger.overhead.others,
                },
                "counted": {valid(n): {"enabled": c.enabled, "running": c.running} for n, c in ledger.counted.items()},
                "events": [valid(name) for name in ledger.events],
                "settings": dict(self.settings),
                "locks": [
                    {"pid": pid, "address": address, "name": valid(name)} for (pid, address), name in self.locks.items()
                ],
            },
            indent=1,
            allow_nan=False,
        )


def parse(data: bytes, path: str | os.PathLike[str]) -> Document:
    """Return the document. ``path`` is the recording's, for errors. Raises HeadwayError that says what is wrong."""
    where = ascii(os.fspath(path))
    try:
        found = table(json.loads(data, parse_constant=no_number), "the document")
        _check_version(found.get("schema"), where)
        return _document(found)
    except (ValueError, RecursionError) as error:
        why = str(error) if isinstance(error, WrongValueError) else f"it is not JSON ({shown(str(error))})"
        raise HeadwayError(
            f"recording.json in {where} cannot be used: {why}: give what headway record has written"
        ) from None


def _check_version(schema: object, where: str) -> None:
    match = re.fullmatch(rf"{re.escape(NAME)}/([0-9]{{1,9}})", schema) if isinstance(schema, str) else None
    if match is None or int(match[1]) < 1:
        raise WrongValueError(f"its schema is {shown(schema)}, not {SCHEMA}")
    if int(match[1]) > VERSION:
        raise HeadwayError(
            f"{where} is a recording of version {int(match[1])}, and this headway ({__version__}) reads up to "
            f"{VERSION}: use a newer headway"
        )


def _document(found: Mapping[str, Any]) -> Document:
    state = text(found, "state", _LONGEST)
    if state not in ("open", "closed"):
        raise WrongValueError(f"state is {shown(state)}")
    closed = state == "closed"
    command = found.get("command")
    settings = table(found.get("settings", {}), "settings")
    return Document(
        ledger=_ledger(found, closed),
        closed=closed,
        host=text(found, "host", _LONGEST),
        boot=text(found, "boot", _LONGEST),
        command=None if command is None else _texts(found, "command"),
        exit_status=optional(found, "exit_status", -(1 << 31)),
        program="" if found.get("program") is None else text(found, "program", _LONGEST),
        parts=optional(found, "parts", 0),
        limited=found.get("limited") is True,
        dropped_parts=optional(found, "dropped_parts", 0) or 0,
        complete_from=optional(found, "complete_from", 0),
        event="" if found.get("event") is None else text(found, "event", _LONGEST),
        anchors=tuple(_anchor(table(item, "an anchor")) for item in items({"anchors": [], **found}, "anchors")),
        headway=text({"headway": "", **found}, "headway", _LONGEST),
        settings=settings,
        locks=dict(_lock(table(item, "a lock")) for item in items({"locks": [], **found}, "locks")),
    )


def _ledger(found: Mapping[str, Any], closed: bool) -> Ledger:
    units = {name: text(found, name, _LONGEST) for name in ("unit", "time_unit")}
    if not set(units.values()) <= {"ns", "cycles"}:
        raise WrongValueError(f"unit is {shown(units['unit'])}, time_unit {shown(units['time_unit'])}")
    times = table(found.get("window"), "window")
    start = integer(times, "start", 0)
    end = integer(times, "end", start) if closed else start
    cost = table(found.get("overhead", {}), "overhead")
    reasons = table(found.get("reasons", {}), "reasons")
    return Ledger(
        source=text(found, "source", _LONGEST),
        window=Window(start, end),
        precision=_precision(table(found.get("precision", {}), "precision")),
        reasons={name: text(reasons, name, _LONGEST) for name in reasons},
        losses=integers({"losses": {}, **found}, "losses"),
        overhead=Overhead(
            optional(cost, "time", 0),
            optional(cost, "events", 0),
            overhead_range(cost),
            optional(cost, "own", 0),
            optional(cost, "others", 0),
        ),
        unit=units["unit"],
        time_unit=units["time_unit"],
        counted={
            name: _counted(table(item, "counted")) for name, item in table(found.get("counted", {}), "counted").items()
        },
        events=_texts({"events": [], **found}, "events"),
    )


def _precision(found: Mapping[str, Any]) -> Precision:
    words = {quality.value: quality for quality in Quality}
    given = {}
    for name in (f.name for f in fields(Precision)):
        if name in found:
            word = text(found, name, _LONGEST)
            if word not in words:
                raise WrongValueError(f"the precision of {name} is {shown(word)}")
            given[name] = words[word]
    return Precision(**given)


def _counted(found: Mapping[str, Any]) -> Counted:
    enabled = integer(found, "enabled", 0)
    return Counted(enabled, integer(found, "running", 0))


def _anchor(found: Mapping[str, Any]) -> Anchor:
    return Anchor(integer(found, "monotonic", 0), integer(found, "realtime", 0), integer(found, "uncertainty", 0))


def _lock(found: Mapping[str, Any]) -> tuple[tuple[int, int], str]:
    return (integer(found, "pid", 0), integer(found, "address", 0)), text(found, "name", _LONGEST)


def _texts(found: Mapping[str, Any], name: str) -> tuple[str, ...]:
    return tuple(text({name: item}, name, _LONGEST) for item in items(found, name))
