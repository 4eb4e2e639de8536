"""-p and the processes that a process has started before: which they are, and that both sources measure them."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.running import headway as run

import headway
from headway.linux.procfs.descendants import below, descendants
from headway.model import violations

SOURCES = [pytest.param("bpf", marks=pytest.mark.root), "proc"]


@pytest.fixture
def family() -> Iterator[int]:
    with subprocess.Popen(
        ["sh", "-c", "sleep 1000 & (sleep 1000; :) & echo; read x; kill 0"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as running:
        assert running.stdout is not None
        running.stdout.readline()
        while len(descendants([running.pid])) < 3:
            time.sleep(0.01)
        yield running.pid
        running.communicate(b"\n")


@pytest.mark.unit
@given(st.dictionaries(st.integers(1, 30), st.integers(0, 30)), st.sets(st.integers(1, 30), max_size=3))
def test_they_are_those_with_a_way_up_to_one_of_the_processes(parents: dict[int, int], pids: set[int]) -> None:
    def is_below(pid: int) -> bool:
        seen = set()
        while pid in parents and pid not in seen:
            seen.add(pid)
            pid = parents[pid]
            if pid in pids:
                return True
        return False

    found = below(pids, parents)
    assert sorted(found) == sorted(pid for pid in parents if is_below(pid) and pid not in pids)
    for place, pid in enumerate(found):
        assert parents[pid] in pids or parents[pid] in found[:place]


@pytest.mark.unit
def test_this_process_and_its_own_are_left_out() -> None:
    own = os.getpid()
    assert below([7], {8: 7, own: 8, own + 1: own}) == (8,)


@pytest.mark.unit
def test_what_proc_says_is_hostile(tmp_path: Path) -> None:
    for name, stat in (("8", b"8 (a) S 7 "), ("9", b"9 (b) S 7 1 1 0 -1 0" + b" 0" * 40), ("x", b""), ("10", b"")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "stat").write_bytes(stat)
    (tmp_path / "11").mkdir()
    zombie = b"12 (c) Z 7 1 1 0 -1 0" + b" 0" * 40
    (tmp_path / "12").mkdir()
    (tmp_path / "12/stat").write_bytes(zombie)
    assert descendants([7], tmp_path) == (9,)


@pytest.mark.kernel
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("follow", [True, False])
def test_what_a_process_started_before_is_measured(family: int, source: str, follow: bool) -> None:
    with headway.observe(family, descendants=True, follow=follow, source=source) as seen:
        pass
    ledger = seen.read()
    assert violations(ledger) == []
    assert {t.pid for t in ledger.threads} == {family, *descendants([family])}
    assert len(ledger.threads) == 4


@pytest.mark.kernel
@pytest.mark.parametrize("source", SOURCES)
def test_on_its_own_it_is_measured_alone(family: int, source: str) -> None:
    with headway.observe(family, source=source) as seen:
        pass
    assert {t.pid for t in seen.read().threads} == {family}


def lines(*words: str) -> list[str]:
    """What ``headway stat`` writes for a tenth of a second."""
    return run("stat", "-d", "0.1", "--source", "proc", *words).stderr.splitlines()


@pytest.mark.kernel
def test_stat_says_so_in_one_line_and_leaves_them_out_if_it_is_told(family: int) -> None:
    (said,) = (line for line in lines("-p", str(family)) if "started" in line)
    assert said == f"headway: measuring process {family} and 3 processes that it started; --only for {family} alone"
    alone = lines("-p", str(family), "--only")
    assert not any("started" in line or line.startswith("sleep") for line in alone)
    assert sum(line.startswith("sleep") for line in lines("-p", str(family))) == 2
    assert "started" not in "".join(lines("-p", str(family), "--json"))


@pytest.mark.unit
def test_only_needs_a_process() -> None:
    done = run("stat", "--only", "-a")
    assert done.returncode == 125
    assert "--only is about processes that are named: give -p PID" in done.stderr
