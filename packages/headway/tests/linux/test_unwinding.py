"""User stacks are walked by call frame information: real programs without frame pointers, and words of stacks."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.compiling import PROGRAMS

from headway.linux.bpf.shared.layout import CODE_KINDS, STACK_ENDS, STACK_WORDS, size_of
from headway.linux.bpf.unwinding.tables import _joined, walked
from headway.linux.options import Selection
from headway.linux.symbols.walked import STACK_ENDS as WORDS
from headway.model import Profile

from .test_profiler import WITHOUT, Build, build, holds, profile, stacks

__all__ = ["build"]

X86_64 = os.uname().machine == "x86_64"
kernel = [
    pytest.mark.root,
    pytest.mark.kernel,
    pytest.mark.skipif(not X86_64, reason="needs x86-64: stacks are walked by frame pointers elsewhere"),
]
END, UNSURE = STACK_WORDS["STACK_END"], STACK_WORDS["STACK_UNSURE"]
Stack = tuple[str, ...]


# ---- words ----


@given(st.lists(st.integers(0, (1 << 47) - 1), max_size=128), st.integers(0, 255), st.sets(st.integers(0, 127)))
def test_words_are_addresses_marks_and_an_end(addresses: list[int], why: int, unsure: set[int]) -> None:
    words = [address | (UNSURE << 56 if place in unsure else 0) for place, address in enumerate(addresses)]
    found, how = walked([*words, END << 56 | why << 48 | 0x1234])
    assert found == tuple(addresses)
    assert how.unsure == tuple(sorted(place for place in unsure if place < len(addresses)))
    assert how.at == 0x1234
    assert (how.why == "") == (STACK_ENDS.get(why) == "outermost")


@given(st.lists(st.integers(0, (1 << 64) - 1), max_size=129))
def test_any_words_are_read(words: list[int]) -> None:
    found, how = walked(words)
    assert len(found) <= len(words)
    assert not how.why or how.why in WORDS or how.why == "nothing"


def test_every_reason_has_words() -> None:
    assert set(WORDS) == set(STACK_ENDS.values()) - {"nothing", "outermost"}
    assert len({1 << (bit.bit_length() - 1) for bit in CODE_KINDS.values()}) == len(CODE_KINDS)
    assert size_of("frame_rule") == 32


@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 20)), max_size=20))
def test_blocks_that_touch_are_joined(blocks: list[tuple[int, int]]) -> None:
    apart, at = [], 0
    for gap, size in blocks:
        apart.append((at + gap % 3, size))
        at += gap % 3 + size
    joined = _joined(apart[::-1])
    assert sum(size for _, size in joined) == sum(size for _, size in apart)
    assert all(first + size < second for (first, size), (second, _) in itertools.pairwise(joined))


# ---- real programs ----


@pytest.fixture(scope="module")
def library(build: Build) -> Path:
    """A library that is loaded later."""
    program = build("unwound", WITHOUT)
    target = program.with_name("libloaded_later.so")
    words: list[str | Path] = ["gcc", "-O2", "-shared", "-fPIC", *WITHOUT, "-o", target, PROGRAMS / "loaded_later.c"]
    subprocess.run(words, check=True)
    return target


@pytest.fixture(scope="module")
def found(build: Build, library: Path) -> Profile:
    """A profile of a program whose call chains are known."""
    return of_known_program(build("unwound", WITHOUT), library)


def of_known_program(*command: Path) -> Profile:
    """A profile of a program that begins when it is known what it has mapped."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
        try:
            assert process.stdin is not None
            stdin = process.stdin
            return profile(selection=Selection(pids=(process.pid,)), started=lambda *_: stdin.close())
        finally:
            process.kill()


def user_stacks(found: Profile) -> Counter[Stack]:
    return stacks(found, "user")


def begins_whole(stack: Stack) -> bool:
    return stack[0] in ("_start", "clone3", "__clone3", "clone", "__clone")


CHAINS: dict[str, Sequence[str]] = {
    "a callback of the C library": ("main", "sorted", "qsort_r", "compared", "spin"),
    "realigned frames": ("main", "aligned", "spin"),
    "recursion": ("deep",) * 90,
    "a thread": ("start_thread", "threaded", "spin"),
    "a forked process": ("main", "forked", "spin"),
    "a library that was loaded later": ("main", "loaded_later", "call_later", "spin"),
}


