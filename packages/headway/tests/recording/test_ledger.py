"""What was counted while it ran and what its recording says are the same, to the last unit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pyarrow.parquet as pq
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from headway.model import Cell, Estimate, Ledger, Thread, violations
from headway.recording.intervals import RecordedIntervals
from headway.recording.reader import Recording
from headway.recording.spinning import time_found_spinning
from headway.recording.writer import RecordingWriter
from headway.text import valid

from ..recordings import Run, document

seeds = st.integers(0, 1 << 32)
QUICK = (Phase.explicit, Phase.reuse, Phase.generate)
"""An example is a whole recording, and its seed says nothing by being smaller."""
Row = tuple[int, str, int, int | None, int, int, Mapping[str, Cell]]


def plain(ledger: Ledger) -> tuple[Mapping[tuple[int, int], Row], Mapping[int, tuple[int, Mapping[str, Cell]]]]:
    """What must be equal, in no order."""

    def row(t: Thread) -> Row:
        return t.pid, valid(t.name), t.start, t.end, t.until, t.span, dict(t.states)

    return {t.key: row(t) for t in ledger.threads}, {p.cpu: (p.span, dict(p.states)) for p in ledger.processors}


def write(path: Path, run: Run, batches: int, *, moves: int = 10, rows: int = 1 << 20) -> Ledger:
    """Record a run; its own ledger."""
    writer = RecordingWriter(path, document(run.start), rows=rows)
    for batch in run.batches(batches, moves):
        writer.add(batch)
    return finish(writer, run)


def finish(writer: RecordingWriter, run: Run) -> Ledger:
    """End the run, and close its recording."""
    batch, ledger = run.end()
    writer.add(batch)
    writer.close(ledger)
    return ledger


@settings(deadline=None, phases=QUICK, max_examples=20)
@given(seeds, st.integers(0, 12), st.integers(1, 60))
def test_the_ledger_of_the_rows_is_the_source_s(seed: int, batches: int, rows: int) -> None:
    with TemporaryDirectory() as scratch:
        path = Path(scratch) / "run.hw"
        ledger = write(path, Run(Random(seed)), batches, rows=rows)
        assert violations(ledger) == []
        with Recording(path) as recording:
            found, kept = recording.ledger(), recording.kept_ledger()
            assert recording.closed
            assert recording.damaged == {}
            assert recording.open_states() == []
    assert kept is not None
    assert plain(found) == plain(ledger) == plain(kept)
    for read in (found, kept):
        assert read.source == "recording"
        assert read.window == ledger.window
        assert read.losses == ledger.losses
        assert read.precision == ledger.precision
        assert read.overhead == ledger.overhead
        assert read.reasons == ledger.reasons


@settings(deadline=None, phases=QUICK, max_examples=15)
@given(seeds, st.integers(0, 8), st.integers(1, 40), st.integers(1, 40))
def test_how_it_is_divided_into_parts_changes_nothing(seed: int, batches: int, first: int, second: int) -> None:
    with TemporaryDirectory() as scratch:
        ledgers = []
        for name, rows in (("a.hw", first), ("b.hw", second)):
            write(Path(scratch) / name, Run(Random(seed)), batches, rows=rows)
            with Recording(Path(scratch) / name) as recording:
                ledgers.append(recording.ledger())
        assert ledgers[0] == ledgers[1]


@settings(deadline=None, phases=QUICK, max_examples=20)
@given(seeds, st.integers(1, 8), st.integers(1, 40))
def test_one_that_was_not_closed_is_counted_until_its_last_part(seed: int, batches: int, rows: int) -> None:
    run = Run(Random(seed))
    with TemporaryDirectory() as scratch:
        path = Path(scratch) / "run.hw"
        writer = RecordingWriter(path, document(run.start), rows=rows, seconds=0.0)
        for batch in run.batches(batches, 20):
            writer.add(batch)
        writer.abandon()
        with Recording(path) as recording:
            assert not recording.closed
            assert recording.kept_ledger() is None
            found = recording.ledger()
        assert found.window.end == run.now
        assert "not closed" in found.reasons["recording"]
        assert violations(found) == []
        # Every thread and every processor is known to the end: nothing is missing between rows and what is open.
        for thread in found.threads:
            assert thread.span == thread.until - thread.start
        batch, ledger = run.end()
        later = {t.key: t for t in ledger.threads}
        for thread in found.threads:
            after = later[thread.key]
            for state, cell in thread.states.items():
                more = after.states.get(state, Cell())
                away = state not in ("overhead", "stolen", "noneffective.parse") and thread.end is not None
                assert not away or cell.time <= more.time


def test_a_recording_of_nothing_has_no_rows_and_a_ledger(tmp_path: Path) -> None:
    writer = RecordingWriter(tmp_path / "a.hw", document(5))
    finish(writer, Run(Random(0), cpus=0, threads=0, start=5))
    with Recording(tmp_path / "a.hw") as recording:
        assert recording.rows == 0
        assert recording.ledger().threads == ()
        assert recording.kept_ledger() is not None


def test_rows_that_do_not_add_up_are_refused(tmp_path: Path) -> None:
    from headway.errors import HeadwayError

    run = Run(Random(3))
    writer = RecordingWriter(tmp_path / "a.hw", document(run.start))
    batches = list(run.batches(3, 20))
    for batch in [batches[0], *[batches[1]] * 50]:
        writer.add(batch)
    finish(writer, run)
    with Recording(tmp_path / "a.hw") as recording, pytest.raises(HeadwayError, match="does not add up"):
        recording.ledger()


def _sampled(path: Path) -> Ledger:
    """Record a run whose source divided a part of its times by samples."""
    run = Run(Random(3))
    writer = RecordingWriter(path, document(run.start))
    for batch in run.batches(4, 30):
        writer.add(batch)
    batch, ledger = run.end()
    writer.add(batch)

    def divided(states: Mapping[str, Cell]) -> dict[str, Estimate]:
        return {state: Estimate(cell.time // 3, at) for at, (state, cell) in enumerate(states.items())}

    ledger = replace(
        ledger,
        threads=tuple([replace(t, sampled=divided(t.states)) for t in ledger.threads]),
        processors=tuple([replace(p, sampled=divided(p.states)) for p in ledger.processors]),
    )
    writer.close(ledger)
    return ledger


def _by_samples(ledger: Ledger) -> list[tuple[object, Mapping[str, Estimate]]]:
    """What was divided, without what has neither time nor samples."""
    rows: list[tuple[object, Mapping[str, Estimate]]] = [(t.key, t.sampled) for t in ledger.threads]
    rows += [(p.cpu, p.sampled) for p in ledger.processors]
    nothing = Estimate()
    found = [(who, {state: part for state, part in sampled.items() if part != nothing}) for who, sampled in rows]
    return sorted(found, key=repr)


def test_the_parts_that_were_divided_by_samples_are_kept(tmp_path: Path) -> None:
    ledger = _sampled(tmp_path / "a.hw")
    with Recording(tmp_path / "a.hw") as recording:
        kept = recording.kept_ledger()
    assert kept is not None
    assert kept.divided
    assert _by_samples(kept) == _by_samples(ledger)
    assert plain(kept) == plain(ledger)


@pytest.mark.parametrize("closed", [True, False])
def test_how_long_threads_spun_is_read_beside_the_rows(closed: bool, tmp_path: Path) -> None:
    run = Run(Random(5))
    writer = RecordingWriter(tmp_path / "a.hw", document(run.start))
    writer.add(run.batch())
    batch, ledger = run.end()
    writer.add(batch)
    parts = [Estimate(0, 3), Estimate(70, 2), Estimate(5, 1)]
    threads = zip(ledger.threads, parts, strict=False)
    spun = [replace(t, states={**t.states, "poll.spin": Cell(0)}, sampled={"poll.spin": e}) for t, e in threads]
    if closed:
        writer.close(replace(ledger, threads=(*spun, *ledger.threads[len(parts) :])))
    time = sum(e.time for e in parts) if closed else 0
    assert time_found_spinning(tmp_path / "a.hw") == time


@pytest.mark.parametrize("spun", [0, 70_000_000])
def test_intervals_say_that_user_code_spun(spun: int, tmp_path: Path) -> None:
    run = Run(Random(5))
    writer = RecordingWriter(tmp_path / "a.hw", document(run.start))
    writer.add(run.batch())
    batch, ledger = run.end()
    writer.add(batch)
    first, *others = ledger.threads
    found = replace(first, states={**first.states, "poll.spin": Cell(0)}, sampled={"poll.spin": Estimate(spun, 3)})
    writer.close(replace(ledger, threads=(found, *others)))
    with RecordedIntervals(str(tmp_path / "a.hw")) as intervals:
        (seen,) = intervals.ledgers(0, 1)
    assert ("~70.0 ms" in seen.reasons.get("epi", "")) == (spun > 0)


def test_a_recording_from_before_there_were_samples_is_exact(tmp_path: Path) -> None:
    ledger = _sampled(tmp_path / "a.hw")
    for name in ("states", "processors"):
        (part,) = (tmp_path / "a.hw" / name).iterdir()
        pq.write_table(pq.read_table(part, partitioning=None).drop_columns(["sampled", "samples"]), part)
    with Recording(tmp_path / "a.hw") as recording:
        kept = recording.kept_ledger()
        assert recording.damaged == {}
    assert kept is not None
    assert not kept.divided
    assert plain(kept) == plain(ledger)
