"""Small lawful recordings, and what they say computed in plain Python."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from headway.recording import format as form

ON = ("user", "kernel.read", "kernel.futex", "poll", "irq.timer", "noneffective.parse")
OFF = ("ready", "wait.futex", "wait.disk", "wait.sleep")
SECOND = 10**9


class Row(NamedTuple):
    time: int
    duration: int
    taken: int
    cpu: int | None
    thread: int | None
    state: str
    count: int = 1  # type: ignore[assignment]  # a tuple has a method of that name
    waker: int | None = None
    waker_tid: int | None = None
    waker_state: str | None = None
    task: str | None = None
    task_id: int | None = None
    futex: int | None = None
    trace_id: str | None = None

    @property
    def end(self) -> int:
        return self.time + self.duration


class Thread(NamedTuple):
    thread: int
    tid: int
    pid: int
    name: str
    birth: int
    start: int
    end: int | None
    cgroup: str | None = None


class Open(NamedTuple):
    thread: int
    cpu: int | None
    state: str
    since: int


@dataclass
class Recorded:
    """What was recorded, as its parts."""

    start: int
    end: int
    rows: list[Row]
    threads: list[Thread]
    cuts: list[int] = field(default_factory=list)
    """Where one part ends and the next begins."""
    host: str = "here"
    anchors: list[dict[str, int]] = field(default_factory=list)
    losses: dict[str, int] = field(default_factory=dict)

    @property
    def edges(self) -> list[int]:
        return [self.start, *sorted(self.cuts), self.end + 1]

    def part(self, row: Row) -> int:
        """The part in whose time the row ended."""
        return sum(row.end >= cut for cut in self.edges[1:-1])

    def open_at(self, moment: int) -> list[Open]:
        """What threads are in the midst of: of the row that has not ended then."""
        found = {}
        for row in self.rows:
            if row.thread is not None and row.duration and row.time < moment <= row.end:
                found[row.thread] = Open(row.thread, row.cpu, row.state, row.time)
        ended = {t.thread for t in self.threads if t.end is not None and t.end < moment}
        return [found[number] for number in sorted(found) if number not in ended]

    def until(self, parts: int) -> Recorded:
        """What is known of it after so many parts: the stretch that a thread was in ends there."""
        moment = self.edges[parts]
        rows = [row for row in self.rows if self.part(row) < parts]
        rows += [
            row._replace(duration=moment - row.time, taken=0, count=0, waker=None, waker_tid=None, waker_state=None)
            for row in self.rows
            if self.part(row) >= parts and row.time < moment and row.duration
        ]
        threads = [t._replace(end=t.end if t.end is not None and t.end < moment else None) for t in self.threads]
        return Recorded(self.start, moment, rows, [t for t in threads if t.start < moment])


def ledger(rows: Sequence[Row], who: str = "thread") -> dict[tuple[int, str], tuple[int, int]]:
    """(thread or processor, state) -> time, count; the observer's part is not among them."""
    found: dict[tuple[int, str], list[int]] = defaultdict(lambda: [0, 0])
    for row in rows:
        number = getattr(row, who)
        if number is not None:
            cell = found[number, row.state]
            cell[0] += row.duration - row.taken
            cell[1] += row.count
    return {key: (time, count) for key, (time, count) in found.items() if time or count}


def overhead(rows: Sequence[Row], who: str = "thread") -> dict[int, int]:
    found: dict[int, int] = defaultdict(int)
    for row in rows:
        number = getattr(row, who)
        if number is not None:
            found[number] += row.taken
    return {number: time for number, time in found.items() if time}


