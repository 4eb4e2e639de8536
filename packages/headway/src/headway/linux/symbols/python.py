"""CPython in a file: which version it is, and where it keeps the frames of its threads and what they execute.

From 3.13 on the interpreter's own data says that (``_Py_DebugOffsets``, Include/internal/pycore_debug_offsets.h). For
versions before, python_layouts.toml has it, which tools/python_layouts.py makes from their headers. That table knows
release builds for x86-64.
"""

from __future__ import annotations

import re
import struct
import tomllib
from collections.abc import Mapping
from functools import cache

from headway.binary.module import Module
from headway.binary.python_lines import line_of
from headway.dataclass import dataclass
from headway.errors import HeadwayError
from headway.files import packaged

__all__ = [
    "CodeObject",
    "PythonBuild",
    "PythonError",
    "attaching_offsets",
    "description_size",
    "find_python",
    "text_of",
]

_FILES = re.compile(r"(lib)?python3?(\.\d+)?[a-z]*(\.so(\.[0-9.]+)?)?")
"""Names of files that may have CPython inside."""
_MINOR = re.compile(r"python3\.(\d+)")
_RUNTIME, _CODE_TYPE, _EVALUATING, _VERSION = "_PyRuntime", "PyCode_Type", "_PyEval_EvalFrameDefault", "Py_Version"
_HAS_VERSION = 11
"""The first version that has ``Py_Version``."""
_COOKIE = b"xdebugpy"
_LARGEST_OFFSET = 1 << 24
_LARGEST_LINE = 1 << 31
_LONGEST = 400
"""Characters of a name."""


class PythonError(HeadwayError):
    """A file has a Python whose frames cannot be read; the message says why."""


@dataclass(frozen=True, slots=True)
class PythonBuild:
    """A CPython in a file. Addresses are as linked, and count from ``runtime``."""

    minor: int
    """Of the version 3.x."""
    runtime: int
    """The address of ``_PyRuntime``."""
    code_type: int
    """Of the type of code objects."""
    evaluating: int
    """Of the function that executes frames."""
    evaluating_size: int
    offsets: Mapping[str, int]
    """Where fields are in their structures, bytes."""
    values: Mapping[str, int]
    """What stands in fields, and what comes before the characters of a string."""


@dataclass(frozen=True, slots=True)
class CodeObject:
    """A function of a program in Python, as it was when it was first seen on a stack."""

    name: str | None
    """Qualified by its class or the function around it, from 3.11 on; None: it could not be read."""
    file: str | None
    first_line: int | None
    minor: int
    """Of the version of Python, which decides what the table of lines looks like."""
    lines: bytes | None
    """The table of lines; None: it could not be read."""

    def line(self, instruction: int | None) -> int | None:
        """Return the line of an instruction, a number of code units; None: it is not known.

        Without an instruction, it is the first line: the function is about to begin.
        """
        if instruction is None or self.first_line is None or self.lines is None:
            return self.first_line if instruction is None else None
        line = line_of(self.minor, self.lines, self.first_line, instruction)
        return line if line is not None and 0 < line < _LARGEST_LINE else None


def find_python(module: Module) -> PythonBuild | None:
    """Return the CPython in a file; None: there is none, or none that is known by the file's name.

    Raises PythonError where there is one whose frames cannot be read.
    """
    if not _FILES.fullmatch(module.name):
        return None
    named = _MINOR.search(module.name)
    wanted = (_RUNTIME, _CODE_TYPE, _EVALUATING, _VERSION)
    found = module.addresses(wanted[:3] if named is not None and int(named.group(1)) < _HAS_VERSION else wanted)
    if not {_RUNTIME, _CODE_TYPE, _EVALUATING} <= found.keys():
        return None
    runtime = found[_RUNTIME][0]
    minor = _minor(module, found)
    known = _layouts().get(minor)
    if known is None:
        raise PythonError(f"{module.path} is Python 3.{minor}: frames of Python are read from 3.9 to 3.14")
    values: Mapping[str, int] = known["values"]
    offsets = known.get("offsets") or _own_offsets(module, runtime, known["debug_offsets"], values)
    start, size = found[_EVALUATING]
    return PythonBuild(minor, runtime, found[_CODE_TYPE][0] - runtime, start - runtime, size, offsets, values)


def _minor(module: Module, found: Mapping[str, tuple[int, int]]) -> int:
    """Return x of the version 3.x, which the file says from 3.11 on, and before only its name."""
    said = module.code(found[_VERSION][0], 8) if _VERSION in found else b""
    if len(said) == 8 and said[3] == 3:
        return said[2]
    named = _MINOR.search(module.name)
    if named is None:
        raise PythonError(f"{module.path} does not say which version of Python it is: its frames are not read")
    return int(named.group(1))


def _own_offsets(
    module: Module, runtime: int, places: Mapping[str, int], values: Mapping[str, int]
) -> Mapping[str, int]:
    """Return the offsets that an interpreter itself tells. Raises PythonError."""
    data = module.code(runtime, values["debug_offsets_size"])
    if len(data) < values["debug_offsets_size"] or not data.startswith(_COOKIE):
        raise PythonError(f"{module.path} does not say where it keeps its frames: they are not read")
    if struct.unpack_from("<Q", data, values["free_threaded"])[0]:
        raise PythonError(f"{module.path} is a free-threaded Python, of which frames cannot be read yet")
    offsets = {name: struct.unpack_from("<Q", data, place)[0] for name, place in places.items()}
    if max(offsets.values()) >= _LARGEST_OFFSET:
        raise PythonError(f"{module.path} is damaged where it says how it keeps its frames: they are not read")
    return offsets


def attaching_offsets(minor: int, description: bytes) -> Mapping[str, int] | None:
    """Return what an interpreter tells a debugger about itself (PEP 768); None: a version that does not, or no such.

    ``description``: its ``_Py_DebugOffsets``; `description_size` bytes are enough.
    """
    places = _layouts().get(minor, {}).get("attaching")
    if places is None or len(description) < description_size(minor) or not description.startswith(_COOKIE):
        return None
    return {name: struct.unpack_from("<Q", description, place)[0] for name, place in places.items()}


def description_size(minor: int) -> int:
    """Return the size of ``_Py_DebugOffsets`` in bytes; 0: the version has none that is known."""
    return _layouts().get(minor, {}).get("values", {}).get("debug_offsets_size", 0)


def text_of(memory: bytes, values: Mapping[str, int], offsets: Mapping[str, int]) -> str | None:
    """Return the string whose object begins in ``memory``; its end may be missing. None: it is none, or not there."""
    if len(memory) < values["text_wide"]:
        return None
    length = struct.unpack_from("<Q", memory, offsets["text_length"])[0]
    state = struct.unpack_from("<I", memory, offsets["text_state"])[0]
    kind = (state & values["text_kind"]) // (values["text_kind"] & -values["text_kind"])
    if not state & values["text_compact"] or kind not in (1, 2, 4):
        return None
    start = values["text_narrow"] if state & values["text_ascii"] else values["text_wide"]
    there = memory[start : start + min(length, _LONGEST) * kind]
    whole = there[: len(there) // kind * kind]
    text = whole.decode({1: "latin-1", 2: "utf-16-le", 4: "utf-32-le"}[kind], "replace")
    return text if len(whole) == length * kind else text + "…"


@cache
def _layouts() -> Mapping[int, Mapping[str, Mapping[str, int]]]:
    """Return what is known of the versions 3.x, by x."""
    table = tomllib.loads(packaged("headway.linux.symbols", "python_layouts.toml").decode())
    return {int(version.partition(".")[2]): known for version, known in table.items()}
