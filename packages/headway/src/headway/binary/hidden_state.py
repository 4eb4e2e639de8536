"""Whether code may change what samples of a thread's state do not see (linux/bpf/samples/code_samples.h).

Seen are the general registers, the top of the stack, and the beginnings of the objects that registers point to. Not
seen are the registers for vectors and floating point, and all other memory. Code that computes there may make progress
while everything that is seen stays the same: it adds to a floating-point number, or to a word of memory that is not
seen.

What a thread computes in a general register is seen, wherever it is stored. Moves change nothing by themselves.

The straight code around a sample is looked at, from one jump to the next: it was executed. The code of other processes
is not trusted: whatever the bytes are, the answer is that they hide state or that they do not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from headway.extras import load

__all__ = ["HiddenState"]

_BELOW, _ABOVE, _OBJECT = 128, 256, 64
"""Bytes that are seen: below and above the top of the stack, and behind each register."""
_LONGEST = 15
"""Bytes of an instruction, at most."""
_MOST = 256
_MOVES = re.compile(r"v?mov[a-z0-9]*|v?lddqu|nop|prefetch[a-z0-9]*|ld[a-z0-9]+|st[a-z0-9]+|fmov")
"""What only moves what vector registers have."""
_ZEROES = re.compile(r"v?pxor[dq]?|v?xorp[sd]|eor")
"""What makes a register zero, if it takes no other."""
_X86_VECTOR = re.compile(r"[xyz]mm\d+|st(\(\d\))?|mm\d|k\d")
_ARM_VECTOR = re.compile(r"[vqdshb]\d+")
_TELLS = re.compile(r"cmpxchg[a-z0-9]*|xchg|xadd|swp[a-z]*|cas[a-z]*|ld(add|clr|set|eor)[a-z]*")
"""What changes memory and tells a general register what was there."""


class HiddenState:
    """Judges the code of one kind of processor."""

    def __init__(self, machine: str) -> None:
        """``machine``: as in `platform.machine`. On one that is not known all code hides state."""
        capstone = load("spin", "capstone")
        self._capstone = capstone
        self._engine: Any = None
        self._x86 = machine == "x86_64"
        if self._x86:
            self._engine = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
        elif machine == "aarch64":
            self._engine = capstone.Cs(capstone.CS_ARCH_ARM64, capstone.CS_MODE_ARM)
        if self._engine is not None:
            self._engine.detail = True
        self._vector = _X86_VECTOR if self._x86 else _ARM_VECTOR

    def around(self, address: int, start: int, code: bytes) -> bool:
        """Return whether the code around an address may change what is not seen. ``code`` begins at ``start``."""
        if self._engine is None:
            return True
        return any(self._hides(each) for each in self._straight(address, start, code))

    def _straight(self, address: int, start: int, code: bytes) -> Iterator[Any]:
        """Yield the instructions from the address to the next jump, and those before it since the last one.

        What comes before a place that a jump leads to may have been passed over. If it was executed, other samples
        are there.
        """
        before, behind = self._before(address, start, code), self._decoded(code[address - start :], address)
        targets = {self._target(each) for each in (*before, *behind)}
        for each in behind:
            yield each
            if self._jumps(each):
                break
        at = address
        for each in reversed(before):
            if at in targets or self._jumps(each):
                break
            yield each
            at = each.address

    def _decoded(self, code: bytes, address: int) -> list[Any]:
        return list(self._engine.disasm(code, address, _MOST))

    def _before(self, address: int, start: int, code: bytes) -> list[Any]:
        """Return the instructions before the address that lead to it."""
        inside = address - start
        step = 1 if self._x86 else 4
        for begin in range(inside % step, min(_LONGEST + 1, inside), step):
            found = self._decoded(code[begin:inside], start + begin)
            if found and found[-1].address + found[-1].size == address:
                return found
        return []

    def _target(self, each: Any) -> int | None:
        last = each.operands[-1] if each.operands else None
        if last is None or last.type != self._capstone.CS_OP_IMM or not each.group(self._capstone.CS_GRP_JUMP):
            return None
        return int(last.imm) & (1 << 64) - 1

    def _jumps(self, each: Any) -> bool:
        return bool(each.group(self._capstone.CS_GRP_JUMP) or each.group(self._capstone.CS_GRP_RET))

    def _hides(self, each: Any) -> bool:
        name = each.mnemonic.rpartition(" ")[2]
        registers = {operand.reg for operand in each.operands if operand.type == self._capstone.CS_OP_REG}
        if any(self._vector.fullmatch(each.reg_name(register)) for register in registers):
            return not (_MOVES.fullmatch(name) or (_ZEROES.fullmatch(name) and len(registers) == 1))
        if not self._x86:
            return False  # memory is changed by way of registers
        if name.startswith("f") or each.mnemonic.startswith("rep"):  # the x87 names no registers
            return True
        if _TELLS.fullmatch(name):
            return False
        return any(self._computes_in(operand) and not self._is_seen(each, operand) for operand in each.operands)

    def _computes_in(self, operand: Any) -> bool:
        """Return whether the instruction reads and writes this memory."""
        both = self._capstone.CS_AC_READ | self._capstone.CS_AC_WRITE
        return bool(operand.type == self._capstone.CS_OP_MEM and operand.access & both == both)

    def _is_seen(self, each: Any, operand: Any) -> bool:
        memory = operand.mem
        if memory.index or not memory.base or memory.segment:
            return False
        base = each.reg_name(memory.base)
        if base == "rsp":
            return bool(memory.disp >= -_BELOW and memory.disp + operand.size <= _ABOVE)
        return bool(base != "rip" and memory.disp >= 0 and memory.disp + operand.size <= _OBJECT)
