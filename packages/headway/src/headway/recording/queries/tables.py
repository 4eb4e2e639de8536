"""The tables that users query, with the same definitions on every engine.

They are written in the part of DuckDB's SQL that is translated faithfully: no as-of joins, no lists, no lateral joins.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from typing import Any, Self

import pyarrow as pa

from headway.errors import HeadwayError
from headway.model import KINDS, Kind

from .alignment import SLEW, lines
from .catalogue import Catalogue, RecordedRun, end_of, find, sift
from .engine import PREFIX, DamagedError, Engine, QueryResult, UnanswerableError

__all__ = ["TABLES", "Tables", "kind_of_state", "open_tables"]


def kind_of_state(state: str) -> str:
    """Return SQL for the kind of the state that an SQL expression gives."""
    cases = " ".join(f"WHEN '{word}' THEN '{kind.value}'" for word, kind in KINDS.items())
    return f"CASE split_part({state}, '.', 1) {cases} ELSE '{Kind.UNKNOWN.value}' END"


_THREADS = f"""
SELECT host, run, thread, tid, pid, name, birth, "start", "end" FROM (
  SELECT *, row_number() OVER (PARTITION BY host, run, thread ORDER BY part DESC, row DESC) AS latest
  FROM {PREFIX}threads
) AS rows WHERE latest = 1
"""
# The state that a thread was in is valid if no later row of the thread follows.
_OPEN = f"""
SELECT host, run, thread, cpu, state, since FROM (
  SELECT *, row_number() OVER (PARTITION BY host, run, thread ORDER BY part DESC, row DESC) AS latest
  FROM {PREFIX}open
) AS rows WHERE latest = 1
"""
_LOSSES = f"""
SELECT host, run, name, count FROM (
  SELECT *, row_number() OVER (PARTITION BY host, run, name ORDER BY part DESC, row DESC) AS latest
  FROM {PREFIX}losses
) AS rows WHERE latest = 1
"""
_COUNTERS = ("cycles", "instructions", "stall_cycles", "memory_stall_cycles", "external_stall_cycles")
_SAMPLED = ("sampled", "samples", "by_mode", "mode_samples")


def _ledger(who: str, table: str) -> str:
    """Return SQL for thread (or processor) x state: as the source kept it, or summed from the rows of unclosed runs."""
    counters = ", ".join([*_COUNTERS, *_SAMPLED])
    unknown = ", ".join(f"CAST(NULL AS BIGINT) AS {name}" for name in (*_COUNTERS, *_SAMPLED))
    return f"""
SELECT host, run, {who}, state, time, count, {counters} FROM {PREFIX}{table}
UNION ALL
SELECT host, run, {who}, state, CAST(sum(time) AS BIGINT) AS time, CAST(sum(count) AS BIGINT) AS count, {unknown}
FROM (
  SELECT host, run, {who}, state, sum(duration - taken) AS time, sum(count) AS count
  FROM {PREFIX}unsummed WHERE {who} IS NOT NULL GROUP BY host, run, {who}, state
  UNION ALL
  SELECT host, run, {who}, 'overhead' AS state, sum(taken) AS time, CAST(NULL AS BIGINT) AS count
  FROM {PREFIX}unsummed WHERE {who} IS NOT NULL GROUP BY host, run, {who}
  UNION ALL
  SELECT o.host, o.run, o.{who}, o.state, r."end" - o.since AS time, 0 AS count
  FROM open_states AS o JOIN recordings AS r ON o.host = r.host AND o.run = r.run
  JOIN threads AS t ON o.host = t.host AND o.run = t.run AND o.thread = t.thread
  WHERE r.summed = 0 AND o.{who} IS NOT NULL AND t."end" IS NULL
) AS parts
GROUP BY host, run, {who}, state HAVING sum(time) <> 0 OR sum(count) <> 0
"""


_STATES = f"""
SELECT l.host, l.run, l.thread, t.tid, t.pid, t.name, l.state, {kind_of_state("l.state")} AS kind, l.time, l.count,
  {", ".join(f"l.{name}" for name in (*_COUNTERS, *_SAMPLED))}
