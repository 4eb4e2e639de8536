"""Checked access to the values of a JSON document from an untrusted source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

__all__ = [
    "LARGEST",
    "WrongValueError",
    "integer",
    "integers",
    "items",
    "named",
    "no_number",
    "optional",
    "overhead_range",
    "shown",
    "table",
    "text",
]

LARGEST = 1 << 63
"""Integers must be smaller than this."""
_MOST_RANGE = 1000


class WrongValueError(ValueError):
    """A value in a document is wrong. The message is a clause such as ``name is 'x'``."""


def table(found: object, name: str) -> Mapping[str, Any]:
    """Return ``found`` as a table; ``name`` says in the error what it is. Raises WrongValueError."""
    if not isinstance(found, dict):
        raise WrongValueError(f"{named(name)} is {shown(found)}")
    return found


def items(found: Mapping[str, Any], name: str) -> list[Any]:
    """Return the list under ``name``. Raises WrongValueError."""
    value = found.get(name)
    if not isinstance(value, list):
        raise WrongValueError(f"{named(name)} is {shown(value)}")
    return value


def text(found: Mapping[str, Any], name: str, longest: int) -> str:
    """Return the text of at most ``longest`` characters under ``name``. Raises WrongValueError."""
    value = found.get(name)
    if not isinstance(value, str) or len(value) > longest:
        raise WrongValueError(f"{named(name)} is {shown(value)}")
    return value


def integer(found: Mapping[str, Any], name: str, least: int) -> int:
    """Return the integer under ``name``, from ``least`` to below `LARGEST`. Raises WrongValueError."""
    value = found.get(name)
    if type(value) is not int or not least <= value < LARGEST:
        raise WrongValueError(f"{named(name)} is {shown(value)}")
    return value


def optional(found: Mapping[str, Any], name: str, least: int = 0) -> int | None:
    """Return the integer under ``name``, or None if it is absent or null. Raises WrongValueError."""
    return None if found.get(name) is None else integer(found, name, least)


def integers(found: Mapping[str, Any], name: str) -> dict[str, int]:
    """Return the table of non-negative integers under ``name``. Raises WrongValueError."""
    inner = table(found.get(name), name)
    return {key: integer(inner, key, 0) for key in inner}


def overhead_range(found: Mapping[str, Any]) -> tuple[float, float]:
    """Return the two factors under ``range``, 1 and 1 if there are none. Raises WrongValueError."""
    limits = items(found, "range") if "range" in found else [1.0, 1.0]
    numbers = all(type(each) in (int, float) for each in limits)
    if len(limits) != 2 or not numbers or not 0 <= limits[0] <= 1 <= limits[1] <= _MOST_RANGE:
        raise WrongValueError("range is not two factors, one up to 1 and one from 1 on")
    return float(limits[0]), float(limits[1])


def no_number(text: str) -> NoReturn:
    """Reject NaN and infinities; for ``parse_constant`` of json.loads. JSON has no such numbers (RFC 8259, 6)."""
    raise ValueError(f"{text} is not a JSON number")


def named(name: str) -> str:
    """Return the name of a value for an error message: as it is if it is printable and has 1 to 80 characters.

    It may be a key of the document, so it may be anything.
    """
    return name if 0 < len(name) <= 80 and name.isprintable() else shown(name)


def shown(found: object) -> str:
    """Return a value for an error message: at most 80 characters, all of them printable ASCII."""
    words = "missing" if found is None else "a list" if isinstance(found, list) else ascii(found)
    words = "a table" if isinstance(found, dict) else words
    return words if len(words) <= 80 else f"{words[:79]}…"
