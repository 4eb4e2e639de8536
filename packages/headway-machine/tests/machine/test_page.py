"""The page of a run of the machine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.machine.examples import EXAMPLES
from tests.running import headway
from tests.views.html.reading import Page

pytestmark = pytest.mark.end_to_end


def test_the_machine_s_page_is_in_cycles(tmp_path: Path) -> None:
    target = tmp_path / "out.html"
    done = headway("machine", "run", EXAMPLES / "integer.elf", "--html", target, "--json")
    said = Page(target.read_text(encoding="utf-8")).document
    report = json.loads(done.stderr)
    assert (said["unit"], said["time_unit"]) == ("cycles", "cycles")
    assert said["threads"]["epi"] == [thread["indices"]["epi"] for thread in report["threads"]]
    assert said["threads"]["me"] == [thread["indices"]["me"] for thread in report["threads"]]
