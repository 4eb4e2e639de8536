"""Address filters, as `perf record --filter` sets them: which code the trace unit traces.

libipt needs them to work around errata of processors whose packets say less where they leave such code. perf.data has
them as text (`filter 0x1040/0x80@/usr/bin/program`): addresses in a file are offsets there, without a file they are of
the kernel.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from headway_trace.memory import ProcessMemory

__all__ = ["AddressFilter", "filters_in", "located"]

_FILTER = re.compile(r"(filter|stop)\s+(0x[0-9a-fA-F]{1,16}|\d{1,20})/(0x[0-9a-fA-F]{1,16}|\d{1,20})(?:@([^\s,]+))?")
_KINDS = {"filter": 1, "stop": 2}
_LONGEST = 4096
_MOST = 4
_TOP = 1 << 64


@dataclass(frozen=True, slots=True)
class AddressFilter:
    """``kind``: 1 (only there is traced) or 2 (tracing stops there); ``start`` is an offset in the file, if any."""

    kind: int
    start: int
    size: int
    path: str


def filters_in(words: Sequence[int]) -> list[AddressFilter]:
    """Return the filters in a text, which has its length in bytes as the first word and eight bytes in each other."""
    length = min(words[0], _LONGEST) if words else 0
    data = b"".join((word & (1 << 64) - 1).to_bytes(8, "little") for word in words[1 : 1 + (length + 7) // 8])
    text = data[:length].partition(b"\0")[0].decode("utf-8", "replace")
    found = (
        AddressFilter(_KINDS[one[1]], int(one[2], 0), int(one[3], 0), one[4] or "") for one in _FILTER.finditer(text)
    )
    return [one for one in found if one.size and one.start + one.size <= _TOP][:_MOST]


def located(filters: Sequence[AddressFilter], memory: ProcessMemory) -> tuple[tuple[int, int, int], ...]:
    """Return (kind, first address, last address) of the filters in a process; where a file is not mapped, none."""
    return tuple(place for one in filters for place in _places(one, memory))[:_MOST]


def _places(one: AddressFilter, memory: ProcessMemory) -> Iterator[tuple[int, int, int]]:
    if not one.path:
        yield one.kind, one.start, one.start + one.size - 1
        return
    for part in memory.parts:
        if part.path == one.path and part.offset <= one.start < part.offset + part.size:
            first = part.address + one.start - part.offset
            yield one.kind, first, min(first + one.size, part.end) - 1
            return
