"""The accuracy of a profile and its cost, beside ``perf record``, in one run.

A program whose functions have known shares of its processor time (it reads its own clock) is run unmeasured, under
``perf record`` and under ``headway profile``, in turn. A ping-pong over pipes shows the cost of stacks at each switch,
in a profile and in a recording. The tables show medians. The last one has the shares of samples that are in polling,
beside the ledger's, and of those whose stack reaches main.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from headway.model import Frame, Profile, summaries
from headway.recording.profile import open_profile

from .common import compiled, heading, load, table

LAPS = 4000
TRIPS = 20_000
ROUNDS = 3
FREQUENCY = 997
FUNCTIONS = ("half", "third", "fifth")
FLAGS = ("-fno-omit-frame-pointer", "-mno-omit-leaf-frame-pointer", "-fno-optimize-sibling-calls", "-fno-inline")
WITHOUT = ("-fomit-frame-pointer", "-fno-optimize-sibling-calls", "-fno-inline")
HEADWAY = [sys.executable, "-c", "from headway.commands import main; main()"]
PERF = ["perf", "record", "-q", "-e", "cpu-clock", "-F", str(FREQUENCY), "-g"]


def said(command: Sequence[str | Path]) -> list[float]:
    """Return the numbers that the program prints."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=True, timeout=60)
    return [float(word) for word in done.stdout.split()]


def by_perf(data: Path) -> tuple[int, dict[str, float]]:
    """Return the number of samples, and the share of each function including what it called."""
    words = ["perf", "script", "-i", str(data), "-F", "comm,ip,sym"]
    text = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    found: Counter[str] = Counter()
    stacks = [part for part in text.split("\n\n") if part.strip()]
    for stack in stacks:
        names = {line.split()[-1] for line in stack.splitlines()[1:] if line.split()}
        found.update(name for name in FUNCTIONS if name in names)
    total = sum(found.values()) or 1
    return len(stacks), {name: found[name] / total for name in FUNCTIONS}


def by_headway(path: Path) -> tuple[int, dict[str, float]]:
    """Return the same figures from a recorded profile, for the program's own code."""
    profile, _ = open_profile(path)
    user = next(one for one in summaries(profile) if one.state == "user")
    times = {spot.function: spot.total for spot in user.functions if spot.function in FUNCTIONS}
    total = sum(times.values()) or 1
    return user.rows, {name: times.get(name, 0) / total for name in FUNCTIONS}


def worst(truth: Sequence[float], found: dict[str, float]) -> float:
    """Return the largest difference of a share."""
    return max(abs(found[name] - share) for name, share in zip(FUNCTIONS, truth, strict=True))


def shares(program: Path, scratch: Path) -> None:
    """Print accuracy and cost on a program that computes."""
    times: dict[str, list[float]] = {}
    errors: dict[str, list[float]] = {}
    samples: dict[str, list[float]] = {}
    for lap in range(ROUNDS):
        words: list[str | Path] = [program, "shares", str(LAPS)]
        times.setdefault("unmeasured", []).append(said(words)[0])
        if shutil.which("perf"):
            data = scratch / f"{lap}.data"
            used, *truth = said([*PERF, "-o", data, "--", *words])
            count, found = by_perf(data)
            times.setdefault("perf record -g", []).append(used)
            errors.setdefault("perf record -g", []).append(worst(truth, found))
            samples.setdefault("perf record -g", []).append(count)
        run = scratch / f"{lap}.hw"
        used, *truth = said([*HEADWAY, "profile", "-q", "-F", str(FREQUENCY), "-o", run, "--", *words])
        count, found = by_headway(run)
        times.setdefault("headway profile", []).append(used)
        errors.setdefault("headway profile", []).append(worst(truth, found))
        samples.setdefault("headway profile", []).append(count)
    base = statistics.median(times["unmeasured"])
    rows = []
    for name, found_times in times.items():
        used = statistics.median(found_times)
        rows.append(
            [
                name,
                f"{used:.3f}",
                f"{(used / base - 1) * 100:+.1f} %",
                f"{statistics.median(samples[name]):.0f}" if name in samples else "",
                f"{statistics.median(errors[name]) * 100:.2f}" if name in errors else "",
            ]
        )
    print(table(["50 : 30 : 20", "processor s", "more", "samples", "largest error, points"], rows))


