from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.model import Quality
from headway.processors.busy import KernelBusy, Ticks, divide, parse_stat
from headway.processors.power import ProcessorPower

TICK = 10_000_000
counts = st.integers(0, 2**63)
ticks = st.builds(Ticks, counts, counts, counts, counts, counts, counts)
spans = st.integers(0, 10**13)


@given(ticks, ticks, spans, st.none() | st.integers(-(10**13), 10**14))
def test_a_span_is_divided_without_a_rest_whatever_the_kernel_says(
    before: Ticks, after: Ticks, span: int, idle: int | None
) -> None:
    states = divide(before, after, span, TICK, idle)
    assert sum(cell.time for cell in states.values()) == span
    assert all(cell.time > 0 for cell in states.values())


@given(ticks, spans, spans)
def test_measured_idle_time_is_believed_before_ticks(before: Ticks, span: int, idle: int) -> None:
    after = Ticks(before.user + 3, before.system + 1, before.idle + 7, before.irq, before.softirq, before.stolen)
    states = divide(before, after, span, TICK, idle)
    assert (states["idle"].time if "idle" in states else 0) == min(idle, span)
    busy = span - min(idle, span)
    assert (states["kernel"].time if "kernel" in states else 0) == busy // 4


def test_busy_time_that_no_tick_saw_is_not_called_anything() -> None:
    nothing = Ticks(1, 1, 1, 1, 1, 1)
    states = divide(nothing, nothing, 1000, TICK, 400)
    assert {state: cell.time for state, cell in states.items()} == {"idle": 400, "unknown.unmeasured": 600}


def test_the_lines_of_processors_are_read_as_the_manual_has_them() -> None:
    text = "cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 1 2 3 4 5 6 7 8 9 10\ncpu12 1 2 3 4\nintr 5\n"
    assert parse_stat(text) == {0: Ticks(3, 3, 9, 6, 7, 8), 12: Ticks(3, 3, 4, 0, 0, 0)}


@given(st.text() | st.lists(st.sampled_from(["cpu0", "cpu", " ", "1", "-1", "x", "\n", "²", "9" * 30])).map("".join))
def test_no_text_is_too_odd_to_be_read(text: str) -> None:
    for cpu, found in parse_stat(text).items():
        assert cpu >= 0
        assert found.user >= 0


def test_a_processor_that_is_not_there_is_in_no_reading(tmp_path: Path) -> None:
    stat = tmp_path / "stat"
    stat.write_text("cpu0 1 2 3 4 5 6 7 8\n")
    busy = KernelBusy([0, 1], ProcessorPower([0, 1], tmp_path), stat)
    assert set(busy.read(0)) == {0}
    stat.unlink()
    assert busy.read(0) == {}


@pytest.mark.parametrize("measured", [True, False])
def test_each_account_of_busy_time_says_the_quality_of_its_figures(tmp_path: Path, measured: bool) -> None:
    if measured:
        state = tmp_path / "cpu0/cpuidle/state0"
        state.mkdir(parents=True)
        (state / "name").write_text("C1")
        (state / "time").write_text("77")
    stat = tmp_path / "stat"
    stat.write_text("cpu0 1 0 0 4 0 0 0 0\n")
    power = ProcessorPower([0], tmp_path)
    busy = KernelBusy([0], power, stat)
    assert busy.name == ("cpuidle" if measured else "proc")
    assert busy.quality["utilisation"] is (Quality.SAMPLED)
    assert busy.quality["states"] is Quality.SAMPLED
    assert set(busy.reasons) == {"utilisation", "states"}
    before = busy.read(0)[0]
    if measured:
        (tmp_path / "cpu0/cpuidle/state0/time").write_text("277")
    stat.write_text("cpu0 3 0 0 8 0 0 0 0\n")
    states = busy.between(before, busy.read(0)[0], 600_000)
    times = {state: cell.time for state, cell in states.items()}
    assert times == ({"idle": 200_000, "user": 400_000} if measured else {"idle": 400_000, "user": 200_000})
