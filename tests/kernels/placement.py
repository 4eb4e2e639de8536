"""What runs in a guest with memory nodes: ``python -m tests.kernels.placement VERDICT [TASK...]``, as `.guest` does.

Plans of `headway advise --apply` are made, applied and taken back on the guest's kernel: memory goes to the node of the
processors, a partition is isolated, interrupts go elsewhere. After every undo the control files hold what they held
before, byte for byte. The guest has four processors on two nodes, and a disk whose interrupts the kernel manages.
"""

from __future__ import annotations

import importlib
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from headway.advice import DeviceInterrupt, Remedy
from headway.linux.placement.changes import Partition, UseNode
from headway.linux.placement.controls import Controls
from headway.linux.placement.cpuset import cpuset_root
from headway.linux.placement.draft import PlacementPlan
from headway.linux.placement.facilities import facilities
from headway.linux.placement.interrupts import Redirect, arrived
from headway.linux.placement.journal import Journal
from headway.linux.placement.plan import plan
from headway.linux.placement.refused import Refused

from .guest import SkipError, say

CONTROLS = Controls()
MEBIBYTES = 50
HOLDER = f"""
import os, sys
os.sched_setaffinity(0, {{0}})
block = bytearray({MEBIBYTES} << 20)
block[::4096] = b"x" * len(block[::4096])
os.sched_setaffinity(0, range(os.cpu_count()) if sys.argv[1] == "all" else {{2, 3}})
print("ready", flush=True)
while True: pass
"""
"""A program whose memory is on node 0, where it does not run (any more)."""
BUSY = "print('ready', flush=True)\nwhile True: pass"
CROWD = f"import os; os.nice(19); os.sched_setaffinity(0, {{2, 3}})\n{BUSY}"
"""Three of them want two processors, and leave the others to headway."""
PINNED = f"import os; os.sched_setaffinity(0, {{2}})\n{BUSY}"
"""A program that competes with others like it for one processor."""
MODULES = (
    "headway.commands.advise",
    "headway.linux.sources.choose",
    "headway.linux.sources.ebpf",
    "headway.linux.sources.proc",
    "headway.views.advice",
    "headway.views.console",
    "headway.views.effect",
)
"""What the command imports."""
KILLS = 14
FORGETS = tuple(int(part) for part in os.uname().release.split(".")[:2]) < (6, 2)
"""Whether the kernel forgets the affinity that a process has set for itself when it leaves a cpuset."""


@contextmanager
def running(*programs: Sequence[str]) -> Iterator[list[int]]:
    """Start Python programs, and wait until each says that it is ready."""
    started = [subprocess.Popen([sys.executable, "-c", *words], stdout=subprocess.PIPE) for words in programs]
    try:
        for process in started:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
        yield [process.pid for process in started]
    finally:
        for process in started:
            process.kill()
            process.wait()


def root_or_skip() -> str:
    try:
        return cpuset_root(CONTROLS)
    except Refused as reason:
        raise SkipError(str(reason)) from None


def state(*pids: int) -> dict[str, object]:
    """What a plan can change, as the files hold it."""
    root = root_or_skip()
    found: dict[str, object] = {}
    for file in ("cgroup.subtree_control", "cpuset.cpus.effective", "cpuset.mems.effective"):
        found[file] = Path(root, file).read_bytes()
    found["groups"] = sorted(group for group in CONTROLS.groups(root) if "headway" in group)
    for path in (Path("/proc/irq/default_smp_affinity"), *sorted(Path("/proc/irq").glob("*/smp_affinity_list"))):
        with suppress(OSError):  # it cannot be read where the interrupt has no controller
            found[str(path)] = path.read_bytes()
    for pid in pids:
        affinities = {} if FORGETS else {tid: CONTROLS.affinity(tid) for tid in CONTROLS.threads(pid)}
        found[f"{pid}"] = CONTROLS.group_of(pid), affinities
    return found


@contextmanager
def applied(made: PlacementPlan, *pids: int) -> Iterator[list[str]]:
    """Apply a plan, and take it back; everything is as before then."""
    before = state(*pids)
    with tempfile.TemporaryDirectory() as folder:
        journal = Journal(Path(folder, "j"), CONTROLS)
        notes = journal.apply(made.id, made.changes)
        try:
            yield notes
        finally:
            left = journal.undo(made.id)
    assert left == [], left
    after = state(*pids)
    assert after == before, {
        name: (before.get(name), after.get(name)) for name in after if after[name] != before.get(name)
    }


