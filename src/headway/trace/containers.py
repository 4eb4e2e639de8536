"""The files that hold a trace, recognised by how they begin. A folder is a CoreSight snapshot (`snapshot`).

A new kind of file is one more line in `CONTAINERS`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from headway.errors import HeadwayError
from headway.files import open_file

__all__ = ["CONTAINERS", "PERF", "PT", "kind_of"]

PERF, PT = "perf.data", "pt"
_HEAD = 1 << 16


def _is_perf(head: bytes) -> bool:
    return head.startswith((b"PERFILE2", b"2ELIFREP"))


def _is_pt(head: bytes) -> bool:
    return b"\x02\x82" * 8 in head


CONTAINERS: Mapping[str, Callable[[bytes], bool]] = {PERF: _is_perf, PT: _is_pt}
"""What recognises each kind of file by its first 64 KiB. The first that does decides."""


def kind_of(path: str) -> str | None:
    """Return the kind of a file; None: it is no file, or none of these. Raises HeadwayError if it cannot be read."""
    if not os.path.isfile(path):
        if os.path.isdir(path) and (Path(path) / "data").is_file() and (Path(path) / "data.0").is_file():
            raise HeadwayError(f"{path!a} was recorded by perf record --threads: record without it")
        return None
    with open_file(path, "a trace") as stream:
        head = stream.read(_HEAD)
    return next((kind for kind, recognises in CONTAINERS.items() if recognises(head)), None)
