"""What the documents say can be typed, can be."""

from __future__ import annotations

import doctest
import re
import shlex
import shutil
from pathlib import Path

import pytest
from tests.running import headway_bytes

from headway_machine import Machine

pytestmark = pytest.mark.end_to_end

ROOT = Path(__file__).parents[2]


def blocks(page: str, language: str = "") -> list[str]:
    """The blocks of code of a page."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def commands(page: str) -> list[str]:
    lines = [line.removeprefix("$ ") for block in blocks(page) for line in block.splitlines()]
    return [line.partition("  ")[0] for line in lines if line.startswith("headway machine ") and "prog.elf" not in line]


COMMANDS = "../headway/docs/commands.md"


@pytest.mark.parametrize("page", [COMMANDS, "docs/machine-runs.md", "examples/machine/README.md"])
def test_commands_work_as_they_are_written(page: str, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=shutil.ignore_patterns("*.c", "*.S"))
    found = commands(page)
    assert found
    for line in found:
        argv = shlex.split(line)
        target = argv[argv.index(">") + 1] if ">" in argv else None
        argv = argv[1 : argv.index(">")] if ">" in argv else argv[1:]
        done = headway_bytes(*argv, cwd=tmp_path)
        assert done.returncode == 0, (line, done.stderr)
        if target is not None:
            (tmp_path / target).write_bytes(done.stdout)


@pytest.mark.parametrize("page", ["docs/machine-runs.md", "docs/machine-debugging.md"])
def test_the_python_of_a_page_gives_what_is_shown(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    text = "\n".join(block for block in blocks(page) if ">>>" in block)
    test = doctest.DocTestParser().get_doctest(text, {}, page, page, 0)
    assert test.examples
    assert doctest.DocTestRunner().run(test).failed == 0


def test_the_device_of_the_debugging_page_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    (block,) = blocks("docs/machine-debugging.md", "python")
    session = Machine(cores=1, threads=6).debug("examples/mutex.elf")
    scope: dict[str, object] = {"session": session}
    exec(block, scope)
    device = session.devices[0x2000_0000]
    device.store(4, 100)
    session.run(cycles=200)
    assert device.load(0) == 1


def test_the_python_of_the_commands_page_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    (block,) = (block for block in blocks(COMMANDS, "python") if "Machine" in block)
    scope: dict[str, object] = {}
    exec(block, scope)
    assert scope["result"].exit_status == 0  # type: ignore[attr-defined]
