"""Frames of Python in stacks: of known programs, beside native ones; and what a hostile program says instead."""

from __future__ import annotations

import ctypes
import json
import os
import struct
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.compiling import PROGRAMS
from tests.effort import exhaustive
from tests.newer_python import python3_14

from headway.binary.module import Module
from headway.linux.bpf.interpreters.python import _layout, instructed
from headway.linux.bpf.shared.layout import PYTHON_RUNS, PYTHON_WORDS, STACK_WORDS, fields_of, size_of
from headway.linux.bpf.unwinding.tables import python_part, walked
from headway.linux.options import Selection
from headway.linux.symbols.frames import Stacks
from headway.linux.symbols.modules import Modules, Space
from headway.linux.symbols.python import CodeObject, PythonBuild, PythonError, find_python, text_of
from headway.linux.symbols.walked import Walked
from headway.model import Frame, Profile
from headway.views.folded import folded
from headway.views.speedscope import speedscope

from .test_profiler import Build, build, profile

__all__ = ["build"]

X86_64 = os.uname().machine == "x86_64"
kernel = [
    pytest.mark.root,
    pytest.mark.kernel,
    pytest.mark.skipif(not X86_64, reason="needs x86-64: frames of Python are read with call frame information"),
]
PROGRAM = PROGRAMS / "python_frames.py"
LINES = {text.rpartition("# ")[2].strip(): number for number, text in enumerate(PROGRAM.read_text().split("\n"), 1)}
Place = tuple[str, int | None]


def own_python() -> PythonBuild:
    """The Python that runs this, or its library."""
    modules = Modules()
    for _, module in modules.space(os.getpid()).code():
        if isinstance(module, Module) and (found := find_python(module)) is not None:
            return found
    pytest.skip("this Python is not one whose frames are read")


# ---- a known program ----


def of_program(*command: str | Path) -> Profile:
    """A profile of a program that begins when it is known what it has mapped."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
        try:
            assert process.stdin is not None
            stdin = process.stdin
            return profile(selection=Selection(pids=(process.pid,)), started=lambda *_: stdin.close())
        finally:
            process.kill()


@pytest.fixture(scope="module", params=["this Python", *exhaustive("3.14")])
def found(request: pytest.FixtureRequest) -> Profile:
    """A profile of a program whose calls and lines are known."""
    return of_program(python3_14() if request.param == "3.14" else sys.executable, PROGRAM)


def places(found: Profile) -> Counter[tuple[Place, ...]]:
    """How often there were these frames of Python, outermost first, with their lines."""
    total: Counter[tuple[Place, ...]] = Counter()
    for *_, count, stack in found.rows():
        frames = [found.frames[number] for number in reversed(stack)]
        stacked = tuple((frame.name.rpartition(".")[2], frame.line) for frame in frames if frame.kind == "python")
        total[stacked] += count
    return total


SPIN = {("spin", LINES["here the time is"] - 1), ("spin", LINES["here the time is"]), ("spin", LINES["and here"])}
CHAINS: dict[str, tuple[Place, ...]] = {
    "a callback of a C function": (
        ("<module>", LINES["sorts"]),
        ("by_sorting", LINES["by_sorting calls"]),
        ("key", LINES["key calls"]),
    ),
    "a generator": (
        ("<module>", LINES["generates"]),
        ("by_generator", LINES["by_generator calls"]),
        ("generated", LINES["generated calls"]),
    ),
    "another callback": (
        ("<module>", LINES["substitutes"]),
        ("with_lambda", LINES["with_lambda calls"]),
        ("substituted", LINES["substituted calls"]),
    ),
    "a thread": (
        ("threaded", LINES["threaded calls"]),
        *[("recursive", LINES["recursive calls"])] * 20,
        ("recursive", LINES["the last one calls"]),
    ),
    "code that was freed": (
        ("<module>", LINES["frees"]),
        ("with_code_that_is_freed", LINES["execs"]),
        ("<module>", 5),
        ("second", 4),
    ),
}


@pytest.mark.parametrize("chain", CHAINS.values(), ids=CHAINS)
class TestChains:
    """Where the time of a known chain of calls is."""

    pytestmark = kernel

    def test_each_frame_is_there_with_its_line(self, found: Profile, chain: tuple[Place, ...]) -> None:
        n = len(chain)
        holding = Counter(
            {
                stack: count
                for stack, count in without_library(found).items()
                if any(stack[i : i + n] == chain and stack[i + n] in SPIN for i in range(len(stack) - n))
            }
        )
        assert sum(holding.values()) > 0, places(found).most_common(20)


def without_library(found: Profile) -> Counter[tuple[Place, ...]]:
    """The same without frames of the standard library."""
    total: Counter[tuple[Place, ...]] = Counter()
    for stack, count in places(found).items():
        total[tuple(place for place in stack if place[0] not in ("sub", "run", "_bootstrap", "_bootstrap_inner"))] += (
            count
        )
    return total


class TestNativeFrames:
    """What stands between frames of Python."""

    pytestmark = kernel

    def test_no_frame_of_the_interpreter_is_left_where_its_frames_are(self, found: Profile) -> None:
        known = total = 0
        for _, state, _, count, stack in found.rows():
            frames = [found.frames[number] for number in stack]
            if state == "user" and any(frame.kind == "python" for frame in frames):
                total += count
                known += count * all(frame.function != "_PyEval_EvalFrameDefault" for frame in frames)
        assert total > 50
        assert known >= total - 3, "but those in the first and last instructions of that function"

    def test_the_function_that_calls_back_stands_between_caller_and_callee(self, found: Profile) -> None:
        def between(stack: tuple[Frame, ...]) -> tuple[Frame, ...]:
            names = [frame.name.rpartition(".")[2] for frame in stack]
            return stack[names.index("by_sorting") + 1 : names.index("key")]

        stacks = [tuple(found.frames[number] for number in reversed(stack)) for *_, stack in found.rows()]
        sorting = [one for one in stacks if {"by_sorting", "key"} <= {frame.name.rpartition(".")[2] for frame in one}]
        assert sorting
        assert all(between(stack) and all(frame.kind == "user" for frame in between(stack)) for stack in sorting)

    def test_a_stack_that_is_too_deep_says_so(self, found: Profile) -> None:
        deep = [names for stack in found.rows() if (names := names_of(found, stack[-1])).count("recursive") > 100]
        cut = [names for names in deep if CUT in names]  # a sample on the way down may be just deep enough
        assert cut
        for names in cut:
            assert "recursive" not in names[names.index(CUT) :], "what is above it comes before it"
        for names in deep:
            assert names[-1] in (CUT, "_start"), "what has called the interpreter comes behind it"


def names_of(found: Profile, stack: tuple[int, ...]) -> list[str]:
    """The names of a stack's frames, innermost first."""
    return [found.frames[number].name for number in stack]