@pytest.mark.parametrize("chain", CHAINS.values(), ids=CHAINS)
@pytest.mark.usefixtures("found")
class TestChains:
    """Where the time of a known chain of calls is."""

    pytestmark = kernel

    def test_it_is_seen_from_its_beginning(self, found: Profile, chain: Sequence[str]) -> None:
        names: Counter[Stack] = Counter()
        for stack, time in user_stacks(found).items():
            if begins_whole(stack):  # the C library may have parts between qsort and its callback
                names[tuple(name for name in stack if name not in ("msort_with_tmp.part.0", "qsort"))] += time
        wanted = tuple(name for name in chain if name != "qsort_r" or any("qsort_r" in stack for stack in names))
        assert holds(names, *wanted) > 0, sorted(names)


@pytest.mark.parametrize("before", [("main", "signalled"), ("main", "on_own_stack", "signalled")])
class TestSignals:
    """Handlers, on the thread's stack and on their own."""

    pytestmark = kernel

    def test_a_handler_was_called_by_what_it_interrupted(self, found: Profile, before: Stack) -> None:
        handled = {stack for stack in user_stacks(found) if "handler" in stack and "spin" in stack}
        assert any(
            stack[stack.index("handler") - 1] in ("__restore_rt", "__GI___sigaction")
            or "signalled" in stack[: stack.index("handler")]
            for stack in handled
        )
        assert any(begins_whole(stack) and holds(Counter({stack: 1}), *before) for stack in handled), handled


class TestWaitsAndDepth:
    """Waits, and stacks that are too deep."""

    pytestmark = kernel

    def test_waits_have_their_callers(self, found: Profile) -> None:
        slept = stacks(found, "wait.sleep")
        assert holds(slept, "main", "slept") > 0
        assert holds(slept, "start_thread", "threaded", "slept") > 0

    def test_a_stack_deeper_than_what_is_kept_says_so(self, found: Profile) -> None:
        cut = [stack for stack in user_stacks(found) if stack[0] == "[cut off: deeper than 128 frames]"]
        assert cut
        assert min(map(len, cut)) == 129, "and frames of interrupts in some"

    def test_the_share_of_whole_stacks_is_said(self, found: Profile) -> None:
        assert any(note.startswith("user stacks are whole") for note in found.notes)

    def test_no_stack_skips_a_caller_in_silence(self, found: Profile) -> None:
        """A frame of the program is called by the one that calls it in its source, or the stack ends there."""
        callers = {
            "compared": {"msort_with_tmp.part.0", "qsort_r", "qsort", "__qsort_r", "sorted"},
            "sorted": {"main"},
            "aligned": {"main"},
            "call_later": {"loaded_later"},
            "deep": {"main", "deep"},
        }
        for stack in user_stacks(found):
            for outer, inner in itertools.pairwise(stack):
                if inner in callers and not outer.startswith("["):
                    assert outer in callers[inner] or outer.startswith("libc"), stack


@pytest.mark.root
@pytest.mark.kernel
@pytest.mark.skipif(not X86_64, reason="needs x86-64: stacks are walked by frame pointers elsewhere")
def test_a_static_program_has_its_callers(build: Build) -> None:
    user = user_stacks(of_known_program(build("unwound", (*WITHOUT, "-static"), "unwound_static")))
    assert holds(user, "main", "aligned", "spin") > 0
    assert any(begins_whole(stack) and "handler" in stack for stack in user)


@pytest.mark.root
@pytest.mark.kernel
@pytest.mark.skipif(not X86_64, reason="needs x86-64: stacks are walked by frame pointers elsewhere")
def test_python_is_walked_through() -> None:
    code = (
        "import time\ninput()\nuntil = time.process_time() + 0.3\nwhile time.process_time() < until: sorted(range(999))"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdin is not None
        stdin = process.stdin
        try:

            def answer() -> None:
                stdin.write(b"\n")
                stdin.close()

            found = profile(selection=Selection(pids=(process.pid,)), started=lambda *_: answer())
        finally:
            process.kill()
    user = user_stacks(found)
    assert sum(user.values()) > 0
    assert all(begins_whole(stack) for stack in user), set(user)
