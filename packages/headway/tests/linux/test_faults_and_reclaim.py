"""Page faults by sort, and memory that a thread must free itself: the kernel's own counts are the truth."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.compiling import Compile
from tests.memory_group import memory_group

from .measuring import count_of, measure, only, python, time_in

pytestmark = [pytest.mark.root, pytest.mark.kernel]

FAULTS = "kernel.fault.minor", "kernel.fault.major", "kernel.fault"


def test_minor_and_major_faults_are_those_that_the_kernel_counts(compile_c: Compile, tmp_path: Path) -> None:
    """The program touches pages of its own, pages of a file that are not in memory, and says what getrusage told it."""
    pages = tmp_path / "pages"
    with pages.open("wb") as file:
        file.write(os.urandom(64 * 64 * 4096))
        file.flush()
        os.fsync(file.fileno())
    ledger, (minor, major) = measure(compile_c("sorts_of_faults"), str(pages))
    thread = only(ledger)
    if not thread.states.keys() & set(FAULTS):
        pytest.skip("page faults are not seen on this kernel")
    before_and_after = 300  # execve, the dynamic linker, exit
    assert int(minor) <= count_of(thread, "kernel.fault.minor") <= int(minor) + before_and_after
    assert int(major) <= count_of(thread, "kernel.fault.major") <= int(major) + before_and_after
    if not int(major):
        pytest.skip("this file system keeps all pages in memory")
    assert time_in(thread, "kernel.fault.major") > 0


@pytest.fixture
def small_group() -> Iterator[Path]:
    """A control group with 24 MiB of memory."""
    with memory_group(24 << 20) as group:
        yield group


def skip_if_in_memory(folder: Path) -> None:
    found = subprocess.run(["findmnt", "-no", "FSTYPE", "-T", folder], capture_output=True, text=True)
    if found.stdout.strip() in ("tmpfs", "ramfs"):
        pytest.skip("a file in memory is not reclaimed")


def test_a_thread_that_must_free_memory_is_in_reclaim(small_group: Path, tmp_path: Path) -> None:
    skip_if_in_memory(tmp_path)
    big = tmp_path / "big"
    with big.open("wb") as file:
        megabyte = os.urandom(1 << 20)
        for _ in range(64):
            file.write(megabyte)
        file.flush()
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    code = (
        f"open({str(small_group / 'cgroup.procs')!r}, 'w').write('0')\n"
        f"file = open({str(big)!r}, 'rb', buffering=0)\n"
        "while file.read(1 << 20): pass"
    )
    ledger, _ = measure(*python(code))
    thread = max(ledger.threads, key=lambda found: time_in(found, "kernel.read"))
    assert count_of(thread, "kernel.reclaim") >= 10, "64 MiB of pages through a group of 24 MiB"
    assert time_in(thread, "kernel.reclaim") > 0
    assert count_of(thread, "kernel.read") >= 65, "reclaim is a part of the call, which goes on after it"


def test_a_thread_that_waits_for_pages_to_be_written_back_waits_in_reclaim(small_group: Path, tmp_path: Path) -> None:
    """Only dirty pages of a file can be freed: reclaim has to wait until the disk has written some."""
    skip_if_in_memory(tmp_path)
    size = 96 << 20
    code = (
        "import mmap\n"
        f"open({str(small_group / 'cgroup.procs')!r}, 'w').write('0')\n"
        f"file = open({str(tmp_path / 'dirty')!r}, 'w+b')\n"
        f"file.truncate({size})\n"
        f"memory = mmap.mmap(file.fileno(), {size})\n"
        f"for i in range(0, {size}, 4096): memory[i] = 1"
    )
    ledger, _ = measure(*python(code))
    thread = max(ledger.threads, key=lambda found: time_in(found, "kernel.reclaim"))
    assert count_of(thread, "kernel.reclaim") >= 10, "96 MiB of dirty pages through a group of 24 MiB"
    if not count_of(thread, "wait.reclaim"):
        pytest.skip("the disk wrote so fast that nothing waited for it")
    assert time_in(thread, "wait.reclaim") > 0
    assert time_in(thread, "wait.reclaim") + time_in(thread, "kernel.reclaim") < thread.span
