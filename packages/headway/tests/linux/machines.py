"""Machines that are only a tree of files: what the kernel says of processors and of their monitoring units."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

Tree = Mapping[str, str]

SKYLAKE_UNIT: Tree = {
    "type": "4\n",
    "format/event": "config:0-7\n",
    "format/umask": "config:8-15\n",
    "format/edge": "config:18\n",
    "format/inv": "config:23\n",
    "format/cmask": "config:24-31\n",
    "format/ldlat": "config1:0-15\n",
    "format/offcore_rsp": "config1:0-63\n",
    "events/cpu-cycles": "event=0x3c\n",
    "events/mem-loads": "event=0xcd,umask=0x1,ldlat=3\n",
    "events/topdown-total-slots": "event=0x3c,umask=0x0,any=1\n",
    "events/topdown-total-slots.scale": "4\n",
}
AMD_UNIT: Tree = {
    "type": "4\n",
    "format/event": "config:0-7,32-35\n",
    "format/umask": "config:8-15\n",
    "format/edge": "config:18\n",
    "format/inv": "config:23\n",
    "format/cmask": "config:24-31\n",
    "events/cpu-cycles": "event=0x76\n",
}
ARM_UNIT: Tree = {"type": "8\n", "format/event": "config:0-15\n", "events/cpu_cycles": "event=0x0011\n"}
IMC_UNIT: Tree = {
    "type": "14\n",
    "cpumask": "0,18\n",
    "format/event": "config:0-7\n",
    "events/data_reads": "event=0x1\n",
}


def cpuinfo(vendor: str, family: int, model: int, *, cpus: int = 2, flags: str = "fpu tsc") -> str:
    """/proc/cpuinfo of an x86 processor."""
    one = "processor\t: {}\nvendor_id\t: {}\ncpu family\t: {}\nmodel\t\t: {}\nmodel name\t: P\nflags\t\t: {}\n\n"
    return "".join(one.format(n, vendor, family, model, flags) for n in range(cpus))


def machine(root: Path, units: Mapping[str, Tree], *, info: str = "", files: Tree | None = None) -> Path:
    """Build one below ``root``: its units, /proc/cpuinfo, and what else is given by path."""
    texts = {
        f"sys/bus/event_source/devices/{unit}/{name}": text
        for unit, tree in units.items()
        for name, text in tree.items()
    }
    for name, text in {**texts, "proc/cpuinfo": info, **(files or {})}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def skylake(root: Path, **more: Tree) -> Path:
    """A processor with one type of core, and a memory controller's unit."""
    return machine(root, {"cpu": SKYLAKE_UNIT, "uncore_imc_0": IMC_UNIT, **more}, info=cpuinfo("GenuineIntel", 6, 0x5E))


def alder_lake(root: Path) -> Path:
    """A processor with two types of core."""
    core = {**SKYLAKE_UNIT, "cpus": "0-3\n"}
    atom = {**SKYLAKE_UNIT, "type": "10\n", "cpus": "4-7\n"}
    return machine(root, {"cpu_core": core, "cpu_atom": atom}, info=cpuinfo("GenuineIntel", 6, 0x97, cpus=8))


def arm(root: Path, midr: str = "0x00000000413fd0c1") -> Path:
    """A processor whose identity is in a register."""
    unit = {**ARM_UNIT, "cpus": "0-1\n"}
    files = {f"sys/devices/system/cpu/cpu{n}/regs/identification/midr_el1": midr + "\n" for n in range(2)}
    return machine(root, {"armv8_pmuv3_0": unit}, info="processor\t: 0\nprocessor\t: 1\n", files=files)
