"""Files that a user names: safe opening and reading, and writing that replaces a file only when it is complete."""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO, cast

from .errors import HeadwayError

__all__ = ["open_file", "open_regular", "packaged", "read_file", "written_whole"]

File = str | os.PathLike[str]
_PIECE = 1 << 20
_MORE = 4096
_NO_FILE = "it is not a file"


def packaged(package: str, name: str) -> bytes:
    """Return the content of a file that comes with an imported package of headway. Raises OSError.

    It lies beside the package's modules. Of an editable install only importlib.resources, which takes long to load,
    knows where the build has put it.
    """
    try:
        with open(os.path.join(os.path.dirname(sys.modules[package].__file__ or ""), name), "rb") as stream:
            return stream.read()
    except FileNotFoundError:
        from importlib.resources import files

        return files(package).joinpath(*name.split("/")).read_bytes()


def open_regular(path: File) -> BinaryIO:
    """Open a regular file for reading. Raises OSError, also if it is something else: a pipe could block for ever."""
    try:
        # O_NONBLOCK: neither a pipe without a writer nor a device may block the open.
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except ValueError:
        raise OSError(errno.EINVAL, "not a file name") from None
    mode = os.fstat(fd).st_mode
    if not stat.S_ISREG(mode):
        os.close(fd)
        if stat.S_ISDIR(mode):
            raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
        raise OSError(errno.EINVAL, _NO_FILE)
    return open(fd, "rb")


def open_file(path: File, what: str) -> BinaryIO:
    """Open a regular file for reading.

    ``what`` says which file the user should give; it ends the error message. Raises HeadwayError if the file cannot be
    opened or is not regular.
    """
    words = ascii(os.fspath(path))
    try:
        return open_regular(path)
    except OSError as error:
        if error.strerror == _NO_FILE or error.errno == errno.EISDIR:
            raise HeadwayError(f"{words} is not a file: give {what}") from None
        raise HeadwayError(f"{words} cannot be opened ({error.strerror}): give {what}") from None


def read_file(path: File, what: str, most: int) -> bytes:
    """Return the content of a regular file of up to ``most`` bytes. Raises HeadwayError; ``what``: see `open_file`."""
    words = ascii(os.fspath(path))
    with open_file(path, what) as stream:
        data = bytearray()
        try:
            # In pieces no longer than the file seems to be: a read takes the memory of all bytes that it asks for.
            size = os.fstat(stream.fileno()).st_size
            while piece := stream.read(min(_PIECE, most + 1 - len(data), max(size - len(data), 0) + _MORE)):
                data += piece
        except OSError as error:
            raise HeadwayError(f"{words} cannot be read ({error.strerror}): give {what}") from None
    if len(data) > most:
        raise HeadwayError(f"{words} has more than {most >> 10} KiB, too much: give {what}")
    return bytes(data)


@contextmanager
def written_whole(path: str) -> Iterator[BinaryIO]:
    """Yield a stream that replaces the file ``path`` when the block ends without an error.

    Until then the data goes to a temporary file in the same folder, so the old content stays if writing fails. A
    symbolic link stays a link: its target is replaced. A file in a folder where none can be made is written over at
    the end. Something that is not a regular file is written directly. Raises OSError.
    """
    try:
        before = os.stat(path)
    except FileNotFoundError:
        before = None
    except ValueError:
        raise OSError(errno.EINVAL, "not a file name") from None
    if before is not None and not stat.S_ISREG(before.st_mode):
        with open(path, "wb") as stream:
            yield stream
        return
    import shutil  # what only reads needs neither
    import tempfile

    path = os.path.realpath(path)  # keep a symbolic link, replace its target
    folder, name = os.path.split(path)
    try:
        fd, scratch = tempfile.mkstemp(prefix=f".{name[:100]}.", dir=folder)
    except PermissionError:
        if before is None:
            raise
        with open(path, "r+b") as file, tempfile.TemporaryFile() as kept:
            yield cast("BinaryIO", kept)
            kept.seek(0)
            shutil.copyfileobj(kept, file)
            file.truncate()
        return
    try:
        with open(fd, "wb") as stream:
            os.fchmod(fd, 0o666 & ~_umask() if before is None else stat.S_IMODE(before.st_mode))
            yield stream
        os.replace(scratch, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(scratch)
        raise


def _umask() -> int:
    """Return the file mode creation mask. The only way to read it is to set it (umask(2))."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
