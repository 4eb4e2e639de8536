"""The policy in C (``headway_polling.h``) is the one in Python: the same looks, whatever the threads do."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.compiling import shared_library

import headway
from headway.buffers.policies.cpu_time import CpuTime, Usual
from headway.buffers.policy import NEVER

from .fleet import MS, SECOND, Fleet, ModelBuffer, Phase

EXAMPLE = Path(__file__).parents[2] / "examples" / "polling" / "collector.c"
CAPACITY = 65536
rates = st.floats(2_000, 2_000_000)
shares = st.sampled_from([0.0, 0.001, 0.1, 0.5, 1.0])
phases = st.lists(st.builds(Phase, st.integers(10 * MS, 3 * SECOND), shares, rates), min_size=1, max_size=6)


class InC:
    """The policy of a buffer in C; times, sizes and answers are those of `CpuTime`."""

    reads_clock = True
    waits_for_kernel = False

    def __init__(self, library: ctypes.CDLL, capacity: int, usual: ctypes.Array[ctypes.c_char], first: int) -> None:
        self._library, self._usual = library, usual  # the structure points to it
        self._polling = ctypes.create_string_buffer(library.size_of_polling())
        whole = ctypes.c_int64
        library.headway_polling_init(self._polling, whole(capacity), usual, whole(first))

    def due(self, now: int, used: int) -> int:
        moment: int = self._library.headway_polling_due(self._polling, ctypes.c_int64(now), ctypes.c_int64(used))
        return moment

    def looked(self, now: int, used: int, filled: int, lost: int) -> bool:
        words = (ctypes.c_int64(value) for value in (now, used, filled, lost))
        drain: bool = self._library.headway_polling_looked(self._polling, *words)
        return drain


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    loaded = shared_library("polling_policy", tmp_path_factory.mktemp("policy"))
    loaded.size_of_polling.restype = loaded.size_of_usual.restype = ctypes.c_size_t
    loaded.headway_polling_due.restype = ctypes.c_int64
    loaded.headway_polling_looked.restype = ctypes.c_bool
    return loaded


def usual_in_c(library: ctypes.CDLL, rate: float) -> ctypes.Array[ctypes.c_char]:
    made = ctypes.create_string_buffer(library.size_of_usual())
    ctypes.c_double.from_buffer(made).value = rate
    return made


@settings(max_examples=60, deadline=None)
@given(st.lists(phases, min_size=1, max_size=4), st.sampled_from([0.0, 2e-6, 2e-3]), st.booleans())
def test_both_take_the_same_looks_at_the_same_moments(
    library: ctypes.CDLL, threads: list[list[Phase]], rate: float, counts: bool
) -> None:
    first = 10 * MS
    in_c, in_python = usual_in_c(library, rate), Usual(rate)
    fleets = [
        Fleet(
            [ModelBuffer(CAPACITY, steps, counts=counts) for steps in threads],
            [make() for _ in threads],
        )
        for make in (
            lambda: InC(library, CAPACITY, in_c, first),
            lambda: CpuTime(CAPACITY, usual=in_python, first=first),
        )
    ]
    for fleet in fleets:
        fleet.run(10 * SECOND)
    assert fleets[0].looks == fleets[1].looks
    assert fleets[0].clock_reads == fleets[1].clock_reads


steps = st.lists(
    st.tuples(
        st.integers(0, 2**40),  # the clock goes on by this,
        st.floats(0, 1),  # the thread used this share of it,
        st.none() | st.tuples(st.integers(0, 1 << 20), st.integers(0, 1 << 20)),  # and this is found; None: no look
    ),
    max_size=40,
)


@settings(max_examples=300, deadline=None)
@given(steps, st.integers(1, 1 << 20), st.integers(1, 2**40), st.just(0.0) | st.floats(1e-9, 10))
def test_both_give_the_same_answers_to_any_questions(
    library: ctypes.CDLL,
    questions: list[tuple[int, float, tuple[int, int] | None]],
    capacity: int,
    first: int,
    rate: float,
) -> None:
    in_c = InC(library, capacity, usual_in_c(library, rate), first)
    in_python = CpuTime(capacity, usual=Usual(rate), first=first)
    now = used = 0
    for passed, share, found in questions:
        now, used = now + passed, used + int(passed * share)
        assert in_c.due(now, used) == min(in_python.due(now, used), NEVER)
        if found is not None:
            filled, lost = min(found[0], capacity), found[1]
            assert in_c.looked(now, used, filled, lost) == in_python.looked(now, used, filled, lost)


LANGUAGES = {
    "c11": ("cc", "c", "-std=c11"),
    "c++11": ("c++", "c++", "-std=c++11"),
    "c++20": ("c++", "c++", "-std=c++20"),
}


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_header_is_plain_c_and_cpp(language: str, tmp_path: Path) -> None:
    compiler, name, standard = LANGUAGES[language]
    if shutil.which(compiler) is None:
        pytest.skip(f"needs {compiler}")
    source = tmp_path / "program"
    source.write_text(
        "#include <headway_polling.h>\n"
        "static struct headway_polling_usual usual;\n"
        "int main(void)\n{\n    struct headway_polling polling;\n    headway_polling_init(&polling, 64, &usual, 10);\n"
        "    if (headway_polling_due(&polling, 0, 0) != 10)\n        return 1;\n"
        "    return headway_polling_looked(&polling, 10, 10, 8, 0) ? 2 : 0;\n}\n"
    )
    strict = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror", standard]
    program = tmp_path / "made"
    words = [compiler, "-O2", *strict, f"-I{headway.get_include()}", "-x", name, str(source), "-o", str(program)]
    subprocess.run(words, check=True)
    assert subprocess.run([program], check=False).returncode == 0


@pytest.mark.skipif(sys.platform != "linux", reason="reads the processor time of threads as Linux gives it")
def test_the_example_collects_what_its_threads_wrote(tmp_path: Path) -> None:
    """Each record is collected, still there at the end, or counted as lost; none is counted twice."""
    if shutil.which("cc") is None:
        pytest.skip("needs a C compiler")
    program = tmp_path / "collector"
    strict = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-std=c11"]
    include = f"-I{headway.get_include()}"
    subprocess.run(["cc", "-O2", "-pthread", *strict, include, EXAMPLE, "-o", program], check=True)
    done = subprocess.run([program, "1"], check=True, capture_output=True, text=True, timeout=250)
    numbers = [int(number) for number in re.findall(r"(\d+)(?= [a-z])", done.stdout)]
    written, collected, left, lost, looks, drains, clocks, wakeups = numbers[:8]
    assert written == collected + left + lost > 0
    assert clocks >= looks >= drains
    assert looks > 0
    assert wakeups > 0
