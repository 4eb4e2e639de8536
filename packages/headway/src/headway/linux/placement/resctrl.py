"""The tree of files by which Linux divides caches and memory bandwidth (resctrl; the kernel's filesystems/resctrl.rst).

A group has a line for each resource in its ``schemata``: for a cache the mask of the ways that its tasks may fill, in
each domain (the processors that share the cache), for the memory bandwidth a limit in per cent. The default group, the
root of the tree, has every task that is in no other group.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from headway.dataclass import dataclass

from .controls import Controls
from .refused import Refused

__all__ = ["Cache", "Limits", "Tree", "as_schemata", "divide", "limited", "parse_schemata", "read_tree"]

_LINE = re.compile(r"\s*(L[23](?:CODE|DATA)?|MB):(\S.*?)\s*", re.ASCII)
_PART = re.compile(r"(\d{1,6})= {0,20}([0-9a-fA-F]{1,16})", re.ASCII)
"""A domain and its value: the kernel pads bandwidth with spaces, and masks with zeros."""
_HEX = re.compile(r"(?:0x)?[0-9a-fA-F]{1,16}", re.ASCII)
_WHOLE = re.compile(r"\d{1,10}", re.ASCII)
_DIVIDED = (("L3",), ("L3CODE", "L3DATA"), ("L2",), ("L2CODE", "L2DATA"))
"""The caches that can be divided, the one that most processors share first. Code and data are apart with CDP."""
_PERCENT = 100

Limits = Mapping[str, Mapping[int, int]]
"""Resource -> domain -> mask of ways, or bandwidth."""


@dataclass(frozen=True, slots=True)
class Cache:
    """How a cache can be divided."""

    names: tuple[str, ...]
    """Its lines in ``schemata``: one, or two where code and data are apart."""
    full: int
    """The mask of all ways."""
    least: int
    """The number of ways that a mask has to have."""
    shared: int
    """The ways that hardware besides the processors may use (``shareable_bits``)."""


@dataclass(frozen=True, slots=True)
class Tree:
    """What the files of a mounted tree say. ``None``: the machine cannot divide that."""

    root: str
    cache: Cache | None
    gran: int | None
    """Memory bandwidth is limited in steps of so many per cent ..."""
    least: int
    """... down to this many."""
    default: Limits
    """What the default group may use."""
    text: str
    """The default group's ``schemata``, as it is read."""
    others: Mapping[str, Limits]
    """What the other groups may use, by their paths."""
    groups: int
    """The number of groups that there can be, the default group included."""


def read_tree(controls: Controls, root: str, *, megabytes: bool = False) -> Tree:
    """Read a tree. ``megabytes``: it is mounted with ``mba_MBps``, so limits of bandwidth are no shares.

    Raises Refused for a tree that is not as documented, or that divides neither a cache nor the bandwidth.
    """
    text = controls.read(f"{root}/schemata")
    if text is None:
        raise Refused(f"{root} has no schemata: it is not a resctrl tree")
    try:
        default = parse_schemata(text)
        others = {
            group: parse_schemata(controls.read(f"{group}/schemata") or "")
            for group in controls.groups(root)
            if controls.read(f"{group}/schemata") is not None
        }
    except ValueError as error:
        raise Refused(f"{root} has schemata that are not as documented ({error})") from None
    cache = next((_cache(controls, root, names) for names in _DIVIDED if all(name in default for name in names)), None)
    gran, least = None, 0
    if "MB" in default and not megabytes:
        gran = max(_whole(controls, root, "MB", "bandwidth_gran"), 1)
        least = _whole(controls, root, "MB", "min_bandwidth")
    if cache is None and gran is None:
        raise Refused(f"{root} divides neither a cache nor the memory bandwidth: this processor can only be monitored")
    used = [*(cache.names if cache else ()), *(("MB",) if gran is not None else ())]
    groups = min(_whole(controls, root, name, "num_closids") for name in used)
    return Tree(root, cache, gran, least, default, text, others, groups)


