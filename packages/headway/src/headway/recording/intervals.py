"""A recording divided into intervals of one length, and the ledger of each. The screen uses it to move through time.

A row that spans several intervals counts in each with the time that lies in it. What the observer took of the row is
divided in proportion, without a remainder. So the ledgers of consecutive intervals add up to that of the whole.
Intervals are computed in pages, many with one query, because moving through time asks for neighbours.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from dataclasses import replace

from headway.errors import HeadwayError
from headway.model import Behind, CauseKey, Kind, Ledger, Overhead, Processor, ThreadSeen, Window, kind_of, list_causes

from .format import LONG
from .ledger import Account, of_times, thread_of
from .queries.catalogue import find
from .queries.tables import Tables, open_engine
from .reader import Recording
from .spinning import time_found_spinning

__all__ = ["RecordedIntervals"]

_MAX_INTERVALS = 200
"""The default number of intervals is at most this, and smaller where the length is rounded."""
_PAGE = 64
"""The number of intervals computed at once, if there are few threads."""
_ROWS = 150_000
"""The approximate number of figures computed at once, if there are many threads."""
_KEPT_PAGES = 4
_SHORTEST = 100
"""The shortest length of an interval, in the recording's time unit."""
_MAX_WINDOWS = 10_000_000
"""The largest number of intervals of a recording."""


