"""Whether the machine has a trace unit, and why not."""

from __future__ import annotations

from pathlib import Path

import pytest

from headway.linux.perf.trace_units import trace_unit, why_no_unit

pytestmark = pytest.mark.unit

DEVICES = "sys/bus/event_source/devices"


def machine(root: Path, units: tuple[str, ...] = (), cpuinfo: str = "") -> Path:
    (root / DEVICES).mkdir(parents=True)
    for unit in units:
        (root / DEVICES / unit).mkdir()
        (root / DEVICES / unit / "type").write_text("8\n")
    (root / "proc").mkdir()
    (root / "proc/cpuinfo").write_text(cpuinfo)
    return root


@pytest.mark.parametrize("unit", ["intel_pt", "cs_etm"])
def test_a_unit_is_found_by_its_event_source(tmp_path: Path, unit: str) -> None:
    assert trace_unit(machine(tmp_path, ("cpu", unit))) == unit


@pytest.mark.parametrize(
    ("architecture", "cpuinfo", "words"),
    [
        ("x86_64", "vendor_id : AuthenticAMD\nflags : fpu hypervisor\n", "only processors of Intel and ARM"),
        ("x86_64", "vendor_id : GenuineIntel\nflags : fpu hypervisor\n", "this virtual machine has no Intel PT"),
        ("x86_64", "vendor_id : GenuineIntel\nflags : fpu\n", "this processor has no Intel PT"),
        ("x86_64", "vendor_id : GenuineIntel\nflags : fpu intel_pt\n", "the kernel offers no intel_pt"),
        ("aarch64", "", "no cs_etm"),
        ("riscv64", "", "no trace unit of riscv64"),
    ],
)
def test_what_is_missing_is_said(tmp_path: Path, architecture: str, cpuinfo: str, words: str) -> None:
    root = machine(tmp_path, ("cpu",), cpuinfo)
    assert trace_unit(root) is None
    assert words in why_no_unit(architecture, root)[0]


def test_without_sysfs_nothing_is_known(tmp_path: Path) -> None:
    assert trace_unit(tmp_path) is None
    assert "cannot be read" in why_no_unit("x86_64", tmp_path)[0]
