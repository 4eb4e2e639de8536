"""``headway compare``: two commands run in turns, and how sure it is that they differ."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from random import SystemRandom

import click

from headway.cli.options import MeasuringCommand, TargetOptions, detail_options
from headway.cli.output import answer_to
from headway.cli.parameters import Percentage, Seconds
from headway.cli.progress_bar import ProgressBar, progress_bar
from headway.cli.say import say
from headway.comparison.compared import compare
from headway.comparison.differences import MOST, fewest
from headway.comparison.figures import NAMES
from headway.comparison.turns import Order, Turn
from headway.comparison.verdicts import confidence_for, verdicts
from headway.conditions import ChangeCondition, parse_change
from headway.linux.options import Selection
from headway.linux.sources.source import LinuxSource
from headway.session.rounds import LETTERS, RoundPlan, Rounds
from headway.views.compared import ComparedCommand, ComparedSession, print_compared, to_document

__all__ = ["command"]

_ROUNDS = 15
_FAILED = 1
"""The exit status if a condition of --fail-if is proven."""


@click.command("compare", cls=MeasuringCommand, context_settings={"allow_interspersed_args": False})
@click.option(
    "-r",
    "--rounds",
    type=click.IntRange(1, MOST),
    default=_ROUNDS,
    show_default=True,
    metavar="N",
    help=f"Run each command N times, {MOST} at most.",
)
@click.option(
    "-w",
    "--warmup",
    type=click.IntRange(0, MOST),
    default=1,
    show_default=True,
    metavar="N",
    help="Run each command N times before, which is not measured.",
)
@click.option(
    "-d", "--duration", type=Seconds(), metavar="SECONDS", help="Begin no round after so many seconds of rounds."
)
@click.option(
    "--order",
    type=click.Choice([order.value for order in Order]),
    default=Order.RANDOM.value,
    show_default=True,
    help="Who runs first in a round: chance decides in each round, or in each second one, after which the next runs "
    "the other way round.",
)
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), metavar="N", help="Repeat the order of an earlier report.")
@click.option(
    "--prepare",
    multiple=True,
    metavar="COMMAND",
    help="Run this in a shell before each run, which is not measured. Given twice: the first before A, the second "
    "before B.",
)
@click.option("--names", metavar="A,B", help="Call the commands by these names.")
@click.option(
    "--confidence",
    type=Percentage(),
    default="99%",
    show_default=True,
    metavar="PERCENT",
    help="How sure an answer is to be.",
)
@click.option(
    "--fail-if",
    "texts",
    multiple=True,
    metavar="CONDITION",
    help="Exit with status 1 if it is certain that B is so far from A, as in 'epi > +2 %' or 'ready > +5 ms'. May be "
    "repeated.",
)
@click.option("-i", "--ignore-failure", is_flag=True, help="Go on if a command fails.")
@click.option("--show-output", is_flag=True, help="Let the commands write and read what they want.  [default: nothing]")
@detail_options
@click.option("-o", "--output", metavar="FILE", help="Write the report to FILE instead of standard output.")
@click.option("--json", "as_json", is_flag=True, help="Write JSON (headway schema compare).")
@click.option("-v", "--verbose", is_flag=True, help="Show every figure that was looked at.")
@click.argument("argv", nargs=-1, type=click.UNPROCESSED, metavar="-- A [ARG...] -- B [ARG...]")
def command(
    rounds: int,
    warmup: int,
    duration: float | None,
    order: str,
    seed: int | None,
    prepare: tuple[str, ...],
    names: str | None,
    confidence: float,
    texts: tuple[str, ...],
    ignore_failure: bool,
    show_output: bool,
    output: str | None,
    as_json: bool,
    verbose: bool,
    argv: tuple[str, ...],
    wanted: TargetOptions,
) -> None:
    """\b
    headway compare -- ./old input -- ./new input
    headway compare --fail-if 'epi > +2 %' -- ./old -- ./new    for CI
    headway compare -r 30 --prepare 'rm -rf out' -- A -- B
    headway compare --json -o found.json -- A -- B

    Run two commands in turns, and say in what they differ.

    Of every figure the report has the difference of B from A, as an interval that has the true one with the given
    confidence. A word stands where they differ for certain, though so many figures were looked at.

    The exit status is 0, or 1 if a condition of --fail-if is proven: the whole interval is beyond the limit. It is 125
    if headway or a command fails.
    """
    commands = _commands(argv, names)
    _check(prepare, confidence)
    plan = Order(order)
    if rounds % plan.rounds:
        raise click.UsageError(f"the order {order} takes rounds by twos: give an even number of --rounds")
    conditions = [_condition(text, wanted.events) for text in texts]
    certain = confidence_for(conditions, confidence) if conditions else confidence
    least = fewest(certain) * plan.rounds
    if rounds < least:
        say(f"{rounds} rounds cannot tell anything at {100 * certain:.5g} %: it takes {least} (--rounds)")
    options = wanted.options(causes=False)
    selection = Selection(cpus=wanted.cpus, follow=not wanted.no_follow)
    rounds_plan = RoundPlan(rounds, warmup, plan, SystemRandom().randrange(2**31) if seed is None else seed, duration)
    with answer_to(output) as stream:
        bar = progress_bar(2.0 * (warmup + rounds))
        session = Rounds(
            (commands[0].argv, commands[1].argv),
            selection,
            options,
            wanted.source,
            prepare=prepare,
            ignore_failure=ignore_failure,
            show_output=show_output,
            started=_started,
            shown=lambda turn, done: _show(bar, turn, done, 2 * (warmup + rounds)),
        )
        try:
            session.run(rounds_plan)
        finally:
            if bar is not None:
                bar.hide()
        a, b = session.complete
        status = 128 + session.signal if session.signal else 0
        if len(a) < plan.rounds:
            click.get_current_context().exit(status)
        if len(a) < rounds:
            say(f"{'interrupted' if status else 'the time is over'}: this is what {len(a)} complete rounds say")
        found = compare(a, b, plan, confidence)
        said = verdicts(conditions, found)
        shown = ComparedSession(
            commands=commands,
            found=found,
            verdicts=tuple(said),
            source=session.source,
            reasons=session.reasons,
            seed=rounds_plan.seed,
            warmup=warmup,
        )
        if as_json:
            from headway.views.json import dumps

            stream.write(dumps(to_document(shown)) + "\n")
        else:
            from headway.views.console import Console

            print_compared(Console(stream), shown, verbose=verbose)
    proven = _FAILED if any(verdict.proven for verdict in said) else 0
    click.get_current_context().exit(status or proven)


def _condition(text: str, events: Sequence[str]) -> ChangeCondition:
    """Return a condition of --fail-if, which may be about events of -e. Raises HeadwayError."""
    from headway.linux.bpf.shared.states import NAMES as STATES

    return parse_change(text, STATES, [*NAMES, *(name for some in events for name in some.split(","))])


def _started(_used: LinuxSource, why_not: str) -> None:
    if why_not:
        say(f"measuring with /proc, sampled: {why_not}")


def _show(bar: ProgressBar | None, turn: Turn, done: int, whole: int) -> None:
    """Show which run begins, and how long all of them will take yet."""
    if bar is None or not bar.due or not done:
        return
    where = f"round {turn.round + 1}" if turn.round >= 0 else "warm-up"
    left = bar.seconds / done * (whole - done)
    bar.show(f"{where}: {LETTERS[turn.command]} ({left:.0f} s left)", float(done))


def _commands(argv: Sequence[str], names: str | None) -> tuple[ComparedCommand, ComparedCommand]:
    """Divide the words into two commands. Raises UsageError."""
    parts: list[list[str]] = [[]]
    for word in argv:
        if word == "--":
            parts.append([])
        else:
            parts[-1].append(word)
    if len(parts) != 2 or not all(parts):
        raise click.UsageError(
            f"give two commands, each after --, as in headway compare -- A -- B ({sum(map(bool, parts))} given; a "
            "command that has -- among its own words goes into a script)"
        )
    called = [shlex.join(part) for part in parts]
    if names is not None:
        called = names.split(",")
        if len(called) != 2 or not all(called) or called[0] == called[1]:
            raise click.UsageError(f"--names {names[:60]!a} is not two different names: write it like before,after")
    return ComparedCommand(called[0], tuple(parts[0])), ComparedCommand(called[1], tuple(parts[1]))


def _check(prepare: Sequence[str], confidence: float) -> None:
    if len(prepare) > 2:
        raise click.UsageError("--prepare is given once for both commands, or once for each")
    if not 0.5 <= confidence < 1:
        raise click.UsageError(f"--confidence {100 * confidence:g}% is to be at least 50 and less than 100 %")
