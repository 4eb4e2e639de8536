"""Helpers of the benchmarks: compiled programs, tables in Markdown, and a description of the machine in one line."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import date
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from headway import get_include

__all__ = ["compiled", "heading", "living", "load", "table"]


@contextmanager
def compiled(name: str, *, shared: bool = False, flags: Sequence[str] = ()) -> Iterator[Path]:
    """Compile one of the C files beside this one; ``flags`` are additional flags of the compiler. Yields the path."""
    with TemporaryDirectory() as scratch:
        target = Path(scratch) / name
        source = Path(__file__).parent / f"{name}.c"
        kind = ["-shared", "-fPIC"] if shared else []
        subprocess.run(["cc", "-O2", *kind, *flags, "-pthread", f"-I{get_include()}", "-o", target, source], check=True)
        yield target


@contextmanager
def living(path: Path, number: int) -> Iterator[int]:
    """Run ``number`` threads of the program many.c. Yields its PID once all of them exist."""
    process = subprocess.Popen([path, "live", str(number)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(0.5)
        yield process.pid
    finally:
        process.kill()
        process.wait()


def table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown with all columns but the first aligned to the right."""
    cells = [list(titles), *(list(row) for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(titles))]
    lines = [
        [text.rjust(w) if i else text.ljust(w) for i, (text, w) in enumerate(zip(r, widths, strict=True))]
        for r in cells
    ]
    lines.insert(1, ["-" * (w - 1) + ":" if i else "-" * w for i, w in enumerate(widths)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


@cache
def _processor() -> str:
    found = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return found.group(1) if found else platform.machine()


def heading() -> str:
    """Return date, kernel, processor model and number of processors."""
    return f"{date.today()}, Linux {platform.release()}, {_processor()}, {os.cpu_count()} processors"


def load() -> str:
    """Return the load average of the machine, including this process."""
    return f"load average {os.getloadavg()[0]:.2f}"
