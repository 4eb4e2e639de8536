"""Profiles of real programs whose behaviour is known."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.compiling import PROGRAMS

from headway.linux.options import Selection
from headway.linux.perf.sample_buffer import PAGE
from headway.linux.sources.profiler import Buffers, ProfileSource
from headway.linux.sources.source import LinuxSource
from headway.model import Frame, Profile, is_exact, kind_of, processor_time, violations
from headway.session.measure import observe

from .attached import until_it_has_worked
from .measuring import apart, one_after_the_other

pytestmark = [pytest.mark.root, pytest.mark.kernel]

Build = Callable[..., Path]
WITH = ("-fno-omit-frame-pointer", "-mno-omit-leaf-frame-pointer", "-fno-optimize-sibling-calls")
WITHOUT = ("-fomit-frame-pointer", "-fno-optimize-sibling-calls")
X86_64 = os.uname().machine == "x86_64"
NOINLINE = "__attribute__((noinline, noclone))"


@pytest.fixture(scope="session")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("needs gcc")
    folder = tmp_path_factory.mktemp("profiled")

    def make(name: str, flags: tuple[str, ...] = WITH, target_name: str = "") -> Path:
        target = folder / (target_name or name)
        if not target.exists():
            words = [compiler, "-O1", "-g", "-pthread", *flags, "-o", str(target), str(PROGRAMS / f"{name}.c")]
            if subprocess.run(words, capture_output=True, check=False).returncode:
                pytest.skip(f"gcc cannot build it here: {' '.join(words)}")
        return target

    return make


@dataclass(frozen=True)
class Together:
    """One profile of programs that ran one after the other."""

    whole: Profile
    threads: dict[str, frozenset[int]]
    """The numbers of each program's threads."""

    def rows(self, program: str) -> list[tuple[int, str, int, int, tuple[int, ...]]]:
        return [row for row in self.whole.rows() if row[0] in self.threads[program]]


@pytest.fixture(scope="module")
def together(build: Build) -> Together:
    programs: dict[str, list[str | Path]] = {
        "tree": [build("tree")],
        "tree_bare": [build("tree", WITHOUT, "tree_bare")],
        "deep": [build("tree"), "1000"],
        "polling": [build("polling")],
    }
    if X86_64:
        programs["jit"] = [build("jit")]
    with TemporaryDirectory() as folder:
        pids = Path(folder, "pids")
        with pids.open("wb") as file:
            found = profile(*one_after_the_other(programs.values(), Path(folder)), stdout=file.fileno())
        parts = apart(found.ledger, map(int, pids.read_text().split()))
    numbers = {thread.key: number for number, thread in enumerate(found.ledger.threads)}
    of_each = (frozenset(numbers[thread.key] for thread in part.threads) for part in parts)
    return Together(found, dict(zip(programs, of_each, strict=True)))


def open_files() -> Counter[Path]:
    """The files that this process has open: other tests may have left some."""
    return Counter(Path(entry.path).resolve() for entry in os.scandir("/proc/self/fd"))


def profile(
    *command: str | Path,
    selection: Selection | None = None,
    seconds: float | None = None,
    started: Callable[[object, str], None] | None = None,
    stdout: int | None = None,
    frame_pointers: bool = False,
) -> Profile:
    """A profile whose ledger keeps the laws, and whose sums are the ledger's."""
    sources: list[ProfileSource] = []
    before = open_files()

    def start(chosen: Selection) -> LinuxSource:
        sources.append(ProfileSource(chosen, prefer="bpf", frame_pointers=frame_pointers))
        sources[0].begin()
        return sources[0]

    with open(os.devnull, "w") as nowhere:
        done = observe(
            selection or Selection(),
            [str(word) for word in command],
            start=start,
            seconds=seconds,
            started=started,
            stdout=nowhere.fileno() if stdout is None else stdout,
        )
    found = sources[0].profile()
    assert not command or open_files()[Path(command[0]).resolve()] <= before[Path(command[0]).resolve()]
    assert violations(done.ledger) == []
    check_sums(found)
    return found


def check_sums(found: Profile) -> None:
    """Law: of each thread and state off the processor the stacks add up to the ledger, times and counts."""
    times: Counter[tuple[int, str]] = Counter()
    counts: Counter[tuple[int, str]] = Counter()
    for thread, state, weight, count, _ in found.rows():
        if is_exact(state):
            times[thread, state] += weight
            counts[thread, state] += count
    for number, known in enumerate(found.ledger.threads):
        for state, cell in known.states.items():
            if is_exact(state):
                assert times.pop((number, state), 0) == cell.time, (known.name, state)
                assert counts[number, state] == cell.count, (known.name, state)
    assert not +times


def stacks(found: Profile, prefix: str, threads: Collection[int] | None = None) -> Counter[tuple[str, ...]]:
    """Time by stack, outermost first, of the states that begin so; of these threads, or of all."""
    total: Counter[tuple[str, ...]] = Counter()
    for thread, state, weight, _, stack in found.rows():
        if threads is not None and thread not in threads:
            continue
        if state.startswith(prefix):
            total[tuple(found.frames[number].name for number in reversed(stack))] += weight
    return total


