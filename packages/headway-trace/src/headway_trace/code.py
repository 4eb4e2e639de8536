"""The effect of an A32, T32 or A64 instruction on the flow: its size, where it can go, and whether it is conditional.

capstone disassembles, and `_program` keeps the results. The flow distinguishes plain instructions, direct branches,
indirect branches and IT. An instruction is indirect if it can write the PC and is not a direct branch. An instruction
that capstone does not know is plain, with the size that its encoding gives.

Source: ARM DDI 0406C, "ARM Architecture Reference Manual ARMv7-A and ARMv7-R", A5, A6 and B3.18.6; ARM DDI 0487,
C4 (A64); ARM DDI 0553, C2 (loops of Armv8.1-M); ARM IHI 0014Q, 4.4.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import capstone
from capstone import arm, arm64

__all__ = [
    "ABSENT",
    "DIRECT",
    "DMB",
    "DSB",
    "INDIRECT",
    "ISB",
    "IT",
    "PLAIN",
    "RETURNS",
    "TSTART",
    "WAIT",
    "Code",
    "plain",
]

ABSENT: Final = 0
PLAIN: Final = 1
DIRECT: Final = 2
INDIRECT: Final = 3
IT: Final = 4
RETURNS: Final = 5
"""An indirect branch that returns from an exception, possibly into an IT block."""

ISB: Final = 1
DMB: Final = 2
DSB: Final = 3
"""Kinds of barriers, which some protocols trace: ISB always, the others if the trace unit is made so."""

WAIT: Final = 4
"""WFI, WFE, and those with a timeout, which some units trace as branches."""
TSTART: Final = 5
"""The start of a transaction."""

_ARM, _THUMB, _A64 = 0, 1, 4
_PLAIN64 = {0b1000, 0b1001, 0b0101, 0b1101, 0b0100, 0b0110, 0b1100, 0b1110, 0b0111, 0b1111}
"""Bits 25 to 28 of A64's instructions other than branches, system instructions and those that are reserved."""
_KINDS = {
    arm.ARM_INS_ISB: ISB, arm.ARM_INS_DMB: DMB, arm.ARM_INS_DSB: DSB, arm.ARM_INS_WFI: WAIT, arm.ARM_INS_WFE: WAIT,
}  # fmt: skip
_COPROCESSOR = {0x0E070F95: ISB, 0x0E070FBA: DMB, 0x0E070F9A: DSB}
"""The barriers of ARMv6, which are writes to CP15, without condition and register."""
_BRANCHES = {arm.ARM_INS_B, arm.ARM_INS_BL, arm.ARM_INS_BLX, arm.ARM_INS_CBZ, arm.ARM_INS_CBNZ}
_ALWAYS = (arm.ARM_CC_AL, arm.ARM_CC_INVALID)
_ALWAYS64 = (arm64.ARM64_CC_AL, arm64.ARM64_CC_NV, arm64.ARM64_CC_INVALID)
_DIRECT64 = {
    arm64.ARM64_INS_B, arm64.ARM64_INS_BL, arm64.ARM64_INS_CBZ, arm64.ARM64_INS_CBNZ, arm64.ARM64_INS_TBZ,
    arm64.ARM64_INS_TBNZ,
}  # fmt: skip
_INDIRECT64 = {
    getattr(arm64, f"ARM64_INS_{name}")
    for name in (
        "BR", "BRAA", "BRAB", "BRAAZ", "BRABZ", "BLR", "BLRAA", "BLRAB", "BLRAAZ", "BLRABZ", "RET", "RETAA", "RETAB",
        "ERET", "ERETAA", "ERETAB", "DRPS",
    )
}  # fmt: skip
_CALLS64 = {
    getattr(arm64, f"ARM64_INS_{name}") for name in ("BL", "BLR", "BLRAA", "BLRAB", "BLRAAZ", "BLRABZ")
}  # fmt: skip
_KINDS64 = {
    arm64.ARM64_INS_ISB: ISB, arm64.ARM64_INS_DMB: DMB, arm64.ARM64_INS_DSB: DSB, arm64.ARM64_INS_WFI: WAIT,
    arm64.ARM64_INS_WFE: WAIT,
}  # fmt: skip
_RETURNS = {arm.ARM_INS_RFEIA, arm.ARM_INS_RFEIB, arm.ARM_INS_RFEDA, arm.ARM_INS_RFEDB, arm.ARM_INS_ERET}
_TABLES = {arm.ARM_INS_TBB, arm.ARM_INS_TBH}


