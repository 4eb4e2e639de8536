"""Reading a file that a user names: a regular one, no larger than makes sense, and one sentence where it is not."""

from __future__ import annotations

import os
import stat
from typing import BinaryIO

from .errors import HeadwayError

__all__ = ["open_file", "read_file"]

File = str | os.PathLike[str]


def open_file(path: File, what: str) -> BinaryIO:
    """A regular file, to be read. ``what`` should have been given goes into the sentence. Raises HeadwayError."""
    words = ascii(os.fspath(path))
    try:
        # Neither a pipe without a writer nor a device must be able to hold us.
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        why = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else "not a file name"
        raise HeadwayError(f"{words} cannot be opened ({why}): give {what}") from None
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise HeadwayError(f"{words} is not a file: give {what}")
    return open(fd, "rb")


def read_file(path: File, what: str, most: int) -> bytes:
    """All of a regular file of ``most`` bytes at most. Raises HeadwayError."""
    words = ascii(os.fspath(path))
    with open_file(path, what) as stream:
        try:
            data = stream.read(most + 1)
        except OSError as error:
            raise HeadwayError(f"{words} cannot be read ({error.strerror}): give {what}") from None
    if len(data) > most:
        raise HeadwayError(f"{words} has more than {most >> 10} KiB, too much: give {what}")
    return data
