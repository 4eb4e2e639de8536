"""A control group whose memory is limited, of version 2 or 1, for the processes that a test moves there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from headway.linux.procfs.mounts import mounts

_LIMITS = ("memory.max", "memory.limit_in_bytes")
_PEAKS = ("memory.peak", "memory.max_usage_in_bytes")


@contextmanager
def memory_group(size: int) -> Iterator[Path]:
    """Make a group with so many bytes. Skips where none can be made."""
    for root in _roots():
        group = root / f"headway-test-{os.getpid()}"
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            _first(group, _LIMITS).write_text(str(size))
        except OSError:
            group.rmdir()
            continue
        try:
            yield group
        finally:
            group.rmdir()
        return
    pytest.skip("needs a control group whose memory can be limited")


def peak(group: Path) -> int:
    """Return the most bytes that were in a group so far. Skips where the kernel does not say it (v2 before 5.19)."""
    try:
        return int(_first(group, _PEAKS).read_text())
    except OSError:
        pytest.skip("the kernel does not say how much memory a group had")


def _roots() -> Iterator[Path]:
    for mount in mounts():
        if mount.kind == "cgroup2":
            with suppress(OSError):
                Path(mount.point, "cgroup.subtree_control").write_text("+memory")
            yield Path(mount.point)
        elif mount.kind == "cgroup" and "memory" in mount.options:
            yield Path(mount.point)


def _first(group: Path, names: tuple[str, ...]) -> Path:
    """Return the file of the group that is there. Raises FileNotFoundError."""
    found = next((group / name for name in names if (group / name).exists()), None)
    if found is None:
        raise FileNotFoundError
    return found
