"""Two commands run and measured in turns, round by round."""

from __future__ import annotations

import shlex
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import field

from headway.comparison.figures import CommandRun, run_of
from headway.comparison.turns import Order, Turn, turns
from headway.dataclass import dataclass
from headway.errors import HeadwayError
from headway.linux.options import MeasureOptions, Selection
from headway.linux.sources.source import LinuxSource

from .measure import caught_signals, patient_collector
from .repeated import CommandMeter, InterruptedRunError, MeasuredCommand

__all__ = ["LETTERS", "RoundPlan", "Rounds"]

LETTERS = ("A", "B")
"""What the commands are called."""
_LOOK = 0.2
"""Seconds between two looks for signals while something runs that is not measured."""
_SAID = 1 << 16
"""Bytes of what a command of ``prepare`` says that are looked at."""


@dataclass(frozen=True, slots=True)
class RoundPlan:
    """How often and in which order the commands run."""

    rounds: int
    warmup: int
    """Runs of each command before the first round. They are in no figure."""
    order: Order
    seed: int
    seconds: float | None = None
    """No round begins after so many seconds of rounds; None: all do."""

    def turns(self) -> Iterator[Turn]:
        """Yield all runs; those of the warm-up have rounds below 0."""
        for number in range(-self.warmup, 0):
            yield Turn(number, 0)
            yield Turn(number, 1)
        yield from turns(self.rounds, self.order, self.seed)


@dataclass
class Rounds:
    """Runs and measures two commands in turns.

    ``prepare``: what a shell runs before each run, for both commands or one for each. ``ignore_failure``: go on if a
    command fails. ``show_output``: the commands have our standard streams. ``started`` gets the source, and why it is
    not the exact one; ``shown`` is called before each run, with the number of runs before it.
    """

    commands: tuple[Sequence[str], Sequence[str]]
    selection: Selection
    options: MeasureOptions
    prefer: str | None
    prepare: Sequence[str] = ()
    ignore_failure: bool = False
    show_output: bool = False
    started: Callable[[LinuxSource, str], None] | None = None
    shown: Callable[[Turn, int], None] = lambda turn, done: None
    source: str = ""
    """The source that measured, after `run`."""
    reasons: dict[str, str] = field(default_factory=dict)
    """Why figures are not exact."""
    signal: int = 0
    """The signal that ended the rounds early; 0: none did."""
    _found: tuple[list[CommandRun], list[CommandRun]] = field(default_factory=lambda: ([], []))

    @property
    def complete(self) -> tuple[list[CommandRun], list[CommandRun]]:
        """The runs of both commands in the rounds that are complete."""
        whole = min(map(len, self._found))
        return self._found[0][:whole], self._found[1][:whole]

    def run(self, plan: RoundPlan) -> None:
        """Run all rounds, or as many as begin within the time or until a signal comes.

        Raises HeadwayError if a command fails, or cannot be executed, or where it cannot be measured.
        """
        with (
            suppress(InterruptedRunError),
            patient_collector(),
            caught_signals() as (wakeup, received),
            CommandMeter(
                self.selection,
                self.options,
                self.prefer,
                wakeup,
                received,
                started=self.started,
                show_output=self.show_output,
            ) as meter,
        ):
            try:
                self._run(meter, received, plan)
            except InterruptedRunError as error:
                self.signal = error.number
                raise

    def _run(self, meter: CommandMeter, received: Sequence[int], plan: RoundPlan) -> None:
        began: float | None = None
        before = -1
        for done, turn in enumerate(plan.turns()):
            if turn.round >= 0:
                now = time.monotonic()
                began = now if began is None else began
                if plan.seconds is not None and 0 < turn.round != before and now - began >= plan.seconds:
                    return
                before = turn.round
            self.shown(turn, done)
            self._prepare(turn, received)
            if received:
                raise InterruptedRunError(received[-1])
            measured = meter.run(self.commands[turn.command])
            self._check_end(measured, turn)
            if turn.round >= 0:
                self._keep(measured, turn)

    def _keep(self, measured: MeasuredCommand, turn: Turn) -> None:
        self.source = measured.ledger.source
        self.reasons.update(measured.ledger.reasons)
        run = run_of(measured.ledger, measured.pid, measured.since, measured.wall)
        self._found[turn.command].append(run)

    def _prepare(self, turn: Turn, received: Sequence[int]) -> None:
        """Run the command of ``prepare``. Raises HeadwayError if it fails. A signal ends it."""
        if not self.prepare:
            return
        words = self.prepare[turn.command if len(self.prepare) > 1 else 0]
        with tempfile.TemporaryFile() as said:
            process = subprocess.Popen(
                ["/bin/sh", "-c", words], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=said
            )
            while (status := _within(process, _LOOK)) is None:
                if received:
                    process.terminate()
            if status and not received:
                said.seek(0)
                last = said.read(_SAID).decode(errors="replace").strip().splitlines()[-1:]
                more = f" ({last[0][:200]!a})" if last else ""
                raise HeadwayError(f"--prepare {words[:200]!a} failed with status {status}{more}: mend it")

    def _check_end(self, measured: MeasuredCommand, turn: Turn) -> None:
        """Raise HeadwayError if a command failed."""
        status = measured.exit_status
        if not status or self.ignore_failure:
            return
        name = ascii(shlex.join(self.commands[turn.command])[:200])[1:-1]
        how = f"was killed by signal {-status}" if status < 0 else f"failed with exit status {status}"
        where = f"round {turn.round + 1}" if turn.round >= 0 else "the warm-up"
        raise HeadwayError(
            f"{LETTERS[turn.command]} {how} in {where} ({name}): mend it (--show-output shows what it says), or go on "
            "with --ignore-failure"
        )


def _within(process: subprocess.Popen[bytes], seconds: float) -> int | None:
    """Return the exit status if the process ends within this time."""
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        return None
