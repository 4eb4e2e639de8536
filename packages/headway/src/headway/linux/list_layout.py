"""List what a C header declares: ``list_layout.py HEADER MODULE CHECKS``, run by meson at build time.

MODULE is a Python module: the constants, the enumerations and the structures, with the offsets of their fields. CHECKS
is a C header in which the compiler verifies every number of MODULE against HEADER. With ``--cython``, the same
declarations are written as a ``.pxd`` file, for ``cimport``. With ``--section``, only what follows the comment
``/* ---- SECTION ---``, up to the next such comment, is read.

Only what these headers need is understood: enumerations, macros that are numbers, and structures of fixed-width fields
in their natural alignment, which is the same for eBPF, x86-64 and arm64.
"""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

__all__ = ["HeaderLayout", "Structure"]

_CODES = {8: "Q", 4: "I", 2: "H", 1: "B"}
_WIDTHS = {
    **{form.format(8 * size): (size, code) for size, code in _CODES.items() for form in ("__u{}", "uint{}_t")},
    "char": (1, "s"),
}
"""Size in bytes, and code of the struct module."""
_CYTHON_TYPES = {"Q": "uint64_t", "I": "uint32_t", "H": "uint16_t", "B": "uint8_t", "s": "char"}
_INT_MAX = 0x7FFF_FFFF
_DECLARATION = re.compile(
    r"^#define (?P<macro>\w+) (?P<value>[^\n]+)$|^(?P<what>enum|struct)(?: (?P<tag>\w+))? \{(?P<body>[^}]*)\};",
    re.MULTILINE,
)
_FIELD = re.compile(r"(?:(?P<struct>struct \w+)|(?P<type>\w+)) (?P<names>.+)", re.DOTALL)


class Structure(NamedTuple):
    """A structure: its size and alignment in bytes, and its fields by name."""

    size: int
    alignment: int
    fields: dict[str, tuple[int, str]]
    """Offset in bytes, and format of the struct module; of structures within the structure, bytes."""
    declarations: tuple[str, ...] = ()
    """The fields as Cython declares them."""


