"""What runs in a guest with a PMU: ``python -m tests.kernels.counters VERDICT [TASK...]``; findings as in `.guest`.

QEMU's PMU counts cycles by its virtual clock (1 GHz: a cycle is a nanosecond) and, with ``-icount shift=0``,
instructions, each of which then takes a nanosecond too. So in every state cycles, instructions and time have to be the
same figure, which is known without a model of any processor. Stalls are 0 there, always.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from unittest import mock

from headway.linux.levels import Level
from headway.linux.options import MeasureOptions
from headway.linux.perf.counters import MAX_EVENTS, default_set
from headway.linux.perf.events import EventFinder
from headway.linux.perf.perf_event import close_all, open_counter
from headway.linux.sources.ebpf import division
from headway.model import Ledger, Quality, Thread, violations
from headway.model.ledger import add_states

from ..linux.measuring import measure, measure_intervals
from .guest import PROGRAMS, SkipError, say

NEAR = 0.02
"""How far figures that have to agree may be apart: clock and counters are not read at the same moment."""
STARTING = 20_000_000
"""Instructions that a program needs to be loaded and to end, at most."""


def loop(source: str = "known_instructions.c") -> Path:
    """A program that runs a known number of instructions of its own."""
    if platform.machine() != "aarch64":
        raise SkipError("the loop is written for arm64")
    program = Path(source).with_suffix("") if source != "known_instructions.c" else Path("loop")
    if not program.exists():
        subprocess.run(["gcc", "-O1", "-o", program, PROGRAMS / source], check=True)
    return program.absolute()


def measured(n: int, calls: int = 1, *, options: MeasureOptions = MeasureOptions()) -> Ledger:  # noqa: B008
    """What the loop did, which ran 2 n instructions and so many system calls."""
    return measure(loop(), str(n), str(calls), options=options)[0]


def counts_of(thread: Thread, name: str) -> dict[str, int]:
    """What was counted of a figure, by state."""
    return {state: value for state, cell in thread.states.items() if (value := getattr(cell, name)) is not None}


def near(a: float, b: float, slack: float = 0) -> bool:
    return abs(a - b) <= NEAR * max(a, b) + slack


def counted() -> Mapping[str, object]:
    """Of two runs, the longer has the instructions more that it ran more; its cycles and time are the same."""
    short, long = 20_000_000, 120_000_000
    found = {n: measured(n) for n in (short, long)}
    more = {}
    for name in ("cycles", "instructions"):
        values = {n: counts_of(ledger.threads[0], name).get("user") for n, ledger in found.items()}
        if None in values.values():
            raise SkipError(f"{name} are not counted: {dict(found[short].reasons)}")
        more[name] = (values[long] or 0) - (values[short] or 0)
    more["ns"] = found[long].threads[0].states["user"].time - found[short].threads[0].states["user"].time
    truth = 2 * (long - short)
    assert near(more["instructions"], truth), f"{more} of {truth} instructions"
    assert near(more["cycles"], more["ns"]), f"{more}"
    return {"more": more, "truth": truth}


def by_state() -> Mapping[str, object]:
    """In every state cycles, instructions and time are the same figure."""
    ledger = measured(40_000_000, 2000)
    states = ledger.threads[0].states
    figures = {state: (cell.time, cell.cycles, cell.instructions) for state, cell in states.items() if cell.cycles}
    for state in ("user", "kernel.getppid"):
        time_ns, cycles, instructions = figures[state]
        assert cycles is not None
        # What observing took is taken out of the time, and not out of what was counted.
        mine = (states[state].count or 0) * 20_000
        assert near(cycles, time_ns, mine), f"{state}: {figures[state]}"
        assert instructions is not None
        assert near(instructions, time_ns, mine), f"{state}: {figures[state]}"
    off = {state for state, cell in states.items() if state.startswith("wait") and cell.cycles}
    assert not off, f"cycles off the processor: {off}"
    # Together with what observing took, which has time and no counts of its own, it is all that the thread ran.
    total = [sum(f[i] or 0 for f in figures.values()) for i in range(3)]
    total[0] += states["overhead"].time if "overhead" in states else 0
    assert near(total[0], total[1]), f"{total}"
    return {"states": figures, "total ns, cycles, instructions": total}


def indices() -> Mapping[str, object]:
    """EPI comes from the default set: in cycles, exact where the processor has stall events."""
    found = default_set()
    if isinstance(found, str):
        raise SkipError(found)
    ledger = measured(40_000_000)
    assert violations(ledger) == []
    assert ledger.unit == "cycles", ledger.unit
    thread = ledger.threads[0]
    made = ledger.indices(thread)
    stalls_seen = "stall_cycles" in found.fields
    assert made.quality["epi"] is (Quality.EXACT if stalls_seen else Quality.BOUND), made.quality
    assert made.epi is not None
    assert made.rpi is not None
    cycles = counts_of(thread, "cycles")
    assert made.rpi == sum(value for state, value in cycles.items() if state != "overhead"), (made.rpi, cycles)
    stalls = counts_of(thread, "stall_cycles")
    assert made.epi == cycles["user"] - stalls.get("user", 0), (made.epi, cycles, stalls)
    return {
        "processors": found.processors,
        "fields": sorted(found.fields),
        "rpi": made.rpi,
        "epi": made.epi,
        "mpi": made.mpi,
        "quality": {name: quality.value for name, quality in made.quality.items()},
        "stalls": stalls,
    }


def named() -> Mapping[str, object]:
    """``-e cycles,instructions``: what was asked for is what the default set counts."""
    ledger = measured(40_000_000, options=MeasureOptions(events=("cycles", "instructions")))
    cell = ledger.threads[0].states["user"]
    events = dict(cell.events or {})
    assert near(events["cycles"] or 0, cell.cycles or 0), (events, cell.cycles)
    assert near(events["instructions"] or 0, cell.instructions or 0), (events, cell.instructions)
    assert near(events["instructions"] or 0, 80_000_000, STARTING), events
    return {"events": events, "cycles": cell.cycles, "instructions": cell.instructions}


def multiplexed() -> Mapping[str, object]:
    """More events than counters: they take turns, are scaled, and are said to be."""
    texts = ("instructions:u", "instructions:k", "cycles:u", "cycles:k", "r1d", "r60", "r19", "r61")
    found = default_set()
    if isinstance(found, str):
        raise SkipError(found)
    room = MAX_EVENTS - sum(len(each) for each in found.fields.values())
    ledger = measured(400_000_000, options=MeasureOptions(events=texts[:room]))
    shares = {name: round(share.share, 3) for name, share in ledger.counted.items()}
    shared = {name: share for name, share in shares.items() if share < 1}
    assert shared, f"all {MAX_EVENTS} events had a counter all the time: {shares}"
    cell = ledger.threads[0].states["user"]
    events = dict(cell.events or {})
    truth = 800_000_000
    assert abs((events["instructions:u"] or 0) - truth) < 0.2 * truth + STARTING, events
    assert (events["instructions:k"] or 0) < 0.05 * truth, events
    quality = ledger.indices(ledger.threads[0]).quality
    return {"counted": shares, "events": events, "truth": truth, "epi": quality["epi"].value}


def wrapped() -> Mapping[str, object]:
    """More than 2^32 instructions: the PMU's counters have 32 bits, and the kernel makes 64 of them."""
    n = (1 << 31) + (1 << 28)
    ledger = measured(n)
    cell = ledger.threads[0].states["user"]
    assert cell.instructions is not None
    assert near(cell.instructions, 2 * n, STARTING), (cell.instructions, 2 * n)
    assert near(cell.cycles or 0, cell.time), (cell.cycles, cell.time)
    return {"instructions": cell.instructions, "truth": 2 * n, "cycles": cell.cycles, "ns": cell.time}