def holds(found: Counter[tuple[str, ...]], *names: str) -> int:
    """Time of the stacks in which these follow each other."""
    n = len(names)
    return sum(
        time for stack, time in found.items() if any(stack[i : i + n] == names for i in range(len(stack) - n + 1))
    )


@given(st.integers(1, 64 << 20))
def test_a_buffer_has_room_for_what_was_asked_and_is_a_power_of_two_of_pages(size: int) -> None:
    pages = Buffers(capacity=size).pages
    assert pages.bit_count() == 1
    assert pages * PAGE >= size
    assert pages == 1 or pages // 2 * PAGE < size


def test_samples_are_in_the_functions_that_ran_and_waits_in_those_that_waited(together: Together) -> None:
    found, threads = together.whole, together.threads["tree"]
    user = stacks(found, "user", threads)
    whole = sum(user.values())
    often, seldom = holds(user, "work", "often", "spin"), holds(user, "work", "seldom", "spin")
    assert 0 < seldom < often, "a third as much"
    assert often + seldom <= whole
    slept = Counter({stack: time for stack, time in stacks(found, "wait.sleep", threads).items() if stack[0][0] != "["})
    assert holds(slept, "work") == sum(slept.values()) > 0, "but those from before it was known what was mapped"
    joined = stacks(found, "wait.futex", threads)
    assert holds(joined, "work") == 0
    assert all("main" in stack or stack[0].startswith("[") for stack in joined), "or it is said that it is missing"


def test_frames_know_their_file_line_and_module(build: Build, together: Together) -> None:
    program, found = build("tree"), together.whole
    spin = next(frame for frame in found.frames if frame.function == "spin" and frame.module == str(program))
    assert spin.file == "tree.c"
    lines = (PROGRAMS / "tree.c").read_text().splitlines()
    assert spin.line is not None
    assert "void spin(" in lines[spin.line - 1]
    assert any(frame.kind == "kernel" and frame.function == "schedule" for frame in found.frames)


def test_walked_by_frame_pointers_a_program_without_them_is_named_and_its_stacks_say_so(build: Build) -> None:
    found = profile(build("tree", WITHOUT, "tree_bare"), frame_pointers=True)
    user = stacks(found, "user")
    marked = sum(time for stack, time in user.items() if any("[skipped" in n or "[cut off" in n for n in stack))
    assert marked > 0
    assert any("tree_bare" in note and "-fno-omit-frame-pointer" in note for note in found.notes)


def test_a_program_with_frame_pointers_is_not_accused(together: Together) -> None:
    found = together.whole
    user = stacks(found, "user", together.threads["tree"])
    marked = [stack for stack in user if any("[skipped" in n or "[cut off" in n for n in stack)]
    assert not any("spin" in stack for stack in marked), "only code of the C library's may lack them"
    assert not any("tree (" in note for note in found.notes)


@pytest.mark.skipif(not X86_64, reason="needs x86-64: stacks are walked by frame pointers elsewhere")
def test_a_program_without_frame_pointers_has_its_callers(together: Together) -> None:
    user = stacks(together.whole, "user", together.threads["tree_bare"])
    assert holds(user, "work", "often", "spin") > holds(user, "work", "seldom", "spin") > 0
    whole = {stack: time for stack, time in user.items() if stack and not stack[0].startswith("[")}
    assert whole
    linker = ("ld-linux", "_dl_start_user")  # it has no symbols everywhere
    begins = ("_start", "clone3", "__clone3", "clone", "__clone", "start_thread", *linker)
    assert all(stack[0].startswith(begins) for stack in whole), {stack[0] for stack in whole}
    assert not any("-fno-omit-frame-pointer" in note for note in together.whole.notes)


def test_a_stack_that_is_deeper_than_the_kernel_looks_is_cut_off_and_says_so(together: Together) -> None:
    user = stacks(together.whole, "user", together.threads["deep"])
    cut = {stack: time for stack, time in user.items() if stack and stack[0].startswith("[cut off: deeper than")}
    assert cut
    assert all(stack.count("deep") > 50 for stack in cut)


def test_polling_has_its_samples_also_those_between_the_checks(together: Together) -> None:
    found = together.whole
    between = sum(
        weight
        for _, state, weight, _, stack in together.rows("polling")
        if state.startswith("poll.") and stack and found.frames[stack[0]].kind == "user"
    )
    assert between > 0


def test_threads_that_live_briefly_are_sampled_or_their_time_is_counted_as_not(build: Build) -> None:
    found = profile(build("brief"))
    assert len(found.ledger.threads) == 31
    user = stacks(found, "user")
    assert holds(user, "brief") > 0
    # A thread's samples may all be in the kernel, which makes it and ends it.
    sampled = {thread for thread, state, _, count, _ in found.rows() if count and kind_of(state).in_rpi}
    # Where headway gets a processor late, a thread has worked before it can be sampled, and that time is counted.
    neither = max(len(found.ledger.threads) - len(sampled) - found.losses["threads_not_sampled"], 0)
    shortest = sorted(processor_time(thread.times()) for thread in found.ledger.threads)[:neither]
    assert found.losses["ns_before_sampling_began"] >= sum(shortest) - neither * 2_000_000


