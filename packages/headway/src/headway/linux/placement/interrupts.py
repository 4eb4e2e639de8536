"""Interrupts of devices, sent to other processors than those of a process (the kernel's irq-affinity documentation).

Which ones: those that in fact arrived on its processors while it was measured. Some cannot be moved: the kernel itself
manages where the queues of NVMe and virtio-blk devices interrupt. It says so when the file is written, not before.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Sequence, Set
from dataclasses import replace

from headway.advice import DeviceInterrupt, Facilities
from headway.dataclass import dataclass
from headway.errors import HeadwayError
from headway.linux.procfs.processors import as_list, parse_list

from .changes import Change
from .controls import Controls

__all__ = ["Redirect", "RedirectNew", "arrived", "as_mask", "parse_mask", "redirections"]

_MANAGED = {errno.EIO, errno.EPERM}
"""The kernel's answers for an interrupt that it manages: Linux 6.1 gives the first, 6.12 the second."""
_SOFT = {*_MANAGED, errno.EINVAL, errno.ENOSPC, errno.EBUSY, errno.ENOENT}
"""The answers by which the kernel refuses to move one interrupt: it manages it, no vector is free, it has gone."""
_MASK = re.compile(r"[0-9a-fA-F]{1,8}(?:,[0-9a-fA-F]{8}){0,2047}", re.ASCII)


def arrived(before: Facilities, after: Facilities) -> Facilities:
    """Return the facilities after a measurement, with the interrupts counted since those before it."""
    counted = {i.number: i.counts for i in before.interrupts}
    found = [
        replace(i, counts={cpu: max(n - counted.get(i.number, {}).get(cpu, 0), 0) for cpu, n in i.counts.items()})
        for i in after.interrupts
    ]
    return replace(after, interrupts=tuple(found), counted=True)


def redirections(
    interrupts: Sequence[DeviceInterrupt], cpus: Set[int], others: Set[int], controls: Controls
) -> list[Change]:
    """Return the changes that keep device interrupts off ``cpus``: each goes where it may go besides, or to ``others``.

    ``interrupts``: with their counts during the measurement. The last change is for the interrupts of devices that are
    added later. Raises HeadwayError for a file that is not as documented.
    """
    changes: list[Change] = []
    for interrupt in interrupts:
        if not any(interrupt.counts.get(cpu) for cpu in cpus):
            continue
        before = controls.read(_file(controls, interrupt.number))
        if not before:
            continue  # the device has gone
        allowed = frozenset(parse_list(before))
        after = allowed - cpus if allowed & others - cpus else frozenset(others) - cpus
        if after and after != allowed:
            changes.append(Redirect(interrupt.number, interrupt.device[:64], before, tuple(sorted(after))))
    mask = controls.read(_new(controls))
    if mask:
        allowed = parse_mask(mask)
        after = allowed - cpus
        if after & others and after != allowed:
            changes.append(RedirectNew(mask, tuple(sorted(after))))
    return changes


def parse_mask(text: str) -> frozenset[int]:
    """Return the processors of a mask in the kernel's notation (``ff`` or ``1,00000000``). Raises ValueError."""
    if not _MASK.fullmatch(text):
        raise ValueError(f"{text!r:.80} is not a mask of processors")
    bits = int(text.replace(",", ""), 16)
    return frozenset(cpu for cpu in range(bits.bit_length()) if bits >> cpu & 1)


def as_mask(cpus: Set[int]) -> str:
    """Return processors as a mask, which `parse_mask` reads."""
    text = f"{sum(1 << cpu for cpu in cpus):x}"
    text = text.zfill(-(-len(text) // 8) * 8) if len(text) > 8 else text
    return ",".join(text[at : at + 8] for at in range(0, len(text), 8))


def _file(controls: Controls, number: int) -> str:
    return f"{controls.interrupts}/{number}/smp_affinity_list"


def _new(controls: Controls) -> str:
    return f"{controls.interrupts}/default_smp_affinity"


@dataclass(frozen=True, slots=True)
class Redirect:
    """Send the interrupt of a device to other processors."""

    number: int
    name: str
    """Of the device."""
    before: str
    """What the file held."""
    after: tuple[int, ...]

    def words(self) -> str:
        """Return what is written where."""
        return f"write {as_list(self.after)} to /proc/irq/{self.number}/smp_affinity_list ({self.name})"

    def back(self) -> str:
        """Return how it is taken back."""
        return f"write {self.before} to it, unless somebody else has sent it elsewhere by then"

    def do(self, controls: Controls) -> list[str]:
        """Make the change."""
        try:
            controls.write(_file(controls, self.number), as_list(self.after))
        except OSError as error:
            if error.errno not in _SOFT:
                raise
            why = "the kernel manages it" if error.errno in _MANAGED else os.strerror(error.errno)
            return [f"interrupt {self.number} ({self.name}) cannot be moved ({why}): it stays on {self.before}"]
        return []

    def undo(self, controls: Controls) -> list[str]:
        """Take the change back."""
        file = _file(controls, self.number)
        now = controls.read(file)
        if not now or now == self.before:
            return []
        if frozenset(parse_list(now)) != frozenset(self.after):
            return [f"interrupt {self.number} ({self.name}) was sent to {now[:60]} since, and stays there"]
        controls.write(file, self.before)
        return []


@dataclass(frozen=True, slots=True)
class RedirectNew:
    """Send the interrupts of devices that are added from now on to other processors."""

    before: str
    """What the file held: a mask."""
    after: tuple[int, ...]

    def words(self) -> str:
        """Return what is written where."""
        after = as_mask(frozenset(self.after))
        return f"write {after} to /proc/irq/default_smp_affinity (processors {as_list(self.after)}, for new interrupts)"

    def back(self) -> str:
        """Return how it is taken back."""
        return f"write {self.before} to it, unless somebody else has changed it by then"

    def do(self, controls: Controls) -> list[str]:
        """Make the change."""
        controls.write(_new(controls), as_mask(frozenset(self.after)))
        return []

    def undo(self, controls: Controls) -> list[str]:
        """Take the change back."""
        now = controls.read(_new(controls))
        if not now or now == self.before:
            return []
        try:
            same = parse_mask(now) == frozenset(self.after)
        except ValueError as error:
            raise HeadwayError(f"{_new(controls)} cannot be put back: {error}") from None
        if not same:
            return [f"{_new(controls)} was changed to {now[:60]} since, and stays so"]
        controls.write(_new(controls), self.before)
        return []
