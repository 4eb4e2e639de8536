"""Marked functions: the time in them by the program's own clock, every way out of them, and nothing left behind."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from tests.compiling import PROGRAMS, Compile, built_once, compiler
from tests.effort import exhaustive

from headway.errors import HeadwayError
from headway.linux.options import MarkedFunctions, MeasureOptions, Selection
from headway.linux.procfs.maps import mappings
from headway.model import Kind, Ledger, Thread
from headway.session.measure import observe

from .attached import until_it_has_worked
from .measuring import PATIENT, check, count_of, disturbed, measure, only, rows_broken, time_in
from .test_functions import rust

pytestmark = [pytest.mark.root, pytest.mark.kernel]


def options(program: Path, *functions: str) -> MeasureOptions:
    return MeasureOptions(functions=tuple(MarkedFunctions(f"{program}:{function}") for function in functions))


@pytest.fixture
def program(compile_c: Compile) -> Path:
    return compile_c("marked_functions")


@dataclass
class Marked:
    """One measurement of a program that does one thing after the other, each in a thread named after it."""

    ledger: Ledger
    said: list[int]
    """What it wrote, each thing as many numbers."""

    def threads(self, way: str) -> list[Thread]:
        """Of one thing that it does: the thread, and those that it began."""
        return sorted((t for t in self.ledger.threads if t.name == way), key=lambda t: t.birth)

    def only(self, way: str) -> Thread:
        (thread,) = self.threads(way)
        return thread


FUNCTIONS = ["spend", "brief", "deep", "calls", "jump", "jump_through"]
WAYS = ["share", "deep 8", "calls", "through", "jump", "threads", "poll"]
if platform.machine() == "x86_64":  # the program has it in assembly
    FUNCTIONS.append("frameless")
    WAYS.append("frameless")


@pytest.fixture(scope="module")
def marked(compile_c: Compile) -> Marked:
    program = compile_c("marked_functions")
    chosen = replace(PATIENT, functions=options(program, *FUNCTIONS).functions)
    ledger, said = measure(program, *WAYS, options=chosen)
    return Marked(ledger, [int(word) for word in said])


def test_the_time_in_a_function_is_what_the_programs_clock_says(marked: Marked) -> None:
    thread = marked.only("share")
    assert count_of(thread, "noneffective.spend") == 500
    assert time_in(thread, "noneffective.spend") >= marked.said[WAYS.index("share")] - disturbed(thread)
    assert time_in(thread, "user") >= 500 * 200_000 - disturbed(thread)
    assert thread.times()[Kind.KERNEL] >= time_in(thread, "noneffective.spend")


def test_functions_are_polling_or_progress_as_they_are_marked(program: Path) -> None:
    marked = (MarkedFunctions(f"{program}:spend", "poll"), MarkedFunctions(f"{program}:brief", "user", "quick"))
    thread = only(measure(program, "share", options=MeasureOptions(functions=marked))[0])
    assert count_of(thread, "poll.spend") == 500
    times = thread.times()
    assert times[Kind.POLL] == time_in(thread, "poll.spend") > 0
    assert times[Kind.EFFECTIVE] == time_in(thread, "user") + time_in(thread, "user.quick")


def test_what_a_call_costs_is_measured_taken_out_and_said(marked: Marked) -> None:
    assert re.match(
        r"a call costs \d+\.\d( to \d+\.\d)? µs more, which is taken out", marked.ledger.reasons["marked functions"]
    )
    assert marked.only("share").times()[Kind.OVERHEAD] > 0


def test_every_call_of_a_function_that_calls_itself_is_counted(marked: Marked) -> None:
    thread = marked.only("deep 8")
    assert count_of(thread, "noneffective.deep") == 20 * 8
    assert time_in(thread, "noneffective.deep") >= 20 * 8 * 20_000 - disturbed(thread)
    assert time_in(thread, "user") >= 20 * 100_000 - disturbed(thread)


def test_calls_are_counted_whatever_happens_in_a_function(marked: Marked) -> None:
    thread = marked.only("calls")
    assert count_of(thread, "noneffective.calls") == 200
    assert count_of(thread, "kernel.getppid") == 600


def test_functions_that_are_left_by_a_long_jump_are_counted_and_end_at_the_next_call(marked: Marked) -> None:
    thread = marked.only("through")
    assert count_of(thread, "noneffective.jump") == 20
    assert count_of(thread, "noneffective.jump_through") == 20
    if platform.machine() == "x86_64":
        assert time_in(thread, "user") >= 20 * 1_000_000 - disturbed(thread)


def assert_frameless_goes_on(thread: Thread) -> None:
    assert count_of(thread, "noneffective.frameless") == 50
    assert count_of(thread, "noneffective.brief") == 100
    assert time_in(thread, "noneffective.frameless") >= 50 * 1_000_000 - disturbed(thread)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the program has it in assembly for x86-64")
def test_a_function_without_a_stack_frame_goes_on_after_those_that_it_calls(marked: Marked) -> None:
    assert_frameless_goes_on(marked.only("frameless"))


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the program has it in assembly for x86-64")
def test_it_does_so_too_where_the_kernels_return_probes_see_returns(
    program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Elsewhere they are seen at the functions' own instructions."""
    monkeypatch.setattr("headway.linux.regions.functions._ways_out", lambda *_: None)
    assert_frameless_goes_on(only(measure(program, "frameless", options=options(program, "frameless", "brief"))[0]))


