"""The kernel's own symbols (/proc/kallsyms), if the reader may see them."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from pathlib import Path

__all__ = ["KernelSymbols", "parse"]

KALLSYMS = Path("/proc/kallsyms")
_CODE, _DATA = frozenset("tTwW"), frozenset("bBdDvV")
_DATA_BYTES = 1 << 16
"""No variable is thought to be larger: what lies further behind the last one is no part of it."""


def parse(text: str, kinds: frozenset[str] = _CODE) -> tuple[array[int], list[str]]:
    """Return the addresses of functions, ascending, and ``name`` or ``name\\t[module]`` of each.

    ``kinds``: those of the symbols, where they are not functions (nm(1)). Malformed lines are skipped. All addresses
    are 0 if the reader may not see them.
    """
    found: list[tuple[int, str]] = []
    for line in text.splitlines():
        address, _, rest = line.partition(" ")
        kind, _, name = rest.partition(" ")
        if kind not in kinds or not name:
            continue
        try:
            found.append((int(address, 16), name))
        except ValueError:
            continue
    found.sort(key=lambda row: row[0])
    return array("Q", (address for address, _ in found if 0 <= address < 1 << 64)), [
        name for address, name in found if 0 <= address < 1 << 64
    ]


class KernelSymbols:
    """The functions and variables of the running kernel and its modules, read when the first one is asked for."""

    def __init__(self, path: Path = KALLSYMS) -> None:
        self._path = path
        self._tables: dict[frozenset[str], tuple[array[int], list[str]]] = {}

    @property
    def hidden(self) -> bool:
        """Whether the addresses are hidden from this reader (kernel.kptr_restrict, or no CAP_SYSLOG)."""
        addresses, _ = self._read()
        return not addresses or not addresses[-1]

    def _read(self, kinds: frozenset[str] = _CODE) -> tuple[array[int], list[str]]:
        if kinds not in self._tables:
            try:
                self._tables[kinds] = parse(self._path.read_text(errors="backslashreplace"), kinds)
            except OSError:
                self._tables[kinds] = array("Q"), []
        return self._tables[kinds]

    def data_at(self, address: int) -> str | None:
        """Return the variable that contains an address, as ``name`` or ``name+0x10``; None if unknown.

        Kernels have variables here if they were built with CONFIG_KALLSYMS_ALL.
        """
        addresses, names = self._read(_DATA)
        place = bisect_right(addresses, address) - 1
        if place < 0 or not addresses[place] or address - addresses[place] >= _DATA_BYTES:
            return None
        name, at = names[place].partition("\t")[0], address - addresses[place]
        return f"{name}+{at:#x}" if at else name

    def at(self, address: int) -> tuple[str, str] | None:
        """Return the function and the module (``[kernel]``, ``[ext4]``) that contain an address; None if unknown."""
        addresses, names = self._read()
        place = bisect_right(addresses, address) - 1
        if place < 0 or not addresses[place]:
            return None
        name, _, module = names[place].partition("\t")
        return name, module or "[kernel]"
