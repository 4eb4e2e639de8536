"""List an architecture's system calls: ``list_calls.py OUTPUT CC... [-- CC32...]``. Meson runs it at build time.

The numbers come from the kernel's own headers as the C compiler finds them, so a cross compiler gives those of its
target. CC32 compiles for the 32-bit programs that the target's kernel runs, if CC does not have their headers. Calls
newer than the headers are added: from 424 on, a number means the same call on every architecture (commit 1aa1ffe3c6ba).
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

NEWER = (
    "cachestat",
    "fchmodat2",
    "map_shadow_stack",
    "futex_wake",
    "futex_wait",
    "futex_requeue",
    "statmount",
    "listmount",
    "lsm_get_self_attr",
    "lsm_set_self_attr",
    "lsm_list_modules",
    "mseal",
    "setxattrat",
    "getxattrat",
    "listxattrat",
    "removexattrat",
    "open_tree_attr",
    "file_getattr",
    "file_setattr",
)
FIRST_NEWER = 451


NO_CALLS = {"syscalls", "arch_specific_syscall", "SYSCALL_BASE", "OABI_SYSCALL_BASE"}
"""Macros with the prefix of system calls that are not system calls."""


def _preprocessed(compiler: list[str], text: str, *flags: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "calls.c"
        source.write_text(text)
        run = subprocess.run([*compiler, "-E", *flags, str(source)], capture_output=True, text=True, check=False)
    return run.stdout if run.returncode == 0 else ""


def _numbers(compiler: list[str], *headers: str) -> dict[int, str]:
    """Return the calls of the first header that exists. Some are defined through others, or as a sum."""
    for header in headers:
        include = f"#include <{header}>\n"
        macros = re.findall(r"^#define __NR_(\w+) ", _preprocessed(compiler, include, "-dM"), re.MULTILINE)
        names = sorted(set(macros) - NO_CALLS)
        rows = include + "".join(f"headway_row {i} __NR_{name}\n" for i, name in enumerate(names))
        found = {}
        for row, value in re.findall(
            r"^headway_row (\d+) ([\dx+a-fA-F() ]+)$", _preprocessed(compiler, rows, "-P"), re.M
        ):
            found[sum(int(term.strip("() "), 0) for term in value.split("+"))] = names[int(row)]
        if found:
            return found
    return {}


def _table(name: str, numbers: dict[int, str]) -> str:
    rows = "".join(f'    {number}: "{call}",\n' for number, call in sorted(numbers.items()))
    return f"{name}: dict[int, str] = {{\n{rows}}}\n"


if __name__ == "__main__":
    output, compiler, compat_compiler = Path(sys.argv[1]), sys.argv[2:], list[str]()
    if "--" in compiler:
        compiler, compat_compiler = compiler[: compiler.index("--")], compiler[compiler.index("--") + 1 :]
    newer = {FIRST_NEWER + i: name for i, name in enumerate(NEWER)}
    native = _numbers(compiler, "asm/unistd_64.h", "asm/unistd.h")
    if not native:
        raise SystemExit(f"{' '.join(compiler)} finds no asm/unistd.h: install the kernel's headers (linux-libc-dev)")
    compat = _numbers(compat_compiler or compiler, *(["asm/unistd.h"] if compat_compiler else ["asm/unistd_32.h"]))
    head = '"""System calls by number, from the kernel headers at build time."""\n\n'
    output.write_text(head + _table("NATIVE", newer | native) + "\n" + _table("COMPAT", newer | compat))
