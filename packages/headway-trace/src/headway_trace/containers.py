"""The files that hold a trace, recognised by how they begin.

A folder is what ``perf record --kcore`` wrote, if it has such a file as ``data``; else it is a CoreSight snapshot
(`snapshot`).

A new kind of file is one more line in `CONTAINERS`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from headway.errors import HeadwayError
from headway.files import open_file

__all__ = ["CONTAINERS", "PERF", "PT", "file_in", "kind_of"]

PERF, PT = "perf.data", "pt"
_HEAD = 1 << 16


def _is_perf(head: bytes) -> bool:
    return head.startswith((b"PERFILE2", b"2ELIFREP"))


def _is_pt(head: bytes) -> bool:
    return b"\x02\x82" * 8 in head


CONTAINERS: Mapping[str, Callable[[bytes], bool]] = {PERF: _is_perf, PT: _is_pt}
"""What recognises each kind of file by its first 64 KiB. The first that does decides."""


def file_in(path: str) -> str:
    """Return the path of the file that has the records: ``data`` in a folder of perf's, else the path itself."""
    return str(Path(path) / "data") if os.path.isdir(path) else path


def kind_of(path: str) -> str | None:
    """Return the kind of a file or of perf's folder; None: neither. Raises HeadwayError if it cannot be read."""
    folder, file = os.path.isdir(path), file_in(path)
    if not os.path.isfile(file):
        return None
    if folder and (Path(path) / "data.0").is_file():
        raise HeadwayError(f"{path!a} was recorded by perf record --threads: record without it")
    with open_file(file, "a trace") as stream:
        head = stream.read(_HEAD)
    if folder:
        return PERF if _is_perf(head) else None
    return next((kind for kind, recognises in CONTAINERS.items() if recognises(head)), None)
