"""The facilities of this machine that advice can use: processors, NUMA nodes, resctrl, device interrupts."""

from __future__ import annotations

import re
from pathlib import Path

from headway.advice import DeviceInterrupt, Facilities
from headway.errors import HeadwayError
from headway.linux.procfs.mounts import mounts
from headway.linux.procfs.processors import online, parse_list

__all__ = ["facilities"]

_ROW = re.compile(r"\s*(\d{1,6}):((?:\s+\d+)+)\s+(\S.*)", re.ASCII)


def facilities(proc: Path = Path("/proc"), sys: Path = Path("/sys")) -> Facilities:
    """Return the facilities. What cannot be read is treated as absent."""
    try:
        # It is registered only if the processor can divide or monitor its caches
        # (arch/x86/kernel/cpu/resctrl/rdtgroup.c).
        resctrl = "\tresctrl\n" in (proc / "filesystems").read_text()
    except OSError:
        resctrl = False
    try:
        nodes = len(parse_list((sys / "devices/system/node/online").read_text()))
    except (OSError, HeadwayError):
        nodes = 1
    try:
        mounted = any(mount.kind == "resctrl" for mount in mounts(proc))
    except OSError:
        mounted = False
    return Facilities(online(sys / "devices/system/cpu"), nodes, resctrl, _interrupts(proc, sys / "class/net"), mounted)


def _interrupts(proc: Path, network: Path) -> tuple[DeviceInterrupt, ...]:
    """Return the numbered rows of /proc/interrupts: counts by processor, then chip, type and device."""
    try:
        with open(proc / "interrupts", encoding="utf-8", errors="backslashreplace") as table:
            heading, *rows = table.read().splitlines()
    except (OSError, ValueError):
        return ()
    cpus = [int(number) for number in re.findall(r"\bCPU(\d+)", heading)]
    found = []
    numbers, names = _of_network(network)
    for row in rows:
        match = _ROW.fullmatch(row)
        if match is None:
            continue
        number, counts = int(match[1]), [int(count) for count in match[2].split()]
        try:
            affinity = (proc / "irq" / str(number) / "smp_affinity_list").read_text().strip()
            parse_list(affinity)
        except (OSError, HeadwayError):
            continue  # an interrupt whose affinity cannot be changed
        device = match[3].split()[-1]
        of_network = number in numbers or device.startswith(names)
        found.append(DeviceInterrupt(number, device, affinity, dict(zip(cpus, counts, strict=False)), of_network))
    return tuple(found)


def _of_network(folder: Path) -> tuple[frozenset[int], tuple[str, ...]]:
    """Return the numbers of network devices' interrupts, and how the names of the others begin.

    A device or its parent lists its numbers in ``msi_irqs`` (Documentation/ABI/testing/sysfs-bus-pci). Interrupts
    without a message have the name of the interface or of its device.
    """
    numbers: set[int] = set()
    names: list[str] = []
    try:
        interfaces = sorted(folder.iterdir())
    except OSError:
        return frozenset(), ()
    for interface in interfaces:
        try:
            device = (interface / "device").resolve(strict=True)
        except (OSError, RuntimeError):
            continue  # loopback, bridges, tunnels
        names += [interface.name, f"{device.name}-"]
        for place in (device, device.parent):
            try:
                numbers.update(int(file.name) for file in (place / "msi_irqs").iterdir() if file.name.isdecimal())
            except OSError:
                continue
    return frozenset(numbers), tuple(names)
