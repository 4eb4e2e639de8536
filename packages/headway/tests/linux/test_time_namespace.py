"""The clock of a time namespace, as /proc tells it, and out of it and back."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest
from tests.compiling import script

from headway.linux.time_namespace import shift_of

DAY = 86400 * 10**9


def folder(path: Path, own: str, of_children: str, offsets: str | None) -> str:
    (path / "ns").mkdir()
    (path / "ns/time").symlink_to(f"time:[{own}]")
    (path / "ns/time_for_children").symlink_to(f"time:[{of_children}]")
    if offsets is not None:
        (path / "timens_offsets").write_text(offsets)
    return str(path)


@pytest.mark.parametrize(
    ("own", "of_children", "offsets", "shift", "known"),
    [
        ("4026531834", "4026531834", "monotonic           0         0\n", 0, True),
        ("4026531834", "4026532500", "monotonic      100000         0\n", 0, True),  # only its children are shifted
        ("4026532500", "4026532500", "monotonic      100000         5\nboottime 7 0\n", 100000 * 10**9 + 5, True),
        ("4026532500", "4026532500", "monotonic          -3 999999999\nboottime 7 0\n", -2 * 10**9 - 1, True),
        ("4026532500", "4026532500", "boottime 7 0\n", 0, False),
        ("4026532500", "4026532500", None, 0, False),
        ("4026532500", "4026532501", "monotonic      100000         0\n", 0, False),
    ],
)
def test_the_shift_is_that_of_the_process_and_not_of_its_children(
    tmp_path: Path, own: str, of_children: str, offsets: str | None, shift: int, known: bool
) -> None:
    found = shift_of(folder(tmp_path, own, of_children, offsets))
    assert (found.ns, found.known) == (shift, known)
    assert bool(found) == (shift != 0 or not known)


def test_a_kernel_without_time_namespaces_has_one_clock(tmp_path: Path) -> None:
    assert not shift_of(str(tmp_path))


@pytest.mark.kernel
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to make a time namespace")
def test_a_process_sees_the_clock_of_the_kernel_outside_and_its_own_when_it_is_back() -> None:
    started = time.monotonic_ns()
    done = subprocess.run(
        [*script("in_time_namespace"), *script("leave_time_namespace")], capture_output=True, text=True, check=False
    )
    if done.returncode == 77:
        pytest.skip(f"this kernel makes no time namespace ({done.stderr.strip()})")
    before, outside, back, *why = done.stdout.split(maxsplit=3)
    ended = time.monotonic_ns()
    if shift_of():
        pytest.skip("the tests run in a time namespace themselves")
    assert why == []
    assert started + DAY <= int(before) <= ended + DAY
    assert started <= int(outside) <= ended
    assert started + DAY <= int(back) <= ended + DAY
