"""Demangling of Rust's newer names (v0), which begin with ``_R``.

Names come from an untrusted file, and a back reference can stand for a very long text. So the work and the text are
limited.

Source: RFC 2603, *Rust symbol name mangling v0*.
"""

from __future__ import annotations

import string
from collections.abc import Callable

__all__ = ["demangled_v0"]

_MOST_STEPS = 2000
"""The largest number of parts of a name, those of back references counted each time."""
_LONGEST = 2000
"""The largest number of characters of a demangled name."""
_BASIC = {
    "a": "i8",
    "b": "bool",
    "c": "char",
    "d": "f64",
    "e": "str",
    "f": "f32",
    "h": "u8",
    "i": "isize",
    "j": "usize",
    "l": "i32",
    "m": "u32",
    "n": "i128",
    "o": "u128",
    "s": "i16",
    "t": "u16",
    "u": "()",
    "v": "...",
    "x": "i64",
    "y": "u64",
    "z": "!",
    "p": "_",
}
_DIGITS = {digit: value for value, digit in enumerate(string.digits + string.ascii_lowercase + string.ascii_uppercase)}
_POINTERS = {"P": "*const ", "O": "*mut "}
_SPECIAL = {"C": "closure", "S": "shim"}


class _UnknownError(ValueError):
    """The name is not of this form."""


def demangled_v0(name: str) -> str:
    """Return the demangled name; the same name if it is not one of Rust's newer ones, or cannot be read."""
    plain = name.partition(".")[0]
    if not plain.startswith("_R") or not plain.isascii():
        return name
    try:
        text = _Reader(plain[2:]).path()
    except (_UnknownError, RecursionError):
        return name
    return text if len(text) <= _LONGEST else name


class _Reader:
    """Reads the parts of a name. Every method returns what a part stands for, and raises _UnknownError."""

    def __init__(self, text: str) -> None:
        self._text, self._at, self._steps = text, 0, 0

    def path(self) -> str:
        """Read a path: what the whole name is, and most of its parts."""
        kind = self._next()
        if kind == "C":
            return self._identifier()[0]
        if kind == "N":
            space, around = self._next(), self.path()
            word, number = self._identifier()
            if space.isupper():
                special = f"{_SPECIAL.get(space, space)}{':' * bool(word)}{word}#{number}"
                return f"{around}::{{{special}}}"
            return f"{around}::{word}" if word else around
        if kind in "MXY":
            if kind != "Y":
                self._disambiguator()
                self.path()
            of = self._type()
            return f"<{of}>" if kind == "M" else f"<{of} as {self.path()}>"
        if kind == "I":
            return f"{self.path()}<{', '.join(self._until_end(self._argument))}>"
        if kind == "B":
            return self._back(self.path)
        raise _UnknownError

    def _next(self) -> str:
        self._steps += 1
        if self._at >= len(self._text) or self._steps > _MOST_STEPS:
            raise _UnknownError
        self._at += 1
        return self._text[self._at - 1]

    def _take(self, letter: str) -> bool:
        found = self._text.startswith(letter, self._at)
        self._at += found
        return found

    def _until_end(self, part: Callable[[], str]) -> list[str]:
        found = []
        while not self._take("E"):
            found.append(part())
            if sum(map(len, found)) > _LONGEST:
                raise _UnknownError
        return found

    def _back(self, part: Callable[[], str]) -> str:
        here = self._at - 1
        to = self._number()
        if to >= here:
            raise _UnknownError
        after, self._at = self._at, to
        text = part()
        self._at = after
        if len(text) > _LONGEST:
            raise _UnknownError
        return text

    def _number(self) -> int:
        """Read a number of base 62, which ends with ``_``: that alone is 0, and ``0_`` is 1."""
        value, first = 0, True
        while not self._take("_"):
            digit = _DIGITS.get(self._next())
            if digit is None or value > 1 << 64:
                raise _UnknownError
            value, first = value * 62 + digit, False
        return 0 if first else value + 1

    def _disambiguator(self) -> int:
        return self._number() + 1 if self._take("s") else 0

    def _identifier(self) -> tuple[str, int]:
        """Read a word and the number that tells it from others of the same name."""
        number = self._disambiguator()
        return self._word(), number

    def _word(self) -> str:
        coded = self._take("u")
        digits = ""
        while self._at < len(self._text) and self._text[self._at].isdigit() and len(digits) < 5 and digits != "0":
            digits += self._next()
        if not digits:
            raise _UnknownError
        self._take("_")
        end = self._at + int(digits)
        if end > len(self._text):
            raise _UnknownError
        word, self._at = self._text[self._at : end], end
        if not coded:
            return word
        start, _, rest = word.rpartition("_")
        try:
            return f"{start}-{rest}".encode().decode("punycode") if start else rest.encode().decode("punycode")
        except UnicodeError:
            raise _UnknownError from None

    def _argument(self) -> str:
        if self._take("L"):
            self._number()
            return "'_"
        return self._constant() if self._take("K") else self._type()

    def _type(self) -> str:
        kind = self._next()
        if kind in _BASIC:
            return _BASIC[kind]
        if kind in _POINTERS:
            return _POINTERS[kind] + self._type()
        if kind in "RQ":
            if self._take("L"):
                self._number()
            return ("&mut " if kind == "Q" else "&") + self._type()
        if kind == "S":
            return f"[{self._type()}]"
        if kind == "A":
            of = self._type()
            return f"[{of}; {self._constant()}]"
        if kind == "T":
            parts = self._until_end(self._type)
            return f"({', '.join(parts)}{',' * (len(parts) == 1)})"
        if kind == "F":
            return self._function()
        if kind == "D":
            return self._dynamic()
        if kind == "B":
            return self._back(self._type)
        self._at -= 1
        return self.path()

    def _binder(self) -> None:
        if self._take("G"):
            self._number()

    def _function(self) -> str:
        self._binder()
        words = "unsafe " if self._take("U") else ""
        if self._take("K"):
            words += f'extern "{"C" if self._take("C") else self._word().replace("_", "-")}" '
        takes = ", ".join(self._until_end(self._type))
        back = self._type()
        return f"{words}fn({takes})" + ("" if back == "()" else f" -> {back}")

    def _dynamic(self) -> str:
        self._binder()
        bounds = " + ".join(self._until_end(self._bound))
        if not self._take("L"):
            raise _UnknownError
        self._number()
        return f"dyn {bounds}"

    def _bound(self) -> str:
        text, bindings = self.path(), []
        while self._take("p"):
            word = self._word()
            bindings.append(f"{word} = {self._type()}")
        if not bindings:
            return text
        return f"{text[:-1]}, {', '.join(bindings)}>" if text.endswith(">") else f"{text}<{', '.join(bindings)}>"

    def _constant(self) -> str:
        if self._take("p"):
            return "_"
        if self._take("B"):
            return self._back(self._constant)
        kind = self._next()
        if kind not in _BASIC:
            raise _UnknownError  # of structures and strings: not in names of functions that are measured
        sign = "-" if self._take("n") else ""
        digits = ""
        while not self._take("_"):
            digits += self._next()
        if not set(digits) <= set("0123456789abcdef"):
            raise _UnknownError
        value = int(digits or "0", 16)
        if kind == "b":
            return "true" if value else "false"
        return f"{sign}{value}"
