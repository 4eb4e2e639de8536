"""The lines of Python's instructions: the tables of code objects, as the versions of CPython have them.

Sources: Objects/lnotab_notes.txt (3.9, 3.10), Objects/locations.md (3.11 and later) of CPython.
"""

from __future__ import annotations

from collections.abc import Iterator

__all__ = ["line_of", "ranges"]

_UNIT = 2
"""Bytes of a code unit."""
_NO_LINE = -128
_ONE_LINE, _NO_COLUMNS, _LONG, _NO_LOCATION = 10, 13, 14, 15


def line_of(minor: int, table: bytes, first: int, instruction: int) -> int | None:
    """Return the line of an instruction, a number of code units; None: the table does not reach there.

    What the compiler has added has no line of its own: it has that of the instructions before it, or the first.
    ``minor``: of the version 3.x that the table is of. ``first``: the first line of the code. Tables may be damaged.
    """
    known = first
    for start, end, line in ranges(minor, table, first):
        known = line if line is not None else known
        if start <= instruction < end:
            return known
    return None


def ranges(minor: int, table: bytes, first: int) -> Iterator[tuple[int, int, int | None]]:
    """Yield first and last + 1 code unit of each range of a table, and its line; None: it has none."""
    if minor >= 11:
        return _locations(table, first)
    return _lines(table, first) if minor == 10 else _increments(table, first)


def _increments(table: bytes, first: int) -> Iterator[tuple[int, int, int | None]]:
    """Go through pairs of increments of address and line (3.9). The last range has no end."""
    at, line = 0, first
    for i in range(0, len(table) - 1, 2):
        if table[i]:
            yield at // _UNIT, (at + table[i]) // _UNIT, line
            at += table[i]
        line += _signed(table[i + 1])
    yield at // _UNIT, 1 << 31, line


def _lines(table: bytes, first: int) -> Iterator[tuple[int, int, int | None]]:
    """Go through pairs of the length of a range and the increment of its line (3.10)."""
    at, line = 0, first
    for i in range(0, len(table) - 1, 2):
        change = _signed(table[i + 1])
        line += change if change != _NO_LINE else 0
        if table[i]:
            yield at // _UNIT, (at + table[i]) // _UNIT, line if change != _NO_LINE else None
        at += table[i]


def _locations(table: bytes, first: int) -> Iterator[tuple[int, int, int | None]]:
    """Go through entries that begin with a byte whose highest bit is set (3.11 and later)."""
    unit, line, at = 0, first, 0
    while at < len(table):
        kind, units = table[at] >> 3 & 15, (table[at] & 7) + 1
        at += 1
        if kind in (_NO_COLUMNS, _LONG):
            line += _variable(table, at)
        elif _ONE_LINE <= kind < _NO_COLUMNS:
            line += kind - _ONE_LINE
        while at < len(table) and not table[at] & 0x80:
            at += 1
        yield unit, unit + units, None if kind == _NO_LOCATION else line
        unit += units


def _variable(table: bytes, at: int) -> int:
    """Return the signed number that stands at a place, in groups of six bits."""
    value = shift = 0
    while at < len(table) and shift < 36:
        value |= (table[at] & 63) << shift
        if not table[at] & 64:
            break
        shift += 6
        at += 1
    return -(value >> 1) if value & 1 else value >> 1


def _signed(byte: int) -> int:
    return byte - 256 if byte > 127 else byte