FROM ({_ledger("thread", "states")}) AS l
LEFT JOIN threads AS t ON l.host = t.host AND l.run = t.run AND l.thread = t.thread
"""
_PROCESSORS = f"""
SELECT host, run, cpu, state, {kind_of_state("state")} AS kind, time, count, {", ".join([*_COUNTERS, *_SAMPLED])}
FROM ({_ledger("cpu", "processors")}) AS l
"""
# The time of each kind. The time of user code is divided like its cycles, if they were counted (model/indices.py).
_STALLED = "least(coalesce(stall_cycles, memory_stall_cycles, 0), cycles)"
_PARTS = {
    Kind.MEMORY: f"least(coalesce(memory_stall_cycles, 0), {_STALLED})",
    Kind.STALL: _STALLED,
}
_COUNTED = f"kind = '{Kind.EFFECTIVE.value}' AND cycles > 0"


def _part(kind: Kind) -> str:
    return f"CAST(floor(CAST(time AS DOUBLE) * greatest({_PARTS[kind]}, 0) / cycles) AS BIGINT)"


_WHO = "host, run, thread, tid, pid, name"
_PROGRESS = f"""
SELECT {_WHO}, kind, CAST(sum(time) AS BIGINT) AS time FROM (
  SELECT {_WHO}, kind, CASE WHEN {_COUNTED} THEN time - {_part(Kind.STALL)} ELSE time END AS time FROM states
  UNION ALL
  SELECT {_WHO}, '{Kind.STALL.value}' AS kind, {_part(Kind.STALL)} - {_part(Kind.MEMORY)} AS time
  FROM states WHERE {_COUNTED}
  UNION ALL
  SELECT {_WHO}, '{Kind.MEMORY.value}' AS kind, {_part(Kind.MEMORY)} AS time FROM states WHERE {_COUNTED}
) AS parts GROUP BY {_WHO}, kind
"""
_ALIGNED = f"""
SELECT t.*, c.base + (t.time - c.origin) + CAST(round(c.drift * (t.time - c.origin)) AS BIGINT) AS realtime,
  c.uncertainty + CAST(round({SLEW} * greatest(c.known_from - t.time, t.time - c.known_until, 0)) AS BIGINT)
    AS uncertainty
FROM transitions AS t
LEFT JOIN clocks AS c ON t.host = c.host AND t.run = c.run AND t.time >= c."start" AND t.time < c."end"
"""
_SAMPLES = f"""
SELECT s.host, s.run, s.time, s.thread, t.tid, t.pid, t.name, s.cpu, s.state, {kind_of_state("s.state")} AS kind,
  s.weight, s.stack
FROM (SELECT * FROM {PREFIX}samples UNION ALL SELECT * FROM {PREFIX}processor_samples) AS s
LEFT JOIN threads AS t ON s.host = t.host AND s.run = t.run AND s.thread = t.thread
"""
# Where in the program each wait began, and where the waker was that ended it.
_WAITS = f"""
SELECT w.host, w.run, w.time, w.duration, w.thread, t.tid, t.pid, t.name, w.state, w.stack, f.function, f.file, f.line,
  f.module, w.waker, w.waker_tid, w.waker_state, w.waker_stack, g.function AS waker_function, g.file AS waker_file,
  g.line AS waker_line, g.module AS waker_module
