"""Two runs side by side at equal progress.

Two runs of the same work are rarely at the same point at the same time, so they cannot be compared along time. They are
compared along progress: the time that all threads together (or those of one name) have spent in effective states so
far. The runs are compared up to the progress that both made, in tenths of it: how long each run took for the tenth, and
what all its threads did meanwhile.

Each run is divided into `PIECES` pieces of equal length, and a row that crosses a boundary is divided at it. Within a
piece, progress and everything else are assumed to pass evenly, so the end of a tenth is known to within the length of a
piece. Sums over all tenths are exact.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from headway.errors import HeadwayError
from headway.model import Kind, kind_of

from .catalogue import Catalogue, RecordedRun, end_of
from .engine import literal
from .tables import Tables, open_engine

__all__ = ["PIECES", "TENTHS", "Comparison", "Course", "Share", "Tenth", "compare", "course_of"]

PIECES = 1000
TENTHS = 10


@dataclass(frozen=True, slots=True)
class Course:
    """One run in pieces. The arrays have one element for each non-empty cell: its piece, its key, its amount."""

    run: RecordedRun
    length: int
    """The length of the run, in its time unit."""
    piece: int
    """The length of a piece, in the run's time unit."""
    keys: tuple[tuple[str, str], ...]
    """(thread name, state), by number."""
    pieces: NDArray[np.int64]
    key: NDArray[np.int64]
    amount: NDArray[np.int64]
    left_out: tuple[str, ...] = ()

    def progress(self) -> NDArray[np.int64]:
        """Return the time in effective states in each piece, shape (PIECES,)."""
        effective = np.array([kind_of(state) is Kind.EFFECTIVE for _, state in self.keys], bool)
        chosen = effective[self.key] if len(self.key) else np.zeros(0, bool)
        return _sums(self.pieces[chosen], self.amount[chosen], PIECES)

    def reaches(self, progress: int) -> Fraction:
        """Return when so much progress was made: the number of pieces since the start, with a fraction."""
        each = self.progress()
        total = np.cumsum(each)
        piece = int(np.searchsorted(total, progress, side="left"))
        before = int(total[piece - 1]) if piece else 0
        here = int(each[piece])
        return piece + (Fraction(progress - before, here) if here else Fraction(0))

    def until(self, moment: Fraction) -> dict[tuple[str, str], int]:
        """Return the time of every (thread name, state) until ``moment``, rounded down."""
        whole = int(moment)
        size = len(self.keys)
        before = self.pieces < whole
        here = self.pieces == whole
        sums = _sums(self.key[before], self.amount[before], size)
        part = _sums(self.key[here], self.amount[here], size)
        share = moment - whole
        return {key: int(a) + int(int(b) * share) for key, a, b in zip(self.keys, sums, part, strict=True)}


