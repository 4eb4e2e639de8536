"""How long ``headway trace at`` takes on a long capture: the first look, which makes the index, and later ones."""

from __future__ import annotations

import argparse
import os
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from headway_trace.decode import Capture, snapshot_at
from headway_trace.index_files import IndexFolder
from headway_trace.moments import Index, contents_in, keep_contents

from .common import heading, load, table
from .trace import CAPTURES
from .trace_damage import tc2_capture

LOOKS = 50


def _look(path: str, number: int, cycle: int) -> float:
    """Return the seconds of a look at a cycle with all that a command does, but for its own start."""
    begin = time.process_time()
    snapshot = snapshot_at(path)
    folder = IndexFolder.of(snapshot, ())
    capture = Capture(snapshot, (), contents_in(folder))
    Index(capture.chosen(()), folder).at_cycle(number, cycle)
    return time.process_time() - begin


def _measured(source: Path, buffer: str, times: int, draw: random.Random) -> list[str]:
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["XDG_CACHE_HOME"] = scratch
        path = Path(scratch) / "capture"
        shutil.copytree(source, path, copy_function=shutil.copyfile)
        data = (path / buffer).read_bytes()
        with (path / buffer).open("wb") as out:
            for _ in range(times):
                out.write(data)
        snapshot = snapshot_at(str(path))
        folder = IndexFolder.of(snapshot, ())
        assert folder.path is not None
        capture = Capture(snapshot, ())
        keep_contents(folder, capture)
        streams = capture.chosen(())
        begin = time.process_time()
        index = Index(streams, folder)
        first = time.process_time() - begin
        kept = sum(file.stat().st_size for file in folder.path.iterdir())
        count = sum(one.totals()[1].instructions for one in streams)
        number = max((one.id for one in streams), key=index.last)
        moments = []
        for _ in range(LOOKS):
            when = None if index.span is None else draw.uniform(*index.span)
            cycle = draw.randint(0, index.last(number))
            begin = time.process_time()
            again = Index(streams, folder)
            again.at_cycle(number, cycle) if when is None else again.at_time(when)
            moments.append(time.process_time() - begin)
        whole = [_look(str(path), number, draw.randint(0, index.last(number))) for _ in range(LOOKS)]
        figures = [f"{1000 * statistics.median(some):.1f} / {1000 * max(some):.1f} ms" for some in (moments, whole)]
        return [f"{len(streams)}", f"{count:,}", f"{first:.1f} s", f"{kept / 1e6:.1f} MB", *figures]


def main(arguments: Sequence[str] = ()) -> None:
    """Print the figures as Markdown."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.trace_moments")
    parser.add_argument("--instructions", type=float, default=1e8, help="repeat each buffer to about so many")
    chosen = parser.parse_args(arguments)
    print("\n## A moment of a capture\n")
    places, tc2, rows = os.environ.get("HEADWAY_OPENCSD"), tc2_capture(), []
    for protocol, name, buffer, times in CAPTURES:
        source = Path(places or "/nonexistent") / name if name else tc2
        if source is None or not source.is_dir():
            continue
        one = sum(
            stream.totals()[1].instructions
            for stream in Capture.open(str(source)).streams.values()
            if stream.image.spans
        )
        times = max(round(chosen.instructions / one), 1)
        rows.append([f"{protocol} × {times}", *_measured(source, buffer, times, random.Random(1))])
    if not rows:
        print("Not measured: no capture is there (data/tc2 in $HEADWAY_SHARED, or $HEADWAY_OPENCSD).")
        return
    heads = ["capture", "streams", "instructions", "index made in", "size", "a look", "with opening the capture"]
    print(table(heads, rows))
    print(f"\nProcessor time. Looks: median / largest of {LOOKS} at random moments of all streams.")


if __name__ == "__main__":
    print(f"# {heading()}\n\n({load()})", flush=True)
    main(sys.argv[1:])
