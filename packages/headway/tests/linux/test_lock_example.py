"""The README's example of a lock: the wait has the lock's name, and the thread that released it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.root, pytest.mark.kernel]

SEARCH = Path(__file__).parents[2] / "examples" / "locks" / "search.c"


@pytest.mark.skipif(not shutil.which("cc"), reason="needs cc")
def test_the_searches_wait_for_the_index_until_it_is_renewed(tmp_path: Path) -> None:
    program, report = tmp_path / "search", tmp_path / "report.json"
    twice = SEARCH.read_text().replace("RENEWALS = 10", "RENEWALS = 2")
    assert twice != SEARCH.read_text()
    words = ["cc", "-O2", "-Wall", "-Werror", "-pthread", "-x", "c", "-", "-o", str(program)]
    subprocess.run(words, input=twice, text=True, check=True)
    headway = [sys.executable, "-c", "from headway.commands import main; main()"]
    options = ["stat", "--why", "wait", "--json", "-o", str(report), "--", str(program)]
    subprocess.run([*headway, *options], check=True, capture_output=True, timeout=120)
    threads = {thread["name"]: thread for thread in json.loads(report.read_text())["threads"]}
    causes = [cause for cause in threads["search"]["causes"] if cause["state"] == "wait.futex"]
    assert {cause["name"] for cause in causes if cause["behind"] == "object"} >= {"search: index_lock"}
    assert threads["renew-index"]["tid"] in {cause["tid"] for cause in causes if cause["behind"] == "waker"}
