"""What runs in a guest: ``python -m tests.kernels.guest VERDICT [--only TASK,...]``; each finding is a line of JSON.

A finding says what was tried, and whether it came out *exact* (by eBPF, every law kept), *proc* (headway fell back to
/proc, with the reason), *refused* (the kernel refuses the programs, with the reason) or *wrong* (a law is broken).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TextIO

from headway.errors import HeadwayError
from headway.linux.bpf.programs.libbpf import Library
from headway.linux.bpf.programs.loading import SHAPES, Features, Shape, trial
from headway.linux.bpf.programs.refusals import RefusedError
from headway.linux.levels import Level
from headway.linux.options import MarkedFunctions, MeasureOptions, Selection
from headway.model import Ledger, violations
from headway.session.measure import observe

from ..linux.measuring import check, count_of, measure, measure_intervals, time_in

CPU = Path("/sys/devices/system/cpu")
IN_NAMESPACE = "--in-a-namespace"

PROGRAMS = Path(__file__).parents[2] / "packages/headway/tests/programs"
STORM = "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do /bin/true & (/bin/true; /bin/true); done; wait"
BUSY = "for i in 1 2 3; do (j=0; while [ $j -lt 40000 ]; do j=$((j+1)); done) & done; wait"


class SkipError(Exception):
    """A task that this machine cannot do, and why."""


def shape_kwargs(shape: Shape, cgroup: str | None) -> tuple[Selection, MeasureOptions]:
    """A selection and options that need the programs in this shape."""
    selection = Selection(
        everything=shape.everything,
        name="sh" if shape.name else None,
        cgroup=cgroup if shape.cgroup else None,
        cpus=(0,) if shape.cpus else None,
        follow=shape.follow,
    )
    options = MeasureOptions(
        why=shape.why,
        functions=(MarkedFunctions("libc.so.6:malloc"),) if shape.functions else (),
        events=("page-faults", "context-switches") if shape.events else (),
        stacks=shape.stacks,
    )
    return selection, options


def run_shape(shape: Shape) -> Ledger:
    """Measure a few processes in this shape; the laws hold, or it raises."""
    with own_cgroup() if shape.cgroup else without_cgroup() as cgroup:
        selection, options = shape_kwargs(shape, cgroup)
        command = ["sh", "-c", "i=0; while [ $i -lt 2000 ]; do i=$((i+1)); done; /bin/true; sleep 0.05; /bin/true"]
        if cgroup:
            command[2] = f"echo $$ > {cgroup}/cgroup.procs; {command[2]}"
        if shape.record:
            from ..linux.recorded import record

            interval = 0.1 if shape.intervals else None
            return record(*command, options=options, selection=selection, interval=interval).ledger
        if shape.intervals:
            return measure_intervals(0.1, *command, options=options, selection=selection)[0]
        return measure(*command, options=options, selection=selection)[0]


@contextmanager
def own_cgroup() -> Iterator[str]:
    """A cgroup v2 of our own."""
    mounts = Path("/proc/mounts").read_text().splitlines()
    root = next((line.split()[1] for line in mounts if " cgroup2 " in line), None)
    if root is None:
        raise SkipError("no cgroup v2 is mounted")
    folder = Path(root, f"headway-{os.getpid()}")
    folder.mkdir()
    try:
        yield str(folder)
    finally:
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            try:
                folder.rmdir()
            except OSError:
                time.sleep(0.1)
            else:
                break


@contextmanager
def without_cgroup() -> Iterator[None]:
    yield None


def all_ended(ledger: Ledger) -> None:
    """Every thread of a command that has ended has ended."""
    open_ones = [(t.tid, t.name) for t in ledger.threads if t.end is None]
    assert not open_ones, f"threads without an end: {open_ones}"


def compiler() -> Ledger:
    if shutil.which("gcc") is None:
        raise SkipError("gcc is not installed")
    ledger, _ = measure("gcc", "-O2", PROGRAMS / "to_compile.c", "-o", "a")
    assert Path("a").exists()
    assert len(ledger.threads) >= 4, "gcc, cc1, as and the linker are processes of their own"
    all_ended(ledger)
    return ledger


def python_threads() -> Ledger:
    ledger, _ = measure(sys.executable, PROGRAMS / "producers.py")
    assert len(ledger.threads) == 6
    all_ended(ledger)
    return ledger


ENDS = "exit_among_idle", "kill", "segv", "file_unmapped"
SIGNALS = "signal", "segv_handled", "seccomp_trap"
TICK = 20_000_000
"""ns in which what a call has put off may have ended unseen: two ticks, in a guest that is emulated."""


def outside_calls() -> Ledger:
    """What the kernel does outside calls is its own: ends of processes, signals, and what calls put off."""
    if shutil.which("gcc") is None:
        raise SkipError("gcc is not installed")
    subprocess.run(["gcc", "-O1", "-w", "-pthread", PROGRAMS / "ways_into_the_kernel.c", "-o", "ways"], check=True)
    ledger, words = measure("./ways", *ENDS, *SIGNALS, "traced_call")
    times = dict(zip(words[::2], map(int, words[1::2]), strict=True))
    for way in ENDS:
        for thread in (thread for thread in ledger.threads if thread.name == way):
            user, kernel = time_in(thread, "user"), time_in(thread, "kernel.")
            assert user < max(kernel / 5, TICK), f"{way}: {user} ns of user code beside {kernel} ns in the kernel"
    for way in SIGNALS:
        (thread,) = (thread for thread in ledger.threads if thread.name == way)
        count = count_of(thread, "kernel.signal")
        assert abs(count - times[way]) <= 2 + count_of(thread, "ready"), f"{way}: {count} signals of {times[way]}"
    (thread,) = (thread for thread in ledger.threads if thread.name == "traced_call")
    assert count_of(thread, "stopped") >= 2 * times["traced_call"]
    return ledger


def xz() -> Ledger:
    if shutil.which("xz") is None:
        raise SkipError("xz is not installed")
    Path("data").write_bytes(os.urandom(150_000) + b"headway " * 60_000)
    ledger, _ = measure("xz", "-T4", "-1", "-k", "-f", "--block-size=64KiB", "data")
    assert len(ledger.threads) >= 2
    all_ended(ledger)
    return ledger


def fork_storm() -> Ledger:
    ledger, _ = measure("sh", "-c", STORM)
    assert len(ledger.threads) == 1 + 12 * 4 - 12  # two of each four programs are started without a fork of their own
    all_ended(ledger)
    return ledger


def exit_status() -> Ledger:
    ledger, _ = measure("sh", "-c", "exit 7", status=7)
    all_ended(ledger)
    return ledger


def everything() -> Ledger:
    ledger, _ = measure(sys.executable, PROGRAMS / "producers.py", selection=Selection(everything=True))
    return ledger


def hotplug() -> Ledger:
    """A processor goes and comes back twice while threads run everywhere."""
    switch = CPU / f"cpu{(os.cpu_count() or 1) - 1}/online"
    if (os.cpu_count() or 1) < 2 or not os.access(switch, os.W_OK):
        raise SkipError("no processor can be turned off")

    def toggle() -> None:
        for _ in range(2):
            for value in ("0", "1"):
                time.sleep(0.4)
                switch.write_text(value)

    toggler = threading.Thread(target=toggle)
    toggler.start()
    try:
        ledger, _ = measure("sh", "-c", BUSY)
    finally:
        toggler.join()
        switch.write_text("1")
    all_ended(ledger)
    return ledger


def cpuset() -> Ledger:
    """Threads that cgroup v2 moves from processor to processor while they run."""
    n = os.cpu_count() or 1
    if n < 2:
        raise SkipError("one processor only")
    with own_cgroup() as folder:
        parent = Path(folder).parent
        try:
            (parent / "cgroup.subtree_control").write_text("+cpuset")
        except OSError as error:
            raise SkipError(f"the cpuset controller is not to be had ({error.strerror})") from None
        cpus = Path(folder, "cpuset.cpus")
        cpus.write_text("0")
        stop = threading.Event()

        def move() -> None:
            turn = 0
            while not stop.wait(0.2):
                turn += 1
                cpus.write_text(str(turn % n))

        mover = threading.Thread(target=move)
        mover.start()
        try:
            ledger, _ = measure("sh", "-c", f"echo $$ > {folder}/cgroup.procs; {BUSY}")
        finally:
            stop.set()
            mover.join()
    all_ended(ledger)
    return ledger


def regions() -> Ledger:
    """The demo program marks regions of its own code."""
    from headway.demo import program

    ledger, _ = measure(program(), "--seconds", "1")
    states = {state for thread in ledger.threads for state in thread.states}
    assert any(state.startswith("noneffective.") for state in states), f"no marked region in {sorted(states)}"
    all_ended(ledger)
    return ledger


def compat() -> Ledger:
    """The system calls of a 32-bit program have their own numbers, and the names that they have for the others."""
    program = Path("/opt/compat")
    if not program.exists():
        raise SkipError("there is no 32-bit program")
    ledger, said = measure(program)
    assert said == ["1"]
    states = {state for thread in ledger.threads for state in thread.states}
    assert {"wait.sleep", "kernel.write", "kernel.execve"} <= states, sorted(states)
    all_ended(ledger)
    return ledger


def faults() -> Ledger:
    """Every page that is touched for the first time is a fault, and a state of its own."""
    pages = 2000
    touch = "m.madvise(mmap.MADV_NOHUGEPAGE); m[::4096] = bytes(len(m) // 4096)"
    code = f"import mmap; m = mmap.mmap(-1, {pages} * 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS); {touch}"
    ledger, _ = measure(sys.executable, "-c", code)
    cell = ledger.threads[0].states["kernel.fault.minor"]
    assert (cell.count or 0) >= pages, f"{cell.count} faults seen of {pages}"
    all_ended(ledger)
    return ledger


def interrupts() -> Ledger:
    """The timer interrupts whoever computes; between processors there are interrupts too."""
    code = "import time\nend = time.monotonic() + 3\nwhile time.monotonic() < end: pass"
    ledger, _ = measure("sh", "-c", 'for i in 1 2 3; do "$@" & done; wait', "sh", sys.executable, "-c", code)
    seen = {state for processor in ledger.processors for state in processor.states if state.startswith("irq.")}
    assert "irq.timer" in seen, f"no timer in {sorted(seen)}"
    between = {"irq.ipi", "irq.reschedule", "irq.call_function", "irq.call_function_single"}
    assert (os.cpu_count() or 1) == 1 or seen & between, f"none between processors in {sorted(seen)}"
    all_ended(ledger)
    return ledger


def cpu_command() -> None:
    words = [sys.executable, "-P", "-m", "headway", "cpu", "--json", "-d", "3"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode == 0, done.stderr[-500:]
    document = json.loads(done.stderr)  # reports go there
    if document["source"] != "bpf":
        raise HeadwayError("headway cpu reads cpuidle or /proc/stat here")
    figures = [p for sample in document["samples"] for p in sample["processors"]]
    assert figures, "no sample"
    for p in figures:  # in an emulator most are dropped: its processors take turns, so readings are disturbed
        assert (p["utilisation"] is None) == (p["dropped"] is not None), p


def uses() -> Ledger:
    """System calls by file and holders of locks: the programs beside the others (linux/bpf/tables)."""
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, str(PROGRAMS / "known_calls.py"), folder]
        ledger, _ = measure(*words, options=MeasureOptions(calls=True, why=True, locks=True))
    found = ledger.uses
    assert found is not None
    assert found.calls is not None
    assert found.locks is not None
    assert "locks" not in ledger.reasons, ledger.reasons["locks"]
    written = sum(
        use.count for use in found.calls if use.call == "write" and use.file is not None and use.file.kind == "disk"
    )
    assert written == 30, written
    assert found.errors[ledger.threads[0].pid, "rmdir", 2] == 7
    return ledger


def clocks() -> Ledger:
    """The level at which no program runs at anything that happens often: no thread is lost there, too."""
    code = "import threading\nfor i in range(100):\n    t = threading.Thread(target=print); t.start(); t.join()"
    ledger, _ = measure(sys.executable, "-c", code, options=MeasureOptions(level=Level.CLOCKS))
    assert len(ledger.threads) == 101, len(ledger.threads)
    return ledger


LAWS: dict[str, Callable[[], Ledger | None]] = {
    "exit status": exit_status,
    "python threads": python_threads,
    "compiler": compiler,
    "xz": xz,
    "outside calls": outside_calls,
    "fork storm": fork_storm,
    "everything": everything,
    "clocks": clocks,
    "regions": regions,
    "32-bit": compat,
    "faults": faults,
    "interrupts": interrupts,
    "cpuset": cpuset,
    "hotplug": hotplug,
    "cpu": cpu_command,
    "uses": uses,
}
"""Programs under the laws, by what they show."""


def verdict_of(task: Callable[[], Ledger | None]) -> dict[str, object]:
    """What came of a task."""
    try:
        ledger = task()
    except SkipError as error:
        return {"verdict": "skipped", "why": str(error)}
    except RefusedError as error:
        return {"verdict": "refused", "why": f"{error.program}: {error.reason}"}
    except HeadwayError as error:
        return by_proc(error)
    except Exception as error:
        return wrong(error)
    if ledger is None:
        return {"verdict": "exact"}
    losses = {name: n for name, n in ledger.losses.items() if n}
    return {"verdict": "exact", "threads": len(ledger.threads), "losses": losses, "reasons": sorted(ledger.reasons)}


def wrong(error: Exception) -> dict[str, object]:
    """The verdict where something is not as it should be."""
    why = f"{type(error).__name__}: {error}"[:1000]
    return {"verdict": "wrong", "why": why, "trace": traceback.format_exc()[-3000:]}


def by_proc(why: HeadwayError) -> dict[str, object]:
    """The verdict where eBPF is not possible: a command, left to choose, is measured by /proc and keeps the laws."""
    try:
        done = observe(Selection(), ["sh", "-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; exit 7"])
        assert done.ledger.source == "proc", done.ledger.source
        assert done.why_not_exact, "no reason is given"
        assert done.exit_status == 7, done.exit_status
        assert violations(done.ledger) == []
    except Exception as error:
        return wrong(error)
    return {"verdict": "proc", "why": why.cause}


def refuse(why: HeadwayError) -> None:
    raise why


def tasks(which: str) -> Iterator[tuple[str, Callable[[], Ledger | None]]]:
    """What is to be tried: ``gate`` (loading alone, and three programs), ``shapes``, ``laws``, ``all``, or one task."""
    if which == "gate":
        library = Library()
        try:
            features = Features.probe(library)
        except HeadwayError as error:
            yield "load", partial(refuse, error)
            return
        for name, shape in SHAPES.items():
            yield f"load: {name}", partial(trial, library, shape, features)
        yield "law: python threads", python_threads
        yield "law: outside calls", outside_calls
        yield "law: uses", uses
        yield "law: clocks", clocks
        return
    if which not in ("all", "shapes", "laws"):
        yield from (task for task in tasks("all") if task[0] == which)
        return
    if which in ("all", "shapes"):
        for name, shape in SHAPES.items():
            yield f"shape: {name}", in_namespace(name) if shape.namespace else partial(run_shape, shape)
    if which in ("all", "laws"):
        for name, law in LAWS.items():
            yield f"law: {name}", law


def in_namespace(name: str) -> Callable[[], Ledger | None]:
    """The same in a pid namespace of its own: a process in it says what came of it."""

    def run() -> None:
        words = ["unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-P", "-m", "tests.kernels.guest"]
        done = subprocess.run([*words, IN_NAMESPACE, name], capture_output=True, text=True, check=False, timeout=280)
        if done.returncode:
            raise AssertionError(done.stdout[-500:] + done.stderr[-1500:])

    return run


def main(arguments: list[str]) -> int:
    if arguments[0] == IN_NAMESPACE:
        shape = SHAPES[arguments[1]]
        check(run_shape(shape))
        return 0
    with open(arguments[0], "w", encoding="utf-8") as out:
        say(out, task="boot", release=os.uname().release, machine=os.uname().machine, processors=os.cpu_count())
        with tempfile.TemporaryDirectory() as scratch:
            here = os.getcwd()
            os.chdir(scratch)
            sys.path.insert(0, here)
            for name, task in (task for which in arguments[1:] or ["all"] for task in tasks(which)):
                began = time.monotonic()
                found = verdict_of(task)
                say(out, task=name, **found, seconds=round(time.monotonic() - began, 1))
            os.chdir(here)
        say(out, finished=True)
    return 0


def say(out: TextIO, **finding: object) -> None:
    out.write(json.dumps(finding) + "\n")
    out.flush()
    os.fsync(out.fileno())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
