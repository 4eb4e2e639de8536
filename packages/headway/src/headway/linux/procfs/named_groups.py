"""Control groups by the names that people know: a systemd unit, a container, a pod.

The names of units, the ids of containers and the UIDs of pods are in the paths of their groups
(`headway.model.origin`). The names of containers are in the engines' own files, which only root may read:
``config.v2.json`` of Docker, and ``containers.json`` of Podman.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from headway.errors import HeadwayError, SelectionError
from headway.files import read_file
from headway.model import Origin, parse_path

from .mounts import mounts

__all__ = ["container_group", "pod_group", "unit_group"]

DOCKER = Path("/var/lib/docker/containers")
PODMAN = Path("/var/lib/containers/storage/overlay-containers/containers.json")
_MOST_BYTES = 1 << 24
_MOST_GROUPS = 100_000
_SUFFIXES = ("", ".service", ".scope", ".slice", ".socket", ".mount")
_LEAST_ID = 4
"""The fewest digits by which a container is known."""


def unit_group(name: str, root: Path | None = None) -> str:
    """Return the directory of a systemd unit's control group; ``.service`` may be left out. Raises SelectionError.

    ``root``: of the hierarchy; None: that of this machine.
    """
    wanted = {name + suffix for suffix in _SUFFIXES}
    return _only_one(root, lambda path, _: path.rpartition("/")[2] in wanted, "unit", name, "systemctl status")


def pod_group(uid: str, root: Path | None = None) -> str:
    """Return the directory of a pod's control group, by its UID. Raises SelectionError."""

    def is_pod(path: str, origin: Origin) -> bool:
        return bool(uid) and origin.pod_uid == uid and not origin.container_id

    return _only_one(root, is_pod, "pod", uid, "kubectl get pod -o jsonpath='{.metadata.uid}'")


def container_group(name: str, root: Path | None = None) -> str:
    """Return the directory of a container's control group: by its id, the beginning of it, or its name.

    Raises SelectionError.
    """
    ids = {one for one, names in _containers() if name in names}
    known = len(name) >= _LEAST_ID and set(name) <= set("0123456789abcdef")

    def is_container(path: str, origin: Origin) -> bool:
        if origin.container_id:
            return origin.container_id in ids or (known and origin.container_id.startswith(name))
        return origin.container == name

    return _only_one(root, is_container, "container", name, "docker ps, podman ps")


def _only_one(root: Path | None, wanted: Callable[[str, Origin], bool], what: str, name: str, how: str) -> str:
    """Return the outermost group that is wanted. Raises SelectionError where there is none, or more than one."""
    tops = [Path(mount.point) for mount in mounts() if mount.kind == "cgroup2"] if root is None else [root]
    found: list[str] = []
    for top in tops:
        for path in _below(top):
            inside = any(path.startswith(f"{one}/") for one in found)
            if not inside and wanted(path, parse_path(path.removeprefix(str(top)))):
                found.append(path)
    if not found:
        raise SelectionError(f"there is no control group of the {what} {name!a}: {how} tells whether it runs")
    if len(found) > 1:
        raise SelectionError(f"{len(found)} control groups are of the {what} {name!a}: give one of {_listed(found)}")
    return found[0]


def _listed(paths: Iterable[str]) -> str:
    return " ".join(f"--cgroup {path!a}" for path in sorted(paths)[:3])


def _below(top: Path) -> Iterator[str]:
    """Yield the directories below a hierarchy's root, parents before their children."""
    for number, (folder, folders, _) in enumerate(os.walk(top)):
        folders.sort()
        if number >= _MOST_GROUPS:
            return
        if number:
            yield folder


def _containers() -> Iterator[tuple[str, set[str]]]:
    """Yield the id and the names of each container that Docker or Podman keeps; none where they may not be read."""
    try:
        own = sorted(DOCKER.iterdir())
    except OSError:
        own = []
    for path in own:
        known = _json(path / "config.v2.json")
        if isinstance(known, dict) and isinstance(known.get("Name"), str):
            yield path.name, {known["Name"].removeprefix("/")}
    listed = _json(PODMAN)
    for known in listed if isinstance(listed, list) else ():
        if isinstance(known, dict) and isinstance(known.get("id"), str) and isinstance(known.get("names"), list):
            yield known["id"], {one for one in known["names"] if isinstance(one, str)}


def _json(path: Path) -> Any:
    try:
        return json.loads(read_file(path, "a file of a container engine", _MOST_BYTES))
    except (HeadwayError, ValueError, RecursionError):
        return None
