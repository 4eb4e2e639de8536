"""Rows of named columns as a table, CSV or JSON, written as they come: there may be more than memory holds."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterable, Sequence
from itertools import chain, islice
from typing import TextIO

from headway.errors import HeadwayError

from .printable import clean

__all__ = ["Cell", "print_rows", "write_rows"]

Cell = int | float | str | bool | None

_SAMPLE = 200
"""Rows by which the widths of a table's columns are chosen."""


def write_rows(stream: TextIO, columns: Sequence[str], rows: Iterable[Sequence[Cell]], style: str) -> None:
    """Writes them. ``style``: "table" (aligned), "csv" or "json" (one array of objects). None is empty, or null."""
    if style == "csv":
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)
    elif style == "json":
        stream.write("[")
        for number, row in enumerate(rows):
            stream.write(",\n " if number else "\n ")
            stream.write(json.dumps(dict(zip(columns, row, strict=True)), ensure_ascii=False))
        stream.write("\n]\n")
    else:
        _table(stream, columns, rows)


def print_rows(columns: Sequence[str], rows: Iterable[Sequence[Cell]], style: str) -> None:
    """The same to standard output. A reader that has gone away is no error; raises HeadwayError for others."""
    try:
        write_rows(sys.stdout, columns, rows, style)
        sys.stdout.flush()
    except BrokenPipeError:
        pass
    except OSError as error:
        raise HeadwayError(f"the rows cannot be written to standard output ({error.strerror})") from None


def _table(stream: TextIO, columns: Sequence[str], rows: Iterable[Sequence[Cell]]) -> None:
    texts = ([_text(cell) for cell in row] for row in rows)
    first = list(islice(texts, _SAMPLE))
    numeric = [all(_is_number(row[at]) for row in first) for at in range(len(columns))]
    widths = [max(len(name), *(len(row[at]) for row in first), 0) for at, name in enumerate(columns)]
    for row in chain([list(columns)], first, texts):
        cells = [
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(row, widths, numeric, strict=True)
        ]
        stream.write("  ".join(cells).rstrip() + "\n")


def _text(cell: Cell) -> str:
    if cell is None:
        return "-"
    if isinstance(cell, float):
        return f"{cell:.3f}"
    return clean(str(cell))


def _is_number(text: str) -> bool:
    return text == "-" or text.replace(".", "", 1).replace("-", "", 1).isdigit()
