"""Every target with a few inputs, the inputs that once failed, and the runner with a reader that has every fault."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest
from tests.effort import FEW
from tests.fuzz.registry import NAMES, target_of
from tests.fuzz.runner import run, run_together
from tests.fuzz.target import DECODED, REFUSED, outcome
from tests.fuzz.targets.faulty import FAULTS

SAVED = sorted((Path(__file__).parent / "regressions").glob("*/*"))


def count_of(name: str) -> int:
    target = target_of(name)
    target.close()
    return target.unit // 40 if FEW else target.unit


@pytest.mark.timeout(600)
@pytest.mark.parametrize("names", [NAMES] if FEW else [(name,) for name in NAMES], ids=lambda names: names[0])
def test_no_input_is_neither_decoded_nor_refused(names: tuple[str, ...]) -> None:
    """Where there are few inputs of each target, most of the time of a child is its start; one reads them all."""
    results = run_together({name: count_of(name) for name in names}, seed=0)
    findings = [(name, found) for name, result in results.items() for found in result.findings]
    assert findings == []
    for name, result in results.items():
        assert result.outcomes[DECODED] + result.outcomes[REFUSED] == result.inputs == count_of(name)


@pytest.mark.exhaustive
@pytest.mark.timeout(3600)
def test_no_statement_of_sql_does_any_harm() -> None:
    assert run("sql", seed=1, first=0, count=100_000).findings == []


@pytest.mark.parametrize("name", NAMES)
def test_an_input_is_the_same_each_time_and_seeds_are_decoded(name: str) -> None:
    one, other = target_of(name), target_of(name)
    try:
        assert [one.input(7, number) for number in range(20)] == [other.input(7, number) for number in range(20)]
        assert {outcome(one, seed, 0) for seed in one.seeds} == {DECODED}
    finally:
        one.close()
        other.close()


@pytest.mark.parametrize("name", ["elf", "recording", "snapshot"])
def test_what_a_target_remembers_of_earlier_inputs_changes_no_outcome(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = range(20)
    warm = target_of(name)
    try:
        data = [warm.input(3, number) for number in numbers]
        for _ in range(2):
            remembered = [outcome(warm, one, number) for one, number in zip(data, numbers, strict=True)]
    finally:
        warm.close()
    fresh = []
    for one, number in zip(data, numbers, strict=True):
        target = target_of(name)
        monkeypatch.setattr(f"tests.fuzz.targets.{name}.replaced", lambda *_: nullcontext())
        try:
            fresh.append(outcome(target, one, number))
        finally:
            target.close()
    assert fresh == remembered
    assert {*fresh} == {DECODED, REFUSED}


@pytest.mark.parametrize("path", SAVED, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_inputs_that_once_failed_are_decoded_or_refused(path: Path) -> None:
    target = target_of(path.parent.name)
    try:
        for number in range(8):  # which chooses what is asked of it
            assert outcome(target, path.read_bytes(), number) in (DECODED, REFUSED)
    finally:
        target.close()


def test_every_fault_is_found_and_the_other_inputs_are_read() -> None:
    result = run("faulty", seed=0, first=0, count=20, hangs=1.0, stuck=2.0)
    found = {one.number: one.what for one in result.findings}
    assert found.keys() == FAULTS.keys() - {13}
    assert "KeyError in faulty.py" in found[3]
    assert "SIG" in found[5]
    assert found[7] == found[15] == "it hangs"
    assert "MemoryError" in found[9] or "MiB of memory" in found[9]
    assert "UnclearError" in found[11]
    assert dict(result.outcomes) == {DECODED: 13, REFUSED: 1, "findings": 6}
    assert result.slowest > 0


def test_what_befalls_the_child_of_several_targets_is_the_finding_of_one_of_them() -> None:
    results = run_together({"toml": 3, "faulty": 6, "procfs": 3}, seed=0)
    assert {name: result.inputs for name, result in results.items()} == {"toml": 3, "faulty": 6, "procfs": 3}
    assert {name: [found.number for found in result.findings] for name, result in results.items()} == {
        "toml": [],
        "faulty": [3, 5],
        "procfs": [],
    }
