"""Text from outside: what UTF-8 can hold, what does no harm where it is written, and what is a number.

Programs may use any bytes in their names: escape sequences, letters that reorder a line, formulas. What a terminal or a
page shows is in `headway.views.printable`.
"""

from __future__ import annotations

import re
from typing import Any

__all__ = ["csv_text", "escaped", "is_number", "json_text", "valid"]

_SURROGATE = re.compile("[\ud800-\udfff]")
_REORDERING = "\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff"
"""Characters that reorder or break a line, or are a byte order mark."""
_IN_JSON = re.compile(f"[\x7f-\x9f{_REORDERING}\ud800-\udfff]")
"""What `json.dumps` leaves as it is and acts on a terminal. It occurs only inside of strings."""
_IN_CSV = re.compile(f"[\x00-\x1f\x7f-\x9f{_REORDERING}\ud800-\udfff]")
_FORMULA = re.compile(r"(?![+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\Z)[=+\-@]")
"""How a text begins that a spreadsheet computes, unless it is a number."""


def valid(text: str) -> str:
    """Return the text with surrogates, and bytes that were not valid text, replaced by escapes such as ``\\xff``."""
    return text if text.isascii() else _SURROGATE.sub(_number, text)


def is_number(text: str, digits: int = 18) -> bool:
    """Return whether the text is a decimal number without a sign, of at most ``digits`` ASCII digits.

    With 18 digits the number fits into 63 bits. ``int`` alone takes other digits and signs, and refuses long texts.
    """
    return text.isascii() and text.isdigit() and len(text) <= digits


def json_text(value: Any, **how: Any) -> str:
    """Return a value as JSON in which no character acts on a terminal. It reads the same. ``how``: see `json.dumps`."""
    import json  # few who need this module need it

    return _IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(value, ensure_ascii=False, **how))


def csv_text(text: str) -> str:
    """Return a text for a cell of CSV: characters that act on a terminal are escapes, and no spreadsheet computes it.

    An apostrophe before it says that it is text.
    """
    if text.isalnum() and text.isascii():
        return text
    text = _IN_CSV.sub(_number, text)
    return f"'{text}" if _FORMULA.match(text) else text


def escaped(character: str) -> str:
    """Return the escape that stands for a character, such as ``\\x1b``; of a byte that was no text, its number."""
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:  # as Python's surrogateescape represents it
        code -= 0xDC00
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def _number(found: re.Match[str]) -> str:
    return escaped(found[0])
