"""Where a command writes: a report, an answer, or a file that is replaced only when the new one is complete."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import BinaryIO, TextIO, cast

from headway.errors import HeadwayError
from headway.files import written_whole

__all__ = ["answer_to", "binary_output", "check_apart", "place_of", "report_to", "text_output", "unwritten"]

_QUICK = 1
"""Compression level of gzip: traces are large, and writing must not wait for compression."""


def report_to(output: str | None, *, live: bool = False) -> AbstractContextManager[TextIO]:
    """Open where a report goes, before anything is measured: the file, or standard error. Raises HeadwayError.

    ``live``: several reports, which can be read as they come. Otherwise the file is replaced when its report is
    complete, and stays as it was if that fails.
    """
    if output is None:
        return nullcontext(sys.stderr)
    return _live_file(output) if live else text_output(output, "the report")


class _Text(io.TextIOWrapper):
    """Text on its way to a file, which remembers why it could not be written."""

    failure: OSError | None = None

    def write(self, text: str) -> int:
        with self._remembering():
            return super().write(text)

    def flush(self) -> None:
        with self._remembering():
            super().flush()

    @contextmanager
    def _remembering(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self.failure = error
            raise


@contextmanager
def text_output(output: str, what: str) -> Iterator[TextIO]:
    """Open the file that a text goes to. A file that exists is replaced only when the text is complete.

    Raises HeadwayError if it cannot be written; what else fails meanwhile is raised as it is, and leaves no file.
    """
    stream: _Text | None = None
    complete = False
    try:
        with written_whole(output) as data:
            stream = _Text(data, encoding="utf-8", errors="backslashreplace", newline="\n", write_through=True)
            try:
                yield stream
                complete = True
            finally:
                with suppress(ValueError):  # it is closed already
                    stream.detach()
    except OSError as error:
        if stream is not None and stream.failure is None and not complete:
            raise
        raise HeadwayError(unwritten(what, f"to {output!a}", error)) from None


@contextmanager
def _live_file(output: str) -> Iterator[TextIO]:
    try:
        stream = open(output, "w", encoding="utf-8", errors="backslashreplace")  # noqa: SIM115
    except OSError as error:
        raise HeadwayError(f"{output} cannot be written ({error.strerror}): give another file with -o") from None
    try:
        yield stream
    except BaseException:
        with suppress(OSError):
            stream.close()
        raise
    stream.close()


def place_of(output: str | None) -> str:
    """Return where a report goes, in words."""
    return "to standard error" if output is None else f"to {output!a}"


def unwritten(what: str, where: str, error: OSError) -> str:
    """Return the sentence for something that cannot be written: what, where, why, and what to do."""
    full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    todo = "make room there, or name another file with -o" if full else "name another file with -o"
    return f"{what} cannot be written {where} ({error.strerror or error}): {todo}"


def answer_to(output: str | None) -> AbstractContextManager[TextIO]:
    """Open where an answer goes: the file, or standard output. Raises HeadwayError.

    It is no error if the reader of standard output goes away.
    """
    return _text_output() if output is None else report_to(output)


@contextmanager
def _text_output() -> Iterator[TextIO]:
    try:
        yield sys.stdout
        sys.stdout.flush()
    except BrokenPipeError:
        pass
    except OSError as error:
        raise HeadwayError(unwritten("the report", "to standard output", error)) from None


def check_apart(output: str | None, read: Sequence[str], what: str = "the export") -> None:
    """Check that the output is none of the files read, nor inside them. Raises HeadwayError."""
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
                import gzip

                with gzip.GzipFile(filename="", mode="wb", compresslevel=_QUICK, fileobj=stream, mtime=0) as smaller:
                    yield cast(BinaryIO, smaller)
            else:
                yield stream
    except OSError as error:
        raise HeadwayError(unwritten(what, f"to {output!a}", error)) from None


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
        raise HeadwayError(unwritten(what, "to standard output", error)) from None
