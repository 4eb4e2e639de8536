from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from click.testing import CliRunner

from headway.commands import demo
from headway.demo import Truth
from headway.errors import HeadwayError
from headway.linux.options import MeasureOptions, Selection
from headway.linux.sources.source import LinuxSource
from headway.model import Cell, Ledger, Overhead, Precision, Quality, Thread, Window
from headway.session.measure import Observation

pytestmark = pytest.mark.end_to_end
measures = pytest.mark.alone
"""What the program does is compared with what is measured of it, while nothing else runs."""

SAMPLED = Precision(Quality.EXACT, Quality.SAMPLED, Quality.UNAVAILABLE, Quality.SAMPLED, Quality.UNAVAILABLE)
NAMES = ["compute", "memory", "syscalls", "lock", "holder", "sleeper", "dodger", "disk", "poller", "marked"]


def believing(truth: Truth) -> Ledger:
    """A ledger that agrees with the program about its processor time, and splits it as the tick would."""
    threads = []
    for thread in truth.threads:
        if thread.figures is None:
            continue
        cpu, elapsed = thread.figures.cpu_ns, max(thread.figures.elapsed_ns, thread.figures.cpu_ns)
        states = {"user": Cell(cpu), "kernel": Cell(0), "wait.futex": Cell(elapsed - cpu)}
        threads.append(Thread(thread.tid, truth.pid, thread.name, 0, 0, elapsed, elapsed, elapsed, states))
    window = Window(0, max(t.span for t in threads))
    return Ledger("proc", window, tuple(threads), precision=SAMPLED, overhead=Overhead(1_500_000, 1234))


class _Source:
    name = "proc"


@cache
def written(*command: str) -> bytes:
    """What the program writes, which is run once for all who do not measure it."""
    return subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout


class Observer:
    """Has the command's output without measuring it."""

    def __init__(self, status: int = 0) -> None:
        self.status = status
        self.prefer: str | None = "not called"

    def __call__(
        self,
        selection: Selection,
        command: list[str],
        *,
        options: MeasureOptions,
        prefer: str | None,
        stdout: int,
        started: Callable[[LinuxSource, str], None],
    ) -> Observation:
        self.prefer = prefer
        started(_Source(), "")  # type: ignore[arg-type]
        output = written(*command)
        output = re.sub(rb'"tick_kernel_ns": \d+', b'"tick_kernel_ns": 0', output)  # deceived, as it is meant to be
        os.write(stdout, output)
        return Observation(believing(Truth.parse(output.decode())), self.status, "")


def invoke(*arguments: str, color: bool = False) -> str:
    result = CliRunner().invoke(demo.command, ["--seconds", "0.3", *arguments], catch_exceptions=False, color=color)
    assert result.exit_code == 0
    return result.output


def crossed(output: str) -> list[str]:
    return [line for line in output.splitlines() if line.startswith("✗")]


@measures
@pytest.mark.root
def test_as_root_every_claim_is_ticked_on_one_screen() -> None:
    output = invoke("--source", "bpf")
    lines = output.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    assert lines[0] == "threads that know what they do, for 0.3 s; measured by eBPF, every transition"
    rows = {line[2:11].strip(): line[0] for line in lines[1:12]}
    right = dict.fromkeys([*NAMES, "all 10"], "✓")
    if "it never had to wait" in output:  # where processors are scarce, lock may never come while holder has the mutex
        right["lock"] = "–"
    if "lost:" not in output:  # the kernel may skip a handler, and a count that is then wrong is not ticked
        assert rows == right, output
    assert crossed(output) == []
    assert "to the nanosecond" in output


@measures
def test_as_an_ordinary_user_what_is_not_seen_is_said_and_nothing_is_crossed() -> None:
    output = invoke("--source", "proc")
    lines = output.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    assert lines[0].endswith("measured by /proc, sampled")
    assert [line[0] for line in lines[1:12]] == ["–"] * 11, output
    assert "unseen: calls" in output
    assert crossed(output) == []


@measures
@pytest.mark.parametrize("source", ["proc", pytest.param("bpf", marks=pytest.mark.root)])
def test_the_comparison_has_every_thread(source: str) -> None:
    output = invoke("-v", "--source", source)
    for name in NAMES:
        assert f"\n{name} " in output
    assert "waiting, all in all" in output
    assert max(map(len, output.splitlines())) <= 80


@measures
@pytest.mark.parametrize("source", ["proc", pytest.param("bpf", marks=[pytest.mark.root, pytest.mark.exhaustive])])
def test_the_page_is_of_this_measurement(source: str, tmp_path: Path) -> None:
    page = tmp_path / "demo.html"
    output = invoke("--html", str(page), "--source", source)
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert "this as a page" in output
    assert os.listdir(tmp_path) == ["demo.html"]


@measures
def test_without_a_page_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    invoke("--source", "proc")
    assert os.listdir(tmp_path) == []


def test_the_source_is_the_one_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    observer = Observer()
    monkeypatch.setattr(demo, "observe", observer)
    output = invoke("--source", "proc", "-v")
    assert observer.prefer == "proc"
    assert "the kernel's accounting" in output
    assert "so is this source" in output
    assert "\x1b" not in output


def test_a_program_that_fails_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "observe", Observer(status=139))
    with pytest.raises(HeadwayError, match="ended with status 139"):
        CliRunner().invoke(demo.command, ["--seconds", "0.2"], catch_exceptions=False)


def test_a_page_that_cannot_be_written_is_said_before_anything_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    observer = Observer()
    monkeypatch.setattr(demo, "observe", observer)
    with pytest.raises(HeadwayError, match="the page cannot be written"):
        CliRunner().invoke(demo.command, ["--html", "/nowhere/demo.html"], catch_exceptions=False)
    assert observer.prefer == "not called"


def test_colours_are_off_where_NO_COLOR_says_so(monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: N802
    monkeypatch.setattr(demo, "observe", Observer())
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b" in invoke(color=True)
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in invoke(color=True)


@pytest.mark.parametrize(
    ("argv", "called"),
    [
        ("/usr/lib/python3/pytest/__main__.py", "headway"),
        ("{here}/headway", "./headway"),
        ("{here}/a name/headway", "'a name/headway'"),
        ("{here}/" + "long/" * 20 + "headway", "headway"),
    ],
)
def test_it_says_how_headway_is_called_from_here(
    argv: str, called: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = Path(argv.format(here=tmp_path))
    if path.is_relative_to(tmp_path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", [str(path)])
    monkeypatch.setattr(demo, "observe", Observer())
    assert f"your own program    {'' if os.geteuid() == 0 else 'sudo '}{called} stat -- COMMAND" in invoke()