def test_functions_nested_too_deep_are_counted_and_the_time_is_still_the_functions(program: Path) -> None:
    allowed = ("functions_nested_too_deep",)
    ledger, (took,) = measure(program, "deep 200", options=options(program, "deep"), allowed=allowed)
    thread = only(ledger)
    assert ledger.losses["functions_nested_too_deep"] > 0
    assert time_in(thread, "noneffective.deep") >= int(took) - disturbed(thread)
    assert time_in(thread, "user") >= 20 * 100_000 - disturbed(thread)


def test_a_long_jump_out_of_a_function_ends_it_at_the_next_one(marked: Marked) -> None:
    thread = marked.only("jump")
    assert time_in(thread, "noneffective.jump") >= 20 * 1_000_000 - disturbed(thread)
    assert time_in(thread, "user") >= 20 * 2_000_000 - disturbed(thread)
    assert count_of(thread, "noneffective.brief") == 20


@pytest.mark.parametrize("how", ["exit", "exec", *exhaustive("end")])
def test_a_thread_that_never_returns_from_a_function_is_in_it_to_its_end(program: Path, how: str) -> None:
    ledger, _ = measure(program, how, options=options(program, "leave"))
    thread = max(ledger.threads, key=lambda t: t.birth)
    assert thread.end is not None
    assert time_in(thread, "noneffective.leave") >= 20_000_000 - disturbed(thread)
    if how == "exec":
        assert time_in(thread, "user") >= 40_000_000 - disturbed(thread), "the new program is in no function"


def test_threads_are_in_functions_of_their_own(marked: Marked) -> None:
    _, *threads = marked.threads("threads")
    assert len(threads) == 8
    for thread in threads:
        assert count_of(thread, "noneffective.spend") == 50


def test_the_probes_own_calls_do_not_end_a_row_of_checks(marked: Marked) -> None:
    thread = marked.only("poll")
    assert count_of(thread, "noneffective.brief") == 5000
    assert 5000 - rows_broken(thread) <= count_of(thread, "poll.recvfrom.socket") <= 5000


def test_calls_of_malloc_and_free_in_python_are_counted() -> None:
    code = "x = [bytearray(5000) for i in range(20000)]; print(sum(map(len, x)))"
    ledger, (said,) = measure(
        sys.executable, "-c", code, options=MeasureOptions(functions=(MarkedFunctions("malloc"),))
    )
    thread = min(ledger.threads, key=lambda t: t.birth)
    assert said == "100000000"
    assert sum(count_of(thread, f"noneffective.{name}") for name in ("malloc", "calloc", "realloc")) >= 20_000
    assert count_of(thread, "noneffective.free") >= 20_000


def test_a_library_is_given_by_its_path(program: Path) -> None:
    libc = next(m.path for m in mappings(os.getpid()) if re.search(r"/libc[.-][^/]*$", m.path) and "x" in m.permissions)
    code = "import ctypes; f = ctypes.CDLL(None).getenv\nfor i in range(777): f(b'HOME')"
    ledger, _ = measure(
        sys.executable, "-c", code, options=MeasureOptions(functions=(MarkedFunctions(f"{libc}:getenv"),))
    )
    thread = min(ledger.threads, key=lambda t: t.birth)
    assert 777 <= count_of(thread, "noneffective.getenv") < 1500


@contextmanager
def running(program: Path) -> Iterator[int]:
    with subprocess.Popen([program, "ever"], stdout=subprocess.PIPE) as target:
        assert target.stdout is not None
        target.stdout.readline()
        try:
            yield target.pid
        finally:
            target.kill()


