"""List this architecture's system calls: ``list_calls.py OUTPUT CC...``, run by meson at build time.

The numbers come from the kernel's own headers as the C compiler finds them. Calls newer than the headers are added:
from 424 on a number means the same call on every architecture (commit 1aa1ffe3c6ba).
"""

from __future__ import annotations

import re
import subprocess
import sys
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


def _numbers(compiler: list[str], *headers: str) -> dict[int, str]:
    for header in headers:
        command = [*compiler, "-E", "-dM", "-"]
        run = subprocess.run(command, input=f"#include <{header}>\n", capture_output=True, text=True, check=False)
        found = re.findall(r"^#define __NR_(\w+) (\d+)$", run.stdout, re.MULTILINE)
        if run.returncode == 0 and found:
            return {int(number): name for name, number in found}
    return {}


def _table(name: str, numbers: dict[int, str]) -> str:
    rows = "".join(f'    {number}: "{call}",\n' for number, call in sorted(numbers.items()))
    return f"{name}: dict[int, str] = {{\n{rows}}}\n"


if __name__ == "__main__":
    output, compiler = Path(sys.argv[1]), sys.argv[2:]
    newer = {FIRST_NEWER + i: name for i, name in enumerate(NEWER)}
    native = newer | _numbers(compiler, "asm/unistd_64.h", "asm/unistd.h")
    compat = newer | _numbers(compiler, "asm/unistd_32.h", "asm/unistd-eabi.h")
    head = '"""System calls by number, from the kernel headers at build time."""\n\n'
    output.write_text(head + _table("NATIVE", native) + "\n" + _table("COMPAT", compat))
