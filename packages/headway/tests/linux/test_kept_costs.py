"""Kept costs: what was written is read again, and nothing else is believed."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headway.linux.bpf.costs import kept_costs
from headway.linux.bpf.costs.calibration import Comparison, Costs
from headway.linux.bpf.costs.exercising import Exercise
from headway.linux.bpf.costs.kept_costs import KeptCosts, KeptFile, name_of
from headway.linux.options import MeasureOptions
from headway.linux.sources.ebpf import calibrating

NS = st.floats(0, 1e6)
KINDS = ("enter", "leave", "switch", "wake", "fault", "interrupt", "sample")
KEPT = st.builds(
    KeptCosts,
    st.builds(
        Costs,
        st.fixed_dictionaries(dict.fromkeys(("switch", "wake"), NS), optional=dict.fromkeys(KINDS[:2], NS)),
        marks=st.tuples(NS, NS),
    ),
    st.floats(1, 1e6),
    st.integers(0, 10**12),
)
GOOD = KeptCosts(
    Costs({"switch": 100.0, "wake": 80.0, "enter": 60.0}, marks=(1.0, 2.0), passing=(20.0, 50.0)), 300.0, 10**7
)
PATIENT = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where costs may be kept, and are not yet."""
    return tmp_path / "headway"


def file(folder: Path, name: str = "costs-1") -> KeptFile:
    return KeptFile(name, folder, os.geteuid())


@given(KEPT)
@PATIENT
def test_what_was_kept_is_read_again(folder: Path, kept: KeptCosts) -> None:
    file(folder).write(kept)
    assert file(folder).read() == kept
    assert file(folder, "costs-2").read() is None
    assert os.listdir(folder) == ["costs-1"], "nothing else is left"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / "costs-1").stat().st_mode & 0o777 == 0o600


def test_what_was_removed_is_not_kept(folder: Path) -> None:
    file(folder).remove()
    file(folder).write(GOOD)
    file(folder).remove()
    assert file(folder).read() is None


@pytest.mark.parametrize("mode", [0o701, 0o710, 0o720, 0o770, 0o1777])
def test_a_folder_that_others_may_enter_is_not_believed(folder: Path, mode: int) -> None:
    file(folder).write(GOOD)
    folder.chmod(mode)
    assert file(folder).read() is None
    file(folder).write(GOOD)
    assert os.listdir(folder) == ["costs-1"]


@pytest.mark.parametrize("mode", [0o604, 0o640, 0o620, 0o602, 0o610])
def test_a_file_that_others_may_use_is_not_believed(folder: Path, mode: int) -> None:
    file(folder).write(GOOD)
    (folder / "costs-1").chmod(mode)
    assert file(folder).read() is None


def test_only_the_owner_is_believed(folder: Path) -> None:
    file(folder).write(GOOD)
    other = KeptFile("costs-1", folder, os.geteuid() + 1)
    assert other.read() is None
    other.write(GOOD)
    other.remove()
    assert file(folder).read() == GOOD


@pytest.mark.root
def test_a_file_of_another_owner_is_not_believed(folder: Path) -> None:
    file(folder).write(GOOD)
    os.chown(folder / "costs-1", 65534, 65534)
    assert file(folder).read() is None
    file(folder).write(GOOD)
    assert file(folder).read() == GOOD, "it is replaced"
    os.chown(folder, 65534, 65534)
    assert file(folder).read() is None


def test_links_and_what_is_no_file_are_not_believed(folder: Path, tmp_path: Path) -> None:
    file(folder).write(GOOD)
    elsewhere = tmp_path / "elsewhere"
    (folder / "costs-1").rename(elsewhere)
    (folder / "costs-1").symlink_to(elsewhere)
    assert file(folder).read() is None
    (folder / "costs-1").unlink()
    os.mkfifo(folder / "costs-1", 0o600)
    assert file(folder).read() is None
    (folder / "costs-1").unlink()
    (folder / "costs-1").mkdir(mode=0o700)
    assert file(folder).read() is None
    linked = tmp_path / "linked"
    linked.symlink_to(folder)
    assert file(linked).read() is None


