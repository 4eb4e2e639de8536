"""A recorder that is killed: its recording opens, and all is there up to a moment that it names."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path
from random import Random

import pytest
from tests.compiling import script
from tests.effort import FEW

from headway.model import violations
from headway.recording.reader import Recording

pytestmark = pytest.mark.end_to_end


MOMENTS = [
    (0.0, 0),
    (0.3, 200_000),
    (0.0, 200_000),
    *((after, limit) for after in (0.02, 0.1, 0.3, 0.55) for limit in (0, 200_000)),
]


@pytest.mark.parametrize(("moment", "limit"), MOMENTS[: 2 if FEW else None])
def test_a_recorder_killed_at_any_moment_leaves_a_recording(tmp_path: Path, moment: float, limit: int) -> None:
    path = tmp_path / "run.hw"
    root = Path(__file__).parents[2]
    arguments = [*script("recorder"), str(path), "1", str(limit)]
    recorder = subprocess.Popen(
        arguments, stdout=subprocess.PIPE, cwd=root, env={**os.environ, "PYTHONPATH": str(root)}
    )
    with recorder:
        assert recorder.stdout is not None
        assert recorder.stdout.readline() == b"begun\n"
        time.sleep(moment + Random(str(moment)).random() / 50)
        recorder.send_signal(signal.SIGKILL)
        said = [int(line) for line in recorder.stdout.read().splitlines(keepends=True) if line.endswith(b"\n")]
    with Recording(path) as recording:
        assert not recording.closed
        assert recording.damaged == {}
        assert recording.kept_ledger() is None
        ledger = recording.ledger()
        assert violations(ledger) == []
        assert ledger.window.end == recording.window.end
        assert "not closed" in ledger.reasons["recording"]
        for thread in ledger.threads:
            assert thread.span == thread.until - thread.start
        # A few parts may wait to be written, each of at least so many rows: not more is lost.
        assert recording.rows <= sum(part.rows for part in recording.parts)
        assert not said or recording.window.end <= max(said) + 60 * 1000 * 100
