"""What a user says of a file of raw bytes, where the bytes do not say it themselves."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from headway.values import shown

from ..reader import OptionError

__all__ = ["PROTOCOLS", "REGISTERS", "Told", "told_of"]

PROTOCOLS = ("ETMv3", "PTM", "ETMv4", "ETE", "ITM")
"""The protocols that are looked for."""
REGISTERS: Mapping[str, tuple[str, ...]] = {
    "ETMCR": ("ETMv3", "PTM"),
    "ETMIDR": ("ETMv3", "PTM"),
    "ETMCCER": ("ETMv3", "PTM"),
    "TRCCONFIGR": ("ETMv4", "ETE"),
    "TRCIDR0": ("ETMv4", "ETE"),
    "TRCIDR1": ("ETMv4",),
    "TRCIDR2": ("ETMv4", "ETE"),
    "TRCIDR8": ("ETMv4", "ETE"),
    "TRCDEVARCH": ("ETE",),
}
"""The registers of a trace unit that say what the format depends on, and the protocols that have them."""
_ALL = -1
_NUMBER = re.compile(r"0[xX][0-9a-fA-F]{1,8}|[0-9]{1,10}")


@dataclass(frozen=True, slots=True)
class Told:
    """Protocols and registers by trace ID; of ID -1 is what holds for every stream."""

    protocols: Mapping[int, str] = field(default_factory=dict)
    registers: Mapping[int, Mapping[str, int]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.protocols or self.registers)

    def protocol(self, stream: int) -> str | None:
        """Return the protocol of a stream, if it was told."""
        return self.protocols.get(stream) or self.protocols.get(_ALL)

    def of(self, stream: int) -> Mapping[str, int]:
        """Return the registers of a stream that were told."""
        return {**self.registers.get(_ALL, {}), **self.registers.get(stream, {})}


def told_of(protocols: Iterable[str], registers: Iterable[str]) -> Told:
    """Return what ``[ID=]PROTOCOL`` and ``[ID:]NAME=VALUE`` say. Raises OptionError for anything else."""
    named, values = dict[int, str](), dict[int, dict[str, int]]()
    for text in protocols:
        before, equals, name = text.rpartition("=")
        found = next((one for one in PROTOCOLS if one.lower() == name.lower()), None)
        if found is None:
            raise OptionError(f"--protocol: {shown(text)} names no protocol: give one of {', '.join(PROTOCOLS)}")
        named[_id(before, "--protocol") if equals else _ALL] = found
    for text in registers:
        left, equals, value = text.partition("=")
        before, colon, name = left.rpartition(":")
        if not equals or name.upper() not in REGISTERS:
            known = ", ".join(REGISTERS)
            raise OptionError(f"--register: {shown(text)} is no register with a value: give NAME=VALUE of {known}")
        number = int(value, 0) if _NUMBER.fullmatch(value) and not re.fullmatch("0[0-9]+", value) else 1 << 32
        if number >= 1 << 32:
            raise OptionError(f"--register: {shown(value)} is no value of {name.upper()}: give a number of 32 bits")
        values.setdefault(_id(before, "--register") if colon else _ALL, {})[name.upper()] = number
    return Told(named, values)


def _id(text: str, option: str) -> int:
    number = int(text, 0) if _NUMBER.fullmatch(text) and not re.fullmatch("0[0-9]+", text) else -1
    if not 0 <= number < 0x70:
        raise OptionError(f"{option}: {shown(text)} is no trace ID: give a number from 0 (of bare bytes) to 0x6f")
    return number
