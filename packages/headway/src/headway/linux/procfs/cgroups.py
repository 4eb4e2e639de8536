"""The pod, the container and the systemd unit of a process: what /proc/PID/cgroup (cgroups(7)) tells.

`parse` takes the text of that file and never fails; `headway.model.origin` says what the paths in it mean.
"""

from __future__ import annotations

import os
from functools import lru_cache

from headway.model import Origin, parse_path

__all__ = ["Origin", "parse", "parse_path", "read_origin"]

_MAX_BYTES = 1 << 16
"""The largest size of the file. A path has at most 4,096 bytes, and cgroup v1 has a dozen paths."""


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
