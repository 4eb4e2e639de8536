"""headway's command line in this process: it prints and ends as a process of its own does, without the start of one.

The standard streams are redirected by their numbers, so what commands print that are measured is there too. Where a
signal, a terminal, a closed stream or the end of the process is the subject, a test starts a process.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, chdir, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, NamedTuple
from unittest.mock import patch

from headway.cli.run import exit_status
from headway.commands import group

__all__ = ["Done", "Written", "headway", "headway_bytes"]


class Done(NamedTuple):
    """How it ended, and what it wrote."""

    returncode: int
    stdout: str
    stderr: str


class Written(NamedTuple):
    """How it ended, and the bytes that it wrote."""

    returncode: int
    stdout: bytes
    stderr: bytes


def headway(*words: object, stdin: bytes = b"", stdout: int | None = None, cwd: Path | None = None) -> Done:
    """Run it with these words, in a folder; ``stdout``: a descriptor that its output goes to."""
    status, output, errors = headway_bytes(*words, stdin=stdin, stdout=stdout, cwd=cwd)
    return Done(status, output.decode(), errors.decode())


def headway_bytes(*words: object, stdin: bytes = b"", stdout: int | None = None, cwd: Path | None = None) -> Written:
    """The same where what it writes is no text."""
    with TemporaryFile() as given, TemporaryFile() as output, TemporaryFile() as errors:
        given.write(stdin)
        given.seek(0)
        streams = _standard_streams(given, output if stdout is None else stdout, errors)
        with (
            streams,
            chdir(cwd or os.getcwd()),
            patch.dict(os.environ),
        ):  # --python-tasks sets what Python loads when it starts
            status = exit_status(group, [*map(str, words)])
        for file in (output, errors):
            file.seek(0)
        return Written(status, output.read(), errors.read())


_STREAMS = (("stdin", "r", "strict"), ("stdout", "w", "strict"), ("stderr", "w", "backslashreplace"))


@contextmanager
def _standard_streams(*files: IO[bytes] | int) -> Iterator[None]:
    with ExitStack() as kept:
        for number, file in enumerate(files):
            before = os.dup(number)
            kept.callback(os.close, before)
            kept.callback(os.dup2, before, number)
            os.dup2(file if isinstance(file, int) else file.fileno(), number)
        for number, (name, mode, errors) in enumerate(_STREAMS):
            stream = open(number, mode, encoding="utf-8", errors=errors, closefd=False)  # noqa: SIM115
            kept.callback(setattr, sys, name, getattr(sys, name))
            kept.callback(_closed, stream)
            setattr(sys, name, stream)
        yield


def _closed(stream: IO[str]) -> None:
    """What cannot be written is lost, as at the end of a process."""
    with suppress(OSError):
        stream.close()
