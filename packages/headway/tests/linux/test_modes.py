"""Cycles by mode: when they are believed, and how they divide time. All counter readings here are simulated.

What a real counter says is in `tests/kernels/counters.py`, in a guest with a PMU.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.errors import HeadwayError
from headway.linux.bpf.threads._cells import Cells
from headway.linux.levels import Level
from headway.linux.options import MeasureOptions
from headway.linux.perf.counters import CounterPlan, plan
from headway.linux.perf.modes import CALLS, with_modes
from headway.linux.perf.perf_event import CounterReading, Event
from headway.linux.sources.ebpf.division import divided
from headway.linux.sources.ebpf.mode_counters import ModeCounters
from headway.model import Estimate, ModeCycles, Processor, Quality, Thread, divide_by_mode, violations
from headway.model.ledger import Ledger, Window

from .machines import ARM_UNIT, SKYLAKE_UNIT, cpuinfo, machine

Count = Callable[[Sequence[Event]], list[CounterReading | None]]


def skylake(root: Path) -> Path:
    return machine(root, {"cpu": SKYLAKE_UNIT}, info=cpuinfo("GenuineIntel", 6, 0x5E))


def simulated(*, user: int = 10**6, kernel: int = 10**6, running: int = 100, gone: str = "") -> Count:
    """A simulated PMU: what each event counts in the loop of system calls, and for how many of 100 ns it had a
    counter.
    """

    def count(events: Sequence[Event]) -> list[CounterReading | None]:
        values = {"cycles:u": user, "cycles:k": kernel}
        return [None if e.name == gone else CounterReading(values.get(e.name, 7), 100, running) for e in events]

    return count


def refused(number: int) -> Count:
    def count(events: Sequence[Event]) -> list[CounterReading | None]:
        raise OSError(number, "simulated")

    return count


# ---- whether they are believed ----


def test_alone_they_are_all_that_is_counted(tmp_path: Path) -> None:
    found = with_modes(CounterPlan(), alone=True, root=skylake(tmp_path), count=simulated())
    assert isinstance(found, CounterPlan)
    assert [(e.name, e.exclude_user, e.exclude_kernel, e.exclude_hv) for e in found.events] == [
        ("cycles:u", False, True, True),
        ("cycles:k", True, False, True),
    ]
    assert (found.modes, found.fields, found.named) == ((0, 1), {}, {})


def test_beside_other_events_they_take_the_place_of_all_cycles(tmp_path: Path) -> None:
    root = skylake(tmp_path)
    whole = plan(root=root, opens=lambda event, of_thread: 0)
    found = with_modes(whole, alone=False, root=root, count=simulated())
    assert isinstance(found, CounterPlan)
    assert found.modes is not None
    assert found.fields["cycles"] == found.modes
    assert len(found.events) == len(whole.events) + 1
    assert [found.events[place].name for place in found.modes] == ["cycles:u", "cycles:k"]
    for name, places in whole.fields.items():
        if name != "cycles":
            assert [found.events[p] for p in found.fields[name]] == [whole.events[p] for p in places]


def test_with_two_types_of_core_each_has_its_form(tmp_path: Path) -> None:
    units = {"cpu_core": {**SKYLAKE_UNIT, "cpus": "0-1\n"}, "cpu_atom": {**SKYLAKE_UNIT, "type": "10\n", "cpus": "2\n"}}
    root = machine(tmp_path, units, info=cpuinfo("GenuineIntel", 6, 0x97))
    found = with_modes(CounterPlan(), alone=True, root=root, count=simulated())
    assert isinstance(found, CounterPlan)
    for event in found.events:
        assert len((event, *event.alternatives)) == 2
        assert {form.exclude_user for form in (event, *event.alternatives)} == {event.exclude_user}


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (simulated(kernel=0), "cycles:k counted 0 cycles in a loop of 2,000 system calls"),
        (simulated(kernel=CALLS - 1), "the cycles in kernel mode are hidden here"),
        (simulated(user=0), "cycles:u counted 0 cycles"),
        (simulated(kernel=-5), "cycles:k counted -5 cycles"),
        (simulated(user=1 << 63), "cycles:u counted 9,223,372,036,854,775,808 cycles"),
        (simulated(running=99), "too few counters for 2 events at once, or another program uses them: cycles:u and"),
        (simulated(gone="cycles:k"), "another program uses them: cycles:k had one for a part of the time only"),
        (refused(errno.EACCES), "kernel.perf_event_paranoid"),
        (refused(errno.ENOENT), "no performance monitoring unit here has it"),
    ],
)
def test_counters_that_are_not_to_be_believed_are_refused_in_one_clause(
    tmp_path: Path, count: Count, words: str
) -> None:
    found = with_modes(CounterPlan(), alone=True, root=skylake(tmp_path), count=count)
    assert isinstance(found, str)
    assert words in found
    assert "\n" not in found


def test_a_counter_that_a_processor_refuses_is_the_reason(tmp_path: Path) -> None:
    def count(events: Sequence[Event]) -> list[CounterReading | None]:
        raise HeadwayError("simulated: not on processor 0")

    assert with_modes(CounterPlan(), alone=True, root=skylake(tmp_path), count=count) == "simulated: not on processor 0"


def test_without_a_unit_the_reason_says_so(tmp_path: Path) -> None:
    guest = machine(tmp_path, {}, info=cpuinfo("GenuineIntel", 6, 0x5E, flags="fpu hypervisor"))
    found = with_modes(CounterPlan(), alone=True, root=guest, count=simulated())
    assert found == "this virtual machine has no performance monitoring unit"


def test_there_must_be_room_beside_what_is_counted(tmp_path: Path) -> None:
    root = skylake(tmp_path)
    whole = plan(["r1a8,r1a9,r1aa"], root=root, opens=lambda event, of_thread: 0)
    found = with_modes(whole, alone=False, root=root, count=simulated())
    assert isinstance(found, str)
    assert "no room" in found


def test_arm_counts_them_by_the_generic_event(tmp_path: Path) -> None:
    midr = "sys/devices/system/cpu/cpu0/regs/identification/midr_el1"
    root = machine(tmp_path, {"armv8_pmuv3_0": {**ARM_UNIT, "cpus": "0-1\n"}}, files={midr: "0x00000000413fd0c1\n"})
    found = with_modes(CounterPlan(), alone=True, root=root, count=simulated())
    assert isinstance(found, CounterPlan)
    assert {event.config for event in found.events} == {0}


def test_they_are_not_tried_where_all_time_is_divided() -> None:
    assert not ModeCounters(CounterPlan(), MeasureOptions()).needed
    assert not ModeCounters(CounterPlan(), MeasureOptions(level=Level.CALLS)).needed
    assert ModeCounters(CounterPlan(), MeasureOptions(level=Level.SWITCHES)).needed
    assert ModeCounters(CounterPlan(), MeasureOptions(budget=0.01)).needed


# ---- how they divide ----

counts = st.dictionaries(st.sampled_from(["user", "kernel.read", "kernel.fault", "irq"]), st.integers(0, 10**6))
cycles = st.builds(ModeCycles, st.integers(0, 2**61), st.integers(0, 2**61), st.integers(0, 10**12))


@given(st.integers(0, 10**15), st.integers(0, 10**15), counts, cycles)
def test_simulated_readings_divide_a_thread_and_a_processor(
    undivided: int, ready: int, samples: dict[str, int], had: ModeCycles
) -> None:
    states = Cells.of([("running", undivided, 3), ("ready", ready, 2)], samples, had)
    assert states.mode_cycles == had
    span = undivided + ready
    (row,) = divided([Thread(1, 1, "name", 0, 0, None, span, span, states)])
    (processor,) = divided([Processor(0, span, states)])
    assert violations(Ledger("bpf", Window(0, span), (row,), (processor,))) == []
    assert row.sampled == processor.sampled
    if not undivided:
        assert row.sampled == {}
    elif had.credible:
        assert row.sampled == divide_by_mode(undivided, had, samples)
        assert "running" not in row.states
    else:  # samples do, as if nothing had been counted
        assert all(part.by_mode == 0 for part in row.sampled.values())


@given(cycles, cycles, st.integers(1, 10**12), st.integers(1, 10**12))
def test_simulated_readings_of_intervals_add_up(first: ModeCycles, more: ModeCycles, time: int, later: int) -> None:
    def cells(time: int, had: ModeCycles) -> Cells:
        return Cells.of([("running", time, 1)], {}, had)

    both = ModeCycles(first.user + more.user, first.kernel + more.kernel, first.overhead + more.overhead)
    before = cells(time, first)
    new = cells(time + later, both).less(before)
    assert new.mode_cycles == more
    assert before.plus(new).mode_cycles == both


@pytest.mark.parametrize("had", [ModeCycles(0, 0), ModeCycles(-1, 9), ModeCycles(9, -1)])
def test_a_simulated_counter_that_ran_backwards_leaves_the_time_to_samples(had: ModeCycles) -> None:
    states = Cells.of([("running", 100, 1)], {"user": 3, "kernel.read": 1}, had)
    (row,) = divided([Thread(1, 1, "a", 0, 0, None, 100, 100, states)])
    assert row.sampled == {"user": Estimate(75, 3), "kernel.read": Estimate(25, 1)}
    without = Cells.of([("running", 100, 1)], {}, had)
    (row,) = divided([Thread(1, 1, "a", 0, 0, None, 100, 100, without)])
    assert row.states["running"].time == 100


def test_a_thread_without_a_sample_is_divided_all_the_same() -> None:
    states = Cells.of([("running", 1000, 1)], {}, ModeCycles(3, 1))
    (row,) = divided([Thread(1, 1, "a", 0, 0, None, 1000, 1000, states)])
    assert {state: cell.time for state, cell in row.states.items()} == {"user": 750, "kernel": 250}
    indices = Ledger("bpf", Window(0, 1000), (row,)).indices(row)
    assert (indices.epi, indices.kpi) == (750, 250)
    assert indices.quality["kpi"] is Quality.BY_MODE


def test_cycles_of_marked_regions_are_told_from_no_others_so_samples_divide() -> None:
    rows = [("running", 100, 1), ("noneffective.parse", 50, 1)]
    states = Cells.of(rows, {"user": 1}, ModeCycles(3, 1))
    assert states.mode_cycles is None
    (row,) = divided([Thread(1, 1, "a", 0, 0, None, 150, 150, states)])
    assert row.sampled == {"user": Estimate(100, 1)}
