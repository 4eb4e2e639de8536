"""The page of a trace of the machine."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.machine.examples import EXAMPLES
from tests.running import headway
from tests.views.html.reading import Page

pytestmark = pytest.mark.end_to_end


def test_a_trace_is_exported_as_a_page(tmp_path: Path) -> None:
    target = tmp_path / "out.html"
    words: list[str | Path] = [
        "trace",
        "export",
        EXAMPLES / "sleepers.hwt",
        "--image",
        EXAMPLES / "sleepers.elf",
        "--to",
        "html",
    ]
    done = headway(*words, "-o", target)
    assert (done.returncode, done.stderr) == (0, "")
    said = Page(target.read_text(encoding="utf-8")).document
    assert said["threads"]["name"] == [f"hart {number}" for number in range(6)]
    assert {"user.main", "idle.c1"} <= {*said["states"]}
    assert said["timeline"]["edges"] is not None
    failed = headway(*words, "-o", tmp_path)
    assert failed.returncode == 125
    assert "name another file" in failed.stderr
