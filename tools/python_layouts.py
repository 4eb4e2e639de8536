"""Write where CPython keeps the frames of its threads, version by version, as its own headers say.

``python tools/python_layouts.py INCLUDE... > packages/headway/src/headway/linux/symbols/python_layouts.toml``

Each INCLUDE is a folder with the headers of one version (``include/python3.11``, with ``internal`` in it), and the
platform's compiler (``CC``, or cc) says where their fields are. So run it on x86-64. It is run by hand when there is a
new version. Up to 3.12 the table has the offsets themselves. From 3.13 on, a program has them in its own memory
(``_Py_DebugOffsets``), and the table has where they are there: `headway.linux.symbols.python` reads both.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

_HEAD = """\
# Where CPython keeps the frames of its threads on x86-64, in bytes. Written by tools/python_layouts.py; do not edit.
# `offsets`: of fields in their structures. `debug_offsets`: where a program says that, in its _Py_DebugOffsets.
# `attaching`: the same of what a debugger writes into it (PEP 768). `values`: what stands in fields.
"""

_RUNTIME = {
    "runtime_interpreters": ("_PyRuntimeState", "interpreters.head"),
    "interpreter_next": ("PyInterpreterState", "next"),
}
_CODE = {
    "code_file": ("PyCodeObject", "co_filename"),
    "code_name": ("PyCodeObject", "co_name"),
    "code_first_line": ("PyCodeObject", "co_firstlineno"),
    "text_length": ("PyASCIIObject", "length"),
    "text_state": ("PyASCIIObject", "state"),
    "bytes_size": ("PyVarObject", "ob_size"),
    "bytes_data": ("PyBytesObject", "ob_sval"),
}
_THREAD = {
    "thread_previous": ("PyThreadState", "prev"),
    "thread_next": ("PyThreadState", "next"),
    "thread_interpreter": ("PyThreadState", "interp"),
    "thread_id": ("PyThreadState", "thread_id"),
}
_OBJECT_FRAME = {  # a frame is an object
    "interpreter_threads": ("PyInterpreterState", "tstate_head"),
    "thread_frame": ("PyThreadState", "frame"),
    "frame_previous": ("PyFrameObject", "f_back"),
    "frame_code": ("PyFrameObject", "f_code"),
    "frame_instruction": ("PyFrameObject", "f_lasti"),
}
_INNER_FRAME = {
    "interpreter_threads": ("PyInterpreterState", "threads.head"),
    "thread_c_frame": ("PyThreadState", "cframe"),
    "frame_previous": ("_PyInterpreterFrame", "previous"),
    "frame_code": ("_PyInterpreterFrame", "f_code"),
    "frame_instruction": ("_PyInterpreterFrame", "prev_instr"),
    "frame_owner": ("_PyInterpreterFrame", "owner"),
    "c_frame_current": ("_PyCFrame", "current_frame"),
    "c_frame_previous": ("_PyCFrame", "previous"),
    "code_qualified": ("PyCodeObject", "co_qualname"),
    "code_lines": ("PyCodeObject", "co_linetable"),
    "code_instructions": ("PyCodeObject", "co_code_adaptive"),
}
_OFFSETS: Mapping[int, Mapping[str, tuple[str, str]]] = {
    9: _RUNTIME | _CODE | _THREAD | _OBJECT_FRAME | {"code_lines": ("PyCodeObject", "co_lnotab")},
    10: _RUNTIME
    | _CODE
    | _THREAD
    | _OBJECT_FRAME
    | {
        "code_lines": ("PyCodeObject", "co_linetable"),
        "thread_c_frame": ("PyThreadState", "cframe"),
        "c_frame_previous": ("CFrame", "previous"),
    },
    11: _RUNTIME | _CODE | _THREAD | _INNER_FRAME | {"frame_is_entry": ("_PyInterpreterFrame", "is_entry")},
    12: _RUNTIME | _CODE | _THREAD | _INNER_FRAME,
}
"""The fields, by minor version: the structure of each, and its name there."""
_DEBUG_OFFSETS = {
    "runtime_interpreters": "runtime_state.interpreters_head",
    "interpreter_next": "interpreter_state.next",
    "interpreter_threads": "interpreter_state.threads_head",
    "thread_previous": "thread_state.prev",
    "thread_next": "thread_state.next",
    "thread_interpreter": "thread_state.interp",
    "thread_id": "thread_state.thread_id",
    "thread_frame": "thread_state.current_frame",
    "frame_previous": "interpreter_frame.previous",
    "frame_code": "interpreter_frame.executable",
    "frame_instruction": "interpreter_frame.instr_ptr",
    "frame_owner": "interpreter_frame.owner",
    "code_file": "code_object.filename",
    "code_name": "code_object.name",
    "code_qualified": "code_object.qualname",
    "code_lines": "code_object.linetable",
    "code_first_line": "code_object.firstlineno",
    "code_instructions": "code_object.co_code_adaptive",
    "text_length": "unicode_object.length",
    "text_state": "unicode_object.state",
    "bytes_size": "bytes_object.ob_size",
    "bytes_data": "bytes_object.ob_sval",
}
_ATTACHING = {
    "version": "version",
    "free_threaded": "free_threaded",
    "runtime_size": "runtime_state.size",
    "runtime_interpreters": "runtime_state.interpreters_head",
    "interpreter_size": "interpreter_state.size",
    "interpreter_id": "interpreter_state.id",
    "interpreter_next": "interpreter_state.next",
    "interpreter_threads": "interpreter_state.threads_head",
    "thread_size": "thread_state.size",
    "thread_next": "thread_state.next",
    "thread_interpreter": "thread_state.interp",
    "thread_native_id": "thread_state.native_thread_id",
    "eval_breaker": "debugger_support.eval_breaker",
    "support": "debugger_support.remote_debugger_support",
    "enabled": "debugger_support.remote_debugging_enabled",
    "pending": "debugger_support.debugger_pending_call",
    "script": "debugger_support.debugger_script_path",
    "script_size": "debugger_support.debugger_script_path_size",
}
"""What a debugger needs to have a script executed, from 3.14 on."""
_IN = "attaching_"
"""What their names begin with where names of all kinds are together."""
_VALUES = {
    "text_narrow": "sizeof(PyASCIIObject)",
    "text_wide": "sizeof(PyCompactUnicodeObject)",
    "text_kind": "bits_of_kind()",
    "text_compact": "bits_of_compact()",
    "text_ascii": "bits_of_ascii()",
}
"""Sizes of what comes before the characters of a string, and the bits that say which characters these are."""


def main(folders: list[str]) -> int:
    """Write the table of the versions whose headers these folders have."""
    versions = sorted(((_version(Path(folder)), Path(folder)) for folder in folders), key=lambda one: one[0])
    sys.stdout.write(_HEAD)
    for version, folder in versions:
        sys.stdout.write("\n" + "\n".join(_table(version, folder)) + "\n")
    return 0


def _version(folder: Path) -> tuple[int, int, int]:
    """Return the version of headers."""
    text = (folder / "patchlevel.h").read_text()
    major, minor, micro = (
        int(re.findall(rf"#define PY_{word}_VERSION\s+(\d+)", text)[0]) for word in ("MAJOR", "MINOR", "MICRO")
    )
    return major, minor, micro


def _table(version: tuple[int, int, int], folder: Path) -> Iterator[str]:
    """Yield the lines of one version."""
    minor = version[1]
    own = minor >= 13
    kind = "debug_offsets" if own else "offsets"
    fields = (
        {name: f"offsetof(_Py_DebugOffsets, {field})" for name, field in _DEBUG_OFFSETS.items()}
        if own
        else {name: f"offsetof({struct}, {field})" for name, (struct, field) in _OFFSETS[minor].items()}
    )
    values = dict(_VALUES)
    if minor >= 12:
        values["owner_entry"] = "FRAME_OWNED_BY_INTERPRETER" if minor >= 14 else "FRAME_OWNED_BY_CSTACK"
    if own:
        values["free_threaded"] = "offsetof(_Py_DebugOffsets, free_threaded)"
        values["debug_offsets_size"] = "sizeof(_Py_DebugOffsets)"
    attaching = {
        _IN + name: f"offsetof(_Py_DebugOffsets, {field})" for name, field in _ATTACHING.items() if minor >= 14
    }
    found = _evaluated(folder, {**fields, **values, **attaching}, minor)
    yield f'["{version[0]}.{minor}"]'
    yield f'made_from = "{".".join(map(str, version))}"'
    yield f"{kind} = {{ {', '.join(f'{name} = {found[name]}' for name in fields)} }}"
    if attaching:
        yield f"attaching = {{ {', '.join(f'{name} = {found[_IN + name]}' for name in _ATTACHING)} }}"
    yield f"values = {{ {', '.join(f'{name} = {found[name]}' for name in values)} }}"


def _evaluated(folder: Path, expressions: Mapping[str, str], minor: int) -> dict[str, int]:
    """Return the values of expressions in C, by their names."""
    headers = ["Python.h", "frameobject.h", "internal/pycore_interp.h", "internal/pycore_runtime.h"]
    headers += ["internal/pycore_frame.h"] * (minor >= 11) + ["internal/pycore_code.h"] * (minor >= 11)
    headers += ["internal/pycore_interpframe.h", "internal/pycore_debug_offsets.h"] * (minor >= 14)
    lines = ["#define Py_BUILD_CORE 1", "#include <stddef.h>", "#include <stdio.h>", "#include <string.h>"]
    lines += [f'#include "{header}"' for header in headers]
    for field in ("kind", "compact", "ascii"):
        lines += [
            f"static unsigned bits_of_{field}(void) {{",
            "PyASCIIObject text; unsigned bits; memset(&text, 0, sizeof(text));",
            f"text.state.{field} = ~0; memcpy(&bits, &text.state, sizeof(bits)); return bits; }}",
        ]
    lines += ["int main(void) {"]
    lines += [f'printf("{name} %ld\\n", (long)({value}));' for name, value in expressions.items()]
    lines += ["return 0; }"]
    with tempfile.TemporaryDirectory() as directory:
        source, program = Path(directory, "layout.c"), Path(directory, "layout")
        source.write_text("\n".join(lines))
        include = [f"-I{folder}", f"-I{folder / 'internal'}"]
        subprocess.run([os.environ.get("CC", "cc"), "-w", "-o", program, *include, source], check=True)
        said = subprocess.run([program], check=True, stdout=subprocess.PIPE, text=True).stdout
    return {name: int(value) for name, value in (line.split() for line in said.splitlines())}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
