"""Changes as plain values: what the undo journal keeps of them, and how it is read back."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from headway.errors import HeadwayError
from headway.linux.procfs.processors import parse_list

from .changes import PREFIX, Bind, Bound, Enable, MakeGroup, Move, Partition, UseNode
from .division import Assign, Exclusive, Schemata
from .interrupts import Redirect, RedirectNew, parse_mask
from .resctrl import parse_schemata
from .weights import GroupWeight, Niced, Reniced, SessionNice, Undoable

__all__ = ["change_of", "document_of"]

_KINDS = {
    "enable": Enable,
    "make": MakeGroup,
    "partition": Partition,
    "node": UseNode,
    "move": Move,
    "bind": Bind,
    "redirect": Redirect,
    "redirect new": RedirectNew,
    "schemata": Schemata,
    "assign": Assign,
    "exclusive": Exclusive,
    "reniced": Reniced,
    "session nice": SessionNice,
    "group weight": GroupWeight,
}


def document_of(change: Undoable) -> dict[str, Any]:
    """Return the change as plain values, for a file."""
    (kind,) = (name for name, known in _KINDS.items() if type(change) is known)
    return {"change": kind, **asdict(change)}  # type: ignore[call-overload]


def change_of(found: object) -> Undoable:
    """Return the change that a file describes. Raises ValueError if headway would not have made such a change."""
    if not isinstance(found, dict):
        raise ValueError("a change is no table")
    kind = found.get("change")
    read = _READERS.get(kind) if isinstance(kind, str) else None
    if read is None:
        raise ValueError(f"there is no change of the kind {kind!r:.40}")
    return read(found)


def _move(found: Mapping[str, Any]) -> Move:
    return Move(
        _number(found, "pid"),
        _number(found, "birth"),
        _ours(found),
        _folder(found, "former"),
        _folder(found, "root"),
    )


def _bind(found: Mapping[str, Any]) -> Bind:
    rows = found.get("threads")
    if not isinstance(rows, list) or not rows:
        raise ValueError("a binding is not of threads")
    return Bind(_number(found, "pid"), _name(found), tuple(_bound(row) for row in rows))


def _bound(row: object) -> Bound:
    if not isinstance(row, dict):
        raise ValueError("a thread is no table")
    return Bound(_number(row, "tid"), _number(row, "birth"), _cpus(row, "before"), _cpus(row, "after"))


def _redirect(found: Mapping[str, Any]) -> Redirect:
    before = _text(found, "before")
    try:
        parse_list(before)
    except HeadwayError:
        raise ValueError(f"before is {before!r:.80}") from None
    return Redirect(_number(found, "number", least=0), _name(found), before, _cpus(found, "after"))


def _redirect_new(found: Mapping[str, Any]) -> RedirectNew:
    before = _text(found, "before")
    parse_mask(before)
    return RedirectNew(before, _cpus(found, "after"))


def _schemata(found: Mapping[str, Any]) -> Schemata:
    before, after = _text(found, "before", empty=True), _text(found, "after")
    parse_schemata(before)
    parse_schemata(after)
    group, root = _folder(found, "group"), _folder(found, "root")
    if group != root and not (os.path.dirname(group) == root and os.path.basename(group).startswith(PREFIX)):
        raise ValueError(f"group is {group!r:.80}")
    return Schemata(group, root, before, after)


def _reniced(found: Mapping[str, Any]) -> Reniced:
    rows = found.get("others")
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError(f"others is {rows!r:.80}")
    others = tuple(Niced(_number(row, "tid"), _number(row, "birth"), _nice(row)) for row in rows)
    pid, birth, offsets = _number(found, "pid"), _number(found, "birth"), _numbers(found, "offsets", -39, 39)
    return Reniced(pid, birth, _name(found), _nice(found), others, offsets, _numbers(found, "apart", 1, 1 << 22))


def _session_nice(found: Mapping[str, Any]) -> SessionNice:
    return SessionNice(_text(found, "group"), _nice(found), _numbers(found, "values", -20, 19))


def _group_weight(found: Mapping[str, Any]) -> GroupWeight:
    before = _number(found, "before")
    return GroupWeight(_folder(found, "group"), before, _numbers(found, "values", 1, 10_000))


_READERS: Mapping[str, Callable[[Mapping[str, Any]], Undoable]] = {
    "enable": lambda found: Enable(_folder(found, "root")),
    "make": lambda found: MakeGroup(_ours(found)),
    "partition": lambda found: Partition(_ours(found), _cpus(found, "cpus"), _kind(found)),
    "node": lambda found: UseNode(_ours(found), _number(found, "node", least=0), _cpus(found, "cpus", empty=True)),
    "move": _move,
    "bind": _bind,
    "redirect": _redirect,
    "redirect new": _redirect_new,
    "schemata": _schemata,
    "assign": lambda found: Assign(_number(found, "pid"), _number(found, "birth"), _name(found), _ours(found)),
    "exclusive": lambda found: Exclusive(_ours(found)),
    "reniced": _reniced,
    "session nice": _session_nice,
    "group weight": _group_weight,
}


def _number(found: Mapping[str, Any], name: str, *, least: int = 1) -> int:
    value = found.get(name)
    if type(value) is not int or not least <= value < 1 << 63:
        raise ValueError(f"{name} is {value!r:.40}")
    return value


def _nice(found: Mapping[str, Any]) -> int:
    value = found.get("before")
    if type(value) is not int or not -20 <= value <= 19:
        raise ValueError(f"before is {value!r:.40}")
    return value


def _numbers(found: Mapping[str, Any], name: str, least: int, most: int) -> tuple[int, ...]:
    values = found.get(name)
    if not isinstance(values, list) or not all(type(value) is int and least <= value <= most for value in values):
        raise ValueError(f"{name} is {values!r:.80}")
    return tuple(values)


def _text(found: Mapping[str, Any], name: str, *, empty: bool = False) -> str:
    value = found.get(name)
    if not isinstance(value, str) or not (value or empty) or "\0" in value:
        raise ValueError(f"{name} is {value!r:.80}")
    return value


def _name(found: Mapping[str, Any]) -> str:
    value = found.get("name")
    if not isinstance(value, str):
        raise ValueError(f"name is {value!r:.80}")
    return value[:64]


def _kind(found: Mapping[str, Any]) -> str:
    value = found.get("kind", "root")  # a plan of an older headway has none
    if value not in ("root", "isolated"):
        raise ValueError(f"kind is {value!r:.40}")
    return str(value)


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


def _cpus(found: Mapping[str, Any], name: str, *, empty: bool = False) -> tuple[int, ...]:
    value = found.get(name)
    if not isinstance(value, list) or not (value or empty):
        raise ValueError(f"{name} is {value!r:.80}")
    if not all(type(cpu) is int and 0 <= cpu < 65536 for cpu in value):
        raise ValueError(f"{name} is {value!r:.80}")
    return tuple(value)
