"""Control groups for a test: one with a CPU quota, of version 2 or 1, and one without limits."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest

from headway.linux.procfs.mounts import mounts

PERIOD_US = 50_000


@contextmanager
def quota(share: float) -> Iterator[Path]:
    """A control group that may use this share of one processor. Skips where none can be made."""
    top = _hierarchy()
    with _made(top) as group:
        much = round(share * PERIOD_US)
        try:
            for name, weight in (("cpu.weight", "10000"), ("cpu.shares", "262144")):  # before other programs
                if (group / name).exists():
                    (group / name).write_text(weight)
            if (group / "cpu.max").exists():
                (group / "cpu.max").write_text(f"{much} {PERIOD_US}")
            else:
                (group / "cpu.cfs_period_us").write_text(f"{PERIOD_US}")
                (group / "cpu.cfs_quota_us").write_text(f"{much}")
        except OSError as error:
            pytest.skip(f"{group} takes no quota: {error.strerror}")
        yield group


@contextmanager
def unlimited() -> Iterator[Callable[..., list[str]]]:
    """A group below the top for commands: no limit of the group that the tests run in counts for them.

    Yields what makes the words of a command that runs there; where no group can be made, it runs where the tests do.
    """
    with ExitStack() as made:
        try:
            inside = partial(run_in, made.enter_context(_made(_hierarchy())))
        except pytest.skip.Exception:
            inside = partial(run_in, None)
        yield inside


@contextmanager
def _made(top: Path) -> Iterator[Path]:
    group = top / f"headway-test-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no control group can be made in {top}: {error.strerror}")
    try:
        yield group
    finally:
        with suppress(OSError):
            group.rmdir()


def _hierarchy() -> Path:
    """The top of the hierarchy that has the CPU controller."""
    for mount in mounts():
        point = Path(mount.point)
        with suppress(OSError):
            if mount.kind == "cgroup2" and "cpu" in (point / "cgroup.controllers").read_text().split():
                if "cpu" not in (point / "cgroup.subtree_control").read_text().split():
                    (point / "cgroup.subtree_control").write_text("+cpu")
                return point
        if mount.kind == "cgroup" and (point / "cpu.cfs_quota_us").exists():
            return point
        if mount.kind == "cgroup" and (point / "cpu.shares").exists():
            return point
    pytest.skip("no control group has a CPU controller here")


def run_in(group: Path | None, *command: str) -> list[str]:
    """The words of a command that enters the group, if there is one, and executes this one."""
    if group is None:
        return list(command)
    enter = "echo $$ > " + str(group / "cgroup.procs") + ' && exec "$@"'
    return ["/bin/sh", "-c", enter, "sh", *command]
