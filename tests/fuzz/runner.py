"""Inputs read in a child process: what it finds, crashes on and hangs on, and the way on behind such an input."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from .child import OUTCOMES, PROGRESS

__all__ = ["Finding", "Result", "run"]

HANGS = 10.0
"""Seconds after which the reading of one input is held to hang; the sanitizers and other work make it slow, too."""
_LOOK = 0.2
_REPORT = 8000
_MOST = 50
"""Crashes and hangs after which a run is given up."""
ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Finding:
    """An input that is neither decoded nor refused."""

    number: int
    what: str
    report: str


@dataclass(slots=True)
class Result:
    """What became of the inputs of one target."""

    inputs: int = 0
    seconds: float = 0.0
    outcomes: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)


def run(name: str, seed: int, first: int, count: int, *, hangs: float = HANGS) -> Result:
    """Read ``count`` inputs of a target.

    A child that does not survive one is followed by another, behind that input. ``hangs``: see `HANGS`.
    """
    result, end, began, lost = Result(), first + count, time.monotonic(), 0
    while first < end and lost < _MOST:
        reached, done = _child(name, seed, first, end - first, result, hangs)
        if done:
            first = end
            break
        first, lost = max(reached, first) + 1, lost + 1
    result.inputs, result.seconds = count - (end - first), time.monotonic() - began
    return result


def _child(name: str, seed: int, first: int, count: int, result: Result, hangs: float) -> tuple[int, bool]:
    """Run one child. Return the input at which it was last, and whether it read all of them."""
    with tempfile.TemporaryDirectory() as folder:
        progress, output, errors = (Path(folder) / part for part in ("progress", "output", "errors"))
        progress.write_bytes(PROGRESS.pack(-1, 0, 0, 0, 0))
        words = [sys.executable, "-m", "tests.fuzz.child", name, str(seed), str(first), str(count), str(progress)]
        with output.open("wb") as out, errors.open("wb") as err:
            child = subprocess.Popen(words, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
            try:
                hung = _watch(child, progress, hangs)
            finally:
                child.kill()
                child.wait()
        number, done, *counts = PROGRESS.unpack(progress.read_bytes())
        result.outcomes.update(dict(zip(OUTCOMES, counts, strict=True)))
        for line in output.read_text().splitlines():
            found = json.loads(line)
            result.findings.append(Finding(found["number"], found["what"], found["where"]))
        if done:
            return number, True
        text = errors.read_text(errors="replace")
        if number < 0:
            raise RuntimeError(f"the target {name} does not start: {text[-_REPORT:]}")
        result.outcomes[OUTCOMES[2]] += 1
        result.findings.append(
            Finding(number, "it hangs" if hung else _ending(child.returncode, text), text[-_REPORT:])
        )
        return number, False


def _watch(child: subprocess.Popen[bytes], progress: Path, hangs: float) -> bool:
    """Wait for the child. Return whether it stayed at one input for too long."""
    at, since = -1, time.monotonic()
    while child.poll() is None:
        with suppress(subprocess.TimeoutExpired):
            child.wait(_LOOK)
        now = PROGRESS.unpack(progress.read_bytes())[0]
        if now != at or now < 0:
            at, since = now, time.monotonic()
        elif time.monotonic() - since > hangs:
            return True
    return False


def _ending(status: int, text: str) -> str:
    lines = text.splitlines()
    told = [line for line in lines if "runtime error" in line or "ERROR: AddressSanitizer" in line]
    how = signal.Signals(-status).name if status < 0 else f"status {status}"
    return f"it ends by {how}: {(told or lines or [''])[0][:300]}"
