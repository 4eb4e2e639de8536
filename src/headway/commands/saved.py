"""Reading what ``headway stat --json`` has written."""

from __future__ import annotations

import sys
from io import StringIO
from typing import TextIO

from headway.errors import HeadwayError
from headway.model import Ledger

__all__ = ["saved_ledgers"]

_LARGEST = 256 << 20
"""Of a file, characters."""


def saved_ledgers(file: str) -> list[Ledger]:
    """The ledgers of a file in the order of time, one at least; ``-``: of standard input. Raises HeadwayError."""
    from headway.views.saved import ledgers_of

    try:
        if file == "-":
            return ledgers_of(_lines(sys.stdin, "standard input"), "standard input")
        with open(file, encoding="utf-8") as stream:
            return ledgers_of(_lines(stream, file), file)
    except UnicodeDecodeError as error:
        raise HeadwayError(
            f"{file} is no text in UTF-8 (byte {error.start}): give what headway stat --json has written"
        ) from None
    except OSError as error:
        raise HeadwayError(
            f"{file} cannot be read ({error.strerror}): give a file that headway stat has written"
        ) from None


def _lines(stream: TextIO, name: str) -> list[str]:
    text = stream.read(_LARGEST + 1)
    if len(text) > _LARGEST:
        raise HeadwayError(f"{name} has more than {_LARGEST >> 20} MiB: give what headway stat --json has written")
    return list(StringIO(text))
