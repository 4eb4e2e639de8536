"""headway.h in real programs: what a region's block holds after they did what they say."""

from __future__ import annotations

import platform
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.effort import FEW, exhaustive
from tests.regions.conftest import Compile

pytestmark = pytest.mark.end_to_end


@dataclass
class Reported:
    """A block: times in ns of words that are closed, -1 for one that is open."""

    tid: int
    depth: int
    open: int
    errors: int
    n_tags: int
    times: dict[str, int]
    entries: dict[str, int]


def run(program: Path, *arguments: str) -> tuple[dict[str, Reported], dict[str, int]]:
    """The blocks that a program reports, and its other figures (``name=number``)."""
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=True, timeout=250)
    blocks: dict[str, Reported] = {}
    figures = {}
    for line in done.stdout.splitlines():
        words = line.split()
        if words[0] == "-":
            block = blocks[next(reversed(blocks))]
            block.times[words[1]] = -1 if int(words[2]) & 1 else int(words[2]) // 2
            block.entries[words[1]] = int(words[3])
        elif "=" in line:
            name, _, number = line.partition("=")
            figures[name] = int(number)
        else:
            tid, depth, opened, errors, n_tags = map(int, words[1:])
            blocks[words[0]] = Reported(tid, depth, opened, errors, n_tags, {}, {})
    return blocks, figures


EVERY_LANGUAGE = [
    ("gcc", "c", "-std=c99"),
    pytest.param("gcc", "c", "-std=gnu11", marks=pytest.mark.exhaustive),
    pytest.param("gcc", "c++", "-std=c++11", marks=pytest.mark.exhaustive),
    ("gcc", "c++", "-std=c++20"),
    pytest.param("clang", "c", "-std=c99", marks=pytest.mark.exhaustive),
    pytest.param("clang", "c++", "-std=c++11", marks=pytest.mark.exhaustive),
]


@pytest.mark.parametrize(("compiler", "language", "standard"), EVERY_LANGUAGE)
def test_one_header_marks_regions_in_every_language(
    compile_marked: Compile, compiler: str, language: str, standard: str
) -> None:
    _, entries = run(compile_marked("every_language.c", flags=(standard,), compiler=compiler, language=language))
    assert entries == {
        "noneffective": 0,
        "noneffective.bare": 1,
        "noneffective.outer": 4,
        "poll.inner": 4,
        "user.bare": 1,
        "user.render": 2,
    }


@pytest.mark.parametrize(
    "target",
    [
        "aarch64-linux-gnu",
        *exhaustive("riscv64-linux-musl", "s390x-linux-gnu", "x86-linux-gnu", "x86_64-windows-gnu"),
    ],
)
def test_the_header_compiles_for_other_machines(compile_marked: Compile, target: str) -> None:
    compile_marked("other_machines.c", flags=("-c", "-target", target), compiler="clang")


def test_cpp_scopes_end_their_regions_when_something_is_thrown(compile_marked: Compile) -> None:
    run(compile_marked("cpp_scopes.cc", language="c++", flags=("-std=c++11",)))


def test_a_region_is_charged_while_it_is_the_innermost(compile_marked: Compile) -> None:
    blocks, clock = run(compile_marked("innermost.c"))
    end = blocks["end"]
    assert clock["a_least"] <= end.times["noneffective.a"] <= clock["a_most"]
    assert clock["b_least"] <= end.times["noneffective.b"] <= clock["b_most"]
    assert end.entries == {"noneffective.a": 1, "noneffective.b": 1}, (
        "coming back is not entering, nor is the same again"
    )
    assert (end.depth, end.open, end.errors) == (0, 0, 0)


def test_signals_that_mark_regions_in_the_midst_of_a_mark_leave_it_right(compile_marked: Compile) -> None:
    """What the regions got is no more than the time that passed: no handler's is charged twice."""
    blocks, figures = run(compile_marked("marking_signals.c", flags=("-std=gnu11",)), "2000" if FEW else "10000")
    end = blocks["end"]
    assert (end.depth, end.open, end.errors) == (0, 0, 0)
    assert all(spent >= 0 for spent in end.times.values()), "every word is closed"
    assert figures["wrong"] == 0, "what was set is what is charged"
    assert end.entries["noneffective.signal"] == end.entries["noneffective.signal2"] == figures["signals"]
    assert end.entries["noneffective.x"] == end.entries["noneffective.y"] == figures["rounds"]
    in_signals = end.times["noneffective.signal"] + end.times["noneffective.signal2"]
    assert figures["least"] <= in_signals <= figures["most"]
    assert figures["sum"] <= figures["outside"], "nothing was charged twice"


@pytest.mark.skipif(platform.machine() != "x86_64", reason="steps through instructions by the trap flag of x86")
@pytest.mark.parametrize("optimise", ["-O2", *exhaustive("-O0")])
def test_a_signal_after_every_single_instruction_of_a_mark_leaves_it_right(
    compile_marked: Compile, optimise: str
) -> None:
    """The processor itself raises a signal after each instruction, and each handler marks regions of its own."""
    blocks, figures = run(compile_marked("marking_steps.c", flags=("-std=gnu11", "-mno-red-zone", optimise)))
    end = blocks["end"]
    assert figures["steps"] > 5000
    assert figures["wrong"] == 0, "what was set is what is charged, and nothing else"
    assert (end.depth, end.open, end.errors) == (0, 0, 0)
    assert all(spent >= 0 for spent in end.times.values()), "every word is closed"
    assert end.entries["noneffective.signal"] == end.entries["noneffective.signal2"] == figures["steps"]
    assert (end.entries["noneffective.x"], end.entries["noneffective.y"]) == (20, 80)
    in_signals = end.times["noneffective.signal"] + end.times["noneffective.signal2"]
    assert figures["least"] <= in_signals <= figures["most"]
    assert figures["sum"] <= figures["outside"], "nothing was charged twice"


