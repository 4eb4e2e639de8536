"""The units of the processors that trace instructions, as perf offers them, and why there is none."""

from __future__ import annotations

import re
from pathlib import Path

__all__ = ["TRACE_UNITS", "trace_unit", "why_no_unit"]

TRACE_UNITS = ("intel_pt", "cs_etm")
"""The units whose traces headway reads, by the names of their event sources."""
_DEVICES = "sys/bus/event_source/devices"


def trace_unit(root: Path = Path("/")) -> str | None:
    """Return the name of the machine's trace unit, or None."""
    return next((name for name in TRACE_UNITS if (root / _DEVICES / name / "type").exists()), None)


def why_no_unit(machine: str, root: Path = Path("/")) -> tuple[str, str | None]:
    """Return why there is no trace unit, in one clause, and what would change it, or None.

    ``machine`` is the architecture, as ``uname -m`` prints it.
    """
    if not (root / _DEVICES).is_dir():
        return f"/{_DEVICES} cannot be read", None
    if machine == "aarch64":
        return (
            "there is no cs_etm: the kernel or its firmware does not describe CoreSight",
            "a kernel built with CONFIG_CORESIGHT_SOURCE_ETM4X=y, and a device tree with CoreSight",
        )
    if machine not in ("x86_64", "i686"):
        return f"no trace unit of {machine} is known", None
    try:
        words = (root / "proc/cpuinfo").read_text(errors="replace")
    except OSError:
        words = ""
    flags = re.search(r"^flags\s*:(.*)$", words, re.MULTILINE)
    found = flags[1].split() if flags else []
    if "intel_pt" in found:
        return (
            "the processor has Intel PT, and the kernel offers no intel_pt",
            "a kernel built with CONFIG_PERF_EVENTS=y",
        )
    if "hypervisor" in found and "GenuineIntel" in words:
        return "this virtual machine has no Intel PT", "boot the host with kvm_intel.pt_mode=1"
    if "GenuineIntel" in words:
        return "this processor has no Intel PT", None
    return "only processors of Intel and ARM have a trace unit that headway reads", None
