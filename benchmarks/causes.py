"""How often the verdict is right: programs with a planted cause, and healthy programs of which nothing is to be said.

A program spends most of its time on one thing (``causes.c``), in four shapes: one thread, a pool of four, one thread
beside eight that rest, and one that also computes for a third of its time. Real programs are added where they are
installed. ``headway stat --json`` measures each, and the first cause of the verdict is compared with the planted one.
Healthy programs compute, or rest for want of work: any other first cause is a false one.

Other programs on the machine plant causes too: what they and the hypervisor take is not compared, and a program from
which they take more than a quarter of its time is measured again.

``python -m benchmarks.causes [--why] [--only WORD]``, as root. --why measures with ``--why wait``. --only takes the
cases whose names have the word.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from headway.model import wilson

from .common import compiled, heading, load, table

MS = 700
"""How long a program with a planted cause runs."""
SHAPES = ("alone", "pool", "idle", "mixed")
PLAIN = ("own_code", "sleep", "lock", "disk_writes", "disk_reads", "network", "pipe", "page_faults", "system_calls")
OTHERS = frozenset({"neighbours", "hypervisor"})
"""Causes that other programs on this machine plant."""
MUCH = 0.25
TRIES = 3
FIRST = ("chrt", "-r", "5")
"""What begins a command that is not to wait for others on a busy machine. A CPU quota does not bound it then."""
PERIOD_US, QUOTA_US = 100_000, 20_000
FILE_BYTES = 16 << 20
DATA_BYTES = 12 << 20
BROKEN = 3
"""The status of ``causes.c`` where it cannot do what it is for."""


@dataclass(frozen=True)
class Case:
    """A program, and what the verdict should say first."""

    name: str
    command: Sequence[str]
    causes: frozenset[str]
    """The right first causes. None need be named where this has an empty word."""
    options: Sequence[str] = ()
    beside: str = ""
    """What is there besides: ``hogs`` on its processor, or a ``quota``."""
    target: Sequence[str] = ()
    """The options that choose a process; empty: the command is measured."""


@dataclass(frozen=True)
class Outcome:
    """What the verdict said."""

    case: Case
    causes: tuple[str, ...]
    text: str

    disturbed: bool
    """Whether other processes, or the hypervisor, had the processors for much of the time."""

    @property
    def first(self) -> str:
        """The first cause, without those that the machine has planted; empty if there is none."""
        own = [cause for cause in self.causes if cause not in OTHERS or cause in self.case.causes]
        return own[0] if own else ""

    @property
    def right(self) -> bool:
        """Whether its first cause is one of the right ones."""
        return self.first in self.case.causes


def planted(program: Path, file: Path, port: str, fifo: Path) -> Iterator[Case]:
    """Yield the programs with a planted cause in each shape."""
    of = {"disk_writes": str(file), "disk_reads": str(file), "network": port, "pipe": str(fifo)}

    def words(cause: str, shape: str) -> list[str]:
        return [str(program), cause, shape, str(MS), *([of[cause]] if cause in of else [])]

    for cause in (*PLAIN, "polling"):
        for shape in SHAPES:
            yield Case(f"{cause}, {shape}", words(cause, shape), frozenset({cause}))
    for shape in ("alone", "idle", "mixed"):
        yield Case(f"spinning, {shape}", words("spinning", shape), frozenset({"spinning"}), ("--spin",))
    for shape in ("alone", "idle", "mixed"):
        command = ["taskset", "-c", "0", *words("own_code", shape)]
        yield Case(f"neighbours, {shape}", command, frozenset({"neighbours"}), beside="hogs")
    yield Case("own_threads, crowd", ["taskset", "-c", "0", *words("own_code", "crowd")], frozenset({"own_threads"}))
    for shape in SHAPES:
        yield Case(f"quota, {shape}", words("own_code", shape), frozenset({"quota"}), beside="quota")


def real(scratch: Path) -> Iterator[Case]:
    """Yield real programs with a known cause."""
    sql = "create table t (x);" + "insert into t values (1);" * 150
    starts = frozenset({"starts"})
    file = str(scratch / "real")
    gil = (
        "import threading as t\ndef f():\n x=0\n for i in range(9000000): x+=i\nl=[t.Thread(target=f) for _ in '123']\n"
    )
    python = os.path.realpath(sys.executable)
    rows = [
        ("starts, sh", ["sh", "-c", "i=0; while [ $i -lt 300 ]; do /bin/true; i=$((i+1)); done"], starts),
        ("starts, xargs", ["sh", "-c", "seq 300 | xargs -n1 /bin/true"], starts),
        ("starts, find", ["sh", "-c", "find /usr/share -name 'a*' -exec /bin/true {} \\; 2>&1 | head -c 1"], starts),
        ("sqlite3", ["sqlite3", str(scratch / "db"), sql], {"disk_writes"}),
        ("dd dsync", ["dd", "if=/dev/zero", f"of={file}", "bs=4k", "count=400", "oflag=dsync"], {"disk_writes"}),
        ("dd direct", ["dd", f"if={scratch / 'file'}", "of=/dev/null", "bs=4k", "iflag=direct"], {"disk_reads"}),
        ("dd zero", ["dd", "if=/dev/zero", "of=/dev/null", "bs=1M", "count=4000"], {"system_calls"}),
        ("sleep", ["sleep", "0.5"], {"sleep"}),
        ("shell that sleeps", ["sh", "-c", "sleep 0.5; true"], {"sleep"}),
        ("python threads", [python, "-c", gil + "[x.start() for x in l]; [x.join() for x in l]"], {"lock"}),
        ("flock", ["flock", "-w", "0.5", str(scratch / "held"), "true"], {"lock"}),
        ("pipeline", ["sh", "-c", f"cat {scratch / 'data'} | xz -1 | cat > /dev/null"], {"own_code"}),
    ]
    for name, command, causes in rows:
        if shutil.which(command[0]):
            yield Case(name, command, frozenset(causes))


def healthy(scratch: Path, idle: Iterable[tuple[str, int]]) -> Iterator[Case]:
    """Yield programs of which nothing but their own code, or nothing at all, is to be said."""
    data, python = str(scratch / "data"), os.path.realpath(sys.executable)
    own = frozenset({"own_code"})
    pool = "from concurrent.futures import *; p=ThreadPoolExecutor(8); list(p.map(abs, range(99)))\n"
    rows = [
        ("gzip", ["gzip", "-k", "-c", data]),
        ("bzip2", ["bzip2", "-k", "-c", data]),
        ("xz", ["xz", "-1", "-k", "-c", data]),
        ("xz -T2", ["xz", "-T2", "-1", "-k", "-c", data]),
        ("zstd", ["zstd", "-12", "-q", "-c", data]),
        ("sha256sum", ["sha256sum", *([data] * 6)]),
        ("openssl", ["openssl", "speed", "-seconds", "1", "sha256"]),
        ("awk", ["awk", "BEGIN { for (i = 0; i < 6000000; i++) s += i % 7; print s }"]),
        ("perl", ["perl", "-e", "$s += $_ % 7 for 1 .. 9000000"]),
        ("bc", ["sh", "-c", "echo 'scale=1500; 4*a(1)' | bc -l"]),
        ("python", [python, "-c", "sum(i * i for i in range(6000000))"]),
        ("python, resting pool", [python, "-c", pool + "sum(i * i for i in range(6000000))"]),
        ("grep", ["grep", "-a", "-c", "-E", "(a|b).*(c|d)[0-9]{3}", data]),
        ("sqlite3 in memory", ["sqlite3", ":memory:", _COUNTING]),
        ("cc", ["cc", "-O2", "-c", "-o", "/dev/null", "-x", "c", str(scratch / "long.c")]),
        ("own code beside idle threads", [str(scratch / "causes"), "own_code", "idle", str(MS)]),
    ]
    for name, command in rows:
        if shutil.which(command[0]):
            yield Case(name, command, own)
    for name, pid in idle:
        yield Case(name, [], frozenset({""}), target=("-p", str(pid), "-d", "0.7"))


_COUNTING = "with recursive n(x) as (select 1 union all select x+1 from n where x < 3000000) select sum(x % 7) from n;"


@contextmanager
def _resting(scratch: Path) -> Iterator[list[tuple[str, int]]]:
    """Run what rests for want of work, and keep a file locked. Yields the names and pids of those that rest."""
    python = os.path.realpath(sys.executable)
    resting = {
        "idle HTTP server": [python, "-m", "http.server", "0", "-b", "127.0.0.1"],
        "idle pool": [python, "-c", _RESTING_POOL],
        "reader of an empty pipe": ["cat"],
        "idle shell": ["sh"],
    }
    with ExitStack() as stack:
        found = []
        held = stack.enter_context((scratch / "held").open("w"))
        fcntl.flock(held, fcntl.LOCK_EX)
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "stdin": subprocess.PIPE}
        for name, command in resting.items():
            process = stack.enter_context(subprocess.Popen(command, **quiet))  # type: ignore[call-overload]
            stack.callback(process.kill)
            found.append((name, process.pid))
        time.sleep(1)
        yield found


_RESTING_POOL = (
    "import threading, queue\nq = queue.SimpleQueue()\n"
    "[threading.Thread(target=q.get).start() for _ in range(8)]\nthreading.Event().wait()"
)


@contextmanager
def _fed(fifo: Path) -> Iterator[None]:
    """Write a byte to the FIFO every other millisecond."""
    os.mkfifo(fifo)
    end = os.open(fifo, os.O_RDWR | os.O_NONBLOCK)
    stop = threading.Event()

    def feed() -> None:
        while not stop.wait(0.002):
            with suppress(BlockingIOError):
                os.write(end, b"x")

    thread = threading.Thread(target=feed)
    thread.start()
    yield
    stop.set()
    thread.join()
    os.close(end)


@contextmanager
def _serving(program: Path) -> Iterator[str]:
    """Run the server that takes its time. Yields its port."""
    with subprocess.Popen([program, "serve", "2"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.kill()


@contextmanager
def _hogs() -> Iterator[None]:
    """Keep processor 0 busy with three processes."""
    busy = [*FIRST, "taskset", "-c", "0", sys.executable, "-c", "while True: pass"]
    processes = [subprocess.Popen(busy) for _ in range(3)]
    time.sleep(0.3)
    yield
    for process in processes:
        process.kill()
        process.wait()


@contextmanager
def _limited() -> Iterator[Path]:
    """Make a control group with a fifth of a processor. Yields the file by which a process enters it."""
    old = Path("/sys/fs/cgroup/cpu")
    group = (old if old.is_dir() else Path("/sys/fs/cgroup")) / "headway-causes"
    group.mkdir(exist_ok=True)
    if old.is_dir():
        (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
        (group / "cpu.cfs_quota_us").write_text(str(QUOTA_US))
    else:
        (group / "cpu.max").write_text(f"{QUOTA_US} {PERIOD_US}")
    yield group / "cgroup.procs"
    with suppress(OSError):
        group.rmdir()


def judge(case: Case, options: Sequence[str], scratch: Path) -> Outcome:
    """Measure a program, and return what the verdict says."""
    output = scratch / "verdict.json"
    words = [sys.executable, "-m", "headway", "stat", "--json", "-o", str(output), *options, *case.options]
    command = [*FIRST, *case.command] if case.command and case.beside != "quota" else list(case.command)
    with ExitStack() as stack:
        if case.beside == "hogs":
            stack.enter_context(_hogs())
        elif case.beside == "quota":
            command = ["sh", "-c", 'echo $$ > "$0" && exec "$@"', str(stack.enter_context(_limited())), *command]
        words += [*case.target, *(["--", *command] if command else [])]
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=60)
    if not output.exists() or done.returncode == BROKEN:
        raise SystemExit(f"{case.name}: {done.stderr.decode(errors='replace').strip()}")
    found = json.loads(output.read_text())["verdict"]
    output.unlink()
    disturbed = any(one["cause"] in OTHERS - case.causes and one["share"] > MUCH for one in found)
    return Outcome(case, tuple(one["cause"] for one in found), found[0]["text"] if found else "", disturbed)


def undisturbed(case: Case, options: Sequence[str], scratch: Path) -> Outcome:
    """Measure a program until others leave it the processors, `TRIES` times at most."""
    for _ in range(TRIES):
        outcome = judge(case, options, scratch)
        if not outcome.disturbed:
            break
    return outcome


def cases(scratch: Path, stack: ExitStack) -> Iterator[tuple[str, Case]]:
    """Yield all cases, with what they are: ``planted``, ``real`` or ``healthy``."""
    program = scratch / "causes"
    shutil.copy(stack.enter_context(compiled("causes")), program)
    (scratch / "data").write_bytes(os.urandom(DATA_BYTES))
    (scratch / "file").write_bytes(bytes(FILE_BYTES))
    (scratch / "long.c").write_text("".join(_FUNCTION.replace("NUMBER", str(number)) for number in range(300)))
    os.sync()
    stack.enter_context(_fed(scratch / "fifo"))
    port = stack.enter_context(_serving(program))
    resting = stack.enter_context(_resting(scratch))
    yield from (("planted", case) for case in planted(program, scratch / "file", port, scratch / "fifo"))
    yield from (("real", case) for case in real(scratch))
    yield from (("healthy", case) for case in healthy(scratch, resting))


_FUNCTION = """
int f_NUMBER(int *a, int n) {
    int s = 0;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < 4; j++) s += a[i] * NUMBER % (j + 3) ^ s >> j;
    return s;
}
"""


def _summary(kind: str, outcomes: Sequence[Outcome]) -> list[str]:
    right = sum(outcome.right for outcome in outcomes)
    low, high = wilson(right, len(outcomes))
    wrong = [f"{o.case.name}: {o.first or 'nothing'}" for o in outcomes if not o.right]
    return [kind, f"{len(outcomes)}", f"{right}", f"{100 * low:.0f} to {100 * high:.0f} %", "; ".join(wrong) or "none"]


def measure(options: Sequence[str] = (), only: str = "") -> None:
    """Judge all programs, and print what was right."""
    found: dict[str, list[Outcome]] = {}
    with TemporaryDirectory() as folder, ExitStack() as stack:
        for kind, case in cases(Path(folder), stack):
            if only in case.name:
                outcome = undisturbed(case, options, Path(folder))
                found.setdefault(kind, []).append(outcome)
                mark = " " if outcome.right else "!"
                print(f"{mark} {case.name:<30} {outcome.text or 'nothing stands out'}", file=sys.stderr)
    print(table(["programs", "number", "right", "at 95 %", "wrong"], [_summary(*row) for row in found.items()]))


def main() -> None:
    """Parse the arguments and measure."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--why", action="store_true", help="measure with --why wait")
    parser.add_argument("--only", default="", metavar="WORD", help="take the cases whose names have this word")
    given = parser.parse_args()
    print(f"{heading()}, {load()}\n")
    measure(["--why", "wait"] if given.why else [], given.only)


if __name__ == "__main__":
    main()
