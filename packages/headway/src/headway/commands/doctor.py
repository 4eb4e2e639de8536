"""``headway doctor``: what this machine and this user can measure, what not, why, and what would change it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace

import click
from rich.console import Console
from rich.text import Text

from headway.cli.progress_bar import progress_bar
from headway.errors import HeadwayError
from headway.linux.doctor.capabilities import Capability, System, bpf_verdict, capabilities
from headway.model import Ledger

__all__ = ["BELIEVED", "DOUBTED", "NOTHING_TO_VERIFY", "command", "render"]

WIDTH = 80
COLUMN = 28
BELIEVED, DOUBTED, NOTHING_TO_VERIFY = 0, 1, 3
"""Exit statuses of --verify: no figure has to be doubted, one has to, there are no counters to verify."""


@click.command("doctor")
@click.option(
    "--all",
    "every_shape",
    is_flag=True,
    help="Load the eBPF programs in every shape that a command needs, not only for stat. This takes half a minute or "
    "more.",
)
@click.option("--json", "as_json", is_flag=True, help="Write JSON.")
@click.option(
    "--verify",
    is_flag=True,
    help="Check EPI and MPI: measure loops of known behaviour with this processor's counters, alone and beside a busy "
    "neighbour. Takes about 10 s. The exit status is 0 if no figure has to be doubted, 1 if one has to be, 3 if there "
    "are no counters to verify.",
)
def command(every_shape: bool, as_json: bool, verify: bool) -> None:
    """\b
    headway doctor
    sudo headway doctor
    sudo headway doctor --all
    sudo headway doctor --verify

    Show what can be measured here, what cannot, why, and the command that would change it.

    If the user has the privileges for it, the eBPF programs are loaded as headway stat -v loads them, and unloaded
    again. With --all they are loaded in every shape that a command needs. Nothing is attached.
    """
    if verify:
        if every_shape:
            raise click.UsageError("--all loads the eBPF programs, --verify checks figures: leave out one of them")
        sys.exit(_verify(as_json=as_json))
    found = _look(every_shape)
    if as_json:
        click.echo(json.dumps(document(found), indent=2))
        return
    console = Console(highlight=False)
    for line in render(found):
        console.print(line)


def _look(every_shape: bool) -> list[Capability]:
    """Find out what can be measured, and show on a terminal what is being tried."""
    system = System()
    if every_shape:
        from headway.linux.bpf.programs.loading import SHAPES

        system = replace(system, shapes=tuple(SHAPES))
    bar = progress_bar(len(system.shapes) if every_shape else None)
    if bar is None:
        return capabilities(system)
    try:
        return capabilities(replace(system, told=bar.show))
    finally:
        bar.hide()


def _verify(*, as_json: bool, seconds: float = 1.0) -> int:
    """Verify EPI and MPI and print the result. Return the exit status."""
    from headway.linux.perf.counters import default_set
    from headway.model.verification import FigureVerdict
    from headway.session.verifying import verify
    from headway.views import verification

    counters = default_set()
    if isinstance(counters, str):
        why = f"EPI and MPI cannot be verified: {counters}"
        click.echo(json.dumps({"schema": verification.SCHEMA, "unavailable": counters}) if as_json else why)
        return NOTHING_TO_VERIFY
    found = verify(_measure, seconds)
    if as_json:
        click.echo(json.dumps(verification.document(found, counters.processors), indent=2))
    else:
        console = Console(highlight=False)
        for part in verification.render(found, counters.processors):
            console.print(part)
    return DOUBTED if FigureVerdict.NO in verification.answers(found).values() else BELIEVED


def _measure(command: Sequence[str]) -> Ledger:
    """Measure one of the loops. Raises HeadwayError where it fails."""
    from headway.linux.options import Selection
    from headway.session.measure import observe

    with open(os.devnull, "wb") as nowhere:  # the loop prints its own account
        done = observe(Selection(), command, stdout=nowhere.fileno())
    if done.exit_status:
        raise HeadwayError(
            f"the loop that was to be measured ended with status {done.exit_status}: headway demo runs the same "
            "program and shows what it says"
        )
    return done.ledger


def document(found: Sequence[Capability]) -> dict[str, object]:
    """Return the findings as plain values, for JSON."""
    return {
        "schema": "headway.doctor/1",
        "verdicts": [{"command": verb, "verdict": verdict} for verb, verdict, _good in verdicts(found)],
        "capabilities": [asdict(capability) for capability in found],
    }


def verdicts(found: Sequence[Capability]) -> list[tuple[str, str, bool]]:
    """Return what the findings mean: (command, what it can do here, whether that is all it can do anywhere)."""
    by_name = {capability.name: capability for capability in found}
    lacking = bpf_verdict(found)
    if lacking is None:
        rows = [("headway stat", "exact, by eBPF", True)]
    else:
        rows = [("headway stat", f"sampled, by /proc, because {lacking.why}", False)]
    idle = "exact, by eBPF" if lacking is None else "sampled, by cpuidle or /proc/stat"
    rows.append(("headway cpu", idle, lacking is None))
    counters = by_name.get("hardware counters")
    if counters is not None and counters.available:
        rows.append(("memory (MPI)", "by hardware counters", True))
    elif counters is not None:
        rows.append(("memory (MPI)", f"unavailable: {counters.why}", False))
    return rows


def render(found: Sequence[Capability]) -> Iterator[Text]:
    """Yield the table in lines of at most 80 columns: the verdicts first, then every capability."""
    for subject, verdict, good in verdicts(found):
        first, *rest = _wrap(verdict, WIDTH - 16)
        yield Text.assemble((f"{subject:<14}", "bold"), "  ", (first, "green" if good else "yellow"))
        for line in rest:
            yield Text(" " * 16 + line, style="yellow")
    yield Text()
    for capability in found:
        mark = ("✓ ", "green") if capability.available else ("✗ ", "red")
        first, *rest = _wrap(capability.why, WIDTH - COLUMN)
        yield Text.assemble(mark, f"{capability.name:<{COLUMN - 2}}", first)
        for line in rest:
            yield Text(" " * COLUMN + line)
        if capability.remedy and not capability.available:
            for number, line in enumerate(_wrap(capability.remedy, WIDTH - COLUMN - 2)):
                yield Text(" " * COLUMN + ("→ " if number == 0 else "  ") + line, style="cyan")


def _wrap(text: str, width: int) -> list[str]:
    lines = [""]
    for word in text.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > width:
            lines.append("")
        lines[-1] += f" {word}" if lines[-1] else word
    return lines
