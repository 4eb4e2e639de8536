"""Status checks: which system calls ask whether something is ready, as a table that the user can read and extend.

The ready-made table is checks.toml, which explains the format; the eBPF programs apply it (bpf/polling.h).
"""

from __future__ import annotations

import errno
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import resources
from typing import Any

from headway.errors import SelectionError
from headway.linux.syscalls.table import numbers
from headway.values import shown

from .layout import FILE_KINDS, STATES

__all__ = ["FILES", "Check", "load", "ready_made", "state_names"]

_FILE_NAMES = {
    "FILE_NONE": "",
    "FILE_PIPE": "pipe",
    "FILE_SOCKET": "socket",
    "FILE_DISK": "file",
    "FILE_DEVICE": "device",
    "FILE_EPOLL": "epoll",
    "FILE_EVENT": "event",
    "FILE_OTHER": "other",
}
FILES = tuple(_FILE_NAMES[kind] for kind in sorted(FILE_KINDS, key=lambda kind: FILE_KINDS[kind]))
"""Kinds of files in the names of states, in the order of their numbers; the first: the call is about no file."""

_MAX_CHECKS = STATES["N_CHECKS"]
_MAX_ERRORS = STATES["N_ERRORS"]
_LARGEST = 64 << 10
"""Of a table of the user's, bytes."""
_LONGEST_GAP_US = 4_000_000


@dataclass(frozen=True, slots=True)
class Check:
    """One system call that can be a status check. Arguments are numbered from 1; 0: none."""

    call: str
    number: int
    """The call's."""
    always: bool = False
    if_zero: int = 0
    if_no_time: int = 0
    if_flag: tuple[int, int] = (0, 0)
    if_nonblocking: bool = False
    about: int = 0
    about_file: bool = False
    zero: bool = False
    """A return value of 0 means that nothing was ready."""
    errors: tuple[int, ...] = ()
    """So do these error numbers, four at most."""
    gap_ns: int = 0
    """A longer time until the next check was for something else; 0: there is no limit."""


def ready_made() -> str:
    """The ready-made table, as text."""
    return (resources.files(__package__) / "checks.toml").read_text(encoding="utf-8")


def load(path: str | None = None) -> tuple[Check, ...]:
    """The ready-made checks, and those of a file of the user's. Raises SelectionError where that cannot be followed."""
    given = tomllib.loads(ready_made())
    tables: dict[str, Any] = dict(given["check"])
    gap = _gap(given, "checks.toml", 0)
    where = "checks.toml"
    checks = {call: _check(call, table, gap, where) for call, table in tables.items()}
    if path is not None:
        where = path
        own = _read(path)
        unknown = own.keys() - {"gap_us", "check"}
        if unknown:
            raise SelectionError(f"{path}: {shown(min(unknown))} is not known: give gap_us and tables [check.CALL]")
        if "gap_us" in own:
            gap = _gap(own, path, 0)
            checks = {call: _check(call, table, gap, "checks.toml") for call, table in tables.items()}
        if not isinstance(own.get("check", {}), dict):
            raise SelectionError(f"{path}: check is no table: write [check.CALL]")
        for call, table in own.get("check", {}).items():
            if isinstance(table, dict) and table.get("enabled") is False:
                checks.pop(call, None)
                continue
            if call not in numbers():
                near = get_close_matches(call, numbers(), 1)
                raise SelectionError(
                    f"{path}: there is no system call {shown(call)}" + (f": is {near[0]} meant?" if near else "")
                )
            checks[call] = _check(call, table, gap, path)
    found = tuple(check for check in checks.values() if check is not None)
    if len(found) > _MAX_CHECKS:
        raise SelectionError(
            f"{where}: {len(found)} checks are more than the {_MAX_CHECKS} there is room for: disable some"
        )
    return found


def state_names(checks: Sequence[Check]) -> tuple[str, ...]:
    """The names of the states of polling, in the order of their numbers: each check with each kind of file."""
    return tuple(f"poll.{check.call}.{kind}".rstrip(".") for check in checks for kind in FILES)


