"""The table of processors' events, and what is chosen from it, on machines that are only files."""

from __future__ import annotations

import errno
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.ledgers import precisions
from tests.linux.machines import AMD_UNIT, SKYLAKE_UNIT, alder_lake, arm, cpuinfo, machine, skylake

from headway.errors import HeadwayError
from headway.linux.perf.counters import (
    FIELDS,
    MAX_EVENTS,
    CounterPlan,
    CounterSet,
    default_set,
    identity,
    plan,
    remarks,
    sharpen,
    table,
)
from headway.linux.perf.events import EventError
from headway.linux.perf.perf_event import CounterReading, Event, close_all
from headway.linux.procfs import processors
from headway.model import Cell, Counted, Precision, Quality


def can(event: Event, of_thread: bool) -> int:
    return 0


def found(root: Path) -> CounterSet:
    chosen = default_set(root)
    assert isinstance(chosen, CounterSet)
    return chosen


def configs(events: tuple[Event, ...]) -> list[int]:
    return [event.config for event in events]


def test_every_entry_has_each_figure_or_says_why_not() -> None:
    for entry in table():
        assert not entry.codes.keys() & entry.unavailable.keys()
        assert {*entry.codes, *entry.unavailable} == set(FIELDS)
        assert {"cycles", "instructions"} <= entry.codes.keys()
        assert all(entry.unavailable.values())
        assert ": " in entry.document


def test_no_processor_has_two_entries() -> None:
    seen = set()
    for entry in table():
        keys = [(entry.vendor, entry.family, m, u) for m in entry.models for u in entry.units]
        for key in [*keys, *((entry.implementer, p) for p in entry.parts)]:
            assert key not in seen, f"{entry.name}: {key}"
            seen.add(key)


