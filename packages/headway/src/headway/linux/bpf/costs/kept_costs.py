"""What events cost, kept until the next boot, so that not every measurement has to find it.

The costs are in a file of a folder that only root can write and read, and whatever is not exactly so is not believed:
another owner, another mode, a link, content that is not costs. A file is for one boot, processor, object and shape: its
name is a checksum of them. Where costs cannot be kept, every measurement finds them itself.
"""

from __future__ import annotations

import json
import math
import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from zlib import crc32

from headway.dataclass import dataclass

from ..shared.layout import EVENTS, TIMED
from .calibration import Costs

__all__ = ["FOLDER", "KeptCosts", "KeptFile", "name_of"]

FOLDER = Path("/run/headway")
BOOT = Path("/proc/sys/kernel/random/boot_id")
PROCESSORS = Path("/proc/cpuinfo")

_MOST_BYTES = 1 << 14
_MOST_NS = 1e6
"""No event costs more."""
_DRIFT = 0.25
"""The relative change of a system call, beside that of the machine's speed, after which costs are found again."""
_MOST_DRIFT = 2.0
"""The change of speed after which they are found again anyway."""


@dataclass(frozen=True, slots=True)
class KeptCosts:
    """The costs, and what shows whether they still hold."""

    costs: Costs
    call: float
    """What a system call took while it was observed, ns."""
    change_ns: int
    """The processor time of detaching and attaching all programs."""

    def now(self, call: float, runs: Mapping[str, float]) -> Costs | None:
        """Return what events cost now; None: the costs do not hold any more.

        ``call``: what a system call takes now, ns; ``runs``: how long timed runs of handlers take (`Costs.runs`).
        """
        slower = 1.0
        if "enter" in runs and "enter" in self.costs.runs:
            slower = runs["enter"] / self.costs.runs["enter"]
        expected = self.call * slower
        if abs(call - expected) > _DRIFT * expected or not 1 / _MOST_DRIFT <= slower <= _MOST_DRIFT:
            return None
        now = self.costs.scaled(calls=slower, switches=slower)
        return replace(now, runs={name: slower * run for name, run in self.costs.runs.items()})


def name_of(checksum: str, *others: object) -> str:
    """Return the name of the file for an eBPF object, here and now.

    ``checksum``: the object's; ``others``: what else changes the costs.

    Raises OSError where the kernel does not say which boot this is.
    """
    first = PROCESSORS.read_bytes()[:4096].split(b"\n\n")[0]
    lines = [line for line in first.splitlines() if b"MHz" not in line and b"bogomips" not in line]
    about = (BOOT.read_text(), os.uname().release, lines, others)
    return f"costs-{checksum}-{crc32(repr(about).encode()):08x}"


class KeptFile:
    """The costs of one name, in a folder; ``owner``: the user who alone may write there."""

    def __init__(self, name: str, folder: Path = FOLDER, owner: int = 0) -> None:
        self._name, self._folder, self._owner = name, folder, owner

    def read(self) -> KeptCosts | None:
        """Return what is kept; None: nothing that can be believed."""
        try:
            folder = self._open_folder()
        except OSError:
            return None
        try:
            fd = os.open(self._name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=folder)
        except OSError:
            return None
        finally:
            os.close(folder)
        try:
            return _parse(os.read(fd, _MOST_BYTES + 1)) if self._is_ours(os.fstat(fd), stat.S_IFREG) else None
        except OSError:
            return None
        finally:
            os.close(fd)

    def write(self, kept: KeptCosts) -> None:
        """Keep it, if this is the owner; nothing happens where that cannot be."""
        if os.geteuid() != self._owner:
            return
        content = json.dumps(
            {
                "costs": dict(kept.costs.of),
                "marks": list(kept.costs.marks),
                "ways_back": list(kept.costs.ways_back),
                "runs": dict(kept.costs.runs),
                "passing": kept.costs.passing,
                "call": kept.call,
                "change_ns": kept.change_ns,
            }
        )
        with suppress(OSError):
            self._folder.mkdir(mode=0o700, exist_ok=True)
            folder = self._open_folder()
            try:
                self._replace(folder, content.encode())
            finally:
                os.close(folder)

    def remove(self) -> None:
        """Keep it no more."""
        with suppress(OSError):
            folder = self._open_folder()
            try:
                os.unlink(self._name, dir_fd=folder)
            finally:
                os.close(folder)

    def _replace(self, folder: int, content: bytes) -> None:
        fresh = f".{self._name}.{os.getpid()}"
        fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder)
        try:
            with open(fd, "wb") as file:
                file.write(content)
            os.replace(fresh, self._name, src_dir_fd=folder, dst_dir_fd=folder)
        except OSError:
            os.unlink(fresh, dir_fd=folder)
            raise

    def _open_folder(self) -> int:
        """Return a descriptor of the folder. Raises OSError where it is not the owner's alone."""
        fd = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        if not self._is_ours(os.fstat(fd), stat.S_IFDIR):
            os.close(fd)
            raise PermissionError(f"{self._folder} is not of user {self._owner} alone")
        return fd

    def _is_ours(self, found: os.stat_result, kind: int) -> bool:
        return stat.S_IFMT(found.st_mode) == kind and found.st_uid == self._owner and not found.st_mode & 0o077


def _parse(content: bytes) -> KeptCosts | None:
    """Return the costs in a file; None if it has something else."""
    if len(content) > _MOST_BYTES:
        return None
    try:
        found = json.loads(content)
        of = {str(kind): _number(cost) for kind, cost in found["costs"].items()}
        inside, around = map(_number, found["marks"])
        task_work, signal = map(_number, found["ways_back"])
        runs = {str(handler): _number(run) for handler, run in found["runs"].items()}
        passing = None
        if found["passing"] is not None:
            call, switch = map(_number, found["passing"])
            passing = call, switch
        kept = KeptCosts(
            Costs(of, marks=(inside, around), ways_back=(task_work, signal), runs=runs, passing=passing),
            _number(found["call"]),
            int(_number(found["change_ns"], 1e12)),
        )
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        return None
    known = of.keys() <= EVENTS.keys() and runs.keys() <= TIMED.keys() and all(runs.values())
    return kept if known and {"switch", "wake"} <= of.keys() and kept.call else None


def _number(given: object, most: float = _MOST_NS) -> float:
    """Return a number that a cost can be. Raises ValueError for anything else."""
    if isinstance(given, bool) or not isinstance(given, int | float) or not math.isfinite(given):
        raise ValueError("not a number")
    if not 0 <= given <= most:
        raise ValueError("no cost is like that")
    return float(given)
