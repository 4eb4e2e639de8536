"""How many user stacks are whole, whether they are gdb's, and what one costs.

``python -m benchmarks.unwinding [SECONDS]``, as root. Real programs without frame pointers do some work while
``headway profile`` runs. Idle ones are then stopped by gdb, thread by thread, and what it shows is compared, address by
address, with the stack with which headway saw the thread leave its processor last. The cost is the difference in the
processor time of a program that does little but switch, with and without stacks, and the run time of the programs as
the kernel counts it (bpf_enable_stats).
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from headway.linux.bpf.samples.stacks import Away
from headway.linux.options import Selection
from headway.linux.sources.ebpf import BpfSource
from headway.linux.sources.profiler import ProfileSource
from headway.model import Profile

_GDB = """
set backtrace past-main on
python
for thread in gdb.selected_inferior().threads():
    thread.switch()
    frame, found = gdb.newest_frame(), []
    while frame is not None and len(found) < 128:
        if frame.type() != gdb.INLINE_FRAME:
            found.append(hex(frame.pc()))
        try:
            frame = frame.older()
        except gdb.error:
            break
    print('STACK', thread.ptid[1], *found)
end
"""
_SQL = "with recursive n(i) as (select 1 union all select i+1 from n where i<20000000) select sum(i*7%13) from n;"
_PYTHON = "import json\nwhile True: json.loads(json.dumps([{'a': [i, str(i)] * 3} for i in range(300)]))"
_IDLE = (
    "import threading, time\nsleep = lambda: [time.sleep(.02) for _ in range(9999)]\n"
    "for _ in range(4): threading.Thread(target=sleep).start()"
)
_WAITS = """
#include <time.h>
static volatile long sum;
__attribute__((noinline, noclone)) static void deep(int depth)
{
    struct timespec time = {0, 100000};
    if (depth)
        deep(depth - 1);
    else
        for (;;) {
            for (int i = 0; i < 30000; i++)
                sum += i;
            clock_nanosleep(CLOCK_MONOTONIC, 0, &time, 0);
        }
    sum++;
}
int main(void) { deep(26); }
"""
_C = "#include <stdio.h>\n" + "\n".join(
    f"static int f{i}(int a, int b) {{ int s = 0; for (int i = a; i < b; i++) s += i * {i} % (a + 3); return s; }}"
    for i in range(3000)
)


def ask(port: int = 18099) -> None:
    """Ask the web server for a page, so that it has something to do; nothing happens where there is none."""
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
        connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
        connection.recv(4096)


def measure(selection: Selection, seconds: float) -> tuple[Profile, list[Away]]:
    """A profile, and what it saw of threads that left their processor."""
    source = ProfileSource(selection, prefer="bpf")
    source.begin()
    try:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            pause = source.service()
            select.select(list(source.poll_fds()), (), (), min(left, pause if pause is not None else left, 0.05))
            ask()
        source.end()
        assert source._finished is not None
        away = list(source._finished.away)
        return source.profile(), away
    finally:
        source.close()


def whole_share(profile: Profile) -> tuple[float, int, Counter[str]]:
    """The share of the rows with user code whose stacks are whole, their number, and how the others end."""
    whole = of = 0
    ends: Counter[str] = Counter()
    for _, _, _, count, stack in profile.rows():
        frames = [profile.frames[number] for number in stack]
        if not any(frame.kind in ("user", "python", "none") for frame in frames):
            continue
        of += count
        if frames[-1].kind == "none":
            ends[frames[-1].function or ""] += count
        else:
            whole += count
    return (whole / of if of else 0.0), of, ends


def gdb_stacks(pid: int) -> dict[int, tuple[int, ...]]:
    """The stack of each thread, innermost first, as gdb unwinds it at a stop."""
    with tempfile.NamedTemporaryFile("w", suffix=".gdb") as script:
        script.write(_GDB)
        script.flush()
        words = ["gdb", "-nx", "-batch", "-p", str(pid), "-x", script.name]
        done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    found = {}
    for line in done.stdout.splitlines():
        if line.startswith("STACK "):
            _, tid, *addresses = line.split()
            found[int(tid)] = tuple(int(word, 16) for word in addresses)
    return found


def compare_with_gdb(pid: int, stops: int) -> tuple[int, int, int]:
    """How many threads were compared at so many stops, how many stacks and how many frames are equal."""
    compared = same = 0
    frames = 0
    for _ in range(stops):
        _, away = measure(Selection(pids=(pid,)), 0.5)
        seen: dict[int, list[tuple[int, ...]]] = {}
        for row in away:
            if row.state.startswith("wait") and row.user and row.walked is not None and not row.walked.why:
                seen.setdefault(row.tid, []).append(row.user)
        for tid, stack in gdb_stacks(pid).items():
            candidates = [one for one in seen.get(tid, []) if one[0] == stack[0]]
            if not candidates:
                continue  # it was not waiting there, or has not moved while it was measured
            compared += 1
            best = max(candidates, key=lambda one: sum(a == b for a, b in zip(one, stack, strict=False)))
            same += best == stack
            frames += sum(a == b for a, b in zip(best, stack, strict=False)) == len(stack)
            if best != stack:
                print("    differs:", [hex(word) for word in best], [hex(word) for word in stack])
    return compared, same, frames


@contextmanager
def running(*command: str, folder: str) -> Iterator[int]:
    """A program that runs meanwhile, in a process group of its own."""
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder,
        start_new_session=True,
    )  # fmt: skip
    try:
        time.sleep(0.3)
        yield process.pid
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def loads(folder: Path) -> dict[str, list[str]]:
    """Programs that work, by name: those that are installed."""
    (folder / "big.c").write_text(_C)
    (folder / "work.py").write_text(_PYTHON)
    every = {
        "sqlite3": ["sqlite3", ":memory:", _SQL],
        "python3": ["/usr/bin/python3", str(folder / "work.py")],
        "gcc": ["sh", "-c", f"while :; do gcc -O2 -S -o {folder}/big.s {folder}/big.c; done"],
        "git": ["sh", "-c", f"while :; do git -C {Path(__file__).parents[1]} log --stat -40 >/dev/null; done"],
        "perl": ["perl", "-e", 'while (1) { my %h; $h{$_ % 997} .= "x$_" for 1..99999; join ",", sort keys %h }'],
        "xz": ["sh", "-c", f"while :; do xz -6 -c {folder}/big.c >/dev/null; done"],
        "node": ["node", "-e", "const f=(n)=>n<2?n:f(n-1)+f(n-2); while(1){JSON.parse(JSON.stringify({a:[f(20)]}))}"],
    }
    return {name: words for name, words in every.items() if shutil.which(words[0]) and shutil.which(name)}


def servers(folder: Path) -> dict[str, list[str]]:
    """Programs that mostly wait, by name: those that are installed."""
    (folder / "idle.py").write_text(_IDLE)
    (folder / "nginx.conf").write_text(
        f"daemon off; master_process off; user root; pid {folder}/nginx.pid; error_log {folder}/error.log;\n"
        "events { worker_connections 64; } http { access_log off; server { listen 127.0.0.1:18099; } }\n"
    )
    every = {
        "redis-server": ["redis-server", "--port", "18098", "--bind", "127.0.0.1", "--save", ""],
        "nginx": ["nginx", "-p", str(folder), "-c", str(folder / "nginx.conf")],
        "python3": ["/usr/bin/python3", str(folder / "idle.py")],
        "node": ["node", "-e", "setInterval(() => {}, 20)"],
    }
    return {name: words for name, words in every.items() if shutil.which(words[0]) and shutil.which(name)}


def cost_of_stacks(folder: Path) -> dict[str, tuple[float, float]]:
    """The run time of the handlers of a switch and of a sample, ns each, by how stacks are walked.

    The program waits, and computes, 30 calls deep.
    """
    (folder / "waits.c").write_text(_WAITS)
    words = ["cc", "-O2", "-fomit-frame-pointer", "-o", str(folder / "waits"), str(folder / "waits.c")]
    subprocess.run(words, check=True)
    found = {}
    for name, stacks, frame_pointers in (("none", False, False), ("fp", True, True), ("dwarf", True, False)):
        with running(str(folder / "waits"), folder=str(folder)) as pid:
            selection = Selection(pids=(pid,))
            source: BpfSource | ProfileSource = (
                ProfileSource(selection, prefer="bpf", frame_pointers=frame_pointers)
                if stacks
                else BpfSource(selection)
            )
            source.begin()
            try:
                inner = source._running.source if isinstance(source, ProfileSource) else source
                assert isinstance(inner, BpfSource)
                programs = inner._running._programs.object
                with programs.statistics():
                    until = time.monotonic() + 3
                    while time.monotonic() < until:
                        pause = source.service()
                        select.select(list(source.poll_fds()), (), (), min(pause or 0.05, 0.05))
                    runs = [
                        programs.programs[each].run_time() if programs.programs[each].wanted else (0, 0)
                        for each in ("handle_sched_switch", "handle_sample")
                    ]
                source.end()
            finally:
                source.close()
        found[name] = tuple(time_ns / count if count else 0.0 for time_ns, count in runs)
    return {name: (each[0], each[1]) for name, each in found.items()}


def main() -> None:
    """Print the tables."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 3.0
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        print(f"{'program':<14} {'stacks':>9} {'whole':>8}  others end in")
        for name, command in {**loads(folder), **servers(folder)}.items():
            with running(*command, folder=str(folder)) as pid:
                profile, _ = measure(Selection(pids=(pid,), descendants=True), seconds)
            share, of, ends = whole_share(profile)
            print(f"{name:<14} {of:>9,} {share:>8.2%}  {', '.join(f'{k} {v}' for k, v in ends.most_common(3))}")
        print(f"\n{'at gdb stops':<14} {'threads':>9} {'equal':>8}")
        for name, command in servers(folder).items():
            with running(*command, folder=str(folder)) as pid:
                compared, same, _ = compare_with_gdb(pid, 5)
            print(f"{name:<14} {compared:>9,} {same:>8,}")
        print(f"\n{'stacks by':<14} {'ns a switch':>12} {'ns a sample':>12}")
        for name, (switch, sample) in cost_of_stacks(folder).items():
            print(f"{name:<14} {switch:>12,.0f} {sample:>12,.0f}")


if __name__ == "__main__":
    main()
