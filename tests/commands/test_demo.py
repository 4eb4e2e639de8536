from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import replace

import pytest
from click.testing import CliRunner

from headway.commands import demo
from headway.demo import Truth, program
from headway.errors import HeadwayError
from headway.model import EXACT, Cell, Ledger, Overhead, Precision, Quality, Thread, Window

pytestmark = [pytest.mark.end_to_end, pytest.mark.alone]

SAMPLED = Precision(Quality.EXACT, Quality.SAMPLED, Quality.UNAVAILABLE, Quality.SAMPLED, Quality.UNAVAILABLE)


def believing(truth: Truth, precision: Precision = EXACT) -> Ledger:
    """A ledger that agrees with the program about its processor time, and splits it as the tick would."""
    threads = []
    for thread in truth.threads:
        if thread.figures is None:
            continue
        cpu, elapsed = thread.figures.cpu_ns, max(thread.figures.elapsed_ns, thread.figures.cpu_ns)
        states = {"user": Cell(cpu, 1), "kernel.getppid": Cell(0, 3), "wait.futex": Cell(elapsed - cpu, 1)}
        threads.append(Thread(thread.tid, truth.pid, thread.name, 0, 0, elapsed, elapsed, elapsed, states))
    window = Window(0, max(t.span for t in threads))
    return Ledger("proc", window, tuple(threads), precision=precision, overhead=Overhead(1_500_000, 1234))


class Observer:
    """Runs the command without measuring it."""

    def __init__(self, status: int | None = None) -> None:
        self.status = status
        self.prefer: str | None = "not called"

    def __call__(self, argv: Sequence[str], *, prefer: str | None, stdout: int | None) -> tuple[Ledger, int]:
        self.prefer = prefer
        output = subprocess.run(argv, stdout=subprocess.PIPE, check=True).stdout
        assert stdout is not None
        output = re.sub(rb'"tick_kernel_ns": \d+', b'"tick_kernel_ns": 0', output)  # deceived, as it is meant to be
        os.write(stdout, output)
        return believing(Truth.parse(output.decode()), SAMPLED), self.status or 0


@pytest.fixture(scope="module")
def truth() -> Truth:
    return Truth.parse(
        subprocess.run([program(), "--seconds", "0.3"], stdout=subprocess.PIPE, check=True).stdout.decode()
    )


def test_command_runs_the_program_and_explains_it(monkeypatch: pytest.MonkeyPatch) -> None:
    observer = Observer()
    monkeypatch.setattr(demo, "observe_command", observer)
    result = CliRunner().invoke(demo.command, ["--seconds", "0.3", "--source", "proc"], catch_exceptions=False)
    assert result.exit_code == 0
    assert observer.prefer == "proc"
    assert "10 threads that know what they do" in result.output
    for name in ("compute", "memory", "syscalls", "lock", "holder", "sleeper", "dodger", "disk", "poller", "marked"):
        assert f"\n{name} " in result.output
    assert "the kernel's accounting" in result.output
    assert "so is this source" in result.output
    assert "\x1b" not in result.output


def test_a_program_that_fails_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "observe_command", Observer(status=139))
    with pytest.raises(HeadwayError, match="ended with status 139"):
        CliRunner().invoke(demo.command, ["--seconds", "0.2"], catch_exceptions=False)


@pytest.mark.parametrize("precision", [EXACT, SAMPLED])
def test_no_line_is_wider_than_80_columns(truth: Truth, precision: Precision) -> None:
    ledger = replace(believing(truth, precision), reasons={"mpi": "unavailable because of " + "many things " * 20})
    lines = [line.plain for line in demo.render(ledger, truth)]
    assert len(lines) > 30
    assert max(map(len, lines)) <= 80


def test_agreement_is_green_and_disagreement_red(truth: Truth) -> None:
    by_start = {str(span.style) for line in demo.render(believing(truth), truth) for span in line.spans}
    assert {"green", "red"} <= by_start


def test_conservation_is_stated_only_where_it_holds(truth: Truth) -> None:
    ledger = believing(truth)
    assert any("to the nanosecond" in line.plain for line in demo.render(ledger, truth))
    first, *rest = ledger.threads
    broken = replace(ledger, threads=(replace(first, span=first.span - 1), *rest))
    text = "\n".join(line.plain for line in demo.render(broken, truth))
    assert "to the nanosecond" not in text
    assert "not conserved" in text


def test_what_was_lost_is_printed(truth: Truth) -> None:
    ledger = replace(believing(truth), losses={"transitions": 12, "threads": 0})
    text = "\n".join(line.plain for line in demo.render(ledger, truth))
    assert "lost: transitions 12" in text
    assert "threads 0" not in text


def test_colours_are_off_where_NO_COLOR_says_so(monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: N802
    monkeypatch.setattr(demo, "observe_command", Observer())
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("NO_COLOR", "1")
    result = CliRunner().invoke(demo.command, ["--seconds", "0.2"], catch_exceptions=False, color=True)
    assert "\x1b[3" not in result.output.replace("\x1b[3m", "")
