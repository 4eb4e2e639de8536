"""What starting and ending a measurement costs, beside what starts as well and beside the least that eBPF needs.

The floor is two programs that do nothing on each tracepoint that ``headway stat -- true`` uses: verified, attached and
detached. All rows are measured in turn. Run ``python -m benchmarks.startup [N]`` as root; N: rounds.
"""

from __future__ import annotations

import os
import resource
import shutil
import statistics
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from headway.linux.bpf.programs.compile import compile_bpf
from headway.linux.bpf.programs.libbpf import Library, Object

from .common import heading, load, table
from .server_tools import hooks

ROUNDS = 15
_HEADWAY = shutil.which("headway", path=sysconfig.get_path("scripts")) or "headway"


@cache
def _floor_image() -> bytes:
    text = '#include "shared/kernel.h"\nchar LICENSE[] SEC("license") = "Dual BSD/GPL";\n' + "".join(
        f'SEC("tp_btf/{hook}") int floor{i}_{hook}(u64 *ctx) {{ (void)ctx; return 0; }}\n'
        for hook in hooks()
        for i in range(2)
    )
    with TemporaryDirectory() as scratch:
        source, target = Path(scratch) / "floor.bpf.c", Path(scratch) / "floor.bpf.o"
        source.write_text(text)
        compile_bpf(source, target, Path(scratch))
        return target.read_bytes()


def _floor() -> None:
    with Object(Library(), _floor_image()) as programs:
        programs.load()
        for program in programs.programs.values():
            programs.attach(program)


def _run(command: Sequence[str]) -> Callable[[], None]:
    def run() -> None:
        subprocess.run(command, check=True, capture_output=True)

    return run


def _rows() -> dict[str, Callable[[], None]]:
    stat = [_HEADWAY, "stat"]
    commands: dict[str, list[str]] = {
        "true": ["true"],
        "perf stat true": ["perf", "stat", "true"],
        "python3 -c pass": [sys.executable, "-c", "pass"],
        "headway --version": [_HEADWAY, "--version"],
        "headway stat --source proc -- true": [*stat, "--source", "proc", "--", "true"],
        "headway stat --level switches -- true": [*stat, "--level", "switches", "--", "true"],
        "headway stat -- true": [*stat, "--", "true"],
    }
    rows = {name: _run(command) for name, command in commands.items() if shutil.which(command[0])}
    return rows | {"two empty programs on each tracepoint": _floor}


def _apart(run: Callable[[], None]) -> tuple[float, float, float]:
    """Run in a process of its own. Return the seconds that went by, and its processor time in user mode and kernel."""
    start = time.perf_counter()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            run()
            status = 0
        finally:
            os._exit(status)
    _, status, used = os.wait4(pid, 0)
    if status:
        raise SystemExit("a command failed: is this root?")
    return time.perf_counter() - start, *_times(used)


def _times(used: resource.struct_rusage) -> tuple[float, float]:
    return used.ru_utime, used.ru_stime


def main(rounds: int = ROUNDS) -> None:
    """Print the table."""
    rows = _rows()
    _floor_image()
    taken: dict[str, list[tuple[float, float, float]]] = {name: [] for name in rows}
    for _ in range(rounds):
        for name, run in rows.items():
            taken[name].append(_apart(run))
    base = statistics.median(wall for wall, *_ in taken["true"])
    print(f"\n### Starting ({rounds} runs, in turn)\n")
    print(
        table(
            ["command", "median", "least", "more than true", "processor, user", "processor, kernel"],
            [
                [
                    name,
                    f"{1000 * statistics.median(wall for wall, *_ in times):.0f} ms",
                    f"{1000 * min(wall for wall, *_ in times):.0f} ms",
                    f"{1000 * (statistics.median(wall for wall, *_ in times) - base):.0f} ms",
                    *(f"{1000 * statistics.median(one[i] for one in times):.0f} ms" for i in (1, 2)),
                ]
                for name, times in taken.items()
            ],
        )
    )


if __name__ == "__main__":
    print(heading())
    main(int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS)
    print(f"\n({load()} at the end)")
