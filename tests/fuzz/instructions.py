"""Instructions that are disassembled once, whatever the input: most of the time goes there otherwise."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace

from headway_trace.code import Code

__all__ = ["RememberedInstructions"]

_MOST = 100_000
_Read = Callable[[int, int], bytes]
_Found = tuple[int, int, bool, int, int, int]


class RememberedInstructions:
    """What `Code.look` returns, which is asked once for the same bytes at the same address."""

    def __init__(self) -> None:
        self._bytes = b""
        self._code = Code(lambda address, size: self._bytes[:size])
        self._found: dict[tuple[int, int, bytes], _Found] = {}

    def code(self, read: _Read) -> SimpleNamespace:
        """Return what takes the place of ``Code(read)``."""
        return SimpleNamespace(look=partial(self._look, read))

    def _look(self, read: _Read, address: int, isa: int) -> _Found:
        self._bytes = read(address, 4)
        key = address, isa, self._bytes
        if key not in self._found:
            if len(self._found) >= _MOST:
                self._found.clear()
            self._found[key] = self._code.look(address, isa)
        return self._found[key]
