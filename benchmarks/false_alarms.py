"""How often a check for regressions cries wolf, and how often it sees a real one, beside noisy neighbours.

Pairs of commands are compared again and again: once the same command twice (A/A), and once a command that does 3 % more
of the same work (A/B). ``headway compare`` runs both in turns; the check on EPI and the check on wall time are made of
the same runs. hyperfine runs all of one command and then all of the other. The neighbours come and go at random
(`neighbours.py`), the same ones in the same order each time.

A check with a threshold of x % raises an alarm

- ``EPI``, ``wall time``: if the whole interval of the difference lies above x % (``--fail-if 'epi > +x %'``);
- ``mean of wall time``: if the mean of B is more than x % above that of A, of the runs of ``headway compare``;
- ``hyperfine, means``: likewise, of the runs of hyperfine;
- ``hyperfine, t-test``: if the mean is more than x % above, and Welch's t-test calls the difference significant at 5 %,
  as the script welch_ttest.py that comes with hyperfine does.

An alarm of A/A is false. One of A/B is right below 3 %. Intervals of the rates are those of Wilson, at 95 %.

``python -m benchmarks.false_alarms [--sessions 200] [--rounds 15] [--only-false]``, as root. With --only-false nothing
but A/A is compared, by headway only. Without hyperfine its lines are left out. Ctrl-C prints what was found until then.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import signal
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.progress import Progress

from headway.model import wilson

from .common import compiled, heading, load, table
from .neighbours import coming_and_going

SESSIONS = 200
ROUNDS = 15
UNITS = 4_000_000
"""The units of work of A: some milliseconds."""
SLOWER = 0.03
THRESHOLDS = (0.0, 0.01, 0.02, 0.05)


@dataclass(frozen=True)
class Times:
    """The wall times of the runs of A and B, in any unit."""

    a: Sequence[float]
    b: Sequence[float]

    @property
    def change(self) -> float:
        """How much the mean of B is above that of A."""
        return statistics.fmean(self.b) / statistics.fmean(self.a) - 1

    @property
    def significant(self) -> bool:
        """Whether Welch's t-test calls the difference significant at 5 %, two-sided."""
        variances: list[float] = [statistics.variance(some) / len(some) for some in (self.a, self.b)]
        if not sum(variances):
            return self.change != 0
        t = (statistics.fmean(self.b) - statistics.fmean(self.a)) / math.sqrt(sum(variances))
        degrees: float = sum(variances) ** 2 / sum(
            v**2 / (len(some) - 1) for v, some in zip(variances, (self.a, self.b), strict=True)
        )
        return _outside(abs(t), degrees) < 0.05


def _outside(t: float, degrees: float) -> float:
    """Return the probability that Student's t is farther from 0 than this: its density integrated by Simpson's rule."""
    scale = math.exp(math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2)) / math.sqrt(degrees * math.pi)
    parts = 2000
    step = t / parts

    def density(x: float) -> float:
        return scale * math.pow(1 + x * x / degrees, -(degrees + 1) / 2)

    inside = sum(density(at * step) * (1 if at in (0, parts) else 4 if at % 2 else 2) for at in range(parts + 1))
    return max(0.0, 1 - 2 * inside * step / 3)


@dataclass(frozen=True)
class Session:
    """What was found of one pair of commands."""

    lows: dict[str, float]
    """The lower limits of the changes of EPI and of wall time."""
    highs: dict[str, float]
    wall: Times
    hyperfine: Times | None


def _compare(a: Sequence[str], b: Sequence[str], rounds: int) -> dict[str, object]:
    words = [sys.executable, "-m", "headway", "compare", "--json", "-w", "1", "-r", str(rounds), "--source", "bpf"]
    done = subprocess.run([*words, "--", *a, "--", *b], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"headway compare failed: {done.stderr.strip()}")
    found: dict[str, object] = json.loads(done.stdout)
    return found


