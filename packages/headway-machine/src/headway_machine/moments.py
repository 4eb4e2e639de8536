"""A moment of a debugged program in a file: how to come back to it, and how to know that it is the same.

The machine does the same each time. So a moment is what was done to the program from outside, each at its place, and
the place itself. Whoever restores it runs the program there again, and compares the digest of everything. The file is
small, and nothing in it is believed: it can lead to another moment of the program, and to nothing else.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from headway.errors import HeadwayError
from headway.files import open_regular

from .fields import shown

__all__ = ["SCHEMA", "Deed", "Moment", "Place", "read_moment", "write_moment"]

SCHEMA = "headway.machine.moment/1"
MAX_BYTES = 1 << 28
"""The largest file that is read."""
_LATEST = 1 << 62
_SORTS = ("tick", "turn", "end")
_WHAT = ("set_register", "write", "hold", "release")

Sort = Literal["tick", "turn", "end"]


@dataclass(frozen=True, slots=True)
class Place:
    """A place between two instructions."""

    sort: Sort
    """"tick": that tick is reached. "turn": before a turn of a hart. "end": nothing can go on."""
    cycle: int
    """Ticks since reset."""
    hart: int = 0
    turn: int = 0
    """The number of the hart's turn: the instructions that it has executed, and the traps that it has entered."""


@dataclass(frozen=True, slots=True)
class Deed:
    """What was done to the program from outside."""

    at: Place
    what: str
    """The name of a method of `headway_machine.debugging.DebugSession`: one of set_register, write, hold, release."""
    hart: int
    """The hart, or for "write" the address."""
    register: str = ""
    value: int = 0
    data: bytes = b""


@dataclass(frozen=True, slots=True)
class Moment:
    """A moment as a file has it."""

    config: str
    """Hash of the configuration."""
    program: str
    """Hash of the program's segments."""
    arguments: Sequence[str]
    deeds: Sequence[Deed]
    heard: Sequence[bytes]
    """What the program read from its input, read by read."""
    at: Place
    digest: str
    """Of everything, as `headway_machine.run.Result.digest`."""


def write_moment(path: str | os.PathLike[str], moment: Moment) -> None:
    """Write a moment to a file. A file that exists is replaced when the new one is complete. Raises HeadwayError."""
    text = json.dumps(
        {
            "schema": SCHEMA,
            "config": moment.config,
            "program": moment.program,
            "arguments": list(moment.arguments),
            "deeds": [
                [_place(d.at), d.what, d.hart, d.register, d.value, base64.b64encode(d.data).decode()]
                for d in moment.deeds
            ],
            "input": [base64.b64encode(data).decode() for data in moment.heard],
            "at": _place(moment.at),
            "digest": moment.digest,
        }
    )
    whole = os.fspath(path)
    beside = f"{whole}.{os.getpid()}.new"
    try:
        with open(beside, "w", encoding="ascii") as stream:
            stream.write(text)
        os.replace(beside, whole)
    except (OSError, ValueError) as error:
        if os.path.exists(beside):
            os.unlink(beside)
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise HeadwayError(f"{shown(whole)} cannot be written ({why})") from None


def read_moment(path: str | os.PathLike[str]) -> Moment:
    """Return the moment of a file. Raises HeadwayError if it is not one."""
    name = shown(os.fspath(path))
    try:
        with open_regular(path) as stream:
            data = stream.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise HeadwayError(f"{name} cannot be read ({why})") from None
    if len(data) > MAX_BYTES:
        raise HeadwayError(f"{name} has more than {MAX_BYTES >> 20} MiB: it is no saved moment")
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        raise HeadwayError(f"{name} is no saved moment of the machine") from None
    schema = found.get("schema") if isinstance(found, dict) else None
    if schema != SCHEMA:
        if isinstance(schema, str) and schema.startswith(SCHEMA.partition("/")[0] + "/"):
            raise HeadwayError(f"{name} was saved by another version of headway ({shown(schema)}; this one: {SCHEMA})")
        raise HeadwayError(f"{name} is no saved moment of the machine")
    try:
        return _parsed(found)
    except (KeyError, TypeError, ValueError, binascii.Error):
        raise HeadwayError(f"{name} is damaged: save the moment again") from None


def _place(place: Place) -> list[object]:
    return [place.sort, place.cycle, place.hart, place.turn]


def _parsed(found: Mapping[str, Any]) -> Moment:
    """Return the moment. Raises KeyError, TypeError or ValueError."""
    deeds = []
    for at, what, hart, register, value, data in found["deeds"]:
        if what not in _WHAT:
            raise ValueError(what)
        deed = Deed(_placed(at), what, _whole(hart), _text(register), _whole(value), _bytes(data))
        deeds.append(deed)
    at = _placed(found["at"])
    ticks = [deed.at.cycle for deed in deeds] + [at.cycle]
    if ticks != sorted(ticks):
        raise ValueError("not in order")
    return Moment(
        config=_text(found["config"]),
        program=_text(found["program"]),
        arguments=[_text(word) for word in found["arguments"]],
        deeds=deeds,
        heard=[_bytes(data) for data in found["input"]],
        at=at,
        digest=_text(found["digest"]),
    )


def _placed(value: Any) -> Place:
    sort, cycle, hart, turn = value
    if sort not in _SORTS:
        raise ValueError(sort)
    return Place(cast(Sort, sort), _whole(cycle), _whole(hart), _whole(turn))


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < _LATEST:
        raise ValueError(value)
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value


def _bytes(value: Any) -> bytes:
    return base64.b64decode(_text(value), validate=True)
