"""Loops in which a thread spins: it waits for memory to change, and does nothing else.

Such a loop is recognised in machine code, without symbols and without a mark:

- it has an instruction that exists for this purpose: PAUSE, TPAUSE or UMWAIT on x86-64; YIELD, WFE or ISB on arm64; or
- it loads from addresses that do not change in the loop, and goes on or ends by what it loaded. It stores nothing but
  by an atomic exchange at such an address, calls nothing, and computes nothing that it carries from one turn to the
  next but a counter. Only another thread can end such a loop.

A loop is a direct branch backwards, over at most `MAX_BYTES`. The innermost loop around an address decides. The code of
other processes is not trusted: whatever the bytes are, the answer is a loop or none.

Sources: Intel SDM 2B (PAUSE), 2D (TPAUSE, UMWAIT); ARM DDI 0487, C6.2 (YIELD, WFE, ISB).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from headway.extras import load

__all__ = ["MAX_BYTES", "SpinLoop", "SpinLoops"]

MAX_BYTES = 192
"""The length of a loop in bytes, at most."""
_AHEAD = 256
"""How many bytes behind an address the end of its loop is looked for."""
_MAX_INSTRUCTIONS = 64

_FIXED, _LOADED, _VARIES, _CARRIED = range(4)
"""What is known of a value in the loop: it does not change; it was loaded from a fixed address in this turn, or follows
from such values; it changes from turn to turn by itself; it comes from the turn before (nothing more is known yet).
"""
_FLAGS: Final = "flags"

_X86_REGISTERS = {
    name: whole
    for whole, names in {
        "rax": "rax eax ax al ah",
        "rbx": "rbx ebx bx bl bh",
        "rcx": "rcx ecx cx cl ch",
        "rdx": "rdx edx dx dl dh",
        "rsi": "rsi esi si sil",
        "rdi": "rdi edi di dil",
        "rbp": "rbp ebp bp bpl",
        "rsp": "rsp esp sp spl",
        **{f"r{n}": f"r{n} r{n}d r{n}w r{n}b" for n in range(8, 16)},
    }.items()
    for name in names.split()
}
_X86 = {
    "hint": "pause tpause umwait",
    "free": "nop endbr64 mfence lfence sfence umonitor",
    "load": "mov movabs movzx movsx movsxd",
    "compute": "add sub and or xor lea inc dec neg not shl shr sar sal cdqe cwde bt cmp test",
    "exchange": "xchg cmpxchg",
}
_ARM = {
    "hint": "yield wfe wfet isb",
    "free": "nop dmb dsb hint sevl bti",
    "load": "ldr ldrb ldrh ldrsb ldrsh ldrsw ldur ldurb ldurh ldursw ldar ldarb ldarh ldapr ldaprb ldaprh mov movz",
    "compute": "add adds sub subs and ands orr eor bic neg mvn lsl lsr asr ubfx uxtb uxth sxtw cset csel cmp cmn tst",
    "exchange": "swp swpa swpl swpal cas casa casl casal casb casab caslb casalb",
}
_SETS = re.compile(r"set[a-z]+|cmov[a-z]+")
_X86_BRANCH = re.compile(r"j[a-z]+")
_ARM_BRANCH = re.compile(r"b(\.[a-z]+)?|cbn?z|tbn?z")


@dataclass(frozen=True, slots=True)
class SpinLoop:
    """A loop that spins: its first address, and the first behind it."""

    start: int
    end: int
    hint: str
    """The instruction that says so; empty: what the loop does says it."""


class SpinLoops:
    """Finds the spinning loops around addresses in the code of one kind of processor, each address once."""

    def __init__(self, machine: str) -> None:
        """``machine``: as in `platform.machine`. On one that is not known no loop spins."""
        capstone = load("spin", "capstone")
        self._capstone = capstone
        self._engine: Any = None
        if machine == "x86_64":
            self._engine = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
            table, self._branch = _X86, _X86_BRANCH
        elif machine == "aarch64":
            self._engine = capstone.Cs(capstone.CS_ARCH_ARM64, capstone.CS_MODE_ARM)
            table, self._branch = _ARM, _ARM_BRANCH
        else:
            return
        self._engine.detail = True
        self._x86 = machine == "x86_64"
        self._roles = {word: role for role, words in table.items() for word in words.split()}

    @property
    def known(self) -> bool:
        """Whether the machine's code can be read."""
        return self._engine is not None

    def around(self, address: int, read: Callable[[int, int], bytes]) -> SpinLoop | None:
        """Return the innermost loop around an instruction if a thread spins in it; ``read(address, size)`` gives code.

        ``read`` may return fewer bytes than asked for.
        """
        if self._engine is None:
            return None
        for end, target in self._branches(read(address, _AHEAD), address):
            if target <= address and end - target <= MAX_BYTES:
                body = self._decoded(read(target, end - target), target, end)
                if body is None or all(each.address != address for each in body):
                    continue  # another way to read the bytes: the target is not where an instruction begins
                return self._judged(body, address, target, end)
        return None

    def _branches(self, code: bytes, address: int) -> Iterator[tuple[int, int]]:
        """Yield the end and the target of each direct branch."""
        for each in self._engine.disasm(code, address, _MAX_INSTRUCTIONS):
            target = self._target(each)
            if target is not None:
                yield each.address + each.size, target

    def _target(self, instruction: Any) -> int | None:
        if not self._branch.fullmatch(instruction.mnemonic):
            return None
        last = instruction.operands[-1] if instruction.operands else None
        return last.imm & (1 << 64) - 1 if last is not None and last.type == self._capstone.CS_OP_IMM else None

    def _decoded(self, code: bytes, start: int, end: int) -> list[Any] | None:
        found = list(self._engine.disasm(code, start, _MAX_INSTRUCTIONS))
        whole = bool(found) and found[-1].address + found[-1].size == end
        return found if whole else None

    def _judged(self, body: Sequence[Any], address: int, start: int, end: int) -> SpinLoop | None:
        inner = [
            (target, each.address)
            for each in body
            if (target := self._target(each)) is not None and start < target <= each.address < end
        ]
        for each in body:
            if self._roles.get(_bare(each.mnemonic)) == "hint" and not any(
                first <= each.address <= last and not first <= address <= last for first, last in inner
            ):
                return SpinLoop(start, end, each.mnemonic)
        return SpinLoop(start, end, "") if self._waits_for_memory(body) else None

    def _waits_for_memory(self, body: Sequence[Any]) -> bool:
        written = {name for each in body for name in self._written(each)}
        values = dict.fromkeys(written, _CARRIED)
        if self._turn(body, values, first=True) is None:
            return False
        return bool(self._turn(body, values, first=False))  # now it is known what comes from the turn before

    def _written(self, instruction: Any) -> set[str]:
        written = {self._name(number) for number in instruction.regs_access()[1]} - {""}
        word = _bare(instruction.mnemonic)
        if self._roles.get(word) == "exchange":  # of these capstone 5 does not tell
            registers = [op.reg for op in instruction.operands if op.type == self._capstone.CS_OP_REG]
            if word == "cmpxchg":
                written |= {"rax", _FLAGS}
            elif word.startswith(("cas", "swp")) and len(registers) == 2:
                written.add(self._name(registers[word.startswith("swp")]))
        return written

    def _name(self, number: int) -> str:
        name = self._engine.reg_name(number) or ""
        if self._x86:
            return _FLAGS if name in ("rflags", "eflags") else _X86_REGISTERS.get(name, name)
        return _FLAGS if name == "nzcv" else f"x{name[1:]}" if re.fullmatch(r"w\d+", name) else name

    def _turn(self, body: Sequence[Any], values: dict[str, int], *, first: bool) -> bool | None:
        """Follow the values through one turn. Return whether memory ends the loop; None: it does something else.

        ``first``: it is not known yet what comes from the turn before, and nothing is concluded from that.
        """
        ends = False
        for each in body:
            role = self._roles.get(_bare(each.mnemonic)) or ("compute" if _SETS.fullmatch(each.mnemonic) else "")
            if self._branch.fullmatch(each.mnemonic):
                ends |= self._condition(each, values) == _LOADED
            elif role == "exchange":
                if not self._exchange(each, values, first=first):
                    return None
            elif role in ("load", "compute"):
                if not self._follow(each, role, values, first=first):
                    return None
            elif role != "free":
                return None
        return ends

    def _condition(self, branch: Any, values: dict[str, int]) -> int:
        """Return what decides a branch."""
        if branch.mnemonic in ("jmp", "b"):
            return _FIXED
        register = self._capstone.CS_OP_REG
        read = [self._name(op.reg) for op in branch.operands if op.type == register]
        return values.get(read[0] if read else _FLAGS, _FIXED)

    def _operands(self, instruction: Any, values: dict[str, int]) -> tuple[list[str], list[int], list[int], bool]:
        """Return the registers written, the values read, those of addresses, and whether memory is written."""
        cs = self._capstone
        written, read, addresses, stores = [], [], [], False
        for op in instruction.operands:
            if op.type == cs.CS_OP_REG:
                name = self._name(op.reg)
                if op.access & cs.CS_AC_WRITE:
                    written.append(name)
                if op.access & cs.CS_AC_READ:
                    read.append(values.get(name, _FIXED))
            elif op.type == cs.CS_OP_MEM:
                registers = [self._name(number) for number in (op.mem.base, op.mem.index) if number]
                addresses += [values.get(name, _FIXED) for name in registers]
                stores = stores or bool(op.access & cs.CS_AC_WRITE)
        return written, read, addresses, stores

    def _exchange(self, instruction: Any, values: dict[str, int], *, first: bool) -> bool:
        """Follow an atomic exchange, at an address that must be fixed. What it brings was loaded.

        One that compares must offer a fixed value, as a lock does. If the value follows from what was loaded, the loop
        tries an update again, which somebody else's progress has prevented.
        """
        written, _, addresses, _ = self._operands(instruction, values)
        if all(op.type != self._capstone.CS_OP_MEM for op in instruction.operands):  # of registers: it moves
            return self._follow(instruction, "load", values, first=first)
        compares = _bare(instruction.mnemonic).startswith(("cmpxchg", "cas"))
        offered = [op.reg for op in instruction.operands if op.type == self._capstone.CS_OP_REG]
        new = values.get(self._name(offered[-1]), _FIXED) if compares and offered else _FIXED
        if not first and (max(addresses, default=_FIXED) > _LOADED or new != _FIXED):
            return False
        for name in {*written, *self._written(instruction)}:
            values[name] = _LOADED
        return True

    def _follow(self, instruction: Any, role: str, values: dict[str, int], *, first: bool) -> bool:
        written, read, addresses, stores = self._operands(instruction, values)
        if stores or any(name in ("rsp", "sp", "rip") for name in self._written(instruction)):
            return False
        is_address = instruction.mnemonic == "lea"
        sources = [*read, *addresses] if is_address else list(read)
        if addresses and not is_address:  # what is at an address that changes changes by itself
            sources.append(_LOADED if max(addresses) <= _LOADED else _VARIES)
        zeroes = instruction.mnemonic in ("xor", "sub", "eor") and _same_registers(instruction, self._capstone)
        worst = _FIXED if zeroes else max(sources, default=_FIXED)
        if worst == _CARRIED:
            worst = _CARRIED if role == "load" and not addresses else _VARIES
        counts = len(sources) <= 1 and not addresses
        if not first and worst == _VARIES and role == "compute" and not counts and not _only_compares(instruction):
            return False  # it computes something from turn to turn
        for name in {*written, *self._written(instruction)}:
            values[name] = worst
        return True


def _only_compares(instruction: Any) -> bool:
    return instruction.mnemonic in ("cmp", "test", "bt", "cmn", "tst")


def _same_registers(instruction: Any, capstone: Any) -> bool:
    registers = [op.reg for op in instruction.operands if op.type == capstone.CS_OP_REG]
    return len(registers) == len(instruction.operands) >= 2 and len(set(registers[-2:])) == 1


def _bare(mnemonic: str) -> str:
    """Return the mnemonic without its prefixes: capstone writes ``lock cmpxchg``."""
    return mnemonic.rpartition(" ")[2]