@given(st.sampled_from(table()), st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_entry_becomes_events_on_a_machine_of_its_kind(
    tmp_path_factory: pytest.TempPathFactory, entry: object, data: st.DataObject
) -> None:
    chosen = next(e for e in table() if e is entry)
    root = tmp_path_factory.mktemp("machine")
    if chosen.implementer is not None:
        part = data.draw(st.sampled_from(sorted(chosen.parts)))
        arm(root, f"{chosen.implementer << 24 | part << 4 | 0xF0000:#018x}")
    else:
        unit = AMD_UNIT if chosen.vendor == "AuthenticAMD" else SKYLAKE_UNIT
        name = data.draw(st.sampled_from(chosen.units))
        tree = unit if name == "cpu" else {**unit, "cpus": "0-1\n"}
        model = data.draw(st.sampled_from(sorted(chosen.models)))
        machine(root, {name: tree}, info=cpuinfo(chosen.vendor or "", chosen.family or 0, model))
    counted = found(root)
    assert counted.processors == (chosen.name,)
    assert counted.fields.keys() == chosen.codes.keys()
    assert counted.unavailable == chosen.unavailable


def test_skylake_counts_by_the_codes_of_its_document(tmp_path: Path) -> None:
    counted = found(skylake(tmp_path))
    assert configs(counted.fields["stall_cycles"]) == [0x40004A3]
    assert configs(counted.fields["memory_stall_cycles"]) == [0xC000CA3]
    assert configs(counted.fields["external_stall_cycles"]) == [0x60006A3]
    assert "perfmon" in counted.documents[0]


def test_zen_5_counts_cycles_without_retirement(tmp_path: Path) -> None:
    counted = found(machine(tmp_path, {"cpu": AMD_UNIT}, info=cpuinfo("AuthenticAMD", 0x1A, 2)))
    assert configs(counted.fields["stall_cycles"]) == [0x1BD6]
    assert configs(counted.fields["memory_stall_cycles"]) == [0xA2D6]
    assert "external_stall_cycles" in counted.unavailable


def test_neoverse_n1_adds_up_two_events_and_v2_has_one(tmp_path: Path) -> None:
    n1 = found(arm(tmp_path / "n1"))
    assert configs(n1.fields["stall_cycles"]) == [0x23, 0x24]
    assert "memory_stall_cycles" in n1.unavailable
    v2 = found(arm(tmp_path / "v2", "0x00000000410fd4f1"))
    assert configs(v2.fields["stall_cycles"]) == [0x3C]
    assert configs(v2.fields["memory_stall_cycles"]) == [0x4005]


def test_with_two_types_of_core_a_figure_is_counted_only_if_both_can(tmp_path: Path) -> None:
    counted = found(alder_lake(tmp_path))
    assert len(counted.processors) == 2
    assert "stall_cycles" in counted.unavailable
    (memory,) = counted.fields["memory_stall_cycles"]
    core, atom = memory.on(0), memory.on(4)
    assert core is not None
    assert atom is not None
    assert (core.type, core.config, atom.type, atom.config) == (4, 0x3000347, 10, 0x734)


def test_a_type_of_core_that_needs_fewer_events_counts_nothing_for_the_others(tmp_path: Path) -> None:
    root = alder_lake(tmp_path)
    (root / "proc/cpuinfo").write_text(cpuinfo("GenuineIntel", 6, 0xBD))
    several = found(root).fields["memory_stall_cycles"]
    assert [event.on(0) is not None for event in several] == [True, True, True]
    assert [event.on(4) is not None for event in several] == [True, False, False]


def test_a_processor_that_is_in_no_table_still_counts_cycles(tmp_path: Path) -> None:
    counted = found(machine(tmp_path, {"cpu": SKYLAKE_UNIT}, info=cpuinfo("GenuineIntel", 6, 0xFE)))
    assert set(counted.fields) == {"cycles", "instructions"}
    assert "GenuineIntel family 0x6 model 0xfe" in counted.unavailable["stall_cycles"]


def test_without_a_unit_the_reason_says_so(tmp_path: Path) -> None:
    assert "this machine has" in str(default_set(machine(tmp_path / "a", {}, info=cpuinfo("GenuineIntel", 6, 0x5E))))
    guest = machine(tmp_path / "b", {}, info=cpuinfo("GenuineIntel", 6, 0x5E, flags="fpu hypervisor"))
    assert "this virtual machine has" in str(default_set(guest))


@given(st.binary(max_size=80), st.binary(max_size=40))
@example(b"vendor_id : GenuineIntel\ncpu family : 99999999999999\nmodel : -1\n", b"0x")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_a_processor_says_that_it_is_there_is_an_answer(tmp_path: Path, info: bytes, midr: bytes) -> None:
    root = arm(tmp_path)
    (root / "proc/cpuinfo").write_bytes(info)
    (root / "sys/devices/system/cpu/cpu0/regs/identification/midr_el1").write_bytes(midr)
    assert str(identity(0, root))
    assert default_set(root)


# ---- the plan --------------------------------------------------------------------------------------------------------


def test_figures_come_first_then_the_events_asked_for(tmp_path: Path) -> None:
    root = skylake(tmp_path)
    chosen = plan(["page-faults,cs", "r1a8"], root=root, opens=can)
    assert chosen.names == (*FIELDS, "page-faults", "cs", "r1a8")
    assert len(chosen.events) == 8
    values = list(range(8))
    cell = Cell(1, 1, **chosen.figures(values))
    assert (cell.cycles, cell.instructions, cell.stall_cycles, cell.memory_stall_cycles) == (0, 1, 2, 3)
    assert (cell.external_stall_cycles, cell.events) == (4, {"page-faults": 5, "cs": 6, "r1a8": 7})


def test_an_event_that_is_counted_already_is_not_counted_twice(tmp_path: Path) -> None:
    chosen = plan(["cycles,cpu/event=0xa3,umask=4,cmask=4/"], root=skylake(tmp_path), opens=can)
    assert len(chosen.events) == 5
    assert chosen.named["cycles"] == chosen.fields["cycles"][0]
    assert list(chosen.named.values()) == [0, 2]


def test_a_sum_of_which_one_event_was_not_counted_is_not_known(tmp_path: Path) -> None:
    chosen = plan(root=arm(tmp_path), opens=can)
    assert chosen.fields["stall_cycles"] == (2, 3)
    assert chosen.figures([9, 9, 5, 7])["stall_cycles"] == 12
    assert chosen.figures([9, 9, 5, None])["stall_cycles"] is None


def test_more_events_than_there_is_room_for_are_refused_in_one_sentence(tmp_path: Path) -> None:
    codes = ",".join(f"r{n:x}" for n in range(1, MAX_EVENTS))
    with pytest.raises(EventError, match="so leave 4 out"):
        plan([codes], root=skylake(tmp_path), opens=can)


def test_of_the_default_events_what_cannot_be_counted_is_left_out_with_the_reason(tmp_path: Path) -> None:
    def no_stalls(event: Event, of_thread: bool) -> int:
        return errno.ENOENT if "STALLS" in event.name else 0

    chosen = plan(root=skylake(tmp_path), opens=no_stalls)
    assert chosen.names == ("cycles", "instructions")
    assert "CYCLE_ACTIVITY.STALLS_TOTAL cannot be counted" in remarks(chosen, in_cycles=True)["stall_cycles"]


def test_where_none_can_be_counted_there_is_one_reason(tmp_path: Path) -> None:
    chosen = plan(root=skylake(tmp_path), opens=lambda event, of_thread: errno.EACCES)
    assert chosen.names == ()
    assert list(chosen.reasons) == ["counters"]


def test_the_report_says_where_mpi_comes_from_or_why_there_is_none(tmp_path: Path) -> None:
    full = plan(root=skylake(tmp_path / "a"), opens=can)
    assert "mpi" not in remarks(full, in_cycles=True)
    assert "Skylake" in remarks(full, in_cycles=False)["mpi"]
    n1 = plan(root=arm(tmp_path / "b"), opens=can)
    assert "STALL_BACKEND_MEM" in remarks(n1, in_cycles=True)["mpi"]
    none = plan(root=machine(tmp_path / "c", {}), opens=can)
    assert "no performance monitoring unit" in remarks(none, in_cycles=True)["mpi"]


def test_an_event_that_was_asked_for_must_be_counted(tmp_path: Path) -> None:
    root = skylake(tmp_path)
    with pytest.raises(HeadwayError, match="r1a8 cannot be counted on processor 0: that needs CAP_PERFMON"):
        plan(["r1a8"], root=root, opens=lambda event, of_thread: errno.EACCES if event.name == "r1a8" else 0)
    with pytest.raises(EventError, match="did you mean page-faults"):
        plan(["page-fault"], root=root, opens=can)


@pytest.mark.parametrize("name", ["cs", "cpu-migrations", "cycles:k", "cgroup-switches"])
def test_what_only_the_kernel_does_is_not_counted_in_user_code(tmp_path: Path, name: str) -> None:
    with pytest.raises(EventError, match="what the kernel does"):
        plan([name], user_only=True, root=skylake(tmp_path), opens=can)


def test_of_threads_only_user_code_is_counted(tmp_path: Path) -> None:
    for root in (skylake(tmp_path / "a"), alder_lake(tmp_path / "b")):
        chosen = plan(["page-faults,task-clock"], user_only=True, root=root, opens=can)
        for event in chosen.events:
            for form in (event, *event.alternatives):
                assert form.exclude_kernel
                assert form.exclude_hv
        assert "kernel" in remarks(chosen, in_cycles=False)["task-clock"]


def test_on_this_machine_software_events_can_be_planned() -> None:
    try:
        chosen = plan(["page-faults:u"], user_only=True)
    except HeadwayError as error:
        pytest.skip(str(error))
    assert chosen.named["page-faults:u"] == len(chosen.events) - 1


@pytest.mark.root
def test_what_was_opened_on_each_processor_says_how_long_it_counted() -> None:
    chosen = plan(["page-faults,context-switches"])
    cpus = processors.online()
    opened = chosen.open(cpus)
    began = time.monotonic_ns()
    try:
        time.sleep(0.02)
        passed = time.monotonic_ns() - began
        counted = chosen.counted_on(opened)
    finally:
        close_all(fd for fds in opened.values() for fd in fds)
    assert list(counted) == list(chosen.names)
    assert counted["page-faults"].whole
    # NTP corrects the clock of the test by 500 ppm at most, and not that of the counters.
    assert counted["page-faults"].enabled >= len(cpus) * passed * 0.999


# ---- how good it is --------------------------------------------------------------------------------------------------

ALL = dict.fromkeys(FIELDS, Counted(10, 10))


@given(precisions)
def test_without_counters_nothing_gets_better(base: Precision) -> None:
    worse = sharpen(base, {}, in_cycles=False)
    assert worse.effective is base.effective
    assert worse.memory is worse.stall is Quality.UNAVAILABLE


def test_what_was_counted_all_the_time_is_exact_and_what_was_scaled_is_sampled() -> None:
    base = Precision(effective=Quality.BOUND, memory=Quality.UNAVAILABLE)
    exact = sharpen(base, ALL, in_cycles=True)
    assert (exact.effective, exact.memory, exact.stall) == (Quality.EXACT,) * 3
    shared = sharpen(base, {**ALL, "memory_stall_cycles": Counted(10, 5)}, in_cycles=True)
    assert (shared.effective, shared.memory) == (Quality.EXACT, Quality.SAMPLED)
    in_time = sharpen(base, ALL, in_cycles=False)
    assert (in_time.effective, in_time.memory, in_time.total) == (Quality.SAMPLED, Quality.SAMPLED, Quality.EXACT)


def test_the_share_of_a_sum_is_that_of_all_its_events() -> None:
    event = Event("e", 1, 0)
    chosen = CounterPlan((event, replace(event, config=1)), {"stall_cycles": (0, 1)}, {"e": 1})
    shares = chosen.counted([CounterReading(0, 10, 10), CounterReading(0, 10, 5)])
    assert shares == {"stall_cycles": Counted(20, 15), "e": Counted(10, 5)}


def test_the_documentation_has_every_processor_and_event() -> None:
    text = Path(__file__).parents[2].joinpath("docs/counters.md").read_text(encoding="utf-8")
    for entry in table():
        (row,) = [line for line in text.splitlines() if line.startswith(f"| {entry.name} |")]
        for figure in ("stall_cycles", "memory_stall_cycles", "external_stall_cycles"):
            for code in entry.codes.get(figure, ()):
                assert code["name"] in row
                assert f"event={code['event']:#x}" in row
        assert entry.document.rpartition(": ")[2] in row
