"""A profile in pprof's format: profile.proto of github.com/google/pprof, compressed with gzip.

The two values of a sample are its count and its time in ns. Its labels are the thread, its ids, and the state. The
message types are made from the description below when they are needed.
"""

from __future__ import annotations

import gzip
from collections import Counter
from functools import cache
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from headway.model import Profile
from headway.text import valid

__all__ = ["message_types", "pprof"]

_PACKAGE = "perftools.profiles"
_INT, _UINT, _BOOL, _STRING = "int64", "uint64", "bool", "string"
_MESSAGES: dict[str, list[tuple[str, int, str, bool]]] = {
    "ValueType": [("type", 1, _INT, False), ("unit", 2, _INT, False)],
    "Label": [("key", 1, _INT, False), ("str", 2, _INT, False), ("num", 3, _INT, False), ("num_unit", 4, _INT, False)],
    "Sample": [("location_id", 1, _UINT, True), ("value", 2, _INT, True), ("label", 3, "Label", True)],
    "Mapping": [
        ("id", 1, _UINT, False),
        ("memory_start", 2, _UINT, False),
        ("memory_limit", 3, _UINT, False),
        ("file_offset", 4, _UINT, False),
        ("filename", 5, _INT, False),
        ("build_id", 6, _INT, False),
        ("has_functions", 7, _BOOL, False),
        ("has_filenames", 8, _BOOL, False),
        ("has_line_numbers", 9, _BOOL, False),
        ("has_inline_frames", 10, _BOOL, False),
    ],
    "Line": [("function_id", 1, _UINT, False), ("line", 2, _INT, False)],
    "Location": [
        ("id", 1, _UINT, False),
        ("mapping_id", 2, _UINT, False),
        ("address", 3, _UINT, False),
        ("line", 4, "Line", True),
        ("is_folded", 5, _BOOL, False),
    ],
    "Function": [
        ("id", 1, _UINT, False),
        ("name", 2, _INT, False),
        ("system_name", 3, _INT, False),
        ("filename", 4, _INT, False),
        ("start_line", 5, _INT, False),
    ],
    "Profile": [
        ("sample_type", 1, "ValueType", True),
        ("sample", 2, "Sample", True),
        ("mapping", 3, "Mapping", True),
        ("location", 4, "Location", True),
        ("function", 5, "Function", True),
        ("string_table", 6, _STRING, True),
        ("drop_frames", 7, _INT, False),
        ("keep_frames", 8, _INT, False),
        ("time_nanos", 9, _INT, False),
        ("duration_nanos", 10, _INT, False),
        ("period_type", 11, "ValueType", False),
        ("period", 12, _INT, False),
        ("comment", 13, _INT, True),
        ("default_sample_type", 14, _INT, False),
    ],
}
"""Message -> fields: name, number, type, whether it is repeated."""


@cache
def message_types() -> dict[str, type[Any]]:
    """Return the classes of the messages, by name."""
    field = descriptor_pb2.FieldDescriptorProto
    scalar = {_INT: field.TYPE_INT64, _UINT: field.TYPE_UINT64, _BOOL: field.TYPE_BOOL, _STRING: field.TYPE_STRING}
    file = descriptor_pb2.FileDescriptorProto(name="headway/profile.proto", package=_PACKAGE, syntax="proto3")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for called, number, kind, repeated in fields:
            message.field.add(
                name=called,
                number=number,
                type=scalar.get(kind, field.TYPE_MESSAGE),
                type_name=None if kind in scalar else f".{_PACKAGE}.{kind}",
                label=field.LABEL_REPEATED if repeated else field.LABEL_OPTIONAL,
            )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    found = {name: pool.FindMessageTypeByName(f"{_PACKAGE}.{name}") for name in _MESSAGES}
    return {name: message_factory.GetMessageClass(descriptor) for name, descriptor in found.items()}


class _Texts:
    """The string table: each text once, the empty one first."""

    def __init__(self) -> None:
        self._numbers = {"": 0}

    def __call__(self, text: str) -> int:
        return self._numbers.setdefault(valid(text), len(self._numbers))

    def all(self) -> list[str]:
        return list(self._numbers)


def pprof(profile: Profile, realtime: int | None = None) -> bytes:
    """Return the file's bytes. ``realtime``: ns since 1970 at the window's start, if it is known."""
    message = message_types()["Profile"]()
    text = _Texts()
    timed = profile.ledger.time_unit == "ns"
    time_unit = "nanoseconds" if timed else "cycles"
    for kind, unit in (("samples", "count"), ("time", time_unit)):
        message.sample_type.add(type=text(kind), unit=text(unit))
    message.default_sample_type = text("time")
    message.period_type.type, message.period_type.unit = text("cpu"), text(time_unit)
    message.period = profile.period
    message.time_nanos = realtime or 0
    message.duration_nanos = profile.ledger.window.duration if timed else 0
    _add_locations(message, profile, text)
    rows: dict[tuple[int, str, tuple[int, ...]], list[int]] = {}
    for thread, state, weight, count, stack in profile.rows():
        row = rows.setdefault((thread, state, stack), [0, 0])
        row[0] += count
        row[1] += weight
    for (thread, state, stack), values in rows.items():
        sample = message.sample.add(location_id=[number + 1 for number in stack], value=values)
        sample.label.add(key=text("state"), str=text(state))
        if thread >= 0:
            known = profile.ledger.threads[thread]
            sample.label.add(key=text("thread"), str=text(known.name))
            sample.label.add(key=text("tid"), num=known.tid)
            sample.label.add(key=text("pid"), num=known.pid)
    message.comment.extend(text(note) for note in profile.notes)
    message.string_table.extend(text.all())
    data: bytes = message.SerializeToString(deterministic=True)
    return gzip.compress(data, mtime=0)


def _add_locations(message: Any, profile: Profile, text: _Texts) -> None:
    named: Counter[str | None] = Counter(frame.module for frame in profile.frames if frame.function)
    mappings: dict[str, int] = {}
    functions: dict[tuple[str, str], int] = {}
    for number, frame in enumerate(profile.frames):
        if frame.module and frame.module not in mappings:
            mappings[frame.module] = len(mappings) + 1
            message.mapping.add(id=len(mappings), filename=text(frame.module), has_functions=named[frame.module] > 0)
        what = frame.name, frame.file or ""
        if what not in functions:
            functions[what] = len(functions) + 1
            message.function.add(
                id=len(functions), name=text(what[0]), system_name=text(what[0]), filename=text(what[1])
            )
        location = message.location.add(
            id=number + 1, mapping_id=mappings.get(frame.module or "", 0), address=frame.address or 0
        )
        location.line.add(function_id=functions[what], line=frame.line or 0)
