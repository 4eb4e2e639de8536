"""The examples of every language: each marks what it says, as an observer sees it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import headway
from headway.linux.options import Selection
from headway.session.measure import observe

pytestmark = pytest.mark.end_to_end

EXAMPLES = Path(__file__).parents[2] / "examples" / "regions"
REGIONS = {"noneffective.parse", "poll.ring", "user.draw"}


def needs(*programs: str) -> None:
    for program in programs:
        if shutil.which(program) is None:
            pytest.skip(f"needs {program}")
        if subprocess.run([program, "--version"], capture_output=True, check=False).returncode and program != "go":
            pytest.skip(f"needs {program}, which is there and does not work")


def check_regions(command: list[str]) -> None:
    """A program has the regions of the examples. /proc may look too late to see them all."""
    done = observe(Selection(), command)
    assert done.exit_status == 0
    states = {state for thread in done.ledger.threads for state in thread.states}
    found = {state for state in states if state.startswith(("noneffective", "poll", "user."))}
    assert found <= REGIONS
    assert found == REGIONS or done.ledger.source == "proc"


def test_the_example_in_c_marks_its_regions(tmp_path: Path) -> None:
    needs("cc")
    include = f"-I{headway.get_include()}"
    subprocess.run(["cc", "-O2", "-pthread", include, EXAMPLES / "regions.c", "-o", tmp_path / "c"], check=True)
    check_regions([str(tmp_path / "c")])


@pytest.mark.exhaustive
def test_the_example_in_cpp_marks_its_regions(tmp_path: Path) -> None:
    needs("c++")
    include = f"-I{headway.get_include()}"
    subprocess.run(["c++", "-O2", "-pthread", include, EXAMPLES / "regions.cc", "-o", tmp_path / "cc"], check=True)
    check_regions([str(tmp_path / "cc")])


@pytest.mark.exhaustive
def test_the_example_in_rust_marks_its_regions(tmp_path: Path) -> None:
    needs("cc", "ar", "rustc")
    version = subprocess.run(["rustc", "--version"], capture_output=True, text=True, check=True).stdout
    if tuple(map(int, re.findall(r"\d+", version)[:2])) < (1, 63):
        pytest.skip(f"needs rustc 1.63, and there is {version.strip()}")
    compiled = ["-c", str(EXAMPLES / "functions.c"), "-o", "functions.o"]
    subprocess.run(["cc", "-O2", f"-I{headway.get_include()}", *compiled], check=True, cwd=tmp_path)
    subprocess.run(["ar", "rcs", "libfunctions.a", "functions.o"], check=True, cwd=tmp_path)
    target = ["-L", ".", "-l", "static=functions", "-o", "rs"]
    subprocess.run(["rustc", "-O", "--edition", "2021", *target, EXAMPLES / "regions.rs"], check=True, cwd=tmp_path)
    check_regions([str(tmp_path / "rs")])


@pytest.mark.exhaustive
def test_the_example_in_go_marks_its_regions(tmp_path: Path) -> None:
    needs("cc", "go")
    environment = {**os.environ, "CGO_CFLAGS": f"-I{headway.get_include()}", "CGO_ENABLED": "1"}
    build = ["go", "build", "-o", str(tmp_path / "go"), str(EXAMPLES / "regions.go")]
    subprocess.run(build, check=True, env=environment)
    check_regions([str(tmp_path / "go")])


def test_the_example_in_python_marks_its_regions() -> None:
    check_regions([sys.executable, str(EXAMPLES / "regions.py")])
