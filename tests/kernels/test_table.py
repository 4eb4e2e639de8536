"""The table of platforms says what was found, and nothing that was not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from .table import BEGIN, END, Run, insert, load, render, save

BOOT = {"task": "boot", "release": "6.1.0-56-amd64", "machine": "x86_64", "processors": 4}
EXACT = {"task": "shape: stat -p", "verdict": "exact", "threads": 3, "losses": {}, "seconds": 2.0}
REFUSED = {"task": "shape: stat -e", "verdict": "refused", "why": "charge_event:\nR2 unbounded", "trace": "…"}


def test_a_cell_says_what_came_out_and_a_note_says_why() -> None:
    text = render([Run.of([BOOT, EXACT, REFUSED], finished=True)])
    assert "| `stat -p` | exact |" in text
    assert "| `stat -e` | refused [1] |" in text
    assert "[1] charge_event: R2 unbounded" in text


def test_what_came_out_alike_in_every_guest_has_one_row() -> None:
    more = [{**EXACT, "task": task} for task in ("shape: stat -a", "law: xz", "law: compiler")]
    text = render([Run.of([BOOT, EXACT, REFUSED, *more], finished=True)])
    assert "| `stat -p`, `stat -a`, program: xz, compiler | exact |" in text
    assert "| `stat -e` | refused [1] |" in text


def test_what_a_guest_did_not_come_to_is_not_called_exact() -> None:
    whole = Run.of([BOOT, EXACT, {**EXACT, "task": "law: xz"}], finished=True)
    hung = Run.of([{**BOOT, "processors": 8}, EXACT], finished=False)
    assert "| program: xz | exact | the guest hung |" in render([whole, hung])


def test_a_hung_run_does_not_take_what_an_earlier_one_found_for_its_own() -> None:
    before = Run.of([BOOT, EXACT, REFUSED], finished=True)
    hung = Run.of([BOOT, EXACT], finished=False).renewed(before)
    assert "| `stat -e` | the guest hung |" in render(
        [hung, Run.of([{**BOOT, "processors": 8}, REFUSED], finished=True)]
    )


def test_what_was_lost_and_when_it_was_found_are_told() -> None:
    old = {**REFUSED, "date": "2026-01-01"}
    fresh = Run.of([BOOT, {**EXACT, "losses": {"handlers_skipped": 2}}], finished=True)
    text = render([replace(fresh, findings=(*fresh.findings, old))])
    assert "| exact, lost: handlers skipped 2 |" in text
    assert f"| date | 2026-01-01 to {fresh.date} |" in text


def test_a_later_run_of_one_task_renews_that_one_alone() -> None:
    before = Run.of([BOOT, EXACT, REFUSED], finished=True)
    after = Run.of([BOOT, {**REFUSED, "verdict": "exact", "why": None}], finished=True).renewed(before)
    assert [found["verdict"] for found in after.findings] == ["exact", "exact"]


def test_runs_are_kept_and_the_document_around_the_table_stays(tmp_path: Path) -> None:
    run = Run.of([BOOT, EXACT], finished=True)
    save([run], tmp_path / "results.json")
    assert load(tmp_path / "results.json") == {run.key: run}
    document = tmp_path / "platforms.md"
    document.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    insert(document, render([run]))
    text = document.read_text()
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    assert "old" not in text