def test_processes_that_a_command_makes_have_their_own_code(build: Build) -> None:
    tree = build("tree")
    script = f"import subprocess; subprocess.run([{str(tree)!r}, '2']); subprocess.run([{str(tree)!r}, '3'])"
    found = profile(sys.executable, "-c", script)
    user = stacks(found, "user")
    sampled = sum(holds(user, "main", *["deep"] * depth, "often", "spin") > 0 for depth in (3, 4))
    # Where headway gets a processor late, all of a process's 20 ms may be over before it is sampled, and are counted.
    assert sampled + found.losses["threads_not_sampled"] >= 2 or found.losses["ns_before_sampling_began"] >= 10_000_000
    assert {thread.name for thread in found.ledger.threads} >= {"tree"}


def test_a_program_that_is_removed_while_it_runs_keeps_its_names(build: Build, tmp_path: Path) -> None:
    copy = tmp_path / "gone"
    shutil.copy(build("tree"), copy)
    until_it_runs = f"n=0; until [ /proc/$!/exe -ef {copy} ] || [ $((n += 1)) -gt 99999 ]; do :; done"
    found = profile("sh", "-c", f"{copy} - 40 & {until_it_runs}; rm {copy}; wait")
    assert holds(stacks(found, "user"), "often", "spin") > 0


def test_running_processes_are_found_by_their_maps(build: Build) -> None:
    with subprocess.Popen([build("tree"), "-", "1000000"]) as process:
        try:
            until = partial(until_it_has_worked, process.pid, 0.1)
            found = profile(selection=Selection(pids=(process.pid,)), seconds=0.01, started=lambda *_: until())
        finally:
            process.kill()
    assert holds(stacks(found, "user"), "work", "often", "spin") > 0


def test_a_kernel_that_hides_its_symbols_is_said(build: Build, tmp_path: Path) -> None:
    from headway.binary.kallsyms import KernelSymbols
    from headway.linux.symbols.frames import Stacks
    from headway.linux.symbols.modules import Modules

    (tmp_path / "kallsyms").write_text("0000000000000000 T _stext\n")
    hidden = Stacks(Modules(), KernelSymbols(tmp_path / "kallsyms"))
    hidden.add(None, (), (0xFFFFFFFF81000000,), most=127)
    lists, frames = hidden.resolve()
    assert lists == ((0,),)
    assert frames == (Frame(None, None, None, "[kernel]", None, "kernel"),)
    assert any("kernel.kptr_restrict" in note for note in hidden.describe(Counter({0: 1})))


def test_what_names_code_made_at_run_time_is_said() -> None:
    from headway.linux.symbols.frames import Stacks
    from headway.linux.symbols.modules import Modules

    class Anonymous:
        """A process with code of a file, and memory that no file holds."""

        def __init__(self, file: str) -> None:
            self.pid, self.file = os.getpid(), file

        def files(self) -> list[str]:
            return ["libc.so.6", self.file]

        def at(self, address: int) -> tuple[None, int]:
            return None, address

    def notes(file: str) -> str:
        stacks = Stacks(Modules())
        stacks.add(Anonymous(file), (0x1000, 0x2000), (), most=127)  # type: ignore[arg-type]
        stacks.add(None, (), (0xFFFFFFFF81000000,), most=127)
        stacks.resolve()
        assert not any("no names" in note for note in stacks.describe(Counter({0: 1, 1: 9999})))
        return next(note for note in stacks.describe(Counter({0: 3, 1: 1})) if "no names" in note)

    assert notes("node") == (
        "code that Node.js made at run time has no names in 75% of the time: start it with --perf-basic-prof"
    )
    assert "Compiler.perfmap" in notes("libjvm.so")
    assert "-X perf" in notes("libpython3.12.so.1.0") == notes("python3.13")
    assert "/tmp/perf-PID.map" in notes("luajit")


@pytest.mark.skipif(not X86_64, reason="needs x86-64: the program makes code for it")
def test_code_made_at_run_time_is_named_by_its_perf_map(together: Together) -> None:
    found, threads = together.whole, together.threads["jit"]
    (tid,) = (found.ledger.threads[number].tid for number in threads)
    Path(f"/tmp/perf-{tid}.map").unlink()
    user = stacks(found, "user", threads)
    assert holds(user, "hot_loop") > 0
    assert holds(user, "[no unwind information: code made at run time]", "hot_loop") > 0
    frame = next(frame for frame in found.frames if frame.function == "hot_loop")
    assert (frame.kind, frame.file) == ("python", "app.py")


def test_a_wait_that_began_before_has_its_stack_in_the_kernel() -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        try:
            found = profile(selection=Selection(pids=(process.pid,)), seconds=0.3)
        finally:
            process.kill()
    (stack,) = stacks(found, "wait.sleep")
    assert stack
    assert all(frame.kind == "kernel" for frame in found.frames)
