"""The verdict in words: within the width, and nothing hostile."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.ledgers import any_state_names, ledgers

from headway.model import Cell, Ledger, Thread, Window
from headway.verdict import verdict
from headway.views.console import Console
from headway.views.lines import text_of
from headway.views.printable import width_of
from headway.views.verdict import show_verdict, verdict_lines

SECOND = 10**9


def thread(tid: int, name: str, states: dict[str, int]) -> Thread:
    return Thread(tid, tid, name, 0, 0, None, SECOND, SECOND, {state: Cell(time, 9) for state, time in states.items()})


WORKS = thread(1, "works", {"user": SECOND})
RESTS = thread(2, "rests", {"wait.epoll": SECOND})


def shown(*threads: Thread, terminal: bool | None = None) -> str:
    out = io.StringIO()
    show_verdict(Console(out, width=80, terminal=terminal), verdict(Ledger("bpf", Window(0, SECOND), threads)))
    return out.getvalue()


@given(ledgers(keys=any_state_names), st.integers(2, 200))
def test_no_line_is_wider_than_there_is_room(ledger: Ledger, width: int) -> None:
    for line in verdict_lines(verdict(ledger), width):
        assert width_of(text_of(line)) <= width
        assert text_of(line).isprintable()


def test_the_last_line_has_the_number_of_idle_threads() -> None:
    assert shown(WORKS, RESTS) == (
        "works (1) ran its own code for 100 % of its time (1.00 s): one thread, so more\n"
        "  processors would not help (1 idle)\n"
        "\n"
    )


def test_where_nothing_stands_out_nothing_is_said() -> None:
    assert shown(RESTS) == ""


def test_no_colour_means_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b" in shown(WORKS, terminal=True)
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in shown(WORKS, terminal=True)
