"""Rows of named columns as a table, CSV or JSON. They are written as they come, because they may exceed memory."""

from __future__ import annotations

import csv
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from typing import TextIO

from headway.errors import HeadwayError
from headway.text import csv_text, json_text

from .figures import NOTHING, share, with_unit
from .printable import clean, fit, width_of

__all__ = ["Cell", "print_lines", "print_rows", "write_rows"]

Cell = int | float | str | bool | None

_NUMBERS = (int, float, type(None))
_SAMPLE = 200
"""The number of rows that determine the widths of a table's columns."""


_NARROWEST = 6
"""The smallest width to which a column of text is cut."""
_FIGURE = 7
"""The width of a figure with its unit."""


def write_rows(
    stream: TextIO,
    columns: Sequence[str],
    rows: Iterable[Sequence[Cell]],
    style: str,
    *,
    width: int | None = None,
    units: Mapping[str, str] | None = None,
) -> None:
    """Write the rows. ``style``: "table" (aligned), "csv" or "json" (one array of objects). None becomes empty or null.

    In a table, text is cut where the row would be wider than ``width``, if possible. ``units`` gives the unit of
    columns by name: times ("ns"), cycles ("cycles") or shares of one ("1"). Such values are shown with few digits.
    """
    if style == "csv":
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(map(csv_text, columns))
        writer.writerows(map(_cells, rows))
    elif style == "json":
        names = _different(columns)
        stream.write("[")
        for number, row in enumerate(rows):
            stream.write(",\n " if number else "\n ")
            stream.write(json_text(dict(zip(names, row, strict=True))))
        stream.write("\n]\n")
    else:
        _table(stream, columns, rows, width, units or {})


def _cells(row: Sequence[Cell]) -> list[Cell]:
    """Return a row of CSV. What is neither a number nor text is written as Python does it."""
    return [cell if isinstance(cell, _NUMBERS) else csv_text(str(cell)) for cell in row]


def _different(columns: Sequence[str]) -> list[str]:
    """Return the columns' names, with a number added to repeated ones: a JSON object has each name only once."""
    found: dict[str, None] = {}
    for name in columns:
        words, number = name, 0
        while words in found or (number and words in columns):
            number += 1
            words = f"{name}_{number}"
        found[words] = None
    return list(found)


def print_rows(
    columns: Sequence[str],
    rows: Iterable[Sequence[Cell]],
    style: str,
    *,
    units: Mapping[str, str] | None = None,
    width: int | None = None,
) -> None:
    """Write the rows to standard output. A table fits the terminal; elsewhere it fits ``width``, if that is given.

    A reader that has gone away is not an error. Raises HeadwayError if standard output cannot be written.
    """
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else width
    with _standard_output():
        write_rows(sys.stdout, columns, rows, style, width=width, units=units)
        sys.stdout.flush()


def print_lines(columns: Sequence[str], lines: Iterable[bytes]) -> None:
    """Write CSV to standard output whose lines are there already, many at a time. Raises as `print_rows` does."""
    with _standard_output():
        sys.stdout.write(",".join(columns) + "\n")
        sys.stdout.flush()
        for some in lines:
            sys.stdout.buffer.write(some)
        sys.stdout.buffer.flush()


@contextmanager
def _standard_output() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        pass
    except OSError as error:
        raise HeadwayError(
            f"the rows cannot be written to standard output ({error.strerror}): redirect it to another place"
        ) from None


def _table(
    stream: TextIO,
    columns: Sequence[str],
    rows: Iterable[Sequence[Cell]],
    width: int | None,
    units: Mapping[str, str],
) -> None:
    kinds = [units.get(name, "") for name in columns]
    texts = ([_text(cell, unit) for cell, unit in zip(row, kinds, strict=True)] for row in rows)
    first = list(islice(texts, _SAMPLE))
    if width is not None and len(first) < _SAMPLE and _wide(columns, first) > width:
        # If room is short, columns of figures without any figure are left out.
        kept = [at for at, unit in enumerate(kinds) if not unit or any(row[at] != NOTHING for row in first)]
        columns, kinds = [columns[at] for at in kept], [kinds[at] for at in kept]
        first = [[row[at] for at in kept] for row in first]
    right = [bool(unit) or all(_is_number(row[at]) for row in first) for at, unit in enumerate(kinds)]
    titles = [clean(name) for name in columns]
    widths = [max(width_of(name), *(width_of(row[at]) for row in first), 0) for at, name in enumerate(titles)]
    if width is not None:
        widths = _narrower(widths, right, width)
    for row in chain([titles], first, texts):
        cells = [
            fit(text, size, number) if width is not None and not number else _padded(text, size, number)
            for text, size, number in zip(row, widths, right, strict=True)
        ]
        stream.write("  ".join(cells).rstrip() + "\n")


def _wide(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> int:
    """Return the width of a table of these rows."""
    sizes = [max(width_of(clean(name)), *(width_of(row[at]) for row in rows), 0) for at, name in enumerate(columns)]
    return sum(sizes) + 2 * (len(sizes) - 1)


def _padded(text: str, width: int, right: bool) -> str:
    space = " " * (width - width_of(text))
    return space + text if right else text + space


def _narrower(widths: Sequence[int], figures: Sequence[bool], width: int) -> list[int]:
    """Return the columns' widths after narrowing the widest text columns until all fit, or none can be narrowed."""
    found = list(widths)
    excess = sum(found) + 2 * (len(found) - 1) - width
    while excess > 0:
        texts = sorted((size, at) for at, size in enumerate(found) if not figures[at] and size > _NARROWEST)
        if not texts:
            break
        size, at = texts[-1]
        next_size = max(texts[-2][0] if len(texts) > 1 else 0, _NARROWEST)
        less = min(max(size - next_size, 1), excess)
        found[at] -= less
        excess -= less
    return found


def _text(cell: Cell, unit: str = "") -> str:
    if cell is None:
        return "-"
    if unit == "1" and not isinstance(cell, str):
        return share(cell)
    if unit and isinstance(cell, int):
        return "-" + with_unit(-cell, unit, _FIGURE - 1) if cell < 0 else with_unit(cell, unit, _FIGURE)
    if isinstance(cell, float):
        return f"{cell:.3f}"
    return clean(str(cell))


def _is_number(text: str) -> bool:
    return text == "-" or text.replace(".", "", 1).replace("-", "", 1).isdigit()
