"""The version of the sources: by tag, of a clone without tags, of a tarball, and where nothing says it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from tools.version import ROOT, version

import headway

needs_git = pytest.mark.skipif(not shutil.which("git"), reason="needs git")
PREPARED, RELEASED = "# Changelog\n\n## 1.2.0 (unreleased)\n", "# Changelog\n\n## 1.2.0 (2026-12-01)\n"


@pytest.fixture(autouse=True)
def _nothing_given(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What the user has set, and a repository around the temporary folder, say nothing here."""
    for name in [name for name in os.environ if name.startswith("GIT_") or name == "HEADWAY_VERSION"]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)


def git(folder: Path, *arguments: str) -> str:
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    return subprocess.run(["git", "-C", folder, *who, *arguments], capture_output=True, text=True, check=True).stdout


def commit(folder: Path, changelog: str) -> str:
    (folder / "CHANGELOG.md").write_text(changelog)
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--allow-empty", "--message", "a change")
    return git(folder, "rev-parse", "HEAD")[:8]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "--quiet")
    for name in (".git_archival.txt", ".gitattributes"):
        shutil.copy(ROOT / name, folder)
    return folder


@needs_git
def test_a_tag_is_the_version_and_commits_after_it_prepare_the_next_release(repository: Path) -> None:
    commit(repository, PREPARED.replace("1.2.0", "1.1.0"))
    commit(repository, RELEASED.replace("1.2.0", "1.1.0"))
    git(repository, "tag", "v1.1.0")
    git(repository, "tag", "another")
    assert version(repository) == "1.1.0"
    last = commit(repository, PREPARED)
    assert version(repository) == f"1.2.0.dev1+g{last}"
    last = commit(repository, RELEASED)
    assert version(repository) == f"1.2.0+g{last}"
    git(repository, "tag", "--annotate", "--message", "1.2.0", "v1.2.0")
    assert version(repository) == "1.2.0"


@needs_git
def test_a_release_candidate_is_its_tag(repository: Path) -> None:
    commit(repository, PREPARED)
    git(repository, "tag", "v1.2.0rc1")
    assert version(repository) == "1.2.0rc1"
    last = commit(repository, PREPARED)
    assert version(repository) == f"1.2.0.dev1+g{last}"


@needs_git
def test_a_clone_that_has_no_tags_counts_what_it_has(repository: Path, tmp_path: Path) -> None:
    commit(repository, PREPARED)
    last = commit(repository, PREPARED)
    assert version(repository) == f"1.2.0.dev2+g{last}"
    git(tmp_path, "clone", "--quiet", "--depth=1", "--no-tags", repository.as_uri(), "shallow")
    assert version(tmp_path / "shallow") == f"1.2.0.dev0+g{last}"


@needs_git
def test_a_tarball_of_a_code_host_knows_its_tag_and_its_commit(repository: Path, tmp_path: Path) -> None:
    def unpacked() -> Path:
        folder = tmp_path / "unpacked"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        git(repository, "archive", "--output", str(tmp_path / "it.tar"), "HEAD")
        shutil.unpack_archive(tmp_path / "it.tar", folder)
        return folder

    last = commit(repository, PREPARED)
    assert version(unpacked()) == f"1.2.0.dev0+g{last}"
    commit(repository, RELEASED)
    git(repository, "tag", "v1.2.0")
    assert version(unpacked()) == "1.2.0"
    last = commit(repository, PREPARED.replace("1.2.0", "1.3.0"))
    assert version(unpacked()) == f"1.3.0.dev1+g{last}"


@needs_git
def test_an_outer_repository_says_nothing_of_sources_within_it(repository: Path) -> None:
    commit(repository, RELEASED)
    git(repository, "tag", "v9.0")
    inner = repository / "inner"
    inner.mkdir()
    (inner / "CHANGELOG.md").write_text(PREPARED)
    assert version(inner) == "1.2.0.dev0"


def test_an_sdist_has_it_recorded(tmp_path: Path) -> None:
    (tmp_path / "CHANGELOG.md").write_text(RELEASED)
    (tmp_path / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: headway\nVersion: 1.1.5.dev3+g0123abcd\n")
    assert version(tmp_path) == "1.1.5.dev3+g0123abcd"


def test_without_git_the_changelog_says_what_is_prepared_or_released(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    assert version(tmp_path) == "0.dev0"
    (tmp_path / "CHANGELOG.md").write_text(PREPARED)
    assert version(tmp_path) == "1.2.0.dev0"
    (tmp_path / "CHANGELOG.md").write_text(RELEASED)
    assert version(tmp_path) == "1.2.0"


def test_who_packages_headway_may_say_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWAY_VERSION", "v1.2.3")
    assert version(tmp_path) == "1.2.3"


def test_the_changelog_and_the_installed_package_have_versions() -> None:
    heading = re.search(
        r"^## (\S+) \((unreleased|\d{4}-\d\d-\d\d)\)$",
        (ROOT / "packages/headway/CHANGELOG.md").read_text(),
        re.MULTILINE,
    )
    assert heading
    assert re.fullmatch(r"\d+(\.\d+)*((a|b|rc)\d+)?(\.dev\d+)?(\+g[0-9a-f]{8})?", headway.__version__)