def _cache(controls: Controls, root: str, names: tuple[str, ...]) -> Cache:
    full, least, shared = 0, 1, 0
    for name in names:
        full = _mask(controls, root, name, "cbm_mask")
        least = max(_whole(controls, root, name, "min_cbm_bits"), least)
        shared |= _mask(controls, root, name, "shareable_bits")
    return Cache(names, full, least, shared)


def _mask(controls: Controls, root: str, resource: str, name: str) -> int:
    return int(_info(controls, root, resource, name, _HEX), 16)


def _whole(controls: Controls, root: str, resource: str, name: str) -> int:
    return int(_info(controls, root, resource, name, _WHOLE))


def _info(controls: Controls, root: str, resource: str, name: str, form: re.Pattern[str]) -> str:
    file = f"{root}/info/{resource}/{name}"
    text = controls.read(file)
    if text is None:
        raise Refused(f"{file} is not there")
    if not form.fullmatch(text):
        raise Refused(f"{file} is {text!r:.60}, which is not a number")
    return text


def parse_schemata(text: str) -> dict[str, dict[int, int]]:
    """Return what a ``schemata`` says of caches and bandwidth. Lines of other resources are left out.

    Raises ValueError for a line of these resources that is not as documented.
    """
    found: dict[str, dict[int, int]] = {}
    for line in text.splitlines():
        match = _LINE.fullmatch(line)
        if match is None:
            if line.strip().startswith(("L2", "L3", "MB:")):
                raise ValueError(f"{line.strip()!r:.60} is not a line of schemata")
            continue
        if match[2] == "uninitialized":  # a group that is about to lock a part of the cache
            continue
        domains: dict[int, int] = {}
        for part in match[2].split(";"):
            pair = _PART.fullmatch(part)
            if pair is None or int(pair[1]) in domains or (match[1] == "MB" and not pair[2].isdigit()):
                raise ValueError(f"{line.strip()!r:.60} is not a line of schemata")
            domains[int(pair[1])] = int(pair[2], 10 if match[1] == "MB" else 16)
        if match[1] in found:
            raise ValueError(f"{match[1]} is there twice")
        found[match[1]] = domains
    return found


def as_schemata(schemata: Limits) -> str:
    """Return lines that can be written to ``schemata``, without a newline at the end."""
    return "\n".join(
        f"{name}:" + ";".join(f"{domain}={value:d}" if name == "MB" else f"{domain}={value:x}" for domain, value in of)
        for name, of in ((name, sorted(domains.items())) for name, domains in schemata.items())
    )


def divide(available: int, least: int, shared: int = 0) -> tuple[int, int] | None:
    """Return two masks of contiguous ways that do not overlap: half for one's own, and the rest; None: too few ways.

    ``least``: the number of ways that a mask has to have. One's own half is at the end where fewer of the ways are
    ``shared`` with other hardware.
    """
    low, length = max(_runs(available), key=lambda run: (run[1], -run[0]), default=(0, 0))
    if length < 2 * max(least, 1):
        return None
    half = length // 2
    bottom, top = _ones(low, half), _ones(low + length - half, half)
    if (bottom & shared).bit_count() <= (top & shared).bit_count():
        return bottom, _ones(low + half, length - half)
    return top, _ones(low, length - half)


def limited(bandwidth: int, gran: int, least: int) -> int | None:
    """Return half of a limit of bandwidth, in a step that there is; None: that would be no limit."""
    value = max(-(-bandwidth // (2 * gran)) * gran, least)
    return value if value < min(bandwidth, _PERCENT) else None


def _runs(mask: int) -> Iterable[tuple[int, int]]:
    """Yield where runs of ones begin, and how long they are."""
    at = 0
    while mask >> at:
        length = 0
        while mask >> (at + length) & 1:
            length += 1
        if length:
            yield at, length
        at += length + 1


def _ones(low: int, length: int) -> int:
    return ((1 << length) - 1) << low