@given(st.binary(max_size=200) | st.recursive(st.none() | st.floats() | st.text(), st.lists).map(repr).map(str.encode))
@PATIENT
def test_garbage_is_not_believed(folder: Path, content: bytes) -> None:
    file(folder).write(GOOD)
    (folder / "costs-1").write_bytes(content)
    assert file(folder).read() is None


@pytest.mark.parametrize(
    "change",
    [
        {"costs": {"switch": -1.0, "wake": 1.0}},
        {"costs": {"switch": 1e7, "wake": 1.0}},
        {"costs": {"switch": float("nan"), "wake": 1.0}},
        {"costs": {"switch": True, "wake": 1.0}},
        {"costs": {"switch": "1", "wake": 1.0}},
        {"costs": {"switch": 1.0, "wake": 1.0, "magic": 1.0}},
        {"costs": {}},
        {"costs": [1, 2]},
        {"marks": [1.0]},
        {"marks": [1.0, None]},
        {"runs": {"enter": 0}},
        {"runs": {"magic": 1.0}},
        {"passing": [1.0]},
        {"passing": [-1.0, 1.0]},
        {"call": 10**400},
        {"marks": [10**400, 1.0]},
        {"call": 0},
        {"call": float("inf")},
        {"change_ns": -1},
        {"spare": "x" * 20_000},
    ],
)
def test_figures_that_cannot_be_are_not_believed(folder: Path, change: dict[str, object]) -> None:
    file(folder).write(GOOD)
    path = folder / "costs-1"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    assert file(folder).read() is None


@pytest.mark.parametrize("missing", ["costs", "marks", "call", "change_ns"])
def test_what_is_not_whole_is_not_believed(folder: Path, missing: str) -> None:
    file(folder).write(GOOD)
    path = folder / "costs-1"
    content = json.loads(path.read_text())
    del content[missing]
    path.write_text(json.dumps(content))
    assert file(folder).read() is None


def test_costs_that_cannot_be_kept_are_no_error(folder: Path, tmp_path: Path) -> None:
    folder.write_text("no folder")
    file(folder).write(GOOD)
    assert file(folder).read() is None
    assert file(tmp_path / "not" / "there").read() is None
    file(tmp_path / "not" / "there").write(GOOD)


def test_another_boot_object_shape_or_processor_has_another_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    name = name_of("checksum", "shape")
    assert name == name_of("checksum", "shape")
    assert "/" not in name
    assert name != name_of("another", "shape")
    assert name != name_of("checksum", "another")
    boot, processors = tmp_path / "boot", tmp_path / "processors"
    boot.write_text("another\n")
    with monkeypatch.context() as patch:
        patch.setattr(kept_costs, "BOOT", boot)
        assert name != name_of("checksum", "shape")
    processors.write_text("model name : another\n\n")
    with monkeypatch.context() as patch:
        patch.setattr(kept_costs, "PROCESSORS", processors)
        assert name != name_of("checksum", "shape")


def test_the_frequency_of_the_moment_is_not_in_the_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    processors = tmp_path / "processors"
    monkeypatch.setattr(kept_costs, "PROCESSORS", processors)
    names = set()
    for mhz in ("1000.0", "2000.0"):
        processors.write_text(f"model name : one\ncpu MHz : {mhz}\n\nmodel name : two {mhz}\n")
        names.add(name_of("checksum"))
    assert len(names) == 1


