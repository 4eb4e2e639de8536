"""The fields of a configuration and the values that they accept.

A field is a descriptor that knows its limits. It checks a value when it is set (a size may be text such as "16KiB") and
returns a plain number or text when it is read. A configuration that exists is therefore a possible one, wherever its
values came from.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NoReturn, overload

from headway.errors import HeadwayError

__all__ = [
    "Choice",
    "ConfigError",
    "Field",
    "Number",
    "NumberOrWord",
    "Path",
    "Size",
    "Switch",
    "Text",
    "refuse",
    "shown",
]

_UNITS = {"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


class ConfigError(HeadwayError):
    """An impossible configuration, in one sentence: the path of the key (``l1d.ways``) and what is wrong with it."""

    def __init__(self, path: str, text: str) -> None:
        super().__init__(f"{path} {text}")
        self.path, self.text = path, text

    def within(self, part: str) -> ConfigError:
        """Return the same error with the path of the field inside that part."""
        return ConfigError(f"{part}.{self.path}", self.text)


def shown(value: object) -> str:
    """Return a value of any kind as a message shows it: at most 60 characters, all printable ASCII but the ellipsis."""
    text = value if isinstance(value, str) else None
    words = ascii(text) if text is not None else "a table" if isinstance(value, dict) else _plain(value)
    return words if len(words) <= 60 else f"{words[:59]}…"


def _plain(value: object) -> str:
    if isinstance(value, (list, tuple)):
        return "a list"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) and abs(value) >= 1 << 64:  # Python raises for numbers of very many digits
        return "a number of more than 64 bits"
    return ascii(value)


def refuse(name: str, value: object, allowed: str) -> NoReturn:
    """Raise ConfigError: ``name`` does not accept this value, but ``allowed``."""
    raise ConfigError(name, f"is {shown(value)}: give {allowed}")


class Field:
    """A field of a frozen dataclass that checks each value when it is set."""

    def __init__(self, default: object, says: str) -> None:
        self.default, self.says = default, says
        self.name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def _get(self, instance: object) -> Any:
        if instance is None:  # dataclass reads the default from the class
            if self.default is None:
                raise AttributeError(self.name)
            return self.default
        return instance.__dict__[self.name]

    def _set(self, instance: object, value: object) -> None:
        instance.__dict__[self.name] = self.check(value)

    def check(self, value: object) -> object:
        """Return the value in the form in which it is kept. Raises ConfigError if it is not allowed."""
        raise NotImplementedError

    def write(self, value: Any) -> str:
        """Return the value as TOML."""
        return str(value)


class Number(Field):
    """A whole number from ``least`` to ``most``; with ``power`` a power of two (or 0, where ``least`` allows it)."""

    def __init__(
        self, default: int | None, least: int, most: int, says: str, *, power: bool = False, base: int = 10
    ) -> None:
        super().__init__(default, says)
        self.least, self.most, self.power, self.base = least, most, power, base

    @overload
    def __get__(self, instance: None, owner: type) -> int: ...
    @overload
    def __get__(self, instance: object, owner: type) -> int: ...
    def __get__(self, instance: object | None, owner: type) -> int:
        """Return the number."""
        found: int = self._get(instance)
        return found

    def __set__(self, instance: object, value: int) -> None:
        """Check the number and keep it."""
        self._set(instance, value)

    def check(self, value: object) -> int:
        """Return the number. Raises ConfigError if it is not allowed."""
        if isinstance(value, bool) or not isinstance(value, int) or not self.least <= value <= self.most:
            refuse(self.name, value, self.allowed())
        if self.power and value & (value - 1):
            refuse(self.name, value, self.allowed())
        return value

    def allowed(self) -> str:
        """Return what it accepts, in words."""
        kind = "a power of two" if self.power else "a whole number"
        return f"{kind} from {self._number(self.least)} to {self._number(self.most)}"

    def _number(self, value: int) -> str:
        return f"{value:#x}" if self.base == 16 else str(value)

    def write(self, value: int) -> str:
        """Return the number in decimal, or in hexadecimal if ``base`` is 16."""
        return self._number(value)


class Size(Number):
    """A number of bytes that is a power of two. It may be given as text: "16KiB", "1MiB"."""

    def __init__(self, default: str | None, least: str, most: str, says: str) -> None:
        super().__init__(None if default is None else _bytes(default), _bytes(least), _bytes(most), says, power=True)

    def __set__(self, instance: object, value: int | str) -> None:
        """Check the size and keep it as a number of bytes."""
        self._set(instance, value)

    def check(self, value: object) -> int:
        """Return the number of bytes. Raises ConfigError if it is not allowed."""
        if not isinstance(value, str):
            return super().check(value)
        try:
            return super().check(_bytes(value))
        except ValueError:
            refuse(self.name, value, self.allowed())
        except ConfigError:
            refuse(self.name, value, self.allowed())

    def _number(self, value: int) -> str:
        for unit in ("GiB", "MiB", "KiB"):
            if value and value % _UNITS[unit] == 0:
                return f"{value // _UNITS[unit]}{unit}"
        return str(value)

    def write(self, value: int) -> str:
        """Return the size with the largest unit that divides it, quoted if it has a unit."""
        text = self._number(value)
        return text if text.isdigit() else f'"{text}"'


def _bytes(text: str) -> int:
    found = re.fullmatch(r"(\d{1,12})\s?(|B|[KMG]iB)", text, re.ASCII)
    if found is None:
        raise ValueError(text)
    return int(found[1]) * _UNITS[found[2]]


class NumberOrWord(Field):
    """A whole number from ``least`` to ``most``, or the one word that stands for something else (the default)."""

    def __init__(self, word: str, least: int, most: int, says: str, *, base: int = 10) -> None:
        super().__init__(word, says)
        self.word, self.number = word, Number(None, least, most, says, base=base)

    @overload
    def __get__(self, instance: None, owner: type) -> int | str: ...
    @overload
    def __get__(self, instance: object, owner: type) -> int | str: ...
    def __get__(self, instance: object | None, owner: type) -> int | str:
        """Return the number, or the word."""
        found: int | str = self._get(instance)
        return found

    def __set__(self, instance: object, value: int | str) -> None:
        """Check the value and keep it."""
        self._set(instance, value)

    def check(self, value: object) -> int | str:
        """Return the number or the word. Raises ConfigError if it is neither."""
        if value == self.word and isinstance(value, str):
            return self.word
        try:
            return self.number.check(value)
        except ConfigError:
            refuse(self.name, value, f'"{self.word}", or {self.number.allowed()}')

    def write(self, value: int | str) -> str:
        """Return the number, or the word in quotes."""
        return f'"{value}"' if isinstance(value, str) else self.number.write(value)


class Switch(Field):
    """A field that is true or false."""

    def __init__(self, default: bool, says: str) -> None:
        super().__init__(default, says)

    def __get__(self, instance: object | None, owner: type) -> bool:
        """Return whether the switch is on."""
        found: bool = self._get(instance)
        return found

    def __set__(self, instance: object, value: bool) -> None:
        """Check the switch and keep it."""
        self._set(instance, value)

    def check(self, value: object) -> bool:
        """Return the switch. Raises ConfigError if it is no boolean."""
        if not isinstance(value, bool):
            refuse(self.name, value, "true or false")
        return value

    def write(self, value: bool) -> str:
        """Return the switch as TOML."""
        return "true" if value else "false"


class Text(Field):
    """Text that matches a pattern; ``words`` describes the pattern in error messages."""

    def __init__(
        self, default: str | None, says: str, *, pattern: str = r"(?s).*", most: int = 4096, words: str = "text"
    ) -> None:
        super().__init__(default, says)
        self._pattern, self._most, self._words = re.compile(pattern), most, words

    def __get__(self, instance: object | None, owner: type) -> str:
        """Return the text."""
        found: str = self._get(instance)
        return found

    def __set__(self, instance: object, value: str) -> None:
        """Check the text and keep it."""
        self._set(instance, value)

    def check(self, value: object) -> str:
        """Return the text. Raises ConfigError if it is not allowed."""
        if not isinstance(value, str) or not self._pattern.fullmatch(value):
            refuse(self.name, value, self._words)
        if len(value) > self._most:
            refuse(self.name, value, f"{self._words} of at most {self._most} characters")
        try:
            value.encode()
        except UnicodeEncodeError:
            refuse(self.name, value, f"{self._words} that can be written in UTF-8")
        return value

    def write(self, value: str) -> str:
        """Return a basic string with every character escaped that TOML 1.0 ("String") requires."""
        return f'"{"".join(map(_escaped, value))}"'


class Path(Text):
    """The name of a file; empty means none. In a TOML file it is relative to the file's directory."""

    def __init__(self, says: str) -> None:
        super().__init__("", says, pattern=r"(?s)[^\0]*", words="the name of a file")


class Choice(Text):
    """One of a few words. The first is the default."""

    def __init__(self, says: str, *words: str) -> None:
        allowed = " or ".join(f'"{word}"' for word in words)
        super().__init__(words[0], says, pattern=_any_of(words), words=allowed)


def _any_of(words: Iterable[str]) -> str:
    return "|".join(map(re.escape, words))


def _escaped(character: str) -> str:
    if character in '"\\':
        return "\\" + character
    if character < " " or character == "\x7f":
        return f"\\u{ord(character):04x}"
    return character
