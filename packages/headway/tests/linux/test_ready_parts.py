"""The division of time ready, as the eBPF programs compute it, against a model that knows every nanosecond.

The programs keep clocks and take differences; the model here goes through all that the processors did, piece by piece.
The same C is compiled for this machine (ready_parts.c).
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headway.linux.bpf.shared.layout import READY_PARTS, fields_of
from headway.model import READY_PARTS as NAMES

CPUS, PROCESSES, IDLE = 3, 5, 0xFFFFFFFF
BPF = Path(__file__).parents[2] / "src/headway/linux/bpf"
WORD = st.integers(0, 2**64 - 1)
CLOCKS = ("own", "busy", "interrupts", "stolen", "throttled")


class Clocks(ctypes.Structure):
    """``struct ready_clocks``."""

    _fields_ = [(name, ctypes.c_uint64) for name in CLOCKS]


Parts = ctypes.c_uint64 * len(READY_PARTS)


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The compiled C."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("there is no C compiler")
    target = tmp_path_factory.mktemp("ready") / "ready_parts.so"
    source = Path(__file__).with_name("ready_parts.c")
    flags = ["-std=gnu11", "-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-I", str(BPF)]
    subprocess.run([compiler, *flags, str(source), "-o", str(target)], check=True)
    return ctypes.CDLL(str(target))


def divide(programs: ctypes.CDLL, before: Clocks, after: Clocks, time: int) -> dict[str, int]:
    """Return the parts by name."""
    parts = Parts()
    programs.divide(ctypes.byref(before), ctypes.byref(after), ctypes.c_uint64(time), parts)
    return {name: parts[place] for name, place in READY_PARTS.items()}


clock_values = st.builds(Clocks, WORD, WORD, WORD, WORD, WORD)
small_clocks = st.builds(Clocks, *[st.integers(0, 1000)] * 5)


def test_names() -> None:
    """The model has a name for every part of the programs, in the same order, and the layouts agree."""
    assert [f"ready.{part}" for part in sorted(READY_PARTS, key=lambda name: READY_PARTS[name])] == list(NAMES)
    assert list(CLOCKS) == list(fields_of("ready_clocks"))


@given(st.one_of(clock_values, small_clocks), st.one_of(clock_values, small_clocks), st.integers(0, 2**62))
def test_parts_add_up(programs: ctypes.CDLL, before: Clocks, after: Clocks, time: int) -> None:
    """Whatever the clocks show, even if they went back: the parts add up to the time, and none is negative."""
    parts = divide(programs, before, after, time)
    assert sum(parts.values()) == time
    assert all(0 <= part <= time for part in parts.values())


@given(st.lists(st.integers(0, 2**50), min_size=6, max_size=6))
def test_largest_part(programs: ctypes.CDLL, values: list[int]) -> None:
    """The largest part has the count. Where all are 0 it is the rest."""
    largest = programs.largest(Parts(*values))
    assert values[largest] == max(values)
    assert programs.largest(Parts()) == READY_PARTS["wakeup"]


@given(small_clocks, st.integers(0, 500), st.integers(0, 500), st.integers(0, 500), st.integers(0, 500))
def test_throttled_time_hides_what_ran_meanwhile(
    programs: ctypes.CDLL, before: Clocks, throttled: int, neighbours: int, idle: int, interrupts: int
) -> None:
    """A thread that was throttled, and then ready while the processor was idle: others' time is in `throttled`."""
    hidden = min(neighbours, throttled)
    ticks = min(interrupts, throttled - hidden)
    after = Clocks(
        before.own, before.busy + hidden, before.interrupts + ticks, before.stolen, before.throttled + throttled
    )
    parts = divide(programs, before, after, throttled + idle)
    assert parts["throttled"] == throttled
    assert parts["interrupt"] == parts["own"] == parts["stolen"] == 0
    assert parts["neighbour"] + parts["wakeup"] == idle


def test_a_switch_that_is_being_written_is_not_read(programs: ctypes.CDLL) -> None:
    """The sequence is odd meanwhile."""
    programs.reset_clocks()
    clocks = Clocks()
    programs.set_sequence(0, 3)
    assert not programs.read_clocks(0, 1, ctypes.c_uint64(5), ctypes.byref(clocks))
    programs.set_sequence(0, 4)
    assert programs.read_clocks(0, 1, ctypes.c_uint64(5), ctypes.byref(clocks))


# ---- arbitrary schedules ----

STEPS = st.lists(
    st.tuples(
        st.integers(0, 30),  # ns until it
        st.integers(0, CPUS - 1),
        st.one_of(
            st.tuples(st.just("switch"), st.sampled_from([0, 1, 2, 3, IDLE])),
            st.tuples(st.just("interrupt"), st.just(0)),
            st.tuples(st.just("steal"), st.just(0)),
            st.tuples(st.just("ready"), st.integers(1, 3)),
            st.tuples(st.just("move"), st.just(0)),
            st.tuples(st.just("run"), st.just(0)),
            st.tuples(st.just("look"), st.just(0)),
        ),
    ),
    max_size=60,
)


