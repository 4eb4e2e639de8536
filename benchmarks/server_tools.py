"""Tools that watch a server while it is loaded: headway, others, and the floor that all tools with its hooks pay."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from tempfile import TemporaryDirectory

from headway.linux.bpf.programs.compile import compile_bpf
from headway.linux.bpf.programs.libbpf import Library, Object
from headway.linux.bpf.programs.loading import SHAPES, Features, leave_out_needless

from .server_loads import descendants

__all__ = ["TOOLS", "Tool", "hooks"]

HEADWAY = [sys.executable, "-c", "from headway.commands import main; main()"]
START = 30.0
"""Seconds that a tool may take until it measures."""
SETTLED = 0.5
"""Seconds without a change after which a tool is taken to have attached all that it attaches."""

_CALLS = """
tracepoint:raw_syscalls:sys_enter { @start[tid] = nsecs; }
tracepoint:raw_syscalls:sys_exit /@start[tid]/ { @time[tid, args->id] = sum(nsecs - @start[tid]); delete(@start[tid]); }
"""

Watch = Callable[[Sequence[int], Path], Iterator[None]]
"""Watches the processes with these PIDs, with a folder for what is written, until it is resumed."""


@dataclass(frozen=True)
class Tool:
    """Something that watches processes."""

    name: str
    program: str | None
    """What must be installed."""
    watch: Watch
    adapts: bool = False
    """Whether what it costs follows from the load, some time after that began."""

    @contextmanager
    def watching(self, pids: Sequence[int], scratch: Path) -> Iterator[None]:
        """Watch these processes; whatever the tool writes goes below ``scratch``."""
        yield from self.watch(pids, scratch)

    def missing(self) -> bool:
        """Whether the tool is not installed."""
        return self.program is not None and shutil.which(self.program) is None


# ---- programs on headway's hooks that do nothing, or only read the clock ----


def hooks() -> list[str]:
    """Return the tracepoints that headway attaches programs to for ``stat -p``."""
    library = Library()
    image = (resources.files("headway.linux") / "bpf" / "progress.bpf.o").read_bytes()
    with Object(library, image) as programs:
        leave_out_needless(programs, SHAPES["stat -p"], Features.probe(library))
        sections = [program.section for program in programs.programs.values() if program.wanted]
    return sorted({section.partition("/")[2] for section in sections if section.startswith("tp_btf/")})


@cache
def _floor_image(body: str) -> bytes:
    head = '#include "shared/kernel.h"\nchar LICENSE[] SEC("license") = "Dual BSD/GPL";\nvolatile u64 sink;\n'
    text = head + "".join(
        f'SEC("tp_btf/{hook}") int floor_{hook}(u64 *ctx) {{ (void)ctx; {body} return 0; }}\n' for hook in hooks()
    )
    with TemporaryDirectory() as scratch:
        source, target = Path(scratch) / "floor.bpf.c", Path(scratch) / "floor.bpf.o"
        source.write_text(text)
        compile_bpf(source, target, Path(scratch))
        return target.read_bytes()


def _floor(body: str) -> Watch:
    def watch(pids: Sequence[int], scratch: Path) -> Iterator[None]:
        with Object(Library(), _floor_image(body)) as programs:
            programs.load()
            for program in programs.programs.values():
                programs.attach(program)
            yield

    return watch


# ---- tools that are processes ----


def _attached(pid: int, pids: Sequence[int]) -> int:
    """Return how many links, perf events and traced threads a tool and the processes below it have."""
    number = 0
    for one in (pid, *descendants(pid)):
        with suppress(OSError):  # it may end meanwhile
            for name in os.listdir(f"/proc/{one}/fd"):
                with suppress(OSError):
                    target = os.readlink(f"/proc/{one}/fd/{name}")
                    number += target in ("anon_inode:bpf_link", "anon_inode:[perf_event]", "anon_inode:bpf-prog")
        for watched in pids:
            with suppress(OSError):
                number += f"TracerPid:\t{one}\n" in Path(f"/proc/{watched}/status").read_text()
    return number


def _process(words: Callable[[Sequence[int], Path], Sequence[str]]) -> Watch:
    """Return what runs a tool as its users do, until it is interrupted (SIGINT)."""

    def watch(pids: Sequence[int], scratch: Path) -> Iterator[None]:
        output = (scratch / "output").open("w")
        with (
            output,
            subprocess.Popen(words(pids, scratch), stdin=subprocess.DEVNULL, stdout=output, stderr=output) as tool,
        ):
            try:
                _wait_until_attached(tool, pids, scratch)
                yield
                if tool.poll() is not None:
                    raise RuntimeError(f"{tool.args!r} ended too early: {(scratch / 'output').read_text()[-300:]}")
            finally:
                tool.send_signal(signal.SIGINT)
                try:
                    tool.wait(60)
                except subprocess.TimeoutExpired:
                    tool.kill()

    return watch


def _wait_until_attached(tool: subprocess.Popen[bytes], pids: Sequence[int], scratch: Path) -> None:
    end = time.monotonic() + START
    seen, since = 0, time.monotonic()
    while not seen or time.monotonic() - since < SETTLED:
        if tool.poll() is not None:
            raise RuntimeError(f"{tool.args!r} does not run: {(scratch / 'output').read_text()[-300:].strip()}")
        if time.monotonic() > end:
            raise RuntimeError(f"{tool.args!r} attached nothing within {START:.0f} s")
        now = _attached(tool.pid, pids)
        if now != seen:
            seen, since = now, time.monotonic()
        time.sleep(0.05)


def _headway(*options: str, pid: bool) -> Watch:
    def words(pids: Sequence[int], scratch: Path) -> Sequence[str]:
        files = [word.replace("SCRATCH", str(scratch)) for word in options]
        return [*HEADWAY, *files, *(["-p", _joined(pids)] if pid else ["-a"])]

    return _process(words)


def _joined(pids: Sequence[int]) -> str:
    return ",".join(map(str, pids))


def _strace(pids: Sequence[int], scratch: Path) -> Sequence[str]:
    return ["strace", "-c", "-f", *(word for pid in pids for word in ("-p", f"{pid}"))]


TOOLS = (
    Tool("perf record -g -F 99", "perf", _process(lambda pids, scratch: (
        "perf", "record", "-q", "-g", "-F", "99", "-o", f"{scratch}/perf.data", "-p", _joined(pids)))),
    Tool("perf sched record", "perf", _process(lambda pids, scratch: (
        "perf", "sched", "record", "-q", "-o", f"{scratch}/perf.data"))),
    Tool("empty programs on headway's hooks", None, _floor("")),
    Tool("programs that read the clock", None, _floor("sink = bpf_ktime_get_ns();")),
    Tool("headway stat -p", None, _headway("stat", pid=True)),
    Tool("headway stat -a", None, _headway("stat", pid=False)),
    Tool("headway serve -a", None, _headway("serve", "--listen", "127.0.0.1:0", pid=False), adapts=True),
    Tool("headway stat -p --level switches", None, _headway("stat", "--level", "switches", pid=True)),
    Tool("headway stat -a --level switches", None, _headway("stat", "--level", "switches", pid=False)),
    Tool("headway stat -p --budget 1%", None, _headway("stat", "--budget", "1%", pid=True), adapts=True),
    Tool("headway stat -a --budget 1%", None, _headway("stat", "--budget", "1%", pid=False), adapts=True),
    Tool("headway record -p", None, _headway("record", "-o", "SCRATCH/out.hw", pid=True)),
    Tool("headway record -a", None, _headway("record", "-o", "SCRATCH/out.hw", pid=False)),
    Tool("bpftrace: time in calls by thread", "bpftrace", _process(lambda pids, scratch: ("bpftrace", "-e", _CALLS))),
    Tool("perf trace -s", "perf", _process(lambda pids, scratch: ("perf", "trace", "-s", "-p", _joined(pids)))),
    Tool("strace -c -f", "strace", _process(_strace)),
)  # fmt: skip
