"""The losses: one table from which code, reports, metrics and documents take them."""

from __future__ import annotations

import re
from pathlib import Path

from headway.linux.bpf._memory import LOSSES
from headway.model import KNOWN_LOSSES

ROOT = Path(__file__).parents[2]


def test_the_page_is_the_table() -> None:
    rows = [
        f"| `{loss.name}` | {loss.unit} | {loss.what} |"
        for loss in sorted(KNOWN_LOSSES.values(), key=lambda one: one.name)
    ]
    page = (ROOT / "docs/losses.md").read_text(encoding="utf-8")
    assert [line for line in page.splitlines() if line.startswith("| `")] == rows


def test_every_loss_that_the_programs_count_has_a_name_and_a_place() -> None:
    layout = (ROOT / "src/headway/linux/bpf/layout.h").read_text(encoding="utf-8")
    declared = set(re.findall(r"^\t(LOST_\w+),", layout, re.MULTILINE))
    assert declared == set(LOSSES) == {loss.constant for loss in KNOWN_LOSSES.values() if loss.constant}
    assert sorted(LOSSES.values()) == list(range(len(LOSSES)))
