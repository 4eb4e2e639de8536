"""Clock anchors: in every recording, in order, and as exact as they say."""

from __future__ import annotations

import time
from pathlib import Path
from random import Random

from headway.recording.clock import boot, read_anchor
from headway.recording.reader import Recording

from ..recordings import Run
from .test_ledger import write


def test_an_anchor_is_between_the_readings_around_it() -> None:
    before = time.monotonic_ns()
    anchor = read_anchor()
    after = time.monotonic_ns()
    assert before <= anchor.monotonic <= after
    assert 0 <= anchor.uncertainty <= after - before
    earlier, realtime, later = time.monotonic_ns(), time.time_ns(), time.monotonic_ns()
    second = 10**9  # the clock may be set meanwhile, by less than that
    assert realtime - later - second < anchor.realtime - anchor.monotonic < realtime - earlier + second


def test_a_recording_has_one_from_each_part(tmp_path: Path) -> None:
    write(tmp_path / "a.hw", Run(Random(1)), 6, rows=10)
    with Recording(tmp_path / "a.hw") as recording:
        anchors = recording.anchors
        assert len(anchors) == len(recording.parts) + 2  # and from its beginning and its end
        assert all(part.anchor in anchors for part in recording.parts)
        assert set(anchors) == set(recording.document.anchors)
    times = [anchor.monotonic for anchor in anchors]
    assert times == sorted(times)


def test_a_boot_has_one_name() -> None:
    assert boot() == boot()
