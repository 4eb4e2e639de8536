from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console as RichConsole

from headway.views.console import Console

VARIABLES: dict[str, list[str | None]] = {
    "TTY_COMPATIBLE": [None, "", "0", "1"],
    "FORCE_COLOR": [None, "", "1"],
    "NO_COLOR": [None, "", "1"],
    "COLORTERM": [None, "truecolor", "24bit", "yes"],
    "TERM": [None, "dumb", "unknown", "xterm", "xterm-256color", "xterm-16color", "xterm-kitty"],
    "COLUMNS": [None, "132", "wide"],
    "LINES": [None, "50", "many"],
}


class Stream(io.StringIO):
    def __init__(self, terminal: bool) -> None:
        super().__init__()
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal


@given(st.booleans(), st.fixed_dictionaries({name: st.sampled_from(values) for name, values in VARIABLES.items()}))
def test_it_follows_the_variables_as_rich_does(terminal: bool, variables: dict[str, str | None]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            if value is None:
                patch.delenv(name, raising=False)
            else:
                patch.setenv(name, value)
        console, theirs = Console(Stream(terminal)), RichConsole(file=Stream(terminal))
        assert console.is_terminal == theirs.is_terminal
        if not theirs.is_dumb_terminal:  # of these rich heeds COLUMNS only together with LINES
            assert (console.width, console.height) == tuple(theirs.size)
        assert console.is_coloured == (theirs.color_system is not None and not theirs.no_color)
        if console.is_coloured:
            assert console.colours == theirs._color_system


def test_a_stream_that_is_closed_is_no_terminal() -> None:
    stream = Stream(terminal=True)
    stream.close()
    assert not Console(stream).is_terminal


def test_no_columns_are_no_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "0")
    assert Console(io.StringIO()).width == 80


def test_a_stream_without_an_encoding_takes_any_character() -> None:
    assert Console(io.StringIO()).encoding == "utf-8"
    assert Console(io.TextIOWrapper(io.BytesIO(), encoding="ASCII")).encoding == "ascii"