def _read(path: str) -> dict[str, Any]:
    try:
        with open(path, "rb") as stream:
            raw = stream.read(_LARGEST + 1)
        if len(raw) > _LARGEST:
            raise SelectionError(f"{path} has more than {_LARGEST >> 10} KiB: that is no table of status checks")
        return tomllib.loads(raw.decode())
    except OSError as error:
        raise SelectionError(
            f"{path} cannot be read ({error.strerror}): give a TOML file with --status-checks"
        ) from None
    except (ValueError, RecursionError) as error:  # no TOML, no UTF-8, a number of 5,000 digits
        raise SelectionError(f"{path} is no TOML file: {error}") from None


_ARGUMENTS = ("if_zero", "if_no_time", "about")
_KEYS = {*_ARGUMENTS, "always", "if_flag", "if_nonblocking", "not_ready", "file", "gap_us", "enabled"}


def _check(call: str, table: Any, gap: int, where: str) -> Check | None:
    """One table; None where this architecture has no such call."""
    at = f"{where}: check.{call}"
    if not isinstance(table, dict):
        raise SelectionError(f"{at} is no table: write [check.{call}]")
    unknown = table.keys() - _KEYS
    if unknown:
        raise SelectionError(f"{at}: {shown(min(unknown))} is not known: there are {', '.join(sorted(_KEYS))}")
    arguments = {key: _argument(table.get(key, 0), f"{at}.{key}") for key in _ARGUMENTS}
    flag = table.get("if_flag", [0, 0])
    if not (isinstance(flag, list) and len(flag) == 2 and all(_is_number(n) and 0 <= n < 1 << 32 for n in flag)):
        raise SelectionError(f"{at}.if_flag: give the argument and the bits, like [4, 0x40]")
    _argument(flag[0], f"{at}.if_flag")
    for key in ("always", "if_nonblocking", "file", "enabled"):
        if not isinstance(table.get(key, False), bool):
            raise SelectionError(f"{at}.{key}: give true or false")
    answers = table.get("not_ready")
    if not isinstance(answers, list) or not answers:
        raise SelectionError(f'{at}: not_ready is missing: give the answers that say so, like [0, "EAGAIN"]')
    errors = tuple(_error(answer, f"{at}.not_ready") for answer in answers if _is_nothing(answer) is False)
    if len(errors) > _MAX_ERRORS:
        raise SelectionError(f"{at}.not_ready: {_MAX_ERRORS} errors at most")
    if not (any(table.get(key) for key in ("always", "if_nonblocking", "if_zero", "if_no_time")) or flag[0]):
        raise SelectionError(
            f"{at} does not say when it is a check: give always, if_zero, if_no_time, if_flag or if_nonblocking"
        )
    if table.get("if_nonblocking") and not table.get("file"):
        raise SelectionError(f"{at}: if_nonblocking needs the file that it is about: give about = N and file = true")
    if table.get("file") and not arguments["about"]:
        raise SelectionError(f"{at}: file = true needs about = N, the argument that is the file descriptor")
    number = numbers().get(call)
    if number is None or number >= STATES["N_CALLS"]:
        return None
    return Check(
        call=call,
        number=number,
        always=table.get("always", False),
        if_flag=(flag[0], flag[1]),
        if_nonblocking=table.get("if_nonblocking", False),
        about_file=table.get("file", False),
        zero=any(_is_nothing(answer) for answer in answers),
        errors=errors,
        gap_ns=_gap(table, at, gap),
        **arguments,
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_nothing(answer: Any) -> bool:
    return _is_number(answer) and answer == 0


def _argument(value: Any, at: str) -> int:
    if not _is_number(value) or not 0 <= value <= 6:
        raise SelectionError(f"{at}: {shown(value)} is no argument of a system call: they are numbered from 1 to 6")
    return int(value)


def _error(answer: Any, at: str) -> int:
    number = getattr(errno, answer, None) if isinstance(answer, str) and answer.isupper() else None
    if not isinstance(number, int) or not 0 < number < 4096:
        raise SelectionError(f'{at}: {shown(answer)} is neither 0 nor the name of an error, like "EAGAIN"')
    return number


def _gap(table: Mapping[str, Any], at: str, otherwise: int) -> int:
    """In ns."""
    if "gap_us" not in table:
        return otherwise
    value = table["gap_us"]
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value <= _LONGEST_GAP_US:
        raise SelectionError(
            f"{at}: gap_us is a number of microseconds from 0 to {_LONGEST_GAP_US}, not {shown(value)}"
        )
    return round(value * 1000)
