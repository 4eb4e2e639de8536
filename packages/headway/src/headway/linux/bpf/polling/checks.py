"""The tables of status checks (is something ready?), and of neutral calls, which do nothing for a thread.

The user can read and extend both tables. The ready-made tables are in checks.toml, which explains the format. The eBPF
programs apply them (bpf/polling/polling.h).
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping, Sequence, Set
from functools import cache
from typing import Any, NamedTuple, TypeVar

from headway.dataclass import dataclass
from headway.errors import SelectionError
from headway.files import open_regular, packaged
from headway.linux.syscalls.table import numbers
from headway.values import shown

from ..shared.layout import FILE_KINDS, STATES
from ._ready_made import CONTENT

__all__ = ["FILES", "OVERWRITING", "Check", "NeutralCall", "StatusChecks", "load", "ready_made", "state_names"]

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

OVERWRITING = frozenset({"select", "pselect6", "ppoll", "recvmmsg"})
"""Calls that write the remaining time over the length of time that they are given."""

_MAX_CHECKS = STATES["N_CHECKS"]
_MAX_ERRORS = STATES["N_ERRORS"]
_MAX_NEUTRAL = STATES["N_NEUTRAL"]
_LARGEST = 64 << 10
"""Of a table of the user's, bytes."""
_LONGEST_US = 4_000_000


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
    if_equal: tuple[int, int] = (0, 0)
    if_nonblocking: bool = False
    about: int = 0
    about_file: bool = False
    about_name: bool = False
    zero: bool = False
    """A return value of 0 means that nothing was ready."""
    errors: tuple[int, ...] = ()
    """So do these error numbers, four at most."""
    answer: int = 0
    """But only if the number that this argument points to is 0."""
    gap_ns: int = 0
    """A longer time until the next check was for something else; 0: there is no limit."""
    alike_ns: int = 0
    """But for one that is like the one before, up to this; 0: none is."""


@dataclass(frozen=True, slots=True)
class NeutralCall:
    """One system call that does nothing for a thread, so that it ends no row of checks."""

    call: str
    number: int
    """The call's."""
    if_zero: int = 0
    """It is neutral only if this argument is 0; arguments are numbered from 1; 0: none."""
    any: bool = True
    """It is neutral whatever it returns."""
    zero: bool = False
    """Otherwise if it returned 0,"""
    errors: tuple[int, ...] = ()
    """or one of these error numbers, four at most."""
    at_most_ns: int = 0
    """A longer one waited for something else; 0: there is no limit."""


@dataclass(frozen=True, slots=True)
class StatusChecks:
    """What is polling, and what does not end it."""

    checks: tuple[Check, ...]
    neutral: tuple[NeutralCall, ...]


def ready_made() -> str:
    """The ready-made tables, as text."""
    return packaged(__package__, "checks.toml").decode()


def _ready_made_checks(gaps: _Gaps) -> dict[str, Check | None]:
    return {call: _check(call, table, gaps, "checks.toml") for call, table in CONTENT["check"].items()}


@cache
def _ready_made_calls() -> tuple[Mapping[str, Check | None], Mapping[str, NeutralCall | None]]:
    neutral = {call: _neutral(call, table, "checks.toml") for call, table in CONTENT["neutral"].items()}
    return _ready_made_checks(_gaps(CONTENT, "checks.toml", _Gaps(0, 0))), neutral


def load(path: str | None = None) -> StatusChecks:
    """Return the ready-made tables with those of a user's file. Raises SelectionError where that has a mistake."""
    where = "checks.toml" if path is None else path
    ready = _ready_made_calls()
    checks, neutral = dict(ready[0]), dict(ready[1])
    if path is not None:
        own = _read(path)
        unknown = own.keys() - {"gap_us", "alike_us", "check", "neutral"}
        if unknown:
            known = "give gap_us, alike_us, and tables [check.CALL] and [neutral.CALL]"
            raise SelectionError(f"{path}: {shown(min(unknown))} is not known: {known}")
        gaps = _gaps(own, path, _gaps(CONTENT, "checks.toml", _Gaps(0, 0)))
        if own.keys() & {"gap_us", "alike_us"}:
            checks = _ready_made_checks(gaps)
        _merge(checks, own, "check", path, lambda call, table: _check(call, table, gaps, path))
        _merge(neutral, own, "neutral", path, lambda call, table: _neutral(call, table, path))
    return StatusChecks(
        checks=_at_most(checks, _MAX_CHECKS, "status checks", where),
        neutral=_at_most(neutral, _MAX_NEUTRAL, "neutral calls", where),
    )