def _sums(where: NDArray[np.int64], amounts: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """Return the exact sums of ``amounts`` by index, shape (size,)."""
    sums = np.zeros(size, np.int64)
    np.add.at(sums, where, amounts)
    return sums


@dataclass(frozen=True, slots=True)
class Tenth:
    """A tenth of the progress in one run: how long it took, and the time of all threads by kind."""

    time: int
    kinds: Mapping[Kind, int]


@dataclass(frozen=True, slots=True)
class Share:
    """The time of threads of one name in one state, in both runs, until the progress that both made."""

    name: str
    state: str
    a: int
    b: int

    @property
    def kind(self) -> Kind:
        """The kind of the state."""
        return kind_of(self.state)

    @property
    def difference(self) -> int:
        """The time of b minus that of a."""
        return self.b - self.a


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two runs at equal progress."""

    a: Course
    b: Course
    progress_a: int
    """All progress of a. The comparison covers `common` of it."""
    progress_b: int
    common: int
    tenths: tuple[tuple[Tenth, Tenth], ...]
    shares: tuple[Share, ...]
    """The shares of the runs, the largest difference first."""

    @property
    def time(self) -> tuple[int, int]:
        """The times that a and b took for the progress that both made."""
        return sum(a.time for a, _ in self.tenths), sum(b.time for _, b in self.tenths)


def course_of(run: RecordedRun, name: str | None = None) -> Course:
    """Return the run in pieces, of all threads or only those named ``name``. Raises HeadwayError."""
    end = end_of(run)
    if end is None or end <= run.begin:
        raise HeadwayError(f"{run.words} has no complete part to compare: give another recording")
    length = end - run.begin
    piece = -(-length // PIECES)
    catalogue = Catalogue((run,))
    since = f"(time - ({run.begin}))"
    whole = f"{since} % {piece} + duration <= {piece}"
    chosen = "" if name is None else f"WHERE t.name = {literal(name)}"
    with Tables(catalogue, open_engine(None, catalogue), ("transitions", "threads", "open_states")) as tables:
        whole_ = tables.arrow(f"""
SELECT t.name, c.state, c.piece, CAST(sum(c.amount) AS BIGINT) AS amount FROM (
  SELECT thread, state, {since} // {piece} AS piece, sum(duration - taken) AS amount
  FROM transitions WHERE thread IS NOT NULL AND {whole} GROUP BY thread, state, piece
) AS c JOIN threads AS t ON c.thread = t.thread {chosen} GROUP BY t.name, c.state, c.piece""")
        crossing = tables.ask(f"""
SELECT t.name, c.state, c.time, c.duration, c.taken FROM transitions AS c JOIN threads AS t ON c.thread = t.thread
{chosen or "WHERE true"} AND NOT {whole.replace("time", "c.time").replace("duration", "c.duration")}""")
        cells: list[tuple[str, str, int, int]] = []
        for who, state, time, duration, taken in crossing.rows:
            cells += _divided(who, state, time - run.begin, duration, duration - taken, piece)
        if not run.closed:
            open_ = tables.ask(f"""
SELECT t.name, o.state, o.since FROM open_states AS o JOIN threads AS t ON o.thread = t.thread
{chosen or "WHERE true"} AND t."end" IS NULL AND o.since < {end}""")
            for who, state, since in open_.rows:
                cells += _divided(who, state, since - run.begin, end - since, end - since, piece)
        left_out = (*tables.left_out, *tables.unclosed())
    keys: dict[tuple[str, str], int] = {}
    numbers = [keys.setdefault((who, state), len(keys)) for who, state, _, _ in cells]
    names, states = (whole_[column].combine_chunks().dictionary_encode() for column in ("name", "state"))
    pairs = np.asarray(names.indices, np.int64) * max(len(states.dictionary), 1) + np.asarray(states.indices, np.int64)
    used, place = np.unique(pairs, return_inverse=True)
    size = len(states.dictionary)
    words = [
        (names.dictionary[int(pair) // size].as_py(), states.dictionary[int(pair) % size].as_py()) for pair in used
    ]
    coded = np.array([keys.setdefault(word, len(keys)) for word in words], np.int64)
    return Course(
        run=run,
        length=length,
        piece=piece,
        keys=tuple(keys),
        pieces=np.concatenate(
            [np.clip(np.asarray(whole_["piece"], np.int64), 0, PIECES - 1), _column(cell[2] for cell in cells)]
        ),
        key=np.concatenate([coded[place], _column(numbers)]),
        amount=np.concatenate([np.asarray(whole_["amount"], np.int64), _column(cell[3] for cell in cells)]),
        left_out=left_out,
    )


def _column(values: Iterable[int]) -> NDArray[np.int64]:
    return np.array(list(values), np.int64)


def _divided(
    name: str, state: str, start: int, duration: int, amount: int, piece: int
) -> Sequence[tuple[str, str, int, int]]:
    """Divide a row that crosses boundaries into cells.

    What was taken from the row is divided evenly, without remainder.
    """
    first = min(max(start // piece, 0), PIECES - 1)
    last = min(max((start + duration - 1) // piece, first), PIECES - 1)
    cells = []
    given = 0
    for number in range(first, last + 1):
        passed = duration if number == last else (number + 1) * piece - start
        until = amount * passed // duration
        cells.append((name, state, number, until - given))
        given = until
    return cells


def compare(a: Course, b: Course) -> Comparison:
    """Compare two runs at equal progress.

    Raises HeadwayError if one of them made no progress, or if their time units differ.
    """
    if a.run.time_unit != b.run.time_unit:
        raise HeadwayError(
            f"{a.run.words} is in {a.run.time_unit}, {b.run.words} in {b.run.time_unit}: give two with the same unit"
        )
    made = [int(course.progress().sum()) for course in (a, b)]
    for course, progress in zip((a, b), made, strict=True):
        if progress <= 0:
            raise HeadwayError(f"no such thread made progress in {course.run.words}, so there is nothing to compare at")
    common = min(made)
    tenths_a, ends_a = _tenths(a, common)
    tenths_b, ends_b = _tenths(b, common)
    shares = [Share(*key, ends_a.get(key, 0), ends_b.get(key, 0)) for key in sorted({*ends_a, *ends_b})]
    shares.sort(key=lambda share: -abs(share.difference))
    return Comparison(a, b, made[0], made[1], common, tuple(zip(tenths_a, tenths_b, strict=True)), tuple(shares))


def _tenths(course: Course, common: int) -> tuple[list[Tenth], dict[tuple[str, str], int]]:
    """Return each tenth, and the time of every key until the end of the last one."""
    found = []
    time, had = 0, dict.fromkeys(Kind, 0)
    so_far: dict[tuple[str, str], int] = {}
    for number in range(1, TENTHS + 1):
        moment = course.reaches(common * number // TENTHS)
        so_far = course.until(moment)
        now = dict.fromkeys(Kind, 0)
        for (_, state), amount in so_far.items():
            now[kind_of(state)] += amount
        until = int(moment * course.piece)
        found.append(Tenth(until - time, {kind: now[kind] - had[kind] for kind in Kind}))
        time, had = until, now
    return found, so_far
