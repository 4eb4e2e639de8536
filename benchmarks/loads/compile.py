"""Compile a file as often as each line of standard input says, two at a time; answer with the seconds that it took."""

from __future__ import annotations

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

compiler, source = sys.argv[1:]


def _compile(_: int) -> None:
    subprocess.run([compiler, "-O1", "-c", "-o", "/dev/null", source], check=True)


with ThreadPoolExecutor(2) as pool:
    for line in sys.stdin:
        start = time.perf_counter()
        list(pool.map(_compile, range(int(line))))
        print(time.perf_counter() - start, flush=True)
