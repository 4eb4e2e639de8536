"""The programs that are busy now, from /proc as it is and from what may stand there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.cli.offer import offered
from headway.errors import CommandFailedError
from headway.linux.procfs.busiest import BusyProgram, busiest
from headway.session.child import SuspendedChild
from headway.views.printable import width_of

BUSY = "import ctypes; ctypes.CDLL(None).prctl(15, b'so busy (x) y'); print(flush=True)\nwhile True: pass"


def test_a_busy_process_is_among_them_with_its_name() -> None:
    with subprocess.Popen([sys.executable, "-c", BUSY], stdout=subprocess.PIPE) as child:
        try:
            assert child.stdout is not None
            child.stdout.readline()
            found: list[BusyProgram] = []
            while not any(program.name == "so busy (x) y" for program in found):
                found = busiest(0.1, most=1 << 20)
            (program,) = (one for one in found if one.name == "so busy (x) y")
            assert program.pids == (child.pid,)
            assert 0 < program.processors < 2
        finally:
            child.kill()


def write(proc: Path, pid: int, name: bytes, ticks: int, flags: int = 0) -> None:
    (proc / str(pid)).mkdir(exist_ok=True)
    rest = [b"R", *[b"0"] * 5, str(flags).encode(), *[b"0"] * 4, str(ticks).encode(), b"0", *[b"0"] * 6, b"77", b"0"]
    (proc / str(pid) / "stat").write_bytes(b"%d (%s) %s\n" % (pid, name, b" ".join(rest)))


def test_what_ran_is_added_up_by_name_and_kernel_threads_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for pid, name, flags in ((10, b"web", 0), (11, b"web", 0), (12, b"kworker/0", 0x0020_0000), (13, b"idle", 0)):
        write(tmp_path, pid, name, 100, flags)
    (tmp_path / "14").mkdir()
    (tmp_path / "14" / "stat").write_bytes(b"14 (torn")
    (tmp_path / "self").mkdir()

    def later(_: float) -> None:
        for pid, name, more, flags in ((10, b"web", 5, 0), (11, b"web", 9, 0), (12, b"kworker/0", 50, 0x0020_0000)):
            write(tmp_path, pid, name, 100 + more, flags)
        write(tmp_path, 15, b"began", 50)

    monkeypatch.setattr("headway.linux.procfs.busiest.time.sleep", later)
    (program,) = busiest(proc=str(tmp_path))
    assert (program.name, program.pids) == ("web", (11, 10))


@given(
    st.lists(st.builds(BusyProgram, st.text(max_size=15), st.just((4711, 12)), st.floats(0, 64)), max_size=5),
    st.booleans(),
)
def test_lines_are_commands_that_can_be_pasted(programs: list[BusyProgram], root: bool) -> None:
    lines = list(offered(programs, root=root))
    assert all(width_of(line) <= 160 and line.isprintable() for line in lines)
    assert not lines or lines[-1].split()[: 2 - root] == [*([] if root else ["sudo"]), "headway"]
    assert all(" headway why " in f" {line.strip()} " for line in lines[1:-1])


def test_busy_programs_come_with_the_command_to_ask() -> None:
    busy = BusyProgram("redis-server", (77,), 0.83), BusyProgram("a b", (5, 6), 0.04), BusyProgram("rest", (1,), 0.001)
    assert list(offered(busy, root=False)) == [
        "Busy now, and how to ask why:",
        "  sudo headway why redis-server  0.8 processors: process 77",
        "  sudo headway why 'a b'         2 processes, most of it 5",
        "  sudo headway stat -a -d 5      everything",
    ]
    assert list(offered([], root=True)) == []


def test_a_command_that_is_not_there_but_runs_under_that_name_is_told(tmp_path: Path) -> None:
    name = f"only-runs{os.getpid()}"[:15]
    rename = f"import ctypes; ctypes.CDLL(None).prctl(15, {name.encode()!r}); print(flush=True); input()"
    words = [sys.executable, "-c", rename]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        running.stdout.readline()
        with pytest.raises(CommandFailedError, match=f"a process of that name runs: headway why {name}$"):
            SuspendedChild([name]).release()
        running.communicate(b"\n")
    with pytest.raises(CommandFailedError, match=r"is it in PATH\?$"):
        SuspendedChild([f"{name}-not"]).release()
