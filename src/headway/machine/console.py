"""The console of a run: where what the program writes goes, and what it reads comes from.

Without streams of the caller's own the output is kept, up to a limit; nothing that a program does may fill the host's
memory.
"""

from __future__ import annotations

from typing import BinaryIO

from headway.errors import HeadwayError

__all__ = ["MAX_KEPT", "Console"]

MAX_KEPT = 64 << 20
"""Bytes of output that are kept at most."""


class Console:
    """Byte streams for what a program reads and writes. None: it reads nothing; its output is kept in ``written``."""

    def __init__(
        self, input: BinaryIO | None = None, output: BinaryIO | None = None, errors: BinaryIO | None = None
    ) -> None:
        self._input, self._output, self._errors = input, output, errors if errors is not None else output
        self.written = bytearray()
        """What was written, where there is no stream for it."""

    @property
    def keeps(self) -> bool:
        """Whether there is no stream for the output."""
        return self._output is None

    def read(self, size: int) -> bytes:
        """Up to so many bytes; none at the end."""
        if self._input is None:
            return b""
        try:
            return self._input.read(size) or b""
        except OSError as error:
            raise HeadwayError(f"the program's input cannot be read ({error.strerror})") from None

    def write(self, data: bytes, *, error: bool = False) -> None:
        """Write to the output, or the error output. Raises HeadwayError where that is not possible, or too much."""
        stream = self._errors if error else self._output
        if not data:
            return
        if stream is None:
            if len(self.written) + len(data) > MAX_KEPT:
                raise HeadwayError(f"the program writes more than {MAX_KEPT >> 20} MiB: give run() an output stream")
            self.written += data
            return
        try:
            stream.write(data)
            stream.flush()
        except BrokenPipeError:
            raise
        except OSError as problem:
            raise HeadwayError(f"the program's output cannot be written ({problem.strerror})") from None