def _hyperfine(a: Sequence[str], b: Sequence[str], rounds: int, scratch: Path) -> Times:
    said = scratch / "hyperfine.json"
    words = ["hyperfine", "-N", "--warmup", "1", "--runs", str(rounds), "--export-json", str(said), "--style", "none"]
    subprocess.run([*words, " ".join(a), " ".join(b)], check=True, capture_output=True)
    first, second = json.loads(said.read_text())["results"]
    return Times(first["times"], second["times"])


def session(a: Sequence[str], b: Sequence[str], rounds: int, scratch: Path, *, hyperfine: bool) -> Session:
    """Compare two commands with both tools."""
    found = _compare(a, b, rounds)
    figures = {figure["name"]: figure["relative"] for figure in found["figures"]}  # type: ignore[attr-defined]
    runs = [[run["wall"] for run in found[which]["runs"]] for which in ("a", "b")]  # type: ignore[index]
    return Session(
        {name: figures[name]["low"] for name in ("epi", "wall")},
        {name: figures[name]["high"] for name in ("epi", "wall")},
        Times(*runs),
        _hyperfine(a, b, rounds, scratch) if hyperfine else None,
    )


Check = Callable[[Session, float], bool]


def _checks(hyperfine: bool) -> dict[str, Check]:
    checks: dict[str, Check] = {
        "EPI": lambda s, x: s.lows["epi"] > x,
        "wall time": lambda s, x: s.lows["wall"] > x,
        "mean of wall time": lambda s, x: s.wall.change > x,
    }
    if hyperfine:
        checks["hyperfine, means"] = lambda s, x: s.hyperfine is not None and s.hyperfine.change > x
        checks["hyperfine, t-test"] = lambda s, x: (
            s.hyperfine is not None and s.hyperfine.change > x and s.hyperfine.significant
        )
    return checks


def _rate(sessions: Sequence[Session], check: Check, threshold: float) -> str:
    alarms = sum(check(one, threshold) for one in sessions)
    low, high = wilson(alarms, len(sessions))
    return f"{100 * alarms / len(sessions):.1f} % ({100 * low:.1f}–{100 * high:.1f})"


def _width(sessions: Sequence[Session], name: str) -> str:
    widths = [(one.highs[name] - one.lows[name]) / 2 for one in sessions]
    return f"± {100 * statistics.median(widths):.1f} %"


def main(words: Sequence[str] = ()) -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.false_alarms", description=__doc__)
    parser.add_argument("--sessions", type=int, default=SESSIONS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--only-false", action="store_true")
    given = parser.parse_args(words)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    hyperfine = shutil.which("hyperfine") is not None and not given.only_false
    print(
        f"\n## False alarms\n\n{heading()}; {load()} at the beginning; {given.sessions} sessions of {given.rounds} "
        f"rounds; work of {UNITS:,} units\n"
    )
    if not hyperfine and not given.only_false:
        print("Without hyperfine: it is not installed.\n")
    same: list[Session] = []
    slower: list[Session] = []
    with compiled("work") as work, TemporaryDirectory() as scratch, Progress(disable=not sys.stderr.isatty()) as bar:
        a = [str(work), "compute", str(UNITS)]
        b = [str(work), "compute", str(round(UNITS * (1 + SLOWER)))]
        task = bar.add_task("sessions", total=given.sessions)
        with coming_and_going(work), suppress(KeyboardInterrupt):
            for _ in range(given.sessions):
                same.append(session(a, a, given.rounds, Path(scratch), hyperfine=hyperfine))
                if not given.only_false:
                    slower.append(session(a, b, given.rounds, Path(scratch), hyperfine=hyperfine))
                bar.advance(task)
    titles = ["check", *(f"> +{100 * threshold:g} %" for threshold in THRESHOLDS)]
    for title, sessions in (("A/A: false alarms", same), (f"A/B, {100 * SLOWER:g} % more work: alarms", slower)):
        if not sessions:
            continue
        print(f"{title}, {len(sessions)} sessions\n")
        rows = [
            [name, *(_rate(sessions, check, threshold) for threshold in THRESHOLDS)]
            for name, check in _checks(hyperfine).items()
        ]
        print(table(titles, rows), flush=True)
        print(f"\nHalf the interval's width, median: EPI {_width(sessions, 'epi')}, wall {_width(sessions, 'wall')}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
