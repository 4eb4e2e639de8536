"""Spinning found in programs of others: how much of it, by another measurement of the same run, and what is wrong.

Each program that spins runs under ``headway stat --spin``, and ``perf record`` samples the same run 1,999 times a
second. What perf finds in the program's waiting code, which is named here by library, function or address, is the
truth: a share of the thread's user code. The programs that compute never wait for memory to change: whatever is found
is wrong.

Run it as root: ``python -m benchmarks.spinning_others``. What is not installed is left out, and named.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .common import heading, load, table

SPINNING = "poll.spin"
HEADWAY = (sys.executable, "-m", "headway", "stat", "--spin", "--json", "-q")
NOT_HERE = "{} left out: {}"

Where = Callable[[str, str], bool]
"""Takes a file and a function in it (or an address, where no symbol is known); returns whether code there waits."""


@dataclass(frozen=True)
class Spinner:
    """A program that spins."""

    name: str
    command: Sequence[str]
    waits: Where
    needs: Sequence[str] = ()
    """Programs that must be installed."""
    threads: str = ""
    """What the names of the threads that are looked at begin or end with; empty: all."""
    env: Mapping[str, str] = field(default_factory=dict)


def _between(file: str, *ranges: tuple[int, int]) -> Where:
    """Return whether code is at these addresses of a file without symbols, as one build has them."""

    def waits(library: str, place: str) -> bool:
        try:
            return library.startswith(file) and any(a <= int(place, 16) < b for a, b in ranges)
        except ValueError:
            return False

    return waits


def spinners(folder: Path) -> Iterator[Spinner]:
    """Yield the programs. Addresses are those of Debian 12's builds."""
    yield Spinner(
        "Peterson's mutex (stress-ng)",
        ["stress-ng", "--peterson", "1", "-t", "6", "-q"],
        _between("stress-ng", (0x29C138, 0x29C147), (0x29C280, 0x29C292)),
        ["stress-ng"],
        "stress-ng-peter",
    )
    yield Spinner(
        "Dekker's mutex (stress-ng)",
        ["stress-ng", "--dekker", "1", "-t", "8", "-q"],
        _between("stress-ng", (0x12ECB8, 0x12ECCB), (0x12EE20, 0x12EE2F), (0x12EE50, 0x12EE58), (0x12EE78, 0x12EE7F)),
        ["stress-ng"],
        "stress-ng-dekke",
    )
    yield Spinner(
        "pthread spin lock (glibc)",
        [str(folder / "spins"), "pthread", "6"],
        lambda library, place: "pthread_spin_lock" in place,
        ["cc"],
    )
    image = ["-size", "1500x1500", "plasma:", *["-blur", "0x3"] * 4, str(folder / "out.png")]
    yield Spinner(
        "OpenMP (GraphicsMagick, libgomp)",
        ["gm", "convert", *image],
        lambda library, place: library.startswith("libgomp"),
        ["gm"],
        env={"OMP_WAIT_POLICY": "active", "OMP_NUM_THREADS": "2"},
    )
    eal = ["--no-huge", "-m", "256", "-l", "0,1", "--no-pci", "--file-prefix", "headway", "--vdev=net_ring0"]
    forward = ["--forward-mode=rxonly", "--total-num-mbufs=2048", "--no-mlockall"]
    yield Spinner(
        "ring of DPDK (testpmd, net_ring)",
        ["timeout", "-s", "INT", "8", "dpdk-testpmd", *eal, "--", *forward, "--stats-period", "10"],
        lambda library, place: True,  # it never receives a packet
        ["dpdk-testpmd"],
        "rte-worker",
    )
    yield Spinner(
        "runtime of GHC, parallel GC",
        [str(folder / "maps"), "+RTS", "-N2", "-A1m"],
        lambda library, place: place == "acquire_spin_lock_slow_path",
        ["ghc"],
        ":w",
    )


def computing(folder: Path) -> Iterator[Sequence[str]]:
    """Yield programs that compute, each for some seconds."""
    text, archive = str(folder / "text"), str(folder / "archive")
    yield ["xz", "-2", "-k", "-c", archive]
    yield ["gzip", "-k", "-c", archive]
    yield ["bzip2", "-k", "-c", archive]
    yield ["zstd", "-q", "-12", "-c", archive]
    yield ["openssl", "speed", "-seconds", "1", "sha256"]
    yield ["sort", "-R", text]
    yield ["grep", "-c", "-E", "(a|e)[^x]+(qu|zz).*9$", text]
    yield ["awk", "{n[$1 % 1000] += length($0)} END {for (k in n) print k, n[k]}", text]
    yield ["sqlite3", ":memory:", _SQL]
    yield ["python3", "-c", "x = 1.0\nfor i in range(10_000_000): x = x * 1.0000001"]
    yield ["node", "-e", "let x = 1; for (let i = 1; i < 2e8; i++) x = (x * 31 + i) % 65537; console.log(x)"]
    yield ["gcc", "-O2", "-S", "-o", "/dev/null", str(folder / "many.c")]
    yield [
        "ffmpeg",
        "-v",
        "quiet",
        "-threads",
        "1",
        "-f",
        "lavfi",
        "-i",
        "testsrc2=d=4:s=640x360",
        "-c:v",
        "mpeg4",
        "-f",
        "null",
        "-",
    ]
    yield ["bc", "-l", str(folder / "pi.bc")]