def lawful(random: Random, *, threads: int = 4, cpus: int = 2, steps: int = 30, start: int = 0) -> Recorded:
    """Threads whose rows tile their lives; some are woken by each other, some by interrupts, some by nobody known."""
    start = start or random.randrange(10**12)
    length = random.choice([50_000_000, SECOND, 30 * SECOND])
    end = start + length
    rows: list[Row] = []
    known = []
    for number in range(threads):
        begin = start + (random.randrange(length // 2) if random.random() < 0.5 else 0)
        dies = random.random() < 0.3
        last = random.randrange(begin + 1, end) if dies else end
        name = random.choice(["worker", "main", "reader", "it's", 'quo"te'])
        known.append(Thread(number, 100 + number, 100, name, begin, begin, last if dies else None))
        points = sorted({begin, last, *(random.randrange(begin, last + 1) for _ in range(random.randrange(steps)))})
        for time, until in pairwise(points):
            on = random.random() < 0.6
            state = random.choice(ON if on else OFF)
            waker: dict[str, Any] = {}
            if state.startswith("wait"):
                chance = random.random()
                if chance < 0.6:
                    waker["waker"] = random.randrange(threads)
                elif chance < 0.7:
                    waker["waker_tid"] = random.randrange(1, 99)
                elif chance < 0.9:
                    waker["waker_state"] = random.choice(["irq.timer", "softirq.net_rx"])
            taken = random.randrange(min(until - time, 1000) + 1) if on and random.random() < 0.3 else 0
            cpu = random.randrange(cpus) if on else None
            rows.append(Row(time, until - time, taken, cpu, number, state, random.randrange(2), **waker))
            if taken and random.random() < 0.5:
                rows.append(Row(time, 0, -random.randrange(taken + 1), cpu, number, "stolen"))
    for _ in range(random.randrange(steps)):
        time = random.randrange(start, end)
        rows.append(Row(time, random.randrange(end - time), 0, random.randrange(cpus), None, "idle"))
    cuts = sorted({random.randrange(start + 1, end) for _ in range(random.randrange(1, 4))})
    return Recorded(start, end, rows, known, cuts, losses={"transitions": 3})


def write(recorded: Recorded, folder: Path, *, parts: int | None = None) -> Path:
    """Write it: closed, or after so many parts not closed."""
    folder.mkdir(parents=True)
    edges = recorded.edges
    total = len(edges) - 1
    for number in range(total if parts is None else parts):
        since, until = edges[number], edges[number + 1]
        rows = [row for row in recorded.rows if recorded.part(row) == number]
        seen = [t for t in recorded.threads if t.start < until and (number == 0 or t.start >= since)]
        gone = [t for t in recorded.threads if t.end is not None and since <= t.end < until and t not in seen]
        first = [t._replace(end=None) if t.end is not None and t.end >= until else t for t in seen]
        _write(folder, "threads", number, [*first, *gone], since, until)
        changed = {row.thread for row in rows} | {t.thread for t in seen}
        if number < total - 1:
            open_ = [o for o in recorded.open_at(until) if number == 0 or o.thread in changed or o.since >= since]
            _write(folder, "open", number, open_, since, until)
        _write(folder, "losses", number, list(recorded.losses.items()), since, until)
        _write_transitions(folder, number, rows, since, until)
    document: dict[str, Any] = {
        "schema": form.SCHEMA,
        "state": "open",
        "host": recorded.host,
        "boot": "b",
        "source": "bpf",
        "unit": "ns",
        "time_unit": "ns",
        "command": ["true"],
        "exit_status": None,
        "window": {"start": recorded.start, "end": None},
        "anchors": recorded.anchors,
        "headway": "0.1.0",
        "settings": {},
    }
    if parts is None:
        for table, who in (("states", "thread"), ("processors", "cpu")):
            cells: dict[tuple[int, str], tuple[int, int | None]] = {**ledger(recorded.rows, who)}
            cells |= {(number, "overhead"): (time, None) for number, time in overhead(recorded.rows, who).items()}
            figures = [
                (number, state, *cell, None, None, None, None, None, None, 0, 0, 0, 0)
                for (number, state), cell in cells.items()
            ]
            _write(folder, table, 0, figures, recorded.start, recorded.end)
        document |= {"state": "closed", "window": {"start": recorded.start, "end": recorded.end}, "parts": total}
    (folder / form.DOCUMENT).write_text(json.dumps(document))
    return folder


def _metadata(schema: pa.Schema, number: int, since: int, until: int, rows: int) -> pa.Schema:
    values = {
        b"headway.schema": form.SCHEMA.encode(),
        form.PART: str(number).encode(),
        form.FROM: str(since).encode(),
        form.UNTIL: str(until).encode(),
        form.ROWS: str(rows).encode(),
    }
    return schema.with_metadata(values)


def _table(table: str, rows: Sequence[Sequence[Any]], schema: pa.Schema) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [() for _ in form.SCHEMAS[table]]
    arrays = [pa.array(list(column), field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def _write(folder: Path, table: str, number: int, rows: Sequence[Sequence[Any]], since: int, until: int) -> None:
    schema = _metadata(form.SCHEMAS[table], number, since, until, len(rows))
    (folder / table).mkdir(exist_ok=True)
    pq.write_table(_table(table, rows, schema), folder / table / form.part_name(number), compression="zstd")


def _write_transitions(folder: Path, number: int, rows: Sequence[Row], since: int, until: int) -> None:
    schema = _metadata(form.TRANSITIONS, number, since, until, len(rows))
    (folder / "transitions").mkdir(exist_ok=True)
    with pq.ParquetWriter(folder / "transitions" / form.part_name(number), schema, compression="zstd") as writer:
        for long in (False, True):
            some = [row for row in rows if (row.duration >= form.LONG) == long]
            some.sort(key=lambda row: (-1 if row.cpu is None else row.cpu, row.time))
            if some:
                writer.write_table(_table("transitions", some, schema))
