"""The arguments of questions: what they may be, as a JSON Schema for the client, and checked when they come."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headway.errors import HeadwayError
from headway.values import named, shown

__all__ = ["Choice", "Text", "Texts", "Whole", "checked", "schema_of"]


@dataclass(frozen=True, slots=True)
class Text:
    """A text of at most ``longest`` characters."""

    what: str
    longest: int = 4096
    required: bool = False

    default: None = None

    def schema(self) -> dict[str, Any]:
        """Return its JSON Schema."""
        return {"type": "string", "minLength": 1, "maxLength": self.longest, "description": self.what}

    def fits(self, value: object) -> bool:
        """Return whether the value is one."""
        return isinstance(value, str) and 0 < len(value) <= self.longest and _is_text(value)

    @property
    def words(self) -> str:
        """What to give."""
        return f"a text of 1 to {self.longest:,} characters"


@dataclass(frozen=True, slots=True)
class Texts:
    """A list of at most ``most`` texts of at most ``longest`` characters."""

    what: str
    most: int = 16
    longest: int = 400

    default: None = None
    required: bool = False

    def schema(self) -> dict[str, Any]:
        """Return its JSON Schema."""
        text = {"type": "string", "minLength": 1, "maxLength": self.longest}
        return {"type": "array", "items": text, "maxItems": self.most, "description": self.what}

    def fits(self, value: object) -> bool:
        """Return whether the value is one."""
        if not isinstance(value, list) or len(value) > self.most:
            return False
        return all(isinstance(text, str) and 0 < len(text) <= self.longest and _is_text(text) for text in value)

    @property
    def words(self) -> str:
        """What to give."""
        return f"a list of at most {self.most} texts of 1 to {self.longest:,} characters"


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole number."""

    what: str
    least: int
    most: int
    default: int | None = None

    required: bool = False

    def schema(self) -> dict[str, Any]:
        """Return its JSON Schema."""
        found: dict[str, Any] = {"type": "integer", "minimum": self.least, "maximum": self.most}
        if self.default is not None:
            found["default"] = self.default
        return {**found, "description": self.what}

    def fits(self, value: object) -> bool:
        """Return whether the value is one."""
        return type(value) is int and self.least <= value <= self.most

    @property
    def words(self) -> str:
        """What to give."""
        return f"a whole number from {self.least} to {self.most}"


@dataclass(frozen=True, slots=True)
class Choice:
    """One of some words."""

    what: str
    among: Sequence[str]
    default: str | None = None

    required: bool = False

    def schema(self) -> dict[str, Any]:
        """Return its JSON Schema."""
        found: dict[str, Any] = {"type": "string", "enum": list(self.among)}
        if self.default is not None:
            found["default"] = self.default
        return {**found, "description": self.what}

    def fits(self, value: object) -> bool:
        """Return whether the value is one."""
        return isinstance(value, str) and value in self.among

    @property
    def words(self) -> str:
        """What to give."""
        return f"one of {', '.join(self.among)}"


Argument = Text | Texts | Whole | Choice


def schema_of(arguments: Mapping[str, Argument]) -> dict[str, Any]:
    """Return the JSON Schema of the arguments of a question."""
    return {
        "type": "object",
        "properties": {name: argument.schema() for name, argument in arguments.items()},
        "required": [name for name, argument in arguments.items() if argument.required],
        "additionalProperties": False,
    }


def checked(arguments: Mapping[str, Argument], given: object) -> dict[str, Any]:
    """Return the value of each argument, None if it was not given and has no default. Raises HeadwayError."""
    if given is None:
        given = {}
    if not isinstance(given, dict):
        raise HeadwayError(f"the arguments are {shown(given)}: give a table of {', '.join(arguments) or 'nothing'}")
    for name in given:
        if name not in arguments:
            known = f"give {', '.join(arguments)}" if arguments else "leave it out"
            raise HeadwayError(f"there is no argument {named(str(name))}: {known}")
    found: dict[str, Any] = {}
    for name, argument in arguments.items():
        value = given.get(name)
        if value is None:
            if argument.required:
                raise HeadwayError(f"{name} is missing: give {argument.words}")
            value = argument.default
        elif not argument.fits(value):
            raise HeadwayError(f"{name} is {shown(value)}: give {argument.words}")
        found[name] = value
    return found


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
