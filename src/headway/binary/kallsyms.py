"""The kernel's own symbols (/proc/kallsyms), if the reader may see them."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from pathlib import Path

__all__ = ["KernelSymbols", "parse"]

KALLSYMS = Path("/proc/kallsyms")
_CODE = frozenset("tTwW")


def parse(text: str) -> tuple[array[int], list[str]]:
    """Return the addresses of functions, ascending, and ``name`` or ``name\\t[module]`` of each.

    Malformed lines are skipped. All addresses are 0 if the reader may not see them.
    """
    found: list[tuple[int, str]] = []
    for line in text.splitlines():
        address, _, rest = line.partition(" ")
        kind, _, name = rest.partition(" ")
        if kind not in _CODE or not name:
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
    """The functions of the running kernel and its modules. They are read when the first is asked for."""

    def __init__(self, path: Path = KALLSYMS) -> None:
        self._path = path
        self._table: tuple[array[int], list[str]] | None = None

    @property
    def hidden(self) -> bool:
        """Whether the addresses are hidden from this reader (kernel.kptr_restrict, or no CAP_SYSLOG)."""
        addresses, _ = self._read()
        return not addresses or not addresses[-1]

    def _read(self) -> tuple[array[int], list[str]]:
        if self._table is None:
            try:
                self._table = parse(self._path.read_text(errors="backslashreplace"))
            except OSError:
                self._table = array("Q"), []
        return self._table

    def at(self, address: int) -> tuple[str, str] | None:
        """Return the function and the module (``[kernel]``, ``[ext4]``) that contain an address; None if unknown."""
        addresses, names = self._read()
        place = bisect_right(addresses, address) - 1
        if place < 0 or not addresses[place]:
            return None
        name, _, module = names[place].partition("\t")
        return name, module or "[kernel]"
