"""The console of a run: where the program's output goes, and where its input comes from.

If the caller gives no streams, the output is kept in memory up to a limit, so that no program can exhaust the memory
of the host.
"""

from __future__ import annotations

from typing import BinaryIO

from headway.errors import HeadwayError

__all__ = ["MAX_KEPT", "Console"]

MAX_KEPT = 64 << 20
"""The largest number of bytes of output that are kept."""


class Console:
    """Byte streams for a program's input and output. Without them it reads nothing; ``written`` keeps the output."""

    def __init__(
        self, input: BinaryIO | None = None, output: BinaryIO | None = None, errors: BinaryIO | None = None
    ) -> None:
        self._input, self._output, self._errors = input, output, errors if errors is not None else output
        self.written = bytearray()
        """The output so far, if there is no stream for it."""
        self.heard: list[bytes] = []
        """What was read from the input, read by read, if `remembers`."""
        self.remembers = False
        self.again: list[bytes] | None = None
        """What is read again instead of the input, while nothing goes to streams; None: the run is not done again."""

    @property
    def keeps(self) -> bool:
        """Whether there is no stream for the output."""
        return self._output is None

    def read(self, size: int) -> bytes:
        """Read up to ``size`` bytes; return no bytes at the end of the input. Raises HeadwayError if reading fails."""
        found = self._read(size)
        if self.remembers:
            self.heard.append(found)
        return found

    def _read(self, size: int) -> bytes:
        if self.again is not None:
            return self.again.pop(0)[:size] if self.again else b""
        if self._input is None:
            return b""
        try:
            return self._input.read(size) or b""
        except OSError as error:
            raise HeadwayError(f"the program's input cannot be read ({error.strerror})") from None

    def write(self, data: bytes, *, error: bool = False) -> None:
        """Write to the output or the error output.

        Raises HeadwayError if writing fails, or if output without a stream exceeds `MAX_KEPT`.
        """
        stream = self._errors if error else self._output
        if not data:
            return
        if stream is None:
            if len(self.written) + len(data) > MAX_KEPT:
                raise HeadwayError(f"the program writes more than {MAX_KEPT >> 20} MiB: give run() an output stream")
            self.written += data
            return
        if self.again is not None:
            return
        try:
            stream.write(data)
            stream.flush()
        except BrokenPipeError:
            raise
        except OSError as problem:
            raise HeadwayError(f"the program's output cannot be written ({problem.strerror})") from None
