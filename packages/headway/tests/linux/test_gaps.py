"""Which gaps between two status checks end a row, as the eBPF programs judge them, against docs/progress.md.

The same C is compiled for this machine (gaps.c).
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

BPF = Path(__file__).parents[2] / "src/headway/linux/bpf"
LIMITS = st.integers(0, 2**32 - 1) | st.integers(0, 400)
TIMES = st.integers(0, 2**63) | st.integers(0, 500)
SHORT, ALIKE, UNLIKE, LONG = range(4)
"""As ``enum gap`` has them."""
SWITCH = st.integers(0, 2**20) | st.integers(0, 50)


@pytest.fixture(scope="module")
def gaps(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The compiled C."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("there is no C compiler")
    target = tmp_path_factory.mktemp("gaps") / "gaps.so"
    flags = ["-std=gnu11", "-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-I", str(BPF)]
    subprocess.run([compiler, *flags, str(Path(__file__).with_name("gaps.c")), "-o", str(target)], check=True)
    found = ctypes.CDLL(str(target))
    found.judge.argtypes = [ctypes.c_uint32] * 2 + [ctypes.c_uint64] * 3
    return found


def rule(limit: int, alike: int, gap: int, before: int, switch: int) -> int:
    """Judge a gap. What a switch took may be anything from nothing to ``switch``."""
    least = max(gap - switch, 0)
    if limit == 0 or least <= limit:
        return SHORT
    if alike == 0 or least > alike:
        return LONG
    return ALIKE if before and least <= before + before // 4 and gap >= before - before // 4 else UNLIKE


@given(LIMITS, LIMITS, TIMES, TIMES, SWITCH)
def test_any_gap_is_judged_by_the_rule(
    gaps: ctypes.CDLL, limit: int, alike: int, gap: int, before: int, switch: int
) -> None:
    assert gaps.judge(limit, alike, gap, before, switch) == rule(limit, alike, gap, before, switch)


@given(LIMITS, LIMITS, TIMES, TIMES, SWITCH)
def test_a_call_in_a_gap_ends_no_row_that_the_gap_does_not_end(
    gaps: ctypes.CDLL, limit: int, alike: int, gap: int, before: int, switch: int
) -> None:
    """A neutral call comes in the middle: by then the gap is shorter than it will be."""
    if gaps.judge(limit, alike, gap, before, switch) <= ALIKE:
        assert all(gaps.judge(limit, alike, part, before, switch) < LONG for part in (gap, gap // 2, 0))


@pytest.mark.parametrize(
    ("limit", "alike", "lengths", "judged"),
    [
        (20, 0, [5, 19, 60, 60, 60], [SHORT, SHORT, LONG, LONG, LONG]),
        (20, 100, [60, 60, 70, 60, 80], [UNLIKE, ALIKE, ALIKE, ALIKE, UNLIKE]),
        (20, 100, [60, 30, 30, 5, 30], [UNLIKE, UNLIKE, ALIKE, SHORT, ALIKE]),  # a short one is compared with nothing
        (20, 100, [150, 150, 150], [LONG, LONG, LONG]),
        (0, 0, [10**9], [SHORT]),
    ],
)
def test_a_loop_of_such_gaps(gaps: ctypes.CDLL, limit: int, alike: int, lengths: list[int], judged: list[int]) -> None:
    found, before = [], 0
    for gap in lengths:
        found.append(gaps.judge(limit, alike, gap, before, 0))
        before = gap if gap > limit else before
    assert found == judged
