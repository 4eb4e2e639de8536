"""A release: its news are those of its tag, and what makes it has few rights and actions that do not change."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from tools.release_notes import ROOT, notes

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FORMS = sorted(path for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml") if path.name != "config.yml")
CHANGELOG = "# Changelog\n\n## 1.2.0 (2026-12-01)\n\n- New.\n\n## 1.1.0 (2026-11-01)\n\n- Old.\n"


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def test_the_news_are_those_of_the_first_release() -> None:
    assert notes(CHANGELOG) == notes(CHANGELOG, "v1.2.0") == "- New.\n"


@pytest.mark.parametrize(
    ("changelog", "tag", "why"),
    [
        (CHANGELOG, "v1.3.0", "the tag v1.3.0 is not of the first release in the changelog, 1.2.0"),
        (CHANGELOG.replace("2026-12-01", "unreleased"), "v1.2.0", "give it the date of its release"),
        ("# Changelog\n", "v1.2.0", "the changelog has no heading"),
    ],
)
def test_a_tag_of_another_release_or_one_without_a_date_makes_no_release(changelog: str, tag: str, why: str) -> None:
    with pytest.raises(ValueError, match=re.escape(why)):
        notes(changelog, tag)


def test_a_candidate_needs_no_date() -> None:
    assert notes(CHANGELOG.replace("2026-12-01", "unreleased"), "v1.2.0rc1") == "- New.\n"


def test_the_changelog_has_news_that_a_user_reads() -> None:
    news = notes((ROOT / "packages/headway/CHANGELOG.md").read_text(encoding="utf-8"))
    assert 0 < len(news.splitlines()) <= 100


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_actions_of_others_are_pinned_by_commit_and_say_their_version(path: Path) -> None:
    used = re.findall(r"uses: (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    assert used
    pinned = re.compile(r"(\./.*\.yml|[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+)")
    assert [action for action in used if not pinned.fullmatch(action)] == []


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_only_the_job_that_publishes_may_write(path: Path) -> None:
    workflow = read(path)
    assert workflow["permissions"] in ({}, {"contents": "read"})
    rights = {name: job["permissions"] for name, job in workflow["jobs"].items() if "permissions" in job}
    assert {name for name, right in rights.items() if "write" in right.values()} <= {"publish"}


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_what_a_workflow_runs_of_the_project_is_there(path: Path) -> None:
    named = set(re.findall(r"(?:\.ci|tools|\.github)/[\w./]*\w", path.read_text(encoding="utf-8")))
    assert {name for name in named if not (ROOT / name).exists()} <= {".github/ISSUE_TEMPLATE/"}


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.name)
def test_a_form_for_issues_asks_for_something(path: Path) -> None:
    form = read(path)
    fields = [field for field in form["body"] if field["type"] != "markdown"]
    assert form["name"]
    assert form["description"]
    assert any(field.get("validations", {}).get("required") for field in fields)
    assert len({field["id"] for field in fields}) == len(fields)


def test_forms_about_measuring_ask_what_doctor_says() -> None:
    for name in ("bug", "wrong-figure"):
        text = (ROOT / ".github" / "ISSUE_TEMPLATE" / f"{name}.yml").read_text(encoding="utf-8")
        assert "headway doctor" in text


def test_what_has_an_owner_is_there() -> None:
    lines = (ROOT / ".github" / "CODEOWNERS").read_text(encoding="utf-8").splitlines()
    paths = [line.split()[0] for line in lines if line and not line.startswith("#")]
    assert [path for path in paths if path != "*" and not list(ROOT.glob(path.strip("/")))] == []
