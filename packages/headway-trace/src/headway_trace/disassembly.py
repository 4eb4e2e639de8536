"""Instructions as text, by capstone: what `decode` and `at` show beside an address."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

__all__ = ["ARM", "RISCV", "RISCV64", "X86", "X86_32", "Disassembler", "Memory"]

ARM: Final = "arm"
"""A32, T32 and A64. What an address is of is in its lowest bits, as `records.place_of` has them."""
RISCV: Final = "riscv32"
RISCV64: Final = "riscv64"
X86: Final = "x86-64"
X86_32: Final = "x86"
_MOST = 1 << 18


class Memory(Protocol):
    """Memory that can be read."""

    def read(self, address: int, size: int) -> bytes:
        """Return bytes at an address; fewer or none where there are none."""


class Disassembler:
    """Texts of the instructions of one instruction set, or of Arm's three, each found once for a memory."""

    def __init__(self, isa: str) -> None:
        """Prepare the disassembly of an instruction set."""
        import capstone  # which takes longer to load than a small trace to read

        sets = {
            ARM: (
                (capstone.CS_ARCH_ARM, capstone.CS_MODE_ARM | capstone.CS_MODE_V8),
                (capstone.CS_ARCH_ARM, capstone.CS_MODE_THUMB | capstone.CS_MODE_V8),
                (capstone.CS_ARCH_ARM64, capstone.CS_MODE_ARM),
            ),
            RISCV: ((capstone.CS_ARCH_RISCV, capstone.CS_MODE_RISCV32 | capstone.CS_MODE_RISCVC),),
            RISCV64: ((capstone.CS_ARCH_RISCV, capstone.CS_MODE_RISCV64 | capstone.CS_MODE_RISCVC),),
            X86: ((capstone.CS_ARCH_X86, capstone.CS_MODE_64),),
            X86_32: ((capstone.CS_ARCH_X86, capstone.CS_MODE_32),),
        }
        self._engines = [capstone.Cs(*mode) for mode in sets[isa]]
        self._longest = 15 if isa in (X86, X86_32) else 4
        self._known: dict[tuple[int, int], str] = {}

    def text(self, memory: Memory, place: int) -> str:
        """Return the instruction at a place as text; "" if its bytes are not known or are no instruction."""
        key = id(memory), place
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= _MOST:
                self._known.clear()
            which = 0 if len(self._engines) == 1 else 1 if place & 1 else place & 2
            code = memory.read(place - which, self._longest)
            one = next(self._engines[which].disasm_lite(code, place - which, 1), None)
            found = self._known[key] = "" if one is None else f"{one[2]} {one[3]}".rstrip()
        return found

    def of(self, memory: Memory) -> Callable[[int], str]:
        """Return what gives the texts of one memory."""
        return lambda place: self.text(memory, place)
