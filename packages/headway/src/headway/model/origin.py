"""The pod, the container and the systemd unit that a process belongs to, from the path of its control group.

Kubernetes, the container engines and systemd name the control groups that they create (cgroups(7)). `parse_path` takes
such a path and never fails. The names are:

====================================  ==================================================================================
Kubernetes, systemd driver            ``kubepods-burstable-pod<UID with _ for ->.slice/cri-containerd-<ID>.scope``
Kubernetes, cgroupfs driver           ``kubepods/burstable/pod<UID>/<ID>``
Docker                                ``system.slice/docker-<ID>.scope`` or ``docker/<ID>``
CRI-O, Podman                         ``crio-<ID>.scope``, ``libpod-<ID>.scope``, ``libpod-payload-<ID>``
LXC, systemd-nspawn                   ``lxc.payload.<NAME>``, ``machine.slice/machine-<NAME>.scope``
systemd (sd_pid_get_unit(3))          ``system.slice/nginx.service``, ``user.slice/user-1000.slice/session-3.scope``
====================================  ==================================================================================

The id of a container is 64 hexadecimal digits. The UID of a static pod is the hash of its manifest, 32 hexadecimal
digits. A path has no other names: it does not tell the name of the pod or its namespace.

A path is not proof. A user to whom systemd has delegated a subtree, and root in some containers, can create a control
group with the name of another's container. Such a group lies below their own unit or container.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from headway.dataclass import dataclass

__all__ = ["Origin", "origin_of", "parse_path"]

_HEX_UUID = r"[0-9a-f]{8}%s[0-9a-f]{4}%s[0-9a-f]{4}%s[0-9a-f]{4}%s[0-9a-f]{12}"
_UUID = "|".join(_HEX_UUID.replace("%s", separator) for separator in "-_") + "|[0-9a-f]{32}"
_POD = re.compile(rf"(?:[a-z][a-z0-9_.-]*-)?pod({_UUID})(?:\.slice)?", re.ASCII)
_CONTAINER = re.compile(r"(?:[A-Za-z][A-Za-z0-9_.-]*-)?([0-9a-f]{64})(?:\.scope)?", re.ASCII)
_MONITOR = re.compile(r"(?:[A-Za-z0-9_.]+-)*conmon-", re.ASCII)
_SLICE = re.compile(r"[A-Za-z0-9:_.\\@-]{1,249}\.slice", re.ASCII)
_UNIT = re.compile(r"[A-Za-z0-9:_.\\@-]{1,247}\.(?:service|scope|socket|mount|swap)", re.ASCII)
_USER_MANAGER = re.compile(r"user@[0-9]{1,10}\.service", re.ASCII)
_NO_DRIVER = re.compile(r"[^:]+\.slice:[^:]*:[0-9a-f]{64}", re.ASCII)
_MACHINE = re.compile(r"lxc\.payload\.([\w.-]{1,64})|machine-([\w.\\-]{1,64})\.scope", re.ASCII)
_DELETED = " (deleted)"
_ENGINES = (
    ("cri-containerd", "containerd"),
    ("containerd", "containerd"),
    ("nerdctl", "containerd"),
    ("docker", "docker"),
    ("crio", "CRI-O"),
    ("cri-o", "CRI-O"),
    ("libpod", "podman"),
)
"""How the names begin that an engine gives to its groups, or the group that they are in."""
_QUALITIES = re.compile(r"kubepods[-/](burstable|besteffort)\b", re.ASCII)
_SHORT = 12
"""The digits of a container's id that engines show."""


