"""What every kind of trace gives for stacks and coverage: one step after the other, of each thread in order.

A step is an instruction, an exception, or a gap. `calls` makes stacks of the steps, and counts them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from .records import Record

__all__ = ["Code", "CodeOf", "Kind", "Names", "Step", "Walk", "kind_of_instruction", "steps_of"]


class Kind(IntEnum):
    """What an instruction may do with the flow."""

    PLAIN = 0
    CALL = 1
    RETURN = 2
    CONDITIONAL = 3
    """A branch that is taken or not."""
    RESUME = 4
    """A return from an exception."""


class Code(Protocol):
    """A program, or the memory of a process."""

    def symbol(self, address: int) -> str:
        """Return the function that contains an address, or ""."""

    def line(self, address: int) -> str:
        """Return ``file:line`` of the source, or ""."""

    def text(self, address: int) -> str:
        """Return the instruction at an address as text, or ""."""

    @property
    def functions(self) -> Sequence[tuple[int, int, str]]:
        """The functions (start, end, name) by start; empty: they are not known one by one."""


class Step(NamedTuple):
    """An instruction of a thread.

    ``size`` 0: an exception was taken at ``address``, which is 0 if it is only known after which instruction. ``code``
    None: what follows is not known to come after what was before. ``processor`` had the thread, if other threads of the
    trace may have had it before; a trace tells a switch of threads only with the next branch that it reports.
    """

    thread: str
    code: Code | None
    address: int = 0
    size: int = 0
    cycles: int = 0
    processor: str = ""


@dataclass(frozen=True, slots=True)
class Walk:
    """The steps of a trace, and what was left out of it, in one line."""

    steps: Iterable[Step]
    left_out: str = ""

    def __iter__(self) -> Iterator[Step]:
        return iter(self.steps)


class Names(Protocol):
    """What knows the names of addresses."""

    def symbol(self, address: int) -> str:
        """Return the function that contains an address, or ""."""

    def line(self, address: int) -> str:
        """Return ``file:line`` of the source, or ""."""


class CodeOf:
    """A program with the texts of its instructions. ``names`` may have ``functions``, as `Code` has them."""

    def __init__(self, names: Names, text: Callable[[int], str]) -> None:
        self.symbol, self.line, self.text = names.symbol, names.line, text
        self._names = names
        self.functions: Sequence[tuple[int, int, str]] = getattr(names, "functions", ())


def steps_of(records: Iterable[Record], name: str, code: CodeOf) -> Iterator[Step]:
    """Yield the steps of the records of a stream. Each thread that it tells of has a name of its own."""
    from .records import Exception_, Gap, Instruction, place_of

    thread = name
    placed = _Placed(code)
    for record in records:
        if isinstance(record, Instruction):
            if record.thread is not None:
                thread = f"{name} thread {record.thread}" if not name.endswith(f":{record.thread}") else name
            which = placed.at(place_of(record.address, record.isa) - record.address)
            yield Step(thread, which, record.address, record.size, record.cycles or 0)
        elif isinstance(record, Gap):
            yield Step(thread, None)
        elif isinstance(record, Exception_):
            yield Step(thread, code)


class _Placed:
    """A program in each of Arm's instruction sets: the text of an instruction depends on it."""

    def __init__(self, code: CodeOf) -> None:
        self._codes = {0: code}

    def at(self, bit: int) -> CodeOf:
        found = self._codes.get(bit)
        if found is None:
            first = self._codes[0]
            found = self._codes[bit] = CodeOf(first._names, lambda address: first.text(address + bit))
        return found


_CONDITIONS = "eq|ne|cs|hs|cc|lo|mi|pl|vs|vc|hi|ls|ge|lt|gt|le"
_CALL = re.compile(
    rf"(?:blx?(?:{_CONDITIONS})?(?:\.w)?|blra\w*|blr|l?call\w*|c\.jalr?|jalr?)(?! (?:zero|x0)\b)(?: .*)?"
)
_RETURN = re.compile(r"ret\w* ?.*|(?:c\.)?jr (?:ra|t0)|bx\w* lr|(?:pop|ldm)\S* .*\bpc\}|mov\S* pc, lr")
_RESUME = re.compile(r"(?:iret|sysret|sysexit|eret|rfe)\w*(?: .*)?|[msu]ret|subs\S* pc, lr.*|ldm\S* .*\bpc\} ?\^")
_CONDITIONAL = re.compile(
    rf"(?:b(?:{_CONDITIONS})(?:\.\w)?|b\.(?![nw]\b)\w+|c?b(?:eq|ne|lt|ge|le|gt)(?:z|u)?|c\.b(?:eqz|nez)|t?c?bn?z|j(?!mp|al|r\b|\b)\w+"
    r"|loop\w*) .*"
)


def kind_of_instruction(text: str) -> Kind:
    """Return what an instruction of Arm, RISC-V or x86 may do with the flow, by its text."""
    if _CALL.fullmatch(text):
        return Kind.CALL
    if _RETURN.fullmatch(text):
        return Kind.RETURN
    if _RESUME.fullmatch(text):
        return Kind.RESUME
    return Kind.CONDITIONAL if _CONDITIONAL.fullmatch(text) else Kind.PLAIN
