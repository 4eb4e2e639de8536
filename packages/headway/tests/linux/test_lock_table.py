"""Locks that threads wait for: how long they were held meanwhile, and what their holders did."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.compiling import Compile

from headway.commands import record
from headway.linux.bpf.waits.causes import CauseReader
from headway.linux.options import MeasureOptions
from headway.model.uses import LockUse
from headway.session.lock_names import LockNames

from .measuring import measure, say_when_looked

pytestmark = [pytest.mark.root, pytest.mark.kernel]

LOCKS = MeasureOptions(why=True, locks=True)


@pytest.fixture
def locks(compile_c: Compile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, LockUse]:
    say_when_looked(monkeypatch, tmp_path, CauseReader, "look")
    ledger, _ = measure(compile_c("holder_doing"), options=LOCKS)
    assert ledger.uses is not None
    assert ledger.uses.locks is not None
    return {lock.name: lock for lock in ledger.uses.locks}


@pytest.mark.parametrize(("name", "state"), [("sleepy_lock", "wait.sleep"), ("parent_lock", "wait.child")])
def test_the_holder_is_known_and_what_it_did_meanwhile(locks: dict[str, LockUse], name: str, state: str) -> None:
    lock = locks[f"holder_doing: {name}"]
    assert (lock.waits, lock.is_lock) == (1, True)
    assert lock.held == lock.waited, "one thread waited"
    (holder,) = lock.holders
    assert (holder.name, holder.waits, holder.waited) == ("holder_doing", 1, lock.waited)
    doing = holder.doing
    assert sum(doing.values()) <= lock.waited
    assert sum(doing.values()) >= 0.9 * lock.waited
    assert doing[state] >= 250_000_000, "it slept, or its child did, for 300 ms"


def test_a_recording_tells_the_same_of_its_rows(
    compile_c: Compile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    say_when_looked(monkeypatch, tmp_path, LockNames, "look")
    run = tmp_path / "run.hw"
    headway = [sys.executable, "-c", "from headway.commands import main; main()"]
    recorded = CliRunner().invoke(record.command, ["-o", str(run), "--", str(compile_c("holder_doing"))])
    assert recorded.exit_code == 0, recorded.output
    told = subprocess.run([*headway, "report", "--locks", "--json", str(run)], check=True, capture_output=True)
    found = {lock["name"]: lock for lock in json.loads(told.stdout)["locks"]}
    for name, state in (("sleepy_lock", "wait.sleep"), ("parent_lock", "wait.child")):
        lock = found[f"holder_doing: {name}"]
        assert (lock["waits"], lock["is_lock"], lock["held"]) == (1, True, lock["waiting"])
        (holder,) = lock["holders"]
        assert (holder["name"], holder["waiting"]) == ("holder_doing", lock["waiting"])
        assert sum(holder["doing"].values()) == lock["held"]
        assert holder["doing"][state] >= 250_000_000
