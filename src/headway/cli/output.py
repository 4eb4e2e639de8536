"""The file that a command writes: it is there when all of it is, and what was there before stays until then."""

from __future__ import annotations

import gzip
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import BinaryIO, cast

from headway.errors import HeadwayError
from headway.files import written_whole

__all__ = ["binary_output", "check_apart"]

_QUICK = 1
"""How hard gzip tries: a trace is large, and writing it should not wait for this."""


def check_apart(output: str | None, read: Sequence[str], what: str = "the export") -> None:
    """That it is no file of what is read, and not put among them. Raises HeadwayError."""
    if output is None:
        return
    place = os.path.realpath(output)
    if any(place == real or place.startswith(real + os.sep) for real in map(os.path.realpath, filter(None, read))):
        raise HeadwayError(f"{what} would be written to {output!a}, over or into what it is made of: name another file")


@contextmanager
def binary_output(
    output: str | None, what: str = "the export", *, text: bool = False, packed: bool = False
) -> Iterator[BinaryIO]:
    """Where it goes: a file (compressed if its name ends in .gz, unless it is ``packed`` anyway), or standard output.

    Without ``text`` it is not written to a terminal. A reader that has gone away is no error; whatever else keeps it
    from being written is a HeadwayError, and leaves no part of a file behind.
    """
    if output is None:
        with _standard_output(what, text) as stream:
            yield stream
        return
    try:
        with written_whole(output) as stream:
            if output.endswith(".gz") and not packed:
                with gzip.GzipFile(filename="", mode="wb", compresslevel=_QUICK, fileobj=stream, mtime=0) as smaller:
                    yield cast(BinaryIO, smaller)
            else:
                yield stream
    except OSError as error:
        why = error.strerror or str(error)
        raise HeadwayError(f"{what} cannot be written to {output!a} ({why}): name another file") from None


@contextmanager
def _standard_output(what: str, text: bool) -> Iterator[BinaryIO]:
    if not text and sys.stdout.isatty():
        raise HeadwayError(f"{what} is binary, and not for a terminal: name a file with -o")
    try:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        pass
    except OSError as error:
        raise HeadwayError(f"{what} cannot be written to standard output ({error.strerror})") from None
