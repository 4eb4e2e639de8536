from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner

from headway.commands import doctor
from headway.commands.doctor import command, render, verdicts
from headway.linux.bpf.programs.loading import SHAPES
from headway.linux.doctor.capabilities import FULL_SHAPE, Capability, System

pytestmark = pytest.mark.kernel

GOOD = [
    Capability("privileges", True, "CAP_BPF and CAP_PERFMON are effective"),
    Capability("hardware counters", True, "…"),
]
POOR = [
    Capability("privileges", False, "no CAP_BPF", "sudo headway"),
    Capability("libbpf", False, "libbpf.so.1 is not installed", "sudo apt install libbpf1"),
    Capability("hardware counters", False, "virtual machine", None),
]


@pytest.fixture(scope="module")
def document() -> Any:
    """What the command finds on this machine, whoever runs it."""
    result = CliRunner().invoke(command, ["--json"], catch_exceptions=False)
    assert result.exit_code == 0
    return json.loads(result.stdout)


def test_json_has_every_capability(document: Any) -> None:
    assert document["schema"] == "headway.doctor/1"
    assert document["verdicts"][0]["command"] == "headway stat"
    names = [capability["name"] for capability in document["capabilities"]]
    assert len(names) == len(set(names)) > 20
    assert all(set(c) == {"name", "available", "why", "remedy"} for c in document["capabilities"])


def test_the_table_has_every_capability_in_80_columns(document: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    found = [Capability(**capability) for capability in document["capabilities"]]
    monkeypatch.setattr(doctor, "capabilities", lambda system: found)
    result = CliRunner().invoke(command, [], catch_exceptions=False)
    assert result.exit_code == 0
    assert result.stdout.startswith("headway stat")
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert "could not be probed" not in result.stdout
    assert all(f" {capability.name} " in result.stdout for capability in found)


@pytest.mark.exhaustive
@pytest.mark.root
def test_the_kernel_loads_the_programs_in_every_shape() -> None:
    result = CliRunner().invoke(command, ["--all", "--json"], catch_exceptions=False)
    found = {capability["name"]: capability for capability in json.loads(result.stdout)["capabilities"]}
    assert found["eBPF programs"]["why"] == f"the kernel loads them in all {len(SHAPES)} shapes that commands need"


@pytest.mark.parametrize(("options", "shapes"), [([], (FULL_SHAPE,)), (["--all"], tuple(SHAPES))])
def test_only_all_loads_every_shape(
    monkeypatch: pytest.MonkeyPatch, options: list[str], shapes: tuple[str, ...]
) -> None:
    asked: list[System] = []

    def capabilities(system: System) -> list[Capability]:
        asked.append(system)
        return GOOD

    monkeypatch.setattr(doctor, "capabilities", capabilities)
    assert CliRunner().invoke(command, options, catch_exceptions=False).exit_code == 0
    assert [system.shapes for system in asked] == [shapes]


def test_all_is_not_for_verifying() -> None:
    result = CliRunner().invoke(command, ["--all", "--verify"])
    assert result.exit_code == 2
    assert "leave out one of them" in result.output


def test_the_first_line_says_what_stat_can_do() -> None:
    assert next(iter(render(GOOD))).plain.split() == ["headway", "stat", "exact,", "by", "eBPF"]
    first = next(iter(render(POOR))).plain
    assert "sampled, by /proc" in first
    assert "libbpf.so.1 is not installed" in verdicts(POOR)[0][1]


def test_a_remedy_stands_below_what_it_remedies_and_nowhere_else() -> None:
    lines = [line.plain.strip() for line in render(POOR)]
    where = next(i for i, line in enumerate(lines) if line.startswith("✗ libbpf"))
    assert lines[where + 1] == "→ sudo apt install libbpf1"
    needless = [Capability("kernel", True, "Linux", "another kernel")]
    assert not any("→" in line.plain for line in render(needless))


def test_long_words_and_reasons_stay_within_80_columns() -> None:
    long = [Capability("hardware counters", False, "because " * 40, "sudo sysctl " * 20)]
    assert max(len(line.plain) for line in render(long)) <= 80
