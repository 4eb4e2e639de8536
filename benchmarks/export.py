"""The cost of exporting a recording, by format: ``python -m benchmarks.export [ROWS]``.

The recording has made-up transitions (`benchmarks.made_up`). The floor is reading it, which every format has to do.
Perfetto's own Python objects, of which fewer are made, are shown for comparison. Each runs in a process of its own.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from headway.model import Ledger, Window
from headway.recording.document import Document
from headway.recording.writer import RecordingWriter

from .common import heading, load, table
from .made_up import batches

ROWS = 4 << 20
TIMES = 3
GOAL = 500_000
"""The goal for Perfetto, in transitions a second."""
_MEASURE = """
import json, resource, sys, time
from headway.recording.reader import Recording
path, kind, output = sys.argv[1:]
if kind == "floor":
    began, used = time.perf_counter(), time.process_time()
    with Recording(path) as recording:
        rows = sum(len(batch.transitions) for batch in recording.batches())
elif kind == "objects":
    from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TrackEvent
    from perfetto.trace_builder.proto_builder import StreamingTraceProtoBuilder
    rows = 20_000
    began, used = time.perf_counter(), time.process_time()
    with open(output, "wb") as stream:
        builder = StreamingTraceProtoBuilder(stream)
        for number in range(rows):
            for type in (TrackEvent.TYPE_SLICE_BEGIN, TrackEvent.TYPE_SLICE_END):
                packet = builder.create_packet()
                packet.timestamp = 10**12 + 100 * number + type
                packet.trusted_packet_sequence_id = 1
                packet.track_event.track_uuid = 7
                packet.track_event.type = type
                if type == TrackEvent.TYPE_SLICE_BEGIN:
                    packet.track_event.name_iid = 3
                    packet.track_event.category_iids.append(2)
                    note = packet.track_event.debug_annotations.add()
                    note.name_iid, note.int_value = 1, 38
                builder.write_packet(packet)
else:
    from headway.commands.export import command
    with Recording(path) as recording:
        rows = recording.rows
    began, used = time.perf_counter(), time.process_time()
    command([path, "--to", kind, "-o", output, "-q"], standalone_mode=False)
taken, used = time.perf_counter() - began, time.process_time() - used
print(json.dumps([rows, taken, used, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))
"""


def _record(path: Path, rows: int) -> int:
    made = batches(rows)
    first = next(made)
    writer = RecordingWriter(path, Document(Ledger("bpf", Window(first.start, first.start))))
    writer.add(first)
    end, count = first.end, len(first.transitions)
    for batch in made:
        writer.add(batch)
        end, count = batch.end, count + len(batch.transitions)
    writer.close(Ledger("bpf", Window(first.start, end)))
    return count


def main() -> None:
    """Print the table."""
    rows = int(float(sys.argv[1])) if len(sys.argv) > 1 and __name__ == "__main__" else ROWS
    print("\n## Export\n")
    kinds = ("floor", "perfetto", "parquet", "csv", "chrome", "folded", "objects")
    with TemporaryDirectory() as scratch:
        path, output = Path(scratch) / "run.hw", Path(scratch) / "out"
        count = _record(path, rows)
        size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
        print(f"{count:,} made-up transitions, {size / count:.2f} bytes each; medians of {TIMES}, taken in turn.\n")
        found: dict[str, list[list[float]]] = {kind: [] for kind in kinds}
        sizes = {}
        for _ in range(TIMES):
            for kind in kinds:
                done = subprocess.run(
                    [sys.executable, "-c", _MEASURE, path, kind, output], check=True, capture_output=True, text=True
                )
                found[kind].append(json.loads(done.stdout))
                sizes[kind] = output.stat().st_size if kind != "floor" else 0
                output.unlink(missing_ok=True)
    cells = []
    for kind, name in zip(kinds, ("reading alone (the floor)", *kinds[1:-1], "Perfetto's objects"), strict=True):
        done_rows, taken, used, memory = (statistics.median(column) for column in zip(*found[kind], strict=True))
        cells.append(
            (
                name,
                f"{done_rows / taken:,.0f}",
                f"{done_rows / used:,.0f}",
                f"{sizes[kind] / done_rows:.1f}" if sizes[kind] else "",
                f"{memory:.0f}",
                f"≥ {GOAL:,}" if kind == "perfetto" else "",
            )
        )
    titles = ("format", "transitions a second", "a CPU second", "bytes each", "peak memory, MiB", "goal")
    print(table(titles, cells))
    print(f"\n({load()} at the end)")


if __name__ == "__main__":
    print(heading())
    main()
