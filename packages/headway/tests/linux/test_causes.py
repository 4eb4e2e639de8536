"""What is behind the states, of real programs whose locks, files and wakers are known."""

from __future__ import annotations

import os
import subprocess
import sysconfig
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.compiling import Compile, script

from headway.commands import stat
from headway.linux.bpf.waits.causes import CauseReader
from headway.linux.options import MeasureOptions, Selection
from headway.linux.sources.ebpf import causes as naming
from headway.linux.sources.ebpf import programs
from headway.model import Behind, Cause, Thread

from .measuring import (
    Together,
    measure,
    measure_intervals,
    measure_together,
    only,
    python,
    say_when_looked,
    until_asleep,
)

pytestmark = [pytest.mark.root, pytest.mark.kernel]


WHY = MeasureOptions(why=True)
NO_ROOM = "causes_without_room"
PROCESSORS = sorted(os.sched_getaffinity(0))


@pytest.fixture(autouse=True)
def _named_before_they_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program whose locks and files are to be named lives until it has been looked at: `until_seen` in its source."""
    say_when_looked(monkeypatch, tmp_path, CauseReader, "look")


@pytest.fixture(scope="module")
def together(compile_c: Compile, tmp_path_factory: pytest.TempPathFactory) -> Together:
    programs: dict[str, list[str | Path]] = {
        "reads": [*python(READS)],
        **{name: [compile_c(name)] for name in ("why_mutex", "why_cond", "why_sleep")},
    }
    if len(PROCESSORS) > 1:
        programs["two_processors"] = [*script("two_processors", *map(str, PROCESSORS[:2]))]
    with pytest.MonkeyPatch.context() as patch:
        say_when_looked(patch, tmp_path_factory.mktemp("together"), CauseReader, "look")
        return measure_together(programs, options=WHY)


def behind(thread: Thread, state: str, kind: Behind) -> dict[str, Cause]:
    return {cause.name: cause for cause in thread.causes if cause.state == state and cause.behind is kind}


def test_a_mutex_is_named_by_its_symbol_and_the_wait_ended_by_who_held_it(together: Together) -> None:
    ledger, _ = together["why_mutex"]
    waiter, holder = only(ledger, "waiter"), only(ledger, "holder")
    waited = waiter.states["wait.futex"]
    objects, wakers = behind(waiter, "wait.futex", Behind.OBJECT), behind(waiter, "wait.futex", Behind.WAKER)
    assert set(objects) == {"why_mutex: lock"}
    assert objects["why_mutex: lock"].time == waited.time
    assert objects["why_mutex: lock"].count == waited.count
    assert wakers["holder"].tid == holder.tid
    assert wakers["holder"].time == waited.time


def test_what_a_thread_waits_for_in_vain_is_named_though_the_wait_never_ends(compile_c: Compile) -> None:
    with subprocess.Popen([compile_c("why_deadlock")], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            process.stdout.readline()
            until_asleep(process.pid)
            chosen = Selection(pids=(process.pid,))
            whole, intervals = measure_intervals(0.1, options=WHY, selection=chosen, duration=0.4)
        finally:
            process.kill()
    for ledger in (whole, *intervals):
        for thread in ledger.threads:
            lock = "why_deadlock: first" if thread.name == "other" else "why_deadlock: second"
            (cause,) = (c for c in thread.causes if c.behind is Behind.OBJECT)
            assert (cause.name, cause.time) == (lock, thread.states["wait.futex"].time)
            assert not [c for c in thread.causes if c.behind is Behind.WAKER]


def test_a_condition_variable_is_one_thing_whichever_of_its_words_is_waited_for(together: Together) -> None:
    ledger, _ = together["why_cond"]
    waited = only(ledger, "waiter").states["wait.futex"]
    objects = behind(only(ledger, "waiter"), "wait.futex", Behind.OBJECT)
    assert "why_cond: cond" in objects
    assert set(objects) <= {"why_cond: cond", "why_cond: lock"}
    (signaller,) = behind(only(ledger, "waiter"), "wait.futex", Behind.WAKER).values()
    assert signaller.name == "signaller"
    assert sum(cause.time for cause in objects.values()) == signaller.time == waited.time
    assert sum(cause.count for cause in objects.values()) == signaller.count == waited.count


def test_a_wait_that_was_moved_is_divided_and_one_for_any_of_several_names_them(compile_c: Compile) -> None:
    """FUTEX_REQUEUE moves a thread from one lock to another; futex_waitv(2) waits for any of a list."""
    ledger, said = measure(compile_c("why_requeue"), options=WHY)
    at_first, at_second, at_both = map(int, said)
    waiter = only(ledger, "waiter")
    times = {cause.name: cause.time for cause in behind(waiter, "wait.futex", Behind.OBJECT).values()}
    first, second = "why_requeue: first", "why_requeue: second"
    either = f"{{{first}, {second}}}: {second}"
    assert times.keys() == ({first, second, either} if at_both else {first, second})  # it is there since Linux 5.16
    assert times[first] >= at_first
    assert times[second] >= at_second
    assert times.get(either, 0) >= at_both
    assert sum(times.values()) == waiter.states["wait.futex"].time
    followers = [thread for thread in ledger.threads if thread.name == "follower"]
    assert len(followers) == 2
    for thread in followers:  # which of the two moves was its own is not told
        (moved,) = behind(thread, "wait.futex", Behind.OBJECT).values()
        assert (moved.name, moved.time) == (f"{first}, then {second}", thread.states["wait.futex"].time)


@pytest.mark.parametrize(("lock", "name"), [("file", "{}"), ("position", "position in {}")])
def test_a_wait_for_a_files_lock_names_the_file_and_who_had_it(
    compile_c: Compile, tmp_path: Path, lock: str, name: str
) -> None:
    ledger, said = measure(compile_c("why_locks"), lock, tmp_path / "written", options=WHY)
    waiter, holder = only(ledger, "waiter"), only(ledger, "holder")
    waited = waiter.states["wait.file_lock"]
    assert waited.time >= int(said[0])
    (about,) = behind(waiter, "wait.file_lock", Behind.OBJECT).values()
    assert (about.name, about.time) == (name.format("written"), waited.time)
    assert behind(waiter, "wait.file_lock", Behind.WAKER)["holder"].tid == holder.tid


def test_a_wait_for_the_lock_of_an_address_space_is_called_so(compile_c: Compile) -> None:
    """Threads that map memory and give it back wait for each other, and as they end."""
    ledger, _ = measure(compile_c("why_locks"), "memory", options=WHY)
    waiter = only(ledger, "waiter")
    waited = waiter.states["wait.mmap_lock"]
    assert waited.count
    assert not {"wait.mmap", "wait.munmap"} & waiter.states.keys()
    (about,) = behind(waiter, "wait.mmap_lock", Behind.OBJECT).values()
    assert about.name == f"memory of why_locks {waiter.pid}"
    assert about.time == waited.time


READS = """
import ctypes, os, select, socket
from until import until_asleep, until_seen

