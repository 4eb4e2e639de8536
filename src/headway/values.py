"""Values out of a JSON document that may come from anywhere: each is checked when it is taken out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

__all__ = [
    "LARGEST",
    "WrongValueError",
    "integer",
    "integers",
    "items",
    "no_number",
    "optional",
    "shown",
    "table",
    "text",
]

LARGEST = 1 << 63
"""Integers are smaller than this."""


class WrongValueError(ValueError):
    """What is wrong with a document, in a clause."""


def table(found: object, name: str) -> Mapping[str, Any]:
    """A table; ``name``: what it is, for the clause."""
    if not isinstance(found, dict):
        raise WrongValueError(f"{name} is {shown(found)}")
    return found


def items(found: Mapping[str, Any], name: str) -> list[Any]:
    """A list in a table."""
    value = found.get(name)
    if not isinstance(value, list):
        raise WrongValueError(f"{name} is {shown(value)}")
    return value


def text(found: Mapping[str, Any], name: str, longest: int) -> str:
    """A text of ``longest`` characters at most."""
    value = found.get(name)
    if not isinstance(value, str) or len(value) > longest:
        raise WrongValueError(f"{name} is {shown(value)}")
    return value


def integer(found: Mapping[str, Any], name: str, least: int) -> int:
    """An integer from ``least`` to `LARGEST`."""
    value = found.get(name)
    if type(value) is not int or not least <= value < LARGEST:
        raise WrongValueError(f"{name} is {shown(value)}")
    return value


def optional(found: Mapping[str, Any], name: str, least: int = 0) -> int | None:
    """An integer, or None where there is none."""
    return None if found.get(name) is None else integer(found, name, least)


def integers(found: Mapping[str, Any], name: str) -> dict[str, int]:
    """A table of integers that are not negative."""
    inner = table(found.get(name), name)
    return {key: integer(inner, key, 0) for key in inner}


def no_number(text: str) -> NoReturn:
    """For json.loads: NaN and infinities are Python's, not JSON's."""
    raise ValueError(f"{text} is no number of JSON")


def shown(found: object) -> str:
    """A value in a sentence: short, and harmless to a terminal."""
    words = "missing" if found is None else "a list" if isinstance(found, list) else ascii(found)
    words = "a table" if isinstance(found, dict) else words
    return words if len(words) <= 80 else f"{words[:79]}…"
