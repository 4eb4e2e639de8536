"""Tell the programs where a Python keeps its frames (python.h), and learn from them which functions were on stacks."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from contextlib import suppress

from headway.binary.module import Module
from headway.linux.procfs.living import with_memory
from headway.linux.symbols.python import CodeObject, PythonBuild, PythonError, find_python, text_of

from ..programs.libbpf import Library, Object, RingReader
from ..shared.layout import PYTHON_RUNS, PYTHON_SIZES, PYTHON_WORDS, fields_of, offset_of, pack, packing

__all__ = ["PythonReader", "Pythons", "instructed", "sizes"]

BUILDS = 64
"""Files with a Python that there is room for."""
KNOWN = 1 << 16
"""Code objects of all processes, and threads, that are remembered, about 100 bytes each."""
RING_BYTES = 1 << 22
"""Room for the names and lines of some thousand code objects between two looks."""
_RUNS = {9: "RUN_BY_ADDRESS", 10: "RUN_BY_C_FRAME", 11: "RUN_BY_FLAG"}
_FIELDS = (
    "code", "name_at", "file_at", "lines_at", "number", "pid", "first_line", "python", "name_size", "file_size",
    "lines_size", "lines_read",
)  # fmt: skip
_RECORD = packing("python_code", *_FIELDS)
_NAME, _FILE, _LINES = (offset_of("python_code", part) for part in ("name", "file", "lines"))
_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
_LONGEST_TABLE = 1 << 20


def sizes(cpus: int) -> dict[str, int]:
    """Entries of the maps, for so many processors."""
    return {
        "python_layouts": BUILDS,
        "python_known": KNOWN,
        "python_walks": 2 * cpus,
        "python_codes": RING_BYTES,
    }


def instructed(word: int, instruction: int) -> int:
    """Return the word of a frame that has no instruction, with this one."""
    return word | (instruction & PYTHON_WORDS["PYTHON_NO_INSTRUCTION"]) << PYTHON_WORDS["PYTHON_INSTRUCTION_SHIFT"]


class Pythons:
    """The builds of Python that the programs know."""

    def __init__(self, programs: Object) -> None:
        self._map = programs.map("python_layouts")
        self.builds: list[PythonBuild] = []
        self.problems: dict[str, str] = {}
        """Why frames of Python are not read, by the file."""

    def add(self, module: Module) -> tuple[int, PythonBuild] | None:
        """Tell the programs of the Python in a file. Return its number, from 1 on; None: it has none to be read."""
        try:
            build = find_python(module)
        except PythonError as error:
            self.problems[module.path] = str(error)
            return None
        if build is None:
            return None
        if len(self.builds) >= BUILDS:
            self.problems[module.path] = f"there is no room for more than {BUILDS} builds of Python"
            return None
        layout = _layout(build)
        if layout is None:
            self.problems[module.path] = f"{module.path} keeps its frames in a way that is not known: they are not read"
            return None
        self._map.set(len(self.builds), layout)
        self.builds.append(build)
        return len(self.builds), build


def _layout(build: PythonBuild) -> bytes | None:
    """Return what the programs are told of a build; None: they have no room for a structure."""
    at = build.offsets
    runs = _RUNS.get(build.minor, "RUN_BY_OWNER")
    entry = at.get("frame_is_entry", at.get("frame_owner", 0))
    frame = [at["frame_previous"], at["frame_code"], at["frame_instruction"], entry]
    code = [at["code_file"], at["code_name"], at.get("code_qualified", 0), at["code_lines"], at["code_first_line"]]
    values = {
        "code_type": build.code_type & (1 << 64) - 1,
        "evaluating": build.evaluating & (1 << 64) - 1,
        "evaluating_size": min(build.evaluating_size, (1 << 32) - 1),
        "runs": PYTHON_RUNS[runs],
        "frame_size": max(frame) + 8,
        "frame_entry": entry,
        "entry_owner": build.values.get("owner_entry", 1),
        "code_size": max(code) + 8,
        "code_name": at.get("code_qualified", at["code_name"]),
        "code_instructions": at.get("code_instructions", 0),
        "instruction_size": 1 if build.minor == 9 else 2,
        "thread_c_frame": at.get("thread_c_frame", 0),
        "thread_frame": at.get("thread_frame", 0),
        "c_frame_current": 1 + at["c_frame_current"] if "c_frame_current" in at else 0,
        "c_frame_previous": at.get("c_frame_previous", 0),
    }
    if values["frame_size"] >= PYTHON_SIZES["PYTHON_FRAME"] or values["code_size"] >= PYTHON_SIZES["PYTHON_CODE"]:
        return None
    same = fields_of("python_layout").keys() - values.keys()
    return pack("python_layout", {**values, **{name: at[name] for name in same}})


class PythonReader:
    """Learns what the code objects are that the programs of a loaded object have given numbers to."""

    def __init__(self, library: Library, programs: Object, builds: Sequence[PythonBuild]) -> None:
        self._builds = builds
        self.codes: dict[int, CodeObject] = {}
        """By their numbers."""
        self._keep = _CALLBACK(self._take)
        address = ctypes.cast(self._keep, ctypes.c_void_p).value or 0
        self._ring: RingReader | None = RingReader(library, programs.map("python_codes"), address, 0)

    def consume(self) -> None:
        """Take over what was told."""
        if self._ring is not None:
            self._ring.consume()

    def close(self) -> None:
        """Free the ring; may be called again."""
        if self._ring is not None:
            self._ring.close()
            self._ring = None

    def frame(self, word: int) -> tuple[CodeObject | None, int | None, bool]:
        """Return what a frame executes, the number of its instruction, and whether a run of frames ends with it.

        None: what it executes could not be told; it has not begun.
        """
        instruction = word >> PYTHON_WORDS["PYTHON_INSTRUCTION_SHIFT"] & PYTHON_WORDS["PYTHON_NO_INSTRUCTION"]
        return (
            self.codes.get(word >> PYTHON_WORDS["PYTHON_NUMBER_SHIFT"]),
            instruction if instruction != PYTHON_WORDS["PYTHON_NO_INSTRUCTION"] else None,
            bool(word & PYTHON_WORDS["PYTHON_RUN_ENDS"]),
        )

    def _take(self, _context: int, data: int, size: int) -> int:
        if size >= _LINES:
            with suppress(OSError, ValueError):
                self._add(ctypes.string_at(data, size))
        return 0

    def _add(self, told: bytes) -> None:
        at = dict(zip(_FIELDS, _RECORD.unpack(told.ljust(_RECORD.size, b"\0")[: _RECORD.size]), strict=True))
        if at["python"] >= len(self._builds):
            return
        build = self._builds[at["python"]]
        name = told[_NAME : _NAME + at["name_size"]] or _read(at["pid"], at["name_at"], PYTHON_SIZES["PYTHON_NAME"])
        file = told[_FILE : _FILE + at["file_size"]] or _read(at["pid"], at["file_at"], PYTHON_SIZES["PYTHON_FILE"])
        lines: bytes | None = told[_LINES : _LINES + at["lines_read"]]
        if at["lines_read"] < at["lines_size"]:
            whole = _read(at["pid"], at["lines_at"], min(at["lines_size"], _LONGEST_TABLE))
            lines = (whole if whole[: at["lines_read"]] == lines else lines) or None  # by now it may be something else
        self.codes[at["number"]] = CodeObject(
            text_of(name, build.values, build.offsets),
            text_of(file, build.values, build.offsets),
            at["first_line"] if at["first_line"] < 1 << 31 else None,
            build.minor,
            lines,
        )


def _read(pid: int, at: int, size: int) -> bytes:
    """Read the memory of a process that may have ended; nothing if that cannot be read."""
    try:
        with open(f"/proc/{with_memory(pid)}/mem", "rb", buffering=0) as memory:
            return os.pread(memory.fileno(), size, at)
    except (OSError, OverflowError, ValueError):
        return b""
