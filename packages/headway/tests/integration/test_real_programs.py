"""Real programs that nobody here wrote, measured with the laws asserted: with eBPF where possible, and with /proc."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.compiling import PROGRAMS
from tests.effort import FEW

from headway.linux.options import Selection
from headway.model import Kind, Ledger, Thread, add_states, violations
from headway.session.measure import Observation, observe

pytestmark = pytest.mark.end_to_end

root, exhaustive = pytest.mark.root, pytest.mark.exhaustive
mostly_bpf = pytest.mark.parametrize(
    "source", [pytest.param("bpf", marks=root), pytest.param("proc", marks=exhaustive)]
)
mostly_proc = pytest.mark.parametrize("source", [pytest.param("bpf", marks=[root, exhaustive]), "proc"])


def needs(*programs: str) -> None:
    """Skip where one of them is not installed."""
    for program in programs:
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")


def measure(
    source: str,
    *command: str | Path,
    seconds: float | None = None,
    started: Callable[[object, str], None] | None = None,
    **selection: Any,
) -> Observation:
    """Measure with this source; what every measurement must keep is checked here."""
    words = [str(word) for word in command]
    null = os.open(os.devnull, os.O_WRONLY)
    try:
        observation = observe(
            Selection(**selection), words, prefer=source, seconds=seconds, stdout=null, started=started
        )
    finally:
        os.close(null)
    check(observation.ledger)
    return observation


def check(ledger: Ledger) -> None:
    """Conservation; nothing lost (by eBPF); the indices are parts of the whole."""
    assert violations(ledger) == []
    exact = ledger.source == "bpf"
    if exact:  # what a hypervisor takes is not in our hands
        assert {name: n for name, n in ledger.losses.items() if n and name != "stolen_ns_unplaced"} == {}
    for thread in ledger.threads:
        indices, times = ledger.indices(thread), thread.times()
        assert indices.rpi is not None
        assert indices.epi is not None
        assert indices.kpi is not None
        assert indices.rpi == indices.epi + indices.kpi + (indices.iopi or 0)
        assert indices.rpi == sum(
            times[kind] for kind in (Kind.EFFECTIVE, Kind.MEMORY, Kind.KERNEL, Kind.POLL, Kind.STALL)
        )
        assert sum(times.values()) == thread.span
        if exact:
            assert thread.span == thread.until - thread.start
    for processor in ledger.processors:
        assert processor.span == ledger.window.duration


def first(ledger: Ledger) -> Thread:
    """The thread that was there first: the command's own."""
    return min(ledger.threads, key=lambda thread: (thread.start, thread.tid))


def time_in(thread: Thread, state: str) -> int:
    return thread.states[state].time if state in thread.states else 0


