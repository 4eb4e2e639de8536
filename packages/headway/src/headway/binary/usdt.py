"""The static probes (USDT) of a program: places that its authors marked, with a name and arguments.

A file has one note of the owner ``stapsdt`` and the type 3 in ``.note.stapsdt`` for each place. It holds three
addresses (the probe's; that of ``.stapsdt.base`` when the file was linked; the semaphore's, or 0) and three texts:
provider, name, arguments. Whoever probes a place with a semaphore counts that up meanwhile, so that the program does
the work for the arguments only then. An argument is ``N@OPERAND``: its bytes (negative: signed), and where it is, as
the assembler of the processor writes it.

Source: SystemTap wiki, "UserSpaceProbeImplementation". All of a file is untrusted.
"""

from __future__ import annotations

import platform
import re
import struct
from collections.abc import Iterator, Mapping
from functools import cache

from headway.dataclass import dataclass

from .elf import ElfFile

__all__ = ["MAX_PROBES", "Operand", "UsdtProbe", "operands_of", "probes_of"]

MAX_PROBES = 20_000
"""The largest number of probes of a file that are read."""
_MAX_NOTES = 16 << 20
"""The largest size of a section of notes in bytes."""
_MAX_TEXT = 1024
_NOTE = struct.Struct("<III")
_ADDRESSES = struct.Struct("<QQQ")
_OWNER, _TYPE = b"stapsdt\0", 3
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class UsdtProbe:
    """A place in a file. All addresses are as linked."""

    provider: str
    name: str
    address: int
    """Of the instruction."""
    semaphore: int
    """The address of the 16 bits that count who probes; 0: it has none."""
    arguments: str
    """As the note has them."""

    @property
    def shown(self) -> str:
        """``provider:name``."""
        return f"{self.provider}:{self.name}"


@dataclass(frozen=True, slots=True)
class Operand:
    """Where an argument is: constant, in a register, or in memory at base + index * scale + value."""

    size: int
    """In bytes; negative: signed."""
    base: int | None = None
    """The register's offset in the kernel's ``struct pt_regs``, in bytes; None: there is none."""
    index: int | None = None
    scale: int = 1
    value: int = 0
    """The constant, or what is added to the address."""
    in_memory: bool = False


def probes_of(image: ElfFile) -> tuple[UsdtProbe, ...]:
    """Return the probes of a file, as far as their notes make sense. Raises ElfError if the file is damaged."""
    _, notes = image.section(".note.stapsdt", _MAX_NOTES)
    base, _ = image.section(".stapsdt.base", 1)
    return tuple(probe for _, probe in zip(range(MAX_PROBES), parse(notes, base), strict=False))


def parse(notes: bytes, base: int = 0) -> Iterator[UsdtProbe]:
    """Yield the probes in the notes of a section. What is no such note, or is damaged, is left out.

    ``base``: the address of ``.stapsdt.base`` (0: there is none), by which one sees whether the file was moved since
    its notes were written.
    """
    at = 0
    while at + _NOTE.size <= len(notes):
        owner_size, size, kind = _NOTE.unpack_from(notes, at)
        owner_at = at + _NOTE.size
        content_at = owner_at + (owner_size + 3) // 4 * 4
        at = content_at + (size + 3) // 4 * 4
        if at > len(notes) + 3:
            return
        if kind == _TYPE and notes[owner_at : owner_at + owner_size] == _OWNER:
            probe = _probe(notes[content_at : content_at + size], base)
            if probe is not None:
                yield probe


def _probe(content: bytes, base: int) -> UsdtProbe | None:
    if len(content) < _ADDRESSES.size:
        return None
    address, noted_base, semaphore = _ADDRESSES.unpack_from(content)
    texts = content[_ADDRESSES.size :].split(b"\0")
    if len(texts) < 4 or any(len(text) > _MAX_TEXT for text in texts[:3]):
        return None
    provider, name, arguments = (text.decode("ascii", "replace") for text in texts[:3])
    if not _NAME.fullmatch(provider) or not _NAME.fullmatch(name):
        return None
    moved = base - noted_base if base and noted_base else 0
    semaphore = semaphore + moved if semaphore else 0
    if not 0 <= address + moved < 1 << 63 or not 0 <= semaphore < 1 << 63:
        return None
    return UsdtProbe(provider, name, address + moved, semaphore, arguments)


