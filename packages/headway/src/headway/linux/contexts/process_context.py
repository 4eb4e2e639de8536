"""The process context of OpenTelemetry: what a process publishes about itself, and about the contexts of its threads.

A mapping of the process has a name and a header, and the header has the address of a message in protobuf. Of the
message only the attributes ``threadlocal.*`` are read.

Source: OTEP 4719, "Process Context" (version 2 of the format), and OTEP 4947 for the attributes, both at commit
1377f53b2bc0 of open-telemetry/opentelemetry-specification.

Another process has written all of it, so it may contain anything: sizes are limited, and what is damaged is not there.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator

from headway.dataclass import dataclass
from headway.linux.procfs.maps import Mapping

__all__ = ["ProcessContext", "parse_process_context", "read_process_context"]

_NAMES = ("[anon_shmem:OTEL_CTX", "[anon:OTEL_CTX", "/memfd:OTEL_CTX")
_HEADER = struct.Struct("=8sIIQQ")
_SIGNATURE = b"OTEL_CTX"
_VERSIONS = (1, 2)
"""1 is for development; the format is that of 2."""
_MAX_PAYLOAD = 1 << 20
_MAX_KEYS = 256
_MAX_MAPPINGS = 16
_TRIES = 3
"""Readings of a context that changes while it is read."""
_SCHEMA, _KEYS = "threadlocal.schema_version", "threadlocal.attribute_key_map"

Read = Callable[[int, int], bytes]
"""Returns the bytes of the process at an address, as many as wanted or fewer."""


@dataclass(frozen=True, slots=True)
class ProcessContext:
    """What a process says of the contexts of its threads."""

    schema: str | None
    """The way in which threads publish them; None: it does not say."""
    keys: tuple[str, ...]
    """The names of their attributes, by key index."""


def read_process_context(maps: Iterable[Mapping], read: Read) -> ProcessContext | None:
    """Return the context of the process whose mappings these are; None: it has none that can be read."""
    found = [mapping for mapping in maps if mapping.path.startswith(_NAMES)][:_MAX_MAPPINGS]
    for mapping in found:
        for _ in range(_TRIES):
            head = read(mapping.start, _HEADER.size)
            if len(head) < _HEADER.size:
                break
            signature, version, size, published, address = _HEADER.unpack(head)
            if signature != _SIGNATURE or version not in _VERSIONS:
                break
            if not published or size > _MAX_PAYLOAD or address >> 63:
                continue
            payload = read(address, size)
            if read(mapping.start, _HEADER.size) == head and len(payload) == size:
                return parse_process_context(payload)
    return None


def parse_process_context(payload: bytes) -> ProcessContext | None:
    """Return what a message ``ProcessContext`` says of the contexts of threads; None: it is damaged."""
    schema: str | None = None
    keys: tuple[str, ...] = ()
    try:
        for number, attribute in _fields(payload):
            if number == 2 and isinstance(attribute, bytes):
                key, value = _pair(attribute)
                if key == _SCHEMA:
                    schema = _text(value)
                elif key == _KEYS:
                    keys = tuple(_array(value))
    except ValueError:
        return None
    return ProcessContext(schema, keys)


def _pair(data: bytes) -> tuple[str, bytes]:
    """Return key and value of a message ``KeyValue``."""
    key, value = "", b""
    for number, field in _fields(data):
        if number == 1 and isinstance(field, bytes):
            key = field.decode(errors="replace")
        elif number == 2 and isinstance(field, bytes):
            value = field
    return key, value


def _text(value: bytes) -> str | None:
    """Return the string of a message ``AnyValue``; None: it is of another type."""
    found = None
    for number, field in _fields(value):
        found = field.decode(errors="replace") if number == 1 and isinstance(field, bytes) else None
    return found


def _array(value: bytes) -> Iterator[str]:
    """Yield the strings of an ``AnyValue`` that is an array; one of another type is empty."""
    for number, field in _fields(value):
        if number == 5 and isinstance(field, bytes):
            for place, (inner, element) in enumerate(_fields(field)):
                if place == _MAX_KEYS:
                    return
                if inner == 1 and isinstance(element, bytes):
                    yield _text(element) or ""


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield number and value of each field of a protobuf message. Raises ValueError where it is damaged."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        kind = tag & 7
        if kind == 0:
            value, at = _varint(data, at)
            yield tag >> 3, value
            continue
        if kind == 2:
            size, at = _varint(data, at)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
        else:
            raise ValueError("no such type of field")
        if size > len(data) - at:
            raise ValueError("a field ends behind its message")
        yield tag >> 3, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for place in range(10):
        if at + place >= len(data):
            break
        byte = data[at + place]
        value |= (byte & 127) << 7 * place
        if byte < 128:
            return value, at + place + 1
    raise ValueError("a number does not end")
