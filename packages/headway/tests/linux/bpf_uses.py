"""What an eBPF object uses of a kernel: kinds of programs and maps, helpers, instructions, types.

Sources, in the kernel: Documentation/bpf/standardization/instruction-set.rst for the instructions, and
include/uapi/linux/bpf.h for the numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import NamedTuple

from . import btf
from .bpf_objects import CALL, LD_IMM64, BpfObject, Function, Instruction, Place

__all__ = ["Feature", "Use", "attachment", "features_of", "uses"]

_EXIT, _LONG_JUMP, _MAY_GOTO = 0x95, 0x06, 0xE5
_ALU, _JMP, _JMP32, _ALU64 = 4, 5, 6, 7
_DIVIDE, _NEGATE, _MODULO, _MOVE, _SWAP = 0x30, 0x80, 0x90, 0xB0, 0xD0
_CALL, _RETURN = 0x80, 0x90
_ATOMIC = "atomic"

_ATOMICS = {
    0x00: "atomic add",
    **dict.fromkeys((0x40, 0x50, 0xA0), "atomic and, or, xor"),
    **dict.fromkeys((0x01, 0x41, 0x51, 0xA1), "atomic fetch"),
    **dict.fromkeys((0xE1, 0xF1), "atomic exchange"),
    **dict.fromkeys((0x100, 0x110), "load-acquire, store-release"),
}
"""By the immediate of the instruction."""

_ARRAY, _MMAPABLE, _READ_ONLY = 2, 1 << 10, 1 << 7
_TAIL_CALL = 12
_MAX_INSTRUCTIONS = 4096
"""BPF_MAXINSNS."""


class Feature(NamedTuple):
    """Something that a kernel has or has not: a table of kernel_features.toml, and a key in it."""

    table: str
    key: str


class Use(NamedTuple):
    """A use of a feature: in a program, or, without one, by the object as a whole."""

    feature: Feature
    program: Function | None = None
    place: Place | None = None
    """Of the instruction or function that needs it, if it is not the program or the object as a whole."""


def attachment(program: Function) -> str:
    """Return what the section of a program says of how it is attached; of an iterator, also over what."""
    section = program.place.section
    kind, _, rest = section.partition("/")
    return section if kind in ("iter", "iter.s") and rest else kind


def _opcodes() -> Mapping[int, str]:
    """Return the opcodes with what they need; those that every kernel knows need nothing."""
    known = {LD_IMM64: "", CALL: "", _EXIT: "", 0x05: "", _LONG_JUMP: "32-bit jump offset", _MAY_GOTO: "may_goto"}
    known |= {0x8D: "call through a register", 0x0D: "jump through a register"}
    for size in (0x00, 0x08, 0x10, 0x18):
        known |= {0x60 | size | kind: "" for kind in (1, 2, 3)}
        known[0xC0 | size | 3] = _ATOMIC
        if size != 0x18:
            known[0x80 | size | 1] = "sign-extending load"
    for register in (0, 8):
        for operation in range(0x00, _SWAP, 0x10):
            if operation != _NEGATE or not register:
                known |= {operation | register | kind: "" for kind in (_ALU, _ALU64)}
        known[_SWAP | register | _ALU] = ""
        for comparison in range(0x10, 0xE0, 0x10):
            if comparison not in (_CALL, _RETURN):
                known |= {comparison | register | _JMP: "", comparison | register | _JMP32: "32-bit jump"}
    known[_SWAP | _ALU64] = "unconditional byte swap"
    return known


_OPCODES = _opcodes()


def _instruction(each: Instruction) -> str:
    """Return what the instruction as such needs: nothing, or the key of a feature."""
    needs = _OPCODES.get(each.code, f"opcode {each.code:#04x}")
    operation = each.code & 0xF0
    if needs == _ATOMIC:
        needs = _ATOMICS.get(each.immediate, f"atomic {each.immediate:#x}")
        if each.code >> 3 & 3 in (1, 2) and needs != "load-acquire, store-release":
            needs += " of less than 32 bits"
    elif each.code & 7 in (_ALU, _ALU64) and each.offset:
        if operation in (_DIVIDE, _MODULO) and each.offset == 1:
            needs = "signed division"
        elif operation == _MOVE and each.offset in (8, 16, 32):
            needs = "sign-extending move"
        else:
            needs = f"opcode {each.code:#04x} with offset {each.offset}"
    return needs


def features_of(each: Instruction) -> Iterator[Feature]:
    """Yield what an instruction needs beside what every kernel has, but for the address that it loads."""
    if needs := _instruction(each):
        yield Feature("instructions", needs)
    if each.code == CALL:
        if each.external:
            yield Feature("programs", "call of a kernel function")
            yield Feature("kernel_functions", each.external)
        elif each.is_call:
            yield Feature("programs", "call of a function")
        elif each.source:
            yield Feature("programs", f"call with source {each.source}")
        else:
            yield Feature("helpers", str(each.immediate))
    elif each.code & 7 in (_JMP, _JMP32) and each.code != _EXIT:
        distance = each.immediate if each.code == _LONG_JUMP else each.offset
        if distance < 0:
            yield Feature("programs", "loop")


def _address(of: BpfObject, each: Instruction) -> Iterator[Feature]:
    """Yield what the address that an instruction loads needs."""
    if each.code == LD_IMM64 and each.external:
        yield Feature("programs", "variable of the kernel")
    elif each.code == LD_IMM64 and each.target in of.functions:
        yield Feature("programs", "callback")
    elif each.code == LD_IMM64 and each.target and each.target.section != ".maps":
        yield Feature("programs", "global data")


@cache
def uses(of: BpfObject) -> tuple[Use, ...]:
    """Return all that an object uses: what its programs do, one after the other, its maps and its types."""
    return tuple(dict.fromkeys((*_uses_of_programs(of), *_uses_of_maps(of), *_uses_of_types(of))))


def _uses_of_programs(of: BpfObject) -> Iterator[Use]:
    for program in of.programs.values():
        yield from _uses_of_program(of, program)


def _uses_of_maps(of: BpfObject) -> Iterator[Use]:
    for declared in of.maps():
        yield Use(Feature("map_types", str(declared.type)))
        yield from (Use(Feature("map_flags", str(1 << bit))) for bit in range(32) if declared.flags & 1 << bit)
    for section in of.data_sections():
        yield Use(Feature("map_types", str(_ARRAY)))
        yield Use(Feature("map_flags", str(_MMAPABLE)))
        if section.startswith(".rodata"):
            yield Use(Feature("map_flags", str(_READ_ONLY)))


def _uses_of_types(of: BpfObject) -> Iterator[Use]:
    for each in of.types.all[1:]:
        yield Use(Feature("types", str(each.kind)))
        if each.kind in (btf.DECL_TAG, btf.TYPE_TAG):
            yield Use(Feature("type_tags", each.name))


def _uses_of_program(of: BpfObject, program: Function) -> Iterator[Use]:
    yield Use(Feature("attach", attachment(program)), program)
    functions = of.loaded_with(program)
    calls = set()
    for function in functions:
        for at, instruction in function.code.items():
            for feature in (*features_of(instruction), *_address(of, instruction)):
                yield Use(feature, program, Place(function.place.section, at))
            if instruction.code == CALL and not instruction.source:
                calls.add(instruction.immediate)
    if sum(len(function.code) for function in functions) > _MAX_INSTRUCTIONS:
        yield Use(Feature("programs", "more than 4096 instructions"), program)
    if len(functions) > 1 and _TAIL_CALL in calls:
        yield Use(Feature("programs", "tail call in a program with functions"), program)
    for function in functions[1:]:
        if not function.static:
            yield from (Use(feature, program, function.place) for feature in _global_function(of, function))


def _global_function(of: BpfObject, function: Function) -> Iterator[Feature]:
    """Yield what a function needs that is verified by itself, for whatever its prototype lets it be called with."""
    yield Feature("programs", "global function")
    if any(argument.kind == btf.PTR for argument in of.types.arguments(function.name)):
        yield Feature("programs", "global function with a pointer")
    if of.types.result(function.name).kind not in (btf.INT, btf.ENUM):
        yield Feature("programs", "global function that returns no number")