class RecordedIntervals:
    """The intervals of a recording, numbered from 0. Use it as a context manager, or call `close`.

    ``length`` is that of an interval in the recording's time unit; None chooses it so that there are 100 to 200
    intervals. Raises HeadwayError if the path is not one recording, or if the recording has no complete part.
    """

    def __init__(self, path: str, length: int | None = None) -> None:
        catalogue = find(path)
        if len(catalogue.runs) != 1:
            raise HeadwayError(f"{path!a} has {len(catalogue.runs)} recordings: give one of them")
        (self._run,) = catalogue.runs
        with Recording(self._run.place) as recording:
            self._window = recording.window
            self._empty = of_times(recording.document.ledger)
            self._losses = recording.losses()
            self._threads: dict[int, ThreadSeen] = recording.threads()
            self._open = recording.open_states()
            self.boot = recording.document.boot
            """The boot and machine that it was recorded on (`Document.boot`)."""
            self.time_unit = recording.document.ledger.time_unit
            """The unit of the intervals' length: ``ns`` or ``cycles``."""
            command = recording.document.command
            self._note_spinning()
        self.title = path if command is None else f"{path}: {' '.join(command)}"
        """The path and command of the recording. The text is not sanitised for a terminal."""
        if self._window.duration < 1:
            raise HeadwayError(f"{self._run.words} has no complete part to show: record for longer")
        self.length = _round(self._window.duration / _MAX_INTERVALS) if length is None else length
        self._set_length(self.length)
        self._pages: OrderedDict[int, list[Ledger]] = OrderedDict()
        # It may have grown since; a catalogue that is too new does no harm, one that is too old does.
        if not self._run.closed:
            catalogue = find(self._run.place)
        self._tables = Tables(catalogue, open_engine(None, catalogue), ("transitions",))

    def close(self) -> None:
        """Close the files."""
        self._tables.engine.close()

    def __enter__(self) -> RecordedIntervals:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def number(self) -> int:
        """The number of intervals."""
        return -(-self._window.duration // self.length)

    @property
    def began(self) -> int:
        """The start of the first interval."""
        return self._window.start

    def ledgers(self, last: int, most: int) -> list[Ledger]:
        """Return the ledgers of up to ``most`` intervals, of which the last is number ``last``."""
        return [self._ledger(at) for at in range(max(last - most + 1, 0), last + 1)]

    def rescaled(self, halve: bool, at: int) -> int | None:
        """Make the intervals half or twice as long, and return the number of the one that contains the start of ``at``.

        Returns None, and changes nothing, if the new length would be too short or too long.
        """
        length = self.length // 2 if halve else self.length * 2
        if length < _SHORTEST or length >= 2 * self._window.duration or self._window.duration // length > _MAX_WINDOWS:
            return None
        begin = at * self.length
        self._set_length(length)
        self._pages.clear()
        return begin // length

    def _note_spinning(self) -> None:
        spun = time_found_spinning(self._run.place)
        if spun:
            spun_ms = f"{spun / 1e6:,.1f} ms"
            reason = f"samples found that ~{spun_ms} of the user code in the whole recording spun, and do not say when"
            self._empty = replace(self._empty, reasons={**self._empty.reasons, "epi": reason})

    def _set_length(self, length: int) -> None:
        self.length = max(length, 1, self._window.duration // _MAX_WINDOWS)
        threads = max(len(self._threads), 1)
        self._page = min(max(_ROWS // (8 * threads), 8), _PAGE)

    def _ledger(self, at: int) -> Ledger:
        page, place = divmod(at, self._page)
        found = self._pages.get(page)
        if found is None:
            found = self._pages[page] = self._counted(page)
            if len(self._pages) > _KEPT_PAGES:
                self._pages.popitem(last=False)
        self._pages.move_to_end(page)
        return found[place]

    def _counted(self, page: int) -> list[Ledger]:
        """Return the ledgers of a page."""
        length, first = self.length, page * self._page
        number = min(self._page, self.number - first)
        start = self._window.start + first * length
        end = min(start + number * length, self._window.end)
        threads: list[defaultdict[int, Account]] = [defaultdict(Account) for _ in range(number)]
        cpus: list[defaultdict[int, Account]] = [defaultdict(Account) for _ in range(number)]
        causes: list[defaultdict[int, dict[CauseKey, tuple[int, int]]]] = [defaultdict(dict) for _ in range(number)]
        for row in self._tables.ask(_question(start, end, length, first=not page)).rows:
            at, thread, cpu, state, waker, waker_tid, waker_state, time, taken, count = row
            time, taken, count = int(time), int(taken), int(count or 0)
            if thread is not None:
                threads[at][thread].add(state, time, taken, count)
                cause = self._cause(state, waker, waker_tid, waker_state)
                if cause is not None:
                    old = causes[at][thread].get(cause, (0, 0))
                    causes[at][thread][cause] = old[0] + time - taken, old[1] + count
            if cpu is not None:
                cpus[at][cpu].add(state, time, taken, count)
        for state in self._open:  # states that have no row yet
            for at in range(max((state.since - start) // length, 0), number):
                until = min(start + (at + 1) * length, end)
                time = until - max(start + at * length, state.since)
                threads[at][state.thread].add(state.state, time, 0, 0)
                if state.cpu >= 0:
                    cpus[at][state.cpu].add(state.state, time, 0, 0)
        found = []
        for at in range(number):
            window = Window(start + at * length, min(start + (at + 1) * length, end))
            found.append(self._made(window, threads[at], cpus[at], causes[at]))
        return found

    def _made(
        self,
        window: Window,
        threads: dict[int, Account],
        cpus: dict[int, Account],
        causes: dict[int, dict[CauseKey, tuple[int, int]]],
    ) -> Ledger:
        rows = []
        for number in sorted(threads):
            seen = self._threads.get(number)
            thread = None if seen is None else thread_of(seen, threads[number].cells(whole=False), window)
            if thread is not None:
                rows.append(replace(thread, causes=list_causes(causes[number])) if number in causes else thread)
        processors = []
        for cpu in sorted(cpus):
            cells = cpus[cpu].cells(whole=False)
            processors.append(Processor(cpu, sum(cell.time for cell in cells.values()), cells))
        taken = sum([p.states["overhead"].time for p in processors if "overhead" in p.states])
        return replace(
            self._empty,
            overhead=Overhead(taken if processors else None),
            source="recording",
            window=window,
            threads=tuple(rows),
            processors=tuple(processors),
            losses=self._losses,
        )

    def _cause(self, state: str, waker: int | None, waker_tid: int | None, waker_state: str | None) -> CauseKey | None:
        """Return the cause that ended a wait, or None if it is not known."""
        if kind_of(state) is not Kind.WAIT:
            return None
        if waker_state is not None:
            return state, Behind.WAKER, waker_state, None
        seen = None if waker is None else self._threads.get(waker)
        if seen is not None:
            return state, Behind.WAKER, seen.name, seen.tid
        return None if waker_tid is None else (state, Behind.WAKER, "", waker_tid)


def _round(length: float) -> int:
    """Return the next of 1, 2, 5, 10 ... that is at least ``length``."""
    power = 1
    while True:
        for step in (1, 2, 5):
            if step * power >= length:
                return max(step * power, _SHORTEST)
        power *= 10


_COLUMNS = "thread, cpu, state, waker, waker_tid, waker_state"


def _question(start: int, end: int, length: int, *, first: bool) -> str:
    """Return the SQL for the sums over the rows from ``start`` until ``end``, by interval.

    ``first``: the recording begins at ``start``. A row within one interval counts there, a longer one in each interval
    that it touches. An amount without a place counts in the interval in which the row ended that it was taken from.
    """
    last, at_start = (end - 1 - start) // length, str(first).upper()
    within = f"time < {end + 1} AND time + duration >= {start}"
    rows = f"""
SELECT {_COLUMNS}, time, duration, taken, count,
  CASE WHEN time < {start} THEN -1 WHEN duration = 0 THEN (greatest(time, {start + 1}) - 1 - {start}) // {length}
    ELSE (time - {start}) // {length} END AS first,
  CASE WHEN time + duration > {end} THEN {last + 1}
    ELSE (time + greatest(duration, 1) - 1 - {start}) // {length} END AS final
FROM (
  SELECT {_COLUMNS}, time, duration, taken, count FROM transitions
  WHERE duration < {LONG} AND time > {start - LONG} AND {within}
  UNION ALL
  SELECT {_COLUMNS}, time, duration, taken, count FROM transitions WHERE duration >= {LONG} AND {within}
) AS found
WHERE CASE WHEN duration > 0 THEN time < {end} AND time + duration > {start} ELSE time > {start} OR {at_start} END"""
    cut = "least(time + duration, p.until)", "greatest(time, p.since)"

    def part(at: str) -> str:
        return f"CAST(taken AS HUGEINT) * ({at} - time) // duration"

    return f"""
WITH found AS ({rows}),
places AS (
  SELECT place, {start} + place * {length} AS since, least({start} + (place + 1) * {length}, {end}) AS until
  FROM (SELECT CAST(range AS BIGINT) AS place FROM range({last + 1})) AS numbers
)
SELECT place, {_COLUMNS}, sum(time) AS time, sum(taken) AS taken, sum(count) AS count FROM (
  SELECT least(first, {last}) AS place, {_COLUMNS}, duration AS time, taken, count FROM found
  WHERE first = final OR duration = 0
  UNION ALL
  SELECT p.place, {_COLUMNS}, {cut[0]} - {cut[1]} AS time,
    CASE WHEN taken = 0 THEN 0 ELSE CAST({part(cut[0])} - {part(cut[1])} AS BIGINT) END AS taken,
    CASE WHEN p.place = final THEN count ELSE 0 END AS count
  FROM found JOIN places AS p ON p.place >= first AND p.place <= final
  WHERE first < final AND duration > 0
) AS parts GROUP BY place, {_COLUMNS}
"""