def test_unbalanced_and_too_deep_regions_are_counted_and_do_no_harm(compile_marked: Compile) -> None:
    blocks, _ = run(compile_marked("unbalanced.c"))
    assert (blocks["cleared"].depth, blocks["cleared"].errors) == (0, 2)
    assert (blocks["deep"].depth, blocks["deep"].errors, blocks["deep"].open) == (18, 4, 2)
    assert (blocks["back"].depth, blocks["back"].errors, blocks["back"].open) == (0, 4, 0)
    assert blocks["back"].entries == {"noneffective.a": 1}, "the innermost stays what it was"
    assert blocks["nonsense"].entries == {"noneffective": 1, "noneffective.a": 1}


def test_a_long_jump_restores_the_depth(compile_marked: Compile) -> None:
    blocks, _ = run(compile_marked("long_jump.c", flags=("-Wno-clobbered",)))
    assert (blocks["jumped"].depth, blocks["jumped"].open) == (1, 2)
    assert (blocks["end"].depth, blocks["end"].open) == (0, 0)


def test_tags_are_cleaned_shared_and_limited(compile_marked: Compile) -> None:
    _, figures = run(compile_marked("tags.c"))
    assert figures == {
        "same": 1,
        "apart": 1,
        "empty": 1,
        "noneffective": 0,
        "noneffective.p": 1,
        "poll.p": 2,
        "user.p": 3,
        "user.unnamed": 4,
        "noneffective.sp_ace____": 5,
        "noneffective.012345678901234567": 6,
        "poll": 7,
        "n": 32,
        "refused": 19,
        "noneffective.other": 31,
        "named": 3,
        "no_name": 1,
        "no_room": 1,
        "around": 1,
        "none": 0,
    }


def test_the_first_use_keeps_errno_and_signals_as_they_are(compile_marked: Compile) -> None:
    program = compile_marked("first_use.c")
    assert run(program)[1] == {"depth": 1, "kept": 1, "mask": 1, "arena": 1}
    assert run(program, "without memory")[1] == {"depth": 0, "kept": 1, "mask": 1, "arena": 0}, "marks do nothing then"


def test_translation_units_share_one_block(compile_marked: Compile) -> None:
    assert run(compile_marked("two_units.c", "second_unit.c"))[1]["same"] == 1


def test_a_shared_object_loaded_later_finds_the_same_block(compile_marked: Compile) -> None:
    library = compile_marked("plugin.c", flags=("-shared", "-fPIC"))
    blocks, figures = run(compile_marked("plugin_host.c", flags=("-std=gnu11",)), str(library))
    assert figures == {"same": 1, "same_in_thread": 1, "arenas": 1}
    assert blocks["inside"].depth == 2
    assert blocks["end"].entries == {"noneffective.main": 1, "noneffective.plugin": 1}
    assert blocks["child"].depth == 1


def test_objects_that_begin_at_the_same_moment_agree_on_one_arena(compile_marked: Compile) -> None:
    flags = ("-shared", "-fPIC")
    libraries = [str(compile_marked("first_object.c", flags=(*flags, f"-DCOPY={i}"))) for i in range(3)]
    program = compile_marked("first_together.c", flags=("-std=gnu11",))
    for _ in range(8 if FEW else 200):
        assert run(program, *libraries)[1] == {"same": 1}


def test_a_static_program_marks_regions(compile_marked: Compile) -> None:
    try:
        program = compile_marked("static_program.c", flags=("-static",))
    except subprocess.CalledProcessError:
        pytest.skip("needs a static libc")
    assert run(program)[0]["in"].open == 2


def test_plain_functions_mark_regions_for_other_languages(compile_marked: Compile) -> None:
    run(compile_marked("header_implementation.c", "plain_functions.c"))


def test_each_thread_has_a_block_and_leaves_it_to_another(compile_marked: Compile) -> None:
    blocks, figures = run(compile_marked("block_of_each_thread.c", flags=("-std=gnu11",)), "300")
    assert (figures["served"], figures["twice"], figures["refused"], figures["used"]) == (300, 0, 0, 301)
    assert figures["used_later"] <= 302, "threads one after the other take over the blocks of the dead"
    late = blocks["late"]
    assert (late.depth, late.open, late.errors, late.times) == (0, 0, 0, {}), "nothing is left of the one before"


def test_more_threads_than_blocks_are_refused_counted_and_unharmed(compile_marked: Compile) -> None:
    program = compile_marked("block_of_each_thread.c", flags=("-std=gnu11", "-DHEADWAY_BLOCKS=8"))
    blocks, figures = run(program, "20")
    assert (figures["served"], figures["twice"], figures["refused"], figures["used"]) == (7, 0, 13, 8)
    assert blocks["late"].depth == 0, "there is room again when threads have ended"


def test_a_fork_takes_its_thread_along_and_no_other(compile_marked: Compile) -> None:
    blocks, figures = run(compile_marked("block_after_fork.c", flags=("-std=gnu11",)))
    child, parent = blocks["child"], blocks["parent"]
    assert (figures["child_pid"], figures["child_others"], figures["child_since"]) == (1, 0, 1)
    assert child.times["noneffective.a"] <= figures["child_passed"], "its time begins with it"
    assert (child.depth, child.open) == (0, 0)
    assert (parent.depth, parent.times["noneffective.a"], figures["others"]) == (1, -1, 1), "the parent goes on"


def test_memory_is_only_used_for_threads_that_are_there(compile_marked: Compile) -> None:
    assert 0 < run(compile_marked("block_memory.c"))[1]["kilobytes"] <= 128
