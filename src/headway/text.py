"""Text that UTF-8 can hold. Names come from programs, which may use any bytes."""

from __future__ import annotations

import re

__all__ = ["valid"]

_SURROGATE = re.compile("[\ud800-\udfff]")


def valid(text: str) -> str:
    """Return the text with surrogates, and bytes that were not valid text, replaced by escapes such as ``\\xff``."""
    return text if text.isascii() else _SURROGATE.sub(_number, text)


def _number(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code - 0xDC00:02x}" if 0xDC80 <= code <= 0xDCFF else f"\\u{code:04x}"
