"""The pod, the container and the systemd unit of a process, from the path of its control group.

Kubernetes, the container engines and systemd name the control groups that they create, so /proc/PID/cgroup
(cgroups(7)) tells to whom a process belongs. `parse` takes the text of that file and never fails. The names are:

====================================  ==================================================================================
Kubernetes, systemd driver            ``kubepods-burstable-pod<UID with _ for ->.slice/cri-containerd-<ID>.scope``
Kubernetes, cgroupfs driver           ``kubepods/burstable/pod<UID>/<ID>``
Docker                                ``system.slice/docker-<ID>.scope`` or ``docker/<ID>``
CRI-O, Podman                         ``crio-<ID>.scope``, ``libpod-<ID>.scope``, ``libpod-payload-<ID>``
systemd (sd_pid_get_unit(3))          ``system.slice/nginx.service``, ``user.slice/user-1000.slice/session-3.scope``
====================================  ==================================================================================

The id of a container is 64 hexadecimal digits. The UID of a static pod is the hash of its manifest, 32 hexadecimal
digits. A path has no other names: it does not tell the name of the pod or its namespace.

A path is not proof. A user to whom systemd has delegated a subtree, and root in some containers, can create a control
group with the name of another's container. Such a group lies below their own unit or container.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

__all__ = ["Origin", "parse", "parse_path", "read_origin"]

_MAX_BYTES = 1 << 16
"""The largest size of the file. A path has at most 4,096 bytes, and cgroup v1 has a dozen paths."""
_HEX_UUID = r"[0-9a-f]{8}%s[0-9a-f]{4}%s[0-9a-f]{4}%s[0-9a-f]{4}%s[0-9a-f]{12}"
_UUID = "|".join(_HEX_UUID.replace("%s", separator) for separator in "-_") + "|[0-9a-f]{32}"
_POD = re.compile(rf"(?:[a-z][a-z0-9_.-]*-)?pod({_UUID})(?:\.slice)?", re.ASCII)
_CONTAINER = re.compile(r"(?:[A-Za-z][A-Za-z0-9_.-]*-)?([0-9a-f]{64})(?:\.scope)?", re.ASCII)
_MONITOR = re.compile(r"(?:[A-Za-z0-9_.]+-)*conmon-", re.ASCII)
_SLICE = re.compile(r"[A-Za-z0-9:_.\\@-]{1,249}\.slice", re.ASCII)
_UNIT = re.compile(r"[A-Za-z0-9:_.\\@-]{1,247}\.(?:service|scope|socket|mount|swap)", re.ASCII)
_USER_MANAGER = re.compile(r"user@[0-9]{1,10}\.service", re.ASCII)
_NO_DRIVER = re.compile(r"[^:]+\.slice:[^:]*:[0-9a-f]{64}", re.ASCII)
_DELETED = " (deleted)"


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


def _parts(path: str) -> Iterator[str]:
    """Yield the names in a path as their creators gave them."""
    for part in path.split("/"):
        if part.startswith("_"):  # systemd escapes names that the kernel might use (cg_escape)
            yield part[1:]
        elif _NO_DRIVER.fullmatch(part):  # the kubelet uses the systemd driver and the engine does not
            yield from part.split(":")
        else:
            yield part


@lru_cache(maxsize=4096)
def parse(text: bytes) -> Origin:
    """Return what the text of /proc/PID/cgroup tells. Any bytes are accepted.

    A container engine may use only some of several hierarchies, so the path that tells most counts. Of paths that tell
    the same, that of cgroup v2 comes first, then that of systemd's hierarchy of cgroup v1.
    """
    paths: dict[str, int] = {}
    for line in text.decode(errors="surrogateescape").split("\n"):
        number, _, rest = line.partition(":")
        controllers, colon, path = rest.partition(":")
        if not colon or not path.startswith("/"):
            continue
        place = 0 if number == "0" and not controllers else 1 if controllers == "name=systemd" else 2
        paths[path] = min(place, paths.get(path, place))
    best, worth = Origin(), (0, False, False, -3)
    for path, place in paths.items():
        found = parse_path(path)
        told = bool(found.pod_uid) + bool(found.container_id), bool(found.unit), path != "/", -place
        if told > worth:
            best, worth = found, told
    return best


def read_origin(pid: int, *, proc: str = "/proc") -> Origin | None:
    """Return the origin of a process; None: it has ended, or this user may not see it."""
    try:
        fd = os.open(f"{proc}/{pid}/cgroup", os.O_RDONLY | os.O_CLOEXEC)
        try:
            return parse(os.read(fd, _MAX_BYTES))
        finally:
            os.close(fd)
    except OSError:
        return None
