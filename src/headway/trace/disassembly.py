"""Instructions as text, by capstone: what `decode` and `at` show beside an address."""

from __future__ import annotations

from typing import Final, Protocol

from headway.extras import load

__all__ = ["A64", "ARM", "RISCV", "THUMB", "X86", "X86_32", "Disassembler", "Memory"]

ARM: Final = "arm"
THUMB: Final = "thumb"
A64: Final = "arm64"
RISCV: Final = "riscv32"
X86: Final = "x86-64"
X86_32: Final = "x86"
_MOST = 1 << 18


class Memory(Protocol):
    """Memory that can be read."""

    def read(self, address: int, size: int) -> bytes:
        """Return bytes at an address; fewer or none where there are none."""


class Disassembler:
    """Texts of the instructions of one instruction set, each found once for a memory."""

    def __init__(self, isa: str) -> None:
        """Raises MissingExtraError if capstone is not installed."""
        capstone = load("trace", "capstone")
        modes = {
            ARM: (capstone.CS_ARCH_ARM, capstone.CS_MODE_ARM | capstone.CS_MODE_V8),
            THUMB: (capstone.CS_ARCH_ARM, capstone.CS_MODE_THUMB | capstone.CS_MODE_V8),
            A64: (capstone.CS_ARCH_ARM64, capstone.CS_MODE_ARM),
            RISCV: (capstone.CS_ARCH_RISCV, capstone.CS_MODE_RISCV32 | capstone.CS_MODE_RISCVC),
            X86: (capstone.CS_ARCH_X86, capstone.CS_MODE_64),
            X86_32: (capstone.CS_ARCH_X86, capstone.CS_MODE_32),
        }
        self._engine = capstone.Cs(*modes[isa])
        self._known: dict[tuple[int, int], str] = {}

    def text(self, memory: Memory, address: int, size: int) -> str:
        """Return the instruction at an address as text; "" if its bytes are not known or are no instruction."""
        key = id(memory), address
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= _MOST:
                self._known.clear()
            code = memory.read(address, size)
            one = next(self._engine.disasm_lite(code, address, 1), None) if len(code) == size else None
            found = self._known[key] = "" if one is None else f"{one[2]} {one[3]}".rstrip()
        return found