def share_on(pid: int, node: int) -> float:
    pages = CONTROLS.pages(pid)
    return pages.get(node, 0) / sum(pages.values())


def nodes_or_skip() -> None:
    if len(CONTROLS.nodes()) < 2:
        raise SkipError("this kernel sees one memory node")


def memory_moves() -> Mapping[str, object]:
    """Memory goes to the node where the process's processors are, and stays there after the undo."""
    nodes_or_skip()
    with running([HOLDER, "there"]) as (pid,):
        before = share_on(pid, 1)
        made = plan([Remedy("memory", pid, 1, ())], CONTROLS)
        assert any(isinstance(change, UseNode) and change.node == 1 for change in made.changes), made
        began = time.monotonic()
        with applied(made, pid):
            took = time.monotonic() - began
            during = share_on(pid, 1)
            assert during > 0.9, (before, during)
        return {
            "MiB": MEBIBYTES,
            "on node 1 before, during, after the undo": [round(x, 3) for x in (before, during, share_on(pid, 1))],
            "seconds to apply": round(took, 2),
        }


def memory_stays() -> Mapping[str, object]:
    """A process whose memory is where it runs is left alone, with the reason."""
    nodes_or_skip()
    with running([HOLDER.replace("{2, 3}", "{0, 1}"), "there"]) as (pid,):
        made = plan([Remedy("memory", pid, 1, ())], CONTROLS)
        assert made.changes == ()
        assert "at its processors, already" in made.refused[0], made.refused
        return {"refused": made.refused[0]}


def isolated() -> Mapping[str, object]:
    """Nobody else runs on an isolated processor, and the kernel lists it as isolated."""
    root = root_or_skip()
    others = [[BUSY]] * 5
    with running([BUSY], *others) as (pid, *rest):
        made = plan([Remedy("interrupts", pid, 1, ())], CONTROLS)
        (partition,) = (change for change in made.changes if isinstance(change, Partition))
        assert partition.kind == "isolated"
        (cpu,) = partition.cpus
        with applied(made, pid, *rest) as notes:
            kind = CONTROLS.read(f"{partition.group}/cpuset.cpus.partition")
            assert kind == "isolated" or (kind == "root" and notes), (kind, notes)
            listed = CONTROLS.read(f"{root}/cpuset.cpus.isolated")
            time.sleep(1)
            seen: set[int] = set()
            for _ in range(20):
                time.sleep(0.1)
                seen |= {at for other in rest if (at := CONTROLS.processor(other)) is not None}
                assert CONTROLS.processor(pid) == cpu
            assert cpu not in seen, (cpu, seen)
            assert all(cpu not in (CONTROLS.affinity(other) or ()) for other in rest)
        return {"partition": kind, "processor": cpu, "cpuset.cpus.isolated": listed, "others ran on": sorted(seen)}


def interrupts() -> Mapping[str, object]:
    """Interrupts that arrive on a process's processor go elsewhere; what the kernel manages is said to stay."""
    root_or_skip()
    subprocess.run(["modprobe", "virtio_blk"], check=False, capture_output=True)
    with running([BUSY]) as (pid,):
        choice = plan([Remedy("interrupts", pid, 1, ())], CONTROLS)
        (partition,) = (change for change in choice.changes if isinstance(change, Partition))
        (cpu,) = partition.cpus
        home = {}
        for interrupt in facilities().interrupts:  # send to the processor whatever can be sent there
            path = Path(f"/proc/irq/{interrupt.number}/smp_affinity_list")
            home[path] = path.read_text()
            with suppress(OSError):
                path.write_text(f"{cpu}")
        try:
            came = arriving(cpu)
            assert any(i.counts[cpu] for i in came), "no interrupt could be sent to the processor"
            made = plan([Remedy("interrupts", pid, 1, ())], CONTROLS, interrupts=came)
            sent = [change for change in made.changes if isinstance(change, Redirect)]
            assert sent, made
            with applied(made, pid) as notes:
                arriving(cpu)  # one that was on its way
                later = {i.number: i.counts[cpu] for i in arriving(cpu)}
                kept = [change for change in sent if any(f"interrupt {change.number} " in note for note in notes)]
                moved = [change for change in sent if change not in kept]
                assert moved, notes
                assert not any(later[change.number] for change in moved), (later, moved)
                new = CONTROLS.read("/proc/irq/default_smp_affinity")
            return {
                "processor": cpu,
                "moved": [f"{c.number} {c.name}: {count(came, c.number, cpu)} before, 0 after" for c in moved],
                "cannot be moved": [f"{c.number} {c.name}" for c in kept],
                "default_smp_affinity meanwhile": new,
                "notes": notes,
            }
        finally:
            for path, text in home.items():
                with suppress(OSError):
                    path.write_text(text)


