"""Ready-made questions, the same on every engine, to one run or to many."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headway.errors import HeadwayError
from headway.model import Kind

from .chains import Chain, chains
from .engine import QueryResult
from .tables import Tables

__all__ = ["DEPTH", "QUESTIONS", "Question", "question"]

DEPTH = 3
"""The default number of links of a wait chain."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question with a name. If there are several runs, host and run are columns of the answer."""

    name: str
    what: str
    """What it answers, in words."""
    ask: Callable[[Tables, int], QueryResult]
    """Returns the answer. The number is the depth of wait chains."""
    times: tuple[str, ...] = ()
    """The columns that are times."""
    shares: tuple[str, ...] = field(default=())
    """The columns that are shares from 0 to 1."""

    def units(self, tables: Tables) -> Mapping[str, str]:
        """Return the unit of each column that has one."""
        unit = "cycles" if tables.catalogue.cycles else "ns"
        return {**dict.fromkeys(self.times, unit), **dict.fromkeys(self.shares, "1")}


def question(name: str) -> Question:
    """Return the question of that name. Raises HeadwayError."""
    if name not in QUESTIONS:
        raise HeadwayError(f"{name!a} is not a ready-made question: choose one of {', '.join(QUESTIONS)}")
    return QUESTIONS[name]


def _sql(text: str) -> Callable[[Tables, int], QueryResult]:
    """Make a question of SQL. {runs} stands for the columns host and run, if there are several runs."""

    def ask(tables: Tables, _: int) -> QueryResult:
        return tables.ask(text.replace("{runs}", "host, run, " if len(tables.catalogue.runs) > 1 else ""))

    return ask


def _of(*kinds: Kind) -> str:
    """Return SQL for the time of some kinds."""
    some = ", ".join(f"'{kind.value}'" for kind in kinds)
    return f"CAST(sum(CASE WHEN kind IN ({some}) THEN time ELSE 0 END) AS BIGINT)"


_LOST = (Kind.MEMORY, Kind.STALL, Kind.KERNEL, Kind.POLL, Kind.STOLEN, Kind.READY)
_LOST_PROGRESS = f"""
SELECT {{runs}}name, tid, {_of(*_LOST)} AS lost, {_of(Kind.EFFECTIVE)} AS effective,
  {_of(Kind.MEMORY, Kind.STALL)} AS stall, {_of(Kind.KERNEL)} AS kernel, {_of(Kind.POLL)} AS poll,
  {_of(Kind.READY)} AS ready, {_of(Kind.STOLEN)} AS stolen,
  {_of(Kind.WAIT)} AS wait, {_of(Kind.UNKNOWN)} AS unknown
FROM progress GROUP BY host, run, thread, tid, name ORDER BY lost DESC, name, tid, host, run
"""
_ALL = "CAST(sum(time) AS DOUBLE)"
_UTILISATION = f"""
SELECT {{runs}}cpu, 1 - {_of(Kind.WAIT)} / {_ALL} AS busy, {_of(Kind.EFFECTIVE, Kind.MEMORY, Kind.STALL)} AS effective,
  {_of(Kind.KERNEL)} AS kernel, {_of(Kind.POLL)} AS poll, {_of(Kind.STOLEN)} AS stolen,
  {_of(Kind.OVERHEAD)} AS overhead, {_of(Kind.UNKNOWN)} AS unmeasured, {_of(Kind.WAIT)} AS idle
FROM processors GROUP BY host, run, cpu HAVING sum(time) > 0 ORDER BY host, run, cpu
"""
_WAITS = """
SELECT {runs}name, state, CAST(sum(number) AS BIGINT) AS waits, CAST(sum(time) AS BIGINT) AS time,
  CAST(floor(sum(time) / CAST(sum(number) AS DOUBLE)) AS BIGINT) AS mean, max(longest) AS longest
FROM (
  SELECT w.host, w.run, t.name, w.state, w.number, w.time, w.longest FROM (
  SELECT host, run, thread, state, count(*) AS number, sum(duration) AS time, max(duration) AS longest
  FROM transitions
  WHERE thread IS NOT NULL AND duration > 0 AND (state LIKE 'wait.%' OR state LIKE 'stopped%' OR state LIKE 'ready%')
  GROUP BY host, run, thread, state
  ) AS w JOIN threads AS t ON w.host = t.host AND w.run = t.run AND w.thread = t.thread
) AS named GROUP BY host, run, name, state ORDER BY time DESC, name, state, host, run
"""
_STATES = """
SELECT {runs}name, state, kind, count(*) AS threads, CAST(sum(count) AS BIGINT) AS count,
  CAST(sum(time) AS BIGINT) AS time
FROM states GROUP BY host, run, name, state, kind ORDER BY time DESC, name, state, host, run
"""


def _wait_chains(tables: Tables, depth: int) -> QueryResult:
    runs = tables.catalogue.runs
    many = len(runs) > 1

    def rows() -> Iterator[Sequence[Any]]:
        found = [(run, chain) for run in runs for chain in chains(tables, run, depth)]
        found.sort(key=lambda pair: -pair[1].time)
        for run, chain in found:
            who = (run.host, run.run) if many else ()
            yield (*who, chain.time, chain.count, len(chain.links), _path(chain))

    return QueryResult((*(("host", "run") if many else ()), "time", "waits", "depth", "chain"), rows())


def _path(chain: Chain) -> str:
    return " <- ".join([*(f"{name} {state}" for name, state in chain.links), chain.end])


QUESTIONS = {
    found.name: found
    for found in (
        Question(
            "lost-progress",
            "threads by the time in which they were able to run but made no progress, and where it went",
            _sql(_LOST_PROGRESS),
            times=("lost", "effective", "stall", "kernel", "poll", "ready", "stolen", "wait", "unknown"),
        ),
        Question(
            "wait-chains",
            "who waited for whom, and what that one waited for in turn, summed along wake-ups",
            _wait_chains,
            times=("time",),
        ),
        Question(
            "waits",
            "threads of one name by what they waited for: how often, how long in all, on average and at most",
            _sql(_WAITS),
            times=("time", "mean", "longest"),
        ),
        Question(
            "states",
            "threads of one name by state: how often and how long",
            _sql(_STATES),
            times=("time",),
        ),
        Question(
            "processors",
            "how busy every processor was, and with what",
            _sql(_UTILISATION),
            times=("effective", "kernel", "poll", "stolen", "overhead", "unmeasured", "idle"),
            shares=("busy",),
        ),
    )
}
"""The ready-made questions by name."""
