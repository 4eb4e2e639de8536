"""Libraries whose threads may spin: a report says so where that may be why all looks like progress."""

from __future__ import annotations

import pytest

from headway.linux.bpf.threads.rows import LivingThread
from headway.linux.procfs.maps import Mapping
from headway.linux.sources.ebpf import waiting_loops
from headway.linux.sources.ebpf.waiting_loops import WaitingLoops
from headway.model import Cell, Ledger, Thread, Window

pytestmark = pytest.mark.unit


def ledger(*shares: float, pid: int = 7) -> Ledger:
    """Threads of a process, with these shares of progress."""
    threads = []
    for tid, share in enumerate(shares, pid):
        own = round(share * 1000)
        cells = {"user": Cell(own, 1), "kernel.read": Cell(1000 - own, 1)}
        threads.append(Thread(tid, pid, "a", 0, 0, None, 1000, 1000, cells))
    return Ledger("bpf", Window(0, 1000), tuple(threads))


def told(monkeypatch: pytest.MonkeyPatch, found: Ledger, *files: str) -> str:
    """What is said of a process that has mapped these files."""

    def mappings(pid: int) -> list[Mapping]:
        if pid != 7:
            raise ProcessLookupError
        return [Mapping(0, 4096, "r-xp", 0, 1, file, False) for file in files]

    monkeypatch.setattr(waiting_loops, "mappings", mappings)
    monkeypatch.setattr(waiting_loops, "_PAUSES", (0.0, 0.0))
    loops = WaitingLoops(lambda: [LivingThread(7, 7, 0), LivingThread(8, 8, 0)])
    loops.look_if_due()
    return loops.told(found).reasons.get("spinning", "")


@pytest.mark.parametrize(
    "file",
    [
        "/usr/lib/x86_64-linux-gnu/libgomp.so.1.0.0",
        "/opt/intel/libiomp5.so",
        "/usr/lib/llvm/libomp.so.5",
        "/venv/numpy.libs/libopenblas64_p-r0-0cf96a72.3.23.dev.so",
        "/venv/torch/lib/libgomp-a34b3233.so.1",
        "/opt/mkl/libmkl_intel_thread.so.2",
    ],
)
def test_libraries_whose_threads_spin_are_known_by_their_names(monkeypatch: pytest.MonkeyPatch, file: str) -> None:
    words = told(monkeypatch, ledger(0.99, 0.95), "/usr/lib/libc.so.6", file)
    assert file.rpartition("/")[2] in words
    assert "--spin finds that" in words


@pytest.mark.parametrize("file", ["/usr/lib/libc.so.6", "/usr/lib/libcomp.so", "/home/libgomp.so.1/app", "[heap]", ""])
def test_others_are_not(monkeypatch: pytest.MonkeyPatch, file: str) -> None:
    assert told(monkeypatch, ledger(0.99, 0.95), file) == ""


@pytest.mark.parametrize("found", [ledger(0.99), ledger(0.6, 0.7), ledger(0.99, 0.99, pid=8), ledger()])
def test_it_is_said_where_several_threads_seem_to_make_nothing_but_progress(
    monkeypatch: pytest.MonkeyPatch, found: Ledger
) -> None:
    assert told(monkeypatch, found, "/usr/lib/libgomp.so.1") == ""
