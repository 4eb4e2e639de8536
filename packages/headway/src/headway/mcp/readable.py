"""The files that may be read: those that the user named, and what is in the folders among them.

A client may ask for any path. It gets what lies, with all symbolic links followed, in one of these places, and no word
about anything else.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from headway.errors import HeadwayError
from headway.text import valid

__all__ = ["FileToAsk", "ReadableFiles"]

DOCUMENT = "recording.json"
"""The file that makes a folder a recording."""
_SAVED = b'"headway.stat/1"'
"""What is at the beginning of a saved document."""
_BEGINNING = 4096
_DEPTH = 4
_MOST = 1000
_LONGEST = 4096


@dataclass(frozen=True, slots=True)
class FileToAsk:
    """A file that questions can be asked about."""

    path: str
    kind: str
    """``recording``, or ``document``: what headway stat --json has written."""
    size: int | None
    """In bytes; None: it is a folder."""


class ReadableFiles:
    """The places that the user named."""

    def __init__(self, places: Sequence[str]) -> None:
        """Raise HeadwayError if a place is not there."""
        self._places: list[tuple[str, str]] = []
        for place in places:
            try:
                real = os.path.realpath(place, strict=True)
            except (OSError, ValueError) as error:
                why = (error.strerror if isinstance(error, OSError) else None) or "not a file name"
                raise HeadwayError(
                    f"{place!a} cannot be read ({why}): name recordings, files of headway stat --json, or folders with "
                    "them"
                ) from None
            self._places.append((place, real))

    def find(self, path: str, kind: str) -> str:
        """Return the real path of a file of this kind that a client may ask for. Raises HeadwayError.

        A path is one of the list of `listed`, or relative to a folder that the user named.
        """
        refused = HeadwayError(
            f"there is no {_KINDS[kind]} {path[:200]!a} among the files that may be read here: files lists them"
        )
        if len(path) > _LONGEST or "\0" in path:
            raise refused
        for place, real in self._places:
            for candidate in (os.path.abspath(path), os.path.join(real, path)) if path != place else (real,):
                try:
                    found = os.path.realpath(candidate, strict=True)
                except (OSError, ValueError):
                    continue
                if (found == real or found.startswith(real.rstrip(os.sep) + os.sep)) and _kind(found) == kind:
                    return found
        raise refused

    def listed(self) -> tuple[list[FileToAsk], int]:
        """Return the files that can be asked about, and how many more there are than are listed."""
        found: list[FileToAsk] = []
        more = 0
        for place, real in self._places:
            for path in _within(real, _DEPTH):
                kind = _kind(path)
                if kind is None:
                    continue
                if len(found) >= _MOST:
                    more += 1
                    continue
                name = place if path == real else os.path.relpath(path, real)
                size = None if kind == "recording" else os.stat(path).st_size
                found.append(FileToAsk(valid(name), kind, size))
        return found, more


_KINDS = {"recording": "recording", "document": "document of headway stat --json"}


def _within(path: str, depth: int) -> Iterator[str]:
    """Yield the path, and what is below it if it is a folder that is no recording. Links are not followed."""
    yield path
    if not depth or not os.path.isdir(path) or _kind(path) == "recording":
        return
    try:
        with os.scandir(path) as entries:
            found = sorted(entry.path for entry in entries if not entry.is_symlink())
    except OSError:
        return
    for each in found:
        yield from _within(each, depth - 1)


def _kind(path: str) -> str | None:
    """Return what a file is that can be asked about; None: nothing."""
    try:
        mode = os.stat(path).st_mode
        if stat.S_ISDIR(mode):
            return "recording" if stat.S_ISREG(os.lstat(os.path.join(path, DOCUMENT)).st_mode) else None
        if not stat.S_ISREG(mode):
            return None
        with open(path, "rb") as file:
            return "document" if _SAVED in file.read(_BEGINNING) else None
    except OSError:
        return None
