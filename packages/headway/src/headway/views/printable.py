"""Names in a form that may be printed.

A thread can have any name: with escape sequences, surrogates, letters that reorder the line. Characters that would act
on a terminal, cannot be seen, or have a width on which terminals differ are shown as escapes.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from rich.cells import cell_len

from headway.text import escaped

__all__ = ["clean", "fit", "fit_name", "visible", "width_of", "wrap"]

_SURROGATE = re.compile("[\ud800-\udfff]")
# Variation selectors, regional indicators and skin tones merge with the character before them into one picture on some
# terminals only.
_JOINING = re.compile("[\ufe00-\ufe0f\U0001f1e6-\U0001f1ff\U0001f3fb-\U0001f3ff\U000e0100-\U000e01ef]")
_RIGHT_TO_LEFT = frozenset({"R", "AL", "AN"})
_MARKS = 2
"""The number of marks allowed on a letter; more would run into the lines above and below."""


@lru_cache(maxsize=8192)
def clean(text: str, longest: int = 4096) -> str:
    """Return the text with harmful characters as escapes. Text longer than ``longest`` is cut."""
    if text.isascii() and text.isprintable():
        return text if len(text) <= longest else text[: longest - 1] + "…"
    if len(text) > longest:
        text = text[: longest - 1] + "…"
    shown: list[str] = []
    marks = _MARKS  # a mark without a letter would be drawn on the neighbouring column
    for character in unicodedata.normalize("NFC", text):
        if unicodedata.category(character) in ("Mn", "Me"):
            marks += 1
            harmless = marks <= _MARKS and not _JOINING.match(character)
        else:
            harmless = (
                character.isprintable()
                and unicodedata.bidirectional(character) not in _RIGHT_TO_LEFT
                and not _JOINING.match(character)
                and cell_len(character) > 0
            )
            marks = 0 if harmless and character.isalpha() else _MARKS
        shown.append(character if harmless else escaped(character))
    return "".join(shown)


_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


@lru_cache(maxsize=8192)
def visible(text: str, longest: int = 4096) -> str:
    """Return the text for a page, which can show the letters of every script. Only invisible characters become escapes.

    The page must isolate the text's direction from its surroundings (``unicode-bidi: isolate``).
    """
    if len(text) > longest:
        text = text[: longest - 1] + "…"
    if text.isascii() and text.isprintable():
        return text
    shown: list[str] = []
    marks = _MARKS
    for character in unicodedata.normalize("NFC", text):
        category = unicodedata.category(character)
        if category in ("Mn", "Me"):
            marks += 1
            shown.append(character if marks <= _MARKS else escaped(character))
            continue
        hidden = category in _INVISIBLE or (category == "Zs" and character != " ")
        marks = _MARKS if hidden else 0
        shown.append(escaped(character) if hidden else character)
    return "".join(shown)


def width_of(text: str) -> int:
    """Return the number of columns that clean text takes."""
    return len(text) if text.isascii() else sum(map(cell_len, text))


def fit(text: str, width: int, right: bool = False) -> str:
    """Return clean text in exactly ``width`` columns: padded with spaces, or cut with an ellipsis."""
    taken = width_of(text)
    if taken > width:
        text = _beginning(text, width - 1) + "…" if width else ""
        taken = width_of(text)
    space = " " * (width - taken)
    return space + text if right else text + space


def fit_name(name: str, width: int, end_part: float = 0.5) -> str:
    """Return a clean name in exactly ``width`` columns: what is cut is its middle, as names of threads end in numbers.

    ``end_part``: how much of what is left is the end of the name.

    >>> fit_name("tokio-runtime-w-12", 12)
    'tokio-…-w-12'
    """
    if width_of(name) <= width or width < 3:
        return fit(name, width)
    end = _beginning(name[::-1], int((width - 1) * end_part))[::-1]
    while end and cell_len(end[0]) == 0:  # a mark whose letter is cut off
        end = end[1:]
    return fit(f"{_beginning(name, width - 1 - width_of(end))}…{end}", width)


def _beginning(text: str, width: int) -> str:
    """Return the longest beginning of the text that fits."""
    taken = 0
    for at, character in enumerate(text):
        taken += cell_len(character)
        if taken > width:
            return text[:at]
    return text


def wrap(text: str, width: int, end: str = "") -> list[str]:
    """Return clean text in lines of at most ``width`` columns, broken between words if possible.

    ``end`` is added to all lines but the last.

    >>> wrap("hold the lock for less time", 15)
    ['hold the lock', 'for less time']
    """
    room = max(width - width_of(end), 1)
    lines: list[str] = []
    line, taken = "", 0
    for word in text.split(" "):
        size = width_of(word)
        if line and taken + 1 + size <= room:
            line, taken = f"{line} {word}", taken + 1 + size
            continue
        if line:
            lines.append(line)
        while size > room:
            part = _beginning(word, room) or word[0]
            lines.append(part)
            word = word[len(part) :]
            size = width_of(word)
        line, taken = word, size
    lines.append(line)
    return [*(line + end for line in lines[:-1]), lines[-1]]