def arriving(cpu: int) -> tuple[DeviceInterrupt, ...]:
    """Read files and a disk for a while, on that processor and on others. Return how many interrupts came meanwhile."""
    before = facilities()
    end = time.monotonic() + 2
    mine = os.sched_getaffinity(0)
    while time.monotonic() < end:
        for at in (cpu, 0):
            with suppress(OSError):  # a processor of somebody else's partition
                os.sched_setaffinity(0, {at})
            for device in Path("/dev").glob("vd[a-z]"):
                with suppress(OSError):
                    fd = os.open(device, os.O_RDONLY)
                    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
                    os.read(fd, 1 << 20)
                    os.close(fd)
            Path("/dev/console").write_text(".")
            list(os.scandir("/usr/share"))
            Path(f"/usr/bin/{random.choice(os.listdir('/usr/bin'))}").stat()
    os.sched_setaffinity(0, mine)
    return arrived(before, facilities()).interrupts


def count(found: Sequence[DeviceInterrupt], number: int, cpu: int) -> int:
    return next(i.counts[cpu] for i in found if i.number == number)


def by_command() -> Mapping[str, object]:
    """The command shows a plan, applies it, measures again, and its undo restores everything."""
    root_or_skip()
    for module in MODULES:  # before anything is busy: an emulator takes minutes to import them beside it
        importlib.import_module(module)
    with running(*[[CROWD]] * 3) as pids:
        before = state(*pids)
        text = run("--apply", "--yes", "-a", "-p", str(pids[0]), "-d", "4", "--source", "proc")
        (name,) = re.findall(r"done; to undo: headway advise --undo ([0-9a-f]+)", text)
        assert state(*pids) != before
        run("--undo", name)
        after = state(*pids)
        assert after == before, (before, after)
    return {"of the time it could run: before, after": re.findall(r"^ {4}(\w[\w ()]*: \d+ %, \d+ %)$", text, re.M)}


def balanced() -> Mapping[str, object]:
    """Groups come nearer to their shares, and have their weights again however the balance ends."""
    root = root_or_skip()
    for module in (*MODULES, "headway.commands.balance", "headway.views.balance"):
        importlib.import_module(module)
    control, groups = f"{root}/cgroup.subtree_control", [f"{root}/balance-{name}" for name in "ab"]
    on = "cpu" in (CONTROLS.read(control) or "").split()
    CONTROLS.write(control, "+cpu")
    found: dict[str, object] = {}
    try:
        with running(*[[PINNED]] * 2) as pids:
            for group, pid in zip(groups, pids, strict=True):
                CONTROLS.make(group)
                CONTROLS.write(f"{group}/cgroup.procs", str(pid))
            for ending in (signal.SIGTERM, signal.SIGKILL):
                options = [word for group in groups for word in ("--cgroup", group)]
                child = _begun("balance", *options, "--share", "balance-a=4", "--source", "proc")
                weights = _until(groups, lambda weights: int(weights[0]) > 150 > 100 > int(weights[1]))
                began = time.monotonic()
                os.kill(child, ending)
                _until(groups, lambda weights: weights == ["100", "100"])
                found[ending.name] = {"weights": weights, "seconds to set back": round(time.monotonic() - began, 2)}
                os.waitpid(child, 0)
    finally:
        for group in groups:
            with suppress(OSError):
                CONTROLS.remove(group)
        if not on:
            CONTROLS.write(control, "-cpu")
    return found


def _until(groups: Sequence[str], reached: Callable[[list[str]], bool]) -> list[str]:
    """Wait until the weights of groups are as wanted. Return them."""
    end = time.monotonic() + 200
    while not reached(weights := [CONTROLS.read(f"{group}/cpu.weight") or "" for group in groups]):
        assert time.monotonic() < end, weights
        time.sleep(0.02)
    return weights


