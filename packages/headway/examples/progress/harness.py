"""A benchmark that reports progress instead of time: what a call needs of the program's own code, whoever else runs.

    sudo headway stat --publish -q -- python harness.py [SECONDS]
    sudo pytest --headway harness.py

The time of a call depends on who else has the processors, and on the kernel. Its EPI hardly does. The first command
reads the thread's own states around many calls (`headway.states`). The second one measures the functions as tests, from
outside: `pytest --headway-save` and `--headway-compare` then find what has become slower.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable

import headway

TEXT = json.dumps([{"id": i, "name": f"name {i}", "tags": ["a", "b", "c"]} for i in range(40)])


def parse() -> None:
    """Nearly all of it is the program's own code."""
    json.loads(TEXT)


def look_at_files() -> None:
    """Much of it is the kernel's."""
    for path in (__file__, os.devnull, "/proc/self/stat"):
        with open(path, "rb") as file:
            file.read(4096)


def wait_a_little() -> None:
    """It takes time, and hardly any progress."""
    time.sleep(0.0005)


FUNCTIONS = (parse, look_at_files, wait_a_little)


def measured(function: Callable[[], None], seconds: float) -> str:
    """Return a line on a call of a function, from as many calls as fit into the seconds."""
    function()
    calls, begun, first = 0, time.monotonic_ns(), headway.states()
    while time.monotonic_ns() - begun < seconds * 1e9:
        function()
        calls += 1
    last = headway.states()
    line = f"{function.__name__:<15}"
    if first is None or last is None:
        return f"{line} nobody tells its progress: run it with headway stat --publish"
    work = last - first
    whole, made = work.progress.at - work.progress.since, work.progress
    others = {name: at.time for name, at in work.times.items() if not name.startswith("user")}
    most = max(others, key=others.__getitem__, default="nothing")
    epi = "        –" if made.epi is None else f"{made.epi / calls / 1e3:7.2f} µs"
    return (
        f"{line} EPI {epi} RPI {made.rpi / calls / 1e3:7.2f} µs  time {whole / calls / 1e3:8.2f} µs  "
        f"most of the rest: {most} {others.get(most, 0) / calls / 1e3:.2f} µs"
    )


def main(seconds: float) -> None:
    """Print a line for each function."""
    patience = time.monotonic() + 10 * seconds  # an observer that is busy may answer late
    while headway.states() is None and time.monotonic() < patience:
        time.sleep(0.01)
    for function in FUNCTIONS:
        print(measured(function, seconds), flush=True)


def test_parse() -> None:
    """For `pytest --headway`."""
    for _ in range(200):
        parse()


def test_look_at_files() -> None:
    """Likewise."""
    for _ in range(200):
        look_at_files()


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 0.5)