# ---- arguments ----


def operands_of(arguments: str, machine: str | None = None) -> tuple[Operand | None, ...]:
    """Return where the arguments of a probe are; None for one whose place is written in a way that is not known.

    ``machine``: as in ``uname -m``; None: this one.
    """
    parts = re.split(r"\s+(?=-?\d+f?@)", arguments.strip()) if arguments.strip() else []
    return tuple(_operand(part.replace(" ", ""), machine or platform.machine()) for part in parts)


_ARGUMENT = re.compile(r"(-?[1248])@(.+)")
_NUMBER = r"[+-]?(?:0x[0-9a-fA-F]{1,16}|\d{1,20})"
_X86 = (
    re.compile(rf"\$(?P<constant>{_NUMBER})"),
    re.compile(r"%(?P<register>[a-z0-9]+)"),
    re.compile(
        rf"(?P<value>{_NUMBER})?\((?:%(?P<base>[a-z0-9]+))?(?:,%(?P<index>[a-z0-9]+)(?:,(?P<scale>[1248]))?)?\)"
    ),
)
_ARM = (
    re.compile(rf"#?(?P<constant>{_NUMBER})"),
    re.compile(r"(?P<register>[a-z][a-z0-9]*)"),
    re.compile(rf"\[(?P<base>[a-z][a-z0-9]*)(?:,#?(?P<value>{_NUMBER}))?\]"),
    re.compile(r"\[(?P<base>[a-z][a-z0-9]*),(?P<index>x[0-9]+)(?:,lsl#?(?P<shift>[0-3]))?\]"),
)


def _operand(text: str, machine: str) -> Operand | None:
    argument = _ARGUMENT.fullmatch(text)
    forms = {"x86_64": _X86, "aarch64": _ARM}.get(machine, ())
    if argument is None:
        return None
    size, place = int(argument[1]), argument[2]
    found = next((match for form in forms if (match := form.fullmatch(place))), None)
    if found is None:
        return None
    named = {name: word for name, word in found.groupdict().items() if word is not None}
    numbers = {name: _number(named[name]) for name in ("constant", "value") if name in named}
    known = _registers(machine)
    registers = {name: known.get(named[name]) for name in ("register", "base", "index") if name in named}
    if None in registers.values() or any(not -(1 << 63) <= number < 1 << 63 for number in numbers.values()):
        return None
    if "constant" in numbers:
        return Operand(size, value=numbers["constant"])
    if "register" in registers:
        return Operand(size, base=registers["register"])
    scale = 1 << int(named["shift"]) if "shift" in named else int(named.get("scale", "1"))
    if not registers:
        return None
    value = numbers.get("value", 0)
    return Operand(size, registers.get("base"), registers.get("index"), scale, value, in_memory=True)


def _number(word: str) -> int:
    return int(word, 16 if "x" in word else 10)


_X86_ORDER = ("r15", "r14", "r13", "r12", "bp", "bx", "r11", "r10", "r9", "r8", "ax", "cx", "dx", "si", "di")
"""The first registers of ``struct pt_regs`` (arch/x86/include/asm/ptrace.h), each 8 bytes."""
_X86_STACK = 152
"""The offset of the stack pointer there."""


@cache
def _registers(machine: str) -> Mapping[str, int]:
    """Return the offset of each register in ``struct pt_regs``, by all its names."""
    if machine == "aarch64":  # regs[31], sp (arch/arm64/include/asm/ptrace.h)
        found = {f"{letter}{n}": 8 * n for n in range(31) for letter in "xw"}
        return found | {"fp": 8 * 29, "lr": 8 * 30, "sp": 8 * 31}
    found = {}
    for n, name in enumerate(_X86_ORDER):
        if name.startswith("r"):
            names = [name, f"{name}d", f"{name}w", f"{name}b"]
        else:
            names = [f"r{name}", f"e{name}", name, f"{name[0]}l" if name.endswith("x") else f"{name}l"]
        found |= dict.fromkeys(names, 8 * n)
    return found | dict.fromkeys(("rsp", "esp", "sp", "spl"), _X86_STACK)
