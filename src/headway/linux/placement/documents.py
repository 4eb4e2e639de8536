"""Changes as plain values: what the undo journal keeps of them, and how it is read back."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from .changes import PREFIX, Bind, Bound, Change, Enable, MakeGroup, Move, Partition

__all__ = ["change_of", "document_of"]

_KINDS = {"enable": Enable, "make": MakeGroup, "partition": Partition, "move": Move, "bind": Bind}


def document_of(change: Change) -> dict[str, Any]:
    """Return the change as plain values, for a file."""
    (kind,) = (name for name, known in _KINDS.items() if type(change) is known)
    return {"change": kind, **asdict(change)}  # type: ignore[call-overload]


def change_of(found: object) -> Change:
    """Return the change that a file describes. Raises ValueError if headway would not have made such a change."""
    if not isinstance(found, dict):
        raise ValueError("a change is no table")
    kind = found.get("change")
    if kind == "enable":
        return Enable(_folder(found, "root"))
    if kind == "make":
        return MakeGroup(_ours(found))
    if kind == "partition":
        return Partition(_ours(found), _cpus(found, "cpus"))
    if kind == "move":
        return Move(
            _number(found, "pid"),
            _number(found, "birth"),
            _ours(found),
            _folder(found, "former"),
            _folder(found, "root"),
        )
    if kind == "bind":
        rows, name = found.get("threads"), found.get("name")
        if not isinstance(rows, list) or not rows or not isinstance(name, str):
            raise ValueError("a binding is not of threads")
        return Bind(_number(found, "pid"), name[:64], tuple(_bound(row) for row in rows))
    raise ValueError(f"there is no change of the kind {kind!r:.40}")


def _bound(row: object) -> Bound:
    if not isinstance(row, dict):
        raise ValueError("a thread is no table")
    return Bound(_number(row, "tid"), _number(row, "birth"), _cpus(row, "before"), _cpus(row, "after"))


def _number(found: Mapping[str, Any], name: str) -> int:
    value = found.get(name)
    if type(value) is not int or not 0 < value < 1 << 63:
        raise ValueError(f"{name} is {value!r:.40}")
    return value


def _folder(found: Mapping[str, Any], name: str) -> str:
    value = found.get(name)
    if not isinstance(value, str) or value != os.path.abspath(value) or "\0" in value:
        raise ValueError(f"{name} is {value!r:.80}")
    return value


def _ours(found: Mapping[str, Any]) -> str:
    value = _folder(found, "group")
    if not os.path.basename(value).startswith(PREFIX):
        raise ValueError(f"group is {value!r:.80}")
    return value


def _cpus(found: Mapping[str, Any], name: str) -> tuple[int, ...]:
    value = found.get(name)
    if not isinstance(value, list) or not value or not all(type(c) is int and 0 <= c < 65536 for c in value):
        raise ValueError(f"{name} is {value!r:.80}")
    return tuple(value)