class TestLateThread:
    """A thread whose state says only later whose it is."""

    pytestmark = kernel

    def test_its_frames_are_read_from_then_on(self, build: Build) -> None:
        found = profile(build("late_python", ("-rdynamic", "-fomit-frame-pointer"), "python3.11"))
        frame = next(frame for frame in found.frames if frame.kind == "python")
        assert (frame.function, frame.file, frame.module, frame.line) == ("late", "late.py", "late.py", 42)
        stacks = [names_of(found, stack) for *_, stack in found.rows()]
        late = [names for names in stacks if "late" in names]
        assert all("_PyEval_EvalFrameDefault" not in names for names in late)
        assert any(names[names.index("late") - 1 :][:3] == ["spin", "late", "main"] for names in late)


# ---- a program that lies ----


@pytest.mark.parametrize("minor", [11, *exhaustive(9, 10, 12), 13])
class TestLies:
    """What is read of an interpreter whose memory has anything in it."""

    pytestmark = kernel

    def test_its_frames_end_with_a_reason_and_nothing_is_harmed(self, build: Build, minor: int) -> None:
        flags = (f"-DMINOR={minor}", "-rdynamic", "-fomit-frame-pointer")
        program = build("false_python", flags, f"python3.{minor}false")
        found = profile(program)
        reasons = {frame.name for frame in found.frames if frame.kind == "none"}
        assert any("Python" in name for name in reasons), "it was not taken for a Python"
        assert all(frame.line is None or 0 < frame.line < 1 << 31 for frame in found.frames)
        assert all("\n" not in line for line in folded(found))
        assert json.dumps(speedscope(found, "lies"))


# ---- native frames and frames of Python ----


EVALUATING = "_PyEval_EvalFrameDefault"
CUT = "[cut off: deeper than 128 frames of Python]"


class Native(Module):
    """A file of which each address has this name."""

    def __init__(self, names: dict[int, str]) -> None:
        super().__init__("/usr/bin/program")
        self._names = names

    def function(self, address: int) -> str | None:
        return self._names[address]

    def line(self, _: int) -> None:
        return None


class OneModule(Space):
    """A process that has one file mapped, at 0."""

    def __init__(self, module: Module) -> None:
        super().__init__(0, Modules())
        self._one = module

    def at(self, address: int) -> tuple[Module, int]:
        return self._one, address


class Named:
    """Frames of Python of which each word is the name; it ends a run if it is odd."""

    def frame(self, word: int) -> tuple[CodeObject | None, int | None, bool]:
        return CodeObject(f"python{word}", "f.py", 1, 11, b""), None, bool(word & 1)