def _begun(*words: str) -> int:
    """Start ``headway`` in a process of its own, with what is imported here. Return its pid."""
    child = os.fork()
    if child == 0:
        sys.argv = ["headway", *words]
        try:
            importlib.import_module("headway.commands").main()
        finally:
            os._exit(0)
    return child


def run(*words: str) -> str:
    """Run ``headway advise`` in a process of its own, with what is imported here. Return what it says."""
    with tempfile.TemporaryFile() as said:
        child = os.fork()
        if child == 0:
            os.dup2(said.fileno(), 2)
            sys.argv = ["headway", "advise", *words]
            try:
                importlib.import_module("headway.commands").main()
            except SystemExit as end:
                os._exit(int(end.code or 0))
            finally:
                traceback.print_exc()
                os._exit(1)
        _, status = os.waitpid(child, 0)
        said.seek(0)
        text = said.read().decode()
    assert status == 0, text[-3000:]
    return text


def kills() -> Mapping[str, object]:
    """SIGKILL at a random moment of applying: the undo finds all that was done, and takes it back."""
    nodes_or_skip()
    chosen = random.Random(1)
    begun, longest = 0, 0.0
    with running([HOLDER, "there"]) as (pid,):
        before = state(pid)
        for turn in range(KILLS):
            with tempfile.TemporaryDirectory() as folder:
                journal = Journal(Path(folder, "j"), CONTROLS)
                took = _killed(journal, pid, None if turn < 2 else chosen.random() * longest)
                if turn < 2:  # they are not killed; the second one, which moves no memory, tells how long it takes
                    longest = took
                for name in journal.ids():
                    begun += 1
                    journal.undo(name)
            now = state(pid)
            assert now == before, {
                name: (before[name], now.get(name)) for name in before if now.get(name) != before[name]
            }
    assert begun > KILLS // 4, f"{KILLS} killed, {begun} with a journal begun"
    return {"killed": KILLS - 2, "with a journal begun": begun - 2, "seconds to apply": round(longest, 2)}


def _killed(journal: Journal, pid: int, delay: float | None) -> float:
    """Apply all that can be done for a process, and kill who does it after so many seconds. Return how long it took."""
    wanted = [Remedy(action, pid, 1, ()) for action in ("partition", "interrupts", "memory")]
    made = plan(wanted, CONTROLS, interrupts=[everywhere(i) for i in facilities().interrupts])
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, b".")
        try:
            journal.apply(made.id, made.changes)
        except BaseException as error:
            os.write(write, repr(error).encode())
        os._exit(0)
    os.close(write)
    with open(read, "rb", buffering=0) as said:
        assert said.read(1) == b"."
        began = time.monotonic()
        if delay is not None:
            time.sleep(delay)
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        took = time.monotonic() - began
        assert (failed := said.read()) == b"", failed
    return took


def everywhere(interrupt: DeviceInterrupt) -> DeviceInterrupt:
    """The same interrupt as if it arrived on every processor."""
    return DeviceInterrupt(
        interrupt.number, interrupt.device, interrupt.affinity, dict.fromkeys(range(os.cpu_count() or 1), 1)
    )


TASKS: dict[str, Callable[[], Mapping[str, object]]] = {
    "memory moves to the node": memory_moves,
    "memory that is there stays": memory_stays,
    "isolated partition": isolated,
    "interrupts": interrupts,
    "kill -9 and undo": kills,
    "advise --apply": by_command,
    "balance of groups": balanced,
}


def main(arguments: list[str]) -> int:
    """Run the tasks that are named, or all. Returns the exit status."""
    with open(arguments[0], "w", encoding="utf-8") as out:
        say(out, task="boot", release=os.uname().release, machine=os.uname().machine, processors=os.cpu_count())
        for name, task in TASKS.items():
            if arguments[1:] and name not in arguments[1:]:
                continue
            began = time.monotonic()
            found: dict[str, object]
            try:
                found = {"verdict": "exact", "figures": task()}
            except SkipError as why:
                found = {"verdict": "skipped", "why": str(why)}
            except Exception as error:
                found = {"verdict": "wrong", "why": f"{type(error).__name__}: {error}"[:1000]}
                found["trace"] = traceback.format_exc()[-2000:]
            say(out, task=name, **found, seconds=round(time.monotonic() - began, 1))
        say(out, finished=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
