"""What the threads of a group have in common."""

from __future__ import annotations

from enum import Enum

__all__ = ["GroupBy"]


class GroupBy(Enum):
    """What the threads of a group have in common."""

    THREAD = "thread"
    """Each thread is a group by itself."""
    NAME = "name"
    """The threads' name, whichever their processes are."""
    PROCESS = "process"
    """The process."""
    CGROUP = "cgroup"
    """The control group of the process."""
    POD = "pod"
    """The pod, else the container, else the systemd unit, else the control group (`Origin.pod`)."""

    @property
    def needs_cgroups(self) -> bool:
        """Whether threads are told apart by their control groups."""
        return self in (GroupBy.CGROUP, GroupBy.POD)