def _merge(
    ready: dict[str, _Call | None],
    own: Mapping[str, Any],
    kind: str,
    path: str,
    parse: Callable[[str, Any], _Call | None],
) -> None:
    """Put the tables of this kind that a file of the user's has into the places of the ready-made ones."""
    tables = own.get(kind, {})
    if not isinstance(tables, dict):
        raise SelectionError(f"{path}: {kind} is no table: write [{kind}.CALL]")
    for call, table in tables.items():
        if isinstance(table, dict) and table.get("enabled") is False:
            ready.pop(call, None)
            continue
        if call not in numbers():
            from difflib import get_close_matches

            near = get_close_matches(call, numbers(), 1)
            raise SelectionError(
                f"{path}: there is no system call {shown(call)}" + (f": is {near[0]} meant?" if near else "")
            )
        ready[call] = parse(call, table)


def _at_most(found: Mapping[str, _Call | None], room: int, what: str, where: str) -> tuple[_Call, ...]:
    here = tuple(call for call in found.values() if call is not None)
    if len(here) > room:
        own = f"{len(here)} {what}, the ready-made ones among them, are more than the {room} there is room for"
        raise SelectionError(f"{where}: {own}: take some out with enabled = false (--print-status-checks lists them)")
    return here


def state_names(checks: Sequence[Check]) -> tuple[str, ...]:
    """The names of the states of polling, in the order of their numbers: each check with each kind of file."""
    return tuple(f"poll.{check.call}.{kind}".rstrip(".") for check in checks for kind in FILES)


def _read(path: str) -> dict[str, Any]:
    try:
        with open_regular(path) as stream:
            raw = stream.read(_LARGEST + 1)
        if len(raw) > _LARGEST:
            raise SelectionError(f"{path} has more than {_LARGEST >> 10} KiB: that is no table of status checks")
        import tomllib  # few users have a file

        return tomllib.loads(raw.decode())
    except OSError as error:
        raise SelectionError(
            f"{path} cannot be read ({error.strerror}): give a TOML file with --status-checks"
        ) from None
    except (ValueError, RecursionError) as error:  # no TOML, no UTF-8, a number of 5,000 digits
        raise SelectionError(f"{path} is no TOML file: {error}") from None


_Call = TypeVar("_Call", Check, NeutralCall)


class _Gaps(NamedTuple):
    """The longest between two checks of a row, in ns: any, and one that is like the one before."""

    short: int
    alike: int


_ARGUMENTS = ("if_zero", "if_no_time", "about", "answer")
_WITH_BITS = {"if_flag": "the bits, like [4, 0x40]", "if_equal": "the number, like [2, 0x541b]"}
_SWITCHES = ("always", "if_nonblocking", "file", "name", "enabled")
_KEYS = {*_ARGUMENTS, *_WITH_BITS, *_SWITCHES, "not_ready", "gap_us", "alike_us"}
_NEUTRAL_KEYS = {"if_zero", "returns", "at_most_us", "enabled"}


def _check(call: str, table: Any, gaps: _Gaps, where: str) -> Check | None:
    """Return the check of one table; None where this architecture has no such call."""
    at = f"{where}: check.{call}"
    _verify_keys(table, _KEYS, at, f"[check.{call}]")
    arguments = {key: _argument(table.get(key, 0), f"{at}.{key}") for key in _ARGUMENTS}
    flag, equal = (_argument_with(table, key, at) for key in _WITH_BITS)
    for key in _SWITCHES:
        if not isinstance(table.get(key, False), bool):
            raise SelectionError(f"{at}.{key}: give true or false")
    zero, errors = _answers(table, "not_ready", at)
    _verify_sense(table, flag[0] or equal[0], at)
    short, alike = _gaps(table, at, gaps)
    number = numbers().get(call)
    if number is None or number >= STATES["N_CALLS"]:
        return None
    return Check(
        call=call,
        number=number,
        always=table.get("always", False),
        if_flag=flag,
        if_equal=equal,
        if_nonblocking=table.get("if_nonblocking", False),
        about_file=table.get("file", False),
        about_name=table.get("name", False),
        zero=zero,
        errors=errors,
        gap_ns=short,
        alike_ns=alike,
        **arguments,
    )


