"""The base install as users have it: a fresh environment with what pyproject.toml requires, and nothing else."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tomllib
import urllib.request
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from headway.extras import EXTRAS

pytestmark = [
    pytest.mark.exhaustive,  # tests/test_extras.py hides the packages of extras instead
]
ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
SECONDS = 120


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of a fresh environment: the packages come from an index, headway is the one that is tested here."""
    folder = tmp_path_factory.mktemp("fresh") / "venv"
    made = subprocess.run([sys.executable, "-m", "venv", folder], capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.skip(f"no environment can be made here: {made.stdout.strip()}")
    python = folder / "bin" / "python"
    pip: list[str | Path] = [
        python,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--no-compile",
        "--retries",
        "1",
    ]
    installed = subprocess.run([*pip, *PROJECT["dependencies"]], capture_output=True, text=True, check=False)
    if installed.returncode:
        pytest.skip(f"needs network, or a package index: {installed.stderr.strip().splitlines()[-1]}")
    packages = subprocess.check_output(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('platlib'))"], text=True
    ).strip()
    _put_headway(Path(packages))
    return python


def _put_headway(packages: Path) -> None:
    """Install headway as it is installed here, built already: its files are copied."""
    ours = importlib.metadata.distribution("headway")
    for file in ours.files or []:
        if ".." not in file.parts and "__pycache__" not in file.parts:
            target = packages / file
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(str(ours.locate_file(file)), target)


def headway(python: Path, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [python, "-c", "from headway.commands import main; main()", *arguments],
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


def test_the_base_install_has_no_package_of_an_extra(python: Path) -> None:
    listed = subprocess.check_output([python, "-m", "pip", "list", "--format", "json"], text=True)
    names = {canonicalize_name(package["name"]) for package in json.loads(listed)}
    assert {canonicalize_name(Requirement(text).name) for text in PROJECT["dependencies"]} <= names
    assert not names & {canonicalize_name(name) for about in EXTRAS.values() for name in about.packages.values()}


def test_stat_measures_a_command(python: Path, tmp_path: Path) -> None:
    done = headway(python, "stat", "--json", "-o", "out.json", "--", "sh", "-c", "exit 3", cwd=tmp_path)
    assert done.returncode == 3, done.stderr
    document = json.loads((tmp_path / "out.json").read_text())
    assert document["schema"] == "headway.stat/1"
    assert document["threads"]


def test_stat_writes_a_table_and_a_page(python: Path, tmp_path: Path) -> None:
    done = headway(python, "stat", "-v", "--html", "page.html", "--", "true", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[0].startswith("thread") or "measuring with /proc" in done.stderr
    assert (tmp_path / "page.html").read_text().startswith("<!doctype html>")


def test_the_demo_runs(python: Path, tmp_path: Path) -> None:
    done = headway(python, "demo", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr


def test_doctor_says_what_can_be_measured(python: Path, tmp_path: Path) -> None:
    done = headway(python, "doctor", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["schema"] == "headway.doctor/1"


def test_cpu_and_schema_agree(python: Path, tmp_path: Path) -> None:
    done = headway(python, "cpu", "-d", "0.2", "--json", "-o", "cpu.json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    schema = json.loads(headway(python, "schema", "cpu", cwd=tmp_path).stdout)
    document = json.loads((tmp_path / "cpu.json").read_text().splitlines()[0])
    assert {*schema["required"]} <= {*document}


def test_serve_starts_and_answers(python: Path, tmp_path: Path) -> None:
    # Measured as any user can: what is asked here is whether it starts and answers, not how exact it is.
    words = ["serve", "--source", "proc", "--listen", "127.0.0.1:0", "-p", str(os.getpid()), "-d", str(SECONDS)]
    served = subprocess.Popen(
        [python, "-c", "from headway.commands import main; main()", *words],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert served.stderr is not None
    try:
        said = served.stderr.readline()
        found = re.search(r"http://127\.0\.0\.1:\d+/", said)
        assert found, said
        with urllib.request.urlopen(f"{found[0]}metrics", timeout=SECONDS) as answer:
            assert b"headway_" in answer.read()
    finally:
        served.send_signal(signal.SIGINT)
        served.wait(SECONDS)
        served.stderr.close()


@pytest.mark.parametrize("arguments", [["record", "--", "true"], ["profile", "--", "true"], ["report", "run.hw"]])
def test_a_recording_says_what_to_install(python: Path, arguments: list[str], tmp_path: Path) -> None:
    done = headway(python, *arguments, cwd=tmp_path)
    assert done.returncode == 125
    assert done.stderr.endswith("which are not installed: pip install 'headway[recording]'\n")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(("command", "distribution"), [("machine", "headway-machine"), ("trace", "headway-trace")])
def test_a_command_of_another_distribution_says_what_to_install(
    python: Path, command: str, distribution: str, tmp_path: Path
) -> None:
    done = headway(python, command, "--help", cwd=tmp_path)
    assert done.returncode == 125
    assert f"comes with {distribution}, which is not installed: pip install {distribution}" in done.stderr