def switches(program: Path, scratch: Path) -> None:
    """Print the cost of stacks at each switch."""
    tools: dict[str, list[str | Path]] = {"unmeasured": []}
    if shutil.which("perf"):
        tools["perf record -g"] = [*PERF, "-o", scratch / "p.data", "--"]
    tools["headway stat"] = [*HEADWAY, "stat", "-q", "-o", "/dev/null", "--"]
    run = scratch / "s.hw"
    tools["headway profile"] = [*HEADWAY, "profile", "-q", "-o", run, "--"]
    for options in ([], ["--stacks", "-F", "0"], ["--stacks"]):
        tools[" ".join(["headway record", *options])] = [*HEADWAY, "record", "-q", *options, "-o", run, "--"]
    times: dict[str, list[list[float]]] = {name: [] for name in tools}
    for _ in range(ROUNDS):
        for name, before in tools.items():
            shutil.rmtree(run, ignore_errors=True)
            times[name].append(said([*before, program, "switch", str(TRIPS)]))
    medians = {name: [statistics.median(each) for each in zip(*found, strict=True)] for name, found in times.items()}
    base = medians["unmeasured"][1]
    rows = [[name, f"{took:,.0f}", f"{busy:,.0f}", f"{busy / base:.2f} ×"] for name, (took, busy) in medians.items()]
    print(table(["a round trip through two pipes", "ns", "processor ns", ""], rows))


def recorded(scratch: Path, words: Sequence[str | Path]) -> Profile:
    """Return the profile of a program."""
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        run = Path(folder) / "samples.hw"
        said([*HEADWAY, "profile", "-q", "-F", str(FREQUENCY), "-o", run, "--", *words])
        return open_profile(run)[0]


def share_of(profile: Profile, chosen: Callable[[str, tuple[Frame, ...]], bool]) -> float:
    """Return the share that chosen samples, by state and stack, have of those in user code and in polling."""
    part = whole = 0
    for _, state, weight, _, stack in profile.rows():
        if state == "user" or state.startswith("poll."):
            whole += weight
            part += weight if chosen(state, tuple(profile.frames[number] for number in stack)) else 0
    return part / whole if whole else 0.0


def reaches_main(_: str, stack: tuple[Frame, ...]) -> bool:
    """Return whether the stack has the program's first function."""
    return any(frame.function == "main" for frame in stack)


def samples(scratch: Path) -> None:
    """Print the shares of samples."""
    figures: dict[str, list[float]] = {}
    for _ in range(ROUNDS):
        for kind, flags in (("with", FLAGS), ("without", WITHOUT)):
            with compiled("shares", flags=flags) as program:
                found = recorded(scratch, [program, "shares", str(LAPS)])
            figures.setdefault(f"with a stack to main, {kind} frame pointers", []).append(share_of(found, reaches_main))
        with compiled("polls", flags=FLAGS) as program:
            found = recorded(scratch, [program, "recv", "4000", "4000", "100"])
        states = [(state, cell.time) for thread in found.ledger.threads for state, cell in thread.states.items()]
        polled = sum(time for state, time in states if state.startswith("poll."))
        working = sum(time for state, time in states if state == "user")
        in_poll = share_of(found, lambda state, _: state != "user")
        between = share_of(found, lambda state, stack: state != "user" and bool(stack) and stack[0].kind == "user")
        figures.setdefault("in polling", []).append(in_poll)
        figures.setdefault("in polling, by the ledger", []).append(polled / (polled + working))
        figures.setdefault("in polling, between two checks", []).append(between)
    rows = [[name, f"{statistics.median(shares) * 100:.1f} %"] for name, shares in figures.items()]
    print(table(["of samples in user code and in polling", "share"], rows))


def symbols(run: Path) -> None:
    """Print how long reading a profile takes."""
    began = time.perf_counter()
    profile, _ = open_profile(run)
    found = time.perf_counter() - began
    print(f"\nReading a profile of {len(profile.samples):,} rows and {len(profile.frames):,} frames: {found:.2f} s.")


def main() -> None:
    print(f"{heading()}, {load()}\n")
    with compiled("shares", flags=FLAGS) as program, tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        shares(program, scratch)
        print()
        switches(program, scratch)
        print()
        samples(scratch)
        symbols(scratch / "0.hw")
    print(f"\n{load()}")


if __name__ == "__main__":
    main()