def _argument_with(table: Mapping[str, Any], key: str, at: str) -> tuple[int, int]:
    """Return the argument that a key names, and the number beside it."""
    value = table.get(key, [0, 0])
    if not (isinstance(value, list) and len(value) == 2 and all(_is_number(n) and 0 <= n < 1 << 32 for n in value)):
        raise SelectionError(f"{at}.{key}: give the argument and {_WITH_BITS[key]}")
    return _argument(value[0], f"{at}.{key}"), value[1]


def _verify_sense(table: Mapping[str, Any], by_number: int, at: str) -> None:
    """``by_number``: the call is a check by an argument's bits or number."""
    conditions = ("always", "if_nonblocking", "if_zero", "if_no_time")
    if not (any(table.get(key) for key in conditions) or by_number):
        keys = ", ".join((*conditions, "if_flag"))
        raise SelectionError(f"{at} does not say when it is a check: give one of {keys} or if_equal")
    if table.get("if_nonblocking") and not table.get("file"):
        raise SelectionError(f"{at}: if_nonblocking needs the file that it is about: give about = N and file = true")
    if table.get("file") and not table.get("about"):
        raise SelectionError(f"{at}: file = true needs about = N, the argument that is the file descriptor")
    if table.get("name") and (not table.get("about") or table.get("file")):
        raise SelectionError(f"{at}: name = true needs about = N, the argument that is the name, and not file = true")


def _neutral(call: str, table: Any, where: str) -> NeutralCall | None:
    """Return the neutral call of one table; None where this architecture has no such call."""
    at = f"{where}: neutral.{call}"
    _verify_keys(table, _NEUTRAL_KEYS, at, f"[neutral.{call}]")
    if not isinstance(table.get("enabled", True), bool):
        raise SelectionError(f"{at}.enabled: give true or false")
    zero, errors = _answers(table, "returns", at) if "returns" in table else (False, ())
    if_zero = _argument(table.get("if_zero", 0), f"{at}.if_zero")
    at_most_ns = _microseconds(table, "at_most_us", at, 0)
    number = numbers().get(call)
    if number is None or number >= STATES["N_CALLS"]:
        return None
    return NeutralCall(
        call=call,
        number=number,
        if_zero=if_zero,
        any="returns" not in table,
        zero=zero,
        errors=errors,
        at_most_ns=at_most_ns,
    )


def _verify_keys(table: Any, keys: Set[str], at: str, form: str) -> None:
    if not isinstance(table, dict):
        raise SelectionError(f"{at} is no table: write {form}")
    unknown = table.keys() - keys
    if unknown:
        raise SelectionError(f"{at}: {shown(min(unknown))} is not known: there are {', '.join(sorted(keys))}")


def _answers(table: Mapping[str, Any], key: str, at: str) -> tuple[bool, tuple[int, ...]]:
    """Return whether 0 is one of the answers that a table lists, and the errors that are."""
    answers = table.get(key)
    if not isinstance(answers, list) or not answers:
        raise SelectionError(f'{at}: {key} is missing: give the answers that say so, like [0, "EAGAIN"]')
    errors = tuple(_error(answer, f"{at}.{key}") for answer in answers if not _is_nothing(answer))
    if len(errors) > _MAX_ERRORS:
        raise SelectionError(f"{at}.{key}: {_MAX_ERRORS} errors at most")
    return any(_is_nothing(answer) for answer in answers), errors


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


def _gaps(table: Mapping[str, Any], at: str, otherwise: _Gaps) -> _Gaps:
    """Return those that a table gives."""
    return _Gaps(
        _microseconds(table, "gap_us", at, otherwise.short), _microseconds(table, "alike_us", at, otherwise.alike)
    )


def _microseconds(table: Mapping[str, Any], key: str, at: str, otherwise: int) -> int:
    """Return a length of time that a table gives in µs, in ns."""
    if key not in table:
        return otherwise
    value = table[key]
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value <= _LONGEST_US:
        raise SelectionError(f"{at}: {key} is a number of microseconds from 0 to {_LONGEST_US}, not {shown(value)}")
    return round(value * 1000)
