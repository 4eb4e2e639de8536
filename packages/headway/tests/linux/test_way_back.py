"""What the kernel does for a thread outside its calls is not the thread's: before a call, after it, and at the end."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from tests.compiling import Compile
from tests.effort import FEW

from headway.linux.options import Selection
from headway.model import Ledger, Thread

from .measuring import Together, count_of, measure, measure_together, only, python, time_in

pytestmark = [pytest.mark.root, pytest.mark.kernel]

SOME = (
    "getppid", "signal", "pipe_broken", "segv_handled", "unmap_last_file", "dup2_over", "traced_call", "seccomp_trap",
    "exit_among_idle", "kill", "segv", "file_unmapped", "vfork",
)  # fmt: skip
"""What is tried in ``make test``; all ways are tried in ``make test-all``."""

SIGNALS = (
    "signal", "signal_queued", "signal_unblocked", "pipe_broken", "segv_handled", "bus_handled", "trap_handled",
    "ill_handled", "division_handled", "gp_handled", "seccomp_trap", "rseq_abort", "timer_signal", "userfault",
)  # fmt: skip
"""Ways that are a signal with a handler, each time."""

PUT_OFF = "unmap_last_file", "dup2_over"
"""Ways that end with task work, each time."""

KILLED = "kill", "term", "segv", "abort", "seccomp_kill"
ENDS = (*KILLED, "exit_group", "exit_among_idle", "main_first", "exec", "file_unmapped", "file_replaced", "big_unmap")


def tried(ways: Iterable[str]) -> list[str]:
    """Those of the ways that are tried."""
    return [way for way in ways if not FEW or way in SOME]


class Ways:
    """What was measured of each way that the machine has, and how often it was gone."""

    def __init__(self, ledger: Ledger, words: list[str]) -> None:
        self.times = dict(zip(words[::2], map(int, words[1::2]), strict=True))
        self.unseen = ledger.losses["switches_unseen"]
        """Switches that the kernel did not show: who comes back by one has the state that its registers show."""
        self._ledger = ledger

    def threads(self, way: str) -> list[Thread]:
        """The threads of a way."""
        if way not in self.times:
            pytest.skip("the machine does not have it")
        names = (way[:15], "exe") if way == "exec" else (way[:15],)
        return [thread for thread in self._ledger.threads if thread.name in names]


@pytest.fixture(scope="module")
def ways(compile_c: Compile) -> Ways:
    return Ways(*measure(compile_c("ways_into_the_kernel"), *(SOME if FEW else ())))


@pytest.mark.parametrize("way", tried(ENDS))
def test_the_end_of_a_process_is_the_kernels(ways: Ways, way: str) -> None:
    """It gives back hundreds of megabytes; each thread has run a few instructions of its own, and until a tick."""
    threads = ways.threads(way)
    assert threads
    for thread in threads:
        assert time_in(thread, "user") < max(0.2 * time_in(thread, "kernel."), 2_000_000), thread.states


@pytest.mark.parametrize("way", tried(KILLED))
def test_who_is_killed_exits(ways: Ways, way: str) -> None:
    (thread,) = ways.threads(way)
    assert 1 <= count_of(thread, "kernel.exit") <= 1 + ways.unseen, thread.states
    assert time_in(thread, "kernel.exit") > time_in(thread, "user", "kernel.coredump")


@pytest.mark.parametrize("way", tried(SIGNALS))
def test_each_signal_with_a_handler_is_counted_and_its_delivery_is_the_kernels(ways: Ways, way: str) -> None:
    (thread,) = ways.threads(way)
    broken = 2 + count_of(thread, "ready")  # a thread that comes back unseen has the state that its registers show
    assert abs(count_of(thread, "kernel.signal") - ways.times[way]) <= broken


@pytest.mark.parametrize("way", tried(PUT_OFF))
def test_what_a_call_puts_off_is_task_work(ways: Ways, way: str) -> None:
    (thread,) = ways.threads(way)
    assert count_of(thread, "kernel.task_work") >= ways.times[way]


def test_who_waits_for_a_child_of_vfork_is_not_frozen(ways: Ways) -> None:
    """The kernel says so of it, because it would not stop it if its control group were frozen."""
    threads = ways.threads("vfork")  # and its children
    assert sum(count_of(thread, "wait.child") for thread in threads) >= ways.times["vfork"]
    assert sum(count_of(thread, "wait.frozen") for thread in threads) == 0


def test_a_call_that_a_tracer_stops_twice_is_the_kernels(ways: Ways) -> None:
    (thread,) = ways.threads("traced_call")
    assert count_of(thread, "stopped") >= 2 * ways.times["traced_call"]
    assert time_in(thread, "user") < time_in(thread, "kernel.")


def test_a_call_that_a_tracer_stops_before_it_begins_is_counted_once(compile_c: Compile) -> None:
    ledger, _ = measure(compile_c("traced_calls"), str(calls := 50))
    (thread,) = (thread for thread in ledger.threads if count_of(thread, "kernel.getppid"))
    assert count_of(thread, "stopped") >= 2 * calls
    assert count_of(thread, "kernel.getppid") == calls


STOPPED = "sleep", "poll", "futex"


@pytest.fixture(scope="module")
def waits(compile_c: Compile) -> Together:
    return measure_together({how: [compile_c("waits_around_calls"), how] for how in ("notified", *STOPPED)})


def test_a_wait_before_a_call_has_the_calls_name(waits: Together) -> None:
    """A filter asks another process, which takes its time (seccomp_unotify(2))."""
    ledger, (calls, pause_us) = waits["notified"]
    thread = only(ledger, "asking")
    assert time_in(thread, "wait.mkdirat") >= int(calls) * int(pause_us) * 1000
    assert time_in(thread, "wait.other") == 0
    assert "filters of system calls" in ledger.reasons["seccomp"]


@pytest.mark.parametrize("call", STOPPED)
def test_a_wait_that_was_stopped_goes_on_under_its_name(waits: Together, call: str) -> None:
    ledger, _ = waits[call]
    thread = only(ledger, "stopped")
    assert count_of(thread, "stopped") == 1
    assert count_of(thread, f"wait.{call}") == 2
    assert not [state for state in thread.states if "restart" in state]


FREEZERS = {
    "v2": (("/sys/fs/cgroup/unified", "/sys/fs/cgroup"), "cgroup.freeze", "1", "0"),
    "v1": (("/sys/fs/cgroup/freezer",), "freezer.state", "FROZEN", "THAWED"),
}
"""Where control groups are that can be frozen, and what is written into which file for that."""


@pytest.mark.parametrize("version", FREEZERS)
def test_a_frozen_thread_is_frozen(version: str) -> None:
    roots, file, freeze, thaw = FREEZERS[version]
    with a_group(roots, file) as group, subprocess.Popen(python("while True: pass")) as program:
        try:
            (group / "cgroup.procs").write_text(str(program.pid))
            moments: list[float] = []

            def has_been_frozen() -> bool:
                moments.append(time.monotonic())
                if len(moments) == 1:
                    (group / file).write_text(freeze)
                elif moments[-1] - moments[0] > 0.3 and is_waiting(program.pid):
                    (group / file).write_text(thaw)
                    return True
                return False

            ledger, _ = measure(selection=Selection(pids=(program.pid,)), seconds=60, enough=has_been_frozen)
        finally:
            (group / file).write_text(thaw)
            program.kill()
            program.wait()
    thread = only(ledger)
    assert time_in(thread, "wait.frozen") > 0
    assert time_in(thread, "wait.other") == 0


def is_waiting(pid: int) -> bool:
    """Whether a process has no processor and asks for none."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] in "SD"


@contextmanager
def a_group(roots: tuple[str, ...], file: str) -> Iterator[Path]:
    """A control group that has a file."""
    for root in roots:
        folder = Path(root, f"headway-frozen-{os.getpid()}")
        with suppress(OSError):
            folder.mkdir()
            if (folder / file).exists():
                try:
                    yield folder
                finally:
                    while (folder / "cgroup.procs").read_text():
                        time.sleep(0.01)
                    folder.rmdir()
                return
            folder.rmdir()
    pytest.skip(f"needs a control group of its own with {file}")
