"""Advice in words: within the width, nothing hostile, and commands that still mean the same after they were broken."""

from __future__ import annotations

import io
import re
import shlex
import subprocess
from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.ledgers import any_state_names, ledgers

from headway.advice import Advice, DeviceInterrupt, Facilities, Thresholds, advise, patterns
from headway.advice.patterns import Pattern
from headway.model import Cell, Ledger, Thread, Window
from headway.views.advice import what_would_help
from headway.views.console import Console
from headway.views.lines import show, text_of
from headway.views.printable import width_of

HERE = Facilities((0, 1), 1, True, (DeviceInterrupt(24, "eth0", "0-1", {0: 5, 1: 7}),))
EVERYTHING = Thresholds(td=0, mpi=0, kpi=0, iopi=0, ready=0, stolen=0, interrupts=0, wait=0, least_ns=0, most=1000)
SECOND = 10**9
LEDGER = Ledger(
    "bpf",
    Window(0, SECOND),
    (
        Thread(
            4712,
            4711,
            "worker",
            0,
            0,
            None,
            SECOND,
            SECOND,
            {
                "user": Cell(SECOND * 45 // 100, 1),
                "poll.epoll_wait.epoll": Cell(SECOND // 4, 900),
                "ready": Cell(SECOND * 30 // 100, 9),
            },
        ),
    ),
)


def shown(ledger: Ledger, width: int = 80, *, figures: bool = True, terminal: bool | None = None) -> str:
    out = io.StringIO()
    console = Console(out, width=width, terminal=terminal)
    show(console, what_would_help(advise(ledger), console.width, figures=figures))
    return out.getvalue()


@given(ledgers(keys=any_state_names), st.integers(2, 200), st.booleans())
def test_no_line_is_wider_than_there_is_room(ledger: Ledger, width: int, figures: bool) -> None:
    for line in what_would_help(advise(ledger, EVERYTHING, HERE), width, figures=figures):
        text = text_of(line)
        assert width_of(text) <= width
        assert text.isprintable()


def all_patterns() -> list[Pattern]:
    found = [getattr(patterns, name) for name in patterns.__all__]
    waits = (patterns.WAITS, patterns.WAITS_FOR_OTHERS, patterns.UNSEEN_WAITS)
    tables = [patterns._CALLS, patterns._POLLS, *(tuple(table.values()) for table in waits)]
    singles = [p for p in [*found, patterns._IPIS] if isinstance(p, Pattern)]
    return [*singles, *(p for table in tables for p in table)]


@pytest.mark.parametrize("pattern", all_patterns(), ids=lambda p: p.text[:40])
@pytest.mark.parametrize("width", [40, 80, 120])
def test_a_command_that_is_broken_over_lines_is_the_same_command(pattern: Pattern, width: int) -> None:
    for command in (pattern.command, pattern.undo):
        if command is None:
            continue
        whole = command.format(tid=4_194_304, pid='"$PID"')
        advice = Advice(None, "kpi", 1.0, 0.5, "text", whole)
        lines = [text_of(line) for line in what_would_help([advice], width, figures=True)]
        start = next(i for i, line in enumerate(lines) if line.startswith("    $ "))
        pasted = "\n".join(lines[start:]).removeprefix("    $ ")
        assert "\\\n" in pasted or len(whole) < width
        if max(map(len, whole.split())) < width - 12:
            assert shlex.split(pasted.replace("\\\n", "")) == shlex.split(whole)
            assert subprocess.run(["bash", "-n", "-c", pasted], check=False).returncode == 0


CHANGES = re.compile(r"\b(tee|mount|mkdir|echo|kill|sysctl|chrt|renice)\b|(?<![<\d-])>(?!&)|--apply")


@pytest.mark.parametrize("pattern", all_patterns(), ids=lambda p: p.text[:40])
def test_what_changes_something_says_how_to_undo(pattern: Pattern) -> None:
    assert bool(CHANGES.search(pattern.command)) == (pattern.undo is not None)


def test_advice_names_the_index_the_value_the_threshold_the_cause_and_a_command() -> None:
    assert shown(LEDGER) == EXPECTED


EXPECTED = """\
what would help
  worker 4712: ready is 30 % of the time it could run, threshold 10 %
    30% of the time it could run, it waited for a processor: other processes
    want the same ones; keep 1 for this process alone (the command shows its
    plan, and asks)
    $ sudo headway advise --apply -a -p 4711
    to undo: $ sudo headway advise --undo
  worker 4712: IOPI is 100 % of the lost time (Td), threshold 25 %
    100% of the lost time is polling, most in epoll_wait of epoll: with a
    timeout of 0 it comes back empty at once: give it the time until there is
    something else to do, or -1 to wait as long as it takes
    $ sudo timeout 2 strace -r -e trace=epoll_wait,epoll_pwait,epoll_pwait2 \\
        -p 4712
"""


def test_without_colours_there_is_not_a_byte_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    assert "\x1b" in shown(LEDGER, terminal=True)
    monkeypatch.setenv("NO_COLOR", "1")
    assert shown(LEDGER, terminal=True) == shown(LEDGER)


def test_the_machine_is_named_where_it_is_no_threads_matter() -> None:
    thread = LEDGER.threads[0]
    stolen = replace(thread, states={"user": Cell(SECOND // 2, 1), "stolen": Cell(SECOND // 2, 1)})
    assert "the machine: stolen is 50 % of the time the threads could run" in shown(replace(LEDGER, threads=(stolen,)))


def test_every_index_has_its_words() -> None:
    assert {f.name for f in fields(Advice)} >= {"index", "value", "threshold", "command", "undo", "remedy"}
    for index in ("mpi", "kpi", "iopi", "ready", "stolen", "wait", "system"):
        advice = Advice(None, index, 0.5, 0.1, "text", None)
        (_, line, *_) = what_would_help([advice], 120, figures=True)
        assert "50 %" in text_of(line)
        assert "10 %" in text_of(line)
