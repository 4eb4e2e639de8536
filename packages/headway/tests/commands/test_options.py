"""The options that several commands share: which level of detail and which budget follow from them."""

from __future__ import annotations

import importlib
import re
from collections.abc import Sequence

import click
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from headway.cli.options import BUDGET_OF_A_MACHINE, TargetOptions, measuring_options
from headway.linux.levels import Level
from headway.linux.options import MarkedFunctions, MeasureOptions

pytestmark = pytest.mark.unit

DEFAULT = BUDGET_OF_A_MACHINE
DECIDING = (
    ("--level", "switches"),
    ("--level", "calls"),
    ("--level", "interrupts"),
    ("--budget", "5%"),
    ("--source", "proc"),
    ("-e", "cycles"),
    ("--noneffective", "malloc"),
    ("--poll", "spin-locks"),
    ("--state", "parse=./prog:parse"),
    ("--status-checks", "checks.toml"),
    ("--why", "kernel"),
    ("--why", "poll"),
)
"""Options that say, or decide, what is measured exactly."""
OTHERS = ((), ("--why", "wait"), ("--why", "ready"), ("-C", "0"), ("--no-follow",), ("--source", "bpf"))


def parsed(words: Sequence[str], default: float | None = DEFAULT) -> MeasureOptions:
    """The measure options that a command line gives."""
    found: list[MeasureOptions] = []

    @click.command()
    @measuring_options
    def command(wanted: TargetOptions) -> None:
        found.append(wanted.options(causes=False, default_budget=default))

    done = CliRunner().invoke(command, list(words), catch_exceptions=False)
    if done.exit_code:
        raise click.UsageError(done.output)
    return found[0]


def test_functions_are_marked_as_no_progress_as_polling_and_by_name() -> None:
    words = ["--noneffective", "malloc", "--poll", "openmp", "--state", "draw=./game:draw_*", "-p", "1"]
    assert parsed(words).functions == (
        MarkedFunctions("malloc"),
        MarkedFunctions("openmp", "poll", option="--poll"),
        MarkedFunctions("./game:draw_*", "user", "draw", "--state"),
    )


@pytest.mark.parametrize(
    "given", ["draw", "=./game:draw", "draw=", "a b=./game:draw", "ä=libc:qsort", "x" * 41 + "=a:b"]
)
def test_a_state_without_a_name_that_can_be_one_is_refused(given: str) -> None:
    with pytest.raises(click.UsageError, match="write it like render="):
        parsed(["--state", given, "-p", "1"])


def test_what_proc_cannot_do_is_named() -> None:
    assert TargetOptions(pids=(1,)).by_proc("why") == "measuring with /proc, sampled: why"
    words = TargetOptions(pids=(1,), spin=True, polls=("openmp",)).by_proc("why")
    assert words == "measuring with /proc, sampled, without --poll, --spin: why"


def test_an_attribute_without_a_name_is_refused() -> None:
    assert parsed(["--task-attribute", "tenant", "-p", "1"]).task_attributes == ("tenant",)
    with pytest.raises(click.UsageError, match="give the name of an attribute"):
        parsed(["--task-attribute", "", "-p", "1"])


@pytest.mark.parametrize("words", OTHERS, ids=" ".join)
def test_a_machine_has_the_default_budget(words: Sequence[str]) -> None:
    assert parsed(["-a", *words]).budget == DEFAULT


@pytest.mark.parametrize("words", OTHERS, ids=" ".join)
def test_chosen_threads_have_no_default_budget(words: Sequence[str]) -> None:
    assert parsed(["-p", "1", *words]).budget is None


@pytest.mark.parametrize("words", DECIDING, ids=" ".join)
def test_what_decides_the_level_leaves_no_default_budget(words: Sequence[str]) -> None:
    found = parsed(["-a", *words])
    assert found.budget == (0.05 if words[0] == "--budget" else None)
    assert found.level is (Level(words[1]) if words[0] == "--level" else Level.INTERRUPTS)


@pytest.mark.parametrize("words", [("-a",), ("-p", "1"), ("-a", "--why", "wait")], ids=" ".join)
def test_without_a_default_there_is_no_budget(words: Sequence[str]) -> None:
    assert parsed(words, None).budget is None


@given(st.lists(st.sampled_from(DECIDING), max_size=4), st.booleans())
def test_a_budget_and_what_needs_all_states_are_never_together(words: list[tuple[str, str]], machine: bool) -> None:
    line = ["-a"] if machine else ["-p", "1"]
    try:
        found = parsed([*line, *(word for pair in words for word in pair)])
    except click.UsageError:
        return
    needing = bool(found.functions or found.events or found.checks)
    assert not (needing and (found.budget or found.level is Level.SWITCHES))
    assert found.level is Level.INTERRUPTS or found.budget is None


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--source", "proc"], "/proc does not tell where threads are"),
        (["--level", "switches"], "--spin needs the states of processor time at all times"),
        (["--budget", "1%"], "--spin needs the states of processor time at all times"),
        (["--tasks"], "--spin cannot tell which task spins"),
    ],
)
def test_what_contradicts_spin_is_said_in_one_sentence(words: list[str], why: str) -> None:
    pytest.importorskip("capstone", reason="needs the extra spin")
    with pytest.raises(click.UsageError, match=why):
        parsed(["--spin", "-p", "1", *words])


def test_spin_decides_what_is_measured_exactly() -> None:
    pytest.importorskip("capstone", reason="needs the extra spin")
    options = parsed(["--spin", "-a"])
    assert options.spin
    assert options.budget is None
    assert options.level is Level.INTERRUPTS


@pytest.mark.parametrize("name", ["stat", "top", "record", "profile", "serve", "advise"])
def test_help_has_a_commands_own_options_first_and_each_option_once(name: str) -> None:
    module = importlib.import_module(f"headway.commands.{name}")
    text = CliRunner().invoke(module.command, ["--help"], catch_exceptions=False).stdout
    titles = [line for line in text.splitlines() if line[:1].isalpha() and line.endswith(":")]
    assert titles[0] == "Options:"
    assert titles[-3:] == ["Which threads are measured:", "How they are measured:", "What else is measured:"]
    first = text.partition("Which threads are measured:")[0]
    assert "--duration" in first
    assert not re.search(r"^  --level ", first, re.MULTILINE)
    for option in ("--pid", "--no-follow", "--publish", "--help"):
        assert len(re.findall(rf"^  .*{option}(?![\w-])", text, re.MULTILINE)) == 1
