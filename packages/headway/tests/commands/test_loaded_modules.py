"""What commands load: a command starts the faster the fewer modules it loads, and the lighter they are."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence, Set
from pathlib import Path

import pytest

SCRIPT = """
import atexit, json, sys

before, (path, *sys.argv[1:]) = {*sys.modules}, sys.argv[1:]
found = {}

@atexit.register
def tell():
    found["at the end"] = sorted({*sys.modules} - before)
    with open(path, "w") as stream:
        json.dump(found, stream)

from headway import exhaustion
from headway.commands import main

at_once = exhaustion.at_once

def noted(work, meanwhile):
    found["as loading begins"] = sorted({*sys.modules} - before)
    return at_once(work, meanwhile)

exhaustion.at_once = noted

main()
"""
"""Runs the command line, and writes which modules it has loaded: in the end, and as it begins with eBPF programs."""
ALWAYS_HEAVY = (
    "asyncio",
    "concurrent.futures",
    "elftools",
    "email",
    "h11",
    "headway.recording",
    "http",
    "importlib.metadata",
    "logging",
    "multiprocessing",
    "numpy",
    "pyarrow",
    "rich.console",
    "rich.progress",
    "rich.table",
    "rich.text",
    "socket",
    "textual",
    "unittest",
    "xml",
)
"""What takes long to load and is for other commands."""
OF_ADDED = {"email", "importlib.metadata", "pathlib", "socket"}
"""What finding the commands of other distributions takes."""
OF_REPORTS = (
    "headway.advice.policy",
    "headway.linux.placement",
    "headway.model.hotspots",
    "headway.model.profile",
    "headway.model.transitions",
    "headway.model.utilisation",
    "headway.views.json",
    "headway.views.why",
    "importlib.resources",
    "rich.style",
    "statistics",
    "tempfile",
    "tomllib",
    "zipfile",
)
"""What a plain table of a command does not need either."""
OF_EBPF = ("headway.linux.bpf", "headway.linux.sources.ebpf")


def loaded(path: Path, *arguments: str, when: str = "at the end") -> set[str]:
    """Return the modules that a command has loaded."""
    words = [sys.executable, "-P", "-c", SCRIPT, str(path), *arguments]
    done = subprocess.run(words, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr
    return {*json.loads(path.read_text())[when]}


NEEDED_LATER = (
    "headway.advice",
    "headway.linux.bpf.costs.calibration",
    "headway.linux.bpf.programs.attaching",
    "headway.linux.bpf.reading",
    "headway.linux.sources.ebpf.measurement",
    "headway.model.ledger",
    "headway.verdict",
    "headway.views.table",
    "json",
    "rich",
)
"""What is not needed until the eBPF programs are loaded."""
OF_FEW = (
    "difflib",
    "headway.conditions",
    "headway.linux.bpf.tables",
    "headway.linux.sources.ebpf.budget",
    "headway.linux.sources.ebpf.contexts",
    "headway.linux.sources.ebpf.depth",
    "headway.linux.sources.ebpf.level_control",
    "headway.linux.sources.ebpf.uses",
)
"""What only some options need."""
NEEDED_BY_EBPF = {"socket"}
"""The kernel tells by one which processors come back."""


_LINUX = ("headway.linux.bpf", "headway.linux.options", "headway.linux.procfs", "headway.linux.sources")
NEED_LITTLE = (*_LINUX, "ctypes", "headway.model", "headway.views", "pathlib", "rich")
COMMANDS: Mapping[str, tuple[Sequence[str], int]] = {
    "--version": (NEED_LITTLE, 80),
    "--help": (NEED_LITTLE, 150),
    "stat --help": ((*OF_REPORTS, *OF_EBPF, "ctypes", "headway.linux.sources.proc"), 130),
    "stat -q --source proc -- true": ((*OF_REPORTS, *OF_EBPF), 200),
}
"""Commands, what they do not load, and how many modules they load at most."""


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_loads_no_more_than_it_needs(tmp_path: Path, command: str) -> None:
    without, most = COMMANDS[command]
    found = loaded(tmp_path / "modules", *command.split())
    allowed = OF_ADDED if command == "--help" else set()
    assert_without(found, {*ALWAYS_HEAVY, *without} - allowed, most)


def assert_without(found: Set[str], names: Iterable[str], most: int) -> None:
    """None of the modules has one of these names or is in a package of that name, and there are so many at most."""
    for name in names:
        assert not {one for one in found if one == name or one.startswith(f"{name}.")}
    assert len(found) <= most, sorted(found)


@pytest.mark.root
def test_the_kernel_has_the_programs_before_what_is_needed_later_is_loaded(tmp_path: Path) -> None:
    """It verifies them meanwhile."""
    found = loaded(tmp_path / "modules", "stat", "--", "true", when="as loading begins")
    assert_without(found, (*ALWAYS_HEAVY, *OF_REPORTS, *NEEDED_LATER), 175)


@pytest.mark.root
def test_measuring_by_ebpf_loads_no_more_than_it_needs(tmp_path: Path) -> None:
    found = loaded(tmp_path / "modules", "stat", "--quiet", "--", "true")
    assert_without(found, {*ALWAYS_HEAVY, *OF_REPORTS, *OF_FEW} - NEEDED_BY_EBPF, 270)


def test_a_command_that_ends_at_once_is_not_advised(tmp_path: Path) -> None:
    """Advice is about 10 ms and more; the thresholds say so, without the policy being loaded."""
    file = tmp_path / "thresholds.toml"
    file.write_text(f"least_ns = {10**18}\n")
    found = loaded(tmp_path / "modules", "stat", "--source", "proc", "--thresholds", str(file), "--", "true")
    assert "headway.advice.thresholds" in found
    assert "headway.advice.policy" not in found
