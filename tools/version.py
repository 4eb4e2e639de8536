#!/usr/bin/env python3
"""Print headway's version, for meson.build. Where it comes from, the first that is there:

1. ``HEADWAY_VERSION`` in the environment, which packagers and container builds set;
2. ``PKG-INFO``, which an sdist has;
3. ``.git_archival.txt``, into which ``git archive`` writes the tag and the commit, as code hosts do for their tarballs;
4. git: the tag ``v1.2.3`` of a release is the version ``1.2.3``;
5. the first heading of headway's ``CHANGELOG.md``: the release that is being prepared.

A commit without a tag is a development version of the release that ``CHANGELOG.md`` prepares: ``1.2.3.dev45+g0123abcd``
is 45 commits after the last release (PEP 440). The number is 0 where the history is not there to count.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_VERSION = r"\d+(?:\.\d+)*(?:(?:a|b|rc)\d+)?(?:\.post\d+)?"
_HEADING = re.compile(rf"^## ({_VERSION}) \(([^)]*)\)$", re.MULTILINE)
_DESCRIBED = re.compile(rf"v({_VERSION})(?:-(\d+)-g([0-9a-f]+))?")


def version(root: Path = ROOT) -> str:
    """Return the version of the sources in a folder."""
    if given := os.environ.get("HEADWAY_VERSION", "").removeprefix("v"):
        return given
    recorded = re.search(r"^Version: (\S+)$", _text(root / "PKG-INFO"), re.MULTILINE)
    if recorded:
        return recorded[1]
    release, prepared = _heading(root)
    described, commits, commit = _archived(root) or _described(root)
    if described and not commits:
        return described
    if not prepared:
        return f"{release}+g{commit}" if commit else release
    return f"{release}.dev{commits}" + (f"+g{commit}" if commit else "")


def _heading(root: Path) -> tuple[str, bool]:
    """Return the version of the changelog's first heading, and whether it is not released yet."""
    found = _HEADING.search(_text(root / "packages/headway/CHANGELOG.md") or _text(root / "CHANGELOG.md"))
    return (found[1], found[2] == "unreleased") if found else ("0", True)


def _archived(root: Path) -> tuple[str, int, str] | None:
    """Return what ``git archive`` wrote, as `_described` does; None where it wrote nothing."""
    fields = dict(re.findall(r"^([\w-]+): *([^$\n]+)$", _text(root / ".git_archival.txt"), re.MULTILINE))
    return _parsed(fields.get("describe-name", ""), fields["node"][:8]) if "node" in fields else None


def _described(root: Path) -> tuple[str, int, str]:
    """Return the last release's version, the commits since, and the commit, as git knows them; empty and 0 if not."""
    # A tarball that is unpacked within another repository is not described by that one.
    if _git(root, "rev-parse", "--show-prefix") != "":
        return "", 0, ""
    commit = (_git(root, "rev-parse", "HEAD") or "")[:8]
    if described := _git(root, "describe", "--tags", "--match", "v[0-9]*"):
        return _parsed(described, commit)
    if _git(root, "rev-parse", "--is-shallow-repository") == "false":
        return "", int(_git(root, "rev-list", "--count", "HEAD") or 0), commit
    return "", 0, commit


def _parsed(described: str, commit: str) -> tuple[str, int, str]:
    found = _DESCRIBED.fullmatch(described)
    return (found[1], int(found[2] or 0), commit) if found else ("", 0, commit)


def _git(root: Path, *arguments: str) -> str | None:
    """Return what a git command prints; None where git, the repository or the right to read it is missing."""
    try:
        done = subprocess.run(["git", "-C", root, *arguments], capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""


if __name__ == "__main__":
    sys.stdout.write(version() + "\n")
