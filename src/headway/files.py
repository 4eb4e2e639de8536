"""Files that a user names. Read: a regular one, no larger than makes sense, and one sentence where it is not. Written:
whole, or not at all."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO

from .errors import HeadwayError

__all__ = ["open_file", "read_file", "written_whole"]

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


@contextmanager
def written_whole(path: str) -> Iterator[BinaryIO]:
    """A file to be written, under another name until it is whole: what was there stays until then. Raises OSError.

    A link stays one, and what is no regular file is written as it is.
    """
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        mode = None
    except ValueError:
        raise OSError(errno.EINVAL, "not a file name") from None
    if mode is not None and not stat.S_ISREG(mode):
        with open(path, "wb") as stream:
            yield stream
        return
    path = os.path.realpath(path)  # where it is a link, that stays one
    folder, name = os.path.split(path)
    fd, scratch = tempfile.mkstemp(prefix=f".{name[:100]}.", dir=folder)
    try:
        with open(fd, "wb") as stream:
            os.fchmod(fd, 0o666 & ~_umask() if mode is None else stat.S_IMODE(mode))
            yield stream
        os.replace(scratch, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(scratch)
        raise


def _umask() -> int:
    """What is taken from the permissions of new files; it can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