@given(st.lists(st.none() | st.integers(0, 3), max_size=20), st.booleans())
def test_each_frame_of_python_stands_once_where_it_is_executed(shape: list[int | None], cut: bool) -> None:
    """``shape``: how many frames each native one executes; None: it is no function of the interpreter."""
    names: dict[int, str] = {}
    user, python, runs, wanted = [], [], [], []
    for place, executes in enumerate(shape):
        user.append(16 * place + (place > 0))  # a return address is behind the call
        names[16 * place] = f"native{place}" if executes is None else EVALUATING
        words = [1000 * place + 2 * i for i in range(executes or 0)]
        if words:
            words[-1] += 1
            runs.append(place)
        python += words
        wanted += [f"python{word}" for word in words] or [names[16 * place]]
    stacks = Stacks(Modules())
    stacks.python = Named()
    walk = Walked("", (), 0, tuple(python), tuple(runs), "python_deep" if cut else "")
    stacks.add(OneModule(Native(names)), user, (), most=128, walked=walk)
    (stack,), frames = stacks.resolve()
    found = [frames[number].name for number in stack]
    assert [name for name in found if name != CUT] == wanted
    assert found.count(CUT) == cut
    if cut and runs:
        assert found.index(CUT) > found.index(f"python{python[-1]}")


# ---- words and objects ----


@given(
    st.lists(st.tuples(st.integers(0, (1 << 32) - 1), st.none() | st.integers(0, 1 << 20), st.booleans()), max_size=128)
)
def test_words_of_frames_are_code_instruction_and_the_end_of_a_run(
    frames: list[tuple[int, int | None, bool]],
) -> None:
    nothing = PYTHON_WORDS["PYTHON_NO_INSTRUCTION"]
    words = [
        instructed(number << 32 | ends, nothing if instruction is None else instruction)
        for number, instruction, ends in frames
    ]
    stack = [STACK_WORDS["STACK_RUNS"] << 56 | 0x1000, STACK_WORDS["STACK_END"] << 56 | 1 << 48, 0x1234]
    assert python_part(stack) == 0x1234
    addresses, how = walked(stack, words)
    assert addresses == (0x1000,)
    assert (how.runs, how.python, how.why) == ((0,), tuple(words), "")


@given(st.lists(st.integers(0, (1 << 64) - 1), max_size=130), st.lists(st.integers(0, (1 << 64) - 1), max_size=130))
def test_any_words_are_read(words: list[int], python: list[int]) -> None:
    assert python_part(words) >= 0
    _, how = walked(words, python)
    assert isinstance(how, Walked)
    assert len(how.python) <= len(python)


def memory_of(value: object, size: int) -> bytes:
    """The memory of an object."""
    return ctypes.string_at(id(value), size)


@given(st.text(max_size=100))
def test_strings_are_what_they_are_in_memory(text: str) -> None:
    build = own_python()
    size = max(sys.getsizeof(text), build.values["text_wide"])
    assert text_of(memory_of(text, size), build.values, build.offsets) == text


@given(st.binary(max_size=400))
def test_any_memory_is_a_string_or_none(memory: bytes) -> None:
    build = own_python()
    found = text_of(memory, build.values, build.offsets)
    assert found is None or len(found) <= 401


@given(st.binary(max_size=100), st.integers(-5, 1 << 32), st.sampled_from(range(9, 15)), st.integers(0, 1 << 31))
def test_any_table_of_lines_has_a_line_or_none(lines: bytes, first: int, minor: int, instruction: int) -> None:
    line = CodeObject("f", "f.py", first, minor, lines).line(instruction)
    assert line is None or 0 < line < 1 << 31


def test_this_python_is_found_and_has_room() -> None:
    build = own_python()
    assert build.minor == sys.version_info[1]
    layout = _layout(build)
    assert layout is not None
    assert len(layout) == size_of("python_layout")
    assert sys.version_info[1] < 12 or PYTHON_RUNS["RUN_BY_OWNER"] == int.from_bytes(
        layout[fields_of("python_layout")["runs"][0] :][:4], "little"
    )


class OnlyData(Module):
    """A file that has nothing but an interpreter's own description."""

    def __init__(self, data: bytes) -> None:
        super().__init__("/usr/bin/python3.13")
        self._data = data

    def addresses(self, names: object) -> dict[str, tuple[int, int]]:
        return {"_PyRuntime": (0, 8), "PyCode_Type": (8, 8), "_PyEval_EvalFrameDefault": (16, 8)}

    def code(self, address: int, size: int) -> bytes:
        return self._data[address : address + size]


@given(st.binary(max_size=1000))
def test_any_description_is_read_or_refused_in_one_sentence(data: bytes) -> None:
    for start in (b"", b"xdebugpy" + struct.pack("<QQ", 0x030D0000, 0), b"xdebugpy" + struct.pack("<QQ", 0, 1)):
        try:
            build = find_python(OnlyData(start + data))
        except PythonError as error:
            said = str(error)
        else:
            said = ""
            assert build is not None
            layout = _layout(build)
            assert layout is None or len(layout) == size_of("python_layout")
        assert "\n" not in said


def test_a_free_threaded_python_is_refused() -> None:
    with pytest.raises(PythonError, match="free-threaded"):
        find_python(OnlyData(b"xdebugpy" + struct.pack("<QQ", 0x030D0000, 1) + bytes(1000)))
