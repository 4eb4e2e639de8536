"""System calls by process, call and file, of programs whose calls are known, and beside strace."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from tests.compiling import script

from headway.linux.options import MeasureOptions
from headway.model import Ledger
from headway.model.uses import CallUse, Uses, add_call_uses
from headway.views.uses import received_and_sent

from .measuring import measure, measure_intervals

pytestmark = [pytest.mark.root, pytest.mark.kernel]

CALLS = MeasureOptions(calls=True)
GONE = re.compile(r"wait\.|stopped")


def uses_of(ledger: Ledger) -> Uses:
    assert ledger.uses is not None
    return ledger.uses


def calls_of(ledger: Ledger) -> tuple[CallUse, ...]:
    calls = uses_of(ledger).calls
    assert calls is not None
    return calls


def of_file(ledger: Ledger, name: str) -> dict[str, CallUse]:
    return {use.call: use for use in calls_of(ledger) if use.file is not None and use.file.name == name}


def test_calls_on_a_file_are_counted_with_its_path_and_their_bytes(tmp_path: Path) -> None:
    ledger, _ = measure(*script("known_calls", str(tmp_path)), options=CALLS)
    found = of_file(ledger, str(tmp_path / "file with a name"))
    assert {name: (use.count, use.errors, use.bytes) for name, use in found.items() if name != "fstat"} == {
        "openat": (1, 0, 0),
        "write": (30, 0, 3000),
        "lseek": (1, 0, 0),
        "read": (10, 0, 500),
        "fdatasync": (1, 0, 0),
        "close": (1, 0, 0),
    }
    assert all(use.file is not None and use.file.kind == "disk" for use in found.values())
    removed = add_call_uses(calls_of(ledger), "call")["rmdir"]
    assert (removed.count, removed.errors) == (7, 7)
    assert {error: n for (_, call, error), n in uses_of(ledger).errors.items() if call == "rmdir"} == {2: 7}


def test_sockets_have_both_ends_and_their_bytes(tmp_path: Path) -> None:
    ledger, (listens, client) = measure(*script("known_calls", str(tmp_path)), options=CALLS)
    moved: Counter[tuple[str, str]] = Counter()
    got: Counter[tuple[str, str]] = Counter()
    for use in calls_of(ledger):
        if use.file is not None and use.file.kind == "socket":
            read, written = received_and_sent(use)
            got[use.file.local, use.file.peer] += read
            moved[use.file.local, use.file.peer] += written
    there, here = f"127.0.0.1:{listens}", f"127.0.0.1:{client}"
    assert (moved[here, there], got[here, there]) == (40, 4000)
    assert (moved[there, here], got[there, here]) == (4000, 40)


@pytest.mark.parametrize("address", ["path", "abstract", "none"])
def test_sockets_of_this_machine_have_their_address_and_the_process_at_the_other_end(
    address: str, tmp_path: Path
) -> None:
    place = {"path": str(tmp_path / "x"), "abstract": f"\0headway-{os.getpid()}", "none": ""}[address]
    code = (
        "import os, socket, sys\n"
        f"place = {place!r}\n"
        "if not place: a, b = socket.socketpair()\n"
        "else:\n"
        "    s = socket.socket(socket.AF_UNIX); s.bind(place); s.listen()\n"
        "    a = socket.socket(socket.AF_UNIX); a.connect(place); b = s.accept()[0]\n"
        "a.send(b'x' * 100); b.recv(100)\n"
    )
    ledger, _ = measure(sys.executable, "-c", code, options=CALLS)
    (pid,) = {thread.pid for thread in ledger.threads}
    sent, received = (
        next(use.file for use in calls_of(ledger) if use.call == call and use.file and use.file.kind == "socket")
        for call in ("sendto", "recvfrom")
    )
    shown = place.replace("\0", "@")
    name = Path(sys.executable).name[:15]
    who = {f"{name} {pid}", f"process {pid}"}  # the second: it was waited for before the names were read
    assert sent.local == ""
    assert sent.peer in ({f"{shown} ({one})" for one in who} if shown else who)
    assert received.local == shown
    assert received.peer in who


def test_the_waits_of_calls_are_those_of_the_states(tmp_path: Path) -> None:
    ledger, _ = measure(*script("known_calls", str(tmp_path)), options=CALLS)
    waited = sum(use.waited for use in calls_of(ledger))
    waits = [(state, cell.time) for thread in ledger.threads for state, cell in thread.states.items()]
    in_faults = sum(time for state, time in waits if state == "wait.fault")  # some are the program's own, in no call
    total = sum(time for state, time in waits if GONE.match(state))
    assert total - in_faults <= waited <= total
    for name, use in add_call_uses(calls_of(ledger), "call").items():
        cell = sum(t.states[f"kernel.{name}"].time for t in ledger.threads if f"kernel.{name}" in t.states)
        assert use.on >= 0.5 * cell, name  # and what interrupts and page faults took meanwhile


def test_intervals_add_up_to_the_whole(tmp_path: Path) -> None:
    ledger, parts = measure_intervals(0.05, *script("known_calls", str(tmp_path)), options=CALLS)
    whole = add_call_uses(calls_of(ledger), "call")
    found: Counter[object] = Counter()
    for part in parts:
        for name, use in add_call_uses(calls_of(part), "call").items():
            found[name] += use.count
    assert found == {name: use.count for name, use in whole.items()}


PROGRAMS = {
    "git": ["git", "-C", "{repository}", "log", "--stat"],
    "sqlite3": ["sqlite3", ":memory:", "create table t(a); insert into t values (1); select count(*) from t;"],
    "python3": [sys.executable, "-I", "-S", "-c", "import os; [os.path.exists('/missing') for i in range(50)]"],
    "tar": ["tar", "cf", "/dev/null", "{repository}"],
}


@pytest.mark.skipif(not shutil.which("strace"), reason="needs strace")
@pytest.mark.parametrize("name", PROGRAMS)
def test_counts_and_errors_are_those_of_strace(name: str, tmp_path: Path) -> None:
    if not shutil.which(name):
        pytest.skip(f"needs {name}")
    repository = tmp_path / "repository"
    if name in ("git", "tar"):
        if not shutil.which("git"):
            pytest.skip("needs git")
        make_repository(repository)
    program = shlex.join(word.format(repository=repository) for word in PROGRAMS[name])
    words = ["sh", "-c", f"exec env -i PATH='{os.defpath}' {program} < /dev/null > /dev/null 2> /dev/null"]
    subprocess.run(words, check=True)  # what it keeps for the next time is kept
    counts = tmp_path / "counts"
    strace = ["strace", "-f", "-c", "-w", "-o", str(counts), *words]
    subprocess.run(strace, check=True)
    ledger, _ = measure(*words, options=CALLS)
    found = {
        str(call): (use.count, use.errors)
        for call, use in add_call_uses([use for use in calls_of(ledger) if not use.second], "call").items()
    }
    assert found == counted_by_strace(counts)


def make_repository(folder: Path) -> None:
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run(["git", "init", "-q", str(folder)], check=True, env=environment)
    for i in range(3):
        (folder / f"file{i}").write_text(f"{i}\n" * 100)
        for words in (["add", "."], ["commit", "-q", "-m", str(i)]):
            subprocess.run(["git", "-C", str(folder), *identity, *words], check=True, env=environment)


def counted_by_strace(table: Path) -> dict[str, tuple[int, int]]:
    """Calls and errors by call, from the table of ``strace -c``."""
    found = {}
    for line in table.read_text().splitlines():
        fields = line.split()
        if len(fields) in (5, 6) and re.fullmatch(r"[\d.]+", fields[0]) and fields[-1] != "total":
            found[fields[-1]] = int(fields[3]), int(fields[4]) if len(fields) == 6 else 0
    return found