_SQL = "with recursive c(x) as (select 1 union all select x + 1 from c where x < 3000000) select sum(x % 7) from c"
_HASKELL = """import qualified Data.Map as M
import Data.List
main = print (foldl' put start [1 .. 6000000] M.! 77)
  where start = M.fromList [(i, show i) | i <- [1 .. 200000 :: Int]]
        put m i = M.insert (i `mod` 200000) (show i) m
"""


def prepare(folder: Path) -> None:
    """Make what the programs read."""
    with open(folder / "archive", "wb") as archive:
        for path in sorted(Path("/usr/lib/x86_64-linux-gnu").glob("*.so.*")):
            archive.write(path.read_bytes() if path.is_file() else b"")
            if archive.tell() > 16 << 20:
                break
    (folder / "text").write_text("\n".join(f"{i * 7919 % 1000003} quite a line {i}" for i in range(500_000)))
    (folder / "many.c").write_text(
        "\n".join(f"int f{i}(int a, int b) {{ for (int i = 0; i < a; i++) b = b * {i} + a / (i + 1); return b; }}"
                  for i in range(1200))
    )  # fmt: skip
    (folder / "pi.bc").write_text("scale = 1500\n4 * a(1)\nquit\n")
    if shutil.which("cc"):
        source = Path(__file__).with_name("spins.c")
        subprocess.run(["cc", "-O2", "-pthread", "-o", folder / "spins", source, "-lm"], check=True)
    if shutil.which("ghc"):
        (folder / "maps.hs").write_text(_HASKELL)
        command = ["ghc", "-O", "-threaded", "-rtsopts", "-o", str(folder / "maps"), str(folder / "maps.hs")]
        subprocess.run(command, check=True, capture_output=True)


def measured(command: Sequence[str], env: Mapping[str, str], perf: str = "") -> list[tuple[str, int, int, int]]:
    """Return (name, tid, ns of user code with spinning, ns of spinning) of each thread.

    ``perf``: the file that perf writes beside it; empty: it does not.
    """
    with tempfile.NamedTemporaryFile("r") as report:
        words = [*HEADWAY, "-o", report.name, "--", *command]
        if perf:
            words = ["perf", "record", "-q", "-F", "1999", "-e", "cpu-clock:u", "-o", perf, "--", *words]
        subprocess.run(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env={**os.environ, **env}, check=False,
        )  # fmt: skip
        document = json.load(report)
    found = []
    for thread in document["threads"]:
        times = {state["state"]: state["time"] for state in thread["states"]}
        spun = times.get(SPINNING, 0)
        found.append((thread["name"], thread["tid"], times.get("user", 0) + spun, spun))
    return found


def waiting(perf: str, waits: Where) -> dict[int, tuple[int, int]]:
    """Return for each tid how many samples perf has of it, and how many of them in code that waits."""
    said = subprocess.run(
        ["perf", "report", "-i", perf, "--stdio", "-q", "-n", "-t", "\t", "--sort", "pid,dso,sym"],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    found: dict[int, tuple[int, int]] = {}
    for line in said.splitlines():
        fields = [word.strip() for word in line.split("\t")]
        if len(fields) < 5 or not fields[1].isdigit():
            continue
        tid = int(fields[2].partition(":")[0])
        place = fields[4].partition("]")[2].split("\0")[0].split("  ")[0].strip()
        had, waited = found.get(tid, (0, 0))
        number = int(fields[1])
        found[tid] = had + number, waited + number * waits(fields[3], place)
    return found


def of_spinning(folder: Path) -> list[list[str]]:
    """Return a row for each program that spins."""
    rows = []
    for one in spinners(folder):
        absent = [program for program in (*one.needs, "perf") if shutil.which(program) is None]
        if absent:
            print(NOT_HERE.format(one.name, f"{', '.join(absent)} not installed"), flush=True)
            continue
        perf = str(folder / "perf.data")
        user = spun = found = 0.0
        threads = measured(one.command, one.env, perf)
        truth = waiting(perf, one.waits)
        for name, tid, had, spinning in threads:
            if name.startswith(one.threads) or name.endswith(one.threads):
                samples, waited = truth.get(tid, (0, 0))
                user, found = user + had, found + spinning
                spun += had * waited / samples if samples else 0
        of_it = f"{found / spun:.1%}" if spun else ""
        rows.append([one.name, *(f"{time / 1e6:,.0f} ms" for time in (user, spun, found)), of_it])
    return rows


def of_computing(folder: Path) -> list[list[str]]:
    """Return a row for each program that computes."""
    rows = []
    for command in computing(folder):
        if shutil.which(command[0]) is None:
            print(NOT_HERE.format(command[0], "not installed"), flush=True)
            continue
        threads = measured(command, {})
        user, found = sum(thread[2] for thread in threads), sum(thread[3] for thread in threads)
        rows.append([command[0], f"{user / 1e6:,.0f} ms", f"{found / 1e6:,.1f} ms", f"{found / max(user, 1):.2%}"])
    return rows


def main() -> None:
    """Print the tables."""
    print(f"\n## Spinning in programs of others\n\n{heading()}; {load()}\n", flush=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(folder)
        print(table(("program", "user code", "spun", "found", "of it"), of_spinning(folder)), flush=True)
        print(f"\n{load()}\n", flush=True)
        print(table(("computes", "user code", "found spinning", "of it"), of_computing(folder)), flush=True)


if __name__ == "__main__":
    main()
