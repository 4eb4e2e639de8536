"""Run a command beside busy loops and a disk writer: ``python -m tests.load [--loops N] -- COMMAND [ARG...]``.

``make test-loaded`` runs the tests so: no test may depend on how busy the machine is. The load ends with the command,
and by itself if this process is killed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

LOOPS = 4
BLOCK = 1 << 20
"""Bytes that the disk writer writes at once."""
BLOCKS = 64
"""Blocks between two syncs, and the size of its file."""

_LOOP = """
import os
parent = os.getppid()
while os.getppid() == parent:
    for _ in range(1_000_000):
        pass
"""

_WRITER = f"""
import os, sys
parent, fd, block = os.getppid(), int(sys.argv[1]), bytes({BLOCK})
while os.getppid() == parent:
    os.lseek(fd, 0, os.SEEK_SET)
    for _ in range({BLOCKS}):
        os.write(fd, block)
    os.fsync(fd)
"""


@contextmanager
def _program(code: str, *arguments: str, keep: Sequence[int] = ()) -> Iterator[None]:
    process = subprocess.Popen([sys.executable, "-c", code, *arguments], pass_fds=keep)
    try:
        yield
    finally:
        process.kill()
        process.wait()


@contextmanager
def load(loops: int = LOOPS) -> Iterator[None]:
    """Keep so many processors busy, and a disk."""
    with ExitStack() as stack:
        folder = "/var/tmp" if os.access("/var/tmp", os.W_OK) else None  # /tmp may be memory
        file = stack.enter_context(tempfile.TemporaryFile(dir=folder))
        for _ in range(loops):
            stack.enter_context(_program(_LOOP))
        stack.enter_context(_program(_WRITER, str(file.fileno()), keep=[file.fileno()]))
        yield


def main() -> int:
    """Run the command beside the load and return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.load")
    parser.add_argument("--loops", type=int, default=LOOPS, help=f"busy loops (default: {LOOPS})")
    parser.add_argument("command", nargs="+", metavar="COMMAND")
    wanted = parser.parse_args()
    with load(wanted.loops):
        return subprocess.run(wanted.command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
