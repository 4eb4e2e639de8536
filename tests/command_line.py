"""The command line in the process of the test: the statuses and words of one of its own, without starting one."""

from __future__ import annotations

import gc
import io
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from subprocess import CompletedProcess
from typing import IO, NoReturn

import pytest

from headway.commands import main

__all__ = ["headway", "headway_bytes"]


def headway(*arguments: object, input: bytes = b"", cwd: Path | None = None) -> CompletedProcess[str]:
    """Run ``headway ARGUMENT...`` and return its exit status and what it wrote, also by descriptor.

    Where the process itself is the subject (signals, closed streams, what is imported), start one instead.

    Args:
        input: What it reads from its standard input, a pipe: at most 64 KiB.
    """
    done = headway_bytes(*arguments, input=input, cwd=cwd)
    return CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


def headway_bytes(*arguments: object, input: bytes = b"", cwd: Path | None = None) -> CompletedProcess[bytes]:
    """Do the same, and return what it wrote as it is."""
    words = ["headway", *map(str, arguments)]
    with pytest.MonkeyPatch.context() as patch, ExitStack() as open_:
        out, error = (open_.enter_context(tempfile.TemporaryFile("a+b")) for _ in range(2))
        patch.setattr(sys, "argv", words)
        patch.setattr(os, "_exit", _exit)
        patch.setenv("COLUMNS", "80")
        if cwd is not None:
            patch.chdir(cwd)
        with _standard(0, "stdin", _pipe_with(input)), _standard(1, "stdout", out), _standard(2, "stderr", error):
            status = _status()
        written = []
        for file in (out, error):
            file.seek(0)
            written.append(file.read())
    return CompletedProcess(words, status, *written)


def _status() -> int:
    threshold = gc.get_threshold()
    try:
        main()
    except SystemExit as ended:
        return int(str(ended.code or 0))
    finally:
        gc.set_threshold(*threshold)
    return 0


def _exit(status: int) -> NoReturn:
    raise SystemExit(status)


def _pipe_with(contents: bytes) -> IO[bytes]:
    ours, theirs = os.pipe()
    os.write(theirs, contents)
    os.close(theirs)
    return open(ours, "rb")


@contextmanager
def _standard(number: int, name: str, file: IO[bytes]) -> Iterator[None]:
    """Let a descriptor, and Python's stream of it, be that of a file."""
    before, kept = getattr(sys, name), os.dup(number)
    os.dup2(file.fileno(), number)
    opened = open(number, "wb" if number else "rb", closefd=False)  # noqa: SIM115
    stream = io.TextIOWrapper(opened, encoding="utf-8")
    setattr(sys, name, stream)
    try:
        yield
    finally:
        setattr(sys, name, before)
        if number:
            stream.flush()
        else:
            file.close()
        os.dup2(kept, number)
        os.close(kept)
