"""Lines of CSV and totals of a stream, which are made without records: they say what its records say."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.trace.encoding import frames
from tests.trace.programs import BASE
from tests.trace.snapshots import STREAM, write

from headway_trace.decode import Capture
from headway_trace.records import Gap, Instruction, Timestamp, Why


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_lines_of_csv_and_totals_are_those_of_the_records(tmp_path: Path, data: st.DataObject) -> None:
    names = tmp_path / "names"
    names.write_text(f'{BASE:08x} T one"of,them\n{BASE + 16:08x} T other\n')
    trace = bytearray(STREAM * 3)
    for _ in range(data.draw(st.integers(0, 6))):
        at = data.draw(st.integers(0, len(trace) - 1))
        trace[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    stream = Capture.open(str(write(tmp_path, frames([(0x10, bytes(trace))]))), [str(names)]).streams[0x10]
    out, records = io.StringIO(), list(stream.records())
    rows = csv.writer(out, lineterminator="\n")
    for record in records:
        cycle = record.cycle if record.epoch == 0 else None
        if isinstance(record, Instruction):
            where = f"{record.address:#010x}", record.size, record.state, stream.image.symbol(record.address)
            rows.writerow(("0x10", record.thread, cycle, record.cycles, *where))
        elif isinstance(record, Gap):
            state = stream.gap_state(record.why, record.start, record.end)
            rows.writerow(("0x10", None, cycle, record.cycles, None, 0, state, ""))
    assert b"".join(stream.csv()).decode() == out.getvalue()
    found, totals = stream.totals()
    assert found == stream.statistics()
    assert totals.instructions == sum(isinstance(record, Instruction) for record in records)
    lengths: dict[Why, list[int | None]] = {}
    for record in records:
        if isinstance(record, Gap):
            lengths.setdefault(record.why, []).append(record.cycles)
    assert totals.gaps == {
        why: (len(some), None if None in some else sum(one or 0 for one in some)) for why, some in lengths.items()
    }
    assert totals.given_up <= totals.searches
    assert list(stream.timestamps()) == [record for record in records if isinstance(record, Timestamp)]
