"""The demo's screen: it fits a terminal, whatever was measured, and says what claims say."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.demo.measured import NAMES, TRUTH, any_ledgers, right, sampled

from headway.demo import Truth
from headway.model import Cell, Ledger
from headway.views.console import Console
from headway.views.demo import WIDTH, heading, render
from headway.views.demo_comparison import render as compare
from headway.views.lines import show, text_of
from headway.views.printable import width_of

pytestmark = pytest.mark.unit

any_truth = st.builds(
    lambda interrupted, skipped: replace(
        TRUTH,
        interrupted=interrupted,
        threads=tuple(replace(t, figures=None, skipped="too little " * 9) if skipped else t for t in TRUTH.threads),
    ),
    st.booleans(),
    st.booleans(),
)


def screen(ledger: Ledger, truth: Truth = TRUTH, *, page: str | None = None, sudo: bool = False) -> list[str]:
    lines = [heading(ledger.source, 3.0), *render(ledger, truth, headway="headway", page=page, sudo=sudo)]
    return [text_of(line) for line in lines]


@given(
    any_ledgers,
    any_truth,
    st.none() | st.text(st.characters(categories=["L"]), min_size=1, max_size=200),
    st.booleans(),
)
def test_it_is_one_screen_whatever_was_measured(ledger: Ledger, truth: Truth, page: str | None, sudo: bool) -> None:
    lines = screen(ledger, truth, page=page, sudo=sudo)
    assert len(lines) <= 24
    assert max(map(width_of, lines)) <= WIDTH


def test_a_right_measurement_has_a_tick_for_each_thread() -> None:
    lines = screen(right())
    assert [line[:2] + line[2:11].rstrip() for line in lines[1:12]] == [f"✓ {name}" for name in [*NAMES, "all 10"]]
    assert "✓ syscalls calls getppid in a loop   1,342,976 of 1,342,976 calls, kernel 1.00s" in lines
    assert "✓ lock     waits for holder's mutex  all 200 ended by holder, wait.futex 1.00s" in lines
    assert "✓ disk     writes, syncs, reads      218 writes, 3,487 reads, disk 1.00s" in lines
    assert any("10 threads add up to its life, to the nanosecond" in line for line in lines)
    assert not any("…" in line for line in lines), "nothing is cut"


def test_what_proc_does_not_see_is_said() -> None:
    lines = screen(sampled(), sudo=True)
    assert "– sleeper  sleeps 5 ms at a time     wait.sleep ~1.00s; unseen: sleeps" in lines
    assert "– lock     waits for holder's mutex  wait.futex ~1.00s; unseen: wakers" in lines
    assert not any(line.startswith(("✓ c", "✗ ")) for line in lines)
    assert any(line.endswith("sudo headway demo") for line in lines)
    assert not any("…" in line for line in lines), "nothing is cut"


def test_root_without_ebpf_is_told_how_to_find_out_why() -> None:
    assert "why not by eBPF headway doctor" in [" ".join(line.split()) for line in screen(sampled())]


def test_a_wrong_figure_has_a_cross_and_is_red() -> None:
    ledger = right()
    threads = [
        replace(t, states={**t.states, "kernel.getppid": Cell(10**9, 7)}) if t.name == "syscalls" else t
        for t in ledger.threads
    ]
    lines = list(render(replace(ledger, threads=tuple(threads)), TRUTH, headway="headway", page=None, sudo=False))
    (crossed,) = (line for line in lines if line and line[0][0] == "✗ ")
    assert text_of(crossed) == "✗ syscalls calls getppid in a loop   7 of 1,342,976 calls, kernel 1.00s"
    assert {style for _, style in crossed} >= {"red"}


def test_conservation_is_stated_only_where_it_holds() -> None:
    first, *rest = right().threads
    text = "\n".join(screen(replace(right(), threads=(replace(first, span=first.span - 1), *rest))))
    assert "to the nanosecond" not in text
    assert "not conserved (1): thread 101 (compute)" in text


def test_the_page_is_named_where_there_is_one() -> None:
    assert screen(right(), page="build/demo.html")[-1] == "this as a page      build/demo.html"
    assert screen(right())[-1] == "this as a page      headway demo --html demo.html"


@pytest.mark.parametrize(("encoding", "tick"), [("utf-8", "✓"), ("latin-1", "+"), ("ascii", "+")])
def test_a_terminal_without_unicode_gets_plain_signs(encoding: str, tick: str) -> None:
    data = io.BytesIO()
    with io.TextIOWrapper(data, encoding=encoding, write_through=True) as stream:
        show(Console(stream), render(right(), TRUTH, headway="headway", page=None, sudo=True))
        first = data.getvalue().decode(encoding).splitlines()[0]
    assert first.startswith(f"{tick} compute ")


@given(any_ledgers)
def test_the_comparison_is_never_wider_than_80_columns(ledger: Ledger) -> None:
    assert max(width_of(text_of(line)) for line in compare(ledger, TRUTH)) <= WIDTH


def test_the_comparison_explains_the_clocks() -> None:
    for ledger, words in ((right(), "begin and end elsewhere"), (sampled(), "looks at a thread now and then")):
        text = " ".join(text_of(line).strip() for line in compare(ledger, TRUTH))
        assert words in text