@dataclass(frozen=True, slots=True)
class Origin:
    """What the path of a control group tells. A field that it does not tell is empty."""

    pod_uid: str = ""
    """UID of the pod, as the Kubernetes API writes it."""
    container_id: str = ""
    """64 hexadecimal digits."""
    unit: str = ""
    """The systemd unit (sd_pid_get_unit(3)). Inside a container: the unit of the container's own systemd. The scope
    that an engine creates for a container does not count as a unit here."""
    user_unit: str = ""
    """The unit of a user's service manager (sd_pid_get_user_unit(3))."""
    slice: str = ""
    """The slice that the unit is in."""
    path: str = ""
    """The control group, relative to our cgroup namespace."""

    @property
    def engine(self) -> str:
        """The container engine, if the names of its groups tell it."""
        parts = self.path.split("/")
        at = next((n for n, part in enumerate(parts) if self.container_id and self.container_id in part), 0)
        for part in (parts[at], parts[at - 1]) if at else ():
            for name in part.split(":"):
                found = next(
                    (engine for start, engine in _ENGINES if name == start or name.startswith(f"{start}-")), ""
                )
                if found:
                    return found
        return ""

    @property
    def quality_of_service(self) -> str:
        """The pod's class of quality of service, as the Kubernetes API writes it."""
        if not self.pod_uid:
            return ""
        found = _QUALITIES.search(self.path)
        return {"burstable": "Burstable", "besteffort": "BestEffort"}[found[1]] if found else "Guaranteed"

    @property
    def container(self) -> str:
        """A short name of the container: its engine and the beginning of its id, or the name that its engine gives."""
        if self.container_id:
            return f"{self.engine or 'container'} {self.container_id[:_SHORT]}"
        for part in reversed(self.path.split("/")):
            if machine := _MACHINE.fullmatch(part):
                return machine[1] or machine[2]
        return ""

    @property
    def pod(self) -> str:
        """What the process is a part of: the pod, else the container, else the unit, else the control group."""
        if self.pod_uid:
            return f"pod {self.pod_uid}"
        return self.container or self.user_unit or self.unit or self.path

    def labels(self) -> tuple[tuple[str, str], ...]:
        """Return the origin as labels of metrics: OpenTelemetry's names with underscores, without the empty ones.

        A path that tells nothing of these becomes the label ``cgroup``. The root has no labels.
        """
        told = (
            ("k8s_pod_uid", self.pod_uid),
            ("container_id", self.container_id),
            ("systemd_unit_name", self.unit),
            ("systemd_user_unit_name", self.user_unit),
            ("systemd_slice_name", self.slice),
        )
        found = tuple(pair for pair in told if pair[1])
        if found or not self.path.strip("/."):
            return found
        return (("cgroup", self.path),)


def parse_path(path: str) -> Origin:
    """Return what one path tells. The innermost pod, container and unit count."""
    path = path.removesuffix(_DELETED)
    pod_uid = container_id = unit = user_unit = unit_slice = last_slice = ""
    entered = False  # a pod or a container since the last unit
    for part in _parts(path):
        if _SLICE.fullmatch(part):
            last_slice = part
        if pod := _POD.fullmatch(part):
            pod_uid, container_id, entered = pod[1].replace("_", "-"), "", True
        elif (container := _CONTAINER.fullmatch(part)) and not _MONITOR.match(part):
            container_id, entered = container[1], True
        elif _UNIT.fullmatch(part):
            if entered or not unit:
                unit, user_unit, unit_slice, entered = part, "", last_slice, False
            elif not user_unit and _USER_MANAGER.fullmatch(unit):
                user_unit = part
    return Origin(pod_uid, container_id, unit, user_unit, unit_slice, path)


@lru_cache(maxsize=4096)
def origin_of(path: str) -> Origin:
    """Return what a path tells, as `parse_path` does; the last ones are kept."""
    return parse_path(path)


def _parts(path: str) -> Iterator[str]:
    """Yield the names in a path as their creators gave them."""
    for part in path.split("/"):
        if part.startswith("_"):  # systemd escapes names that the kernel might use (cg_escape)
            yield part[1:]
        elif _NO_DRIVER.fullmatch(part):  # the kubelet uses the systemd driver and the engine does not
            yield from part.split(":")
        else:
            yield part
