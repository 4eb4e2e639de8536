"""Which share of the stacks of short commands is whole, and how long it takes until a new file is known.

``python -m benchmarks.short_commands [ROUNDS [SPINNING]]``, as root, in a folder with a git repository. Each command
has a profile of its own, from its beginning to its end: in the first round with an empty cache folder, then with what
the first has left there. So many processes spin meanwhile. The last line has the time from the beginning of main, in a
program that nothing announced, to the moment at which the programs that walk stacks are told what it has mapped.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from unittest.mock import patch

from headway.binary.module import Module
from headway.linux.bpf.unwinding.tables import CodeTables
from headway.linux.options import Selection
from headway.linux.procfs.maps import Mapping
from headway.linux.sources.profiler import ProfileSource
from headway.linux.sources.profiler.spaces import Spaces
from headway.linux.sources.source import LinuxSource
from headway.model import Profile
from headway.session.measure import observe

from .unwinding import _C, whole_share

Code = Iterable[tuple[Mapping, Module | None]]
_KNOW = CodeTables.know
_LOOP = """
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
static volatile long sum;
__attribute__((noinline, noclone)) static void work(long n) { for (long i = 0; i < n; i++) sum += i; }
__attribute__((noinline, noclone)) static void outer(long n) { for (int i = 0; i < 100; i++) work(n / 100); sum++; }
int main(int argc, char **argv)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    printf("%lld\\n", now.tv_sec * 1000000000ll + now.tv_nsec);
    outer(atol(argv[argc - 1]));
}
"""


def profile(command: list[str], output: str = os.devnull) -> Profile:
    """A profile of a command, whose output goes into a file."""
    sources: list[ProfileSource] = []

    def start(chosen: Selection) -> LinuxSource:
        sources.append(ProfileSource(chosen, prefer="bpf"))
        sources[0].begin()
        return sources[0]

    with open(output, "w") as file:
        observe(Selection(), command, start=start, stdout=file.fileno())
    return sources[0].profile()


def commands(folder: str) -> dict[str, list[str]]:
    """The commands by what the table calls them; those that are not installed are left out."""
    work, source = f"{folder}/work", f"{folder}/x.c"
    Path(f"{folder}/work.c").write_text(_LOOP)
    Path(source).write_text(_C)
    subprocess.run(["gcc", "-O1", "-o", work, f"{folder}/work.c"], check=True)
    found = {
        "a C program, 0.05 s": [work, "25000000"],
        "a C program, 0.3 s": [work, "150000000"],
        "a C program, 2 s": [work, "1000000000"],
        "git log -p -5": ["git", "log", "-p", "-5"],
        "git log -p -50": ["git", "log", "-p", "-50"],
        "sh -c 'git log -p -50'": ["sh", "-c", "git log -p -50 | wc -l"],
        "python3 -c 'import json'": ["/usr/bin/python3", "-c", "import json"],
        "gcc -c x.c": ["gcc", "-c", "-o", f"{folder}/x.o", source],
    }
    return {name: words for name, words in found.items() if shutil.which(words[0])}


def until_known(folder: str, times: int = 15) -> list[float]:
    """The milliseconds until the mappings of a new program were known, ascending."""
    found = []
    for number in range(times):
        program, output = f"{folder}/new{number}", f"{folder}/output"
        shutil.copy(f"{folder}/work", program)
        with open(program, "ab") as file:
            file.write(os.urandom(16))
        told: list[int] = []

        def know(self: CodeTables, pid: int, code: Code, *, made_is_framed: bool = False) -> None:
            mapped = list(code)
            _KNOW(self, pid, mapped, made_is_framed=made_is_framed)
            if any(mapping.path == program for mapping, _ in mapped):  # noqa: B023
                told.append(time.monotonic_ns())  # noqa: B023

        with patch.object(CodeTables, "know", know), patch.object(Spaces, "expect", lambda *_: None):
            profile([program, "300000000"], output)
        if told:
            found.append((told[0] - int(Path(output).read_text())) / 1e6)
    return sorted(found)


def main() -> None:
    """Print a line for each command and round."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    spinning = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    print(f"{'command':28} {'round':>5} {'stacks':>7} {'whole':>7}  the others")
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        chosen = commands(folder)
        for _ in range(spinning):
            stack.callback(subprocess.Popen([f"{folder}/work", str(1 << 60)], stdout=subprocess.DEVNULL).kill)
        for name, words in chosen.items():
            os.environ["XDG_CACHE_HOME"] = f"{folder}/{len(name)}{words[-1].rpartition('/')[2]}"
            for number in range(1, rounds + 1):
                share, of, ends = whole_share(profile(words))
                others = "; ".join(f"{why} {n}" for why, n in ends.most_common(2))
                print(f"{name:28} {number:5} {of:7,} {share:7.1%}  {others}", flush=True)
        late = until_known(folder)
        print(f"until a new program is known: {late[len(late) // 2]:.1f} ms, at most {late[-1]:.1f} ms")


if __name__ == "__main__":
    main()
