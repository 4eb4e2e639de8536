"""The losses: one table from which code, reports, metrics and documents take them."""

from __future__ import annotations

from pathlib import Path

from headway.model import KNOWN_LOSSES

ROOT = Path(__file__).parents[2]


def test_the_page_is_the_table() -> None:
    rows = [
        f"| `{loss.name}` | {loss.unit} | {loss.what} |"
        for loss in sorted(KNOWN_LOSSES.values(), key=lambda one: one.name)
    ]
    page = (ROOT / "docs/losses.md").read_text(encoding="utf-8")
    assert [line for line in page.splitlines() if line.startswith("| `")] == rows
