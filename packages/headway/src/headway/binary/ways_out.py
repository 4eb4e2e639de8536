"""The ways out of a function: its return instructions, and the jumps by which another function takes its place.

A probe on each of them sees every return of the function without a change of its stack. So exceptions may pass through
it, which a return probe does not allow. Of jumps, these leave the function for good (tail calls):

- an unconditional jump to an address that is outside of its code;
- a jump to an address in memory (`jmp *8(%rax)`), unless that is a table (it has an index);
- a jump to a register, unless the instruction before it adds to that register, as compilers compute the places of a
  ``switch``.

A conditional jump out of the function is taken to come back: compilers move rare code elsewhere (``.cold``).

capstone disassembles. Sources: Intel SDM 2, Arm ARM C6; GCC's and LLVM's code for ``switch`` (``-O2``, with and without
``-fPIC`` and ``-fcf-protection``).
"""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from headway.errors import HeadwayError
from headway.extras import load

__all__ = ["Piece", "WayOut", "ways_out"]

capstone = load("functions", "capstone")
x86, arm64 = load("functions", "capstone.x86"), load("functions", "capstone.arm64")


@dataclass(frozen=True, slots=True)
class Piece:
    """Code of a function that lies together."""

    address: int
    """As linked."""
    code: bytes


@dataclass(frozen=True, slots=True)
class WayOut:
    """An instruction by which a function is left."""

    address: int
    is_jump: bool
    """A jump to a fixed address, and not a return or a jump that is computed."""


def ways_out(pieces: Sequence[Piece], machine: str | None = None) -> tuple[WayOut, ...]:
    """Return the ways out of a function that consists of these pieces, by address.

    ``machine``: as `platform.machine` names it; None: this one. Raises HeadwayError if a piece cannot be disassembled
    to its end.
    """
    found = []
    for piece in pieces:
        end, before = piece.address, None
        for instruction in _engine(machine or platform.machine()).disasm(piece.code, piece.address):
            way = _way_out(instruction, before, pieces)
            if way is not None:
                found.append(way)
            before, end = instruction, instruction.address + instruction.size
        if end != piece.address + len(piece.code):
            raise HeadwayError(f"the code at {end:#x} is no instruction that capstone knows")
    return tuple(sorted(found, key=lambda way: way.address))


@cache
def _engine(machine: str) -> Any:
    kinds = {
        "x86_64": (capstone.CS_ARCH_X86, capstone.CS_MODE_64),
        "aarch64": (capstone.CS_ARCH_ARM64, capstone.CS_MODE_ARM),
    }
    if machine not in kinds:
        raise HeadwayError(f"the ways out of functions are not known on this kind of processor ({machine})")
    engine = capstone.Cs(*kinds[machine])
    engine.detail = True
    return engine


def _way_out(found: Any, before: Any, pieces: Sequence[Piece]) -> WayOut | None:
    """Return an instruction as a way out; None: it is none. ``before``: the instruction before it, or None."""
    if found.group(capstone.CS_GRP_RET):
        return WayOut(found.address, is_jump=False)
    if not _is_unconditional_jump(found):
        return None
    (target,) = found.operands[:1] or (None,)
    if target is None:
        return None
    if target.type == capstone.CS_OP_IMM:
        inside = any(piece.address <= target.imm < piece.address + len(piece.code) for piece in pieces)
        return None if inside else WayOut(found.address, is_jump=True)
    if target.type == capstone.CS_OP_MEM:
        return None if target.mem.index else WayOut(found.address, is_jump=False)
    return None if before is not None and _adds_to(before, target.reg) else WayOut(found.address, is_jump=False)


def _is_unconditional_jump(found: Any) -> bool:
    if not found.group(capstone.CS_GRP_JUMP):
        return False
    if found._cs.arch == capstone.CS_ARCH_X86:
        return bool(found.id == x86.X86_INS_JMP)
    always = (arm64.ARM64_CC_INVALID, arm64.ARM64_CC_AL)
    return found.id == arm64.ARM64_INS_BR or (found.id == arm64.ARM64_INS_B and found.cc in always)


def _adds_to(found: Any, register: int) -> bool:
    if found.id not in (x86.X86_INS_ADD, arm64.ARM64_INS_ADD) or not found.mnemonic.startswith("add"):
        return False
    target = found.operands[0]
    return bool(target.type == capstone.CS_OP_REG and target.reg == register)
