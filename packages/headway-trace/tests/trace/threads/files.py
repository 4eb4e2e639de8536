"""Trace files as they were written before version 4, and damage to files."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any

from headway_trace.threads.container import MAGIC, MachineShape

__all__ = ["DAMAGES", "older_file"]

Damage = Callable[[bytes, int, int], bytes]


def older_file(
    shape: MachineShape,
    chunks: Sequence[tuple[int, bytes]],
    *,
    version: int = 2,
    etrace: Mapping[str, Any] | None = None,
    closed: bool = True,
) -> bytes:
    """A file of version 2 or 3 with these chunks of cores."""
    described = {f.name: getattr(shape, f.name) for f in fields(shape) if getattr(shape, f.name) != f.default}
    parts = [(0xFF, json.dumps(described).encode())]
    if etrace is not None:
        parts.append((0xFD, json.dumps(etrace).encode()))
    parts += [*chunks, (0xFE, b"")] if closed else chunks
    body = b"".join(struct.pack("<BI", number, len(data)) + data for number, data in parts)
    return MAGIC + bytes([version]) + body


def _doubled(size: int) -> Damage:
    return lambda data, at, _: data[: at + size] + data[at:]


def _dropped(size: int) -> Damage:
    return lambda data, at, _: data[:at] + data[at + size :]


def _zeroed(size: int) -> Damage:
    return lambda data, at, _: data[:at] + bytes(min(size, len(data) - at)) + data[at + size :]


DAMAGES: Mapping[str, Damage] = {
    "a byte lost": _dropped(1),
    "a bit flipped": lambda data, at, bit: data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :],
    "1 KB doubled": _doubled(1024),
    "20 bytes zeroed": _zeroed(20),
    "16 bytes dropped": _dropped(16),
    "100 bytes dropped": _dropped(100),
    "1 KB dropped": _dropped(1024),
    "200 bytes zeroed": _zeroed(200),
    "5 KB doubled": _doubled(5000),
}
"""What happens to a file: each takes its bytes, a place in it, and the number of a bit."""
