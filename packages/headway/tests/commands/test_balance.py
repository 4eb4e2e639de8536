"""``headway balance`` changes weights while it runs, and sets them back however it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import jsonschema
import pytest
from tests.running import headway

from headway.linux.placement.journal import journal_folder
from headway.views.schemas import schema_of

LIMIT = 30.0
"""Seconds after which waiting has failed."""


@contextmanager
def spinning(number: int) -> Iterator[list[int]]:
    """Run so many processes that compete for one processor."""
    cpu = max(os.sched_getaffinity(0))
    loop = f"import os; os.sched_setaffinity(0, [{cpu}]); print(flush=True)\nwhile True: pass"
    started = [subprocess.Popen([sys.executable, "-c", loop], stdout=subprocess.PIPE) for _ in range(number)]
    try:
        for process in started:
            assert process.stdout is not None
            process.stdout.readline()
        yield [process.pid for process in started]
    finally:
        for process in started:
            process.kill()
            process.communicate()


def nices(pids: list[int]) -> list[int]:
    return [os.getpriority(os.PRIO_PROCESS, pid) for pid in pids]


def until(reached: bool, pids: list[int]) -> None:
    """Wait until the nice values are what they were, or until they are not."""
    end = time.monotonic() + LIMIT
    while any(nices(pids)) == reached:
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.root
@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGKILL])
def test_weights_are_set_back_however_it_ends(tmp_path: Path, ending: signal.Signals) -> None:
    report = tmp_path / "report"
    words: list[str]
    with spinning(2) as pids:
        share = f"--share={pids[0]}=4"
        words = [
            "balance",
            "-p",
            f"{pids[0]},{pids[1]}",
            share,
            "--source",
            "proc",
            "-I",
            "100",
            "--json",
            "-o",
            str(report),
        ]
        process = subprocess.Popen([sys.executable, "-m", "headway", *words], stderr=subprocess.DEVNULL)
        until(False, pids)
        done = headway("balance", "-p", f"{pids[0]},{pids[1]}", "--source", "proc", "-d", 1)
        assert "is in another balance: end that first" in done.stderr
        process.send_signal(ending)
        assert process.wait() == (-ending if ending is signal.SIGKILL else 0)
        until(True, pids)
    end = time.monotonic() + LIMIT
    while any(path.name.endswith(f"-{process.pid}.json") for path in journal_folder().glob("balance-*")):
        assert time.monotonic() < end
        time.sleep(0.01)
    for line in report.read_text().splitlines():
        document = json.loads(line)
        jsonschema.validate(document, schema_of("balance"))
        assert {party["pid"] for party in document["parties"]} == {*pids}


@pytest.mark.root
def test_the_plan_is_shown_and_nothing_changed() -> None:
    with spinning(2) as pids:
        done = headway("balance", "--dry-run", "-p", pids[0], "-p", pids[1])
        assert nices(pids) == [0, 0]
    assert (done.returncode, done.stdout) == (0, "")
    assert f"will change the nice values of process {pids[0]}" in done.stderr
    assert "each weight stays between 0.1 and 10 of what it was" in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-p", 1], "a balance takes two"),
        (["--cgroup", "/x"], "a balance takes two"),
        (["-p", "1,2", "--threads"], "--threads balances the threads of one process"),
        (["-p", "1,2", "--cgroup", "/x"], "a weight counts among its like"),
        (["-p", "1,2", "--share", "x"], "'x' is no share: write NAME=NUMBER"),
        (["-p", "1,2", "--share", "x=nan"], "'x=nan' is no share"),
        (["-p", "1,2", "--undo"], "--undo sets back what a balance has left"),
        (["--undo", "balance-0"], "there is no balance 'balance-0' to set back"),
        (["-p", "4194304,4194303"], "there is no process 4194304"),
        (["--cgroup", "/nowhere", "--cgroup", "/nowhere2"], "there is no cgroup /nowhere"),
    ],
)
def test_mistakes_get_one_sentence(words: list[object], said: str) -> None:
    done = headway("balance", *words)
    assert done.returncode == 125
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