def intervals() -> Mapping[str, object]:
    """What the intervals counted adds up to the whole."""
    whole, parts = measure_intervals(0.5, loop(), "600000000")
    total = add_states(*(thread.states for part in parts for thread in part.threads if thread.name == "loop"))
    cell = total["user"]
    assert near(cell.instructions or 0, 1_200_000_000, STARTING), cell.instructions
    assert len(parts) > 1
    return {"parts": len(parts), "instructions": cell.instructions, "whole": _user(whole)}


def _user(ledger: Ledger) -> int | None:
    return next(thread.states["user"].instructions for thread in ledger.threads if "user" in thread.states)


def by_proc() -> Mapping[str, object]:
    """The /proc source counts the user code of the same loop."""
    path = Path("proc.json")
    words = [sys.executable, "-P", "-m", "headway", "stat", "--source", "proc", "--json", "-o", str(path)]
    done = subprocess.run([*words, "--", str(loop()), "200000000"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-800:]
    document = json.loads(path.read_text())
    (user,) = [state for state in document["threads"][0]["states"] if state["state"] == "user"]
    assert near(user["instructions"], 400_000_000, STARTING), user
    return {"instructions": user["instructions"], "truth": 400_000_000, "cycles": user["cycles"]}


def doctor() -> Mapping[str, object]:
    """``headway doctor --verify`` comes to a judgement: without stalls a pointer chase is not believed to be one."""
    words = [sys.executable, "-P", "-m", "headway", "doctor", "--verify"]
    shown = subprocess.run(words, capture_output=True, text=True, check=False, timeout=250)
    done = subprocess.run([*words, "--json"], capture_output=True, text=True, check=False, timeout=250)
    assert done.returncode in (0, 1), done.stderr[-1500:]
    assert shown.returncode == done.returncode, (shown.returncode, done.returncode)
    document = json.loads(done.stdout)
    assert document["believed"]["mpi"] != "yes", document
    return {"status": done.returncode, "shown": shown.stdout.splitlines(), **document}


# ---- the level switches: the cycles of both modes divide the time ----

SWITCHES = MeasureOptions(level=Level.SWITCHES)
SPLITS = {
    "user code": (10_000_000, 5, 0, False),
    "half and half": (1_000_000, 25, 1000, False),
    "system calls": (20_000, 25, 2000, False),
    "many switches": (50_000, 500, 0, True),
    "many switches and calls": (50_000, 500, 50, True),
}
"""Loops in each round, rounds, system calls in each round, and whether the thread leaves its processor after each."""
OWN_OF_A_CALL = 10
"""Instructions of its own that a program runs for a system call, about: the C library's among them."""
LOADING = 1_000_000
"""Instructions that a program and the dynamic linker run in user mode until the first of its loops, at most."""


def run_split(name: str, options: MeasureOptions = SWITCHES) -> tuple[Thread, Ledger, int]:
    """Measure the program with this split. Returns its thread, the ledger, and the instructions of its own loops."""
    n, rounds, calls, naps = SPLITS[name]
    words = [str(word) for word in (n, rounds, calls, int(naps))]
    ledger, _ = measure(loop("known_modes.c"), *words, options=options)
    (thread,) = ledger.threads
    return thread, ledger, rounds * (2 * n + calls * OWN_OF_A_CALL)


def by_mode(name: str) -> Mapping[str, object]:
    """User code has the time of its own instructions, a nanosecond each, whatever the kernel does beside it.

    The figures of samples alone, and of a measurement that sees every system call, are printed beside it.
    """
    if isinstance(default_set(), str):
        raise SkipError(str(default_set()))
    thread, ledger, truth = run_split(name)
    assert "because" not in ledger.reasons["division"], ledger.reasons
    indices = ledger.indices(thread)
    assert indices.quality["epi"] is indices.quality["kpi"] is Quality.BY_MODE, indices.quality
    assert indices.interval["kpi"] is None
    assert sum(part.by_mode for part in thread.sampled.values()) == indices.rpi
    assert all(part.time == 0 for part in thread.sampled.values())
    user = thread.states["user"].time
    found: dict[str, object] = {
        "truth": truth,
        "user": user,
        "off by": round((user - truth) / truth, 5),
        "kernel": indices.kpi,
        "rpi": indices.rpi,
        "overhead": thread.states["overhead"].time if "overhead" in thread.states else 0,
        "states": {state: cell.time for state, cell in thread.states.items()},
    }
    assert near(user, truth, LOADING), found
    found["by samples"] = by_samples(name)
    found["every call seen"] = user_and_kernel(*run_split(name, MeasureOptions())[:2])
    return found


def user_and_kernel(thread: Thread, ledger: Ledger) -> Mapping[str, object]:
    """What a measurement says of user code and the kernel, ns, and within which limits."""
    indices = ledger.indices(thread)
    user = sum(cell.time for state, cell in thread.states.items() if state in ("user", "running"))
    return {"user": user, "kernel": indices.kpi, "rpi": indices.rpi, "limits of user": indices.interval["epi"]}


def by_samples(name: str) -> Mapping[str, object]:
    """The same where the cycles cannot be had: headway says why, and samples divide the time."""
    with mock.patch.object(division, "with_modes", return_value="the test has switched them off"):
        thread, ledger, _ = run_split(name)
    assert "because the test has switched them off" in ledger.reasons["division"]
    assert all(part.by_mode == 0 for part in thread.sampled.values())
    return user_and_kernel(thread, ledger)


def by_mode_in_intervals() -> Mapping[str, object]:
    """Intervals have what the whole has; each is divided by the cycles of its own time."""
    program = loop("known_modes.c")
    n, rounds, calls = 10_000_000, 30, 10_000
    whole, parts = measure_intervals(0.5, program, str(n), str(rounds), str(calls), options=SWITCHES)
    truth = rounds * (2 * n + calls * OWN_OF_A_CALL)
    mine = [thread for part in parts for thread in part.threads if thread.name == program.name]
    user = [thread.states["user"].time if "user" in thread.states else 0 for thread in mine]
    assert near(sum(user), truth, LOADING), (user, truth)
    told = {state for thread in mine for state, part in thread.sampled.items() if not part.by_mode}
    assert not told, f"not by the cycles: {told}"
    (thread,) = (t for t in whole.threads if t.name == program.name)
    return {"truth": truth, "user": sum(user), "intervals": user, "quality": whole.indices(thread).quality["kpi"].value}


def by_mode_in_a_budget() -> Mapping[str, object]:
    """A budget that is too small for every call is at `switches` most of the time, and divides that by the cycles."""
    program = loop("known_modes.c")
    n, rounds, calls = 10_000_000, 30, 10_000
    options = MeasureOptions(budget=0.001)
    whole, _ = measure_intervals(0.5, program, str(n), str(rounds), str(calls), options=options)
    if "because" in whole.reasons["division"]:
        raise SkipError(whole.reasons["division"])
    truth = rounds * (2 * n + calls * OWN_OF_A_CALL)
    (thread,) = (t for t in whole.threads if t.name == program.name)
    part = thread.sampled["user"]
    assert part.by_mode > 0
    user = thread.states["user"].time
    return {"truth": truth, "user": user, "by mode": part.by_mode, "by samples": part.time, **whole.reasons}


def by_mode_shared() -> Mapping[str, object]:
    """Another program takes the counters: the cycles are not believed, and samples divide, with the reason."""
    cycles = EventFinder().find("cycles")
    fds = []
    try:
        with suppress(OSError):
            for _ in range(12):
                fds.append(open_counter(cycles, cpu=0))
        thread, ledger, _ = run_split("half and half")
    finally:
        close_all(fds)
    assert "because" in ledger.reasons["division"], ledger.reasons
    assert all(part.by_mode == 0 for part in thread.sampled.values())
    return {"counters of the other": len(fds), "reason": ledger.reasons["division"]}


TASKS: dict[str, Callable[[], Mapping[str, object]]] = {
    "a loop of known length": counted,
    "by state": by_state,
    "indices": indices,
    "-e cycles,instructions": named,
    "intervals": intervals,
    "multiplexing": multiplexed,
    "/proc": by_proc,
    **{f"cycles by mode: {name}": partial(by_mode, name) for name in SPLITS},
    "cycles by mode: intervals": by_mode_in_intervals,
    "cycles by mode: --budget": by_mode_in_a_budget,
    "cycles by mode: counters in use": by_mode_shared,
    "doctor --verify": doctor,
    "beyond 32 bits": wrapped,
}


def main(arguments: list[str]) -> int:
    """Run the tasks that are named, or all. Returns the exit status."""
    with open(arguments[0], "w", encoding="utf-8") as out, tempfile.TemporaryDirectory() as scratch:
        say(out, task="boot", release=os.uname().release, machine=os.uname().machine, processors=os.cpu_count())
        os.chdir(scratch)
        for name, task in TASKS.items():
            if arguments[1:] and name not in arguments[1:]:
                continue
            began = time.monotonic()
            found: dict[str, object]
            try:
                found = {"verdict": "exact", "figures": task()}
            except SkipError as why:
                found = {"verdict": "skipped", "why": str(why)}
            except Exception as error:
                found = {"verdict": "wrong", "why": f"{type(error).__name__}: {error}"[:1000]}
                found["trace"] = traceback.format_exc()[-2000:]
            say(out, task=name, **found, seconds=round(time.monotonic() - began, 1))
        os.chdir("/")
        say(out, finished=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