@given(st.floats(1, 1e6), st.floats(0, 1e6), st.floats(0.1, 10))
def test_costs_hold_until_a_call_takes_a_quarter_more_or_less_than_the_machines_speed_lets_expect(
    before: float, now: float, slower: float
) -> None:
    kept = KeptCosts(replace(GOOD.costs, runs={"enter": 70.0}), before, 0)
    runs = {"enter": 70.0 * slower}
    far = not 0.5 <= slower <= 2
    assert (kept.now(before * slower, runs) is None) == far
    if kept.now(now, runs) is None:
        assert far or abs(now / (before * slower) - 1) > 0.249
    else:
        assert abs(now / (before * slower) - 1) < 0.251


def test_kept_costs_are_those_of_the_machines_present_speed() -> None:
    kept = KeptCosts(replace(GOOD.costs, runs={"enter": 70.0, "switch": 300.0}), 500.0, 0)
    now = kept.now(600.0, {"enter": 84.0})
    assert now is not None
    assert now.of == pytest.approx({kind: 1.2 * cost for kind, cost in GOOD.costs.of.items()})
    assert now.runs == pytest.approx({"enter": 84.0, "switch": 360.0})


# ---- whether they are taken ----


class Exercising:
    """An exercising process that takes this long for a call."""

    pid = 1

    def __init__(self, call: float, *, undisturbed: bool = True) -> None:
        self.call, self.undisturbed = call, undisturbed

    def wait(self) -> None:
        """It is ready."""

    def calls(self) -> float:
        return self.call

    def exercise(self) -> Exercise:
        return Exercise(self.call, 1.0, 1.0, 1.0, 1.0, 1.0)

    def marks(self) -> tuple[float, float]:
        return (5.0, 6.0)

    def come_back(self) -> int:
        return 1


@pytest.fixture
def calibrated(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Costs, bool, int]]:
    """Calibrate with what is kept in the folder: the costs, whether they were looked for, and `change_ns`."""

    def run(call: float, *, undisturbed: bool = True, compared: bool = True) -> tuple[Costs, bool, int]:
        looked = []

        def compare(*_: object, **__: object) -> Comparison:
            looked.append(1)
            return Comparison(Costs({"switch": 7.0, "wake": 7.0}), call, compared)

        monkeypatch.setattr(calibrating, "compare", compare)
        monkeypatch.setattr(calibrating, "_kept", lambda programs: file(folder))
        attachments: Any = SimpleNamespace(change_ns=3)
        exerciser: Any = Exercising(call, undisturbed=undisturbed)
        programs: Any = MagicMock()
        programs.memory.times_of.return_value = {}
        programs.memory.timed_runs.return_value = [(0, 0), (0, 0)]
        costs = calibrating.calibrate(programs, attachments, None, exerciser, MeasureOptions())
        return costs, bool(looked), attachments.change_ns

    return run


def test_kept_costs_are_taken_while_they_hold(folder: Path, calibrated: Callable[..., tuple[Costs, bool, int]]) -> None:
    file(folder).write(GOOD)
    assert calibrated(GOOD.call * 1.1) == (GOOD.costs, False, GOOD.change_ns)
    assert file(folder).read() == GOOD


def test_costs_that_drifted_are_found_again_and_then_by_the_next_start_with_all(
    folder: Path, calibrated: Callable[..., tuple[Costs, bool, int]]
) -> None:
    file(folder).write(GOOD)
    costs, looked, _ = calibrated(GOOD.call * 2)
    assert (costs.of["switch"], looked) == (7.0, True)
    assert file(folder).read() is None
    costs, looked, _ = calibrated(GOOD.call * 2)
    assert (costs.marks, looked) == ((5.0, 6.0), True)
    assert file(folder).read() == KeptCosts(costs, GOOD.call * 2, 3)


@pytest.mark.parametrize("how", [{"undisturbed": False}, {"compared": False}])
def test_costs_that_were_found_disturbed_are_used_and_not_kept(
    folder: Path, calibrated: Callable[..., tuple[Costs, bool, int]], how: dict[str, bool]
) -> None:
    assert calibrated(300.0, **how)[0].of["wake"] == 7.0
    assert file(folder).read() is None
