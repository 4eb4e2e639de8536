"""List what layout.h declares: ``list_layout.py LAYOUT MODULE CHECKS``, run by meson at build time.

MODULE is the Python module ``_layout``: the constants, the enumerations and the structures, with the offsets of their
fields. CHECKS is a C header in which the compiler verifies every number of MODULE against layout.h.

Only what layout.h needs is understood: enumerations, macros that are numbers, and structures of fixed-width fields in
their natural alignment, which is the same for eBPF, x86-64 and arm64.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

__all__ = ["HeaderLayout", "Structure"]

_WIDTHS = {"__u64": (8, "Q"), "__u32": (4, "I"), "__u16": (2, "H"), "__u8": (1, "B"), "char": (1, "s")}
"""Size in bytes, and code of the struct module."""
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


class HeaderLayout:
    """The declarations of a header. Raises ValueError where one is not understood."""

    def __init__(self, text: str) -> None:
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
        plain = re.sub(r"\b(0x[0-9a-fA-F]+|\d+)[uUlL]+\b", r"\1", expression)
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
        for declaration in filter(None, map(str.strip, body.split(";"))):
            found = _FIELD.fullmatch(declaration)
            if found is None:
                raise ValueError(f"{declaration!r} is not understood")
            if found["struct"]:
                inner = self.structures[found["struct"].removeprefix("struct ")]
                size, alignment, code = inner.size, inner.alignment, "s"
            else:
                size, code = _WIDTHS[found["type"]]
                alignment = size
            for declarator in found["names"].split(","):
                name, *sizes = re.findall(r"\w[^\[\]]*", declarator.strip())
                count = 1
                for each in sizes:
                    count *= self._value(each)
                end += -end % alignment
                fields[name] = end, _format(code, count * size if code == "s" else count)
                end += count * size
                widest = max(widest, alignment)
        return Structure(end + -end % widest, widest, fields)

    def module(self) -> str:
        """Return the Python module."""
        structures = {name: (each.size, each.fields) for name, each in self.structures.items()}
        return "\n".join(
            [
                '"""What layout.h declares; made from it by list_layout.py."""',
                f"CONSTANTS = {self.constants!r}",
                f"ENUMERATIONS = {self.enumerations!r}",
                f"STRUCTURES = {structures!r}",
                "",
            ]
        )

    def checks(self) -> str:
        """Return the C header."""
        facts = [(f"(unsigned long long){name}", value) for name, value in self.constants.items()]
        for structure, (size, _, fields) in self.structures.items():
            facts.append((f"sizeof(struct {structure})", size))
            for name, (offset, code) in fields.items():
                facts.append((f"__builtin_offsetof(struct {structure}, {name})", offset))
                facts.append((f"sizeof(((struct {structure} *)0)->{name})", _size(code)))
        lines = [f'_Static_assert({c} == {value}ull, "{c} is not as in _layout.py");' for c, value in facts]
        head = "/* What list_layout.py read from layout.h, to be included behind that. */"
        return "\n".join([head, *lines, ""])


def _format(code: str, count: int) -> str:
    return code if count == 1 and code != "s" else f"{count}{code}"


def _size(code: str) -> int:
    sizes = {letter: size for size, letter in _WIDTHS.values()}
    return int(code[:-1] or 1) * sizes[code[-1]]


if __name__ == "__main__":
    layout = HeaderLayout(Path(sys.argv[1]).read_text(encoding="utf-8"))
    Path(sys.argv[2]).write_text(layout.module(), encoding="utf-8")
    Path(sys.argv[3]).write_text(layout.checks(), encoding="utf-8")
