"""Queries over many transitions: the time and memory that each question takes on a recording of that size.

The recording is made up like that of a server: fifty threads in loops of system calls, interrupts and waits, most of
which another thread ends. Run ``python -m benchmarks.queries [ROWS]``; the default is 10^8 rows.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from headway.recording import format as form

from .common import heading, load, table

ROWS = 116_000_000
"""About 10⁸ rows are made of this number, because a part ends at a time and not at a number of rows."""
THREADS = 50
CPUS = 8
A_PART = 2_000_000
GROUP = 1 << 18
MEAN = 50_000
"""The average span of a thread, ns."""
START = 10**12
ROUNDS = 3
_LOOP = (
    ("user", 30_000),
    ("kernel.read", 4_000),
    ("user", 40_000),
    ("irq.timer", 2_000),
    ("user", 50_000),
    ("kernel.write", 6_000),
    ("user", 30_000),
    ("kernel.fault", 1_000),
    ("user", 20_000),
    ("kernel.futex", 2_000),
    ("wait.futex", 450_000),
    ("ready", 10_000),
    ("kernel.futex", 1_500),
    ("user", 60_000),
    ("poll", 20_000),
    ("kernel.read", 5_000),
)
_NAMES = sorted({state for state, _ in _LOOP} | {"softirq.net_rx", "stolen", "wait.epoll", "idle"})
_CODE = {state: code for code, state in enumerate(_NAMES)}
_WAIT = next(at for at, (state, _) in enumerate(_LOOP) if state.startswith("wait"))


def _spans(random: np.random.Generator, number: int, rows: int, at: int) -> dict[str, Any]:
    """Return ``rows`` rows of one thread from a time on. Where in its loop it begins does not matter."""
    place = np.arange(rows) % len(_LOOP)
    usual = np.array([duration for _, duration in _LOOP])[place] * (MEAN * len(_LOOP) / sum(d for _, d in _LOOP))
    duration = random.gamma(2.0, usual / 2.0).astype(np.int64) + 50
    wait = place == _WAIT
    long = wait & (random.random(rows) < 1 / 2_000)
    duration[long] += form.LONG + random.integers(0, 4 * form.LONG, int(long.sum()))
    time_ = at + np.concatenate([[0], np.cumsum(duration)[:-1]])
    state = np.array([_CODE[state] for state, _ in _LOOP])[place]
    if number % 10 == 0:
        state[wait] = _CODE["wait.epoll"]
    off = wait | (place == _WAIT + 1)
    woken_by = number // 10 * 10 if number % 10 else 0
    chance = random.random(rows)
    waker = np.where(wait & (chance < 0.8) & (number > 0), woken_by, -1)
    waker = np.where(wait & (chance < 0.1), random.integers(0, THREADS, rows), waker)
    by_interrupt = wait & (waker < 0)
    cpu = (number + np.arange(rows) // 160) % CPUS
    return {
        "time": time_,
        "duration": duration,
        "taken": np.where(off, 0, 20),
        "cpu": np.where(off, -1, cpu),
        "thread": np.full(rows, number),
        "state": state,
        "count": np.ones(rows, np.int32),
        "waker": waker,
        "waker_state": np.where(by_interrupt, _CODE["softirq.net_rx"], -1),
    }


def _arrow(columns: dict[str, Any], schema: pa.Schema) -> pa.Table:
    words = pa.array(_NAMES)
    arrays = []
    for field in schema:
        values = columns.get(field.name)
        if values is None:
            arrays.append(pa.nulls(len(columns["time"]), field.type))
        elif pa.types.is_dictionary(field.type):
            codes = pa.array(values.astype(np.int32), mask=values < 0)
            arrays.append(pa.DictionaryArray.from_arrays(codes, words))
        else:
            mask = values < 0 if field.nullable else None
            arrays.append(pa.array(values, mask=mask).cast(field.type))
    return pa.Table.from_arrays(arrays, schema=schema)


def _parquet(path: Path, schema: pa.Schema, tables: list[pa.Table]) -> None:
    path.parent.mkdir(exist_ok=True)
    plain: Any = [field.name for field in schema if field.name not in ("time", "duration")]
    encoded = {"time": "DELTA_BINARY_PACKED", "duration": "DELTA_BINARY_PACKED"} if "duration" in schema.names else None
    with pq.ParquetWriter(path, schema, compression="zstd", use_dictionary=plain, column_encoding=encoded) as writer:
        for rows in tables:
            writer.write_table(rows, row_group_size=GROUP)


def make(folder: Path, rows: int, seed: int = 1) -> None:
    """Write a recording of about ``rows`` rows."""
    random = np.random.default_rng(seed)
    parts = max(rows // A_PART, 1)
    each = rows // parts // THREADS
    now = np.full(THREADS, START)
    totals: dict[tuple[int, int], list[int]] = {}
    folder.mkdir()
    for part in range(parts):
        until = START + (part + 1) * each * MEAN
        made = []
        for number in range(THREADS):
            found = _spans(random, number, int(each * 1.3) + 64, int(now[number]))
            kept = int(np.searchsorted(found["time"] + found["duration"], until, side="left"))
            found = {name: values[:kept] for name, values in found.items()}
            if kept:
                now[number] = found["time"][-1] + found["duration"][-1]
            made.append(found)
            times = np.bincount(found["state"], found["duration"] - found["taken"], len(_NAMES))
            counts = np.bincount(found["state"], minlength=len(_NAMES))
            for code in np.flatnonzero(counts):
                cell = totals.setdefault((number, int(code)), [0, 0])
                cell[0] += int(times[code])
                cell[1] += int(counts[code])
        columns = {name: np.concatenate([m[name] for m in made]) for name in made[0]}
        order = np.lexsort((columns["time"], columns["cpu"], columns["duration"] >= form.LONG))
        columns = {name: values[order] for name, values in columns.items()}
        rows_ = _arrow(columns, form.TRANSITIONS)
        short = int((columns["duration"] < form.LONG).sum())
        known = {
            form.PART: str(part).encode(),
            form.FROM: str(START + part * each * MEAN).encode(),
            form.UNTIL: str(until).encode(),
            form.ROWS: str(rows_.num_rows).encode(),
        }
        path = folder / "transitions" / form.part_name(part)
        _parquet(path, form.TRANSITIONS.with_metadata(known), [rows_[:short], rows_[short:]])
    threads = [(n, 1000 + n, 1000, f"worker-{n}" if n % 10 else f"io-{n}", START, START) for n in range(THREADS)]
    _small(folder, "threads", threads)
    _small(folder, "states", [(n, _NAMES[c], *cell) for (n, c), cell in totals.items()])
    end = int(now.max())
    document = {
        "schema": form.SCHEMA,
        "state": "closed",
        "host": "here",
        "boot": "",
        "source": "bpf",
        "unit": "ns",
        "time_unit": "ns",
        "window": {"start": START, "end": end},
        "parts": parts,
        "anchors": [
            {"monotonic": START, "realtime": 1_795_000_000 * 10**9, "uncertainty": 100},
            {"monotonic": end, "realtime": 1_795_000_000 * 10**9 + end - START + 5_000, "uncertainty": 100},
        ],
    }
    (folder / form.DOCUMENT).write_text(json.dumps(document))


def _small(folder: Path, name: str, rows: list[tuple[Any, ...]]) -> None:
    schema = form.SCHEMAS[name].with_metadata({form.PART: b"0", form.ROWS: str(len(rows)).encode()})
    rows = [(*row, *[None] * (len(schema) - len(row))) for row in rows]  # the columns behind are not of this benchmark
    columns = [pa.array(list(c), f.type) for c, f in zip(zip(*rows, strict=True), schema, strict=True)]
    _parquet(folder / name / form.part_name(0), schema, [pa.Table.from_arrays(columns, schema=schema)])


_MEASURE = """
import json, resource, sys, time
start = time.perf_counter()
from headway.recording.queries.catalogue import find
from headway.recording.queries.comparison import compare, course_of
from headway.recording.queries.instant import at
from headway.recording.queries.questions import QUESTIONS
from headway.recording.queries.tables import open_tables
path, what = sys.argv[1:]
if what == "SQL":
    with open_tables(path) as tables:
        rows = len(list(tables.ask_user("SELECT state, sum(duration - taken) FROM transitions GROUP BY ALL").rows))