@pytest.fixture(scope="module")
def some_text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some megabytes that compress neither too well nor too badly."""
    path = tmp_path_factory.mktemp("data") / "text"
    with path.open("wb") as file:
        for i in range(60 if FEW else 160):
            file.write(b"".join(b"%d,%x,%d\n" % (n, n * n * (i + 7), n % 97) for n in range(3000)))
    return path


@mostly_bpf
def test_xz_waits_for_its_two_workers_which_compress(source: str, some_text: Path) -> None:
    needs("xz")
    observation = measure(source, "xz", "-1", "-T2", "--block-size=1MiB", "-k", "-c", some_text)
    assert observation.exit_status == 0
    ledger = observation.ledger
    assert {thread.name for thread in ledger.threads} == {"xz"}
    assert 2 <= len(ledger.threads) <= 3
    main, *workers = sorted(ledger.threads, key=lambda thread: (thread.tid != thread.pid, thread.tid))
    # The first thread reads, writes and waits for the workers, who compress.
    assert time_in(main, "wait.futex") > 0
    for worker in workers:
        indices = ledger.indices(worker)
        assert indices.epi is not None
        assert indices.rpi is not None
        assert 0 < indices.epi <= indices.rpi
        assert worker.pid == main.tid
    if source == "bpf":
        assert main.states["kernel.execve"].count == 1
        assert any(main.states[state].count for state in ("kernel.clone3", "kernel.clone") if state in main.states)
        assert all(thread.end is not None for thread in ledger.threads)
        assert (main.states["kernel.read"].count or 0) > 100


@mostly_proc
def test_what_xz_writes_is_what_it_writes_unmeasured(source: str, some_text: Path, tmp_path: Path) -> None:
    needs("xz")
    command = ["xz", "-0", "-T1", "-k", "-c", str(some_text)]
    with (tmp_path / "measured").open("wb") as output:
        observation = observe(Selection(), command, prefer=source, stdout=output.fileno())
    assert observation.exit_status == 0
    check(observation.ledger)
    assert (tmp_path / "measured").read_bytes() == subprocess.run(command, capture_output=True, check=True).stdout


@mostly_bpf
def test_sqlite_with_a_transaction_an_insert_syncs_in_each(source: str, tmp_path: Path) -> None:
    needs("sqlite3")
    folder = next((p for p in (Path("/var/tmp"), tmp_path) if os.access(p, os.W_OK)), tmp_path)
    database = folder / f"headway-test-{os.getpid()}.db"
    script, transactions = tmp_path / "script.sql", 50 if FEW else 150
    inserts = "".join(f"insert into t values({n}, hex(randomblob(100)));\n" for n in range(transactions))
    many = "insert into t with recursive c(n) as (select 1 union all select n+1 from c where n < 20000) "
    script.write_text(
        f"pragma synchronous=full;\ncreate table t(n integer, s text);\n{inserts}{many}select n, hex(n) from c;\n"
        "select count(*), sum(length(s)) from t;\ncreate index i on t(s);\n"
    )
    try:
        observation = measure(source, "sqlite3", database, f".read {script}")
    finally:
        for path in folder.glob(f"{database.name}*"):
            path.unlink()
    assert observation.exit_status == 0
    thread = first(observation.ledger)
    assert len(observation.ledger.threads) == 1
    assert thread.name == "sqlite3"
    times = thread.times()
    assert times[Kind.EFFECTIVE] > 0
    assert times[Kind.KERNEL] > 0
    if source == "bpf":
        # Two or three for each transaction: the journal, the database, the folder.
        calls = sum(thread.states[s].count or 0 for s in ("kernel.fdatasync", "kernel.fsync") if s in thread.states)
        assert 2 * transactions <= calls <= 6 * (transactions + 10)
        assert thread.states["kernel.pwrite64"].count
        if "wait.disk" in thread.states:  # not where the disk is memory
            assert (thread.states["wait.disk"].count or 0) > 0


@mostly_bpf
def test_a_web_server_under_load_has_a_thread_for_each_request(source: str, tmp_path: Path) -> None:
    (tmp_path / "page").write_bytes(b"x" * 20_000)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, "-m", "http.server", "--bind", "127.0.0.1", "-d", tmp_path, str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    requests = 40
    served: list[int] = []

    begun = threading.Event()

    def ask() -> None:
        begun.wait(250)
        for _ in range(requests):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/page", timeout=250) as answer:
                served.append(len(answer.read()))
            time.sleep(0.005)

    try:
        _until_it_answers(port)
        client = threading.Thread(target=ask)
        client.start()
        observation = measure(source, seconds=1, pids=(server.pid,), started=lambda *_: begun.set())
        client.join()
        assert server.poll() is None, "measuring ends, the server does not"
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(250)
    assert served == [20_000] * requests
    assert observation.exit_status is None
    ledger = observation.ledger
    main = next(thread for thread in ledger.threads if thread.tid == server.pid)
    assert main.end is None
    assert time_in(main, "wait.poll") > 0
    assert (ledger.indices(main).rpi or 0) > 0
    if source == "bpf":
        # A thread for each request; how many of them fell into the window depends on the machine.
        handlers = [thread for thread in ledger.threads if thread is not main]
        assert 0 < len(handlers) <= requests
        together = add_states(*(thread.states for thread in handlers))
        sent = together.get("kernel.sendto")
        assert sent is not None
        assert sent.count is not None
        assert sent.count >= len(handlers) - 1
        assert all(thread.pid == server.pid for thread in handlers)


def _until_it_answers(port: int) -> None:
    deadline = time.monotonic() + 250
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            assert time.monotonic() < deadline
            time.sleep(0.05)


def copy_project(folder: Path, parts: int) -> None:
    """Copy a project with so many of its parts."""
    shutil.copytree(
        PROGRAMS / "project",
        folder,
        dirs_exist_ok=True,
        ignore=lambda _, names: [n for n in names if n.startswith("part") and n[4].isdigit() and int(n[4]) >= parts],
    )


@mostly_proc
def test_gcc_is_measured_with_the_processes_that_it_starts(source: str, tmp_path: Path) -> None:
    needs("gcc")
    copy_project(tmp_path, 1)
    observation = measure(source, "gcc", "-O2", "-o", tmp_path / "program", *tmp_path.glob("*.c"))
    assert observation.exit_status == 0
    assert subprocess.run([tmp_path / "program"]).returncode == 0
    ledger = observation.ledger
    names = [thread.name for thread in ledger.threads]
    driver = first(ledger)
    assert time_in(driver, "wait.child") > 0
    if source == "bpf":
        assert names.count("cc1") == 2
        assert names.count("as") == 2
        assert "ld" in names or "collect2" in names
        assert all(thread.end is not None for thread in ledger.threads)
        assert len({thread.key for thread in ledger.threads}) == len(names)


@mostly_bpf
def test_a_build_has_every_compiler_and_assembler_in_the_ledger(source: str, tmp_path: Path) -> None:
    needs("gcc", "make")
    files = 2 if FEW else 6
    copy_project(tmp_path, files)
    observation = measure(source, "make", "-C", tmp_path, "-j2", "-s")
    assert observation.exit_status == 0
    assert subprocess.run([tmp_path / "program"]).returncode == 0
    ledger = observation.ledger
    names = [thread.name for thread in ledger.threads]
    assert "make" in names
    if source == "bpf":
        assert names.count("cc1") == files + 1
        assert names.count("as") == files + 1
        assert len(names) > 3 * files
        assert all(thread.end is not None for thread in ledger.threads)


def test_a_build_that_fails_keeps_its_exit_status_and_message(tmp_path: Path) -> None:
    needs("gcc")
    (tmp_path / "wrong.c").write_text("int main(void) { return undeclared; }\n")
    report = tmp_path / "report"
    done = subprocess.run(
        [
            *(sys.executable, "-c", "from headway.commands import main; main()"),
            *("stat", "--json", "-o", report, "--", "gcc", "-c", tmp_path / "wrong.c", "-o", tmp_path / "wrong.o"),
        ],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "undeclared" in done.stderr
    assert json.loads(report.read_text())["exit_status"] == 1