class HeaderLayout:
    """The declarations of a header, or of a section of it. Raises ValueError where one is not understood."""

    def __init__(self, text: str, section: str = "") -> None:
        if section:
            head = re.search(rf"^/\* -+ {re.escape(section)} -+", text, re.MULTILINE)
            if head is None:
                raise ValueError(f"there is no section {section!r}")
            text = text[head.start() :].partition("\n/* ----")[0]
        self.constants: dict[str, int] = {}
        self.enumerations: dict[str, tuple[str, ...]] = {}
        self.structures: dict[str, Structure] = {}
        text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
        for found in _DECLARATION.finditer(text):
            if found["macro"]:
                self.constants[found["macro"]] = self._value(found["value"])
            elif not found["tag"]:
                raise ValueError(f"an {found['what']} has no name: {found['body'].strip()[:40]}")
            elif found["what"] == "enum":
                self.enumerations[found["tag"]] = tuple(self._enumerate(found["body"]))
            else:
                self.structures[found["tag"]] = self._structure(found["body"])

    def _value(self, expression: str) -> int:
        """Return the value of a constant expression: C and Python agree on those that are used."""
        plain = re.sub(r"\bUINT64_C\((\w+)\)", r"\1", expression)
        plain = re.sub(r"\b(0x[0-9a-fA-F]+|\d+)[uUlL]+\b", r"\1", plain)
        if not re.fullmatch(r"[\w\s+*|<()-]+", plain):
            raise ValueError(f"{expression!r} is not understood")
        return int(eval(plain, {"__builtins__": {}}, dict(self.constants)))

    def _enumerate(self, body: str) -> Iterator[str]:
        value = -1
        for item in filter(None, map(str.strip, body.split(","))):
            name, _, expression = item.partition("=")
            name = name.strip()
            value = self._value(expression.strip()) if expression else value + 1
            self.constants[name] = value
            yield name

    def _structure(self, body: str) -> Structure:
        end, widest = 0, 1
        fields: dict[str, tuple[int, str]] = {}
        declarations: list[str] = []
        for declaration in filter(None, map(str.strip, body.split(";"))):
            found = _FIELD.fullmatch(declaration)
            if found is None:
                raise ValueError(f"{declaration!r} is not understood")
            if found["struct"]:
                kind = found["struct"].removeprefix("struct ")
                inner = self.structures[kind]
                size, alignment, code = inner.size, inner.alignment, "s"
            else:
                size, code = _WIDTHS[found["type"]]
                kind, alignment = _CYTHON_TYPES[code], size
            for declarator in found["names"].split(","):
                name, *sizes = re.findall(r"\w[^\[\]]*", declarator.strip())
                lengths = [self._value(each) for each in sizes]
                count = math.prod(lengths)
                end += -end % alignment
                fields[name] = end, _format(code, count * size if code == "s" else count)
                declarations.append(f"{kind} {name}" + "".join(f"[{length}]" for length in lengths))
                end += count * size
                widest = max(widest, alignment)
        return Structure(end + -end % widest, widest, fields, tuple(declarations))

    def module(self, header: str) -> str:
        """Return the Python module made of the header of this name."""
        structures = {name: (each.size, each.fields) for name, each in self.structures.items()}
        return "\n".join(
            [
                f'"""What {header} declares; made from it by list_layout.py."""',
                f"CONSTANTS = {self.constants!r}",
                f"ENUMERATIONS = {self.enumerations!r}",
                f"STRUCTURES = {structures!r}",
                "",
            ]
        )

    def cython(self, header: str, checks: str) -> str:
        """Return the ``.pxd`` file. Both headers are named as the compiler finds them.

        Every module that takes something from it includes both, and so is verified.
        """
        ints = [name for name, value in self.constants.items() if value <= _INT_MAX]
        large = {name: value for name, value in self.constants.items() if value > _INT_MAX}
        lines = [
            f"# What {header} declares; made from it by list_layout.py.",
            "from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t",
            "",
            f'cdef extern from "{header}" nogil:',
            "    enum:",
            *(f"        {name}" for name in ints),
            *(f"    const {_unsigned(value)} {name}" for name, value in large.items()),
        ]
        for structure, about in self.structures.items():
            lines.append(f"    struct {structure}:")
            lines += [f"        {each}" for each in about.declarations]
        return "\n".join([*lines, "", f'cdef extern from "{checks}":', "    pass", ""])

    def checks(self) -> str:
        """Return the C header."""
        facts = [(f"(unsigned long long){name}", value) for name, value in self.constants.items()]
        for structure, about in self.structures.items():
            facts.append((f"sizeof(struct {structure})", about.size))
            for name, (offset, code) in about.fields.items():
                facts.append((f"__builtin_offsetof(struct {structure}, {name})", offset))
                facts.append((f"sizeof(((struct {structure} *)0)->{name})", _size(code)))
        lines = [f'_Static_assert({c} == {value}ull, "{c} is not as Python has it");' for c, value in facts]
        head = "/* What list_layout.py read from a header, to be included behind that. */"
        return "\n".join([head, *lines, ""])


def _unsigned(value: int) -> str:
    """Return the type of a constant that is no int, which Cython takes every enumerator for."""
    return "uint32_t" if value <= 0xFFFF_FFFF else "uint64_t"


def _format(code: str, count: int) -> str:
    return code if count == 1 and code != "s" else f"{count}{code}"


def _size(code: str) -> int:
    sizes = {letter: size for size, letter in _WIDTHS.values()}
    return int(code[:-1] or 1) * sizes[code[-1]]


def _main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("header", type=Path)
    parser.add_argument("module", type=Path)
    parser.add_argument("checks", type=Path)
    parser.add_argument("--section", default="")
    parser.add_argument("--cython", type=Path, metavar="PXD")
    parser.add_argument("--as", dest="named", help="how C includes HEADER; by default by its last name")
    given = parser.parse_args()
    layout = HeaderLayout(given.header.read_text(encoding="utf-8"), given.section)
    given.module.write_text(layout.module(given.header.name), encoding="utf-8")
    given.checks.write_text(layout.checks(), encoding="utf-8")
    if given.cython:
        declared = layout.cython(given.named or given.header.name, given.checks.name)
        given.cython.write_text(declared, encoding="utf-8")


if __name__ == "__main__":
    _main()
