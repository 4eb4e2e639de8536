from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from headway.processors.power import ProcessorPower, growth, longest_growth, since


def machine(
    root: Path,
    states: dict[str, tuple[str, str]],
    throttles: dict[str, str] | None = None,
    frequencies: dict[str, str] | None = None,
) -> Path:
    for folder, (name, time) in states.items():
        at = root / "cpu0/cpuidle" / folder
        at.mkdir(parents=True)
        (at / "name").write_text(name)
        (at / "time").write_text(time)
    for name, count in (throttles or {}).items():
        (root / "cpu0/thermal_throttle").mkdir(exist_ok=True, parents=True)
        (root / "cpu0/thermal_throttle" / name).write_text(count)
    for name, khz in (frequencies or {}).items():
        (root / "cpu0/cpufreq").mkdir(exist_ok=True, parents=True)
        (root / "cpu0/cpufreq" / name).write_text(khz)
    return root


def test_idle_states_have_their_names_and_ns(tmp_path: Path) -> None:
    states = {f"state{n}": (f"C{n}\n", f"{n}7\n") for n in (0, 1, 2, 10)}
    power = ProcessorPower([0], machine(tmp_path, states))
    assert power.names == ("C0", "C1", "C2", "C10")
    assert power.idle_states(0) == {"C0": 7_000, "C1": 17_000, "C2": 27_000, "C10": 107_000}
    assert power.idle(0) == sum((7_000, 17_000, 27_000, 107_000))
    assert not power.throttles
    assert power.throttled(0) is None


def test_what_is_read_later_is_what_the_file_says_then(tmp_path: Path) -> None:
    power = ProcessorPower([0], machine(tmp_path, {"state0": ("C1", "5")}, {"core_throttle_count": "3"}))
    assert power.throttled(0) == 3
    (tmp_path / "cpu0/cpuidle/state0/time").write_text("9\n")
    (tmp_path / "cpu0/thermal_throttle/core_throttle_count").write_text("4\n")
    assert power.idle_states(0) == {"C1": 9_000}
    assert power.throttled(0) == 4
    power.close()
    power.close()
    assert power.idle(0) is None


def test_the_time_of_throttling_is_told_for_the_core_and_its_package(tmp_path: Path) -> None:
    times = {"core_throttle_total_time_ms": "12\n", "package_throttle_total_time_ms": "40\n"}
    power = ProcessorPower([0], machine(tmp_path, {}, times))
    assert power.throttled_times
    assert not power.throttles
    before = power.throttled_ns(0)
    assert before == (12_000_000, 40_000_000)
    (tmp_path / "cpu0/thermal_throttle/core_throttle_total_time_ms").write_text("42\n")
    (tmp_path / "cpu0/thermal_throttle/package_throttle_total_time_ms").write_text("50\n")
    assert longest_growth(power.throttled_ns(0), before) == 30_000_000, "the two may have been at the same time"
    power.close()
    assert power.throttled_ns(0) == ()


def test_the_limit_of_the_frequency_is_what_it_is_now(tmp_path: Path) -> None:
    files = {"scaling_max_freq": "3400000\n", "cpuinfo_max_freq": "3400000\n"}
    power = ProcessorPower([0], machine(tmp_path, {}, frequencies=files))
    assert power.limits
    assert (power.limit_hz(0), power.highest_hz(0)) == (3_400_000_000, 3_400_000_000)
    (tmp_path / "cpu0/cpufreq/scaling_max_freq").write_text("2100000\n")
    assert power.limit_hz(0) == 2_100_000_000
    power.close()
    assert power.limit_hz(0) is None


def test_a_limit_without_what_it_limits_is_not_told(tmp_path: Path) -> None:
    power = ProcessorPower([0], machine(tmp_path, {}, frequencies={"scaling_max_freq": "2100000"}))
    assert not power.limits
    assert power.limit_hz(0) is power.highest_hz(0) is None


def test_a_machine_that_tells_nothing_has_nothing(tmp_path: Path) -> None:
    power = ProcessorPower([0, 5], tmp_path)
    assert power.names == ()
    assert power.idle_states(5) == {}
    assert power.idle(5) is None
    assert power.throttled(0) is None
    assert power.throttled_ns(5) == ()
    assert power.limit_hz(5) is None


@given(st.text(st.characters(codec="utf-8"), max_size=30))
def test_whatever_a_file_says_it_is_a_number_or_nothing(tmp_path_factory: object, text: str) -> None:
    root = tmp_path_factory.mktemp("sys")  # type: ignore[attr-defined]
    power = ProcessorPower([0], machine(root, {"state0": ("C1", text)}))
    time = power.idle_states(0)["C1"]
    power.close()
    assert time is None or time % 1000 == 0
    if not text.strip().isascii() or not text.strip().isdigit():
        assert time is None


def test_two_states_of_one_name_are_told_apart(tmp_path: Path) -> None:
    power = ProcessorPower([0], machine(tmp_path, {"state0": ("C1", "5"), "state1": ("C1", "6")}))
    assert power.idle_states(0) == {"state0": 5_000, "state1": 6_000}


def test_what_ran_backwards_is_not_known() -> None:
    assert growth(5, 3) == 2
    assert growth(3, 5) is None
    assert growth(None, 5) is None
    assert longest_growth((5, 9), (6, 7)) == 2, "what ran backwards is left out"
    assert longest_growth((5, None), (6, 7)) is None
    assert longest_growth((), (6, 7)) is None
    assert since({"C1": 5, "C2": 7}, {"C1": 2}) == {"C1": 3, "C2": None}
