"""Text from outside: what UTF-8 can hold, and what is a number. Programs may use any bytes in their names."""

from __future__ import annotations

import re

__all__ = ["is_number", "valid"]

_SURROGATE = re.compile("[\ud800-\udfff]")


def valid(text: str) -> str:
    """Return the text with surrogates, and bytes that were not valid text, replaced by escapes such as ``\\xff``."""
    return text if text.isascii() else _SURROGATE.sub(_number, text)


def is_number(text: str, digits: int = 18) -> bool:
    """Return whether the text is a decimal number without a sign, of at most ``digits`` ASCII digits.

    With 18 digits the number fits into 63 bits. ``int`` alone takes other digits and signs, and refuses long texts.
    """
    return text.isascii() and text.isdigit() and len(text) <= digits


def _number(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code - 0xDC00:02x}" if 0xDC80 <= code <= 0xDCFF else f"\\u{code:04x}"