def child(write):
    if os.fork() == 0:  # it writes when its parent has been seen waiting
        until_asleep(os.getppid())
        until_seen()
        write()
        os._exit(0)

to_read, to_write = os.pipe()
child(lambda: os.write(to_write, b"x")); os.read(to_read, 1)
one, other = socket.socketpair()
child(lambda: other.send(b"x")); one.recv(1)
events = select.epoll()
events.register(to_read)
child(lambda: os.write(to_write, b"x")); events.poll()
counter = ctypes.CDLL(None).eventfd(0, 0)
child(lambda: os.write(counter, bytes([1, *[0] * 7]))); os.read(counter, 8)
"""


def test_what_is_read_from_is_named_and_who_wrote_to_it(together: Together) -> None:
    ledger, _ = together["reads"]
    reader, *writers = sorted(ledger.threads, key=lambda t: t.birth)
    waits = {"pipe": "pipe:[", "net": "socket:[", "epoll": "pipe:[", "file": "[eventfd]"}
    for (state, begins), writer in zip(waits.items(), writers, strict=True):
        objects = behind(reader, f"wait.{state}", Behind.OBJECT)
        assert any(name.startswith(begins) for name in objects), objects
        assert writer.tid in {cause.tid for cause in behind(reader, f"wait.{state}", Behind.WAKER).values()}
        assert sum(cause.time for cause in objects.values()) == reader.states[f"wait.{state}"].time


ENDS = """
import os, select, socket
from until import until_asleep, until_seen

listening = socket.create_server(("127.0.0.1", 0))
port = listening.getsockname()[1]
parent = os.getpid()
if os.fork() == 0:
    end, _ = listening.accept()
    for _ in range(2):
        until_asleep(parent)
        until_seen()
        end.send(b"x")
    os._exit(0)
end = socket.create_connection(("127.0.0.1", port))
end.recv(1)
events, (quiet, _) = select.epoll(), os.pipe()
events.register(quiet), events.register(end, select.EPOLLIN)
events.poll()
one, other = socket.socketpair()
if os.fork() == 0:
    until_asleep(parent)
    until_seen()
    other.send(b"x")
    os._exit(0)
