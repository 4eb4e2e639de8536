"""The cost of a recording on disk, and of writing, counting and opening it: ``python -m benchmarks.recording``.

Made-up transitions (`benchmarks.made_up`) are written beside the floor of writing the same columns uncompressed, and
beside other encodings. If this runs as root, real transitions are recorded, too.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq

from headway.linux.sources.choose import may_use_bpf
from headway.model import Batch, Ledger, Window
from headway.recording.document import Document
from headway.recording.parquet import ROW_GROUP, encode
from headway.recording.reader import Recording
from headway.recording.tables import transitions_table
from headway.recording.writer import RecordingWriter

from .common import compiled, heading, load, table
from .made_up import batches

ROWS = 8 << 20
TIMES = 3


def _ledger(start: int, end: int) -> Ledger:
    return Ledger("bpf", Window(start, end))


def _write(path: Path, made: list[Batch]) -> tuple[float, float]:
    """Write a recording; return the processor seconds (of all threads) and the seconds that this took."""
    start = made[0].start
    began, cpu = time.perf_counter(), time.process_time()
    writer = RecordingWriter(path, Document(_ledger(start, start)))
    for batch in made:
        writer.add(batch)
    writer.close(_ledger(start, made[-1].end))
    return time.process_time() - cpu, time.perf_counter() - began


def _encodings(made: list[Batch]) -> None:
    """Print a table of one part in several encodings."""
    rows, short = transitions_table([batch.transitions for batch in made])
    rest = [name for name in rows.column_names if name not in ("time", "duration")]

    def other(time_as: str, duration_as: str | None, compression: str, level: int | None) -> pa.Buffer:
        sink = pa.BufferOutputStream()
        encodings = {"time": time_as, **({"duration": duration_as} if duration_as else {})}
        words = rest + ([] if duration_as else ["duration"])
        with pq.ParquetWriter(
            sink,
            rows.schema,
            compression=compression,
            compression_level=level,
            use_dictionary=words,
            column_encoding=encodings,
        ) as writer:
            writer.write_table(rows, row_group_size=ROW_GROUP)
        return sink.getvalue()

    delta, plain, split = "DELTA_BINARY_PACKED", "PLAIN", "BYTE_STREAM_SPLIT"
    ways: dict[str, Callable[[], pa.Buffer]] = {
        "as it is: time delta, duration plain, zstd 1": lambda: encode(rows, {}, short),
        "time delta, duration plain, zstd 3": lambda: other(delta, plain, "zstd", 3),
        "time delta, duration delta, zstd 1": lambda: other(delta, delta, "zstd", 1),
        "time delta, duration dictionary, zstd 1": lambda: other(delta, None, "zstd", 1),
        "time delta, duration byte stream split, zstd 1": lambda: other(delta, split, "zstd", 1),
        "time plain, duration plain, zstd 1": lambda: other(plain, plain, "zstd", 1),
        "time delta, duration delta, lz4": lambda: other(delta, delta, "lz4", None),
        "plain, uncompressed": lambda: other(plain, plain, "none", None),
    }
    found = []
    for name, way in ways.items():
        times = []
        for _ in range(TIMES):
            began = time.process_time()
            data = way()
            times.append(time.process_time() - began)
        rate = rows.num_rows / statistics.median(times) / 1e6
        found.append((name, f"{data.size / rows.num_rows:.2f}", f"{rate:.1f}"))
    print(table(("encoding", "bytes a row", "M rows a CPU second"), found), flush=True)


def _made_up() -> None:
    made = list(batches(ROWS))
    rows = sum(len(batch.transitions) for batch in made)
    cpu, wall, counted, opened, sizes = [], [], [], [], []
    for _ in range(TIMES):
        with TemporaryDirectory() as scratch:
            path = Path(scratch) / "run.hw"
            one, other = _write(path, made)
            cpu.append(one)
            wall.append(other)
            sizes.append(sum(file.stat().st_size for file in path.rglob("*") if file.is_file()))
            began = time.perf_counter()
            with Recording(path) as recording:
                opened.append(time.perf_counter() - began)
                began = time.process_time()
                recording.ledger()
                counted.append(time.process_time() - began)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"\n{rows:,} made-up transitions, medians of {TIMES}:\n")
    print(
        table(
            ("what", "figure"),
            [
                ("bytes a transition", f"{statistics.median(sizes) / rows:.2f}"),
                ("written, M a CPU second", f"{rows / statistics.median(cpu) / 1e6:.2f}"),
                ("written, M a second", f"{rows / statistics.median(wall) / 1e6:.2f}"),
                ("counted, M a CPU second", f"{rows / statistics.median(counted) / 1e6:.2f}"),
                ("opened, ms", f"{statistics.median(opened) * 1e3:.1f}"),
                ("peak memory, MiB (the made-up rows are 42 bytes each)", f"{peak:.0f}"),
            ],
        ),
        flush=True,
    )


def _real() -> None:
    """Record loops of a real program with the real recorder, and print a table."""
    found = []
    with compiled("loops") as program, TemporaryDirectory() as scratch:
        for what, times in (("getppid", 3_000_000), ("read", 2_000_000), ("mixed", 1_000_000), ("pingpong", 100_000)):
            path = Path(scratch) / f"{what}.hw"
            own = [sys.executable, "-c", "from headway.commands import main; main()"]
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            done = subprocess.run(
                [*own, "record", "-o", path, "--", program],
                input=f"{what} {times}\n",
                capture_output=True,
                text=True,
                check=False,
            )
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            with Recording(path) as recording:
                ledger = recording.kept_ledger()
                assert ledger is not None, done.stderr
                rows, seconds = recording.rows, ledger.window.duration / 1e9
                lost = sum(number for name, number in ledger.losses.items() if "ns" not in name)
            size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
            program_used = sum(int(word) for word in done.stdout.split()[:1]) / 1e9
            found.append(
                (
                    what,
                    f"{rows:,}",
                    f"{rows / seconds / 1e6:.2f}",
                    f"{size / rows:.2f}",
                    f"{used - program_used:.2f} of {seconds:.2f}",
                    str(lost),
                )
            )
    titles = ("loop", "transitions", "M a second", "bytes each", "CPU s of the recorder, s", "lost")
    print(f"\nReal ones:\n\n{table(titles, found)}")


def main() -> None:
    """Print all tables."""
    print(f"# {heading()}\n\n({load()})\n", flush=True)
    _encodings(list(batches(1 << 20)))
    _made_up()
    if may_use_bpf():
        _real()


if __name__ == "__main__":
    main()
