from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from headway.commands.doctor import command, render, verdicts
from headway.linux.doctor.capabilities import Capability

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


def test_doctor_ends_well_on_this_machine_whoever_runs_it() -> None:
    result = CliRunner().invoke(command, [], catch_exceptions=False)
    assert result.exit_code == 0
    assert result.output.startswith("headway stat")
    assert max(map(len, result.output.splitlines())) <= 80
    assert "could not be probed" not in result.output


def test_json_has_every_capability() -> None:
    result = CliRunner().invoke(command, ["--json"], catch_exceptions=False)
    document = json.loads(result.output)
    assert document["schema"] == "headway.doctor/1"
    assert document["verdicts"][0]["command"] == "headway stat"
    names = [capability["name"] for capability in document["capabilities"]]
    assert len(names) == len(set(names)) > 20
    assert all(set(c) == {"name", "available", "why", "remedy"} for c in document["capabilities"])


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
