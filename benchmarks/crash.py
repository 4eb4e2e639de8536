"""``headway record`` killed at random moments: whether each recording opens, and how much of its end is missing.

Run it as root: ``python -m benchmarks.crash [MOMENTS]``. A recording should lose at most its last unfinished part: what
came within `SECONDS_OF_A_PART`, what waited to be written, and what had not been taken yet.
"""

from __future__ import annotations

import random
import signal
import statistics
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from headway.errors import HeadwayError
from headway.model import violations
from headway.recording.format import DOCUMENT
from headway.recording.reader import Recording

from .common import compiled, heading, load

MOMENTS = 100
LONGEST = 4.0
"""The longest time in seconds from the beginning of measuring to the recorder's end."""


def killed(path: Path, moment: float) -> int:
    """Let a recorder record the whole machine and kill it after ``moment`` s. Return CLOCK_MONOTONIC then, in ns."""
    arguments = [sys.executable, "-c", "from headway.commands import main; main()", "record", "-q", "-a"]
    recorder = subprocess.Popen([*arguments, "-o", str(path)])
    first = None
    while recorder.poll() is None:  # the recorder replaces the document when measuring has begun
        with suppress(OSError):
            now = (path / DOCUMENT).stat().st_ino
            if first not in (None, now):
                break
            first = now
        time.sleep(0.001)
    time.sleep(moment)
    now = time.monotonic_ns()
    recorder.send_signal(signal.SIGKILL)
    recorder.wait()
    return now


def main(moments: int = MOMENTS) -> None:
    """Kill recorders, open their recordings, and print what is missing."""
    chosen = random.Random(7)
    missing: list[float] = []
    opened = written = 0
    with compiled("loops") as program, TemporaryDirectory() as scratch:
        work = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        assert work.stdin is not None
        work.stdin.write("pingpong 1000000000\n")
        work.stdin.flush()
        for number in range(moments):
            path = Path(scratch) / f"{number}.hw"
            now = killed(path, chosen.uniform(0.0, LONGEST))
            try:
                with Recording(path) as recording:
                    ledger = recording.ledger()
                    assert not recording.damaged, recording.damaged
                    assert violations(ledger) == []
                    opened += 1
                    written += bool(recording.parts)
                    missing.append((now - recording.window.end) / 1e9)
            except HeadwayError as error:
                print(f"not opened: {error}")
        work.kill()
        work.wait()
    print(f"# {heading()}\n")
    print(f"({load()}) {opened} of {moments} opened, {written} with a part")
    print(f"missing at the end, s: median {statistics.median(missing):.2f}, worst {max(missing):.2f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else MOMENTS)
