"""The state at an instant: what every thread was doing, since when, on which processor, and who had woken it.

Few rows are read, however long the recording: those that begin less than `LONG` before the instant, and the longer
ones, which have row groups of their own.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headway.errors import HeadwayError
from headway.model import Frame, Kind, kind_of
from headway.model.places import words_of_place
from headway.recording.format import LONG

from .alignment import lines
from .catalogue import Catalogue, RecordedRun, end_of, rows_of
from .tables import Tables, open_engine
from .times import instant_of

__all__ = ["Doing", "Instant", "Wake", "at"]

_ROWS_BACK = 2_000_000
"""The last wait of a thread is searched in about this many rows before the instant. Long waits are always found."""


@dataclass(frozen=True, slots=True)
class Wake:
    """The wake-up that ended a wait."""

    time: int
    thread: str | None
    """The name of the thread that woke it, if it is measured."""
    tid: int | None
    state: str | None
    """The interrupt that woke it, if it was one."""


@dataclass(frozen=True, slots=True)
class Doing:
    """What one thread was doing. Times are in the recording's time unit."""

    tid: int
    pid: int
    name: str
    state: str
    since: int | None
    """When the state began; None: not known."""
    until: int | None
    """When the state ended; None: it had not ended when the recording did, or it is not known."""
    cpu: int | None
    wake: Wake | None
    """For a waiting thread, what ended that wait later; for others, what had ended their last wait. None: not known."""
    place: str | None = None
    """For a waiting thread, where in the program the wait began, in words; None: no stack says so."""

    @property
    def kind(self) -> Kind:
        """The kind of the state."""
        return kind_of(self.state)


@dataclass(frozen=True, slots=True)
class Instant:
    """Every thread that was alive at one instant of one run."""

    run: RecordedRun
    time: int
    realtime: int | None
    """ns since 1970; None: the recording has no anchors."""
    uncertainty: int | None
    threads: tuple[Doing, ...]
    looked_back: int
    """How far back waits shorter than `LONG` were searched, in the time unit. Earlier wake-ups are not known."""
    left_out: tuple[str, ...]


def at(run: RecordedRun, text: str) -> Instant:
    """Return every thread at the instant that ``text`` names. Raises HeadwayError if it is not recorded."""
    time = instant_of(text, run)
    end = end_of(run)
    if time < run.begin:
        why = "begins later" if time < run.start else "has dropped that part to stay within its limit"
        raise HeadwayError(f"{run.words} {why}: it covers {_span(run, end)}")
    if end is None or time >= end:
        if run.closed:
            raise HeadwayError(f"{run.words} ends before that: it covers {_span(run, end)}")
        raise HeadwayError(
            f"{run.words} is not closed and its complete parts end before that: it covers {_span(run, end)}"
        )
    catalogue = Catalogue((run,))
    with Tables(catalogue, open_engine(None, catalogue), _TABLES) as tables:
        rows = _rows_at(tables, time)
        threads = _threads(tables)
        names = {number: (tid, name) for number, tid, _, name, _, _ in threads}
        alive = {row[0]: row[1:4] for row in threads if row[4] <= time and (row[5] is None or row[5] > time)}
        open_ = {} if run.closed else _open(tables, time)
        needy = [n for n in alive if n in rows or n in open_]
        back, waits = _last_waits(tables, time, end, [n for n in needy if not _waits(rows, open_, n)])
        found = []
        places = _places(tables, {row[8] for row in rows.values()} - {None})
        for number, (tid, pid, name) in alive.items():
            row = rows.get(number)
            if row is not None:
                state, since, duration, cpu = row[1:5]
                wake = _wake(row, names) if _is_wait(state) else _wake(waits.get(number), names)
                place = places.get(row[8]) if _is_wait(state) else None
                found.append(Doing(tid, pid, name, state, since, since + duration, cpu, wake, place))
            elif number in open_:
                state, since, cpu = open_[number]
                found.append(Doing(tid, pid, name, state, since, None, cpu, _wake(waits.get(number), names)))
            else:
                found.append(Doing(tid, pid, name, "unknown", None, None, None, None))
        left_out = tuple(tables.left_out)
    line = next((piece for piece in lines(run.anchors) if piece.start <= time < piece.end), None)
    return Instant(
        run=run,
        time=time,
        realtime=None if line is None else line.realtime(time),
        uncertainty=None if line is None else line.uncertain(time),
        threads=tuple(sorted(found, key=lambda doing: (doing.name, doing.tid))),
        looked_back=back,
        left_out=left_out,
    )