one.recv(1)
os.wait(), os.wait()
print(port, os.fstat(end.fileno()).st_ino, os.fstat(one.fileno()).st_ino)
"""


def test_a_socket_has_its_other_end_and_an_epoll_the_file_that_ended_the_wait() -> None:
    ledger, (port, by_address, by_process) = measure(*python(ENDS), options=WHY)
    reader = min(ledger.threads, key=lambda t: t.birth)
    far = f"socket:[{by_address}] to 127.0.0.1:{port}"
    assert set(behind(reader, "wait.net", Behind.OBJECT)) == {far, f"socket:[{by_process}] of process {reader.pid}"}
    (ended,) = behind(reader, "wait.epoll", Behind.OBJECT).values()
    assert (ended.name, ended.time) == (far, reader.states["wait.epoll"].time)


POLLS = """
import os, select, socket
from until import until_asleep

parent = os.getpid()
def child(write):
    if os.fork() == 0:  # it writes when its parent waits
        until_asleep(parent)
        write()
        os._exit(0)

def several(*files):
    polled = select.poll()
    for file in files:
        polled.register(file, select.POLLIN)
    return polled

listening = socket.create_server(("127.0.0.1", 0))
end = socket.create_connection(listening.getsockname())
far, _ = listening.accept()
(quiet, _), (pipe, to_pipe), (alone, to_alone) = (os.pipe() for _ in range(3))
child(lambda: far.send(b"x")); several(*[os.dup(quiet) for _ in range(70)], end).poll(); os.wait()
child(lambda: os.write(to_pipe, b"x")); select.select([quiet, pipe], [], [end]); os.wait()
child(lambda: os.write(to_alone, b"x")); several(alone).poll(); os.wait()
several(quiet).poll(20), several(quiet, listening).poll(20)
print(listening.getsockname()[1], *(os.fstat(file).st_ino for file in (end.fileno(), pipe, alone, quiet)))
"""


def test_a_wait_for_one_of_several_files_has_the_one_that_ended_it() -> None:
    ledger, (port, *inodes) = measure(*python(POLLS), options=WHY)
    waiter = min(ledger.threads, key=lambda t: t.birth)
    waited = waiter.states["wait.poll"]
    objects = behind(waiter, "wait.poll", Behind.OBJECT)
    ended = [f"socket:[{inodes[0]}] to 127.0.0.1:{port}", f"pipe:[{inodes[1]}]", f"pipe:[{inodes[2]}]"]
    alone = f"pipe:[{inodes[3]}]"  # was the only one of a wait that timed out; of several that did none ended the wait
    assert objects.keys() == {*ended, alone}
    assert {objects[name].count for name in ended} == {1}
    assert objects[alone].count == 1
    assert objects[alone].time >= 20_000_000
    assert waited.time - sum(cause.time for cause in objects.values()) >= 20_000_000
    assert (waited.count or 0) - sum(cause.count for cause in objects.values()) == 1


def test_a_wait_for_a_file_that_a_process_or_the_kernel_serves_has_its_file_system(tmp_path: Path) -> None:
    if not os.path.exists("/dev/fuse") or not os.access("/proc/kmsg", os.R_OK):
        pytest.skip("there is no FUSE here, or no /proc/kmsg")
    if subprocess.run(["unshare", "--mount", "true"], stderr=subprocess.DEVNULL).returncode:
        pytest.skip("nothing may be mounted here")
    folder = tmp_path / "folder"
    folder.mkdir()
    ledger, _ = measure(*script("fuse_file", str(folder)), options=WHY)
    reader, daemon, *_ = sorted(ledger.threads, key=lambda t: t.birth)
    for state, name in (("wait.fuse", "served"), ("wait.proc", "kmsg")):
        (file,) = behind(reader, state, Behind.OBJECT).values()
        assert (file.name, file.time) == (name, reader.states[state].time)
    assert reader.states["wait.fuse"].count == 2, "it was read and synced"
    assert {cause.tid for cause in behind(reader, "wait.fuse", Behind.WAKER).values()} == {daemon.tid}


@pytest.mark.skipif(len(PROCESSORS) < 2, reason="needs two processors")
def test_a_waker_on_another_processor_is_named_whoever_completes_the_wake_up_there(together: Together) -> None:
    ledger, _ = together["two_processors"]
    one, other = sorted(ledger.threads, key=lambda t: t.birth)
    for reader, writer in ((one, other), (other, one)):
        wakers = [c for c in reader.causes if c.state == "wait.pipe" and c.behind is Behind.WAKER]
        assert {cause.tid for cause in wakers} == {writer.tid}
        assert sum(cause.time for cause in wakers) == reader.states["wait.pipe"].time


def test_a_sleep_is_ended_by_the_timers_interrupt(together: Together) -> None:
    """But for one that comes while a processor runs what the kernel does not show."""
    ledger, _ = together["why_sleep"]
    (thread,) = ledger.threads
    wakers = behind(thread, "wait.sleep", Behind.WAKER)
    assert set(wakers) <= {"irq.timer", "softirq.hrtimer", "softirq.timer"}
    slept = thread.states["wait.sleep"]
    assert 0 < sum(cause.time for cause in wakers.values()) <= slept.time
    assert 0 < sum(cause.count for cause in wakers.values()) <= (slept.count or 0)


@pytest.mark.skipif(sysconfig.get_config_var("Py_GIL_DISABLED") == 1, reason="this Python has no GIL")
def test_waiting_for_the_gil_is_told_from_waiting_for_other_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(naming, "NAMING_SHARE", 1)  # look as often as it takes, however slow a look is
    threads = sorted(measure(*script("gil_contention"), options=WHY)[0].threads, key=lambda t: t.birth)[1:]
    for thread in threads:
        gil = thread.states["wait.gil"]
        assert behind(thread, "wait.gil", Behind.OBJECT)["Python's GIL"].time == gil.time
        assert sum(c.time for c in behind(thread, "wait.gil", Behind.WAKER).values()) <= gil.time
    _, thread = sorted(measure(*script("lock_contention"), options=WHY)[0].threads, key=lambda t: t.birth)
    locks = behind(thread, "wait.futex", Behind.OBJECT)
    assert locks
    assert not any("GIL" in name for name in locks)
    assert {cause.name for cause in thread.causes if cause.state == "wait.gil" and cause.behind is Behind.OBJECT} <= {
        "Python's GIL"
    }


def test_causes_for_which_there_is_no_room_are_counted(compile_c: Compile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "CAUSES", 256)
    ledger, _ = measure(compile_c("why_addresses"), "3000", options=WHY, allowed=[NO_ROOM])
    (thread,) = ledger.threads
    told = sum(c.count for c in thread.causes if c.behind is Behind.OBJECT and c.state == "wait.futex")
    assert 0 < told <= 256
    assert ledger.losses["causes_without_room"] >= (thread.states["wait.futex"].count or 0) - told > 0


def test_a_lock_of_a_process_that_has_ended_unseen_shows_its_address(
    compile_c: Compile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CauseReader, "look", lambda reader: None)
    monkeypatch.setenv("UNTIL_SEEN", os.devnull)  # nobody looks
    ledger, _ = measure(compile_c("why_mutex"), options=WHY)
    waiter = only(ledger, "waiter")
    (lock,) = behind(waiter, "wait.futex", Behind.OBJECT).values()
    assert lock.name.startswith("futex 0x")
    assert lock.time == waiter.states["wait.futex"].time


def test_in_every_interval_the_causes_are_within_the_states(compile_c: Compile) -> None:
    _, intervals = measure_intervals(0.05, compile_c("why_mutex"), options=WHY)
    counts = [
        cause.count
        for ledger in intervals
        for thread in ledger.threads
        for cause in thread.causes
        if thread.name == "waiter" and cause.state == "wait.futex" and cause.behind is Behind.OBJECT
    ]
    cells = [
        thread.states["wait.futex"].count or 0
        for ledger in intervals
        for thread in ledger.threads
        if thread.name == "waiter" and "wait.futex" in thread.states
    ]
    assert 0 < sum(counts) <= sum(cells)


def test_forked_and_executed_programs_have_their_own_locks_only(compile_c: Compile) -> None:
    mutex = compile_c("why_mutex")
    ledger, _ = measure("sh", "-c", f"{mutex} & {mutex}; wait", options=WHY)
    waiters = [t for t in ledger.threads if t.name == "waiter"]
    holders = {t.pid: t for t in ledger.threads if t.name == "holder"}
    assert len(waiters) == 2
    for waiter in waiters:
        assert set(behind(waiter, "wait.futex", Behind.OBJECT)) == {"why_mutex: lock"}
        assert behind(waiter, "wait.futex", Behind.WAKER)["holder"].tid == holders[waiter.pid].tid
    executed, _ = measure_intervals(0.05, compile_c("why_exec"), mutex, options=WHY)
    assert set(behind(only(executed, "waiter"), "wait.futex", Behind.OBJECT)) == {"why_mutex: lock"}


def test_what_is_behind_an_index_is_shown(compile_c: Compile) -> None:
    words = ["--why", "wait", "-q", "--", str(compile_c("why_mutex"))]
    report = CliRunner().invoke(stat.command, words, env={"COLUMNS": "100"}, catch_exceptions=False).stderr
    assert "for why_mutex: lock" in report
    assert "woken by holder" in report