def code_of(pid: int, program: Path) -> bytes:
    """The program's machine code as it is in the process's memory."""
    (text,) = (m for m in mappings(pid) if m.path == str(program) and "x" in m.permissions)
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        memory.seek(text.start)
        return memory.read(text.end - text.start)


def test_a_running_process_is_probed_while_it_is_measured_and_no_longer(program: Path) -> None:
    with running(program) as pid:
        before = code_of(pid, program)
        meanwhile: list[bytes] = []

        def look(*_: object) -> None:
            meanwhile.append(code_of(pid, program))
            until_it_has_worked(pid)

        ledger = observe(
            Selection(pids=(pid,)),
            options=options(program, "spend"),
            prefer="bpf",
            seconds=0.01,
            started=look,
        ).ledger
        check(ledger)
        assert meanwhile[0] != before
        assert code_of(pid, program) == before
    thread = only(ledger)
    between = count_of(thread, "noneffective.spend") - 1  # from the first to the last: so many whole calls and pauses
    assert between > 0
    assert time_in(thread, "noneffective.spend") >= between * 200_000 - disturbed(thread)
    assert time_in(thread, "user") >= between * 200_000 - disturbed(thread)


def test_a_function_that_is_not_there_leaves_nothing_behind(program: Path) -> None:
    with running(program) as pid:
        before = code_of(pid, program)
        with pytest.raises(HeadwayError, match="spent") as raised:
            measure(selection=Selection(pids=(pid,)), options=options(program, "spend", "spent"), seconds=0.1)
        assert "\n" not in str(raised.value)
        assert code_of(pid, program) == before


# ---- C++ and Rust: the ways out of functions ----


@pytest.fixture(scope="module")
def drawing(shared_folder: Path) -> Path:
    return built_once(shared_folder, [compiler("c++"), "-O2", "-pthread", PROGRAMS / "drawing.cc"], "drawing")


def as_state(program: Path, name: str, *functions: str) -> MeasureOptions:
    return MeasureOptions(functions=tuple(MarkedFunctions(f"{program}:{each}", "user", name) for each in functions))


def test_functions_of_cpp_have_the_time_in_them(drawing: Path) -> None:
    ledger, (inside, outside, *_) = measure(
        drawing, "draw", "200", options=as_state(drawing, "draw", "scene::Canvas::draw")
    )
    thread = only(ledger, "draw")
    assert count_of(thread, "user.draw") == 200
    assert time_in(thread, "user.draw") >= int(inside) - disturbed(thread)
    assert thread.states["user"].time >= int(outside) - disturbed(thread)


@pytest.fixture(scope="module")
def drawn(drawing: Path) -> Marked:
    """As each of its threads says: the time in marked functions and outside of them, ns, and how often it caught."""
    asked = as_state(drawing, "asked", "scene::Canvas::draw(double)", "scene::scaled<int>").functions
    chosen = MeasureOptions(functions=(*asked, *as_state(drawing, "choose", "scene::choose").functions))
    ledger, said = measure(drawing, "tail", "200", "throw", "200", "choose", "700", options=chosen)
    return Marked(ledger, [int(word) for word in said])


def test_a_tail_call_ends_the_function_that_makes_it(drawn: Marked) -> None:
    thread, (inside, outside) = drawn.only("tail"), drawn.said[:2]
    assert count_of(thread, "user.asked") == 200
    own = time_in(thread, "user.asked")
    assert thread.states["user"].time >= inside + outside - disturbed(thread) - own
    assert own < thread.states["user"].time, "what the other function does, which is more, is not its time"


def test_an_exception_passes_through_a_function_and_ends_it_at_the_next(drawn: Marked) -> None:
    thread, (outside, caught) = drawn.only("throw"), drawn.said[5:7]
    assert caught == 200
    assert thread.states["user"].time >= outside - disturbed(thread), "the next return has ended it"


def test_a_switch_is_no_way_out(drawn: Marked) -> None:
    assert count_of(drawn.only("choose"), "user.choose") == 700


def test_a_panic_passes_through_a_function_of_rust(tmp_path: Path) -> None:
    program = rust(tmp_path)
    ledger, (inside, caught) = measure(program, options=as_state(program, "draw", "drawing::scene::draw"))
    thread = only(ledger)
    assert int(caught) == 20
    assert count_of(thread, "user.draw") >= 220
    assert time_in(thread, "user.draw") >= int(inside) - disturbed(thread)
