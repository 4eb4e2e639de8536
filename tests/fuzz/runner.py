"""Inputs read in a child process: what it finds, crashes on and hangs on, and the way on behind such an input."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from .child import OUTCOMES, PROGRESS

__all__ = ["Finding", "Result", "run", "run_together"]

HANGS = 10.0
"""Seconds of processor time after which the reading of one input is held to hang; the sanitizers make it slow, too."""
STUCK = 300.0
"""Seconds of sleep after which it is held to wait for what does not come. Who waits for a processor does not sleep."""
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
    slowest: float = 0.0
    """Seconds of processor time that the slowest input took, of those that were read to the end."""
    slowest_number: int = -1


@dataclass(slots=True)
class _Ending:
    """How a child ended that read inputs of some targets."""

    hung: bool
    status: int
    errors: str
    progress: dict[str, tuple[int, ...]]
    """By target, see `PROGRESS`."""
    findings: dict[str, list[Finding]]


def run(name: str, seed: int, first: int, count: int, *, hangs: float = HANGS, stuck: float = STUCK) -> Result:
    """Read ``count`` inputs of a target.

    A child that does not survive one is followed by another, behind that input. ``hangs`` and ``stuck``: as `HANGS`
    and `STUCK`.
    """
    result, end, began, lost = Result(), first + count, time.monotonic(), 0
    while first < end and lost < _MOST:
        ending = _child({name: range(first, end)}, seed, hangs, stuck)
        number, done, slowest, slowest_number, *counts = ending.progress[name]
        if slowest > result.slowest * 1e9:
            result.slowest, result.slowest_number = slowest / 1e9, slowest_number
        result.outcomes.update(dict(zip(OUTCOMES, counts, strict=True)))
        result.findings += ending.findings[name]
        if done:
            first = end
            break
        if number < 0:
            raise RuntimeError(f"the target {name} does not start: {ending.errors[-_REPORT:]}")
        what = "it hangs" if ending.hung else _ending(ending.status, ending.errors)
        result.outcomes[OUTCOMES[2]] += 1
        result.findings.append(Finding(number, what, ending.errors[-_REPORT:]))
        first, lost = max(number, first) + 1, lost + 1
    result.inputs, result.seconds = count - (end - first), time.monotonic() - began
    return result


def run_together(counts: Mapping[str, int], seed: int) -> dict[str, Result]:
    """Read so many inputs of each of several targets in one child, which starts in less time than one for each.

    Where it ends before its time, what it has not finished is read by `run`. ``seconds`` is not divided among them.
    """
    began = time.monotonic()
    ending = _child({name: range(count) for name, count in counts.items()}, seed, HANGS, STUCK)
    results = {}
    for name, count in counts.items():
        _, done, slowest, slowest_number, *by_outcome = ending.progress[name]
        if done:
            outcomes = Counter(dict(zip(OUTCOMES, by_outcome, strict=True)))
            seconds = time.monotonic() - began
            found = ending.findings[name]
            results[name] = Result(count, seconds, outcomes, found, slowest / 1e9, slowest_number)
        else:
            results[name] = run(name, seed, 0, count)
    return results


def _child(jobs: Mapping[str, range], seed: int, hangs: float, stuck: float) -> _Ending:
    """Run one child, which reads these inputs of these targets."""
    words = [word for name, numbers in jobs.items() for word in (name, str(numbers.start), str(len(numbers)))]
    with tempfile.TemporaryDirectory() as folder:
        progress, output, errors = (Path(folder) / part for part in ("progress", "output", "errors"))
        progress.write_bytes(PROGRESS.pack(-1, 0, 0, -1, 0, 0, 0) * len(jobs))
        command = [sys.executable, "-m", "tests.fuzz.child", str(seed), str(progress), *words]
        with output.open("wb") as out, errors.open("wb") as err:
            child = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
            try:
                hung = _watch(child, progress, hangs, stuck)
            finally:
                child.kill()
                child.wait()
        reached = dict(zip(jobs, PROGRESS.iter_unpack(progress.read_bytes()), strict=True))
        findings: dict[str, list[Finding]] = {name: [] for name in jobs}
        for line in output.read_text().splitlines():
            found = json.loads(line)
            findings[found["target"]].append(Finding(found["number"], found["what"], found["where"]))
        return _Ending(hung, child.returncode, errors.read_text(errors="replace"), reached, findings)


def _watch(child: subprocess.Popen[bytes], progress: Path, hangs: float, stuck: float) -> bool:
    """Wait for the child. Return whether it stayed at one input for too long; the start of a target takes its time."""
    at, since, spent = -1, time.monotonic(), 0.0
    while child.poll() is None:
        with suppress(subprocess.TimeoutExpired):
            child.wait(_LOOK)
        targets = [(number, done) for number, done, *_ in PROGRESS.iter_unpack(progress.read_bytes())]
        now = next((number for number, done in targets if not done), targets[-1][0])
        state, taken = _state(child.pid)
        if now != at or now < 0:
            at, since, spent = now, time.monotonic(), taken
        elif state != "S":
            since = time.monotonic()
        if taken - spent > hangs or time.monotonic() - since > stuck:
            return True
    return False


def _state(pid: int) -> tuple[str, float]:
    """Return the state of a process (proc_pid_stat(5)) and the seconds of processor time that it has taken."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return "X", 0.0
    return fields[0], (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _ending(status: int, text: str) -> str:
    lines = text.splitlines()
    told = [line for line in lines if "runtime error" in line or "ERROR: AddressSanitizer" in line]
    how = signal.Signals(-status).name if status < 0 else f"status {status}"
    return f"it ends by {how}: {(told or lines or [''])[0][:300]}"
