"""Text that every reader takes: names come from programs, which may call themselves anything."""

from __future__ import annotations

import re

__all__ = ["valid"]

_SURROGATE = re.compile("[\ud800-\udfff]")


def valid(text: str) -> str:
    """The text with half characters, and bytes that were no text, written as their number: what UTF-8 can hold."""
    return text if text.isascii() else _SURROGATE.sub(_number, text)


def _number(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code - 0xDC00:02x}" if 0xDC80 <= code <= 0xDCFF else f"\\u{code:04x}"