elif what == "diff":
    course = course_of(find(path).runs[0])
    rows = len(compare(course, course).tenths)
elif what.startswith("at "):
    rows = len(at(find(path).runs[0], what[3:]).threads)
else:
    with open_tables(path) as tables:
        rows = len(list(QUESTIONS[what].ask(tables, 3).rows))
taken = time.perf_counter() - start
usage = resource.getrusage(resource.RUSAGE_SELF)
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))  # ru_maxrss has the parent's too
print(json.dumps([taken, usage.ru_utime + usage.ru_stime, int(peak.split()[1]) * 1024, rows]))
"""


def _asked(folder: Path, what: str) -> list[float]:
    """Return seconds of time, seconds of processor time, peak memory in bytes, and rows of the answer."""
    done = subprocess.run([sys.executable, "-c", _MEASURE, folder, what], check=True, capture_output=True, text=True)
    found: list[float] = json.loads(done.stdout)
    return found


def main() -> None:
    """Print the table."""
    rows = int(float(sys.argv[1])) if len(sys.argv) > 1 and __name__ == "__main__" else ROWS
    print("\n## Queries\n")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "run.hw"
        make(folder, rows)
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        with_rows = sum(pq.read_metadata(path).num_rows for path in (folder / "transitions").iterdir())
        print(f"A recording of {with_rows:,} transitions, {size / with_rows:.2f} bytes each; every answer in a process")
        print(f"of its own, what it imports included; the median of {ROUNDS}.\n")
        middle = f"at {with_rows // 2 * MEAN // THREADS / 1e9:.3f}s"
        found = []
        for what, goal in (
            (middle, "< 0.5 s"),
            ("lost-progress", "< 10 s"),
            ("wait-chains", "< 10 s"),
            ("waits", "< 10 s"),
            ("states", "< 10 s"),
            ("SQL", "–"),
            ("diff", "–"),
        ):
            runs = [_asked(folder, what) for _ in range(ROUNDS)]
            taken, processor, memory, _ = (statistics.median(column) for column in zip(*runs, strict=True))
            found.append(
                [
                    "sum of time by state (SQL)" if what == "SQL" else what,
                    f"{taken:.2f} s",
                    f"{min(run[0] for run in runs):.2f}–{max(run[0] for run in runs):.2f} s",
                    goal,
                    f"{processor:.2f} s",
                    f"{memory / 2**20:.0f} MiB",
                    f"{runs[0][3]:,.0f}",
                ]
            )
        titles = ["question", "median", "range", "goal", "processor time", "most memory", "rows"]
        print(table(titles, found))
    print(f"\n({load()} at the end)")


if __name__ == "__main__":
    print(heading())
    main()