@dataclass
class Schedule:
    """Processors, and one thread that is ready now and then. Knows its parts, and has the programs compute them."""

    programs: ctypes.CDLL
    now: int = 1_000_000
    running: list[int] = field(default_factory=lambda: [0] * CPUS)
    interrupted: list[bool] = field(default_factory=lambda: [False] * CPUS)
    away: list[bool] = field(default_factory=lambda: [False] * CPUS)
    stolen: list[int] = field(default_factory=lambda: [7] * CPUS)
    stolen_before: list[int] = field(default_factory=lambda: [7] * CPUS)
    cpu: int = -1
    process: int = 0
    since: int = 0
    began: Clocks = field(default_factory=Clocks)
    true: dict[str, int] = field(default_factory=dict)
    looks: list[dict[str, int]] = field(default_factory=list)

    def pass_time(self, time: int) -> None:
        """Let time pass, and charge it to what the thread is ready for."""
        self.now += time
        for cpu in range(CPUS):
            self.stolen[cpu] += time if self.away[cpu] else 0
        if self.cpu >= 0:
            running = self.running[self.cpu]
            part = (
                "stolen"
                if self.away[self.cpu]
                else "interrupt"
                if self.interrupted[self.cpu]
                else "wakeup"
                if running == IDLE
                else "own"
                if running == self.process
                else "neighbour"
            )
            self.true[part] += time

    def read(self, cpu: int) -> Clocks:
        """Return what the clocks of a processor show to the thread."""
        clocks = Clocks(stolen=self.stolen[cpu])
        assert self.programs.read_clocks(cpu, self.process, ctypes.c_uint64(self.now), ctypes.byref(clocks))
        return clocks

    def parts(self) -> dict[str, int]:
        """Return the parts until now, by the clocks."""
        return divide(self.programs, self.began, self.read(self.cpu), self.now - self.since)

    def step(self, cpu: int, what: str, which: int) -> Iterator[tuple[dict[str, int], dict[str, int]]]:
        """Do one thing, if it can be. Yields the parts by the clocks and the true ones when the thread runs again."""
        if what == "steal":
            if self.away[cpu] and self.interrupted[cpu]:  # the programs learn of it when the processor is back
                time = ctypes.c_uint64(self.stolen[cpu] - self.stolen_before[cpu])
                self.programs.steal_in_interrupt(cpu, time)
            self.away[cpu] = not self.away[cpu]
            self.stolen_before[cpu] = self.stolen[cpu]
        elif self.away[cpu] or (self.cpu >= 0 and self.away[self.cpu] and self.interrupted[self.cpu]):
            return
        elif what == "interrupt":
            self.interrupted[cpu] = not self.interrupted[cpu]
            self.programs.interrupt(cpu, self.interrupted[cpu], ctypes.c_uint64(self.now))
        elif what == "switch" and not self.interrupted[cpu]:
            self.programs.switch_run(cpu, which, ctypes.c_uint64(self.now), ctypes.c_uint64(self.stolen[cpu]))
            self.running[cpu] = which
        elif what == "ready" and self.cpu < 0:
            self.cpu, self.process, self.since = cpu, which, self.now
            self.true, self.looks = dict.fromkeys(READY_PARTS, 0), []
            self.began = self.read(cpu)
        elif what == "move" and self.cpu >= 0:
            self.programs.move_clocks(
                ctypes.byref(self.began), ctypes.byref(self.read(self.cpu)), ctypes.byref(self.read(cpu))
            )
            self.cpu = cpu
        elif what == "look" and self.cpu >= 0:
            self.looks.append(self.parts())
        elif what == "run" and self.cpu >= 0:
            yield self.parts(), self.true
            there = self.cpu
            if not self.interrupted[there] and not self.away[there]:
                stolen = ctypes.c_uint64(self.stolen[there])
                self.programs.switch_run(there, self.process, ctypes.c_uint64(self.now), stolen)
                self.running[there] = self.process
                clocks = Clocks(throttled=self.began.throttled)
                self.programs.read_at_switch(there, self.process, ctypes.byref(clocks))
                yield divide(self.programs, self.began, clocks, self.now - self.since), self.true
            self.cpu = -1


STOLEN_IN_AN_INTERRUPT = [
    (0, 0, ("switch", 1)),
    (0, 0, ("ready", 1)),
    (5, 0, ("interrupt", 0)),
    (2, 0, ("steal", 0)),
    (10, 0, ("steal", 0)),
    (3, 0, ("interrupt", 0)),
    (4, 0, ("run", 0)),
]


@given(STEPS)
@example(STOLEN_IN_AN_INTERRUPT)
def test_any_schedule(programs: ctypes.CDLL, steps: list[tuple[int, int, tuple[str, int]]]) -> None:
    """The parts are true to the nanosecond, whatever ran, wherever the thread went, and whenever somebody looked."""
    programs.reset_clocks()
    schedule = Schedule(programs)
    for cpu in range(CPUS):
        programs.switch_run(cpu, 0, ctypes.c_uint64(schedule.now), ctypes.c_uint64(schedule.stolen[cpu]))
    for time, cpu, (what, which) in steps:
        schedule.pass_time(time)
        for parts, true in schedule.step(cpu, what, which):
            assert parts == true
            for look in schedule.looks:
                assert all(look[part] <= parts[part] for part in parts)
