"""What the machine has, as its files say it; whatever they say."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from headway.advice import DeviceInterrupt, Facilities
from headway.linux.placement.facilities import facilities

TABLE = """\
           CPU0       CPU2
 24:          1          0  IO-APIC   5-edge      ACPI:Ged
 36:          7     962967 PCI-MSIX-0000:00:02.0   1-edge      virtio1-req.0
 37:          7          1 PCI-MSIX-0000:00:02.0   1-edge      nobody
NMI:          0          0   Non-maskable interrupts
ERR:          0
"""


def machine(folder: Path, table: str | bytes = TABLE) -> tuple[Path, Path]:
    proc, sys = folder / "proc", folder / "sys"
    for number in ("24", "36"):
        (proc / "irq" / number).mkdir(parents=True, exist_ok=True)
        (proc / "irq" / number / "smp_affinity_list").write_text("0,2\n")
    (proc / "interrupts").write_bytes(table.encode() if isinstance(table, str) else table)
    (proc / "filesystems").write_text("nodev\tsysfs\nnodev\tresctrl\n")
    for name, text in (("cpu", "0,2\n"), ("node", "0-1\n")):
        (sys / f"devices/system/{name}").mkdir(parents=True, exist_ok=True)
        (sys / f"devices/system/{name}/online").write_text(text)
    return proc, sys


def test_facilities_are_read_from_the_files(tmp_path: Path) -> None:
    assert facilities(*machine(tmp_path)) == Facilities(
        (0, 2),
        2,
        True,
        (
            DeviceInterrupt(24, "ACPI:Ged", "0,2", {0: 1, 2: 0}),
            DeviceInterrupt(36, "virtio1-req.0", "0,2", {0: 7, 2: 962967}),
        ),
    )


def test_an_interrupt_of_a_network_device_is_known_by_its_number_or_its_name(tmp_path: Path) -> None:
    table = TABLE + " 38:  9  4  PCI-MSIX-0000:00:03.0  1-edge  virtio2-input.0\n 39:  1  2  GICv3  7 Level  eth1\n"
    proc, sys = machine(tmp_path, table.replace(" 38:", " 24:").replace("ACPI:Ged", "ice-1:TxRx"))
    for number in ("38", "39"):
        (proc / "irq" / number).mkdir()
        (proc / "irq" / number / "smp_affinity_list").write_text("0,2\n")
    (sys / "devices/pci/virtio2/net").mkdir(parents=True)
    (sys / "devices/pci/msi_irqs").mkdir()
    (sys / "devices/pci/msi_irqs/24").touch()
    (sys / "devices/soc/mac").mkdir(parents=True)
    for name, device in (("eth0", "pci/virtio2"), ("eth1", "soc/mac"), ("lo", None)):
        (sys / "class/net" / name).mkdir(parents=True)
        if device is not None:
            (sys / "class/net" / name / "device").symlink_to(sys / "devices" / device)
    found = {interrupt.device: interrupt.network for interrupt in facilities(proc, sys).interrupts}
    assert found == {"ice-1:TxRx": True, "virtio1-req.0": False, "virtio2-input.0": True, "eth1": True}


def test_what_cannot_be_read_is_not_there(tmp_path: Path) -> None:
    found = facilities(tmp_path, tmp_path)
    assert (found.nodes, found.resctrl, found.interrupts) == (1, False, ())


def test_facilities_of_this_machine_have_processors() -> None:
    assert facilities().processors


@given(st.binary(max_size=200))
def test_no_table_brings_it_down(tmp_path_factory: object, raw: bytes) -> None:
    folder = tmp_path_factory.mktemp("m")  # type: ignore[attr-defined]
    facilities(*machine(folder, raw))


def test_resctrl_is_mounted_or_not(tmp_path: Path) -> None:
    proc, sys = machine(tmp_path)
    assert not facilities(proc, sys).resctrl_mounted
    (proc / "self").mkdir()
    (proc / "self/mountinfo").write_text("40 20 0:40 / /sys/fs/resctrl rw,relatime - resctrl resctrl rw\n")
    assert facilities(proc, sys).resctrl_mounted