def _span(run: RecordedRun, end: int | None) -> str:
    if end is None:
        return "nothing yet, as no part of it is complete"
    ends = [moment - run.start for moment in (run.begin, end)]
    if run.time_unit == "cycles":
        return f"cycle {ends[0]} to {ends[1]}"
    return f"{ends[0] / 1e9:.9g} to {ends[1] / 1e9:.9g} s"


def _is_wait(state: str) -> bool:
    return kind_of(state) is Kind.WAIT


def _waits(rows: Mapping[int, Sequence[Any]], open_: Mapping[int, Sequence[Any]], number: int) -> bool:
    return _is_wait(rows[number][1] if number in rows else open_[number][0])


_COLUMNS = "thread, state, time, duration, cpu, waker, waker_tid, waker_state, stack"
_TABLES = ("transitions", "threads", "open_states", "stacks", "frames")


def _rows_at(tables: Tables, time: int) -> dict[int, Sequence[Any]]:
    """Return thread -> its row that contains the time. If rows overlap, which they should not, the later one counts."""
    short = f"duration > 0 AND duration < {LONG} AND time > {time - LONG} AND time <= {time}"
    long = f"duration >= {LONG} AND time <= {time}"
    queries = [
        f"SELECT {_COLUMNS} FROM transitions WHERE thread IS NOT NULL AND {chosen} AND time + duration > {time}"
        for chosen in (short, long)
    ]
    return _latest(tables, queries)


def _latest(tables: Tables, queries: Sequence[str]) -> dict[int, Sequence[Any]]:
    """Return thread -> the last of its rows in the answers."""
    found: dict[int, Sequence[Any]] = {}
    for row in tables.ask(" UNION ALL ".join(queries)).rows:
        if row[0] not in found or found[row[0]][2] < row[2]:
            found[row[0]] = row
    return found


def _places(tables: Tables, stacks: Collection[int]) -> dict[int, str]:
    """Return the places of stacks in words, by number; of those that have none nothing."""
    if not stacks:
        return {}
    query = f"""
SELECT s.stack, f.function, f.file, f.line, f.module, CAST(f.address AS VARCHAR), f.kind
FROM stacks AS s JOIN frames AS f ON s.place = f.frame WHERE s.stack IN ({", ".join(map(str, sorted(stacks)))})"""
    return {
        number: words_of_place(Frame(function, file, line, module, None if address is None else int(address), kind))
        for number, function, file, line, module, address, kind in tables.ask(query).rows
    }


def _threads(tables: Tables) -> list[Sequence[Any]]:
    return list(tables.ask('SELECT thread, tid, pid, name, start, "end" FROM threads').rows)


def _open(tables: Tables, time: int) -> dict[int, Sequence[Any]]:
    query = f"SELECT thread, state, since, cpu FROM open_states WHERE since <= {time}"
    return {row[0]: row[1:] for row in tables.ask(query).rows}


def _last_waits(tables: Tables, time: int, end: int, threads: Sequence[int]) -> tuple[int, dict[int, Sequence[Any]]]:
    """Return how far back was searched, and thread -> the row of its last wait that had ended."""
    (run,) = tables.catalogue.runs
    back = max(LONG, (end - run.start) * _ROWS_BACK // max(rows_of(run), 1))
    if not threads:
        return back, {}
    who = f"thread IN ({', '.join(map(str, threads))})"
    waits = " OR ".join(f"state LIKE '{word}%'" for word in ("wait.", "stopped"))
    chosen = f"({waits}) AND {who} AND time <= {time} AND time + duration <= {time}"
    queries = [
        f"""
SELECT {_COLUMNS} FROM (
  SELECT {_COLUMNS}, row_number() OVER (PARTITION BY thread ORDER BY time DESC) AS latest
  FROM transitions WHERE duration > 0 AND {rows} AND {chosen}
) AS waits WHERE latest = 1"""
        for rows in (f"duration < {LONG} AND time > {time - back}", f"duration >= {LONG}")
    ]
    return back, _latest(tables, queries)


def _wake(row: Sequence[Any] | None, names: Mapping[int, tuple[int, str]]) -> Wake | None:
    if row is None:
        return None
    _, _, time, duration, _, waker, waker_tid, waker_state, _ = row
    tid, name = names.get(waker, (waker_tid, None))
    return None if tid is None and waker_state is None else Wake(time + duration, name, tid, waker_state)
