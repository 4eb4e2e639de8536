"""A process whose first thread has ended goes on: with its symbols and locks, and without that thread."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from tests.compiling import Compile
from tests.linux.measuring import check

from headway.linux.options import MeasureOptions, Selection
from headway.linux.procfs.living import is_zombie, with_memory
from headway.linux.procfs.maps import file_of, mappings
from headway.linux.sources.ebpf import BpfSource
from headway.linux.sources.proc import ProcSource
from headway.linux.symbols.futexes import Locks
from headway.model import Behind

pytestmark = pytest.mark.kernel


@contextmanager
def running(program: Path) -> Iterator[int]:
    with subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield process.pid


def test_another_thread_has_the_memory_of_the_process(compile_c: Compile) -> None:
    program = compile_c("dead_leader")
    with running(program) as pid:
        assert is_zombie(pid)
        other = with_memory(pid)
        assert other != pid
        assert str(other) in os.listdir(f"/proc/{pid}/task")
        found = [mapping for mapping in mappings(pid) if mapping.path == str(program)]
        assert found
        assert file_of(pid, found[0]) == str(program)
    assert with_memory(os.getpid()) == os.getpid()
    assert not is_zombie(os.getpid())


def test_a_process_that_is_not_there_has_no_other_thread(tmp_path: Path) -> None:
    assert with_memory(4711, str(tmp_path)) == 4711
    assert not is_zombie(4711, str(tmp_path))


def test_a_lock_of_the_process_has_its_name(compile_c: Compile) -> None:
    program = compile_c("dead_leader")
    symbols = subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout
    address = next(int(line.split()[0], 16) for line in symbols.splitlines() if line.endswith(" shared_lock"))
    with running(program) as pid:
        base = min(mapping.start for mapping in mappings(pid) if mapping.path == str(program))
        lock = Locks().name(pid, base + address)
        assert lock is not None
        assert lock.text == "dead_leader: shared_lock"


def test_by_proc_the_thread_that_has_ended_is_left_out(compile_c: Compile) -> None:
    with running(compile_c("dead_leader")) as pid:
        source = ProcSource(Selection(pids=(pid,)))
        source.begin()
        tids = {thread.tid for thread in source.end().threads}
    assert len(tids) == 3
    assert pid not in tids


@pytest.mark.root
def test_by_ebpf_it_is_left_out_and_the_lock_of_the_others_has_its_name(compile_c: Compile) -> None:
    with running(compile_c("dead_leader")) as pid, ExitStack() as kept:
        source = BpfSource(Selection(pids=(pid,)), MeasureOptions(why=True), intervals=True)
        kept.callback(source.close)
        source.begin()
        locks: set[str] = set()
        deadline = time.monotonic() + 60
        while "dead_leader: shared_lock" not in locks and time.monotonic() < deadline:
            source.service()
            ledger = source.read()
            check(ledger)
            causes = [cause for thread in ledger.threads for cause in thread.causes]
            locks = {cause.name for cause in causes if cause.behind is Behind.OBJECT}
        assert "dead_leader: shared_lock" in locks
        assert pid not in {thread.tid for thread in ledger.threads}
        assert len(ledger.threads) == 3
        source.end()