class Code:
    """The code of a program for the flow. ``read(address, size)`` returns bytes of the image, fewer if it has none."""

    def __init__(self, read: Callable[[int, int], bytes]) -> None:
        self._read = read
        self._engines = {
            _ARM: capstone.Cs(capstone.CS_ARCH_ARM, capstone.CS_MODE_ARM | capstone.CS_MODE_V8),
            _THUMB: capstone.Cs(capstone.CS_ARCH_ARM, capstone.CS_MODE_THUMB | capstone.CS_MODE_V8),
            _A64: capstone.Cs(capstone.CS_ARCH_ARM64, capstone.CS_MODE_ARM),
        }
        for engine in self._engines.values():
            engine.detail = True

    def look(self, address: int, isa: int) -> tuple[int, int, bool, int, int, int]:
        """Return (size, kind, whether it is conditional, target, instruction set there, instructions in its IT block).

        For a branch, the last value is 1 if the branch is a call; for a plain instruction, the kind of barrier it is.
        """
        data = self._read(address, 4)
        if len(data) == 4 and (found := plain(int.from_bytes(data, "little"), isa)):
            return found
        if isa == _A64:
            return self._look64(address, data)
        size = _size(data, isa)
        if size == 0 or len(data) < size:
            return 0, ABSENT, False, 0, 0, 0
        found = next(self._engines[isa].disasm(data[:size], address, 1), None)
        if size == 4 and isa == _THUMB and (loop := _loop(address, data)):
            return loop
        if found is None or found.size != size:
            return size, PLAIN, isa == _ARM and data[3] >> 4 < 14, 0, 0, 0
        if found.id == arm.ARM_INS_IT:
            mask = data[0] & 15
            return size, IT, False, 0, 0, 4 - ((mask & -mask).bit_length() - 1)
        conditional = found.cc not in _ALWAYS
        if found.id in _BRANCHES:
            last = found.operands[-1]
            calls = found.id in (arm.ARM_INS_BL, arm.ARM_INS_BLX)
            conditional = conditional or found.id in (arm.ARM_INS_CBZ, arm.ARM_INS_CBNZ)
            if last.type == arm.ARM_OP_IMM:
                target_isa = 1 - isa if found.id == arm.ARM_INS_BLX else isa
                return size, DIRECT, conditional, last.imm & 0xFFFFFFFF, target_isa, calls
            return size, INDIRECT, conditional, 0, 0, calls
        if found.id in _RETURNS:
            return size, RETURNS, conditional, 0, 0, 0
        if found.id in _TABLES or _writes_pc(found):
            returns = bool(getattr(found, "update_flags", False)) or bool(getattr(found, "usermode", False))
            return size, RETURNS if returns else INDIRECT, conditional, 0, 0, 0
        return size, PLAIN, conditional, 0, 0, _KINDS.get(found.id) or _barrier(data, isa)

    def _look64(self, address: int, data: bytes) -> tuple[int, int, bool, int, int, int]:
        if len(data) < 4:
            return 0, ABSENT, False, 0, 0, 0
        newer = _newer(address, int.from_bytes(data, "little"))
        found = next(self._engines[_A64].disasm(data, address, 1), None)
        if found is None or newer[1] != PLAIN or newer[-1]:
            return newer
        calls = found.id in _CALLS64
        if found.id in _DIRECT64:
            conditional = found.id not in (arm64.ARM64_INS_B, arm64.ARM64_INS_BL) or found.cc not in _ALWAYS64
            return 4, DIRECT, conditional, found.operands[-1].imm & (1 << 64) - 1, _A64, calls
        if found.id in _INDIRECT64:
            return 4, INDIRECT, False, 0, 0, calls
        return 4, PLAIN, False, 0, 0, _KINDS64.get(found.id, 0)


def plain(word: int, isa: int) -> tuple[int, int, bool, int, int, int] | None:
    """Return what `Code.look` finds of an instruction that plainly is a plain one, or None: these are most.

    ``word``: four bytes from the instruction's address on.
    """
    if isa == _A64:  # data processing, loads and stores
        return (4, PLAIN, False, 0, 0, 0) if word >> 25 & 15 in _PLAIN64 else None
    if isa == _THUMB and word >> 11 & 31 > 28:
        return (4, PLAIN, False, 0, 0, 0) if _plainly_wide(word & 0xFFFF, word >> 16) else None
    if isa == _THUMB:  # 16 bits that name only low registers, and PUSH
        top = word >> 10 & 63
        return (2, PLAIN, False, 0, 0, 0) if top < 17 or 18 <= top < 44 or top == 45 or 48 <= top < 52 else None
    if word >> 28 > 14:
        return None
    kind, register, base = word >> 25 & 7, word >> 12 & 15, word >> 16 & 15
    if kind < 2:  # data processing; not its space of other instructions
        certain = register < 14 and base < 15 and word >> 23 & 3 != 2
    elif kind == 2 or (kind == 3 and not word & 16):  # loads and stores of one register
        certain = register < 15 and base < 15
    else:  # loads and stores of several
        certain = kind == 4 and base < 15 and not word >> 22 & 1 and not (word >> 20 & 1 and word >> 15 & 1)
    return (4, PLAIN, word >> 28 < 14, 0, 0, 0) if certain else None