FROM transitions AS w
LEFT JOIN threads AS t ON w.host = t.host AND w.run = t.run AND w.thread = t.thread
LEFT JOIN stacks AS s ON w.host = s.host AND w.run = s.run AND w.stack = s.stack
LEFT JOIN frames AS f ON s.host = f.host AND s.run = f.run AND s.place = f.frame
LEFT JOIN stacks AS r ON w.host = r.host AND w.run = r.run AND w.waker_stack = r.stack
LEFT JOIN frames AS g ON r.host = g.host AND r.run = g.run AND r.place = g.frame
WHERE w.cpu IS NULL AND w.duration > 0 AND {kind_of_state("w.state")} = '{Kind.WAIT.value}'
"""
_VIEWS = {
    "threads": _THREADS,
    "open_states": _OPEN,
    "losses": _LOSSES,
    "transitions": f"SELECT * FROM {PREFIX}transitions",
    "states": _STATES,
    "progress": _PROGRESS,
    "processors": _PROCESSORS,
    "aligned": _ALIGNED,
    "samples": _SAMPLES,
    "stacks": f"SELECT * FROM {PREFIX}stacks",
    "frames": f"SELECT * FROM {PREFIX}frames",
    "waits": _WAITS,
}
TABLES = ("recordings", "clocks", *_VIEWS)
"""The tables that can be queried."""
_FILES = ("transitions", "threads", "open", "losses", "samples", "processor_samples", "stacks", "frames")


_NAMES = {"open": "open_states", "processor_samples": "samples"}
"""Tables that have another name for users than in the files."""


class Tables:
    """The tables of some recordings on an engine, all of them or those ``wanted``. It is a context manager."""

    def __init__(self, catalogue: Catalogue, engine: Engine, wanted: Collection[str] = TABLES) -> None:
        self._wanted = frozenset(wanted)
        self.catalogue = catalogue
        self.engine = engine
        self.left_out: list[str] = list(catalogue.left_out)
        self._sifted = False
        try:
            self._trying(self._define)
            engine.seal()
        except BaseException:
            engine.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.engine.close()

    def _define(self) -> None:
        runs = self.catalogue.runs
        for table in _FILES:
            if _NAMES.get(table, table) in self._wanted:
                self.engine.read(PREFIX + table, table, runs)
        if self._wanted >= {*TABLES}:
            self._define_ledgers(runs)
        for name, query in _VIEWS.items():
            if name in self._wanted:
                self.engine.define(name, query)

    def _define_ledgers(self, runs: Sequence[RecordedRun]) -> None:
        summed = [run for run in runs if _summed(run)]
        self.engine.read(PREFIX + "states", "states", summed)
        self.engine.read(PREFIX + "processors", "processors", summed)
        self.engine.read(PREFIX + "unsummed", "transitions", [run for run in runs if not _summed(run)])
        self.engine.put("recordings", self._recordings())
        self.engine.put("clocks", self._clocks())

    def _recordings(self) -> pa.Table:
        ends = self._ends()
        runs = self.catalogue.runs
        return pa.table(
            {
                "host": pa.array([run.host for run in runs], pa.string()),
                "run": pa.array([run.run for run in runs], pa.string()),
                "closed": pa.array([int(run.closed) for run in runs], pa.int32()),
                "summed": pa.array([int(_summed(run)) for run in runs], pa.int32()),
                "start": pa.array([run.start for run in runs], pa.int64()),
                "end": pa.array(ends, pa.int64()),
                "time_unit": pa.array([run.time_unit for run in runs], pa.string()),
            }
        )

    def _ends(self) -> list[int]:
        return [run.start if (end := end_of(run)) is None else end for run in self.catalogue.runs]

    def _clocks(self) -> pa.Table:
        pieces = [(run.host, run.run, line) for run in self.catalogue.runs for line in lines(run.anchors)]
        columns: dict[str, pa.Array[Any]] = {
            "host": pa.array([host for host, _, _ in pieces], pa.string()),
            "run": pa.array([run for _, run, _ in pieces], pa.string()),
            "drift": pa.array([line.drift for _, _, line in pieces], pa.float64()),
        }
        for name in ("start", "end", "origin", "base", "uncertainty", "known_from", "known_until"):
            columns[name] = pa.array([getattr(line, name) for _, _, line in pieces], pa.int64())
        return pa.table(columns)

    def unclosed(self) -> list[str]:
        """Return a sentence for each recording that was not closed: that it was not, and for how long it is known."""
        found = []
        for run in self.catalogue.runs:
            if not run.closed:
                parts = len(run.files["transitions"])
                end = end_of(run)
                known = "nothing is known of it" if end is None else f"it is known for {_long(end - run.start, run)}"
                count = "no complete part" if not parts else f"{parts} complete part{'s' if parts > 1 else ''}"
                found.append(f"{run.words} is not closed: {known}, as of its {count}")
        return found

    def _trying(self, do: Callable[[], Any]) -> Any:
        """Call ``do``. If damaged files prevent it, call it again without them."""
        try:
            return do()
        except DamagedError as error:
            if not self._sift():
                raise self._said(error) from None
        try:
            return do()
        except DamagedError as error:
            raise self._said(error) from None

    def _said(self, error: DamagedError) -> HeadwayError:
        if isinstance(error, UnanswerableError):
            return HeadwayError(f"the SQL cannot be answered: {error}")
        return HeadwayError(f"{self._what()} cannot be read: {error}")

    def _what(self) -> str:
        return self.catalogue.runs[0].words if len(self.catalogue.runs) == 1 else "one of the recordings"

    def _sift(self) -> bool:
        """Leave out damaged parts. Return whether there were any."""
        if self._sifted:
            return False
        self._sifted = True
        sifted = [sift(run) for run in self.catalogue.runs]
        found = [why for _, reasons in sifted for why in reasons]
        self.left_out += found
        if not found:
            return False
        self.catalogue = replace(self.catalogue, runs=tuple(run for run, _ in sifted))
        self._define()
        return True

    def ask(self, query: str, *, translate: bool = True) -> QueryResult:
        """Return the answer to a query, without the damaged parts of the recording (see `left_out`).

        Raises HeadwayError if the query is wrong, or if the answer exceeds memory and disk.
        """

        def begin() -> QueryResult:
            answer = self.engine.ask(query, translate=translate)
            first = list(islice(answer.rows, 1))  # most damage shows before the first row
            return QueryResult(answer.columns, chain(first, answer.rows))

        answer: QueryResult = self._trying(begin)
        return QueryResult(answer.columns, self._rest(answer.rows))

    def arrow(self, query: str) -> pa.Table:
        """Return the whole answer as a table; otherwise as `ask`."""
        found: pa.Table = self._trying(lambda: self.engine.arrow(query))
        return found

    def _rest(self, rows: Iterator[Sequence[Any]]) -> Iterator[Sequence[Any]]:
        try:
            yield from rows
        except DamagedError as error:
            raise self._said(error) from None

    def ask_user(self, query: str) -> QueryResult:
        """Return the answer to a user's query in the engine's own dialect. It must be one query that only reads."""
        self.engine.check(query)
        return self.ask(query, translate=False)


def _long(time: int, run: RecordedRun) -> str:
    return f"{time} cycles" if run.time_unit == "cycles" else f"{time / 1e9:.3f} s"


def _summed(run: RecordedRun) -> bool:
    """Return whether the recording has the source's own ledger, which a closed recording has."""
    return run.closed and bool(run.files["states"])


def open_tables(path: str, engine: str | None = None, *, seconds: float | None = None) -> Tables:
    """Return the tables of what a path names, on DuckDB or on the engine that a URL names. Raises HeadwayError.

    ``seconds``: DuckDB ends a query that takes longer; None: it ends none.
    """
    catalogue = find(path)
    return Tables(catalogue, open_engine(engine, catalogue, seconds=seconds))


def open_engine(url: str | None, catalogue: Catalogue, *, seconds: float | None = None) -> Engine:
    """Return DuckDB, or the engine that a URL names; for ``seconds`` see `open_tables`. Raises HeadwayError."""
    if url is None or url.startswith("duckdb://"):
        if not all(run.local for run in catalogue.runs):
            raise HeadwayError(
                "the recording is not on this machine: name an engine that reads it there, with --engine"
            )
        from .duck import DuckDB

        return DuckDB(
            None if url is None else url.removeprefix("duckdb://") or None, runs=catalogue.runs, seconds=seconds
        )
    from .elsewhere import Elsewhere

    return Elsewhere(url)