def _plainly_wide(first: int, second: int) -> bool:
    """Return whether an instruction of T32 with 32 bits, given as two halves, plainly is a plain one."""
    space = first >> 9
    if space in (0b1111000, 0b1111001, 0b1111010, 0b1111011):  # data processing with an immediate value
        return not second >> 15 and second >> 8 & 15 != 15
    if space == 0b1110101:  # data processing with registers
        return second >> 8 & 15 != 15
    if space == 0b1111101:  # the same, and multiplication, which may have two results
        return second >> 8 & 15 != 15 and second >> 12 != 15
    if space == 0b1111100:  # loads and stores of one register; of vectors not with an address of the PC
        return second >> 12 != 15 and not (first >> 8 & 1 and first & 15 == 15)
    if space != 0b1110100 or first & 15 == 15:  # an address of the PC may change the PC
        return False
    if not first >> 6 & 1:  # of several registers, without the PC; not those for exceptions
        return first >> 7 & 3 in (1, 2) and not second >> 15
    # Of two registers; not the exclusive ones, and TBB.
    return bool(first >> 5 & 9) and second >> 12 != 15 and second >> 8 & 15 != 15


def _newer(address: int, word: int) -> tuple[int, int, bool, int, int, int]:
    """Return the effect of an A64 instruction that the disassembler does not know, or not as a branch."""
    if word & 0xFF000010 == 0x54000010:  # BC.cond
        offset = (word >> 5 & 0x7FFFF) << 2
        target = address + offset - ((offset & 1 << 20) << 1)
        return 4, DIRECT, True, target & (1 << 64) - 1, _A64, 0
    if word & 0x7E000000 == 0x74000000:  # CBEQ, CBBEQ, CBHEQ …, of registers and immediate values
        offset = (word >> 5 & 0x1FF) << 2
        target = address + offset - ((offset & 1 << 10) << 1)
        return 4, DIRECT, True, target & (1 << 64) - 1, _A64, 0
    if word & 0xFFC0001F == 0x5500001F or word & 0xFFFFFBE0 == 0xD65F0BE0:  # RETAASPPC, RETAASPPCR …
        return 4, INDIRECT, False, 0, 0, 0
    if word & 0xFFFFFBFF == 0xD6FF03E0:  # TEXIT
        return 4, INDIRECT, False, 0, 0, 0
    waits = word & 0xFFFFFFC0 == 0xD5031000  # WFET, WFIT
    return 4, PLAIN, False, 0, 0, WAIT if waits else TSTART if word & 0xFFFFFFE0 == 0xD5233060 else 0


def _loop(address: int, data: bytes) -> tuple[int, int, bool, int, int, int] | None:
    """Return the effect of the instruction of T32 that begins or ends a loop of Armv8.1-M, or None if it is another."""
    first, second = int.from_bytes(data[:2], "little"), int.from_bytes(data[2:4], "little")
    if second & 0xF001 != 0xC001 or first & 0xFF80 != 0xF000:
        return None
    offset = (second >> 1 & 0x3FF) << 2 | second >> 10 & 2
    if first in (0xF00F, 0xF01F, 0xF02F):  # LE and LETP; the last one always branches
        return 4, DIRECT, first != 0xF02F, address + 4 - offset & 0xFFFFFFFF, _THUMB, 0
    if first & 15 != 15 and first <= 0xF04F:  # WLSTP and WLS
        return 4, DIRECT, True, address + 4 + offset & 0xFFFFFFFF, _THUMB, 0
    return None


def _barrier(data: bytes, isa: int) -> int:
    """Return which barrier an instruction of 4 bytes is that writes to CP15, or 0."""
    word = int.from_bytes(data, "little")
    if isa == _THUMB:
        word = word >> 16 | (word & 0xFFFF) << 16
    return _COPROCESSOR.get(word & 0x0FFF0FFF, 0) if word >> 28 == 0xE or (isa == _ARM and word >> 28 < 0xF) else 0


def _size(data: bytes, isa: int) -> int:
    """Return the size of an instruction from its encoding alone; 0 if the bytes hold none."""
    if isa == _ARM:
        return 4 if len(data) == 4 else 0
    if len(data) < 2:
        return 0
    return 4 if data[1] >> 3 >= 0b11101 else 2


def _writes_pc(found: Any) -> bool:
    if found.group(capstone.CS_GRP_JUMP):
        return True
    if found.mnemonic.startswith(("cmp", "cmn", "tst", "teq", "str", "stm", "push", "vstm", "vstr")):
        return False
    return bool(arm.ARM_REG_PC in found.regs_access()[1])
